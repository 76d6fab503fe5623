/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_RENDEZVOUS_H
#define ORR_SIM_ENGINE_RENDEZVOUS_H

#include "sim/symmetry/fold.h"

/* An actor: the one simulated rank that represents its class. */
typedef struct orr_actor {
    const orr_prepared_program *prepared;
    uint32_t graph, rank, n_ranks;
    uint32_t slowdown_ppm;
    int64_t start_ns;
    size_t first_point; /* first of its points among those of all actors */
    size_t first_call;  /* first of its calls, likewise */
} orr_actor;

/* The arrival of an actor at a rendezvous. */
typedef struct orr_rendezvous_arrival {
    uint32_t actor, work;
} orr_rendezvous_arrival;

/* A rendezvous: one instance of a collective, or of a send and its receive. Its members wait for
 * the last to arrive; then the transfer starts, and all end together but for what a recording shows
 * of each (orr_engine_end_rendezvous()). */
typedef struct orr_rendezvous {
    int64_t start_ns;    /* latest arrival so far */
    int64_t transfer_ns; /* from the last arrival to the end */
    uint32_t first_seat;
    uint32_t count, arrived;
    uint8_t basis; /* orr_basis; ORR_BASES: that of each member in the ensemble */
} orr_rendezvous;

/* What is transferred among which ranks, for a network of flows. */
typedef struct orr_rendezvous_transfer {
    orr_transfer transfer;
    uint32_t grouping, group, ordinal;
    bool flows; /* it shares links, and takes at least its length alone */
} orr_rendezvous_transfer;

typedef struct orr_rendezvous_table {
    uint32_t n;
    orr_rendezvous *at;            /* shape (n) */
    orr_rendezvous_arrival *seats; /* of all rendezvous, in order of arrival */
    uint32_t *of_call;             /* shape (calls of all actors); ORR_NONE: no partner */
    size_t n_calls;
    orr_rendezvous_transfer *moved; /* shape (n); NULL: no network of flows */
} orr_rendezvous_table;

/* Finds all rendezvous. Actor of class c is actors[c]. `flows`: links are simulated. On the heap:
 * free with orr_rendezvous_done(). Errors: NO_MEMORY; LIMIT; those of orr_transfer_price(). */
orr_status orr_rendezvous_find(const orr_ensemble *ensemble, const orr_fold *fold,
                               const orr_actor *actors, orr_transfer_pricer *pricer, bool flows,
                               orr_rendezvous_table *ret, orr_error *err) ORR_MUST_CHECK;
void orr_rendezvous_done(orr_rendezvous_table *table);

#endif /* ORR_SIM_ENGINE_RENDEZVOUS_H */
