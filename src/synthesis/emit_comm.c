/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis/emit_comm.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "graph/builder.h"
#include "graph/pollers.h"
#include "synthesis/groups.h"

void orr_comm_numbers_done(orr_comm_numbers *numbers)
{
    orr_array_done(&numbers->rows);
}

const char *orr_obfuscated_name(const orr_graph *g, orr_node_id v, const char *name)
{
    const orr_comm *comm = orr_graph_comm(g, v);
    if (comm != NULL && orr_synthesis_communicates(g, v))
        return orr_collective_name((orr_collective)comm->collective);
    if (g->kind[v] == ORR_NODE_RUNTIME && orr_is_synchronisation(name))
        return "cudaStreamSynchronize";
    if (g->kind[v] == ORR_NODE_RUNTIME && orr_is_query(name))
        return "cudaEventQuery";
    return orr_node_kind_name((orr_node_kind)g->kind[v]);
}

static orr_status next_number(orr_comm_numbers *numbers, uint64_t key, int64_t *ret, orr_error *err)
{
    for (size_t i = 0; i < numbers->rows.n; i++)
        if (numbers->rows.at[i].key == key) {
            *ret = numbers->rows.at[i].next++;
            return ORR_OK;
        }
    *ret = 0;
    return orr_array_push(&numbers->rows, ((orr_comm_number){key, 1})) ? ORR_OK
                                                                       : orr_fail_memory(err);
}

/* The whole that an all-gather collects or a reduce-scatter sums keeps its bytes, and is divided
 * among more or fewer ranks; of all others each rank's part is as it was. */
static void rescale_bytes(orr_comm *comm, uint32_t recorded, uint32_t size)
{
    if (recorded == size || size == 0)
        return;
    if (comm->collective == ORR_COLL_ALL_GATHER && comm->out_bytes > 0)
        comm->in_bytes = comm->out_bytes / size;
    if (comm->collective == ORR_COLL_REDUCE_SCATTER && comm->in_bytes > 0)
        comm->out_bytes = comm->in_bytes / size;
}

static int64_t scale_bytes(int64_t bytes, double factor)
{
    return bytes > 0 ? llround((double)bytes * factor) : bytes;
}

static orr_status add_texts(const orr_emission *e, orr_graph_builder *b, const orr_graph *g,
                            const orr_comm *was, bool as_recorded, orr_comm *comm, orr_error *err)
{
    const orr_str from[3] = {was->dtype, was->in_splits, was->out_splits};
    orr_str *to[3] = {&comm->dtype, &comm->in_splits, &comm->out_splits};
    const int n = e->obfuscate ? 0 : as_recorded ? 3 : 1;
    for (int i = 0; i < n; i++)
        ORR_TRY(orr_builder_str(b, orr_graph_str(g, from[i]), orr_graph_str_len(g, from[i]), to[i],
                                err));
    return ORR_OK;
}

/* Whose times and bytes stand for all members: the first that was recorded. */
static orr_member leader_of(const orr_source *s, uint32_t role, orr_node_id v)
{
    const uint32_t *row = s->job->match_of[role];
    return row == NULL || row[v] == ORR_NONE ? (orr_member){role, v}
                                             : s->job->members[s->job->matches[row[v]].first];
}

/* The group and the number in it, or the other rank. */
static orr_status find_partners(const orr_source *s, const orr_membership *m, uint32_t rank,
                                uint32_t n_ranks, bool sends, orr_graph_builder *b,
                                orr_comm_numbers *numbers, orr_arena *arena, orr_comm *comm,
                                uint64_t *ret_key, orr_error *err)
{
    const orr_membership all = {.kind = ORR_MEMBERS_ALL};
    const bool pair = m->kind == ORR_MEMBERS_PAIR;
    orr_group group;
    const char *name;
    ORR_TRY(orr_membership_group(s, pair ? &all : m, rank, n_ranks, arena, &group, &name, err));
    ORR_TRY(orr_builder_str(b, name, strlen(name), &group.name, err));
    ORR_TRY(orr_builder_group(b, &group, &comm->group, err));
    comm->group_size = (int32_t)group.size;
    *ret_key = orr_digest_text(1, name);
    if (pair) {
        const uint32_t peer = orr_membership_peer(s, m, rank);
        const uint64_t from = sends ? rank : peer, to = sends ? peer : rank;
        comm->peer = (int32_t)peer;
        *ret_key = orr_digest_word(2, from << 32 | to);
    }
    return next_number(numbers, *ret_key, &comm->seq, err);
}

orr_status orr_emit_transfer(const orr_emission *e, orr_graph_builder *b, orr_comm_numbers *numbers,
                             uint32_t source, uint32_t role, orr_node_id v, uint32_t rank,
                             orr_node_id made, int64_t *duration_ns, orr_arena *arena,
                             orr_error *err)
{
    const orr_source *s = &e->sources[source];
    const orr_graph *g = s->ranks[role].graph;
    const orr_membership m = orr_membership_of(s, role, v);
    const orr_comm *was = orr_graph_comm(g, v);
    uint64_t key;
    if (m.kind == ORR_MEMBERS_NONE) {
        b->kind[made] =
            g->lanes[g->lane[v]].kind == ORR_LANE_STREAM ? ORR_NODE_COMPUTE : ORR_NODE_HOST_OP;
        return ORR_OK;
    }
    orr_comm comm = {.collective = was->collective,
                     .vector = was->vector && !e->obfuscate,
                     .peer = -1,
                     .root = -1,
                     .tag = -1,
                     .in_bytes = was->in_bytes,
                     .out_bytes = was->out_bytes};
    ORR_TRY(find_partners(s, &m, rank, e->n_ranks, g->kind[v] == ORR_NODE_SEND, b, numbers, arena,
                          &comm, &key, err));
    if (was->root >= 0)
        comm.root = was->root % comm.group_size;
    orr_random random = orr_random_of(e->seed ^ key, UINT64_C(1) << 40 | (uint64_t)comm.seq);
    const orr_member leader = leader_of(s, role, v);
    const orr_graph *of = s->ranks[leader.graph].graph;
    const double u = orr_random_unit(&random), w = orr_random_unit(&random);
    *duration_ns = orr_samples_draw(e->samples, source, of, leader.node,
                                    orr_transfer_ns(s->job, role, v), u, w);
    const int64_t bytes = orr_transfer_bytes(s->job, role, v);
    const double factor =
        bytes > 0 ? (double)orr_samples_draw_bytes(e->samples, source,
                                                   orr_graph_comm(of, leader.node), bytes, u, w) /
                        (double)bytes
                  : 1;
    comm.in_bytes = scale_bytes(comm.in_bytes, factor);
    comm.out_bytes = scale_bytes(comm.out_bytes, factor);
    const uint32_t size = (uint32_t)comm.group_size;
    rescale_bytes(&comm, m.recorded_size, size);
    ORR_TRY(add_texts(e, b, g, was, size == m.recorded_size, &comm, err));
    return orr_builder_comm(b, made, &comm, err);
}
