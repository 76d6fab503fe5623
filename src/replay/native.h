/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPLAY_NATIVE_H
#define ORR_REPLAY_NATIVE_H

#include "replay/tape_builder.h"

/* Recordings of our own engine name operators of the table, with all their arguments: they are run
 * as they were. NULL: the node is of no such recording. */
const orr_replay_rule *orr_replay_native_rule(const orr_graph *graph, orr_node_id node);
/* What such a rule builds: needs the node, beside its call. */
orr_status orr_replay_native_build(orr_replay_builder *b, const orr_graph *graph,
                                   const orr_replay_call *call, orr_op op,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPLAY_NATIVE_H */
