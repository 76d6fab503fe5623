/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/kernel_work/work.h"

/* Readers of arguments: matrix products, convolutions, attention. */

static int64_t last(const orr_argument *a, uint32_t from_behind)
{
    return a->n_dims > from_behind ? a->dims[a->n_dims - 1 - from_behind] : 1;
}

static void take_dtype(const orr_argument *a, orr_work *work)
{
    work->dtype = a->typed ? a->dtype : ORR_DTYPE_FP32;
}

/* (..., M, K) x (K, N), or x (..., K, N); x (K) is a product with one column. */
static bool read_product(const orr_argument *a, const orr_argument *b, orr_work *work)
{
    if (a == NULL || b == NULL || a->n_dims < 1)
        return false;
    const int64_t k = last(a, 0), n = b->n_dims > 1 ? last(b, 0) : 1;
    int64_t batch = 1;
    for (uint32_t i = 0; b->n_dims > 2 && i + 2 < b->n_dims; i++)
        batch = orr_saturating_mul(batch, b->dims[i]);
    if (k <= 0 || batch <= 0)
        return false;
    const int64_t m = a->elements / k / batch;
    take_dtype(a, work);
    ORR_SET_DIMS(work, batch, m, n, k);
    return true;
}

bool orr_read_mm(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    return read_product(orr_tensor_argument(in, 0), orr_tensor_argument(in, 1), work);
}

bool orr_read_addmm(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    return read_product(orr_tensor_argument(in, 1), orr_tensor_argument(in, 2), work);
}

/* (..., K) x weight (N, K) transposed. */
bool orr_read_linear(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *a = orr_tensor_argument(in, 0), *weight = orr_tensor_argument(in, 1);
    if (a == NULL || weight == NULL || last(a, 0) <= 0)
        return false;
    take_dtype(a, work);
    ORR_SET_DIMS(work, 1, a->elements / last(a, 0), last(weight, 1), last(a, 0));
    return true;
}

/* Input (N, C, H, W) or (N, C, W), weight (K, C / groups, R, S): dims are N C H W  K R S stride,
 * with C that of one group, which makes the FLOPs right. */
static bool set_convolution(const orr_argument *input, const orr_argument *weight, int64_t stride,
                            orr_work *work)
{
    if (input == NULL || weight == NULL || input->n_dims < 3 || weight->n_dims < 3)
        return false;
    const bool flat = input->n_dims == 3;
    take_dtype(input, work);
    ORR_SET_DIMS(work, input->dims[0], weight->dims[1], flat ? 1 : last(input, 1), last(input, 0),
                 weight->dims[0], flat ? 1 : last(weight, 1), last(weight, 0), stride);
    return true;
}

static int64_t stride_of(const orr_arguments *in, uint32_t index)
{
    int64_t stride;
    return orr_values_ints(in->values, index, &stride, 1) == 1 && stride > 0 ? stride : 0;
}

/* Stride from what comes out; where neither that nor the stride is recorded it is taken as 1, which
 * overstates a strided convolution. */
bool orr_read_convolution(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    const orr_argument *input = orr_tensor_argument(in, 0);
    const orr_argument *output = orr_tensor_argument(out, 0);
    int64_t stride = stride_of(in, 3); /* of convolution(input, weight, bias, stride ...) */
    if (input != NULL && output != NULL && output->n_dims == input->n_dims && last(output, 0) > 0)
        stride = last(input, 0) / last(output, 0);
    return set_convolution(input, orr_tensor_argument(in, 1), stride > 0 ? stride : 1, work);
}

static bool read_gradient(const orr_argument *input, const orr_argument *gradient,
                          const orr_argument *weight, orr_work *work)
{
    if (gradient == NULL)
        return false;
    int64_t stride = 1;
    if (input == NULL) { /* the size of its gradient: the output's times the stride */
        orr_argument as_input = *gradient;
        return weight != NULL && set_convolution(&as_input, weight, 1, work);
    }
    if (last(gradient, 0) > 0 && last(input, 0) > last(gradient, 0))
        stride = last(input, 0) / last(gradient, 0);
    return set_convolution(input, weight, stride, work);
}

/* convolution_backward(grad_output, input, weight, ...): each of its two products is one kernel. */
bool orr_read_convolution_backward(const orr_arguments *in, const orr_arguments *out,
                                   orr_work *work)
{
    (void)out;
    return read_gradient(orr_tensor_argument(in, 1), orr_tensor_argument(in, 0),
                         orr_tensor_argument(in, 2), work);
}

/* cudnn_convolution_backward(input, grad_output, weight), ..._backward_input([size], grad_output,
 * weight). ..._backward_weight([size], grad_output, input) does not say the size of the filter. */
bool orr_read_cudnn_backward(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const orr_argument *input = orr_tensor_argument(in, 0), *weight = orr_tensor_argument(in, 2);
    const orr_argument *gradient = orr_tensor_argument(in, 1);
    const bool of_weight = input == NULL && weight != NULL && gradient != NULL &&
                           weight->dims[0] == gradient->dims[0] &&
                           weight->dims[0] != gradient->dims[1 < gradient->n_dims];
    return !of_weight && read_gradient(input, gradient, weight, work);
}

static bool set_attention(const orr_argument *q, const orr_argument *k, bool heads_inside,
                          bool causal, orr_work *work)
{
    if (q == NULL || k == NULL || q->n_dims != 4 || k->n_dims != 4)
        return false;
    const uint32_t heads = heads_inside ? 2 : 1, length = heads_inside ? 1 : 2;
    take_dtype(q, work);
    ORR_SET_DIMS(work, q->dims[0], q->dims[heads], q->dims[length], k->dims[length], q->dims[3]);
    if (causal) { /* half of the scores are never computed */
        orr_work_complete(work);
        work->flops /= 2;
    }
    return true;
}

/* (q, k, v) of shape (B, heads, length, D). */
bool orr_read_attention(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    const bool causal = orr_values_true(in->values, 4) || orr_values_true(in->values, 5);
    return set_attention(orr_tensor_argument(in, 0), orr_tensor_argument(in, 1), false, causal,
                         work);
}

bool orr_read_attention_backward(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    return set_attention(orr_tensor_argument(in, 1), orr_tensor_argument(in, 2), false, false,
                         work);
}

/* (q, k, v, cum_q, cum_k, max_q, max_k, dropout, causal) of shape (B, length, heads, D). */
bool orr_read_flash(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    return set_attention(orr_tensor_argument(in, 0), orr_tensor_argument(in, 1), true,
                         orr_values_true(in->values, 8), work);
}

bool orr_read_flash_backward(const orr_arguments *in, const orr_arguments *out, orr_work *work)
{
    (void)out;
    return set_attention(orr_tensor_argument(in, 1), orr_tensor_argument(in, 2), true, false, work);
}
