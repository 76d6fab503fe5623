/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "rescale/compose/compose.h"

/* Communications of the new plan: where they meet their partners, and those that no piece has. */

int64_t orr_compose_next_seq(orr_composer *c, orr_comm_role role)
{
    return c->seq[orr_grouping_of_role(role)]++;
}

bool orr_role_is_to_next_stage(orr_comm_role role)
{
    return role == ORR_ROLE_SEND_FORWARD || role == ORR_ROLE_RECV_BACKWARD;
}

uint32_t orr_compose_peer(const orr_composer *c, orr_comm_role role)
{
    return orr_role_is_to_next_stage(role) ? c->stage + 1 : c->stage - 1;
}

orr_rendezvous_id orr_compose_rendezvous(const orr_composer *c, orr_comm_role role, int64_t seq)
{
    const uint32_t grouping = orr_grouping_of_role(role);
    if (grouping != ORR_GROUPING_PP)
        return (orr_rendezvous_id){grouping, (uint32_t)seq};
    const bool backward = role == ORR_ROLE_SEND_BACKWARD || role == ORR_ROLE_RECV_BACKWARD;
    const uint32_t lower = orr_role_is_to_next_stage(role) ? c->stage : c->stage - 1;
    return (orr_rendezvous_id){
        grouping, orr_pipeline_ordinal(lower, c->to.micro_batches, c->micro_batch, backward)};
}

/* Type of numbers of a piece's operator, as NCCL's records have it; "" where it is not recorded. */
static const char *type_of(const orr_profiled_step *step, const orr_step_piece *piece,
                           int64_t *ret_bytes)
{
    static const struct {
        const char *type, *name;
        int64_t bytes;
    } types[] = {{"BFloat16", "BFloat16", 2},
                 {"Half", "Half", 2},
                 {"float", "Float", 4},
                 {"double", "Double", 8}};
    for (uint32_t i = 0; i < piece->n_nodes; i++) {
        orr_attr attr;
        const orr_node_id v = step->nodes[piece->first_node + i];
        if (!orr_graph_find_attr(step->g, v, "Input type", &attr) || attr.list ||
            attr.kind != ORR_ATTR_JSON)
            continue;
        const char *text = orr_graph_str(step->g, *(const orr_str *)attr.values);
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            if (strstr(text, types[t].type) != NULL) {
                *ret_bytes = types[t].bytes;
                return types[t].name;
            }
    }
    *ret_bytes = 0;
    return "";
}

/* A type that this piece, or any before it, has. */
static const char *type_near(const orr_profiled_step *step, const orr_step_piece *like,
                             int64_t *ret_bytes)
{
    for (const orr_step_piece *p = like;; p--) {
        const char *type = type_of(step, p, ret_bytes);
        if (*ret_bytes > 0)
            return type;
        if (p == step->pieces)
            break;
    }
    for (const orr_step_piece *p = like; p < step->pieces + step->n_pieces; p++) {
        const char *type = type_of(step, p, ret_bytes);
        if (*ret_bytes > 0)
            return type;
    }
    return "";
}

orr_status orr_compose_insert(orr_composer *c, orr_comm_role role, const orr_profiled_step *step,
                              const orr_step_piece *like, int64_t elements, const char *dims)
{
    int64_t bytes;
    const char *type = type_near(step, like, &bytes);
    const uint32_t grouping = orr_grouping_of_role(role);
    if (bytes == 0 || elements <= 0)
        return orr_fail(c->err, ORR_INVALID,
                        "a communication has to be inserted, but the recording has no shapes and "
                        "types that say how large it is");
    const int64_t seq = orr_compose_next_seq(c, role);
    const orr_comm_call call = {
        .role = role,
        .group = c->groups[grouping],
        .group_size = (int32_t)orr_plan_group(&c->to, grouping, 0).size,
        .peer = grouping == ORR_GROUPING_PP ? (int32_t)orr_compose_peer(c, role) : -1,
        .seq = seq,
        .bytes = elements * bytes,
        .dtype = type,
        .dims = dims};
    orr_emit_comm(&c->e, &call, orr_compose_rendezvous(c, role, seq), &c->rendezvous);
    c->inserted++;
    return c->e.status;
}

orr_status orr_compose_insert_hidden(orr_composer *c, orr_comm_role role,
                                     const orr_profiled_step *step, const orr_step_piece *like)
{
    char dims[96];
    const orr_plan *p = &c->to;
    if (p->micro_batch == 0 || p->seq == 0 || p->hidden == 0)
        return orr_fail(c->err, ORR_INVALID,
                        "a communication of activations has to be inserted, but micro_batch, seq "
                        "and hidden are not all known: state them");
    snprintf(dims, sizeof dims, "[[%u, %u, %u]]", p->micro_batch, p->seq, p->hidden);
    return orr_compose_insert(c, role, step, like, (int64_t)p->micro_batch * p->seq * p->hidden,
                              dims);
}
