/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover.h"

#include <stdlib.h>

#include "base/alloc.h"

/* Threads that take turns: the autograd thread begins when the main thread has called backward, the
 * main thread goes on when autograd is done. Nothing records it, but it shows: one thread
 * falls silent, soon after another wakes from a long silence. Both silences must be long, so
 * that two busy threads are never tied by chance. */
static const int64_t long_ns = 100000; /* a silence */
static const int64_t soon_ns = 500000; /* from falling silent to the other's waking */

/* One end of a silence of a thread. */
typedef struct turn {
    int64_t     at_ns;
    orr_node_id node; /* the last before, or the first after it */
    uint16_t    lane;
    bool        wakes;
    int64_t     silent_ns; /* wakes: how long it was; INT64_MAX at the thread's first */
} turn;
typedef orr_array(turn) turns;

static bool is_work(const orr_graph_builder *b, orr_node_id v)
{
    return (b->kind[v] == ORR_NODE_HOST_OP || b->kind[v] == ORR_NODE_RUNTIME) &&
           b->start_ns[v] != ORR_TIME_NONE;
}

/* Threads that only poll (no operator at all) take no turns. */
static bool has_operators(const orr_graph_builder *b, uint32_t lane)
{
    for (uint32_t i = b->lane_rows.first[lane]; i < b->lane_rows.first[lane + 1]; i++)
        if (b->kind[b->lane_rows.node[i]] == ORR_NODE_HOST_OP)
            return true;
    return false;
}

static bool add_turn(turns *all, int64_t at_ns, orr_node_id node, uint32_t lane, bool wakes,
                     int64_t silent_ns)
{
    const turn t = {at_ns, node, (uint16_t)lane, wakes, silent_ns};
    return orr_array_push(all, t);
}

static orr_status add_turns(const orr_graph_builder *b, uint32_t lane, turns *all, orr_error *err)
{
    orr_node_id last = ORR_NONE;
    int64_t end = 0;
    for (uint32_t i = b->lane_rows.first[lane]; i < b->lane_rows.first[lane + 1]; i++) {
        const orr_node_id v = b->lane_rows.node[i];
        if (!is_work(b, v))
            continue;
        const int64_t start = b->start_ns[v];
        const bool first = last == ORR_NONE;
        if (first || start - end >= long_ns) {
            if ((!first && !add_turn(all, end, last, lane, false, 0)) ||
                !add_turn(all, start, v, lane, true, first ? INT64_MAX : start - end))
                return orr_fail_memory(err);
        }
        if (first || start + b->duration_ns[v] > end) {
            end = start + b->duration_ns[v];
            last = v;
        }
    }
    if (last != ORR_NONE && !add_turn(all, end, last, lane, false, 0))
        return orr_fail_memory(err);
    return ORR_OK;
}

static int by_time(const void *a, const void *b)
{
    const turn *x = a, *y = b;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    if (x->wakes != y->wakes)
        return x->wakes ? 1 : -1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Did another thread fall silent almost as late as the one on top? Then who woke it is not to be
 * told. Looks a few entries down; a crowd of threads is ambiguous by itself. */
static bool is_ambiguous(const turns *all, const uint32_t *stack, size_t depth, const bool *awake,
                         const turn *wakes)
{
    enum { MOST_ENTRIES = 16 };
    const turn *top = &all->at[stack[depth - 1]];
    for (size_t i = 2; i <= depth; i++) {
        const turn *other = &all->at[stack[depth - i]];
        if (wakes->at_ns - other->at_ns > soon_ns)
            return false;
        if (i > MOST_ENTRIES || (!awake[other->lane] && other->lane != top->lane))
            return true;
    }
    return false;
}

/* Goes through all turns by time with the threads that fell silent on a stack, the latest on top;
 * those that woke since are dropped when they come to the top. */
static orr_status take_turns(orr_graph_builder *b, const turns *all, uint32_t *stack,
                             bool *awake, orr_error *err)
{
    size_t depth = 0;
    for (size_t i = 0; i < all->n; i++) {
        const turn *t = &all->at[i];
        awake[t->lane] = t->wakes;
        if (!t->wakes) {
            stack[depth++] = (uint32_t)i;
            continue;
        }
        while (depth > 0 && awake[all->at[stack[depth - 1]].lane])
            depth--;
        if (depth == 0)
            continue;
        const turn *u = &all->at[stack[depth - 1]];
        const int64_t wait = t->at_ns - u->at_ns;
        if (wait <= 0 || wait > soon_ns || wait > t->silent_ns / 2 ||
            is_ambiguous(all, stack, depth, awake, t))
            continue;
        ORR_TRY(orr_builder_dep(b, t->node, u->node, ORR_DEP_HANDOFF, err));
    }
    return ORR_OK;
}

orr_status orr_recover_resumptions(orr_graph_builder *b, orr_error *err)
{
    turns all = {0};
    uint32_t *stack = NULL;
    bool *awake = NULL;
    orr_status status = ORR_OK;
    for (uint32_t lane = 0; lane < b->lanes.n; lane++)
        if (b->lanes.at[lane].kind == ORR_LANE_HOST && has_operators(b, lane))
            ORR_TRY_OUT(status, add_turns(b, lane, &all, err));
    if (all.n == 0)
        goto out;
    qsort(all.at, all.n, sizeof *all.at, by_time);
    stack = orr_malloc(all.n * sizeof *stack);
    awake = orr_calloc(b->lanes.n, sizeof *awake);
    status = stack == NULL || awake == NULL ? orr_fail_memory(err)
                                            : take_turns(b, &all, stack, awake, err);
out:
    orr_array_done(&all);
    orr_free(stack);
    orr_free(awake);
    return status;
}
