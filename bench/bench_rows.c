/* SPDX-License-Identifier: Apache-2.0 */
/* Random rows out of a row file: how many a second, how long each takes, and what it costs the
 * processor, checksums and copies included.
 *
 *   bench_rows fill PATH ROW_BYTES ROWS          makes the file
 *   bench_rows read PATH SECONDS DEPTH [plain]   reads rows of it at random, as it is on the device
 *   bench_rows raw PATH BYTES SECONDS DEPTH      reads transfers of BYTES at random, unchecked
 *
 * Prints a JSON line. See store.py, which runs fio and RocksDB beside it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/philox.h"
#include "store/file/row_file.h"

enum { DEPTH_MAX = 1024, ROW_MAX = 4096, SLOT_BYTES = 8192, BATCH = 4096, SAMPLES = 1 << 22 };

typedef struct reading {
    orr_block_device *device;
    orr_row_file *file; /* NULL: raw */
    const orr_row_entry *entries;
    uint64_t places; /* rows, or transfers of `bytes` */
    uint32_t bytes, depth;
    orr_random random;
    char *memory; /* shape (depth, SLOT_BYTES) */
    uint64_t rows[DEPTH_MAX];
    int64_t begun_ns[DEPTH_MAX];
    uint32_t *latencies_ns; /* shape (SAMPLES) */
    uint64_t n, checksum;
} reading;

static int stop(const char *what, const orr_error *err)
{
    fprintf(stderr, "bench_rows: %s: %s\n", what, err->text);
    return 1;
}

static double seconds(struct timeval spent)
{
    return (double)spent.tv_sec + (double)spent.tv_usec / 1e6;
}

static void request(reading *r, uint32_t slot, orr_block_request *ret)
{
    const uint64_t place = orr_random_below(&r->random, r->places);
    r->rows[slot] = place;
    *ret = (orr_block_request){.data = r->memory + (size_t)slot * SLOT_BYTES, .tag = slot};
    if (r->file == NULL) {
        ret->at = place * r->bytes;
        ret->bytes = r->bytes;
        return;
    }
    const orr_row_read at = orr_row_file_locate(r->file, 0, r->entries[place] & ORR_ROW_HOME_MASK);
    ret->at = at.at;
    ret->bytes = at.bytes;
}

static orr_status use(reading *r, uint32_t slot, orr_error *err)
{
    const char *data = r->memory + (size_t)slot * SLOT_BYTES;
    uint64_t row[ROW_MAX / 8];
    if (r->file != NULL) {
        const uint64_t place = r->rows[slot];
        ORR_TRY(orr_row_file_check(r->file, 0, (int64_t)place,
                                   r->entries[place] & ORR_ROW_HOME_MASK, data, row, NULL, err));
        if (row[0] != place)
            return orr_fail(err, ORR_PARSE, "row %" PRIu64 " has another's content", place);
        data = (const char *)row;
    }
    r->checksum += (uint8_t)data[0];
    return ORR_OK;
}

static orr_status run(reading *r, int64_t end_ns, orr_error *err)
{
    orr_block_device *device = r->device;
    orr_block_request requests[DEPTH_MAX];
    orr_block_completion done[DEPTH_MAX];
    uint32_t n = r->depth, in_flight = 0;
    for (uint32_t k = 0; k < n; k++)
        request(r, k, &requests[k]);
    for (int64_t now_ns = orr_clock_now_ns(&orr_clock_monotonic);;) {
        uint32_t begun = 0;
        for (uint32_t k = 0; k < n; k++)
            r->begun_ns[requests[k].tag] = now_ns;
        ORR_TRY(device->submit(device, requests, n, &begun, err));
        in_flight += begun;
        if (in_flight == 0)
            return ORR_OK;
        ORR_TRY(device->reap(device, 1, done, r->depth, &n, err));
        in_flight -= n;
        now_ns = orr_clock_now_ns(&orr_clock_monotonic);
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t slot = (uint32_t)done[k].tag;
            if (done[k].error != 0)
                return orr_fail(err, ORR_IO, "%s", strerror(done[k].error));
            r->latencies_ns[r->n++ % SAMPLES] = (uint32_t)(now_ns - r->begun_ns[slot]);
            ORR_TRY(use(r, slot, err));
            request(r, slot, &requests[k]);
        }
        if (now_ns >= end_ns)
            n = 0;
    }
}

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static orr_status measure(reading *r, double for_s, orr_error *err)
{
    struct rusage before, after;
    r->memory = aligned_alloc(4096, (size_t)r->depth * SLOT_BYTES);
    r->latencies_ns = malloc(SAMPLES * sizeof *r->latencies_ns);
    memset(r->latencies_ns, 0, SAMPLES * sizeof *r->latencies_ns);
    r->random = orr_random_of(17, 0);
    if (r->device->use_memory != NULL)
        ORR_TRY(r->device->use_memory(r->device, r->memory, (size_t)r->depth * SLOT_BYTES, err));
    ORR_TRY(run(r, orr_clock_now_ns(&orr_clock_monotonic) + 200000000, err)); /* warm */
    r->n = 0;
    getrusage(RUSAGE_SELF, &before);
    const int64_t began_ns = orr_clock_now_ns(&orr_clock_monotonic);
    ORR_TRY(run(r, began_ns + (int64_t)(for_s * 1e9), err));
    const double took_s = (double)(orr_clock_now_ns(&orr_clock_monotonic) - began_ns) / 1e9;
    getrusage(RUSAGE_SELF, &after);
    const size_t kept = r->n < SAMPLES ? r->n : SAMPLES;
    qsort(r->latencies_ns, kept, sizeof *r->latencies_ns, ascending);
    printf("{\"case\":\"%s\",\"engine\":\"%s\",\"depth\":%u,\"per_s\":%.0f,\"p50_us\":%.1f,"
           "\"p99_us\":%.1f,\"user_us\":%.3f,\"system_us\":%.3f}\n",
           r->file != NULL ? "rows" : "raw", r->device->name, r->depth, (double)r->n / took_s,
           r->latencies_ns[kept / 2] / 1e3, r->latencies_ns[kept * 99 / 100] / 1e3,
           1e6 * (seconds(after.ru_utime) - seconds(before.ru_utime)) / (double)r->n,
           1e6 * (seconds(after.ru_stime) - seconds(before.ru_stime)) / (double)r->n);
    return ORR_OK;
}

static orr_status pump(orr_block_device *device, orr_row_file *file, orr_error *err)
{
    orr_block_completion done[DEPTH_MAX];
    uint32_t n = 0;
    ORR_TRY(orr_row_file_pump(file, NULL, 0, err));
    ORR_TRY(device->reap(device, orr_row_file_in_flight(file) > 0, done, DEPTH_MAX, &n, err));
    return orr_row_file_pump(file, done, n, err);
}

static orr_status commit(orr_row_file *file, int64_t step, orr_error *err)
{
    orr_row_file_lock(file);
    const orr_status status = orr_row_file_begin_commit(file, step, err);
    orr_row_file_unlock(file);
    ORR_TRY(status);
    ORR_TRY(orr_row_file_finish_commit(file, NULL, NULL, err));
    orr_row_file_lock(file);
    orr_row_file_settle(file, step);
    orr_row_file_unlock(file);
    return ORR_OK;
}

/* The part of the file that rows are in: elsewhere it was never written, and is read without the
 * device. */
static void print_range(orr_row_file *file, int64_t rows)
{
    const orr_row_entry *entries = orr_row_file_entries(file, 0);
    uint64_t from = UINT64_MAX, to = 0;
    for (int64_t row = 0; row < rows; row++) {
        const orr_row_read at = orr_row_file_locate(file, 0, entries[row] & ORR_ROW_HOME_MASK);
        from = at.at < from ? at.at : from;
        to = at.at + at.bytes > to ? at.at + at.bytes : to;
    }
    printf("{\"case\":\"fill\",\"from\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n", from, to - from);
}

static orr_status fill(const char *path, uint32_t row_bytes, int64_t rows, orr_error *err)
{
    const orr_row_shard shard = {.table = "t",
                                 .table_rows = rows,
                                 .rows = rows,
                                 .table_columns = row_bytes / 4,
                                 .column_end = row_bytes / 4,
                                 .row_bytes = row_bytes};
    const orr_row_file_facts facts = {.model = 1, .ranks = 1, .n_shards = 1, .shards = &shard};
    const orr_row_file_options options = {.durable = true};
    orr_block_open how = {.path = path, .create = true};
    orr_block_device *device = NULL;
    orr_row_file *file = NULL;
    ORR_TRY(orr_row_file_bytes(&facts, 512, 0.2, &how.bytes, err));
    ORR_TRY(orr_block_device_open(&how, &device, err));
    ORR_TRY(orr_row_file_create(device, &facts, &options, &file, err));
    orr_row_entry *entries = orr_row_file_entries(file, 0);
    uint64_t content[ROW_MAX / 8] = {0};
    orr_status status = ORR_OK;
    for (int64_t row = 0; row < rows && status == ORR_OK; row++) {
        content[0] = (uint64_t)row;
        content[1] = (uint64_t)row * 0x9e3779b97f4a7c15;
        orr_row_file_lock(file);
        status = orr_row_file_append(file, 0, row, content, NULL, false, &entries[row], err);
        orr_row_file_unlock(file);
        if (status == ORR_OK && row % BATCH == BATCH - 1)
            status = pump(device, file, err);
    }
    if (status == ORR_OK)
        status = commit(file, 1, err);
    if (status == ORR_OK)
        print_range(file, rows);
    orr_row_file_close(file);
    return status;
}

static orr_status read_rows(const char *path, double for_s, uint32_t depth, bool plain,
                            orr_error *err)
{
    const orr_block_open how = {.path = path, .depth = depth, .plain = plain};
    const orr_row_file_options options = {.durable = true};
    reading r = {.depth = depth};
    ORR_TRY(orr_block_device_open(&how, &r.device, err));
    const orr_status status = orr_row_file_open(r.device, NULL, -1, &options, &r.file, err);
    if (status != ORR_OK) {
        r.device->close(r.device);
        return status;
    }
    r.entries = orr_row_file_entries(r.file, 0);
    r.places = (uint64_t)orr_row_file_facts_of(r.file)->shards[0].rows;
    ORR_TRY(measure(&r, for_s, err));
    orr_row_file_close(r.file);
    return ORR_OK;
}

static orr_status read_raw(const char *path, uint32_t bytes, double for_s, uint32_t depth,
                           orr_error *err)
{
    const orr_block_open how = {.path = path, .depth = depth, .read_only = true};
    reading r = {.depth = depth, .bytes = bytes};
    ORR_TRY(orr_block_device_open(&how, &r.device, err));
    r.places = r.device->bytes / bytes;
    ORR_TRY(measure(&r, for_s, err));
    r.device->close(r.device);
    return ORR_OK;
}

int main(int argc, char **argv)
{
    orr_error err = {0};
    orr_status status = ORR_INVALID;
    if (argc == 5 && strcmp(argv[1], "fill") == 0)
        status = fill(argv[2], (uint32_t)atoi(argv[3]), atoll(argv[4]), &err);
    else if (argc >= 5 && strcmp(argv[1], "read") == 0 && atoi(argv[4]) <= DEPTH_MAX)
        status = read_rows(argv[2], atof(argv[3]), (uint32_t)atoi(argv[4]), argc > 5, &err);
    else if (argc == 6 && strcmp(argv[1], "raw") == 0 && atoi(argv[5]) <= DEPTH_MAX)
        status = read_raw(argv[2], (uint32_t)atoi(argv[3]), atof(argv[4]), (uint32_t)atoi(argv[5]),
                          &err);
    else
        orr_fail(&err, ORR_INVALID, "see the head of bench_rows.c");
    return status == ORR_OK ? 0 : stop(argc > 1 ? argv[1] : "usage", &err);
}
