/* SPDX-License-Identifier: Apache-2.0 */
/* Rows served from a device: a table of fp32 rows of 64 columns, packed into FOLDER.
 *
 *   bench_serve FOLDER [MILLION_ROWS [SECONDS [CASE]]]
 *
 * Prints a JSON line for each of: bags of rows that all are in the cache, beside those of the same
 * table in memory; reads without a cache; latencies of small batches with a cache of 5 % of the
 * rows, read-only and while 1 % of the rows are updated each second; hits of the cache of pooled
 * embeddings, by popularity, where a quarter of the bags comes again. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <orrery/embedding.h>

#include "base/philox.h"
#include "kernel/cpu/embedding/sharded_table.h"
#include "kernel_bench.h"
#include "store/serve/row_server.h"

enum {
    COLUMNS = 64,
    ROW_BYTES = COLUMNS * 4,
    POOL = 20,
    BATCH = 2048,
    SMALL = 32,
    PASSES = 7,
    AGE_STEPS = 8000
};

static int64_t n_rows = 2000000;
static double seconds = 5;
static char path[400];
static float *table; /* in memory */

static double clock_s(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static double wall_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}
static double cpu_s(void)
{
    return clock_s(CLOCK_THREAD_CPUTIME_ID);
}

static void fail_if(orr_status status, const orr_error *err)
{
    if (status != ORR_OK)
        (void)unlink(path);
    check(status, err);
}

static orr_status rows_of(void *ctx, uint32_t number, int64_t row, int64_t n, void *ret,
                          orr_error *err)
{
    (void)ctx, (void)number, (void)err;
    memcpy(ret, table + row * COLUMNS, (size_t)n * ROW_BYTES);
    return ORR_OK;
}

static orr_row_file_facts facts_of(void)
{
    static orr_row_shard shard;
    shard = (orr_row_shard){.table = "t0",
                            .table_rows = n_rows,
                            .rows = n_rows,
                            .table_columns = COLUMNS,
                            .column_end = COLUMNS,
                            .format = ORR_ROW_FORMAT_FP32,
                            .row_bytes = ROW_BYTES};
    return (orr_row_file_facts){.ranks = 1, .n_shards = 1, .shards = &shard};
}

typedef struct lookups {
    orr_random random;
    orr_popularity popularity;
    int32_t lengths[BATCH];
    int64_t ids[BATCH * POOL];
    float sums[BATCH * COLUMNS];
    orr_row_bags bags;
} lookups;

static int64_t draw_row(lookups *l)
{
    const orr_popularity *p = &l->popularity;
    const double u = orr_random_unit(&l->random);
    uint32_t k = 0;
    while (k + 1 < p->n && u >= p->share[k])
        k++;
    const int64_t begin = k > 0 ? p->end[k - 1] : 0;
    const uint64_t of =
        (uint64_t)begin + orr_random_below(&l->random, (uint64_t)(p->end[k] - begin));
    return (int64_t)((unsigned __int128)of * p->stride % (uint64_t)p->rows);
}

static void draw(lookups *l, int64_t samples)
{
    for (int64_t i = 0; i < samples; i++)
        l->lengths[i] = POOL;
    for (int64_t i = 0; i < samples * POOL; i++)
        l->ids[i] = draw_row(l);
    l->bags = (orr_row_bags){0, samples, l->lengths, l->ids, l->sums, COLUMNS};
}

static lookups *lookups_of(orr_popularity_kind kind, uint64_t seed)
{
    lookups *l = bytes_of(sizeof *l);
    l->random = orr_random_of(seed, 1);
    l->popularity = orr_popularity_of(kind, n_rows);
    return l;
}

static orr_row_server *server_of(orr_row_server_options options)
{
    orr_row_server *server;
    orr_error err;
    fail_if(orr_row_server_open(path, NULL, &options, &server, &err), &err);
    return server;
}
static orr_row_reader *reader_of(orr_row_server *server)
{
    orr_row_reader *reader;
    orr_error err;
    fail_if(orr_row_reader_open(server, &reader, &err), &err);
    return reader;
}
static void read_bags(orr_row_reader *reader, const lookups *l)
{
    orr_error err;
    fail_if(orr_row_reader_bags(reader, &l->bags, 1, &err), &err);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* --- all rows in the cache --- */

static void sum_in_memory(const lookups *l, float *ret, void *workspace)
{
    orr_row_store store = {.rows = n_rows,
                           .columns = COLUMNS,
                           .format = ORR_ROW_FORMAT_FP32,
                           .record_bytes = ROW_BYTES,
                           .base = (char *)table,
                           .slots = n_rows};
    const orr_embedding_shard whole = {.range_end = ORR_EMBEDDING_RANGES, .column_end = COLUMNS};
    const orr_shard_lookups of = {.store = &store,
                                  .shard = &whole,
                                  .table_rows = n_rows,
                                  .samples = BATCH,
                                  .n = BATCH * POOL,
                                  .lengths = l->lengths,
                                  .ids = l->ids};
    orr_error err;
    fail_if(orr_shard_bag_sums(&of, ret, COLUMNS, workspace, NULL, &err), &err);
}

static void bench_hits(orr_popularity_kind kind)
{
    lookups *l = lookups_of(kind, 1);
    orr_row_server *server = server_of((orr_row_server_options){
        .cache_bytes = (uint64_t)n_rows * (ROW_BYTES + 64), .read_only = true});
    orr_row_reader *reader = reader_of(server);
    float *sums = bytes_of(sizeof l->sums);
    void *workspace = bytes_of(16 << 20);
    double memory[PASSES], cache[PASSES], frac[PASSES];
    uint64_t misses = 0;
    for (int i = 0; i < PASSES; i++) {
        memory[i] = cache[i] = 0;
        for (int k = 0; k < 20; k++) {
            draw(l, BATCH);
            read_bags(reader, l); /* brings the rows */
            const uint64_t before = orr_row_server_stats_of(server, 0).hits;
            char *flush = bytes_of(64 << 20); /* neither finds its rows in processor caches */
            memset(flush, k, 64 << 20);
            const double begin = cpu_s();
            if (k % 2 == 0)
                sum_in_memory(l, sums, workspace);
            else
                read_bags(reader, l);
            *(k % 2 == 0 ? &memory[i] : &cache[i]) += cpu_s() - begin;
            the_cpu()->release(the_cpu(), flush, 64 << 20);
            if (k % 2 == 0) {
                if (memcmp(sums, l->sums, sizeof l->sums) != 0)
                    exit(1);
            } else
                misses += BATCH * POOL - (orr_row_server_stats_of(server, 0).hits - before);
        }
        frac[i] = memory[i] / cache[i];
    }
    qsort(memory, PASSES, sizeof *memory, by_size);
    qsort(cache, PASSES, sizeof *cache, by_size);
    qsort(frac, PASSES, sizeof *frac, by_size);
    const double rows = 10.0 * BATCH * POOL;
    printf("{\"case\": \"hits\", \"popularity\": \"%s\", \"misses\": %llu, "
           "\"memory_million_rows_per_s\": %.1f, \"cache_million_rows_per_s\": %.1f, "
           "\"of_memory_frac\": %.2f}\n",
           orr_popularity_name(kind), (unsigned long long)misses, rows / memory[PASSES / 2] / 1e6,
           rows / cache[PASSES / 2] / 1e6, frac[PASSES / 2]);
    orr_row_reader_close(reader);
    orr_row_server_close(server);
}

/* --- no cache --- */

/* The time below which this part of the reads was, from a histogram by powers of two. */
static double quantile_us(const orr_row_server_stats *s, double part)
{
    uint64_t all = 0, sum = 0;
    for (int k = 0; k < 64; k++)
        all += s->read_ns[k];
    for (int k = 0; k < 64; k++) {
        const double before = (double)sum;
        sum += s->read_ns[k];
        if ((double)sum >= part * (double)all && s->read_ns[k] > 0)
            return (double)(UINT64_C(1) << k) *
                   (1 + (part * (double)all - before) / (double)s->read_ns[k]) / 1e3;
    }
    return 0;
}

static void bench_cold(uint32_t depth)
{
    lookups *l = lookups_of(ORR_POPULARITY_UNIFORM, 2);
    orr_row_server *server = server_of((orr_row_server_options){.depth = depth, .read_only = true});
    orr_row_reader *reader = reader_of(server);
    uint64_t rows = 0;
    draw(l, BATCH);
    read_bags(reader, l);
    double took = 0, cpu = 0;
    while (took < seconds) {
        draw(l, BATCH);
        const double begin = wall_s(), begin_cpu = cpu_s();
        read_bags(reader, l);
        took += wall_s() - begin;
        cpu += cpu_s() - begin_cpu;
        rows += BATCH * POOL;
    }
    const orr_row_server_stats s = orr_row_server_stats_of(server, UINT32_MAX);
    printf("{\"case\": \"cold\", \"depth\": %u, \"rows_per_s\": %.0f, \"reads_per_row\": %.3f, "
           "\"bytes_per_read\": %.0f, \"cpu_us_per_row\": %.2f, \"read_p50_us\": %.0f, "
           "\"read_p99_us\": %.0f, \"read_p999_us\": %.0f}\n",
           depth, (double)rows / took, (double)s.reads / (double)s.lookups,
           (double)s.read_bytes / (double)s.reads, cpu / (double)rows * 1e6, quantile_us(&s, 0.5),
           quantile_us(&s, 0.99), quantile_us(&s, 0.999));
    orr_row_reader_close(reader);
    orr_row_server_close(server);
}

/* --- updates --- */

typedef struct updater {
    orr_row_server *server;
    _Atomic bool stop, pause, aged;
    _Atomic uint64_t rows, syncs;
} updater;

/* Rows that are drawn uniformly, with the numbers that they have. */
static void update_some(updater *u, orr_random *random, int64_t n, int64_t *rows, float *records)
{
    orr_error err;
    for (int64_t i = 0; i < n; i++) {
        rows[i] = (int64_t)orr_random_below(random, (uint64_t)n_rows);
        memcpy(records + i * COLUMNS, table + rows[i] * COLUMNS, ROW_BYTES);
    }
    fail_if(orr_row_server_update(u->server, 0, rows, n, records, &err), &err);
    u->rows += (uint64_t)n;
}

/* First most of the rows once, so that the file is as updates leave it. Then a hundredth of them
 * each second, in steps of a hundredth of a second; synced each second. */
static void *update_rows(void *ctx)
{
    updater *u = ctx;
    const int64_t n = n_rows / 10000;
    orr_random random = orr_random_of(9, 9);
    int64_t *rows = bytes_of((size_t)n * sizeof *rows);
    float *records = bytes_of((size_t)n * ROW_BYTES);
    orr_error err;
    double next = 0;
    for (int64_t step = 1; step <= AGE_STEPS; step++) {
        update_some(u, &random, n, rows, records);
        if (step % 100 == 0)
            fail_if(orr_row_server_sync(u->server, &err), &err);
    }
    u->rows = 0;
    atomic_store(&u->aged, true);
    for (int64_t step = 1; !atomic_load(&u->stop); step++) {
        while (atomic_load(&u->pause) && !atomic_load(&u->stop)) {
            (void)usleep(1000);
            next = wall_s();
        }
        update_some(u, &random, n, rows, records);
        if (step % 100 == 0) {
            fail_if(orr_row_server_sync(u->server, &err), &err);
            u->syncs++;
        }
        next += 0.01;
        const double rest = next - wall_s();
        if (rest > 0)
            (void)usleep((useconds_t)(rest * 1e6));
    }
    return NULL;
}

/* Latencies of batches. */
typedef struct latencies {
    double *us;
    int64_t n, room;
} latencies;

static void measure(orr_row_reader *reader, lookups *l, latencies *ret)
{
    const double end = wall_s() + seconds;
    while (ret->n < ret->room && wall_s() < end) {
        draw(l, SMALL);
        const double begin = wall_s();
        read_bags(reader, l);
        ret->us[ret->n++] = (wall_s() - begin) * 1e6;
    }
}

static void print_latencies(const char *name, latencies *of, const updater *u,
                            const orr_row_server_stats *s, const orr_row_server_stats *before)
{
    qsort(of->us, (size_t)of->n, sizeof *of->us, by_size);
    printf("{\"case\": \"%s\", \"batches\": %lld, \"hit_rate\": %.3f, \"p50_us\": %.0f, "
           "\"p99_us\": %.0f, \"p999_us\": %.0f, \"rows_updated\": %llu, \"syncs\": %llu, "
           "\"bytes_written\": %llu}\n",
           name, (long long)of->n,
           (double)(s->hits - before->hits) / (double)(s->lookups - before->lookups),
           of->us[of->n / 2], of->us[of->n * 99 / 100], of->us[of->n * 999 / 1000],
           (unsigned long long)u->rows, (unsigned long long)u->syncs,
           (unsigned long long)(s->bytes_written - before->bytes_written));
    fflush(stdout);
}

/* Read-only and with updates by turns, so that both meet what else the machine does. */
static void bench_updates(void)
{
    enum { ROOM = 4000000, TURNS = 6 };
    lookups *l = lookups_of(ORR_POPULARITY_META_2021, 3);
    orr_row_server *server = server_of(
        (orr_row_server_options){.cache_bytes = (uint64_t)n_rows / 20 * (ROW_BYTES + 16)});
    orr_row_reader *reader = reader_of(server);
    latencies all[2];
    double ratio[TURNS];
    for (int k = 0; k < 2; k++)
        all[k] = (latencies){bytes_of(ROOM * sizeof(double)), 0, ROOM};
    for (int i = 0; i < 2000; i++) {
        draw(l, SMALL);
        read_bags(reader, l);
    }
    updater u = {.server = server, .pause = true};
    pthread_t thread;
    if (pthread_create(&thread, NULL, update_rows, &u) != 0)
        exit(1);
    while (!atomic_load(&u.aged))
        (void)usleep(1000);
    const orr_row_server_stats first = orr_row_server_stats_of(server, UINT32_MAX);
    for (int turn = 0; turn < 2 * TURNS; turn++) {
        latencies *const of = &all[turn % 2];
        latencies now = {of->us + of->n, 0, of->room - of->n};
        atomic_store(&u.pause, turn % 2 == 0);
        const orr_row_server_stats before = orr_row_server_stats_of(server, UINT32_MAX);
        measure(reader, l, &now);
        const orr_row_server_stats s = orr_row_server_stats_of(server, UINT32_MAX);
        print_latencies(turn % 2 == 1 ? "updated" : "read_only", &now, &u, &s, &before);
        of->n += now.n;
        const double p99 = now.us[now.n * 99 / 100];
        ratio[turn / 2] = turn % 2 == 0 ? p99 : p99 / ratio[turn / 2];
    }
    atomic_store(&u.stop, true);
    pthread_join(thread, NULL);
    const orr_row_server_stats s = orr_row_server_stats_of(server, UINT32_MAX);
    print_latencies("all_read_only", &all[0], &u, &s, &first);
    print_latencies("all_updated", &all[1], &u, &s, &first);
    qsort(ratio, TURNS, sizeof *ratio, by_size);
    printf("{\"case\": \"p99_ratio\", \"of_all\": %.2f, \"median_of_turns\": %.2f, "
           "\"bytes_written_per_changed_byte\": %.2f}\n",
           all[1].us[all[1].n * 99 / 100] / all[0].us[all[0].n * 99 / 100], ratio[TURNS / 2],
           (double)(s.bytes_written - first.bytes_written) / ((double)u.rows * ROW_BYTES));
    orr_row_reader_close(reader);
    orr_row_server_close(server);
}

/* --- pooled embeddings --- */

/* A quarter of the bags are one of the last 20,000, of popular sets the more often. */
static void bench_pooled(orr_popularity_kind kind, uint64_t pooled_bytes)
{
    enum { SETS = 20000 };
    lookups *l = lookups_of(kind, 4);
    int64_t *sets = bytes_of((size_t)SETS * POOL * sizeof *sets);
    orr_row_server *server =
        server_of((orr_row_server_options){.cache_bytes = (uint64_t)n_rows / 50 * (ROW_BYTES + 16),
                                           .pooled_bytes = pooled_bytes,
                                           .read_only = true});
    orr_row_reader *reader = reader_of(server);
    uint64_t bag = 0;
    double cpu = 0, took = 0;
    for (int batch = 0; batch < 100; batch++) {
        draw(l, BATCH);
        for (int64_t i = 0; i < BATCH; i++, bag++) {
            if (bag > SETS && orr_random_below(&l->random, 4) == 0) {
                const double u = orr_random_unit(&l->random);
                const uint64_t back = 1 + (uint64_t)(u * u * u * (SETS - 1));
                memcpy(l->ids + i * POOL, sets + (bag - back) % SETS * POOL, POOL * sizeof *sets);
            }
            memcpy(sets + bag % SETS * POOL, l->ids + i * POOL, POOL * sizeof *sets);
        }
        const double begin = wall_s(), begin_cpu = cpu_s();
        read_bags(reader, l);
        took += wall_s() - begin;
        cpu += cpu_s() - begin_cpu;
    }
    const orr_row_server_stats s = orr_row_server_stats_of(server, UINT32_MAX);
    printf("{\"case\": \"pooled\", \"popularity\": \"%s\", \"pooled_bytes\": %llu, "
           "\"row_hit_rate\": %.3f, \"pooled_hit_rate\": %.3f, \"rows_saved_frac\": %.3f, "
           "\"reads\": %llu, \"bags_per_s\": %.0f, \"cpu_us_per_bag\": %.2f}\n",
           orr_popularity_name(kind), (unsigned long long)pooled_bytes,
           (double)s.hits / (double)s.lookups,
           s.pooled_lookups > 0 ? (double)s.pooled_hits / (double)s.pooled_lookups : 0,
           (double)s.pooled_rows_saved / (double)(s.lookups + s.pooled_rows_saved),
           (unsigned long long)s.reads, (double)bag / took, cpu / (double)bag * 1e6);
    orr_row_reader_close(reader);
    orr_row_server_close(server);
}

static bool is_wanted(const char *only, const char *name)
{
    return only == NULL || strcmp(only, name) == 0;
}

int main(int argc, char **argv)
{
    orr_error err;
    if (argc < 2)
        return 2;
    n_rows = argc > 2 ? (int64_t)(strtod(argv[2], NULL) * 1e6) : n_rows;
    seconds = argc > 3 ? strtod(argv[3], NULL) : seconds;
    snprintf(path, sizeof path, "%s/bench_serve.%d.rows", argv[1], (int)getpid());
    table = bytes_of((size_t)n_rows * ROW_BYTES);
    for (int64_t i = 0; i < n_rows * COLUMNS; i++)
        table[i] = (float)(i * 2654435761 % 1000003) - 500000;
    const orr_row_file_facts facts = facts_of();
    const double begin = wall_s();
    fail_if(orr_row_snapshot_pack(path, &facts, rows_of, NULL, &err), &err);
    printf("{\"case\": \"pack\", \"rows\": %lld, \"mb_per_s\": %.0f}\n", (long long)n_rows,
           (double)n_rows * ROW_BYTES / (wall_s() - begin) / 1e6);
    fflush(stdout);
    const char *const only = argc > 4 ? argv[4] : NULL;
    if (is_wanted(only, "hits")) {
        bench_hits(ORR_POPULARITY_META_2021);
        bench_hits(ORR_POPULARITY_UNIFORM);
    }
    if (is_wanted(only, "cold")) {
        bench_cold(32);
        bench_cold(128);
    }
    if (is_wanted(only, "updates"))
        bench_updates();
    for (int k = 0; k < 2 && is_wanted(only, "pooled"); k++) {
        const orr_popularity_kind kind =
            k == 0 ? ORR_POPULARITY_META_2021 : ORR_POPULARITY_META_2022;
        bench_pooled(kind, 0);
        bench_pooled(kind, 16 << 20);
    }
    (void)unlink(path);
    return 0;
}
