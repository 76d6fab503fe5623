/* SPDX-License-Identifier: Apache-2.0 */
#include "op/tape/live_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Peak of live bytes by a difference array over steps; offsets by greedy-by-size best fit
 * (Pisarchyk and Lee, arXiv 2001.03288): largest first, each into the tightest gap among those
 * already placed that live at the same time, O(n^2). */

orr_status orr_live_ranges_peak(const orr_live_range *lives, uint32_t n, uint32_t from, uint32_t to,
                                int64_t *ret_bytes, uint32_t *ret_step, orr_error *err)
{
    const size_t steps = to > from ? to - from : 0;
    /* Difference array: bytes that begin to live at a step less those that ended before it. */
    int64_t *change = orr_calloc(steps + 1, sizeof *change);
    if (change == NULL)
        return orr_fail_memory(err);
    orr_status status = ORR_OK;
    int64_t all = 0, alive = 0, most = 0;
    uint32_t when = from;
    for (uint32_t i = 0; i < n; i++) {
        const orr_live_range *l = &lives[i];
        if (l->first >= to || l->last < from || l->last < l->first)
            continue;
        if (__builtin_add_overflow(all, l->bytes, &all)) {
            status = orr_fail(err, ORR_LIMIT, "tensors of over 2^63 bytes");
            goto out;
        }
        change[l->first > from ? l->first - from : 0] += l->bytes;
        if (l->last < to - 1)
            change[l->last + 1 - from] -= l->bytes;
    }
    for (size_t s = 0; s < steps; s++) {
        alive += change[s];
        if (alive > most) {
            most = alive;
            when = from + (uint32_t)s;
        }
    }
    *ret_bytes = most;
    if (ret_step != NULL)
        *ret_step = when;
out:
    orr_free(change);
    return status;
}

typedef struct placed {
    uint32_t life;
    int64_t offset, end;
} placed;

typedef struct by_size {
    const orr_live_range *lives;
    uint32_t life;
} by_size;

static int largest_first(const void *a_, const void *b_)
{
    const by_size *a = a_, *b = b_;
    const int64_t x = a->lives[a->life].bytes, y = b->lives[b->life].bytes;
    if (x != y)
        return x > y ? -1 : 1;
    return (a->life > b->life) - (a->life < b->life);
}

static bool meet(const orr_live_range *a, const orr_live_range *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The tightest gap of `bytes` (aligned) between the placed ranges, in order of offset, that are
 * live at the same time. */
static int64_t gap_for(const orr_live_range *lives, const orr_live_range *life, int64_t bytes,
                       const placed *done, uint32_t n)
{
    int64_t best = -1, best_room = INT64_MAX, end = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!meet(life, &lives[done[i].life]))
            continue;
        const int64_t room = done[i].offset - end;
        if (room >= bytes && room < best_room) {
            best = end;
            best_room = room;
        }
        if (done[i].end > end)
            end = done[i].end;
    }
    return best >= 0 ? best : end;
}

static void place(placed *done, uint32_t n, placed what)
{
    uint32_t at = n;
    while (at > 0 && done[at - 1].offset > what.offset)
        at--;
    memmove(done + at + 1, done + at, (n - at) * sizeof *done);
    done[at] = what;
}

orr_status orr_live_ranges_pack(const orr_live_range *lives, uint32_t n, int64_t alignment,
                                int64_t *ret_offset, int64_t *ret_bytes, orr_error *err)
{
    orr_status status = ORR_OK;
    int64_t high = 0, room = 0;
    uint32_t n_done = 0;
    by_size *order = orr_malloc((size_t)n * sizeof *order + 1);
    placed *done = orr_malloc((size_t)n * sizeof *done + 1);
    if (order == NULL || done == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) {
        order[i] = (by_size){lives, i};
        if (lives[i].bytes > INT64_MAX - alignment ||
            __builtin_add_overflow(room, lives[i].bytes + alignment, &room)) {
            status = orr_fail(err, ORR_LIMIT, "tensors of over 2^63 bytes");
            goto out;
        }
    }
    qsort(order, n, sizeof *order, largest_first);
    for (uint32_t i = 0; i < n; i++) {
        const orr_live_range *life = &lives[order[i].life];
        const int64_t bytes = (life->bytes + alignment - 1) / alignment * alignment;
        const int64_t at = bytes > 0 ? gap_for(lives, life, bytes, done, n_done) : 0;
        ret_offset[order[i].life] = at;
        if (bytes > 0)
            place(done, n_done++, (placed){order[i].life, at, at + bytes});
        high = at + bytes > high ? at + bytes : high;
    }
    *ret_bytes = high;
out:
    orr_free(done);
    orr_free(order);
    return status;
}
