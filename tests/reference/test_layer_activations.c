/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/op.h>

/* A layer of GPT, its gradient, and recomputation against closed forms:
 *
 * - bytes kept: s b h (34 + 5 a s / h), and 34 s b h with the core of attention computed again
 *   (Korthikanti et al., arXiv 2205.05198, equations 1 and 6 with t = 1, and table 2);
 * - FLOPs: 24 b s h^2 + 4 b s^2 h forward, twice that backward (Narayanan et al., arXiv 2104.04473,
 *   appendix, which like the tape counts all pairs where scores are written).
 *
 * Both count products alone, and no statistics of norms: 16 bytes a token. */
enum { B = 2, S = 64, H = 8, W = 128 };

typedef struct layer {
    orr_arena *arena;
    orr_tape tape;
    orr_value x, y;
    orr_value core[3]; /* probabilities, mask of dropout, what it leaves */
    orr_value stats[4];
} layer;

static void ok(orr_status status, const orr_error *err)
{
    if (status != ORR_OK)
        fail_msg("%s", err->text);
}

static orr_value new_value(layer *l, orr_value_role role, uint8_t rank, const int64_t *dims)
{
    orr_type type = {.dtype = ORR_DTYPE_BF16, .rank = rank};
    memcpy(type.dim, dims, rank * sizeof *dims);
    orr_value value;
    orr_error err;
    ok(orr_tape_value_new(&l->tape, role, &type, "", &value, &err), &err);
    return value;
}
#define NEW(l, role, ...)                                                                          \
    new_value((l), ORR_VALUE_##role, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),           \
              (const int64_t[]){__VA_ARGS__})

static orr_value call(layer *l, orr_op op, const orr_op_args *args, const orr_value *in, uint32_t n,
                      orr_value out[ORR_CALL_OUT])
{
    orr_value made[ORR_CALL_OUT];
    orr_error err;
    ok(orr_tape_call_op(&l->tape, op, args, in, n, "", made, &err), &err);
    if (out != NULL)
        memcpy(out, made, sizeof made);
    return made[0];
}
#define CALL(l, op, args, out, ...)                                                                \
    call((l), ORR_OP_##op, (args), (const orr_value[]){__VA_ARGS__},                               \
         sizeof((orr_value[]){__VA_ARGS__}) / sizeof(orr_value), (out))

static orr_value linear(layer *l, orr_value x, int64_t in, int64_t out)
{
    const orr_value y = CALL(l, MATMUL, NULL, NULL, x, NEW(l, PARAMETER, in, out));
    return CALL(l, BIAS, NULL, NULL, y, NEW(l, PARAMETER, out));
}

static orr_value norm(layer *l, orr_value x, orr_value stats[2])
{
    orr_value out[ORR_CALL_OUT];
    CALL(l, LAYER_NORM, NULL, out, x, NEW(l, PARAMETER, W), NEW(l, PARAMETER, W));
    memcpy(stats, out + 1, 2 * sizeof *stats);
    return out[0];
}

static orr_value attention(layer *l, orr_value qkv)
{
    const orr_op_args heads = {.shape = &(orr_type){.rank = 4, .dim = {B, S, 3 * H, W / H}}};
    const orr_op_args parts = {.dim = 2, .shape = &(orr_type){.rank = 3, .dim = {H, H, H}}};
    const orr_op_args rows = {.shape = &(orr_type){.rank = 3, .dim = {B, S, W}}};
    const orr_op_args core = {.mask = ORR_MASK_CAUSAL, .value = 0.1};
    orr_value part[ORR_CALL_OUT], out[ORR_CALL_OUT];
    CALL(l, SPLIT, &parts, part, CALL(l, VIEW, &heads, NULL, qkv));
    CALL(l, ATTENTION, &core, out, part[0], part[1], part[2]);
    memcpy(l->core, out + 1, sizeof l->core);
    return CALL(l, VIEW, &rows, NULL, out[0]);
}

static orr_value residual(layer *l, orr_value x, orr_value branch)
{
    orr_value out[ORR_CALL_OUT];
    CALL(l, DROPOUT, (&(orr_op_args){.value = 0.1}), out, branch);
    return CALL(l, ADD, NULL, NULL, x, out[0]);
}

static void open_layer(layer *l)
{
    *l = (layer){.arena = orr_arena_new(0, 0)};
    assert_non_null(l->arena);
    orr_tape_init(&l->tape, l->arena);
    l->x = NEW(l, INPUT, B, S, W);
    const orr_value qkv = linear(l, norm(l, l->x, l->stats), W, 3 * W);
    const orr_value y = residual(l, l->x, linear(l, attention(l, qkv), W, W));
    const orr_value up = CALL(l, GELU, NULL, NULL, linear(l, norm(l, y, l->stats + 2), W, 4 * W));
    l->y = residual(l, y, linear(l, up, 4 * W, W));
    orr_value dx;
    orr_error err;
    const orr_value dy = NEW(l, GRADIENT, B, S, W);
    ok(orr_tape_gradient(&l->tape, &l->y, &dy, 1, &l->x, 1, &dx, &err), &err);
}

/* Without parameters, and statistics of norms. */
static int64_t kept_bytes(const layer *l)
{
    int64_t bytes = 0;
    for (orr_value v = 0; v < l->tape.n_values; v++)
        if (orr_tape_is_saved(&l->tape, v) && l->tape.values[v].role != ORR_VALUE_PARAMETER)
            bytes += orr_type_bytes(&l->tape.values[v].type);
    for (int k = 0; k < 4; k++)
        bytes -= orr_type_bytes(&l->tape.values[l->stats[k]].type);
    return bytes;
}

static double product_flops(const layer *l, bool forward)
{
    double flops = 0;
    for (uint32_t c = 0; c < l->tape.n_calls; c++) {
        const orr_tape_call *at = &l->tape.calls[c];
        const bool product = at->op == ORR_OP_MATMUL || at->op == ORR_OP_ATTENTION ||
                             at->op == ORR_OP_ATTENTION_BACKWARD;
        orr_op_work work;
        orr_tape_work(&l->tape, c, &work);
        if (product && (at->pass == ORR_PASS_FORWARD) == forward)
            flops += work.flops;
    }
    return flops;
}

static bool is_core(void *ctx, const orr_tape *tape, orr_value value)
{
    (void)tape;
    const layer *l = ctx;
    return value == l->core[0] || value == l->core[1] || value == l->core[2];
}

static bool is_any(void *ctx, const orr_tape *tape, orr_value value)
{
    (void)ctx, (void)tape, (void)value;
    return true;
}

static void activations(void **state)
{
    (void)state;
    layer l;
    open_layer(&l);
    const int64_t sbh = (int64_t)S * B * W, as2b = (int64_t)H * S * S * B;
    assert_int_equal(kept_bytes(&l), 34 * sbh + 5 * as2b);
    orr_error err;
    const orr_recompute_policy selective = {.drops = is_core, .ctx = &l};
    ok(orr_tape_recompute(&l.tape, &selective, &err), &err);
    assert_int_equal(kept_bytes(&l), 34 * sbh);
    orr_arena_free(l.arena);
    /* From the input alone: 2 s b h; the statistics are gone too. */
    open_layer(&l);
    const orr_recompute_policy full = {.drops = is_any};
    ok(orr_tape_recompute(&l.tape, &full, &err), &err);
    assert_int_equal(kept_bytes(&l) + 16 * S * B, 2 * sbh);
    orr_arena_free(l.arena);
}

static void flops(void **state)
{
    (void)state;
    layer l;
    open_layer(&l);
    const double forward = 24.0 * B * S * W * W + 4.0 * B * S * S * W;
    assert_true(product_flops(&l, true) == forward);
    assert_true(product_flops(&l, false) == 2 * forward);
    /* Selective: the products of the core once more, 4 b s^2 h. */
    orr_error err;
    const orr_recompute_policy selective = {.drops = is_core, .ctx = &l};
    ok(orr_tape_recompute(&l.tape, &selective, &err), &err);
    assert_true(product_flops(&l, false) == 2 * forward + 4.0 * B * S * S * W);
    orr_arena_free(l.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),
        cmocka_unit_test(flops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
