/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_SIMULATE_RANKS_H
#define ORR_MEASURE_SIMULATE_RANKS_H

#include <orrery/plan.h>

#include "engine/run/program.h"

/* Discrete-event simulation of the programs of all ranks: each lane runs its calls in order, each
 * call after its dependencies, and a collective begins at the rendezvous of its members. Where
 * ranks and threads leave no free core, the lanes of a rank share one, and communication does not
 * overlap with computation. */
typedef struct orr_simulated_rank {
    orr_program_source source;
    const int64_t *ns; /* shape (calls): duration of each; of collectives from the rendezvous on */
    int64_t *end_ns;   /* shape (calls): set */
    int64_t span_ns;   /* set */
} orr_simulated_rank;
/* `shared`: the lanes of a rank share a core. INVALID: programs that deadlock. */
orr_status orr_simulate_ranks(const orr_plan *plan, orr_simulated_rank *ranks, uint32_t n,
                              bool shared, orr_arena *arena, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MEASURE_SIMULATE_RANKS_H */
