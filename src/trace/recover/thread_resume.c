/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover/recover.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "trace/common/idmap.h"

/* Threads that take turns: the autograd thread begins when the main thread has called backward, the
 * main thread goes on when autograd is done. Nothing records it, but it shows: one thread
 * falls silent, soon after another wakes from a long silence. Both silences must be long, so
 * that two busy threads are never tied by chance. */
static const int64_t long_ns = 100000; /* a silence */
static const int64_t soon_ns = 500000; /* from falling silent to the other's waking */

/* One end of a silence of a thread. */
typedef struct turn {
    int64_t at_ns;
    orr_node_id node; /* the last before, or the first after it */
    uint16_t lane;
    bool wakes;
    int64_t silent_ns; /* wakes: how long it was; INT64_MAX at the thread's first */
} turn;
typedef orr_array(turn) turns;

/* In 2020 the profiler's steps were operators too; they span silences. */
static bool is_step(const orr_graph_builder *b, orr_node_id v)
{
    static const char prefix[] = "ProfilerStep";
    return strncmp(orr_builder_text(b, b->name[v]), prefix, sizeof prefix - 1) == 0;
}

static bool is_work(const orr_graph_builder *b, orr_node_id v)
{
    return (b->kind[v] == ORR_NODE_HOST_OP || b->kind[v] == ORR_NODE_RUNTIME) &&
           b->start_ns[v] != ORR_TIME_NONE && !is_step(b, v);
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

/* What the thread on top did last, if that is who woke this one. ORR_NONE. */
static orr_node_id handed_by(const turns *all, const uint32_t *stack, size_t depth,
                             const bool *awake, const turn *wakes)
{
    const turn *u = &all->at[stack[depth - 1]];
    const int64_t wait = wakes->at_ns - u->at_ns;
    return wait <= 0 || wait > soon_ns || wait > wakes->silent_ns / 2 ||
                   is_ambiguous(all, stack, depth, awake, wakes)
               ? ORR_NONE
               : u->node;
}

/* Autograd's threads take their work from queues: an operator that another thread's has made ready
 * wakes a thread while that other goes on. The one that made it ready ended just before. */
static bool is_evaluation(const orr_graph_builder *b, orr_node_id v)
{
    static const char prefix[] = "autograd::engine::evaluate_function";
    return b->kind[v] == ORR_NODE_HOST_OP &&
           strncmp(orr_builder_text(b, b->name[v]), prefix, sizeof prefix - 1) == 0;
}

static orr_status add_evaluations(const orr_graph_builder *b, turns *all, orr_error *err)
{
    for (orr_node_id v = 0; v < b->n_nodes; v++)
        if (b->start_ns[v] != ORR_TIME_NONE && is_evaluation(b, v) &&
            !add_turn(all, b->start_ns[v] + b->duration_ns[v], v, b->lane[v], false, 0))
            return orr_fail_memory(err);
    return ORR_OK;
}

/* The evaluation of another thread that ended last before a thread woke. ORR_NONE. */
static orr_node_id made_ready_by(const turns *evaluations, const turn *wakes)
{
    enum { MOST_STEPS = 16 };
    size_t low = 0, high = evaluations->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (evaluations->at[middle].at_ns < wakes->at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (int step = 0; low > 0 && step < MOST_STEPS; step++) {
        const turn *t = &evaluations->at[--low];
        const int64_t wait = wakes->at_ns - t->at_ns;
        if (wait > soon_ns || wait > wakes->silent_ns / 2)
            return ORR_NONE;
        if (t->lane != wakes->lane)
            return t->node;
    }
    return ORR_NONE;
}

/* Arrows may have told of the same hand-off. */
static uint64_t pair_key(orr_node_id node, orr_node_id on)
{
    return (uint64_t)node << 32 | on;
}

static orr_status find_told(const orr_graph_builder *b, orr_idmap *told, orr_error *err)
{
    for (size_t i = b->n_deps; i-- > 0 && b->dep_kind[i] == ORR_DEP_HANDOFF;)
        ORR_TRY(orr_idmap_set(told, pair_key(b->dep_node[i], b->dep_on[i]), 0, err));
    return ORR_OK;
}

/* Goes through all turns by time with the threads that fell silent on a stack, the latest on top;
 * those that woke since are dropped when they come to the top. */
static orr_status take_turns(orr_graph_builder *b, const turns *all, const turns *evaluations,
                             const orr_idmap *told, uint32_t *stack, bool *awake, orr_error *err)
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
        orr_node_id by = depth > 0 ? handed_by(all, stack, depth, awake, t) : ORR_NONE;
        if (by == ORR_NONE && is_evaluation(b, t->node))
            by = made_ready_by(evaluations, t);
        if (by != ORR_NONE && orr_idmap_get(told, pair_key(t->node, by)) == ORR_NONE)
            ORR_TRY(orr_builder_dep(b, t->node, by, ORR_DEP_HANDOFF, err));
    }
    return ORR_OK;
}

orr_status orr_recover_thread_resumptions(orr_graph_builder *b, orr_error *err)
{
    turns all = {0}, evaluations = {0};
    orr_idmap told = {0};
    uint32_t *stack = NULL;
    bool *awake = NULL;
    orr_status status = ORR_OK;
    for (uint32_t lane = 0; lane < b->lanes.n; lane++)
        if (b->lanes.at[lane].kind == ORR_LANE_HOST && has_operators(b, lane))
            ORR_TRY_OUT(status, add_turns(b, lane, &all, err));
    if (all.n == 0)
        goto out;
    qsort(all.at, all.n, sizeof *all.at, by_time);
    ORR_TRY_OUT(status, add_evaluations(b, &evaluations, err));
    if (evaluations.n > 0)
        qsort(evaluations.at, evaluations.n, sizeof *evaluations.at, by_time);
    ORR_TRY_OUT(status, find_told(b, &told, err));
    stack = orr_malloc(all.n * sizeof *stack);
    awake = orr_calloc(b->lanes.n, sizeof *awake);
    status = stack == NULL || awake == NULL
                 ? orr_fail_memory(err)
                 : take_turns(b, &all, &evaluations, &told, stack, awake, err);
out:
    orr_array_done(&all);
    orr_array_done(&evaluations);
    orr_idmap_done(&told);
    orr_free(stack);
    orr_free(awake);
    return status;
}
