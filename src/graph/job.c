/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/job.h"

#include <stdlib.h>
#include <string.h>

#include <orrery/ensemble.h>

#include "base/alloc.h"

#define MAX_RANKS (UINT32_C(1) << 24) /* a wrong world size is not to cost gigabytes */

/* A job with the memory that it lives in. */
typedef struct job_box {
    orr_job job; /* first */
    orr_arena *arena;
} job_box;

static void box_free(job_box *box)
{
    if (box == NULL)
        return;
    orr_arena_free(box->arena);
    orr_free(box);
}

static job_box *box_new(void)
{
    job_box *box = orr_calloc(1, sizeof *box);
    if (box != NULL && (box->arena = orr_arena_new(0, 0)) == NULL) {
        box_free(box);
        return NULL;
    }
    return box;
}

static orr_status count_ranks(const orr_graph *const *graphs, uint32_t n, uint32_t *ret_ranks,
                              orr_error *err)
{
    uint64_t ranks = n;
    for (uint32_t i = 0; i < n; i++) {
        if (graphs[i]->world_size > ranks)
            ranks = graphs[i]->world_size;
        if (graphs[i]->rank != ORR_NONE && graphs[i]->rank + UINT64_C(1) > ranks)
            ranks = graphs[i]->rank + UINT64_C(1);
    }
    if (ranks > MAX_RANKS)
        return orr_fail(err, ORR_LIMIT, "a job of %llu ranks is over the limit of %u",
                        (unsigned long long)ranks, MAX_RANKS);
    *ret_ranks = (uint32_t)ranks;
    return ORR_OK;
}

/* Fills graph_of[rank]: first the graphs that name their rank, then the others in the gaps. */
static orr_status seat_graphs(const orr_graph *const *graphs, uint32_t n, uint32_t *graph_of,
                              orr_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t rank = graphs[i]->rank;
        if (rank == ORR_NONE)
            continue;
        if (graph_of[rank] != ORR_NONE)
            return orr_fail(err, ORR_INVALID, "two graphs of rank %u", rank);
        graph_of[rank] = i;
    }
    uint32_t gap = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (graphs[i]->rank != ORR_NONE)
            continue;
        while (graph_of[gap] != ORR_NONE)
            gap++;
        graph_of[gap] = i;
    }
    return ORR_OK;
}

static orr_status set_ranks(job_box *box, const orr_graph *const *graphs, uint32_t n,
                            orr_error *err)
{
    orr_job *job = &box->job;
    ORR_TRY(count_ranks(graphs, n, &job->n_ranks, err));
    const orr_graph **in_order = orr_arena_array(box->arena, const orr_graph *, n);
    uint32_t *graph_of = orr_arena_array(box->arena, uint32_t, job->n_ranks);
    uint32_t *rank_of = orr_arena_array(box->arena, uint32_t, n);
    if (in_order == NULL || graph_of == NULL || rank_of == NULL)
        return orr_fail_memory(err);
    memset(graph_of, 0xff, job->n_ranks * sizeof *graph_of);
    ORR_TRY(seat_graphs(graphs, n, graph_of, err));
    for (uint32_t rank = 0; rank < job->n_ranks; rank++) {
        if (graph_of[rank] == ORR_NONE)
            continue;
        in_order[job->n_graphs] = graphs[graph_of[rank]];
        rank_of[job->n_graphs] = rank;
        graph_of[rank] = job->n_graphs++;
    }
    job->graphs = in_order;
    job->graph_of_rank = graph_of;
    job->rank_of_graph = rank_of;
    return ORR_OK;
}

/* Recordings that share no communication with the latest one, and are a day or more before it, have
 * a clock of another origin, or none: they begin when the first that has its clock begins
 * (assumed), and keep their distances among one another. */
static void join_origins(const orr_job_draft *draft)
{
    static const int64_t A_DAY_NS = INT64_C(86400) * 1000000000;
    const orr_job *job = draft->job;
    int64_t latest = INT64_MIN, first = INT64_MAX, far = INT64_MAX;
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        const int64_t base = orr_ns_add_saturating(job->graphs[d]->base_ns, draft->offset_ns[d]);
        latest = base > latest ? base : latest;
    }
    const int64_t day_before = orr_ns_sub_saturating(latest, A_DAY_NS);
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        const int64_t base = orr_ns_add_saturating(job->graphs[d]->base_ns, draft->offset_ns[d]);
        if (base > day_before && base < first)
            first = base;
        if (base <= day_before && base < far)
            far = base;
    }
    for (uint32_t d = 0; far != INT64_MAX && d < job->n_graphs; d++) {
        int64_t *offset = &draft->offset_ns[d];
        if (orr_ns_add_saturating(job->graphs[d]->base_ns, *offset) <= day_before)
            *offset = orr_ns_add_saturating(*offset, orr_ns_sub_saturating(first, far));
    }
}

static void set_clocks(const orr_job_draft *draft)
{
    orr_job *job = draft->job;
    job->base_ns = INT64_MAX;
    join_origins(draft);
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        int64_t *offset = &draft->offset_ns[d];
        if (*offset >= -ORR_SAME_CLOCK_NS && *offset <= ORR_SAME_CLOCK_NS)
            *offset = 0;
        const int64_t base = orr_ns_add_saturating(job->graphs[d]->base_ns, *offset);
        if (base < job->base_ns)
            job->base_ns = base;
    }
    job->clock_offset_ns = draft->offset_ns;
}

/* The order of matches: by first start, then by the first member. */
typedef struct match_key {
    int64_t start_ns;
    orr_member member;
    uint32_t match;
} match_key;

static int compare_keys(const void *a_, const void *b_)
{
    const match_key *a = a_, *b = b_;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    if (a->member.graph != b->member.graph)
        return a->member.graph < b->member.graph ? -1 : 1;
    return (a->member.node > b->member.node) - (a->member.node < b->member.node);
}

static match_key key_of(const orr_job_draft *draft, uint32_t m)
{
    const orr_match *match = &draft->matches.at[m];
    match_key key = {INT64_MAX, draft->members.at[match->first], m};
    for (uint32_t i = 0; i < match->count; i++) {
        const orr_member *member = &draft->members.at[match->first + i];
        const int64_t start = orr_job_start_ns(draft->job, member->graph, member->node);
        if (start < key.start_ns)
            key.start_ns = start;
    }
    return key;
}

static orr_status keep_matches(const orr_job_draft *draft, const match_key *keys, orr_error *err)
{
    orr_job *job = draft->job;
    const uint32_t n = (uint32_t)draft->matches.n;
    orr_match *matches = orr_arena_array(draft->arena, orr_match, n);
    orr_member *members = orr_arena_array(draft->arena, orr_member, draft->members.n);
    uint32_t **match_of = orr_arena_array(draft->arena, uint32_t *, job->n_graphs);
    if (matches == NULL || members == NULL || match_of == NULL)
        return orr_fail_memory(err);
    uint32_t first = 0;
    for (uint32_t m = 0; m < n; m++) {
        const orr_match *match = &draft->matches.at[keys[m].match];
        matches[m] = *match;
        matches[m].first = first;
        for (uint32_t i = 0; i < match->count; i++, first++) {
            const orr_member member = draft->members.at[match->first + i];
            const uint32_t n_nodes = job->graphs[member.graph]->n_nodes;
            uint32_t **row = &match_of[member.graph];
            if (*row == NULL) {
                *row = orr_arena_array(draft->arena, uint32_t, n_nodes);
                if (*row == NULL)
                    return orr_fail_memory(err);
                memset(*row, 0xff, n_nodes * sizeof **row);
            }
            (*row)[member.node] = m;
            members[first] = member;
        }
    }
    job->n_matches = n;
    job->matches = matches;
    job->members = members;
    job->match_of = (const uint32_t *const *)match_of;
    return ORR_OK;
}

static orr_status set_matches(const orr_job_draft *draft, orr_error *err)
{
    const size_t n = draft->matches.n;
    match_key *keys = orr_malloc(n * sizeof *keys);
    if (keys == NULL)
        return orr_fail_memory(err);
    for (uint32_t m = 0; m < n; m++)
        keys[m] = key_of(draft, m);
    if (n > 0)
        qsort(keys, n, sizeof *keys, compare_keys);
    const orr_status status = keep_matches(draft, keys, err);
    orr_free(keys);
    return status;
}

static orr_status tie(job_box *box, orr_error *err)
{
    const uint32_t n = box->job.n_graphs;
    orr_job_draft draft = {
        .job = &box->job,
        .arena = box->arena,
        .offset_ns = orr_arena_array(box->arena, int64_t, n),
        .aligned = orr_arena_array(box->arena, bool, n),
    };
    orr_status status = ORR_OK;
    if (draft.offset_ns == NULL || draft.aligned == NULL)
        status = orr_fail_memory(err);
    if (status == ORR_OK)
        status = orr_job_match(&draft, err);
    if (status == ORR_OK) {
        set_clocks(&draft);
        status = set_matches(&draft, err);
    }
    orr_array_done(&draft.matches);
    orr_array_done(&draft.members);
    return status;
}

typedef orr_status tying(job_box *box, orr_error *err);

static orr_status build(const orr_graph *const *graphs, uint32_t n, tying *tie_them,
                        const orr_job **ret_job, orr_error *err)
{
    if (n == 0)
        return orr_fail(err, ORR_INVALID, "a job needs the graph of at least one rank");
    job_box *box = box_new();
    orr_status status = box ? set_ranks(box, graphs, n, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        status = orr_job_merge_groups(&box->job, box->arena, err);
    if (status == ORR_OK)
        status = tie_them(box, err);
    if (status == ORR_OK)
        *ret_job = &box->job;
    else
        box_free(box);
    return status;
}

orr_status orr_job_build(const orr_graph *const *graphs, uint32_t n, const orr_job **ret_job,
                         orr_error *err)
{
    return build(graphs, n, tie, ret_job, err);
}

static orr_status tie_nothing(job_box *box, orr_error *err)
{
    orr_job *job = &box->job;
    const orr_job_draft draft = {
        .job = job,
        .arena = box->arena,
        .offset_ns = orr_arena_array(box->arena, int64_t, job->n_graphs),
    };
    if (draft.offset_ns == NULL)
        return orr_fail_memory(err);
    set_clocks(&draft);
    return set_matches(&draft, err);
}

orr_status orr_job_build_unmatched(const orr_graph *const *graphs, uint32_t n,
                                   const orr_job **ret_job, orr_error *err)
{
    return build(graphs, n, tie_nothing, ret_job, err);
}

/* Shares everything with the other job but the order of matches, which is by time. */
static orr_status tie_again(job_box *box, const orr_job *job, orr_error *err)
{
    orr_job_draft draft = {
        .job = &box->job,
        .arena = box->arena,
        .offset_ns = orr_arena_array(box->arena, int64_t, job->n_graphs),
    };
    orr_status status = ORR_OK;
    uint32_t n_members = 0;
    for (uint32_t m = 0; m < job->n_matches; m++)
        n_members += job->matches[m].count;
    if (draft.offset_ns == NULL || !orr_array_reserve(&draft.matches, job->n_matches) ||
        !orr_array_reserve(&draft.members, n_members)) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t m = 0; m < job->n_matches; m++)
        draft.matches.at[draft.matches.n++] = job->matches[m];
    for (uint32_t i = 0; i < n_members; i++)
        draft.members.at[draft.members.n++] = job->members[i];
    set_clocks(&draft);
    status = set_matches(&draft, err);
out:
    orr_array_done(&draft.matches);
    orr_array_done(&draft.members);
    return status;
}

orr_status orr_job_retime(const orr_job *job, const orr_graph *const *graphs, const orr_job **ret,
                          orr_error *err)
{
    for (uint32_t d = 0; d < job->n_graphs; d++)
        if (graphs[d]->n_nodes != job->graphs[d]->n_nodes)
            return orr_fail(err, ORR_INVALID, "graph %u has %u nodes, that of the job has %u", d,
                            graphs[d]->n_nodes, job->graphs[d]->n_nodes);
    job_box *box = box_new();
    const orr_graph **own =
        box ? orr_arena_array(box->arena, const orr_graph *, job->n_graphs) : NULL;
    if (own == NULL) {
        box_free(box);
        return orr_fail_memory(err);
    }
    box->job = *job;
    memcpy(own, graphs, job->n_graphs * sizeof(*own));
    box->job.graphs = own;
    const orr_status status = tie_again(box, job, err);
    if (status == ORR_OK)
        *ret = &box->job;
    else
        box_free(box);
    return status;
}

void orr_job_free(const orr_job *job)
{
    if (job == NULL)
        return;
    for (uint32_t d = 0; d < job->n_graphs; d++)
        orr_graph_free(job->graphs[d]);
    box_free((job_box *)job);
}

int64_t orr_job_start_ns(const orr_job *job, uint32_t graph, orr_node_id node)
{
    const int64_t start = orr_node_clock_start_ns(job->graphs[graph], node);
    if (start == ORR_TIME_NONE)
        return ORR_TIME_NONE;
    return orr_ns_sub_saturating(orr_ns_add_saturating(start, job->clock_offset_ns[graph]),
                                 job->base_ns);
}
