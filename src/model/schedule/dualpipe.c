/* SPDX-License-Identifier: Apache-2.0 */
#include "model/schedule/schedule.h"

/* DualPipe (DeepSeek-V3, arXiv 2412.19437, figure 5 and section 3.2.1): half of the micro-batches
 * enter at the first stage and half at the last. Stage s holds part s of the model for the one
 * direction (chunk 0) and part p - 1 - s for the other (chunk 1). In the middle a forward slot of
 * one direction runs at once with a backward slot of the other, so that the transfers of one hide
 * behind the computation of the other.
 *
 * Written for a stage of the first half, where NEAR is the direction that enters at stage 0; the
 * second half is its mirror image. */
enum { NEAR, FAR };
typedef struct dual {
    orr_slot_list *slots;
    uint32_t half; /* micro-batches of a direction              */
    bool mirrored;
    uint32_t forward[2], backward[2]; /* given so far, by chunk        */
    uint32_t owed;                    /* slots before this one owe no weight gradient */
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

/* The weight gradient that was put off first. */
static void weight(dual *d)
{
    while (d->owed < d->slots->n && d->slots->at[d->owed].phase != ORR_SLOT_INPUT)
        d->owed++;
    if (d->owed == d->slots->n)
        return;
    const orr_schedule_slot late = d->slots->at[d->owed++];
    orr_slot_list_add(d->slots, ORR_SLOT_WEIGHT, late.chunk, late.micro_batch);
}

/* Both directions run in: forwards of the near one, of both, then the far one comes back. */
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

/* The two stages in the middle begin without a pair: that leaves them less to wait. */
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

/* From the middle of the last backwards on of both directions weights wait. */
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
    const uint32_t depth = mirrored ? p - 1 - stage : stage; /* stages to the nearer end */
    const uint32_t outside = p / 2 - 1 - depth;              /* stages to the middle     */
    dual d = {.slots = ret, .half = half, .mirrored = mirrored};
    run_in(&d, depth, outside);
    overlap(&d, half - p + depth + 1, outside == 0);
    run_out(&d, depth, outside);
}
