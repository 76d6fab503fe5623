/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/program/compile.h"

#include <stdlib.h>

/* Blocking calls: a call that may wait (for a device, for a hand-off) is given the time that it
 * takes without waiting, one number for each name: the median of its instances that did not
 * wait. */

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
        const size_t samples = last - first - waited;
        const int64_t own = samples > 0 ? waits[first + waited + (samples - 1) / 2].own_ns
                                        : c->constants->sync_return_ns;
        for (size_t i = first; i < last; i++)
            if (!waits[i].keeps)
                c->chain_ns[waits[i].point] = own;
    }
    return ORR_OK;
}
