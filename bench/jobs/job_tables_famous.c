/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job_tables.h"

/* Whole runs and their memory, from papers, recipes and logs: famous_runs and fsdp_memory have the
 * same columns. What the columns do not say stands in words in the notes. */

typedef struct run_row {
    const job_csv *csv;
    size_t row;
    const char *model, *metric, *notes, *source;
} run_row;

static uint32_t count_of(const run_row *r, const char *column)
{
    return job_csv_count(r->csv, r->row, column);
}

/* A count of the notes, "NLAYERS 10" of the row or "NLAYERS=6" of its section; 0: not told. */
static uint32_t noted(const run_row *r, const char *word)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%s ", word);
    double value = job_number_after(r->notes, text);
    (void)snprintf(text, sizeof text, "%s=", word);
    if (isnan(value))
        value = job_number_after(r->notes, text);
    return value > 0 && value < 1e9 ? (uint32_t)value : 0;
}

/* What all have in common. */
static void read_degrees(const run_row *r, job_case *c)
{
    c->plan.tp = count_of(r, "tp");
    c->plan.pp = count_of(r, "pp");
    c->plan.cp = count_of(r, "cp");
    c->plan.ep = count_of(r, "ep");
    c->plan.dp = count_of(r, "dp");
    c->plan.vp = count_of(r, "vp");
    c->plan.batch = count_of(r, "batch_samples");
    c->plan.micro_batch = noted(r, "MBS");
    c->workload.seq = count_of(r, "seq");
    const uint32_t gpus = count_of(r, "gpus");
    if (c->plan.pp <= 1)
        c->plan.vp = 1;
    if (c->plan.ep > 1)
        c->plan.etp = 1;
    if (c->plan.dp == 0 || gpus == 0)
        job_refuse(c, "its plan is not told");
    else if (orr_plan_ranks(&c->plan) / (c->plan.dp) * c->plan.dp != gpus)
        job_refuse(c, "its degrees do not multiply to its devices");
    if (c->workload.seq == 0)
        job_refuse(c, "its tokens a sample are not told");
    if (c->plan.batch == 0 && c->measure == JOB_STEP && !(c->memory_gib > 0))
        job_refuse(c, "its batch is not told");
}

static const char *precision_of(const run_row *r)
{
    return job_csv_text(r->csv, r->row, "precision");
}

/* The catalogue's model with the layers that the row says, where it says them: proxies. */
static void read_layers(const run_row *r, job_cases *cases, job_case *c)
{
    double layers = job_number_after(r->notes, "layers ");
    if (isnan(layers))
        layers = job_number_after(r->notes, "Proxy with ");
    orr_model *m = orr_arena_one(cases->arena, orr_model);
    if (c->model == NULL || m == NULL || !(layers > 0))
        return;
    *m = *c->model;
    m->layers = (uint32_t)layers;
    c->model = m;
}

static void read_dgxc(const run_row *r, job_cases *cases, job_case *c)
{
    job_read_cluster(cases, c, job_csv_text(r->csv, r->row, "gpu"));
    job_read_model(cases, c, r->model);
    read_layers(r, cases, c);
    c->plan.zero = 1;
    c->plan.precision = job_read_precision(cases, c, precision_of(r));
    c->plan.gradients = ORR_PRECISION_FP32;
    c->plan.recompute = ORR_RECOMPUTE_NONE;
    c->plan.overlap_tp = ORR_SWITCH_ON;
    if (job_has(r->notes, "VP printed as NA"))
        c->plan.vp = 12;
    c->framework = "megatron";
    const char *release = strstr(r->source, "@v");
    c->software_year = release != NULL ? job_year_of_release(release) : NAN;
}

/* Layers of a candidate: of the row, of its section, or those that give the parameters of its name
 * (12 l h^2 + V h) in equal stages. */
static uint32_t bloom_layers(const run_row *r, job_case *c, uint32_t hidden, uint32_t vocab)
{
    const double h = hidden, millions = 1e3 * strtod(job_csv_text(r->csv, r->row, "params"), NULL),
                 stages = c->plan.pp > 0 ? c->plan.pp : 1,
                 fits = (1e6 * millions - vocab * h) / (12 * h * h);
    const double own = job_number_after(r->notes, "NLAYERS ");
    const uint32_t section = noted(r, "NLAYERS");
    if (own > 0)
        return (uint32_t)own;
    if (section > 0 && fabs(section / fits - 1) > 0.1)
        job_refuse(c, "its layers are not told: those of its section do not give its parameters");
    return section > 0 ? section : (uint32_t)(stages * fmax(1, round(fits / stages)));
}

static void read_bloom(const run_row *r, job_cases *cases, job_case *c)
{
    const uint32_t vocab = 250880;
    const bool final = strcmp(r->model, "BLOOM-176B") == 0;
    const uint32_t hidden = final ? 14336 : noted(r, "NHIDDEN");
    if (hidden == 0) {
        job_refuse(c, "its shape is not told");
        return;
    }
    uint32_t heads = final ? 112 : noted(r, "NHEADS");
    if (heads == 0)
        heads = hidden % 96 == 0 ? 96 : 112;
    if (hidden % heads != 0)
        job_refuse(c, "its heads do not divide its columns");
    const uint32_t layers = final ? 70 : bloom_layers(r, c, hidden, vocab);
    orr_model *m = (orr_model *)(uintptr_t)job_gpt(cases, r->model, layers, hidden, heads, vocab,
                                                   c->workload.seq);
    if (m != NULL) {
        m->position = ORR_POSITION_ALIBI;
        m->positions = 0;
    }
    c->model = m;
    if (job_has(job_csv_text(r->csv, r->row, "gpu"), "A100-80GB"))
        c->cluster = "jean_zay_a100";
    else
        job_read_cluster(cases, c, job_csv_text(r->csv, r->row, "gpu"));
    if (c->plan.batch == 0)
        c->plan.batch = noted(r, "GBS");
    c->plan.zero = 1;
    c->plan.precision = precision_of(r)[0] == '\0' ? ORR_PRECISION_BF16
                                                   : job_read_precision(cases, c, precision_of(r));
    c->plan.gradients = ORR_PRECISION_FP32;
    c->plan.recompute = ORR_RECOMPUTE_FULL;
    c->plan.sp = c->plan.flash = c->plan.overlap_dp = c->plan.overlap_pp = ORR_SWITCH_OFF;
    c->framework = "megatron-deepspeed";
    c->software_year = 2022.1;
}

static void read_megascale(const run_row *r, job_cases *cases, job_case *c)
{
    const bool baseline = strncmp(r->notes, "Megatron-LM", 11) == 0;
    if (!baseline && strncmp(r->notes, "MegaScale", 9) != 0)
        job_refuse(c, "neither MegaScale nor its baseline");
    orr_model *m =
        (orr_model *)(uintptr_t)job_gpt(cases, r->model, noted(r, "layers"), noted(r, "hidden"),
                                        noted(r, "heads"), 64000, c->workload.seq);
    if (m == NULL || m->layers == 0 || m->hidden == 0)
        job_refuse(c, "its shape is not told");
    else
        m->parallel_residual = !baseline;
    c->model = m;
    c->cluster = "a100_megascale";
    c->plan.micro_batch = 1;
    c->plan.zero = 1;
    c->plan.precision = job_read_precision(cases, c, precision_of(r));
    c->plan.gradients = ORR_PRECISION_FP32;
    c->plan.recompute = ORR_RECOMPUTE_NONE;
    c->plan.overlap_dp = c->plan.overlap_tp = c->plan.overlap_pp =
        baseline ? ORR_SWITCH_OFF : ORR_SWITCH_ON;
    c->framework = baseline ? "megatron" : "megascale";
    c->software_year = 2023.6;
}

/* "recompute moe_act+layernorm": names of Megatron-Core's --recompute-modules. */
static void read_modules(const run_row *r, job_cases *cases, job_case *c)
{
    const char *at = strstr(r->notes, "recompute ");
    c->plan.recompute = ORR_RECOMPUTE_NONE;
    while (at != NULL) {
        at += at[0] == '+' ? 1 : strlen("recompute ");
        const size_t n = strcspn(at, "+,; ");
        bool known = n == 4 && strncmp(at, "none", n) == 0;
        for (int i = 0; i < ORR_RECOMPUTE_MODULES; i++) {
            const char *name = orr_recompute_module_name((orr_recompute_module)i);
            if (strlen(name) != n || strncmp(at, name, n) != 0)
                continue;
            known = true;
            c->plan.recompute = ORR_RECOMPUTE_SOME;
            c->plan.recompute_modules |= (uint16_t)(1u << i);
        }
        if (!known)
            job_refuse(
                c, job_text(cases->arena, "a module that is not known here: '%.*s'", (int)n, at));
        at = at[n] == '+' ? at + n : NULL;
    }
}

static void read_mixture(const run_row *r, job_cases *cases, job_case *c)
{
    const char *gpu = job_csv_text(r->csv, r->row, "gpu");
    job_read_model(cases, c, r->model);
    if (c->memory_gib > 0 && gpu[0] == '\0')
        c->cluster = "gb200_pod"; /* memory that is used is the same on any */
    else
        job_read_cluster(cases, c, gpu);
    if (c->plan.micro_batch == 0)
        c->plan.micro_batch = 1;
    c->plan.zero = 1;
    c->plan.precision = job_read_precision(cases, c, precision_of(r));
    read_modules(r, cases, c);
    c->plan.overlap_ep = job_has(r->notes, "overlap on") ? ORR_SWITCH_ON : ORR_SWITCH_OFF;
    c->plan.graphs = ORR_SWITCH_ON;
    c->framework = "megatron";
    c->software_year = 2026.1;
}

/* Norms, up-projections of latent attention and SwiGLU are computed again (arXiv 2412.19437,
 * section 3.2.3), inputs of SwiGLU are cached in fp8 and moments kept in bf16 (section 3.3.3).
 * Layers are laid out as Megatron Bridge has it for 16 stages, "Et*4|(t*4|)*14tmL". */
static void read_deepseek(const run_row *r, job_cases *cases, job_case *c)
{
    c->plan.recompute = ORR_RECOMPUTE_SOME;
    c->plan.recompute_modules =
        1U << ORR_RECOMPUTE_MODULE_layernorm | 1U << ORR_RECOMPUTE_MODULE_mla_up_proj |
        1U << ORR_RECOMPUTE_MODULE_mlp_act | 1U << ORR_RECOMPUTE_MODULE_moe_act;
    c->plan.activation_func_fp8_input_store = ORR_SWITCH_ON;
    c->plan.exp_avg_dtype = c->plan.exp_avg_sq_dtype = ORR_PRECISION_BF16;
    c->plan.last_layers = c->plan.pp == 16 ? 1 : 0;
    job_read_cluster(cases, c, job_csv_text(r->csv, r->row, "gpu"));
    job_read_model(cases, c, r->model);
    c->plan.micro_batch = 1;
    c->plan.zero = 1;
    c->plan.vp = 0;
    c->plan.schedule = ORR_SCHEDULE_DUALPIPE;
    c->plan.overlap_ep = ORR_SWITCH_ON;
    c->plan.precision = job_read_precision(cases, c, precision_of(r));
    c->framework = "deepseek";
    c->software_year = 2024.7;
}

/* FSDP without a pipeline. */
static void read_fsdp(const run_row *r, job_cases *cases, job_case *c)
{
    job_read_cluster(cases, c, job_csv_text(r->csv, r->row, "gpu"));
    job_read_model(cases, c, r->model);
    if (!job_has(r->notes, "FSDP"))
        job_refuse(c, "its plan is not told");
    c->plan.zero = 3;
    c->plan.micro_batches = 1;
    c->plan.precision = job_read_precision(cases, c, precision_of(r));
    c->plan.gradients = ORR_PRECISION_FP32;
    if (!job_has(r->notes, "selective"))
        job_refuse(c, "what it computes again is not told");
    c->plan.recompute = ORR_RECOMPUTE_OP;
    c->framework = job_has(r->source, "torchtitan") ? "torchtitan" : "fsdp";
    c->software_year = job_has(r->source, "torchtitan") ? 2026.0 : 2024.5;
}

/* Sources: a part of the row's, the group, and how its plan is read. */
static const struct {
    const char *part, *group;
    void (*read)(const run_row *r, job_cases *cases, job_case *c);
} SOURCES[] = {
    {"dgxc-benchmarking", "DGXC recipes", read_dgxc},
    {"bigscience", "BLOOM", read_bloom},
    {"BLOOM", "BLOOM", read_bloom},
    {"MegaScale", "MegaScale", read_megascale},
    {"Megatron-Core MoE", "Megatron-Core MoE", read_mixture},
    {"deepseek-ai/DeepSeek-V3", "DeepSeek-V3", read_deepseek},
};

/* Is the row one that its collector doubts? */
static bool is_doubtful(const char *notes)
{
    return job_has(notes, "INCONSISTENT") || job_has(notes, "CHECK") || job_has(notes, "suspect") ||
           job_has(notes, ": check)");
}

static void refuse_metric(const run_row *r, job_cases *cases, job_case *c)
{
    if (strcmp(r->metric, "step_s") == 0 || strcmp(r->metric, "tokens_per_s_per_gpu") == 0)
        return;
    if (strcmp(r->metric, "gpu_hours") == 0 || job_has(r->metric, "wall_"))
        job_refuse(c, "hours of a whole run: what was lost is in them");
    job_refuse(c,
               job_text(cases->arena, "%s: another row has its run's step or tokens/s", r->metric));
}

static void read_time(const run_row *r, job_case *c)
{
    const double value = job_csv_number(r->csv, r->row, "value");
    c->seconds = strcmp(r->metric, "step_s") == 0
                     ? value
                     : (double)c->plan.batch * c->workload.seq / (value * count_of(r, "gpus"));
}

static void read_memory(const run_row *r, job_cases *cases, job_case *c)
{
    const bool gb = strcmp(r->metric, "max_mem_gb") == 0,
               gib = strcmp(r->metric, "max_mem_gib") == 0,
               total = strcmp(r->metric, "total_gb") == 0;
    c->group = job_text(cases->arena, "%s memory", c->group);
    c->memory_kind = gib ? "reserved" : total ? "allocated" : "not told";
    if (gb || gib || total)
        c->memory_gib = job_csv_number(r->csv, r->row, "value") / (total ? 1.073741824 : 1);
    else
        job_refuse(c, job_text(cases->arena, "%s: no memory of a whole step", r->metric));
    if (job_has(r->source, "estimator output"))
        job_refuse(c, "an estimator's output, no measurement");
}

static void read_run(const job_csv *csv, size_t row, const char *file, bool memory,
                     job_cases *cases)
{
    const run_row r = {csv,
                       row,
                       job_csv_text(csv, row, "model"),
                       job_csv_text(csv, row, "metric"),
                       job_csv_text(csv, row, "notes"),
                       job_csv_text(csv, row, "source")};
    size_t i = 0;
    while (i < sizeof SOURCES / sizeof *SOURCES && !job_has(r.source, SOURCES[i].part))
        i++;
    const bool known = i < sizeof SOURCES / sizeof *SOURCES;
    job_case *c = job_cases_add(cases, file, row,
                                known    ? SOURCES[i].group
                                : memory ? "FSDP"
                                         : "other famous runs");
    if (c == NULL)
        return;
    if (is_doubtful(r.notes))
        job_refuse(c, "marked as doubtful");
    (memory ? read_memory : refuse_metric)(&r, cases, c);
    if (c->refused == NULL)
        read_degrees(&r, c);
    if (!memory && c->refused == NULL)
        read_time(&r, c);
    if (c->refused == NULL)
        (known ? SOURCES[i].read : read_fsdp)(&r, cases, c);
    if (memory && c->plan.batch == 0)
        c->plan.micro_batches = 4 * (c->plan.pp > 0 ? c->plan.pp : 1);
    c->label = job_text(cases->arena,
                        "%s on %u, tp %u pp %u vp %u cp %u ep %u dp %u, batch %u, "
                        "micro-batch %u",
                        r.model, count_of(&r, "gpus"), c->plan.tp, c->plan.pp, c->plan.vp,
                        c->plan.cp, c->plan.ep, c->plan.dp, c->plan.batch, c->plan.micro_batch);
    job_cases_done(cases, c);
}

static void read_famous(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        read_run(csv, row, file, false, cases);
}

static void read_fsdp_memory(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        read_run(csv, row, file, true, cases);
}

/* Llama 2 7B on hosts of 8 H100: of these alone is the batch published. */
static void read_maxtext(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "other famous runs");
        if (c == NULL)
            return;
        const char *chip = job_csv_text(csv, row, "chip"), *name = job_csv_text(csv, row, "model");
        const uint32_t slices = job_csv_count(csv, row, "n_slices");
        job_read_cluster(cases, c, strcmp(chip, "h100-80gb") == 0 ? "H100-80GB" : chip);
        job_read_model(cases, c, name);
        if (!job_has(job_csv_text(csv, row, "slices"), "A3 (8 GPUs)"))
            job_refuse(c, "its batch is not told");
        c->workload.seq = 4096;
        c->plan = (orr_plan){.dp = 8 * slices,
                             .shards = 8,
                             .zero = 3,
                             .micro_batch = 4,
                             .micro_batches = 1,
                             .precision = ORR_PRECISION_BF16,
                             .gradients = ORR_PRECISION_FP32,
                             .recompute = ORR_RECOMPUTE_SOME, /* remat_policy=minimal_flash */
                             .recompute_modules = 1U << ORR_RECOMPUTE_MODULE_layernorm |
                                                  1U << ORR_RECOMPUTE_MODULE_mlp_act};
        if (c->model != NULL)
            c->seconds = 3 * orr_model_flops(c->model, c->workload.seq, false) * 4 /
                         (1e12 * job_csv_number(csv, row, "measured_tflops_per_chip"));
        c->framework = "maxtext";
        c->software_year = 2024.3;
        c->label = job_text(cases->arena, "%s on %u", name, c->plan.dp);
        job_cases_done(cases, c);
    }
}

static void read_maxtext_tiering(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        job_cases_leave_out(cases, file, "its batch and plan are not told");
}

static void read_misc(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        job_cases_leave_out(cases, file,
                            job_text(cases->arena, "%s of a whole run: its plan is not told",
                                     job_csv_text(csv, row, "quantity")));
}

/* Recommendation: tables on their owners, the rest replicated. */
static void read_recommendation(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "DLRM");
        if (c == NULL)
            return;
        const char *name = job_csv_text(csv, row, "model"), *gpu = job_csv_text(csv, row, "gpu");
        c->plan.dp = job_csv_count(csv, row, "gpus");
        c->plan.batch = job_csv_count(csv, row, "batch");
        c->plan.micro_batches = 1;
        c->plan.micro_batch = c->plan.dp > 0 ? c->plan.batch / c->plan.dp : 0;
        c->plan.precision = job_read_precision(cases, c, job_csv_text(csv, row, "precision"));
        job_read_model(cases, c, name);
        if (c->plan.dp == 8 && strcmp(gpu, "A100") == 0)
            c->cluster = "dgx_a100";
        else if (c->plan.dp == 8 && strcmp(gpu, "V100") == 0)
            c->cluster = "dgx1_v100";
        else
            job_read_cluster(cases, c, gpu);
        c->framework = job_has(job_csv_text(csv, row, "source"), "HugeCTR") ? "hugectr" : "";
        c->software_year = 2022.3;
        c->seconds = job_csv_number(csv, row, "step_ms") / 1e3;
        c->label = job_text(cases->arena, "%s on %u %s, batch %u, %s", name, c->plan.dp, gpu,
                            c->plan.batch, job_csv_text(csv, row, "precision"));
        job_cases_done(cases, c);
    }
}

const job_table JOB_TABLES_FAMOUS[] = {
    {"famous_runs",
     "seconds are step_s or from tokens/s of a device; rows that tell one run again as TFLOP/s or "
     "MFU, hours of whole runs and doubtful rows are left out. DGXC (NeMo): sharded optimizer, "
     "transfers beside computation, nothing computed again, layers of the row (proxies). BLOOM: "
     "fp32 gradients, ZeRO 1, every layer computed again, scores written, nothing beside "
     "computation, 250,880 words, ALiBi; layers where not told from the parameters, heads where "
     "not told 96, or 112 where 96 do not divide; four ports of Omni-Path for eight GPUs. "
     "MegaScale: micro-batches of one sample, 64,000 words, sharded optimizer; the baseline has "
     "nothing beside computation, MegaScale all, with parallel blocks and (its window is not told) "
     "full attention. Megatron-Core MoE: experts not sliced, CUDA graphs, modules computed "
     "again as named. DeepSeek-V3: DualPipe, ZeRO 1, fp8, tokens travel beside computation",
     read_famous},
    {"fsdp_memory",
     "as famous_runs; GB of BLOOM's and torchtitan's logs are 2^30 bytes, Megatron-Core's 10^9; "
     "a batch that is not told: four micro-batches a stage; estimators' outputs are left out",
     read_fsdp_memory},
    {"dlrm_training",
     "HugeCTR's embedding kit under TensorFlow; fp32 on A100 is TF32, as TensorFlow runs it; one "
     "micro-batch; tables by rule, rows and their sums in fp32 with mixed precision, too; "
     "(bench/jobs/tables)",
     read_recommendation},
    {"maxtext",
     "only Llama 2 7B on H100 tells its batch (four samples of 4096 tokens a device, sharded in a "
     "host); seconds from TFLOP/s by orr_model_flops()",
     read_maxtext},
    {"maxtext_tiering", "throughput without a batch: none is read", read_maxtext_tiering},
    {"misc_runs", "utilisation and hours without a plan: none is read", read_misc},
    {NULL, NULL, NULL}};
