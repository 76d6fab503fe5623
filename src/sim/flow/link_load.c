/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/flow/link_load.h"

enum { FIRST_ROOM = 8 };
__extension__ typedef __int128 wide;

bool orr_link_load_reserve(orr_link_load *use, size_t limit)
{
    size_t n = use->samples.n, room = use->samples.room;
    if (room >= limit || (room > 0 && n + n / 4 < room))
        return true;
    room = room == 0 ? FIRST_ROOM : 2 * room < limit ? 2 * room : limit;
    return orr_array_reserve(&use->samples, room - n);
}

void orr_link_load_done(orr_link_load *use)
{
    orr_array_done(&use->samples);
}

/* Merges `second`, which follows `first` and ends at end_ns, into it. */
static void take_in(orr_link_load_sample *first, const orr_link_load_sample *second, int64_t end_ns)
{
    const int64_t ns = end_ns - first->at_ns;
    const wide all = (wide)first->load * (second->at_ns - first->at_ns) + first->rest +
                     (wide)second->load * (end_ns - second->at_ns) + second->rest;
    first->load = (int64_t)(all / ns);
    first->rest = (int64_t)(all % ns);
}

/* Doubles the minimal length of a sample until half of the room is free. The last sample, which
 * has no end yet, stays. */
static void merge(orr_link_load *use)
{
    orr_link_load_sample *at = use->samples.at;
    while (use->samples.n > use->samples.room / 2) {
        const size_t n = use->samples.n;
        const int64_t span_ns = at[n - 1].at_ns - at[0].at_ns;
        use->step_ns = use->step_ns > 0 ? 2 * use->step_ns : span_ns / (int64_t)n + 1;
        size_t out = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (at[i].at_ns - at[out].at_ns < use->step_ns)
                take_in(&at[out], &at[i], at[i + 1].at_ns);
            else
                at[++out] = at[i];
        }
        at[++out] = at[n - 1];
        use->samples.n = out + 1;
    }
}

static void push(orr_link_load *use, orr_link_load_sample sample)
{
    orr_link_load_sample *at = use->samples.at;
    const size_t n = use->samples.n;
    if (n > 0 && at[n - 1].at_ns == sample.at_ns) {
        at[n - 1] = sample;
        return;
    }
    if (n > 1 && at[n - 1].at_ns - at[n - 2].at_ns < use->step_ns) {
        take_in(&at[n - 2], &at[n - 1], sample.at_ns);
        at[n - 1] = sample;
        return;
    }
    if (n == use->samples.room)
        merge(use);
    use->samples.at[use->samples.n++] = sample;
}

void orr_link_load_set(orr_link_load *use, int64_t now_ns, int64_t load)
{
    if (load == use->load)
        return;
    if (use->load > 0)
        use->busy_ns += now_ns - use->since_ns;
    use->load = load;
    use->since_ns = now_ns;
    push(use, (orr_link_load_sample){.at_ns = now_ns, .load = load});
}
