/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/outcome/catalog_jobs.h"
#include "support/seeds.h"

#include <stdio.h>

/* Small models in random plans on 16 or 32 devices:
 *
 *   - the waterfall adds up to the step, and no part of it is negative;
 *   - the step is the same to the ns as chunks, layers and operators, where nothing is slowed by
 *     what goes on beside it;
 *   - it is the same for ranks folded and not, and for any number of threads;
 *   - more bandwidth, or shorter latencies, never make it longer; with a network that costs nothing
 *     next to nothing is exposed;
 *   - a rank that is slower never makes it shorter. */
enum { SEEDS = 120 };

typedef struct scene {
    plan_world w;
    uint64_t seed;
    orr_random random;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_calibration plain;
    orr_job_options options;
    char plan[256];
    bool dual;
} scene;

static uint32_t below(scene *s, uint32_t n)
{
    return (uint32_t)orr_random_below(&s->random, n);
}

static const char *one_of(scene *s, const char *const *texts, uint32_t n)
{
    return texts[below(s, n)];
}
#define ONE_OF(s, ...)                                                                             \
    one_of((s), (const char *const[]){__VA_ARGS__},                                                \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void add(scene *s, const char *text)
{
    const size_t n = strlen(s->plan);
    snprintf(s->plan + n, sizeof s->plan - n, "%s%s", n > 0 && *text ? "," : "", text);
}

static void add_number(scene *s, const char *name, uint32_t value)
{
    char text[48];
    snprintf(text, sizeof text, "%s=%u", name, value);
    add(s, text);
}

static void choose_pipeline(scene *s, uint32_t pp)
{
    static const char *const alone[] = {"", "schedule=gpipe", "schedule=zb_h1"};
    const uint32_t kind = pp > 1 ? below(s, 6) : 0;
    uint32_t micro_batches = 1 + below(s, 6);
    s->dual = kind == 5;
    if (kind == 3) {
        add(s, "vp=2");
        micro_batches = pp * (1 + below(s, 3));
    } else if (kind == 4) {
        add(s, "schedule=zb_v");
        micro_batches = 2 * pp;
    } else if (s->dual) {
        add(s, "schedule=dualpipe");
        micro_batches = 2 * pp + 2 * below(s, 3);
    } else if (pp > 1) {
        add(s, alone[kind]);
        micro_batches = pp + below(s, 6);
    }
    add_number(s, "micro_batches", micro_batches);
}

static void choose_plan(scene *s)
{
    const uint32_t ranks = 16u << below(s, 2);
    const uint32_t tp = 1u << below(s, 3), cp = 1u << below(s, 2), pp = 1u << below(s, 3);
    const uint32_t dp = ranks / tp / cp / pp > 0 ? ranks / tp / cp / pp : 1;
    const bool moe = below(s, 3) == 0;
    s->model = world_model(&s->w, moe ? "mixtral-8x7b" : "llama3.2-1b");
    add(s, "layers=8,seq=512");
    add_number(s, "tp", tp);
    add_number(s, "cp", cp);
    add_number(s, "pp", pp);
    add_number(s, "dp", dp);
    if (moe && dp % 2 == 0)
        add(s, ONE_OF(s, "ep=2", "ep=2,overlap_ep=on", "ep=2,etp=1"));
    choose_pipeline(s, pp);
    add(s, ONE_OF(s, "", "zero=1", "zero=2", "zero=3", "zero=3,prefetch=3", "zero=3,reshard=off"));
    add(s, ONE_OF(s, "", "recompute=full", "recompute=selective", "recompute_layers=1"));
    add(s, ONE_OF(s, "", "overlap_dp=off", "overlap_pp=off", "overlap_tp=on", "sp=off"));
    add(s, ONE_OF(s, "", "cp_kind=all_gather", "precision=fp8", "fusion=off", "flash=off",
                  "offload=activations", "offload=optimizer", "graphs=on"));
    add(s, ONE_OF(s, "", "order=dp-tp-pp-cp", "order=pp-dp-cp-tp"));
}

/* Some plans cannot be, and say so. */
static bool can_be(scene *s)
{
    orr_outcome o;
    const orr_plan plan = world_plan(&s->w, s->plan);
    const orr_status status =
        orr_outcome_of(s->model, &plan, s->cluster, &s->options, s->w.arena, &o, &s->w.err);
    if (status == ORR_OK)
        orr_outcome_free(&o);
    else if (status != ORR_UNSUPPORTED && status != ORR_INVALID)
        seed_fail(s->seed, "%.240s: %.300s", s->plan, s->w.err.text);
    return status == ORR_OK;
}

static bool open_scene(scene *s, uint64_t seed)
{
    memset(s, 0, sizeof *s);
    world_open(&s->w);
    s->seed = seed;
    s->random = orr_random_of(seed, 0);
    s->cluster = world_cluster(&s->w, "dgx_h100_pod");
    s->plain = world_plain(&s->w, s->cluster);
    choose_plan(s);
    orr_job_options_init(&s->options);
    s->options.calibration = &s->plain;
    s->options.detail = ORR_DETAIL_CHUNK;
    return can_be(s);
}

static orr_outcome outcome(scene *s)
{
    orr_plan plan;
    orr_outcome o;
    if (orr_plan_parse(s->plan, &plan, &s->w.err) != ORR_OK ||
        orr_outcome_of(s->model, &plan, s->cluster, &s->options, s->w.arena, &o, &s->w.err) !=
            ORR_OK)
        seed_fail(s->seed, "%.240s: %.300s", s->plan, s->w.err.text);
    if (waterfall_sum(&o) != o.step_ns)
        seed_fail(s->seed, "%s: the waterfall does not add up", s->plan);
    for (int part = 0; part < ORR_WATERFALLS; part++)
        if (o.waterfall_ns[part] < 0)
            seed_fail(s->seed, "%s: %s takes %lld ns", s->plan,
                      orr_waterfall_name((orr_waterfall)part), (long long)o.waterfall_ns[part]);
    return o;
}

static int64_t step_ns(scene *s)
{
    orr_outcome o = outcome(s);
    const int64_t ns = o.step_ns;
    orr_outcome_free(&o);
    return ns;
}

static void for_all(void (*check)(scene *s), uint64_t n)
{
    const seed_range range = seeds(n);
    uint64_t were = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene s;
        if (open_scene(&s, seed)) {
            check(&s);
            were++;
        }
        world_close(&s.w);
    }
    assert_true(range.end - range.begin == 1 || were > n * 3 / 4);
}

static void check_details(scene *s)
{
    int64_t ns[3];
    for (int detail = 0; detail < 3; detail++) {
        s->options.detail = (uint8_t)detail;
        ns[detail] = step_ns(s);
    }
    /* Of two turns at once the order of operators depends on when the others' transfers end. */
    const bool pairs = s->dual || strstr(s->plan, "overlap_ep=on") != NULL;
    const int64_t most = pairs ? ns[0] / 50 : 0;
    if (ns[1] != ns[0] || ns[2] > ns[0] + most || ns[2] < ns[0] - most)
        seed_fail(s->seed, "%s: %lld as chunks, %lld as layers, %lld as operators", s->plan,
                  (long long)ns[0], (long long)ns[1], (long long)ns[2]);
}

static void the_step_is_the_same_in_all_details(void **state)
{
    (void)state;
    for_all(check_details, SEEDS);
}

static void check_folds(scene *s)
{
    s->plain.compute_slowdown = 1.07;
    const int64_t folded = step_ns(s);
    s->options.threads = 3;
    const int64_t threads = step_ns(s);
    s->options.fold = false;
    const int64_t each = step_ns(s);
    if (folded != threads || folded != each)
        seed_fail(s->seed, "%s: %lld folded, %lld with threads, %lld each", s->plan,
                  (long long)folded, (long long)threads, (long long)each);
}

static void the_step_is_the_same_folded(void **state)
{
    (void)state;
    for_all(check_folds, SEEDS);
}

/* All levels so many times as fast, each so much closer. */
static orr_cluster faster(const scene *s, orr_level *levels, double times)
{
    orr_cluster cluster = *s->cluster;
    for (uint32_t l = 0; l < cluster.n_levels; l++) {
        levels[l] = cluster.levels[l];
        levels[l].bytes_per_s.value *= times;
        levels[l].latency_ns.value /= times;
    }
    cluster.levels = levels;
    return cluster;
}

static void check_bandwidth(scene *s)
{
    orr_level levels[ORR_LEVELS_MAX];
    const int64_t before = step_ns(s);
    const orr_cluster twice = faster(s, levels, 2);
    s->cluster = &twice;
    const int64_t after = step_ns(s);
    if (after > before + (s->dual ? before / 50 : 0))
        seed_fail(s->seed, "%s: %lld ns, with twice the bandwidth %lld", s->plan, (long long)before,
                  (long long)after);
}

static void bandwidth_never_hurts(void **state)
{
    (void)state;
    for_all(check_bandwidth, SEEDS);
}

/* What is left of a transfer is what the innermost level's hops take, which no cluster tells. */
static void check_free_network(scene *s)
{
    orr_level levels[ORR_LEVELS_MAX];
    const orr_cluster free_of_cost = faster(s, levels, 1e9);
    s->cluster = &free_of_cost;
    s->plain.n_links = 0;
    s->plain.scale_up_ns = s->plain.scale_out_ns = s->plain.collective_ns = 0;
    orr_outcome o = outcome(s);
    static const orr_waterfall parts[] = {ORR_WATERFALL_TP, ORR_WATERFALL_CP, ORR_WATERFALL_EP,
                                          ORR_WATERFALL_PP, ORR_WATERFALL_DP};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (o.waterfall_ns[parts[i]] > o.step_ns / 10)
            seed_fail(s->seed, "%s: %s take %lld of %lld ns", s->plan, orr_waterfall_name(parts[i]),
                      (long long)o.waterfall_ns[parts[i]], (long long)o.step_ns);
    orr_outcome_free(&o);
}

static void a_free_network_is_not_exposed(void **state)
{
    (void)state;
    for_all(check_free_network, SEEDS / 2);
}

static uint32_t n_longer; /* seeds with which the straggler showed */

static void check_straggler(scene *s)
{
    const int64_t before = step_ns(s);
    const orr_heterogeneous_ranks heterogeneous = {
        .first = below(s, 16), .count = 1, .slowdown = 1.4};
    s->options.heterogeneous = &heterogeneous;
    s->options.n_heterogeneous = 1;
    const int64_t after = step_ns(s);
    if (after < before)
        seed_fail(s->seed, "%s: %lld ns, with a straggler %lld", s->plan, (long long)before,
                  (long long)after);
    n_longer += after > before;
}

static void a_straggler_never_helps(void **state)
{
    (void)state;
    n_longer = 0;
    for_all(check_straggler, SEEDS);
    assert_true(n_longer > SEEDS / 2 || getenv("ORRERY_SEED") != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_is_the_same_in_all_details),
        cmocka_unit_test(the_step_is_the_same_folded),
        cmocka_unit_test(bandwidth_never_hurts),
        cmocka_unit_test(a_free_network_is_not_exposed),
        cmocka_unit_test(a_straggler_never_helps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
