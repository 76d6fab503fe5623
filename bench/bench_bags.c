/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding bags: rows a second of lookups in a table of 8M x 64 in bags of 100, in each format;
 * and the parts of a step of DLRM with 8 tables of 1M x 64, 100 lookups each, batch 2048, exact
 * row-wise Adagrad.
 *
 *   bench_bags [THREADS]
 *
 * Prints a JSON line for each. Beside them the floor: reading as many lines from random places, one
 * thread, with the same fetching ahead. */
#include "kernel_bench.h"

enum { ROWS = 8000000, COLUMNS = 64, POOL = 100, BAGS = 16384, DLRM_BAGS = 2048 * 8 };

static orr_operand ids_of(int64_t bags)
{
    const orr_operand ids = OPERAND(INT64, bags, POOL);
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < bags * POOL; i++)
        ((int64_t *)ids.data)[i] = (int64_t)(random_of(&state) % ROWS);
    return ids;
}

static void report(const char *name, double rows, double seconds, double row_bytes, int threads)
{
    printf("{\"case\": \"%s\", \"threads\": %d, \"million_rows_per_s\": %.2f, \"gb_per_s\": %.2f, "
           "\"ms\": %.2f}\n",
           name, threads, rows / seconds / 1e6, rows * row_bytes / seconds / 1e9, seconds * 1e3);
}

/* What the sum of a row cannot be faster than: its lines are read, nothing is made of them. */
static void run_floor(const orr_operand *ids, const char *table, int64_t row_bytes)
{
    const int64_t *id = ids->data, n = BAGS * POOL;
    double least = 1e9;
    uint64_t sum = 0;
    for (int r = 0; r < 4; r++) {
        const double begin = now_s();
        for (int64_t i = 0; i + 16 < n; i++) {
            const char *ahead = table + id[i + 16] * row_bytes, *row = table + id[i] * row_bytes;
            for (int64_t at = 0; at < row_bytes; at += 64) {
                __builtin_prefetch(ahead + at);
                sum += (uint64_t)row[at];
            }
        }
        const double took = now_s() - begin;
        least = took < least ? took : least;
    }
    printf("{\"case\": \"floor_of_%lld_bytes\", \"million_rows_per_s\": %.2f, \"sum\": %llu}\n",
           (long long)row_bytes, (double)n / least / 1e6, (unsigned long long)sum);
}

static void run_format(orr_row_format format, const orr_operand *ids, orr_workers *workers)
{
    const int64_t row_bytes = orr_row_format_bytes(format, COLUMNS);
    char *data = bytes_of((size_t)(row_bytes * ROWS));
    const orr_row_segment piece = {.data = data, .count = ROWS};
    const orr_weight_rows rows = {.format = (uint8_t)format,
                                  .columns = COLUMNS,
                                  .row_bytes = row_bytes,
                                  .segments = &piece,
                                  .n_segments = 1};
    const orr_operand in[] = {{.type = {.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {ROWS, COLUMNS}},
                               .rows = &rows},
                              *ids},
                      out = OPERAND(FP32, BAGS, COLUMNS);
    const orr_op_args args = {0};
    orr_kernel_call call = {.op = ORR_OP_EMBEDDING_BAG,
                            .args = &args,
                            .n_in = 2,
                            .n_out = 1,
                            .in = in,
                            .out = &out,
                            .workers = workers};
    memset(data, 1, (size_t)(row_bytes * ROWS));
    if (orr_workers_count(workers) == 1)
        run_floor(ids, data, row_bytes);
    report(orr_row_format_name(format), BAGS * POOL, time_call(&call, 4), (double)row_bytes,
           orr_workers_count(workers));
    orr_backend *cpu = the_cpu();
    cpu->release(cpu, data, (size_t)(row_bytes * ROWS));
}

/* Rows of the gradient for each lookup, as the operator says; then of each bag, from which the same
 * update is made. */
static void run_dlrm(orr_workers *workers)
{
    const orr_operand ids = ids_of(DLRM_BAGS), table = OPERAND(FP32, ROWS, COLUMNS),
                      state = OPERAND(FP32, ROWS), dy = OPERAND(FP32, DLRM_BAGS, COLUMNS),
                      rows = OPERAND(FP32, DLRM_BAGS * POOL, COLUMNS);
    const orr_op_args args = {0};
    const double lookups = DLRM_BAGS * POOL;
    const int threads = orr_workers_count(workers);
    fill(&dy);
    const orr_update update = {.rate = 0.01, .epsilon = 1e-8, .gradient_scale = 1, .step = 1};
    const orr_operand look[] = {table, ids}, back[] = {dy, ids},
                      apply[] = {table, rows, state, ids}, shared[] = {table, dy, state, ids};
    orr_kernel_call call = {.op = ORR_OP_EMBEDDING_BAG,
                            .args = &args,
                            .n_in = 2,
                            .n_out = 1,
                            .in = look,
                            .out = &dy,
                            .update = &update,
                            .workers = workers};
    report("dlrm_forward", lookups, time_call(&call, 3), 256, threads);
    call.op = ORR_OP_EMBEDDING_BAG_BACKWARD, call.in = back, call.out = &rows;
    report("dlrm_backward", lookups, time_call(&call, 3), 256, threads);
    call.op = ORR_OP_ROWWISE_ADAGRAD, call.in = apply, call.n_in = 4, call.n_out = 0;
    report("dlrm_adagrad", lookups, time_call(&call, 3), 3 * 256, threads);
    call.in = shared;
    report("dlrm_adagrad_of_bags", lookups, time_call(&call, 3), 2 * 256, threads);
}

int main(int argc, char **argv)
{
    orr_workers *workers = workers_of(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1);
    const orr_operand ids = ids_of(BAGS);
    if (argc < 3) {
        run_format(ORR_ROW_FORMAT_FP32, &ids, workers);
        run_format(ORR_ROW_FORMAT_BF16, &ids, workers);
        run_format(ORR_ROW_FORMAT_INT8, &ids, workers);
        run_format(ORR_ROW_FORMAT_INT4, &ids, workers);
    }
    run_dlrm(workers);
    orr_workers_free(workers);
    return 0;
}
