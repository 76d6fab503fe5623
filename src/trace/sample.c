/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/trace.h>

#include "trace/common/attr_names.h"

/* Samples of the ranks of a job: its files say which ranks they are. */

/* The ranks that the graph says, in `sampled`. False: it says nothing. */
static bool note_ranks(const orr_graph *g, uint8_t *sampled, uint32_t n_ranks)
{
    orr_attr attr;
    if (!orr_graph_find_attr(g, ORR_NONE, ORR_NAME_SAMPLED_RANKS, &attr) || !attr.list ||
        attr.kind != ORR_ATTR_UINT32)
        return false;
    const uint32_t *ranks = attr.values;
    for (uint32_t i = 0; i < attr.count; i++)
        if (ranks[i] < n_ranks)
            sampled[ranks[i]] = 1;
    return true;
}

/* The rank of a member of the group; where its ranks are not known, the member itself. */
static uint32_t rank_of(const orr_group *group, uint32_t member)
{
    const uint32_t rank = group != NULL ? orr_group_rank(group, member) : ORR_NONE;
    return rank != ORR_NONE ? rank : member;
}

/* Is at most one member of the group in the sample? */
static bool is_group_outside(const orr_job *job, const uint8_t *sampled, const orr_group *group)
{
    uint32_t inside = 0;
    for (uint32_t i = 0; i < group->size && inside < 2; i++) {
        const uint32_t rank = orr_group_rank(group, i);
        inside += rank < job->n_ranks && sampled[rank];
    }
    return inside < 2;
}

/* Has the communication a member that the sample lacks, and so no match? Of a group whose ranks are
 * not known it counts as such, unless all of the job are in it. */
static bool is_outside(const orr_job *job, const orr_job_sample *s, const orr_graph *g,
                       const orr_comm *comm, const uint8_t *group_outside)
{
    const orr_group *group = comm->group != ORR_NONE ? &g->groups[comm->group] : NULL;
    const bool pair = comm->collective == ORR_COLL_SEND || comm->collective == ORR_COLL_RECV;
    if (pair && comm->peer >= 0) {
        const uint32_t peer = rank_of(group, (uint32_t)comm->peer);
        return peer >= job->n_ranks || !s->sampled[peer];
    }
    if (group != NULL && group->size > 0 && orr_group_rank(group, 0) != ORR_NONE)
        return group_outside[comm->group];
    return comm->group_size != (int64_t)job->n_ranks || s->n_sampled < 2;
}

static orr_status count_outside(const orr_job *job, orr_arena *arena, orr_job_sample *s,
                                orr_error *err)
{
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        const orr_graph *g = job->graphs[d];
        uint8_t *group_outside = orr_arena_array(arena, uint8_t, g->n_groups);
        if (group_outside == NULL)
            return orr_fail_memory(err);
        for (uint32_t i = 0; i < g->n_groups; i++)
            group_outside[i] = is_group_outside(job, s->sampled, &g->groups[i]);
        for (orr_node_id v = 0; v < g->n_nodes && g->n_comms > 0; v++) {
            const bool ran = g->kind[v] == ORR_NODE_COLLECTIVE || g->kind[v] == ORR_NODE_SEND ||
                             g->kind[v] == ORR_NODE_RECV;
            const orr_comm *comm = ran ? orr_graph_comm(g, v) : NULL;
            if (comm != NULL && (!job->match_of[d] || job->match_of[d][v] == ORR_NONE))
                s->outside += is_outside(job, s, g, comm, group_outside);
        }
    }
    return ORR_OK;
}

orr_status orr_job_sample_of(const orr_job *job, orr_arena *arena, orr_job_sample *ret,
                             orr_error *err)
{
    uint8_t *sampled = orr_arena_array(arena, uint8_t, job->n_ranks);
    orr_job_sample sample = {0};
    bool all = true;
    if (sampled == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < job->n_graphs; d++)
        all &= note_ranks(job->graphs[d], sampled, job->n_ranks);
    for (uint32_t rank = 0; rank < job->n_ranks && all; rank++)
        sample.n_sampled += sampled[rank];
    if (all && sample.n_sampled > 0 && sample.n_sampled < job->n_ranks) {
        sample.sampled = sampled;
        ORR_TRY(count_outside(job, arena, &sample, err));
    } else {
        sample.n_sampled = 0;
    }
    *ret = sample;
    return ORR_OK;
}
