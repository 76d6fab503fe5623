/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/step/embedding_tables.h"

/* Runs a step: forward and backward passes, metrics of all ranks, then the update. */

static orr_step_input_buffer *slot_named(orr_engine_step *step, const char *name)
{
    for (uint32_t i = 0; i < step->n_slots; i++)
        if (strcmp(step->slots[i].name, name) == 0)
            return &step->slots[i];
    return NULL;
}

void *orr_engine_step_input(orr_engine_step *step, const char *name, uint32_t micro_batch,
                            orr_type *ret_type)
{
    const orr_step_input_buffer *slot = slot_named(step, name);
    if (slot == NULL)
        return NULL;
    if (ret_type != NULL)
        *ret_type = slot->type;
    return slot->data + micro_batch * slot->bytes;
}

static void fill(orr_engine_step *step, const char *name, uint32_t micro_batch, const void *from)
{
    const orr_step_input_buffer *slot = slot_named(step, name);
    if (slot != NULL && from != NULL)
        memcpy(slot->data + micro_batch * slot->bytes, from, (size_t)orr_type_bytes(&slot->type));
}

static void fill_inputs(orr_engine_step *step, const orr_step_inputs *inputs)
{
    for (uint32_t i = 0; i < step->plan.micro_batches; i++) {
        fill(step, "tokens", i, inputs[i].tokens);
        fill(step, "targets", i, inputs[i].targets);
        fill(step, "positions", i, inputs[i].positions);
        if (step->seed != NULL && inputs[i].weights != NULL)
            memcpy(step->seed + i * step->loss_n, inputs[i].weights,
                   (size_t)step->loss_n * sizeof *step->seed);
    }
}

static orr_status execute(orr_step_program *p, orr_step_range range, bool check, int64_t *start_ns,
                          int64_t *end_ns, orr_error *err)
{
    if (range.to <= range.from)
        return ORR_OK;
    const orr_program_run run = {
        .start_ns = start_ns, .end_ns = end_ns, .check = check, .from = range.from, .to = range.to};
    return orr_program_execute(p->program, &run, err);
}

/* Repeats the step with checks on every call, to name the operator that made the first NaN or
 * infinity. In a team it may be on another replica. */
static orr_status locate_nonfinite(orr_engine_step *step, orr_error *err)
{
    orr_status status = ORR_OK;
    step->searches = true;
    if (step->begin_ns != 0)
        status = execute(&step->train, step->train.train, true, NULL, NULL, err);
    step->searches = false;
    return status != ORR_OK ? status : orr_fail(err, ORR_INVALID, "the loss is not finite");
}

static orr_status update_all(orr_engine_step *step, const orr_update *update, double scale,
                             orr_error *err)
{
    orr_step_program *p = &step->train;
    int64_t *start_ns = step->start_ns, *end_ns = step->end_ns;
    orr_update now = *update;
    now.gradient_scale = (update->gradient_scale != 0 ? update->gradient_scale : 1) * scale;
    orr_program_set_update(p->program, &now);
    if (step->tables != NULL)
        step->tables->update = &now;
    ORR_TRY(execute(p, p->decays, false, start_ns, end_ns, err));
    now.decay = 0;
    ORR_TRY(execute(p, p->plain, false, start_ns, end_ns, err));
    return execute(p, p->gather, false, start_ns, end_ns, err);
}

orr_status orr_engine_step_compute(orr_engine_step *step, const orr_step_inputs *inputs,
                                   orr_recorder *recorder, orr_error *err)
{
    step->begin_ns = orr_clock_now_ns(&orr_clock_monotonic);
    step->start_ns = step->end_ns = NULL;
    step->tally = (orr_step_metrics){0};
    fill_inputs(step, inputs);
    ORR_TRY(orr_step_begin_batch(step, err));
    if (recorder != NULL)
        orr_recorder_run(recorder, step->train.program, &step->start_ns, &step->end_ns);
    ORR_TRY(execute(&step->train, step->train.train, step->source.check, step->start_ns,
                    step->end_ns, err));
    orr_step_count_losses(step, inputs, &step->tally);
    return orr_step_submit_metrics(step, &step->tally, err);
}

orr_status orr_engine_step_apply(orr_engine_step *step, const orr_update *update, double clip,
                                 uint64_t contributors, orr_step_result *ret, orr_error *err)
{
    const int64_t now_ns = orr_clock_now_ns(&orr_clock_monotonic);
    const int64_t begin_ns = step->begin_ns != 0 ? step->begin_ns : now_ns;
    const double each = 1 / (double)contributors;
    orr_step_metrics t = step->source.team != NULL ? step->summed : step->tally;
    orr_square_sum squares = orr_step_gradient_squares(step);
    ORR_TRY(orr_step_reduce_metrics(step, &t, &squares, err));
    const double sum = orr_square_sum_value(&squares);
    if (!isfinite(t.loss) || !isfinite(sum))
        return locate_nonfinite(step, err);
    const double norm = sqrt(sum) * each, most = clip > 0 && norm > clip ? clip / norm : 1;
    ORR_TRY(update_all(step, update, most * each, err));
    orr_step_end_batch(step, true);
    step->begin_ns = 0;
    step->start_ns = step->end_ns = NULL;
    *ret = (orr_step_result){.loss = t.weight != 0 ? t.loss / t.weight : t.loss,
                             .gradient_norm = norm,
                             .tokens = (int64_t)t.tokens,
                             .step_ns = orr_clock_now_ns(&orr_clock_monotonic) - begin_ns};
    memcpy(ret->objective_sums, t.objective_sums, sizeof t.objective_sums);
    return ORR_OK;
}

orr_status orr_engine_step_run(orr_engine_step *step, const orr_step_inputs *inputs,
                               const orr_update *update, double clip, orr_recorder *recorder,
                               orr_step_result *ret, orr_error *err)
{
    ORR_TRY(orr_engine_step_compute(step, inputs, recorder, err));
    return orr_engine_step_apply(step, update, clip, 1, ret, err);
}

double *orr_engine_step_objective_sums(orr_engine_step *step)
{
    return step->tally.objective_sums;
}

uint32_t orr_engine_step_calls(const orr_engine_step *step)
{
    return step->train.tape.n_calls;
}

orr_communicator *orr_engine_step_world(const orr_engine_step *step)
{
    return step->world;
}

orr_status orr_step_call_objective(void *ctx, uint32_t call, orr_error *err)
{
    const orr_step_objective_call *s = ctx;
    const orr_step_source *source = &s->step->source;
    const int64_t at = s->micro_batch * s->step->loss_n;
    (void)call;
    return source->objective(source->objective_ctx, s->micro_batch, s->step->loss + at,
                             s->step->loss_n, s->step->seed + at, err);
}

orr_status orr_engine_step_score(orr_engine_step *step, const orr_step_inputs *inputs,
                                 float *ret_loss, orr_error *err)
{
    if (step->score.program == NULL)
        ORR_TRY(orr_step_make_program(step, false, err));
    fill_inputs(step, inputs);
    ORR_TRY(orr_step_begin_batch(step, err));
    ORR_TRY(execute(&step->score, step->score.train, step->source.check, NULL, NULL, err));
    ORR_TRY(execute(&step->score, step->score.gather, false, NULL, NULL, err));
    orr_step_end_batch(step, false);
    if (step->loss != NULL && ret_loss != NULL)
        memcpy(ret_loss, step->loss,
               (size_t)step->loss_n * step->plan.micro_batches * sizeof *ret_loss);
    return ORR_OK;
}

orr_status orr_engine_step_keep_logits(orr_engine_step *step, const void **ret, orr_type *ret_type,
                                       orr_error *err)
{
    const uint32_t last = step->row.n - 1;
    const orr_module *head = step->at_place[last];
    if (head == NULL) {
        *ret = NULL;
        return ORR_OK;
    }
    *ret_type = head->tape->values[orr_step_loss_value(head, true)].type;
    const size_t bytes = (size_t)orr_type_bytes(ret_type) * step->plan.micro_batches;
    ORR_TRY(orr_step_allocate(step, bytes, &step->memory.buffers, &step->scored, err));
    step->memory.total += (int64_t)bytes;
    *ret = step->scored;
    return ORR_OK;
}

orr_parameter *orr_engine_step_parameters(orr_engine_step *step, uint32_t *ret_n)
{
    *ret_n = step->n_exported;
    return step->exported;
}

const float *orr_engine_step_logits(const orr_engine_step *step)
{
    return step->logits;
}

orr_step_memory orr_engine_step_memory_of(const orr_engine_step *step)
{
    return step->memory;
}

static uint32_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16; /* to nearest, ties to even */
}

orr_status orr_engine_step_weights_changed(orr_engine_step *step, orr_error *err)
{
    for (uint32_t i = 0; i < step->n_buckets; i++) {
        const orr_bucket *b = &step->buckets[i];
        uint16_t *copy = b->copy;
        for (int64_t k = 0; copy != NULL && k < b->shard_n; k++)
            copy[k] = (uint16_t)to_bf16(b->master[k]);
    }
    return execute(&step->train, step->train.gather, false, NULL, NULL, err);
}

void orr_engine_step_local_batch(const orr_engine_step *step, orr_step_local_batch *ret)
{
    *ret = (orr_step_local_batch){.samples = step->plan.micro_batch};
    for (uint32_t i = 0; i < step->n_slots; i++) {
        const orr_step_input_buffer *slot = &step->slots[i];
        if (strcmp(slot->name, "tokens") != 0 && strcmp(slot->name, "targets") != 0)
            continue; /* both point to the same bytes */
        ret->samples = slot->type.dim[0];
        ret->tokens = slot->type.dim[1];
        ret->share = slot->own.by[1];
        ret->head = step->loss != NULL;
    }
}
