/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Fused softmax cross entropy. Logits are read once, a chunk at a time, with an online log-sum-exp;
 * the backward pass recomputes exp(logit - lse), so probabilities are never stored. With a sliced
 * vocabulary (tensor parallelism), a target outside this slice picks no logit. */
typedef struct cross_entropy {
    orr_tensor_iter walk;
    orr_indices targets;
    uint32_t loss, lse, lses, pick, sum; /* parts of the iterator; logits are part 0 */
    int64_t begin, columns, rows;
    uint32_t slices;
    const orr_operand
        *gathered; /* in the second call with a sliced vocabulary: the log-sum-exps of all slices */
} cross_entropy;

static float logit_at(const cross_entropy *c, const orr_tensor_cursor *cursor, int64_t row)
{
    float logit;
    const int64_t target = orr_indices_at(&c->targets, row) - c->begin;
    if (target < 0 || target >= c->columns)
        return 0;
    const float *x = orr_tensor_iter_read(&c->walk, 0, cursor, target, 1, &logit);
    return *x;
}

static double lse_of_row(const cross_entropy *c, const orr_tensor_cursor *cursor)
{
    const orr_vector_math *math = orr_vector_math_of_cpu();
    _Alignas(64) float buffer[ORR_ELEMENT_CHUNK];
    float most = -INFINITY;
    double sum = 0;
    for (int64_t from = 0, n; from < c->columns; from += n) {
        n = c->columns - from < ORR_ELEMENT_CHUNK ? c->columns - from : ORR_ELEMENT_CHUNK;
        const float *x = orr_tensor_iter_read(&c->walk, 0, cursor, from, n, buffer);
        const float larger = math->most(x, n);
        if (larger > most) {
            sum *= exp((double)(most - larger));
            most = larger;
        }
        sum += (double)math->exp_sum(x, isinf(most) ? 0 : most, n);
    }
    return (double)most + log(sum);
}

/* The log-sum-exp of a row over all slices. */
static double lse_of_slices(const cross_entropy *c, int64_t row)
{
    orr_tensor_iter walk = orr_tensor_iter_over(&c->gathered->type);
    orr_tensor_cursor cursor;
    double most = -INFINITY, sum = 0;
    orr_tensor_iter_add(&walk, c->gathered);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t s = 0; s < c->slices; s++) {
            /* (slices, ...): all but the last dim are rows of the iterator */
            const int64_t at = s * c->rows + row, columns = orr_tensor_iter_columns(&walk);
            float lse;
            orr_tensor_iter_seek(&walk, at / columns, &cursor);
            const float *x = orr_tensor_iter_read(&walk, 0, &cursor, at % columns, 1, &lse);
            if (pass == 0)
                most = fmax(most, (double)*x);
            else
                sum += exp((double)*x - most);
        }
    return most + log(sum);
}

static void entropy_rows(void *ctx, int64_t begin, int64_t end)
{
    const cross_entropy *c = ctx;
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&c->walk, begin, &cursor);
    for (int64_t i = begin; i < end; i++, orr_tensor_iter_next(&c->walk, &cursor)) {
        const double lse = c->gathered != NULL ? lse_of_slices(c, i) : lse_of_row(c, &cursor);
        const double share = c->gathered != NULL ? lse / c->slices : c->slices > 1 ? 0 : lse;
        const double logit = (double)logit_at(c, &cursor, i);
        orr_tensor_iter_write_scalar(&c->walk, c->loss, &cursor, (float)(share - logit));
        orr_tensor_iter_write_scalar(&c->walk, c->lse, &cursor, (float)lse);
    }
}

/* Columns that are words; the others are padding. */
static int64_t words_of(const orr_op_args *args, int64_t columns)
{
    const int64_t words = args->count < 0 ? 0 : args->count;
    return args->count == 0 || words > columns ? columns : words;
}

static orr_status cross_entropy_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    cross_entropy c = {.walk = orr_tensor_iter_over(&call->in[0].type),
                       .targets = orr_indices_of(&call->in[1]),
                       .begin = call->args->begin,
                       .slices = call->args->members,
                       .gathered = call->n_in > 2 ? &call->in[2] : NULL};
    orr_tensor_iter_add(&c.walk, &call->in[0]);
    c.loss = orr_tensor_iter_add_per_row(&c.walk, &call->out[0]);
    c.lse = orr_tensor_iter_add_per_row(&c.walk, &call->out[1]);
    orr_tensor_iter_coalesce(&c.walk, 1);
    c.columns = words_of(call->args, orr_tensor_iter_columns(&c.walk));
    c.rows = orr_tensor_iter_rows(&c.walk);
    orr_parallel_ranges(c.rows, orr_rows_per_range(c.gathered != NULL ? 256 : c.columns),
                        entropy_rows, &c, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_CROSS_ENTROPY = {.run = cross_entropy_run};

static void gradient_rows(void *ctx, int64_t begin, int64_t end)
{
    enum { MADE = 1 };
    const cross_entropy *c = ctx;
    _Alignas(64) float in[ORR_ELEMENT_CHUNK], out[ORR_ELEMENT_CHUNK];
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&c->walk, begin, &cursor);
    for (int64_t i = begin; i < end; i++, orr_tensor_iter_next(&c->walk, &cursor)) {
        const float lse = orr_tensor_iter_read_scalar(&c->walk, c->lse, &cursor),
                    pick = orr_tensor_iter_read_scalar(&c->walk, c->pick, &cursor),
                    sum = orr_tensor_iter_read_scalar(&c->walk, c->sum, &cursor);
        const int64_t target = orr_indices_at(&c->targets, i) - c->begin;
        for (int64_t from = 0, n; from < c->columns; from += n) {
            n = c->columns - from < ORR_ELEMENT_CHUNK ? c->columns - from : ORR_ELEMENT_CHUNK;
            const float *x = orr_tensor_iter_read(&c->walk, 0, &cursor, from, n, in);
            float *y = orr_tensor_iter_buffer(&c->walk, MADE, &cursor, from, out);
            orr_vector_math_of_cpu()->exp_scaled(x, lse, sum, n, y);
            if (target >= from && target < from + n)
                y[target - from] -= pick;
            orr_tensor_iter_write(&c->walk, MADE, &cursor, from, n, y);
        }
        for (int64_t from = c->columns, n; from < orr_tensor_iter_columns(&c->walk); from += n) {
            n = orr_tensor_iter_columns(&c->walk) - from;
            n = n < ORR_ELEMENT_CHUNK ? n : ORR_ELEMENT_CHUNK;
            orr_vector_math_of_cpu()->fill(0, n, out);
            orr_tensor_iter_write(&c->walk, MADE, &cursor, from, n, out);
        }
    }
}

static orr_status cross_entropy_back_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    cross_entropy c = {.walk = orr_tensor_iter_over(&call->in[0].type),
                       .targets = orr_indices_of(&call->in[1]),
                       .begin = call->args->begin};
    if (call->out[0].data == NULL)
        return ORR_OK;
    orr_tensor_iter_add(&c.walk, &call->in[0]);
    orr_tensor_iter_add(&c.walk, &call->out[0]);
    c.lse = orr_tensor_iter_add_per_row(&c.walk, &call->in[2]);
    c.pick = orr_tensor_iter_add_per_row(&c.walk, &call->in[3]);
    c.sum = call->n_in > 4 ? orr_tensor_iter_add_per_row(&c.walk, &call->in[4]) : c.pick;
    orr_tensor_iter_coalesce(&c.walk, 1);
    c.columns = words_of(call->args, orr_tensor_iter_columns(&c.walk));
    orr_parallel_ranges(orr_tensor_iter_rows(&c.walk),
                        orr_rows_per_range(orr_tensor_iter_columns(&c.walk)), gradient_rows, &c,
                        call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_CROSS_ENTROPY_BACKWARD = {.run = cross_entropy_back_run};
