/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ESTIMATE_SCHEDULE_TIMING_H
#define ORR_ESTIMATE_SCHEDULE_TIMING_H

#include "estimate/estimate.h"

/* The hop by which a slot's result leaves its stage. */
enum { ORR_SLOT_STAYS = 255 };
typedef struct orr_slot_hop {
    uint8_t kind,
        lane; /* kind: feature of the hop, or ORR_SLOT_STAYS; lane: 0..3, by direction and pass */
} orr_slot_hop;

typedef struct orr_timed_slot {
    uint32_t slot, from, stage;
    uint8_t kind, hop, lane; /* kind: class, phase, first, last */
    bool arrives, paired;    /* arrives: its input comes over a hop; paired: with the next one */
} orr_timed_slot;
typedef struct orr_slot_end {
    double end, hop_end;
    uint32_t cause, hop_cause; /* causes; ORR_NONE: the begin of the step */
} orr_slot_end;

/* A pipeline schedule executed in time for given lengths of its features, with the critical path to
 * any slot. */
typedef struct orr_schedule_timing {
    const orr_schedule_plan *schedule;
    const orr_stage_partition *partition;
    const uint8_t *hop_of;
    bool trains, blocking;      /* blocking: a send holds up the next computation */
    uint32_t n;                 /* number of executed slots */
    uint32_t *order;            /* shape (n): topological order */
    uint32_t *comes_from;       /* shape (slots): slot on another stage; ORR_NONE */
    uint8_t *class_of, *flags;  /* shape (slots) */
    orr_slot_hop *hop;          /* shape (slots) */
    uint32_t *stage_of;         /* shape (slots) */
    struct stage_clock *clocks; /* shape (stages) */
    orr_timed_slot *steps;      /* shape (n) */
    orr_slot_end *at;           /* shape (slots) */
} orr_schedule_timing;
orr_status orr_schedule_timing_open(const orr_schedule_plan *schedule,
                                    const orr_stage_partition *partition, const uint8_t *hop_of,
                                    bool trains, bool blocking, orr_arena *arena,
                                    orr_schedule_timing *ret, orr_error *err) ORR_MUST_CHECK;
/* Executes the schedule. `lengths`: shape (ORR_FEATURES), the length of each feature. */
void orr_schedule_timing_run(orr_schedule_timing *timing, const float *lengths);
double orr_schedule_timing_end(const orr_schedule_timing *timing, uint32_t stage);
/* Time from the last gradient slot of a chunk to the end of the stage's last slot. */
double orr_schedule_timing_after(const orr_schedule_timing *timing, uint32_t stage, uint32_t chunk);
/* The cause of a stage's end, or of a slot's begin: the point from which a critical path is
 * followed back. */
uint32_t orr_schedule_timing_last(const orr_schedule_timing *timing, uint32_t stage);
uint32_t orr_schedule_timing_before(const orr_schedule_timing *timing, uint32_t slot);
void orr_schedule_timing_path(const orr_schedule_timing *timing, uint32_t at,
                              orr_schedule_path *ret);
/* Whether the critical path to `at` has a cycle: it passes some slot and the same slot `period`
 * micro-batches earlier, with `more` between the two. It may then take the cycle any number of
 * times in a longer schedule. GPipe has two cycles, forward and backward. */
bool orr_schedule_timing_repeats(const orr_schedule_timing *timing, uint32_t at, uint32_t period,
                                 const orr_schedule_path *more);
/* The slot of a stage at which an event happens; ORR_NONE: none. */
uint32_t orr_schedule_timing_event(const orr_schedule_timing *timing, uint32_t stage,
                                   orr_slot_event event);
/* Features of the last slot of a stage and the stall after it; returns its class. */
uint8_t orr_schedule_timing_ending(const orr_schedule_timing *timing, uint32_t stage,
                                   orr_schedule_path *ret);
/* The path through all slots of a stage and through the inputs of its first one. */
void orr_schedule_timing_busy(const orr_schedule_timing *timing, uint32_t stage,
                              orr_schedule_path *ret);

#endif /* ORR_ESTIMATE_SCHEDULE_TIMING_H */
