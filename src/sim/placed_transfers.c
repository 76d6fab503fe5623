/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/placed_transfers.h"

#include <stdlib.h>

#include "base/alloc.h"

/* A communication of a graph and its rendezvous. */
typedef struct member {
    orr_rendezvous_id at;
    uint32_t graph, row;
} member;

static int by_rendezvous(const void *a_, const void *b_)
{
    const member *a = a_, *b = b_;
    if (a->at.grouping != b->at.grouping)
        return a->at.grouping < b->at.grouping ? -1 : 1;
    return (a->at.ordinal > b->at.ordinal) - (a->at.ordinal < b->at.ordinal);
}

/* Members of rendezvous. A grouping of several groups has as many rendezvous of one ordinal, of
 * which nobody says that they are alike: a recording has none of these. */
static size_t list_members(const orr_ensemble *e, member *members)
{
    size_t n = 0;
    for (uint32_t d = 0; d < e->n_graphs && e->rendezvous != NULL; d++)
        for (uint32_t row = 0; row < e->graphs[d]->n_comms; row++) {
            const orr_rendezvous_id at = e->rendezvous[d][row];
            if (at.grouping != ORR_NONE && e->groupings[at.grouping].n_groups == 1)
                members[n++] = (member){at, d, row};
        }
    return n;
}

static void join(const member *members, size_t n, orr_transfer **transfers)
{
    for (size_t i = 0, end; i < n; i = end) {
        orr_transfer all = transfers[members[i].graph][members[i].row];
        for (end = i + 1; end < n && by_rendezvous(&members[i], &members[end]) == 0; end++)
            all = orr_transfer_join(all, transfers[members[end].graph][members[end].row]);
        for (size_t k = i; k < end; k++)
            transfers[members[k].graph][members[k].row] = all;
    }
}

/* The first rank that runs each graph; ORR_NONE: none does. */
static const uint32_t *first_ranks(const orr_ensemble *e, orr_arena *arena)
{
    uint32_t *rank = orr_arena_array(arena, uint32_t, e->n_graphs);
    for (uint32_t d = 0; rank != NULL && d < e->n_graphs; d++)
        rank[d] = ORR_NONE;
    for (uint32_t r = e->n_ranks; rank != NULL && r-- > 0;)
        if (e->graph_of_rank[r] != ORR_NONE)
            rank[e->graph_of_rank[r]] = r;
    return rank;
}

orr_status orr_transfer_placer_init(orr_transfer_placer *placer, const orr_ensemble *recorded,
                                    const orr_ensemble *now, orr_arena *arena, orr_error *err)
{
    const orr_ensemble *e = recorded != NULL ? recorded : now;
    orr_transfer **transfers = orr_arena_array(arena, orr_transfer *, e->n_graphs);
    const uint32_t *rank_recorded = first_ranks(e, arena), *rank_now = first_ranks(now, arena);
    size_t n = 0;
    if (transfers == NULL || rank_recorded == NULL || rank_now == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < e->n_graphs; d++) {
        const orr_graph *g = e->graphs[d];
        n += g->n_comms;
        transfers[d] = orr_arena_array(arena, orr_transfer, g->n_comms);
        if (transfers[d] == NULL)
            return orr_fail_memory(err);
        for (uint32_t row = 0; row < g->n_comms; row++)
            transfers[d][row] = orr_transfer_of(&g->comms[row]);
    }
    member *members = orr_malloc((n + 1) * sizeof *members);
    if (members == NULL)
        return orr_fail_memory(err);
    n = list_members(e, members);
    if (n > 0)
        qsort(members, n, sizeof *members, by_rendezvous);
    join(members, n, transfers);
    orr_free(members);
    *placer = (orr_transfer_placer){e, now, (const orr_transfer *const *)transfers, rank_recorded,
                                    rank_now};
    return ORR_OK;
}

/* The members of a communication's group in an ensemble; 0: it has none there. */
static uint32_t group_in(const orr_ensemble *e, uint32_t d, uint32_t row, uint32_t rank,
                         const uint32_t **ret)
{
    const orr_rendezvous_id at =
        e->rendezvous != NULL ? e->rendezvous[d][row] : (orr_rendezvous_id){ORR_NONE, 0};
    if (at.grouping == ORR_NONE || rank == ORR_NONE)
        return 0;
    const orr_grouping *of = &e->groupings[at.grouping];
    const uint32_t group = of->group_of[rank];
    if (group == ORR_NONE)
        return 0;
    *ret = of->members + of->first[group];
    return of->first[group + 1] - of->first[group];
}

/* As many ranks as a group has: those of the process group, else the first ones (assumed). */
static orr_status own_ranks(const orr_graph *g, const orr_comm *comm, uint32_t n, orr_arena *arena,
                            const uint32_t **ret, orr_error *err)
{
    const orr_group *group = comm->group == ORR_NONE ? NULL : &g->groups[comm->group];
    uint32_t *own = orr_arena_array(arena, uint32_t, n);
    if (own == NULL)
        return orr_fail_memory(err);
    const bool listed = group != NULL && group->size == n && orr_group_rank(group, 0) != ORR_NONE;
    for (uint32_t i = 0; i < n; i++)
        own[i] = listed ? orr_group_rank(group, i) : i;
    *ret = own;
    return ORR_OK;
}

/* A send and its receive are two, however many their process group holds. */
static uint32_t size_of(const orr_graph *g, const orr_comm *comm)
{
    const orr_group *group = comm->group == ORR_NONE ? NULL : &g->groups[comm->group];
    if (comm->collective == ORR_COLL_SEND || comm->collective == ORR_COLL_RECV)
        return 2;
    return comm->group_size > 0 ? (uint32_t)comm->group_size : group != NULL ? group->size : 0;
}

/* The ranks in the other ensemble: those that meet there, where they stand for all members; else as
 * many times more, or fewer, as of the recorded members meet. */
static orr_status ranks_now(const orr_transfer_placer *p, uint32_t d, const orr_comm *comm,
                            uint32_t row, uint32_t n_met, orr_arena *arena, orr_placed_transfer *is,
                            orr_error *err)
{
    const uint32_t *meet = NULL;
    const uint32_t n = is->n, n_meet = group_in(p->now, d, row, p->rank_now[d], &meet);
    if (n_meet == 0)
        return ORR_OK;
    if (n_met >= n || n_met == 0 || n_meet >= n) {
        is->ranks = meet;
        is->n = n_meet;
        return ORR_OK;
    }
    if (n_meet == n_met)
        return ORR_OK;
    is->n = (uint32_t)((uint64_t)n * n_meet / n_met);
    return own_ranks(p->recorded->graphs[d], comm, is->n, arena, &is->ranks, err);
}

orr_status orr_place_transfer(const orr_transfer_placer *p, uint32_t d, orr_node_id v,
                              orr_arena *arena, orr_placed_transfer *ret_was,
                              orr_placed_transfer *ret_is, orr_error *err)
{
    const orr_graph *g = p->recorded->graphs[d];
    const orr_comm *comm = orr_graph_comm(g, v);
    orr_placed_transfer was = {.transfer = {.collective = ORR_COLL_UNKNOWN, .bytes = -1}}, is = was;
    if (comm != NULL) {
        const uint32_t row = g->detail[v], n = size_of(g, comm);
        const uint32_t n_met = group_in(p->recorded, d, row, p->rank_recorded[d], &was.ranks);
        was.transfer = p->transfers[d][row];
        was.n = n_met;
        if (n_met < n) { /* members that were not recorded */
            was.n = n;
            ORR_TRY(own_ranks(g, comm, n, arena, &was.ranks, err));
        }
        is = was;
        if (p->recorded != p->now)
            ORR_TRY(ranks_now(p, d, comm, row, n_met, arena, &is, err));
    }
    *ret_was = was;
    *ret_is = is;
    return ORR_OK;
}
