/* SPDX-License-Identifier: Apache-2.0 */
/* What a job does with its embedding tables, each thing by itself: real tables, real batches. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/ranks/communicator.h"
#include "measure/embedding_tables.h"

enum { CHANNEL_OF_IDS = 1, CHANNEL_OF_BAGS = 2, ROUNDS_LEAST = 9, ROUNDS_MAX = 99 };
#define ENOUGH_NS INT64_C(2000000000)

typedef struct table_run {
    const orr_table_job *job;
    orr_tables *tables;
    orr_click_reader reader;
    orr_step_batch batch;
    float *bags, *gradients;
    bool meets; /* before each thing, so that all ranks begin it at once */
    int64_t between_ns;
} table_run;

static orr_status work(table_run *r, orr_table_work what, uint64_t number, orr_error *err)
{
    const uint32_t slot = (uint32_t)(number % ORR_TABLES_AHEAD);
    const orr_update by = {.rate = 1e-6,
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .epsilon = 1e-8,
                           .step = (int64_t)number + 1,
                           .gradient_scale = 1};
    switch (what) {
    case ORR_TABLE_WORK_READ:
        return orr_click_reader_read(&r->reader, number, &r->batch, err);
    case ORR_TABLE_WORK_IDS:
        return orr_tables_exchange_ids(r->tables, slot, &r->batch.lookups, err);
    case ORR_TABLE_WORK_FETCH:
        return orr_tables_fetch(r->tables, slot, err);
    case ORR_TABLE_WORK_SUM:
        return orr_tables_sum(r->tables, slot, r->bags, err);
    case ORR_TABLE_WORK_BAGS:
        return orr_tables_exchange_bags(r->tables, slot, r->bags, err);
    case ORR_TABLE_WORK_GRADIENTS:
        return orr_tables_exchange_gradients(r->tables, slot, r->gradients, err);
    default:
        return orr_tables_update(r->tables, slot, &by, err);
    }
}

static orr_status run_round(table_run *r, uint64_t number, int64_t ret_ns[ORR_TABLE_WORKS],
                            orr_error *err)
{
    for (orr_table_work w = 0; w < ORR_TABLE_WORKS; w++) {
        int64_t began = orr_clock_now_ns(&orr_clock_monotonic);
        if (w == ORR_TABLE_WORK_GRADIENTS) {
            ORR_TRY(r->job->between(r->job->ctx, err));
            r->between_ns = orr_clock_now_ns(&orr_clock_monotonic) - began;
        }
        if (r->meets)
            ORR_TRY(orr_barrier(r->job->world, err));
        began = orr_clock_now_ns(&orr_clock_monotonic);
        ORR_TRY(work(r, w, number, err));
        ret_ns[w] = orr_clock_now_ns(&orr_clock_monotonic) - began;
    }
    return ORR_OK;
}

/* As many rounds as rank 0 has time for. */
static orr_status count_rounds(const table_run *r, int64_t round_ns, int64_t *ret_n, orr_error *err)
{
    const int64_t n = ENOUGH_NS / (round_ns > 0 ? round_ns : 1);
    *ret_n = n < ROUNDS_LEAST ? ROUNDS_LEAST : n > ROUNDS_MAX ? ROUNDS_MAX : n;
    return r->job->world == NULL ? ORR_OK
                                 : orr_broadcast(r->job->world, ret_n, sizeof *ret_n, 0, err);
}

static orr_status run_apart(table_run *r, int64_t n, uint64_t *number,
                            int64_t ret_ns[ORR_TABLE_WORKS], int64_t *ret_between_ns,
                            orr_error *err)
{
    int64_t ns[ORR_TABLE_WORKS + 1][ROUNDS_MAX], one[ORR_TABLE_WORKS];
    double spread;
    for (int64_t i = 0; i < n; i++) {
        ORR_TRY(run_round(r, (*number)++, one, err));
        for (int w = 0; w < ORR_TABLE_WORKS; w++)
            ns[w][i] = one[w];
        ns[ORR_TABLE_WORKS][i] = r->between_ns;
    }
    for (int w = 0; w < ORR_TABLE_WORKS; w++)
        ret_ns[w] = orr_median_of(ns[w], (uint32_t)n, &spread);
    *ret_between_ns = orr_median_of(ns[ORR_TABLE_WORKS], (uint32_t)n, &spread);
    return ORR_OK;
}

/* Median of whole rounds, in which ranks meet at exchanges only, as in a step. */
static orr_status run_through(table_run *r, int64_t n, uint64_t *number, int64_t *ret_ns,
                              orr_error *err)
{
    int64_t ns[ROUNDS_MAX], one[ORR_TABLE_WORKS];
    double spread;
    for (int64_t i = 0; i < n; i++) {
        const int64_t began = orr_clock_now_ns(&orr_clock_monotonic);
        ORR_TRY(run_round(r, (*number)++, one, err));
        ns[i] = orr_clock_now_ns(&orr_clock_monotonic) - began;
    }
    *ret_ns = orr_median_of(ns, (uint32_t)n, &spread);
    return ORR_OK;
}

/* What one rank took for each thing, between bags and gradients, and for whole rounds. */
typedef struct rank_times {
    int64_t ns[ORR_TABLE_WORKS], between_ns, whole_ns;
} rank_times;
enum { EXCHANGES = 3, RANKS_MAX = 64 };

static bool is_exchange(int work)
{
    return work == ORR_TABLE_WORK_IDS || work == ORR_TABLE_WORK_BAGS ||
           work == ORR_TABLE_WORK_GRADIENTS;
}

/* What an exchange takes because ranks come to it earlier and later than they usually do, and sleep
 * until others come: what a round takes beyond its parts, where each exchange begins when the
 * slowest rank has come to it. */
static int64_t meeting_ns(const rank_times *all, uint32_t n)
{
    int64_t parts_ns = 0, whole_ns = 0, at[RANKS_MAX] = {0};
    for (int w = 0; w < ORR_TABLE_WORKS; w++) {
        int64_t together = 0;
        for (uint32_t r = 0; r < n; r++) {
            at[r] += all[r].ns[w] + (w == ORR_TABLE_WORK_GRADIENTS ? all[r].between_ns : 0);
            together = at[r] > together ? at[r] : together;
        }
        for (uint32_t r = 0; r < n && is_exchange(w); r++)
            at[r] = together;
        parts_ns = together;
    }
    for (uint32_t r = 0; r < n; r++)
        whole_ns = all[r].whole_ns > whole_ns ? all[r].whole_ns : whole_ns;
    return whole_ns > parts_ns ? (whole_ns - parts_ns) / EXCHANGES : 0;
}

static orr_status run_rounds(table_run *r, int64_t ret_ns[ORR_TABLE_WORKS], int64_t *ret_meeting_ns,
                             orr_error *err)
{
    const uint32_t ranks = r->job->transport->ranks;
    rank_times mine = {.whole_ns = 0}, all[RANKS_MAX];
    uint64_t number = 2;
    int64_t n;
    ORR_TRY(run_round(r, 0, ret_ns, err));
    const int64_t began = orr_clock_now_ns(&orr_clock_monotonic);
    ORR_TRY(run_round(r, 1, ret_ns, err));
    ORR_TRY(count_rounds(r, orr_clock_now_ns(&orr_clock_monotonic) - began, &n, err));
    r->meets = r->job->world != NULL;
    ORR_TRY(run_apart(r, n, &number, ret_ns, &mine.between_ns, err));
    *ret_meeting_ns = 0;
    if (!r->meets || ranks > RANKS_MAX)
        return ORR_OK;
    r->meets = false;
    ORR_TRY(run_through(r, n, &number, &mine.whole_ns, err));
    memcpy(mine.ns, ret_ns, sizeof mine.ns);
    ORR_TRY(orr_all_gather(r->job->world, &mine, all, sizeof mine / sizeof(int64_t),
                           ORR_DTYPE_INT64, err));
    *ret_meeting_ns = meeting_ns(all, ranks);
    return ORR_OK;
}

static orr_status open_run(table_run *r, orr_error *err)
{
    const orr_table_job *job = r->job;
    const orr_tables_source source = {.plan = job->plan,
                                      .transport = job->transport,
                                      .channels = {CHANNEL_OF_IDS, CHANNEL_OF_BAGS},
                                      .workers = job->workers,
                                      .samples = job->samples,
                                      .seed = job->seed,
                                      .trained = true};
    size_t columns = 0;
    for (uint32_t i = 0; i < job->plan->n_tables; i++)
        columns += job->plan->tables[i].columns;
    const size_t numbers = columns * (size_t)job->samples;
    r->reader = (orr_click_reader){.clicks = job->clicks,
                                   .batch = (uint64_t)job->samples * job->transport->ranks,
                                   .first = job->transport->rank * (uint64_t)job->samples,
                                   .samples = job->samples};
    r->bags = orr_calloc(numbers, sizeof *r->bags);
    r->gradients = orr_calloc(numbers, sizeof *r->gradients);
    if (r->bags == NULL || r->gradients == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < numbers; i++)
        r->gradients[i] = 1e-3F;
    return orr_tables_open(&source, &r->tables, err);
}

orr_status orr_measure_table_work(const orr_table_job *job, int64_t ret_ns[ORR_TABLE_WORKS],
                                  int64_t *ret_meeting_ns, orr_error *err)
{
    table_run r = {.job = job};
    orr_status status = open_run(&r, err);
    if (status == ORR_OK)
        status = run_rounds(&r, ret_ns, ret_meeting_ns, err);
    orr_tables_close(r.tables);
    orr_click_reader_done(&r.reader);
    orr_free(r.bags);
    orr_free(r.gradients);
    return status;
}
