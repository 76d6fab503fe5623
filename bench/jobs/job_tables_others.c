/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job_tables.h"

/* SimuMax, Llama 3, LLM Foundry, torchtitan, Lumos. */

/* "llama3-70B(12 layers)": shape of the catalogue, layers of the row. */
static void read_simumax_model(const job_csv *csv, size_t row, job_cases *cases, job_case *c)
{
    const char *name = job_csv_text(csv, row, "model");
    job_read_model(cases, c,
                   job_has(name, "llama3-405B(")   ? "llama3.1-405b"
                   : job_has(name, "llama3-70B(")  ? "llama3-70b"
                   : job_has(name, "deepseek-v2(") ? "deepseek-v2"
                                                   : name);
    orr_model *m = orr_arena_one(cases->arena, orr_model);
    if (c->model == NULL || m == NULL)
        return;
    *m = *c->model;
    m->layers = job_csv_count(csv, row, "layers");
    c->model = m;
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
        read_simumax_model(csv, row, cases, c);
        if (job_has(job_csv_text(csv, row, "gpu"), "B200"))
            c->cluster = "b200_x8";
        else
            job_read_cluster(cases, c, job_csv_text(csv, row, "gpu"));
        c->seconds = job_csv_number(csv, row, "real_iter_ms") / 1e3;
        c->memory_gib = job_csv_number(csv, row, "real_alloc_gib");
        c->memory_kind = "allocated";
        c->framework = "megatron";
        c->software_year = 2025.5;
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
            .zero = 2,
            .precision = ORR_PRECISION_BF16,
            .gradients = ORR_PRECISION_FP32,
            .recompute = ORR_RECOMPUTE_SOME,
            .recompute_modules = 1U << ORR_RECOMPUTE_MODULE_mlp_act,
            .cp_kind = ORR_CONTEXT_ALL_GATHER,
            .order = {ORR_AXIS_TP + 1, ORR_AXIS_CP + 1, ORR_AXIS_PP + 1, ORR_AXIS_DP + 1}};
        c->workload.seq = job_csv_count(csv, row, "seq");
        c->plan.batch = c->workload.seq > 0 ? (16u << 20) / c->workload.seq : 0;
        c->label = job_text(cases->arena, "%u GPUs, %u tokens", gpus, c->workload.seq);
        job_read_model(cases, c, "llama3.1-405b");
        c->cluster = "h100_24k";
        c->framework = "meta";
        c->software_year = 2024.2;
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

static void read_mpt_model(job_cases *cases, job_case *c, const char *name)
{
    for (size_t i = 0; i < sizeof MPT / sizeof *MPT; i++)
        if (strcmp(MPT[i].name, name) == 0)
            c->model = job_gpt(cases, job_text(cases->arena, "mpt-%s", name), MPT[i].layers,
                               MPT[i].hidden, MPT[i].heads, 50368, c->workload.seq);
    if (c->model == NULL)
        job_read_model(cases, c, name);
}

static void read_mpt(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "LLM Foundry");
        if (c == NULL)
            return;
        const char *gpu = job_csv_text(csv, row, "GPU"), *name = job_csv_text(csv, row, "Model");
        const bool again = job_has(job_csv_text(csv, row, "Activation Checkpointing"), "True"),
                   pure = job_has(job_csv_text(csv, row, "MP Mode"), "PURE");
        c->plan = (orr_plan){.dp = job_csv_count(csv, row, "# GPUs"),
                             .zero = 3,
                             .micro_batch = job_csv_count(csv, row, "MicroBatchSize"),
                             .micro_batches = job_csv_count(csv, row, "GradAccum"),
                             .precision =
                                 job_read_precision(cases, c, job_csv_text(csv, row, "Precision")),
                             .gradients = pure ? ORR_PRECISION_BF16 : ORR_PRECISION_FP32,
                             .recompute = again ? ORR_RECOMPUTE_FULL : ORR_RECOMPUTE_NONE,
                             .cross_entropy_loss_fusion = ORR_SWITCH_ON,
                             .fusion = ORR_SWITCH_OFF};
        c->workload.seq = job_csv_count(csv, row, "SeqLen (T)");
        c->label = job_text(cases->arena, "mpt-%s, %u tokens, %u %s", name, c->workload.seq,
                            c->plan.dp, gpu);
        read_mpt_model(cases, c, name);
        job_read_cluster(cases, c, gpu);
        c->framework = "llm-foundry";
        c->software_year = job_has(gpu, "h100") ? 2023.8 : 2023.3;
        c->seconds = job_csv_number(csv, row, "GlobalBatchSize (T)") /
                     job_csv_number(csv, row, "Throughput (T/s)");
        job_cases_done(cases, c);
    }
}

/* torchtitan cuts the local batch into this many micro-batches of a pipeline where the
 * configuration names no size: of 32 samples on 8 stages, 8 micro-batches of 4. */
enum { TITAN_MICRO_BATCHES = 8 };

static void read_titan_schedule(job_cases *cases, job_case *c, const char *name)
{
    if (job_has(name, "nterleaved")) { /* PyTorch: two stages a rank where nothing is said */
        c->plan.schedule = ORR_SCHEDULE_INTERLEAVED;
        c->plan.vp = 2;
    } else if (strcmp(name, "1F1B") == 0 || strcmp(name, "1f1b") == 0) {
        c->plan.schedule = ORR_SCHEDULE_1F1B;
    } else {
        job_refuse(c, job_text(cases->arena, "a schedule that is not known here: '%s'", name));
    }
}

static void read_torchtitan_row(const job_csv *csv, size_t row, job_cases *cases, job_case *c)
{
    const char *name = job_csv_text(csv, row, "model"),
               *precision = job_csv_text(csv, row, "precision");
    const uint32_t gpus = job_csv_count(csv, row, "gpus"), fsdp = job_csv_count(csv, row, "fsdp"),
                   pp = job_csv_count(csv, row, "pp"),
                   samples = job_csv_count(csv, row, "local_batch");
    const bool full = strcmp(job_csv_text(csv, row, "act_ckpt"), "full") == 0,
               async = job_csv_count(csv, row, "async_tp") > 0;
    if (job_has(precision, "rowwise"))
        job_refuse(c, "float8 with scales per row: a kind of product of its own");
    job_read_model(cases, c, name);
    c->plan =
        (orr_plan){.dp = fsdp,
                   .tp = job_csv_count(csv, row, "tp"),
                   .cp = job_csv_count(csv, row, "cp"),
                   .pp = pp,
                   .zero = 3,
                   .micro_batch = pp > 1 ? samples / TITAN_MICRO_BATCHES : samples,
                   .micro_batches = pp > 1 ? TITAN_MICRO_BATCHES : 1,
                   .precision = job_read_precision(cases, c, precision),
                   .gradients = ORR_PRECISION_FP32,
                   .recompute = full ? ORR_RECOMPUTE_FULL : ORR_RECOMPUTE_OP,
                   .cross_entropy_loss_fusion = ORR_SWITCH_OFF,
                   .fusion = job_csv_count(csv, row, "compile") ? ORR_SWITCH_ON : ORR_SWITCH_OFF,
                   .overlap_tp = async ? ORR_SWITCH_ON : ORR_SWITCH_OFF};
    if (pp > 1)
        read_titan_schedule(cases, c, job_csv_text(csv, row, "pp_schedule"));
    c->workload.seq = job_csv_count(csv, row, "seq");
    c->label =
        job_text(cases->arena, "%s %s, %u GPUs, %u tokens", name, precision, gpus, c->workload.seq);
    job_read_cluster(cases, c, job_csv_text(csv, row, "gpu"));
    c->seconds = (double)samples * c->plan.dp * c->workload.seq /
                 (job_csv_number(csv, row, "measured_tokens_per_s_per_gpu") * gpus);
    c->memory_gib = job_csv_number(csv, row, "measured_mem_gib");
    c->memory_kind = "reserved";
    c->framework = "torchtitan";
    c->software_year = job_has(job_csv_text(csv, row, "source"), "2025-06") ? 2025.4 : 2024.9;
}

static void read_torchtitan(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "torchtitan");
        if (c == NULL)
            return;
        read_torchtitan_row(csv, row, cases, c);
        job_cases_done(cases, c);
    }
}

/* A table of configurations whose times are a chart's bars: the rows are told, not read. */
static void read_lumos_configurations(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        job_cases_leave_out(
            cases, file, job_text(cases->arena, "time: %s", job_csv_text(csv, row, "actual_ms")));
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
                             .gradients = ORR_PRECISION_BF16,
                             .recompute = ORR_RECOMPUTE_NONE,
                             .sp = ORR_SWITCH_OFF,
                             .flash = ORR_SWITCH_OFF,
                             .fusion = ORR_SWITCH_OFF,
                             .overlap_dp = ORR_SWITCH_OFF,
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
        if (job_has(job_csv_text(csv, row, "gpu"), "H100 (8x400Gbps RoCE"))
            c->cluster = "h100_roce_pod";
        else
            job_read_cluster(cases, c, job_csv_text(csv, row, "gpu"));
        c->framework = "megatron";
        c->software_year = 2023.5;
        c->seconds = job_csv_number(csv, row, "actual_total_ms") / 1e3;
        job_cases_done(cases, c);
    }
}

const job_table JOB_TABLES_OTHERS[] = {
    {"simumax_b200_real",
     "4096 tokens where the name says no more, bf16, fp32 gradients, sharded optimizer, "
     "nothing beside computation, nothing computed again, experts not sliced; memory is what "
     "is allocated",
     read_simumax},
    {"llama3_405b_table4",
     "seconds from TFLOP/s by orr_model_flops(): products of parameters and half of "
     "attention's pairs; order TP, CP, PP, DP; chunks of one layer (126 layers and two more "
     "places over 16 stages x 8), micro-batches of one sample, states and gradients sharded, "
     "nothing computed again but the product of SwiGLU (assumed: xFormers does not keep it), keys "
     "and values all-gathered; never fitted",
     read_llama_405b},
    {"llm_foundry_mpt",
     "seconds from tokens/s; FSDP with everything sharded, gradients in bf16 where PURE, "
     "attention in one kernel, other kernels not fused; FULL recomputation where checkpointing",
     read_mpt},
    {"torchtitan",
     "seconds from tokens/s; FSDP2, fused kernels where compiled, a loss that never is, "
     "selective checkpointing by operator (selective_ac_option of its configurations), AsyncTP as "
     "transfers in pieces beside products; a "
     "pipeline has eight micro-batches a step, an interleaved one two chunks a stage; memory is "
     "what the allocator reserves",
     read_torchtitan},
    {"lumos_fig7_scaleout",
     "2048 tokens, micro-batches of one sample, two for each stage (compute time of the table "
     "grows so); eager attention, kernels not fused, gradients in bf16 that are reduced after "
     "the last micro-batch; never fitted",
     read_lumos},
    {"lumos_fig5_configs", "configurations without times: none is read", read_lumos_configurations},
    {NULL, NULL, NULL}};
