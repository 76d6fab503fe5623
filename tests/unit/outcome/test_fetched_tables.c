/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tables/fetch.h"

#include "catalog_jobs.h"

/* Steps whose embedding tables live on drives: what is fetched ahead is hidden beside the step as
 * far as it fits, the rest is told as a part of the step. */
enum { RANKS = 2, SAMPLES = 2048, TABLES = 26 };

typedef struct scene {
    plan_world w;
    const orr_model *model;
    const orr_cluster *host;
    orr_plan plan;
    orr_embedding_placement placements[TABLES];
    orr_embedding_plan tables;
} scene;

static const uint32_t IN_ORDER[RANKS] = {0, 1};

static void open_scene(scene *s)
{
    memset(s, 0, sizeof *s);
    world_open(&s->w);
    s->model = world_model(&s->w, "dlrm-dcnv2");
    s->host = world_cluster(&s->w, "sdm_nand_host");
    s->plan = world_plan(&s->w, "dp=2,micro_batch=2048,precision=fp32");
    s->tables = (orr_embedding_plan){.ranks = RANKS,
                                     .groups = 1,
                                     .synchronize = 1,
                                     .n_tables = s->model->dlrm.n_tables,
                                     .tables = s->model->dlrm.tables,
                                     .placements = s->placements};
    assert_int_equal(s->tables.n_tables, TABLES);
}

/* Tables of more than a million rows on a tier, with a part of their rows in caches. */
static void place(scene *s, orr_tier tier, double cached_frac)
{
    for (uint32_t t = 0; t < TABLES; t++) {
        const int64_t rows = s->tables.tables[t].rows;
        const bool on_tier = tier != ORR_TIER_DRAM && rows > 1000000;
        s->placements[t] =
            (orr_embedding_placement){.sharding = ORR_SHARDING_TABLE,
                                      .columns = 1,
                                      .ranks = IN_ORDER + t % RANKS,
                                      .n_ranks = 1,
                                      .tier = (uint8_t)(on_tier ? tier : ORR_TIER_DRAM),
                                      .cached_rows = on_tier ? cached_frac * (double)rows : 0};
    }
}

static orr_outcome outcome(scene *s, orr_detail detail)
{
    orr_outcome o;
    orr_job_options options;
    orr_embedding_plan *tables = orr_arena_one(s->w.arena, orr_embedding_plan);
    assert_non_null(tables);
    *tables = s->tables;
    world_must(&s->w, orr_embedding_plan_shard(tables, s->w.arena, &s->w.err), "shards");
    orr_job_options_init(&options);
    options.workload.tables = tables;
    options.detail = (uint8_t)detail;
    world_must(&s->w,
               orr_outcome_of(s->model, &s->plan, s->host, &options, s->w.arena, &o, &s->w.err),
               "outcome");
    int64_t sum = 0;
    for (int part = 0; part < ORR_WATERFALLS; part++)
        sum += o.waterfall_ns[part];
    assert_int_equal(sum, o.step_ns);
    return o;
}

static orr_tables_fetch fetch(scene *s)
{
    orr_tier_rates tiers[ORR_TIERS];
    orr_tables_fetch f;
    orr_embedding_plan tables = s->tables;
    const orr_tables_demand demand = {.samples = SAMPLES, .popularity = ORR_POPULARITY_META_2021};
    world_must(&s->w, orr_embedding_plan_shard(&tables, s->w.arena, &s->w.err), "shards");
    world_must(&s->w, orr_tiers_of_host(s->host, RANKS, s->w.arena, tiers, &s->w.err), "tiers");
    world_must(&s->w, orr_tables_fetch_of(&tables, &demand, tiers, &f, &s->w.err), "fetch");
    return f;
}

/* Jitter stretches all that a step does: by 2 % among two ranks at most. */
static void assert_stretched(double is, double least)
{
    if (!(is >= least - 2 && is <= least * 1.05 + 2))
        fail_msg("%.0f ns, should be %.0f or a little more", is, least);
}

static void what_does_not_fit_stalls(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    place(&s, ORR_TIER_DRAM, 0);
    const orr_outcome memory = outcome(&s, ORR_DETAIL_CHUNK);
    assert_int_equal(memory.waterfall_ns[ORR_WATERFALL_TIERS], 0);
    place(&s, ORR_TIER_BLOCK, 0);
    s.tables.lookahead = 2;
    const orr_outcome ahead = outcome(&s, ORR_DETAIL_CHUNK);
    const orr_tables_fetch f = fetch(&s);
    assert_true(f.ns > 1.2 * (double)memory.step_ns);
    assert_stretched((double)ahead.step_ns, f.ns);
    assert_stretched((double)ahead.waterfall_ns[ORR_WATERFALL_TIERS],
                     (double)(ahead.step_ns - memory.step_ns) / 1.05);
    assert_int_equal(outcome(&s, ORR_DETAIL_OPERATOR).step_ns, ahead.step_ns);
    s.tables.lookahead = 0;
    const orr_outcome waited = outcome(&s, ORR_DETAIL_CHUNK);
    const orr_tables_fetch each = fetch(&s);
    assert_stretched((double)(waited.step_ns - memory.step_ns), each.ns + each.first_ns);
    assert_stretched((double)waited.waterfall_ns[ORR_WATERFALL_TIERS],
                     (each.ns + each.first_ns) / 1.05);
    world_close(&s.w);
}

/* More cached rows never make a step longer; with enough of them it is that of all in memory. */
static void caches_hide_it(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    place(&s, ORR_TIER_DRAM, 0);
    const int64_t memory_ns = outcome(&s, ORR_DETAIL_CHUNK).step_ns;
    int64_t before_ns = INT64_MAX;
    s.tables.lookahead = 1;
    for (double frac = 0; frac <= 1; frac += 0.125) {
        place(&s, ORR_TIER_BLOCK, frac);
        const orr_outcome o = outcome(&s, ORR_DETAIL_CHUNK);
        assert_true(o.step_ns <= before_ns && o.step_ns >= memory_ns);
        assert_true(o.waterfall_ns[ORR_WATERFALL_TIERS] <= o.step_ns - memory_ns);
        before_ns = o.step_ns;
    }
    assert_int_equal(before_ns, memory_ns);
    world_close(&s.w);
}

static void hosts_without_drives_refuse(void **state)
{
    (void)state;
    scene s;
    orr_outcome o;
    orr_job_options options;
    open_scene(&s);
    s.host = world_cluster(&s.w, "sdm_dram_host");
    place(&s, ORR_TIER_BLOCK, 0);
    world_must(&s.w, orr_embedding_plan_shard(&s.tables, s.w.arena, &s.w.err), "shards");
    orr_job_options_init(&options);
    options.workload.tables = &s.tables;
    assert_int_equal(orr_outcome_of(s.model, &s.plan, s.host, &options, s.w.arena, &o, &s.w.err),
                     ORR_INVALID);
    assert_non_null(strstr(s.w.err.text, "lives on tier block"));
    world_close(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_stalls),
        cmocka_unit_test(caches_hide_it),
        cmocka_unit_test(hosts_without_drives_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
