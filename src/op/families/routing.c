/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

#include "op/families/tensor_rows.h"

/* Mixture of experts: the choice of K of E experts for a token, and the ways there and back.
 *
 * TOP_K. Args: top_k; op: ORR_OP_SIGMOID (DeepSeek-V3, Llama 4) or else softmax; count and begin:
 * experts are divided into `count` groups, of which the best `begin` are eligible, ranked by the
 * sum of their two best experts (DeepSeek-V3, arXiv 2412.19437, section 2.1.2); value: factor of
 * the scores, 0: 1. A bias affects the choice of experts, not their scores. Scores of K > 1 experts
 * are divided by their sum; that of a single expert is its softmax over all, or its sigmoid. */

static orr_status check_choice(const orr_op_signature *sig, orr_error *err)
{
    const orr_op_args *args = sig->args;
    const int64_t experts = orr_type_columns(&sig->in[0]);
    if (args->top_k < 1 || args->top_k > experts)
        return orr_op_shape_error(sig, err, "%lld of %lld experts", (long long)args->top_k,
                                  (long long)experts);
    if (args->count > 1 &&
        (experts % args->count != 0 || args->begin < 1 || args->begin > args->count))
        return orr_op_shape_error(sig, err, "the best %lld of %lld groups of %lld experts",
                                  (long long)args->begin, (long long)args->count,
                                  (long long)experts);
    return ORR_OK;
}

static orr_status top_k_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(orr_op_check_rank(sig, 0, 2, err));
    ORR_TRY(check_choice(sig, err));
    if (sig->n_in > 1 &&
        (sig->in[1].rank != 1 || sig->in[1].dim[0] != orr_type_columns(&sig->in[0])))
        return orr_op_shape_error(sig, err, "a bias has one number for each expert");
    ret_out[0] = sig->in[0];
    ret_out[0].dim[ret_out[0].rank - 1] = sig->args->top_k;
    ret_out[1] = orr_type_with(&ret_out[0], ORR_DTYPE_INT32);
    return ORR_OK;
}

/* 4 FLOPs per expert for its score, and a comparison per expert and choice: assumed. */
static void top_k_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, (4 + (double)sig->args->top_k) * orr_elements(&sig->in[0]), ret);
}

static orr_status top_k_gradient(orr_gradient *g, orr_error *err)
{
    if (!g->wanted[0] || g->grad_out[0] == ORR_NONE)
        return ORR_OK;
    return orr_gradient_call(g, ORR_OP_TOP_K_BACKWARD, g->args,
                             (const orr_value[]){g->in[0], g->out[1], g->grad_out[0]}, 3,
                             &g->ret_in[0], err);
}

const orr_op_row orr_row_TOP_K = {
    ORR_ROW(TOP_K, "top_k", ROUTING),
    .min_in = 1,
    .max_in = 2,
    .n_out = 2,
    .takes = "logits (..., E) [, bias (E)]",
    .gives = "scores (..., K), indices (..., K)",
    .pytorch = ORR_NAMES("aten::topk"),
    .chakra = "COMP_NODE",
    .shape = top_k_shape,
    .work = top_k_work,
    .gradient = top_k_gradient,
};

static orr_status top_k_backward_shape(const orr_op_signature *sig, orr_type *ret_out,
                                       orr_error *err)
{
    const orr_type *indices = &sig->in[1];
    ORR_TRY(orr_op_check_rank(sig, 0, 2, err));
    ORR_TRY(check_choice(sig, err));
    orr_type chosen = sig->in[0];
    chosen.dim[chosen.rank - 1] = sig->args->top_k;
    if (!orr_type_is_index(indices) || !orr_type_same_dims(&chosen, indices) ||
        !orr_type_same_dims(indices, &sig->in[2]))
        return orr_op_shape_error(sig, err, "%lld indices and gradients a token are needed",
                                  (long long)sig->args->top_k);
    ret_out[0] = sig->in[0];
    return ORR_OK;
}

static void top_k_backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 4 * orr_elements(&sig->in[0]) + 4 * orr_elements(&sig->in[1]), ret);
}

const orr_op_row orr_row_TOP_K_BACKWARD = {
    ORR_ROW(TOP_K_BACKWARD, "top_k_backward", ROUTING),
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .takes = "logits (..., E), indices (..., K), dscores (..., K)",
    .gives = "dlogits (..., E)",
    .pytorch = ORR_NAMES("aten::value_selecting_reduction_backward"),
    .chakra = "COMP_NODE",
    .shape = top_k_backward_shape,
    .work = top_k_backward_work,
};

/* DISPATCH: a copy of every token for each of its experts, sorted by expert, those of one expert
 * in the order of (token, choice); times its score where scores are given (Llama 4 weighs what
 * goes into an expert). COMBINE: back again, the K copies of a token added up, weighed by scores
 * where given. Each is the other's gradient.
 *
 * Args: count: rows of the sorted tokens, where room is made for more or fewer than T x K; rows
 * beyond are zeros, and tokens beyond are dropped. experts: DISPATCH also tells how many rows each
 * of so many experts has, which GROUPED_MATMUL wants to know.
 *
 * members > 0, of both (expert parallelism as it is run): the rows stand in `members` parts of
 * count / members rows, and part p has those of experts p E / members .. (p + 1) E / members - 1, E
 * = `experts`, sorted as above within the part from its first row on, zeros behind them. So all
 * parts are equally long whoever is chosen, an all-to-all of dim 0 gives each member a part from
 * each, and with count = members T min(K, E / members) there is room for every choice: nothing is
 * dropped. counts are then (members, E / members): rows of each expert in each part. GROUPED_MATMUL
 * takes rows and counts as they come out of all-to-alls and all-gathers of dim 0.
 *
 * expert_position, of both: experts stand in another order than they are numbered in, by which rows
 * are sorted and counts are told. Rows of an expert keep their order.
 *
 * The gradient of scores is a product of rows: COMBINE with args.op ORR_OP_MUL takes tokens (...,
 * D) instead of scores and gives, for each choice, the product of its sorted row with its token. */

static int64_t sorted_rows(const orr_op_signature *sig)
{
    return sig->args->count > 0 ? sig->args->count : orr_type_elements(&sig->in[1]);
}

static orr_status check_indices(const orr_op_signature *sig, orr_error *err)
{
    const int64_t parts = sig->args->members;
    ORR_TRY(orr_op_check_rank(sig, 0, 2, err));
    ORR_TRY(orr_op_check_rank(sig, 1, 2, err));
    if (!orr_type_is_index(&sig->in[1]))
        return orr_op_shape_error(sig, err, "indices are int32 or int64");
    if (sig->args->expert_position != NULL && sig->args->experts < 1)
        return orr_op_shape_error(sig, err, "the order of how many experts?");
    if (parts > 0 && (sig->args->experts < 1 || sig->args->experts % parts != 0))
        return orr_op_shape_error(sig, err, "%lld experts do not make %lld parts",
                                  (long long)sig->args->experts, (long long)parts);
    if (parts > 0 && sorted_rows(sig) % parts != 0)
        return orr_op_shape_error(sig, err, "%lld rows do not make %lld parts",
                                  (long long)sorted_rows(sig), (long long)parts);
    return ORR_OK;
}

/* Whether all dims but the last agree. */
static bool same_tokens(const orr_type *a, const orr_type *b)
{
    orr_type with_columns = *a;
    with_columns.dim[a->rank - 1] = orr_type_columns(b);
    return orr_type_same_dims(&with_columns, b);
}

static orr_status dispatch_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(check_indices(sig, err));
    if (!same_tokens(&sig->in[0], &sig->in[1]))
        return orr_op_shape_error(sig, err, "every token has its indices");
    if (sig->n_in > 2 && !orr_type_same_dims(&sig->in[1], &sig->in[2]))
        return orr_op_shape_error(sig, err, "every index has its score");
    ret_out[0] = orr_type_of((orr_dtype)sig->in[0].dtype, 2,
                             (int64_t[]){sorted_rows(sig), orr_type_columns(&sig->in[0])});
    const int64_t experts = sig->args->experts, parts = sig->args->members;
    ret_out[1] = experts > 0 ? orr_type_of(ORR_DTYPE_INT32, 1, &experts) : orr_type_absent();
    if (experts > 0 && parts > 0)
        ret_out[1] = orr_type_of(ORR_DTYPE_INT32, 2, (int64_t[]){parts, experts / parts});
    return ORR_OK;
}

/* A token that goes to several experts is read for each. */
static void dispatch_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, sig->n_in > 2 ? orr_elements(&sig->out[0]) : 0, ret);
    const double once = orr_bytes(&sig->in[0]), sorted = orr_bytes(&sig->out[0]);
    ret->read_bytes += sorted > once ? sorted - once : 0;
    ret->dtype = sig->in[0].dtype;
}

/* The row layout of the call, which its backward calls share. */
static orr_op_args laid(const orr_gradient *g, uint8_t op)
{
    const orr_op_args *args = g->args;
    const bool counted = args->members > 0 || args->expert_position != NULL;
    return (orr_op_args){.op = op,
                         .count = args->count,
                         .members = args->members,
                         .experts = counted ? args->experts : 0,
                         .expert_position = args->expert_position};
}

/* Gradient of the scores: dot products of sorted rows with tokens, (..., K), in the dtype of the
 * scores. */
static orr_status scores_gradient(orr_gradient *g, orr_value sorted, orr_value tokens,
                                  orr_error *err)
{
    if (g->n_in < 3 || !g->wanted[2])
        return ORR_OK;
    const orr_op_args args = laid(g, ORR_OP_MUL);
    return orr_gradient_call(g, ORR_OP_COMBINE, &args,
                             (const orr_value[]){sorted, g->in[1], tokens}, 3, &g->ret_in[2], err);
}

static orr_status dispatch_gradient(orr_gradient *g, orr_error *err)
{
    const orr_value grad = g->grad_out[0];
    if (grad == ORR_NONE)
        return ORR_OK;
    ORR_TRY(scores_gradient(g, grad, g->in[0], err));
    if (!g->wanted[0])
        return ORR_OK;
    const orr_op_args args = laid(g, 0);
    const orr_value in[] = {grad, g->in[1], g->n_in > 2 ? g->in[2] : ORR_NONE};
    return orr_gradient_call(g, ORR_OP_COMBINE, &args, in, g->n_in, &g->ret_in[0], err);
}

const orr_op_row orr_row_DISPATCH = {
    ORR_ROW(DISPATCH, "dispatch", ROUTING),
    .min_in = 2,
    .max_in = 3,
    .n_out = 2,
    .takes = "x (..., D), indices (..., K) [, scores (..., K)]",
    .gives = "sorted (T x K, D) [, counts ([P,] E)]",
    .pytorch = ORR_NAMES("aten::index_select", "aten::gather"),
    .chakra = "COMP_NODE",
    .shape = dispatch_shape,
    .work = dispatch_work,
    .gradient = dispatch_gradient,
};

static bool gives_products(const orr_op_signature *sig)
{
    return sig->args->op == ORR_OP_MUL;
}

static orr_status combine_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *sorted = &sig->in[0], *indices = &sig->in[1];
    ORR_TRY(check_indices(sig, err));
    if (sorted->rank != 2 || sorted->dim[0] != sorted_rows(sig))
        return orr_op_shape_error(sig, err, "%lld rows are to be combined",
                                  (long long)sorted_rows(sig));
    orr_type tokens = orr_type_with(indices, (orr_dtype)sorted->dtype);
    tokens.dim[tokens.rank - 1] = sorted->dim[1];
    const orr_type *third = gives_products(sig) ? &tokens : indices;
    if (gives_products(sig) && sig->n_in < 3)
        return orr_op_shape_error(sig, err, "products are of tokens that are not given");
    if (sig->n_in > 2 && !orr_type_same_dims(third, &sig->in[2]))
        return orr_op_shape_error(sig, err,
                                  gives_products(sig) ? "every token has its indices"
                                                      : "every index has its score");
    ret_out[0] = gives_products(sig) ? orr_type_with(indices, ORR_DTYPE_FP32) : tokens;
    return ORR_OK;
}

static void combine_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const double per_element = sig->n_in > 2 ? 2 : 1;
    orr_op_work_stream(sig, per_element * orr_elements(&sig->in[0]), ret);
    ret->dtype = sig->in[0].dtype;
}

static orr_status combine_gradient(orr_gradient *g, orr_error *err)
{
    const orr_value grad = g->grad_out[0];
    if (grad == ORR_NONE)
        return ORR_OK;
    if (g->args->op == ORR_OP_MUL)
        return orr_fail(err, ORR_INVALID, "combine: products of rows have no gradient");
    ORR_TRY(scores_gradient(g, g->in[0], grad, err));
    if (!g->wanted[0])
        return ORR_OK;
    const orr_op_args args = laid(g, 0);
    const orr_value in[] = {grad, g->in[1], g->n_in > 2 ? g->in[2] : ORR_NONE};
    orr_value made[2];
    ORR_TRY(orr_gradient_call(g, ORR_OP_DISPATCH, &args, in, g->n_in, made, err));
    g->ret_in[0] = made[0];
    return ORR_OK;
}

const orr_op_row orr_row_COMBINE = {
    ORR_ROW(COMBINE, "combine", ROUTING),
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .takes = "sorted (T x K, D), indices (..., K) [, scores (..., K)]",
    .gives = "y (..., D)",
    .pytorch = ORR_NAMES("aten::index_add", "aten::scatter_add"),
    .chakra = "COMP_NODE",
    .shape = combine_shape,
    .work = combine_work,
    .gradient = combine_gradient,
};
