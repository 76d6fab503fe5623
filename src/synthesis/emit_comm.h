/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SYNTHESIS_EMIT_COMM_H
#define ORR_SYNTHESIS_EMIT_COMM_H

#include "base/array.h"
#include "synthesis/emit.h"

/* Communications of a generated rank. Sequence numbers count on in each group, so that the members
 * of a communication are told by group and number; what it takes and carries is drawn from both, so
 * that all members draw the same. */
typedef struct orr_comm_number {
    uint64_t key; /* digest of the group's name, or of a pair of ranks */
    int64_t next;
} orr_comm_number;

typedef struct orr_comm_numbers {
    orr_array(orr_comm_number) rows;
} orr_comm_numbers;
void orr_comm_numbers_done(orr_comm_numbers *numbers);

/* Gives node `made`, the copy of node v of a source's role, its communication; where its partners
 * are not known it becomes computation or an operator. *duration_ns: what the transfer takes.
 * Errors: LIMIT, NO_MEMORY. */
orr_status orr_emit_transfer(const orr_emission *emission, orr_graph_builder *builder,
                             orr_comm_numbers *numbers, uint32_t source, uint32_t role,
                             orr_node_id v, uint32_t rank, orr_node_id made, int64_t *duration_ns,
                             orr_arena *arena, orr_error *err) ORR_MUST_CHECK;

/* What a node is called in an obfuscated job. */
const char *orr_obfuscated_name(const orr_graph *g, orr_node_id v, const char *name);

#endif /* ORR_SYNTHESIS_EMIT_COMM_H */
