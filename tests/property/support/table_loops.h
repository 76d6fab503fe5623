/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TABLE_LOOPS_H
#define TESTS_TABLE_LOOPS_H

#include "base/philox.h"
#include "table_cases.h"

/* Tables of embeddings in double, on one rank, lookup by lookup. */
typedef struct naive_table {
    const orr_embedding *table;
    double *numbers, *first, *sum; /* shape (rows, columns); Adagrad's state or first moments */
    double *of_row;                /* shape (rows) */
    bool *seen;                    /* shape (rows): looked up in this step */
} naive_table;

/* The initial value of a number, drawn from seed, table, row and column. */
static inline float naive_initial(uint64_t seed, uint32_t table, const orr_embedding *of,
                                  int64_t row, uint32_t column)
{
    const uint32_t by[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                   tag[4] = {table, 0, 0, 0x7461626c};
    uint32_t key[4], drawn[4];
    orr_philox4x32(tag, by, key);
    const uint64_t block = (uint64_t)row * ((of->columns + 3) / 4) + column / 4;
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32)};
    orr_philox4x32(counter, key, drawn);
    return (float)((2 * (drawn[column % 4] + 0.5) * 0x1p-32 - 1) / sqrt((double)of->rows));
}

static inline naive_table *naive_tables_new(const table_case *c, orr_arena *arena)
{
    naive_table *ret = orr_arena_array(arena, naive_table, c->n_tables);
    for (uint32_t t = 0; t < c->n_tables; t++) {
        const orr_embedding *table = &c->tables[t];
        const size_t rows = (size_t)table->rows, n = rows * table->columns;
        ret[t] = (naive_table){.table = table,
                               .numbers = orr_arena_array(arena, double, n),
                               .first = orr_arena_array(arena, double, n),
                               .sum = orr_arena_array(arena, double, n),
                               .of_row = orr_arena_array(arena, double, rows),
                               .seen = orr_arena_array(arena, bool, rows)};
        for (size_t i = 0; i < n; i++)
            ret[t].numbers[i] = (double)naive_initial(
                c->seed, t, table, (int64_t)(i / table->columns), (uint32_t)(i % table->columns));
    }
    return ret;
}

static inline void naive_update_row(const naive_table *t, int64_t row, const orr_update *by)
{
    const uint32_t columns = t->table->columns;
    double *x = t->numbers + row * columns, *first = t->first + row * columns,
           *g = t->sum + row * columns, square = 0, rate = by->rate;
    for (uint32_t j = 0; j < columns; j++) {
        g[j] *= by->gradient_scale;
        square += g[j] * g[j] / columns;
    }
    double *second = &t->of_row[row];
    if (t->table->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD)
        *second += square;
    if (t->table->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM) {
        *second = by->beta2 * *second + (1 - by->beta2) * square;
        rate /= 1 - pow(by->beta1, (double)by->step);
    }
    for (uint32_t j = 0; j < columns; j++)
        switch ((orr_row_optimizer)t->table->optimizer) {
        case ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD:
            x[j] -= rate * g[j] / (sqrt(*second) + by->epsilon);
            break;
        case ORR_ROW_OPTIMIZER_ADAGRAD:
            first[j] += g[j] * g[j];
            x[j] -= rate * g[j] / (sqrt(first[j]) + by->epsilon);
            break;
        case ORR_ROW_OPTIMIZER_ROWWISE_ADAM:
            first[j] = by->beta1 * first[j] + (1 - by->beta1) * g[j];
            x[j] -= rate * first[j] /
                    (sqrt(*second / (1 - pow(by->beta2, (double)by->step))) + by->epsilon);
            break;
        default:
            x[j] -= rate * g[j];
        }
}

/* Bags of a step of all samples, `ret`; `magnitudes`, as `ret`: sums of magnitudes of the rows. */
static inline void naive_bags(const table_case *c, const naive_table *tables,
                              const orr_tables_batch *batch, double *ret, double *magnitudes)
{
    const int64_t *id = batch->ids;
    int64_t column = 0;
    memset(ret, 0, (size_t)(c->batch * c->columns) * sizeof *ret);
    memset(magnitudes, 0, (size_t)(c->batch * c->columns) * sizeof *ret);
    for (uint32_t t = 0; t < c->n_tables; column += c->tables[t++].columns)
        for (int64_t s = 0; s < c->batch; s++)
            for (int32_t k = batch->lengths[t * c->batch + s]; k > 0; k--, id++)
                for (uint32_t j = 0; j < c->tables[t].columns; j++) {
                    const double x = tables[t].numbers[*id * c->tables[t].columns + j];
                    ret[s * c->columns + column + j] += x;
                    magnitudes[s * c->columns + column + j] += fabs(x);
                }
}

static inline void naive_update(const table_case *c, naive_table *tables,
                                const orr_tables_batch *batch, const float *gradient,
                                const orr_update *by)
{
    const int64_t *id = batch->ids;
    for (uint32_t t = 0; t < c->n_tables; gradient += c->tables[t++].columns) {
        const naive_table *n = &tables[t];
        const uint32_t columns = n->table->columns;
        memset(n->sum, 0, (size_t)(n->table->rows * columns) * sizeof *n->sum);
        memset(n->seen, 0, (size_t)n->table->rows);
        for (int64_t s = 0; s < c->batch; s++)
            for (int32_t k = batch->lengths[t * c->batch + s]; k > 0; k--, id++) {
                n->seen[*id] = true;
                for (uint32_t j = 0; j < columns; j++)
                    n->sum[*id * columns + j] += (double)gradient[s * c->columns + j];
            }
        for (int64_t row = 0; row < n->table->rows; row++)
            if (n->seen[row])
                naive_update_row(n, row, by);
    }
}

#endif /* TESTS_TABLE_LOOPS_H */
