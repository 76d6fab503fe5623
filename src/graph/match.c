/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/comm_events.h"
#include "graph/job.h"

/* In each bucket: where sequence numbers were recorded they say who belongs with whom; else
 * the k-th of one line belongs with the k-th of the others. A line that is shorter than
 * the longest (a recording began late or ended early) is laid at its beginning or at its
 * end, whichever lets the ends fall together better on aligned clocks; such buckets wait
 * until the others have aligned the clocks. */

/* So many calls show by their rhythm alone where they belong (assumed); fewer wait for clocks
 * that those have aligned. */
enum { TELLING_CALLS = 4 };

/* Where a call belongs in its bucket: those of one slot and repeat belong together. */
typedef struct place {
    int64_t slot;
    uint32_t repeat;
    uint32_t row; /* of the bucket */
} place;

typedef struct matcher {
    orr_job_draft *draft;
    orr_comm_events calls;
    place *places; /* shape (the largest bucket), for the one at work */
    int64_t *gaps; /* scratch of the same shape */
} matcher;

static orr_status matcher_init(matcher *m, orr_error *err)
{
    ORR_TRY(orr_comm_events_collect(m->draft->job, &m->calls, err));
    size_t largest = 0;
    for (size_t i = 0; i < m->calls.buckets.n; i++)
        if (m->calls.buckets.at[i].n > largest)
            largest = m->calls.buckets.at[i].n;
    m->places = orr_malloc(largest * sizeof *m->places);
    m->gaps = orr_malloc(largest * sizeof *m->gaps);
    return m->places && m->gaps ? ORR_OK : orr_fail_memory(err);
}

static void matcher_done(matcher *m)
{
    orr_comm_events_done(&m->calls);
    orr_free(m->places);
    orr_free(m->gaps);
}

static bool all_numbered(const orr_comm_event *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (calls[i].seq < 0)
            return false;
    return true;
}

static int by_line_seq_time(const void *a_, const void *b_)
{
    const orr_comm_event *a = a_, *b = b_;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->at.node > b->at.node) - (a->at.node < b->at.node);
}

/* One number may stand for several calls (a coalesced one): the k-th goes with the k-th. */
static void place_by_number(place *places, orr_comm_event *calls, size_t n)
{
    orr_comm_events_sort(calls, n, by_line_seq_time);
    for (size_t i = 0; i < n; i++) {
        const bool again =
            i > 0 && calls[i].line == calls[i - 1].line && calls[i].seq == calls[i - 1].seq;
        places[i] = (place){calls[i].seq, again ? places[i - 1].repeat + 1 : 0, (uint32_t)i};
    }
}

/* The line of rows [begin, end), its first call in slot `shift`. */
static void place_line(place *places, size_t begin, size_t end, size_t shift)
{
    for (size_t i = begin; i < end; i++)
        places[i] = (place){(int64_t)(i - begin + shift), 0, (uint32_t)i};
}

/* False: the lines are not of one length, and nothing was placed. */
static bool place_by_order(place *places, const orr_comm_event *calls, size_t n)
{
    const size_t length = orr_comm_line_end(calls, 0, n);
    for (size_t i = length, end; i < n; i = end) {
        end = orr_comm_line_end(calls, i, n);
        if (end - i != length)
            return false;
    }
    for (size_t i = 0; i < n; i += length)
        place_line(places, i, i + length, 0);
    return true;
}

/* How badly a line fits when its first call is laid beside a call of the longest: the median
 * distance of the ends, or, while the clocks are not aligned, how much that distance varies. */
typedef struct misfit {
    int64_t spread_ns, distance_ns;
} misfit;

static int64_t magnitude(int64_t x)
{
    return x < 0 ? orr_ns_sub_saturating(0, x) : x;
}

static misfit fit(matcher *m, const orr_comm_event *line, const orr_comm_event *longest, size_t n)
{
    const uint32_t a = line->at.graph, b = longest->at.graph;
    const int64_t *offset = m->draft->offset_ns;
    const bool aligned = m->draft->aligned[a] && m->draft->aligned[b];
    int64_t *gap = m->gaps;
    size_t n_gaps = 0;
    for (size_t i = 0; i < n; i++) {
        if (line[i].end_ns == ORR_TIME_NONE || longest[i].end_ns == ORR_TIME_NONE)
            continue;
        gap[n_gaps++] = orr_ns_sub_saturating(
            orr_ns_add_saturating(line[i].end_ns, aligned ? offset[a] : 0),
            orr_ns_add_saturating(longest[i].end_ns, aligned ? offset[b] : 0));
    }
    if (n_gaps == 0)
        return (misfit){0, 0};
    const int64_t middle = aligned ? 0 : orr_ns_median(gap, n_gaps);
    for (size_t i = 0; i < n_gaps; i++)
        gap[i] = magnitude(orr_ns_sub_saturating(gap[i], middle));
    return (misfit){orr_ns_median(gap, n_gaps), magnitude(middle)};
}

static bool fits_better(misfit a, misfit b)
{
    return a.spread_ns != b.spread_ns ? a.spread_ns < b.spread_ns : a.distance_ns < b.distance_ns;
}

static void place_by_time(matcher *m, const orr_comm_event *calls, size_t n)
{
    size_t longest = 0, length = 0;
    for (size_t i = 0, end; i < n; i = end) {
        end = orr_comm_line_end(calls, i, n);
        if (end - i > length) {
            longest = i;
            length = end - i;
        }
    }
    for (size_t i = 0, end; i < n; i = end) {
        end = orr_comm_line_end(calls, i, n);
        const size_t room = length - (end - i);
        const misfit at_begin = fit(m, calls + i, calls + longest, end - i);
        const misfit at_end = fit(m, calls + i, calls + longest + room, end - i);
        place_line(m->places, i, end, fits_better(at_end, at_begin) ? room : 0);
    }
}

/* Members in order of rank: lines are, but for a recv whose rank is below the sender's. */
static void add_member(orr_job_draft *draft, uint32_t first, orr_member member)
{
    size_t to = draft->members.n++;
    for (; to > first && draft->members.at[to - 1].graph > member.graph; to--)
        draft->members.at[to] = draft->members.at[to - 1];
    draft->members.at[to] = member;
}

static orr_status add_match(orr_job_draft *draft, const orr_match_bucket_key *key,
                            const orr_comm_event *calls, const place *places, size_t n,
                            orr_error *err)
{
    if (n < 2 || orr_match_bucket_overflows(draft->job, key, n))
        return ORR_OK;
    const orr_match match = {
        .group = key->group,
        .collective = (uint8_t)key->collective,
        .first = (uint32_t)draft->members.n,
        .count = (uint32_t)n,
    };
    if (!orr_array_push(&draft->matches, match) || !orr_array_reserve(&draft->members, n))
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        add_member(draft, match.first, calls[places[i].row].at);
    return ORR_OK;
}

static int by_slot(const void *a_, const void *b_)
{
    const place *a = a_, *b = b_;
    if (a->slot != b->slot)
        return a->slot < b->slot ? -1 : 1;
    if (a->repeat != b->repeat)
        return a->repeat < b->repeat ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* Once its calls are placed. */
static orr_status match_bucket(matcher *m, orr_match_bucket *b, orr_error *err)
{
    place *places = m->places;
    b->first_match = (uint32_t)m->draft->matches.n;
    qsort(places, b->n, sizeof *places, by_slot);
    for (size_t i = 0, end; i < b->n; i = end) {
        for (end = i + 1; end < b->n; end++)
            if (places[end].slot != places[i].slot || places[end].repeat != places[i].repeat)
                break;
        ORR_TRY(add_match(m->draft, &b->key, m->calls.at + b->first, places + i, end - i, err));
    }
    b->n_matches = (uint32_t)m->draft->matches.n - b->first_match;
    b->matched = true;
    return ORR_OK;
}

static orr_status match_certain(matcher *m, orr_error *err)
{
    for (size_t i = 0; i < m->calls.buckets.n; i++) {
        orr_match_bucket *b = &m->calls.buckets.at[i];
        orr_comm_event *calls = m->calls.at + b->first;
        b->by_order = !all_numbered(calls, b->n);
        if (!b->by_order)
            place_by_number(m->places, calls, b->n);
        else if (!place_by_order(m->places, calls, b->n))
            continue;
        ORR_TRY(match_bucket(m, b, err));
    }
    return ORR_OK;
}

static size_t shortest_line(const orr_comm_event *calls, size_t n)
{
    size_t shortest = n;
    for (size_t i = 0, end; i < n; i = end) {
        end = orr_comm_line_end(calls, i, n);
        if (end - i < shortest)
            shortest = end - i;
    }
    return shortest;
}

static orr_status match_uncertain(matcher *m, size_t at_least, orr_error *err)
{
    for (size_t i = 0; i < m->calls.buckets.n; i++) {
        orr_match_bucket *b = &m->calls.buckets.at[i];
        const orr_comm_event *calls = m->calls.at + b->first;
        if (b->matched || shortest_line(calls, b->n) < at_least)
            continue;
        place_by_time(m, calls, b->n);
        ORR_TRY(match_bucket(m, b, err));
    }
    return ORR_OK;
}

orr_status orr_job_match(orr_job_draft *draft, orr_error *err)
{
    matcher m = {.draft = draft};
    orr_status status = ORR_OK;
    bool changed = false;
    ORR_TRY_OUT(status, matcher_init(&m, err));
    ORR_TRY_OUT(status, match_certain(&m, err));
    ORR_TRY_OUT(status, orr_job_align_clocks(draft, false, err));
    ORR_TRY_OUT(status, match_uncertain(&m, TELLING_CALLS, err));
    ORR_TRY_OUT(status, orr_job_align_clocks(draft, false, err));
    ORR_TRY_OUT(status, match_uncertain(&m, 1, err));
    ORR_TRY_OUT(status, orr_job_align_clocks(draft, true, err));
    ORR_TRY_OUT(status, orr_job_verify_matches(draft, &m.calls, &changed, err));
    if (changed)
        ORR_TRY_OUT(status, orr_job_align_clocks(draft, true, err));
    draft->job->unmatched = (uint32_t)(m.calls.n - draft->members.n);
out:
    matcher_done(&m);
    return status;
}
