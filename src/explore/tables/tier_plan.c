/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "explore/tables/solve.h"
#include "explore/tables/tiers.h"

/* Sharding plans with tiers. Who shards knows one kind of memory, so several questions are asked:
 * all in memory; shards under what all tiers hold together; shards as even in bytes as can be; and,
 * as long as steps stall, shards with the fetches of the best answer so far in their prices. The
 * answer whose step is shortest is kept. Tables on every rank have no tiers, and are left to the
 * plan in memory. */
#define EVEN_FACTOR 1.25 /* of the mean rank's bytes: assumed */
enum { REPRICED = 3 };   /* questions with fetches in the prices, at most */

typedef struct attempts {
    const orr_table_planner_options *o;
    orr_table_planning best;
    double best_ns;  /* stalls included */
    double bound_ns; /* the least of all plans without fetches in their prices */
    const char *refusal;
    uint32_t refused;
    int64_t refused_bytes;
    orr_arena *arena;
} attempts;

static double bytes_of_all_tiers(const orr_table_planner_options *o)
{
    double sum = 0;
    for (int k = 0; k < ORR_TIERS; k++)
        sum += (double)o->tiers->tier[k].bytes;
    return sum;
}

/* Kinds without DATA where there are others. */
static orr_status without_copies(const orr_table_planner_options *o, orr_arena *arena,
                                 const uint8_t **ret, orr_error *err)
{
    uint8_t *kinds = orr_arena_array(arena, uint8_t, o->n_tables);
    if (kinds == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < o->n_tables; t++) {
        const uint8_t all = o->kinds != NULL ? o->kinds[t] : (1U << ORR_SHARDINGS) - 1;
        const uint8_t others = (uint8_t)(all & ~(1U << ORR_SHARDING_DATA));
        kinds[t] = others != 0 ? others : all;
    }
    *ret = kinds;
    return ORR_OK;
}

static orr_status keep_better(attempts *a, const orr_table_planning *planning,
                              const orr_tiering *tiering, const orr_embedding_placement *placements,
                              orr_error *err)
{
    orr_tiering *copy = orr_arena_one(a->arena, orr_tiering);
    if (copy == NULL)
        return orr_fail_memory(err);
    if (!(planning->ns + tiering->stall_ns < a->best_ns))
        return ORR_OK;
    *copy = *tiering;
    a->best_ns = planning->ns + tiering->stall_ns;
    a->best = *planning;
    a->best.tiering = copy;
    a->best.plan.placements = placements;
    a->best.plan.lookahead = tiering->fetch_ns > 0 ? a->o->tiers->lookahead : 0;
    return ORR_OK;
}

static void note_refusal(attempts *a, const char *text, uint32_t table, int64_t bytes)
{
    a->refusal = text;
    a->refused = table;
    a->refused_bytes = bytes;
}

/* A plan that was found with fetches in its prices, by what it takes without: no other of its
 * figures is proven. */
static orr_status price_without_fetch(const attempts *a, orr_table_planning *to, orr_error *err)
{
    orr_table_planning priced;
    ORR_TRY(orr_price_table_plan(a->o, &to->plan, a->arena, &priced, err));
    orr_table_choice *choices = orr_arena_array(a->arena, orr_table_choice, to->plan.n_tables);
    if (choices == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < to->plan.n_tables; t++) {
        choices[t] = priced.choices[t];
        choices[t].reason = to->choices[t].reason;
        choices[t].why = to->choices[t].why;
    }
    to->ns = priced.ns;
    to->shared_ns = priced.shared_ns;
    to->synchronous_ns = priced.synchronous_ns;
    to->ranks = priced.ranks;
    to->choices = choices;
    to->bound_ns = fmin(a->bound_ns, to->ns);
    to->bound_by = "that of the plan without fetches";
    to->gap_frac = to->ns > 0 ? 1 - to->bound_ns / to->ns : 0;
    to->optimal = false;
    return ORR_OK;
}

/* One question of sharding, priced by the true terms, with its tables put on tiers. */
static orr_status attempt(attempts *a, const orr_table_planner_options *question, orr_error *err)
{
    orr_table_planning planning;
    orr_tiering tiering;
    const orr_embedding_placement *placements;
    ORR_TRY(orr_table_plan_in_memory(question, a->arena, &planning, err));
    if (planning.infeasible != NULL) {
        if (a->refusal == NULL)
            note_refusal(a, planning.infeasible, planning.infeasible_table,
                         planning.infeasible_bytes);
        return ORR_OK;
    }
    if (question->fetch_ns != NULL)
        ORR_TRY(price_without_fetch(a, &planning, err));
    else
        a->bound_ns = fmin(a->bound_ns, planning.bound_ns);
    ORR_TRY(
        orr_tier_tables(a->o, &planning.plan, planning.ns, a->arena, &tiering, &placements, err));
    if (tiering.infeasible != NULL) {
        note_refusal(a, tiering.infeasible, tiering.infeasible_table, tiering.infeasible_bytes);
        return ORR_OK;
    }
    return keep_better(a, &planning, &tiering, placements, err);
}

/* What the best plan so far takes to fetch a distinct row of each table, misses or not. */
static orr_status price_fetches(const attempts *a, const double **ret, orr_error *err)
{
    const orr_table_planner_options *o = a->o;
    const orr_tiering *t = a->best.tiering;
    double *ns = orr_arena_array(a->arena, double, o->n_tables);
    if (ns == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < o->n_tables; i++) {
        const orr_tier_choice *c = &t->choices[i];
        const orr_tier_load *load = &t->load[c->tier];
        const double lookups = (double)o->samples * o->ranks * o->tables[i].pooling;
        const double distinct = o->distinct != NULL ? o->distinct[i] : lookups;
        ns[i] = load->reads > 0 ? load->fetch_ns / load->reads * c->reads / fmax(distinct, 1) : 0;
    }
    *ret = ns;
    return ORR_OK;
}

static int64_t whole_bytes(double bytes)
{
    return (int64_t)fmin(ceil(bytes), 0x1p61);
}

orr_status orr_table_plan_on_tiers(const orr_table_planner_options *options, orr_arena *arena,
                                   orr_table_planning *ret, orr_error *err)
{
    orr_table_planner_options o = *options, question = *options;
    attempts a = {.o = &o, .best_ns = INFINITY, .bound_ns = INFINITY, .arena = arena};
    double bytes = 0;
    o.memory_bytes = question.memory_bytes = o.tiers->tier[ORR_TIER_DRAM].bytes;
    ORR_TRY(attempt(&a, &question, err));
    ORR_TRY(without_copies(&o, arena, &question.kinds, err));
    question.memory_bytes = whole_bytes(bytes_of_all_tiers(&o));
    ORR_TRY(attempt(&a, &question, err));
    for (uint32_t t = 0; t < o.n_tables; t++)
        bytes += (double)orr_embedding_bytes(&o.tables[t]) / o.ranks;
    question.memory_bytes = whole_bytes(fmin(
        bytes_of_all_tiers(&o), EVEN_FACTOR * bytes + (double)o.tiers->tier[ORR_TIER_DRAM].bytes));
    ORR_TRY(attempt(&a, &question, err));
    question.memory_bytes = whole_bytes(bytes_of_all_tiers(&o));
    for (int i = 0; i < REPRICED && a.best_ns < INFINITY && a.best.tiering->stall_ns > 0; i++) {
        const double before = a.best_ns;
        ORR_TRY(price_fetches(&a, &question.fetch_ns, err));
        ORR_TRY(attempt(&a, &question, err));
        if (!(a.best_ns < before))
            break;
    }
    if (a.best_ns < INFINITY)
        *ret = a.best;
    else
        *ret = (orr_table_planning){.infeasible = a.refusal,
                                    .infeasible_table = a.refused,
                                    .infeasible_bytes = a.refused_bytes};
    return ORR_OK;
}
