/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/stragglers.h"

#include <stdlib.h>
#include <string.h>

#include "sim/peer_durations.h"

const char *orr_slow_kind_name(orr_slow_kind kind)
{
    static const char *const names[] = {"rank", "stage", "all"};
    return names[kind];
}

typedef struct finder {
    const orr_job *job;
    const orr_ensemble *ensemble;
    orr_peer_operations operations;
    orr_arena *arena, *scratch;
    orr_slow_part *parts;
    size_t n;
    orr_error *err;
} finder;

/* The first transfer of a graph, as its member of a match of two; NULL: there is none. */
typedef struct first_transfer {
    int64_t at_ns;
    bool sends;
    uint32_t peer;
} first_transfer;

static void note(const orr_job *job, const orr_member *mine, uint32_t peer, first_transfer *first)
{
    const orr_graph *g = job->graphs[mine->graph];
    const int64_t at_ns = orr_job_start_ns(job, mine->graph, mine->node);
    const orr_comm *comm = orr_graph_comm(g, mine->node);
    const bool sends =
        g->kind[mine->node] == ORR_NODE_SEND || (comm != NULL && comm->collective == ORR_COLL_SEND);
    if (at_ns < first[mine->graph].at_ns)
        first[mine->graph] = (first_transfer){at_ns, sends, peer};
}

orr_status orr_stages_by_transfers(const orr_job *job, orr_arena *arena, uint32_t **ret,
                                   uint32_t *ret_n, orr_error *err)
{
    uint32_t *stage = orr_arena_array(arena, uint32_t, job->n_graphs), n_stages = 0;
    first_transfer *first = orr_arena_array(arena, first_transfer, job->n_graphs);
    if (stage == NULL || first == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < job->n_graphs; d++)
        first[d] = (first_transfer){INT64_MAX, false, ORR_NONE};
    for (uint32_t i = 0; i < job->n_matches; i++) {
        const orr_member *m = &job->members[job->matches[i].first];
        if (job->matches[i].collective != ORR_COLL_SEND || job->matches[i].count != 2)
            continue;
        note(job, &m[0], m[1].graph, first);
        note(job, &m[1], m[0].graph, first);
    }
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        uint32_t at = d, hops = 0;
        while (first[at].peer != ORR_NONE && !first[at].sends && hops <= job->n_graphs) {
            at = first[at].peer;
            hops++;
        }
        stage[d] = first[at].peer != ORR_NONE && hops <= job->n_graphs ? hops : ORR_NONE;
        if (stage[d] != ORR_NONE && stage[d] >= n_stages)
            n_stages = stage[d] + 1;
    }
    *ret = stage;
    *ret_n = n_stages;
    return ORR_OK;
}

static orr_status add_part(finder *f, orr_slow_kind kind, uint32_t number, const bool *chosen,
                           const orr_peer_excess *excess)
{
    const orr_job *job = f->job;
    orr_slow_part part = {.kind = (uint8_t)kind, .number = number};
    uint32_t *ranks = orr_arena_array(f->arena, uint32_t, job->n_graphs);
    if (ranks == NULL)
        return orr_fail_memory(f->err);
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        if (!chosen[d])
            continue;
        ranks[part.n_ranks++] = job->rank_of_graph[d];
        if (excess[d].ns > part.excess.ns) {
            part.excess = excess[d];
            part.slowest = d;
        }
    }
    part.ranks = ranks;
    if (part.excess.ns > 0)
        f->parts[f->n++] = part;
    return ORR_OK;
}

static orr_status add_ranks(finder *f, orr_peer_excess *excess)
{
    ORR_TRY(orr_peer_excess_find(&f->operations, f->ensemble, NULL, f->scratch, excess, f->err));
    for (uint32_t d = 0; d < f->job->n_graphs; d++) {
        uint32_t *rank = orr_arena_one(f->arena, uint32_t);
        if (rank == NULL)
            return orr_fail_memory(f->err);
        *rank = f->job->rank_of_graph[d];
        if (excess[d].ns > 0)
            f->parts[f->n++] = (orr_slow_part){.kind = ORR_SLOW_RANK,
                                               .number = *rank,
                                               .ranks = rank,
                                               .n_ranks = 1,
                                               .slowest = d,
                                               .excess = excess[d]};
    }
    return ORR_OK;
}

static orr_status add_stages(finder *f, bool *chosen, orr_peer_excess *excess)
{
    uint32_t *stage, n_stages;
    ORR_TRY(orr_stages_by_transfers(f->job, f->scratch, &stage, &n_stages, f->err));
    for (uint32_t s = 0; s < n_stages; s++) {
        uint32_t n = 0;
        for (uint32_t d = 0; d < f->job->n_graphs; d++)
            n += chosen[d] = stage[d] == s;
        if (n < 2 || n == f->job->n_graphs)
            continue;
        ORR_TRY(
            orr_peer_excess_find(&f->operations, f->ensemble, chosen, f->scratch, excess, f->err));
        ORR_TRY(add_part(f, ORR_SLOW_STAGE, s, chosen, excess));
    }
    return ORR_OK;
}

static int most_excess_first(const void *a_, const void *b_)
{
    const orr_slow_part *a = a_, *b = b_;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->excess.ns != b->excess.ns)
        return a->excess.ns > b->excess.ns ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static orr_status find(finder *f, uint32_t most)
{
    bool *chosen = orr_arena_array(f->scratch, bool, f->job->n_graphs);
    f->parts = orr_arena_array(f->arena, orr_slow_part, 2 * (size_t)f->job->n_graphs + 1);
    orr_peer_excess *excess = orr_arena_array(f->scratch, orr_peer_excess, f->job->n_graphs);
    if (chosen == NULL || f->parts == NULL || excess == NULL)
        return orr_fail_memory(f->err);
    ORR_TRY(orr_ensemble_of_job(f->job, f->scratch, &f->ensemble, f->err));
    ORR_TRY(orr_peer_operations_find(f->ensemble, f->scratch, &f->operations, f->err));
    ORR_TRY(add_ranks(f, excess));
    ORR_TRY(add_stages(f, chosen, excess));
    memset(chosen, 1, f->job->n_graphs * sizeof *chosen);
    ORR_TRY(orr_peer_excess_find(&f->operations, f->ensemble, chosen, f->scratch, excess, f->err));
    ORR_TRY(add_part(f, ORR_SLOW_ALL, 0, chosen, excess));
    if (f->n > 1)
        qsort(f->parts, f->n, sizeof *f->parts, most_excess_first);
    size_t kept = 0;
    for (size_t i = 0, of_kind = 0; i < f->n; i++) {
        of_kind = i > 0 && f->parts[i].kind == f->parts[i - 1].kind ? of_kind + 1 : 0;
        if (of_kind < most)
            f->parts[kept++] = f->parts[i];
    }
    f->n = kept;
    return ORR_OK;
}

orr_status orr_slow_parts_find(const orr_job *job, uint32_t most, orr_arena *arena,
                               const orr_slow_part **ret, size_t *ret_n, orr_error *err)
{
    finder f = {.job = job, .arena = arena, .scratch = orr_arena_new(0, 0), .err = err};
    const orr_status status = f.scratch == NULL   ? orr_fail_memory(err)
                              : job->n_graphs < 2 ? ORR_OK
                                                  : find(&f, most);
    orr_arena_free(f.scratch);
    if (status != ORR_OK)
        return status;
    *ret = f.parts;
    *ret_n = f.n;
    return ORR_OK;
}
