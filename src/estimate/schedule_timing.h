/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_PLAN_ESTIMATE_PATH_H
#define ORR_PLAN_ESTIMATE_PATH_H

#include "estimate/estimate.h"

/* How what a slot made leaves its stage. */
enum { ORR_TURN_STAYS = 255 };
typedef struct orr_turn_hop {
    uint8_t kind, lane; /* feature of the hop, or ORR_TURN_STAYS; 0..3: direction
                           and pass */
} orr_turn_hop;

typedef struct orr_turn_step {
    uint32_t slot, from, stage;
    uint8_t kind, hop, lane; /* kind: class, phase, first, last */
    bool arrives, paired;    /* over a hop; with the next one   */
} orr_turn_step;
typedef struct orr_turn_ended {
    double end, hop_end;
    uint32_t why, hop_why; /* what was waited for; ORR_NONE */
} orr_turn_ended;

/* Turns in time, for given features; and the longest path that ends with a
 * stage's last slot. */
typedef struct orr_turn_play {
    const orr_schedule_plan *schedule;
    const orr_stage_cut *cut;
    const uint8_t *hop_of;
    bool trains, blocking;      /* a send holds up what is computed next */
    uint32_t n;                 /* slots that are played                 */
    uint32_t *order;            /* shape (n): each after what it waits for */
    uint32_t *comes_from;       /* shape (slots): slot on another stage; ORR_NONE */
    uint8_t *class_of, *flags;  /* shape (slots) */
    orr_turn_hop *hop;          /* shape (slots) */
    uint32_t *stage_of;         /* shape (slots) */
    struct stage_clock *clocks; /* shape (stages) */
    orr_turn_step *steps;       /* shape (n) */
    orr_turn_ended *at;         /* shape (slots) */
} orr_turn_play;
orr_status orr_turn_play_open(const orr_schedule_plan *schedule, const orr_stage_cut *cut,
                              const uint8_t *hop_of, bool trains, bool blocking, orr_arena *arena,
                              orr_turn_play *ret, orr_error *err) ORR_MUST_CHECK;
/* `lengths`: shape (ORR_FEATURES), what each feature takes. */
void orr_turn_play_run(orr_turn_play *play, const float *lengths);
double orr_turn_play_end(const orr_turn_play *play, uint32_t stage);
/* From the last slot that gives the gradients of a chunk until the stage's last
 * of all. */
double orr_turn_play_after(const orr_turn_play *play, uint32_t stage, uint32_t chunk);
/* What the end of a stage, or the beginning of a slot, waited for: where a
 * longest path ends. */
uint32_t orr_turn_play_last(const orr_turn_play *play, uint32_t stage);
uint32_t orr_turn_play_before(const orr_turn_play *play, uint32_t slot);
void orr_turn_play_path(const orr_turn_play *play, uint32_t at, orr_path *ret);
/* Does the path that ends there go from some slot to the same one so many
 * micro-batches later, adding so much? Then it may go round there any number of
 * times in a longer step. GPipe goes round twice, forward and backward. */
bool orr_turn_play_repeats(const orr_turn_play *play, uint32_t at, uint32_t period,
                           const orr_path *more);
/* Of a stage the slot that an event is; ORR_NONE: there is none. */
uint32_t orr_turn_play_event(const orr_turn_play *play, uint32_t stage, orr_turn_event event);
/* The last slot of a stage, and what is paid after it; its class. */
uint8_t orr_turn_play_ending(const orr_turn_play *play, uint32_t stage, orr_path *ret);
/* The path through all slots of a stage, and through what its first one waits
 * for. */
void orr_turn_play_busy(const orr_turn_play *play, uint32_t stage, orr_path *ret);

#endif /* ORR_PLAN_ESTIMATE_PATH_H */
