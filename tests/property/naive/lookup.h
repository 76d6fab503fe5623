/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_ROWS_H
#define TESTS_NAIVE_ROWS_H

#include "call.h"

/* Embeddings, bags of them, and losses. */

static void naive_embedding(const naive_call *c)
{
    const int64_t rows = c->in_type[0].dim[0], columns = c->in_type[0].dim[1];
    for (int64_t i = 0; i < naive_size(&c->in_type[1]); i++) {
        const int64_t row = (int64_t)c->in[1][i] - c->args->begin;
        const bool here = row >= 0 && row < rows;
        for (int64_t j = 0; j < columns; j++)
            c->out[0][i * columns + j] = here ? c->in[0][row * columns + j] : 0;
    }
}

static void naive_embedding_backward(const naive_call *c)
{
    const int64_t rows = c->out_type[0].dim[0], columns = c->out_type[0].dim[1];
    naive_zero(c->out[0], rows * columns);
    for (int64_t i = 0; i < naive_size(&c->in_type[1]); i++) {
        const int64_t row = (int64_t)c->in[1][i] - c->args->begin;
        for (int64_t j = 0; j < columns && row >= 0 && row < rows; j++)
            c->out[0][row * columns + j] += c->in[0][i * columns + j];
    }
}

/* The bag of lookup i: by where the bags begin, or all of one size. */
static int64_t naive_bag_of(const naive_call *c, int64_t i)
{
    if (c->n_in < 3)
        return i / naive_columns(&c->in_type[1]);
    int64_t bag = 0;
    while (bag + 1 < naive_size(&c->in_type[2]) && (int64_t)c->in[2][bag + 1] <= i)
        bag++;
    return bag;
}

static void naive_embedding_bag(const naive_call *c)
{
    const int64_t columns = c->in_type[0].dim[1];
    naive_zero(c->out[0], naive_size(&c->out_type[0]));
    for (int64_t i = 0; i < naive_size(&c->in_type[1]); i++) {
        const int64_t row = (int64_t)c->in[1][i], bag = naive_bag_of(c, i);
        for (int64_t j = 0; j < columns; j++)
            c->out[0][bag * columns + j] += c->in[0][row * columns + j];
    }
}

static void naive_embedding_bag_backward(const naive_call *c)
{
    const int64_t columns = naive_columns(&c->in_type[0]);
    for (int64_t i = 0; i < naive_size(&c->in_type[1]); i++)
        for (int64_t j = 0; j < columns; j++)
            c->out[0][i * columns + j] = c->in[0][naive_bag_of(c, i) * columns + j];
}

/* log(sum(exp(x))) of n numbers, `step` apart. */
static double naive_lse(const double *x, int64_t n, int64_t step)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, x[i * step]);
    if (isinf(most))
        return most;
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i * step] - most);
    return most + log(sum);
}

/* Columns that are no padding. */
static int64_t naive_words(const naive_call *c, int64_t columns)
{
    return c->args->count > 0 ? c->args->count : c->args->count < 0 ? 0 : columns;
}

static void naive_cross_entropy(const naive_call *c)
{
    const int64_t columns = naive_columns(&c->in_type[0]), rows = naive_rows(&c->in_type[0]);
    const bool sliced = c->args->members > 1, merges = c->n_in == 3;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t target = (int64_t)c->in[1][i] - c->args->begin;
        const bool here = target >= 0 && target < columns;
        const int64_t words = naive_words(c, columns);
        const double lse = merges ? naive_lse(c->in[2] + i, c->in_type[2].dim[0], rows)
                                  : naive_lse(c->in[0] + i * columns, words, 1);
        const double share = merges ? lse / c->args->members : sliced ? 0 : lse;
        c->out[0][i] = share - (here ? c->in[0][i * columns + target] : 0);
        c->out[1][i] = lse;
    }
}

static void naive_cross_entropy_backward(const naive_call *c)
{
    const int64_t columns = naive_columns(&c->in_type[0]), rows = naive_rows(&c->in_type[0]);
    const double *pick = c->in[3], *sum = c->n_in > 4 ? c->in[4] : c->in[3];
    for (int64_t i = 0; i < rows; i++) {
        const int64_t target = (int64_t)c->in[1][i] - c->args->begin;
        naive_zero(c->out[0] + i * columns, columns);
        for (int64_t j = 0; j < naive_words(c, columns); j++)
            c->out[0][i * columns + j] =
                exp(c->in[0][i * columns + j] - c->in[2][i]) * sum[i] - (j == target ? pick[i] : 0);
    }
}

static void naive_bce_loss(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++) {
        const double x = c->in[0][i], y = c->in[1][i];
        c->out[0][i] = log1p(exp(-fabs(x))) + fmax(x, 0) - x * y;
    }
}

static void naive_bce_loss_backward(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++)
        c->out[0][i] = (1 / (1 + exp(-c->in[0][i])) - c->in[1][i]) * c->in[2][i];
}

#endif /* TESTS_NAIVE_ROWS_H */
