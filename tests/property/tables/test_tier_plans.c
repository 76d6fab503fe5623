/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/tables/fetch.h"
#include "../support/random_tables.h"
#include "../support/seeds.h"

/* Tables on tiers: what is said of a rank's bytes, reads and time is what adding up its shards
 * says; no tier holds more than it has; more of a tier never makes a step longer; and with a few
 * tables no way to put them, and to share the cache, is faster. */

typedef struct world {
    orr_arena *arena;
    random_tables r;
    orr_tier_options tiers;
    orr_embedding_plan plan;
    uint64_t seed;
} world;

/* Tables of a random recommendation model by published popularity, and a plan that keeps none of
 * them on every rank. */
static void open_world(world *w, uint32_t tables, uint32_t ranks, uint64_t seed)
{
    orr_error err = {0};
    w->arena = orr_arena_new(0, 0);
    w->seed = seed;
    assert_non_null(w->arena);
    draw_tables(&w->r, tables, ranks, 0, seed, w->arena);
    orr_table_planner_options *o = &w->r.options;
    orr_hit_curve *curves = orr_arena_array(w->arena, orr_hit_curve, tables);
    double *pinned = orr_arena_array(w->arena, double, tables);
    orr_embedding_placement *places = orr_arena_array(w->arena, orr_embedding_placement, tables);
    const uint32_t lookahead = (uint32_t)orr_random_below(&w->r.random, 4);
    for (uint32_t t = 0; t < tables; t++) {
        const orr_popularity p = orr_popularity_of(
            (orr_popularity_kind)orr_random_below(&w->r.random, 3), o->tables[t].rows);
        const double lookups = (double)o->samples * ranks * o->tables[t].pooling;
        const orr_hit_terms terms = {
            .policy = ORR_HIT_LOOKAHEAD, .batch = lookups, .window = lookahead};
        orr_hit_curve_of(&p, &terms, &curves[t]);
        pinned[t] = orr_popularity_distinct(&p, (int64_t)(lookups * (1 + lookahead)));
        do
            places[t] = draw_placement(&w->r.random, &o->tables[t], ranks, 0, w->arena);
        while (places[t].sharding == ORR_SHARDING_DATA);
    }
    w->plan = (orr_embedding_plan){.ranks = ranks,
                                   .groups = 1,
                                   .synchronize = 1,
                                   .n_tables = tables,
                                   .tables = o->tables,
                                   .placements = places};
    assert_int_equal(orr_embedding_plan_shard(&w->plan, w->arena, &err), ORR_OK);
    w->tiers = (orr_tier_options){.curves = curves, .pinned_rows = pinned, .lookahead = lookahead};
    o->tiers = &w->tiers;
}

static void world_of_one_popularity(world *w, orr_popularity_kind kind)
{
    const orr_table_planner_options *o = &w->r.options;
    orr_error err = {0};
    if (orr_tier_options_fill(o, kind, w->arena, &w->tiers, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
}

static double bytes_of_tables(const world *w)
{
    double sum = 0;
    for (uint32_t t = 0; t < w->plan.n_tables; t++)
        sum += (double)orr_embedding_bytes(&w->r.options.tables[t]);
    return sum;
}

/* Tiers from a little to more than all tables. */
static void draw_tiers(world *w)
{
    const double bytes = bytes_of_tables(w) / w->plan.ranks;
    orr_random *random = &w->r.random;
    w->tiers.tier[ORR_TIER_DRAM] =
        (orr_tier_rates){.bytes = (int64_t)(bytes * random_between(random, 0.05, 2)) + (1 << 28)};
    w->tiers.tier[ORR_TIER_BYTE] =
        (orr_tier_rates){.bytes = orr_random_below(random, 3) == 0
                                      ? 0
                                      : (int64_t)(bytes * random_between(random, 0.05, 3)),
                         .sector_bytes = 256,
                         .read_bytes_per_s = 6e9,
                         .write_bytes_per_s = 2e9,
                         .request_ns = 600};
    w->tiers.tier[ORR_TIER_BLOCK] =
        (orr_tier_rates){.bytes = (int64_t)(bytes * random_between(random, 0.5, 6)),
                         .sector_bytes = orr_random_below(random, 2) == 0 ? 512 : 4096,
                         .read_iops = random_between(random, 1e5, 1e6),
                         .write_iops = random_between(random, 3e4, 1e6),
                         .read_bytes_per_s = 2e9,
                         .write_bytes_per_s = 1e9,
                         .read_ns = 1e5,
                         .request_ns = 5000};
}

static orr_tiering tiering_of(const world *w, const orr_embedding_placement **ret_places)
{
    orr_tiering tiering;
    const orr_embedding_placement *places;
    orr_error err = {0};
    if (orr_tier_tables(&w->r.options, &w->plan, 1e6, w->arena, &tiering, &places, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
    if (ret_places != NULL)
        *ret_places = places;
    return tiering;
}

/* --- what is said
 * -------------------------------------------------------------------------------*/

static void check_capacity(const world *w, const orr_tiering *t)
{
    for (int k = 0; k < ORR_TIERS; k++)
        if ((double)t->load[k].bytes > (double)w->tiers.tier[k].bytes * (1 + 1e-9))
            seed_fail(w->seed, "%lld bytes of tier %s, which has %lld", (long long)t->load[k].bytes,
                      orr_tier_name((orr_tier)k), (long long)w->tiers.tier[k].bytes);
}

/* Of tables with one shard the choice is that of the shard: its hit rate is its curve's. */
static void check_choices(const world *w, const orr_tiering *t,
                          const orr_embedding_placement *places)
{
    uint32_t n[ORR_TIERS] = {0};
    double slots = 0;
    for (uint32_t i = 0; i < w->plan.n_tables; i++) {
        const orr_tier_choice *c = &t->choices[i];
        const orr_embedding *e = &w->r.options.tables[i];
        const double lookups = (double)w->r.options.samples * w->plan.ranks * e->pooling;
        n[c->tier]++;
        if (places[i].tier != c->tier)
            seed_fail(w->seed, "the plan has another tier for table %u", i);
        if (c->tier == ORR_TIER_DRAM) {
            if (c->hit_frac != 1 || places[i].cached_rows != 0)
                seed_fail(w->seed, "table %u is in memory, and misses", i);
            continue;
        }
        slots += c->cached_rows;
        if (w->plan.placements[i].n_shards == 1 &&
            (fabs(c->hit_frac - orr_hit_curve_at(&w->tiers.curves[i], c->cached_rows)) > 1e-9 ||
             fabs(c->reads - lookups * (1 - c->hit_frac)) > 1e-6 * lookups))
            seed_fail(w->seed, "table %u: %.6f with %.0f rows, its curve has %.6f", i, c->hit_frac,
                      c->cached_rows, orr_hit_curve_at(&w->tiers.curves[i], c->cached_rows));
        if (c->cached_rows < fmin((double)e->rows, w->tiers.pinned_rows[i]) * (1 - 1e-9))
            seed_fail(w->seed, "table %u has no room for its batches", i);
    }
    for (int k = 0; k < ORR_TIERS; k++)
        if (n[k] != t->load[k].tables)
            seed_fail(w->seed, "tables of tier %d are not counted", k);
    if ((slots > 0) != (t->cache_bytes > 0))
        seed_fail(w->seed, "a cache without rows, or rows without a cache");
}

static void what_is_said_adds_up(void **state)
{
    (void)state;
    const seed_range range = seeds(250);
    uint32_t fitted = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        const orr_embedding_placement *places;
        open_world(&w, 1 + (uint32_t)(seed % 30), 1 + (uint32_t)(seed % 5), seed);
        draw_tiers(&w);
        const orr_tiering t = tiering_of(&w, &places);
        if (t.infeasible != NULL) {
            if (strstr(t.infeasible, w.r.options.tables[t.infeasible_table].name) == NULL ||
                t.infeasible_bytes <= 0)
                seed_fail(seed, "'%s' does not say which table, or how much", t.infeasible);
        } else {
            fitted++;
            check_capacity(&w, &t);
            check_choices(&w, &t, places);
            double ns = 0;
            for (int k = 0; k < ORR_TIERS; k++)
                ns += t.load[k].fetch_ns;
            if (fabs(ns - t.fetch_ns) > 1e-9 * ns)
                seed_fail(seed, "tiers take %.3f ns, the fetch %.3f", ns, t.fetch_ns);
        }
        orr_arena_free(w.arena);
    }
    if (range.end - range.begin > 1 && fitted < 100)
        fail_msg("%u of the cases fit", fitted);
}

/* A simulated step fetches what the planner said, but for points between those of a curve, where
 * each table is on one rank. Shards of a table have even parts of its cached rows there, while the
 * planner gives a rank with room to spare more of them: half as much to a few percent more. */
#define WHOLE_WITHIN 0.005
#define PARTS_LESS   0.75
#define PARTS_MORE   0.25

static void simulated_as_planned(void **state)
{
    (void)state;
    const seed_range range = seeds(100);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        const orr_embedding_placement *places;
        orr_tables_fetch fetch;
        orr_error err;
        open_world(&w, 1 + (uint32_t)(seed % 30), 1 + (uint32_t)(seed % 5), seed);
        draw_tiers(&w);
        world_of_one_popularity(&w, ORR_POPULARITY_META_2022);
        const orr_tiering t = tiering_of(&w, &places);
        const orr_tables_demand demand = {.samples = w.r.options.samples,
                                          .popularity = ORR_POPULARITY_META_2022};
        orr_embedding_plan plan = w.plan;
        bool whole = true;
        for (uint32_t i = 0; i < plan.n_tables; i++)
            whole &= plan.placements[i].n_shards == 1 || places[i].tier == ORR_TIER_DRAM;
        plan.placements = places;
        plan.lookahead = w.tiers.lookahead;
        if (t.infeasible == NULL) {
            assert_int_equal(orr_tables_fetch_of(&plan, &demand, w.tiers.tier, &fetch, &err),
                             ORR_OK);
            const double less = whole ? WHOLE_WITHIN : PARTS_LESS;
            const double more = whole ? WHOLE_WITHIN : PARTS_MORE;
            if (fetch.ns < t.fetch_ns * (1 - less) - 1e3 ||
                fetch.ns > t.fetch_ns * (1 + more) + 1e3)
                seed_fail(seed, "%.0f ns, planned %.0f", fetch.ns, t.fetch_ns);
        }
        orr_arena_free(w.arena);
    }
}

/* --- more is never worse
 * ------------------------------------------------------------------------*/

static void more_of_a_tier_is_never_worse(void **state)
{
    (void)state;
    const seed_range range = seeds(120);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_world(&w, 1 + (uint32_t)(seed % 24), 1 + (uint32_t)(seed % 3), seed);
        draw_tiers(&w);
        for (int k = 0; k < ORR_TIERS; k++) {
            const int64_t bytes = w.tiers.tier[k].bytes;
            double before = INFINITY;
            for (int i = 1; i <= 6 && bytes > 0; i++) {
                w.tiers.tier[k].bytes = bytes * i / 3;
                const orr_tiering t = tiering_of(&w, NULL);
                const double ns = t.infeasible != NULL ? INFINITY : t.fetch_ns;
                if (ns > before * (1 + 1e-6) + 1e-3)
                    seed_fail(seed, "%d thirds of tier %d: %.1f ns after %.1f", i, k, ns, before);
                before = ns;
            }
            w.tiers.tier[k].bytes = bytes;
        }
        orr_arena_free(w.arena);
    }
}

/* --- small cases
 * --------------------------------------------------------------------------------*/

/* What a table of one rank takes on a tier with so many cached rows, told apart from the planner:
 * bytes of memory and of the tier, and time. */
typedef struct taken {
    double memory, tier, ns;
} taken;

static taken take(const world *w, uint32_t t, int tier, double cached)
{
    const orr_embedding *e = &w->r.options.tables[t];
    const orr_tier_rates *r = &w->tiers.tier[tier];
    const double record = (double)orr_embedding_row_bytes(e), rows = (double)e->rows;
    if (tier == ORR_TIER_DRAM)
        return (taken){rows * record, 0, 0};
    const double room = r->sector_bytes - 8.0, on_disk = record + 8;
    const double each = on_disk <= room ? 1 / floor(room / on_disk) : ceil(on_disk / room);
    const double bytes = fmax(1, each) * r->sector_bytes;
    double read = bytes / r->read_bytes_per_s, hole = bytes / r->write_bytes_per_s;
    if (r->read_iops > 0)
        read = fmax(read, 1 / r->read_iops);
    if (r->write_iops > 0)
        hole = fmax(hole, 1 / r->write_iops);
    const double write = fmin(hole, 2 * on_disk / r->write_bytes_per_s);
    const double miss = fmax(r->request_ns, 1e9 * (read + write));
    const double lookups = (double)w->r.options.samples * e->pooling;
    return (taken){rows * (8 + 1.25 * each) + cached * (record + 33),
                   1.25 * rows * each * r->sector_bytes,
                   lookups * (1 - orr_hit_curve_at(&w->tiers.curves[t], cached)) * miss};
}

enum { TABLES = 3, STEPS = 24 };

/* The least time of all assignments and of all caches in steps, on one rank. */
static double exhaustive(const world *w, double buffers)
{
    double best = INFINITY;
    for (int a = 0; a < 27; a++) {
        const int tier[TABLES] = {a % 3, a / 3 % 3, a / 9};
        for (int c = 0; c < STEPS * STEPS * STEPS; c++) {
            const int step[TABLES] = {c % STEPS, c / STEPS % STEPS, c / STEPS / STEPS};
            double used[ORR_TIERS] = {buffers}, ns = 0;
            bool again = false;
            for (uint32_t t = 0; t < TABLES; t++) {
                const double rows = (double)w->r.options.tables[t].rows;
                const double least = fmin(rows, 1.05 * w->tiers.pinned_rows[t]);
                const double part = (double)step[t] / (STEPS - 1);
                const taken x = take(w, t, tier[t], least + (rows - least) * part * part);
                again |= tier[t] == ORR_TIER_DRAM && step[t] > 0;
                used[ORR_TIER_DRAM] += x.memory;
                used[tier[t]] += x.tier;
                ns += x.ns;
            }
            bool fits = !again;
            for (int k = 0; k < ORR_TIERS; k++)
                fits &= used[k] <= (double)w->tiers.tier[k].bytes;
            if (fits && ns < best)
                best = ns;
        }
    }
    return best;
}

static void no_way_is_faster(void **state)
{
    (void)state;
    const seed_range range = seeds(60);
    uint32_t compared = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_world(&w, TABLES, 1, seed);
        draw_tiers(&w);
        for (uint32_t t = 0; t < TABLES; t++)
            w.plan.placements = w.plan.placements; /* one rank: every shard is whole or a part */
        double buffers = 0;
        orr_table_planning priced;
        orr_error err = {0};
        assert_int_equal(orr_price_table_plan(&w.r.options, &w.plan, w.arena, &priced, &err),
                         ORR_OK);
        buffers = (double)priced.ranks[0].memory_bytes - bytes_of_tables(&w);
        const orr_tiering t = tiering_of(&w, NULL);
        const double best = exhaustive(&w, buffers);
        const double ns = t.infeasible != NULL ? INFINITY : t.fetch_ns;
        if (ns > best * 1.001 + 1)
            seed_fail(seed, "%.1f ns, where %.1f can be had", ns, best);
        compared += best < INFINITY && best > 0;
        orr_arena_free(w.arena);
    }
    if (range.end - range.begin > 1 && compared < 12)
        fail_msg("%u cases had something to fetch", compared);
}

/* --- plans
 * --------------------------------------------------------------------------------------*/

/* Tables that do not fit the memory fit with tiers, and their plan names them. */
static void what_did_not_fit_fits_with_tiers(void **state)
{
    (void)state;
    const seed_range range = seeds(12);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        orr_table_planning without, with;
        orr_error err = {0};
        open_world(&w, 10, 4, seed);
        draw_tiers(&w);
        double pinned = 0;
        for (uint32_t t = 0; t < 10; t++)
            pinned += w.tiers.pinned_rows[t] * 2048;
        const double bytes = bytes_of_tables(&w) / 4;
        w.tiers.tier[ORR_TIER_DRAM].bytes = (int64_t)(0.5 * bytes + pinned / 4) + (1 << 28);
        w.tiers.tier[ORR_TIER_BLOCK].bytes = (int64_t)(20 * bytes);
        w.r.options.tiers = NULL;
        w.r.options.memory_bytes = (int64_t)(0.5 * bytes);
        assert_int_equal(orr_plan_tables(&w.r.options, w.arena, &without, &err), ORR_OK);
        if (without.infeasible == NULL)
            seed_fail(seed, "all tables fit half of their memory");
        w.r.options.tiers = &w.tiers;
        if (orr_plan_tables(&w.r.options, w.arena, &with, &err) != ORR_OK)
            seed_fail(seed, "%s", err.text);
        if (with.infeasible != NULL || with.tiering == NULL)
            seed_fail(seed, "no plan: %s", with.infeasible != NULL ? with.infeasible : "");
        check_capacity(&w, with.tiering);
        orr_arena_free(w.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_adds_up),
        cmocka_unit_test(simulated_as_planned),
        cmocka_unit_test(more_of_a_tier_is_never_worse),
        cmocka_unit_test(no_way_is_faster),
        cmocka_unit_test(what_did_not_fit_fits_with_tiers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
