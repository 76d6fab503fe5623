/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/outcome/catalog_jobs.h"
#include "support/seeds.h"
#include "support/random_plans.h"

#include <stdio.h>
#include <stdlib.h>

#include "estimate/estimate.h"
#include "explore/explore.h"

/* What closed forms promise, beside the simulation, for random plans of dense and sparse models,
 * small and large, in all schedules and ZeRO stages, in one building and over several, on devices
 * of one kind and of several:
 *
 *   - bound <= simulated step, without exception;
 *   - order-free bound <= simulated step, in the plan's layout and in any, and floor of the modules
 *     <= simulated step;
 *   - the same of the bound of degrees with what memory forces, on devices that have just the
 * memory that the plan needs.
 *
 * Tightness is told, and so is how far the estimate is off. */
enum { SEEDS = 400, ROOM = 4 * SEEDS };

typedef struct job {
    const char *model, *cluster;
    uint32_t most_ranks;
} job;
static const job JOBS[] = {
    {"llama3.1-405b", "h100-24k", 16384},       {"llama3.2-1b", "dgx_h100_pod", 512},
    {"mixtral-8x7b", "h100-24k", 8192},         {"deepseek-v3", "h100-24k", 8192},
    {"llama3.1-70b", "three_buildings", 98304}, {"llama3.1-8b", "two_regions", 79872},
    {"llama3.1-70b", "mixed_buildings", 43008}, {"mixtral-8x7b", "gcp_a100_two_regions", 512},
    {"deepseek-v3", "three_buildings", 98304},  {"mixtral-8x7b", "h800_pod", 2048},
    {"mixtral-8x7b", "mixed_buildings", 43008},
};
enum { JOBS_N = sizeof JOBS / sizeof *JOBS };

typedef struct scene {
    plan_world w;
    orr_random random;
    const orr_model *model[JOBS_N];
    const orr_cluster *cluster[JOBS_N];
    orr_estimator *estimator[JOBS_N];
    orr_estimator *flat[JOBS_N];         /* on the flat cluster; NULL: devices of several kinds */
    double tight[2][ROOM], off[2][ROOM]; /* in one building; over several */
    uint32_t n[2];
    double order_free_ns; /* of the plan at hand */
    uint32_t forced;      /* plans of which memory raises the bound */
} scene;

/* The relaxed cluster of which a search takes bounds that hold for every layout. */
static void open_flat(scene *s, int i)
{
    static orr_space space[JOBS_N];
    orr_explore_options options;
    orr_explore_options_init(&options);
    options.fix = "batch=4096";
    world_must(
        &s->w,
        orr_space_make(s->model[i], s->cluster[i], &options, s->w.arena, &space[i], &s->w.err),
        JOBS[i].cluster);
    if (space[i].uniform_devices)
        world_must(&s->w,
                   orr_estimator_new(s->model[i], &space[i].flat, NULL, &s->flat[i], &s->w.err),
                   JOBS[i].model);
}

static void open_scene(scene *s)
{
    memset(s, 0, sizeof *s);
    world_open(&s->w);
    for (int i = 0; i < JOBS_N; i++) {
        s->model[i] = world_model(&s->w, JOBS[i].model);
        s->cluster[i] = world_cluster(&s->w, JOBS[i].cluster);
        world_must(&s->w,
                   orr_estimator_new(s->model[i], s->cluster[i], NULL, &s->estimator[i], &s->w.err),
                   JOBS[i].model);
        open_flat(s, i);
    }
}

static void close_scene(scene *s)
{
    for (int i = 0; i < JOBS_N; i++) {
        orr_estimator_free(s->estimator[i]);
        orr_estimator_free(s->flat[i]);
    }
    world_close(&s->w);
}

/* --- random plans ----------------------------------------------------------------------------- */

static void choose_degrees(scene *s, const job *j, bool experts, orr_plan *p)
{
    p->tp = ONE_OF(s, 1, 2, 4, 8, 8);
    p->pp = ONE_OF(s, 1, 2, 4, 6, 8, 8, 16);
    p->cp = ONE_OF(s, 1, 1, 1, 2, 4);
    p->dp = ONE_OF(s, 1, 2, 4, 16, 32, 64, 128, 256);
    p->ep = experts ? ONE_OF(s, 1, 2, 4, 8, 8) : 0;
    p->etp = experts ? ONE_OF(s, 0, 1, 1) : 0;
    while (p->dp > 1 && (uint64_t)p->tp * p->pp * p->cp * p->dp > j->most_ranks)
        p->dp = (p->dp + 1) / 2;
    p->micro_batch = ONE_OF(s, 1, 1, 2, 4);
    p->micro_batches = ONE_OF(s, 2, 6, 8, 16, 24, 32, 64, 100);
    p->seq = ONE_OF(s, 0, 0, 2048, 4096);
}

static void choose_schedule(scene *s, orr_plan *p)
{
    p->schedule = (uint8_t)ONE_OF(s, 0, 0, 0, ORR_SCHEDULE_GPIPE, ORR_SCHEDULE_INTERLEAVED,
                                  ORR_SCHEDULE_INTERLEAVED, ORR_SCHEDULE_ZB_H1, ORR_SCHEDULE_ZB_V,
                                  ORR_SCHEDULE_DUALPIPE);
    if (p->pp == 1)
        p->schedule = ORR_SCHEDULE_UNKNOWN;
    if (p->schedule == ORR_SCHEDULE_INTERLEAVED) {
        p->vp = ONE_OF(s, 2, 3, 4);
        p->micro_batches = p->pp * ONE_OF(s, 1, 2, 4, 9);
    }
    if (p->schedule == ORR_SCHEDULE_DUALPIPE)
        p->micro_batches = 2 * (p->pp + ONE_OF(s, 0, 3, 8, 30));
}

/* Replicas or stages of each site. */
static void choose_sites(scene *s, const orr_cluster *cluster, orr_plan *p)
{
    const uint32_t each = ONE_OF(s, 1, 2, 4);
    uint32_t sum = 0;
    p->cross = (uint8_t)ONE_OF(s, ORR_CROSS_DP, ORR_CROSS_PP);
    p->shards = 0;
    for (uint32_t i = 0; i < cluster->n_sites; i++)
        sum += p->sites[i] =
            (uint16_t)((p->cross == ORR_CROSS_DP ? each : 1) * ONE_OF(s, 0, 1, 2, 3, 4));
    if (p->cross == ORR_CROSS_DP) {
        p->dp = sum;
        p->dp_outer = ONE_OF(s, 0, 0, 1) == 1 ? sum / each : 0;
        p->local_steps = p->dp_outer > 1 ? ONE_OF(s, 0, 0, 8) : 0;
    } else {
        p->dp_outer = sum % 2 == 0 ? ONE_OF(s, 0, 1, 2) : 0;
        p->pp = p->dp_outer > 1 ? sum / p->dp_outer : sum;
        p->dp *= p->dp_outer > 1 ? p->dp_outer : 1;
    }
    p->wire_dp = (uint8_t)ONE_OF(s, 0, 0, ORR_RDMA_QP4, ORR_RDMA_SPRAY, ORR_RDMA_BOUNDED);
    p->wire_pp = (uint8_t)ONE_OF(s, 0, 0, ORR_RDMA_QP16);
    p->dp_algorithm = (uint8_t)ONE_OF(s, 0, 0, ORR_ALGORITHM_HIERARCHICAL, ORR_ALGORITHM_RING);
    p->dp_chunks = p->dp_algorithm == ORR_ALGORITHM_HIERARCHICAL ? ONE_OF(s, 0, 4, 16) : 0;
    p->compress = (uint8_t)ONE_OF(s, 0, 0, 0, ORR_COMPRESS_BF16, ORR_COMPRESS_FP8);
}

/* Half of the stages with a layer less. */
static void choose_sections(scene *s, const orr_model *model, orr_plan *p)
{
    const uint32_t half = p->pp / 2, each = p->pp > 0 ? model->layers / p->pp : 0;
    if (half == 0 || each < 5 || p->schedule == ORR_SCHEDULE_DUALPIPE || ONE_OF(s, 0, 0, 1) == 0)
        return;
    const uint32_t rest = model->layers - (each - 1) * half;
    if (rest % (p->pp - half) != 0)
        return;
    p->section_stages[0] = (uint16_t)half;
    p->section_layers[0] = (uint16_t)(each - 1);
    p->section_stages[1] = (uint16_t)(p->pp - half);
    p->section_layers[1] = (uint16_t)(rest / (p->pp - half));
}

/* Slices are neighbours, as in every layout that is searched. */
static void choose_order(scene *s, orr_plan *p)
{
    static const uint8_t OTHERS[][3] = {{ORR_AXIS_CP, ORR_AXIS_DP, ORR_AXIS_PP},
                                        {ORR_AXIS_PP, ORR_AXIS_CP, ORR_AXIS_DP},
                                        {ORR_AXIS_DP, ORR_AXIS_PP, ORR_AXIS_CP}};
    const uint32_t which = ONE_OF(s, 0, 0, 1, 2);
    p->order[0] = ORR_AXIS_TP + 1;
    for (int k = 0; k < 3; k++)
        p->order[k + 1] = (uint8_t)(OTHERS[which][k] + 1);
}

static orr_plan random_plan(scene *s, int i)
{
    orr_plan p = {0};
    choose_degrees(s, &JOBS[i], s->model[i]->moe.experts > 0, &p);
    choose_switches(&s->random, &p);
    if (p.ep > 1)
        p.overlap_ep = (uint8_t)ONE_OF(s, 0, ORR_SWITCH_ON);
    if (s->cluster[i]->n_sites > 0)
        choose_sites(s, s->cluster[i], &p);
    else
        choose_order(s, &p);
    choose_schedule(s, &p);
    choose_sections(s, s->model[i], &p);
    return p;
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* The plan without what its degrees leave open. */
static orr_plan only_degrees(const orr_plan *plan)
{
    orr_plan p = *plan;
    p.zero = p.shards = p.prefetch = p.bucket_bytes = p.dp_chunks = 0;
    p.reshard = p.offload = p.gradients = p.dp_algorithm = p.compress = 0;
    p.recompute_layers = p.recompute == ORR_RECOMPUTE_BLOCK;
    return p;
}

/* The bounds of all layouts: of the plan without its own; with any memory. */
static double anywhere_bound(scene *s, int i, const orr_plan *plan, const char *text)
{
    orr_plan p = orr_plan_with_defaults(plan);
    double ns;
    if (s->flat[i] == NULL || orr_plan_has_sections(plan))
        return 0;
    memset(p.sites, 0, sizeof p.sites);
    memset(p.order, 0, sizeof p.order);
    p.cross = ORR_CROSS_UNKNOWN;
    p.dp_outer = p.local_steps = p.shards = 0;
    world_must(&s->w, orr_estimate_order_free_bound(s->flat[i], &p, true, false, &ns, &s->w.err),
               text);
    const orr_degrees_scope scope = {.zeros = 15,
                                     .gradients = ORR_PRECISION_BF16,
                                     .slack = 1e9,
                                     .other_sums = plan->compress > ORR_COMPRESS_NONE ||
                                                   plan->local_steps > 1 || plan->dp_chunks > 1};
    double forced_ns;
    p = only_degrees(&p);
    world_must(&s->w,
               orr_estimate_degrees_bound(s->flat[i], &p, &scope, true, &forced_ns, &s->w.err),
               text);
    return fmax(ns, forced_ns);
}

static void hold(uint64_t seed, int i, const char *text, const char *what, double bound_ns,
                 int64_t step_ns)
{
    if (bound_ns > (double)step_ns)
        seed_fail(seed, "%s, %s: %s of %.0f ns, simulated %lld (+%.4f %%)", JOBS[i].model, text,
                  what, bound_ns, (long long)step_ns, 100 * (bound_ns / (double)step_ns - 1));
}

/* The floor of all plans with its modules and number of stages on as many devices. */
static double refined_floor(scene *s, orr_estimator *e, const orr_plan *plan,
                            const orr_degrees_scope *degrees, uint32_t n_devices, const char *text)
{
    orr_plan family = orr_plan_with_defaults(plan);
    const uint32_t stages[] = {family.pp};
    const orr_family_scope scope = {.n_devices = n_devices,
                                    .stages = stages,
                                    .n_stages = 1,
                                    .schedules = (1U << ORR_SCHEDULES) - 1,
                                    .degrees = *degrees};
    double ns;
    if (orr_plan_has_sections(plan))
        return 0;
    family = only_degrees(&family);
    family.pp = family.dp = family.vp = family.group = family.micro_batches = 0;
    family.schedule = ORR_SCHEDULE_UNKNOWN;
    memset(family.order, 0, sizeof family.order);
    world_must(&s->w, orr_estimate_refined_family_bound(e, &family, &scope, &ns, &s->w.err), text);
    return ns;
}

/* The cluster with devices that have so much usable memory. */
typedef struct tight_cluster {
    orr_cluster cluster;
    orr_device device;
} tight_cluster;
static void open_tight(const orr_cluster *from, int64_t usable_bytes, tight_cluster *ret)
{
    ret->cluster = *from;
    ret->device = *from->device;
    ret->device.memory_bytes.value += (double)(usable_bytes - orr_usable_bytes(from->device));
    ret->cluster.device = &ret->device;
}

static void hold_tight(scene *s, uint64_t seed, int i, const orr_plan *plan, const orr_outcome *o,
                       int64_t estimated_bytes, const char *text)
{
    const orr_stage_memory *worst = &o->memory.stages[o->memory.worst];
    const bool both = plan->offload == ORR_OFFLOAD_BOTH;
    const orr_degrees_scope scope = {
        .zeros = 15, .gradients = ORR_PRECISION_BF16, .offloads_activations = both, .slack = 0};
    const orr_plan degrees = only_degrees(plan);
    tight_cluster tight;
    orr_estimator *e;
    double ns;
    if (s->cluster[i]->n_sites > 0)
        return;
    /* The search looks at plans that have room by the estimate, and so does the bound. */
    open_tight(s->cluster[i],
               estimated_bytes > worst->peak_bytes ? estimated_bytes : worst->peak_bytes, &tight);
    world_must(&s->w, orr_estimator_new(s->model[i], &tight.cluster, NULL, &e, &s->w.err), text);
    world_must(&s->w, orr_estimate_degrees_bound(e, &degrees, &scope, false, &ns, &s->w.err), text);
    hold(seed, i, text, "bound of degrees", ns, o->step_ns);
    hold(seed, i, text, "refined floor", refined_floor(s, e, plan, &scope, o->n_ranks, text),
         o->step_ns);
    orr_estimator_free(e);
    s->forced += ns > s->order_free_ns * 1.001;
}

static void hold_beside(scene *s, uint64_t seed, int i, const orr_plan *plan, const orr_outcome *o,
                        const char *text)
{
    orr_plan whole = orr_plan_with_defaults(plan);
    orr_estimate e;
    double quick_ns, least_ns, floor_ns;
    const int over = s->cluster[i]->n_sites > 0;
    if (orr_estimate_of(s->estimator[i], plan, &e, &s->w.err) == ORR_UNSUPPORTED)
        return;
    world_must(&s->w, orr_estimate_of(s->estimator[i], plan, &e, &s->w.err), text);
    world_must(
        &s->w,
        orr_estimate_order_free_bound(s->estimator[i], plan, false, false, &quick_ns, &s->w.err),
        text);
    world_must(
        &s->w,
        orr_estimate_order_free_bound(s->estimator[i], plan, false, true, &least_ns, &s->w.err),
        text);
    world_must(&s->w,
               orr_estimate_family_bound(s->estimator[i], &whole, o->n_ranks, &floor_ns, &s->w.err),
               text);
    hold(seed, i, text, "bound", (double)e.bound_ns, o->step_ns);
    hold(seed, i, text, "order-free bound", quick_ns, o->step_ns);
    hold(seed, i, text, "bound of all layouts", anywhere_bound(s, i, plan, text), o->step_ns);
    hold(seed, i, text, "floor", floor_ns, o->step_ns);
    hold(seed, i, text, "order-free bound without its pairs", least_ns, (int64_t)(quick_ns + 1));
    s->order_free_ns = quick_ns;
    hold_tight(s, seed, i, plan, o, e.peak_bytes, text);
    assert_true(e.bound_ns > 0);
    s->tight[over][s->n[over]] = (double)e.bound_ns / (double)o->step_ns;
    s->off[over][s->n[over]++] = fabs((double)e.step_ns / (double)o->step_ns - 1);
}

static bool try_plan(scene *s, uint64_t seed)
{
    const int i = (int)(seed % JOBS_N);
    const orr_plan plan = random_plan(s, i);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_outcome o;
    if (orr_outcome_of(s->model[i], &plan, s->cluster[i], NULL, arena, &o, &s->w.err) != ORR_OK) {
        orr_arena_free(arena);
        return false; /* it cannot be */
    }
    hold_beside(s, seed, i, &plan, &o, orr_plan_text(&plan, arena));
    orr_outcome_free(&o);
    orr_arena_free(arena);
    return true;
}

/* --- monotonicity ------------------------------------------------------------------------------
 */

/* All bounds of a plan; 0 where there is none. */
enum { OF_PLAN, ORDER_FREE, OF_DEGREES, OF_FAMILY, REFINED, BOUNDS };
static void find_bounds(scene *s, int i, const orr_cluster *cluster, const orr_plan *plan,
                        const char *text, double ret[BOUNDS])
{
    const orr_degrees_scope scope = {.zeros = 15, .gradients = ORR_PRECISION_BF16};
    const orr_plan degrees = only_degrees(plan), whole = orr_plan_with_defaults(plan);
    orr_estimator *e;
    orr_estimate estimate;
    world_must(&s->w, orr_estimator_new(s->model[i], cluster, NULL, &e, &s->w.err), text);
    world_must(&s->w, orr_estimate_of(e, plan, &estimate, &s->w.err), text);
    ret[OF_PLAN] = (double)estimate.bound_ns;
    world_must(&s->w,
               orr_estimate_order_free_bound(e, plan, false, false, &ret[ORDER_FREE], &s->w.err),
               text);
    world_must(&s->w,
               orr_estimate_degrees_bound(e, &degrees, &scope, false, &ret[OF_DEGREES], &s->w.err),
               text);
    world_must(&s->w,
               orr_estimate_family_bound(e, &whole, cluster->n_devices, &ret[OF_FAMILY], &s->w.err),
               text);
    ret[REFINED] = refined_floor(s, e, plan, &scope, (uint32_t)orr_plan_ranks(&whole), text);
    orr_estimator_free(e);
}

static void hold_order(uint64_t seed, const char *what, const char *text, const double less[BOUNDS],
                       const double more[BOUNDS])
{
    for (int k = 0; k < BOUNDS; k++)
        if (less[k] > more[k] * (1 + 1e-7) + 2)
            seed_fail(seed, "%s, %s: bound %d of %.0f ns, of the better machine %.0f", what, text,
                      k, more[k], less[k]);
}

/* All levels with half of their bandwidth. */
static orr_cluster with_slow_links(const orr_cluster *from, orr_level levels[ORR_LEVELS_MAX])
{
    orr_cluster slow = *from;
    memcpy(levels, from->levels, from->n_levels * sizeof *levels);
    for (uint32_t l = 0; l < from->n_levels; l++)
        levels[l].bytes_per_s.value /= 2;
    slow.levels = levels;
    return slow;
}

static void better_machines_have_lower_bounds(void **state)
{
    (void)state;
    enum { MONOTONE_SEEDS = 80 };
    static scene s;
    const seed_range range = seeds(MONOTONE_SEEDS);
    uint32_t forced = 0;
    open_scene(&s);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        const int i = (int)(seed % JOBS_N);
        orr_level levels[ORR_LEVELS_MAX];
        double as_is[BOUNDS], slow[BOUNDS], small[BOUNDS];
        orr_estimate e;
        tight_cluster tight;
        s.random = orr_random_of(seed, 78);
        const orr_plan plan = random_plan(&s, i);
        if (s.cluster[i]->n_sites > 0 ||
            orr_estimate_of(s.estimator[i], &plan, &e, &s.w.err) != ORR_OK)
            continue;
        const char *text = orr_plan_text(&plan, s.w.arena);
        const orr_cluster slower = with_slow_links(s.cluster[i], levels);
        open_tight(s.cluster[i], e.peak_bytes, &tight);
        find_bounds(&s, i, s.cluster[i], &plan, text, as_is);
        find_bounds(&s, i, &slower, &plan, text, slow);
        find_bounds(&s, i, &tight.cluster, &plan, text, small);
        hold_order(seed, "slower links", text, as_is, slow);
        const bool less = e.peak_bytes < e.usable_bytes;
        hold_order(seed, less ? "less memory" : "more memory", text, less ? as_is : small,
                   less ? small : as_is);
        forced += small[OF_DEGREES] != as_is[OF_DEGREES];
    }
    if (range.end - range.begin == MONOTONE_SEEDS)
        assert_true(forced > 2);
    close_scene(&s);
}

/* --- tightness -------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void tell(scene *s, int over)
{
    const uint32_t n = s->n[over];
    double *tight = s->tight[over], *off = s->off[over];
    qsort(tight, n, sizeof *tight, by_value);
    qsort(off, n, sizeof *off, by_value);
    if (n > 0)
        print_message(
            "%s: %u plans; bound over step: median %.4f, nine of ten above %.4f, 95 %% above %.4f, least "
            "%.4f; estimate off by %.4f in the median, %.4f in nine of ten\n",
            over ? "several sites" : "one building", n, tight[n / 2], tight[n / 10], tight[n / 20],
            tight[0], off[n / 2], off[n * 9 / 10]);
}

static void nothing_is_faster(void **state)
{
    (void)state;
    static scene s;
    const seed_range range = seeds(SEEDS);
    open_scene(&s);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        s.random = orr_random_of(seed, 77);
        for (int tries = 0; tries < 8 && !try_plan(&s, seed); tries++)
            ;
    }
    tell(&s, 0);
    tell(&s, 1);
    print_message("memory raises the bound of the degrees of %u plans\n", s.forced);
    if (range.end - range.begin == SEEDS) {
        assert_true(s.forced >= SEEDS / 80);
        for (int over = 0; over < 2; over++) { /* as found: what a search can rest on */
            assert_true(s.n[over] >= SEEDS / 4);
            assert_true(s.tight[over][s.n[over] / 2] > 0.985);
            assert_true(s.off[over][s.n[over] / 2] < 0.02);
        }
    }
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_faster),
        cmocka_unit_test(better_machines_have_lower_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
