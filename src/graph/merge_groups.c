/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "graph/hash_index.h"
#include "graph/job.h"

/* A group of a graph, with its text at hand. */
typedef struct named_group {
    const char *name;
    size_t name_len;
    orr_group group; /* ranks NULL where start and stride say them */
} named_group;

/* How much a group and a job's group have in common. */
typedef struct merger {
    orr_job *job;
    orr_array(orr_group) groups;
    orr_array(uint32_t) group_graph;
    orr_hash_index by_ranks; /* of those whose ranks are known: name and ranks */
    orr_hash_index by_name;  /* of all */
} merger;

static bool ranks_known(const orr_group *group)
{
    return group->size > 0 && (group->ranks != NULL || group->start >= 0);
}

/* A list that start and stride describe too is written so, that the two compare equal. */
static orr_group without_list(orr_group group)
{
    const uint32_t *ranks = group.ranks;
    if (ranks != NULL && ranks[0] <= INT32_MAX) {
        const int64_t stride = group.size > 1 ? (int64_t)ranks[1] - ranks[0] : 0;
        bool even = stride >= INT32_MIN && stride <= INT32_MAX;
        for (uint32_t i = 1; i < group.size && even; i++)
            even = (int64_t)ranks[i] - ranks[i - 1] == stride;
        if (even) {
            group.start = (int32_t)ranks[0];
            group.stride = (int32_t)stride;
            group.ranks = NULL;
        }
    }
    if (group.ranks != NULL)
        group.start = group.stride = -1;
    else if (group.size == 1)
        group.stride = 0;
    return group;
}

static named_group named(const orr_graph *graph, const orr_group *group)
{
    return (named_group){orr_graph_str(graph, group->name), orr_graph_str_len(graph, group->name),
                         without_list(*group)};
}

static named_group named_of_job(const merger *m, uint32_t id)
{
    return named(m->job->graphs[m->group_graph.at[id]], &m->groups.at[id]);
}

static bool same_name(const named_group *a, const named_group *b)
{
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

static bool same_ranks(const orr_group *a, const orr_group *b)
{
    if (a->size != b->size || a->start != b->start || a->stride != b->stride ||
        (a->ranks == NULL) != (b->ranks == NULL))
        return false;
    return a->ranks == NULL || memcmp(a->ranks, b->ranks, a->size * sizeof *a->ranks) == 0;
}

static bool has_rank(const orr_group *group, uint32_t rank)
{
    if (group->ranks == NULL) {
        const int64_t from_start = (int64_t)rank - group->start;
        if (group->stride == 0)
            return from_start == 0;
        return from_start % group->stride == 0 && from_start / group->stride >= 0 &&
               from_start / group->stride < group->size;
    }
    for (uint32_t i = 0; i < group->size; i++)
        if (group->ranks[i] == rank)
            return true;
    return false;
}

static uint32_t hash_name(const named_group *g)
{
    return orr_hash_bytes(g->name, g->name_len);
}

static uint32_t hash_ranks(const named_group *g)
{
    const uint32_t key[5] = {
        hash_name(g), g->group.size, (uint32_t)g->group.start, (uint32_t)g->group.stride,
        g->group.ranks ? orr_hash_bytes(g->group.ranks, g->group.size * sizeof *g->group.ranks)
                       : 0};
    return orr_hash_bytes(key, sizeof key);
}

static orr_status add_group(merger *m, uint32_t graph, const orr_group *group, const named_group *g,
                            uint32_t *ret_id, orr_error *err)
{
    const uint32_t id = (uint32_t)m->groups.n;
    if (id == ORR_NONE - 1)
        return orr_fail(err, ORR_LIMIT, "over 2^32 - 2 process groups in one job");
    if (!orr_array_push(&m->group_graph, graph) || !orr_array_push(&m->groups, *group) ||
        !orr_hash_index_add(&m->by_name, hash_name(g), id) ||
        (ranks_known(group) && !orr_hash_index_add(&m->by_ranks, hash_ranks(g), id)))
        return orr_fail_memory(err);
    *ret_id = id;
    return ORR_OK;
}

static orr_status merge_known(merger *m, uint32_t graph, const orr_group *group, uint32_t *ret_id,
                              orr_error *err)
{
    const named_group g = named(m->job->graphs[graph], group);
    orr_hash_index_probe probe = orr_hash_index_find(&m->by_ranks, hash_ranks(&g));
    for (uint32_t id; (id = orr_hash_index_next(&m->by_ranks, &probe)) != ORR_NONE;) {
        const named_group other = named_of_job(m, id);
        if (same_name(&g, &other) && same_ranks(&g.group, &other.group)) {
            *ret_id = id;
            return ORR_OK;
        }
    }
    return add_group(m, graph, group, &g, ret_id, err);
}

static orr_status merge_unknown(merger *m, uint32_t graph, const orr_group *group, uint32_t *ret_id,
                                orr_error *err)
{
    const named_group g = named(m->job->graphs[graph], group);
    const uint32_t rank = m->job->rank_of_graph[graph];
    uint32_t best = ORR_NONE;
    orr_hash_index_probe probe = orr_hash_index_find(&m->by_name, hash_name(&g));
    for (uint32_t id; (id = orr_hash_index_next(&m->by_name, &probe)) != ORR_NONE;) {
        const named_group other = named_of_job(m, id);
        const bool sizes_agree =
            group->size == other.group.size || group->size == 0 || other.group.size == 0;
        if (!sizes_agree || !same_name(&g, &other))
            continue;
        const bool known = ranks_known(&other.group);
        if (known && !has_rank(&other.group, rank))
            continue;
        if (best == ORR_NONE || known)
            best = id;
        if (known)
            break;
    }
    if (best == ORR_NONE)
        return add_group(m, graph, group, &g, ret_id, err);
    if (m->groups.at[best].size == 0 && group->size != 0) {
        m->groups.at[best] = *group;
        m->group_graph.at[best] = graph;
    }
    *ret_id = best;
    return ORR_OK;
}

/* Those whose ranks are known come first, so that the others find them whatever the order. */
static orr_status merge(merger *m, bool known, uint32_t *const *group_of, orr_error *err)
{
    for (uint32_t d = 0; d < m->job->n_graphs; d++) {
        const orr_graph *graph = m->job->graphs[d];
        for (uint32_t i = 0; i < graph->n_groups; i++) {
            const orr_group *group = &graph->groups[i];
            if (ranks_known(group) != known)
                continue;
            ORR_TRY((known ? merge_known : merge_unknown)(m, d, group, &group_of[d][i], err));
        }
    }
    return ORR_OK;
}

static orr_status keep_groups(merger *m, orr_arena *arena, orr_error *err)
{
    const size_t n = m->groups.n;
    orr_group *groups = orr_arena_array(arena, orr_group, n);
    uint32_t *group_graph = orr_arena_array(arena, uint32_t, n);
    if (groups == NULL || group_graph == NULL)
        return orr_fail_memory(err);
    if (n > 0) {
        memcpy(groups, m->groups.at, n * sizeof *groups);
        memcpy(group_graph, m->group_graph.at, n * sizeof *group_graph);
    }
    m->job->n_groups = (uint32_t)n;
    m->job->groups = groups;
    m->job->group_graph = group_graph;
    return ORR_OK;
}

orr_status orr_job_merge_groups(orr_job *job, orr_arena *arena, orr_error *err)
{
    merger m = {.job = job};
    orr_status status = ORR_OK;
    uint32_t **group_of = orr_arena_array(arena, uint32_t *, job->n_graphs);
    if (group_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        group_of[d] = orr_arena_array(arena, uint32_t, job->graphs[d]->n_groups);
        if (group_of[d] == NULL)
            return orr_fail_memory(err);
    }
    job->group_of = (const uint32_t *const *)group_of;
    ORR_TRY_OUT(status, merge(&m, true, group_of, err));
    ORR_TRY_OUT(status, merge(&m, false, group_of, err));
    ORR_TRY_OUT(status, keep_groups(&m, arena, err));
out:
    orr_array_done(&m.groups);
    orr_array_done(&m.group_graph);
    orr_hash_index_done(&m.by_ranks);
    orr_hash_index_done(&m.by_name);
    return status;
}
