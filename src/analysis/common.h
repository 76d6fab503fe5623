/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ANALYSIS_COMMON_H
#define ORR_ANALYSIS_COMMON_H

#include <orrery/analysis.h>

/* What the analyses share: which ranks and which part of them, the work that ran
 * there, interval sets, sorting, statistics. Threads: a frame belongs to one.
 *
 * An analysis is a body that is called for each selected rank and adds rows:
 *
 *   static orr_status temporal_of_rank(orr_analysis_run *f, const orr_view *view) {
 *       orr_temporal *row = orr_analysis_add_row(f);
 *       if (row == NULL) return orr_fail_memory(f->err);
 *       ...
 *   }
 *   return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
 * sizeof(orr_temporal), temporal_of_rank, (const void **)ret_rows, ret_n);
 */

/* Class of device work, as HolisticTraceAnalysis calls it. Usable as a bit set. */
typedef enum orr_class {
    ORR_CLASS_NONE = 0, /* not work: host side, synchronisation */
    ORR_CLASS_COMPUTATION = 1,
    ORR_CLASS_COMMUNICATION = 2,
    ORR_CLASS_MEMORY = 4,
    ORR_CLASS_ANY = 7
} orr_class;
const char *orr_class_name(orr_class class); /* "COMPUTATION"; "OTHER" for NONE */
orr_class orr_class_of_kind(orr_node_kind kind);

/* Options with every field valid: defaults where `given` is NULL or shorter than ours. */
orr_analysis_options orr_options_complete(const orr_analysis_options *given);

/* One recorded rank, and the window of it that is asked for. The window is host
 * time on the axis of the graph; device work is in it when the call that launched it
 * is. Device work without a recorded launch is in it only when there is no window. */
typedef struct orr_view {
    const orr_job *job;
    const orr_graph *graph;
    uint32_t rank, graph_id;
    bool windowed;
    bool host_only;         /* the graph holds no device work */
    int64_t from_ns, to_ns; /* from <= start < to             */
} orr_view;
bool orr_view_holds(const orr_view *view, orr_node_id node);
/* Start and end of a node on the axis of the graph, and start on that of the job. */
static inline int64_t orr_end_ns(const orr_graph *g, orr_node_id node)
{
    return g->start_ns[node] + g->duration_ns[node];
}
static inline int64_t orr_view_job_ns(const orr_view *view, int64_t graph_ns)
{
    return view->graph->base_ns + view->job->clock_offset_ns[view->graph_id] - view->job->base_ns +
           graph_ns;
}

/* a + b, or the end of the range: a recording may claim any duration. */
static inline int64_t orr_saturating_sum(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/* The host call that enqueued device work, or ORR_NONE. */
orr_node_id orr_launch_of(const orr_graph *g, orr_node_id work);

/* For every node the nearest node above it (by `parent`) whose kind is in `kinds`, a set of
 * 1u << orr_node_kind, or ORR_NONE. Shape (N), O(N). */
orr_status orr_nearest_ancestor(const orr_graph *g, uint32_t kinds, orr_arena *arena,
                                const orr_node_id **ret, orr_error *err) ORR_MUST_CHECK;
#define ORR_KIND(kind) (1u << ORR_NODE_##kind)

/* Instances of an annotation, by start. "ProfilerStep" finds "ProfilerStep#12". */
typedef struct orr_instance {
    orr_node_id node;
    int32_t number; /* 12; -1 when there is none */
    int64_t from_ns, to_ns;
} orr_instance;
orr_status orr_find_instances(const orr_graph *g, const char *annotation, orr_arena *arena,
                              const orr_instance **ret, size_t *ret_n,
                              orr_error *err) ORR_MUST_CHECK;

/* All that ran on a rank, in the window: device work, or where the rank was recorded
 * without a device, collectives on any lane and the outermost host operators of each thread
 * that do not communicate (of those that do, the operators inside; the rest of their time is
 * waiting). By start, then node. */
typedef struct orr_work_list {
    const orr_node_id *node; /* shape (n) */
    const uint8_t *class;    /* shape (n), orr_class, never NONE */
    size_t n;
} orr_work_list;
orr_status orr_view_work(const orr_view *view, orr_arena *arena, orr_work_list *ret,
                         orr_error *err) ORR_MUST_CHECK;

/* Interval sets: disjoint, not touching, increasing. Work of length zero leaves none. */
typedef struct orr_interval {
    int64_t from_ns, to_ns;
} orr_interval;
typedef struct orr_interval_set {
    const orr_interval *at; /* shape (n) */
    size_t n;
} orr_interval_set;
/* When any work of these classes ran. */
orr_status orr_interval_set_of_work(const orr_view *view, const orr_work_list *work,
                                    unsigned classes, orr_arena *arena, orr_interval_set *ret,
                                    orr_error *err) ORR_MUST_CHECK;
/* Of any intervals, which are sorted in place. */
orr_status orr_interval_set_from(orr_interval *any, size_t n, orr_arena *arena,
                                 orr_interval_set *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_interval_set_union(const orr_interval_set *a, const orr_interval_set *b,
                                  orr_arena *arena, orr_interval_set *ret,
                                  orr_error *err) ORR_MUST_CHECK;
orr_status orr_interval_set_difference(const orr_interval_set *a, const orr_interval_set *b,
                                       orr_arena *arena, orr_interval_set *ret,
                                       orr_error *err) ORR_MUST_CHECK;
int64_t orr_interval_set_length(const orr_interval_set *a);
int64_t orr_interval_set_overlap(const orr_interval_set *a,
                                 const orr_interval_set *b); /* of both at once */

/* Numbers with a key, sorted by key, then id. Scratch comes from `arena` and goes back. */
typedef struct orr_keyed {
    int64_t key;
    uint32_t id;
} orr_keyed;
orr_status orr_sort_keyed(orr_keyed *items, size_t n, orr_arena *arena,
                          orr_error *err) ORR_MUST_CHECK;

/* Labels of all lanes of a graph, in `arena`: the stream number ("7"; "0:7" where the
 * graph has several devices) or the name or number of a thread. Shape (L). */
orr_status orr_lane_labels(const orr_graph *g, orr_arena *arena, const char *const **ret,
                           orr_error *err) ORR_MUST_CHECK;

/* Running statistics of durations. Mean and spread by Welford's method. */
typedef struct orr_stat {
    uint64_t count;
    int64_t sum, min, max;
    double mean, m2;
} orr_stat;
void orr_stat_add(orr_stat *stat, int64_t value);
double orr_stat_stddev(const orr_stat *stat); /* sample; 0 for fewer than two */
/* Of values[0..n), n > 0, sorted in place; rank and series are the caller's to set. */
void orr_describe(double *values, size_t n, orr_distribution *ret);
double orr_quantile(const double *sorted, size_t n, double q); /* linear; n > 0 */
int64_t orr_quantile_ns(const int64_t *sorted, size_t n, double q);
void orr_sort_doubles(double *values, size_t n);
void orr_sort_ns(int64_t *values, size_t n);
static inline double orr_frac(double part, double whole) /* 0 of nothing */
{
    return whole > 0 ? part / whole : 0;
}

/* Running an analysis over ranks. */
typedef struct orr_analysis_request {
    const orr_job *job;
    const orr_analysis_options *options; /* may be NULL */
    orr_arena *arena;
    orr_error *err;
} orr_analysis_request;
typedef struct orr_analysis_run {
    const orr_job *job;
    orr_analysis_options options; /* complete */
    orr_arena *arena;             /* of the caller: rows and their texts         */
    orr_arena *scratch;           /* taken back after each rank                  */
    orr_error *err;
    void *rows; /* so far; moves when a row is added           */
    size_t n, room, row_bytes;
} orr_analysis_run;
typedef orr_status (*orr_rank_analysis)(orr_analysis_run *frame, const orr_view *view);

/* A new zeroed row, valid until the next one; NULL: out of memory. */
void *orr_analysis_add_row(orr_analysis_run *frame);
/* Call `body` for each selected recorded rank, in order of rank, and give the rows. */
orr_status orr_analyze_ranks(const orr_analysis_request *request, size_t row_bytes,
                             orr_rank_analysis body, const void **ret_rows,
                             size_t *ret_n) ORR_MUST_CHECK;
/* The views alone: shape (n), in `arena`. */
orr_status orr_find_views(const orr_job *job, const orr_analysis_options *complete,
                          orr_arena *arena, const orr_view **ret, size_t *ret_n,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ANALYSIS_COMMON_H */
