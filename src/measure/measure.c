/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/measure.h>

#include <string.h>
#include <time.h>

#include "base/parallel_for.h"
#include "measure/embedding_tables.h"
#include "measure/kernels.h"
#include "measure/machine.h"

enum { RANKS_DEFAULT = 4, KERNELS_MAX = 8192, WHEN_CHARS = 32 };
#define LEAST_NS       4000000
#define LEAST_QUICK_NS 500000
#define ROOM_BYTES     ((size_t)256 << 20) /* of the operands of the largest call */

typedef struct measuring {
    const orr_measure_options *options;
    orr_timing timing;
    orr_measured_kernel *kernels;
    uint32_t n, expected;
    orr_measured_table tables[2 * ORR_TABLE_RATES_MAX];
    uint32_t n_tables;
    double done; /* share of the work done before this round's kernels */
    double share;
} measuring;

static void report_progress(const measuring *m, double part)
{
    if (m->options->told != NULL)
        m->options->told(m->options->ctx, "kernels", m->done + m->share * part);
}

static orr_status count_call(void *ctx, const orr_timed_call *call, bool cold, orr_error *err)
{
    (void)call, (void)cold, (void)err;
    ++*(uint32_t *)ctx;
    return ORR_OK;
}

/* Kernels that the backend lacks are not measured. */
static orr_status time_call(void *ctx, const orr_timed_call *call, bool cold, orr_error *err)
{
    measuring *m = ctx;
    if (m->timing.backend->entries[call->op].run == NULL || m->n == KERNELS_MAX)
        return ORR_OK;
    ORR_TRY(orr_time_call(&m->timing, call, cold, &m->kernels[m->n], err));
    m->n++;
    report_progress(m, (double)m->n / (double)(m->expected > 0 ? m->expected : 1));
    return ORR_OK;
}

static orr_status time_kernels(measuring *m, int threads, orr_error *err)
{
    orr_workers *workers;
    ORR_TRY(orr_workers_new(threads, &workers, err));
    m->timing.workers = workers;
    m->timing.threads = (uint32_t)orr_workers_count(workers);
    orr_status status = orr_list_timed_calls(m->options->quick, time_call, m, err);
    if (status == ORR_OK)
        status =
            orr_measure_table_rates(&m->timing, m->options->quick, m->tables, &m->n_tables, err);
    orr_workers_free(workers);
    return status;
}

static double best_product(const orr_measured *m, orr_dtype dtype)
{
    double best = 0;
    for (uint32_t i = 0; i < m->n_kernels; i++) {
        const orr_measured_kernel *k = &m->kernels[i];
        const double rate = k->ns > 0 ? k->flops * 1e9 / (double)k->ns : 0;
        if (k->op == ORR_OP_MATMUL && k->dtype == dtype && rate > best)
            best = rate;
    }
    return best;
}

static orr_status bandwidth(measuring *m, orr_measured *ret, orr_error *err)
{
    orr_workers *workers;
    ORR_TRY(orr_workers_new(m->options->threads, &workers, err));
    const orr_status status = orr_measure_memory(workers, ret->cache_bytes, &ret->read_bytes_per_s,
                                                 &ret->copy_bytes_per_s, err);
    orr_workers_free(workers);
    return status;
}

static orr_status describe(orr_backend *backend, orr_arena *arena, orr_measured *ret,
                           orr_error *err)
{
    const time_t now = time(NULL);
    struct tm utc;
    char when[WHEN_CHARS] = "";
    const char *comma = strrchr(backend->description, ',');
    const size_t n =
        comma != NULL ? (size_t)(comma - backend->description) : strlen(backend->description);
    if (gmtime_r(&now, &utc) != NULL)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M", &utc);
    ret->cpu = orr_arena_strndup(arena, backend->description, n);
    ret->isa = orr_arena_strndup(arena, comma != NULL ? comma + 2 : "",
                                 comma != NULL ? strlen(comma + 2) : 0);
    ret->when = orr_arena_strndup(arena, when, strlen(when));
    return ret->cpu == NULL || ret->isa == NULL || ret->when == NULL ? orr_fail_memory(err)
                                                                     : ORR_OK;
}

/* With one thread, and with all. */
static orr_status time_all_kernels(measuring *m, int cores, int64_t cache_bytes, orr_error *err)
{
    ORR_TRY(orr_list_timed_calls(m->options->quick, count_call, &m->expected, err));
    m->expected *= cores > 1 ? 2 : 1;
    m->done = 0.05;
    m->share = 0.95;
    m->timing.cache_bytes = cache_bytes;
    m->timing.room = orr_arena_new(ROOM_BYTES + 3 * (size_t)cache_bytes, 0);
    if (m->timing.room == NULL)
        return orr_fail_memory(err);
    orr_status status = time_kernels(m, 1, err);
    if (status == ORR_OK && cores > 1)
        status = time_kernels(m, cores, err);
    orr_arena_free(m->timing.room);
    return status;
}

static orr_status keep_tables(const measuring *m, orr_arena *arena, orr_measured *ret,
                              orr_error *err)
{
    orr_measured_table *tables = orr_arena_array(arena, orr_measured_table, m->n_tables);
    if (tables == NULL)
        return orr_fail_memory(err);
    memcpy(tables, m->tables, m->n_tables * sizeof *tables);
    ret->tables = tables;
    ret->n_tables = m->n_tables;
    return ORR_OK;
}

/* Collectives come first, because ranks are forked before any thread is started. */
orr_status orr_measure(const orr_measure_options *options, orr_arena *arena, orr_measured *ret,
                       orr_error *err)
{
    orr_measured made = {0};
    measuring m = {.options = options,
                   .timing = {.least_ns = options->quick ? LEAST_QUICK_NS : LEAST_NS,
                              .least_runs = options->quick ? 3 : 5},
                   .kernels = orr_arena_array(arena, orr_measured_kernel, KERNELS_MAX)};
    const int cores = options->threads > 0 ? options->threads : orr_core_count();
    if (m.kernels == NULL)
        return orr_fail_memory(err);
    orr_measure_machine(&made);
    report_progress(&m, 0);
    ORR_TRY(orr_measure_collectives(options->ranks > 0 ? options->ranks : RANKS_DEFAULT,
                                    options->quick, arena, &made.transfers, &made.n_transfers,
                                    err));
    ORR_TRY(orr_backend_cpu(&m.timing.backend, err));
    ORR_TRY(describe(m.timing.backend, arena, &made, err));
    ORR_TRY(bandwidth(&m, &made, err));
    ORR_TRY(time_all_kernels(&m, cores, made.cache_bytes, err));
    made.kernels = m.kernels;
    made.n_kernels = m.n;
    ORR_TRY(keep_tables(&m, arena, &made, err));
    made.flops_fp32 = best_product(&made, ORR_DTYPE_FP32);
    made.flops_bf16 = best_product(&made, ORR_DTYPE_BF16);
    *ret = made;
    return ORR_OK;
}
