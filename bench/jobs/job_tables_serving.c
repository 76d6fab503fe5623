/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "job_tables.h"

/* Served models: TensorRT-LLM's and vLLM's pages, MLPerf Inference. */

/* When a version was released, by the beginning of its name. */
static double year_of_version(const char *version)
{
    static const struct {
        const char *version;
        double year;
    } VERSIONS[] = {
        {"v0.5", 2023.8},    {"v0.6", 2023.95},   {"v0.7", 2024.0},    {"v0.8", 2024.15},
        {"v0.9", 2024.3},    {"v0.10", 2024.45},  {"v0.11", 2024.5},   {"v0.12", 2024.65},
        {"v0.13", 2024.75},  {"v0.14", 2024.85},  {"v0.15", 2024.95},  {"v0.16", 2025.0},
        {"v0.17", 2025.1},   {"v0.18", 2025.2},   {"v0.19", 2025.35},  {"v0.20", 2025.45},
        {"v0.21", 2025.55},  {"v1.0", 2025.7},    {"v1.1", 2025.9},    {"v1.2", 2026.1},
        {"2025-02", 2025.1}, {"2025-05", 2025.4}, {"2025-11", 2025.9}, {"2026-02", 2026.1}};
    double year = NAN;
    size_t longest = 0;
    for (size_t i = 0; i < sizeof VERSIONS / sizeof *VERSIONS; i++) {
        const size_t n = strlen(VERSIONS[i].version);
        if (n > longest && strncmp(version, VERSIONS[i].version, n) == 0) {
            longest = n;
            year = VERSIONS[i].year;
        }
    }
    return year;
}

static const char *framework_of(const char *text)
{
    return job_has(text, "TensorRT") ? "tensorrt-llm"
           : job_has(text, "vLLM")   ? "vllm"
           : job_has(text, "SGLang") ? "sglang"
                                     : "";
}

/* What the measured number is; its row is refused where nothing is predicted of it. */
static const char *read_metric(job_cases *cases, job_case *c, const char *metric)
{
    if (strcmp(metric, "tokens_per_s") == 0 || strcmp(metric, "tokens_per_s_per_gpu") == 0) {
        c->measure = JOB_REQUEST;
        return "inference throughput";
    }
    if (strcmp(metric, "ttft_ms") == 0) {
        c->measure = JOB_FIRST_TOKEN;
        return "inference first token";
    }
    c->measure = JOB_TOKEN;
    if (strcmp(metric, "tpot_ms") != 0)
        job_refuse(c, job_text(cases->arena, "%s: another row has its run's tokens/s", metric));
    return "time per token";
}

/* Seconds of a request on one of the instances that run side by side. */
static void read_rate(const job_csv *csv, size_t row, job_case *c)
{
    const char *metric = job_csv_text(csv, row, "metric"),
               *version = job_csv_text(csv, row, "version");
    const double value = job_csv_number(csv, row, "value");
    const uint32_t gpus = job_csv_count(csv, row, "gpus"),
                   instance = c->plan.tp * c->plan.pp * c->plan.dp;
    if (c->measure != JOB_REQUEST) {
        c->seconds = value / 1e3;
        return;
    }
    const bool per_gpu = strcmp(metric, "tokens_per_s_per_gpu") == 0;
    if (!per_gpu && instance > 1 && (strcmp(version, "v0.5") == 0 || job_has(version, "v0.8a")))
        job_refuse(c, "tokens/s of a device or of the group: not told");
    if (instance == 0 || gpus % instance != 0)
        job_refuse(c, "its devices are no whole instances");
    else
        c->seconds = c->workload.generated / (per_gpu ? value * instance : value * instance / gpus);
}

static void read_serving_row(const job_csv *csv, size_t row, const char *file, job_cases *cases)
{
    job_case *c = job_cases_add(cases, file, row, "");
    if (c == NULL)
        return;
    const char *notes = job_csv_text(csv, row, "notes"), *name = job_csv_text(csv, row, "model"),
               *version = job_csv_text(csv, row, "version"),
               *kv = job_csv_text(csv, row, "kv_precision"), *gpu = job_csv_text(csv, row, "gpu");
    c->group = read_metric(cases, c, job_csv_text(csv, row, "metric"));
    if (job_has(notes, "INCONSISTENT") || job_has(notes, "CHECK") || job_has(gpu, "CHECK") ||
        job_has(notes, "suspect"))
        job_refuse(c, "marked as doubtful");
    if (job_csv_text(csv, row, "input_tokens")[0] == '\0')
        job_refuse(c, "its input length is not told");
    if (job_has(notes, "refill") && c->measure == JOB_REQUEST)
        job_refuse(c, "tokens of prompts, not of answers");
    c->plan = (orr_plan){.tp = job_csv_count(csv, row, "tp"),
                         .pp = job_csv_count(csv, row, "pp"),
                         .ep = job_csv_count(csv, row, "ep"),
                         .dp = 1,
                         .micro_batch = 1,
                         .sp = ORR_SWITCH_OFF};
    if (c->plan.tp == 0 || c->plan.pp == 0)
        job_refuse(c, "its plan is not told");
    if (job_has(notes, "attention DP")) { /* each device has requests and experts of its own */
        c->plan.dp = c->plan.ep = c->plan.tp;
        c->plan.tp = 1;
    }
    if (c->refused == NULL) {
        job_read_cluster(cases, c, gpu);
        job_read_model(cases, c, name);
        c->plan.precision = job_read_precision(cases, c, job_csv_text(csv, row, "precision"));
        c->kv_precision = kv[0] != '\0' ? job_read_precision(cases, c, kv) : ORR_PRECISION_UNKNOWN;
        c->plan.kv_cache_dtype = c->kv_precision;
        c->batch = job_csv_count(csv, row, "batch_or_concurrency");
        c->workload.prompt = job_csv_count(csv, row, "input_tokens");
        c->workload.generated = job_csv_count(csv, row, "output_tokens");
        c->workload.task = c->measure == JOB_FIRST_TOKEN ? ORR_TASK_PREFILL : ORR_TASK_DECODE;
        read_rate(csv, row, c);
        if (c->measure != JOB_REQUEST && c->batch == 0)
            job_refuse(c, "its load is not told");
    }
    c->framework = framework_of(job_csv_text(csv, row, "framework"));
    c->software_year = year_of_version(version);
    c->label = job_text(cases->arena, "%s on %s, tp %u pp %u, batch %u, %u + %u tokens, %s", name,
                        gpu, c->plan.tp, c->plan.pp, c->batch, c->workload.prompt,
                        c->workload.generated, version);
    job_cases_done(cases, c);
}

static void read_serving(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++)
        read_serving_row(csv, row, file, cases);
}

const job_table JOB_TABLES_SERVING[] = {
    {"inference",
     "seconds of a request on an instance of tp x pp devices, from output tokens/s of a device or "
     "of "
     "all devices as the metric says; a pass over its prompt and, for each token, a step at the "
     "mean context, with the batch told or (max-load rows) as many requests as the memory holds, "
     "at most 2,048; TensorRT-LLM's keys and values in fp8 beside quantised weights; with "
     "attention DP each device has whole attention and an equal part of "
     "the experts; the first token is the pass over the prompt of one request. Left out: MLPerf's "
     "rows, whose input lengths are not told, whole groups of release 0.5 and tokens of prompts",
     read_serving},
    {NULL, NULL, NULL}};
