/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "explore/tables/solve.h"
#include "explore/tables/tiers.h"

#define TEXT_(name, text) text,
static const char *const PRICINGS[] = {ORR_TABLE_PRICING_MAP(TEXT_)};
static const char *const STAGES[] = {ORR_TABLE_STAGE_MAP(TEXT_)};
static const char *const REASONS[] = {ORR_TABLE_REASON_MAP(TEXT_)};
#undef TEXT_

const char *orr_table_pricing_name(orr_table_pricing pricing)
{
    return PRICINGS[pricing];
}

const char *orr_table_stage_name(orr_table_stage stage)
{
    return STAGES[stage];
}

const char *orr_table_reason_name(orr_table_reason reason)
{
    return REASONS[reason];
}

void orr_table_planner_options_init(orr_table_planner_options *options)
{
    *options = (orr_table_planner_options){
        .struct_bytes = sizeof *options, .nodes = 20000, .gap_frac = 0.001, .balance_frac = 0.008};
    orr_torchrec_topology_init(&options->torchrec);
}

static orr_status check_table(const orr_embedding *table, orr_error *err)
{
    if (table->rows < 1 || table->columns < 1 || !(table->pooling > 0) || !isfinite(table->pooling))
        return orr_fail(err, ORR_INVALID,
                        "table '%s': %lld rows of %u columns, %g lookups a sample", table->name,
                        (long long)table->rows, table->columns, table->pooling);
    return ORR_OK;
}

static bool is_rate(double value)
{
    return value > 0 && isfinite(value);
}

static orr_status check_costs(const orr_table_costs *c, uint32_t ranks, orr_error *err)
{
    const bool links =
        ranks == 1 || (is_rate(c->exchange_bytes_per_s) && is_rate(c->gather_bytes_per_s));
    if (!is_rate(c->memory_bytes_per_s) || !is_rate(c->cache_bytes_per_s) || !links)
        return orr_fail(err, ORR_INVALID,
                        "the machine's rates of memory, caches and links have to be above 0");
    if (!(c->lookup_ns >= 0) || !(c->row_ns >= 0) || !(c->shard_ns >= 0) ||
        !(c->exchange_ns >= 0) || !(c->gather_ns >= 0) || !(c->sort_ns >= 0) ||
        !(c->cache_bytes >= 0) || !(c->sector_bytes >= 0) || !(c->miss_frac >= 0) ||
        !(c->miss_frac <= 1))
        return orr_fail(err, ORR_INVALID, "a cost of the machine is below 0, or no number");
    return ORR_OK;
}

static orr_status check_options(const orr_table_planner_options *o, orr_error *err)
{
    if (o->struct_bytes != sizeof *o)
        return orr_fail(err, ORR_INVALID,
                        "options were not made by "
                        "orr_table_planner_options_init()");
    if (o->n_tables == 0 || o->n_tables > ORR_TABLES_MAX)
        return orr_fail(err, ORR_INVALID, "%u tables: there may be from 1 to %d", o->n_tables,
                        ORR_TABLES_MAX);
    if (o->ranks == 0 || o->ranks > 1 << 16 || o->samples < 1)
        return orr_fail(err, ORR_INVALID,
                        "%u ranks with %lld samples each: there may be from 1 to %d ranks, "
                        "with a sample or more",
                        o->ranks, (long long)o->samples, 1 << 16);
    if (o->host_ranks != 0 && o->ranks % o->host_ranks != 0)
        return orr_fail(err, ORR_INVALID, "%u ranks are not whole hosts of %u", o->ranks,
                        o->host_ranks);
    if (o->pricing >= ORR_TABLE_PRICINGS || o->forward >= ORR_EMBEDDING_CODECS ||
        o->backward >= ORR_EMBEDDING_CODECS || o->memory_bytes < 0)
        return orr_fail(err, ORR_INVALID, "no such pricing, codec or memory");
    for (uint32_t t = 0; t < o->n_tables; t++)
        ORR_TRY(check_table(&o->tables[t], err));
    return check_costs(&o->costs, o->ranks, err);
}

/* --- refusals -------------------------------------------------------------------------------- */

static orr_status refuse(orr_table_planning *ret, uint32_t table, double bytes, const char *text,
                         orr_error *err)
{
    *ret = (orr_table_planning){.infeasible = text,
                                .infeasible_table = table,
                                .infeasible_bytes = (int64_t)fmin(ceil(bytes), 0x1p62)};
    return text != NULL ? ORR_OK : orr_fail_memory(err);
}

static orr_status refuse_table(const orr_table_planner_options *o, uint32_t table, double bytes,
                               orr_arena *arena, orr_table_planning *ret, orr_error *err)
{
    return refuse(
        ret, table, bytes,
        orr_arena_printf(arena,
                         "table '%s' fits nowhere: a rank needs %.3f GiB for it at least, "
                         "and has %.3f GiB for tables",
                         o->tables[table].name, bytes / 0x1p30, (double)o->memory_bytes / 0x1p30),
        err);
}

/* All ranks together, or any way to pack that was found, have too little. The table that takes most
 * is named. */
static orr_status refuse_all(const orr_table_problem *p, bool proven, orr_arena *arena,
                             orr_table_planning *ret, orr_error *err)
{
    double sum = 0, most = -1, largest = 0;
    uint32_t table = 0;
    for (uint32_t t = 0; t < p->n; t++) {
        double least = INFINITY, shard = INFINITY;
        for (uint32_t k = p->first[t]; k < p->first[t + 1]; k++) {
            const orr_table_candidate *c = &p->candidates[k];
            least = fmin(least, orr_table_mean_bytes(p, c));
            shard = fmin(shard, c->largest_bytes);
        }
        sum += least;
        largest = fmax(largest, shard);
        if (least > most) {
            most = least;
            table = t;
        }
    }
    const double needed = proven ? sum : sum + largest;
    return refuse(ret, table, needed,
                  orr_arena_printf(
                      arena,
                      "tables need %.3f GiB on each of %u ranks%s, and there are %.3f "
                      "GiB; the largest is '%s' with %.3f GiB",
                      needed / 0x1p30, p->ranks, proven ? "" : ", where shards are packed at worst",
                      p->capacity / 0x1p30, p->o->tables[table].name, most * p->ranks / 0x1p30),
                  err);
}

/* --- the planner ----------------------------------------------------------------------------- */

static const char *bound_text(const orr_table_problem *p, const orr_table_bound *bound,
                              bool optimal, orr_arena *arena)
{
    if (optimal)
        return "every other plan was ruled out";
    if (bound->largest_table != UINT32_MAX)
        return orr_arena_printf(arena, "the smallest shards that '%s' can be divided into",
                                p->o->tables[bound->largest_table].name);
    return bound->ns_per_byte > 0 ? "the mean of all ranks, with all of their memory in use"
                                  : "the mean of all ranks";
}

/* How much lower the bound is with a GiB more on every rank, which also lets candidates in that no
 * rank had room for. */
static orr_status value_of_memory(const orr_table_planner_options *o, double bound_ns,
                                  orr_arena *arena, double *ret_ns, orr_error *err)
{
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    orr_table_planner_options more = *o;
    orr_table_problem p;
    uint32_t refused;
    double bytes;
    *ret_ns = 0;
    if (o->memory_bytes == 0 ||
        __builtin_add_overflow(o->memory_bytes, INT64_C(1) << 30, &more.memory_bytes))
        return ORR_OK;
    ORR_TRY(orr_table_problem_make(&more, arena, &p, &refused, &bytes, err));
    *ret_ns = fmax(0, bound_ns - orr_table_bound_of(&p).ns);
    orr_arena_rewind(arena, mark);
    return ORR_OK;
}

static orr_status report(const orr_table_problem *p, const orr_table_bound *bound,
                         const orr_table_solution *solution, orr_arena *arena,
                         orr_table_planning *ret, orr_error *err)
{
    double ns_per_byte;
    (void)orr_table_relaxation(p, solution->ns, &ns_per_byte);
    orr_table_planning planning = {.optimal = solution->optimal,
                                   .nodes = solution->budget.nodes,
                                   .moves = solution->budget.moves};
    ORR_TRY(orr_table_explain(p, &solution->assignment, ns_per_byte, arena, &planning, err));
    ORR_TRY(value_of_memory(p->o, bound->ns, arena, &planning.memory_ns_per_gib, err));
    const double latency_ns = orr_table_latency_ns(p->o);
    planning.bound_ns = solution->optimal ? planning.ns : fmin(bound->ns + latency_ns, planning.ns);
    planning.gap_frac = planning.ns > 0 ? (planning.ns - planning.bound_ns) / planning.ns : 0;
    planning.bound_by = bound_text(p, bound, solution->optimal, arena);
    if (planning.bound_by == NULL)
        return orr_fail_memory(err);
    *ret = planning;
    return ORR_OK;
}

orr_status orr_table_plan_in_memory(const orr_table_planner_options *o, orr_arena *arena,
                                    orr_table_planning *ret, orr_error *err)
{
    orr_table_problem p;
    orr_table_solution solution;
    uint32_t refused;
    double bytes = 0;
    ORR_TRY(orr_table_problem_make(o, arena, &p, &refused, &bytes, err));
    if (refused != UINT32_MAX)
        return refuse_table(o, refused, bytes, arena, ret, err);
    const orr_table_bound bound = orr_table_bound_of(&p);
    if (bound.infeasible)
        return refuse_all(&p, true, arena, ret, err);
    ORR_TRY(orr_table_solve(&p, &bound, arena, &solution, err));
    return solution.ns < INFINITY ? report(&p, &bound, &solution, arena, ret, err)
                                  : refuse_all(&p, false, arena, ret, err);
}

orr_status orr_plan_tables(const orr_table_planner_options *options, orr_arena *arena,
                           orr_table_planning *ret, orr_error *err)
{
    const int64_t begin_ns = orr_clock_now_ns(&orr_clock_monotonic);
    ORR_TRY(check_options(options, err));
    orr_table_planner_options o = *options;
    o.costs.miss_frac = orr_table_miss_frac(options);
    ORR_TRY(o.tiers != NULL ? orr_table_plan_on_tiers(&o, arena, ret, err)
                            : orr_table_plan_in_memory(&o, arena, ret, err));
    ret->wall_ns = orr_clock_now_ns(&orr_clock_monotonic) - begin_ns;
    return ORR_OK;
}

/* A problem in which every table has one candidate, that of the plan. */
static orr_status problem_of_plan(const orr_table_planner_options *o,
                                  const orr_embedding_plan *plan, orr_arena *arena,
                                  orr_table_problem *ret, orr_error *err)
{
    orr_table_candidate *candidates = orr_arena_array(arena, orr_table_candidate, o->n_tables);
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)o->n_tables + 1);
    struct orr_table_dropped *dropped =
        orr_arena_array(arena, struct orr_table_dropped, o->n_tables);
    double *shared = orr_arena_array(arena, double, o->n_tables);
    if (candidates == NULL || first == NULL || dropped == NULL || shared == NULL)
        return orr_fail_memory(err);
    *ret = (orr_table_problem){.o = o,
                               .n = o->n_tables,
                               .ranks = o->ranks,
                               .host_ranks = o->host_ranks > 0 ? o->host_ranks : o->ranks,
                               .candidates = candidates,
                               .first = first,
                               .dropped = dropped,
                               .table_shared_ns = shared,
                               .most_shards = 1,
                               .capacity = INFINITY};
    for (uint32_t t = 0; t < o->n_tables; t++) {
        const orr_embedding_placement *place = &plan->placements[t];
        const uint32_t columns = place->columns > 0 ? place->columns : 1;
        const orr_table_split split = {
            .kind = place->sharding,
            .columns = columns,
            .rows = place->sharding == ORR_SHARDING_DATA ? 1 : place->n_ranks / columns};
        ORR_TRY(orr_table_candidate_make(o, t, &split, arena, &candidates[t], err));
        first[t + 1] = t + 1;
        if (candidates[t].n > ret->most_shards)
            ret->most_shards = candidates[t].n;
    }
    return ORR_OK;
}

orr_status orr_price_table_plan(const orr_table_planner_options *options,
                                const orr_embedding_plan *plan, orr_arena *arena,
                                orr_table_planning *ret, orr_error *err)
{
    orr_table_problem p;
    orr_table_assignment a;
    orr_table_planning planning = {.optimal = false};
    ORR_TRY(check_options(options, err));
    if (plan->n_tables != options->n_tables || plan->ranks != options->ranks)
        return orr_fail(err, ORR_INVALID,
                        "a plan of %u tables on %u ranks, where there are %u on %u", plan->n_tables,
                        plan->ranks, options->n_tables, options->ranks);
    orr_table_planner_options o = *options;
    o.costs.miss_frac = orr_table_miss_frac(options);
    ORR_TRY(problem_of_plan(&o, plan, arena, &p, err));
    ORR_TRY(orr_table_assignment_make(&p, arena, &a, err));
    for (uint32_t t = 0; t < p.n; t++)
        orr_table_restore(&p, &a, t, t, plan->placements[t].ranks);
    ORR_TRY(orr_table_explain(&p, &a, 0, arena, &planning, err));
    *ret = planning;
    return ORR_OK;
}
