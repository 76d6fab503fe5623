/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

#include "op/families/tensor_rows.h"

/* Embedding lookup: a row of a table (V, D) for each id. Args: begin and count: the table is rows
 * begin .. begin + count - 1 of a larger one (sliced vocabulary), and other ids give zeros, so that
 * the sum over slices is the result; count 0: all rows. Backward: gradients of rows are added up in
 * a dense gradient of `count` rows. */

static orr_status embedding_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *table = &sig->in[0], *ids = &sig->in[1];
    if (table->rank != 2)
        return orr_op_shape_error(sig, err, "a table has two dims, rows and columns");
    if (!orr_type_is_index(ids))
        return orr_op_shape_error(sig, err, "ids are int32 or int64");
    if (ids->rank >= ORR_TYPE_DIMS)
        return orr_op_shape_error(sig, err, "ids have too many dims");
    if (sig->args->count != 0 && sig->args->count != table->dim[0])
        return orr_op_shape_error(sig, err, "a slice of %lld rows is asked of a table of %lld",
                                  (long long)sig->args->count, (long long)table->dim[0]);
    ret_out[0] = orr_type_with(ids, (orr_dtype)table->dtype);
    ret_out[0].dim[ret_out[0].rank++] = table->dim[1];
    return ORR_OK;
}

/* Distinct rows read; repeated lookups are served by the cache. */
static double rows_touched(const orr_type *ids, int64_t rows)
{
    const double lookups = orr_elements(ids);
    return lookups < (double)rows ? lookups : (double)rows;
}

static void embedding_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const orr_type *table = &sig->in[0];
    *ret = (orr_op_work){
        .read_bytes = orr_bytes(&sig->in[1]) + rows_touched(&sig->in[1], table->dim[0]) *
                                                   orr_row_bytes(table, table->dim[1]),
        .write_bytes = orr_bytes(&sig->out[0]),
        .dtype = table->dtype,
    };
}

static orr_status embedding_gradient(orr_gradient *g, orr_error *err)
{
    if (!g->wanted[0] || g->grad_out[0] == ORR_NONE)
        return ORR_OK;
    const orr_op_args args = {.begin = g->args->begin,
                              .count = orr_gradient_type(g, g->in[0])->dim[0],
                              .slices = g->args->slices};
    return orr_gradient_call(g, ORR_OP_EMBEDDING_BACKWARD, &args,
                             (const orr_value[]){g->grad_out[0], g->in[1]}, 2, &g->ret_in[0], err);
}

const orr_op_row orr_row_EMBEDDING = {
    ORR_ROW(EMBEDDING, "embedding", EMBEDDING),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "table (V, D), ids (...)",
    .gives = "y (..., D)",
    .pytorch = ORR_NAMES("aten::embedding"),
    .chakra = "COMP_NODE",
    .shape = embedding_shape,
    .work = embedding_work,
    .gradient = embedding_gradient,
};

static orr_status backward_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *grad = &sig->in[0], *ids = &sig->in[1];
    if (!orr_type_is_index(ids))
        return orr_op_shape_error(sig, err, "ids are int32 or int64");
    if (!orr_type_has_leading_dims(ids, grad, 1))
        return orr_op_shape_error(sig, err, "the gradient has a row for each id");
    if (sig->args->count <= 0)
        return orr_op_shape_error(sig, err, "count, the rows of the table, is %lld",
                                  (long long)sig->args->count);
    ret_out[0] = orr_type_of((orr_dtype)grad->dtype, 2,
                             (int64_t[]){sig->args->count, orr_type_columns(grad)});
    return ORR_OK;
}

/* The dense gradient is zeroed, and rows are added at the ids. */
static void backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const orr_type *grad = &sig->in[0], *table = &sig->out[0];
    const double sums =
        rows_touched(&sig->in[1], table->dim[0]) * orr_row_bytes(table, table->dim[1]);
    *ret = (orr_op_work){
        .flops = orr_elements(grad),
        .read_bytes = orr_bytes(grad) + orr_bytes(&sig->in[1]) + sums,
        .write_bytes = orr_bytes(table) + sums,
        .dtype = grad->dtype,
    };
}

const orr_op_row orr_row_EMBEDDING_BACKWARD = {
    ORR_ROW(EMBEDDING_BACKWARD, "embedding_backward", EMBEDDING),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "dy (..., D), ids (...)",
    .gives = "dtable (count, D)",
    .pytorch = ORR_NAMES("aten::embedding_dense_backward", "EmbeddingBackward0"),
    .chakra = "COMP_NODE",
    .shape = backward_shape,
    .work = backward_work,
};
