/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/outcome/catalog_jobs.h"
#include "support/seeds.h"
#include "support/random_plans.h"

#include <stdio.h>
#include <stdlib.h>

#include "estimate/estimate.h"

/* What closed forms promise, beside the simulation, for random plans of dense and sparse models,
 * small and large, in all schedules and ZeRO stages, in one building and over several, on devices
 * of one kind and of several:
 *
 *   - bound <= simulated step, without exception;
 *   - quick bound <= simulated step, and floor of the modules <= simulated step.
 *
 * Tightness is told, and so is how far the estimate is off. */
enum { SEEDS = 160, ROOM = 4 * SEEDS };

typedef struct job {
    const char *model, *cluster;
    uint32_t most_ranks;
} job;
static const job JOBS[] = {
    {"llama3.1-405b", "h100-24k", 16384},       {"llama3.2-1b", "dgx_h100_pod", 512},
    {"mixtral-8x7b", "h100-24k", 8192},         {"deepseek-v3", "h100-24k", 8192},
    {"llama3.1-70b", "three_buildings", 98304}, {"llama3.1-8b", "two_regions", 79872},
    {"llama3.1-70b", "mixed_buildings", 43008}, {"mixtral-8x7b", "gcp_a100_two_regions", 512},
};
enum { JOBS_N = sizeof JOBS / sizeof *JOBS };

typedef struct scene {
    plan_world w;
    orr_random random;
    const orr_model *model[JOBS_N];
    const orr_cluster *cluster[JOBS_N];
    orr_estimator *estimator[JOBS_N];
    double tight[2][ROOM], off[2][ROOM]; /* in one building; over several */
    uint32_t n[2];
} scene;

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
    }
}

static void close_scene(scene *s)
{
    for (int i = 0; i < JOBS_N; i++)
        orr_estimator_free(s->estimator[i]);
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

static orr_plan random_plan(scene *s, int i)
{
    orr_plan p = {0};
    choose_degrees(s, &JOBS[i], s->model[i]->moe.experts > 0, &p);
    choose_switches(&s->random, &p);
    if (s->cluster[i]->n_sites > 0)
        choose_sites(s, s->cluster[i], &p);
    choose_schedule(s, &p);
    choose_sections(s, s->model[i], &p);
    return p;
}

/* --- bounds ----------------------------------------------------------------------------------- */

static void hold_beside(scene *s, uint64_t seed, int i, const orr_plan *plan, const orr_outcome *o,
                        const char *text)
{
    orr_plan whole = orr_plan_with_defaults(plan);
    orr_estimate e;
    double quick_ns, floor_ns;
    const int over = s->cluster[i]->n_sites > 0;
    if (orr_estimate_of(s->estimator[i], plan, &e, &s->w.err) == ORR_UNSUPPORTED)
        return;
    world_must(&s->w, orr_estimate_of(s->estimator[i], plan, &e, &s->w.err), text);
    world_must(&s->w,
               orr_estimate_order_free_bound(s->estimator[i], plan, false, &quick_ns, &s->w.err),
               text);
    world_must(&s->w,
               orr_estimate_family_bound(s->estimator[i], &whole, o->n_ranks, &floor_ns, &s->w.err),
               text);
    if (e.bound_ns > o->step_ns)
        seed_fail(seed, "%s, %s: bound of %lld ns, simulated %lld (+%.4f %%)", JOBS[i].model, text,
                  (long long)e.bound_ns, (long long)o->step_ns,
                  100 * ((double)e.bound_ns / (double)o->step_ns - 1));
    if (quick_ns > (double)o->step_ns || floor_ns > (double)o->step_ns)
        seed_fail(seed, "%s, %s: quick bound %.0f ns, floor %.0f, simulated %lld", JOBS[i].model,
                  text, quick_ns, floor_ns, (long long)o->step_ns);
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
    if (range.end - range.begin == SEEDS) {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
