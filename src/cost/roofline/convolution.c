/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cost/kernel_work/arguments.h"
#include "cost/roofline/device_rates.h"

/* Winograd's algorithms compute 3x3 filters with fewer products: 16 instead of 36 for an output
 * tile of 2x2, 36 instead of 144 for 4x4 (Lavin and Gray, 2016). cuDNN's kernels of the first
 * kind say so in their names; those of the second are plain matrix products between
 * transformations. */
static double products_saved(const orr_work *w)
{
    const bool three = w->dims[5] == 3 && w->dims[6] == 3 && w->dims[7] <= 1;
    if (!three || w->kernel == NULL)
        return 1;
    if (strstr(w->kernel, "winograd") != NULL)
        return 36.0 / 16;
    return strstr(w->kernel, "_sgemm_") != NULL && strstr(w->kernel, "conv") == NULL ? 4 : 1;
}

/* Implicit GEMM: the matrix product (N * P * Q, C * R * S) x (C * R * S, K), whose left operand
 * is never stored. */
double orr_convolution_ns(const orr_device *device, const orr_device_rates *rates,
                          const orr_work *work)
{
    if (work->n_dims < 8)
        return NAN;
    const int64_t *d = work->dims, stride = d[7] < 1 ? 1 : d[7];
    const int64_t pixels =
        orr_saturating_mul(orr_ceil_div(d[2], stride), orr_ceil_div(d[3], stride));
    orr_work product = *work;
    product.n_dims = 4;
    product.dims[0] = 1;
    product.dims[1] = orr_saturating_mul(d[0], pixels);
    product.dims[2] = d[4];
    const double depth =
        (double)orr_saturating_mul(d[1], orr_saturating_mul(d[5], d[6])) / products_saved(work);
    product.dims[3] = (int64_t)fmax(1, depth);
    return orr_gemm_ns(device, rates, &product);
}
