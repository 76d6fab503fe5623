/* SPDX-License-Identifier: Apache-2.0 */
/* Products on this machine, beside what it can do at most: all in one run, so that ratios hold
 * where clocks and neighbours do not.
 *
 *   bench_kernels peak              multiply-adds a second in registers, bytes a second from memory
 *   bench_kernels gemm              products of training shapes, fp32 and bf16
 *   bench_kernels gemv [MiB [tokens]]   one to eight tokens, or so many, through weights beyond the
 *                                   caches
 *   bench_kernels convolution       those of ResNet-50 by 4 images, by our kernels and by oneDNN
 *
 * Each with THREADS=<n> in the environment; one per core without. Prints JSON lines; a figure is
 * the best of several repetitions, and `frac` its part of the floor measured right before and
 * after. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/kernel.h>

#include "floors.h"
#include "kernel/format/row.h"

static orr_workers *workers;
static orr_backend *backend;

static double now_s(void)
{
    return floor_now_s(workers);
}

static void *large(size_t bytes)
{
    void *data;
    orr_error err;
    if (backend->allocate(backend, bytes, &data, &err) != ORR_OK) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        exit(1);
    }
    memset(data, 0, bytes);
    return data;
}

typedef struct product {
    const char *name;
    int64_t m, n, k;
    bool ta, tb, accumulate, fp32_out;
} product;

static void fill(void *data, orr_dtype dtype, int64_t n)
{
    uint32_t x = 12345;
    const int64_t bytes = (int64_t)orr_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        const float value = (float)(x >> 8) * 0x1p-24f - 0.5f;
        orr_dtype_from_fp32(dtype, &value, 1, (char *)data + i * bytes);
    }
}

static orr_operand matrix(orr_dtype dtype, int64_t rows, int64_t columns, bool turned)
{
    orr_operand o = {.type = {.dtype = (uint8_t)dtype,
                              .rank = 2,
                              .dim = {turned ? columns : rows, turned ? rows : columns}}};
    orr_operand_contiguous(&o.type, o.stride);
    o.data = large((size_t)(rows * columns) * (size_t)orr_dtype_bytes(dtype));
    fill(o.data, dtype, rows * columns);
    return o;
}

static void matrix_done(orr_operand *o)
{
    backend->release(backend, o->data,
                     (size_t)orr_type_elements(&o->type) *
                         (size_t)orr_dtype_bytes((orr_dtype)o->type.dtype));
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

typedef struct rates {
    double call, floor; /* a second, of the best run of each */
} rates;

/* A call by turns with its floor, so that both see the same machine. */
static rates time_call(orr_kernel_call *call, double work, double (*floor)(const void *),
                       const void *ctx)
{
    orr_error err;
    const orr_kernel_entry *entry = &backend->entries[call->op];
    call->workers = workers;
    const size_t bytes = entry->workspace != NULL ? entry->workspace(call) : 0;
    call->workspace = large(bytes + 64);
    call->state = NULL;
    if (entry->prepare != NULL && entry->prepare(call, &call->state, &err) != ORR_OK) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        exit(1);
    }
    rates best = {0};
    const double begin = now_s();
    for (int i = 0; i < 7 || (now_s() - begin < 0.8 && i < 1000); i++) {
        if (i % 4 == 0 || work > 1e8)
            best.floor = larger(best.floor, floor(ctx));
        const double start = now_s();
        if (entry->run(call, &err) != ORR_OK) {
            fprintf(stderr, "bench_kernels: %s\n", err.text);
            exit(1);
        }
        best.call = larger(best.call, work / (now_s() - start));
    }
    if (entry->release != NULL)
        entry->release(call->state);
    backend->release(backend, call->workspace, bytes + 64);
    return best;
}

static double floor_of_fp32(const void *ctx)
{
    (void)ctx;
    return floor_flops_per_s(workers, false);
}

static double floor_of_bf16(const void *ctx)
{
    (void)ctx;
    return floor_flops_per_s(workers, true);
}

typedef struct memory {
    char *bytes;
    size_t n;
} memory;

static double floor_of_reading(const void *ctx)
{
    const memory *m = ctx;
    return floor_read_per_s(workers, m->bytes, m->n);
}

static void bench_product(const product *p, bool bf16)
{
    const orr_dtype dtype = bf16 ? ORR_DTYPE_BF16 : ORR_DTYPE_FP32;
    orr_operand in[2] = {matrix(dtype, p->m, p->k, p->ta), matrix(dtype, p->k, p->n, p->tb)};
    orr_operand out = matrix(p->fp32_out ? ORR_DTYPE_FP32 : dtype, p->m, p->n, false);
    const orr_op_args args = {.transpose_a = p->ta, .transpose_b = p->tb};
    orr_kernel_call call = {.op = ORR_OP_MATMUL,
                            .args = &args,
                            .n_in = 2,
                            .n_out = 1,
                            .in = in,
                            .out = &out,
                            .accumulate = p->accumulate};
    const double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    const rates rate = time_call(&call, flops, bf16 ? floor_of_bf16 : floor_of_fp32, NULL);
    printf("{\"product\": \"%s\", \"dtype\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, "
           "\"gflops\": %.1f, \"peak_gflops\": %.1f, \"frac\": %.3f}\n",
           p->name, orr_dtype_name(dtype), (long long)p->m, (long long)p->n, (long long)p->k,
           rate.call / 1e9, rate.floor / 1e9, rate.call / rate.floor);
    fflush(stdout);
    matrix_done(&in[0]);
    matrix_done(&in[1]);
    matrix_done(&out);
}

/* GPT-2 of 124 million parameters, 256 tokens: forward, and both gradients. */
static void bench_gemm(void)
{
    static const product products[] = {
        {.name = "square", .m = 1024, .n = 1024, .k = 1024},
        {.name = "square turned", .m = 1024, .n = 1024, .k = 1024, .tb = true},
        {.name = "projection", .m = 256, .n = 768, .k = 768},
        {.name = "qkv", .m = 256, .n = 2304, .k = 768},
        {.name = "up", .m = 256, .n = 3072, .k = 768},
        {.name = "down", .m = 256, .n = 768, .k = 3072},
        {.name = "logits", .m = 256, .n = 50257, .k = 768, .tb = true},
        {.name = "up, input", .m = 256, .n = 768, .k = 3072, .tb = true},
        {.name = "down, input", .m = 256, .n = 3072, .k = 768, .tb = true},
        {.name = "logits, input", .m = 256, .n = 768, .k = 50257},
        {.name = "up, weight",
         .m = 768,
         .n = 3072,
         .k = 256,
         .ta = true,
         .accumulate = true,
         .fp32_out = true},
        {.name = "down, weight",
         .m = 3072,
         .n = 768,
         .k = 256,
         .ta = true,
         .accumulate = true,
         .fp32_out = true},
        {.name = "logits, weight",
         .m = 50257,
         .n = 768,
         .k = 256,
         .ta = true,
         .accumulate = true,
         .fp32_out = true},
        {.name = "prefill", .m = 64, .n = 8192, .k = 2048, .tb = true},
        {.name = "batch of 16", .m = 16, .n = 8192, .k = 2048, .tb = true},
    };
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            bench_product(&products[i], bf16 != 0);
}

static void bench_rows(orr_row_format format, int64_t tokens, int64_t k, char *bytes,
                       size_t n_bytes)
{
    const int64_t row_bytes = orr_row_format_bytes(format, k), n = (int64_t)n_bytes / row_bytes;
    const orr_row_segment piece = {.data = bytes, .count = n};
    const orr_weight_rows rows = {.format = (uint8_t)format,
                                  .columns = k,
                                  .row_bytes = row_bytes,
                                  .segments = &piece,
                                  .n_segments = 1};
    const orr_dtype dtype = format == ORR_ROW_FORMAT_FP32 ? ORR_DTYPE_FP32 : ORR_DTYPE_BF16;
    orr_operand in[2] = {
        matrix(dtype, tokens, k, false),
        {.type = {.dtype = (uint8_t)dtype, .rank = 2, .dim = {k, n}}, .rows = &rows}};
    orr_operand out = matrix(ORR_DTYPE_FP32, tokens, n, false);
    const orr_op_args args = {0};
    orr_kernel_call call = {
        .op = ORR_OP_MATMUL, .args = &args, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    const memory floor = {bytes, n_bytes};
    const rates rate = time_call(&call, (double)(n * row_bytes), floor_of_reading, &floor);
    printf(
        "{\"rows\": \"%s\", \"tokens\": %lld, \"k\": %lld, \"gb_per_s\": %.2f, \"read_gb_per_s\": %.2f, "
        "\"frac\": %.3f}\n",
        orr_row_format_name(format), (long long)tokens, (long long)k, rate.call / 1e9,
        rate.floor / 1e9, rate.call / rate.floor);
    fflush(stdout);
    matrix_done(&in[0]);
    matrix_done(&out);
}

static void bench_gemv(size_t mib, int64_t only)
{
    const size_t n_bytes = mib << 20;
    char *bytes = large(n_bytes);
    static const int64_t tokens[] = {1, 2, 4, 8};
    for (size_t t = 0; t < (only > 0 ? 1 : sizeof tokens / sizeof *tokens); t++)
        for (int format = 0; format < ORR_ROW_FORMATS; format++)
            bench_rows((orr_row_format)format, only > 0 ? only : tokens[t], 2048, bytes, n_bytes);
    backend->release(backend, bytes, n_bytes);
}

typedef struct images {
    int64_t channels, side, filters, filter;
    uint8_t stride, padding;
} images;

static orr_operand image(orr_dtype dtype, int64_t n, int64_t planes, int64_t side)
{
    orr_operand o = {.type = {.dtype = (uint8_t)dtype, .rank = 4, .dim = {n, planes, side, side}}};
    orr_operand_contiguous(&o.type, o.stride);
    const int64_t elements = orr_type_elements(&o.type);
    o.data = large((size_t)elements * (size_t)orr_dtype_bytes(dtype));
    fill(o.data, dtype, elements);
    return o;
}

static double convolution_rate(orr_kernel_call *call, const char *by, double flops)
{
    setenv("ORRERY_PRODUCTS", by, 1);
    const bool bf16 = call->in[0].type.dtype == ORR_DTYPE_BF16;
    return time_call(call, flops, bf16 ? floor_of_bf16 : floor_of_fp32, NULL).call / 1e9;
}

static void bench_images(const images *i, orr_op op, orr_dtype dtype)
{
    enum { IMAGES = 4 };
    const int64_t side = (i->side + 2 * i->padding - i->filter) / i->stride + 1;
    orr_operand x = image(dtype, IMAGES, i->channels, i->side),
                w = image(dtype, i->filters, i->channels, i->filter),
                y = image(dtype, IMAGES, i->filters, side);
    const orr_op_args args = {.stride = i->stride, .padding = i->padding};
    const orr_operand in[2] = {op == ORR_OP_CONVOLUTION_INPUT ? y : x,
                               op == ORR_OP_CONVOLUTION_WEIGHT ? y : w};
    orr_operand out = op == ORR_OP_CONVOLUTION ? y : op == ORR_OP_CONVOLUTION_INPUT ? x : w;
    orr_kernel_call call = {
        .op = (uint8_t)op, .args = &args, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    const double flops =
        2.0 * (double)orr_type_elements(&y.type) * (double)(i->channels * i->filter * i->filter);
    const double own = convolution_rate(&call, "own", flops),
                 onednn = convolution_rate(&call, "onednn", flops);
    printf("{\"%s\": \"%lldx%lldx%lld, %lld of %lldx%lld, stride %d\", \"dtype\": \"%s\", "
           "\"own_gflops\": %.1f, \"onednn_gflops\": %.1f, \"ratio\": %.2f}\n",
           orr_op_of(op)->name, (long long)i->channels, (long long)i->side, (long long)i->side,
           (long long)i->filters, (long long)i->filter, (long long)i->filter, i->stride,
           orr_dtype_name(dtype), own, onednn, onednn / own);
    fflush(stdout);
    matrix_done(&x);
    matrix_done(&w);
    matrix_done(&y);
}

static void bench_convolutions(void)
{
    static const images shapes[] = {
        {3, 224, 64, 7, 2, 3},    {64, 56, 64, 1, 1, 0},     {64, 56, 64, 3, 1, 1},
        {64, 56, 256, 1, 1, 0},   {128, 56, 128, 3, 2, 1},   {256, 14, 256, 3, 1, 1},
        {256, 14, 1024, 1, 1, 0}, {1024, 14, 2048, 1, 2, 0}, {512, 7, 512, 3, 1, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const orr_dtype dtype = bf16 ? ORR_DTYPE_BF16 : ORR_DTYPE_FP32;
            bench_images(&shapes[i], ORR_OP_CONVOLUTION, dtype);
            bench_images(&shapes[i], ORR_OP_CONVOLUTION_INPUT, dtype);
            bench_images(&shapes[i], ORR_OP_CONVOLUTION_WEIGHT, dtype);
        }
}

static void bench_peak(void)
{
    const size_t n_bytes = (size_t)512 << 20;
    char *bytes = large(n_bytes);
    printf("{\"cpu\": \"%s\", \"threads\": %d, \"fp32_gflops\": %.1f, \"bf16_gflops\": %.1f, "
           "\"read_gb_per_s\": %.2f}\n",
           backend->description, orr_workers_count(workers),
           floor_flops_per_s(workers, false) / 1e9, floor_flops_per_s(workers, true) / 1e9,
           floor_read_per_s(workers, bytes, n_bytes) / 1e9);
    backend->release(backend, bytes, n_bytes);
}

int main(int argc, char **argv)
{
    const char *threads = getenv("THREADS");
    orr_error err;
    if (orr_backend_cpu(&backend, &err) != ORR_OK ||
        orr_workers_new(threads != NULL ? (int)strtol(threads, NULL, 10) : 0, &workers, &err) !=
            ORR_OK)
        return 1;
    if (argc == 2 && strcmp(argv[1], "peak") == 0)
        bench_peak();
    else if (argc == 2 && strcmp(argv[1], "gemm") == 0)
        bench_gemm();
    else if (argc >= 2 && strcmp(argv[1], "gemv") == 0)
        bench_gemv(argc > 2 ? strtoull(argv[2], NULL, 10) : 512,
                   argc > 3 ? strtol(argv[3], NULL, 10) : 0);
    else if (argc == 2 && strcmp(argv[1], "convolution") == 0)
        bench_convolutions();
    else
        fputs("usage: bench_kernels peak | gemm | gemv [MiB [tokens]] | convolution\n", stderr);
    orr_workers_free(workers);
    return 0;
}
