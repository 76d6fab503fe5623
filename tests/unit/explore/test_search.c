/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "explore/explore.h"

/* A search from its beginning to its end. */

static orr_explore_options asked(const char *fix)
{
    orr_explore_options o;
    orr_explore_options_init(&o);
    o.fix = fix;
    o.threads = 1;
    return o;
}

static const orr_cluster *part_of(plan_world *w, const char *name, uint32_t devices)
{
    const orr_cluster *part;
    world_must(w, orr_cluster_resize(world_cluster(w, name), devices, w->arena, &part, &w->err),
               name);
    return part;
}

static orr_exploration explored(plan_world *w, const orr_model *model, const orr_cluster *cluster,
                                const orr_explore_options *o)
{
    orr_exploration x;
    world_must(w, orr_explore(model, cluster, o, w->arena, &x, &w->err), o->fix);
    return x;
}

static void same_plans(plan_world *w, const orr_exploration *a, const orr_exploration *b)
{
    assert_int_equal(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        assert_string_equal(orr_plan_text(&a->best[i].plan, w->arena),
                            orr_plan_text(&b->best[i].plan, w->arena));
        assert_int_equal(a->best[i].step_ns, b->best[i].step_ns);
    }
    assert_true(a->bound == b->bound);
    assert_int_equal(a->simulated + a->resumed, b->simulated + b->resumed);
}

/* --- what is found --------------------------------------------------------------------------- */

static void what_is_found_is_what_is_simulated(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = part_of(&w, "h100_24k", 128);
    const orr_explore_options o = asked("batch=128,seq=8192");
    const orr_exploration x = explored(&w, model, cluster, &o);
    assert_true(x.n >= 2 && x.n <= o.keep);
    assert_true(x.complete && x.gap_frac <= 0.02 && x.bound > 0);
    for (uint32_t i = 0; i < x.n; i++) {
        const orr_explored *e = &x.best[i];
        const char *text = orr_plan_text(&e->plan, w.arena);
        assert_int_equal(e->step_ns, world_step_ns(&w, model, text, cluster, NULL));
        assert_true(e->peak_bytes <= e->usable_bytes);
        assert_true(e->bound_ns <= e->step_ns &&
                    e->value[ORR_OBJECTIVE_STEP] == (double)e->step_ns);
        assert_true(i == 0 || e->step_ns >= x.best[i - 1].step_ns);
        for (uint32_t j = 0; j < i; j++)
            assert_false(orr_plan_same_arrangement(&e->plan, &x.best[j].plan));
    }
    world_close(&w);
}

/* With a framework, plans are such as it can run, mean the same with its defaults and without, and
 * are not worse than any that it can run. */
static void a_framework_narrows_the_space(void **state)
{
    static const char *const RUNNABLE[ORR_FRAMEWORKS] = {
        [ORR_FRAMEWORK_MEGATRON] = "tp=4,pp=2,dp=16,batch=128,seq=8192,zero=1,sp=on,overlap_dp=on",
        [ORR_FRAMEWORK_TORCHTITAN] = "dp=128,batch=128,seq=8192,fusion=on,recompute=full",
        [ORR_FRAMEWORK_DEEPSPEED] = "dp=128,batch=128,seq=8192,zero=3,recompute=full",
        [ORR_FRAMEWORK_MAXTEXT] = "tp=2,dp=64,batch=128,seq=8192"};
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = part_of(&w, "h100_24k", 128);
    for (int i = 1; i < ORR_FRAMEWORKS; i++) {
        orr_explore_options o = asked("batch=128,seq=8192,precision=bf16");
        o.framework = (uint8_t)i;
        const orr_exploration x = explored(&w, model, cluster, &o);
        assert_true(x.n > 0);
        for (uint32_t k = 0; k < x.n; k++) {
            const orr_plan said = orr_framework_defaults((orr_framework)i, model, &x.best[k].plan),
                           a = orr_plan_with_defaults(&said),
                           b = orr_plan_with_defaults(&x.best[k].plan);
            assert_true(orr_plan_equal(&a, &b));
            world_must(&w, orr_framework_check((orr_framework)i, model, &said, &w.err),
                       orr_plan_text(&said, w.arena));
            assert_int_equal(
                x.best[k].step_ns,
                world_step_ns(&w, model, orr_plan_text(&said, w.arena), cluster, NULL));
        }
        orr_plan plan;
        world_must(&w, orr_plan_parse(RUNNABLE[i], &plan, &w.err), RUNNABLE[i]);
        plan = orr_framework_defaults((orr_framework)i, model, &plan);
        const char *text = orr_plan_text(&plan, w.arena);
        assert_true((double)world_step_ns(&w, model, text, cluster, NULL) >= x.bound);
    }
    world_close(&w);
}

static void a_fixed_value_that_a_framework_cannot_run_is_refused(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_exploration x;
    orr_explore_options o = asked("batch=128,schedule=gpipe");
    o.framework = ORR_FRAMEWORK_DEEPSPEED;
    assert_int_equal(orr_explore(world_model(&w, "llama3.1-8b"), part_of(&w, "h100_24k", 16), &o,
                                 w.arena, &x, &w.err),
                     ORR_INVALID);
    assert_non_null(strstr(w.err.text, "schedule=gpipe: DeepSpeed can run 1f1b"));
    world_close(&w);
}

/* Every plan is in one heap: left out for a reason, or simulated. */
static void every_plan_is_counted_once(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_explore_options o = asked("batch=64,seq=8192,precision=bf16,micro_batch=1");
    const orr_exploration x =
        explored(&w, world_model(&w, "llama3.1-8b"), part_of(&w, "h100_24k", 64), &o);
    double sum = (double)(x.simulated + x.resumed);
    for (int i = 0; i < ORR_PRUNES; i++)
        sum += x.pruned[i];
    assert_near(sum / x.space, 1, 1e-6);
    assert_true(x.pruned[ORR_PRUNE_BOUND] > 0 && x.pruned[ORR_PRUNE_DOMINATED] > 0);
    assert_true(x.families_built <= x.families && x.estimated > x.simulated);
    world_close(&w);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, "mixtral-8x7b");
    const orr_cluster *cluster = part_of(&w, "h100_24k", 64);
    orr_explore_options o = asked("batch=64,seq=4096,precision=bf16,cp=1,micro_batch=1,tp=2");
    const orr_exploration one = explored(&w, model, cluster, &o);
    o.threads = 3;
    const orr_exploration three = explored(&w, model, cluster, &o);
    same_plans(&w, &one, &three);
    assert_int_equal(one.estimated, three.estimated);
    world_close(&w);
}

static void what_is_said_is_kept_to(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_explore_options o = asked("batch=64,seq=8192,tp=2,precision=bf16");
    o.limit = "pp>=2,pp<=4,vp<=2,micro_batch<2";
    o.exclude = "zb_v,zero=3,dualpipe";
    o.max_devices = 32;
    o.min_devices = 16;
    o.keep = 8;
    const orr_exploration x =
        explored(&w, world_model(&w, "llama3.1-8b"), part_of(&w, "h100_24k", 64), &o);
    assert_true(x.n > 1);
    for (uint32_t i = 0; i < x.n; i++) {
        const orr_plan p = orr_plan_with_defaults(&x.best[i].plan);
        assert_true(p.tp == 2 && p.pp >= 2 && p.pp <= 4 && p.vp <= 2 && p.micro_batch == 1 &&
                    p.zero != 3);
        assert_true(p.schedule != ORR_SCHEDULE_ZB_V && p.schedule != ORR_SCHEDULE_DUALPIPE);
        assert_true(x.best[i].n_devices >= 16 && x.best[i].n_devices <= 32);
    }
    world_close(&w);
}

static void dimensions_that_are_not_searched_stay(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_plan base = world_plan(&w, "tp=4,pp=4,dp=4,micro_batch=2,batch=64,zero=1");
    orr_explore_options o = asked("batch=64,seq=8192");
    o.base = &base;
    o.dimensions = "scheduling";
    const orr_exploration x =
        explored(&w, world_model(&w, "llama3.1-8b"), part_of(&w, "h100_24k", 64), &o);
    assert_true(x.n > 0);
    for (uint32_t i = 0; i < x.n; i++)
        assert_true(x.best[i].plan.tp == 4 && x.best[i].plan.pp == 4 && x.best[i].plan.dp == 4);
    o.dimensions = "placement";
    const orr_exploration y =
        explored(&w, world_model(&w, "llama3.1-8b"), part_of(&w, "h100_24k", 64), &o);
    for (uint32_t i = 0; i < y.n; i++)
        assert_true(y.best[i].plan.micro_batch == 2 &&
                    y.best[i].plan.schedule == ORR_SCHEDULE_1F1B);
    world_close(&w);
}

/* fp8 changes the numerics: it is not searched unless it is allowed, or asked for. */
static void other_numerics_are_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *fix, *allow;
        uint8_t precision;
    } CASES[] = {{"batch=32,seq=2048,cp=1", NULL, ORR_PRECISION_BF16},
                 {"batch=32,seq=2048,cp=1", "fp8", ORR_PRECISION_FP8},
                 {"batch=32,seq=2048,cp=1,precision=fp8", NULL, ORR_PRECISION_FP8}};
    plan_world w;
    world_open(&w);
    for (uint32_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        orr_explore_options o = asked(CASES[i].fix);
        o.allow = CASES[i].allow;
        const orr_exploration x =
            explored(&w, world_model(&w, "llama3.2-1b"), part_of(&w, "h100_24k", 8), &o);
        assert_int_equal(x.best[0].plan.precision, CASES[i].precision);
        assert_true(x.best[0].other_numerics == (CASES[i].precision == ORR_PRECISION_FP8));
        for (uint32_t k = 0; k < x.n && CASES[i].allow == NULL; k++)
            assert_int_equal(x.best[k].plan.precision, CASES[i].precision);
    }
    world_close(&w);
}

static void local_steps_end_at_their_bound(void **state)
{
    (void)state;
    static const struct {
        const char *limit;
        uint32_t largest;
    } CASES[] = {{NULL, 128}, {"local_steps<=48", 48}, {"local_steps>=500", 500}};
    plan_world w;
    world_open(&w);
    orr_explore_options o = asked("batch=64,seq=4096");
    o.allow = "local_steps";
    for (uint32_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        orr_space space;
        o.limit = CASES[i].limit;
        world_must(&w,
                   orr_space_make(world_model(&w, "llama3.2-1b"),
                                  world_cluster(&w, "three_buildings"), &o, w.arena, &space,
                                  &w.err),
                   "space");
        const orr_space_list *list = &space.list[ORR_AT_local_steps];
        assert_int_equal(list->at[list->n - 1], CASES[i].largest);
    }
    world_close(&w);
}

/* With failures the bound of a budget counts what they cost, so that it takes about as many
 * simulations as that of a step. */
static void a_budget_with_failures_is_proven(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_failure_catalog catalog;
    const orr_failures *failures;
    const orr_fleet_timing *timing;
    orr_fleet_options fleet;
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = part_of(&w, "h100_24k", 256);
    world_must(&w, orr_failure_catalog_open(NULL, w.arena, &catalog, &w.err), "failures");
    world_must(&w, orr_fleet_timing_find(&catalog, "ft_hsdp", &timing, &w.err), "timing");
    world_must(&w, orr_failures_find(&catalog, "ft_hsdp_98k", &failures, &w.err), "failures");
    orr_fleet_options_init(&fleet, failures, timing);
    orr_explore_options o = asked("batch=256,seq=8192,micro_batch=1,cp=1,overlap_tp=on");
    o.tokens = 1e12;
    const orr_exploration step = explored(&w, model, cluster, &o);
    o.objective = ORR_OBJECTIVE_BUDGET;
    o.fleet = &fleet;
    const orr_exploration budget = explored(&w, model, cluster, &o);
    const orr_explored *best = &budget.best[0];
    assert_true(budget.complete && budget.gap_frac <= 0.02);
    assert_true(best->effective_frac > 0 && best->effective_frac < 1);
    assert_true(budget.bound <= best->value[ORR_OBJECTIVE_BUDGET]);
    assert_true(budget.simulated <= 2 * step.simulated + 64);
    world_close(&w);
}

/* --- two objectives -------------------------------------------------------------------------- */

static void the_front_is_one(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_explore_options o =
        asked("batch=64,seq=8192,precision=bf16,micro_batch=1,recompute=none,zero=1");
    o.second = ORR_OBJECTIVE_DEVICES;
    const orr_exploration x =
        explored(&w, world_model(&w, "llama3.1-8b"), part_of(&w, "h100_24k", 64), &o);
    assert_true(x.n_front >= 3);
    for (uint32_t i = 1; i < x.n_front; i++) {
        assert_true(x.front[i].value[ORR_OBJECTIVE_STEP] >
                    x.front[i - 1].value[ORR_OBJECTIVE_STEP]);
        assert_true(x.front[i].value[ORR_OBJECTIVE_DEVICES] <
                    x.front[i - 1].value[ORR_OBJECTIVE_DEVICES]);
    }
    o.second = ORR_OBJECTIVES;
    const orr_exploration y =
        explored(&w, world_model(&w, "llama3.1-8b"), part_of(&w, "h100_24k", 64), &o);
    assert_near(y.best[0].step_ns, x.front[0].step_ns, 0.021 * (double)y.best[0].step_ns);
    world_close(&w);
}

static void fewer_devices_cost_less(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_explore_options o = asked("batch=64,seq=8192,precision=bf16,micro_batch=1,zero=1");
    o.objective = ORR_OBJECTIVE_COST;
    o.price_per_hour = 2;
    o.tokens = 1e9;
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = part_of(&w, "h100_24k", 64);
    const orr_exploration cheap = explored(&w, model, cluster, &o);
    o.objective = ORR_OBJECTIVE_BUDGET;
    const orr_exploration fast = explored(&w, model, cluster, &o);
    const orr_explored *a = &cheap.best[0], *b = &fast.best[0];
    assert_true(a->value[ORR_OBJECTIVE_COST] <= b->value[ORR_OBJECTIVE_COST]);
    assert_true(a->value[ORR_OBJECTIVE_BUDGET] >= b->value[ORR_OBJECTIVE_BUDGET] * 0.98);
    assert_near(a->value[ORR_OBJECTIVE_COST],
                a->n_devices * 2 * a->value[ORR_OBJECTIVE_BUDGET] / 3600e9,
                1e-9 * a->value[ORR_OBJECTIVE_COST]);
    o.objective = ORR_OBJECTIVE_DEVICES;
    const orr_exploration few = explored(&w, model, cluster, &o);
    assert_true(few.best[0].n_devices <= a->n_devices);
    world_close(&w);
}

/* --- an end before the end ------------------------------------------------------------------- */

static volatile bool stop;
static void stop_soon(void *ctx, const orr_explore_progress *at)
{
    uint64_t *rounds = ctx;
    assert_true(at->families_done <= at->families);
    stop = ++*rounds >= 3 || at->simulated > 0;
}

static void a_search_that_is_stopped_tells_what_it_has(void **state)
{
    (void)state;
    plan_world w;
    uint64_t rounds = 0;
    world_open(&w);
    orr_explore_options o = asked("batch=64,seq=8192");
    o.progress = stop_soon;
    o.progress_ctx = &rounds;
    o.stop = &stop;
    stop = false;
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = part_of(&w, "h100_24k", 64);
    const orr_exploration x = explored(&w, model, cluster, &o);
    stop = false;
    o.progress = NULL;
    const orr_exploration whole = explored(&w, model, cluster, &o);
    assert_false(x.complete);
    assert_true(x.n == 0 || x.bound <= whole.best[0].value[ORR_OBJECTIVE_STEP]);
    assert_true(whole.complete);
    o.limit_ns = 1;
    const orr_exploration late = explored(&w, model, cluster, &o);
    assert_false(late.complete);
    world_close(&w);
}

static void what_was_simulated_is_not_simulated_again(void **state)
{
    (void)state;
    plan_world w;
    char path[] = "/tmp/orrery_explore_XXXXXX";
    world_open(&w);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    orr_explore_options o = asked("batch=64,seq=8192,precision=bf16");
    o.store = path;
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = part_of(&w, "h100_24k", 64);
    const orr_exploration first = explored(&w, model, cluster, &o);
    o.resume = true;
    const orr_exploration again = explored(&w, model, cluster, &o);
    assert_true(first.simulated > 0 && first.resumed == 0);
    /* Local search may go another way from what is known. */
    if (4 * again.simulated > first.simulated)
        fail_msg("%u plans simulated, then %u", (unsigned)first.simulated,
                 (unsigned)again.simulated);
    assert_int_equal(again.families_built, 0);
    assert_int_equal(again.families_resumed, first.families_built);
    assert_string_equal(orr_plan_text(&again.best[0].plan, w.arena),
                        orr_plan_text(&first.best[0].plan, w.arena));
    assert_near(again.bound, first.bound, 1e-9 * first.bound);
    o.fix = "batch=32,seq=8192,precision=bf16"; /* another question */
    assert_int_equal(explored(&w, model, cluster, &o).families_resumed, 0);
    unlink(path);
    world_close(&w);
}

/* --- what is wrong --------------------------------------------------------------------------- */

typedef struct wrong {
    const char *fix, *limit, *exclude, *allow, *dimensions, *says;
} wrong;

static void wrong_words_are_told(void **state)
{
    (void)state;
    static const wrong cases[] = {
        {"seq=8192", NULL, NULL, NULL, NULL, "fix batch=2048"},
        {"batch=64,tpp=2", NULL, NULL, NULL, NULL, "did you mean 'tp'"},
        {"batch=64", "tpp<=2", NULL, NULL, NULL, "did you mean 'tp'"},
        {"batch=64", "tp", NULL, NULL, NULL, "write tp<=8"},
        {"batch=64", "tp<=x", NULL, NULL, NULL, "no whole number"},
        {"batch=64", "pp>=8,pp<=4", NULL, NULL, NULL, "leaves nothing"},
        {"batch=64", NULL, "fp9", NULL, NULL, "did you mean 'fp"},
        {"batch=64", NULL, "schedule=zb", NULL, NULL, "schedule"},
        {"batch=64", NULL, NULL, "local_step", NULL, "did you mean 'local_steps'"},
        {"batch=64", NULL, NULL, NULL, "placment", "did you mean 'placement'"},
        {"batch=64,precision=bf16", NULL, "bf16", NULL, NULL, "nothing is left of precision"},
    };
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = part_of(&w, "h100_24k", 16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_explore_options o = asked(cases[i].fix);
        orr_exploration x;
        o.limit = cases[i].limit;
        o.exclude = cases[i].exclude;
        o.allow = cases[i].allow;
        o.dimensions = cases[i].dimensions;
        assert_int_equal(orr_explore(model, cluster, &o, w.arena, &x, &w.err), ORR_INVALID);
        if (strstr(w.err.text, cases[i].says) == NULL)
            fail_msg("case %zu: '%s' does not say '%s'", i, w.err.text, cases[i].says);
    }
    orr_explore_options o = asked("batch=64");
    orr_exploration x;
    o.second = o.objective;
    assert_int_equal(orr_explore(model, cluster, &o, w.arena, &x, &w.err), ORR_INVALID);
    o = asked("batch=64");
    o.objective = ORR_OBJECTIVE_BUDGET;
    assert_int_equal(orr_explore(model, cluster, &o, w.arena, &x, &w.err), ORR_INVALID);
    o = asked("batch=64");
    o.min_devices = 17;
    assert_int_equal(orr_explore(model, cluster, &o, w.arena, &x, &w.err), ORR_INVALID);
    world_close(&w);
}

static void nothing_fits_is_no_error(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_explore_options o = asked("batch=16,seq=8192");
    o.relaxed = true;
    const orr_exploration x =
        explored(&w, world_model(&w, "llama3.1-405b"), part_of(&w, "h100_24k", 16), &o);
    assert_int_equal(x.n, 0);
    assert_true(x.pruned[ORR_PRUNE_MEMORY] > 0 && isnan(x.bound));
    world_close(&w);
}

static void no_memory_is_survived(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = part_of(&w, "dgx_h100", 8);
    const orr_explore_options o =
        asked("batch=8,seq=2048,precision=bf16,tp=2,pp=2,micro_batch=1,recompute=none,cp=1");
    orr_exploration x;
    orr_alloc_fail_from(0);
    assert_int_equal(orr_explore(model, cluster, &o, w.arena, &x, &w.err), ORR_OK);
    const uint64_t all = orr_alloc_count();
    for (uint64_t n = 1; n <= all; n += 1 + n / 40) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_alloc_fail_from(n);
        const orr_status status = orr_explore(model, cluster, &o, arena, &x, &w.err);
        orr_alloc_fail_from(0);
        if (status != ORR_OK && status != ORR_NO_MEMORY)
            fail_msg("allocation %llu: %s", (unsigned long long)n, w.err.text);
        orr_arena_free(arena);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_found_is_what_is_simulated),
        cmocka_unit_test(a_framework_narrows_the_space),
        cmocka_unit_test(a_fixed_value_that_a_framework_cannot_run_is_refused),
        cmocka_unit_test(every_plan_is_counted_once),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(what_is_said_is_kept_to),
        cmocka_unit_test(dimensions_that_are_not_searched_stay),
        cmocka_unit_test(other_numerics_are_asked_for),
        cmocka_unit_test(local_steps_end_at_their_bound),
        cmocka_unit_test(a_budget_with_failures_is_proven),
        cmocka_unit_test(the_front_is_one),
        cmocka_unit_test(fewer_devices_cost_less),
        cmocka_unit_test(a_search_that_is_stopped_tells_what_it_has),
        cmocka_unit_test(what_was_simulated_is_not_simulated_again),
        cmocka_unit_test(wrong_words_are_told),
        cmocka_unit_test(nothing_fits_is_no_error),
        cmocka_unit_test(no_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
