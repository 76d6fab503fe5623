/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

#include "op/families/tensor_rows.h"

/* Embedding bags: rows of a table (R, D) are looked up and summed within each bag
 * (torch.nn.EmbeddingBag). Several concatenated tables are treated as one, their number F being a
 * dim of the bags. Ids are given as
 *
 *   ids (B, P) or (B, F, P)                     bags of P, or
 *   ids (L) with offsets (B) or (B, F)          where each bag begins, L lookups in all.
 *
 * Args: count: mean lookups of a bag x 1024; 0: as many as there are ids.
 *
 * Backward: a sparse gradient: a row for each id, in their order, to be added to the table row of
 * that id. */

static orr_type bags_of(const orr_op_signature *sig)
{
    const bool listed = sig->n_in > 2;
    orr_type bags = sig->in[listed ? 2 : 1];
    if (!listed)
        bags.rank--;
    return bags;
}

static double lookups_of(const orr_op_signature *sig)
{
    const orr_type bags = bags_of(sig);
    return sig->args->count > 0 ? orr_elements(&bags) * (double)sig->args->count / 1024
                                : orr_elements(&sig->in[1]);
}

static orr_status check_ids(const orr_op_signature *sig, orr_error *err)
{
    const orr_type *ids = &sig->in[1];
    if (!orr_type_is_index(ids) || (sig->n_in > 2 && !orr_type_is_index(&sig->in[2])))
        return orr_op_shape_error(sig, err, "ids and offsets are int32 or int64");
    if (sig->n_in == 2 && (ids->rank < 2 || ids->rank > 3))
        return orr_op_shape_error(sig, err, "without offsets, ids are (B, P) or (B, F, P)");
    if (sig->n_in > 2 && (ids->rank != 1 || sig->in[2].rank < 1 || sig->in[2].rank > 2))
        return orr_op_shape_error(sig, err, "with offsets (B) or (B, F), ids are (L)");
    if (sig->args->count < 0)
        return orr_op_shape_error(sig, err, "a bag has %lld / 1024 lookups",
                                  (long long)sig->args->count);
    return ORR_OK;
}

static orr_status bag_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *table = &sig->in[0];
    if (table->rank != 2)
        return orr_op_shape_error(sig, err, "a table has two dims, rows and columns");
    ORR_TRY(check_ids(sig, err));
    ret_out[0] = bags_of(sig);
    ret_out[0].dtype = table->dtype;
    ret_out[0].dim[ret_out[0].rank++] = table->dim[1];
    return ORR_OK;
}

static double index_bytes(const orr_op_signature *sig)
{
    const double ids = lookups_of(sig) * orr_dtype_bytes((orr_dtype)sig->in[1].dtype);
    return sig->n_in > 2 ? ids + orr_bytes(&sig->in[2]) : ids;
}

/* Every lookup reads its row; caching is the cost model's matter. */
static void bag_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const orr_type *table = &sig->in[0];
    const double lookups = lookups_of(sig);
    *ret = (orr_op_work){
        .flops = lookups * (double)table->dim[1],
        .read_bytes = index_bytes(sig) + lookups * orr_row_bytes(table, table->dim[1]),
        .write_bytes = orr_bytes(&sig->out[0]),
        .dtype = table->dtype,
    };
}

static orr_status bag_gradient(orr_gradient *g, orr_error *err)
{
    if (!g->wanted[0] || g->grad_out[0] == ORR_NONE)
        return ORR_OK;
    const orr_op_args args = {.count = g->args->count};
    const orr_value in[] = {g->grad_out[0], g->in[1], g->n_in > 2 ? g->in[2] : ORR_NONE};
    return orr_gradient_call(g, ORR_OP_EMBEDDING_BAG_BACKWARD, &args, in, g->n_in, &g->ret_in[0],
                             err);
}

const orr_op_row orr_row_EMBEDDING_BAG = {
    ORR_ROW(EMBEDDING_BAG, "embedding_bag", EMBEDDING_BAG),
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .takes = "table (R, D), ids (B, [F,] P | L) [, offsets (B, [F])]",
    .gives = "y (B, [F,] D)",
    .pytorch = ORR_NAMES("aten::_embedding_bag", "aten::embedding_bag",
                         "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function",
                         "fbgemm::split_embedding_codegen_lookup_sgd_function"),
    .chakra = "COMP_NODE",
    .shape = bag_shape,
    .work = bag_work,
    .gradient = bag_gradient,
};

static orr_status backward_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *grad = &sig->in[0];
    ORR_TRY(check_ids(sig, err));
    const orr_type bags = bags_of(sig);
    if (!orr_type_has_leading_dims(&bags, grad, 1))
        return orr_op_shape_error(sig, err, "the gradient has a row for each bag");
    ret_out[0] = orr_type_of((orr_dtype)grad->dtype, 2,
                             (int64_t[]){orr_type_elements(&sig->in[1]), orr_type_columns(grad)});
    return ORR_OK;
}

static void backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const orr_type *grad = &sig->in[0];
    *ret = (orr_op_work){
        .read_bytes = index_bytes(sig) + orr_bytes(grad),
        .write_bytes = lookups_of(sig) * orr_row_bytes(grad, orr_type_columns(grad)),
        .dtype = grad->dtype,
    };
}

const orr_op_row orr_row_EMBEDDING_BAG_BACKWARD = {
    ORR_ROW(EMBEDDING_BAG_BACKWARD, "embedding_bag_backward", EMBEDDING_BAG),
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .takes = "dy (B, [F,] D), ids (B, [F,] P | L) [, offsets (B, [F])]",
    .gives = "drows (ids, D)",
    .pytorch = ORR_NAMES("aten::_embedding_bag_backward", "aten::_embedding_bag_sparse_backward",
                         "EmbeddingBagBackward0"),
    .chakra = "COMP_NODE",
    .shape = backward_shape,
    .work = backward_work,
};
