/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "job_tables.h"

/* vTrain and Megatron-LM on A100s: GPT models by shape, fp16, attention with scores written. */

/* Megatron-LM as of 2021 and 2022, and what vTrain measured: all-reduces between slices, gradients
 * of all micro-batches reduced after the last one, nothing beside computation. */
static orr_plan plan_of_2021(const job_csv *csv, size_t row, const char *tp, const char *dp,
                             const char *pp)
{
    return (orr_plan){.tp = job_csv_count(csv, row, tp),
                      .dp = job_csv_count(csv, row, dp),
                      .pp = job_csv_count(csv, row, pp),
                      .precision = ORR_PRECISION_FP16,
                      .gradients = ORR_PRECISION_FP32,
                      .sp = ORR_SWITCH_OFF,
                      .flash = ORR_SWITCH_OFF,
                      .overlap_dp = ORR_SWITCH_OFF,
                      .overlap_pp = ORR_SWITCH_OFF,
                      .fusion = ORR_SWITCH_ON,
                      .recompute = ORR_RECOMPUTE_FULL};
}

static void read_vtrain(const job_csv *csv, const char *file, job_cases *cases, const char *group,
                        const char *cluster, uint8_t recompute, uint8_t gradients, uint8_t sp)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, group);
        if (c == NULL)
            return;
        c->plan = plan_of_2021(csv, row, "tensor parallelism", "data parallelism",
                               "pipeline parallelism");
        c->plan.batch = job_csv_count(csv, row, "global batch");
        c->plan.micro_batch = job_csv_count(csv, row, "micro batch");
        c->plan.recompute = recompute;
        c->plan.gradients = gradients;
        c->plan.sp = sp;
        c->workload.seq = job_csv_count(csv, row, "sequence length");
        c->model = job_gpt(cases, "gpt", job_csv_count(csv, row, "# layers"),
                           job_csv_count(csv, row, "hidden size"),
                           job_csv_count(csv, row, "attention heads"), 50257, c->workload.seq);
        c->cluster = cluster;
        c->framework = "megatron";
        c->software_year = 2022.5;
        c->seconds = job_csv_number(csv, row, "iteration time (ms)") / 1e3;
        c->label = job_text(cases->arena, "%u layers of %u, tp %u dp %u pp %u, micro-batch %u",
                            c->model->layers, c->model->hidden, c->plan.tp, c->plan.dp, c->plan.pp,
                            c->plan.micro_batch);
        job_cases_done(cases, c);
    }
}

static void read_vtrain_single(const job_csv *csv, const char *file, job_cases *cases)
{
    read_vtrain(csv, file, cases, "vTrain, one host", "dgx_a100", ORR_RECOMPUTE_NONE,
                ORR_PRECISION_FP16, ORR_SWITCH_OFF);
}

static void read_vtrain_multi(const job_csv *csv, const char *file, job_cases *cases)
{
    read_vtrain(csv, file, cases, "vTrain, many hosts", "a100_hdr_x4", ORR_RECOMPUTE_FULL,
                ORR_PRECISION_FP32, ORR_SWITCH_ON);
}

static void read_sc21(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "Megatron");
        if (c == NULL)
            return;
        c->plan = plan_of_2021(csv, row, "tp", "dp", "pp");
        c->plan.batch = job_csv_count(csv, row, "gbs");
        c->plan.micro_batch = job_csv_count(csv, row, "mbs");
        const uint32_t layers = job_csv_count(csv, row, "layers"),
                       chunk = job_csv_count(csv, row, "layers_per_virtual_stage");
        if (chunk > 0 && c->plan.pp > 0)
            c->plan.vp = layers / c->plan.pp / chunk;
        c->workload.seq = job_csv_count(csv, row, "seq");
        c->label = job_csv_text(csv, row, "model");
        c->model = job_gpt(cases, c->label, layers, job_csv_count(csv, row, "hidden"),
                           job_csv_count(csv, row, "heads"), job_csv_count(csv, row, "vocab"),
                           c->workload.seq);
        c->cluster = "a100_superpod";
        c->framework = "megatron";
        c->software_year = 2021.2;
        c->seconds = job_csv_number(csv, row, "derived_iter_time_s(96Bslh2 formula)");
        job_cases_done(cases, c);
    }
}

static void read_2022(const job_csv *csv, const char *file, job_cases *cases)
{
    for (size_t row = 0; row < csv->n_rows; row++) {
        job_case *c = job_cases_add(cases, file, row, "Megatron");
        if (c == NULL)
            return;
        c->plan = plan_of_2021(csv, row, "tp", "dp", "pp");
        c->plan.batch = job_csv_count(csv, row, "gbs");
        c->plan.micro_batch = job_csv_count(csv, row, "mbs");
        c->plan.vp = job_csv_count(csv, row, "interleave");
        if (strcmp(job_csv_text(csv, row, "recompute"), "attn_only") == 0)
            c->plan.recompute = ORR_RECOMPUTE_SELECTIVE;
        if (strcmp(job_csv_text(csv, row, "tp_comm"), "rs_ag") == 0)
            c->plan.sp = ORR_SWITCH_ON;
        c->workload.seq = job_csv_count(csv, row, "seq");
        c->label = job_text(cases->arena, "%s, recompute %s", job_csv_text(csv, row, "model"),
                            job_csv_text(csv, row, "recompute"));
        c->model = job_gpt(cases, job_csv_text(csv, row, "model"),
                           job_csv_count(csv, row, "layers"), job_csv_count(csv, row, "hidden"),
                           job_csv_count(csv, row, "heads"), 51200, c->workload.seq);
        c->cluster = "a100_superpod";
        c->framework = "megatron";
        c->software_year = 2022.3;
        c->seconds = job_csv_number(csv, row, "measured_iter_time_s");
        job_cases_done(cases, c);
    }
}

const job_table JOB_TABLES_A100[] = {
    {"vtrain_a100_single_node_ground_truth",
     "fp16, vocabulary 50,257 as it is (its configurations), nothing computed again (an "
     "iteration grows with layers and micro-batches as it would without), gradients summed and "
     "reduced in fp16 after the last micro-batch, 1F1B; a host of eight A100 80 GB",
     read_vtrain_single},
    {"vtrain_a100_multi_node_ground_truth",
     "as on one host, but every layer computed again (its configurations), gradients in fp32, "
     "and four ports of HDR for the eight GPUs of a host (its configurations)",
     read_vtrain_multi},
    {"megatron_sc21_a100",
     "seconds are the table's own, from TFLOP/s by 96 B s l h^2 (1 + s / 6h + V / 16lh); every "
     "layer computed again, all-reduces between slices, fp32 gradients, chunks as in its "
     "script",
     read_sc21},
    {"megatron_seqpar_selective_2022",
     "vocabulary 51,200; with rs_ag: sequence parallelism; attn_only: selective recomputation",
     read_2022},
    {NULL, NULL, NULL}};
