/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_ENGINE_H
#define ORR_SIM_ENGINE_ENGINE_H

#include "base/array.h"
#include "sim/engine/rendezvous.h"

/* The engine: earliest times of all points, that is, longest paths in a directed acyclic graph over
 * (max, +) (PERT/CPM; max-plus algebra).
 *
 * A point is settled when every edge and every work that leads to it has contributed its time.
 * Its time is then final, even if it lies in the future, because lags are never negative and no
 * predecessor is left. So points are settled in any topological order (Kahn's algorithm with a
 * stack, which follows runs of one actor and so stays in cache), without a clock and without a
 * queue of events. Only works whose length depends on what runs beside them need a queue: see
 * contention.h. */
typedef struct orr_settled_point {
    uint32_t actor;
    orr_point_id point;
} orr_settled_point;

typedef struct orr_contention orr_contention;

typedef struct orr_engine {
    const orr_ensemble *ensemble;
    const orr_sim_options *options;
    orr_actor *actors;
    uint32_t n_actors;
    size_t n_points;               /* of all actors */
    int64_t *time_ns;              /* shape (n_points): the latest contribution so far */
    uint32_t *waits;               /* shape (n_points): contributions that are still missing */
    const uint32_t *actor_of_rank; /* shape (R); ORR_NONE: none */
    orr_rendezvous_table rendezvous;
    orr_contention *contention;         /* NULL: every work has a known length */
    orr_array(orr_settled_point) ready; /* settled, not yet propagated */
    uint64_t n_settled;
    bool no_memory;
} orr_engine;

/* Sets up the actors of a fold with their points and calls. `prepared_programs`: prepared programs,
 * shape (D). Free with orr_engine_done(). Errors: NO_MEMORY, LIMIT. */
orr_status orr_engine_init(orr_engine *engine, const orr_ensemble *ensemble,
                           const orr_sim_options *options,
                           const orr_prepared_program *prepared_programs, const orr_fold *fold,
                           orr_transfer_pricer *pricer, orr_error *err) ORR_MUST_CHECK;
/* Settles all points that can be settled. Errors: NO_MEMORY; CANCELED; LIMIT: a time beyond 2^63
 * ns. orr_engine_check() says whether all were. */
orr_status orr_engine_run(orr_engine *engine, orr_error *err) ORR_MUST_CHECK;
void orr_engine_done(orr_engine *engine);

/* INVALID if a point was never settled: the message names the cycle of ranks (deadlock.c). */
orr_status orr_engine_check(const orr_engine *engine, const orr_fold *fold,
                            orr_error *err) ORR_MUST_CHECK;

/* Saturating sum: a time beyond 2^63 ns stays at the largest. */
static inline int64_t orr_after_ns(int64_t time_ns, int64_t lag_ns)
{
    int64_t sum;
    return __builtin_add_overflow(time_ns, lag_ns, &sum) ? INT64_MAX : sum;
}

/* Length on its actor of a work without partners. */
int64_t orr_work_ns(const orr_actor *actor, uint32_t work);

/* Ends a rendezvous for all of its members. */
void orr_engine_end_rendezvous(orr_engine *engine, uint32_t rendezvous, int64_t end_ns);

/* Contributes a time to a point; the last contribution settles it. */
static inline void orr_engine_propagate(orr_engine *engine, uint32_t actor, orr_point_id point,
                                        int64_t time_ns)
{
    const size_t at = engine->actors[actor].first_point + point;
    if (time_ns > engine->time_ns[at])
        engine->time_ns[at] = time_ns;
    if (--engine->waits[at] == 0 &&
        !orr_array_push(&engine->ready, ((orr_settled_point){actor, point})))
        engine->no_memory = true;
}

#endif /* ORR_SIM_ENGINE_ENGINE_H */
