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
 *                           ^ HANDOFF                  ^ HANDOFF, or SYNC
 *
 * One thread falls silent, and another wakes from a silence that began before. A thread shows that
 * it is awake by work, and by starts and ends of annotations and Python functions: where one of
 * these ends first, its end is what waited (SYNC), else the first start (HANDOFF).
 *
 * Who calls backward is blocked until it is over, so that between a caller and autograd's thread
 * the time from one's silence to the other's waking may be any. Between others it must be short:
 * within LATE_FACTOR times the median of those, and within half of the silence that ends. Where too
 * few call backward, as in inference, the median is that of all wakings within half of their
 * silence: most of these are hand-offs, and those by chance are spread over far longer. */
static const int64_t long_ns = 100000; /* minimum length of a silence, so that no two busy threads
                                          are tied by chance; assumed */
static const int64_t soon_ns = 500000; /* the bound where nothing shows the latency; assumed */
enum { LATE_FACTOR = 4, ENOUGH = 3, MANY = 16 };

/* One end of a silence of a thread: it falls silent, or wakes. */
typedef struct silence_end {
    int64_t at_ns;
    orr_node_id node; /* what ended last before the silence, or shows that it is over */
    uint16_t lane;
    bool wakes;
    bool by_end; /* the end of the node shows it, else the start */
    int64_t
        silent_ns; /* when waking: length of the silence; INT64_MAX at the thread's first sign */
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
    return (b->kind[v] == ORR_NODE_HOST_OP || b->kind[v] == ORR_NODE_RUNTIME) && !is_step(b, v);
}

/* Threads without operators only poll, and hand nothing over. */
static bool has_operators(const orr_graph_builder *b, uint32_t lane)
{
    for (uint32_t i = b->lane_rows.first[lane]; i < b->lane_rows.first[lane + 1]; i++)
        if (b->kind[b->lane_rows.node[i]] == ORR_NODE_HOST_OP)
            return true;
    return false;
}

/* A thread as it is followed through its rows. */
typedef struct thread_watch {
    const orr_graph_builder *b;
    uint32_t lane;
    silence_ends *all;
    orr_node_id last;            /* what ended last; ORR_NONE: nothing so far */
    int64_t awake_until;         /* last sign of life so far */
    orr_array(orr_node_id) open; /* annotations and Python functions, outermost first */
} thread_watch;

/* The thread shows at this moment that it is awake, by the start or end of the node. */
static bool add_sign(thread_watch *w, int64_t at_ns, orr_node_id node, bool by_end)
{
    const bool first = w->last == ORR_NONE;
    if (first || at_ns - w->awake_until >= long_ns) {
        const silence_end sleep = {w->awake_until, w->last, (uint16_t)w->lane, false, true, 0};
        const silence_end wake = {.at_ns = at_ns,
                                  .node = node,
                                  .lane = (uint16_t)w->lane,
                                  .wakes = true,
                                  .by_end = by_end,
                                  .silent_ns = first ? INT64_MAX : at_ns - w->awake_until};
        if ((!first && !orr_array_push(w->all, sleep)) || !orr_array_push(w->all, wake))
            return false;
    }
    if (first || at_ns > w->awake_until)
        w->awake_until = at_ns;
    if (first || by_end)
        w->last = node;
    return true;
}

/* Ends of annotations and functions up to a moment. Those during work say nothing new. */
static bool close_until(thread_watch *w, int64_t at_ns)
{
    while (w->open.n > 0) {
        const orr_node_id v = w->open.at[w->open.n - 1];
        const int64_t end = orr_recorded_end_ns(w->b, v);
        if (end > at_ns)
            break;
        w->open.n--;
        if (end > w->awake_until && !add_sign(w, end, v, true))
            return false;
    }
    return true;
}

static bool watch_row(thread_watch *w, orr_node_id v)
{
    const orr_graph_builder *b = w->b;
    const int64_t start = b->start_ns[v], end = start + b->duration_ns[v];
    const bool names = b->kind[v] == ORR_NODE_ANNOTATION || b->kind[v] == ORR_NODE_PYTHON ||
                       (b->kind[v] == ORR_NODE_HOST_OP && is_step(b, v));
    if (start == ORR_TIME_NONE || (!names && !is_work(b, v)))
        return true;
    if (!close_until(w, start))
        return false;
    if (names) {
        if (start > w->awake_until && w->last != ORR_NONE && !add_sign(w, start, v, false))
            return false;
        return orr_array_push(&w->open, v);
    }
    if ((w->last == ORR_NONE || start > w->awake_until) && !add_sign(w, start, v, false))
        return false;
    if (end > w->awake_until || w->last == v) {
        w->awake_until = end;
        w->last = v;
    }
    return true;
}

static orr_status watch_thread(const orr_graph_builder *b, uint32_t lane, silence_ends *all,
                               orr_error *err)
{
    thread_watch w = {.b = b, .lane = lane, .all = all, .last = ORR_NONE, .awake_until = INT64_MIN};
    bool done = true;
    for (uint32_t i = b->lane_rows.first[lane]; i < b->lane_rows.first[lane + 1] && done; i++)
        done = watch_row(&w, b->lane_rows.node[i]);
    done = done && close_until(&w, INT64_MAX);
    if (done && w.last != ORR_NONE) {
        const silence_end sleep = {w.awake_until, w.last, (uint16_t)lane, false, true, 0};
        done = orr_array_push(all, sleep);
    }
    orr_array_done(&w.open);
    return done ? ORR_OK : orr_fail_memory(err);
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

/* A node of autograd's graph that is evaluated: "autograd::engine::evaluate_function:
 * AddBackward0", in recordings of 2020 "AddBackward0" itself. */
static bool is_evaluation(const orr_graph_builder *b, orr_node_id v)
{
    static const char prefix[] = "autograd::engine::evaluate_function", suffix[] = "Backward";
    const char *name = orr_builder_text(b, b->name[v]);
    if (b->kind[v] != ORR_NODE_HOST_OP)
        return false;
    if (strncmp(name, prefix, sizeof prefix - 1) == 0)
        return true;
    size_t len = strlen(name);
    while (len > 0 && name[len - 1] >= '0' && name[len - 1] <= '9')
        len--;
    return len >= sizeof suffix - 1 &&
           memcmp(name + len - (sizeof suffix - 1), suffix, sizeof suffix - 1) == 0;
}

typedef orr_array(int64_t) latencies;

typedef struct sweep {
    orr_graph_builder *b;
    const silence_ends *all, *evaluations; /* by time */
    const orr_idmap *told;
    const bool *evaluates; /* shape (lanes): autograd works there */
    uint32_t *stack;       /* threads that fell silent, the latest on top */
    bool *awake;           /* shape (lanes) */
    size_t depth;
    int64_t soon_ns;
    latencies *delays; /* collected instead of dependencies: of callers of backward; or NULL */
    latencies *others; /* of all other wakings within half of their silence */
} sweep;

/* Ambiguous: another thread fell silent almost as late as the top of the stack. Looks at a few
 * entries only, since a crowd of threads is ambiguous anyway. */
static bool is_ambiguous(const sweep *s, const silence_end *wakes)
{
    enum { MOST_ENTRIES = 16 };
    const silence_end *top = &s->all->at[s->stack[s->depth - 1]];
    for (size_t i = 2; i <= s->depth; i++) {
        const silence_end *other = &s->all->at[s->stack[s->depth - i]];
        if (wakes->at_ns - other->at_ns > s->soon_ns)
            return false;
        if (i > MOST_ENTRIES || (!s->awake[other->lane] && other->lane != top->lane))
            return true;
    }
    return false;
}

/* Does the one call autograd, or return from it? */
static bool is_backward(const sweep *s, const silence_end *slept, const silence_end *wakes)
{
    const bool evaluates = is_evaluation(s->b, wakes->node);
    return evaluates ? !is_evaluation(s->b, slept->node) : s->evaluates[slept->lane];
}

/* What the thread on top of the stack did last, if that is what resumed this one; else ORR_NONE. */
static orr_node_id resumed_by(const sweep *s, const silence_end *wakes)
{
    const silence_end *u = &s->all->at[s->stack[s->depth - 1]];
    const int64_t wait = wakes->at_ns - u->at_ns;
    if (wait <= 0 || wait >= wakes->silent_ns)
        return ORR_NONE;
    if (is_backward(s, u, wakes))
        return u->node;
    return wait > s->soon_ns || wait > wakes->silent_ns / 2 || is_ambiguous(s, wakes) ? ORR_NONE
                                                                                      : u->node;
}

/* Autograd's threads take work from queues: an evaluation of another thread that makes one ready
 * may wake a thread without falling silent itself. It ended just before. */
static orr_status add_evaluations(const orr_graph_builder *b, silence_ends *all, bool *evaluates,
                                  orr_error *err)
{
    for (orr_node_id v = 0; v < b->n_nodes; v++) {
        if (b->start_ns[v] == ORR_TIME_NONE || !is_evaluation(b, v))
            continue;
        const silence_end end = {
            .at_ns = orr_recorded_end_ns(b, v), .node = v, .lane = (uint16_t)b->lane[v]};
        evaluates[b->lane[v]] = true;
        if (!orr_array_push(all, end))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

/* The evaluation of another thread that ended last before this one woke, if within the silence.
 * ORR_NONE: none. */
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
        if (wakes->at_ns - t->at_ns >= wakes->silent_ns)
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

/* How long after the thread on top of the stack fell silent this one woke. */
static bool observe(const sweep *s, const silence_end *wakes)
{
    const silence_end *slept = s->depth > 0 ? &s->all->at[s->stack[s->depth - 1]] : NULL;
    const int64_t wait = slept != NULL ? wakes->at_ns - slept->at_ns : 0;
    if (wait <= 0 || wait >= wakes->silent_ns)
        return true;
    if (is_backward(s, slept, wakes))
        return orr_array_push(s->delays, wait);
    return wait > wakes->silent_ns / 2 || orr_array_push(s->others, wait);
}

static orr_status wake(sweep *s, const silence_end *t, orr_error *err)
{
    while (s->depth > 0 && s->awake[s->all->at[s->stack[s->depth - 1]].lane])
        s->depth--;
    if (s->delays != NULL)
        return observe(s, t) ? ORR_OK : orr_fail_memory(err);
    orr_node_id by = s->depth > 0 ? resumed_by(s, t) : ORR_NONE;
    if (by == ORR_NONE && is_evaluation(s->b, t->node))
        by = made_ready_by(s->evaluations, t);
    if (by == ORR_NONE || orr_idmap_get(s->told, pair_key(t->node, by)) != ORR_NONE)
        return ORR_OK;
    return orr_builder_dep(s->b, t->node, by, t->by_end ? ORR_DEP_SYNC : ORR_DEP_HANDOFF, err);
}

/* Over all ends of silences by time. Threads that have woken since are popped when they reach the
 * top of the stack. */
static orr_status sweep_silences(sweep *s, orr_error *err)
{
    s->depth = 0;
    memset(s->awake, 0, s->b->lanes.n * sizeof *s->awake);
    for (size_t i = 0; i < s->all->n; i++) {
        const silence_end *t = &s->all->at[i];
        s->awake[t->lane] = t->wakes;
        if (t->wakes)
            ORR_TRY(wake(s, t, err));
        else
            s->stack[s->depth++] = (uint32_t)i;
    }
    return ORR_OK;
}

static int by_length(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t median(latencies *of)
{
    qsort(of->at, of->n, sizeof *of->at, by_length);
    return of->at[(of->n - 1) / 2];
}

/* How long after its cause a thread of this recording wakes, by those that are known to wait. */
static orr_status measure_soon(sweep *s, orr_error *err)
{
    latencies delays = {0}, others = {0};
    s->soon_ns = soon_ns;
    s->delays = &delays;
    s->others = &others;
    const orr_status status = sweep_silences(s, err);
    s->delays = s->others = NULL;
    if (status == ORR_OK && delays.n >= ENOUGH)
        s->soon_ns = LATE_FACTOR * median(&delays);
    else if (status == ORR_OK && others.n >= MANY)
        s->soon_ns = LATE_FACTOR * median(&others);
    orr_array_done(&delays);
    orr_array_done(&others);
    return status;
}

static orr_status watch_threads(const orr_graph_builder *b, silence_ends *all, orr_error *err)
{
    for (uint32_t lane = 0; lane < b->lanes.n; lane++)
        if (b->lanes.at[lane].kind == ORR_LANE_HOST && has_operators(b, lane))
            ORR_TRY(watch_thread(b, lane, all, err));
    if (all->n > 0)
        qsort(all->at, all->n, sizeof *all->at, by_time);
    return ORR_OK;
}

orr_status orr_recover_thread_resumptions(orr_graph_builder *b, orr_error *err)
{
    silence_ends all = {0}, evaluations = {0};
    orr_idmap told = {0};
    bool *evaluates = orr_calloc(b->lanes.n + 1, sizeof *evaluates);
    bool *awake = orr_calloc(b->lanes.n + 1, sizeof *awake);
    uint32_t *stack = NULL;
    orr_status status = evaluates == NULL || awake == NULL ? orr_fail_memory(err) : ORR_OK;
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, watch_threads(b, &all, err));
    if (all.n == 0)
        goto out;
    ORR_TRY_OUT(status, add_evaluations(b, &evaluations, evaluates, err));
    if (evaluations.n > 0)
        qsort(evaluations.at, evaluations.n, sizeof *evaluations.at, by_time);
    ORR_TRY_OUT(status, find_told(b, &told, err));
    stack = orr_malloc(all.n * sizeof *stack);
    ORR_TRY_OUT(status, stack == NULL ? orr_fail_memory(err) : ORR_OK);
    sweep s = {.b = b,
               .all = &all,
               .evaluations = &evaluations,
               .told = &told,
               .evaluates = evaluates,
               .stack = stack,
               .awake = awake};
    ORR_TRY_OUT(status, measure_soon(&s, err));
    status = sweep_silences(&s, err);
out:
    orr_array_done(&all);
    orr_array_done(&evaluations);
    orr_idmap_done(&told);
    orr_free(stack);
    orr_free(awake);
    orr_free(evaluates);
    return status;
}
