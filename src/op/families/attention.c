/* SPDX-License-Identifier: Apache-2.0 */
#include "op/families/attention.h"

/* Attention: softmax(q k' / sqrt(D)) v, for each head.
 *
 * - q (B, S, H, D), k (B, Skv, G, D), v (B, Skv, G, Dv), y (B, S, H, Dv): H / G heads share keys
 * and values.
 * - mask, window, offset, begin: query i stands at position offset + i, or first[b] + i where a run
 * says where each sample stands; key j at begin + j. CAUSAL: it sees keys up to its position;
 * CHUNKED: of these, those of its chunk of `window`: begin + j and its own position have the same
 * quotient by `window` (Llama 4). One that sees no key gets zeros, and minus infinity as logsumexp;
 * backward nothing flows from it. offset may be less than begin: keys of a later slice.
 * - value: probability of dropout.
 *
 * With flash, one kernel, which passes over what the mask hides (Dao, arXiv 2307.08691). It keeps,
 * beside y, the logsumexp (B, H, S) in fp32, and multiplies scores again in the backward pass: 5
 * products where the forward pass has 2. p = exp(score - logsumexp), ds = p (dp - dot(dy, y)).
 *
 * Without (Korthikanti et al., arXiv 2205.05198, section 4), all pairs are multiplied, scores are
 * written and read, and what is kept is the probabilities (B, H, S, Skv), and with dropout its mask
 * of a byte an element and what it leaves: 2 + 1 + 2 bytes in 16 bits. Backward: 4 products.
 *
 * ATTENTION_MERGE: two attentions of the same queries over different keys as one over all of them
 * (Dao, arXiv 2307.08691, section 3.1; ring attention, arXiv 2310.01889): of y and z (B, S, H, Dv)
 * with the logsumexps l and m (B, H, S), in fp32:
 *
 *   n = log(exp(l) + exp(m))
 *   x = exp(l - n) y + exp(m - n) z
 *
 * A weight is 0 where its logsumexp is minus infinity, also where both are. The backward pass of an
 * attention over some of the keys takes x and n of all of them, and dx as it is, and gives exactly
 * its keys' share: so the gradient hands dx on to both, and whoever merges puts x and n in place of
 * y and l there (model/module/lower.c). 5 FLOPs an element. */

typedef struct attention_dims {
    int64_t batch, queries, keys, heads, groups, width, value_width;
} attention_dims;
static attention_dims dims_of(const orr_type *q, const orr_type *k, const orr_type *v)
{
    return (attention_dims){.batch = q->dim[0],
                            .queries = q->dim[1],
                            .keys = k->dim[1],
                            .heads = q->dim[2],
                            .groups = k->dim[2],
                            .width = q->dim[3],
                            .value_width = v->dim[3]};
}

/* Number of pairs of positions 0 .. n - 1 with keys up to their own, in chunks of `window`. */
static double pairs_below(double n, double window)
{
    const double whole = (double)(int64_t)(n / window), rest = n - whole * window;
    return whole * window * (window + 1) / 2 + rest * (rest + 1) / 2;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double or_one(double factor)
{
    return factor > 0 ? factor : 1;
}

/* Pairs whose products are computed: with flash those that masks leave, on the rank that has most
 * of them. */
static double computed_pairs(const orr_op_args *args, int64_t queries, int64_t keys)
{
    return args->flash ? orr_attention_pairs(args, queries, keys) * or_one(args->seen) *
                             or_one(args->uneven)
                       : (double)queries * (double)keys;
}

double orr_attention_pairs(const orr_op_args *args, int64_t queries, int64_t keys)
{
    if (args->mask == ORR_MASK_NONE)
        return (double)queries * (double)keys;
    const double first = (double)args->offset, n_keys = (double)keys;
    const double begin = first > 0 ? first : 0;
    const double end = first + (double)queries > 0 ? first + (double)queries : 0;
    const double window = args->mask == ORR_MASK_CHUNKED ? (double)args->window : end + n_keys + 1;
    double pairs =
        pairs_below(least(end, n_keys), window) - pairs_below(least(begin, n_keys), window);
    /* Queries after the last key see what there is of its chunk. */
    const double chunk = (double)(int64_t)(n_keys / window);
    const double late_begin = begin > n_keys ? begin : n_keys;
    const double late_end = least(end, (chunk + 1) * window);
    if (late_end > late_begin)
        pairs += (late_end - late_begin) * (n_keys - chunk * window);
    return pairs;
}

static orr_status check_inputs(const orr_op_signature *sig, const orr_type *q, const orr_type *k,
                               const orr_type *v, orr_error *err)
{
    if (q->rank != 4 || k->rank != 4 || v->rank != 4)
        return orr_op_shape_error(sig, err, "four dims are needed: batch, tokens, heads, columns");
    if (q->dim[0] != k->dim[0] || k->dim[0] != v->dim[0])
        return orr_op_shape_error(sig, err, "the batches differ");
    if (k->dim[1] != v->dim[1] || k->dim[2] != v->dim[2])
        return orr_op_shape_error(sig, err, "there are not as many keys as values");
    if (q->dim[3] != k->dim[3])
        return orr_op_shape_error(sig, err, "queries of %lld columns meet keys of %lld",
                                  (long long)q->dim[3], (long long)k->dim[3]);
    if (k->dim[2] < 1 || q->dim[2] % k->dim[2] != 0)
        return orr_op_shape_error(sig, err, "%lld heads cannot share %lld heads of keys",
                                  (long long)q->dim[2], (long long)k->dim[2]);
    if (sig->args->mask == ORR_MASK_CHUNKED && sig->args->window < 1)
        return orr_op_shape_error(sig, err, "chunks of %lld tokens", (long long)sig->args->window);
    return ORR_OK;
}

static orr_status attention_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *q = &sig->in[0], *k = &sig->in[1], *v = &sig->in[2];
    ORR_TRY(check_inputs(sig, q, k, v, err));
    const bool flash = sig->args->flash, drops = !flash && sig->args->value > 0;
    ret_out[0] = *q;
    ret_out[0].dim[3] = v->dim[3];
    const int64_t pairs[4] = {q->dim[0], q->dim[2], q->dim[1], k->dim[1]};
    ret_out[1] =
        flash ? orr_type_of(ORR_DTYPE_FP32, 3, pairs) : orr_type_of((orr_dtype)q->dtype, 4, pairs);
    ret_out[2] = drops ? orr_type_of(ORR_DTYPE_INT8, 4, pairs) : orr_type_absent();
    ret_out[3] = drops ? ret_out[1] : orr_type_absent();
    return ORR_OK;
}

/* Memory traffic without flash: scores are written by the product and read by the softmax; the
 * output of softmax, or of dropout after it, is read by the next product. */
static void add_unfused_traffic(const orr_op_signature *sig, orr_op_work *ret)
{
    const double scores = (double)orr_type_bytes(&sig->out[1]);
    const bool drops = sig->n_out > 2;
    ret->read_bytes += drops ? 3 * scores : 2 * scores;
    ret->write_bytes += scores;
}

static void attention_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const attention_dims d = dims_of(&sig->in[0], &sig->in[1], &sig->in[2]);
    const bool flash = sig->args->flash;
    const double pairs = computed_pairs(sig->args, d.queries, d.keys);
    const double columns = (double)(d.width + d.value_width);
    orr_op_work_stream(sig, 2 * (double)(d.batch * d.heads) * pairs * columns, ret);
    ret->dtype = sig->in[0].dtype;
    if (!flash)
        add_unfused_traffic(sig, ret);
}

static orr_status attention_gradient(orr_gradient *g, orr_error *err)
{
    if (g->grad_out[0] == ORR_NONE)
        return ORR_OK;
    orr_value in[ORR_CALL_IN] = {g->grad_out[0], g->in[0], g->in[1], g->in[2]}, made[3];
    uint32_t n = 4;
    if (g->args->flash)
        in[n++] = g->out[0];
    for (uint32_t k = 1; k < g->n_out; k++)
        in[n++] = g->out[k];
    ORR_TRY(orr_gradient_call(g, ORR_OP_ATTENTION_BACKWARD, g->args, in, n, made, err));
    for (uint32_t k = 0; k < 3; k++)
        g->ret_in[k] = made[k];
    return ORR_OK;
}

const orr_op_row orr_row_ATTENTION = {
    ORR_ROW(ATTENTION, "attention", ATTENTION),
    .min_in = 3,
    .max_in = 3,
    .n_out = 4,
    .takes = "q (B, S, H, D), k (B, Skv, G, D), v (B, Skv, G, Dv)",
    .gives = "y (B, S, H, Dv), logsumexp (B, H, S) or probabilities (B, H, S, Skv) "
             "[, dropout_mask (B, H, S, Skv), left (B, H, S, Skv)]",
    .pytorch =
        ORR_NAMES("aten::scaled_dot_product_attention", "aten::_flash_attention_forward",
                  "aten::_efficient_attention_forward", "aten::_scaled_dot_product_flash_attention",
                  "aten::_scaled_dot_product_efficient_attention",
                  "aten::_scaled_dot_product_cudnn_attention"),
    .chakra = "COMP_NODE",
    .shape = attention_shape,
    .work = attention_work,
    .gradient = attention_gradient,
};

static orr_status backward_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *q = &sig->in[1], *k = &sig->in[2], *v = &sig->in[3];
    const bool flash = sig->args->flash, drops = !flash && sig->args->value > 0;
    const uint32_t need = flash ? 6 : drops ? 7 : 5;
    if (sig->n_in != need)
        return orr_op_shape_error(sig, err, "%u inputs are needed", need);
    ORR_TRY(check_inputs(sig, q, k, v, err));
    for (uint32_t i = 0; i < 3; i++)
        ret_out[i] = sig->in[1 + i];
    return ORR_OK;
}

/* dp = dy v', dv = p' dy, dq = ds k, dk = ds' q, and with flash also q k' recomputed. Without
 * flash, dp is written by the product, read and written as ds by the softmax's backward, and read
 * by two products. */
static void backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const bool flash = sig->args->flash;
    const attention_dims d = dims_of(&sig->in[1], &sig->in[2], &sig->in[3]);
    const double pairs = computed_pairs(sig->args, d.queries, d.keys);
    const double columns = (flash ? 3.0 : 2.0) * (double)d.width + 2.0 * (double)d.value_width;
    orr_op_work_stream(sig, 2 * (double)(d.batch * d.heads) * pairs * columns, ret);
    ret->dtype = sig->in[1].dtype;
    if (!flash) {
        const double scores = (double)orr_type_bytes(&sig->in[4]);
        ret->read_bytes += 3 * scores;
        ret->write_bytes += 2 * scores;
    }
}

const orr_op_row orr_row_ATTENTION_BACKWARD = {
    ORR_ROW(ATTENTION_BACKWARD, "attention_backward", ATTENTION),
    .min_in = 5,
    .max_in = 7,
    .n_out = 3,
    .takes = "dy (B, S, H, Dv), q (B, S, H, D), k (B, Skv, G, D), v (B, Skv, G, Dv), "
             "kept (what attention gave: with flash y and logsumexp, else all but y)",
    .gives = "dq, dk, dv",
    .pytorch = ORR_NAMES("aten::_flash_attention_backward", "aten::_efficient_attention_backward",
                         "aten::_scaled_dot_product_flash_attention_backward",
                         "aten::_scaled_dot_product_efficient_attention_backward",
                         "aten::_scaled_dot_product_cudnn_attention_backward"),
    .chakra = "COMP_NODE",
    .shape = backward_shape,
    .work = backward_work,
};
