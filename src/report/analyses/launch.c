/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

/* From the host to the device: launches, operators, queues, sequences. */

#define C(field, type) ORR_COL_(orr_launch, field, type)
static const orr_column columns_cuda_kernel_launch_stats[] = {
    C(rank, U32),  C(correlation, U64),    C(call, U32),           C(work, U32),
    C(name, TEXT), C(cpu_duration_ns, NS), C(gpu_duration_ns, NS), C(launch_delay_ns, NS),
};
#undef C
ORR_RUN_(cuda_kernel_launch_stats, orr_launch, orr_analyze_launches, "Launches")

#define C(field, type) ORR_COL_(orr_launch_summary, field, type)
static const orr_column columns_launch_summary[] = {
    C(rank, U32),       C(launches, U64),       C(orphans, U64),     C(short_kernels, U64),
    C(long_calls, U64), C(long_delays, U64),    C(cpu_ns, NS),       C(gpu_ns, NS),
    C(delay_ns, NS),    C(delay_median_ns, NS), C(delay_p90_ns, NS), C(delay_max_ns, NS),
};
#undef C
ORR_RUN_(launch_summary, orr_launch_summary, orr_analyze_launch_summary, "Launches of each rank")

#define C(field, type) ORR_COL_(orr_op_kernels, field, type)
static const orr_column columns_aten_op_kernels_and_delay[] = {
    C(rank, U32),
    C(op, TEXT),
    C(kernels, TEXT),
    C(count, U64),
    C(kernel_ns, NS),
    C(mean_op_delay_ns, NS_MEAN),
    C(mean_runtime_delay_ns, NS_MEAN),
};
#undef C
ORR_RUN_(aten_op_kernels_and_delay, orr_op_kernels, orr_analyze_op_kernels,
         "Operators and their kernels")

#define C(field, type) ORR_COL_(orr_distribution, field, type)
static const orr_column columns_queue_length_summary[] = {
    C(rank, U32),   C(series, TEXT), C(count, U64),  C(mean, NUMBER), C(stddev, NUMBER),
    C(min, NUMBER), C(p25, NUMBER),  C(p50, NUMBER), C(p75, NUMBER),  C(max, NUMBER),
};
#undef C
ORR_RUN_(queue_length_summary, orr_distribution, orr_analyze_queue_length,
         "Launches waiting on each stream")

#define C(field, type) ORR_COL_(orr_series_sample, field, type)
static const orr_column columns_queue_length_time_series[] = {
    C(rank, U32),
    C(series, TEXT),
    C(at_ns, NS),
    C(value, NUMBER),
};
#undef C
ORR_RUN_(queue_length_time_series, orr_series_sample, orr_analyze_queue_length_series,
         "Launches waiting over time")

#define C(field, type) ORR_COL_(orr_blocked, field, type)
static const orr_column columns_queue_blocked[] = {
    C(rank, U32),
    C(stream, TEXT),
    C(blocked_ns, NS),
    C(frac, FRAC),
};
#undef C
ORR_RUN_(queue_blocked, orr_blocked, orr_analyze_queue_blocked, "Time with a full queue")

#define C(field, type) ORR_COL_(orr_sequence, field, type)
static const orr_column columns_frequent_cuda_kernel_sequences[] = {
    C(rank, U32), C(pattern, TEXT), C(count, U64), C(kernel_ns, NS), C(op_ns, NS),
};
#undef C
ORR_RUN_(frequent_cuda_kernel_sequences, orr_sequence, orr_analyze_sequences,
         "Frequent sequences of kernels")
