/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/job.h"

/* A collective ends on all its members at nearly the same moment. So the offset between two
 * clocks is the median difference of the ends of what both saw: half of the collectives may be
 * disturbed by any amount. Offsets spread from the first graph over whatever shares a match:
 * over collectives as far as they reach, over send and recv where nothing else does. */

typedef struct gap {
    uint32_t graph;
    int64_t ns; /* to be added to the graph's clock, according to one match */
} gap;

typedef struct aligner {
    orr_job_draft *draft;
    bool finally;         /* last pass: accept offsets that few matches agree on */
    uint32_t *first;      /* shape (D + 1): rows of match_rows */
    uint32_t *match_rows; /* the matches that each graph is in */
    bool *used;           /* shape (M): all its members have an offset, or had no time */
    uint32_t *queue;      /* shape (D) */
    uint32_t queue_begin, queue_end;
    orr_array(gap) gaps;
    orr_array(int64_t) scratch;
} aligner;

static int compare_int64(const void *a_, const void *b_)
{
    const int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;
    return (a > b) - (a < b);
}

int64_t orr_ns_median(int64_t *at, size_t n)
{
    qsort(at, n, sizeof *at, compare_int64);
    return at[(n - 1) / 2];
}

static int compare_gaps(const void *a_, const void *b_)
{
    const gap *a = a_, *b = b_;
    if (a->graph != b->graph)
        return a->graph < b->graph ? -1 : 1;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

static orr_status aligner_init(aligner *a, orr_error *err)
{
    const orr_job_draft *draft = a->draft;
    const uint32_t n_graphs = draft->job->n_graphs;
    a->first = orr_calloc((size_t)n_graphs + 1, sizeof *a->first);
    a->match_rows = orr_malloc(draft->members.n * sizeof *a->match_rows);
    a->used = orr_calloc(draft->matches.n, sizeof *a->used);
    a->queue = orr_malloc(n_graphs * sizeof *a->queue);
    if (!a->first || !a->match_rows || !a->used || !a->queue)
        return orr_fail_memory(err);
    for (size_t i = 0; i < draft->members.n; i++)
        a->first[draft->members.at[i].graph + 1]++;
    for (uint32_t d = 0; d < n_graphs; d++)
        a->first[d + 1] += a->first[d];
    for (size_t m = 0; m < draft->matches.n; m++) {
        const orr_match *match = &draft->matches.at[m];
        for (uint32_t i = match->first; i < match->first + match->count; i++)
            a->match_rows[a->first[draft->members.at[i].graph]++] = (uint32_t)m;
    }
    memmove(a->first + 1, a->first, n_graphs * sizeof *a->first);
    a->first[0] = 0;
    return ORR_OK;
}

static void aligner_done(aligner *a)
{
    orr_free(a->first);
    orr_free(a->match_rows);
    orr_free(a->used);
    orr_free(a->queue);
    orr_array_done(&a->gaps);
    orr_array_done(&a->scratch);
}

static void set_offset(aligner *a, uint32_t graph, int64_t offset_ns)
{
    a->draft->offset_ns[graph] = offset_ns;
    a->draft->aligned[graph] = true;
    a->queue[a->queue_end++] = graph;
}

/* End of the match on the job's clock, as `graph` recorded it; ORR_TIME_NONE: no time. */
static int64_t end_on(const orr_job_draft *draft, const orr_match *match, uint32_t graph)
{
    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        const orr_member *member = &draft->members.at[i];
        if (member->graph != graph)
            continue;
        const int64_t end = orr_node_clock_end_ns(draft->job->graphs[graph], member->node);
        return end == ORR_TIME_NONE ? end : orr_ns_add_saturating(end, draft->offset_ns[graph]);
    }
    return ORR_TIME_NONE;
}

/* The offsets that one match suggests for graphs without one. */
static orr_status add_gaps(aligner *a, const orr_match *match, int64_t end_ns, orr_error *err)
{
    const orr_job_draft *draft = a->draft;
    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        const orr_member *member = &draft->members.at[i];
        if (draft->aligned[member->graph])
            continue;
        const int64_t end = orr_node_clock_end_ns(draft->job->graphs[member->graph], member->node);
        const gap g = {member->graph, orr_ns_sub_saturating(end_ns, end)};
        if (end != ORR_TIME_NONE && !orr_array_push(&a->gaps, g))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

/* Suggestions that agree within ORR_SAME_CLOCK_NS. */
typedef struct agreement {
    size_t n;
    int64_t median_ns;
} agreement;

static agreement agree_on(const gap *gaps, size_t n, int64_t offset_ns)
{
    size_t begin = 0, end;
    while (begin < n && orr_ns_sub_saturating(offset_ns, gaps[begin].ns) > ORR_SAME_CLOCK_NS)
        begin++;
    for (end = begin;
         end < n && orr_ns_sub_saturating(gaps[end].ns, offset_ns) <= ORR_SAME_CLOCK_NS;)
        end++;
    return (agreement){end - begin, end > begin ? gaps[begin + (end - begin - 1) / 2].ns : 0};
}

static agreement densest(const gap *gaps, size_t n)
{
    agreement most = {0, 0};
    for (size_t begin = 0, end = 0; begin < n; begin++) {
        while (end < n &&
               orr_ns_sub_saturating(gaps[end].ns, gaps[begin].ns) <= 2 * ORR_SAME_CLOCK_NS)
            end++;
        if (end - begin > most.n)
            most = (agreement){end - begin, gaps[begin + (end - begin - 1) / 2].ns};
    }
    return most;
}

/* The median, unless more suggestions agree on another value: some matches may be wrong, and their
 * suggestions arbitrary. A shared clock (offset 0) counts most. */
static agreement choose_offset(const gap *gaps, size_t n)
{
    enum { MANY = 3 };
    const int64_t median_ns = gaps[(n - 1) / 2].ns;
    agreement best = {agree_on(gaps, n, median_ns).n, median_ns};
    const agreement dense = densest(gaps, n), shared = agree_on(gaps, n, 0);
    if (dense.n >= MANY && dense.n >= 2 * best.n)
        best = dense;
    return shared.n >= best.n ? shared : best;
}

static void use_gaps(aligner *a)
{
    qsort(a->gaps.at, a->gaps.n, sizeof *a->gaps.at, compare_gaps);
    for (size_t i = 0, end; i < a->gaps.n; i = end) {
        for (end = i + 1; end < a->gaps.n && a->gaps.at[end].graph == a->gaps.at[i].graph;)
            end++;
        const agreement offset = choose_offset(a->gaps.at + i, end - i);
        if (a->finally || offset.n >= (end - i) / 4)
            set_offset(a, a->gaps.at[i].graph, offset.median_ns);
    }
    a->gaps.n = 0;
}

/* Propagates offsets from `graph` to all graphs that share a match of the kind with it. */
static orr_status spread(aligner *a, uint32_t graph, bool pairs, orr_error *err)
{
    const orr_job_draft *draft = a->draft;
    for (uint32_t i = a->first[graph]; i < a->first[graph + 1]; i++) {
        const uint32_t m = a->match_rows[i];
        const orr_match *match = &draft->matches.at[m];
        if (a->used[m] || (match->collective == ORR_COLL_SEND) != pairs)
            continue;
        const int64_t end_ns = end_on(draft, match, graph);
        if (end_ns == ORR_TIME_NONE)
            continue;
        ORR_TRY(add_gaps(a, match, end_ns, err));
        a->used[m] = true;
    }
    if (a->gaps.n > 0)
        use_gaps(a);
    return ORR_OK;
}

static orr_status spread_all(aligner *a, orr_error *err)
{
    uint32_t pairs_done = 0;
    for (;;) {
        while (a->queue_begin < a->queue_end)
            ORR_TRY(spread(a, a->queue[a->queue_begin++], false, err));
        if (pairs_done == a->queue_end)
            return ORR_OK;
        ORR_TRY(spread(a, a->queue[pairs_done++], true, err));
    }
}

orr_status orr_job_align_clocks(orr_job_draft *draft, bool finally, orr_error *err)
{
    aligner a = {.draft = draft, .finally = finally};
    orr_status status = aligner_init(&a, err);
    if (status != ORR_OK)
        goto out;
    memset(draft->aligned, 0, draft->job->n_graphs * sizeof *draft->aligned);
    for (uint32_t d = 0; d < draft->job->n_graphs && (finally || d == 0); d++) {
        if (draft->aligned[d])
            continue;
        set_offset(&a, d, 0);
        ORR_TRY_OUT(status, spread_all(&a, err));
    }
out:
    aligner_done(&a);
    return status;
}
