/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job_tables.h"

/* NVIDIA's tables: Megatron-Core, NeMo, MLPerf, Megatron Bridge. */

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* What these have in common: optimizer states sharded over replicas, everything that can travels
 * beside computation, attention in one kernel. */
static orr_plan plan_of(const job_csv *csv, size_t row, uint32_t gpus)
{
    orr_plan p = {.tp = job_csv_count(csv, row, "tp"),
                  .pp = job_csv_count(csv, row, "pp"),
                  .cp = job_csv_count(csv, row, "cp"),
                  .vp = job_csv_count(csv, row, "vp"),
                  .micro_batch = job_csv_count(csv, row, "mbs"),
                  .batch = job_csv_count(csv, row, "gbs"),
                  .zero = 1,
                  .recompute = ORR_RECOMPUTE_NONE,
                  .precision = ORR_PRECISION_FP8,
                  .gradients = ORR_PRECISION_FP32,
                  .overlap_tp = ORR_SWITCH_ON};
    const uint32_t ranks = (p.tp > 1 ? p.tp : 1) * (p.pp > 1 ? p.pp : 1) * (p.cp > 1 ? p.cp : 1);
    p.dp = gpus / ranks;
    if (p.pp <= 1)
        p.vp = 1;
    return p;
}

/* FLOPs of a step of a GPT model as Megatron-Core counts them: 72 B s l h^2 (1 + s / 6h + V /
 * 12lh). */
static double gpt_step_flops(const orr_model *m, double batch, double seq)
{
    const double h = m->hidden, l = m->layers;
    return 72 * batch * seq * l * h * h * (1 + seq / (6 * h) + m->vocab / (12 * l * h));
}

static void read_h100_readme(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "Megatron");
        if (c == NULL)
            return;
        const uint32_t gpus = job_csv_count(csv, row, "gpus");
        c->plan = plan_of(csv, row, gpus);
        c->plan.precision = ORR_PRECISION_BF16;
        c->plan.micro_batch = 1;
        c->workload.seq = job_csv_count(csv, row, "seq");
        c->label = job_csv_text(csv, row, "model");
        c->model = job_gpt(cases, c->label, job_csv_count(csv, row, "layers"),
                           job_csv_count(csv, row, "hidden"), job_csv_count(csv, row, "heads"),
                           job_csv_count(csv, row, "vocab"), c->workload.seq);
        c->cluster = "h100_superpod";
        if (c->model != NULL)
            c->seconds = gpt_step_flops(c->model, c->plan.batch, c->workload.seq) /
                         (1e12 * job_csv_number(csv, row, "measured_tflops_per_gpu") * gpus);
        job_cases_done(cases, c);
    }
}

/* From the names of tables to those of the catalogue. */
static const struct {
    const char *table, *model;
} NAMES[] = {
    {"LLAMA2-7B", "llama2-7b"},       {"LLAMA2-13B", "llama2-13b"},
    {"LLAMA2-70B", "llama2-70b"},     {"LLAMA3-8B", "llama3-8b"},
    {"LLAMA3_70B", "llama3-70b"},     {"LLAMA3.1_405B", "llama3.1-405b"},
    {"DeepSeekV3", "deepseek-v3"},    {"Qwen3_30B_a3B", "qwen3-30b-a3b"},
    {"GPT OSS 120B", "gpt-oss-120b"},
};

static const orr_model *named_model(job_cases *cases, const char *file, const char *name,
                                    uint32_t seq)
{
    /* Shapes of NeMo's recipes; each reproduces the table's own FLOPs a token. */
    if (strcmp(name, "GPT3-5B") == 0)
        return job_gpt(cases, name, 24, 4096, 32, 51200, seq);
    if (strcmp(name, "GPT3-20B") == 0)
        return job_gpt(cases, name, 44, 6144, 48, 51200, seq);
    if (strcmp(name, "Nemotron-8B") == 0)
        return job_gpt(cases, name, 32, 4096, 32, 256000, seq);
    if (strcmp(name, "Nemotron-22B") == 0)
        return job_gpt(cases, name, 40, 6144, 48, 256000, seq);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(NAMES[i].table, name) == 0)
            return job_model(cases, file, NAMES[i].model);
    job_cases_leave_out(cases, file,
                        job_text(cases->arena, "%s: its shape is not known here", name));
    return NULL;
}

static double seconds_of(const job_case *c, uint32_t gpus, double tokens_per_s_per_gpu)
{
    return (double)c->plan.batch * c->workload.seq / (tokens_per_s_per_gpu * gpus);
}

static void read_nemo_2407(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "NeMo");
        if (c == NULL)
            return;
        const uint32_t gpus = job_csv_count(csv, row, "gpus");
        const char *name = job_csv_text(csv, row, "model"), *task = job_csv_text(csv, row, "task");
        c->plan = plan_of(csv, row, gpus);
        c->workload.seq = job_csv_count(csv, row, "seq");
        c->workload.task = strcmp(task, "SFT") == 0    ? ORR_TASK_SFT
                           : strcmp(task, "LoRA") == 0 ? ORR_TASK_LORA
                                                       : ORR_TASK_PRETRAIN;
        if (c->workload.task != ORR_TASK_PRETRAIN && c->plan.pp > 1)
            c->plan.vp = has(name, "70B") ? 20 : 10;
        c->label = job_text(cases->arena, "%s %s", name, task);
        c->model = named_model(cases, file, name, c->workload.seq);
        c->cluster = "h100_superpod";
        c->seconds = seconds_of(c, gpus, job_csv_number(csv, row, "tokens_per_s_per_gpu"));
        job_cases_done(cases, c);
    }
}

static const char *cluster_of(const char *system)
{
    return has(system, "GB300")   ? "gb300_pod"
           : has(system, "GB200") ? "gb200_pod"
           : has(system, "B300")  ? "b300_pod"
           : has(system, "B200")  ? "b200_pod"
           : has(system, "H200")  ? "h200_pod"
                                  : "h100_superpod";
}

static uint8_t precision_of(const char *text)
{
    return strcmp(text, "BF16") == 0    ? ORR_PRECISION_BF16
           : strcmp(text, "MXFP8") == 0 ? ORR_PRECISION_MXFP8
           : has(text, "FP4")           ? ORR_PRECISION_FP4
                                        : ORR_PRECISION_FP8;
}

static void read_bridge_row(const job_csv *csv, size_t row, const char *file, job_cases *cases)
{
    job_case *c = job_cases_add(cases, file, row, "Megatron Bridge");
    if (c == NULL)
        return;
    const uint32_t gpus = job_csv_count(csv, row, "#-GPUs");
    const char *name = job_csv_text(csv, row, "model");
    c->plan = (orr_plan){.tp = job_csv_count(csv, row, "TP"),
                         .pp = job_csv_count(csv, row, "PP"),
                         .cp = job_csv_count(csv, row, "CP"),
                         .vp = job_csv_count(csv, row, "VP"),
                         .ep = job_csv_count(csv, row, "EP"),
                         .micro_batch = job_csv_count(csv, row, "MBS"),
                         .batch = job_csv_count(csv, row, "GBS"),
                         .zero = job_csv_count(csv, row, "FSDP") > 0 ? 3 : 1,
                         .recompute = ORR_RECOMPUTE_NONE,
                         .overlap_tp = ORR_SWITCH_ON,
                         .graphs = strncmp(job_csv_text(csv, row, "release"), "26.06", 5) >= 0
                                       ? ORR_SWITCH_ON
                                       : ORR_SWITCH_OFF,
                         .precision = precision_of(job_csv_text(csv, row, "Precision"))};
    const uint32_t model_ranks = c->plan.tp * c->plan.pp * c->plan.cp;
    c->plan.dp = model_ranks > 0 ? gpus / model_ranks : 0;
    if (c->plan.ep > 1)
        c->plan.etp = 1;
    if (c->plan.pp <= 1)
        c->plan.vp = 1;
    if (c->plan.ep > 1 && c->plan.vp > 1)
        c->plan.overlap_ep = ORR_SWITCH_ON;
    c->workload.seq = job_csv_count(csv, row, "Sequence Length");
    if (has(job_csv_text(csv, row, "phase"), "LoRA"))
        c->workload.task = ORR_TASK_LORA;
    c->label =
        job_text(cases->arena, "%s %s on %u %s, %.6s", name, job_csv_text(csv, row, "Precision"),
                 gpus, job_csv_text(csv, row, "System"), job_csv_text(csv, row, "release"));
    c->model = named_model(cases, file, name, c->workload.seq);
    c->cluster = cluster_of(job_csv_text(csv, row, "System"));
    c->seconds = seconds_of(c, gpus, job_csv_number(csv, row, "Tokens / sec / GPU"));
    job_cases_done(cases, c);
}

static void read_bridge(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        read_bridge_row(csv, row, file, cases);
}

/* "Blackwell GPU (B200-SXM-180GB)": which. NULL: a device that no cluster of the catalogue has. */
static const char *mlperf_cluster(const char *accelerator)
{
    return has(accelerator, "GB200")      ? "gb200_pod"
           : has(accelerator, "B200")     ? "b200_pod"
           : has(accelerator, "H200-SXM") ? "h200_pod"
           : has(accelerator, "H100-SXM") ? "h100_superpod"
                                          : NULL;
}

/* Degrees of the LoRA benchmark stand in the name of its configuration: "..._1x8x4xtp4pp1cp2.sh".
 */
static void degrees_of_name(const char *config, orr_plan *plan)
{
    const char *at = strstr(config, "xtp");
    uint32_t tp, pp, cp;
    if (at != NULL && sscanf(at, "xtp%upp%ucp%u", &tp, &pp, &cp) == 3) {
        plan->tp = tp;
        plan->pp = pp;
        plan->cp = cp;
    }
}

static void read_mlperf_row(const job_csv *csv, size_t row, const char *file, job_cases *cases)
{
    const char *benchmark = job_csv_text(csv, row, "benchmark"),
               *config = job_csv_text(csv, row, "config_file"),
               *cluster = mlperf_cluster(job_csv_text(csv, row, "accelerator"));
    const bool lora = has(benchmark, "lora"), big = has(benchmark, "405b");
    if (job_csv_text(csv, row, "ambiguous")[0] != '\0') {
        job_cases_leave_out(cases, file, "marked ambiguous");
        return;
    }
    if (cluster == NULL) {
        job_cases_leave_out(cases, file, "a device of which the catalogue has no cluster");
        return;
    }
    if (lora && !has(config, "xtp")) {
        job_cases_leave_out(cases, file,
                            "a configuration of another system: its degrees are not told");
        return;
    }
    job_case *c = job_cases_add(cases, file, row, lora ? "MLPerf LoRA" : "MLPerf");
    if (c == NULL)
        return;
    const uint32_t gpus = job_csv_count(csv, row, "accelerators");
    c->plan = plan_of(csv, row, gpus);
    if (lora) {
        degrees_of_name(config, &c->plan);
        c->plan.micro_batch = 1;
        c->plan.vp = 1;
        c->plan.dp = gpus / (c->plan.tp * c->plan.pp * c->plan.cp);
    }
    c->plan.graphs = lora || has(config, "_cg") ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
    if (strcmp(job_csv_text(csv, row, "round"), "v3.0") == 0) {
        c->plan.flash = ORR_SWITCH_OFF;
        c->plan.recompute = ORR_RECOMPUTE_SELECTIVE;
    }
    c->workload.seq = lora || big ? 8192 : 2048;
    c->workload.task = lora ? ORR_TASK_LORA : ORR_TASK_PRETRAIN;
    c->label = job_text(cases->arena, "%s %s on %u %s", job_csv_text(csv, row, "round"), benchmark,
                        gpus, cluster);
    c->model = lora  ? job_model(cases, file, "llama2-70b")
               : big ? job_model(cases, file, "llama3.1-405b")
                     : job_gpt(cases, "gpt3-175b", 96, 12288, 96, 51200, 2048);
    c->cluster = cluster;
    c->seconds = job_csv_number(csv, row, "derived_step_s");
    job_cases_done(cases, c);
}

static void read_mlperf(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        read_mlperf_row(csv, row, file, cases);
}

const job_table JOB_TABLES_NEMO[] = {
    {"megatron_h100_readme",
     "seconds from TFLOP/s by Megatron-Core's formula, 72 B s l h^2 (1 + s / 6h + V / 12lh); "
     "micro-batches of one sample, one chunk a stage, sharded optimizer, transfers beside "
     "computation, nothing computed again",
     read_h100_readme},
    {"mlperf_parallelism",
     "seconds are derived_step_s; fp8, sharded optimizer, sequence parallelism, transfers "
     "beside computation, nothing computed again; round 3.0 had no attention in one kernel "
     "yet: scores are written and computed again; GPT-3 of 2048 tokens and 51,200 words, Llama "
     "of 8192 tokens; LoRA: rank 16, 8192 tokens packed, CUDA graphs, degrees from the name of "
     "the configuration",
     read_mlperf},
    {"nemo_2407_h100_fp8",
     "seconds from tokens/s; fp8, sharded optimizer, transfers beside computation, nothing "
     "computed again, chunks of fine-tuning as of pre-training; shapes of GPT3 and Nemotron as "
     "in NeMo's recipes (they give the table's FLOPs a token)",
     read_nemo_2407},
    {"megatron_bridge_perf",
     "seconds from tokens/s; CUDA graphs from release 26.06 on, sharded optimizer, experts not "
     "sliced, tokens travel to experts beside computation where there are chunks, nothing "
     "computed again; releases that run one configuration alike are one configuration; models "
     "with Mamba layers are left out",
     read_bridge},
    {NULL, NULL, NULL}};
