/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

#include "op/families/tensor_rows.h"

/* MASKED_SCATTER: image embeddings in place of placeholder tokens (aten::masked_scatter; early
 * fusion, Llama 4). y is x (B, S, D), except that the i-th token, counted over all samples in
 * order, whose id is args.begin has row i of pictures (N, D). There may be fewer such tokens than
 * rows; more are an error of the caller.
 *
 * Work: what is copied; a replaced row is not read from x. No gradient: the vision encoder is not
 * trained. */

static orr_status splice_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0], *ids = &sig->in[1], *pictures = &sig->in[2];
    if (!orr_type_is_index(ids))
        return orr_op_shape_error(sig, err, "ids are int32 or int64");
    if (!orr_type_has_leading_dims(ids, x, 1))
        return orr_op_shape_error(sig, err, "there is an id for each row of x");
    if (pictures->rank != 2 || pictures->dim[1] != orr_type_columns(x))
        return orr_op_shape_error(sig, err, "pictures are rows of %lld columns",
                                  (long long)orr_type_columns(x));
    if (pictures->dtype != x->dtype)
        return orr_op_shape_error(sig, err, "the dtypes differ");
    ret_out[0] = *x;
    return ORR_OK;
}

static void splice_work(const orr_op_signature *sig, orr_op_work *ret)
{
    *ret = (orr_op_work){.read_bytes = orr_bytes(&sig->in[0]) + orr_bytes(&sig->in[1]),
                         .write_bytes = orr_bytes(&sig->out[0]),
                         .dtype = sig->in[0].dtype};
}

const orr_op_row orr_row_MASKED_SCATTER = {
    ORR_ROW(MASKED_SCATTER, "masked_scatter", EMBEDDING),
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .takes = "x (..., D), ids (...), pictures (N, D)",
    .gives = "y (..., D)",
    .pytorch = ORR_NAMES("aten::masked_scatter"),
    .chakra = "COMP_NODE",
    .shape = splice_shape,
    .work = splice_work,
};
