/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/emitter.h"
#include "model/step/module_cost.h"

void orr_module_weights_of(const orr_module *module, orr_module_weights *ret)
{
    orr_module_weights w = {0};
    for (uint32_t i = 0; i < module->tape->n_values; i++) {
        const orr_tape_value *value = &module->tape->values[i];
        if (value->role != ORR_VALUE_PARAMETER || value->view_of != ORR_NONE)
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
