/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPLAY_NATIVE_H
#define ORR_REPLAY_NATIVE_H

#include "replay/tape_builder.h"

/* Rules for recordings of our own engine, which name operators of the table with all arguments, so
 * that they run exactly as they did. NULL: the node is not from such a recording. */
const orr_replay_rule *orr_replay_native_rule(const orr_graph *graph, orr_node_id node);
/* The builder of such a rule, which needs the node beside its call. */
orr_status orr_replay_native_build(orr_replay_builder *b, const orr_graph *graph,
                                   const orr_replay_call *call, orr_op op,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPLAY_NATIVE_H */
