/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

/* Where device time went: breakdown, steps, kernels, idle time, annotations. */

#define C(field, type) ORR_COL_(orr_temporal, field, type)
static const orr_column columns_temporal_breakdown[] = {
    C(rank, U32),
    C(span_ns, NS),
    C(idle_ns, NS),
    C(compute_ns, NS),
    C(non_compute_ns, NS),
    C(exposed_comm_ns, NS),
    C(bubble_ns, NS),
    C(exposed_memory_ns, NS),
    C(idle_frac, FRAC),
    C(compute_frac, FRAC),
    C(non_compute_frac, FRAC),
    C(host_only, BOOL),
};
#undef C
ORR_RUN_(temporal_breakdown, orr_temporal, orr_analyze_temporal, "Where the time went")

#define C(field, type) ORR_COL_(orr_step_summary, field, type)
static const orr_column columns_profiler_steps[] = {
    C(rank, U32),      C(name, TEXT),          C(number, I32),
    C(start_ns, NS),   C(duration_ns, NS),     C(device_span_ns, NS),
    C(compute_ns, NS), C(exposed_comm_ns, NS), C(idle_ns, NS),
};
#undef C
ORR_RUN_(profiler_steps, orr_step_summary, orr_analyze_steps, "Steps")

#define C(field, type) ORR_COL_(orr_kernel_type, field, type)
static const orr_column columns_gpu_kernel_breakdown[] = {
    C(type, TEXT),
    C(sum_ns, NS),
    C(frac, FRAC),
};
#undef C
ORR_RUN_(gpu_kernel_breakdown, orr_kernel_type, orr_analyze_kernel_types, "Kinds of device work")

#define C(field, type) ORR_COL_(orr_kernel, field, type)
static const orr_column columns_gpu_kernels[] = {
    C(rank, U32),  C(name, TEXT), C(type, TEXT),       C(count, U64),         C(sum_ns, NS),
    C(max_ns, NS), C(min_ns, NS), C(mean_ns, NS_MEAN), C(stddev_ns, NS_MEAN),
};
#undef C
ORR_RUN_(gpu_kernels, orr_kernel, orr_analyze_kernels, "Top kernels")

#define C(field, type) ORR_COL_(orr_duration_bucket, field, type)
static const orr_column columns_kernel_durations[] = {
    C(rank, U32), C(type, TEXT), C(from_ns, NS), C(to_ns, NS), C(count, U64), C(sum_ns, NS),
};
#undef C
ORR_RUN_(kernel_durations, orr_duration_bucket, orr_analyze_durations, "Durations of kernels")

#define C(field, type) ORR_COL_(orr_overlap, field, type)
static const orr_column columns_comm_comp_overlap[] = {
    C(rank, U32),
    C(comm_ns, NS),
    C(overlapped_ns, NS),
    C(overlap_frac, FRAC),
};
#undef C
ORR_RUN_(comm_comp_overlap, orr_overlap, orr_analyze_overlap,
         "Communication that runs under computation")

#define C(field, type) ORR_COL_(orr_idle, field, type)
static const orr_column columns_idle_time_breakdown[] = {
    C(rank, U32), C(stream, TEXT), C(cause, TEXT), C(idle_ns, NS), C(frac, FRAC),
};
#undef C
ORR_RUN_(idle_time_breakdown, orr_idle, orr_analyze_idle, "Idle time by cause")

#define C(field, type) ORR_COL_(orr_annotation, field, type)
static const orr_column columns_user_annotations[] = {
    C(rank, U32),  C(name, TEXT), C(on_device, BOOL),  C(count, U64),         C(sum_ns, NS),
    C(max_ns, NS), C(min_ns, NS), C(mean_ns, NS_MEAN), C(stddev_ns, NS_MEAN), C(kernel_ns, NS),
};
#undef C
ORR_RUN_(user_annotations, orr_annotation, orr_analyze_annotations, "Annotations")
