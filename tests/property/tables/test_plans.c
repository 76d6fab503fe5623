/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "explore/tables/planner.h"
#include "../support/random_tables.h"
#include "../support/seeds.h"

/* Plans of embedding tables: every shard of every table is placed once and fits; what is said of a
 * plan is what pricing it says; no plan is below the bound, whichever is drawn; and with a few
 * tables on a few ranks no plan at all is better than what is proven. */

typedef struct world {
    orr_arena *arena;
    random_tables r;
    orr_table_planning planning;
    uint64_t seed;
} world;

static void open_case(world *w, uint32_t tables, uint32_t ranks, uint32_t host_ranks,
                      uint8_t pricing, uint64_t seed)
{
    orr_error err = {0};
    w->arena = orr_arena_new(0, 0);
    w->seed = seed;
    assert_non_null(w->arena);
    draw_tables(&w->r, tables, ranks, host_ranks, seed, w->arena);
    w->r.options.pricing = pricing;
    if (tables <= 8)
        w->r.options.balance_frac = 0; /* how near to the optimum is what is asked */
    if (orr_plan_tables(&w->r.options, w->arena, &w->planning, &err) != ORR_OK)
        seed_fail(seed, "%s", err.text);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* The plan's own shards, rows times columns, cover each table once (DATA: once a rank). */
static void check_cover(const world *w)
{
    const orr_embedding_plan *plan = &w->planning.plan;
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        const orr_embedding_placement *p = &plan->placements[t];
        uint64_t cells = 0;
        for (uint32_t i = 0; i < p->n_shards; i++) {
            const orr_embedding_shard *s = &plan->shards[p->first_shard + i];
            cells += (uint64_t)(s->range_end - s->range_begin) * (s->column_end - s->column_begin);
        }
        const uint64_t copies = p->sharding == ORR_SHARDING_DATA ? plan->ranks : 1;
        if (cells != copies * ORR_EMBEDDING_RANGES * plan->tables[t].columns)
            seed_fail(w->seed, "table %u is not covered once", t);
        if (w->planning.choices[t].why == NULL || w->planning.choices[t].why[0] == '\0')
            seed_fail(w->seed, "nothing is said of table %u", t);
    }
}

static void check_ranks(const world *w)
{
    double most = 0;
    for (uint32_t r = 0; r < w->planning.plan.ranks; r++) {
        const orr_table_rank_cost *rank = &w->planning.ranks[r];
        double sum = 0;
        for (int s = 0; s < ORR_TABLE_STAGES; s++)
            sum += rank->stage_ns[s];
        if (!is_near(sum, rank->ns))
            seed_fail(w->seed, "the stages of rank %u are not its time", r);
        if (w->r.options.memory_bytes > 0 && rank->memory_bytes > w->r.options.memory_bytes)
            seed_fail(w->seed, "rank %u needs more memory than it has", r);
        most = fmax(most, rank->ns);
    }
    if (!is_near(most + orr_table_latency_ns(&w->r.options), w->planning.ns))
        seed_fail(w->seed, "the step is not its busiest rank's");
    if (w->planning.synchronous_ns < most * (1 - 1e-9))
        seed_fail(w->seed, "waiting for others makes the step shorter");
}

static void check_price(const world *w)
{
    orr_table_planning again;
    orr_error err = {0};
    if (orr_price_table_plan(&w->r.options, &w->planning.plan, w->arena, &again, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
    if (!is_near(again.ns, w->planning.ns))
        seed_fail(w->seed, "the plan is priced %g, and was said to take %g", again.ns,
                  w->planning.ns);
}

/* Random plans that fit are no better than the bound. */
static void check_bound(world *w)
{
    if (!(w->planning.bound_ns <= w->planning.ns) || !(w->planning.bound_ns > 0))
        seed_fail(w->seed, "the bound %g is above the plan %g", w->planning.bound_ns,
                  w->planning.ns);
    for (int i = 0; i < 20; i++) {
        orr_embedding_plan plan;
        orr_table_planning drawn;
        orr_error err = {0};
        bool fits = true;
        if (draw_table_plan(&w->r.options, &w->r.random, w->arena, &plan, &err) != ORR_OK ||
            orr_price_table_plan(&w->r.options, &plan, w->arena, &drawn, &err) != ORR_OK)
            seed_fail(w->seed, "%s", err.text);
        for (uint32_t r = 0; r < plan.ranks && w->r.options.memory_bytes > 0; r++)
            fits &= drawn.ranks[r].memory_bytes <= w->r.options.memory_bytes;
        if (fits && drawn.ns < w->planning.bound_ns * (1 - 1e-9))
            seed_fail(w->seed, "a random plan takes %g, below the bound %g", drawn.ns,
                      w->planning.bound_ns);
    }
}

static void plans_are_what_is_said_of_them(void **state)
{
    (void)state;
    static const struct {
        uint32_t tables, ranks, host_ranks;
    } sizes[] = {{1, 1, 0},   {3, 2, 0},  {12, 8, 4},  {26, 8, 0},
                 {60, 16, 8}, {5, 64, 8}, {200, 32, 8}};
    const seed_range range = seeds(140);
    uint32_t planned = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        const size_t size = seed % 7;
        world w;
        open_case(&w, sizes[size].tables, sizes[size].ranks, sizes[size].host_ranks,
                  seed / 7 % 3 == 2 ? ORR_TABLE_PRICING_TORCHREC : ORR_TABLE_PRICING_STAGES, seed);
        if (w.planning.infeasible == NULL) {
            planned++;
            check_cover(&w);
            check_ranks(&w);
            check_price(&w);
            if (w.r.options.pricing == ORR_TABLE_PRICING_STAGES)
                check_bound(&w);
        } else if (w.planning.infeasible_bytes <= w.r.options.memory_bytes) {
            seed_fail(seed, "refused for less than there is: %s", w.planning.infeasible);
        }
        orr_arena_free(w.arena);
    }
    if (range.end - range.begin > 1)
        assert_true(planned > 100);
}

/* Where the busiest rank may take a tenth longer, stages are balanced better. */
static void balance_shortens_synchronous_steps(void **state)
{
    (void)state;
    const seed_range range = seeds(12);
    double with = 0, without = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        orr_table_planning balanced;
        orr_error err = {0};
        open_case(&w, 100, 16, 8, ORR_TABLE_PRICING_STAGES, seed);
        w.r.options.balance_frac = 0.1;
        if (orr_plan_tables(&w.r.options, w.arena, &balanced, &err) != ORR_OK)
            seed_fail(seed, "%s", err.text);
        w.r.options.balance_frac = 0;
        if (orr_plan_tables(&w.r.options, w.arena, &w.planning, &err) != ORR_OK)
            seed_fail(seed, "%s", err.text);
        if (balanced.ns > fmax(w.planning.ns, balanced.bound_ns * 1.1) * (1 + 1e-9))
            seed_fail(seed, "balance made the busiest rank take %g", balanced.ns);
        with += balanced.synchronous_ns;
        without += w.planning.synchronous_ns;
        orr_arena_free(w.arena);
    }
    print_message("synchronous steps: %.3f of those without balance\n", with / without);
    assert_true(with < 0.95 * without);
}

/* --- exhaustion ------------------------------------------------------------------------------- */

/* Every assignment of every candidate: the least time, INFINITY if none fits. */
typedef struct exhaustion {
    const orr_table_problem *p;
    orr_table_assignment a;
    double best;
} exhaustion;

static void try_table(exhaustion *e, uint32_t table);

static void try_shard(exhaustion *e, uint32_t table, const orr_table_candidate *c, uint32_t i)
{
    uint32_t *ranks = orr_table_ranks_of(e->p, &e->a, table);
    if (i == c->n) {
        try_table(e, table + 1);
        return;
    }
    for (uint32_t r = 0; r < e->p->ranks; r++) {
        bool taken = false;
        for (uint32_t k = 0; k < i; k++)
            taken |= ranks[k] == r || (c->in_host && k / c->split.rows == i / c->split.rows &&
                                       ranks[k] / e->p->host_ranks != r / e->p->host_ranks);
        if (taken)
            continue;
        ranks[i] = r;
        e->a.load[r] += c->ns[i];
        e->a.bytes[r] += c->bytes[i];
        if (e->a.load[r] + e->a.shared_ns < e->best)
            try_shard(e, table, c, i + 1);
        e->a.load[r] -= c->ns[i];
        e->a.bytes[r] -= c->bytes[i];
    }
}

static void try_table(exhaustion *e, uint32_t table)
{
    if (table == e->p->n) {
        double most = 0;
        bool fits = true;
        for (uint32_t r = 0; r < e->p->ranks; r++) {
            most = fmax(most, e->a.load[r]);
            fits &= e->a.bytes[r] + e->a.shared_bytes <= e->p->capacity * (1 + 1e-12);
        }
        if (fits)
            e->best = fmin(e->best, most + e->a.shared_ns);
        return;
    }
    for (uint32_t k = e->p->first[table]; k < e->p->first[table + 1]; k++) {
        const orr_table_candidate *c = &e->p->candidates[k];
        e->a.shared_ns += c->shared_ns;
        e->a.shared_bytes += c->shared_bytes;
        try_shard(e, table, c, 0);
        e->a.shared_ns -= c->shared_ns;
        e->a.shared_bytes -= c->shared_bytes;
    }
}

static double least_of_all(const world *w)
{
    orr_table_problem p;
    uint32_t refused;
    double bytes;
    exhaustion e = {.p = &p, .best = INFINITY};
    assert_int_equal(orr_table_problem_make(&w->r.options, w->arena, &p, &refused, &bytes, NULL),
                     ORR_OK);
    if (refused != UINT32_MAX)
        return INFINITY;
    assert_int_equal(orr_table_assignment_make(&p, w->arena, &e.a, NULL), ORR_OK);
    try_table(&e, 0);
    return e.best + orr_table_latency_ns(&w->r.options);
}

/* To eight tables: what is called optimal is, and no gap is smaller than it is said to be. */
static void no_plan_is_better_than_is_proven(void **state)
{
    (void)state;
    static const struct {
        uint32_t tables, ranks, host_ranks;
    } sizes[] = {{2, 2, 0}, {3, 4, 2}, {4, 3, 0}, {5, 2, 0}, {6, 2, 0}, {8, 2, 0}, {3, 4, 0}};
    const seed_range range = seeds(70);
    uint32_t optimal = 0, planned = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_case(&w, sizes[seed % 7].tables, sizes[seed % 7].ranks, sizes[seed % 7].host_ranks,
                  ORR_TABLE_PRICING_STAGES, 1000 + seed);
        const double least = least_of_all(&w);
        if (w.planning.infeasible != NULL) {
            if (least < INFINITY)
                seed_fail(seed, "refused, and there is a plan: %s", w.planning.infeasible);
        } else {
            planned++;
            optimal += w.planning.ns <= least * (1 + 1e-9);
            if (least < w.planning.bound_ns * (1 - 1e-9))
                seed_fail(seed, "a plan takes %g, below the bound %g", least, w.planning.bound_ns);
            if (w.planning.optimal && !is_near(w.planning.ns, least))
                seed_fail(seed, "%g is called optimal, and there is %g", w.planning.ns, least);
            if (w.planning.ns > least * (1 + w.planning.gap_frac + 1e-9))
                seed_fail(seed, "%g is further from %g than is said", w.planning.ns, least);
        }
        orr_arena_free(w.arena);
    }
    print_message("%u of %u plans are optimal\n", optimal, planned);
    if (range.end - range.begin > 1)
        assert_true(optimal * 10 >= planned * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_what_is_said_of_them),
        cmocka_unit_test(balance_shortens_synchronous_steps),
        cmocka_unit_test(no_plan_is_better_than_is_proven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
