/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_SERVICE_COUNTS_H
#define ORR_ENGINE_SERVE_SERVICE_COUNTS_H

#include <stdatomic.h>

#include "engine/serve/request.h"

/* What a service has answered, and how long it took. Threads: any. */
enum { ORR_SERVICE_CODES = 6, ORR_LATENCY_BUCKETS = 48 };

/* Latencies by size: bucket k has those below 1 us * 2^(k / 2), the last one all others, so that a
 * quantile is within 19 % (half a bucket) of what was measured. */
typedef struct orr_latencies {
    _Atomic uint64_t bucket[ORR_LATENCY_BUCKETS];
    _Atomic uint64_t n, sum_ns;
} orr_latencies;
void orr_latencies_add(orr_latencies *latencies, int64_t ns);

typedef struct orr_service_counts {
    _Atomic uint64_t taken; /* requests, whether they are answered yet or not */
    _Atomic uint64_t answers[ORR_ASK_KINDS][ORR_SERVICE_CODES];
    orr_latencies latency[ORR_ASK_KINDS];
    _Atomic uint64_t samples, lookups;
} orr_service_counts;
void orr_service_count_taken(orr_service_counts *counts);
/* An answer of a code, so long after the request came. */
void orr_service_count(orr_service_counts *counts, uint8_t kind, unsigned code, int64_t ns);
void orr_service_count_work(orr_service_counts *counts, int64_t samples, int64_t lookups);
uint64_t orr_service_counts_answered(const orr_service_counts *counts); /* with 200 */
void orr_service_counts_write(const orr_service_counts *counts, uint32_t waiting, uint32_t busy,
                              orr_output *out);

#endif /* ORR_ENGINE_SERVE_SERVICE_COUNTS_H */
