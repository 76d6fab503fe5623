/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPLAY_SELECT_H
#define ORR_REPLAY_SELECT_H

#include "replay/tape_builder.h"

/* Which operators of a recording run: the outermost that have a rule, and where an operator has
 * none, what it called; one that called nothing is waited for. */
typedef struct orr_replay_unit {
    orr_node_id node;
    const orr_replay_rule *rule; /* NULL: none */
    uint8_t how;                 /* orr_replay_method */
    const char *why;             /* of what is emulated; or "" */
    int64_t recorded_ns;         /* of the device work below it, else of itself */
    uint32_t op_class;           /* the caller's */
    double flops, bytes;         /* once it is built */
} orr_replay_unit;
typedef struct orr_replay_selection {
    orr_replay_unit *units; /* shape (n), in the order in which they began */
    uint32_t n;
    int64_t span_ns; /* recorded, from the first to the last end; 0: no times */
} orr_replay_selection;
/* In the arena. Errors: INVALID: no such operator, nothing left. */
orr_status orr_replay_select(const orr_graph *graph, const orr_replay_options *options,
                             orr_arena *arena, orr_replay_selection *ret,
                             orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPLAY_SELECT_H */
