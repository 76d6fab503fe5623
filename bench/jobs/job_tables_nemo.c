/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job_tables.h"

/* NVIDIA's tables: Megatron-Core, NeMo, MLPerf, Megatron Bridge. */

/* What these have in common: optimizer states sharded over replicas, everything that can travels
 * beside computation, attention in one kernel. */
static orr_plan plan_of(const job_csv *csv, size_t row, uint32_t gpus)
{
#define OPTIONAL_(column) (job_csv_has(csv, column) ? job_csv_count(csv, row, column) : 0)
    orr_plan p = {.tp = job_csv_count(csv, row, "tp"),
                  .pp = job_csv_count(csv, row, "pp"),
                  .cp = OPTIONAL_("cp"),
                  .vp = OPTIONAL_("vp"),
                  .micro_batch = OPTIONAL_("mbs"),
                  .batch = job_csv_count(csv, row, "gbs"),
                  .zero = 1,
                  .recompute = ORR_RECOMPUTE_NONE,
                  .precision = ORR_PRECISION_FP8,
                  .gradients = ORR_PRECISION_FP32,
                  .overlap_tp = ORR_SWITCH_ON};
#undef OPTIONAL_
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
        c->plan.precision = job_read_precision(cases, c, job_csv_text(csv, row, "precision"));
        c->plan.micro_batch = 1;
        c->framework = "megatron";
        c->software_year = 2024.5;
        c->workload.seq = job_csv_count(csv, row, "seq");
        c->label = job_csv_text(csv, row, "model");
        c->model = job_gpt(cases, c->label, job_csv_count(csv, row, "layers"),
                           job_csv_count(csv, row, "hidden"), job_csv_count(csv, row, "heads"),
                           job_csv_count(csv, row, "vocab"), c->workload.seq);
        job_read_cluster(cases, c, job_csv_text(csv, row, "gpu"));
        if (c->model != NULL)
            c->seconds = gpt_step_flops(c->model, c->plan.batch, c->workload.seq) /
                         (1e12 * job_csv_number(csv, row, "measured_tflops_per_gpu") * gpus);
        job_cases_done(cases, c);
    }
}

static void read_named_model(job_cases *cases, job_case *c, const char *name)
{
    /* Shapes of NeMo's recipes; each reproduces the table's own FLOPs a token. */
    static const struct {
        const char *name;
        uint32_t layers, hidden, heads, vocab;
    } SHAPES[] = {{"GPT3-5B", 24, 4096, 32, 51200},
                  {"GPT3-20B", 44, 6144, 48, 51200},
                  {"Nemotron-8B", 32, 4096, 32, 256000},
                  {"Nemotron-22B", 40, 6144, 48, 256000}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        if (strcmp(SHAPES[i].name, name) == 0)
            c->model = job_gpt(cases, name, SHAPES[i].layers, SHAPES[i].hidden, SHAPES[i].heads,
                               SHAPES[i].vocab, c->workload.seq);
    if (c->model == NULL)
        job_read_model(cases, c, name);
}

static uint8_t read_task(job_cases *cases, job_case *c, const char *task)
{
    if (task[0] == '\0' || strcmp(task, "Pre-Training Performance") == 0)
        return ORR_TASK_PRETRAIN;
    if (strcmp(task, "SFT") == 0 || strcmp(task, "SFT Performance") == 0)
        return ORR_TASK_SFT;
    if (strcmp(task, "LoRA") == 0 || strcmp(task, "LoRA Performance") == 0)
        return ORR_TASK_LORA;
    job_refuse(c, job_text(cases->arena, "a task that is not known here: '%s'", task));
    return ORR_TASK_PRETRAIN;
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
        c->workload.task = read_task(cases, c, task);
        c->plan.precision = job_read_precision(cases, c, job_csv_text(csv, row, "precision"));
        if (c->workload.task != ORR_TASK_PRETRAIN && c->plan.pp > 1)
            c->plan.vp = job_has(name, "70B") ? 20 : 10;
        c->label = job_text(cases->arena, "%s %s", name, task);
        read_named_model(cases, c, name);
        job_read_cluster(cases, c, job_csv_text(csv, row, "gpu"));
        c->framework = "megatron";
        c->software_year = 2024.5;
        c->seconds = seconds_of(c, gpus, job_csv_number(csv, row, "tokens_per_s_per_gpu"));
        job_cases_done(cases, c);
    }
}

/* What Megatron Bridge's own configurations say beside the table (scripts/performance/configs of
 * the repository): gradients are summed in bf16; DeepSeek-V3 keeps its moments in bf16 and computes
 * parts of a layer again. */
static void add_bridge_recipe(job_case *c, const char *name, const char *system)
{
    c->plan.gradients = ORR_PRECISION_BF16;
    if (!job_has(name, "DeepSeek"))
        return;
    c->plan.exp_avg_dtype = c->plan.exp_avg_sq_dtype = ORR_PRECISION_BF16;
    c->plan.recompute = ORR_RECOMPUTE_SOME;
    c->plan.recompute_modules = 1U << ORR_RECOMPUTE_MODULE_mla_up_proj;
    if (job_has(system, "DGX-B200") || job_has(system, "H100"))
        c->plan.recompute_modules |= 1U << ORR_RECOMPUTE_MODULE_mlp;
}

static void read_bridge_row(const job_csv *csv, size_t row, const char *file, job_cases *cases)
{
    job_case *c = job_cases_add(cases, file, row, "Megatron Bridge");
    if (c == NULL)
        return;
    const uint32_t gpus = job_csv_count(csv, row, "#-GPUs");
    const char *name = job_csv_text(csv, row, "model");
    c->plan = (orr_plan){
        .tp = job_csv_count(csv, row, "TP"),
        .pp = job_csv_count(csv, row, "PP"),
        .cp = job_csv_count(csv, row, "CP"),
        .vp = job_csv_count(csv, row, "VP"),
        .ep = job_csv_count(csv, row, "EP"),
        .micro_batch = job_csv_count(csv, row, "MBS"),
        .batch = job_csv_count(csv, row, "GBS"),
        .zero = job_csv_count(csv, row, "FSDP") > 0 ? 3 : 1,
        .recompute = ORR_RECOMPUTE_NONE,
        .overlap_tp = ORR_SWITCH_ON,
        .graphs = strncmp(job_csv_text(csv, row, "release"), "26.06", 5) >= 0 ? ORR_SWITCH_ON
                                                                              : ORR_SWITCH_OFF,
        .precision = job_read_precision(cases, c, job_csv_text(csv, row, "Precision"))};
    const uint32_t model_ranks = c->plan.tp * c->plan.pp * c->plan.cp;
    c->plan.dp = model_ranks > 0 ? gpus / model_ranks : 0;
    if (c->plan.ep > 1)
        c->plan.etp = 1;
    if (c->plan.pp <= 1)
        c->plan.vp = 1;
    if (c->plan.ep > 1 && c->plan.vp > 1)
        c->plan.overlap_ep = ORR_SWITCH_ON;
    c->workload.seq = job_csv_count(csv, row, "Sequence Length");
    c->workload.task = read_task(cases, c, job_csv_text(csv, row, "phase"));
    c->label =
        job_text(cases->arena, "%s %s on %u %s, %.6s", name, job_csv_text(csv, row, "Precision"),
                 gpus, job_csv_text(csv, row, "System"), job_csv_text(csv, row, "release"));
    add_bridge_recipe(c, name, job_csv_text(csv, row, "System"));
    read_named_model(cases, c, name);
    job_read_cluster(cases, c, job_csv_text(csv, row, "System"));
    c->framework = "megatron";
    c->software_year = job_year_of_release(job_csv_text(csv, row, "release"));
    c->seconds = seconds_of(c, gpus, job_csv_number(csv, row, "Tokens / sec / GPU"));
    job_cases_done(cases, c);
}

static void read_bridge(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        read_bridge_row(csv, row, file, cases);
}

/* Months in which the rounds of MLPerf were published. */
static double year_of_round(const char *round)
{
    static const struct {
        const char *round;
        double year;
    } ROUNDS[] = {{"v3.0", 2023.4}, {"v3.1", 2023.8}, {"v4.0", 2024.4}, {"v4.1", 2024.8},
                  {"v5.0", 2025.4}, {"v5.1", 2025.8}, {"v6.0", 2026.4}};
    for (size_t i = 0; i < sizeof ROUNDS / sizeof *ROUNDS; i++)
        if (strcmp(ROUNDS[i].round, round) == 0)
            return ROUNDS[i].year;
    return NAN;
}

/* The columns say "True" or nothing. NVIDIA's configurations of LoRA are in fp8 though a log does
 * not say so. */
static uint8_t read_mlperf_precision(const job_csv *csv, size_t row, job_case *c)
{
    if (strcmp(job_csv_text(csv, row, "fp4"), "True") == 0)
        return ORR_PRECISION_FP4;
    if (strcmp(job_csv_text(csv, row, "fp8"), "True") != 0 &&
        !job_has(job_csv_text(csv, row, "config_file"), "xtp"))
        job_refuse(c, "its precision is not told");
    return ORR_PRECISION_FP8;
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

static void read_mlperf_model(job_cases *cases, job_case *c, const char *benchmark)
{
    const bool lora = strcmp(benchmark, "llama2_70b_lora") == 0,
               big = strcmp(benchmark, "llama31_405b") == 0;
    c->workload.seq = lora || big ? 8192 : 2048;
    c->workload.task = lora ? ORR_TASK_LORA : ORR_TASK_PRETRAIN;
    if (strcmp(benchmark, "gpt3") == 0)
        c->model = job_gpt(cases, "gpt3-175b", 96, 12288, 96, 51200, 2048);
    else
        job_read_model(cases, c, lora ? "llama2-70b" : big ? "llama3.1-405b" : benchmark);
}

static void read_mlperf_row(const job_csv *csv, size_t row, const char *file, job_cases *cases)
{
    const char *benchmark = job_csv_text(csv, row, "benchmark"),
               *round = job_csv_text(csv, row, "round"),
               *config = job_csv_text(csv, row, "config_file");
    const bool lora = job_has(benchmark, "lora");
    job_case *c = job_cases_add(cases, file, row, lora ? "MLPerf LoRA" : "MLPerf");
    if (c == NULL)
        return;
    if (job_csv_text(csv, row, "ambiguous")[0] != '\0')
        job_refuse(c, "marked ambiguous");
    job_read_cluster(cases, c, job_csv_text(csv, row, "accelerator"));
    if (lora && !job_has(config, "xtp"))
        job_refuse(c, "a configuration of another system: its degrees are not told");
    const uint32_t gpus = job_csv_count(csv, row, "accelerators");
    c->plan = plan_of(csv, row, gpus);
    if (lora) {
        degrees_of_name(config, &c->plan);
        c->plan.micro_batch = 1;
        c->plan.activation_func_fp8_input_store = ORR_SWITCH_ON; /* FP8_ACT of its configuration */
        c->plan.vp = 1;
        c->plan.dp =
            gpus /
            (c->plan.tp * c->plan.pp * c->plan.cp > 0 ? c->plan.tp * c->plan.pp * c->plan.cp : 1);
    }
    c->plan.precision = read_mlperf_precision(csv, row, c);
    c->plan.graphs = lora || job_has(config, "_cg") ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
    if (strcmp(round, "v3.0") == 0) {
        c->plan.flash = ORR_SWITCH_OFF;
        c->plan.recompute = ORR_RECOMPUTE_SELECTIVE;
    }
    read_mlperf_model(cases, c, benchmark);
    c->label = job_text(cases->arena, "%s %s on %u %s", round, benchmark, gpus, c->cluster);
    c->framework = "megatron";
    c->software_year = year_of_round(round);
    c->seconds = job_csv_number(csv, row, "derived_step_s");
    job_cases_done(cases, c);
}

static void read_mlperf(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        read_mlperf_row(csv, row, file, cases);
}

/* The same runs as in mlperf_parallelism, which has their degrees where those are known. */
static void read_mlperf_results(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        job_cases_leave_out(cases, file, "degrees are not told here: mlperf_parallelism has them");
}

const job_table JOB_TABLES_NEMO[] = {
    {"megatron_h100_readme",
     "seconds from TFLOP/s by Megatron-Core's formula, 72 B s l h^2 (1 + s / 6h + V / 12lh); "
     "micro-batches of one sample, one chunk a stage, sharded optimizer, transfers beside "
     "computation, nothing computed again",
     read_h100_readme},
    {"mlperf_parallelism",
     "seconds are derived_step_s; fp8, or fp4 where so marked, sharded optimizer, sequence "
     "parallelism, transfers "
     "beside computation, nothing computed again; round 3.0 had no attention in one kernel "
     "yet: scores are written and computed again; GPT-3 of 2048 tokens and 51,200 words, Llama "
     "of 8192 tokens; LoRA: rank 16, 8192 tokens packed, CUDA graphs, degrees from the name of "
     "the configuration",
     read_mlperf},
    {"mlperf_training_llm", "the runs of mlperf_parallelism without their degrees: none is read",
     read_mlperf_results},
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
