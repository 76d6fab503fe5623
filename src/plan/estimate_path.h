/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_PLAN_ESTIMATE_PATH_H
#define ORR_PLAN_ESTIMATE_PATH_H

#include "plan/estimate.h"

/* How what a turn made leaves its stage. */
enum { ORR_TURN_STAYS = 255 };
typedef struct orr_turn_hop {
    uint8_t kind, lane; /* feature of the hop, or ORR_TURN_STAYS; 0..3: direction and pass */
} orr_turn_hop;

/* Turns in time, for given features; and the longest path that ends with a stage's last turn. */
typedef struct orr_turn_play {
    const orr_schedule_plan *schedule;
    const orr_stage_cut           *cut;
    const uint8_t           *hop_of;
    bool      trains, blocking; /* a send holds up what is computed next */
    uint32_t  n;                /* turns that are played                 */
    uint32_t *order;            /* shape (n): each after what it waits for */
    uint32_t *comes_from;       /* shape (turns): turn on another stage; ORR_NONE */
    uint8_t  *class_of, *flags; /* shape (turns) */
    orr_turn_hop *hop;          /* shape (turns) */
    uint32_t *stage_of;         /* shape (turns) */
    struct stage_clock *clocks; /* shape (stages) */
    double   *end, *hop_end;    /* shape (turns) */
    uint32_t *why, *hop_why;    /* shape (turns): what was waited for; ORR_NONE */
} orr_turn_play;
orr_status orr_turn_play_open(const orr_schedule_plan *schedule, const orr_stage_cut *cut,
                              const uint8_t *hop_of, bool trains, bool blocking, orr_arena *arena,
                              orr_turn_play *ret, orr_error *err) ORR_MUST_CHECK;
/* `lengths`: shape (ORR_FEATURES), what each feature takes. */
void   orr_turn_play_run(orr_turn_play *play, const float *lengths);
double orr_turn_play_end(const orr_turn_play *play, uint32_t stage);
/* From the last turn that gives the gradients of a chunk until the stage's last of all. */
double orr_turn_play_after(const orr_turn_play *play, uint32_t stage, uint32_t chunk);
void   orr_turn_play_path(const orr_turn_play *play, uint32_t stage, orr_path *ret);

#endif /* ORR_PLAN_ESTIMATE_PATH_H */
