/* SPDX-License-Identifier: Apache-2.0 */
/* A training step of the embedding tables of a recommendation model: 8 tables of 1M x 64 in fp32,
 * bags of 100 lookups, batch 2048; bags summed, then rows updated from the gradients of bags.
 *
 *   bench_tables THREADS IDS [REPETITIONS] [OPTIMIZER|cache]
 *
 * IDS: int64, shape (8, 2048, 100), which bench/tables.py draws and other libraries read too.
 * Prints a JSON line a repetition and case, wall and CPU time; with them the floor: lines of
 * distinct rows that are read by the sums and read and written by the update, over the bandwidth
 * measured beside it; and a plain sorted loop of row-wise Adagrad, one thread. "cache": row-wise
 * Adagrad alone, of rows in memory and, in turn with it, of the same rows in the slots of a row
 * cache, where lookups are announced first and all of them hit. */
#include <time.h>

#include "kernel/cpu/embedding/sharded_table.h"
#include "kernel_bench.h"

#include "base/workers.h"
#include "store/store.h"

enum { TABLES = 8, ROWS = 1000000, COLUMNS = 64, POOL = 100, BATCH = 2048 };
enum { LOOKUPS = BATCH * POOL };

typedef struct tables {
    orr_row_store store[TABLES];
    orr_embedding_shard shard[TABLES];
    orr_shard_lookups lookups[TABLES];
    int32_t lengths[BATCH];
    int64_t *ids;
    float *bags, *gradient; /* shape (samples, tables, columns) */
    void *workspace;
    orr_workers *workers;
    orr_update by;
} tables;

static double clock_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct timer {
    double wall, cpu;
} timer;
static timer timer_start(void)
{
    return (timer){clock_s(CLOCK_MONOTONIC), clock_s(CLOCK_PROCESS_CPUTIME_ID)};
}
static void report(const char *name, timer since, double rows, const tables *t)
{
    const double wall = clock_s(CLOCK_MONOTONIC) - since.wall,
                 cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - since.cpu;
    printf("{\"case\": \"%s\", \"threads\": %d, \"wall_ms\": %.2f, \"cpu_ms\": %.2f, "
           "\"million_rows_per_cpu_s\": %.2f}\n",
           name, orr_workers_count(t->workers), wall * 1e3, cpu * 1e3, rows / cpu / 1e6);
}

static orr_shard_update update_of(tables *t, int i)
{
    return (orr_shard_update){.lookups = &t->lookups[i],
                              .gradient = t->gradient + i * COLUMNS,
                              .gradient_stride = TABLES * COLUMNS,
                              .by = &t->by,
                              .seed = 1};
}

static void make_tables(tables *t, orr_row_format format, orr_row_optimizer optimizer)
{
    const int64_t row_bytes = orr_row_format_bytes(format, COLUMNS),
                  state_bytes = orr_row_optimizer_bytes(optimizer, COLUMNS);
    for (int i = 0; i < TABLES; i++) {
        t->store[i] = (orr_row_store){.rows = ROWS,
                                      .columns = COLUMNS,
                                      .format = (uint8_t)format,
                                      .optimizer = (uint8_t)optimizer,
                                      .record_bytes = row_bytes,
                                      .base = bytes_of((size_t)(row_bytes * ROWS)),
                                      .states = bytes_of((size_t)(state_bytes * ROWS)),
                                      .state_bytes = state_bytes};
        t->shard[i] = (orr_embedding_shard){
            .table = (uint32_t)i, .range_end = ORR_EMBEDDING_RANGES, .column_end = COLUMNS};
        t->lookups[i] = (orr_shard_lookups){.store = &t->store[i],
                                            .shard = &t->shard[i],
                                            .table_rows = ROWS,
                                            .samples = BATCH,
                                            .n = LOOKUPS,
                                            .lengths = t->lengths,
                                            .ids = t->ids + (int64_t)i * LOOKUPS};
    }
    const orr_shard_update update = update_of(t, 0);
    const size_t sums = orr_shard_bag_bytes(&t->lookups[0], t->workers),
                 updates = orr_shard_update_bytes(&update);
    t->workspace = bytes_of(2 * (sums > updates ? sums : updates)); /* slots may be more than rows */
}

static void free_tables(tables *t)
{
    orr_backend *cpu = the_cpu();
    for (int i = 0; i < TABLES; i++) {
        cpu->release(cpu, t->store[i].base, (size_t)(t->store[i].record_bytes * ROWS));
        cpu->release(cpu, t->store[i].states, (size_t)(t->store[i].state_bytes * ROWS));
    }
}

static void run_step(tables *t, const char *name)
{
    char text[64];
    orr_error err = {0};
    const timer whole = timer_start();
    for (int i = 0; i < TABLES; i++)
        check(orr_shard_bag_sums(&t->lookups[i], t->bags + i * COLUMNS, TABLES * COLUMNS,
                                 t->workspace, t->workers, &err),
              &err);
    snprintf(text, sizeof text, "%s forward", name);
    report(text, whole, TABLES * LOOKUPS, t);
    const timer backward = timer_start();
    for (int i = 0; i < TABLES; i++) {
        const orr_shard_update update = update_of(t, i);
        check(orr_shard_update_run(&update, t->workspace, t->workers, &err), &err);
    }
    snprintf(text, sizeof text, "%s update", name);
    report(text, backward, TABLES * LOOKUPS, t);
    snprintf(text, sizeof text, "%s step", name);
    report(text, whole, TABLES * LOOKUPS, t);
}

/* A loop of 40 lines: radix sort of (row, bag), then row-wise Adagrad row by row. */
typedef float v16 __attribute__((vector_size(64), aligned(4)));
static void radix_sort(uint64_t *from, uint64_t *to)
{
    for (int shift = 32; shift < 32 + 20; shift += 10) {
        uint32_t place[1024] = {0}, at = 0;
        for (int i = 0; i < LOOKUPS; i++)
            place[from[i] >> shift & 1023]++;
        for (int d = 0; d < 1024; d++) {
            const uint32_t n = place[d];
            place[d] = at;
            at += n;
        }
        for (int i = 0; i < LOOKUPS; i++)
            to[place[from[i] >> shift & 1023]++] = from[i];
        uint64_t *sorted = to;
        to = from;
        from = sorted;
    }
}
__attribute__((target("avx512f"))) static void plain_loop(const tables *t, int table, uint64_t *key,
                                                          uint64_t *other)
{
    char *rows = t->store[table].base;
    float *state = (float *)(void *)t->store[table].states;
    const float *gradient = t->gradient + table * COLUMNS;
    for (int i = 0; i < LOOKUPS; i++)
        key[i] = (uint64_t)t->lookups[table].ids[i] << 32 | (uint64_t)(i / POOL);
    radix_sort(key, other);
    for (int i = 0, end; i < LOOKUPS; i = end) {
        v16 g[4] = {{0}}, squares = {0};
        const uint64_t row = key[i] >> 32;
        if (i + 16 < LOOKUPS)
            for (int b = 0; b < 256; b += 64)
                __builtin_prefetch(rows + (key[i + 16] >> 32) * 256 + b, 1);
        for (end = i; end < LOOKUPS && key[end] >> 32 == row; end++)
            for (int k = 0; k < 4; k++)
                g[k] += *(const v16 *)(gradient + (uint32_t)key[end] * TABLES * COLUMNS + k * 16);
        for (int k = 0; k < 4; k++)
            squares += g[k] * g[k];
        float sum = 0;
        for (int k = 0; k < 16; k++)
            sum += squares[k];
        state[row] += sum / COLUMNS;
        const float factor = (float)t->by.rate / (__builtin_sqrtf(state[row]) + 1e-8f);
        for (int k = 0; k < 4; k++)
            ((v16 *)(void *)(rows + row * 256))[k] -= g[k] * factor;
    }
}

static void run_plain_loop(tables *t)
{
    uint64_t *key = bytes_of(LOOKUPS * sizeof *key), *other = bytes_of(LOOKUPS * sizeof *key);
    const timer since = timer_start();
    for (int i = 0; i < TABLES; i++)
        plain_loop(t, i, key, other);
    report("plain loop update", since, TABLES * LOOKUPS, t);
    free(key);
    free(other);
}

/* Bandwidth: all tables are read; read and written. */
typedef struct sweep {
    const tables *t;
    bool write;
    _Atomic uint32_t sum;
} sweep;
enum { PARTS = 64 };
__attribute__((target("avx512f"))) static void sweep_part(void *ctx, size_t part, int thread)
{
    sweep *s = ctx;
    (void)thread;
    typedef uint32_t u16 __attribute__((vector_size(64)));
    const int64_t n = ROWS / (PARTS / TABLES) * 4;
    u16 *at = (u16 *)(void *)s->t->store[part % TABLES].base + (int64_t)part / TABLES * n;
    u16 a = {0}, b = {0};
    if (s->write)
        for (int64_t i = 0; i < n; i++)
            at[i] ^= 0x80000000u;
    else
        for (int64_t i = 0; i < n; i += 2) {
            __builtin_prefetch(at + i + 32);
            __builtin_prefetch(at + i + 33);
            a ^= at[i];
            b ^= at[i + 1];
        }
    s->sum ^= (a ^ b)[0];
}
/* Seconds of the wall and of the CPU for a byte. */
static timer sweep_tables(tables *t, bool write)
{
    sweep s = {.t = t, .write = write};
    const double bytes = (write ? 2.0 : 1.0) * TABLES * ROWS * 256;
    timer best = {1, 1};
    for (int i = 0; i < 2; i++) {
        const timer since = timer_start();
        orr_workers_run(t->workers, PARTS, sweep_part, &s);
        const double wall = (clock_s(CLOCK_MONOTONIC) - since.wall) / bytes,
                     cpu = (clock_s(CLOCK_PROCESS_CPUTIME_ID) - since.cpu) / bytes;
        best.wall = wall < best.wall ? wall : best.wall;
        best.cpu = cpu < best.cpu ? cpu : best.cpu;
    }
    return best;
}

static void run_floor(tables *t)
{
    int64_t distinct = 0;
    char *seen = bytes_of(ROWS);
    for (int i = 0; i < TABLES; i++) {
        memset(seen, 0, ROWS);
        for (int64_t k = 0; k < LOOKUPS; k++) {
            distinct += !seen[t->lookups[i].ids[k]];
            seen[t->lookups[i].ids[k]] = 1;
        }
    }
    const double bytes = (double)distinct * 256;
    const timer read = sweep_tables(t, false), write = sweep_tables(t, true);
    printf(
        "{\"case\": \"floor\", \"threads\": %d, \"distinct_rows\": %lld, \"read_gb_per_s\": %.1f, "
        "\"update_gb_per_s\": %.1f, \"wall_ms\": %.2f, \"cpu_ms\": %.2f}\n",
        orr_workers_count(t->workers), (long long)distinct, 1e-9 / read.wall, 1e-9 / write.wall,
        bytes * (read.wall + 2 * write.wall) * 1e3, bytes * (read.cpu + 2 * write.cpu) * 1e3);
    free(seen);
}

/* Rows of nothing: what is looked up has been looked up before. */
static void draw_zeros(void *ctx, uint32_t shard, int64_t row, void *ret_record)
{
    (void)ctx, (void)shard, (void)row;
    memset(ret_record, 0, COLUMNS * sizeof(float) + sizeof(float));
}

/* The same tables behind a cache that holds all rows of the batch, over memory as a device. */
static orr_store *open_store(void)
{
    orr_row_shard shards[TABLES];
    orr_error err = {0};
    for (int i = 0; i < TABLES; i++)
        shards[i] = (orr_row_shard){.table = "t",
                                    .table_rows = ROWS,
                                    .rows = ROWS,
                                    .table_columns = COLUMNS,
                                    .column_end = COLUMNS,
                                    .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD,
                                    .row_bytes = COLUMNS * sizeof(float),
                                    .state_bytes = sizeof(float)};
    const orr_row_file_facts facts = {.ranks = 1, .n_shards = TABLES, .shards = shards};
    const orr_store_options options = {.cache_bytes = (uint64_t)TABLES * LOOKUPS * 320,
                                       .huge_pages = true,
                                       .window = 2,
                                       .initial = draw_zeros};
    orr_block_map map = {.node = -1, .create = true, .sector = 512};
    orr_block_device *device;
    orr_store *store;
    check(orr_row_file_bytes(&facts, map.sector, 0.1, &map.bytes, &err), &err);
    map.bytes = (map.bytes + 4095) / 4096 * 4096;
    check(orr_block_device_map(&map, &device, &err), &err);
    check(orr_store_create(device, &facts, &options, &store, &err), &err);
    return store;
}

static void run_cached_step(tables *t, orr_store *store, uint64_t batch, uint32_t *slots)
{
    orr_error err = {0};
    orr_row_store rows[TABLES];
    orr_shard_lookups memory[TABLES];
    memcpy(memory, t->lookups, sizeof memory);
    const timer announce = timer_start();
    for (int i = 0; i < TABLES; i++)
        check(orr_store_announce(store, batch, (uint32_t)i, t->lookups[i].ids, LOOKUPS,
                                 slots + (int64_t)i * LOOKUPS, &err),
              &err);
    check(orr_store_wait(store, batch, &err), &err);
    report("cache announce", announce, TABLES * LOOKUPS, t);
    for (int i = 0; i < TABLES; i++) {
        const orr_store_slots in = orr_store_slots_of(store, (uint32_t)i);
        rows[i] = t->store[i];
        rows[i].base = in.rows;
        rows[i].states = in.states;
        rows[i].slots = in.n;
        rows[i].owner = in.owner;
        t->lookups[i].store = &rows[i];
        t->lookups[i].slots = slots + (int64_t)i * LOOKUPS;
    }
    check(orr_store_change(store, batch, &err), &err);
    run_step(t, "cache");
    const timer end = timer_start();
    orr_store_end(store, batch, true);
    report("cache end", end, TABLES * LOOKUPS, t);
    memcpy(t->lookups, memory, sizeof memory);
}

static void run_cache(tables *t, int repetitions)
{
    orr_store *store = open_store();
    uint32_t *slots = bytes_of((size_t)TABLES * LOOKUPS * sizeof *slots);
    make_tables(t, ORR_ROW_FORMAT_FP32, ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD);
    for (int i = 0; i < repetitions; i++) {
        run_step(t, "memory");
        run_cached_step(t, store, (uint64_t)i, slots);
    }
    free_tables(t);
    orr_store_close(store);
}

static void read_ids(tables *t, const char *path)
{
    FILE *file = fopen(path, "rb");
    const size_t n = (size_t)TABLES * LOOKUPS;
    t->ids = bytes_of(n * sizeof *t->ids);
    if (file == NULL || fread(t->ids, sizeof *t->ids, n, file) != n) {
        fprintf(stderr, "%s: not %zu ids of 8 bytes\n", path, n);
        exit(1);
    }
    fclose(file);
}

/* Bags of a step to and from what travels: million vectors of 64 a second, GB/s of fp32. */
static void run_codecs(tables *t)
{
    const int64_t n = BATCH * TABLES;
    void *wire = bytes_of((size_t)n * COLUMNS * sizeof(float));
    for (int codec = 0; codec < ORR_EMBEDDING_CODECS; codec++)
        for (int way = 0; way < 2; way++) {
            double least = 1e9;
            for (int i = 0; i < 20; i++) {
                const timer since = timer_start();
                if (way == 0)
                    orr_codec_encode((orr_embedding_codec)codec, t->gradient, n, COLUMNS, COLUMNS,
                                     wire);
                else
                    orr_codec_decode((orr_embedding_codec)codec, wire, n, COLUMNS, t->bags,
                                     COLUMNS);
                const double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - since.cpu;
                least = cpu < least ? cpu : least;
            }
            printf("{\"case\": \"codec %s %s\", \"gb_per_s\": %.1f, \"bytes_frac\": %.3f}\n",
                   orr_embedding_codec_name((orr_embedding_codec)codec),
                   way == 0 ? "encode" : "decode", (double)n * COLUMNS * 4 / least / 1e9,
                   (double)orr_embedding_codec_bytes((orr_embedding_codec)codec, COLUMNS) /
                       (COLUMNS * 4));
        }
}

static void run_optimizer(tables *t, orr_row_format format, orr_row_optimizer optimizer,
                          const char *name, int repetitions)
{
    make_tables(t, format, optimizer);
    for (int i = 0; i < repetitions; i++) {
        run_step(t, name);
        if (format == ORR_ROW_FORMAT_FP32 && optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD) {
            run_plain_loop(t);
            run_floor(t);
        }
    }
    free_tables(t);
}

int main(int argc, char **argv)
{
    static tables t;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tables THREADS IDS [REPETITIONS] [OPTIMIZER|cache]\n");
        return 2;
    }
    const int repetitions = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 5;
    t.workers = workers_of((int)strtol(argv[1], NULL, 10));
    t.by = (orr_update){.rate = 0.01, .epsilon = 1e-8, .gradient_scale = 1, .step = 1};
    t.by.beta1 = 0.9, t.by.beta2 = 0.999;
    read_ids(&t, argv[2]);
    for (int s = 0; s < BATCH; s++)
        t.lengths[s] = POOL;
    const orr_operand gradient = OPERAND(FP32, BATCH, TABLES * COLUMNS);
    fill(&gradient);
    t.gradient = gradient.data;
    t.bags = bytes_of(BATCH * TABLES * COLUMNS * sizeof(float));
    if (argc <= 4)
        run_codecs(&t);
    if (argc > 4 && strcmp(argv[4], "cache") == 0)
        run_cache(&t, repetitions);
    for (int optimizer = 0; optimizer < ORR_ROW_OPTIMIZERS; optimizer++) {
        const char *name = orr_row_optimizer_name((orr_row_optimizer)optimizer);
        if (argc > 4 && strcmp(argv[4], name) != 0)
            continue;
        run_optimizer(&t, ORR_ROW_FORMAT_FP32, (orr_row_optimizer)optimizer, name, repetitions);
    }
    if (argc <= 4)
        run_optimizer(&t, ORR_ROW_FORMAT_BF16, ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD, "bf16",
                      repetitions);
    orr_workers_free(t.workers);
    return 0;
}
