/* SPDX-License-Identifier: Apache-2.0 */
/* Attention beside what a core makes of products at most, in GFLOP/s of the pairs that the mask
 * lets through, and decoding in bytes of the cache.
 *
 *   bench_attention [THREADS [CASE]]
 *
 * Prints a JSON line for each case. */
#include "kernel_bench.h"

#include "kernel/cpu/simd/block_math.h"
#include "op/families/attention.h"

typedef struct attention_case {
    const char *name;
    orr_dtype dtype;
    int64_t batch, queries, keys, heads, groups, width;
    orr_mask mask;
} attention_case;

static const attention_case CASES[] = {
    {"s1024_w64", ORR_DTYPE_FP32, 1, 1024, 1024, 12, 12, 64, ORR_MASK_NONE},
    {"s1024_w64_causal", ORR_DTYPE_FP32, 1, 1024, 1024, 12, 12, 64, ORR_MASK_CAUSAL},
    {"s1024_w64", ORR_DTYPE_BF16, 1, 1024, 1024, 12, 12, 64, ORR_MASK_NONE},
    {"s1024_w64_causal", ORR_DTYPE_BF16, 1, 1024, 1024, 12, 12, 64, ORR_MASK_CAUSAL},
    {"s4096_w128_gqa_causal", ORR_DTYPE_BF16, 1, 4096, 4096, 8, 2, 128, ORR_MASK_CAUSAL},
    {"gpt2_b4_s64", ORR_DTYPE_FP32, 4, 64, 64, 12, 12, 64, ORR_MASK_CAUSAL},
    {"decode_32k_gqa", ORR_DTYPE_BF16, 1, 1, 32768, 32, 8, 128, ORR_MASK_NONE},
    {"decode_32k_mha", ORR_DTYPE_BF16, 1, 1, 32768, 16, 16, 64, ORR_MASK_NONE},
    {"decode_32k_gqa", ORR_DTYPE_FP32, 1, 1, 32768, 32, 8, 128, ORR_MASK_NONE},
};

/* GFLOP/s of a product of 1024^3. */
static double product_rate(orr_dtype dtype, orr_workers *workers)
{
    const int64_t dims[] = {1024, 1024, 0};
    const orr_operand in[] = {operand_of(dtype, dims), operand_of(dtype, dims)},
                      out = operand_of(dtype, dims);
    const orr_op_args args = {0};
    fill(&in[0]);
    fill(&in[1]);
    orr_kernel_call call = {.op = ORR_OP_MATMUL,
                            .args = &args,
                            .n_in = 2,
                            .n_out = 1,
                            .in = in,
                            .out = &out,
                            .workers = workers};
    return 2 * 1024.0 * 1024 * 1024 / time_call(&call, 10) / 1e9;
}

static void report_products(orr_workers *workers)
{
    printf("{\"case\": \"product_1024\", \"fp32_gflops\": %.1f, \"bf16_gflops\": %.1f}\n",
           product_rate(ORR_DTYPE_FP32, workers), product_rate(ORR_DTYPE_BF16, workers));
}

/* GFLOP/s of a core whose factors stay in the first cache: no product is faster. */
static double tile_rate(bool pairs)
{
    static float a[60 * 64], b[64 * 64], c[60 * 64];
    const orr_block_math *lanes = orr_block_math_of_cpu();
    const orr_block_product p = {.a = a,
                                 .b = b,
                                 .c = c,
                                 .a_row = 64,
                                 .a_step = 1,
                                 .b_row = 64,
                                 .c_row = 64,
                                 .rows = 60,
                                 .depth = 64,
                                 .lanes = 64};
    void (*multiply)(const orr_block_product *) =
        pairs && lanes->pair_product != NULL ? lanes->pair_product : lanes->product;
    double least = 1e9;
    for (int r = 0; r < 50; r++) {
        const double begin = now_s();
        for (int i = 0; i < 200; i++)
            multiply(&p);
        const double took = now_s() - begin;
        least = took < least ? took : least;
    }
    return 200 * 2.0 * 60 * 64 * 64 * (multiply == lanes->pair_product ? 2 : 1) / least / 1e9;
}

static void run_case(const attention_case *c, orr_workers *workers, const double *peak)
{
    const int64_t q[] = {c->batch, c->queries, c->heads, c->width, 0},
                  k[] = {c->batch, c->keys, c->groups, c->width, 0};
    const orr_operand in[] = {operand_of(c->dtype, q), operand_of(c->dtype, k),
                              operand_of(c->dtype, k)},
                      out[] = {operand_of(c->dtype, q),
                               OPERAND(FP32, c->batch, c->heads, c->queries)};
    const orr_op_args args = {.flash = true, .mask = (uint8_t)c->mask};
    for (int i = 0; i < 3; i++)
        fill(&in[i]);
    orr_kernel_call call = {.op = ORR_OP_ATTENTION,
                            .args = &args,
                            .n_in = 3,
                            .n_out = 2,
                            .in = in,
                            .out = out,
                            .workers = workers};
    const double forward_s = time_call(&call, 10);
    const double flops = 4.0 * (double)(c->batch * c->heads * c->width) *
                         orr_attention_pairs(&args, c->queries, c->keys);
    printf("{\"case\": \"%s\", \"dtype\": \"%s\", \"threads\": %d, \"forward_ms\": %.3f, ", c->name,
           orr_dtype_name(c->dtype), orr_workers_count(workers), forward_s * 1e3);
    if (c->queries == 1) {
        const double bytes = 2 * (double)orr_type_bytes(&in[1].type);
        printf("\"cache_gb_per_s\": %.2f}\n", bytes / forward_s / 1e9);
        return;
    }
    const double rate = flops / forward_s / 1e9;
    printf("\"forward_gflops\": %.1f, \"of_tile\": %.2f, ", rate,
           rate / *peak / orr_workers_count(workers));
    const orr_operand back_in[] = {out[0], in[0], in[1], in[2], out[0], out[1]},
                      back_out[] = {operand_of(c->dtype, q), operand_of(c->dtype, k),
                                    operand_of(c->dtype, k)};
    call.op = ORR_OP_ATTENTION_BACKWARD;
    call.n_in = 6, call.n_out = 3, call.in = back_in, call.out = back_out;
    const double back = 2.5 * flops / time_call(&call, 5) / 1e9;
    printf("\"backward_gflops\": %.1f, \"backward_of_tile\": %.2f}\n", back,
           back / *peak / orr_workers_count(workers));
}

int main(int argc, char **argv)
{
    orr_workers *workers = workers_of(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1);
    const char *only = argc > 2 ? argv[2] : NULL;
    const double fp32 = tile_rate(false), bf16 = tile_rate(true);
    printf("{\"case\": \"tile\", \"fp32_gflops\": %.1f, \"bf16_gflops\": %.1f}\n", fp32, bf16);
    if (only == NULL)
        report_products(workers);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        if (only == NULL || strcmp(only, CASES[i].name) == 0)
            run_case(&CASES[i], workers, CASES[i].dtype == ORR_DTYPE_FP32 ? &fp32 : &bf16);
    orr_workers_free(workers);
    return 0;
}
