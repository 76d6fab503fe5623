/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ANALYSIS_H
#define ORR_ANALYSIS_H

#include <orrery/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a job says about itself: where did the time go.
 *
 * Every analysis reads a frozen job and gives an array of plain rows that lives in the
 * arena of the caller:
 *
 *   const orr_temporal *rows; size_t n;
 *   ORR_TRY(orr_analyze_temporal(job, NULL, arena, &rows, &n, err));
 *
 * `options` may be NULL. Outputs are written only on success; a job that has
 * nothing to say gives n = 0, which is no error. Names in rows point into the graphs
 * and live as long as the job. Errors: NO_MEMORY, and those named. Any number of
 * threads may analyse one job, each with its own arena.
 *
 * Terms. Device work: nodes of kind COMPUTE..SYNC on a stream. Where a rank was recorded
 * without a device, its executing nodes take that place: collectives on any lane
 * and the outermost host operators of each thread that do not communicate (of those that do,
 * the operators inside: what else they do is waiting); rows say so in `host_only`.
 * The window: step_first and step_last count the instances of the annotation from 0. Host
 * nodes are in it by their start; device work where the call that launched it is, so that work
 * which no recorded call launched is left out as soon as there is a window.
 * Communication: COLLECTIVE, SEND, RECV. Memory: COPY, SET. Computation: COMPUTE.
 * Sources of the definitions: HolisticTraceAnalysis, whose names are kept. */

typedef struct orr_analysis_options {
    size_t struct_bytes;           /* set by orr_analysis_options_init()                   */
    uint32_t rank;                 /* only this rank; ORR_NONE: all (default)              */
    const char *annotation;        /* what bounds a step; default "ProfilerStep"           */
    int32_t step_first, step_last; /* only these instances of it; -1: all (default)      */
    int64_t kernel_wait_ns;        /* gap under which idle time is KERNEL_WAIT; 30 us      */

    int64_t runtime_cutoff_ns;      /* launch statistics: long runtime call; 50 us          */
    int64_t launch_delay_cutoff_ns; /* launch statistics: long delay; 100 us             */
    uint32_t queue_length_max;      /* launches a stream can hold; 1024                     */
    uint32_t top_kernels;           /* kernels named before "others"; 10; 0: all            */
    double top_duration_frac;       /* ... or until they make up this much; 0.8             */
    const char *operator_name;      /* frequent sequences: under operators of that name     */
    uint32_t sequence_min;          /* shortest pattern; 3                                  */
    uint32_t sequence_top;          /* patterns reported; 5                                 */
    uint32_t straggler_count;       /* ranks reported; 2                                    */
    bool path_hta;                  /* critical path of one rank by HTA's rules; false      */
} orr_analysis_options;
ORR_API void orr_analysis_options_init(orr_analysis_options *options);

/* Temporal breakdown: one row a rank. idle + compute + non_compute = kernel span; the
 * span runs from the first device work to the end of the last. compute: some
 * computation runs; non_compute: only communication or memory does. A bubble is what it is in
 * <orrery/outcome.h>: a rank does not compute, for a communication of it waits for a peer that has
 * not begun. It is a part of the exposed communication, of which the rest is transfer. */
typedef struct orr_temporal {
    uint32_t rank;
    bool host_only;
    int64_t span_ns, idle_ns, compute_ns, non_compute_ns;
    int64_t exposed_comm_ns;   /* communication runs and computation does not */
    int64_t exposed_memory_ns; /* only memory runs                            */
    int64_t bubble_ns;         /* of exposed_comm_ns: waiting for a peer      */
    double idle_frac, compute_frac, non_compute_frac;
} orr_temporal;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_temporal(const orr_job *job,
                                                       const orr_analysis_options *options,
                                                       orr_arena *arena,
                                                       const orr_temporal **ret_rows, size_t *ret_n,
                                                       orr_error *err);

/* Steps: instances of the step annotation, a row each. */
typedef struct orr_step_summary {
    uint32_t rank;
    const char *name;
    int32_t number;                /* of "ProfilerStep#3"; -1 when there is none */
    int64_t start_ns, duration_ns; /* start on the job's axis */
    int64_t device_span_ns, compute_ns, exposed_comm_ns, idle_ns; /* of work it launched */
} orr_step_summary;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_steps(const orr_job *job,
                                                    const orr_analysis_options *options,
                                                    orr_arena *arena,
                                                    const orr_step_summary **ret_rows,
                                                    size_t *ret_n, orr_error *err);

/* Kernel types, alone and overlapping, summed over ranks:
 * "COMPUTATION", "COMMUNICATION", "COMPUTATION overlapping COMMUNICATION", ... */
typedef struct orr_kernel_type {
    const char *type;
    int64_t sum_ns;
    double frac; /* of all */
} orr_kernel_type;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_kernel_types(const orr_job *job,
                                                           const orr_analysis_options *options,
                                                           orr_arena *arena,
                                                           const orr_kernel_type **ret_rows,
                                                           size_t *ret_n, orr_error *err);

/* Kernel breakdown: one row a kernel name, type and rank, most time first within a type and
 * rank. Named are at most top_kernels, and no more than make up top_duration_frac. */
typedef struct orr_kernel {
    uint32_t rank;
    const char *name; /* "others" sums up the tail */
    const char *type; /* "COMPUTATION", "COMMUNICATION", "MEMORY" */
    uint64_t count;
    int64_t sum_ns, max_ns, min_ns;
    double mean_ns, stddev_ns; /* sample standard deviation, 0 for one */
} orr_kernel;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_kernels(const orr_job *job,
                                                      const orr_analysis_options *options,
                                                      orr_arena *arena, const orr_kernel **ret_rows,
                                                      size_t *ret_n, orr_error *err);

/* Distribution of the durations of each type of kernel: counts by power-of-two bucket. */
typedef struct orr_duration_bucket {
    uint32_t rank;
    const char *type;
    int64_t from_ns, to_ns; /* from <= duration < to */
    uint64_t count;
    int64_t sum_ns;
} orr_duration_bucket;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_durations(const orr_job *job,
                                                        const orr_analysis_options *options,
                                                        orr_arena *arena,
                                                        const orr_duration_bucket **ret_rows,
                                                        size_t *ret_n, orr_error *err);

/* Communication that runs under computation, as a share of communication. */
typedef struct orr_overlap {
    uint32_t rank;
    int64_t comm_ns, overlapped_ns;
    double overlap_frac; /* 0 where there is no communication, never NaN */
} orr_overlap;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_overlap(const orr_job *job,
                                                      const orr_analysis_options *options,
                                                      orr_arena *arena,
                                                      const orr_overlap **ret_rows, size_t *ret_n,
                                                      orr_error *err);

/* Idle time of each stream by cause: "host_wait" (the host launched the next work after the
 * previous had ended), "kernel_wait" (a gap shorter than kernel_wait_ns), "other". Each stream has
 * a row of each cause. A rank without a device has no streams, and no rows. */
typedef struct orr_idle {
    uint32_t rank;
    const char *stream; /* "7", or "0:7" with several devices */
    const char *cause;
    int64_t idle_ns;
    double frac; /* of the stream's idle time */
} orr_idle;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_idle(const orr_job *job,
                                                   const orr_analysis_options *options,
                                                   orr_arena *arena, const orr_idle **ret_rows,
                                                   size_t *ret_n, orr_error *err);

/* Launch statistics: a row a pair of runtime call and the device work of its correlation. */
typedef struct orr_launch {
    uint32_t rank;
    uint64_t correlation;
    orr_node_id call, work;
    const char *name; /* of the device work */
    int64_t cpu_duration_ns, gpu_duration_ns, launch_delay_ns;
} orr_launch;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_launches(const orr_job *job,
                                                       const orr_analysis_options *options,
                                                       orr_arena *arena,
                                                       const orr_launch **ret_rows, size_t *ret_n,
                                                       orr_error *err);
/* The same in one row a rank. */
typedef struct orr_launch_summary {
    uint32_t rank;
    uint64_t launches, orphans;       /* orphan: device work without a call          */
    uint64_t short_kernels;           /* device work shorter than its call           */
    uint64_t long_calls, long_delays; /* over the cutoffs of the options             */
    int64_t cpu_ns, gpu_ns, delay_ns; /* sums                                        */
    int64_t delay_median_ns, delay_p90_ns, delay_max_ns;
} orr_launch_summary;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_launch_summary(const orr_job *job,
                                                             const orr_analysis_options *options,
                                                             orr_arena *arena,
                                                             const orr_launch_summary **ret_rows,
                                                             size_t *ret_n, orr_error *err);

/* Operators and the kernels under them: a row an operator name and sequence of kernels.
 * op_delay: operator start to launch call; runtime_delay: launch call to kernel start. */
typedef struct orr_op_kernels {
    uint32_t rank;
    const char *op;
    const char *kernels; /* names joined by " -> " in order of launch; in the arena */
    uint64_t count;
    double mean_op_delay_ns, mean_runtime_delay_ns;
    int64_t kernel_ns; /* sum of durations */
} orr_op_kernels;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_op_kernels(const orr_job *job,
                                                         const orr_analysis_options *options,
                                                         orr_arena *arena,
                                                         const orr_op_kernels **ret_rows,
                                                         size_t *ret_n, orr_error *err);

/* Distribution of a series, as pandas' describe() gives it; of queue length per stream and of
 * memory bandwidth per copy kind. Quantiles interpolate linearly. */
typedef struct orr_distribution {
    uint32_t rank;
    const char *series; /* stream, or "Memcpy DtoD" */
    uint64_t count;
    double mean, stddev, min, p25, p50, p75, max;
} orr_distribution;
/* Launches queued on each stream: +1 at each launch call, -1 at the start of the (first) device
 * work that it launched there; a graph is one launch. */
ORR_API ORR_MUST_CHECK orr_status orr_analyze_queue_length(const orr_job *job,
                                                           const orr_analysis_options *options,
                                                           orr_arena *arena,
                                                           const orr_distribution **ret_rows,
                                                           size_t *ret_n, orr_error *err);
/* Memory bandwidth, bytes/s, of copies by kind, as recorded or as bytes over duration: the sum
 * over the copies that run at once, at each moment at which it changes. */
ORR_API ORR_MUST_CHECK orr_status orr_analyze_memory_bandwidth(const orr_job *job,
                                                               const orr_analysis_options *options,
                                                               orr_arena *arena,
                                                               const orr_distribution **ret_rows,
                                                               size_t *ret_n, orr_error *err);
/* A point of such a series. */
typedef struct orr_series_sample {
    uint32_t rank;
    const char *series;
    int64_t at_ns; /* on the job's axis */
    double value;
} orr_series_sample;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_queue_length_series(
    const orr_job *job, const orr_analysis_options *options, orr_arena *arena,
    const orr_series_sample **ret_rows, size_t *ret_n, orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_analyze_memory_bandwidth_series(
    const orr_job *job, const orr_analysis_options *options, orr_arena *arena,
    const orr_series_sample **ret_rows, size_t *ret_n, orr_error *err);
/* Time at which each stream had queue_length_max launches waiting. */
typedef struct orr_blocked {
    uint32_t rank;
    const char *stream;
    int64_t blocked_ns;
    double frac; /* of the stream's span */
} orr_blocked;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_queue_blocked(const orr_job *job,
                                                            const orr_analysis_options *options,
                                                            orr_arena *arena,
                                                            const orr_blocked **ret_rows,
                                                            size_t *ret_n, orr_error *err);

/* Memory timeline from the allocator's events: a sample an event, bytes allocated, series
 * "cuda:0 allocated" and "cuda:0 reserved"; and its summary. */
ORR_API ORR_MUST_CHECK orr_status orr_analyze_memory_series(const orr_job *job,
                                                            const orr_analysis_options *options,
                                                            orr_arena *arena,
                                                            const orr_series_sample **ret_rows,
                                                            size_t *ret_n, orr_error *err);
typedef struct orr_memory_summary {
    uint32_t rank;
    const char *device;
    uint64_t allocations, frees;
    int64_t peak_allocated_bytes, peak_reserved_bytes; /* -1: not recorded */
    int64_t peak_at_ns;
    int64_t start_allocated_bytes, end_allocated_bytes;
} orr_memory_summary;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_memory(const orr_job *job,
                                                     const orr_analysis_options *options,
                                                     orr_arena *arena,
                                                     const orr_memory_summary **ret_rows,
                                                     size_t *ret_n, orr_error *err);

/* Frequent sequences of kernels under one operator name: under the outermost operators whose name
 * holds `operator_name`; NULL: under all outermost operators. Most frequent first. */
typedef struct orr_sequence {
    uint32_t rank;
    const char *pattern; /* "op|kernel|kernel|..." in the arena */
    uint64_t count;
    int64_t kernel_ns, op_ns;
} orr_sequence;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_sequences(const orr_job *job,
                                                        const orr_analysis_options *options,
                                                        orr_arena *arena,
                                                        const orr_sequence **ret_rows,
                                                        size_t *ret_n, orr_error *err);

/* Annotations: device time by the innermost annotation that launched it, and
 * duration of the recording's own device annotations. */
typedef struct orr_annotation {
    uint32_t rank;
    const char *name;
    bool on_device; /* a gpu_user_annotation of the recording */
    uint64_t count;
    int64_t sum_ns, max_ns, min_ns;
    double mean_ns, stddev_ns;
    int64_t kernel_ns; /* of device work launched inside; 0 when on_device */
} orr_annotation;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_annotations(const orr_job *job,
                                                          const orr_analysis_options *options,
                                                          orr_arena *arena,
                                                          const orr_annotation **ret_rows,
                                                          size_t *ret_n, orr_error *err);

/* Ranks that others wait for, worst first: those that spend least time in communication. n = 0
 * where fewer than two ranks were recorded or none communicates; straggler_count 0: all. */
typedef struct orr_straggler {
    uint32_t rank;
    int64_t comm_ns;
    int64_t late_ns; /* sum over matched collectives of arrival after the median member */
    double score;    /* (median comm - comm) / median comm */
} orr_straggler;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_stragglers(const orr_job *job,
                                                         const orr_analysis_options *options,
                                                         orr_arena *arena,
                                                         const orr_straggler **ret_rows,
                                                         size_t *ret_n, orr_error *err);

/* Critical path of one rank (or, with across ranks, of the job): the chain of nodes and waits
 * that sets the end, found by walking backward from what ends last, always to what was waited
 * for longest: on a host thread to what ran before, or, where a call waited for device work or
 * another thread handed over later than that, there; at the start of device work to the
 * latest of its launch, of its stream and of the events it waited for; in a matched
 * communication to its last arrival. It rests on recorded times and on the dependencies of
 * the graph. Where these know no cause, work that began within kernel_wait_ns of the end of
 * other work of its device is taken to have waited for that, a thread that was silent until just
 * after another's communication for that; other time is of bound NONE.
 *
 * With options->path_hta the rules are HolisticTraceAnalysis', to compare with it: the longest path
 * through recorded work, in which host time between outermost operators, waiting calls and
 * synchronisation weigh nothing, a launch is tied to its kernel only when the queue was empty
 * until the kernel began, and kernels more than 1 ms apart are not tied at all. What that path
 * leaves out of the window, and its edges without weight, are of bound NONE.
 *
 * Bounds, as HTA classes them; MEMORY is part of HTA's compute, PEER (a matched communication
 * before its last arrival) of its communication: */
#define ORR_BOUND_MAP(X)                                                                           \
    X(CPU, "cpu_bound")                                                                            \
    X(HOST_GAP, "between_operators")                                                               \
    X(COMPUTE, "gpu_compute_bound")                                                                \
    X(COMMUNICATION, "gpu_communication_bound")                                                    \
    X(MEMORY, "gpu_memory_bound")                                                                  \
    X(KERNEL_GAP, "gpu_kernel_kernel_overhead")                                                    \
    X(LAUNCH, "gpu_kernel_launch_overhead")                                                        \
    X(DATA_LOADING, "data_loading")                                                                \
    X(PEER, "waiting_for_peer")                                                                    \
    X(NONE, "none")
typedef enum orr_bound {
#define ORR_BOUND_ENUM_(name, text) ORR_BOUND_##name,
    ORR_BOUND_MAP(ORR_BOUND_ENUM_)
#undef ORR_BOUND_ENUM_
        ORR_BOUNDS
} orr_bound;
ORR_API const char *orr_bound_name(orr_bound bound);

/* A piece of the path: time [from, to) on the job's axis, spent in a node or in the wait
 * before it. */
typedef struct orr_path_piece {
    uint32_t rank;
    uint32_t graph;
    orr_node_id node;
    const char *name;
    uint8_t bound; /* orr_bound */
    bool wait;     /* a launch delay, a gap, a wait for a peer; not the node itself */
    int64_t from_ns, to_ns;
} orr_path_piece;
typedef struct orr_critical_path {
    const orr_path_piece *pieces; /* shape (n_pieces), by time, without gaps or overlap */
    size_t n_pieces;
    int64_t start_ns, end_ns;     /* what it explains */
    int64_t bound_ns[ORR_BOUNDS]; /* sums to end - start */
    size_t n_nodes, n_edges;      /* of the graph that it was found in (two points a node) */
} orr_critical_path;
/* Of one rank (options->rank; ORR_NONE: the lowest recorded), within instances of the step
 * annotation (step_first..step_last; -1: all that was recorded), with device work launched there
 * that ends later. Errors: NOT_FOUND (no such rank or step). */
ORR_API ORR_MUST_CHECK orr_status orr_analyze_critical_path(const orr_job *job,
                                                            const orr_analysis_options *options,
                                                            orr_arena *arena,
                                                            orr_critical_path *ret, orr_error *err);
/* Across ranks: through matched collectives to the member that arrived last. options->rank
 * and path_hta do not count. Errors: NOT_FOUND (no rank has the step). */
ORR_API ORR_MUST_CHECK orr_status orr_analyze_critical_path_job(const orr_job *job,
                                                                const orr_analysis_options *options,
                                                                orr_arena *arena,
                                                                orr_critical_path *ret,
                                                                orr_error *err);
/* Who the path runs through: sums by rank, name and bound, most first. */
typedef struct orr_path_share {
    uint32_t rank;
    const char *name;
    const char *bound;
    uint64_t count;
    int64_t sum_ns;
    double frac; /* of the path */
} orr_path_share;
ORR_API ORR_MUST_CHECK orr_status orr_critical_path_shares(const orr_critical_path *path,
                                                           orr_arena *arena,
                                                           const orr_path_share **ret_rows,
                                                           size_t *ret_n, orr_error *err);

/* Each matched collective: arrival skew, and bandwidth over the time from the last arrival.
 * Communication without a partner in the job has a row too: one member, no skew.
 * algbw = max(in, out) bytes / transfer; busbw = algbw x factor: all_reduce 2(n-1)/n; all_gather,
 * all_to_all, reduce_scatter, gather, scatter (n-1)/n; else 1. (Source: NCCL tests, PARAM.) */
typedef struct orr_collective_row {
    const char *collective;       /* "all_reduce" */
    const char *group;            /* description or name; "" not known */
    const char *name;             /* of the kernel, on the first member */
    uint32_t members, group_size; /* recorded; of the group, 0 unknown */
    int64_t start_ns;             /* first arrival, on the job's axis */
    int64_t duration_ns;          /* first arrival to last end */
    int64_t skew_ns;              /* last arrival - first arrival */
    int64_t transfer_ns;          /* last arrival to last end: what the network took */
    uint32_t last_rank;           /* who arrived last */
    int64_t bytes;                /* max(in, out) of a member; -1 unknown */
    double algbw_bytes_per_s, busbw_bytes_per_s; /* 0 unknown */
} orr_collective_row;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_collectives(const orr_job *job,
                                                          const orr_analysis_options *options,
                                                          orr_arena *arena,
                                                          const orr_collective_row **ret_rows,
                                                          size_t *ret_n, orr_error *err);
/* The same summed by collective, group and size in bytes. */
typedef struct orr_collective_summary {
    const char *collective, *group;
    uint32_t group_size;
    uint64_t count;
    int64_t bytes; /* each; -1 unknown */
    int64_t sum_ns, skew_sum_ns, skew_max_ns;
    double transfer_mean_ns, algbw_bytes_per_s, busbw_bytes_per_s; /* medians */
} orr_collective_summary;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_collective_summary(
    const orr_job *job, const orr_analysis_options *options, orr_arena *arena,
    const orr_collective_summary **ret_rows, size_t *ret_n, orr_error *err);

/* Communication of each process group that no computation hides, a row a rank and group. Time in
 * which two communications of a group run at once counts once. */
typedef struct orr_exposed {
    uint32_t rank;
    const char *group;
    uint64_t count;
    int64_t comm_ns, exposed_ns;
    int64_t bytes; /* sum, where known */
    double exposed_frac;
} orr_exposed;
ORR_API ORR_MUST_CHECK orr_status orr_analyze_exposed(const orr_job *job,
                                                      const orr_analysis_options *options,
                                                      orr_arena *arena,
                                                      const orr_exposed **ret_rows, size_t *ret_n,
                                                      orr_error *err);

/* Diff of two jobs by name of operator or kernel: added, deleted, changed. */
typedef struct orr_diff_row {
    const char *name;
    bool on_device;
    const char *change; /* "added", "deleted", "increased", "decreased", "unchanged" (by count) */
    uint64_t count_a, count_b;
    int64_t sum_a_ns, sum_b_ns; /* of device time, or of host time outside children */
    int64_t delta_ns;           /* b - a */
} orr_diff_row;
/* Rows by the size of delta, largest first. Jobs of different numbers of ranks and steps are
 * compared per rank and per step when `normalise` is set: counts stay sums, times are divided. */
ORR_API ORR_MUST_CHECK orr_status orr_analyze_diff(const orr_job *a, const orr_job *b,
                                                   const orr_analysis_options *options,
                                                   bool normalise, orr_arena *arena,
                                                   const orr_diff_row **ret_rows, size_t *ret_n,
                                                   orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_ANALYSIS_H */
