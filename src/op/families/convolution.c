/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

#include "op/families/tensor_rows.h"

/* Convolutions of images (N, C, H, W) with filters (K, C, R, S), and pooling. Args: stride (0: 1)
 * and padding on each side, for both dims; the output has (H + 2 padding - R) / stride + 1 rows,
 * rounded down. The size of the input cannot be derived from that of the output, so the gradients'
 * args begin and count are the height and width of their result. */

static int64_t stride_of(const orr_op_args *args)
{
    return args->stride > 0 ? args->stride : 1;
}

/* Output size; below 1: the window does not fit. */
static int64_t places(const orr_op_args *args, int64_t size, int64_t window)
{
    const int64_t room = size + 2 * (int64_t)args->padding - window;
    return room < 0 ? 0 : room / stride_of(args) + 1;
}

static bool fits(const orr_op_args *args, const orr_type *x, int64_t high, int64_t wide)
{
    return high >= 1 && wide >= 1 && places(args, x->dim[2], high) >= 1 &&
           places(args, x->dim[3], wide) >= 1;
}

static orr_type image_of(const orr_type *like, int64_t samples, int64_t channels, int64_t high,
                         int64_t wide)
{
    return orr_type_of((orr_dtype)like->dtype, 4, (int64_t[]){samples, channels, high, wide});
}

static orr_status check_images(const orr_op_signature *sig, orr_error *err)
{
    for (uint32_t k = 0; k < sig->n_in; k++)
        if (sig->in[k].rank != 4)
            return orr_op_shape_error(sig, err, "images and filters have four dims");
    return ORR_OK;
}

/* Whether x convolved with w has the dims of y. */
static bool agrees(const orr_op_args *args, const orr_type *x, const orr_type *w, const orr_type *y)
{
    return x->dim[1] == w->dim[1] && fits(args, x, w->dim[2], w->dim[3]) &&
           y->dim[0] == x->dim[0] && y->dim[1] == w->dim[0] &&
           y->dim[2] == places(args, x->dim[2], w->dim[2]) &&
           y->dim[3] == places(args, x->dim[3], w->dim[3]);
}

static orr_status convolution_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0], *w = &sig->in[1];
    ORR_TRY(check_images(sig, err));
    if (x->dim[1] != w->dim[1])
        return orr_op_shape_error(sig, err, "the channels %lld and %lld differ",
                                  (long long)x->dim[1], (long long)w->dim[1]);
    if (!fits(sig->args, x, w->dim[2], w->dim[3]))
        return orr_op_shape_error(sig, err, "the filter is larger than the image");
    ret_out[0] = image_of(x, x->dim[0], w->dim[0], places(sig->args, x->dim[2], w->dim[2]),
                          places(sig->args, x->dim[3], w->dim[3]));
    return ORR_OK;
}

/* FLOPs of any of the three products of a convolution: 2 N K P Q C R S, from the types of y and
 * w. */
static void product_work(const orr_op_signature *sig, const orr_type *y, const orr_type *w,
                         orr_op_work *ret)
{
    orr_op_work_stream(sig, 2 * orr_elements(y) * (double)orr_type_span(w, 1, 4), ret);
}

static void convolution_work(const orr_op_signature *sig, orr_op_work *ret)
{
    product_work(sig, &sig->out[0], &sig->in[1], ret);
}

/* `args` for a gradient with the height and width of `like`. */
static orr_op_args gradient_args(const orr_gradient *g, const orr_type *like)
{
    orr_op_args args = *g->args;
    args.begin = like->dim[2];
    args.count = like->dim[3];
    return args;
}

static orr_status convolution_gradient(orr_gradient *g, orr_error *err)
{
    const orr_value grad = g->grad_out[0];
    if (grad == ORR_NONE)
        return ORR_OK;
    if (g->wanted[0]) {
        const orr_op_args args = gradient_args(g, orr_gradient_type(g, g->in[0]));
        ORR_TRY(orr_gradient_call(g, ORR_OP_CONVOLUTION_INPUT, &args,
                                  (const orr_value[]){grad, g->in[1]}, 2, &g->ret_in[0], err));
    }
    if (!g->wanted[1])
        return ORR_OK;
    const orr_op_args args = gradient_args(g, orr_gradient_type(g, g->in[1]));
    return orr_gradient_call(g, ORR_OP_CONVOLUTION_WEIGHT, &args,
                             (const orr_value[]){g->in[0], grad}, 2, &g->ret_in[1], err);
}

const orr_op_row orr_row_CONVOLUTION = {
    ORR_ROW(CONVOLUTION, "convolution", CONVOLUTION),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "x (N, C, H, W), w (K, C, R, S)",
    .gives = "y (N, K, P, Q)",
    .pytorch = ORR_NAMES("aten::convolution", "aten::conv2d", "aten::cudnn_convolution",
                         "aten::_convolution"),
    .chakra = "COMP_NODE",
    .shape = convolution_shape,
    .work = convolution_work,
    .gradient = convolution_gradient,
};

static orr_status input_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *grad = &sig->in[0], *w = &sig->in[1];
    ORR_TRY(check_images(sig, err));
    const orr_type x = image_of(grad, grad->dim[0], w->dim[1], sig->args->begin, sig->args->count);
    if (!agrees(sig->args, &x, w, grad))
        return orr_op_shape_error(sig, err, "no image of %lld x %lld gives that",
                                  (long long)sig->args->begin, (long long)sig->args->count);
    ret_out[0] = x;
    return ORR_OK;
}

static void input_work(const orr_op_signature *sig, orr_op_work *ret)
{
    product_work(sig, &sig->in[0], &sig->in[1], ret);
}

const orr_op_row orr_row_CONVOLUTION_INPUT = {
    ORR_ROW(CONVOLUTION_INPUT, "convolution_input", CONVOLUTION),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "dy (N, K, P, Q), w (K, C, R, S)",
    .gives = "dx (N, C, H, W)",
    .pytorch = ORR_NAMES("aten::convolution_backward", "aten::cudnn_convolution_backward_input",
                         "ConvolutionBackward0"),
    .chakra = "COMP_NODE",
    .shape = input_shape,
    .work = input_work,
};

static orr_status weight_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0], *grad = &sig->in[1];
    ORR_TRY(check_images(sig, err));
    const orr_type w = image_of(x, grad->dim[1], x->dim[1], sig->args->begin, sig->args->count);
    if (!agrees(sig->args, x, &w, grad))
        return orr_op_shape_error(sig, err, "no filter of %lld x %lld gives that",
                                  (long long)sig->args->begin, (long long)sig->args->count);
    ret_out[0] = w;
    return ORR_OK;
}

static void weight_work(const orr_op_signature *sig, orr_op_work *ret)
{
    product_work(sig, &sig->in[1], &sig->out[0], ret);
}

const orr_op_row orr_row_CONVOLUTION_WEIGHT = {
    ORR_ROW(CONVOLUTION_WEIGHT, "convolution_weight", CONVOLUTION),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "x (N, C, H, W), dy (N, K, P, Q)",
    .gives = "dw (K, C, R, S)",
    .pytorch = ORR_NAMES("aten::cudnn_convolution_backward_weight"),
    .chakra = "COMP_NODE",
    .shape = weight_shape,
    .work = weight_work,
};

/* Pooling. Further args: size: rows and columns of the window, 0: the whole image; op: ORR_OP_SUM:
 * averages, with padding counting as zeros; else maxima. */
static bool gives_means(const orr_op_args *args)
{
    return args->op == ORR_OP_SUM;
}

static bool pooled(const orr_op_args *args, const orr_type *x, orr_type *ret)
{
    const int64_t high = args->size > 0 ? args->size : x->dim[2],
                  wide = args->size > 0 ? args->size : x->dim[3];
    if (!fits(args, x, high, wide))
        return false;
    *ret = image_of(x, x->dim[0], x->dim[1], places(args, x->dim[2], high),
                    places(args, x->dim[3], wide));
    return true;
}

static orr_status pool_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(check_images(sig, err));
    if (!pooled(sig->args, &sig->in[0], &ret_out[0]))
        return orr_op_shape_error(sig, err, "the window of %u is larger than the image",
                                  sig->args->size);
    return ORR_OK;
}

static double window_elements(const orr_op_args *args, const orr_type *x)
{
    return args->size > 0 ? (double)args->size * args->size : (double)orr_type_span(x, 2, 4);
}

static void pool_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const double window = window_elements(sig->args, &sig->in[0]);
    orr_op_work_stream(sig, window * orr_elements(&sig->out[0]), ret);
}

static orr_status pool_gradient(orr_gradient *g, orr_error *err)
{
    if (!g->wanted[0] || g->grad_out[0] == ORR_NONE)
        return ORR_OK;
    const orr_op_args args = gradient_args(g, orr_gradient_type(g, g->in[0]));
    return orr_gradient_call(g, ORR_OP_POOL_BACKWARD, &args,
                             (const orr_value[]){g->grad_out[0], g->in[0]},
                             gives_means(g->args) ? 1 : 2, &g->ret_in[0], err);
}

const orr_op_row orr_row_POOL = {
    ORR_ROW(POOL, "pool", CONVOLUTION),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (N, C, H, W)",
    .gives = "y (N, C, P, Q)",
    .pytorch = ORR_NAMES("aten::max_pool2d", "aten::max_pool2d_with_indices", "aten::avg_pool2d",
                         "aten::adaptive_avg_pool2d"),
    .chakra = "COMP_NODE",
    .shape = pool_shape,
    .work = pool_work,
    .gradient = pool_gradient,
};

static orr_status pool_backward_shape(const orr_op_signature *sig, orr_type *ret_out,
                                      orr_error *err)
{
    const orr_type *grad = &sig->in[0];
    ORR_TRY(check_images(sig, err));
    if (sig->n_in < 2 && !gives_means(sig->args))
        return orr_op_shape_error(sig, err, "where maxima were is not told");
    const orr_type x =
        image_of(grad, grad->dim[0], grad->dim[1], sig->args->begin, sig->args->count);
    orr_type y;
    if (!pooled(sig->args, &x, &y) || !orr_type_same_dims(&y, grad) ||
        (sig->n_in > 1 && !orr_type_same_dims(&x, &sig->in[1])))
        return orr_op_shape_error(sig, err, "no image of %lld x %lld gives that",
                                  (long long)sig->args->begin, (long long)sig->args->count);
    ret_out[0] = x;
    return ORR_OK;
}

static void pool_backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const double window = window_elements(sig->args, &sig->out[0]);
    orr_op_work_stream(sig, window * orr_elements(&sig->in[0]), ret);
}

const orr_op_row orr_row_POOL_BACKWARD = {
    ORR_ROW(POOL_BACKWARD, "pool_backward", CONVOLUTION),
    .min_in = 1,
    .max_in = 2,
    .n_out = 1,
    .takes = "dy (N, C, P, Q) [, x (N, C, H, W)]",
    .gives = "dx (N, C, H, W)",
    .pytorch = ORR_NAMES("aten::max_pool2d_with_indices_backward", "aten::avg_pool2d_backward",
                         "MaxPool2DWithIndicesBackward0", "AvgPool2DBackward0", "MeanBackward1"),
    .chakra = "COMP_NODE",
    .shape = pool_backward_shape,
    .work = pool_backward_work,
};
