/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Merges two partial attentions of the same queries over disjoint keys by their log-sum-exp, as
 * ring attention does (Liu et al., arXiv 2310.01889): y = (exp(l1) y1 + exp(l2) y2) / (exp(l1) +
 * exp(l2)). */
enum { COLUMNS = 1024 };

typedef struct merge {
    orr_tensor_iter y, l; /* parts: first, second, merged; l has one number per row */
    int64_t columns;
} merge;

/* log(exp(a) + exp(b)), and the weight of a; -infinity if both are. */
static float share_of(float a, float b, float *ret_sum)
{
    const float max = a > b || isnan(a) ? a : b;
    if (max == -INFINITY) {
        *ret_sum = -INFINITY;
        return 0;
    }
    const float sum = expf(a - max) + expf(b - max);
    *ret_sum = max + logf(sum);
    return expf(a - max) / sum;
}

static void merge_row(const merge *m, const orr_tensor_cursor *cursor, float share, float other)
{
    float a[COLUMNS], b[COLUMNS];
    for (int64_t at = 0, n; at < m->columns; at += n) {
        n = m->columns - at < COLUMNS ? m->columns - at : COLUMNS;
        const float *x = orr_tensor_iter_read(&m->y, 0, cursor, at, n, a),
                    *x2 = orr_tensor_iter_read(&m->y, 1, cursor, at, n, b);
        for (int64_t j = 0; j < n; j++)
            a[j] = x[j] * share + x2[j] * other;
        orr_tensor_iter_write(&m->y, 2, cursor, at, n, a);
    }
}

static void merge_rows(void *ctx, int64_t begin, int64_t end)
{
    const merge *m = ctx;
    orr_tensor_cursor y, l;
    orr_tensor_iter_seek(&m->y, begin, &y);
    orr_tensor_iter_seek(&m->l, begin, &l);
    for (int64_t i = begin; i < end; i++) {
        const float a = orr_tensor_iter_read_scalar(&m->l, 0, &l),
                    b = orr_tensor_iter_read_scalar(&m->l, 1, &l);
        float sum, ignored;
        const float share = share_of(a, b, &sum);
        if (m->y.part[2].data != NULL)
            merge_row(m, &y, share, share_of(b, a, &ignored));
        if (m->l.part[2].data != NULL)
            orr_tensor_iter_write_scalar(&m->l, 2, &l, sum);
        orr_tensor_iter_next(&m->y, &y);
        orr_tensor_iter_next(&m->l, &l);
    }
}

/* Log-sum-exps (B, H, S) as rows of one number in the order of y, (B, S, H, 1). */
static orr_operand as_rows(const orr_operand *l)
{
    orr_operand rows = *l;
    const int64_t *d = l->type.dim, *s = l->stride;
    const int64_t dim[4] = {d[0], d[2], d[1], 1}, stride[4] = {s[0], s[2], s[1], 1};
    rows.type.rank = 4;
    for (int k = 0; k < 4; k++) {
        rows.type.dim[k] = dim[k];
        rows.stride[k] = stride[k];
    }
    return rows;
}

static orr_status merge_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const orr_operand l[3] = {as_rows(&call->in[1]), as_rows(&call->in[3]), as_rows(&call->out[1])};
    merge m = {.y = orr_tensor_iter_over(&call->in[0].type), .l = orr_tensor_iter_over(&l[0].type)};
    (void)orr_tensor_iter_add(&m.y, &call->in[0]);
    (void)orr_tensor_iter_add(&m.y, &call->in[2]);
    (void)orr_tensor_iter_add(&m.y, &call->out[0]);
    for (int k = 0; k < 3; k++)
        (void)orr_tensor_iter_add(&m.l, &l[k]);
    m.columns = orr_tensor_iter_columns(&m.y);
    orr_parallel_ranges(orr_tensor_iter_rows(&m.y), orr_rows_per_range(m.columns), merge_rows, &m,
                        call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_ATTENTION_MERGE = {.run = merge_run};
