/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "model/schedule/schedule.h"

/* Proof that a schedule is complete and free of deadlock. Complete: each virtual stage runs each
 * micro-batch forward once and backward once. Free of deadlock: the order of slots within the
 * stages, together with the dependencies between stages, has no cycle. The second is shown by
 * topological sorting (Kahn's algorithm): each stage runs as far as its dependencies allow and
 * wakes its neighbours; the schedule is acyclic exactly if all slots have run at the end. */
enum { DONE_FORWARD = 1, DONE_INPUT = 2, DONE_WEIGHT = 4, DONE_ALL = 7 };

typedef struct execution {
    const orr_schedule_plan *plan;
    uint8_t *done;   /* by virtual stage, then micro-batch: shape (K x m) */
    uint32_t *at;    /* shape (p): next slot of each stage                */
    uint32_t *queue; /* shape (p): stages that may be able to advance */
    bool *queued;    /* shape (p) */
    uint32_t n_queued;
} execution;

static uint8_t bits_of(const orr_schedule_slot *slot)
{
    switch (slot->phase) {
    case ORR_SLOT_FORWARD:
        return DONE_FORWARD;
    case ORR_SLOT_BACKWARD:
        return DONE_INPUT | DONE_WEIGHT;
    case ORR_SLOT_INPUT:
        return DONE_INPUT;
    default:
        return DONE_WEIGHT;
    }
}

static uint8_t *done_of(const execution *y, uint32_t k, uint32_t micro_batch)
{
    return &y->done[(size_t)k * y->plan->spec.micro_batches + micro_batch];
}

static orr_status fail_at(uint32_t stage, const orr_schedule_slot *slot, const char *what,
                          orr_error *err)
{
    return orr_fail(err, ORR_INVALID, "stage %u: %s of micro-batch %u in chunk %u %s", stage,
                    orr_slot_phase_name((orr_slot_phase)slot->phase), slot->micro_batch,
                    slot->chunk, what);
}

static orr_status count_turn(execution *y, uint32_t stage, const orr_schedule_slot *slot,
                             orr_error *err)
{
    const orr_schedule_spec *s = &y->plan->spec;
    if (slot->phase >= ORR_SLOT_PHASES || slot->chunk >= s->chunks ||
        slot->micro_batch >= s->micro_batches ||
        (s->schedule == ORR_SCHEDULE_DUALPIPE &&
         slot->chunk != (slot->micro_batch >= s->micro_batches / 2)))
        return fail_at(stage, slot, "does not belong there", err);
    uint8_t *done =
        done_of(y, orr_schedule_virtual_stage_at(s, stage, slot->chunk), slot->micro_batch);
    if (*done & bits_of(slot))
        return fail_at(stage, slot, "is there twice", err);
    *done |= bits_of(slot);
    return ORR_OK;
}

static orr_status missing(const execution *y, uint32_t k, uint32_t micro_batch, orr_error *err)
{
    const orr_stage_chunk at = orr_schedule_place(&y->plan->spec, k, micro_batch);
    const uint8_t done = *done_of(y, k, micro_batch);
    const orr_schedule_slot slot = {.phase = !(done & DONE_FORWARD) ? ORR_SLOT_FORWARD
                                             : !(done & DONE_INPUT) ? ORR_SLOT_INPUT
                                                                    : ORR_SLOT_WEIGHT,
                                    .chunk = (uint16_t)at.chunk,
                                    .micro_batch = micro_batch};
    return fail_at(at.stage, &slot, "is missing", err);
}

static orr_status check_complete(execution *y, orr_error *err)
{
    const orr_schedule_spec *s = &y->plan->spec;
    for (uint32_t stage = 0; stage < s->stages; stage++)
        for (uint32_t i = y->plan->first[stage]; i < y->plan->first[stage + 1]; i++)
            ORR_TRY(count_turn(y, stage, &y->plan->slots[i], err));
    const uint32_t n = orr_schedule_virtual_stages(s);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < s->micro_batches; i++) {
            if (*done_of(y, k, i) != DONE_ALL)
                return missing(y, k, i, err);
            *done_of(y, k, i) = 0;
        }
    return ORR_OK;
}

/* Are the dependencies of the slot done? */
static bool may_run(const execution *y, uint32_t stage, const orr_schedule_slot *slot)
{
    const orr_schedule_spec *s = &y->plan->spec;
    const uint32_t k = orr_schedule_virtual_stage_at(s, stage, slot->chunk), i = slot->micro_batch;
    if (slot->phase == ORR_SLOT_FORWARD)
        return k == 0 || (*done_of(y, k - 1, i) & DONE_FORWARD);
    if (slot->phase == ORR_SLOT_WEIGHT)
        return *done_of(y, k, i) & DONE_INPUT;
    return (*done_of(y, k, i) & DONE_FORWARD) &&
           (k + 1 == orr_schedule_virtual_stages(s) || (*done_of(y, k + 1, i) & DONE_INPUT));
}

static void wake(execution *y, uint32_t stage)
{
    if (y->queued[stage])
        return;
    y->queued[stage] = true;
    y->queue[y->n_queued++] = stage;
}

static void run(execution *y, uint32_t stage, const orr_schedule_slot *slot)
{
    const orr_schedule_spec *s = &y->plan->spec;
    const uint32_t k = orr_schedule_virtual_stage_at(s, stage, slot->chunk), i = slot->micro_batch;
    *done_of(y, k, i) |= bits_of(slot);
    if (slot->phase == ORR_SLOT_FORWARD && k + 1 < orr_schedule_virtual_stages(s))
        wake(y, orr_schedule_place(s, k + 1, i).stage);
    if (slot->phase != ORR_SLOT_FORWARD && k > 0)
        wake(y, orr_schedule_place(s, k - 1, i).stage);
}

/* Runs slots of a stage until one has to wait. Paired slots begin together, so both must be
 * ready. */
static void advance(execution *y, uint32_t stage)
{
    const uint32_t end = y->plan->first[stage + 1];
    while (y->at[stage] < end) {
        const orr_schedule_slot *slot = &y->plan->slots[y->at[stage]];
        const uint32_t n = slot->paired && y->at[stage] + 1 < end ? 2 : 1;
        if (!may_run(y, stage, slot) || (n == 2 && !may_run(y, stage, slot + 1)))
            return;
        for (uint32_t i = 0; i < n; i++)
            run(y, stage, slot + i);
        y->at[stage] += n;
    }
}

static orr_status check_deadlock(execution *y, orr_error *err)
{
    const uint32_t p = y->plan->spec.stages;
    for (uint32_t stage = 0; stage < p; stage++) {
        y->at[stage] = y->plan->first[stage];
        wake(y, p - 1 - stage);
    }
    while (y->n_queued > 0) {
        const uint32_t stage = y->queue[--y->n_queued];
        y->queued[stage] = false;
        advance(y, stage);
    }
    for (uint32_t stage = 0; stage < p; stage++)
        if (y->at[stage] < y->plan->first[stage + 1])
            return fail_at(stage, &y->plan->slots[y->at[stage]], "waits for ever", err);
    return ORR_OK;
}

orr_status orr_schedule_check(const orr_schedule_plan *plan, orr_error *err)
{
    ORR_TRY(orr_schedule_spec_check(&plan->spec, err));
    const uint32_t p = plan->spec.stages;
    execution y = {
        .plan = plan,
        .done = orr_calloc(orr_schedule_virtual_stages(&plan->spec), plan->spec.micro_batches),
        .at = orr_calloc(p, sizeof *y.at),
        .queue = orr_calloc(p, sizeof *y.queue),
        .queued = orr_calloc(p, sizeof *y.queued)};
    orr_status status;
    if (y.done == NULL || y.at == NULL || y.queue == NULL || y.queued == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, check_complete(&y, err));
    status = check_deadlock(&y, err);
out:
    orr_free(y.done);
    orr_free(y.at);
    orr_free(y.queue);
    orr_free(y.queued);
    return status;
}
