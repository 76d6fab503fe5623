/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/tape_writer.h"

/* Gathers weights that ranks hold in shards. ZeRO 1 and 2: all once a step, overlapping its first
 * slots (or after the optimizer, without overlap). ZeRO 3 (FSDP): each module's before it runs,
 * and, if resharded after the forward pass, again before its backward pass. Computation reads views
 * of the gathered buffers. */

static size_t element_bytes(const orr_engine_step *step)
{
    return orr_dtype_bytes(step->stream) < 4 ? 2 : 4;
}

static char *compute_at(const orr_engine_step *step, const orr_bucket *b, int64_t at)
{
    return (char *)b->compute + at * (int64_t)element_bytes(step);
}

static orr_value part_of(orr_step_writer *w, const orr_step_parameter *p, orr_value flat)
{
    const int64_t n = orr_type_elements(&p->type);
    const orr_value part = orr_step_slice(w, flat, p->at, n);
    return orr_step_view(w, part, &p->type);
}

static orr_value gather(orr_step_writer *w, orr_bucket *b)
{
    orr_engine_step *step = w->step;
    const orr_type shard = orr_step_flat(step->stream, b->shard_n);
    const orr_type whole = orr_step_flat(step->stream, b->n);
    char *from = b->compute != NULL ? compute_at(step, b, b->shard_begin)
                 : b->copy != NULL  ? b->copy
                                    : (char *)b->master;
    const orr_value in = orr_step_value(w, ORR_VALUE_PARAMETER, &shard, "shard", from);
    const orr_op_args args = {.axis = b->shard_axis,
                              .members = orr_step_members(step, b->shard_axis)};
    return orr_step_apply(w, &(orr_step_op){.op = ORR_OP_ALL_GATHER,
                                            .pass = w->to->tape.pass,
                                            .lane = orr_step_lane_of(&step->plan, b->shard_axis),
                                            .args = &args,
                                            .n_in = 1,
                                            .in = {in},
                                            .out = &whole,
                                            .data = b->compute,
                                            .name = "weights"});
}

static bool overlaps(const orr_engine_step *step)
{
    return step->plan.overlap_dp == ORR_SWITCH_ON;
}

static bool gathers_once(const orr_engine_step *step, const orr_bucket *b)
{
    return b->shard_axis != ORR_AXIS_NONE && step->plan.zero < 3;
}

/* Whether a bucket is gathered each time it is used (ZeRO 3). */
static bool step_gathers_on_use(const orr_engine_step *step, const orr_bucket *b)
{
    return b->shard_axis != ORR_AXIS_NONE && step->plan.zero >= 3;
}

/* From the first places to the last, the order of use: buckets are in the reverse order. */
void orr_step_gather_at_start(orr_step_writer *w)
{
    orr_engine_step *step = w->step;
    for (uint32_t i = step->n_buckets; i-- > 0;) {
        orr_bucket *b = &step->buckets[i];
        if (gathers_once(step, b) && overlaps(step))
            b->gathered = gather(w, b);
    }
}

void orr_step_gather_at_end(orr_step_writer *w)
{
    orr_engine_step *step = w->step;
    for (uint32_t i = step->n_buckets; i-- > 0;)
        if (gathers_once(step, &step->buckets[i]) && !overlaps(step))
            gather(w, &step->buckets[i]);
}

/* The view of a gathered bucket is taken at the first use. */
static orr_value gathered_view(orr_step_writer *w, orr_step_parameter *p)
{
    const orr_bucket *b = &w->step->buckets[p->bucket];
    if (p->compute_value != ORR_NONE)
        return p->compute_value;
    if (b->gathered != ORR_NONE)
        return p->compute_value = part_of(w, p, b->gathered);
    return p->compute_value =
               orr_step_value(w, ORR_VALUE_PARAMETER, &p->type, w->step->exported[p->exported].name,
                              compute_at(w->step, b, p->at));
}

void orr_step_weights(orr_step_writer *w, uint32_t place, orr_value *ret)
{
    orr_engine_step *step = w->step;
    for (uint32_t i = step->first_of[place]; i < step->first_of[place + 1]; i++)
        if (!step_gathers_on_use(step, &step->buckets[step->parameters[i].bucket]))
            ret[i - step->first_of[place]] = gathered_view(w, &step->parameters[i]);
}

static bool reads(const orr_module *module, uint8_t phase, orr_value value)
{
    for (uint32_t c = 0; c < module->tape->n_calls; c++) {
        const orr_tape_call *call = &module->tape->calls[c];
        for (uint32_t i = 0; i < call->n_in && orr_step_phase_runs_pass(call->pass, phase); i++)
            if (call->in[i] == value)
                return true;
    }
    return false;
}

/* Whether the phase reads any of the bucket's parameters at this place. */
static bool is_read(const orr_engine_step *step, uint32_t place, uint8_t phase, uint32_t bucket)
{
    for (uint32_t i = step->first_of[place]; i < step->first_of[place + 1]; i++)
        if (step->parameters[i].bucket == bucket &&
            reads(step->at_place[place], phase, step->parameters[i].value))
            return true;
    return false;
}

void orr_step_gather(orr_step_writer *w, uint32_t place, uint8_t phase, orr_value *ret)
{
    orr_engine_step *step = w->step;
    const uint32_t first = step->first_of[place];
    for (uint32_t bucket = 0; bucket < step->n_buckets; bucket++) {
        orr_bucket *b = &step->buckets[bucket];
        if (!step_gathers_on_use(step, b) || !is_read(step, place, phase, bucket))
            continue;
        const orr_value flat = gather(w, b);
        for (uint32_t i = first; i < step->first_of[place + 1]; i++)
            if (step->parameters[i].bucket == bucket)
                ret[i - first] = part_of(w, &step->parameters[i], flat);
    }
}
