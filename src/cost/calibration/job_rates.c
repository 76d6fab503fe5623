/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <orrery/calibration.h>

/* Prices of kernels and collectives in whole jobs: closed forms whose constants are a device
 * type's calibration. A matrix product reaches its share of the peak times three factors: wave
 * quantisation (a last, partly filled wave of thread blocks takes as long as a full one), and
 * the half-performance sizes n_1/2 of Hockney (work at which half of the rate is reached), in
 * FLOPs and in K. Host and device time are combined by an L4 norm: the larger one when they are
 * far apart. */

/* Latency of a message to a neighbour within the scale-up domain: assumed; NCCL's tuning has 1.9
 * us for its middle protocol (NVIDIA/nccl, src/graph/tuning.cc). Beyond it the level's own
 * latency, else this one. */
#define HOP_UP_NS  1900.0
#define HOP_OUT_NS 5000.0
/* In-network reduction moves S bytes where a ring moves 2 S, at this share of the bandwidth:
 * fitted to eight H200 (fitted_constants.c: 275 of 363 GB/s). */
#define REDUCTION_FRAC 0.757

static double or_zero(const orr_fact *fact)
{
    const double value = orr_fact_or(fact, 0);
    return value > 0 ? value : 0;
}

/* Peak of a dtype, or of the nearest dtype that the device has units for; with none, half of the
 * peak of half as many bits. */
static double peak_of(const orr_device *device, orr_dtype dtype)
{
    static const orr_dtype PEAK_FALLBACK[ORR_DTYPES][3] = {
        [ORR_DTYPE_FP64] = {ORR_DTYPE_FP64, ORR_DTYPE_FP64, ORR_DTYPE_FP64},
        [ORR_DTYPE_FP32] = {ORR_DTYPE_FP32, ORR_DTYPE_FP32, ORR_DTYPE_FP32},
        [ORR_DTYPE_TF32] = {ORR_DTYPE_TF32, ORR_DTYPE_FP32, ORR_DTYPE_FP32},
        [ORR_DTYPE_FP16] = {ORR_DTYPE_FP16, ORR_DTYPE_BF16, ORR_DTYPE_FP32},
        [ORR_DTYPE_BF16] = {ORR_DTYPE_BF16, ORR_DTYPE_FP16, ORR_DTYPE_FP32},
        [ORR_DTYPE_FP8] = {ORR_DTYPE_FP8, ORR_DTYPE_BF16, ORR_DTYPE_FP16},
        [ORR_DTYPE_FP4] = {ORR_DTYPE_FP4, ORR_DTYPE_FP8, ORR_DTYPE_BF16},
        [ORR_DTYPE_INT8] = {ORR_DTYPE_INT8, ORR_DTYPE_FP16, ORR_DTYPE_BF16},
        [ORR_DTYPE_INT32] = {ORR_DTYPE_INT32, ORR_DTYPE_FP32, ORR_DTYPE_FP32},
        [ORR_DTYPE_INT64] = {ORR_DTYPE_INT64, ORR_DTYPE_FP32, ORR_DTYPE_FP32},
    };
    for (int i = 0; i < 3; i++)
        if (or_zero(&device->peak_flops[PEAK_FALLBACK[dtype][i]]) > 0)
            return or_zero(&device->peak_flops[PEAK_FALLBACK[dtype][i]]);
    return 0;
}

static double reached_frac(const orr_calibration *c, orr_dtype dtype)
{
    return dtype == ORR_DTYPE_FP8   ? c->matmul_fp8
           : dtype == ORR_DTYPE_FP4 ? c->matmul_fp4
                                    : c->matmul_bf16;
}

static orr_alpha_beta level_constants(const orr_calibration *c, const orr_level *level, bool up)
{
    const double bytes_per_s = orr_fact_or(&level->bytes_per_s, 1e9);
    orr_alpha_beta constants = {.basis = c->basis, .error_frac = NAN};
    const orr_link_rates *link = orr_calibration_link(c, level->technology);
    const double frac = link != NULL ? link->frac.value : up ? c->scale_up : c->scale_out;
    constants.base_ns[ORR_PROTOCOL_BANDWIDTH] = link != NULL ? link->base_ns.value
                                                : up         ? c->scale_up_ns
                                                             : c->scale_out_ns;
    constants.alpha_ns[ORR_PROTOCOL_BANDWIDTH] =
        up ? HOP_UP_NS : orr_fact_or(&level->latency_ns, HOP_OUT_NS);
    constants.bytes_per_s[ORR_PROTOCOL_BANDWIDTH] = bytes_per_s * frac;
    return constants;
}

/* The network of a cluster with its calibration. */
static void open_network(const orr_cluster *cluster, const orr_calibration *c, orr_network *ret)
{
    orr_network network = {.n_levels = cluster->n_levels};
    for (uint32_t k = 0; k < cluster->n_levels && k < ORR_LEVELS_MAX; k++) {
        const orr_level *level = &cluster->levels[k];
        const bool up = orr_cluster_is_scale_up(cluster, k);
        network.levels[k] = level_constants(c, level, up);
        network.size[k] = level->size;
        network.topology[k] = level->topology;
        network.oversubscription[k] = orr_fact_or(&level->oversubscription, 1);
        network.in_network[k] = level->in_network_reduction && up;
        network.scale_up[k] = up;
        network.reduction[k] = network.levels[k];
        const orr_link_rates *link = orr_calibration_link(c, level->technology);
        network.reduction[k].bytes_per_s[ORR_PROTOCOL_BANDWIDTH] *=
            link != NULL && link->reduction.value > 0 ? link->reduction.value : REDUCTION_FRAC;
    }
    network.memory_bytes_per_s = c->memory * or_zero(&cluster->device->memory_bytes_per_s);
    orr_network_apply_transport(&network, cluster, ORR_RDMA_UNKNOWN);
    *ret = network;
}

void orr_job_rates_init(const orr_cluster *cluster, const orr_calibration *calibration,
                        uint8_t algorithm, orr_job_rates *ret)
{
    *ret = (orr_job_rates){.device = cluster->device,
                           .cluster = cluster,
                           .calibration = calibration,
                           .algorithm = algorithm,
                           .memory_bytes_per_s =
                               calibration->memory * or_zero(&cluster->device->memory_bytes_per_s),
                           .sms = or_zero(&cluster->device->sms)};
    for (int d = 0; d < ORR_DTYPES; d++) {
        ret->peak_flops_per_s[d] = peak_of(cluster->device, (orr_dtype)d);
        ret->product_flops_per_s[d] =
            ret->peak_flops_per_s[d] * reached_frac(calibration, (orr_dtype)d);
    }
    open_network(cluster, calibration, &ret->network);
}

/* FLOPs of a product with wave quantisation: its output is cut into blocks that multiprocessors
 * compute in waves, and a last wave that is not full takes as long as a full one. If there are
 * fewer blocks than multiprocessors they are split along K. The best of three usual tiles of
 * cuBLAS, pieces of K of at least 256, at most 16 of them: assumed. Rows of a router's choice are
 * `uneven`: the last block of an expert is half full on average. */
static double filled_flops(double sms, double batch, double m, double n, double k, bool uneven)
{
    static const struct {
        double m, n;
    } TILES[] = {{128, 256}, {256, 128}, {128, 128}};
    double best = INFINITY;
    for (size_t i = 0; i < sizeof TILES / sizeof *TILES; i++) {
        const double rows = m / TILES[i].m, tall = uneven ? fmax(rows + 0.5, 1) : ceil(rows);
        const double blocks = batch * tall * ceil(n / TILES[i].n);
        const double pieces = fmin(16, fmin(floor(sms / blocks), k / 256));
        const double waves = pieces > 1 ? 1 / pieces : ceil(blocks / sms);
        best = fmin(best, 2 * waves * sms * TILES[i].m * TILES[i].n * k);
    }
    return best;
}

/* Rows that do not begin at multiples of 16 bytes cannot be loaded as tensor cores need them
 * (NVIDIA, Matrix Multiplication Background: dims by multiples of 16 bytes). */
static bool is_odd(const orr_work *work)
{
    const int64_t per_16_bytes = (int64_t)(16 / orr_dtype_bytes((orr_dtype)work->dtype));
    return work->dims[2] % per_16_bytes != 0 || work->dims[3] % per_16_bytes != 0;
}

/* Products and attention stream long rows, and reach more of the memory than kernels that do a
 * little to each element. */
static double memory_ns(const orr_job_rates *rates, const orr_work *work)
{
    const orr_calibration *c = rates->calibration;
    const bool streams = work->family == ORR_FAMILY_GEMM || work->family == ORR_FAMILY_ATTENTION ||
                         work->family == ORR_FAMILY_CONVOLUTION;
    if (!(rates->memory_bytes_per_s > 0))
        return 0;
    return 1e9 * (work->read_bytes + work->write_bytes) /
           (rates->memory_bytes_per_s * (streams && c->stream > 0 ? c->stream / c->memory : 1));
}

/* Rows of experts: as many as the router chose. Gradients of their weights sum over these. */
static bool has_uneven_rows(const orr_work *work)
{
    return work->dims[0] > 1 && !work->backward && work->op != NULL &&
           strcmp(work->op, "grouped_matmul") == 0;
}

static double product_ns(const orr_job_rates *rates, const orr_work *work)
{
    const orr_calibration *c = rates->calibration;
    const double flops_per_s = rates->product_flops_per_s[work->dtype];
    double flops = work->flops;
    if (flops_per_s <= 0)
        return 0;
    if (work->family == ORR_FAMILY_GEMM && work->n_dims >= 4) {
        const double m = (double)work->dims[1], n = (double)work->dims[2],
                     k = (double)work->dims[3];
        if (rates->sms > 0)
            flops = fmax(flops, filled_flops(rates->sms, (double)work->dims[0], m, n, k,
                                             has_uneven_rows(work)));
        flops += k > 0 ? work->flops * c->matmul_narrow / k : 0;
        if (work->dims[0] > 1)
            flops /= c->matmul_grouped;
        if (is_odd(work))
            flops /= c->matmul_odd;
    }
    return 1e9 * (flops + c->matmul_half) / flops_per_s;
}

/* FLOPs of attention with what short rows and narrow heads cost: a query's first and last blocks of
 * keys, and products of few columns, take longer for what they do. The keys that a query sees are
 * half of all where it is causal: 4 FLOPs a column of the head for each, 2.5 times as many
 * backward. A single query is bound by memory. */
static double attention_flops(const orr_calibration *c, const orr_work *work)
{
    if (work->n_dims < 5 || work->dims[2] <= 1)
        return work->flops;
    const double head = (double)work->dims[4],
                 pairs = work->flops / (4 * head * (work->backward ? 2.5 : 1)),
                 keys = pairs /
                        ((double)work->dims[0] * (double)work->dims[1] * (double)work->dims[2]);
    return work->flops * (1 + c->attention_half / fmax(keys, 1)) *
           ((1 + c->attention_narrow / head) / (1 + c->attention_narrow / 128));
}

/* Heads whose columns are no multiple of 16 bytes are loaded as slowly as such rows of products. */
static double attention_ns(const orr_job_rates *rates, const orr_work *work, bool eager)
{
    const orr_calibration *c = rates->calibration;
    const bool odd = work->n_dims >= 5 &&
                     work->dims[4] % (int64_t)(16 / orr_dtype_bytes((orr_dtype)work->dtype)) != 0;
    const double frac = (work->backward ? c->attention_backward : c->attention) *
                        (eager ? c->attention_eager : 1) * (odd ? c->matmul_odd : 1);
    const double flops_per_s = frac * rates->peak_flops_per_s[work->dtype];
    return flops_per_s > 0 ? 1e9 * attention_flops(c, work) / flops_per_s : 0;
}

/* Arithmetic outside of matrix products: on the ordinary units, whose peak is that of fp32. */
static double vector_ns(const orr_job_rates *rates, const orr_work *work)
{
    const double flops_per_s = rates->peak_flops_per_s[ORR_DTYPE_FP32];
    return flops_per_s > 0 ? 1e9 * work->flops / flops_per_s : 0;
}

orr_price orr_job_rates_kernel(const orr_job_rates *rates, const orr_work *work, bool eager)
{
    const orr_calibration *c = rates->calibration;
    const double bytes = work->read_bytes + work->write_bytes;
    orr_price price = {.basis = ORR_BASIS_NONE, .error_frac = NAN, .model = "calibration"};
    double ns;
    if (!(work->flops > 0 || bytes > 0))
        return price;
    if (work->family == ORR_FAMILY_GEMM || work->family == ORR_FAMILY_CONVOLUTION)
        ns = product_ns(rates, work);
    else if (work->family == ORR_FAMILY_ATTENTION)
        ns = attention_ns(rates, work, eager);
    else
        ns = vector_ns(rates, work);
    ns = fmax(ns, memory_ns(rates, work));
    price.ns = (int64_t)fmin(ns + c->kernel_ns, (double)(INT64_MAX / 4));
    price.basis = c->basis;
    return price;
}

int64_t orr_job_rates_launch_wait(const orr_job_rates *rates, uint32_t kernels, int64_t device_ns)
{
    const double host = rates->calibration->launch_ns * kernels, device = (double)device_ns;
    const double most = fmax(host, device), least = fmin(host, device);
    if (!(least > 0))
        return (int64_t)(most - device);
    const double ratio = least / most, square = ratio * ratio;
    return (int64_t)(most * sqrt(sqrt(1 + square * square))) - device_ns;
}

/* x with a standard normal probability `above` of being exceeded, at most 1/2: Newton's method on
 * the logarithm of that probability, which is concave, so that all steps from above are towards it.
 */
static double normal_quantile(double above)
{
    double x = sqrt(-2 * log(above)); /* the tail is below exp(-x^2 / 2) */
    for (int i = 0; i < 20; i++) {
        const double tail = 0.5 * erfc(x * sqrt(0.5));
        const double density = exp(-0.5 * x * x) / sqrt(2 * acos(-1));
        x += (log(tail) - log(above)) * tail / density;
    }
    return x;
}

double orr_job_jitter(const orr_calibration *calibration, double ranks)
{
    if (!(calibration->jitter_frac > 0) || !(ranks > 1))
        return 1;
    return 1 + calibration->jitter_frac * normal_quantile(0.625 / (ranks + 0.25));
}

/* Algorithms that NCCL chooses from (docs.nvidia.com, NCCL environment variables, NCCL_ALGO):
 * rings; trees for all-reduce; in-network reduction where there is one; direct sends for the
 * rest. */
static const uint8_t *candidates(orr_collective collective)
{
    static const uint8_t REDUCE[] = {ORR_ALGORITHM_IN_NETWORK, ORR_ALGORITHM_RING,
                                     ORR_ALGORITHM_TREE, 0},
                         RING[] = {ORR_ALGORITHM_RING, 0}, TREE[] = {ORR_ALGORITHM_TREE, 0},
                         PAIRS[] = {ORR_ALGORITHM_DIRECT, 0};
    switch (collective) {
    case ORR_COLL_ALL_REDUCE:
        return REDUCE;
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_REDUCE_SCATTER:
    case ORR_COLL_BROADCAST:
        return RING;
    case ORR_COLL_BARRIER:
        return TREE;
    default:
        return PAIRS;
    }
}

static bool reduced_in_network(const orr_network *network, const orr_span *span)
{
    for (uint32_t k = 0; k <= span->top; k++)
        if (span->width[k] > 1 && !network->in_network[k])
            return false;
    return true;
}

orr_price orr_job_rates_collective(const orr_job_rates *rates, const orr_span *span,
                                   orr_collective collective, int64_t bytes)
{
    orr_price best = {.ns = INT64_MAX};
    if (rates->algorithm != ORR_ALGORITHM_AUTO)
        return orr_collective_price(&rates->network, span, collective,
                                    (orr_algorithm)rates->algorithm, bytes);
    for (const uint8_t *algorithm = candidates(collective); *algorithm != 0; algorithm++) {
        if (*algorithm == ORR_ALGORITHM_IN_NETWORK && !reduced_in_network(&rates->network, span))
            continue;
        const orr_price price = orr_collective_price(&rates->network, span, collective,
                                                     (orr_algorithm)*algorithm, bytes);
        if (price.ns < best.ns)
            best = price;
    }
    return best;
}
