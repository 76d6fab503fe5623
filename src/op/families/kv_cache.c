/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* CACHE: appends the keys or values of new tokens to a KV cache. cache (B, C, G, W) has room for C
 * tokens of each sample; row s of x (B, S, G, W) is written to row offset + s of the same sample,
 * or first[b] + s where a run gives each sample's first position. The output is the cache: it
 * shares its bytes, and all other rows are unchanged. Rows beyond C are an error of the caller.
 * A cache of a byte or less an element takes rows of any dtype, which are converted (not
 * executed).
 * Work: x is read and written once; the cache is not read. No gradient. */

static orr_status cache_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *cache = &sig->in[0], *x = &sig->in[1];
    if (cache->rank != 4 || x->rank != 4)
        return orr_op_shape_error(sig, err, "four dims are needed: batch, tokens, heads, columns");
    if (cache->dim[0] != x->dim[0] || cache->dim[2] != x->dim[2] || cache->dim[3] != x->dim[3])
        return orr_op_shape_error(sig, err, "all dims but dim 1 are to be alike");
    if (cache->dtype != x->dtype && orr_dtype_bytes((orr_dtype)cache->dtype) > 1)
        return orr_op_shape_error(sig, err, "the dtypes differ");
    if (x->dim[1] > cache->dim[1])
        return orr_op_shape_error(sig, err, "%lld tokens do not fit into %lld",
                                  (long long)x->dim[1], (long long)cache->dim[1]);
    ret_out[0] = *cache;
    return ORR_OK;
}

static void cache_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const orr_type written = orr_type_with(&sig->in[1], (orr_dtype)sig->in[0].dtype);
    *ret = (orr_op_work){.read_bytes = (double)orr_type_bytes(&sig->in[1]),
                         .write_bytes = (double)orr_type_bytes(&written),
                         .dtype = sig->in[1].dtype};
}

const orr_op_row orr_row_CACHE = {
    ORR_ROW(CACHE, "cache", LAYOUT),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .shares = true,
    .takes = "cache (B, C, G, W), x (B, S, G, W)",
    .gives = "cache (B, C, G, W)",
    .pytorch = ORR_NAMES("aten::index_copy_", "aten::index_put_"),
    .chakra = "COMP_NODE",
    .shape = cache_shape,
    .work = cache_work,
};
