/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover/sync.h"

#include <stdlib.h>

#include "base/alloc.h"

/* Infers events from late starts. Recordings often lack the calls that record events, never name
 * the stream that a wait is for, and threads make streams wait for one another's work. The effect
 * is visible: work that starts long (`late_ns`) after both its launch and its stream predecessor
 * waited for something, and if work of another stream ended just before (promptly, sync.h), it
 * waited for that. Considered only where some thread made a stream wait between the two launches,
 * unless the recording has no such calls at all and so must have left them out. */

/* Several times the latency of a launch, in recordings of V100, A100 and H100. No replay at hand rests
 * on it: none moves by 0.05 % where it is a fifth or five times as long (see waits.py, too). */
static const int64_t late_ns = 30000;
/* Of the work issued before the given time on other streams of the device, the one that ended last,
 * if right before `by_ns`. ORR_NONE: none. */
static orr_node_id just_ended(const orr_sync_context *s, int64_t issued_before_ns, int64_t by_ns,
                              uint32_t except_lane)
{
    enum { MOST_STEPS = 8 };
    const orr_graph_builder *b = s->b;
    orr_node_id found = ORR_NONE;
    for (uint32_t lane = 0; lane < b->lanes.n; lane++) {
        if (b->lanes.at[lane].kind != ORR_LANE_STREAM || lane == except_lane ||
            b->lanes.at[lane].device != b->lanes.at[except_lane].device)
            continue;
        uint32_t last, row = orr_lane_rows_at(b, lane, by_ns, &last);
        for (int step = 0; row > b->lane_rows.first[lane] && step < MOST_STEPS; step++) {
            const orr_node_id u = b->lane_rows.node[--row];
            const orr_node_id call = s->r->launch[u];
            if (call == ORR_NONE || b->start_ns[call] >= issued_before_ns ||
                !orr_occupies_stream(b, s->r, u) || orr_recorded_end_ns(b, u) > by_ns)
                continue;
            if (by_ns - orr_recorded_end_ns(b, u) <= orr_sync_prompt_ns(s, u) &&
                (found == ORR_NONE || orr_recorded_end_ns(b, u) > orr_recorded_end_ns(b, found)))
                found = u;
            break;
        }
    }
    return found;
}

/* Sorted times of calls, of any thread, that make a stream wait. */
typedef struct wait_times {
    int64_t *at_ns; /* shape (n) */
    size_t n;
} wait_times;

static int compare_ns(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static bool find_waits(const orr_sync_context *s, wait_times *ret)
{
    const orr_recovery *r = s->r;
    ret->n = 0;
    ret->at_ns = orr_malloc((r->calls.n + 1) * sizeof *ret->at_ns);
    if (ret->at_ns == NULL)
        return false;
    for (size_t i = 0; i < r->calls.n; i++)
        if (r->calls.at[i].role == ORR_HOST_CALL_STREAM_WAIT_EVENT)
            ret->at_ns[ret->n++] = s->b->start_ns[r->calls.at[i].node];
    qsort(ret->at_ns, ret->n, sizeof *ret->at_ns, compare_ns);
    return true;
}

/* The last such time in [from, to], or INT64_MIN. */
static int64_t last_wait(const wait_times *waits, int64_t from_ns, int64_t to_ns)
{
    size_t low = 0, high = waits->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (waits->at_ns[middle] <= to_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && waits->at_ns[low - 1] >= from_ns ? waits->at_ns[low - 1] : INT64_MIN;
}

/* Adds the dependency if `second` started late after its launch and after `first` on its stream,
 * with a stream wait between the launches, just when other work had ended. */
static orr_status follow_late(const orr_sync_context *s, const orr_issued_work *first,
                              const orr_issued_work *second, const wait_times *waits,
                              orr_error *err)
{
    const orr_graph_builder *b = s->b;
    const int64_t start = b->start_ns[second->node];
    if (start - late_ns <= second->at_ns || start - late_ns <= orr_recorded_end_ns(b, first->node))
        return ORR_OK;
    const int64_t wait =
        waits->n == 0 ? second->at_ns : last_wait(waits, first->at_ns, second->at_ns);
    if (wait == INT64_MIN)
        return ORR_OK;
    return orr_sync_event(s, just_ended(s, wait, start, b->lane[second->node]), second->node, err);
}

orr_status orr_sync_by_late_start(const orr_sync_context *s, orr_error *err)
{
    const orr_issue_order *issues = &s->by_stream;
    wait_times waits;
    orr_status status = ORR_OK;
    if (s->b->lanes.n > ORR_SYNC_STREAMS_MAX)
        return ORR_OK;
    if (!find_waits(s, &waits))
        return orr_fail_memory(err);
    for (uint32_t lane = 0; lane < s->b->lanes.n; lane++)
        for (uint32_t row = issues->first[lane]; row + 1 < issues->first[lane + 1]; row++)
            ORR_TRY_OUT(status,
                        follow_late(s, &issues->row[row], &issues->row[row + 1], &waits, err));
out:
    orr_free(waits.at_ns);
    return status;
}
