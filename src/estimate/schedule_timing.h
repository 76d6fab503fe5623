/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ESTIMATE_SCHEDULE_TIMING_H
#define ORR_ESTIMATE_SCHEDULE_TIMING_H

#include "estimate/estimate.h"

/* How what a slot made leaves its stage. */
enum { ORR_SLOT_STAYS = 255 };
typedef struct orr_slot_hop {
    uint8_t kind, lane; /* feature of the hop, or ORR_SLOT_STAYS; 0..3: direction
                           and pass */
} orr_slot_hop;

typedef struct orr_timed_slot {
    uint32_t slot, from, stage;
    uint8_t kind, hop, lane; /* kind: class, phase, first, last */
    bool arrives, paired;    /* over a hop; with the next one   */
} orr_timed_slot;
typedef struct orr_slot_end {
    double end, hop_end;
    uint32_t why, hop_why; /* what was waited for; ORR_NONE */
} orr_slot_end;

/* Turns in time, for given features; and the longest path that ends with a
 * stage's last slot. */
typedef struct orr_schedule_timing {
    const orr_schedule_plan *schedule;
    const orr_stage_partition *cut;
    const uint8_t *hop_of;
    bool trains, blocking;      /* a send holds up what is computed next */
    uint32_t n;                 /* slots that are played                 */
    uint32_t *order;            /* shape (n): each after what it waits for */
    uint32_t *comes_from;       /* shape (slots): slot on another stage; ORR_NONE */
    uint8_t *class_of, *flags;  /* shape (slots) */
    orr_slot_hop *hop;          /* shape (slots) */
    uint32_t *stage_of;         /* shape (slots) */
    struct stage_clock *clocks; /* shape (stages) */
    orr_timed_slot *steps;      /* shape (n) */
    orr_slot_end *at;           /* shape (slots) */
} orr_schedule_timing;
orr_status orr_schedule_timing_open(const orr_schedule_plan *schedule,
                                    const orr_stage_partition *cut, const uint8_t *hop_of,
                                    bool trains, bool blocking, orr_arena *arena,
                                    orr_schedule_timing *ret, orr_error *err) ORR_MUST_CHECK;
/* `lengths`: shape (ORR_FEATURES), what each feature takes. */
void orr_schedule_timing_run(orr_schedule_timing *play, const float *lengths);
double orr_schedule_timing_end(const orr_schedule_timing *play, uint32_t stage);
/* From the last slot that gives the gradients of a chunk until the stage's last
 * of all. */
double orr_schedule_timing_after(const orr_schedule_timing *play, uint32_t stage, uint32_t chunk);
/* What the end of a stage, or the beginning of a slot, waited for: where a
 * longest path ends. */
uint32_t orr_schedule_timing_last(const orr_schedule_timing *play, uint32_t stage);
uint32_t orr_schedule_timing_before(const orr_schedule_timing *play, uint32_t slot);
void orr_schedule_timing_path(const orr_schedule_timing *play, uint32_t at, orr_schedule_path *ret);
/* Does the path that ends there go from some slot to the same one so many
 * micro-batches later, adding so much? Then it may go round there any number of
 * times in a longer step. GPipe goes round twice, forward and backward. */
bool orr_schedule_timing_repeats(const orr_schedule_timing *play, uint32_t at, uint32_t period,
                                 const orr_schedule_path *more);
/* Of a stage the slot that an event is; ORR_NONE: there is none. */
uint32_t orr_schedule_timing_event(const orr_schedule_timing *play, uint32_t stage,
                                   orr_slot_event event);
/* The last slot of a stage, and what is paid after it; its class. */
uint8_t orr_schedule_timing_ending(const orr_schedule_timing *play, uint32_t stage,
                                   orr_schedule_path *ret);
/* The path through all slots of a stage, and through what its first one waits
 * for. */
void orr_schedule_timing_busy(const orr_schedule_timing *play, uint32_t stage,
                              orr_schedule_path *ret);

#endif /* ORR_ESTIMATE_SCHEDULE_TIMING_H */
