/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/module_cost.h"

/* Prices under the plan's transport settings. Traffic is classed as gradients, stages, context
 * or experts (that is, by the axis it travels along), and each class may have an RDMA transport
 * of its own. Gradient compression applies above the level of sites only. */

typedef enum traffic { OTHER, GRADIENTS, STAGES, CONTEXT, EXPERTS } traffic;

static traffic traffic_of(orr_axis axis)
{
    switch (axis) {
    case ORR_AXIS_DP:
    case ORR_AXIS_EDP:
    case ORR_AXIS_GRADIENT:
    case ORR_AXIS_SHARD:
    case ORR_AXIS_REPLICA:
    case ORR_AXIS_TIED:
    case ORR_AXIS_OUTER:
        return GRADIENTS;
    case ORR_AXIS_PP:
        return STAGES;
    case ORR_AXIS_CP:
        return CONTEXT;
    case ORR_AXIS_EP:
        return EXPERTS;
    default:
        return OTHER;
    }
}

static uint8_t setting_of(const orr_plan *plan, traffic class)
{
    switch (class) {
    case GRADIENTS:
        return plan->wire_dp;
    case STAGES:
        return plan->wire_pp;
    case CONTEXT:
        return plan->wire_cp;
    case EXPERTS:
        return plan->wire_ep;
    default:
        return ORR_RDMA_UNKNOWN;
    }
}

uint8_t orr_step_wire_setting(const orr_plan *plan, orr_axis axis)
{
    return setting_of(plan, traffic_of(axis));
}

/* Compressed size as a share of the uncompressed one, for values in fp32 or 16 bits. */
static double compressed_frac(const orr_plan *plan, double bytes)
{
    const double sent = plan->compress == ORR_COMPRESS_BF16 ? 2
                        : plan->compress == ORR_COMPRESS_FP8 || plan->compress == ORR_COMPRESS_INT8
                            ? 1
                            : bytes;
    return sent < bytes ? sent / bytes : 1;
}

static void compress(orr_job_rates *rates, double frac)
{
    const orr_cluster *cluster = rates->cluster;
    if (!(frac < 1) || cluster->n_sites < 2)
        return;
    for (uint32_t l = cluster->site_level + 1; l < cluster->n_levels; l++)
        rates->network.bytes_frac[l] = frac;
    rates->network.memory_bytes_per_s = rates->memory_bytes_per_s;
}

static orr_job_rates *copied(const orr_job_rates *rates, uint8_t setting, orr_arena *arena)
{
    orr_job_rates *copy = orr_arena_one(arena, orr_job_rates);
    if (copy == NULL)
        return NULL;
    *copy = *rates;
    if (setting != ORR_RDMA_UNKNOWN)
        orr_network_apply_transport(&copy->network, rates->cluster, setting);
    return copy;
}

/* Rates of a class of traffic. Gradients and weights also have an algorithm of their own. */
static orr_job_rates *made(const orr_plan *plan, const orr_job_rates *rates, traffic class,
                           orr_arena *arena)
{
    orr_job_rates *copy = copied(rates, setting_of(plan, class), arena);
    if (copy == NULL || class != GRADIENTS)
        return copy;
    if (plan->dp_algorithm != ORR_ALGORITHM_AUTO)
        copy->algorithm = plan->dp_algorithm;
    copy->network.chunks = plan->dp_chunks;
    return copy;
}

static bool says_nothing(const orr_plan *plan, traffic class)
{
    const bool plain = plan->dp_algorithm == ORR_ALGORITHM_AUTO && plan->dp_chunks <= 1;
    return setting_of(plan, class) == ORR_RDMA_UNKNOWN && (class != GRADIENTS || plain);
}

/* Rates of compressed gradient reductions. Gathers of weights are never compressed. */
static orr_status compress_gradients(const orr_plan *plan, orr_arena *arena,
                                     orr_step_prices *prices, orr_error *err)
{
    const bool wide =
        plan->gradients == ORR_PRECISION_FP32 || plan->gradients == ORR_PRECISION_TF32;
    if (plan->compress <= ORR_COMPRESS_NONE)
        return ORR_OK;
    orr_job_rates *sums = copied(prices->transfers[ORR_AXIS_GRADIENT], ORR_RDMA_UNKNOWN, arena);
    orr_job_rates *meets = copied(prices->transfers[ORR_AXIS_GRADIENT], ORR_RDMA_UNKNOWN, arena);
    if (sums == NULL || meets == NULL)
        return orr_fail_memory(err);
    compress(sums, compressed_frac(plan, wide ? 4 : 2));
    compress(meets, compressed_frac(plan, 4));
    for (int axis = 0; axis < ORR_AXES; axis++)
        if (traffic_of((orr_axis)axis) == GRADIENTS)
            prices->sums[axis] = axis == ORR_AXIS_OUTER ? meets : sums;
    return ORR_OK;
}

orr_status orr_step_prices_wire(const orr_plan *plan, const orr_job_rates *rates, orr_arena *arena,
                                orr_step_prices *prices, orr_error *err)
{
    const orr_job_rates *of_class[EXPERTS + 1] = {0};
    for (int axis = 0; axis < ORR_AXES; axis++) {
        const traffic class = traffic_of((orr_axis)axis);
        if (of_class[class] == NULL)
            of_class[class] = says_nothing(plan, class) ? rates : made(plan, rates, class, arena);
        if (of_class[class] == NULL)
            return orr_fail_memory(err);
        prices->transfers[axis] = of_class[class];
    }
    return compress_gradients(plan, arena, prices, err);
}
