/* SPDX-License-Identifier: Apache-2.0 */
#include "naive/group.h"
#include "support/shard_index.h"
#include "support/small_models.h"

/* Small models of every family in plans of every kind: all ranks run their tapes, from the tokens
 * to the loss and back, and have the loss and the gradients of one device that has all samples. */
enum { RANKS_MAX = 8, PLACES_MAX = 8, SAMPLES = 2, TOKENS = 8 };

/* A model's places on one rank. */
typedef struct side {
    orr_plan plan;
    orr_module_sequence row;
    uint32_t n_ranks;
    orr_module own[PLACES_MAX][RANKS_MAX];
    naive_rank ranks[PLACES_MAX][RANKS_MAX];
} side;

typedef struct world {
    uint64_t seed;
    orr_random random;
    const orr_model *model;
    const char *name, *plan_text;
    orr_arena *arena;
    side one, many;
} world;

static void fail_of(const world *w, const char *text)
{
    seed_fail(w->seed, "%s, %s: %s", w->name, w->plan_text, text);
}

static void build_side(world *w, side *s)
{
    const orr_workload training = {.task = ORR_TASK_PRETRAIN, .real = true};
    orr_error err = {0};
    s->n_ranks = (uint32_t)orr_plan_ranks(&s->plan);
    assert_true(s->n_ranks <= RANKS_MAX);
    if (orr_plan_check(&s->plan, &err) != ORR_OK ||
        orr_modules_build(w->model, &s->plan, &training, w->arena, &s->row, &err) != ORR_OK)
        fail_of(w, err.text);
    assert_true(s->row.n <= PLACES_MAX);
    for (uint32_t p = 0; p < s->row.n; p++)
        for (uint32_t r = 0; r < s->n_ranks; r++) {
            const orr_module *module = &s->row.modules[s->row.module_of[p]];
            assert_int_equal(
                orr_module_specialize(module, &s->plan, r, w->arena, &s->own[p][r], &err), ORR_OK);
            s->ranks[p][r] = naive_rank_new(s->own[p][r].tape, w->arena);
        }
}

static owned place_of(const world *w, uint32_t place, uint32_t rank, orr_value value, orr_value of)
{
    return owned_of(&w->many.own[place][rank], &w->many.plan, rank, value,
                    &w->one.own[place][0].tape->values[of].type);
}

static orr_value gradient_of(const orr_tape *tape, orr_value parameter)
{
    for (orr_value v = 0; v < tape->n_values; v++)
        if (tape->values[v].role == ORR_VALUE_PARAMETER_GRADIENT && tape->values[v].of == parameter)
            return v;
    return ORR_NONE;
}

static void copy_to_ranks(world *w, uint32_t place, orr_value of, orr_value value)
{
    const double *from = w->one.ranks[place][0].at[of];
    for (uint32_t r = 0; r < w->many.n_ranks; r++) {
        const owned s = place_of(w, place, r, value, of);
        owned_take(&s, from, w->many.ranks[place][r].at[value]);
    }
}

/* Numbers of what no call makes, and is not another module's. */
static void draw(world *w, uint32_t place, orr_value value)
{
    const orr_tape *tape = w->one.own[place][0].tape;
    const orr_tape_value *v = &tape->values[value];
    const int64_t below = strcmp(v->name, "positions") == 0 ? w->model->positions : w->model->vocab;
    double *at = w->one.ranks[place][0].at[value];
    for (int64_t i = 0; i < naive_size(&v->type); i++)
        at[i] = v->type.dtype == ORR_DTYPE_INT64
                    ? (double)orr_random_below(&w->random, (uint64_t)below)
                    : orr_random_unit(&w->random) - 0.5;
}

static void fill_place(world *w, uint32_t place)
{
    const orr_module *one = &w->one.own[place][0], *many = &w->many.own[place][0];
    assert_int_equal(one->n_holdings, many->n_holdings);
    for (uint32_t h = 0; h < one->n_holdings; h++) {
        const orr_value of = one->holdings[h].value, value = many->holdings[h].value;
        const orr_tape_value *v = &one->tape->values[of];
        if (v->made_by != ORR_NONE || (of == one->in && place > 0))
            continue;
        draw(w, place, of);
        copy_to_ranks(w, place, of, value);
    }
    if (one->loss_seed != ORR_NONE) {
        draw(w, place, one->loss_seed);
        copy_to_ranks(w, place, one->loss_seed, many->loss_seed);
    }
}

static void carry(side *s, uint32_t from_place, uint32_t to_place, bool back)
{
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        const orr_module *from = &s->own[from_place][r], *to = &s->own[to_place][r];
        const orr_value a = back ? from->grad_in : from->out, b = back ? to->grad_out : to->in;
        const orr_type *type = &from->tape->values[a].type;
        assert_true(naive_size(type) == naive_size(&to->tape->values[b].type));
        memcpy(s->ranks[to_place][r].at[b], s->ranks[from_place][r].at[a],
               (size_t)naive_size(type) * sizeof(double));
    }
}

static void run_side(side *s)
{
    for (uint32_t p = 0; p < s->row.n; p++) {
        if (p > 0)
            carry(s, p - 1, p, false);
        naive_group_run(s->ranks[p], s->n_ranks, &s->plan, true);
    }
    for (uint32_t p = s->row.n; p-- > 0;) {
        if (p + 1 < s->row.n)
            carry(s, p + 1, p, true);
        naive_group_run(s->ranks[p], s->n_ranks, &s->plan, false);
    }
}

static void must_be(const world *w, uint32_t place, uint32_t rank, const char *what, int64_t i,
                    double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * (1 + fabs(want))))
        seed_fail(w->seed, "%s, %s: place %u (%s), rank %u: element %lld of %s: %.12g, not %.12g",
                  w->name, w->plan_text, place, w->many.own[place][0].name, rank, (long long)i,
                  what, got, want);
}

static void hold_value(const world *w, uint32_t place, orr_value of, orr_value value,
                       const char *what)
{
    if (of == ORR_NONE)
        return;
    for (uint32_t r = 0; r < w->many.n_ranks; r++) {
        const owned s = place_of(w, place, r, value, of);
        for (int64_t i = 0; i < naive_size(&s.own); i++) {
            const int64_t at = owned_index(&s, i);
            if (at >= 0)
                must_be(w, place, r, what, i, w->many.ranks[place][r].at[value][i],
                        w->one.ranks[place][0].at[of][at]);
        }
    }
}

/* Has the rank a term of the gradient that no other counted rank has? */
static bool counts(const world *w, const orr_tape_value *parameter, const orr_local_shard *o,
                   uint32_t rank)
{
    const bool sliced = o->slices & orr_axis_bit(ORR_AXIS_TP);
    return parameter->tag == ORR_WEIGHT_EXPERT || parameter->tag == ORR_WEIGHT_SLICED || sliced ||
           orr_plan_member(&w->many.plan, ORR_AXIS_TP, rank) == 0;
}

static void hold_gradient(const world *w, uint32_t place, orr_value of, orr_value value)
{
    const orr_tape *one = w->one.own[place][0].tape, *many = w->many.own[place][0].tape;
    const orr_value want = gradient_of(one, of), got = gradient_of(many, value);
    const int64_t n = naive_size(&one->values[of].type);
    double *sum = orr_arena_array(w->arena, double, (size_t)n);
    assert_true(sum != NULL && want != ORR_NONE && got != ORR_NONE);
    for (uint32_t r = 0; r < w->many.n_ranks; r++) {
        const owned s = place_of(w, place, r, got, of);
        if (!counts(w, &many->values[value], &s.o, r))
            continue;
        for (int64_t i = 0; i < naive_size(&s.own); i++) {
            const int64_t at = owned_index(&s, i);
            if (at >= 0)
                sum[at] += w->many.ranks[place][r].at[got][i];
            else
                must_be(w, place, r, "padding", i, w->many.ranks[place][r].at[got][i], 0);
        }
    }
    for (int64_t i = 0; i < n; i++)
        must_be(w, place, ORR_NONE, one->values[of].name, i, sum[i],
                w->one.ranks[place][0].at[want][i]);
}

static bool is_held(const orr_tape_value *value)
{
    return value->role == ORR_VALUE_PARAMETER && !value->frozen;
}

static void hold_place(const world *w, uint32_t place)
{
    const orr_module *one = &w->one.own[place][0], *many = &w->many.own[place][0];
    hold_value(w, place, one->out, many->out, "what comes out");
    hold_value(w, place, one->loss, many->loss, "the loss");
    hold_value(w, place, one->grad_in, many->grad_in, "the input's gradient");
    for (uint32_t h = 0; h < one->n_holdings; h++)
        if (is_held(&one->tape->values[one->holdings[h].value]))
            hold_gradient(w, place, one->holdings[h].value, many->holdings[h].value);
}

static void hold_model(const small_model *model, const char *plan_text, uint64_t seed)
{
    static world w;
    orr_error err = {0};
    w = (world){.seed = seed,
                .random = orr_random_of(seed, 5),
                .model = &model->model,
                .name = model->name,
                .plan_text = plan_text,
                .arena = orr_arena_new(0, 0)};
    orr_plan plan;
    assert_int_equal(orr_plan_parse(plan_text, &plan, &err), ORR_OK);
    plan.seq = TOKENS;
    plan.micro_batch = SAMPLES;
    plan.precision = ORR_PRECISION_FP32;
    plan.recompute = (uint8_t)(ORR_RECOMPUTE_NONE + seed % 3);
    plan.fusion = seed % 2 ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
    w.many.plan = orr_plan_with_defaults(&plan);
    const orr_plan alone = {.seq = TOKENS,
                            .micro_batch = SAMPLES * w.many.plan.dp,
                            .precision = ORR_PRECISION_FP32,
                            .fusion = plan.fusion};
    w.one.plan = orr_plan_with_defaults(&alone);
    build_side(&w, &w.one);
    build_side(&w, &w.many);
    for (uint32_t p = 0; p < w.one.row.n; p++)
        fill_place(&w, p);
    run_side(&w.one);
    run_side(&w.many);
    for (uint32_t p = 0; p < w.one.row.n; p++)
        hold_place(&w, p);
    orr_arena_free(w.arena);
}

static const char *const DENSE_PLANS[] = {
    "tp=1",
    "dp=2",
    "tp=2",
    "tp=2,sp=off",
    "tp=4",
    "tp=4,sp=off",
    "cp=2,cp_kind=all_gather",
    "cp=2,cp_kind=all_gather,flash=off",
    "cp=2,cp_kind=ring",
    "cp=4,cp_kind=ring",
    "tp=2,cp=2,cp_kind=ring",
    "tp=2,cp=2,cp_kind=all_gather,sp=off",
    "tp=2,cp=2,dp=2,cp_kind=ring,order=cp-tp-dp-pp",
};
static const char *const EXPERT_PLANS[] = {
    "dp=2,ep=2",
    "tp=2,ep=2,etp=1",
    "tp=2,dp=2,ep=2",
    "tp=2,dp=2,ep=4,etp=1",
    "cp=2,ep=2,cp_kind=ring",
    "tp=2,cp=2,dp=2,ep=2",
    "tp=2,cp=2,dp=2,ep=4,etp=1,cp_kind=all_gather",
    "dp=4,ep=4",
};

static void ranks_do_what_one_device_does(void **state)
{
    (void)state;
    const seed_range range = seeds(3);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (size_t m = 0; m < N_SMALL_MODELS; m++) {
            const small_model model = SMALL_MODELS[m]();
            for (size_t p = 0; p < sizeof DENSE_PLANS / sizeof *DENSE_PLANS; p++)
                if (model.model.moe.experts == 0 || strstr(DENSE_PLANS[p], "sp=off") == NULL)
                    hold_model(&model, DENSE_PLANS[p], seed);
            for (size_t p = 0; p < sizeof EXPERT_PLANS / sizeof *EXPERT_PLANS; p++)
                if (model.model.moe.experts > 0)
                    hold_model(&model, EXPERT_PLANS[p], seed);
        }
}

static small_model small_dlrm(void)
{
    static const orr_embedding table = {.rows = 5, .columns = 4, .pooling = 2};
    static orr_embedding tables[4];
    orr_model m = {.name = "small", .kind = ORR_MODEL_DLRM, .source = "small"};
    for (int i = 0; i < 4; i++)
        tables[i] = table;
    m.dlrm = (orr_dlrm){.dense_features = 3,
                        .dim = 4,
                        .n_tables = 4,
                        .tables = tables,
                        .n_bottom = 2,
                        .n_top = 2,
                        .bottom = {6, 4},
                        .top = {5, 1}};
    return (small_model){"dlrm", m};
}

/* Bags of embeddings are the input; tables are the step's. */
static void replicas_recommend_alike(void **state)
{
    (void)state;
    const seed_range range = seeds(5);
    const small_model classic = small_dlrm();
    small_model crossed = classic;
    crossed.model.dlrm.cross_layers = 2;
    crossed.model.dlrm.cross_rank = 3;
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (uint32_t i = 0; i < 2; i++) {
            hold_model(i == 0 ? &classic : &crossed, "dp=2", seed);
            hold_model(i == 0 ? &classic : &crossed, "dp=4", seed);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_do_what_one_device_does),
                                       cmocka_unit_test(replicas_recommend_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
