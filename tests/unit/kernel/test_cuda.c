/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/kernel.h>

#include "base/philox.h"

/* The GPU's kernels, where there is a GPU, held against the CPU's. Without one: one line that says
 * so. */

static orr_backend *cpu, *gpu;

static int open_both(void **state)
{
    (void)state;
    return orr_backend_cpu(&cpu, NULL) == ORR_OK ? 0 : -1;
}
static int close_both(void **state)
{
    (void)state;
    if (gpu != NULL)
        gpu->close(gpu);
    return 0;
}

static void without_a_gpu_it_is_said_in_one_line(void **state)
{
    orr_error err;
    (void)state;
    if (orr_backend_cuda(0, &gpu, &err) == ORR_OK) {
        assert_non_null(strstr(gpu->name, "cuda:"));
        return;
    }
    assert_int_equal(err.status, ORR_UNSUPPORTED);
    assert_int_equal(strncmp(err.text, "no GPU", 6), 0);
    assert_null(strchr(err.text, '\n'));
}

/* Operands of a call on one side. */
typedef struct side {
    orr_backend *backend;
    orr_operand in[ORR_CALL_IN], out[ORR_CALL_OUT];
    size_t bytes[ORR_CALL_IN + ORR_CALL_OUT];
} side;

static void put(side *s, orr_operand *o, const orr_type *type, const void *host, size_t *ret_bytes)
{
    *ret_bytes = (size_t)orr_type_bytes(type);
    o->type = *type;
    orr_operand_contiguous(type, o->stride);
    assert_int_equal(s->backend->allocate(s->backend, *ret_bytes, &o->data, NULL), ORR_OK);
    assert_int_equal(s->backend->copy(s->backend, o->data, host, *ret_bytes, NULL, NULL), ORR_OK);
}

typedef struct cuda_case {
    orr_op op;
    orr_op_args args;
    uint32_t n_in;
    orr_type in[6];
    int64_t limit; /* of ids */
} cuda_case;

static void run(side *s, const cuda_case *c, uint32_t n_out)
{
    static const orr_update update = {.rate = 0.01,
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .epsilon = 1e-8,
                                      .decay = 0.1,
                                      .step = 3,
                                      .gradient_scale = 1};
    const orr_kernel_entry *entry = &s->backend->entries[c->op];
    orr_kernel_call call = {.op = (uint8_t)c->op,
                            .args = &c->args,
                            .n_in = c->n_in,
                            .n_out = n_out,
                            .in = s->in,
                            .out = s->out,
                            .update = &update};
    const size_t bytes = entry->workspace != NULL ? entry->workspace(&call) : 0;
    orr_error err;
    assert_non_null(entry->run);
    assert_int_equal(s->backend->allocate(s->backend, bytes + 64, &call.workspace, NULL), ORR_OK);
    if (entry->prepare != NULL)
        assert_int_equal(entry->prepare(&call, &call.state, &err), ORR_OK);
    if (entry->run(&call, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(s->backend->synchronize(s->backend, NULL, NULL), ORR_OK);
    if (entry->release != NULL)
        entry->release(call.state);
    s->backend->release(s->backend, call.workspace, bytes + 64);
}

static void draw(const orr_type *type, int64_t limit, orr_random *random, void *host)
{
    const int64_t n = orr_type_elements(type);
    for (int64_t i = 0; i < n; i++)
        if (type->dtype == ORR_DTYPE_INT64)
            ((int64_t *)host)[i] = (int64_t)orr_random_below(random, (uint64_t)limit);
        else
            ((float *)host)[i] = (float)(0.1 + orr_random_unit(random));
}

static void compare(const side *a, const side *b, uint32_t n, const orr_operand *x,
                    const orr_operand *y, const char *name)
{
    for (uint32_t k = 0; k < n; k++) {
        const size_t bytes = (size_t)orr_type_bytes(&x[k].type);
        if (x[k].type.dtype != ORR_DTYPE_FP32)
            continue;
        float *p = calloc(1, bytes), *q = calloc(1, bytes);
        assert_int_equal(a->backend->copy(a->backend, p, x[k].data, bytes, NULL, NULL), ORR_OK);
        assert_int_equal(b->backend->copy(b->backend, q, y[k].data, bytes, NULL, NULL), ORR_OK);
        assert_int_equal(b->backend->synchronize(b->backend, NULL, NULL), ORR_OK);
        for (size_t i = 0; i < bytes / sizeof *p; i++)
            if (fabs((double)(p[i] - q[i])) > 2e-4 * (1 + fabs((double)p[i])))
                fail_msg("%s: %g on the CPU, %g on the GPU", name, (double)p[i], (double)q[i]);
        free(p);
        free(q);
    }
}

static void check(const cuda_case *c)
{
    const orr_op_row *row = orr_op_of(c->op);
    orr_random random = orr_random_of(11, c->op);
    side sides[2] = {{.backend = cpu}, {.backend = gpu}};
    orr_type out[ORR_CALL_OUT];
    uint32_t n_out = row->n_out;
    const orr_op_signature site = {
        .op = (uint8_t)c->op, .args = &c->args, .n_in = c->n_in, .in = c->in};
    assert_int_equal(row->shape(&site, out, NULL), ORR_OK);
    while (n_out > 0 && out[n_out - 1].dtype >= ORR_DTYPES)
        n_out--;
    for (uint32_t k = 0; k < c->n_in + n_out; k++) {
        const orr_type *type = k < c->n_in ? &c->in[k] : &out[k - c->n_in];
        void *host = calloc(1, (size_t)orr_type_bytes(type));
        if (k < c->n_in)
            draw(type, c->limit, &random, host);
        for (int s = 0; s < 2; s++)
            put(&sides[s], k < c->n_in ? &sides[s].in[k] : &sides[s].out[k - c->n_in], type, host,
                &sides[s].bytes[k]);
        free(host);
    }
    for (int s = 0; s < 2; s++)
        run(&sides[s], c, n_out);
    compare(&sides[0], &sides[1], n_out, sides[0].out, sides[1].out, row->name);
    if (n_out == 0) /* optimizers write what they take */
        compare(&sides[0], &sides[1], c->n_in, sides[0].in, sides[1].in, row->name);
    for (int s = 0; s < 2; s++)
        for (uint32_t k = 0; k < c->n_in + n_out; k++)
            sides[s].backend->release(sides[s].backend,
                                      k < c->n_in ? sides[s].in[k].data
                                                  : sides[s].out[k - c->n_in].data,
                                      sides[s].bytes[k]);
}

#define F2(a, b)                                                                                   \
    {                                                                                              \
        .dtype = ORR_DTYPE_FP32, .rank = 2, .dim = { a, b }                                        \
    }
#define F1(a)                                                                                      \
    {                                                                                              \
        .dtype = ORR_DTYPE_FP32, .rank = 1, .dim = { a }                                           \
    }
#define F3(a, b, c)                                                                                \
    {                                                                                              \
        .dtype = ORR_DTYPE_FP32, .rank = 3, .dim = { a, b, c }                                     \
    }
#define F4(a, b, c, d)                                                                             \
    {                                                                                              \
        .dtype = ORR_DTYPE_FP32, .rank = 4, .dim = { a, b, c, d }                                  \
    }
#define I1(a)                                                                                      \
    {                                                                                              \
        .dtype = ORR_DTYPE_INT64, .rank = 1, .dim = { a }                                          \
    }

static void its_kernels_agree_with_the_cpus(void **state)
{
    static const cuda_case cases[] = {
        {ORR_OP_MATMUL, {0}, 2, {F2(33, 65), F2(65, 40)}, 0},
        {ORR_OP_MATMUL, {.transpose_b = true}, 2, {F2(33, 65), F2(40, 65)}, 0},
        {ORR_OP_MATMUL, {.transpose_a = true}, 2, {F2(65, 33), F2(65, 40)}, 0},
        {ORR_OP_MATMUL, {0}, 2, {F3(3, 9, 12), F3(3, 12, 7)}, 0},
        {ORR_OP_RMS_NORM, {.value = 1e-5}, 2, {F2(17, 300), F1(300)}, 0},
        {ORR_OP_LAYER_NORM, {.value = 1e-5}, 3, {F2(17, 300), F1(300), F1(300)}, 0},
        {ORR_OP_RMS_NORM_BACKWARD, {0}, 4, {F2(17, 300), F2(17, 300), F1(17), F1(300)}, 0},
        {ORR_OP_LAYER_NORM_BACKWARD,
         {0},
         5,
         {F2(17, 300), F2(17, 300), F1(17), F1(17), F1(300)},
         0},
        {ORR_OP_ROTARY, {.value = 1e4, .offset = 3}, 1, {F4(2, 5, 3, 32)}, 0},
        {ORR_OP_ROTARY, {.value = 1e4, .interleaved = true}, 1, {F4(2, 5, 3, 32)}, 0},
        {ORR_OP_ATTENTION,
         {.flash = true, .mask = ORR_MASK_CAUSAL},
         3,
         {F4(2, 19, 4, 32), F4(2, 19, 2, 32), F4(2, 19, 2, 32)},
         0},
        {ORR_OP_ATTENTION,
         {.flash = true, .mask = ORR_MASK_CHUNKED, .window = 8},
         3,
         {F4(1, 19, 2, 64), F4(1, 19, 2, 64), F4(1, 19, 2, 64)},
         0},
        {ORR_OP_EMBEDDING, {0}, 2, {F2(50, 33), I1(20)}, 50},
        {ORR_OP_EMBEDDING_BACKWARD, {.count = 50}, 2, {F2(20, 33), I1(20)}, 50},
        {ORR_OP_CROSS_ENTROPY, {0}, 2, {F2(9, 700), I1(9)}, 700},
        {ORR_OP_CROSS_ENTROPY_BACKWARD, {0}, 5, {F2(9, 700), I1(9), F1(9), F1(9), F1(9)}, 700},
        {ORR_OP_ADAMW, {0}, 4, {F1(1000), F1(1000), F1(1000), F1(1000)}, 0},
        {ORR_OP_SWIGLU, {0}, 1, {F2(7, 90)}, 0},
        {ORR_OP_SWIGLU_BACKWARD, {0}, 2, {F2(7, 45), F2(7, 90)}, 0},
        {ORR_OP_GELU, {0}, 1, {F2(7, 90)}, 0},
        {ORR_OP_GELU, {.tanh = true}, 1, {F2(7, 90)}, 0},
        {ORR_OP_ADD, {0}, 2, {F2(7, 90), F2(7, 90)}, 0},
        {ORR_OP_BIAS, {0}, 2, {F2(7, 90), F1(90)}, 0},
        {ORR_OP_SUM, {0}, 1, {F2(7, 90)}, 0},
        {ORR_OP_CONCAT, {.dim = 1}, 2, {F2(7, 90), F2(7, 11)}, 0},
        {ORR_OP_TRANSPOSE, {.dim = 0, .to_dim = 1}, 1, {F3(7, 9, 4)}, 0},
        {ORR_OP_COPY, {0}, 1, {F2(7, 90)}, 0},
    };
    (void)state;
    if (gpu == NULL)
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_gpu_it_is_said_in_one_line),
        cmocka_unit_test(its_kernels_agree_with_the_cpus),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
