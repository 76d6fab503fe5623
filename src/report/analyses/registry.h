/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_ANALYSES_REGISTRY_H
#define ORR_REPORT_ANALYSES_REGISTRY_H

#include <orrery/report.h>

/* The registry in the order of a report: X(name, one row an event?, one line about it).
 * A file a family (analyses/time.c, ...) describes the columns and defines orr_run_<name>(). */
#define ORR_ANALYSIS_MAP(X)                                                                        \
    X(temporal_breakdown, 0, "span of each rank: idle, computing, communicating in the open")      \
    X(profiler_steps, 0, "each step: its length, and what its device work did")                    \
    X(gpu_kernel_breakdown, 0, "computation, communication, memory: alone and overlapping")        \
    X(gpu_kernels, 0, "the kernels that take most time, by type and rank")                         \
    X(kernel_durations, 0, "how long kernels run: counts by power-of-two bucket")                  \
    X(comm_comp_overlap, 0, "how much of it computation hides")                                    \
    X(idle_time_breakdown, 0, "idle time of each stream by cause")                                 \
    X(cuda_kernel_launch_stats, 1, "every launch: call, work and the delay between")               \
    X(launch_summary, 0, "launches of each rank: short kernels, long calls, delays")               \
    X(aten_op_kernels_and_delay, 0, "operators, the kernels under them, and the way there")        \
    X(queue_length_summary, 0, "how many launches wait on each stream")                            \
    X(queue_length_time_series, 1, "launches that wait, at every change")                          \
    X(queue_blocked, 0, "time in which a stream could take no more launches")                      \
    X(memory_bw_summary, 0, "bandwidth of copies by kind")                                         \
    X(memory_bw_time_series, 1, "bandwidth of copies, at every change")                            \
    X(memory_timeline, 1, "memory held, at every allocation")                                      \
    X(memory_summary, 0, "allocations, peak and end of the caching allocator")                     \
    X(frequent_cuda_kernel_sequences, 0, "runs of kernels that recur under one operator")          \
    X(user_annotations, 0, "time inside the annotations of the program")                           \
    X(potential_stragglers, 0, "the ranks that the others wait for")                               \
    X(critical_path, 0, "what bounds its time, by class")                                          \
    X(critical_path_pieces, 1, "every piece of the critical path of a rank")                       \
    X(critical_path_across_ranks, 0, "through all ranks: time by rank, name and bound")            \
    X(collectives, 1, "every matched collective: arrival skew and bandwidth")                      \
    X(collective_summary, 0, "arrival skew, algbw and busbw, by kind, group and size")             \
    X(exposed_communication, 0, "by rank and process group, and its share of all communication")   \
    X(slow_workers, 1,                                                                             \
      "what the job would take if a rank or stage were like its peers: simulated")                 \
    X(operator_rates, 1, "FLOP/s and bytes/s by operator and shape, beside the device's roofline") \
    X(operator_tree, 1, "operators by call path: time of the host and of the kernels below")       \
    X(phase_bounds, 1, "forward, backward, optimizer, communication: bound by host or device")

#define ORR_ANALYSIS_DECLARE_(name, series, about)                                                 \
    orr_status orr_run_##name(const orr_job *job, const orr_analysis_options *options,             \
                              orr_arena *arena, orr_table *ret, orr_error *err) ORR_MUST_CHECK;
ORR_ANALYSIS_MAP(ORR_ANALYSIS_DECLARE_)
#undef ORR_ANALYSIS_DECLARE_

/* ORR_COL_(orr_temporal, rank, U32): a column named after its field, of a type that
 * the compiler checks against the field's. */
#define ORR_COL_(row, field, type) ORR_COL_AS_(row, field, type, #field)
/* The same under another name. */
#define ORR_COL_AS_(row, field, type, name)                                                        \
    {                                                                                              \
        name, ORR_COLUMN_##type,                                                                   \
            offsetof(row, field) +                                                                 \
                0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((row *)0)->field),        \
                                                             orr_column_c_##type)                  \
                                    ? 1                                                            \
                                    : -1])                                                         \
    }
#define ORR_COLUMN_TYPEDEF_(name, type) typedef type orr_column_c_##name;
ORR_COLUMN_MAP(ORR_COLUMN_TYPEDEF_)
#undef ORR_COLUMN_TYPEDEF_

/* What makes a table of the rows that a function of <orrery/analysis.h> gives. */
#define ORR_TABLE_(schema_, title_, columns_, rows_, n_)                                           \
    ((orr_table){.schema = (schema_),                                                              \
                 .title = (title_),                                                                \
                 .columns = (columns_),                                                            \
                 .n_columns = sizeof(columns_) / sizeof(columns_)[0],                              \
                 .rows = (rows_),                                                                  \
                 .row_bytes = sizeof *(rows_),                                                     \
                 .n_rows = (n_)})

/* Defines orr_run_<name>(): `analyze` gives rows of type `row`, columns_<name>[] describes them. */
#define ORR_RUN_(name, row, analyze, title)                                                        \
    orr_status orr_run_##name(const orr_job *job, const orr_analysis_options *options,             \
                              orr_arena *arena, orr_table *ret, orr_error *err)                    \
    {                                                                                              \
        const row *rows = NULL;                                                                    \
        size_t n = 0;                                                                              \
        ORR_TRY(analyze(job, options, arena, &rows, &n, err));                                     \
        *ret = ORR_TABLE_("orrery." #name "/1", title, columns_##name, rows, n);                   \
        return ORR_OK;                                                                             \
    }

#endif /* ORR_REPORT_ANALYSES_REGISTRY_H */
