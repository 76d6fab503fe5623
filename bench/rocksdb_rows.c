/* SPDX-License-Identifier: Apache-2.0 */
/* Random rows out of RocksDB, as bench_rows.c reads them out of a row file. Not part of the build:
 * store.py compiles it where RocksDB is installed.
 *
 *   rocksdb_rows fill FOLDER ROW_BYTES ROWS
 *   rocksdb_rows read FOLDER ROWS SECONDS BATCH CACHE_BYTES   by MultiGet of BATCH keys
 *
 * Set up in its favour: no compression, direct reads, blocks of 4 KiB found by hash, indices and
 * filters in memory beside the cache, one level after compaction, no log while it is filled. */
#include <inttypes.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { KEY_BYTES = 8, BATCH_MAX = 1024, ROW_MAX = 4096, SAMPLES = 1 << 20 };

static uint64_t state = 88172645463325252u;
static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
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

static uint64_t read_batch(rocksdb_t *db, const rocksdb_readoptions_t *options, uint64_t rows,
                           size_t batch)
{
    static char keys[BATCH_MAX][KEY_BYTES], *values[BATCH_MAX], *errors[BATCH_MAX];
    static const char *at[BATCH_MAX];
    static size_t key_sizes[BATCH_MAX], value_sizes[BATCH_MAX];
    uint64_t wanted[BATCH_MAX], sum = 0;
    for (size_t k = 0; k < batch; k++) {
        wanted[k] = draw(rows);
        key_of(wanted[k], keys[k]);
        at[k] = keys[k];
        key_sizes[k] = KEY_BYTES;
    }
    rocksdb_multi_get(db, options, batch, at, key_sizes, values, value_sizes, errors);
    for (size_t k = 0; k < batch; k++) {
        check(errors[k]);
        if (values[k] == NULL || memcmp(values[k], &wanted[k], sizeof wanted[k]) != 0)
            check((char[]){"a row has another's content"});
        sum += (uint64_t)values[k][8];
        free(values[k]);
    }
    return sum;
}

static void read_rows(const char *folder, uint64_t rows, double for_s, size_t batch,
                      size_t cache_bytes)
{
    static double took[SAMPLES];
    struct rusage before, after;
    rocksdb_t *db = open_folder(folder, cache_bytes);
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_verify_checksums(options, 1);
    uint64_t n = 0, sum = 0;
    for (int k = 0; k < 200; k++)
        sum += read_batch(db, options, rows, batch);
    getrusage(RUSAGE_SELF, &before);
    const double began = now_s();
    double now = began;
    while (now < began + for_s) {
        sum += read_batch(db, options, rows, batch);
        const double then = now;
        now = now_s();
        took[n++ % SAMPLES] = now - then;
    }
    getrusage(RUSAGE_SELF, &after);
    const size_t kept = n < SAMPLES ? n : SAMPLES;
    const double done = (double)n * (double)batch;
    qsort(took, kept, sizeof took[0], ascending);
    const double user = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1e6 +
                        (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec),
                 system = (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1e6 +
                          (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec);
    printf("{\"case\":\"rocksdb\",\"batch\":%zu,\"per_s\":%.0f,\"batch_p50_us\":%.1f,"
           "\"batch_p99_us\":%.1f,\"user_us\":%.3f,\"system_us\":%.3f,\"sum\":%" PRIu64 "}\n",
           batch, done / (now - began), 1e6 * took[kept / 2], 1e6 * took[kept * 99 / 100],
           user / done, system / done, sum);
    rocksdb_close(db);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "fill") == 0)
        fill(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    else if (argc == 7 && strcmp(argv[1], "read") == 0 && atoi(argv[5]) <= BATCH_MAX)
        read_rows(argv[2], strtoull(argv[3], NULL, 10), atof(argv[4]), (size_t)atoi(argv[5]),
                  strtoull(argv[6], NULL, 10));
    else
        return fprintf(stderr, "see the head of rocksdb_rows.c\n"), 2;
    return 0;
}
