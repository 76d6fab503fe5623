/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PROGRAM_PREPARED_H
#define ORR_SIM_PROGRAM_PREPARED_H

#include "sim/program/program.h"
#include "cost/collective/transfer.h"

/* A prepared program: a program with everything that is equal for all ranks that run it. It is
 * stored once; each rank adds 12 bytes a point and 12 bytes a call. */

/* A communication call: a work with partners. */
typedef struct orr_comm_work {
    uint32_t grouping, ordinal;
    uint32_t work;
} orr_comm_work;

typedef struct orr_prepared_program {
    const orr_sim_program *program;
    const orr_edge *edges;        /* shape (n_edges): host time divided by host_speed */
    const int64_t *earliest_ns;   /* shape (n_points): from the rank's start; at least 0 */
    const uint32_t *waits;        /* shape (n_points): in-degree: edges that lead to it and works
                                   * that end there */
    const int64_t *alone_ns;      /* shape (n_works): length without partners */
    const uint8_t *alone_basis;   /* shape (n_works): orr_basis; NULL: that of the ensemble */
    const uint32_t *call_of_work; /* shape (n_works): row of calls, or ORR_NONE */
    const orr_comm_work *calls;   /* shape (n_calls), by (grouping, ordinal) */
    uint32_t n_calls;
} orr_prepared_program;

/* In the arena. `rendezvous`: shape (C) of the graph, or NULL. Errors: NO_MEMORY; INVALID: a
 * work that is no communication and has no duration, a duplicate ordinal, and those of
 * orr_transfer_price(). */
orr_status orr_prepared_program_make(const orr_sim_program *program,
                                     const orr_rendezvous_id *rendezvous, double host_speed,
                                     orr_transfer_pricer *pricer, orr_arena *arena,
                                     orr_prepared_program *ret, orr_error *err) ORR_MUST_CHECK;
/* The calls of one grouping: rows [*ret_begin, *ret_end). */
void orr_prepared_calls_of(const orr_prepared_program *prepared, uint32_t grouping,
                           uint32_t *ret_begin, uint32_t *ret_end);
/* The call with that grouping and ordinal, or ORR_NONE. */
uint32_t orr_prepared_call(const orr_prepared_program *prepared, uint32_t grouping,
                           uint32_t ordinal);

#endif /* ORR_SIM_PROGRAM_PREPARED_H */
