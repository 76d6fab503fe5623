/* SPDX-License-Identifier: Apache-2.0 */
/* Residual networks of bottleneck blocks (He et al., arXiv 1512.03385), with the stride in the 3
 * x 3 convolution ("v1.5", as in MLPerf and torchvision). x (N, C, H, W). */
#include "model/arch/transformer.h"

typedef struct convolution {
    int64_t in, out;
    uint32_t size, stride;
} convolution;

/* A convolution without bias, and its batch norm. */
static orr_value convolve(orr_draft *draft, orr_value x, const convolution *c, const char *name)
{
    const orr_op_args args = {.stride = c->stride, .padding = c->size / 2};
    const orr_op_args norm = {.value = 1e-5};
    const orr_value w =
        orr_draft_weight(draft, ORR_DIMS(c->out, c->in, c->size, c->size), 0, ORR_AXIS_NONE, name);
    const orr_value scale = orr_draft_weight(draft, ORR_DIMS(c->out), 0, ORR_AXIS_NONE, "norm");
    const orr_value shift = orr_draft_weight(draft, ORR_DIMS(c->out), 0, ORR_AXIS_NONE, "norm");
    const orr_value y = ORR_CALL(draft, CONVOLUTION, &args, name, x, w);
    return ORR_CALL(draft, BATCH_NORM, &norm, name, y, scale, shift);
}

static orr_value relu(orr_draft *draft, orr_value x)
{
    return ORR_CALL(draft, RELU, NULL, "relu", x);
}

/* Bottleneck: 1 x 1 down, 3 x 3, 1 x 1 up; the first block of a stage has a projection shortcut. */
static orr_value bottleneck(orr_draft *draft, orr_value x, int64_t in, int64_t width, int64_t out,
                            uint32_t stride, bool first)
{
    orr_value y = relu(draft, convolve(draft, x, &(convolution){in, width, 1, 1}, "narrow"));
    y = relu(draft, convolve(draft, y, &(convolution){width, width, 3, stride}, "middle"));
    y = convolve(draft, y, &(convolution){width, out, 1, 1}, "wide");
    if (first)
        x = convolve(draft, x, &(convolution){in, out, 1, stride}, "shortcut");
    return relu(draft, ORR_CALL(draft, ADD, NULL, "shortcut", y, x));
}

static orr_value stages(orr_draft *draft, orr_value x, int64_t *ret_columns)
{
    const orr_resnet *r = &draft->job->model->resnet;
    int64_t in = r->stem;
    for (uint32_t s = 0; s < r->n_stages; s++)
        for (uint32_t b = 0; b < r->blocks[s]; b++) {
            const int64_t out = (int64_t)r->width[s] * r->expansion;
            x = bottleneck(draft, x, in, r->width[s], out, s > 0 && b == 0 ? 2 : 1, b == 0);
            in = out;
        }
    *ret_columns = in;
    return x;
}

void orr_write_resnet(orr_draft *draft)
{
    const orr_job_shape *job = draft->job;
    const orr_resnet *r = &job->model->resnet;
    const orr_layout whole = {0};
    int64_t columns = 0;
    orr_value x = orr_draft_input(draft, job->stream, ORR_DIMS(job->samples, 3, r->image, r->image),
                                  &whole, "images");
    x = relu(draft, convolve(draft, x, &(convolution){3, r->stem, 7, 2}, "stem"));
    x = ORR_CALL(draft, POOL, (&(orr_op_args){.size = 3, .stride = 2, .padding = 1}), "pool", x);
    x = stages(draft, x, &columns);
    x = ORR_CALL(draft, POOL, (&(orr_op_args){.op = ORR_OP_SUM}), "mean", x);
    x = orr_write_linear(
        draft, orr_write_view(draft, x, ORR_DIMS(job->samples, columns)),
        &(orr_linear){
            .name = "head", .in = columns, .out = r->classes, .bias = true, .exact = true});
    if (!job->trained) {
        draft->out = x;
        return;
    }
    const orr_value targets =
        orr_draft_input(draft, ORR_DTYPE_INT64, ORR_DIMS(job->samples), &whole, "targets");
    draft->loss = ORR_CALL(draft, CROSS_ENTROPY, NULL, "loss", x, targets);
}
