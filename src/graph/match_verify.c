/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/alloc.h"
#include "graph/comm_events.h"
#include "graph/job.h"

/* Matches made by order are a guess, and a wrong one where the recordings do not say that their
 * calls are of several groups, or where two began at different moments and yet hold as many.
 * The clocks show it: no member of an all-reduce can end before all have begun. Where
 * the guess is impossible, calls whose ends fall together on the aligned clocks are matched
 * instead, or, if that leaves more, only those matches dropped that cannot be. */

enum {
    CLOCK_ERROR_NS = 50000, /* what aligned clocks may still differ by (assumed)         */
    TOGETHER_NS = 1000000,  /* ends of one collective are no further apart (assumed; in  */
};                          /* recordings of 2 and 8 ranks at most 332 us were seen)     */

/* A communication on the job's clock. */
typedef struct timed_call {
    int64_t start_ns, end_ns;
    orr_member at;
} timed_call;

typedef struct verifier {
    orr_job_draft *draft;
    const orr_comm_events *calls;
    uint8_t *verdict;  /* shape (buckets) */
    timed_call *timed; /* shape (the largest doubtful bucket) */
    size_t n_timed;
    uint64_t *taken; /* shape (D): the cluster, from 1, that a graph was last in */
    uint64_t n_clusters;
    orr_array(orr_match) matches; /* in place of the draft's */
    orr_array(orr_member) members;
} verifier;

enum { KEEP, DROP_IMPOSSIBLE, BY_TIME };

static timed_call timed_of(const orr_job_draft *draft, orr_member at)
{
    const orr_graph *graph = draft->job->graphs[at.graph];
    const int64_t offset = draft->offset_ns[at.graph];
    return (timed_call){orr_ns_add_saturating(orr_node_clock_start_ns(graph, at.node), offset),
                        orr_ns_add_saturating(orr_node_clock_end_ns(graph, at.node), offset), at};
}

/* Calls that cannot end on one member before all have begun: kernels of those collectives
 * in which everybody waits for everybody. The host's may only be the order to begin. */
static bool can_tell(const orr_job *job, const orr_match_bucket *b, const orr_comm_event *calls)
{
    switch (b->key.collective) {
    case ORR_COLL_ALL_REDUCE:
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_ALL_TO_ALL:
    case ORR_COLL_REDUCE_SCATTER:
    case ORR_COLL_BARRIER:
        break;
    default:
        return false;
    }
    for (size_t i = 0; i < b->n; i++) {
        const orr_graph *graph = job->graphs[calls[i].at.graph];
        if (calls[i].start_ns == ORR_TIME_NONE || !orr_graph_on_device(graph, calls[i].at.node))
            return false;
    }
    return true;
}

static bool is_possible(const orr_job_draft *draft, const orr_match *match)
{
    int64_t last_start = INT64_MIN, first_end = INT64_MAX;
    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        const timed_call c = timed_of(draft, draft->members.at[i]);
        if (c.start_ns > last_start)
            last_start = c.start_ns;
        if (c.end_ns < first_end)
            first_end = c.end_ns;
    }
    return orr_ns_sub_saturating(last_start, first_end) <= CLOCK_ERROR_NS;
}

static int by_end(const void *a_, const void *b_)
{
    const timed_call *a = a_, *b = b_;
    if (a->end_ns != b->end_ns)
        return a->end_ns < b->end_ns ? -1 : 1;
    if (a->at.graph != b->at.graph)
        return a->at.graph < b->at.graph ? -1 : 1;
    return (a->at.node > b->at.node) - (a->at.node < b->at.node);
}

static void time_bucket(verifier *v, const orr_match_bucket *b)
{
    v->n_timed = b->n;
    for (size_t i = 0; i < b->n; i++)
        v->timed[i] = timed_of(v->draft, v->calls->at[b->first + i].at);
    qsort(v->timed, b->n, sizeof *v->timed, by_end);
}

/* Where the cluster that begins with call `begin` ends: one call of each graph, which end together
 * and had all begun by then. */
static size_t cluster_end(verifier *v, size_t begin)
{
    const uint64_t id = ++v->n_clusters;
    const timed_call *first = &v->timed[begin];
    size_t end = begin;
    for (; end < v->n_timed; end++) {
        const timed_call *c = &v->timed[end];
        if (v->taken[c->at.graph] == id ||
            orr_ns_sub_saturating(c->end_ns, first->end_ns) > TOGETHER_NS ||
            orr_ns_sub_saturating(c->start_ns, first->end_ns) > CLOCK_ERROR_NS)
            break;
        v->taken[c->at.graph] = id;
    }
    return end;
}

static bool is_match(const verifier *v, const orr_match_bucket *b, size_t n)
{
    return n >= 2 && !orr_match_bucket_overflows(v->draft->job, &b->key, n);
}

static size_t calls_by_time(verifier *v, const orr_match_bucket *b)
{
    size_t matched = 0;
    time_bucket(v, b);
    for (size_t i = 0, end; i < b->n; i = end) {
        end = cluster_end(v, i);
        if (is_match(v, b, end - i))
            matched += end - i;
    }
    return matched;
}

static uint8_t judge(verifier *v, const orr_match_bucket *b)
{
    const orr_job_draft *draft = v->draft;
    if (!b->by_order || b->n_matches == 0 || !can_tell(draft->job, b, v->calls->at + b->first))
        return KEEP;
    size_t possible = 0, possible_calls = 0;
    for (uint32_t m = b->first_match; m < b->first_match + b->n_matches; m++) {
        if (!is_possible(draft, &draft->matches.at[m]))
            continue;
        possible++;
        possible_calls += draft->matches.at[m].count;
    }
    /* Where the group is known its order is worth more than a few moments that disagree: an uneven
     * exchange may leave out pairs of members, which then do not wait. */
    const size_t impossible = b->n_matches - possible;
    if (impossible == 0 || (b->key.group != ORR_NONE && impossible <= possible))
        return KEEP;
    return calls_by_time(v, b) >= possible_calls ? BY_TIME : DROP_IMPOSSIBLE;
}

static int by_graph(const void *a_, const void *b_)
{
    const orr_member *a = a_, *b = b_;
    return (a->graph > b->graph) - (a->graph < b->graph);
}

static orr_status add_cluster(verifier *v, const orr_match_bucket *b, size_t begin, size_t end,
                              orr_error *err)
{
    const orr_match match = {.group = b->key.group,
                             .collective = (uint8_t)b->key.collective,
                             .first = (uint32_t)v->members.n,
                             .count = (uint32_t)(end - begin)};
    if (!orr_array_push(&v->matches, match) || !orr_array_reserve(&v->members, end - begin))
        return orr_fail_memory(err);
    for (size_t i = begin; i < end; i++)
        v->members.at[v->members.n++] = v->timed[i].at;
    qsort(v->members.at + match.first, match.count, sizeof *v->members.at, by_graph);
    return ORR_OK;
}

static orr_status match_by_time(verifier *v, const orr_match_bucket *b, orr_error *err)
{
    time_bucket(v, b);
    for (size_t i = 0, end; i < b->n; i = end) {
        end = cluster_end(v, i);
        if (is_match(v, b, end - i))
            ORR_TRY(add_cluster(v, b, i, end, err));
    }
    return ORR_OK;
}

static orr_status copy_match(verifier *v, orr_match match, orr_error *err)
{
    const orr_member *from = v->draft->members.at + match.first;
    match.first = (uint32_t)v->members.n;
    if (!orr_array_push(&v->matches, match) || !orr_array_reserve(&v->members, match.count))
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < match.count; i++)
        v->members.at[v->members.n++] = from[i];
    return ORR_OK;
}

static orr_status match_again(verifier *v, const orr_match_bucket *b, uint8_t verdict,
                              orr_error *err)
{
    if (verdict == BY_TIME)
        return match_by_time(v, b, err);
    for (uint32_t i = 0; i < b->n_matches; i++) {
        const orr_match *match = &v->draft->matches.at[b->first_match + i];
        if (verdict == KEEP || is_possible(v->draft, match))
            ORR_TRY(copy_match(v, *match, err));
    }
    return ORR_OK;
}

static orr_status verify(verifier *v, bool *ret_changed, orr_error *err)
{
    size_t largest = 0, doubtful = 0;
    for (size_t i = 0; i < v->calls->buckets.n; i++)
        if (v->calls->buckets.at[i].n > largest)
            largest = v->calls->buckets.at[i].n;
    v->verdict = orr_malloc(v->calls->buckets.n);
    v->timed = orr_malloc(largest * sizeof *v->timed);
    v->taken = orr_calloc(v->draft->job->n_graphs, sizeof *v->taken);
    if (v->verdict == NULL || v->timed == NULL || v->taken == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < v->calls->buckets.n; i++) {
        v->verdict[i] = judge(v, &v->calls->buckets.at[i]);
        doubtful += v->verdict[i] != KEEP;
    }
    *ret_changed = doubtful > 0;
    for (size_t i = 0; i < v->calls->buckets.n && doubtful > 0; i++)
        ORR_TRY(match_again(v, &v->calls->buckets.at[i], v->verdict[i], err));
    return ORR_OK;
}

orr_status orr_job_verify_matches(orr_job_draft *draft, const orr_comm_events *calls,
                                  bool *ret_changed, orr_error *err)
{
    verifier v = {.draft = draft, .calls = calls};
    bool changed = false;
    const orr_status status = verify(&v, &changed, err);
    if (status == ORR_OK && changed) {
        orr_array_done(&draft->matches);
        orr_array_done(&draft->members);
        draft->matches.at = v.matches.at;
        draft->matches.n = v.matches.n;
        draft->matches.room = v.matches.room;
        draft->members.at = v.members.at;
        draft->members.n = v.members.n;
        draft->members.room = v.members.room;
    } else {
        orr_array_done(&v.matches);
        orr_array_done(&v.members);
    }
    orr_free(v.verdict);
    orr_free(v.timed);
    orr_free(v.taken);
    *ret_changed = changed;
    return status;
}
