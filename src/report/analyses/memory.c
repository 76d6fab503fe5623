/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

/* Memory: what is held, and how fast it is copied. */

#define C(field, type) ORR_COL_(orr_memory_summary, field, type)
static const orr_column columns_memory_summary[] = {
    C(rank, U32),
    C(device, TEXT),
    C(allocations, U64),
    C(frees, U64),
    C(peak_allocated_bytes, BYTES),
    C(peak_reserved_bytes, BYTES),
    C(peak_at_ns, NS),
    C(start_allocated_bytes, BYTES),
    C(end_allocated_bytes, BYTES),
};
#undef C
ORR_RUN_(memory_summary, orr_memory_summary, orr_analyze_memory, "Memory held")

#define C(field, type) ORR_COL_(orr_series_sample, field, type)
static const orr_column columns_memory_timeline[] = {
    C(rank, U32),
    C(series, TEXT),
    C(at_ns, NS),
    C(value, NUMBER),
};
#undef C
ORR_RUN_(memory_timeline, orr_series_sample, orr_analyze_memory_series, "Memory held over time")

#define C(field, type) ORR_COL_(orr_distribution, field, type)
static const orr_column columns_memory_bw_summary[] = {
    C(rank, U32),           C(series, TEXT),     C(count, U64),       C(mean, BYTES_PER_S),
    C(stddev, BYTES_PER_S), C(min, BYTES_PER_S), C(p25, BYTES_PER_S), C(p50, BYTES_PER_S),
    C(p75, BYTES_PER_S),    C(max, BYTES_PER_S),
};
#undef C
ORR_RUN_(memory_bw_summary, orr_distribution, orr_analyze_memory_bandwidth, "Bandwidth of copies")

#define C(field, type) ORR_COL_(orr_series_sample, field, type)
static const orr_column columns_memory_bw_time_series[] = {
    C(rank, U32),
    C(series, TEXT),
    C(at_ns, NS),
    C(value, BYTES_PER_S),
};
#undef C
ORR_RUN_(memory_bw_time_series, orr_series_sample, orr_analyze_memory_bandwidth_series,
         "Bandwidth of copies over time")
