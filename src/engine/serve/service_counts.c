/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/service_counts.h"

#include <math.h>

#include "engine/serve/metrics.h"

static const unsigned CODES[ORR_SERVICE_CODES] = {200, 400, 409, 413, 500, 503};

static double bound_ns(int bucket)
{
    return 1000 * exp2(bucket / 2.0);
}

static int bucket_of(int64_t ns)
{
    int k = 0;
    while (k < ORR_LATENCY_BUCKETS - 1 && (double)ns >= bound_ns(k))
        k++;
    return k;
}

void orr_latencies_add(orr_latencies *l, int64_t ns)
{
    atomic_fetch_add_explicit(&l->bucket[bucket_of(ns)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&l->n, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&l->sum_ns, (uint64_t)(ns > 0 ? ns : 0), memory_order_relaxed);
}

void orr_service_count_taken(orr_service_counts *c)
{
    atomic_fetch_add_explicit(&c->taken, 1, memory_order_relaxed);
}

void orr_service_count(orr_service_counts *c, uint8_t kind, unsigned code, int64_t ns)
{
    for (int i = 0; i < ORR_SERVICE_CODES; i++)
        if (CODES[i] == code)
            atomic_fetch_add_explicit(&c->answers[kind][i], 1, memory_order_relaxed);
    if (code == 200)
        orr_latencies_add(&c->latency[kind], ns);
}

void orr_service_count_work(orr_service_counts *c, int64_t samples, int64_t lookups)
{
    atomic_fetch_add_explicit(&c->samples, (uint64_t)samples, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->lookups, (uint64_t)lookups, memory_order_relaxed);
}

uint64_t orr_service_counts_answered(const orr_service_counts *c)
{
    uint64_t n = 0;
    for (int kind = 0; kind < ORR_ASK_KINDS; kind++)
        n += atomic_load_explicit(&c->answers[kind][0], memory_order_relaxed);
    return n;
}

static void write_latency(const orr_latencies *l, const char *kind, orr_output *out)
{
    static const char NAME[] = "orrery_serve_latency_seconds";
    uint64_t sum = 0;
    for (int k = 0; k < ORR_LATENCY_BUCKETS - 1; k++) {
        sum += atomic_load_explicit(&l->bucket[k], memory_order_relaxed);
        orr_output_printf(out, "%s_bucket{kind=\"%s\",le=\"%.9g\"} %llu\n", NAME, kind,
                          bound_ns(k) * 1e-9, (unsigned long long)sum);
    }
    sum += atomic_load_explicit(&l->bucket[ORR_LATENCY_BUCKETS - 1], memory_order_relaxed);
    orr_output_printf(out, "%s_bucket{kind=\"%s\",le=\"+Inf\"} %llu\n", NAME, kind,
                      (unsigned long long)sum);
    orr_output_printf(out, "%s_sum{kind=\"%s\"} %.9g\n%s_count{kind=\"%s\"} %llu\n", NAME, kind,
                      (double)atomic_load_explicit(&l->sum_ns, memory_order_relaxed) * 1e-9, NAME,
                      kind, (unsigned long long)sum);
}

void orr_service_counts_write(const orr_service_counts *c, uint32_t waiting, uint32_t busy,
                              orr_output *out)
{
    orr_metric_head(out, "orrery_serve_queue_depth", "gauge", "Requests that wait for a thread.");
    orr_metric(out, "orrery_serve_queue_depth", NULL, waiting);
    orr_metric_head(out, "orrery_serve_busy_threads", "gauge", "Requests that are worked on.");
    orr_metric(out, "orrery_serve_busy_threads", NULL, busy);
    orr_metric_head(out, "orrery_serve_taken_total", "counter",
                    "Requests that were taken into the queue; each is answered.");
    orr_metric(out, "orrery_serve_taken_total", NULL,
               (double)atomic_load_explicit(&c->taken, memory_order_relaxed));
    orr_metric_head(out, "orrery_serve_requests_total", "counter",
                    "Requests by kind and by the code of their answer.");
    for (int kind = 0; kind < ORR_ASK_KINDS; kind++)
        for (int i = 0; i < ORR_SERVICE_CODES; i++)
            orr_output_printf(out, "orrery_serve_requests_total{kind=\"%s\",code=\"%u\"} %llu\n",
                              orr_ask_kind_name((orr_ask_kind)kind), CODES[i],
                              (unsigned long long)atomic_load_explicit(&c->answers[kind][i],
                                                                       memory_order_relaxed));
    orr_metric_head(out, "orrery_serve_samples_total", "counter", "Samples answered.");
    orr_metric(out, "orrery_serve_samples_total", NULL,
               (double)atomic_load_explicit(&c->samples, memory_order_relaxed));
    orr_metric_head(out, "orrery_serve_lookups_total", "counter", "Lookups answered.");
    orr_metric(out, "orrery_serve_lookups_total", NULL,
               (double)atomic_load_explicit(&c->lookups, memory_order_relaxed));
    orr_metric_head(out, "orrery_serve_latency_seconds", "histogram",
                    "From a whole request to its answer, of those answered with 200.");
    for (int kind = 0; kind < ORR_ASK_KINDS; kind++)
        write_latency(&c->latency[kind], orr_ask_kind_name((orr_ask_kind)kind), out);
}
