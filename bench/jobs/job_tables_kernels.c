/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job_kernels.h"

/* Kernels and collectives that were measured by themselves. */

static job_case *add_kernel(job_cases *cases, const char *file, size_t row, const char *group)
{
    job_case *c = job_cases_add(cases, file, row, group);
    job_kernel *k = orr_arena_one(cases->arena, job_kernel);
    if (c == NULL || k == NULL)
        return NULL;
    *k = (job_kernel){0};
    c->kernel = k;
    c->measure = JOB_KERNEL;
    return c;
}

static void set_work(orr_work *work, uint8_t family, uint8_t dtype, const int64_t *dims, uint8_t n)
{
    *work = (orr_work){.family = family, .dtype = dtype, .n_dims = n, .op = "", .kernel = ""};
    memcpy(work->dims, dims, n * sizeof *dims);
    orr_work_complete(work);
}

typedef struct kernel_row {
    const job_csv *csv;
    size_t row;
    const char *kernel, *gpu, *metric, *config, *source;
} kernel_row;

static int64_t count_of(const kernel_row *r, const char *column)
{
    return job_csv_count(r->csv, r->row, column);
}

static double value_of(const kernel_row *r)
{
    return job_csv_number(r->csv, r->row, "value");
}

/* C = A B, `groups` of them, fp8 with scales per block. */
static void read_product(const kernel_row *r, job_cases *cases, job_case *c, job_kernel *k)
{
    const int64_t groups = count_of(r, "groups"), m = count_of(r, "m"), n = count_of(r, "n"),
                  depth = count_of(r, "k");
    if (strcmp(r->metric, "tflops") != 0)
        job_refuse(c, job_text(cases->arena, "%s: another row has its call's TFLOP/s", r->metric));
    if (strcmp(job_csv_text(r->csv, r->row, "precision"), "fp8->bf16") != 0)
        job_refuse(c, "a precision that is not known here");
    if (groups * m * n * depth == 0)
        job_refuse(c, "its shape is not told");
    job_read_cluster(cases, c, r->gpu);
    set_work(&k->work[0], ORR_FAMILY_GEMM, ORR_DTYPE_FP8, (int64_t[]){groups, m, n, depth}, 4);
    k->n = 1;
    c->seconds = k->work[0].flops / (1e12 * value_of(r));
    c->software_year = 2025.1;
}

/* flash-attention's benchmark: 16,384 tokens, heads of 2,048 columns together; a causal call has
 * half of the FLOPs, forward and backward 3.5 times those of the forward pass. */
static void read_attention(const kernel_row *r, job_cases *cases, job_case *c, job_kernel *k)
{
    const int64_t tokens = 16384, columns = 2048, seq = count_of(r, "seqlen"),
                  head = count_of(r, "head_dim");
    const char *direction = job_csv_text(r->csv, r->row, "direction");
    const bool causal = count_of(r, "causal") > 0, both = strcmp(direction, "fwd+bwd") == 0;
    if (strcmp(r->metric, "tflops") != 0 || (!both && strcmp(direction, "fwd") != 0))
        job_refuse(c, job_text(cases->arena, "%s of '%s' is not known here", r->metric, direction));
    if (strcmp(r->kernel, "pytorch_attention") == 0)
        job_refuse(c, "attention of several kernels");
    if (strcmp(job_csv_text(r->csv, r->row, "precision"), "fp16/bf16") != 0)
        job_refuse(c, "a precision that is not known here");
    job_read_cluster(cases, c, r->gpu);
    if (seq == 0 || head == 0 || tokens % seq != 0) {
        job_refuse(c, "its shape is not told");
        return;
    }
    for (k->n = 0; k->n < (both ? 2u : 1u); k->n++) {
        orr_work *work = &k->work[k->n];
        set_work(work, ORR_FAMILY_ATTENTION, ORR_DTYPE_BF16,
                 (int64_t[]){tokens / seq, columns / head, seq, seq, head}, 5);
        if (k->n == 1) {
            work->backward = true;
            work->flops = 0;
            work->read_bytes = work->write_bytes = 0;
            orr_work_complete(work);
        }
        work->flops /= causal ? 2 : 1;
    }
    c->seconds = (both ? 3.5 : 1) * k->work[0].flops / (1e12 * value_of(r));
    c->software_year = job_has(r->kernel, "1") ? 2022.5 : job_has(r->kernel, "2") ? 2023.5 : 2024.5;
}

/* Dispatch in fp8 with a scale for 128 columns, combine in bf16; every pair of ranks its share. */
static void read_expert_transfer(const kernel_row *r, job_cases *cases, job_case *c, job_kernel *k)
{
    const bool fp8 = strcmp(job_csv_text(r->csv, r->row, "precision"), "fp8") == 0;
    const int64_t columns = count_of(r, "hidden");
    if (strcmp(r->metric, "latency_us") != 0)
        job_refuse(c, job_text(cases->arena, "%s: no time of a call", r->metric));
    k->ranks = (uint32_t)count_of(r, "ep");
    if (k->ranks <= 8)
        job_refuse(c, "within a host, but over the network");
    job_read_cluster(cases, c, r->gpu);
    k->collective = ORR_COLL_ALL_TO_ALL;
    k->bytes = count_of(r, "tokens") * count_of(r, "topk") *
               (fp8 ? columns + columns / 128 * 4 : 2 * columns);
    c->seconds = value_of(r) / 1e6;
    c->software_year = 2025.2;
}

static int64_t bytes_of(job_case *c, const char *text)
{
    char *end;
    const double value = strtod(text, &end);
    const double unit = strcmp(end, "") == 0      ? 1
                        : strcmp(end, "KiB") == 0 ? 1024
                        : strcmp(end, "MiB") == 0 ? 1048576
                        : strcmp(end, "GiB") == 0 ? 1073741824
                                                  : NAN;
    if (end == text || !(value * unit >= 1)) {
        job_refuse(c, "its size is not told");
        return 0;
    }
    return (int64_t)(value * unit);
}

/* Bus bandwidth as nccl-tests has it: bytes over time, times 2 (n - 1) / n of an all-reduce, (n -
 * 1) / n of an all-gather and a reduce-scatter. */
static void read_collective(job_cases *cases, job_case *c, job_kernel *k, const char *name,
                            double busbw)
{
    const double n = k->ranks, share = (n - 1) / n;
    if (job_has(name, "all_reduce") || job_has(name, "all-reduce"))
        k->collective = ORR_COLL_ALL_REDUCE;
    else if (job_has(name, "all_gather") || job_has(name, "all-gather"))
        k->collective = ORR_COLL_ALL_GATHER;
    else if (job_has(name, "reduce_scatter") || job_has(name, "reduce-scatter"))
        k->collective = ORR_COLL_REDUCE_SCATTER;
    else
        job_refuse(c, job_text(cases->arena, "a collective that is not known here: '%s'", name));
    if (!isnan(busbw))
        c->seconds = (k->collective == ORR_COLL_ALL_REDUCE ? 2 : 1) * share * (double)k->bytes /
                     (1e9 * busbw);
}

static void read_nccl(const kernel_row *r, job_cases *cases, job_case *c, job_kernel *k)
{
    if (job_has(r->source, "nccl/issues") || job_has(r->config, "LOW bandwidth"))
        job_refuse(c, "a sick fabric");
    if (strcmp(r->gpu, "8xH100-80GB-HBM3 (one node)") != 0)
        job_refuse(c, job_text(cases->arena, "a machine that is not known here: '%s'", r->gpu));
    if (strcmp(r->metric, "time_us") != 0)
        job_refuse(c, job_text(cases->arena, "%s: another row has its call's time", r->metric));
    c->cluster = "dgx_h100";
    k->ranks = 8;
    k->bytes = bytes_of(c, job_csv_text(r->csv, r->row, "m"));
    read_collective(cases, c, k, r->kernel, NAN);
    c->seconds = value_of(r) / 1e6;
    c->software_year = 2026.4;
}

static const struct {
    const char *part, *group;
    void (*read)(const kernel_row *r, job_cases *cases, job_case *c, job_kernel *k);
} KERNELS[] = {{"deepgemm_fp8_gemm_dense", "kernels: products", read_product},
               {"deepgemm_fp8_grouped_gemm", "kernels: grouped products", read_product},
               {"flashattention", "kernels: attention", read_attention},
               {"_attention", "kernels: attention", read_attention},
               {"deepep_low_latency", "kernels: experts' tokens", read_expert_transfer},
               {"nccl_", "NCCL", read_nccl}};

/* All that the price depends on: the split goes by it. */
static void set_label(job_cases *cases, job_case *c, const char *name, const char *direction,
                      const char *gpu)
{
    const job_kernel *k = c->kernel;
    const orr_work *w = &k->work[0];
    const char *shape = "";
    for (uint8_t i = 0; i < w->n_dims; i++)
        shape =
            job_text(cases->arena, "%s%s%lld", shape, i > 0 ? " x " : " ", (long long)w->dims[i]);
    if (k->collective != ORR_COLL_UNKNOWN)
        shape = job_text(cases->arena, " of %lld bytes among %u", (long long)k->bytes, k->ranks);
    c->label = job_text(cases->arena, "%s%s%s%s, %.3g GFLOP on %s", name,
                        direction[0] != '\0' ? " " : "", direction, shape, w->flops / 1e9, gpu);
}

static void read_kernel_row(const job_csv *csv, size_t row, const char *file, job_cases *cases)
{
    const kernel_row r = {csv,
                          row,
                          job_csv_text(csv, row, "kernel"),
                          job_csv_text(csv, row, "gpu"),
                          job_csv_text(csv, row, "metric"),
                          job_csv_text(csv, row, "config"),
                          job_csv_text(csv, row, "source")};
    size_t i = 0;
    while (i < sizeof KERNELS / sizeof *KERNELS &&
           (!job_has(r.kernel, KERNELS[i].part) || job_has(r.kernel, "+")))
        i++;
    const bool known = i < sizeof KERNELS / sizeof *KERNELS;
    job_case *c = add_kernel(cases, file, row, known ? KERNELS[i].group : "");
    if (c == NULL)
        return;
    if (known)
        KERNELS[i].read(&r, cases, c, (job_kernel *)(uintptr_t)c->kernel);
    else
        job_refuse(c, job_text(cases->arena, "a kernel that is not known here: '%s'", r.kernel));
    set_label(cases, c, r.kernel, job_csv_text(csv, row, "direction"), r.gpu);
    job_cases_done(cases, c);
}

static void read_kernels(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        read_kernel_row(csv, row, file, cases);
}

static void read_busbw(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = add_kernel(cases, file, row, "NCCL");
        if (c == NULL)
            return;
        job_kernel *k = (job_kernel *)(uintptr_t)c->kernel;
        const char *system = job_csv_text(csv, row, "system"),
                   *name = job_csv_text(csv, row, "collective");
        k->ranks = 8 * job_csv_count(csv, row, "nodes");
        k->bytes = bytes_of(c, job_csv_text(csv, row, "payload"));
        c->cluster = job_has(system, "4x8xB200 EFAv4") ? "b200_x8_efa_x4"
                     : job_has(system, "8xB200")       ? "b200_x8"
                     : job_has(system, "8xH200")       ? "h200_x8"
                                                       : "";
        if (c->cluster[0] == '\0')
            job_refuse(c, job_text(cases->arena, "a machine that is not known here: '%s'", system));
        if (job_has(name, " ring"))
            job_refuse(c, "a ring on purpose where the switch reduces");
        read_collective(cases, c, k, name, job_csv_number(csv, row, "busbw_gbs"));
        c->software_year = 2025.5;
        set_label(cases, c, name, "", system);
        job_cases_done(cases, c);
    }
}

const job_table JOB_TABLES_KERNELS[] = {
    {"moe_kernels",
     "prices of orr_job_rates_kernel() and orr_job_rates_collective(); seconds from TFLOP/s of the "
     "call's own shape; attention as flash-attention's benchmark has it (16,384 tokens, 2,048 "
     "columns), a causal call with half of the FLOPs, backward 2.5 times forward; low-latency "
     "dispatch and combine over hosts as an all-to-all of every token to each of its experts; "
     "NCCL's issue with a sick fabric, best-of figures, fused chains and bandwidths of calls whose "
     "time is told are left out",
     read_kernels},
    {"measured_busbw",
     "seconds from the bus bandwidth of nccl-tests; rings on purpose are left out", read_busbw},
    {NULL, NULL, NULL}};
