/* SPDX-License-Identifier: Apache-2.0 */
/* Random rows out of RocksDB, as bench_rows.c reads them out of a row file. Not part of the build:
 * store.py compiles it where RocksDB is installed.
 *
 *   rocksdb_rows fill FOLDER ROW_BYTES ROWS
 *   rocksdb_rows read FOLDER ROWS SECONDS BATCH CACHE_BYTES THREADS   by MultiGet of BATCH keys
 *
 * Set up in its favour: no compression, direct reads, blocks of 4 KiB found by hash, indices and
 * filters in memory beside the cache, one level after compaction, no log while it is filled. */
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { KEY_BYTES = 8, BATCH_MAX = 1024, ROW_MAX = 4096, SAMPLES = 1 << 16, THREADS_MAX = 64 };

typedef struct reader {
    pthread_t thread;
    rocksdb_t *db;
    rocksdb_readoptions_t *options;
    uint64_t rows, state, n, sum;
    size_t batch;
    double end_s;
    double took_s[SAMPLES];
} reader;

static uint64_t draw(reader *r)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return (r->state >> 11) % r->rows;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(char *error)
{
    if (error == NULL)
        return;
    fprintf(stderr, "rocksdb_rows: %s\n", error);
    exit(1);
}

/* Big-endian, so that rows lie in their order. */
static void key_of(uint64_t row, char *ret)
{
    const uint64_t swapped = __builtin_bswap64(row);
    memcpy(ret, &swapped, KEY_BYTES);
}

static rocksdb_t *open_folder(const char *folder, size_t cache_bytes)
{
    char *error = NULL;
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    rocksdb_options_set_use_direct_reads(options, 1);
    rocksdb_options_set_max_open_files(options, -1);
    rocksdb_options_set_write_buffer_size(options, (size_t)128 << 20);
    rocksdb_options_increase_parallelism(options, 2);
    rocksdb_block_based_options_set_block_size(table, 4096);
    rocksdb_block_based_options_set_data_block_index_type(table, 1);
    rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(cache_bytes));
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_t *db = rocksdb_open(options, folder, &error);
    check(error);
    return db;
}

static void fill(const char *folder, size_t row_bytes, uint64_t rows)
{
    char *error = NULL, key[KEY_BYTES], row[ROW_MAX] = {0};
    rocksdb_t *db = open_folder(folder, (size_t)64 << 20);
    rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    rocksdb_writeoptions_disable_WAL(options, 1);
    for (uint64_t k = 0; k < rows; k++) {
        const uint64_t mixed = k * 0x9e3779b97f4a7c15;
        memcpy(row, &k, sizeof k);
        memcpy(row + sizeof k, &mixed, sizeof mixed);
        key_of(k, key);
        rocksdb_writebatch_put(batch, key, KEY_BYTES, row, row_bytes);
        if (k % 1024 == 1023 || k + 1 == rows) {
            rocksdb_write(db, options, batch, &error);
            check(error);
            rocksdb_writebatch_clear(batch);
        }
    }
    rocksdb_compact_range(db, NULL, 0, NULL, 0);
    rocksdb_close(db);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void read_batch(reader *r)
{
    char keys[BATCH_MAX][KEY_BYTES], *values[BATCH_MAX], *errors[BATCH_MAX];
    const char *at[BATCH_MAX];
    size_t key_sizes[BATCH_MAX], value_sizes[BATCH_MAX];
    uint64_t wanted[BATCH_MAX];
    for (size_t k = 0; k < r->batch; k++) {
        wanted[k] = draw(r);
        key_of(wanted[k], keys[k]);
        at[k] = keys[k];
        key_sizes[k] = KEY_BYTES;
    }
    rocksdb_multi_get(r->db, r->options, r->batch, at, key_sizes, values, value_sizes, errors);
    for (size_t k = 0; k < r->batch; k++) {
        check(errors[k]);
        if (values[k] == NULL || memcmp(values[k], &wanted[k], sizeof wanted[k]) != 0)
            check((char[]){"a row has another's content"});
        r->sum += (uint64_t)(unsigned char)values[k][8];
        free(values[k]);
    }
}

static void *read_until(void *ctx)
{
    reader *r = ctx;
    for (double now = now_s(); now < r->end_s;) {
        read_batch(r);
        const double then = now;
        now = now_s();
        r->took_s[r->n++ % SAMPLES] = now - then;
    }
    return NULL;
}

static void read_all(reader *readers, int threads, double for_s)
{
    const double end_s = now_s() + for_s;
    for (int t = 0; t < threads; t++) {
        readers[t].n = 0;
        readers[t].end_s = end_s;
        if (pthread_create(&readers[t].thread, NULL, read_until, &readers[t]) != 0)
            check((char[]){"no thread"});
    }
    for (int t = 0; t < threads; t++)
        pthread_join(readers[t].thread, NULL);
}

static double since_us(struct timeval before, struct timeval after)
{
    return (double)(after.tv_sec - before.tv_sec) * 1e6 + (double)(after.tv_usec - before.tv_usec);
}

/* Latencies are those of the first thread's batches. */
static void read_rows(const char *folder, uint64_t rows, double for_s, size_t batch,
                      size_t cache_bytes, int threads)
{
    reader *readers = calloc((size_t)threads, sizeof *readers);
    struct rusage before, after;
    rocksdb_t *db = open_folder(folder, cache_bytes);
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_verify_checksums(options, 1);
    for (int t = 0; t < threads; t++) {
        readers[t].db = db;
        readers[t].options = options;
        readers[t].rows = rows;
        readers[t].batch = batch;
        readers[t].state = 88172645463325252u + (uint64_t)t * 7919;
    }
    read_all(readers, threads, 0.5); /* warm */
    getrusage(RUSAGE_SELF, &before);
    const double began = now_s();
    read_all(readers, threads, for_s);
    const double took = now_s() - began;
    getrusage(RUSAGE_SELF, &after);
    double n = 0;
    for (int t = 0; t < threads; t++)
        n += (double)readers[t].n * (double)batch;
    const size_t kept = readers[0].n < SAMPLES ? readers[0].n : SAMPLES;
    qsort(readers[0].took_s, kept, sizeof readers[0].took_s[0], ascending);
    printf("{\"case\":\"rocksdb\",\"batch\":%zu,\"threads\":%d,\"per_s\":%.0f,"
           "\"batch_p50_us\":%.1f,\"batch_p99_us\":%.1f,\"user_us\":%.3f,\"system_us\":%.3f}\n",
           batch, threads, n / took, 1e6 * readers[0].took_s[kept / 2],
           1e6 * readers[0].took_s[kept * 99 / 100], since_us(before.ru_utime, after.ru_utime) / n,
           since_us(before.ru_stime, after.ru_stime) / n);
    rocksdb_close(db);
    free(readers);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "fill") == 0)
        fill(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    else if (argc == 8 && strcmp(argv[1], "read") == 0 && atoi(argv[5]) <= BATCH_MAX &&
             atoi(argv[7]) <= THREADS_MAX)
        read_rows(argv[2], strtoull(argv[3], NULL, 10), atof(argv[4]), (size_t)atoi(argv[5]),
                  strtoull(argv[6], NULL, 10), atoi(argv[7]));
    else
        return fprintf(stderr, "see the head of rocksdb_rows.c\n"), 2;
    return 0;
}
