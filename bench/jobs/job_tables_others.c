/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job_tables.h"

/* SimuMax, Llama 3, LLM Foundry, torchtitan, Lumos. */

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* "llama3-70B(12 layers)": shape of the catalogue, layers of the row. */
static const orr_model *simumax_model(const job_csv *csv, size_t row, const char *file,
                                      job_cases *cases)
{
    const char *name = job_csv_text(csv, row, "model");
    const orr_model *whole = job_model(cases, file,
                                       has(name, "405B")  ? "llama3.1-405b"
                                       : has(name, "70B") ? "llama3-70b"
                                                          : "deepseek-v2");
    orr_model *m = orr_arena_one(cases->arena, orr_model);
    if (whole == NULL || m == NULL)
        return NULL;
    *m = *whole;
    m->layers = job_csv_count(csv, row, "layers");
    return m;
}

static void read_simumax(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "SimuMax");
        if (c == NULL)
            return;
        c->plan = (orr_plan){.tp = job_csv_count(csv, row, "tp"),
                             .cp = job_csv_count(csv, row, "cp"),
                             .ep = job_csv_count(csv, row, "ep"),
                             .pp = job_csv_count(csv, row, "pp"),
                             .dp = job_csv_count(csv, row, "dp"),
                             .micro_batches = job_csv_count(csv, row, "microbatches"),
                             .micro_batch = job_csv_count(csv, row, "mbs"),
                             .zero = 1,
                             .precision = ORR_PRECISION_BF16,
                             .gradients = ORR_PRECISION_FP32,
                             .recompute = ORR_RECOMPUTE_NONE,
                             .overlap_dp = ORR_SWITCH_OFF,
                             .overlap_pp = ORR_SWITCH_OFF};
        if (c->plan.ep > 1)
            c->plan.etp = 1;
        c->workload.seq = job_csv_count(csv, row, "seq");
        c->label = job_csv_text(csv, row, "case");
        c->model = simumax_model(csv, row, file, cases);
        c->cluster = "b200_x8";
        c->seconds = job_csv_number(csv, row, "real_iter_ms") / 1e3;
        c->memory_gib = job_csv_number(csv, row, "real_alloc_gib");
        job_cases_done(cases, c);
    }
}

static void read_llama_405b(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "Llama 3 405B");
        if (c == NULL)
            return;
        const uint32_t gpus = job_csv_count(csv, row, "gpus");
        c->plan = (orr_plan){
            .tp = job_csv_count(csv, row, "tp"),
            .cp = job_csv_count(csv, row, "cp"),
            .pp = job_csv_count(csv, row, "pp"),
            .dp = job_csv_count(csv, row, "dp"),
            .micro_batch = 1,
            .vp = 8,
            .zero = 1,
            .precision = ORR_PRECISION_BF16,
            .gradients = ORR_PRECISION_FP32,
            .recompute = ORR_RECOMPUTE_NONE,
            .cp_kind = ORR_CONTEXT_ALL_GATHER,
            .order = {ORR_AXIS_TP + 1, ORR_AXIS_CP + 1, ORR_AXIS_PP + 1, ORR_AXIS_DP + 1}};
        c->workload.seq = job_csv_count(csv, row, "seq");
        c->plan.batch = c->workload.seq > 0 ? (16u << 20) / c->workload.seq : 0;
        c->label = job_text(cases->arena, "%u GPUs, %u tokens", gpus, c->workload.seq);
        c->model = job_model(cases, file, "llama3.1-405b");
        c->cluster = "h100_24k";
        if (c->model != NULL)
            c->seconds = 3 * orr_model_flops(c->model, c->workload.seq, false) * c->plan.batch /
                         (1e12 * job_csv_number(csv, row, "measured_tflops_per_gpu") * gpus);
        job_cases_done(cases, c);
    }
}

/* MPT shapes: llm-foundry's configurations; each gives the table's NumParams. */
static const struct {
    const char *name;
    uint32_t layers, hidden, heads;
} MPT[] = {{"125m", 12, 768, 12}, {"350m", 24, 1024, 16}, {"760m", 24, 1536, 12},
           {"1b", 24, 2048, 16},  {"3b", 32, 2560, 20},   {"7b", 32, 4096, 32},
           {"13b", 40, 5120, 40}, {"30b", 48, 7168, 56},  {"70b", 80, 8192, 64}};

static const orr_model *mpt_model(job_cases *cases, const char *name, uint32_t seq)
{
    for (size_t i = 0; i < sizeof MPT / sizeof *MPT; i++)
        if (strcmp(MPT[i].name, name) == 0)
            return job_gpt(cases, job_text(cases->arena, "mpt-%s", name), MPT[i].layers,
                           MPT[i].hidden, MPT[i].heads, 50368, seq);
    return NULL;
}

static void read_mpt(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "LLM Foundry");
        if (c == NULL)
            return;
        const char *gpu = job_csv_text(csv, row, "GPU"), *name = job_csv_text(csv, row, "Model");
        const bool fp8 = has(job_csv_text(csv, row, "Precision"), "fp8"),
                   again = has(job_csv_text(csv, row, "Activation Checkpointing"), "True"),
                   pure = has(job_csv_text(csv, row, "MP Mode"), "PURE");
        c->plan = (orr_plan){.dp = job_csv_count(csv, row, "# GPUs"),
                             .zero = 3,
                             .micro_batch = job_csv_count(csv, row, "MicroBatchSize"),
                             .micro_batches = job_csv_count(csv, row, "GradAccum"),
                             .precision = fp8 ? ORR_PRECISION_FP8 : ORR_PRECISION_BF16,
                             .gradients = pure ? ORR_PRECISION_BF16 : ORR_PRECISION_FP32,
                             .recompute = again ? ORR_RECOMPUTE_FULL : ORR_RECOMPUTE_NONE,
                             .fusion = ORR_SWITCH_OFF};
        c->workload.seq = job_csv_count(csv, row, "SeqLen (T)");
        c->label = job_text(cases->arena, "mpt-%s, %u tokens, %u %s", name, c->workload.seq,
                            c->plan.dp, gpu);
        c->model = mpt_model(cases, name, c->workload.seq);
        c->cluster = has(gpu, "h100")        ? "h100_superpod"
                     : has(gpu, "a100_80gb") ? "a100_superpod"
                                             : "a100_40g_pod";
        c->seconds = job_csv_number(csv, row, "GlobalBatchSize (T)") /
                     job_csv_number(csv, row, "Throughput (T/s)");
        job_cases_done(cases, c);
    }
}

static void read_torchtitan(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "torchtitan");
        if (c == NULL)
            return;
        const char *name = job_csv_text(csv, row, "model");
        const uint32_t gpus = job_csv_count(csv, row, "gpus"),
                       fsdp = job_csv_count(csv, row, "fsdp");
        const bool fp8 = has(job_csv_text(csv, row, "precision"), "float8"),
                   full = strcmp(job_csv_text(csv, row, "act_ckpt"), "full") == 0;
        if (has(job_csv_text(csv, row, "precision"), "rowwise")) {
            cases->n--;
            job_cases_leave_out(cases, file,
                                "float8 with scales per row: a kind of product of its own");
            continue;
        }
        c->model = job_model(cases, file, has(name, "70B") ? "llama3.1-70b" : "llama3.1-8b");
        c->plan = (orr_plan){
            .dp = fsdp,
            .tp = job_csv_count(csv, row, "tp"),
            .cp = job_csv_count(csv, row, "cp"),
            .zero = 3,
            .micro_batch = job_csv_count(csv, row, "local_batch"),
            .micro_batches = 1,
            .precision = fp8 ? ORR_PRECISION_FP8 : ORR_PRECISION_BF16,
            .gradients = ORR_PRECISION_FP32,
            .recompute = full ? ORR_RECOMPUTE_FULL : ORR_RECOMPUTE_BLOCK,
            .fusion = job_csv_count(csv, row, "compile") ? ORR_SWITCH_ON : ORR_SWITCH_OFF,
            .overlap_tp = job_csv_count(csv, row, "async_tp") ? ORR_SWITCH_ON : ORR_SWITCH_OFF};
        if (!full && c->model != NULL)
            c->plan.recompute_layers = c->model->layers / 2;
        c->workload.seq = job_csv_count(csv, row, "seq");
        c->label = job_text(cases->arena, "%s %s, %u GPUs, %u tokens", name,
                            job_csv_text(csv, row, "precision"), gpus, c->workload.seq);
        c->cluster = "h100_96g_pod";
        c->seconds = (double)c->plan.micro_batch * c->plan.dp * c->workload.seq /
                     (job_csv_number(csv, row, "measured_tokens_per_s_per_gpu") * gpus);
        c->memory_gib = job_csv_number(csv, row, "measured_mem_gib");
        job_cases_done(cases, c);
    }
}

static void read_lumos(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "Lumos");
        if (c == NULL)
            return;
        c->plan = (orr_plan){.tp = job_csv_count(csv, row, "tp"),
                             .pp = job_csv_count(csv, row, "pp"),
                             .dp = job_csv_count(csv, row, "dp"),
                             .micro_batch = 1,
                             .precision = ORR_PRECISION_BF16,
                             .gradients = ORR_PRECISION_FP32,
                             .recompute = ORR_RECOMPUTE_NONE,
                             .sp = ORR_SWITCH_OFF,
                             .zero = 1};
        c->plan.micro_batches = 2 * c->plan.pp;
        c->workload.seq = 2048;
        c->label = job_text(cases->arena, "%s, tp %u pp %u dp %u", job_csv_text(csv, row, "model"),
                            c->plan.tp, c->plan.pp, c->plan.dp);
        orr_model *m = (orr_model *)(uintptr_t)job_gpt(
            cases, job_csv_text(csv, row, "model"), job_csv_count(csv, row, "layers"),
            job_csv_count(csv, row, "d_model"), job_csv_count(csv, row, "heads"), 51200, 2048);
        if (m != NULL)
            m->ffn = job_csv_count(csv, row, "d_ffn");
        c->model = m;
        c->cluster = "h100_roce_pod";
        c->seconds = job_csv_number(csv, row, "actual_total_ms") / 1e3;
        job_cases_done(cases, c);
    }
}

const job_table JOB_TABLES_OTHERS[] = {
    {"simumax_b200_real",
     "4096 tokens where the name says no more, bf16, fp32 gradients, sharded optimizer, "
     "nothing beside computation, nothing computed again, experts not sliced; memory is what "
     "the allocator holds",
     read_simumax},
    {"llama3_405b_table4",
     "seconds from TFLOP/s by orr_model_flops(): products of parameters and half of "
     "attention's pairs; order TP, CP, PP, DP; chunks of one layer (126 layers and two more "
     "places over 16 stages x 8), micro-batches of one sample, states sharded, keys and values "
     "all-gathered; never fitted",
     read_llama_405b},
    {"llm_foundry_mpt",
     "seconds from tokens/s; FSDP with everything sharded, gradients in bf16 where PURE, "
     "attention in one kernel, other kernels not fused; FULL recomputation where checkpointing",
     read_mpt},
    {"torchtitan",
     "seconds from tokens/s; FSDP2, fused kernels where compiled, selective checkpointing as "
     "every second layer computed again, AsyncTP as transfers in pieces beside products",
     read_torchtitan},
    {"lumos_fig7_scaleout",
     "2048 tokens, micro-batches of one sample, two for each stage (compute time of the table "
     "grows so)",
     read_lumos},
    {NULL, NULL, NULL}};
