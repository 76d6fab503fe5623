/* SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"
#include "kernel/cpu/embedding/bags.h"
#include "kernel/format/dtype_convert.h"
#include "kernel/format/row.h"
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/entries.h"
#include "kernel/cpu/embedding/sorted_lookups.h"

/* Row-wise Adagrad (Mudigere et al., arXiv 2104.05158, section 4.1.4), exact: the gradients g of
 * all lookups of a row are summed first, then
 *
 *   state += mean(g^2),  row -= rate g / (sqrt(state) + epsilon).
 *
 * A gradient row belongs to one lookup or to several (all of a bag), of which there are then as
 * many fewer. Rows that were not looked up do not change, so there is no weight decay. Sums over
 * many lookups are made in parts of 256, which bounds the rounding error. */
enum { COLUMNS = 1024, PART = 256, AHEAD = 16 };

typedef struct adagrad {
    orr_sorted_lookups sparse;
    orr_embedding_table table, gradient; /* rows of the gradient, as a table read by row number */
    int64_t each;                        /* lookups of a gradient row */
    float *state;
    int64_t state_step;
    orr_adagrad_step step;
    float scale; /* scale of the gradients */
    orr_row_sum *sum;
    orr_adagrad_row *update;
    const orr_vector_math *math;
} adagrad;

static const char *gradient_row(const adagrad *a, const orr_lookup *lookup)
{
    const int64_t row = a->each == 1 ? lookup->at : lookup->at / a->each;
    return a->gradient.base + row * a->gradient.row_bytes;
}

static char *table_row(const adagrad *a, int64_t first, const orr_lookup *lookup)
{
    return a->table.base + (first + lookup->row) * a->table.row_bytes;
}

static void fetch(const adagrad *a, int64_t first, const orr_lookup *lookup)
{
    const char *gradient = gradient_row(a, lookup), *row = table_row(a, first, lookup);
    for (int64_t at = 0; at < a->gradient.row_bytes; at += 64)
        __builtin_prefetch(gradient + at);
    for (int64_t at = 0; at < a->table.row_bytes; at += 64)
        __builtin_prefetch(row + at, 1);
    __builtin_prefetch(&a->state[(first + lookup->row) * a->state_step], 1);
}

/* The sum of n gradient rows. */
static void add_rows(const adagrad *a, const orr_lookup *lookup, int64_t n, float *sum)
{
    const char *row[PART];
    for (int64_t i = 0; i < n; i++)
        row[i] = gradient_row(a, &lookup[i]);
    a->math->fill(0, a->table.columns, sum);
    a->sum(row, n, 0, a->table.columns, sum);
}

/* The gradient of a table row: in place where it has one lookup, else in `sum`. */
static const float *sum_gradients(const adagrad *a, const orr_lookup *lookup, int64_t n, float *sum)
{
    if (n == 1 && a->scale == 1 && a->gradient.format == ORR_ROW_FORMAT_FP32)
        return (const float *)(const void *)gradient_row(a, lookup);
    float part[COLUMNS];
    add_rows(a, lookup, n < PART ? n : PART, sum);
    for (int64_t i = PART; i < n; i += PART) {
        add_rows(a, lookup + i, n - i < PART ? n - i : PART, part);
        a->math->add(sum, part, a->table.columns, sum);
    }
    if (a->scale != 1)
        a->math->scale(sum, a->scale, a->table.columns, sum);
    return sum;
}

static void update_row(const adagrad *a, char *row, float *state, const float *g)
{
    const int64_t n = a->table.columns;
    if (a->table.format == ORR_ROW_FORMAT_FP32) {
        a->update(&a->step, g, n, state, (float *)(void *)row);
        return;
    }
    const orr_dtype dtype =
        a->table.format == ORR_ROW_FORMAT_BF16 ? ORR_DTYPE_BF16 : ORR_DTYPE_FP16;
    float values[COLUMNS];
    orr_dtype_to_fp32(dtype, row, n, values);
    a->update(&a->step, g, n, state, values);
    orr_dtype_from_fp32(dtype, values, n, row);
}

static void update_range(void *ctx, size_t range, int thread)
{
    (void)thread;
    const adagrad *a = ctx;
    int64_t n, fetched = 0;
    const orr_lookup *lookup = orr_sorted_lookups_sort_range(&a->sparse, (int64_t)range, &n);
    const int64_t first = (int64_t)range << a->sparse.shift;
    float sum[COLUMNS];
    for (int64_t i = 0, end; i < n; i = end) {
        for (; fetched < n && fetched < i + AHEAD; fetched++)
            fetch(a, first, &lookup[fetched]);
        for (end = i + 1; end < n && lookup[end].row == lookup[i].row; end++)
            continue;
        update_row(a, table_row(a, first, &lookup[i]),
                   &a->state[(first + lookup[i].row) * a->state_step],
                   sum_gradients(a, lookup + i, end - i, sum));
    }
}

static orr_status check(const orr_kernel_call *call, const adagrad *a, int64_t ids, orr_error *err)
{
    if (a->table.columns > COLUMNS || a->table.segments != NULL || a->gradient.segments != NULL ||
        call->in[2].type.dtype != ORR_DTYPE_FP32)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "rowwise_adagrad: a table of numbers of up to %d columns and a state in "
                        "fp32 are needed",
                        COLUMNS);
    if (call->update == NULL || (ids > 0 && a->each * a->gradient.rows != ids))
        return orr_fail(err, ORR_INVALID, "rowwise_adagrad: %s",
                        call->update == NULL ? "no rate is given"
                                             : "rows of the gradient do not share out the ids");
    return ORR_OK;
}

static size_t adagrad_workspace(const orr_kernel_call *call)
{
    return orr_sorted_lookups_bytes(orr_type_elements(&call->in[3].type), call->in[0].type.dim[0]);
}

static orr_status adagrad_run(const orr_kernel_call *call, orr_error *err)
{
    adagrad a = {.state = call->in[2].data, .state_step = call->in[2].stride[0]};
    const orr_indices ids = orr_indices_of(&call->in[3]);
    ORR_TRY(orr_embedding_table_of(&call->in[0], "rowwise_adagrad", &a.table, err));
    ORR_TRY(orr_embedding_table_of(&call->in[1], "rowwise_adagrad", &a.gradient, err));
    a.each = a.gradient.rows > 0 ? ids.n / a.gradient.rows : 0;
    ORR_TRY(check(call, &a, ids.n, err));
    a.step = (orr_adagrad_step){.rate = (float)call->update->rate,
                                .epsilon = (float)call->update->epsilon,
                                .mean = 1 / (float)a.table.columns};
    a.update = orr_adagrad_row_of();
    a.scale = (float)call->update->gradient_scale;
    a.sum = orr_row_sum_of(a.gradient.format);
    a.math = orr_vector_math_of_cpu();
    ORR_TRY(orr_sorted_lookups_partition(&a.sparse, &ids, a.table.rows, call->workspace,
                                         call->workers, err));
    ORR_TRY(orr_invalid_id_check(&a.sparse.stray, &ids, a.table.rows, "rowwise_adagrad", err));
    orr_workers_run(call->workers, (size_t)a.sparse.ranges, update_range, &a);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_ROWWISE_ADAGRAD = {.run = adagrad_run,
                                                  .workspace = adagrad_workspace};
