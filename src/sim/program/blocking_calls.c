/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/program/compile.h"

#include <stdlib.h>

/* Blocking calls: a call that may wait (for a device, for a hand-off) is given the time that it
 * takes without waiting, one number for each name: the median of its instances that did not wait,
 * if there are ENOUGH of them. Of fewer, one may have waited for what is not recorded (work that
 * was launched before the recording began): those keep their recorded time, which is told, and
 * others get no more than the latency of a return.
 *
 * A query never waits. How long the longest quarter of a name took, held up by what is not
 * recorded, is not read: each gets the median of that quarter. A longer query thus never makes a
 * shorter replay, and one that is held up for longer does not show. */
enum { ENOUGH = 3, LONG_FACTOR = 10 };

/* Sorts by name; within a name those that waited (-1) come first, then by length. */
static int compare(const void *a_, const void *b_, void *graph)
{
    const orr_graph *g = graph;
    const orr_blocking_call *a = a_, *b = b_;
    if (g->name[a->call] != g->name[b->call])
        return g->name[a->call] < g->name[b->call] ? -1 : 1;
    if (a->own_ns != b->own_ns)
        return a->own_ns < b->own_ns ? -1 : 1;
    return a->point < b->point ? -1 : a->point > b->point;
}

static void give_own_time(orr_compiler *c, const orr_blocking_call *call, int64_t own_ns)
{
    c->chain_ns[call->point] = own_ns;
    c->chain_kind[call->point] = ORR_EDGE_HOST_OWN;
}

/* The calls of one name, shape (n), of which the first `waited` did. */
static void settle_name(orr_compiler *c, const orr_blocking_call *calls, size_t n, size_t waited)
{
    const size_t samples = n - waited;
    const int64_t return_ns = c->constants->sync_return_ns, long_ns = LONG_FACTOR * return_ns;
    const int64_t median_ns = samples > 0 ? calls[waited + (samples - 1) / 2].own_ns : return_ns;
    const bool enough = samples >= ENOUGH;
    const int64_t own_ns = enough || median_ns < return_ns ? median_ns : return_ns;
    const orr_blocking_call *sampled = calls + waited;
    const int64_t most_ns = enough ? sampled[(samples - 1) * 3 / 4].own_ns : return_ns;
    const int64_t held_up_ns = enough ? sampled[(samples - 1) * 7 / 8].own_ns : return_ns;
    for (size_t i = 0; i < n; i++) {
        const orr_blocking_call *call = &calls[i];
        if (call->queries && call->own_ns > most_ns)
            give_own_time(c, call, held_up_ns);
        else if (!call->queries && !call->keeps && (i < waited || enough))
            give_own_time(c, call, own_ns);
        else if (call->waits && call->own_ns > long_ns)
            c->chain_kind[call->point] = ORR_EDGE_HOST_WAIT;
    }
}

orr_status orr_compile_blocking_calls(orr_compiler *c)
{
    const orr_graph *g = c->g;
    orr_blocking_call *waits = c->waits.at;
    const size_t n = c->waits.n;
    if (n > 1)
        qsort_r(waits, n, sizeof *waits, compare, (void *)(uintptr_t)g);
    for (size_t first = 0, last; first < n; first = last) {
        size_t waited = 0;
        for (last = first; last < n && g->name[waits[last].call] == g->name[waits[first].call];)
            waited += waits[last++].own_ns < 0;
        settle_name(c, waits + first, last - first, waited);
    }
    return ORR_OK;
}
