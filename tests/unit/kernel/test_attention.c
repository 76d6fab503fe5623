/* SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"
#include "kernel/cpu/attention/attention.h"
#include "kernel/cpu/simd/cpu_level.h"

/* Attention, and its gradients, against the plainest form in double precision: long rows, caches,
 * chunks that end within blocks, heads that share keys, odd widths. */
typedef struct attention_case {
    int64_t batch, queries, keys, heads, groups, width, value_width, window, offset;
    orr_mask mask;
    orr_dtype dtype;
    bool plain, starts; /* starts: samples stand at 0, 7, 14 ... */
    double dropped;
    int64_t begin; /* position of the first key */
} attention_case;

static const attention_case CASES[] = {
    {1, 3, 3, 1, 1, 4, 4, 0, 0, ORR_MASK_NONE, ORR_DTYPE_FP32, false, false, 0, 0},
    {2, 70, 70, 4, 2, 24, 40, 0, 0, ORR_MASK_CAUSAL, ORR_DTYPE_FP32, false, false, 0, 0},
    {1, 200, 200, 2, 1, 64, 64, 0, 0, ORR_MASK_CAUSAL, ORR_DTYPE_BF16, false, false, 0, 0},
    {2, 1, 700, 6, 2, 33, 17, 0, 650, ORR_MASK_CAUSAL, ORR_DTYPE_FP32, false, false, 0, 0},
    {3, 5, 600, 4, 4, 65, 31, 0, 0, ORR_MASK_CAUSAL, ORR_DTYPE_BF16, false, true, 0, 0},
    {1, 130, 130, 2, 2, 16, 16, 37, 0, ORR_MASK_CHUNKED, ORR_DTYPE_FP32, false, false, 0, 0},
    {1, 130, 260, 2, 2, 16, 16, 64, 128, ORR_MASK_CHUNKED, ORR_DTYPE_BF16, false, false, 0, 0},
    {1, 9, 40, 3, 1, 8, 8, 0, -4, ORR_MASK_CAUSAL, ORR_DTYPE_FP32, false, false, 0, 0},
    {1, 20, 33, 2, 1, 300, 270, 0, 13, ORR_MASK_CAUSAL, ORR_DTYPE_FP32, false, false, 0, 0},
    {1, 20, 33, 2, 1, 300, 271, 0, 13, ORR_MASK_CAUSAL, ORR_DTYPE_BF16, false, false, 0, 0},
    {1, 2, 2000, 2, 1, 64, 64, 0, 0, ORR_MASK_NONE, ORR_DTYPE_FP32, false, false, 0, 0},
    {1, 100, 70, 4, 2, 24, 24, 0, 30, ORR_MASK_CAUSAL, ORR_DTYPE_FP32, false, false, 0, 60},
    {1, 100, 70, 4, 2, 24, 24, 48, 30, ORR_MASK_CHUNKED, ORR_DTYPE_BF16, false, false, 0, 60},
    {2, 70, 75, 4, 2, 24, 40, 0, 5, ORR_MASK_CAUSAL, ORR_DTYPE_FP32, true, false, 0, 0},
    {1, 70, 70, 2, 2, 24, 24, 20, 0, ORR_MASK_CHUNKED, ORR_DTYPE_BF16, true, false, 0, 0},
    {2, 70, 75, 4, 2, 24, 40, 0, 5, ORR_MASK_CAUSAL, ORR_DTYPE_FP32, true, false, 0.3, 0},
    {1, 30, 30, 2, 2, 24, 24, 0, 0, ORR_MASK_NONE, ORR_DTYPE_BF16, true, false, 0.5, 0},
};
enum { N_CASES = sizeof CASES / sizeof *CASES };

typedef struct bench {
    const attention_case *c;
    orr_op_args args;
    int64_t first[8];
    tensor q, k, v, y, lse, p, mask, left, dy, dq, dk, dv;
} bench;

#define DIMS(...)                                                                                  \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void begin(bench *t, const attention_case *c)
{
    *t = (bench){.c = c};
    t->args = (orr_op_args){.mask = (uint8_t)c->mask,
                            .window = c->window,
                            .offset = c->offset,
                            .begin = c->begin,
                            .flash = !c->plain,
                            .value = c->dropped};
    for (int64_t b = 0; b < c->batch; b++)
        t->first[b] = 7 * b;
    const int64_t *q = DIMS(c->batch, c->queries, c->heads, c->width),
                  *k = DIMS(c->batch, c->keys, c->groups, c->width),
                  *v = DIMS(c->batch, c->keys, c->groups, c->value_width),
                  *y = DIMS(c->batch, c->queries, c->heads, c->value_width),
                  *pairs = DIMS(c->batch, c->heads, c->queries, c->keys);
    t->q = tensor_of(c->dtype, 4, q, 6);
    t->k = tensor_of(c->dtype, 4, k, 10);
    t->v = tensor_of(c->dtype, 4, v, 2);
    t->y = tensor_of(c->dtype, 4, y, 4);
    t->dy = tensor_of(c->dtype, 4, y, 0);
    t->dq = tensor_of(c->dtype, 4, q, 2);
    t->dk = tensor_of(c->dtype, 4, k, 0);
    t->dv = tensor_of(c->dtype, 4, v, 8);
    t->lse = tensor_of(ORR_DTYPE_FP32, 3, pairs, 0);
    t->p = tensor_of(c->dtype, 4, pairs, 0);
    t->left = tensor_of(c->dtype, 4, pairs, 0);
    t->mask = tensor_of(ORR_DTYPE_INT8, 4, pairs, 0);
    draw_all(&t->q);
    draw_all(&t->k);
    draw_all(&t->v);
    draw_all(&t->dy);
}

static void end(bench *t)
{
    tensor *all[] = {&t->q,    &t->k,    &t->v,  &t->y,  &t->lse, &t->p,
                     &t->mask, &t->left, &t->dy, &t->dq, &t->dk,  &t->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static bool sees(const bench *t, int64_t b, int64_t i, int64_t j)
{
    const attention_case *c = t->c;
    const int64_t first = c->starts ? t->first[b] : c->offset, at = first + i;
    if (c->starts && j >= first + c->queries)
        return false;
    j += c->begin;
    return c->mask == ORR_MASK_NONE ||
           (j <= at && (c->mask == ORR_MASK_CAUSAL || j / c->window == at / c->window));
}

static const double *row(const tensor *x, int64_t b, int64_t s, int64_t h)
{
    const int64_t *d = x->operand.type.dim;
    return x->value + ((b * d[1] + s) * d[2] + h) * d[3];
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Probabilities of one query; the logsumexp is returned. */
static double probabilities(const bench *t, int64_t b, int64_t i, int64_t h, double *p)
{
    const attention_case *c = t->c;
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < c->keys; j++) {
        p[j] = sees(t, b, i, j) ? dot(row(&t->q, b, i, h),
                                      row(&t->k, b, j, h / (c->heads / c->groups)), c->width) /
                                      sqrt((double)c->width)
                                : -INFINITY;
        most = fmax(most, p[j]);
    }
    for (int64_t j = 0; j < c->keys; j++)
        sum += p[j] = most == -INFINITY ? 0 : exp(p[j] - most);
    for (int64_t j = 0; j < c->keys; j++)
        p[j] = sum > 0 ? p[j] / sum : 0;
    return most + log(sum);
}

static void one_query(bench *t, int64_t b, int64_t i, int64_t h)
{
    const attention_case *c = t->c;
    const int64_t share = c->heads / c->groups, r = (b * c->heads + h) * c->queries + i;
    double *p = orr_calloc((size_t)c->keys, 2 * sizeof *p), *dp = p + c->keys, sum = 0;
    t->lse.value[r] = probabilities(t, b, i, h, p);
    const double *dy = row(&t->dy, b, i, h);
    double *y = (double *)row(&t->y, b, i, h), *dq = (double *)row(&t->dq, b, i, h);
    for (int64_t j = 0; j < c->keys; j++) {
        const int64_t at = r * c->keys + j;
        const bool keeps = c->dropped == 0 || orr_attention_dropout_keeps(5, at, c->dropped);
        const double grown = keeps ? 1 / (1 - c->dropped) : 0, left = p[j] * grown;
        t->p.value[at] = p[j];
        t->mask.value[at] = keeps;
        t->left.value[at] = left;
        const double *v = row(&t->v, b, j, h / share);
        double *dv = (double *)row(&t->dv, b, j, h / share);
        dp[j] = dot(dy, v, c->value_width) * grown;
        sum += p[j] * dp[j];
        for (int64_t d = 0; d < c->value_width; d++) {
            y[d] += left * v[d];
            dv[d] += left * dy[d];
        }
    }
    for (int64_t j = 0; j < c->keys; j++) {
        const double ds = p[j] * (dp[j] - sum) / sqrt((double)c->width);
        const double *q = row(&t->q, b, i, h), *k = row(&t->k, b, j, h / share);
        double *dk = (double *)row(&t->dk, b, j, h / share);
        for (int64_t d = 0; d < c->width; d++) {
            dq[d] += ds * k[d];
            dk[d] += ds * q[d];
        }
    }
    orr_free(p);
}

static void compute_reference(bench *t)
{
    for (int64_t b = 0; b < t->c->batch; b++)
        for (int64_t i = 0; i < t->c->queries; i++)
            for (int64_t h = 0; h < t->c->heads; h++)
                one_query(t, b, i, h);
}

static void run_forward(bench *t, orr_workers *workers)
{
    const bool drops = t->c->dropped > 0;
    const orr_operand in[3] = {t->q.operand, t->k.operand, t->v.operand},
                      out[4] = {t->y.operand, t->c->plain ? t->p.operand : t->lse.operand,
                                t->mask.operand, t->left.operand};
    orr_kernel_call call = {.op = ORR_OP_ATTENTION,
                            .args = &t->args,
                            .n_in = 3,
                            .n_out = drops ? 4 : 2,
                            .in = in,
                            .out = out,
                            .seed = 5,
                            .first = t->c->starts ? t->first : NULL,
                            .workers = workers};
    assert_int_equal(run_call(&call, NULL), ORR_OK);
}

static void run_backward(bench *t, orr_workers *workers)
{
    const bool drops = t->c->dropped > 0, plain = t->c->plain;
    const orr_operand in[7] = {t->dy.operand,
                               t->q.operand,
                               t->k.operand,
                               t->v.operand,
                               plain ? t->p.operand : t->y.operand,
                               plain ? t->mask.operand : t->lse.operand,
                               t->left.operand},
                      out[3] = {t->dq.operand, t->dk.operand, t->dv.operand};
    orr_kernel_call call = {.op = ORR_OP_ATTENTION_BACKWARD,
                            .args = &t->args,
                            .n_in = plain ? drops ? 7 : 5 : 6,
                            .n_out = 3,
                            .in = in,
                            .out = out,
                            .first = t->c->starts ? t->first : NULL,
                            .workers = workers};
    assert_int_equal(run_call(&call, NULL), ORR_OK);
}

static void one_case_agrees(const attention_case *c)
{
    bench t;
    begin(&t, c);
    compute_reference(&t);
    run_forward(&t, NULL);
    const double within = c->dtype == ORR_DTYPE_FP32 ? 1e-5 : 1.5e-2;
    assert_near(&t.y, within, "y");
    if (c->plain)
        assert_near(&t.p, within, "probabilities");
    else
        assert_near(&t.lse, 1e-5, "logsumexp");
    if (c->dropped > 0) {
        assert_near(&t.mask, 0, "mask");
        assert_near(&t.left, within, "left");
    }
    run_backward(&t, NULL);
    assert_near(&t.dv, within, "dv");
    assert_near(&t.dq, within, "dq");
    assert_near(&t.dk, within, "dk");
    end(&t);
}

static void agrees_at_each_level(void **state)
{
    (void)state;
    for (int level = 0; level < ORR_CPU_LEVELS; level++) {
        orr_cpu_level_limit((orr_cpu_level_id)level);
        for (size_t i = 0; i < N_CASES; i++)
            one_case_agrees(&CASES[i]);
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

static void same_bits(const tensor *a, const tensor *b)
{
    for (int64_t i = 0; i < a->n; i++)
        assert_memory_equal(element(a, i), element(b, i),
                            (size_t)orr_dtype_stride_bytes((orr_dtype)a->operand.type.dtype));
}

static void threads_change_nothing(void **state)
{
    (void)state;
    orr_workers *workers;
    assert_int_equal(orr_workers_new(3, &workers, NULL), ORR_OK);
    for (size_t i = 0; i < N_CASES; i++) {
        bench one, three;
        const uint64_t seed = drawn;
        begin(&one, &CASES[i]);
        drawn = seed;
        begin(&three, &CASES[i]);
        run_forward(&one, NULL);
        run_backward(&one, NULL);
        run_forward(&three, workers);
        run_backward(&three, workers);
        same_bits(&one.y, &three.y);
        same_bits(&one.dq, &three.dq);
        same_bits(&one.dk, &three.dk);
        same_bits(&one.dv, &three.dv);
        end(&one);
        end(&three);
    }
    orr_workers_free(workers);
}

static void what_is_not_a_number_stays_so(void **state)
{
    (void)state;
    bench t;
    begin(&t, &CASES[1]);
    put(&t.k, 0, NAN);
    run_forward(&t, NULL);
    for (int64_t d = 0; d < CASES[1].value_width; d++)
        assert_true(isnan(got(&t.y, d)));
    end(&t);
}

static void too_many_keys_are_refused(void **state)
{
    (void)state;
    bench t;
    begin(&t, &CASES[4]);
    t.first[2] = 596;
    const orr_operand in[3] = {t.q.operand, t.k.operand, t.v.operand},
                      out[2] = {t.y.operand, t.lse.operand};
    orr_kernel_call call = {.op = ORR_OP_ATTENTION,
                            .args = &t.args,
                            .n_in = 3,
                            .n_out = 2,
                            .in = in,
                            .out = out,
                            .first = t.first};
    orr_error err;
    assert_int_equal(run_call(&call, &err), ORR_INVALID);
    assert_string_equal(err.text,
                        "attention: sample 2 has 5 tokens behind 596, and there is room for "
                        "600 keys");
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_at_each_level),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(what_is_not_a_number_stays_so),
        cmocka_unit_test(too_many_keys_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
