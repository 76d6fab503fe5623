/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "model/memory/memory.h"
#include "explore/explore.h"
#include "support/seeds.h"

/* Random small searches: model, machine, what is fixed, bounded and left out, and how much memory
 * there is. All plans of the space are simulated, one after another; a search to a gap of 0 finds
 * the same optimum, to the ns. ORRERY_SEEDS=1000 goes through so many. */
enum { SEEDS = 250, PLANS = 400, MANY_PLANS = 20000, MANY_EVERY = 100 };
/* Seeds that found something wrong once. */
static const uint64_t WERE_WRONG[] = {405, 957};
enum { N_WRONG = sizeof WERE_WRONG / sizeof *WERE_WRONG };

typedef struct scene {
    uint64_t seed;
    orr_random random;
    orr_arena *arena;
    const orr_catalog *catalog;
    orr_model model;
    orr_cluster cluster;
    orr_device device;
    orr_site sites[ORR_SITES_MAX];
    bool mixed;
    orr_explore_options options;
    char fix[256], limit[64], exclude[64];
    orr_error err;
} scene;

static uint32_t between(scene *c, uint32_t least, uint32_t most)
{
    return least + (uint32_t)orr_random_below(&c->random, most - least + 1);
}

static void must(const scene *c, orr_status status, const char *what)
{
    if (status != ORR_OK)
        seed_fail(c->seed, "%.60s: %.200s (%s)", what, c->err.text, c->fix);
}

/* --- what is searched ------------------------------------------------------------------------ */

static void choose_model(scene *c)
{
    const uint32_t heads = 4U << between(c, 0, 1);
    c->model = (orr_model){.name = "small",
                           .title = "small",
                           .family = "llama",
                           .kind = ORR_MODEL_TRANSFORMER,
                           .layers = between(c, 2, 9),
                           .hidden = 64 * heads,
                           .ffn = 128 * heads,
                           .heads = heads,
                           .kv_heads = heads / 2,
                           .head_dim = 64,
                           .vocab = 1000 * between(c, 1, 60),
                           .context = 2048,
                           .rope_theta = 1e4,
                           .position = ORR_POSITION_ROTARY,
                           .norm_epsilon = 1e-5,
                           .final_norm = true,
                           .moe = {.every = 1},
                           .source = "small"};
    if (between(c, 0, 2) == 0)
        c->model.moe = (orr_moe){.experts = 4U << between(c, 0, 1),
                                 .top_k = 2,
                                 .expert_ffn = 64 * heads,
                                 .first_dense = between(c, 0, 1),
                                 .every = 1};
}

/* A few devices of each of several sites; of two kinds now and then. */
static void choose_sites(scene *c)
{
    static const char *const NAMES[] = {"three_buildings", "two_regions", "mixed_buildings"};
    const char *name = NAMES[between(c, 0, 2)];
    const orr_cluster *all, *part;
    uint32_t devices[ORR_SITES_MAX] = {0};
    must(c, orr_cluster_load(c->catalog, name, c->arena, &all, &c->err), name);
    const uint32_t first = between(c, 0, all->n_sites - 2);
    for (uint32_t i = 0; i < 3 && first + i < all->n_sites; i++)
        devices[first + i] = i < 2 || between(c, 0, 1) ? between(c, 2, 12) : 0;
    must(c, orr_cluster_select_sites(all, devices, c->arena, &part, &c->err), "place");
    c->cluster = *part;
    c->device = *part->device;
    c->cluster.device = &c->device;
    for (uint32_t i = 0; i < part->n_sites; i++) {
        c->sites[i] = part->sites[i];
        const bool same = strcmp(part->sites[i].device->name, part->device->name) == 0;
        c->mixed |= !same;
        if (same)
            c->sites[i].device = &c->device;
    }
    c->cluster.sites = c->sites;
}

static void choose_cluster(scene *c)
{
    if (c->seed % 4 == 3) {
        choose_sites(c);
        return;
    }
    static const char *const NAMES[] = {"dgx_h100", "dgx_a100", "h100_24k", "h100_24k", "h100_24k"};
    const char *name = NAMES[between(c, 0, 4)];
    const orr_cluster *all, *part;
    must(c, orr_cluster_load(c->catalog, name, c->arena, &all, &c->err), name);
    const uint32_t most = all->n_devices < 64 ? all->n_devices : 64;
    must(c, orr_cluster_resize(all, between(c, 2, most), c->arena, &part, &c->err), "resize");
    c->cluster = *part;
    c->device = *part->device;
    c->cluster.device = &c->device;
    c->options.max_devices = between(c, 0, 2) > 0 ? 0 : between(c, 1, c->cluster.n_devices);
}

static void add_word(char *list, size_t room, const char *word)
{
    const size_t n = strlen(list);
    snprintf(list + n, room - n, "%s%s", n > 0 ? "," : "", word);
}

static void fix_number(scene *c, const char *name, uint32_t value)
{
    char word[64];
    snprintf(word, sizeof word, "%s=%u", name, value);
    add_word(c->fix, sizeof c->fix, word);
}

static void fix_one(scene *c, uint32_t which)
{
    static const char *const SCHEDULES[] = {"1f1b",  "gpipe", "interleaved",
                                            "zb_h1", "zb_v",  "dualpipe"};
    static const char *const RECOMPUTES[] = {"none", "selective", "full", "block"};
    char word[64];
    switch (which) {
    case 0:
        fix_number(c, "tp", 1U << between(c, 0, 2));
        break;
    case 1:
        fix_number(c, "pp", between(c, 1, 4));
        break;
    case 2:
        fix_number(c, "dp", 1U << between(c, 0, 3));
        break;
    case 3:
        fix_number(c, "micro_batch", 1U << between(c, 0, 1));
        break;
    case 4:
        fix_number(c, "zero", between(c, 1, 3));
        break;
    case 5:
        fix_number(c, "cp", between(c, 1, 2));
        break;
    case 6:
        fix_number(c, "vp", between(c, 1, 2));
        break;
    case 7:
        snprintf(word, sizeof word, "schedule=%s", SCHEDULES[between(c, 0, 5)]);
        break;
    case 8:
        snprintf(word, sizeof word, "recompute=%s", RECOMPUTES[between(c, 0, 3)]);
        break;
    case 9:
        snprintf(word, sizeof word, "precision=bf16");
        break;
    case 10:
        snprintf(word, sizeof word, "offload=%s", between(c, 0, 1) ? "none" : "optimizer");
        break;
    case 11:
        snprintf(word, sizeof word, "overlap_tp=%s", between(c, 0, 1) ? "off" : "on");
        break;
    case 12:
        snprintf(word, sizeof word, "overlap_ep=%s", between(c, 0, 1) ? "off" : "on");
        break;
    case 13:
        fix_number(c, "dp_chunks", 16);
        break;
    case 14:
        fix_number(c, "ep", 1U << between(c, 0, 2));
        break;
    case 15:
        fix_number(c, "prefetch", 1U << between(c, 0, 2));
        break;
    case 16:
        fix_number(c, "bucket_bytes", 1000000U << between(c, 0, 5));
        break;
    case 17:
        snprintf(word, sizeof word, "dp_algorithm=%s", between(c, 0, 1) ? "hierarchical" : "ring");
        break;
    default:
        snprintf(word, sizeof word, "order=%s", between(c, 0, 1) ? "tp-cp-dp-pp" : "tp-cp-pp-dp");
        break;
    }
    if (which >= 7 && (which < 13 || which > 16))
        add_word(c->fix, sizeof c->fix, word);
}

static double count_plans(scene *c)
{
    orr_space space;
    orr_families families;
    if (orr_space_make(&c->model, &c->cluster, &c->options, c->arena, &space, &c->err) != ORR_OK)
        return 0;
    must(c, orr_space_families(&space, c->arena, &families, &c->err), "families");
    return orr_space_count(&space, &families) / space.dominated;
}

/* More and more is fixed until the space is small enough to be gone through. */
static void choose_options(scene *c)
{
    enum { FIELDS = 19 };
    const double most = c->seed % MANY_EVERY == MANY_EVERY - 1 ? MANY_PLANS : PLANS;
    uint32_t order[FIELDS];
    for (uint32_t i = 0; i < FIELDS; i++) {
        const uint32_t j = between(c, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
    fix_number(c, "batch", 4 * between(c, 1, 8));
    fix_number(c, "seq", between(c, 0, 1) ? 512 : 2048);
    if (between(c, 0, 3) == 0)
        add_word(c->limit, sizeof c->limit, between(c, 0, 1) ? "pp<=2" : "tp<4");
    if (between(c, 0, 3) == 0)
        add_word(c->exclude, sizeof c->exclude, between(c, 0, 1) ? "gpipe" : "zero=3");
    if (between(c, 0, 3) == 0)
        c->options.allow = "offload";
    for (uint32_t i = 0; i < FIELDS && count_plans(c) > most; i++) {
        const size_t before = strlen(c->fix);
        fix_one(c, order[i]);
        if (count_plans(c) == 0)
            c->fix[before] = '\0';
    }
}

static void begin(scene *c, uint64_t seed)
{
    memset(c, 0, sizeof *c);
    c->seed = seed;
    c->random = orr_random_of(seed, 0);
    c->arena = orr_arena_new(0, 0);
    assert_non_null(c->arena);
    must(c, orr_catalog_open(c->arena, &c->catalog, &c->err), "catalogue");
    orr_explore_options_init(&c->options);
    c->options.fix = c->fix;
    c->options.limit = c->limit;
    c->options.exclude = c->exclude;
    c->options.exact = true;
    c->options.relaxed = true;
    c->options.keep = 1;
    c->options.threads = between(c, 1, 2);
    choose_model(c);
    choose_cluster(c);
    choose_options(c);
}

/* --- all of it, one after another ------------------------------------------------------------ */

typedef struct brute {
    scene *c;
    orr_evaluator *evaluator;
    uint64_t plans, fit;
    double best;
    orr_plan plan;
    int64_t peaks[8]; /* of some of the plans */
} brute;

static orr_status on_leaf(void *ctx, const orr_plan *plan, const orr_memory_options *r,
                          orr_error *err)
{
    brute *b = ctx;
    for (uint32_t again = r->min_recompute; again <= r->max_recompute; again++)
        for (uint32_t i = 0; i < r->n_offloads; i++) {
            const orr_plan p = orr_plan_with_memory_option(plan, again, r->offload[i]);
            orr_explored e;
            const orr_status status = orr_evaluator_simulate(b->evaluator, &p, &e, err);
            if (status == ORR_NO_MEMORY)
                return status;
            b->peaks[b->plans++ % 8] = status == ORR_OK ? e.peak_bytes : 0;
            if (status != ORR_OK || !orr_explored_fits(&e, 0))
                continue;
            b->fit++;
            if (e.value[b->c->options.objective] < b->best) {
                b->best = e.value[b->c->options.objective];
                b->plan = p;
            }
        }
    return ORR_OK;
}

static brute go_through_all(scene *c)
{
    brute b = {.c = c, .best = INFINITY};
    const orr_plan_walk walk = {.leaf = on_leaf, .ctx = &b};
    orr_space space;
    orr_families families;
    if (orr_space_make(&c->model, &c->cluster, &c->options, c->arena, &space, &c->err) != ORR_OK)
        return b;
    must(c, orr_space_families(&space, c->arena, &families, &c->err), "families");
    must(c, orr_evaluator_new(&c->model, &c->cluster, &c->options, &b.evaluator, &c->err),
         "evaluator");
    for (uint32_t i = 0; i < families.n; i++)
        must(c, orr_space_walk(&space, &families.at[i].plan, &walk, &c->err), families.at[i].key);
    orr_evaluator_free(b.evaluator);
    const double counted = orr_space_count(&space, &families) / space.dominated;
    if (counted != (double)b.plans)
        seed_fail(c->seed, "%g plans counted, %llu met", counted, (unsigned long long)b.plans);
    return b;
}

/* So much memory that some of the plans do not fit. */
static void tighten(scene *c, const brute *b)
{
    const double share = 0.8 + 0.05 * between(c, 0, 8);
    const int64_t peak = b->peaks[between(c, 0, 7)];
    const int64_t usable =
        orr_fact_or(&c->device.memory_bytes, 0) > 0 ? (int64_t)((double)peak * share) : 0;
    const int64_t kept = (int64_t)c->device.memory_bytes.value - orr_usable_bytes(&c->device);
    if (peak > 0)
        c->device.memory_bytes.value = (double)(usable + kept);
}

static const char *text_of(scene *c, const orr_plan *plan)
{
    const char *text = orr_plan_text(plan, c->arena);
    return text != NULL ? text : "?";
}

/* What the search could know of a plan that it passed over. */
static const char *known_of(scene *c, const orr_plan *plan)
{
    orr_evaluator *evaluator;
    orr_explored e = {0}, simulated = {0};
    double floor_ns = 0, quick_ns = 0;
    const orr_plan family = {.batch = plan->batch,
                             .seq = plan->seq,
                             .recompute_layers = plan->recompute_layers,
                             .tp = plan->tp,
                             .cp = plan->cp,
                             .ep = plan->ep,
                             .etp = plan->etp,
                             .micro_batch = plan->micro_batch,
                             .precision = plan->precision,
                             .recompute = plan->recompute,
                             .cp_kind = plan->cp_kind,
                             .overlap_tp = plan->overlap_tp,
                             .overlap_ep = plan->overlap_ep,
                             .sp = plan->sp,
                             .flash = plan->flash,
                             .fusion = plan->fusion,
                             .graphs = plan->graphs};
    must(c, orr_evaluator_new(&c->model, &c->cluster, &c->options, &evaluator, &c->err),
         "evaluator");
    if (orr_evaluator_family_bound(evaluator, &family, &floor_ns, &c->err) != ORR_OK)
        floor_ns = NAN;
    must(c, orr_evaluator_order_free_bound(evaluator, plan, false, false, &quick_ns, &c->err),
         "quick");
    must(c, orr_evaluator_estimate(evaluator, plan, &e, &c->err), "estimate");
    must(c, orr_evaluator_simulate(evaluator, plan, &simulated, &c->err), "simulate");
    orr_evaluator_free(evaluator);
    return orr_arena_printf(
        c->arena,
        "floor %.0f quick %.0f bound %lld step %lld; memory estimated %.4f, simulated %.4f",
        floor_ns, quick_ns, (long long)e.bound_ns, (long long)simulated.step_ns,
        (double)e.peak_bytes / (double)e.usable_bytes,
        (double)simulated.peak_bytes / (double)simulated.usable_bytes);
}

static void same_optimum(scene *c, const brute *b)
{
    orr_exploration x;
    must(c, orr_explore(&c->model, &c->cluster, &c->options, c->arena, &x, &c->err), "explore");
    if (x.n == 0 && isinf(b->best))
        return;
    if (x.n == 0)
        print_message("%s\n", known_of(c, &b->plan));
    if (x.n == 0)
        seed_fail(c->seed, "nothing found, but %s: %g (%s)", text_of(c, &b->plan), b->best, c->fix);
    const double value = x.best[0].value[c->options.objective];
    if (value != b->best)
        print_message("%s\n", known_of(c, &b->plan));
    if (value != b->best)
        seed_fail(c->seed, "found %g, %s; there is %g, %s", value, text_of(c, &x.best[0].plan),
                  b->best, text_of(c, &b->plan));
    if (!x.complete || x.gap_frac != 0 || x.bound != value)
        seed_fail(c->seed, "complete %d, gap %g, bound %g of %g", x.complete, x.gap_frac, x.bound,
                  value);
}

/* What a search begins with may lie between the plans that the space enumerates: then it is better
 * than all of them, and no bound is above it. Cut short at once, a search is bounded as well. */
static void known_plans_help(scene *c, const brute *b)
{
    orr_exploration x;
    if (isinf(b->best))
        return;
    c->options.relaxed = false;
    for (int cut = 0; cut < 2; cut++) {
        c->options.limit_ns = cut;
        must(c, orr_explore(&c->model, &c->cluster, &c->options, c->arena, &x, &c->err), "begin");
        const double value = x.n > 0 ? x.best[0].value[c->options.objective] : INFINITY;
        if (!cut && (x.n == 0 || value > b->best))
            seed_fail(c->seed, "found %g; there is %g, %s", value, b->best, text_of(c, &b->plan));
        if (x.n > 0 && (x.bound > value || x.bound > b->best))
            seed_fail(c->seed, "bound %g of %g; there is %g", x.bound, value, b->best);
    }
}

static void the_optimum_is_found(void **state)
{
    (void)state;
    const char *count = getenv("ORRERY_SEEDS");
    const seed_range range = seeds(count != NULL ? strtoull(count, NULL, 10) : SEEDS);
    const uint64_t more = range.end - range.begin > 1 ? N_WRONG : 0;
    uint64_t plans = 0, tight = 0;
    for (uint64_t i = range.begin; i < range.end + more; i++) {
        const uint64_t seed = i < range.end ? i : WERE_WRONG[i - range.end];
        scene c;
        begin(&c, seed);
        brute b = go_through_all(&c);
        plans += b.plans;
        if (seed % 3 > 0 && b.plans > 0 && !c.mixed) {
            const uint64_t before = b.fit;
            tighten(&c, &b);
            b = go_through_all(&c);
            tight += b.fit < before && b.fit > 0;
        }
        if (b.plans > 0)
            same_optimum(&c, &b);
        if (b.plans > 0 && seed % 4 == 0)
            known_plans_help(&c, &b);
        orr_arena_free(c.arena);
    }
    print_message("%llu plans; in %llu searches memory was tight\n", (unsigned long long)plans,
                  (unsigned long long)tight);
    if (range.end - range.begin == SEEDS) {
        assert_true(plans > 10000);
        assert_true(tight > SEEDS / 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_optimum_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
