/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_PLAN_H
#define ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_PLAN_H

#include <orrery/kernel.h>

#include "kernel/cpu/convolution/onednn_library.h"

/* A convolution (CONVOLUTION, _INPUT, _WEIGHT) cut into a grid of pieces (i, j) of one shape, all
 * run by one primitive. The first operand is divided by i, the second by j, the result by both:
 *
 *                 i                j
 *   CONVOLUTION   x, by sample     w, by filters
 *   _INPUT        dy, by sample    w, by channels
 *   _WEIGHT       x, by channels   dy, by filters */
typedef struct orr_onednn_side {
    dnnl_memory_desc_t given, own; /* layout of a piece: the caller's, and oneDNN's */
    int64_t step_i, step_j;        /* bytes from one piece to the next in the caller's layout */
    int argument;                  /* DNNL_ARG_... */
    bool reordered;                /* the two layouts differ */
    size_t bytes;                  /* of a piece in oneDNN's layout, where reordered */
} orr_onednn_side;

enum { ORR_ONEDNN_FIRST, ORR_ONEDNN_SECOND, ORR_ONEDNN_RESULT, ORR_ONEDNN_SIDES };

typedef struct orr_onednn_plan {
    orr_onednn_side side[ORR_ONEDNN_SIDES];
    int64_t n_i, n_j;
    dnnl_primitive_desc_t primitive;
    dnnl_memory_desc_t scratchpad;
    size_t scratchpad_bytes;
} orr_onednn_plan;
/* False: oneDNN does not support it. The plan owns `primitive`. */
bool orr_onednn_plan_convolution(const orr_onednn_api *api, const orr_kernel_call *call,
                                 orr_onednn_plan *ret);

#endif /* ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_PLAN_H */
