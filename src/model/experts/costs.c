/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <orrery/calibration.h>

#include "model/experts/costs.h"

/* What placements of experts are weighed by on a cluster: all-to-all within a host and between
 * hosts, a token through an expert, the weights of an expert. */

/* Two sizes between which the rate of a collective is taken: its latency cancels. */
#define SMALL_BYTES (1LL << 24)
#define LARGE_BYTES (1LL << 28)
/* Activations and weights are bf16. */
#define NUMBER_BYTES 2.0
/* An expert where no model is told, in parameters of three matrices: assumed, between Qwen3 235B
 * (4096 x 1536) and DeepSeek-V3 (7168 x 2048). */
enum { ASSUMED_HIDDEN = 5120, ASSUMED_WIDTH = 2048 };

typedef struct expert_shape {
    double hidden, parameters;
} expert_shape;

static orr_status shape_of(const orr_model *model, expert_shape *ret, orr_error *err)
{
    if (model == NULL) {
        *ret = (expert_shape){ASSUMED_HIDDEN, 3.0 * ASSUMED_HIDDEN * ASSUMED_WIDTH};
        return ORR_OK;
    }
    if (model->moe.experts == 0)
        return orr_fail(err, ORR_INVALID, "%s has no experts", model->name);
    const double matrices = model->activation == ORR_ACTIVATION_SWIGLU ? 3 : 2;
    *ret = (expert_shape){model->hidden, matrices * model->hidden * model->moe.expert_ffn};
    return ORR_OK;
}

/* Bytes/s that leave a rank in an all-to-all of `n` devices. */
static orr_status exchange_rate(const orr_job_rates *rates, const uint32_t *devices, uint32_t n,
                                double *ret, orr_error *err)
{
    orr_span span;
    ORR_TRY(orr_cluster_span(rates->cluster, devices, n, &span, err));
    const orr_collective kind = ORR_COLL_ALL_TO_ALL;
    const double small = (double)orr_job_rates_collective(rates, &span, kind, SMALL_BYTES).ns;
    const double large = (double)orr_job_rates_collective(rates, &span, kind, LARGE_BYTES).ns;
    /* Of what a rank sends in an all-to-all, one part in n stays. */
    *ret = 1e9 * (double)(LARGE_BYTES - SMALL_BYTES) * (n - 1) / n / fmax(1, large - small);
    return ORR_OK;
}

/* Whether runs of n ranks, the last perhaps shorter, are on one host each. */
static bool runs_are_on_hosts(const uint32_t *devices, uint32_t ranks, uint32_t host, uint32_t n)
{
    bool ret = true;
    for (uint32_t i = 0; i < ranks; i++)
        ret &= devices[i] / host == devices[i / n * n] / host;
    return ret;
}

static uint32_t ranks_of_host(const uint32_t *devices, uint32_t ranks, uint32_t host)
{
    uint32_t n = 1;
    while (n < ranks && devices[n] / host == devices[0] / host)
        n++;
    while (!runs_are_on_hosts(devices, ranks, host, n))
        n--;
    return n;
}

static orr_status link_rates(const orr_job_rates *rates, const uint32_t *devices, uint32_t ranks,
                             uint32_t within, orr_arena *arena, orr_expert_costs *costs,
                             orr_error *err)
{
    const uint32_t hosts = (ranks + within - 1) / within;
    uint32_t *of_host = orr_arena_array(arena, uint32_t, hosts);
    if (of_host == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < hosts; i++)
        of_host[i] = devices[i * within];
    if (within > 1)
        ORR_TRY(exchange_rate(rates, devices, within, &costs->host_bytes_per_s, err));
    if (hosts > 1)
        ORR_TRY(exchange_rate(rates, of_host, hosts, &costs->network_bytes_per_s, err));
    if (within == 1) /* hosts of one rank: no bytes travel at this level */
        costs->host_bytes_per_s = costs->network_bytes_per_s;
    if (hosts == 1)
        costs->network_bytes_per_s = costs->host_bytes_per_s;
    return ORR_OK;
}

orr_status orr_expert_costs_on(const orr_cluster *cluster, const orr_calibration *calibration,
                               const orr_model *model, const uint32_t *devices, uint32_t ranks,
                               double tokens, orr_arena *arena, orr_expert_costs *ret,
                               uint32_t *ret_host_ranks, orr_error *err)
{
    orr_job_rates rates;
    expert_shape shape;
    ORR_TRY(shape_of(model, &shape, err));
    orr_job_rates_init(cluster, calibration, ORR_ALGORITHM_AUTO, &rates);
    const double product = rates.product_flops_per_s[ORR_DTYPE_BF16];
    orr_expert_costs costs = {
        .row_ns = product > 0 ? 1e9 * 2 * shape.parameters / product : 0,
        .dispatch_bytes = NUMBER_BYTES * shape.hidden,
        .combine_bytes = NUMBER_BYTES * shape.hidden,
        .expert_bytes = NUMBER_BYTES * shape.parameters,
        .tokens = tokens,
        .top_k = model != NULL ? model->moe.top_k : 0,
        .source = orr_arena_printf(
            arena, "%s, calibration: %s; bf16 experts of %.60s", cluster->name, calibration->source,
            model != NULL ? model->name : "5120 x 2048, three matrices, assumed"),
    };
    if (costs.source == NULL)
        return orr_fail_memory(err);
    const uint32_t within = ranks_of_host(devices, ranks, cluster->levels[0].devices);
    ORR_TRY(link_rates(&rates, devices, ranks, within, arena, &costs, err));
    *ret = costs;
    *ret_host_ranks = within;
    return ORR_OK;
}

orr_status orr_expert_costs_of_cluster(const orr_cluster *cluster,
                                       const orr_calibration *calibration, const orr_model *model,
                                       uint32_t ranks, double tokens, orr_arena *arena,
                                       orr_expert_costs *ret, uint32_t *ret_host_ranks,
                                       orr_error *err)
{
    if (ranks == 0 || ranks > cluster->n_devices)
        return orr_fail(err, ORR_INVALID, "%u ranks of experts on the %u devices of %s", ranks,
                        cluster->n_devices, cluster->name);
    uint32_t *devices = orr_arena_array(arena, uint32_t, ranks);
    if (devices == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < ranks; i++)
        devices[i] = i;
    return orr_expert_costs_on(cluster, calibration, model, devices, ranks, tokens, arena, ret,
                               ret_host_ranks, err);
}

uint32_t orr_expert_groups_kept(const orr_model *model, uint32_t ranks, uint32_t host_ranks)
{
    const uint32_t groups = model != NULL ? model->moe.groups : 0;
    const uint32_t hosts = host_ranks > 0 ? ranks / host_ranks : 0;
    const bool fit = hosts > 1 && ranks % host_ranks == 0 && groups % hosts == 0;
    return fit && model->moe.top_groups < groups ? groups : 0;
}
