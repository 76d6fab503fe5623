/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/ensemble.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A recorded job as an ensemble. Its matches fall into groupings by who takes part: a grouping of
 * one group for each set of ranks that met, so that a rank that was not recorded, or that has
 * lost a communication, keeps nobody waiting. */

orr_status orr_grouping_of(const char *name, const uint32_t *group_of, uint32_t n_ranks,
                           uint32_t n_groups, orr_arena *arena, orr_grouping *ret, orr_error *err)
{
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)n_groups + 1);
    uint32_t *members = orr_arena_array(arena, uint32_t, n_ranks);
    if (first == NULL || members == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < n_ranks; r++)
        if (group_of[r] != ORR_NONE)
            first[group_of[r] + 1]++;
    for (uint32_t g = 0; g < n_groups; g++)
        first[g + 1] += first[g];
    for (uint32_t r = 0; r < n_ranks; r++)
        if (group_of[r] != ORR_NONE)
            members[first[group_of[r]]++] = r;
    for (uint32_t g = n_groups; g > 0; g--)
        first[g] = first[g - 1];
    first[0] = 0;
    *ret = (orr_grouping){name, n_groups, group_of, first, members};
    return ORR_OK;
}

/* All matches of one set of ranks. */
typedef struct company {
    const orr_job *job;
    uint32_t match;
} company;

static int compare_companies(const void *a_, const void *b_)
{
    const company *a = a_, *b = b_;
    const orr_job *job = a->job;
    const orr_match *x = &job->matches[a->match], *y = &job->matches[b->match];
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    for (uint32_t i = 0; i < x->count; i++) {
        const uint32_t p = job->members[x->first + i].graph, q = job->members[y->first + i].graph;
        if (p != q)
            return p < q ? -1 : 1;
    }
    return 0;
}

static int compare_in_order(const void *a_, const void *b_)
{
    const company *a = a_, *b = b_;
    const int by_company = compare_companies(a, b);
    return by_company ? by_company : (a->match > b->match) - (a->match < b->match);
}

typedef struct draft {
    const orr_job *job;
    orr_arena *arena;
    orr_ensemble *ensemble;
    company *companies; /* shape (M), in order: those of one grouping side by side */
    orr_grouping *groupings;
    orr_rendezvous_id **rendezvous; /* shape (D)(C_d) */
    int64_t **duration_ns;          /* shape (D)(N_d); rows NULL */
    orr_error *err;
} draft;

static orr_status add_grouping(draft *d, const orr_match *match)
{
    const orr_job *job = d->job;
    uint32_t *group_of = orr_arena_array(d->arena, uint32_t, job->n_ranks);
    if (group_of == NULL)
        return orr_fail_memory(d->err);
    memset(group_of, 0xff, job->n_ranks * sizeof *group_of);
    for (uint32_t i = 0; i < match->count; i++)
        group_of[job->rank_of_graph[job->members[match->first + i].graph]] = 0;
    const char *name = "";
    if (match->group != ORR_NONE)
        name = orr_graph_str(job->graphs[job->group_graph[match->group]],
                             job->groups[match->group].name);
    orr_grouping *to = &d->groupings[d->ensemble->n_groupings++];
    return orr_grouping_of(name, group_of, job->n_ranks, 1, d->arena, to, d->err);
}

/* Copies the graph's durations, to change those of communications. */
static orr_status open_row(draft *d, uint32_t graph)
{
    const orr_graph *g = d->job->graphs[graph];
    int64_t **row = &d->duration_ns[graph];
    if (*row != NULL)
        return ORR_OK;
    *row = orr_arena_array(d->arena, int64_t, g->n_nodes);
    if (*row == NULL)
        return orr_fail_memory(d->err);
    memcpy(*row, g->duration_ns, g->n_nodes * sizeof **row);
    return ORR_OK;
}

/* The member that waited least shows the time of the transfer itself. */
static int64_t shortest_ns(const orr_job *job, const orr_match *match)
{
    int64_t shortest = INT64_MAX;
    for (uint32_t i = 0; i < match->count; i++) {
        const orr_member member = job->members[match->first + i];
        const int64_t ns = job->graphs[member.graph]->duration_ns[member.node];
        if (ns < shortest)
            shortest = ns;
    }
    return shortest;
}

static orr_status add_meeting(draft *d, uint32_t m)
{
    const orr_job *job = d->job;
    const orr_match *match = &job->matches[m];
    const int64_t ns = shortest_ns(job, match);
    for (uint32_t i = 0; i < match->count; i++) {
        const orr_member member = job->members[match->first + i];
        const orr_graph *g = job->graphs[member.graph];
        ORR_TRY(open_row(d, member.graph));
        d->duration_ns[member.graph][member.node] = ns;
        if (g->flags[member.node] & ORR_FLAG_COMM)
            d->rendezvous[member.graph][g->detail[member.node]] =
                (orr_rendezvous_id){d->ensemble->n_groupings - 1, m};
    }
    return ORR_OK;
}

static orr_status add_matches(draft *d)
{
    const orr_job *job = d->job;
    for (uint32_t m = 0; m < job->n_matches; m++)
        d->companies[m] = (company){job, m};
    if (job->n_matches > 0)
        qsort(d->companies, job->n_matches, sizeof *d->companies, compare_in_order);
    for (uint32_t i = 0; i < job->n_matches; i++) {
        const uint32_t m = d->companies[i].match;
        if (i == 0 || compare_companies(&d->companies[i - 1], &d->companies[i]) != 0)
            ORR_TRY(add_grouping(d, &job->matches[m]));
        ORR_TRY(add_meeting(d, m));
    }
    return ORR_OK;
}

static orr_status open_rows(draft *d)
{
    const orr_job *job = d->job;
    d->groupings = orr_arena_array(d->arena, orr_grouping, job->n_matches);
    d->rendezvous = orr_arena_array(d->arena, orr_rendezvous_id *, job->n_graphs);
    d->duration_ns = orr_arena_array(d->arena, int64_t *, job->n_graphs);
    if (d->groupings == NULL || d->rendezvous == NULL || d->duration_ns == NULL)
        return orr_fail_memory(d->err);
    for (uint32_t g = 0; g < job->n_graphs; g++) {
        const uint32_t n = job->graphs[g]->n_comms;
        d->rendezvous[g] = orr_arena_array(d->arena, orr_rendezvous_id, n);
        if (d->rendezvous[g] == NULL)
            return orr_fail_memory(d->err);
        for (uint32_t c = 0; c < n; c++)
            d->rendezvous[g][c].grouping = ORR_NONE;
    }
    return ORR_OK;
}

static int64_t *starts_of(const orr_job *job, orr_arena *arena)
{
    int64_t *start_ns = orr_arena_array(arena, int64_t, job->n_ranks);
    for (uint32_t d = 0; start_ns != NULL && d < job->n_graphs; d++)
        start_ns[job->rank_of_graph[d]] =
            job->graphs[d]->base_ns + job->clock_offset_ns[d] - job->base_ns;
    return start_ns;
}

orr_status orr_ensemble_of_job(const orr_job *job, orr_arena *arena, const orr_ensemble **ret,
                               orr_error *err)
{
    draft d = {.job = job,
               .arena = arena,
               .ensemble = orr_arena_one(arena, orr_ensemble),
               .companies = orr_malloc((size_t)job->n_matches * sizeof *d.companies),
               .err = err};
    const int64_t *start_ns = starts_of(job, arena);
    orr_status status = ORR_OK;
    if (d.ensemble == NULL || start_ns == NULL || (job->n_matches > 0 && d.companies == NULL)) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, open_rows(&d));
    ORR_TRY_OUT(status, add_matches(&d));
    *d.ensemble = (orr_ensemble){
        .n_ranks = job->n_ranks,
        .n_graphs = job->n_graphs,
        .n_groupings = d.ensemble->n_groupings,
        .graphs = job->graphs,
        .graph_of_rank = job->graph_of_rank,
        .start_ns = start_ns,
        .groupings = d.groupings,
        .rendezvous = (const orr_rendezvous_id *const *)d.rendezvous,
        .duration_ns = (const int64_t *const *)d.duration_ns,
    };
    *ret = d.ensemble;
out:
    orr_free(d.companies);
    return status;
}
