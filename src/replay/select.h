/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPLAY_SELECT_H
#define ORR_REPLAY_SELECT_H

#include "replay/tape_builder.h"

/* Selection: the outermost operators that have a rule; for one without a rule those that it called;
 * one without a rule that called nothing is emulated. */
typedef struct orr_replay_unit {
    orr_node_id node;
    const orr_replay_rule *rule; /* NULL: none */
    uint8_t how;                 /* orr_replay_method */
    const char *why;             /* why it is emulated; or "" */
    int64_t recorded_ns;         /* of the device work below it, else its own */
    uint32_t op_class;           /* the caller's */
    double flops, bytes;         /* once it is built */
} orr_replay_unit;
typedef struct orr_replay_selection {
    orr_replay_unit *units; /* shape (n), by start */
    uint32_t n;
    int64_t span_ns; /* recorded, from first start to last end; 0: no times */
} orr_replay_selection;
/* In the arena. Errors: INVALID: no such operator, nothing left to run. */
orr_status orr_replay_select(const orr_graph *graph, const orr_replay_options *options,
                             orr_arena *arena, orr_replay_selection *ret,
                             orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPLAY_SELECT_H */
