/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include <ctype.h>
#include <string.h>

#include "analysis/common.h"
#include "graph/pollers.h"

/* Which side bounds each phase of training: the host, if the device waits for what is not launched
 * yet; the device, if launches wait for it in the queue; communication, if computation that is
 * launched waits while only communication runs.
 *
 * Device work is of the phase of the operators and annotations that its call is nested in. Between
 * the end of computation and the next lies a gap. The next was launched late, into an empty queue,
 * if its call began after that end, or if it began as soon after its call as any work of the rank
 * does (twice the least delay). The gap is then the host's, and so is the computation before it
 * as far as the host was at work since it launched that: where every launch comes late, shorter
 * kernels would end nothing sooner. Waiting calls are no work of the host. */
#define PHASE_MAP(X)                                                                               \
    X(FORWARD, "forward")                                                                          \
    X(BACKWARD, "backward")                                                                        \
    X(OPTIMIZER, "optimizer")                                                                      \
    X(LOADING, "data_loading")                                                                     \
    X(COMMUNICATION, "communication")                                                              \
    X(OTHER, "other") /* beside annotated phases; no recorded launch */                            \
    X(ALL, "all")     /* nothing in the recording tells phases apart */
typedef enum phase {
#define ENUM_(name, text) name,
    PHASE_MAP(ENUM_)
#undef ENUM_
        PHASES
} phase;

typedef struct phase_bound {
    uint32_t rank;
    const char *phase;
    int64_t span_ns, busy_ns;                    /* span: busy, and the gaps before its work */
    int64_t idle_ns, idle_host_ns, idle_comm_ns; /* of the gaps: launched late; communication ran */
    double idle_frac;                            /* of the span */
    int64_t host_bound_ns;
    double host_bound_frac;      /* of the span */
    uint64_t launches, late;     /* late: found the queue empty */
    double mean_queue_length;    /* launches that waited when another was made */
    double mean_launch_delay_ns; /* from the call to the work */
    const char *bound;           /* "host", "device", "communication" */
} phase_bound;

#define C(field, type) ORR_COL_(phase_bound, field, type)
static const orr_column columns_phase_bounds[] = {
    C(rank, U32),
    C(phase, TEXT),
    C(bound, TEXT),
    C(span_ns, NS),
    C(busy_ns, NS),
    C(idle_ns, NS),
    C(idle_frac, FRAC),
    C(idle_host_ns, NS),
    C(idle_comm_ns, NS),
    C(host_bound_ns, NS),
    C(host_bound_frac, FRAC),
    C(launches, U64),
    C(late, U64),
    C(mean_queue_length, NUMBER),
    C(mean_launch_delay_ns, NS_MEAN),
};
#undef C

/* Does the text hold the word, in any case? */
static bool holds_word(const char *text, const char *word)
{
    for (; *text != '\0'; text++) {
        size_t n = 0;
        while (word[n] != '\0' && tolower((unsigned char)text[n]) == word[n])
            n++;
        if (word[n] == '\0')
            return true;
    }
    return false;
}

/* The phase that a node names; PHASES: none. */
static phase named_phase(const orr_graph *g, orr_node_id v)
{
    const char *name = orr_graph_str(g, g->name[v]);
    if (g->kind[v] != ORR_NODE_HOST_OP && g->kind[v] != ORR_NODE_ANNOTATION)
        return PHASES;
    if (holds_word(name, "optimizer") || holds_word(name, "zero_grad"))
        return OPTIMIZER;
    if (holds_word(name, "backward") || holds_word(name, "autograd::engine"))
        return BACKWARD;
    if (g->kind[v] == ORR_NODE_ANNOTATION && holds_word(name, "forward"))
        return FORWARD;
    return holds_word(name, "dataloader") || holds_word(name, "data_load") ? LOADING : PHASES;
}

typedef struct gap_walk {
    const orr_view *view;
    const uint8_t *phase_of; /* shape (N) of host nodes */
    orr_work_list work;
    orr_interval_set comm, waits; /* communication; calls that wait for the device */
    int64_t *waited_ns;           /* shape (waits.n + 1): before each */
    int64_t *calls, *starts;      /* shape (n), sorted: of launched work */
    size_t n;
    int64_t least_delay_ns;
    phase_bound rows[PHASES];
    double queued[PHASES], delay_ns[PHASES]; /* sums */
} gap_walk;

/* Phases of all host nodes. What runs again in the backward pass is of that. */
static orr_status find_phases(orr_analysis_run *f, const orr_view *view, uint8_t **ret)
{
    const orr_graph *g = view->graph;
    uint8_t *of = orr_arena_array(f->scratch, uint8_t, g->n_nodes);
    bool seen[PHASES + 1] = {false};
    if (of == NULL)
        return orr_fail_memory(f->err);
    for (uint32_t i = 0; i < g->n_nodes; i++) { /* parents come first in the order of a lane */
        const orr_node_id v = g->lane_node[i];
        const phase above = g->parent[v] == ORR_NONE ? PHASES : (phase)of[g->parent[v]];
        const phase own = named_phase(g, v);
        of[v] = (uint8_t)(own == PHASES || (above == BACKWARD && own == FORWARD) ? above : own);
        seen[own] = true;
    }
    const phase rest = seen[FORWARD] ? OTHER : seen[BACKWARD] || seen[OPTIMIZER] ? FORWARD : ALL;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (of[v] == PHASES)
            of[v] = (uint8_t)rest;
    *ret = of;
    return ORR_OK;
}

static orr_status find_waits(orr_analysis_run *f, gap_walk *w)
{
    const orr_graph *g = w->view->graph;
    orr_interval *any = orr_arena_array(f->scratch, orr_interval, g->n_nodes);
    size_t n = 0;
    if (any == NULL)
        return orr_fail_memory(f->err);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (g->kind[v] == ORR_NODE_RUNTIME && g->start_ns[v] != ORR_TIME_NONE &&
            orr_is_synchronisation(orr_graph_str(g, g->name[v])))
            any[n++] = (orr_interval){g->start_ns[v], orr_end_ns(g, v)};
    ORR_TRY(orr_interval_set_from(any, n, f->scratch, &w->waits, f->err));
    w->waited_ns = orr_arena_array(f->scratch, int64_t, w->waits.n + 1);
    if (w->waited_ns == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 0; i < w->waits.n; i++)
        w->waited_ns[i + 1] = w->waited_ns[i] + w->waits.at[i].to_ns - w->waits.at[i].from_ns;
    return ORR_OK;
}

/* Number of values up to `at`, in ascending order. */
static size_t up_to(const int64_t *sorted, size_t n, int64_t at)
{
    size_t low = 0;
    while (low < n) {
        const size_t middle = low + (n - low) / 2;
        if (sorted[middle] <= at)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* Time until `at` in which some call waited for the device. */
static int64_t waited_until(const gap_walk *w, int64_t at_ns)
{
    size_t low = 0, high = w->waits.n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (w->waits.at[middle].from_ns < at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    const int64_t over_ns = low > 0 ? w->waits.at[low - 1].to_ns - at_ns : 0;
    return w->waited_ns[low] - (over_ns > 0 ? over_ns : 0);
}

static orr_status sort_launches(orr_analysis_run *f, gap_walk *w)
{
    const orr_graph *g = w->view->graph;
    w->calls = orr_arena_array(f->scratch, int64_t, w->work.n);
    w->starts = orr_arena_array(f->scratch, int64_t, w->work.n);
    if (w->calls == NULL || w->starts == NULL)
        return orr_fail_memory(f->err);
    w->least_delay_ns = INT64_MAX;
    for (size_t i = 0; i < w->work.n; i++) {
        const orr_node_id v = w->work.node[i], call = orr_launch_of(g, v);
        if (call == ORR_NONE)
            continue;
        const int64_t delay_ns = g->start_ns[v] - g->start_ns[call];
        w->calls[w->n] = g->start_ns[call];
        w->starts[w->n++] = g->start_ns[v];
        if (delay_ns >= 0 && delay_ns < w->least_delay_ns)
            w->least_delay_ns = delay_ns;
    }
    orr_sort_ns(w->calls, w->n);
    orr_sort_ns(w->starts, w->n);
    return ORR_OK;
}

/* What a launch shows: was it late, after the device had ended at end_ns? */
static bool add_launch(gap_walk *w, phase of, orr_node_id v, int64_t end_ns)
{
    const orr_graph *g = w->view->graph;
    const orr_node_id call = orr_launch_of(g, v);
    if (call == ORR_NONE)
        return false;
    const int64_t call_ns = g->start_ns[call], delay_ns = g->start_ns[v] - call_ns;
    const bool late =
        g->start_ns[v] > end_ns && (call_ns >= end_ns || delay_ns / 2 <= w->least_delay_ns);
    const double before = (double)up_to(w->calls, w->n, call_ns) - 1;
    const double queued = before - (double)up_to(w->starts, w->n, call_ns);
    w->rows[of].launches++;
    w->rows[of].late += late;
    w->queued[of] += queued > 0 ? queued : 0;
    w->delay_ns[of] += (double)delay_ns;
    return late;
}

/* The last computation before this one. */
typedef struct computed {
    orr_node_id call; /* ORR_NONE: not recorded */
    int64_t end_ns;   /* INT64_MIN: there is none */
    int64_t busy_ns;  /* that it added */
} computed;

/* Of the computation before a late launch, what the host was at work for. */
static int64_t host_work_ns(const gap_walk *w, const computed *last, orr_node_id call,
                            int64_t gap_ns)
{
    const int64_t *start_ns = w->view->graph->start_ns;
    if (last->call == ORR_NONE || call == ORR_NONE || start_ns[call] <= start_ns[last->call])
        return 0;
    const int64_t waited_ns =
        waited_until(w, start_ns[call]) - waited_until(w, start_ns[last->call]);
    const int64_t work_ns = start_ns[call] - start_ns[last->call] - waited_ns - gap_ns;
    return work_ns <= 0 ? 0 : work_ns < last->busy_ns ? work_ns : last->busy_ns;
}

static void add_computation(gap_walk *w, orr_node_id v, computed *last)
{
    const orr_graph *g = w->view->graph;
    const orr_node_id call = orr_launch_of(g, v);
    const phase of = call == ORR_NONE ? OTHER : (phase)w->phase_of[call];
    phase_bound *row = &w->rows[of];
    const int64_t start_ns = g->start_ns[v], end_ns = orr_end_ns(g, v);
    const bool first = last->end_ns == INT64_MIN;
    const int64_t gap_ns = !first && start_ns > last->end_ns ? start_ns - last->end_ns : 0;
    const bool late = add_launch(w, of, v, last->end_ns);
    if (gap_ns > 0) {
        const orr_interval gap = {last->end_ns, start_ns};
        row->idle_ns += gap_ns;
        if (late) {
            row->idle_host_ns += gap_ns;
            row->host_bound_ns += gap_ns + host_work_ns(w, last, call, gap_ns);
        } else {
            row->idle_comm_ns += orr_interval_set_overlap(&(orr_interval_set){&gap, 1}, &w->comm);
        }
    }
    const int64_t from_ns = first || start_ns > last->end_ns ? start_ns : last->end_ns;
    if (end_ns > from_ns) {
        row->busy_ns += end_ns - from_ns;
        *last = (computed){call, end_ns, end_ns - from_ns};
    }
}

/* Communication is late if it was launched after the computation before it had ended. */
static void add_communication(gap_walk *w, orr_node_id v, const computed *last, int64_t *end_ns)
{
    const orr_graph *g = w->view->graph;
    phase_bound *row = &w->rows[COMMUNICATION];
    const int64_t from_ns = g->start_ns[v] > *end_ns ? g->start_ns[v] : *end_ns;
    const int64_t to_ns = orr_end_ns(g, v), more_ns = to_ns > from_ns ? to_ns - from_ns : 0;
    const bool late =
        add_launch(w, COMMUNICATION, v, last->end_ns > *end_ns ? last->end_ns : *end_ns);
    row->busy_ns += more_ns;
    row->host_bound_ns += late ? more_ns : 0;
    *end_ns = to_ns > *end_ns ? to_ns : *end_ns;
}

static void walk(gap_walk *w)
{
    computed last = {.call = ORR_NONE, .end_ns = INT64_MIN};
    int64_t comm_end_ns = INT64_MIN;
    for (size_t i = 0; i < w->work.n; i++) {
        if (w->work.class[i] == ORR_CLASS_COMMUNICATION)
            add_communication(w, w->work.node[i], &last, &comm_end_ns);
        else
            add_computation(w, w->work.node[i], &last);
    }
}

/* Whichever has most of the span: the host, communication that is waited for, or the computation
 * that no late launch shares. */
static const char *bound_of(const phase_bound *row)
{
    const int64_t device_ns = row->busy_ns - (row->host_bound_ns - row->idle_host_ns);
    if (row->host_bound_ns > device_ns && row->host_bound_ns >= row->idle_comm_ns)
        return "host";
    return row->idle_comm_ns > device_ns ? "communication" : "device";
}

static orr_status add_rows(orr_analysis_run *f, gap_walk *w)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        PHASE_MAP(NAME_)
#undef NAME_
    };
    for (int p = 0; p < PHASES; p++) {
        phase_bound *from = &w->rows[p], *row;
        if (from->busy_ns + from->idle_ns == 0)
            continue;
        from->rank = w->view->rank;
        from->phase = names[p];
        from->span_ns = from->busy_ns + from->idle_ns;
        if (from->host_bound_ns > from->span_ns)
            from->host_bound_ns = from->span_ns;
        from->idle_frac = orr_frac((double)from->idle_ns, (double)from->span_ns);
        from->host_bound_frac = orr_frac((double)from->host_bound_ns, (double)from->span_ns);
        from->mean_queue_length = orr_frac(w->queued[p], (double)from->launches);
        from->mean_launch_delay_ns =
            from->launches > 0 ? w->delay_ns[p] / (double)from->launches : 0;
        from->bound = bound_of(from);
        row = orr_analysis_add_row(f);
        if (row == NULL)
            return orr_fail_memory(f->err);
        *row = *from;
    }
    return ORR_OK;
}

static orr_status bounds_of_rank(orr_analysis_run *f, const orr_view *view)
{
    gap_walk w = {.view = view};
    uint8_t *phase_of;
    if (view->host_only)
        return ORR_OK;
    ORR_TRY(find_phases(f, view, &phase_of));
    w.phase_of = phase_of;
    ORR_TRY(orr_view_work(view, f->scratch, &w.work, f->err));
    ORR_TRY(orr_interval_set_of_work(view, &w.work, ORR_CLASS_COMMUNICATION, f->scratch, &w.comm,
                                     f->err));
    ORR_TRY(find_waits(f, &w));
    ORR_TRY(sort_launches(f, &w));
    walk(&w);
    return add_rows(f, &w);
}

static orr_status find_bounds(const orr_job *job, const orr_analysis_options *options,
                              orr_arena *arena, const phase_bound **ret_rows, size_t *ret_n,
                              orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err}, sizeof(phase_bound),
                             bounds_of_rank, (const void **)ret_rows, ret_n);
}
ORR_RUN_(phase_bounds, phase_bound, find_bounds,
         "What bounds each phase: host, device or communication")
