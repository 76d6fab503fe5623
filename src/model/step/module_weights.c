/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/emitter.h"
#include "model/step/module_cost.h"

void orr_module_weights_of(const orr_module *module, orr_module_weights *ret)
{
    orr_module_weights w = {0};
    for (uint32_t i = 0; i < module->tape->n_values; i++) {
        const orr_tape_value *value = &module->tape->values[i];
        if (value->role != ORR_VALUE_PARAMETER || value->view_of != ORR_NONE ||
            value->tag == ORR_WEIGHT_TABLE)
            continue;
        const int64_t n = orr_type_elements(&value->type);
        const bool expert = value->tag == ORR_WEIGHT_EXPERT;
        *(expert ? &w.expert_gathered : &w.gathered) += n;
        if (value->frozen)
            continue;
        *(expert ? &w.expert : &w.dense) += n;
        if (value->tag == ORR_WEIGHT_SLICED)
            w.sliced += n;
        if (value->tag == ORR_WEIGHT_TIED)
            w.tied += n;
    }
    *ret = w;
}

static int64_t reduction_ns(const orr_plan *plan, const orr_step_prices *prices, orr_axis axis,
                            int64_t weights)
{
    const double bytes = (double)weights * orr_precision_element_bytes(plan->gradients);
    return prices->members[axis] > 1 && weights > 0
               ? orr_step_transfer(prices, axis, ORR_COLL_ALL_REDUCE, (int64_t)bytes).ns
               : 0;
}

int64_t orr_module_update_ns(const orr_plan *plan, const orr_step_prices *prices,
                             const orr_module_weights *weights)
{
    enum { ADAM_BYTES = 24 }; /* read and written for an element: states, gradient, weight */
    const uint32_t shards = plan->zero > 0 ? prices->members[ORR_AXIS_SHARD] : 1;
    const double owned = (double)(weights->dense + weights->expert) / (shards > 0 ? shards : 1);
    const double read = prices->kernels->memory_bytes_per_s;
    return reduction_ns(plan, prices, ORR_AXIS_GRADIENT, weights->dense) +
           reduction_ns(plan, prices, ORR_AXIS_EDP, weights->expert) +
           (read > 0 ? (int64_t)(1e9 * ADAM_BYTES * owned / read) : 0);
}
