/* SPDX-License-Identifier: Apache-2.0 */
#include "op/families/matmul.h"

/* Product of tokens, sorted by expert, each with the weights of its expert.
 *
 * x (T, K), w (E, K, N) [transpose_b: (E, N, K)]; y (T, N).
 * transpose_a: the sum over the tokens of each expert, as for gradients of weights: x (T, K) and
 * w (T, N) give (E, K, N), E = `experts`.
 * counts, int32: tokens of each expert; without it all have T / E. (E): rows stand one expert
 * behind the other. (P, E): x has P parts of T / P rows, in each of which rows stand one expert
 * behind the other from the part's first row on, counts[p][e] of them; T / P may differ from their
 * sum. Rows of x behind those that are counted are nobody's: they are not read, y has zeros there,
 * and with transpose_a neither x's nor w's are in a sum. Then scales of both or none, as of MATMUL.
 */

static bool has_counts(uint32_t n_in)
{
    return n_in == 3 || n_in == 5;
}

static orr_status check_counts(const orr_op_signature *sig, int64_t experts, orr_error *err)
{
    if (has_counts(sig->n_in)) {
        const orr_type *counts = &sig->in[2];
        if (counts->rank < 1 || counts->rank > 2 || counts->dim[counts->rank - 1] != experts)
            return orr_op_shape_error(sig, err, "counts are one of each of the %lld experts",
                                      (long long)experts);
        if (counts->rank == 2 && (counts->dim[0] < 1 || sig->in[0].dim[0] % counts->dim[0] != 0))
            return orr_op_shape_error(sig, err, "%lld rows do not make %lld parts",
                                      (long long)sig->in[0].dim[0], (long long)counts->dim[0]);
    }
    return ORR_OK;
}

static orr_status weight_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0], *w = &sig->in[1];
    if (x->rank != 2 || w->rank != 2 || x->dim[0] != w->dim[0])
        return orr_op_shape_error(sig, err, "gradients of weights take (T, K) and (T, N)");
    if (sig->args->experts < 1 || sig->args->transpose_b)
        return orr_op_shape_error(sig, err,
                                  "with transpose_a, `experts` is said and w stands as "
                                  "it is");
    ORR_TRY(check_counts(sig, sig->args->experts, err));
    const orr_dtype dtype = orr_matmul_dtype((orr_dtype)x->dtype, (orr_dtype)w->dtype);
    const int64_t dims[3] = {sig->args->experts, x->dim[1], w->dim[1]};
    ret_out[0] = orr_type_of(dtype, 3, dims);
    return ORR_OK;
}

static orr_status grouped_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    if (sig->args->transpose_a)
        return weight_shape(sig, ret_out, err);
    const orr_type *x = &sig->in[0], *w = &sig->in[1];
    if (x->rank != 2 || w->rank != 3)
        return orr_op_shape_error(sig, err, "x has two dims, w three");
    const int64_t k = w->dim[sig->args->transpose_b ? 2 : 1];
    if (x->dim[1] != k)
        return orr_op_shape_error(sig, err, "the inner dims %lld and %lld differ",
                                  (long long)x->dim[1], (long long)k);
    ORR_TRY(check_counts(sig, w->dim[0], err));
    const orr_dtype dtype = orr_matmul_dtype((orr_dtype)x->dtype, (orr_dtype)w->dtype);
    ret_out[0] = orr_type_with(x, dtype);
    ret_out[0].dim[1] = w->dim[sig->args->transpose_b ? 1 : 2];
    return ORR_OK;
}

static void grouped_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const orr_type *x = &sig->in[0], *w = &sig->in[1];
    const int64_t columns = sig->args->transpose_a ? w->dim[1] : sig->out[0].dim[1];
    orr_op_work_stream(sig, 2.0 * (double)x->dim[0] * (double)x->dim[1] * (double)columns, ret);
    ret->dtype = (uint8_t)orr_dtype_wider((orr_dtype)x->dtype, (orr_dtype)w->dtype);
}

/* Records the product a b with the counts of the call. */
static orr_status record(orr_gradient *g, const orr_op_args *how, const orr_quantized_value *a,
                         const orr_quantized_value *b, orr_value *ret, orr_error *err)
{
    orr_value in[5] = {a->value, b->value};
    uint32_t n = 2;
    if (has_counts(g->n_in))
        in[n++] = g->in[2];
    if (a->scale != ORR_NONE) {
        in[n++] = a->scale;
        in[n++] = b->scale;
    }
    orr_op_args args = *how;
    args.size = g->args->size;
    return orr_gradient_call(g, ORR_OP_GROUPED_MATMUL, &args, in, n, ret, err);
}

/* The gradients of y = x' w per expert: dx = w dy', dw = x dy. */
static orr_status weight_gradient(orr_gradient *g, const orr_quantized_value *x,
                                  const orr_quantized_value *w, const orr_quantized_value *dy,
                                  orr_error *err)
{
    const orr_op_args turned = {.transpose_b = true}, straight = {0};
    if (g->wanted[0])
        ORR_TRY(record(g, &turned, w, dy, &g->ret_in[0], err));
    return g->wanted[1] ? record(g, &straight, x, dy, &g->ret_in[1], err) : ORR_OK;
}

static orr_status grouped_gradient(orr_gradient *g, orr_error *err)
{
    const bool scaled = g->n_in >= 4, tb = g->args->transpose_b;
    const orr_quantized_value x = {g->in[0], scaled ? g->in[g->n_in - 2] : ORR_NONE};
    const orr_quantized_value w = {g->in[1], scaled ? g->in[g->n_in - 1] : ORR_NONE};
    orr_quantized_value dy;
    if (!g->wanted[0] && !g->wanted[1])
        return ORR_OK;
    ORR_TRY(orr_quantized_gradient(g, 3, &dy, err));
    if (g->args->transpose_a)
        return weight_gradient(g, &x, &w, &dy, err);
    const orr_op_args input = {.transpose_b = !tb};
    const orr_op_args weight = {.transpose_a = true,
                                .experts = orr_gradient_type(g, g->in[1])->dim[0]};
    if (g->wanted[0])
        ORR_TRY(record(g, &input, &dy, &w, &g->ret_in[0], err));
    return g->wanted[1] ? record(g, &weight, tb ? &dy : &x, tb ? &x : &dy, &g->ret_in[1], err)
                        : ORR_OK;
}

const orr_op_row orr_row_GROUPED_MATMUL = {
    ORR_ROW(GROUPED_MATMUL, "grouped_matmul", MATMUL),
    .min_in = 2,
    .max_in = 5,
    .n_out = 1,
    .takes = "x (T, K), w (E, K, N | T, N) [, counts ([P,] E)] [, scale_x, scale_w]",
    .gives = "y (T, N | E, K, N)",
    .pytorch = ORR_NAMES("aten::_grouped_mm", "aten::_scaled_grouped_mm"),
    .chakra = "COMP_NODE",
    .shape = grouped_shape,
    .work = grouped_work,
    .gradient = grouped_gradient,
};
