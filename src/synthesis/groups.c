/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis/groups.h"

/* Members of a match stand in order of rank. */
static uint32_t role_at(const orr_source *s, uint32_t match, uint32_t i)
{
    return s->job->members[s->job->matches[match].first + i].graph;
}

/* The distance between members that are spread evenly over all ranks, or 0. */
static uint32_t stride_of(const orr_source *s, uint32_t match)
{
    const uint32_t n = s->job->matches[match].count, stride = s->n_roles / n;
    if (n * stride != s->n_roles || role_at(s, match, 0) >= stride)
        return 0;
    for (uint32_t i = 1; i < n; i++)
        if (role_at(s, match, i) != role_at(s, match, i - 1) + stride)
            return 0;
    return stride;
}

static orr_membership of_match(const orr_source *s, uint32_t m, uint32_t recorded_size)
{
    const orr_match *match = &s->job->matches[m];
    const bool whole = s->n_roles == s->world_size;
    orr_membership ret = {ORR_MEMBERS_OF_COPY, 0, m, whole ? match->count : recorded_size};
    if (match->collective == ORR_COLL_SEND) {
        ret.kind = ORR_MEMBERS_PAIR;
    } else if (match->count == s->n_roles || recorded_size >= s->world_size) {
        ret.kind = ORR_MEMBERS_ALL;
    } else if (whole && stride_of(s, m) > 0) {
        ret.kind = ORR_MEMBERS_STRIDED;
        ret.width = stride_of(s, m);
    }
    return ret;
}

orr_membership orr_membership_of(const orr_source *s, uint32_t role, orr_node_id v)
{
    const orr_graph *g = s->ranks[role].graph;
    const orr_comm *comm = orr_graph_comm(g, v);
    const uint32_t *row = s->job->match_of[role];
    const orr_group *group =
        comm == NULL || comm->group == ORR_NONE ? NULL : &g->groups[comm->group];
    uint32_t size = group != NULL && group->size > 0       ? group->size
                    : comm != NULL && comm->group_size > 0 ? (uint32_t)comm->group_size
                                                           : s->world_size;
    orr_membership ret = {ORR_MEMBERS_NONE, 0, ORR_NONE, size};
    if (comm == NULL || !orr_synthesis_communicates(g, v))
        return ret;
    if (row != NULL && row[v] != ORR_NONE)
        return of_match(s, row[v], size);
    if (s->n_roles > 1 || g->kind[v] != ORR_NODE_COLLECTIVE)
        return ret;
    if (size >= s->world_size || size < 2) {
        ret.kind = ORR_MEMBERS_ALL;
    } else if (group != NULL && group->ranks == NULL && group->stride > 1 &&
               (uint64_t)size * (uint32_t)group->stride == s->world_size) {
        ret.kind = ORR_MEMBERS_STRIDED;
        ret.width = (uint32_t)group->stride;
    } else {
        ret.kind = ORR_MEMBERS_IN_A_ROW;
        ret.width = size;
    }
    return ret;
}

static orr_status check_one(const orr_source *s, const orr_membership *m, uint32_t n,
                            orr_error *err)
{
    switch (m->kind) {
    case ORR_MEMBERS_PAIR:
    case ORR_MEMBERS_OF_COPY:
        if (n % s->n_roles != 0)
            return orr_fail(err, ORR_INVALID,
                            "--scale: %u ranks are no multiple of %u: some communications are "
                            "between certain ranks of the recording, and need all of them",
                            n, s->n_roles);
        return ORR_OK;
    case ORR_MEMBERS_STRIDED:
        if (n % m->width != 0 || n / m->width < 2)
            return orr_fail(err, ORR_INVALID,
                            "--scale: %u ranks are not twice %u or another multiple of it: some "
                            "communications are among every %uth rank",
                            n, m->width, m->width);
        return ORR_OK;
    case ORR_MEMBERS_IN_A_ROW:
        if (n % m->width != 0)
            return orr_fail(err, ORR_INVALID,
                            "--scale: %u ranks are no multiple of %u, the size of a group", n,
                            m->width);
        return ORR_OK;
    default:
        return ORR_OK;
    }
}

orr_status orr_membership_check(const orr_source *s, uint32_t n_ranks, orr_error *err)
{
    for (uint32_t r = 0; r < s->n_roles; r++)
        for (orr_node_id v = 0; v < s->ranks[r].graph->n_nodes; v++) {
            if (!orr_source_has(s, r, v) || !orr_synthesis_communicates(s->ranks[r].graph, v))
                continue;
            const orr_membership m = orr_membership_of(s, r, v);
            ORR_TRY(check_one(s, &m, n_ranks, err));
        }
    return ORR_OK;
}

static orr_status copy_group(const orr_source *s, uint32_t match, uint32_t first, orr_arena *arena,
                             orr_group *ret, const char **ret_name, orr_error *err)
{
    const uint32_t n = s->job->matches[match].count;
    uint32_t *ranks = orr_arena_array(arena, uint32_t, n);
    char *name = orr_arena_printf(arena, "copy_%u", first);
    for (uint32_t i = 0; ranks != NULL && name != NULL && i < n; i++) {
        ranks[i] = first + role_at(s, match, i);
        name = orr_arena_printf(arena, "%s_%u", name, ranks[i] - first);
    }
    if (ranks == NULL || name == NULL)
        return orr_fail_memory(err);
    *ret = (orr_group){.size = n, .start = -1, .ranks = ranks};
    *ret_name = name;
    return ORR_OK;
}

orr_status orr_membership_group(const orr_source *s, const orr_membership *m, uint32_t rank,
                                uint32_t n_ranks, orr_arena *arena, orr_group *ret,
                                const char **ret_name, orr_error *err)
{
    *ret = (orr_group){.size = n_ranks, .start = 0, .stride = 1};
    *ret_name = "all";
    if (m->kind == ORR_MEMBERS_STRIDED) {
        *ret = (orr_group){.size = n_ranks / m->width,
                           .start = (int32_t)(rank % m->width),
                           .stride = (int32_t)m->width};
        *ret_name = orr_arena_printf(arena, "every_%u_from_%u", m->width, rank % m->width);
    } else if (m->kind == ORR_MEMBERS_IN_A_ROW) {
        const uint32_t first = rank - rank % m->width;
        *ret = (orr_group){.size = m->width, .start = (int32_t)first, .stride = 1};
        *ret_name = orr_arena_printf(arena, "row_of_%u_from_%u", m->width, first);
    } else if (m->kind == ORR_MEMBERS_OF_COPY) {
        return copy_group(s, m->match, rank - rank % s->n_roles, arena, ret, ret_name, err);
    }
    return *ret_name == NULL ? orr_fail_memory(err) : ORR_OK;
}

uint32_t orr_membership_peer(const orr_source *s, const orr_membership *m, uint32_t rank)
{
    const uint32_t role = rank % s->n_roles, first = rank - role;
    const uint32_t a = role_at(s, m->match, 0), b = role_at(s, m->match, 1);
    return first + (role == a ? b : a);
}
