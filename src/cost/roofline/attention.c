/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cost/roofline/device_rates.h"

/* FlashAttention-2's usual tile: blocks of 128 queries of one head, 64 keys at a time. It
 * reaches 0.50 to 0.73 of the peak of A100 and 0.35 of that of H100 (Dao, 2023; Shah et al.,
 * FlashAttention-3, 2024), where large matrix products reach about 0.8: half of their rate. */
double orr_attention_ns(const orr_device *device, const orr_device_rates *rates,
                        const orr_work *work)
{
    const double attention_frac = 0.5;
    const double rate =
        attention_frac * orr_device_matmul_rate(device, (orr_dtype)work->dtype, NULL);
    if (work->n_dims < 5 || isnan(rate) || isnan(rates->memory_bytes_per_s))
        return NAN;
    double compute_ns = 1e9 * work->flops / rate;
    if (!isnan(rates->sms)) {
        const double blocks = (double)work->dims[0] * (double)work->dims[1] *
                              (double)orr_ceil_div(work->dims[2], 128);
        const double keys = 64 * (double)orr_ceil_div(work->dims[3], 64);
        const double full = blocks * 128 * keys,
                     used = (double)work->dims[0] * (double)work->dims[1] * (double)work->dims[2] *
                            (double)work->dims[3];
        compute_ns *= full / used * ceil(blocks / rates->sms) * rates->sms / blocks;
    }
    return fmax(compute_ns, orr_bytes_ns(rates, work));
}
