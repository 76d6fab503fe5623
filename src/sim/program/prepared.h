/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PROGRAM_PREPARED_H
#define ORR_SIM_PROGRAM_PREPARED_H

#include "sim/program/program.h"
#include "sim/program/transfer.h"

/* Script: a program made ready to be played by any number of ranks. What is the same for all of
 * them is here, once; a rank adds 12 bytes a point and 12 bytes a call. */

/* A work that meets others. */
typedef struct orr_comm_work {
    uint32_t grouping, ordinal;
    uint32_t work;
} orr_comm_work;

typedef struct orr_prepared_program {
    const orr_sim_program *program;
    const orr_edge *edges;        /* shape (n_edges): host time divided by host_speed       */
    const int64_t *earliest_ns;   /* shape (n_points): from the rank's start; at least 0    */
    const uint32_t *waits;        /* shape (n_points): edges that lead to it, works that end
                                   * there                                                  */
    const int64_t *alone_ns;      /* shape (n_works): how long it takes where it meets nobody */
    const uint8_t *alone_basis;   /* shape (n_works): orr_basis; NULL: as the ensemble says */
    const uint32_t *call_of_work; /* shape (n_works): row of calls, or ORR_NONE             */
    const orr_comm_work *calls;   /* shape (n_calls), by (grouping, ordinal)                */
    uint32_t n_calls;
} orr_prepared_program;

/* In the arena. `rendezvous`: shape (C) of the graph, or NULL. Errors: NO_MEMORY; INVALID: a work
 * that is no communication and has no duration, an ordinal that occurs twice, and as
 * orr_transfer_price(). */
orr_status orr_prepared_program_make(const orr_sim_program *program,
                                     const orr_rendezvous_id *rendezvous, double host_speed,
                                     orr_transfer_pricer *pricer, orr_arena *arena,
                                     orr_prepared_program *ret, orr_error *err) ORR_MUST_CHECK;
/* The calls of one grouping: [*ret_begin, *ret_end) of calls. */
void orr_prepared_calls_of(const orr_prepared_program *script, uint32_t grouping,
                           uint32_t *ret_begin, uint32_t *ret_end);
/* The call of that rendezvous, or ORR_NONE. */
uint32_t orr_prepared_call(const orr_prepared_program *script, uint32_t grouping, uint32_t ordinal);

#endif /* ORR_SIM_PROGRAM_PREPARED_H */
