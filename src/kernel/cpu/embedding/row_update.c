/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/embedding/row_update.h"

#include <math.h>
#include <string.h>

#include "base/workers.h"
#include "kernel/cpu/tensor/radix_sort.h"
#include "kernel/format/row.h"

/* Updates of the rows that were looked up, exact: the gradients g of all lookups of a row are
 * summed first; then, by optimizer,
 *
 *   row-wise Adagrad  state += mean(g^2),  row -= rate g / (sqrt(state) + epsilon)
 *                     (Mudigere et al., arXiv 2104.05158, section 4.1.4)
 *   Adagrad           the same, with a state for each number
 *   row-wise Adam     m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) mean(g^2),
 *                     row -= rate m' / (sqrt(v') + epsilon), m' and v' corrected for their bias
 *   SGD               row -= rate g
 *
 * Rows that were not looked up do not change, so there is no weight decay. A work item is a range
 * of rows: it is sorted and updated while its lookups are in the caches. */
enum { COLUMNS = ORR_SHARD_UPDATE_COLUMNS, AHEAD = 16, NEAR_BYTES = 1 << 20 };

typedef struct run {
    const orr_row_update *update;
    orr_row_store *store;
    orr_row_format format;
    orr_row_optimizer optimizer;
    int64_t columns, padded; /* of the shard; a whole number of blocks */
    uint32_t blocks;
    bool whole; /* rows are whole blocks, and so are gradients: ranges at once */
    orr_row_step step;
    orr_bag_gradients gradients;
    orr_row_sum *sum; /* of gradients that are not fp32 */
    const orr_row_kernels *kernels;
    uint64_t noise; /* of stochastic rounding: of seed, table, step and the shard's first row */
    const uint64_t *owner; /* of slots; NULL: slot k is row k */
    /* Where squares are summed elsewhere: of the rows that were looked up, by slot. */
    int64_t *first; /* shape (ranges + 1): of each range */
    int64_t *row;   /* shape (rows): their numbers, where they are not the slots' */
    float *squares; /* shape (rows, blocks) */
    float *square;  /* shape (rows): of all columns; NULL: of the columns at hand */
} run;

float orr_sum_blocks(const float *squares, uint32_t blocks)
{
    float left[33];
    uint32_t top = 0;
    for (uint32_t b = 0; b < blocks; b++) {
        float sum = squares[b];
        for (uint32_t right = b; right % 2 == 1; right /= 2)
            sum = left[--top] + sum;
        left[top++] = sum;
    }
    for (; top > 1; top--)
        left[top - 2] = left[top - 2] + left[top - 1];
    return top > 0 ? left[0] : 0;
}

/* Gradients that are not whole blocks of fp32, those of the operator: in the same parts. */
static void read_gradients(const run *r, const orr_lookup *lookup, int64_t n, float *sum)
{
    float part[COLUMNS];
    const char *row[ORR_ROW_PART];
    memset(sum, 0, (size_t)r->padded * sizeof *sum);
    for (int64_t i = 0, some; i < n; i += some) {
        for (some = 0; some < ORR_ROW_PART && i + some < n; some++)
            row[some] = r->gradients.at + lookup[i + some].sample * r->gradients.row_bytes;
        memset(part, 0, (size_t)r->columns * sizeof *part);
        r->sum(row, some, 0, r->columns, part);
        for (int64_t j = 0; j < r->columns; j++)
            sum[j] += part[j];
    }
    for (int64_t j = 0; j < r->columns; j++)
        sum[j] *= r->step.scale;
}

static void sum_gradients(const run *r, const orr_lookup *lookup, int64_t n, float *sum)
{
    if (r->sum != NULL)
        read_gradients(r, lookup, n, sum);
    else
        r->kernels->sum_bags(&r->step, &r->gradients, lookup, n, r->padded, sum);
}

/* The step of a row that is not whole blocks of fp32: its numbers and state are copied. */
static void step_values(const run *r, const float *g, float square, float *x, float *state)
{
    const size_t bytes = (size_t)r->columns * sizeof *state;
    const bool numbers =
        r->optimizer == ORR_ROW_OPTIMIZER_ADAGRAD || r->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM;
    if (r->columns == r->padded || !numbers) {
        r->kernels->step[r->optimizer](&r->step, g, square, r->padded, x, state);
        return;
    }
    float room[COLUMNS + 1] = {0};
    const bool second = r->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM;
    memcpy(room, state, bytes);
    room[r->padded] = second ? state[r->columns] : 0;
    r->kernels->step[r->optimizer](&r->step, g, square, r->padded, x, room);
    memcpy(state, room, bytes);
    if (second)
        state[r->columns] = room[r->padded];
}

static uint32_t first_column(const run *r)
{
    return r->update->shard != NULL ? r->update->shard->lookups->shard->column_begin : 0;
}

/* Stochastic rounding, seeded by what does not depend on the sharding. */
static void round_row(const run *r, uint64_t row, const float *x, char *record)
{
    uint16_t rounded[COLUMNS];
    r->kernels->round[r->format](x, orr_row_noise(r->noise + row), first_column(r), r->padded,
                                 rounded);
    memcpy(record, rounded, (size_t)r->columns * sizeof *rounded);
}

static char *record_of(const run *r, int64_t slot)
{
    return r->store->base + slot * r->store->record_bytes;
}

/* The row in a slot. `square`: of all columns. */
static void step_row(const run *r, int64_t slot, const float *g, float square)
{
    float x[COLUMNS];
    char *record = record_of(r, slot);
    float *state = (float *)(void *)orr_row_store_state(r->store, slot);
    memset(x + r->columns, 0, (size_t)(r->padded - r->columns) * sizeof *x);
    orr_row_to_fp32(r->format, record, r->columns, x);
    step_values(r, g, square, x, state);
    if (r->format != ORR_ROW_FORMAT_FP32 && r->update->shard != NULL)
        round_row(r, orr_row_of_slot(r->owner, slot), x, record);
    else
        orr_row_from_fp32(r->format, x, r->columns, record);
}

static bool needs_square(orr_row_optimizer optimizer)
{
    return optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD ||
           optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM;
}

static float square_of(const run *r, const float *g)
{
    float squares[COLUMNS / ORR_EMBEDDING_BLOCK];
    if (!needs_square(r->optimizer))
        return 0;
    r->kernels->squares(g, r->padded, squares);
    return orr_sum_blocks(squares, r->blocks);
}

static void fetch(const run *r, int64_t slot)
{
    const char *record = record_of(r, slot);
    for (int64_t at = 0; at < r->store->record_bytes; at += 64)
        __builtin_prefetch(record + at, 1);
    if (r->store->states != NULL)
        __builtin_prefetch(orr_row_store_state(r->store, slot), 1);
}

/* The lookups from i on that are of one row; returns the first that is not. */
static int64_t end_of_row(const orr_lookup *lookup, int64_t i, int64_t n)
{
    int64_t end = i + 1;
    while (end < n && lookup[end].row == lookup[i].row)
        end++;
    return end;
}

static void update_rows(const run *r, int64_t range, const orr_lookup *lookup, int64_t n)
{
    const int64_t first = range << r->update->lookups.shift;
    int64_t k = r->first != NULL ? r->first[range] : 0;
    float g[COLUMNS];
    for (int64_t i = 0, end; i < n; i = end, k++) {
        end = end_of_row(lookup, i, n);
        for (int64_t a = i + AHEAD; a < end + AHEAD && a < n; a++)
            fetch(r, first + lookup[a].row);
        sum_gradients(r, lookup + i, end - i, g);
        step_row(r, first + lookup[i].row, g, r->square != NULL ? r->square[k] : square_of(r, g));
    }
}

static void update_range(void *ctx, size_t range, int thread)
{
    (void)thread;
    const run *r = ctx;
    const orr_row_store *s = r->store;
    const orr_sorted_lookups *sorted = &r->update->lookups;
    int64_t n;
    const orr_lookup *lookup = r->first != NULL
                                   ? orr_sorted_lookups_of_range(sorted, (int64_t)range, &n)
                                   : orr_sorted_lookups_sort_range(sorted, (int64_t)range, &n);
    if (!r->whole) {
        update_rows(r, (int64_t)range, lookup, n);
        return;
    }
    const int64_t first = (int64_t)range << sorted->shift;
    char none[1]; /* of SGD */
    const orr_row_range rows = {.rows = record_of(r, first),
                                .states = s->states != NULL ? orr_row_store_state(s, first) : none,
                                .row_bytes = s->record_bytes,
                                .state_bytes = s->states != NULL ? s->state_bytes : 0,
                                .columns = r->columns,
                                .format = r->format,
                                .noise = r->noise + (r->owner != NULL ? 0 : (uint64_t)first),
                                .owner = r->owner != NULL ? r->owner + first : NULL,
                                .column = first_column(r),
                                .square = r->square != NULL ? r->square + r->first[range] : NULL};
    r->kernels->update[r->optimizer](&r->step, &r->gradients, &rows, lookup, n);
}

/* Sorts a range and counts its rows. */
static void count_range(void *ctx, size_t range, int thread)
{
    (void)thread;
    const run *r = ctx;
    int64_t n, rows = 0;
    const orr_lookup *lookup =
        orr_sorted_lookups_sort_range(&r->update->lookups, (int64_t)range, &n);
    for (int64_t i = 0; i < n; i++)
        rows += i == 0 || lookup[i].row != lookup[i - 1].row;
    r->first[range + 1] = rows;
}

/* The squares of the blocks of a range's rows, and their numbers. */
static void list_range(void *ctx, size_t range, int thread)
{
    (void)thread;
    const run *r = ctx;
    int64_t n, k = r->first[range];
    const orr_lookup *lookup = orr_sorted_lookups_of_range(&r->update->lookups, (int64_t)range, &n);
    r->kernels->squares_of_rows(&r->step, &r->gradients, lookup, n, r->padded,
                                r->squares + k * r->blocks);
    for (int64_t i = 0; r->owner != NULL && i < n; i = end_of_row(lookup, i, n))
        r->row[k++] = (int64_t)orr_row_of_slot(
            r->owner, ((int64_t)range << r->update->lookups.shift) + lookup[i].row);
}

static bool sums_elsewhere(const orr_row_store *store, const orr_shard_update *shard)
{
    return shard != NULL && shard->sum_squares != NULL &&
           needs_square((orr_row_optimizer)store->optimizer);
}

static size_t lines(int64_t count, size_t bytes)
{
    return ((size_t)count * bytes + 63) / 64 * 64;
}

static int64_t blocks_of(const orr_row_store *store)
{
    return (store->columns + ORR_EMBEDDING_BLOCK - 1) / ORR_EMBEDDING_BLOCK;
}

/* The lists of rows, which are at most as many as lookups: squares; where slots are not rows, the
 * numbers, two lists of places and the squares once more. */
size_t orr_row_update_bytes(const orr_row_store *store, const orr_shard_update *shard,
                            int64_t lookups, int64_t ranges)
{
    if (!sums_elsewhere(store, shard))
        return 0;
    const size_t squares = lines(lookups * (blocks_of(store) + 1), sizeof(float));
    return lines(ranges + 1, sizeof(int64_t)) + squares +
           (shard->lookups->slots != NULL
                ? squares + lines(lookups, sizeof(int64_t)) + lines(2 * lookups, sizeof(uint32_t))
                : 0);
}

/* Squares are given in the order of rows, which is the same wherever slots are. `room`: places,
 * then squares. */
static orr_status sum_by_row(run *r, int64_t rows, float *ret, char *room, orr_error *err)
{
    const orr_shard_update *shard = r->update->shard;
    const orr_operand operand = {.type = {.dtype = ORR_DTYPE_INT64, .rank = 1, .dim = {rows}},
                                 .stride = {1},
                                 .data = r->row};
    const orr_indices numbers = orr_indices_of(&operand);
    uint32_t *places = (uint32_t *)(void *)room;
    float *squares = (float *)(void *)(room + lines(2 * rows, sizeof *places)),
          *sums = squares + rows * r->blocks;
    const uint32_t *sorted = orr_radix_sort_ids(&numbers, places, places + rows);
    for (int64_t i = 0; i < rows; i++)
        memcpy(squares + i * r->blocks, r->squares + (int64_t)sorted[i] * r->blocks,
               r->blocks * sizeof *squares);
    ORR_TRY(shard->sum_squares(shard->ctx, squares, rows, r->blocks, sums, err));
    for (int64_t i = 0; i < rows; i++)
        ret[sorted[i]] = sums[i];
    return ORR_OK;
}

static orr_status share_squares(run *r, char *room, orr_workers *workers, orr_error *err)
{
    const orr_shard_update *shard = r->update->shard;
    const orr_sorted_lookups *l = &r->update->lookups;
    r->first = (int64_t *)(void *)room;
    room += lines(l->ranges + 1, sizeof *r->first);
    r->squares = (float *)(void *)room;
    room += lines(l->ids->n * (r->blocks + 1), sizeof *r->squares);
    r->row = (int64_t *)(void *)room;
    r->first[0] = 0;
    orr_workers_run(workers, (size_t)l->ranges, count_range, r);
    for (int64_t range = 0; range < l->ranges; range++)
        r->first[range + 1] += r->first[range];
    const int64_t rows = r->first[l->ranges];
    orr_workers_run(workers, (size_t)l->ranges, list_range, r);
    float *square = r->squares + rows * r->blocks;
    if (r->owner != NULL)
        ORR_TRY(sum_by_row(r, rows, square, room + lines(l->ids->n, sizeof *r->row), err));
    else
        ORR_TRY(shard->sum_squares(shard->ctx, r->squares, rows, r->blocks, square, err));
    r->square = square;
    return ORR_OK;
}

orr_status orr_row_update_check(const orr_row_store *store, const char *what, orr_error *err)
{
    const orr_row_format format = (orr_row_format)store->format;
    if (store->columns <= COLUMNS &&
        (format == ORR_ROW_FORMAT_FP32 || format == ORR_ROW_FORMAT_FP16 ||
         format == ORR_ROW_FORMAT_BF16))
        return ORR_OK;
    return orr_fail(err, ORR_UNSUPPORTED,
                    "%s: rows of %lld numbers in %s, not of up to %d in fp32, fp16 or bf16", what,
                    (long long)store->columns, orr_row_format_name(format), COLUMNS);
}

static orr_row_step step_of(const orr_row_update *u)
{
    const orr_update *by = u->by;
    const int64_t columns =
        sums_elsewhere(u->store, u->shard) ? u->shard->table_columns : u->store->columns;
    orr_row_step step = {.rate = (float)by->rate,
                         .epsilon = (float)by->epsilon,
                         .beta1 = (float)by->beta1,
                         .beta2 = (float)by->beta2,
                         .mean = 1 / (float)columns,
                         .scale = (float)by->gradient_scale};
    if (u->store->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM) {
        step.rate = (float)(by->rate / (1 - pow(by->beta1, (double)by->step)));
        step.second_bias = (float)(1 / (1 - pow(by->beta2, (double)by->step)));
    }
    return step;
}

/* The row number is added to what the whole table shares. */
static uint64_t noise_of(const orr_shard_update *shard)
{
    const uint64_t table = orr_row_noise(shard->seed) + shard->lookups->shard->table,
                   step = orr_row_noise(table) + (uint64_t)shard->by->step;
    return orr_row_noise(step) + (uint64_t)shard->lookups->first_row;
}

static run run_of(const orr_row_update *u)
{
    const orr_row_store *s = u->store;
    const orr_shard_update *shard = u->shard;
    const int64_t blocks = blocks_of(s);
    run r = {.update = u,
             .store = u->store,
             .format = (orr_row_format)s->format,
             .optimizer = (orr_row_optimizer)s->optimizer,
             .columns = s->columns,
             .padded = blocks * ORR_EMBEDDING_BLOCK,
             .blocks = (uint32_t)blocks,
             .step = step_of(u),
             .gradients = {.at = u->gradient.base,
                           .row_bytes = u->gradient.row_bytes,
                           .far = u->gradient.rows * u->gradient.row_bytes > NEAR_BYTES},
             .kernels = orr_row_kernels_of_cpu()};
    if (u->gradient.format != ORR_ROW_FORMAT_FP32 || u->gradient.columns != r.padded)
        r.sum = orr_row_sum_of(u->gradient.format);
    r.whole = r.columns == r.padded && r.sum == NULL &&
              (r.format == ORR_ROW_FORMAT_FP32 || shard != NULL);
    if (shard != NULL) {
        r.noise = noise_of(shard);
        r.owner = shard->lookups->slots != NULL ? s->owner : NULL;
    }
    return r;
}

orr_status orr_row_update_run(const orr_row_update *u, void *workspace, orr_workers *workers,
                              orr_error *err)
{
    run r = run_of(u);
    if (sums_elsewhere(u->store, u->shard))
        ORR_TRY(share_squares(&r, workspace, workers, err));
    orr_workers_run(workers, (size_t)u->lookups.ranges, update_range, &r);
    return ORR_OK;
}
