/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cost/roofline/device_rates.h"

/* Matrix products with wave quantisation: the output is cut into tiles of (bM, bN), the
 * multiprocessors compute them in waves, and a last wave that is not full takes as long as a
 * full one. */
typedef struct tile {
    int64_t m, n;
    double efficiency; /* share of the device's rate that full waves reach */
} tile;

/* Tiles that libraries choose from. Small tiles reuse less of what they load; their efficiencies
 * are assumed. */
static const tile TILES[] = {{256, 128, 1},  {128, 256, 1}, {128, 128, 1},  {128, 64, 0.9},
                             {64, 128, 0.9}, {64, 64, 0.8}, {32, 128, 0.7}, {128, 32, 0.7},
                             {32, 32, 0.5},  {16, 16, 0.25}};
enum { SPLITS_MAX = 16 };
#define CYCLE_S (1 / 1.5e9) /* assumed where the clock is unknown */

/* Rates of one multiprocessor. */
typedef struct block_rates {
    double sms, flops, memory_bytes_per_s, cycle_s, element_bytes;
} block_rates;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t number(const char **at)
{
    int64_t n = 0;
    for (; is_digit(**at) && n < 100000; ++*at)
        n = 10 * n + (**at - '0');
    return n;
}

/* The first AxB in a name of which both are plausible tile sizes: "128x64",
 * "tilesize128x128x64", not "4x4". */
bool orr_tile_of_kernel(const char *kernel, int64_t *ret_m, int64_t *ret_n)
{
    for (const char *at = kernel; *at != '\0';) {
        if (!is_digit(*at)) {
            at++;
            continue;
        }
        const int64_t m = number(&at);
        if (*at != 'x' || !is_digit(at[1]))
            continue;
        at++;
        const int64_t n = number(&at);
        if (m >= 16 && m <= 512 && n >= 16 && n <= 512 && m % 8 == 0 && n % 8 == 0) {
            *ret_m = m;
            *ret_n = n;
            return true;
        }
    }
    return false;
}

/* Seconds with that tile and K cut into `split` parts. Source: ml_perf_model's early GEMM model
 * (kernel_error_and_histogram, legacy cells): a prologue that loads the first tiles of A and B
 * (DRAM latency 1029 cycles, shared memory 19), waves of loops over K, an epilogue that stores
 * the tile; each multiprocessor has its part of the memory's rate. Between waves, other blocks
 * hide prologue and epilogue. A loop takes the time of its FLOPs, but no step of 32 elements of
 * K less than the round trip to the L2 cache: 193 cycles (Jia et al., Dissecting the NVIDIA
 * Volta GPU Architecture, 2018); the depth of the step is assumed. */
static double waves_s(const block_rates *r, const orr_work *w, tile t, int64_t split)
{
    const double tile_size = (double)t.m * (double)t.n, step_k = 32;
    const double k = (double)orr_ceil_div(w->dims[3], split);
    const double blocks = (double)w->dims[0] * (double)orr_ceil_div(w->dims[1], t.m) *
                          (double)orr_ceil_div(w->dims[2], t.n) * (double)split;
    const double prologue = (1029 + 19) * r->cycle_s +
                            (double)(t.m + t.n) * step_k * r->element_bytes / r->memory_bytes_per_s;
    const double compute = 2 * tile_size * k / (r->flops * t.efficiency);
    const double latency = (193 + 19) * r->cycle_s * ceil(k / step_k);
    const double epilogue = tile_size * r->element_bytes / r->memory_bytes_per_s;
    return prologue + ceil(blocks / r->sms) * fmax(compute, latency) + epilogue;
}

/* Split-K: a product whose blocks do not fill the device may be split along K; the partial sums,
 * in FP32, are then written and read. */
static double tiled_s(const block_rates *r, const orr_work *w, tile t)
{
    const double sums_bytes = 2 * 4 * (double)w->dims[0] * (double)w->dims[1] * (double)w->dims[2];
    double best = waves_s(r, w, t, 1);
    for (int64_t split = 2; split <= SPLITS_MAX; split *= 2) {
        const double sums_s = sums_bytes * (double)split / (r->memory_bytes_per_s * r->sms);
        best = fmin(best, waves_s(r, w, t, split) + sums_s);
    }
    return best;
}

static double efficiency_of(int64_t m, int64_t n)
{
    for (size_t i = 0; i < sizeof TILES / sizeof *TILES; i++)
        if (m * n >= TILES[i].m * TILES[i].n)
            return TILES[i].efficiency;
    return TILES[sizeof TILES / sizeof *TILES - 1].efficiency;
}

static double compute_s(const orr_device_rates *rates, const orr_work *w, double rate)
{
    if (isnan(rates->sms))
        return w->flops / rate;
    const block_rates r = {.sms = rates->sms,
                           .flops = rate / rates->sms,
                           .memory_bytes_per_s = rates->memory_bytes_per_s / rates->sms,
                           .cycle_s = isnan(rates->clock_hz) ? CYCLE_S : 1 / rates->clock_hz,
                           .element_bytes = orr_dtype_bytes((orr_dtype)w->dtype)};
    int64_t m, n;
    if (w->kernel != NULL && orr_tile_of_kernel(w->kernel, &m, &n))
        return tiled_s(&r, w, (tile){m, n, efficiency_of(m, n)});
    double best = INFINITY;
    for (size_t i = 0; i < sizeof TILES / sizeof *TILES; i++)
        best = fmin(best, tiled_s(&r, w, TILES[i]));
    return best;
}

double orr_gemm_ns(const orr_device *device, const orr_device_rates *rates, const orr_work *work)
{
    const double rate = orr_device_matmul_rate(device, (orr_dtype)work->dtype, NULL);
    if (work->n_dims < 4 || isnan(rate) || isnan(rates->memory_bytes_per_s))
        return NAN;
    return fmax(1e9 * compute_s(rates, work, rate), orr_bytes_ns(rates, work));
}
