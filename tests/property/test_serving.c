/* SPDX-License-Identifier: Apache-2.0 */
#include "naive/group.h"
#include "support/shard_index.h"
#include "support/small_models.h"

/* Tokens that come a few at a time, keys and values through caches, on slices of the model: the
 * logits are those of all tokens at once on one device. */
enum { RANKS_MAX = 4, PLACES_MAX = 12, SAMPLES = 2, TOKENS = 11, CACHE = 13, PICTURE = 29 };

/* The model as tapes of so many tokens. */
typedef struct served {
    orr_plan plan;
    orr_module_sequence row;
    uint32_t n_ranks;
    orr_module own[PLACES_MAX][RANKS_MAX];
    naive_rank ranks[PLACES_MAX][RANKS_MAX];
} served;

typedef struct world {
    uint64_t seed;
    const small_model *model;
    const char *plan_text;
    orr_arena *arena;
    double ids[SAMPLES][TOKENS];
    double *caches[PLACES_MAX + 1][RANKS_MAX][2]; /* by place, counted from the last one */
} world;

static orr_op_args *args_of(const orr_module *module, uint32_t call)
{
    return &module->tape->calls[call].args; /* the rank's own copy */
}

/* What a run says where each sample stands is said here on the tape. */
static void stand_at(const orr_module *module, int64_t first)
{
    for (uint32_t c = 0; c < module->tape->n_calls; c++)
        switch (module->tape->calls[c].op) {
        case ORR_OP_ROTARY:
        case ORR_OP_ATTENTION_TEMPERATURE:
        case ORR_OP_ATTENTION:
        case ORR_OP_CACHE:
            assert_int_equal(args_of(module, c)->offset, 0);
            args_of(module, c)->offset = first;
            break;
        default:
            break;
        }
}

/* Pictures come with the first tokens. */
static uint32_t images_of(const world *w, uint32_t first)
{
    return first == 0 && w->model->model.vision.layers > 0 ? 1 : 0;
}

static void open_served(world *w, served *s, uint32_t first, uint32_t tokens, uint32_t cache)
{
    const orr_workload workload = {.task = ORR_TASK_PREFILL,
                                   .prompt = tokens,
                                   .cache = cache,
                                   .images = images_of(w, first),
                                   .all_logits = true,
                                   .real = true};
    orr_error err = {0};
    s->n_ranks = (uint32_t)orr_plan_ranks(&s->plan);
    if (orr_modules_build(&w->model->model, &s->plan, &workload, w->arena, &s->row, &err) != ORR_OK)
        seed_fail(w->seed, "%s, %s: %s", w->model->name, w->plan_text, err.text);
    assert_true(s->row.n <= PLACES_MAX && s->n_ranks <= RANKS_MAX);
    for (uint32_t p = 0; p < s->row.n; p++)
        for (uint32_t r = 0; r < s->n_ranks; r++) {
            const orr_module *module = &s->row.modules[s->row.module_of[p]];
            assert_int_equal(
                orr_module_specialize(module, &s->plan, r, w->arena, &s->own[p][r], &err), ORR_OK);
            s->ranks[p][r] = naive_rank_new(s->own[p][r].tape, w->arena);
        }
}

/* The same numbers for the n-th of a place, counted from the last one: pictures' places may not be
 * there. */
static void fill_number(world *w, served *s, uint32_t place, uint32_t n,
                        const orr_value_placement *h)
{
    orr_random random = orr_random_of(w->seed, 100 * (s->row.n - place) + n);
    const int64_t size = naive_size(&h->whole);
    double *whole = orr_arena_array(w->arena, double, (size_t)size);
    assert_non_null(whole);
    for (int64_t i = 0; i < size; i++)
        whole[i] = orr_random_unit(&random) - 0.5;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        const owned o = owned_of(&s->own[place][r], &s->plan, r, h->value, &h->whole);
        owned_take(&o, whole, s->ranks[place][r].at[h->value]);
    }
}

static void fill_input(world *w, served *s, uint32_t place, uint32_t rank, orr_value value,
                       int64_t first)
{
    const orr_tape_value *v = &s->own[place][rank].tape->values[value];
    double *at = s->ranks[place][rank].at[value];
    if (strcmp(v->name, "key cache") == 0 || strcmp(v->name, "value cache") == 0) {
        double **cache = &w->caches[s->row.n - place][rank][v->name[0] == 'v'];
        if (*cache != NULL)
            memcpy(at, *cache, (size_t)naive_size(&v->type) * sizeof *at);
        return;
    }
    assert_int_equal(v->type.dtype, ORR_DTYPE_INT64);
    for (int64_t i = 0; i < naive_size(&v->type); i++) {
        const int64_t token = first + i % v->type.dim[1];
        at[i] =
            strcmp(v->name, "positions") == 0 ? (double)token : w->ids[i / v->type.dim[1]][token];
    }
}

static void fill(world *w, served *s, int64_t first)
{
    for (uint32_t p = 0; p < s->row.n; p++) {
        const orr_module *module = &s->own[p][0];
        uint32_t n = 0;
        for (uint32_t h = 0; h < module->n_holdings; h++) {
            const orr_value_placement *held = &module->holdings[h];
            const orr_tape_value *v = &module->tape->values[held->value];
            if (v->made_by != ORR_NONE || held->value == module->in ||
                strcmp(v->name, "pictures") == 0)
                continue;
            if (v->role == ORR_VALUE_PARAMETER || strcmp(v->name, "pixels") == 0)
                fill_number(w, s, p, n++, held);
            else
                for (uint32_t r = 0; r < s->n_ranks; r++)
                    fill_input(w, s, p, r, held->value, first);
        }
    }
}

/* What CACHE calls gave is what is there the next time. */
static void keep_caches(world *w, const served *s)
{
    for (uint32_t p = 0; p < s->row.n; p++)
        for (uint32_t r = 0; r < s->n_ranks; r++) {
            const orr_tape *tape = s->own[p][r].tape;
            for (uint32_t c = 0; c < tape->n_calls; c++)
                if (tape->calls[c].op == ORR_OP_CACHE)
                    w->caches[s->row.n - p][r][tape->calls[c].name[0] == 'v'] =
                        s->ranks[p][r].at[tape->calls[c].out[0]];
        }
}

/* Where what comes out of the place before goes: rows of pictures among the tokens. */
static orr_value input_of(const orr_module *module)
{
    for (orr_value v = 0; module->in == ORR_NONE && v < module->tape->n_values; v++)
        if (strcmp(module->tape->values[v].name, "pictures") == 0)
            return v;
    return module->in;
}

static void look_for_pictures(const served *s)
{
    for (uint32_t p = 0; p < s->row.n; p++)
        for (uint32_t r = 0; r < s->n_ranks; r++)
            for (uint32_t c = 0; c < s->own[p][r].tape->n_calls; c++)
                if (s->own[p][r].tape->calls[c].op == ORR_OP_MASKED_SCATTER)
                    args_of(&s->own[p][r], c)->begin = PICTURE;
}

static void run(world *w, served *s, uint32_t first, uint32_t tokens, uint32_t cache)
{
    open_served(w, s, first, tokens, cache);
    look_for_pictures(s);
    fill(w, s, first);
    for (uint32_t p = 0; p < s->row.n; p++)
        for (uint32_t r = 0; r < s->n_ranks && cache > 0; r++)
            stand_at(&s->own[p][r], first);
    for (uint32_t p = 0; p < s->row.n; p++) {
        for (uint32_t r = 0; r < s->n_ranks && p > 0; r++) {
            const orr_module *before = &s->own[p - 1][r], *here = &s->own[p][r];
            const orr_value in = input_of(here);
            const int64_t n = naive_size(&here->tape->values[in].type);
            assert_true(n == naive_size(&before->tape->values[before->out].type));
            memcpy(s->ranks[p][r].at[in], s->ranks[p - 1][r].at[before->out],
                   (size_t)n * sizeof(double));
        }
        naive_group_run(s->ranks[p], s->n_ranks, &s->plan, true);
    }
    if (cache > 0)
        keep_caches(w, s);
}

static void hold_logits(const world *w, const served *all, const served *s, uint32_t first)
{
    const uint32_t head = s->row.n - 1, whole_head = all->row.n - 1;
    const orr_module *one = &all->own[whole_head][0];
    const orr_type *whole = &one->tape->values[one->out].type;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        const orr_module *module = &s->own[head][r];
        orr_type few = *whole;
        few.dim[1] = module->tape->values[module->out].type.dim[1];
        const owned o = owned_of(module, &s->plan, r, module->out, &few);
        for (int64_t i = 0; i < naive_size(&o.own); i++) {
            int64_t at[ORR_TYPE_DIMS];
            const int64_t index = owned_index(&o, i);
            if (index < 0)
                continue;
            naive_unravel(&few, index, at);
            at[1] += first;
            const double want = all->ranks[whole_head][0].at[one->out][naive_ravel(whole, at)];
            const double got = s->ranks[head][r].at[module->out][i];
            if (!(fabs(got - want) <= 1e-9 * (1 + fabs(want))))
                seed_fail(w->seed, "%s, %s: rank %u, logit %lld of token %lld: %.12g, not %.12g",
                          w->model->name, w->plan_text, r, (long long)at[2], (long long)at[1], got,
                          want);
        }
    }
}

static void serve(const small_model *model, const char *plan_text, uint64_t seed)
{
    static const uint32_t steps[] = {5, 1, 3, 1, 1};
    static served all, some;
    static world w;
    orr_error err = {0};
    orr_plan plan;
    orr_random random = orr_random_of(seed, 7);
    w = (world){.seed = seed, .model = model, .plan_text = plan_text, .arena = orr_arena_new(0, 0)};
    for (uint32_t i = 0; i < SAMPLES * TOKENS; i++)
        w.ids[i / TOKENS][i % TOKENS] = (double)orr_random_below(&random, PICTURE);
    for (uint32_t i = 0; i < SAMPLES * 4 && model->model.vision.layers > 0; i++)
        w.ids[i / 4][1 + i % 4] = PICTURE;
    assert_int_equal(orr_plan_parse(plan_text, &plan, &err), ORR_OK);
    plan.micro_batch = SAMPLES;
    plan.precision = ORR_PRECISION_FP32;
    some.plan = orr_plan_with_defaults(&plan);
    plan = (orr_plan){.micro_batch = SAMPLES, .precision = ORR_PRECISION_FP32};
    all.plan = orr_plan_with_defaults(&plan);
    run(&w, &all, 0, TOKENS, 0);
    for (uint32_t i = 0, first = 0; i < sizeof steps / sizeof *steps; first += steps[i++]) {
        run(&w, &some, first, steps[i], CACHE);
        hold_logits(&w, &all, &some, first);
    }
    orr_arena_free(w.arena);
}

/* A picture of 4 x 4 patches makes 4 tokens, of which a sample has one picture. */
static small_model small_llama4_vision(void)
{
    small_model m = small_llama4();
    m.name = "llama 4 with pictures";
    m.model.vision = (orr_vision){.layers = 2,
                                  .hidden = 16,
                                  .ffn = 24,
                                  .heads = 2,
                                  .image = 12,
                                  .patch = 3,
                                  .tiles = 1,
                                  .tokens = 4,
                                  .output = 12,
                                  .adapter_in = 64,
                                  .adapter_ffn = 20,
                                  .biases = true,
                                  .class_token = true};
    return m;
}

static void tokens_and_pictures(void **state)
{
    (void)state;
    const seed_range range = seeds(2);
    const small_model model = small_llama4_vision();
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        serve(&model, "tp=1", seed);
        serve(&model, "tp=2", seed);
        serve(&model, "tp=4", seed); /* the encoder's two heads are on all */
    }
}

static void tokens_that_come_one_by_one(void **state)
{
    static const char *const plans[] = {"tp=1", "tp=2", "tp=4", "tp=2,ep=2,etp=1"};
    (void)state;
    const seed_range range = seeds(3);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (size_t m = 0; m < N_SMALL_MODELS; m++) {
            const small_model model = SMALL_MODELS[m]();
            for (size_t p = 0; p < 4; p++)
                if (model.model.moe.experts > 0 || p < 3)
                    serve(&model, plans[p], seed);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_that_come_one_by_one),
                                       cmocka_unit_test(tokens_and_pictures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
