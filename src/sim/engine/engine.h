/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_ENGINE_H
#define ORR_SIM_ENGINE_ENGINE_H

#include "base/array.h"
#include "sim/engine/rendezvous.h"

/* Engine: settles the points of time of all actors.
 *
 * A point is settled when all edges that lead to it, and all works that end there, have said their
 * time; its time is then final, be it in the future or not, because nobody can add a later one. So
 * points are settled in any order that a stack gives (run by run of one actor, which keeps to the
 * cache), without a queue of events. Only works whose length depends on what else goes on meanwhile
 * need one: see dynamic.h. */
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
    int64_t *time_ns;              /* shape (n_points): the latest said so far */
    uint32_t *waits;               /* shape (n_points): how many have yet to say */
    const uint32_t *actor_of_rank; /* shape (R); ORR_NONE: none */
    orr_rendezvous_table rendezvous;
    orr_contention *dynamic;            /* NULL: the length of every work is known */
    orr_array(orr_settled_point) ready; /* settled, and not yet followed */
    uint64_t n_settled;
    bool no_memory;
} orr_engine;

/* The actors of a fold, each with its points and calls laid out. `scripts`: shape (D). Free with
 * orr_engine_done(). Errors: NO_MEMORY, LIMIT. */
orr_status orr_engine_init(orr_engine *engine, const orr_ensemble *ensemble,
                           const orr_sim_options *options, const orr_prepared_program *scripts,
                           const orr_fold *fold, orr_transfer_pricer *pricer,
                           orr_error *err) ORR_MUST_CHECK;
/* Settle all that can be. Errors: NO_MEMORY; LIMIT: a time beyond 2^63 ns. Whether all was
 * settled is for orr_engine_check(). */
orr_status orr_engine_run(orr_engine *engine, orr_error *err) ORR_MUST_CHECK;
void orr_engine_done(orr_engine *engine);

/* INVALID where a point was never settled: names who waits for whom (deadlock.c). */
orr_status orr_engine_check(const orr_engine *engine, const orr_fold *fold,
                            orr_error *err) ORR_MUST_CHECK;

/* Times stop at the end of time instead of going round. */
static inline int64_t orr_after_ns(int64_t time_ns, int64_t lag_ns)
{
    int64_t sum;
    return __builtin_add_overflow(time_ns, lag_ns, &sum) ? INT64_MAX : sum;
}

/* How long a work that meets nobody takes on its actor. */
int64_t orr_work_ns(const orr_actor *actor, uint32_t work);

/* A rendezvous is over, for all its members. */
void orr_engine_end_rendezvous(orr_engine *engine, uint32_t rendezvous, int64_t end_ns);

/* A time is said to a point. */
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
