/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/plan/plan.h"
#include "explore/explore.h"

/* Answers of searches to a gap of 0, perturbed: every field of the plan, alone and in pairs, takes
 * every value that the grammar has near it (twice, half, one more, one less; every other choice,
 * every other order of axes, units moved between sites). What may be, fits and has a bound below
 * the answer is simulated: nothing is better. A plan that is would be one that the space lacks, or
 * that a bound has pruned wrongly. */

typedef struct question {
    const char *name, *model, *cluster, *fix, *limit;
    uint32_t devices;              /* 0: those of `sites` */
    uint32_t sites[ORR_SITES_MAX]; /* devices of each site */
    double memory_frac;            /* of the device; 0: all of it */
} question;
/* clang-format off */
static const question QUESTIONS[] = {
    {"one host", "llama3.2-1b", "dgx_h100", "batch=32,seq=4096", NULL, 8, {0}, 0},
    {"four hosts", "llama3.1-8b", "h100_24k", "batch=64,seq=8192", NULL, 32, {0}, 0},
    {"few samples", "llama3.2-3b", "h100_24k", "batch=16,seq=4096", NULL, 32, {0}, 0},
    {"pipelines", "llama3.1-8b", "a100_superpod", "batch=48,seq=4096,dp=2", "pp>=4", 32, {0}, 0},
    {"tight memory", "llama3.1-8b", "dgx_h100", "batch=16,seq=8192", NULL, 8, {0}, 0.6},
    {"mixture", "mixtral-8x7b", "h100_24k", "batch=32,seq=4096", "cp<=1,tp<=2", 32, {0}, 0},
    {"buildings", "llama3.2-3b", "three_buildings", "batch=48,seq=4096", "cp<=2", 0, {16, 8, 16}, 0},
    {"unlike devices", "llama3.2-3b", "mixed_buildings", "batch=32,seq=4096", "cp<=2,tp<=4", 0, {8, 8}, 0},
};
/* clang-format on */

typedef struct scene {
    const question *q;
    orr_arena *arena;
    const orr_model *model;
    orr_cluster cluster;
    orr_device device;
    orr_explore_options options;
    orr_space space;
    orr_evaluator *evaluator;
    orr_explored answer;
    uint64_t tried, simulated, better;
    orr_error err;
} scene;

/* A field with a value that is not the answer's; `kind` says which part of the plan. */
typedef enum variation_kind { FIELD, ORDER, SITES } variation_kind;
typedef struct variation {
    variation_kind kind;
    uint32_t field, value; /* ORDER: an index of all orders; SITES: from << 8 | to */
} variation;
enum { VARIATIONS = 512 };
typedef struct variations {
    variation at[VARIATIONS];
    uint32_t n;
} variations;

/* --- what is perturbed ----------------------------------------------------------------------- */

/* Fields that state the job, or change the numerics, or are for what the job does not have. */
static bool is_given(uint32_t field)
{
    static const uint8_t GIVEN[] = {ORR_AT_batch,
                                    ORR_AT_seq,
                                    ORR_AT_layers,
                                    ORR_AT_hidden,
                                    ORR_AT_ffn,
                                    ORR_AT_heads,
                                    ORR_AT_vocab,
                                    ORR_AT_micro_batches,
                                    ORR_AT_precision,
                                    ORR_AT_gradients,
                                    ORR_AT_compress,
                                    ORR_AT_local_steps,
                                    ORR_AT_capacity,
                                    ORR_AT_expert_slots,
                                    ORR_AT_expert_policy,
                                    ORR_AT_request_groups,
                                    ORR_AT_exp_avg_dtype,
                                    ORR_AT_exp_avg_sq_dtype,
                                    ORR_AT_kv_cache_dtype,
                                    ORR_AT_activation_func_fp8_input_store,
                                    ORR_AT_graphs};
    for (uint32_t i = 0; i < sizeof GIVEN; i++)
        if (GIVEN[i] == field)
            return true;
    return false;
}

static void add(const scene *c, variations *v, variation_kind kind, uint32_t field, uint32_t value)
{
    if (kind == FIELD && !orr_space_allows(&c->space.constraints, field, value))
        return;
    assert_true(v->n < VARIATIONS);
    v->at[v->n++] = (variation){kind, field, value};
}

static void add_numbers(const scene *c, variations *v, const orr_plan *whole, uint32_t field)
{
    const uint32_t now = orr_plan_get(whole, field),
                   usual = field == ORR_AT_bucket_bytes ? 160000000 : 1,
                   from = now > 0 ? now : usual;
    const uint32_t values[] = {from * 2, from / 2, from + 1, from - 1,
                               c->model->layers / (whole->pp > 0 ? whole->pp : 1)};
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i] > 0 && values[i] != now && !(field == ORR_AT_bucket_bytes && i > 1))
            add(c, v, FIELD, field, values[i]);
    if (now > 0)
        add(c, v, FIELD, field, 0); /* the default */
}

static variations variations_of(const scene *c)
{
    variations v = {.n = 0};
    const orr_plan whole =
        orr_plan_with_job_defaults(&c->answer.plan, c->model, ORR_TASK_PRETRAIN, &c->cluster);
    for (uint32_t field = 0; field < ORR_PLAN_FIELDS; field++) {
        if (is_given(field) || orr_plan_get(&c->space.constraints.fixed, field) != 0)
            continue;
        if (field < ORR_PLAN_NUMBERS) {
            add_numbers(c, &v, &whole, field);
            continue;
        }
        for (uint32_t k = 0; k < orr_plan_choice_at(field - ORR_PLAN_NUMBERS)->n; k++)
            if (k != orr_plan_get(&whole, field))
                add(c, &v, FIELD, field, k);
    }
    for (uint32_t k = 0; k < 24; k++)
        add(c, &v, ORDER, 0, k);
    for (uint32_t from = 0; from < c->cluster.n_sites; from++)
        for (uint32_t to = 0; to < c->cluster.n_sites; to++)
            if (from != to)
                add(c, &v, SITES, 0, from << 8 | to);
    return v;
}

static void set_order(orr_plan *p, uint32_t k)
{
    uint8_t left[ORR_BASE_AXES];
    for (uint8_t i = 0; i < ORR_BASE_AXES; i++)
        left[i] = (uint8_t)(i + 1);
    for (uint32_t i = 0, n = ORR_BASE_AXES; i < ORR_BASE_AXES; i++, n--) {
        const uint32_t at = k % n;
        k /= n;
        p->order[i] = left[at];
        memmove(left + at, left + at + 1, n - at - 1);
    }
}

/* False: there is no unit to move. */
static bool apply(orr_plan *p, const variation *v)
{
    const uint32_t from = v->value >> 8, to = v->value & 255;
    if (v->kind == FIELD)
        orr_plan_put(p, v->field,
                     v->field == ORR_AT_zero && v->value == 0 ? ORR_ZERO_NONE : v->value);
    else if (v->kind == ORDER)
        set_order(p, v->value);
    else if (p->sites[from] == 0)
        return false;
    else {
        p->sites[from]--;
        p->sites[to]++;
    }
    return true;
}

/* --- what comes of it ------------------------------------------------------------------------ */

/* The parts of the plan that follow from the field are left to their defaults. */
static const char *text_of(scene *c, const variation *v)
{
    if (v == NULL || v->kind != FIELD)
        return v == NULL ? ""
                         : orr_arena_printf(c->arena, "%s %u", v->kind == ORDER ? "order" : "sites",
                                            v->value);
    if (v->field < ORR_PLAN_NUMBERS)
        return orr_arena_printf(c->arena, "%s=%u", orr_space_field_name(v->field), v->value);
    return orr_arena_printf(c->arena, "%s=%s", orr_space_field_name(v->field),
                            orr_plan_choice_at(v->field - ORR_PLAN_NUMBERS)->words[v->value]);
}

/* Whether the plan is better. */
static bool try_plan(scene *c, const orr_plan *given, const variation *one, const variation *two)
{
    orr_explored e, simulated;
    orr_plan p = *given;
    p.micro_batches = 0;
    const orr_plan whole = orr_plan_with_job_defaults(&p, c->model, ORR_TASK_PRETRAIN, &c->cluster);
    const double best = c->answer.value[ORR_OBJECTIVE_STEP];
    c->tried++;
    if (orr_plan_ranks(&whole) > c->cluster.n_devices ||
        orr_evaluator_estimate(c->evaluator, &p, &e, &c->err) != ORR_OK ||
        (double)e.bound_ns >= best * (1 - 1e-9) || !orr_explored_fits(&e, 0.10))
        return false;
    c->simulated++;
    if (orr_evaluator_simulate(c->evaluator, &p, &simulated, &c->err) != ORR_OK ||
        !orr_explored_fits(&simulated, 0) ||
        simulated.value[ORR_OBJECTIVE_STEP] >= best * (1 - 1e-9))
        return false;
    c->better++;
    print_message("%s: better by %.4f %% with %s %s\n", c->q->name,
                  100 * (1 - simulated.value[ORR_OBJECTIVE_STEP] / best), text_of(c, one),
                  text_of(c, two));
    return true;
}

static void perturb(scene *c)
{
    const variations v = variations_of(c);
    bool better[VARIATIONS] = {false};
    for (uint32_t i = 0; i < v.n; i++) {
        orr_plan one = c->answer.plan;
        better[i] = apply(&one, &v.at[i]) && try_plan(c, &one, &v.at[i], NULL);
    }
    for (uint32_t i = 0; i < v.n; i++)
        for (uint32_t j = i + 1; j < v.n; j++) {
            orr_plan two = c->answer.plan;
            const bool same = v.at[j].kind == v.at[i].kind && v.at[j].field == v.at[i].field &&
                              v.at[i].kind != SITES;
            if (!same && !better[i] && !better[j] && apply(&two, &v.at[i]) && apply(&two, &v.at[j]))
                try_plan(c, &two, &v.at[i], &v.at[j]);
        }
}

/* The bound for every way in which gradients and weights can travel is below each of them. */
static void reductions_are_bounded(scene *c)
{
    static const char *const WAYS[] = {"dp_algorithm=ring",
                                       "dp_algorithm=tree",
                                       "dp_algorithm=halving_doubling",
                                       "dp_algorithm=hierarchical",
                                       "dp_algorithm=direct",
                                       "dp_chunks=2",
                                       "dp_chunks=8",
                                       "dp_chunks=64",
                                       "bucket_bytes=1000000",
                                       "bucket_bytes=10000000",
                                       "bucket_bytes=300000000",
                                       "bucket_bytes=3000000000",
                                       "prefetch=2",
                                       "prefetch=5",
                                       "prefetch=60"};
    orr_explored least, e;
    orr_plan open = c->answer.plan;
    open.dp_algorithm = 0;
    open.dp_chunks = open.bucket_bytes = open.prefetch = 0;
    orr_evaluator_any_reductions(c->evaluator, true);
    assert_int_equal(orr_evaluator_estimate(c->evaluator, &open, &least, &c->err), ORR_OK);
    orr_evaluator_any_reductions(c->evaluator, false);
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        orr_plan way;
        assert_int_equal(orr_plan_parse(WAYS[i], &way, &c->err), ORR_OK);
        const orr_plan p = orr_plan_override(&open, &way);
        if (orr_evaluator_simulate(c->evaluator, &p, &e, &c->err) != ORR_OK)
            continue;
        if (least.bound_ns > e.step_ns || least.bound_ns > e.bound_ns)
            fail_msg("%s, %s: bound %lld for all, %lld of this, step %lld", c->q->name, WAYS[i],
                     (long long)least.bound_ns, (long long)e.bound_ns, (long long)e.step_ns);
    }
}

static void begin(scene *c, const question *q)
{
    const orr_catalog *catalog;
    const orr_cluster *all, *part;
    memset(c, 0, sizeof *c);
    c->q = q;
    c->arena = orr_arena_new(0, 0);
    assert_non_null(c->arena);
    assert_int_equal(orr_catalog_open(c->arena, &catalog, &c->err), ORR_OK);
    assert_int_equal(orr_model_load(q->model, c->arena, &c->model, &c->err), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, q->cluster, c->arena, &all, &c->err), ORR_OK);
    assert_int_equal(q->devices > 0
                         ? orr_cluster_resize(all, q->devices, c->arena, &part, &c->err)
                         : orr_cluster_select_sites(all, q->sites, c->arena, &part, &c->err),
                     ORR_OK);
    c->cluster = *part;
    if (q->memory_frac > 0) {
        c->device = *part->device;
        c->device.memory_bytes.value *= q->memory_frac;
        c->cluster.device = &c->device;
    }
    orr_explore_options_init(&c->options);
    c->options.fix = q->fix;
    c->options.limit = q->limit;
    c->options.exact = true;
    c->options.keep = 1;
    c->options.threads = 2;
    if (orr_space_make(c->model, &c->cluster, &c->options, c->arena, &c->space, &c->err) != ORR_OK)
        fail_msg("%s: %s", q->name, c->err.text);
    assert_int_equal(orr_evaluator_new(c->model, &c->cluster, &c->options, &c->evaluator, &c->err),
                     ORR_OK);
}

static void nothing_near_an_answer_is_better(void **state)
{
    (void)state;
    uint64_t better = 0;
    const char *only = getenv("ORRERY_QUESTION");
    for (size_t i = 0; i < sizeof QUESTIONS / sizeof *QUESTIONS; i++) {
        scene c;
        orr_exploration x;
        if (only != NULL && strcmp(only, QUESTIONS[i].name) != 0)
            continue;
        begin(&c, &QUESTIONS[i]);
        if (orr_explore(c.model, &c.cluster, &c.options, c.arena, &x, &c.err) != ORR_OK)
            fail_msg("%s: %s", c.q->name, c.err.text);
        assert_true(x.n > 0 && x.complete && x.gap_frac == 0);
        c.answer = x.best[0];
        reductions_are_bounded(&c);
        perturb(&c);
        print_message(
            "%s: %s, %.0f ns after %llu simulations; %llu plans near it, %llu simulated\n",
            c.q->name, orr_plan_text(&c.answer.plan, c.arena), c.answer.value[ORR_OBJECTIVE_STEP],
            (unsigned long long)x.simulated, (unsigned long long)c.tried,
            (unsigned long long)c.simulated);
        assert_true(c.tried > 1000 && c.simulated > 0);
        better += c.better;
        orr_evaluator_free(c.evaluator);
        orr_arena_free(c.arena);
    }
    assert_int_equal(better, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_near_an_answer_is_better),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
