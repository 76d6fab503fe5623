/* SPDX-License-Identifier: Apache-2.0 */
#include "model/schedule/schedule.h"

/* DualPipe (DeepSeek-V3, arXiv 2412.19437, figure 5 and section 3.2.1): a bidirectional pipeline.
 * Half of the micro-batches enter at the first stage and half at the last. Stage s holds part s of
 * the model for the one direction (chunk 0) and part p - 1 - s for the other (chunk 1), so that
 * every stage has work from both ends:
 *
 *     stage        0     1     2     3         p = 4
 *     chunk 0      0 ->  1 ->  2 ->  3         part of the model, first direction
 *     chunk 1      3 <-  2 <-  1 <-  0         the same parts, second direction
 *
 * A stage's slots have three phases. Warm-up (run_in): forwards until the first gradient arrives.
 * Steady state (overlap): each forward of one direction runs at once with a backward of the other,
 * so that the transfers of one hide behind the computation of the other. Cool-down (run_out): the
 * last backwards, whose weight gradients are delayed and fill what would be bubbles; `owed` finds
 * the next delayed one.
 *
 * The code is written for a stage of the first half, where NEAR is the direction that enters at
 * stage 0; a stage of the second half swaps the directions. */
enum { NEAR, FAR };
typedef struct dual {
    orr_slot_list *slots;
    uint32_t half; /* micro-batches of one direction */
    bool mirrored;
    uint32_t forward[2], backward[2]; /* emitted so far, by chunk */
    uint32_t owed;                    /* no slot before this one has a delayed weight gradient to
                                       * emit */
} dual;

static uint32_t chunk_of(const dual *d, uint32_t direction)
{
    return d->mirrored ? 1 - direction : direction;
}

static void forward(dual *d, uint32_t direction)
{
    const uint32_t chunk = chunk_of(d, direction);
    orr_slot_list_add(d->slots, ORR_SLOT_FORWARD, chunk, chunk * d->half + d->forward[chunk]++);
}

static void backward(dual *d, uint32_t direction, bool late)
{
    const uint32_t chunk = chunk_of(d, direction);
    orr_slot_list_add(d->slots, late ? ORR_SLOT_INPUT : ORR_SLOT_BACKWARD, chunk,
                      chunk * d->half + d->backward[chunk]++);
}

static void both(dual *d, uint32_t ahead, uint32_t back)
{
    forward(d, ahead);
    d->slots->at[d->slots->n - 1].paired = true;
    backward(d, back, false);
}

/* Emits the oldest delayed weight gradient, if there is one. */
static void weight(dual *d)
{
    while (d->owed < d->slots->n && d->slots->at[d->owed].phase != ORR_SLOT_INPUT)
        d->owed++;
    if (d->owed == d->slots->n)
        return;
    const orr_schedule_slot late = d->slots->at[d->owed++];
    orr_slot_list_add(d->slots, ORR_SLOT_WEIGHT, late.chunk, late.micro_batch);
}

/* Warm-up: forwards of the near direction, then of both, then the first backwards of the far
 * one. */
static void run_in(dual *d, uint32_t depth, uint32_t outside)
{
    for (uint32_t i = 0; i < 2 * outside; i++)
        forward(d, NEAR);
    for (uint32_t i = 0; i < depth + 1; i++) {
        forward(d, NEAR);
        forward(d, FAR);
    }
    for (uint32_t i = 0; i < outside; i++) {
        backward(d, FAR, true);
        weight(d);
        forward(d, FAR);
    }
}

/* Steady state, forward and backward in pairs. The two stages in the middle begin with an
 * unpaired forward, which shortens their wait. */
static void overlap(dual *d, uint32_t rounds, bool middle)
{
    for (uint32_t i = 0; i < rounds; i++) {
        if (i == 0 && middle) {
            forward(d, NEAR);
            backward(d, FAR, false);
        } else {
            both(d, NEAR, FAR);
        }
        both(d, FAR, NEAR);
    }
}

/* Cool-down: the last backwards of both directions. From about the middle on, weight gradients
 * are delayed. */
static void run_out(dual *d, uint32_t depth, uint32_t outside)
{
    bool late = false;
    for (uint32_t i = 0; i < outside; i++) {
        backward(d, FAR, false);
        both(d, FAR, NEAR);
    }
    for (uint32_t i = 0; i < depth + 1; i++) {
        const bool turning = i == (depth + 1) / 2;
        late |= turning && depth % 2 == 1;
        backward(d, FAR, late);
        late |= turning;
        backward(d, NEAR, late);
    }
    for (uint32_t i = 0; i < outside; i++) {
        weight(d);
        backward(d, NEAR, true);
    }
    for (uint32_t i = 0; i < depth + 1; i++)
        weight(d);
}

void orr_slots_dualpipe(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret)
{
    const uint32_t p = spec->stages, half = spec->micro_batches / 2;
    const bool mirrored = stage >= p / 2;
    const uint32_t depth = mirrored ? p - 1 - stage : stage; /* stages to the nearer end of the
                                                              * pipeline */
    const uint32_t outside = p / 2 - 1 - depth;              /* stages to its middle */
    dual d = {.slots = ret, .half = half, .mirrored = mirrored};
    run_in(&d, depth, outside);
    overlap(&d, half - p + depth + 1, outside == 0);
    run_out(&d, depth, outside);
}
