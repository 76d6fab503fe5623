/* SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"

#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/convolution/onednn.h"

/* Convolutions by oneDNN against plain loops in double, with the same bits for any number of
 * threads. Without the library these tests skip. */

typedef struct shape {
    int64_t samples, channels, high, wide, filters, filter_high, filter_wide;
    uint8_t stride, padding;
    int64_t gap;
} shape;

static const shape SHAPES[] = {
    {2, 64, 9, 9, 64, 1, 1, 1, 0, 0},  {3, 16, 8, 10, 128, 3, 3, 1, 1, 0},
    {2, 3, 17, 17, 20, 7, 7, 2, 3, 0}, {1, 96, 6, 6, 192, 3, 3, 2, 1, 0},
    {2, 128, 5, 5, 32, 1, 1, 2, 0, 0}, {2, 24, 7, 8, 40, 2, 3, 1, 0, 5},
    {4, 64, 4, 4, 512, 1, 1, 1, 0, 3}, {1, 1, 5, 5, 1, 3, 3, 1, 1, 0},
};

enum { X, W, Y };

static int64_t places(int64_t size, int64_t window, const shape *s)
{
    return (size + 2 * s->padding - window) / s->stride + 1;
}

/* y = x with w, or of the gradients the one that `op` makes: each product goes where it belongs. */
static void convolve(orr_op op, const shape *s, double *const value[3])
{
    const int64_t rows = places(s->high, s->filter_high, s),
                  columns = places(s->wide, s->filter_wide, s);
    for (int64_t i = 0; i < s->samples * s->filters * rows * columns; i++)
        for (int64_t tap = 0; tap < s->channels * s->filter_high * s->filter_wide; tap++) {
            const int64_t q = i % columns, p = i / columns % rows,
                          k = i / columns / rows % s->filters,
                          sample = i / columns / rows / s->filters;
            const int64_t b = tap % s->filter_wide, a = tap / s->filter_wide % s->filter_high,
                          channel = tap / s->filter_wide / s->filter_high;
            const int64_t row = p * s->stride + a - s->padding,
                          column = q * s->stride + b - s->padding;
            if (row < 0 || row >= s->high || column < 0 || column >= s->wide)
                continue;
            double *x = &value[X][((sample * s->channels + channel) * s->high + row) * s->wide +
                                  column],
                   *w = &value[W][k * s->channels * s->filter_high * s->filter_wide + tap],
                   *y = &value[Y][i];
            *(op == ORR_OP_CONVOLUTION         ? y
              : op == ORR_OP_CONVOLUTION_INPUT ? x
                                               : w) += op == ORR_OP_CONVOLUTION         ? *x * *w
                                                       : op == ORR_OP_CONVOLUTION_INPUT ? *y * *w
                                                                                        : *x * *y;
        }
}

/* Runs with so many threads; whether oneDNN did it. */
static bool run_prepared(orr_kernel_call *call, int threads)
{
    orr_backend *cpu;
    orr_workers *workers = NULL;
    orr_error err;
    assert_int_equal(orr_backend_cpu(&cpu, NULL), ORR_OK);
    if (threads > 0)
        assert_int_equal(orr_workers_new(threads, &workers, &err), ORR_OK);
    const orr_kernel_entry *entry = &cpu->entries[call->op];
    call->workers = workers;
    const size_t bytes = entry->workspace(call);
    call->workspace = orr_malloc_aligned(bytes);
    assert_non_null(call->workspace);
    memset(call->workspace, 0xff, bytes);
    assert_int_equal(entry->prepare(call, &call->state, &err), ORR_OK);
    const bool prepared = call->state != NULL;
    for (int again = 0; again < 2; again++)
        assert_int_equal(entry->run(call, &err), ORR_OK);
    entry->release(call->state);
    orr_free(call->workspace);
    orr_workers_free(workers);
    call->state = NULL;
    return prepared;
}

typedef struct images {
    tensor t[3];
    orr_op_args args;
    orr_operand in[2], out;
    orr_kernel_call call;
    int made; /* which of the three */
} images;

static void images_of(images *m, orr_op op, const shape *s, orr_dtype dtype)
{
    const int64_t dims[3][4] = {{s->samples, s->channels, s->high, s->wide},
                                {s->filters, s->channels, s->filter_high, s->filter_wide},
                                {s->samples, s->filters, places(s->high, s->filter_high, s),
                                 places(s->wide, s->filter_wide, s)}};
    double *value[3];
    m->made = op == ORR_OP_CONVOLUTION ? Y : op == ORR_OP_CONVOLUTION_INPUT ? X : W;
    for (int i = 0; i < 3; i++) {
        m->t[i] = tensor_of(dtype, 4, dims[i], i == W ? 0 : s->gap);
        if (i != m->made)
            draw_all(&m->t[i]);
        value[i] = m->t[i].value;
    }
    convolve(op, s, value);
    m->args = (orr_op_args){.stride = s->stride, .padding = s->padding};
    m->in[0] = m->t[m->made == X ? Y : X].operand;
    m->in[1] = m->t[m->made == W ? Y : W].operand;
    m->out = m->t[m->made].operand;
    m->call = (orr_kernel_call){
        .op = (uint8_t)op, .args = &m->args, .n_in = 2, .n_out = 1, .in = m->in, .out = &m->out};
}

static void images_done(images *m)
{
    for (int i = 0; i < 3; i++)
        tensor_free(&m->t[i]);
}

static void hold(orr_op op, const shape *s, orr_dtype dtype, bool by_onednn)
{
    static const int THREADS[] = {0, 1, 2, 3, 5};
    images m;
    images_of(&m, op, s, dtype);
    tensor *made = &m.t[m.made];
    double *first = orr_calloc((size_t)made->n, sizeof *first);
    assert_non_null(first);
    for (size_t t = 0; t < sizeof THREADS / sizeof *THREADS; t++) {
        for (int64_t i = 0; i < made->n; i++) {
            const float nothing = NAN;
            orr_strided_from_fp32(dtype, &nothing, 1, 0, element(made, i));
        }
        assert_int_equal(run_prepared(&m.call, THREADS[t]), by_onednn);
        for (int64_t i = 0; i < made->n; i++) {
            first[i] = t == 0 ? got(made, i) : first[i];
            assert_true(got(made, i) == first[i]);
        }
    }
    assert_near(made, dtype == ORR_DTYPE_FP32 ? 2e-6 : 5e-3, orr_op_of(op)->name);
    orr_free(first);
    images_done(&m);
}

static void hold_all(orr_dtype dtype, bool by_onednn)
{
    static const orr_op OPS[] = {ORR_OP_CONVOLUTION, ORR_OP_CONVOLUTION_INPUT,
                                 ORR_OP_CONVOLUTION_WEIGHT};
    for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
        for (size_t op = 0; op < sizeof OPS / sizeof *OPS; op++)
            hold(OPS[op], &SHAPES[s], dtype, by_onednn);
}

/* oneDNN's fast convolutions begin with AVX-512 here, and bf16 with its products. */
static void need(orr_cpu_level_id level)
{
    orr_cpu_level_limit(ORR_CPU_LEVELS);
    if (!orr_onednn_available()) {
        print_message("oneDNN is not installed, or Orrery was built without it\n");
        skip();
    }
    if (orr_cpu_level() < level) {
        print_message("this processor has no %s\n", orr_cpu_level_name(level));
        skip();
    }
}

static void test_fp32(void **state)
{
    (void)state;
    need(ORR_CPU_AVX512);
    setenv("ORRERY_PRODUCTS", "onednn", 1);
    hold_all(ORR_DTYPE_FP32, true);
}

static void test_bf16(void **state)
{
    (void)state;
    need(ORR_CPU_AVX512_BF16);
    setenv("ORRERY_PRODUCTS", "onednn", 1);
    hold_all(ORR_DTYPE_BF16, true);
}

static void test_what_it_cannot_do_is_done_here(void **state)
{
    (void)state;
    setenv("ORRERY_PRODUCTS", "onednn", 1);
    hold_all(ORR_DTYPE_FP16, false);
}

static void test_own(void **state)
{
    (void)state;
    setenv("ORRERY_PRODUCTS", "own", 1);
    hold_all(ORR_DTYPE_FP32, false);
    hold_all(ORR_DTYPE_BF16, false);
}

static void test_used_where_it_was_measured(void **state)
{
    (void)state;
    need(ORR_CPU_AVX512);
    unsetenv("ORRERY_PRODUCTS");
    hold(ORR_OP_CONVOLUTION, &SHAPES[0], ORR_DTYPE_FP32, true);
    orr_cpu_level_limit(ORR_CPU_AVX2);
    hold(ORR_OP_CONVOLUTION, &SHAPES[0], ORR_DTYPE_FP32, false);
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

/* Prepared for the caller's thread alone, and run with three. */
static void test_more_threads_than_prepared_for(void **state)
{
    (void)state;
    need(ORR_CPU_AVX512);
    setenv("ORRERY_PRODUCTS", "onednn", 1);
    images m;
    orr_backend *cpu;
    orr_workers *workers;
    orr_error err;
    images_of(&m, ORR_OP_CONVOLUTION, &SHAPES[1], ORR_DTYPE_FP32);
    assert_int_equal(orr_backend_cpu(&cpu, NULL), ORR_OK);
    const orr_kernel_entry *entry = &cpu->entries[m.call.op];
    m.call.workspace = orr_malloc_aligned(entry->workspace(&m.call));
    assert_non_null(m.call.workspace);
    assert_int_equal(entry->prepare(&m.call, &m.call.state, &err), ORR_OK);
    assert_int_equal(orr_workers_new(3, &workers, &err), ORR_OK);
    m.call.workers = workers;
    assert_int_equal(entry->run(&m.call, &err), ORR_OK);
    assert_near(&m.t[Y], 2e-6, "convolution");
    entry->release(m.call.state);
    orr_workers_free(workers);
    orr_free(m.call.workspace);
    images_done(&m);
}

static void test_no_memory(void **state)
{
    (void)state;
    need(ORR_CPU_AVX512);
    setenv("ORRERY_PRODUCTS", "onednn", 1);
    images m;
    orr_backend *cpu;
    orr_error err;
    images_of(&m, ORR_OP_CONVOLUTION, &SHAPES[1], ORR_DTYPE_FP32);
    assert_int_equal(orr_backend_cpu(&cpu, NULL), ORR_OK);
    const orr_kernel_entry *entry = &cpu->entries[m.call.op];
    for (uint64_t nth = 1; nth <= 2; nth++) {
        orr_alloc_fail_from(nth);
        const orr_status status = entry->prepare(&m.call, &m.call.state, &err);
        orr_alloc_fail_from(0);
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_null(m.call.state);
    }
    images_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_what_it_cannot_do_is_done_here),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_used_where_it_was_measured),
        cmocka_unit_test(test_more_threads_than_prepared_for),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("kernel/onednn", tests, NULL, NULL);
}
