/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_TABLES_H
#define TESTS_NAIVE_TABLES_H

#include <math.h>

#include <orrery/embedding.h>

/* Embedding tables in doubles, as their definitions read: sums of bags and steps of the rows'
 * optimizers, without order, ranges or shards. */
typedef struct naive_table {
    int64_t rows, columns;
    orr_row_optimizer optimizer;
    double *row;   /* shape (rows, columns) */
    double *state; /* shape (rows, columns + 1): of numbers, of the row */
} naive_table;

/* Sums of bags, shape (samples, columns). */
static inline void naive_bags(const naive_table *t, const int32_t *lengths, const int64_t *ids,
                              int64_t samples, double *ret)
{
    for (int64_t s = 0, i = 0; s < samples; s++) {
        for (int64_t j = 0; j < t->columns; j++)
            ret[s * t->columns + j] = 0;
        for (int32_t k = 0; k < lengths[s]; k++, i++)
            for (int64_t j = 0; j < t->columns; j++)
                ret[s * t->columns + j] += t->row[ids[i] * t->columns + j];
    }
}

/* Sums of the gradients of each row's lookups: `ret`, shape (rows, columns); of `gradient`, shape
 * (samples, columns). */
static inline void naive_row_gradients(const naive_table *t, const int32_t *lengths,
                                       const int64_t *ids, int64_t samples, const float *gradient,
                                       double scale, double *ret)
{
    for (int64_t i = 0; i < t->rows * t->columns; i++)
        ret[i] = 0;
    for (int64_t s = 0, i = 0; s < samples; s++)
        for (int32_t k = 0; k < lengths[s]; k++, i++)
            for (int64_t j = 0; j < t->columns; j++)
                ret[ids[i] * t->columns + j] += scale * (double)gradient[s * t->columns + j];
}

static inline void naive_row_step(const naive_table *t, const orr_update *by, int64_t row,
                                  const double *g)
{
    double *x = t->row + row * t->columns, *state = t->state + row * (t->columns + 1), square = 0;
    for (int64_t j = 0; j < t->columns; j++)
        square += g[j] * g[j] / (double)t->columns;
    double *second = &state[t->columns];
    if (t->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD)
        *second += square;
    if (t->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM)
        *second = by->beta2 * *second + (1 - by->beta2) * square;
    for (int64_t j = 0; j < t->columns; j++) {
        switch (t->optimizer) {
        case ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD:
            x[j] -= by->rate * g[j] / (sqrt(*second) + by->epsilon);
            break;
        case ORR_ROW_OPTIMIZER_ADAGRAD:
            state[j] += g[j] * g[j];
            x[j] -= by->rate * g[j] / (sqrt(state[j]) + by->epsilon);
            break;
        case ORR_ROW_OPTIMIZER_ROWWISE_ADAM:
            state[j] = by->beta1 * state[j] + (1 - by->beta1) * g[j];
            x[j] -= by->rate * state[j] / (1 - pow(by->beta1, (double)by->step)) /
                    (sqrt(*second / (1 - pow(by->beta2, (double)by->step))) + by->epsilon);
            break;
        case ORR_ROW_OPTIMIZER_SGD:
        case ORR_ROW_OPTIMIZERS:
            x[j] -= by->rate * g[j];
            break;
        }
    }
}

#endif /* TESTS_NAIVE_TABLES_H */
