/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/step_state.h"

/* Experts that stand by a placement. In the tensors of a layer, of all ranks of expert parallelism
 * one after the other, position p is that of the placement's p-th slot: rank r has the positions
 * from r E / ep on. Routers choose true experts; rows are sorted by position (DISPATCH, COMBINE),
 * and what a rank has of whole tensors is told by true experts (orr_local_shard.rows): initial
 * values, weights that are read or exported, and checkpoints. So an expert has the same numbers
 * wherever it stands, and the optimizer state that goes with them. */

static orr_status check_shape(const orr_model *model, const orr_plan *plan,
                              const orr_expert_placement *p, orr_error *err)
{
    if (model->moe.experts == 0)
        return orr_fail(err, ORR_INVALID, "%s: %s has no experts to be placed", p->source,
                        model->name);
    if (plan->ep < 2)
        return orr_fail(err, ORR_INVALID,
                        "%s: with ep=1 every rank has all experts; give --plan an ep of %u",
                        p->source, p->ranks);
    if (p->ranks != plan->ep)
        return orr_fail(err, ORR_INVALID, "%s: places experts on %u ranks, the plan has ep=%u",
                        p->source, p->ranks, plan->ep);
    if (p->experts != model->moe.experts)
        return orr_fail(err, ORR_INVALID, "%s: places %u experts of a layer, %s has %u", p->source,
                        p->experts, model->name, model->moe.experts);
    if (p->number[p->layers - 1] >= model->layers)
        return orr_fail(err, ORR_INVALID, "%s: places experts of layer %u, %s has %u layers",
                        p->source, p->number[p->layers - 1], model->name, model->layers);
    return ORR_OK;
}

static uint32_t slots_before(const orr_expert_placement *p, uint32_t layer, uint32_t rank)
{
    const uint32_t *first = p->first_slot + (size_t)layer * (p->ranks + 1);
    return first[rank] - first[0];
}

/* Every expert has a slot, so with as many slots as experts there are no copies. */
static orr_status check_slots(const orr_expert_placement *p, uint32_t layer, orr_error *err)
{
    const uint32_t each = p->experts / p->ranks;
    if (slots_before(p, layer, p->ranks) > p->experts)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s: layer %u has %u slots for %u experts: copies of an expert are served, "
                        "not trained, since each would learn something else",
                        p->source, p->number[layer], slots_before(p, layer, p->ranks), p->experts);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (slots_before(p, layer, r + 1) - slots_before(p, layer, r) != each)
            return orr_fail(err, ORR_UNSUPPORTED,
                            "%s: layer %u, rank %u has %u experts: in training every rank has %u",
                            p->source, p->number[layer], r,
                            slots_before(p, layer, r + 1) - slots_before(p, layer, r), each);
    return ORR_OK;
}

orr_status orr_engine_step_place_experts(const orr_model *model, const orr_plan *plan,
                                         const orr_expert_placement *placement, orr_arena *arena,
                                         orr_expert_placement *ret, orr_error *err)
{
    uint32_t *number = orr_arena_array(arena, uint32_t, model->layers), n = 0;
    orr_expert_placement found;
    if (number == NULL)
        return orr_fail_memory(err);
    ORR_TRY(check_shape(model, plan, placement, err));
    for (uint32_t layer = 0; layer < model->layers; layer++)
        if (orr_model_layer_moe(model, layer))
            number[n++] = layer;
    const orr_status status = orr_expert_placement_layers(placement, number, n, arena, &found, err);
    if (status != ORR_OK) {
        orr_error_prefix(err, placement->source);
        return status;
    }
    ORR_TRY(orr_expert_placement_check(&found, NULL, 0, err));
    for (uint32_t layer = 0; layer < n; layer++)
        ORR_TRY(check_slots(&found, layer, err));
    *ret = found;
    return ORR_OK;
}

/* The slots of a layer as positions. */
static orr_status order_layer(const orr_expert_placement *p, uint32_t layer, orr_arena *arena,
                              orr_step_expert_order *ret, orr_error *err)
{
    uint32_t *expert = orr_arena_array(arena, uint32_t, p->experts);
    uint32_t *position = orr_arena_array(arena, uint32_t, p->experts);
    const uint16_t *slots = p->expert + p->first_slot[(size_t)layer * (p->ranks + 1)];
    if (expert == NULL || position == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < p->experts; i++) {
        expert[i] = slots[i];
        position[slots[i]] = i;
    }
    *ret = (orr_step_expert_order){expert, position};
    return ORR_OK;
}

orr_status orr_step_order_experts(orr_engine_step *step, orr_error *err)
{
    orr_expert_placement placement;
    uint32_t layer = 0;
    if (step->source.workload->placement == NULL)
        return ORR_OK;
    ORR_TRY(orr_engine_step_place_experts(step->source.model, &step->plan,
                                          step->source.workload->placement, step->arena, &placement,
                                          err));
    step->expert_orders = orr_arena_array(step->arena, orr_step_expert_order, step->row.n);
    if (step->expert_orders == NULL)
        return orr_fail_memory(err);
    for (uint32_t place = 0; place < step->row.n && layer < placement.layers; place++)
        if (orr_step_is_layer(&step->row.modules[step->row.module_of[place]]) &&
            orr_step_layer_of(step, place) == placement.number[layer])
            ORR_TRY(
                order_layer(&placement, layer++, step->arena, &step->expert_orders[place], err));
    return ORR_OK;
}

void orr_step_order_rows(const orr_engine_step *step, uint32_t place, orr_parameter *exported)
{
    if (step->expert_orders != NULL && exported->tag == ORR_WEIGHT_EXPERT &&
        step->expert_orders[place].expert != NULL)
        exported->own.rows = step->expert_orders[place].expert + exported->own.by[0].piece[0].whole;
}

void orr_step_order_call(const orr_engine_step *step, uint32_t place, orr_tape_call *call)
{
    if (step->expert_orders != NULL && (call->op == ORR_OP_DISPATCH || call->op == ORR_OP_COMBINE))
        call->args.expert_position = step->expert_orders[place].position;
}
