/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_RENDEZVOUS_H
#define ORR_SIM_ENGINE_RENDEZVOUS_H

#include "sim/symmetry/fold.h"

/* One rank that is simulated, for all that behave like it. */
typedef struct orr_actor {
    const orr_prepared_program *script;
    uint32_t graph, rank, n_ranks;
    uint32_t slowdown_ppm;
    int64_t start_ns;
    size_t first_point; /* its points among those of all */
    size_t first_call;  /* its calls likewise            */
} orr_actor;

/* A call of an actor that has arrived. */
typedef struct orr_rendezvous_arrival {
    uint32_t actor, work;
} orr_rendezvous_arrival;

/* Rendezvous: a rendezvous of a group. The transfer starts when the last member arrives. */
typedef struct orr_rendezvous {
    int64_t start_ns;    /* the latest arrival so far           */
    int64_t transfer_ns; /* from the last arrival to the end    */
    uint32_t first_seat;
    uint32_t count, arrived;
    uint8_t basis; /* orr_basis; ORR_BASES: as the ensemble says of each member */
} orr_rendezvous;

/* What moves between whom: for a network of flows. */
typedef struct orr_rendezvous_transfer {
    orr_transfer transfer;
    uint32_t grouping, group, ordinal;
    bool flows; /* the network decides how long it takes */
} orr_rendezvous_transfer;

typedef struct orr_rendezvous_table {
    uint32_t n;
    orr_rendezvous *at;            /* shape (n)                                          */
    orr_rendezvous_arrival *seats; /* of all, in order of arrival                        */
    uint32_t *of_call;             /* shape (calls of all actors); ORR_NONE: meets nobody */
    size_t n_calls;
    orr_rendezvous_transfer *moved; /* shape (n); NULL: no network of flows */
} orr_rendezvous_table;

/* Actor of class c is actors[c]. On the heap: freed with orr_rendezvous_done(). Errors:
 * NO_MEMORY; LIMIT; as orr_transfer_price(). */
orr_status orr_rendezvous_find(const orr_ensemble *ensemble, const orr_fold *fold,
                               const orr_actor *actors, orr_transfer_pricer *pricer,
                               orr_rendezvous_table *ret, orr_error *err) ORR_MUST_CHECK;
void orr_rendezvous_done(orr_rendezvous_table *table);

#endif /* ORR_SIM_ENGINE_RENDEZVOUS_H */
