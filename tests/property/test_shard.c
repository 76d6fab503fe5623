/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/model/built.h"

#include "naive/run.h"
#include "support/seeds.h"

/* Random models in random plans: a rank's tapes against those of one device. */

typedef struct world {
    uint64_t seed;
    orr_random random;
    orr_model model;
    orr_plan plan;
    orr_workload workload;
} world;

static uint32_t draw(world *w, uint32_t n)
{
    return (uint32_t)orr_random_below(&w->random, n);
}

static bool coin(world *w)
{
    return draw(w, 2) == 0;
}

/* Initialisers have no order: each draw is a statement of its own. */
static void draw_parts(world *w)
{
    orr_model *m = &w->model;
    m->norm = coin(w) ? ORR_NORM_RMS : ORR_NORM_LAYER;
    m->activation = coin(w) ? ORR_ACTIVATION_SWIGLU : ORR_ACTIVATION_GELU;
    m->tied = coin(w);
    m->qkv_bias = coin(w);
    m->output_bias = coin(w);
    m->mlp_bias = coin(w);
    m->norm_bias = coin(w);
    m->head_bias = coin(w);
    m->parallel_residual = draw(w, 4) == 0;
    m->qk_norm = (uint8_t)draw(w, 3);
    m->chunk = draw(w, 3) == 0 ? 64 : 0;
    m->global_every = m->chunk > 0 ? 2 : 0;
    m->positions = draw(w, 3) == 0 ? 256 : 0;
}

static void draw_model(world *w)
{
    orr_model *m = &w->model;
    *m = (orr_model){.name = "random",
                     .kind = ORR_MODEL_TRANSFORMER,
                     .layers = 2,
                     .vocab = 1024,
                     .context = 4096,
                     .rope_theta = 1e4,
                     .position = ORR_POSITION_ROTARY,
                     .norm_epsilon = 1e-5,
                     .final_norm = true,
                     .source = "drawn"};
    m->family = draw(w, 3) == 0 ? "gpt3" : "llama";
    m->head_dim = 16u << draw(w, 2);
    m->heads = 8u << draw(w, 2);
    m->hidden = m->heads * m->head_dim;
    m->ffn = 128u << draw(w, 3);
    m->kv_heads = m->heads >> draw(w, 3);
    draw_parts(w);
    if (coin(w)) {
        m->moe = (orr_moe){.experts = 16, .expert_ffn = 128, .shared_ffn = 256, .every = 1};
        m->moe.top_k = 1 + draw(w, 2);
        m->moe.shared = draw(w, 2);
        m->moe.shared_gate = coin(w);
        m->moe.scales_input = coin(w);
    }
    if (draw(w, 4) == 0)
        m->mla = (orr_mla){64 * draw(w, 2), 32, 16, 16, 32};
}

static void draw_plan(world *w)
{
    const bool moe = w->model.moe.experts > 0;
    orr_plan plan = {.seq = 256};
    plan.tp = 1u << draw(w, 3);
    plan.cp = 1u << draw(w, 2);
    plan.dp = 1u << draw(w, 3);
    plan.micro_batch = 1 + draw(w, 2);
    plan.etp = moe && coin(w) ? 1 : plan.tp;
    const uint32_t most = plan.tp * plan.cp * plan.dp / plan.etp;
    plan.ep = moe ? 1u << draw(w, (uint32_t)__builtin_ctz(most) + 1) : 1;
    plan.ep = plan.ep > 16 ? 16 : plan.ep;
    plan.sp = moe || coin(w) ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
    plan.cp_kind = coin(w) ? ORR_CONTEXT_RING : ORR_CONTEXT_ALL_GATHER;
    plan.flash = coin(w) || plan.cp > 1 ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
    plan.fusion = coin(w) ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
    plan.recompute = (uint8_t)(ORR_RECOMPUTE_NONE + draw(w, 3));
    plan.precision = draw(w, 3) > 0 ? ORR_PRECISION_BF16 : ORR_PRECISION_FP8;
    w->plan = orr_plan_with_defaults(&plan);
}

static void build_row(const world *w, const orr_plan *plan, orr_arena *arena,
                      orr_module_sequence *ret)
{
    orr_error err = {0};
    if (orr_modules_build(&w->model, plan, &w->workload, arena, ret, &err) != ORR_OK)
        seed_fail(w->seed, "%s: %s", orr_plan_text(plan, arena), err.text);
}

static orr_plan one_device(const world *w)
{
    orr_plan plan = w->plan;
    plan.tp = plan.cp = plan.dp = plan.ep = plan.etp = 1;
    return plan;
}

static orr_value next_parameter(const orr_tape *tape, orr_value from)
{
    while (from < tape->n_values && tape->values[from].role != ORR_VALUE_PARAMETER)
        from++;
    return from;
}

/* More slices than heads of keys and values: these are on several. */
static bool copies_keys(const world *w)
{
    return w->model.mla.kv_rank == 0 && w->model.kv_heads < w->plan.tp;
}

/* A parameter is whole, or one of as many slices as there are. */
static void parameters_add_up(const world *w, const orr_tape *rank, const orr_tape *whole)
{
    orr_value a = next_parameter(rank, 0), b = next_parameter(whole, 0);
    for (; b < whole->n_values; a = next_parameter(rank, a + 1), b = next_parameter(whole, b + 1)) {
        if (a >= rank->n_values)
            seed_fail(w->seed, "%s is missing", whole->values[b].name);
        const int64_t share = orr_type_elements(&rank->values[a].type);
        const int64_t all = orr_type_elements(&whole->values[b].type);
        const uint32_t slices =
            rank->values[a].tag == ORR_WEIGHT_EXPERT ? w->plan.ep * w->plan.etp : w->plan.tp;
        const bool must_slice = rank->values[a].tag == ORR_WEIGHT_EXPERT;
        if (copies_keys(w) && strcmp(whole->values[b].name, "qkv") == 0 && share * slices > all)
            continue;
        if (share * slices != all && (must_slice || share != all))
            seed_fail(w->seed, "%s: %lld of %lld in %u slices", whole->values[b].name,
                      (long long)share, (long long)all, slices);
    }
    if (a < rank->n_values)
        seed_fail(w->seed, "%s is too much", rank->values[a].name);
}

/* Every parameter that is trained has one gradient, of its dims. */
static void gradients_are_complete(const world *w, const orr_tape *tape)
{
    for (orr_value p = next_parameter(tape, 0); p < tape->n_values;
         p = next_parameter(tape, p + 1)) {
        uint32_t n = 0;
        for (orr_value v = 0; v < tape->n_values; v++)
            n += tape->values[v].role == ORR_VALUE_PARAMETER_GRADIENT && tape->values[v].of == p &&
                 orr_type_elements(&tape->values[v].type) ==
                     orr_type_elements(&tape->values[p].type);
        if (n != 1)
            seed_fail(w->seed, "%s has %u gradients", tape->values[p].name, n);
    }
}

/* Slices do what one device does, and what each has to do as well. */
static void work_adds_up(const world *w, const orr_module *rank, const orr_module *whole)
{
    static const orr_pass passes[] = {ORR_PASS_FORWARD, ORR_PASS_RECOMPUTE, ORR_PASS_INPUT,
                                      ORR_PASS_WEIGHT};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        const double all = product_flops_of(whole, passes[i]);
        const double sum = product_flops_of(rank, passes[i]) * w->plan.tp * w->plan.cp;
        /* Without sequence parallelism narrow layers of latent attention are computed by all. */
        const bool repeated =
            (w->model.mla.kv_rank > 0 && w->plan.sp == ORR_SWITCH_OFF) || copies_keys(w);
        /* A ring's pieces are even, and a chunk reaches into whole ones. */
        const bool pieces = w->plan.cp > 1;
        const double most = pieces ? 1.25 : 1.0000001;
        if (sum < all * (pieces ? 0.98 : 0.9999999) || (!repeated && sum > all * most))
            seed_fail(w->seed, "%s: %s: %g FLOPs on slices, %g on one device", rank->name,
                      orr_pass_name(passes[i]), sum, all);
    }
}

/* A value is made before it is used, once, and its call is where it says. */
static void tape_is_sound(const world *w, const orr_module *module)
{
    const orr_tape *tape = module->tape;
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        for (uint32_t i = 0; i < call->n_in; i++) {
            const uint32_t maker = tape->values[call->in[i]].made_by;
            if (maker != ORR_NONE && maker >= c)
                seed_fail(w->seed, "%s: call %u reads what call %u makes", module->name, c, maker);
        }
        for (uint32_t i = 0; i < call->n_out; i++)
            if (tape->values[call->out[i]].made_by != c)
                seed_fail(w->seed, "%s: value %u is not made by call %u", module->name,
                          call->out[i], c);
        orr_type again[ORR_CALL_OUT];
        orr_op_signature_types room;
        orr_error err = {0};
        const orr_op_signature site = orr_tape_signature(tape, c, &room);
        if (orr_op_of((orr_op)call->op)->shape(&site, again, &err) != ORR_OK)
            seed_fail(w->seed, "%s: call %u: %s", module->name, c, err.text);
        for (uint32_t i = 0; i < call->n_out; i++)
            if (memcmp(again[i].dim, room.out[i].dim, again[i].rank * sizeof *again[i].dim) != 0)
                seed_fail(w->seed, "%s: call %u gives other dims than it says", module->name, c);
    }
}

static void slices_make_the_whole(void **state)
{
    (void)state;
    const seed_range range = seeds(1000);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w = {.seed = seed, .random = orr_random_of(seed, 0)};
        orr_arena *arena = orr_arena_new(0, 0);
        draw_model(&w);
        draw_plan(&w);
        const orr_plan alone = one_device(&w);
        orr_module_sequence rank, whole;
        build_row(&w, &w.plan, arena, &rank);
        build_row(&w, &alone, arena, &whole);
        if (rank.n_modules != whole.n_modules)
            seed_fail(seed, "%u modules, and %u on one device", rank.n_modules, whole.n_modules);
        for (uint32_t i = 0; i < rank.n_modules; i++) {
            const orr_module *a = &rank.modules[i], *b = &whole.modules[i];
            tape_is_sound(&w, a);
            parameters_add_up(&w, a->tape, b->tape);
            gradients_are_complete(&w, a->tape);
            work_adds_up(&w, a, b);
        }
        orr_arena_free(arena);
    }
}

/* The same in numbers: ranks with slices of one device's weights and tokens run their tapes, and
 * get slices of what it gets, forward and backward. */
typedef struct runner {
    const world *w;
    const orr_module *module;
    naive_rank ranks[NAIVE_RANKS_MAX];
    uint32_t n;
} runner;

static double *room_of(const orr_type *type, orr_arena *arena)
{
    double *at = orr_arena_array(arena, double, (size_t)naive_size(type) + 1);
    assert_non_null(at);
    return at;
}

/* What a rank alone can say of a call: of a slice of the tokens, positions begin where the slice
 * does; of a slice of a table or of logits, rows do. */
static void place_call(const world *w, const orr_tape *tape, uint32_t k, orr_tape_call *call)
{
    const orr_type *x = &tape->values[call->in[0]].type;
    switch (call->op) {
    case ORR_OP_ROTARY:
        call->args.offset = x->dim[1] < w->plan.seq ? k * x->dim[1] : 0;
        break;
    case ORR_OP_EMBEDDING:
        call->args.begin = x->dim[0] == w->model.positions ? 0 : k * x->dim[0];
        call->args.count = x->dim[0];
        break;
    case ORR_OP_EMBEDDING_BACKWARD:
        call->args.begin = call->args.count == w->model.positions ? 0 : k * call->args.count;
        break;
    case ORR_OP_CROSS_ENTROPY:
    case ORR_OP_CROSS_ENTROPY_BACKWARD:
        call->args.begin = k * x->dim[x->rank - 1];
        break;
    default:
        break;
    }
}

static const orr_tape *tape_of(const world *w, const orr_tape *tape, uint32_t k, orr_arena *arena)
{
    orr_tape *own = orr_arena_one(arena, orr_tape);
    orr_tape_call *calls = orr_arena_array(arena, orr_tape_call, tape->n_calls);
    assert_true(own != NULL && calls != NULL);
    *own = *tape;
    memcpy(calls, tape->calls, tape->n_calls * sizeof *calls);
    own->calls = calls;
    for (uint32_t c = 0; c < tape->n_calls; c++)
        place_call(w, tape, k, &calls[c]);
    return own;
}

static void runner_init(runner *r, const world *w, const orr_module *module, uint32_t n,
                        orr_arena *arena)
{
    *r = (runner){.w = w, .module = module, .n = n};
    for (uint32_t k = 0; k < n; k++) {
        r->ranks[k] = (naive_rank){.tape = tape_of(w, module->tape, k, arena)};
        r->ranks[k].at = orr_arena_array(arena, double *, module->tape->n_values);
        assert_non_null(r->ranks[k].at);
        for (orr_value v = 0; v < module->tape->n_values; v++)
            r->ranks[k].at[v] = room_of(&module->tape->values[v].type, arena);
    }
}

static int32_t cut_of(const orr_type *share, const orr_type *whole)
{
    for (int32_t dim = 0; dim < whole->rank; dim++)
        if (share->dim[dim] != whole->dim[dim])
            return dim;
    return -1;
}

/* Where element i of rank k's share stands in the whole. A slice of what holds gates and then as
 * many others is a slice of each. */
static int64_t place_in_whole(const orr_type *share, const orr_type *whole, bool halves, uint32_t k,
                              int64_t i)
{
    const int32_t dim = cut_of(share, whole);
    int64_t at[ORR_TYPE_DIMS];
    if (dim < 0)
        return i;
    naive_unravel(share, i, at);
    const int64_t each = halves ? share->dim[dim] / 2 : share->dim[dim];
    const int64_t all = halves ? whole->dim[dim] / 2 : whole->dim[dim];
    at[dim] = at[dim] / each * all + k * each + at[dim] % each;
    return naive_ravel(whole, at);
}

static bool has_halves(const orr_tape_value *value)
{
    return strcmp(value->name, "gate_up") == 0;
}

/* Leaves stand in the same order on both tapes. */
static void fill_leaves(runner *one, runner *many, orr_random *random)
{
    const orr_tape *whole = one->module->tape, *rank = many->module->tape;
    orr_value v = 0;
    for (orr_value u = 0; u < whole->n_values; u++) {
        if (whole->values[u].made_by != ORR_NONE)
            continue;
        while (rank->values[v].made_by != ORR_NONE)
            v++;
        const orr_type *all = &whole->values[u].type, *share = &rank->values[v].type;
        for (int64_t i = 0; i < naive_size(all); i++)
            one->ranks[0].at[u][i] =
                all->dtype == ORR_DTYPE_INT64
                    ? (double)orr_random_below(random, strcmp(whole->values[u].name, "positions")
                                                           ? one->w->model.vocab
                                                           : one->w->model.positions)
                    : 2 * orr_random_unit(random) - 1;
        for (uint32_t k = 0; k < many->n; k++)
            for (int64_t i = 0; i < naive_size(share); i++)
                many->ranks[k].at[v][i] =
                    one->ranks[0]
                        .at[u][place_in_whole(share, all, has_halves(&whole->values[u]), k, i)];
        v++;
    }
}

/* `sum`: ranks have terms. */
static void must_equal(const runner *one, const runner *many, orr_value u, orr_value v, bool halves,
                       bool sum, const char *what)
{
    const orr_type *all = &one->module->tape->values[u].type;
    const orr_type *share = &many->module->tape->values[v].type;
    for (uint32_t k = 0; k < many->n; k++)
        for (int64_t i = 0; i < naive_size(share); i++) {
            const double want = one->ranks[0].at[u][place_in_whole(share, all, halves, k, i)];
            double got = sum ? 0 : many->ranks[k].at[v][i];
            for (uint32_t q = 0; sum && q < many->n; q++)
                got += many->ranks[q].at[v][i];
            if (!(fabs(got - want) <= 1e-9 * (1 + fabs(want))))
                seed_fail(one->w->seed, "%s: rank %u, element %lld of %s: %g, not %g",
                          many->module->name, k, (long long)i, what, got, want);
        }
}

static orr_value gradient_of(const orr_tape *tape, orr_value parameter)
{
    for (orr_value v = 0; v < tape->n_values; v++)
        if (tape->values[v].role == ORR_VALUE_PARAMETER_GRADIENT && tape->values[v].of == parameter)
            return v;
    return ORR_NONE;
}

static void compare(const runner *one, const runner *many)
{
    const orr_tape *whole = one->module->tape, *rank = many->module->tape;
    if (one->module->out != ORR_NONE)
        must_equal(one, many, one->module->out, many->module->out, false, false, "what comes out");
    if (one->module->in != ORR_NONE)
        must_equal(one, many, one->module->grad_in, many->module->grad_in, false, false,
                   "the input's gradient");
    orr_value v = next_parameter(rank, 0);
    for (orr_value u = next_parameter(whole, 0); u < whole->n_values;
         u = next_parameter(whole, u + 1), v = next_parameter(rank, v + 1))
        must_equal(one, many, gradient_of(whole, u), gradient_of(rank, v),
                   has_halves(&whole->values[u]), rank->values[v].tag == ORR_WEIGHT_SLICED,
                   whole->values[u].name);
}

static void draw_small(world *w)
{
    orr_model *m = &w->model;
    draw_model(w);
    m->family = "llama"; /* what is dropped out is drawn by each rank for itself */
    m->moe.experts = 0;
    m->heads = 4;
    m->kv_heads = 4;
    m->head_dim = 4;
    m->hidden = m->ffn = 16;
    m->vocab = 32;
    m->chunk = m->chunk > 0 ? 4 : 0;
    m->positions = m->positions > 0 ? 12 : 0;
    if (m->mla.kv_rank > 0)
        m->mla = (orr_mla){m->mla.q_rank > 0 ? 8 : 0, 8, 4, 4, 6};
    orr_plan plan = {.tp = 2u << draw(w, 2), .seq = 8, .etp = 1};
    plan.sp = coin(w) ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
    plan.fusion = coin(w) ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
    plan.flash = coin(w) ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
    plan.recompute = (uint8_t)(ORR_RECOMPUTE_NONE + draw(w, 3));
    w->plan = orr_plan_with_defaults(&plan);
}

static void ranks_compute_what_one_device_does(void **state)
{
    (void)state;
    const seed_range range = seeds(100);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w = {.seed = seed, .random = orr_random_of(seed, 1)};
        orr_arena *arena = orr_arena_new(0, 0);
        draw_small(&w);
        const orr_plan alone = one_device(&w);
        orr_module_sequence rank, whole;
        build_row(&w, &w.plan, arena, &rank);
        build_row(&w, &alone, arena, &whole);
        for (uint32_t i = 0; i < rank.n_modules; i++) {
            runner one, many;
            runner_init(&one, &w, &whole.modules[i], 1, arena);
            runner_init(&many, &w, &rank.modules[i], w.plan.tp, arena);
            fill_leaves(&one, &many, &w.random);
            naive_run(one.ranks, 1, false);
            naive_run(many.ranks, many.n, false);
            compare(&one, &many);
        }
        orr_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slices_make_the_whole),
                                       cmocka_unit_test(ranks_compute_what_one_device_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
