/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* Other dtypes of the same elements.
 *
 * - CAST: x (...) to `dtype`.
 * - QUANTIZE: x (..., N) to `dtype`, and the scales it divided by: one of all, in fp32, with `size`
 *   0; else one of each block of `size` along the last dim, (..., N / size): in a byte for blocks
 * of 16 and 32 (NVFP4: fp8; OCP Microscaling 1.0: a power of two), in fp32 for others (DeepSeek-V3,
 *   arXiv 2412.19437, section 3.3.2).
 * - DEQUANTIZE: q (..., N), scale, to `dtype`.
 *
 * Gradients pass through rounding as if it were not there.
 * FLOPs an element: CAST none; QUANTIZE 2, largest and product; DEQUANTIZE 1. */

static orr_status check_dtype(const orr_op_signature *sig, orr_error *err)
{
    if (sig->args->dtype >= ORR_DTYPES)
        return orr_op_shape_error(sig, err, "%u is no dtype", sig->args->dtype);
    return ORR_OK;
}

static orr_status cast_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(check_dtype(sig, err));
    ret_out[0] = orr_type_with(&sig->in[0], (orr_dtype)sig->args->dtype);
    return ORR_OK;
}

static void cast_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 0, ret);
}

static orr_status cast_gradient(orr_gradient *g, orr_error *err)
{
    const uint8_t dtype = orr_gradient_type(g, g->in[0])->dtype;
    const orr_op_args args = {.dtype = dtype};
    /* The gradient of a cast to 8 bits stays in the wider dtype. */
    if (orr_gradient_type(g, g->grad_out[0])->dtype == dtype || orr_dtype_bytes(dtype) <= 1)
        return orr_gradient_identity(g, err);
    return orr_gradient_call(g, ORR_OP_CAST, &args, &g->grad_out[0], 1, &g->ret_in[0], err);
}

const orr_op_row orr_row_CAST = {
    ORR_ROW(CAST, "cast", CAST),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("aten::to", "aten::_to_copy", "aten::type_as", "ToCopyBackward0"),
    .chakra = "COMP_NODE",
    .shape = cast_shape,
    .work = cast_work,
    .gradient = cast_gradient,
};

static orr_status quantize_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const uint32_t block = sig->args->size;
    ORR_TRY(check_dtype(sig, err));
    ORR_TRY(orr_op_check_rank(sig, 0, 1, err));
    const uint32_t last = sig->in[0].rank - 1u;
    ret_out[0] = orr_type_with(&sig->in[0], (orr_dtype)sig->args->dtype);
    if (block == 0) {
        ret_out[1] = orr_type_of(ORR_DTYPE_FP32, 1, (const int64_t[]){1});
        return ORR_OK;
    }
    ret_out[1] =
        orr_type_with(&sig->in[0], block == 16 || block == 32 ? ORR_DTYPE_FP8 : ORR_DTYPE_FP32);
    ret_out[1].dim[last] = ret_out[1].dim[last] / block + (ret_out[1].dim[last] % block != 0);
    return ORR_OK;
}

static void quantize_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 2 * (double)orr_type_elements(&sig->in[0]), ret);
}

const orr_op_row orr_row_QUANTIZE = {
    ORR_ROW(QUANTIZE, "quantize", CAST),
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .takes = "x (..., N)",
    .gives = "q (..., N), scale (1 | ..., N / size)",
    .pytorch = ORR_NAMES("aten::quantize_per_tensor", "aten::fake_quantize_per_tensor_affine"),
    .chakra = "COMP_NODE",
    .shape = quantize_shape,
    .work = quantize_work,
    .gradient = orr_gradient_identity,
};

static void dequantize_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, (double)orr_type_elements(&sig->in[0]), ret);
}

const orr_op_row orr_row_DEQUANTIZE = {
    ORR_ROW(DEQUANTIZE, "dequantize", CAST),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "q (..., N), scale (1 | ..., N / size)",
    .gives = "y (..., N)",
    .pytorch = ORR_NAMES("aten::dequantize"),
    .chakra = "COMP_NODE",
    .shape = cast_shape,
    .work = dequantize_work,
    .gradient = orr_gradient_identity,
};
