/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/tape_writer.h"

#include <string.h>

#include "op/tape/tape.h"

/* Writes the schedule slots of a stage. A slot is one phase (forward, backward, or separate input
 * and weight gradients: zero-bubble pipelines, arXiv 2401.10241) of one micro-batch in one chunk of
 * modules. Its calls are those of the modules' tapes, copied with values of their own: forward from
 * the first place to the last, backward from the last to the first.
 *
 * A map for each micro-batch and place tells which value of the step's tape stands for a value of
 * the module's; it is made in the forward slot and used again in the backward slot. With ZeRO 3 the
 * weights of the next `prefetch` modules are gathered ahead of the one that is written. Receives
 * for a slot are posted one slot earlier, so that messages arrive during computation. */

typedef struct slot_range {
    uint32_t k, first, n; /* virtual stage, its places */
    bool forward;
    bool last; /* makes gradients of weights, for the last time this step */
} slot_range;

static slot_range slot_range_of(const orr_step_writer *w, uint32_t i)
{
    const orr_engine_step *step = w->step;
    const orr_schedule_slot *slot = &step->schedule.slots[i];
    const uint32_t k =
        orr_schedule_virtual_stage_at(&step->schedule.spec, step->stage, slot->chunk);
    return (slot_range){.k = k,
                        .first = step->map.first[k],
                        .n = step->map.first[k + 1] - step->map.first[k],
                        .forward = slot->phase == ORR_SLOT_FORWARD,
                        .last = w->last_slot[slot->chunk] == i};
}

static uint32_t place_at(const slot_range *t, uint32_t i)
{
    return t->forward ? t->first + i : t->first + t->n - 1 - i;
}

/* The loss of each token: output of the last forward call with this name, or that call's input. */
orr_value orr_step_loss_value(const orr_module *module, bool input)
{
    for (uint32_t c = module->tape->n_calls; c-- > 0;) {
        const orr_tape_call *call = &module->tape->calls[c];
        if (call->pass == ORR_PASS_FORWARD && strcmp(call->name, "loss") == 0)
            return input ? call->in[0] : call->out[0];
    }
    return ORR_NONE;
}

static void *slot_data(const orr_step_writer *w, const orr_module *module, orr_value value)
{
    const orr_engine_step *step = w->step;
    const orr_tape_value *v = &module->tape->values[value];
    for (uint32_t i = 0; i < step->n_slots; i++)
        if (strcmp(step->slots[i].name, v->name) == 0 &&
            memcmp(&step->slots[i].type, &v->type, sizeof v->type) == 0)
            return step->slots[i].data + w->slot.micro_batch * step->slots[i].bytes;
    return NULL;
}

/* Maps a module's inputs other than weights and other modules' outputs. */
static void map_inputs(orr_step_writer *w, const orr_module *module, orr_value *map)
{
    for (uint32_t v = 0; v < module->tape->n_values; v++) {
        const orr_tape_value *value = &module->tape->values[v];
        if (value->made_by != ORR_NONE || map[v] != ORR_NONE)
            continue;
        void *data = NULL;
        if (value->role == ORR_VALUE_INPUT)
            data = slot_data(w, module, v);
        else if (value->role == ORR_VALUE_GRADIENT && v != module->grad_out && w->step->seed)
            data = w->step->seed + w->slot.micro_batch * w->step->loss_n;
        else
            continue;
        if (data == NULL) {
            orr_step_writer_fail(w, orr_fail(w->err, ORR_UNSUPPORTED,
                                             "the %s takes '%s', which training does not give it",
                                             module->name, value->name));
            return;
        }
        map[v] = orr_step_value(w, (orr_value_role)value->role, &value->type, value->name, data);
    }
}

static orr_value *open_map(orr_step_writer *w, uint32_t place)
{
    const orr_module *module = w->step->at_place[place];
    orr_value **map = &w->maps[orr_step_map_index(w, w->slot.micro_batch, place)];
    if (*map != NULL)
        return *map;
    *map = orr_arena_array(w->scratch, orr_value, module->tape->n_values);
    if (*map == NULL) {
        orr_step_writer_fail(w, orr_fail_memory(w->err));
        return NULL;
    }
    memset(*map, 0xff, module->tape->n_values * sizeof **map);
    return *map;
}

static void map_weights(orr_step_writer *w, uint32_t place, const orr_value *weights,
                        orr_value *map)
{
    const orr_engine_step *step = w->step;
    for (uint32_t i = step->first_of[place]; i < step->first_of[place + 1]; i++)
        if (weights[i - step->first_of[place]] != ORR_NONE)
            map[step->parameters[i].value] = weights[i - step->first_of[place]];
}

uint32_t orr_step_layer_of(const orr_engine_step *step, uint32_t place)
{
    uint32_t layer = 0;
    for (uint32_t p = 0; p < place; p++)
        layer += orr_step_is_layer(&step->row.modules[step->row.module_of[p]]);
    return layer;
}

/* Label for recordings: "layer 3 / qkv"; shared by all micro-batches. */
static const char *label_of(orr_step_writer *w, uint32_t place, uint32_t call)
{
    const orr_module *module = w->step->at_place[place];
    const char *name = module->tape->calls[call].name;
    if (w->labels[place] == NULL)
        w->labels[place] = orr_arena_array(w->scratch, const char *, module->tape->n_calls);
    if (w->labels[place] == NULL)
        return NULL;
    if (w->labels[place][call] == NULL)
        w->labels[place][call] =
            orr_step_is_layer(module)
                ? orr_arena_printf(w->step->arena, "%s %u / %s", module->name,
                                   orr_step_layer_of(w->step, place), name)
                : orr_arena_printf(w->step->arena, "%s / %s", module->name, name);
    return w->labels[place][call];
}

static uint32_t parameter_of(const orr_engine_step *step, uint32_t place, orr_value value)
{
    for (uint32_t i = step->first_of[place]; i < step->first_of[place + 1]; i++)
        if (step->parameters[i].value == value)
            return i;
    return ORR_NONE;
}

static orr_value new_output(orr_step_writer *w, uint32_t place, orr_value v)
{
    const orr_module *module = w->step->at_place[place];
    const orr_tape_value *value = &module->tape->values[v];
    void *data = orr_step_choice_data(w, place, v);
    if (module->kind == ORR_MODULE_HEAD || module->kind == ORR_MODULE_BODY)
        if (v == orr_step_loss_value(module, false))
            data = w->step->loss + w->slot.micro_batch * w->step->loss_n;
    if (w->step->logits != NULL && v == orr_step_loss_value(module, true))
        data = w->step->logits + w->slot.micro_batch * w->step->loss_n;
    if (w->step->tables != NULL && v == module->grad_in)
        data = orr_step_bag_gradients(w, &value->type);
    if (w->step->scored != NULL && !w->trains && module->kind == ORR_MODULE_HEAD &&
        v == orr_step_loss_value(module, true))
        data = w->step->scored + w->slot.micro_batch * orr_type_bytes(&value->type);
    return orr_step_value(w, (orr_value_role)value->role, &value->type, value->name, data);
}

static void write_call(orr_step_writer *w, uint32_t place, uint32_t c, orr_value *map)
{
    const orr_module *module = w->step->at_place[place];
    orr_tape_call call = module->tape->calls[c];
    orr_step_order_call(w->step, place, &call);
    for (uint32_t i = 0; i < call.n_in; i++)
        if (call.in[i] != ORR_NONE)
            call.in[i] = map[call.in[i]];
    for (uint32_t o = 0; o < call.n_out; o++)
        call.out[o] = map[call.out[o]] = new_output(w, place, call.out[o]);
    const bool collective = orr_op_of((orr_op)call.op)->family == ORR_OP_FAMILY_COLLECTIVE;
    const uint8_t lane = collective && call.args.members > 1
                             ? orr_step_lane_of(&w->step->plan, call.args.axis)
                             : (uint8_t)ORR_LANE_COMPUTE;
    const uint32_t at = orr_step_call(w, &call, lane, label_of(w, place, c));
    for (uint32_t o = 0; o < call.n_out && at != ORR_NONE; o++) {
        const orr_tape_value *value = &module->tape->values[module->tape->calls[c].out[o]];
        if (value->role == ORR_VALUE_PARAMETER_GRADIENT)
            orr_step_gradient(w, parameter_of(w->step, place, value->of), at, o);
    }
}

/* The output of the neighbouring module (or, going back, its gradient), of this stage or received
 * from another. */
static orr_value neighbour_value(orr_step_writer *w, const slot_range *t, uint32_t place, bool back)
{
    const uint32_t micro_batch = w->slot.micro_batch;
    const uint32_t other = back ? place + 1 : place - 1;
    const bool inside = back ? place + 1 < t->first + t->n : place > t->first;
    if (!inside) {
        const orr_value came = orr_step_received(w, back ? t->k : t->k - 1, back, micro_batch);
        if (came != ORR_NONE)
            return came;
    }
    return w->ends[back][orr_step_map_index(w, micro_batch, other)];
}

static void map_ends(orr_step_writer *w, const slot_range *t, uint32_t place, orr_value *map)
{
    const orr_module *module = w->step->at_place[place];
    if (t->forward && module->in != ORR_NONE)
        map[module->in] = place > 0 ? neighbour_value(w, t, place, false)
                                    : orr_step_bags(w, &module->tape->values[module->in].type);
    if (!t->forward && module->grad_out != ORR_NONE && map[module->grad_out] == ORR_NONE)
        map[module->grad_out] = neighbour_value(w, t, place, true);
}

/* Calls the objective right before the first call that reads derivatives of losses. */
static void ask_objective(orr_step_writer *w, const slot_range *t, const orr_module *module,
                          uint32_t first)
{
    const bool here = module->kind == ORR_MODULE_HEAD || module->kind == ORR_MODULE_BODY;
    if (w->step->seedings == NULL || !here || t->forward || w->slot.phase == ORR_SLOT_WEIGHT ||
        !orr_step_writer_ok(w) || first >= w->to->tape.n_calls)
        return;
    w->to->calls.at[first].before = orr_step_call_objective;
    w->to->calls.at[first].hook_ctx = &w->step->seedings[w->slot.micro_batch];
}

static void write_module(orr_step_writer *w, const slot_range *t, uint32_t place, orr_value *map)
{
    const orr_module *module = w->step->at_place[place];
    const size_t at = orr_step_map_index(w, w->slot.micro_batch, place);
    const uint32_t first = w->to->tape.n_calls;
    map_ends(w, t, place, map);
    map_inputs(w, module, map);
    for (uint32_t c = 0; c < module->tape->n_calls && orr_step_writer_ok(w); c++)
        if (orr_step_phase_runs_pass(module->tape->calls[c].pass, w->slot.phase))
            write_call(w, place, c, map);
    ask_objective(w, t, module, first);
    if (t->forward && module->out != ORR_NONE)
        w->ends[0][at] = map[module->out];
    if (!t->forward && module->grad_in != ORR_NONE)
        w->ends[1][at] = map[module->grad_in];
}

/* With ZeRO 3, modules other than layers stay gathered from forward to backward pass, as do all
 * modules without resharding. */
static bool gathers_again(const orr_step_writer *w, const slot_range *t, uint32_t place)
{
    return t->forward ||
           (orr_step_is_layer(w->step->at_place[place]) && w->step->plan.reshard == ORR_SWITCH_ON);
}

enum { PREFETCH_MAX = 64 };

/* Issues the gathers of modules up to `ahead` after the i-th, whose weights are then mapped. */
static void prefetch_weights(orr_step_writer *w, const slot_range *t, uint32_t i,
                             orr_value *waiting[PREFETCH_MAX], uint32_t *n_issued)
{
    orr_engine_step *step = w->step;
    const uint32_t asked = step->plan.zero < 3 ? 0 : step->plan.prefetch;
    const uint32_t ahead = asked < PREFETCH_MAX ? asked : PREFETCH_MAX - 1;
    for (; *n_issued < t->n && *n_issued <= i + ahead && orr_step_writer_ok(w); (*n_issued)++) {
        const uint32_t place = place_at(t, *n_issued);
        const uint32_t n = step->first_of[place + 1] - step->first_of[place];
        orr_value *weights = orr_arena_array(w->scratch, orr_value, n);
        if (weights == NULL) {
            orr_step_writer_fail(w, orr_fail_memory(w->err));
            return;
        }
        memset(weights, 0xff, n * sizeof *weights);
        if (t->forward)
            orr_step_weights(w, place, weights);
        if (w->slot.phase != ORR_SLOT_WEIGHT && gathers_again(w, t, place))
            orr_step_gather(w, place, w->slot.phase, weights);
        waiting[*n_issued % PREFETCH_MAX] = weights;
    }
}

static void write_slot(orr_step_writer *w, uint32_t slot)
{
    const slot_range t = slot_range_of(w, slot);
    orr_value *waiting[PREFETCH_MAX];
    uint32_t n_issued = 0;
    w->slot = w->step->schedule.slots[slot];
    const bool gives = w->slot.phase == ORR_SLOT_BACKWARD || w->slot.phase == ORR_SLOT_WEIGHT;
    for (uint32_t i = 0; i < t.n && orr_step_writer_ok(w); i++) {
        const uint32_t place = place_at(&t, i);
        orr_value *map = open_map(w, place);
        prefetch_weights(w, &t, i, waiting, &n_issued);
        if (!orr_step_writer_ok(w))
            return;
        map_weights(w, place, waiting[i % PREFETCH_MAX], map);
        write_module(w, &t, place, map);
        if (gives)
            orr_step_gradients_end(w, place, t.last);
    }
    if (!orr_step_writer_ok(w) || w->slot.phase == ORR_SLOT_WEIGHT)
        return;
    const size_t end = orr_step_map_index(w, w->slot.micro_batch, place_at(&t, t.n - 1));
    if (t.forward && t.first + t.n < w->step->row.n)
        orr_step_send(w, t.k, false, w->ends[0][end]);
    if (!t.forward && t.k > 0)
        orr_step_send(w, t.k - 1, true, w->ends[1][end]);
}

static void find_last_slots(orr_step_writer *w)
{
    const orr_schedule_plan *schedule = &w->step->schedule;
    for (uint32_t i = schedule->first[w->step->stage]; i < schedule->first[w->step->stage + 1];
         i++) {
        const orr_schedule_slot *slot = &schedule->slots[i];
        if (slot->phase == ORR_SLOT_BACKWARD || slot->phase == ORR_SLOT_WEIGHT)
            w->last_slot[slot->chunk] = i;
    }
}

static void count_places(orr_step_writer *w)
{
    orr_engine_step *step = w->step;
    for (uint32_t place = 0; place < step->row.n; place++)
        for (uint32_t b = 0; b < step->n_buckets; b++)
            for (uint32_t i = step->first_of[place]; i < step->first_of[place + 1]; i++)
                if (step->parameters[i].bucket == b) {
                    step->buckets[b].waiting++;
                    break;
                }
}

static bool runs(const orr_step_writer *w, const orr_schedule_slot *slot)
{
    return w->trains || slot->phase == ORR_SLOT_FORWARD;
}

void orr_step_write_schedule(orr_step_writer *w)
{
    const orr_schedule_plan *schedule = &w->step->schedule;
    const uint32_t first = schedule->first[w->step->stage];
    const uint32_t end = schedule->first[w->step->stage + 1];
    uint32_t posted = first;
    find_last_slots(w);
    count_places(w);
    orr_step_list_receives(w);
    for (uint32_t i = first; i < end && orr_step_writer_ok(w); i++) {
        if (!runs(w, &schedule->slots[i]))
            continue;
        for (; posted < end && posted <= i + 1; posted++)
            if (runs(w, &schedule->slots[posted]))
                orr_step_post_receives(w, &schedule->slots[posted]);
        write_slot(w, i);
    }
}
