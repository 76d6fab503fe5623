/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cost/collective/collective.h"
#include "cost/collective/dispatch.h"
#include "model/step/module_cost.h"
#include "op/tape/tape.h"

/* Transfers of tokens to their experts and back, by the plan's token dispatcher. On a tape they are
 * all-to-alls of sorted rows, one for each token and choice. */

/* Multiprocessors that forward tokens: DeepEP's default, in training and prefill (DeepSeek-V3,
 * arXiv 2412.19437, section 3.2.2: 20 of 132; Megatron-Core, --moe-deepep-num-sms). */
static const double DISPATCH_SMS = 20;

/* The router's choice, as its call says it. False: the tape has no router. */
static bool routing_of(const orr_tape *tape, orr_routing *ret)
{
    for (uint32_t i = 0; i < tape->n_calls; i++) {
        const orr_tape_call *call = &tape->calls[i];
        if (call->op != ORR_OP_TOP_K)
            continue;
        const orr_type *logits = &tape->values[call->in[0]].type;
        *ret = (orr_routing){.experts = (uint32_t)logits->dim[logits->rank - 1],
                             .top_k = (uint32_t)call->args.top_k,
                             .groups = (uint32_t)call->args.count,
                             .top_groups = (uint32_t)call->args.begin};
        return true;
    }
    return false;
}

static const orr_tape_call *maker(const orr_tape *tape, orr_value value)
{
    const uint32_t call = tape->values[orr_tape_root(tape, value)].made_by;
    return call != ORR_NONE ? &tape->calls[call] : NULL;
}

/* Whether an all-to-all takes tokens to their experts: rows that were just sorted. The others
 * bring results back. */
static bool is_dispatch(const orr_tape *tape, const orr_tape_call *call)
{
    const orr_tape_call *made = maker(tape, call->in[0]);
    while (made != NULL && (made->op == ORR_OP_QUANTIZE || made->op == ORR_OP_CAST))
        made = maker(tape, made->in[0]);
    return made != NULL && made->op == ORR_OP_DISPATCH;
}

bool orr_step_scales_travel_along(const orr_tape *tape, const orr_tape_call *call)
{
    const orr_tape_call *made = maker(tape, call->in[0]);
    const orr_type *type = &tape->values[call->in[0]].type;
    if (call->args.axis == ORR_AXIS_EP && type->rank == 2 && type->dim[1] == 1)
        return true;
    return call->args.axis == ORR_AXIS_EP && made != NULL && made->op == ORR_OP_QUANTIZE &&
           orr_tape_root(tape, call->in[0]) == made->out[1];
}

/* Bytes of a row's element: DeepEP sends tokens in the 8 bits that products take, with a scale of
 * 4 bytes for each 128; NCCL's dispatchers, and all results on their way back, 16 bits. */
static double element_bytes(const orr_plan *plan, bool dispatched)
{
    switch (plan->precision) {
    case ORR_PRECISION_FP32:
    case ORR_PRECISION_TF32:
        return 4;
    case ORR_PRECISION_FP8:
    case ORR_PRECISION_MXFP8:
    case ORR_PRECISION_FP4: /* dispatched in fp8 */
        return dispatched && plan->dispatcher == ORR_DISPATCHER_FLEX ? 1 + 4.0 / 128 : 2;
    default:
        return 2;
    }
}

/* Ranks of the span that share a host: those within its devices' own links. */
static uint32_t ranks_of_host(const orr_span *span, const orr_network *network)
{
    uint32_t ranks = 1;
    for (uint32_t k = 0; k < span->n_levels && k < ORR_LEVELS_MAX; k++)
        if (orr_network_lowest_level(network, k) == 0 && span->width[k] > 1)
            ranks *= span->width[k];
    return ranks;
}

orr_port_skew orr_step_port_skew(const orr_step_prices *prices, const orr_plan *plan,
                                 const orr_layer_skew *skew)
{
    const orr_span *span = &prices->span[ORR_AXIS_EP];
    const orr_network *network = &orr_step_rates(prices, ORR_AXIS_EP, ORR_COLL_ALL_TO_ALL)->network;
    const bool once = plan->dispatcher == ORR_DISPATCHER_FLEX;
    orr_port_skew ret;
    orr_layer_skew_ports(skew, span->width, span->n_levels, once ? ranks_of_host(span, network) : 0,
                         &ret);
    return ret;
}

/* Elements of all rows on one rank's way to experts under even routing: before they travel, or
 * after they have come back. */
static double sent_elements(const orr_tape *tape, const orr_tape_call *call,
                            const orr_layer_skew *skew)
{
    const double in = (double)orr_type_elements(&tape->values[call->in[0]].type);
    if (skew == NULL)
        return in;
    const double out = (double)orr_type_elements(&tape->values[call->out[0]].type);
    return skew->rows >= 1 ? fmin(in, out) : fmax(in, out);
}

static void fill_ports(orr_network *network, const orr_port_skew *ports)
{
    for (uint32_t k = 0; k < ORR_LEVELS_MAX; k++) {
        const double even = network->fan_out[k] > 0 ? network->fan_out[k] : 1;
        network->fan_out[k] = even * fmax(ports->fullest[k], 1e-9);
    }
}

orr_price orr_step_expert_transfer(const orr_step_prices *prices, const orr_plan *plan,
                                   const orr_module *module, const orr_tape_call *call,
                                   const orr_port_skew *ports, orr_call_cost *task)
{
    const orr_tape *tape = module->tape;
    const orr_type *rows = &tape->values[call->in[0]].type;
    orr_routing routing;
    orr_job_rates rates = *orr_step_rates(prices, ORR_AXIS_EP, ORR_COLL_ALL_TO_ALL);
    const orr_span *span = &prices->span[ORR_AXIS_EP];
    double sent = 1;
    if (routing_of(tape, &routing) && rows->dtype != ORR_DTYPE_INT32) {
        const bool dispatched = is_dispatch(tape, call);
        double bytes = sent_elements(tape, call, module->skew) * element_bytes(plan, dispatched);
        if (plan->dispatcher == ORR_DISPATCHER_ALLGATHER) {
            task->collective = dispatched ? ORR_COLL_ALL_GATHER : ORR_COLL_REDUCE_SCATTER;
            bytes *= (double)prices->members[ORR_AXIS_EP] / routing.top_k;
        } else if (plan->dispatcher == ORR_DISPATCHER_FLEX) {
            bytes *= orr_dispatch_once_per_host(&routing, span, &rates.network);
            task->busy_sms_frac = rates.sms > DISPATCH_SMS ? DISPATCH_SMS / rates.sms : 0;
        }
        if (ports != NULL && plan->dispatcher != ORR_DISPATCHER_ALLGATHER) {
            fill_ports(&rates.network, ports);
            sent = ports->sent;
        }
        task->bytes = (int64_t)bytes;
    }
    orr_price price =
        orr_job_rates_collective(&rates, span, (orr_collective)task->collective, task->bytes);
    price.ns = orr_step_jittered_ns(prices, price.ns + orr_step_call_ns(prices));
    task->bytes = (int64_t)((double)task->bytes * sent);
    return price;
}
