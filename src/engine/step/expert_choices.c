/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/tape_writer.h"

/* The experts that routers choose, kept for a recorder of routes: each router of this rank writes
 * its choice of each micro-batch to memory of its own, so that recording copies nothing within the
 * step. */

/* The indices of a router's choice; ORR_NONE: the module has no router. */
static orr_value choice_of(const orr_module *module)
{
    for (uint32_t c = 0; c < module->tape->n_calls; c++) {
        const orr_tape_call *call = &module->tape->calls[c];
        if (call->op == ORR_OP_TOP_K && call->pass == ORR_PASS_FORWARD)
            return call->out[1];
    }
    return ORR_NONE;
}

static orr_status hold(orr_engine_step *step, uint32_t place, orr_value value, orr_step_choice *ret,
                       orr_error *err)
{
    const orr_module *module = step->at_place[place];
    *ret = (orr_step_choice){.place = place,
                             .layer = orr_step_layer_of(step, place),
                             .value = value,
                             .type = module->tape->values[value].type};
    ret->bytes = (size_t)orr_type_bytes(&ret->type);
    ORR_TRY(orr_module_local_shard(module, &step->plan, step->rank, module->in, &ret->in, err));
    ret->in_type = module->tape->values[module->in].type;
    return orr_step_allocate(step, ret->bytes * step->plan.micro_batches, &step->memory.buffers,
                             &ret->data, err);
}

orr_status orr_step_hold_choices(orr_engine_step *step, orr_error *err)
{
    if (!step->source.routes)
        return ORR_OK;
    step->choices = orr_arena_array(step->arena, orr_step_choice, step->row.n);
    if (step->choices == NULL)
        return orr_fail_memory(err);
    for (uint32_t place = 0; place < step->row.n; place++) {
        const orr_module *module = step->at_place[place];
        const orr_value value = module != NULL ? choice_of(module) : ORR_NONE;
        if (value == ORR_NONE)
            continue;
        ORR_TRY(hold(step, place, value, &step->choices[step->n_choices], err));
        step->n_choices++;
    }
    return ORR_OK;
}

void *orr_step_choice_data(const orr_step_writer *w, uint32_t place, orr_value value)
{
    for (uint32_t i = 0; w->trains && i < w->step->n_choices; i++) {
        const orr_step_choice *c = &w->step->choices[i];
        if (c->place == place && c->value == value)
            return c->data + w->slot.micro_batch * c->bytes;
    }
    return NULL;
}

const orr_step_choice *orr_engine_step_choices(const orr_engine_step *step, uint32_t *ret_n)
{
    *ret_n = step->n_choices;
    return step->choices;
}
