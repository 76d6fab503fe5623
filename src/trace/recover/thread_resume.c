/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover/recover.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "trace/common/idmap.h"

/* Hand-offs between threads that resume one another: the autograd thread starts when the main
 * thread calls backward, the main thread continues when autograd is done. Nothing records it, but
 * it is visible:
 *
 *   main      op op backward|......... silent .........|op op
 *   autograd  ... silent ...|op op op op op op op op op|... silent
 *                           ^ HANDOFF                  ^ HANDOFF
 *
 * One thread falls silent, and within `soon_ns` another wakes from a long silence. Both silences
 * must be longer than `long_ns`, so that two busy threads are never tied by chance. */
static const int64_t long_ns = 100000; /* minimum length of a silence */
static const int64_t soon_ns = 500000; /* from one thread's silence to the other's waking */

/* One end of a silence of a thread: it falls silent, or wakes. */
typedef struct silence_end {
    int64_t at_ns;
    orr_node_id node; /* the last node before the silence, or the first after it */
    uint16_t lane;
    bool wakes;
    int64_t
        silent_ns; /* when waking: length of the silence; INT64_MAX at the thread's first node */
} silence_end;
typedef orr_array(silence_end) silence_ends;

/* Recordings of 2020 have profiler steps as operators; they span silences. */
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

/* Threads without operators only poll, and hand nothing over. */
static bool has_operators(const orr_graph_builder *b, uint32_t lane)
{
    for (uint32_t i = b->lane_rows.first[lane]; i < b->lane_rows.first[lane + 1]; i++)
        if (b->kind[b->lane_rows.node[i]] == ORR_NODE_HOST_OP)
            return true;
    return false;
}

static bool add_turn(silence_ends *all, int64_t at_ns, orr_node_id node, uint32_t lane, bool wakes,
                     int64_t silent_ns)
{
    const silence_end t = {at_ns, node, (uint16_t)lane, wakes, silent_ns};
    return orr_array_push(all, t);
}

static orr_status add_turns(const orr_graph_builder *b, uint32_t lane, silence_ends *all,
                            orr_error *err)
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
    const silence_end *x = a, *y = b;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    if (x->wakes != y->wakes)
        return x->wakes ? 1 : -1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Ambiguous: another thread fell silent almost as late as the top of the stack. Looks at a few
 * entries only, since a crowd of threads is ambiguous anyway. */
static bool is_ambiguous(const silence_ends *all, const uint32_t *stack, size_t depth,
                         const bool *awake, const silence_end *wakes)
{
    enum { MOST_ENTRIES = 16 };
    const silence_end *top = &all->at[stack[depth - 1]];
    for (size_t i = 2; i <= depth; i++) {
        const silence_end *other = &all->at[stack[depth - i]];
        if (wakes->at_ns - other->at_ns > soon_ns)
            return false;
        if (i > MOST_ENTRIES || (!awake[other->lane] && other->lane != top->lane))
            return true;
    }
    return false;
}

/* The last node of the thread on top, if that is what resumed this one. ORR_NONE: unknown. */
static orr_node_id resumed_by(const silence_ends *all, const uint32_t *stack, size_t depth,
                              const bool *awake, const silence_end *wakes)
{
    const silence_end *u = &all->at[stack[depth - 1]];
    const int64_t wait = wakes->at_ns - u->at_ns;
    return wait <= 0 || wait > soon_ns || wait > wakes->silent_ns / 2 ||
                   is_ambiguous(all, stack, depth, awake, wakes)
               ? ORR_NONE
               : u->node;
}

/* Autograd's threads take work from queues: an operator of another thread that makes one ready may
 * wake a thread without falling silent itself. It ended just before. */
static bool is_evaluation(const orr_graph_builder *b, orr_node_id v)
{
    static const char prefix[] = "autograd::engine::evaluate_function";
    return b->kind[v] == ORR_NODE_HOST_OP &&
           strncmp(orr_builder_text(b, b->name[v]), prefix, sizeof prefix - 1) == 0;
}

static orr_status add_evaluations(const orr_graph_builder *b, silence_ends *all, orr_error *err)
{
    for (orr_node_id v = 0; v < b->n_nodes; v++)
        if (b->start_ns[v] != ORR_TIME_NONE && is_evaluation(b, v) &&
            !add_turn(all, b->start_ns[v] + b->duration_ns[v], v, b->lane[v], false, 0))
            return orr_fail_memory(err);
    return ORR_OK;
}

/* The evaluation of another thread that ended last before this one woke. ORR_NONE: none. */
static orr_node_id made_ready_by(const silence_ends *evaluations, const silence_end *wakes)
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
        const silence_end *t = &evaluations->at[--low];
        const int64_t wait = wakes->at_ns - t->at_ns;
        if (wait > soon_ns || wait > wakes->silent_ns / 2)
            return ORR_NONE;
        if (t->lane != wakes->lane)
            return t->node;
    }
    return ORR_NONE;
}

/* Flow arrows may state the same hand-off. */
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

/* Sweeps over all ends of silences by time, with the threads that fell silent on a stack, the
 * latest on top; threads that have woken since are popped when they reach the top. */
static orr_status sweep_silences(orr_graph_builder *b, const silence_ends *all,
                                 const silence_ends *evaluations, const orr_idmap *told,
                                 uint32_t *stack, bool *awake, orr_error *err)
{
    size_t depth = 0;
    for (size_t i = 0; i < all->n; i++) {
        const silence_end *t = &all->at[i];
        awake[t->lane] = t->wakes;
        if (!t->wakes) {
            stack[depth++] = (uint32_t)i;
            continue;
        }
        while (depth > 0 && awake[all->at[stack[depth - 1]].lane])
            depth--;
        orr_node_id by = depth > 0 ? resumed_by(all, stack, depth, awake, t) : ORR_NONE;
        if (by == ORR_NONE && is_evaluation(b, t->node))
            by = made_ready_by(evaluations, t);
        if (by != ORR_NONE && orr_idmap_get(told, pair_key(t->node, by)) == ORR_NONE)
            ORR_TRY(orr_builder_dep(b, t->node, by, ORR_DEP_HANDOFF, err));
    }
    return ORR_OK;
}

orr_status orr_recover_thread_resumptions(orr_graph_builder *b, orr_error *err)
{
    silence_ends all = {0}, evaluations = {0};
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
                 : sweep_silences(b, &all, &evaluations, &told, stack, awake, err);
out:
    orr_array_done(&all);
    orr_array_done(&evaluations);
    orr_idmap_done(&told);
    orr_free(stack);
    orr_free(awake);
    return status;
}
