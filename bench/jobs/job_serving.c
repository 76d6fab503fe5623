/* SPDX-License-Identifier: Apache-2.0 */
#include "job_serving.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double KV_SHARE = 0.9;
enum { REQUESTS_MOST = 2048, PROMPT_TOKENS = 8192 /* of a pass over prompts: max_num_tokens */ };

/* One pass over prompts or one step of decoding. */
typedef struct serving_pass {
    double seconds;             /* without bubbles; NAN: could not be predicted */
    double allocated, capacity; /* bytes of a device; capacity NAN: not known   */
} serving_pass;

/* Of keys and values, where a row does not say: TensorRT-LLM keeps them in fp8 beside quantised
 * weights (its pages; kv_cache_quant_algo of the published checkpoints). */
static uint8_t kv_precision_of(const job_case *c)
{
    const uint8_t weights = c->plan.precision;
    const bool quantised = weights == ORR_PRECISION_FP8 || weights == ORR_PRECISION_MXFP8 ||
                           weights == ORR_PRECISION_FP4;
    if (c->kv_precision != ORR_PRECISION_UNKNOWN)
        return c->kv_precision;
    return quantised && strcmp(c->framework, "tensorrt-llm") == 0 ? ORR_PRECISION_FP8
                                                                  : ORR_PRECISION_UNKNOWN;
}

/* Requests of which each stage and each replica of attention has one. */
static uint32_t unit_of(const job_case *c)
{
    return c->plan.pp * c->plan.dp;
}

static serving_pass run(const job_world *world, const job_case *c,
                        const orr_calibration *calibration, uint8_t task, uint32_t prompt,
                        uint32_t batch, job_prediction *ret)
{
    orr_error err = {0};
    orr_outcome outcome = {0};
    orr_job_options options;
    serving_pass pass = {NAN, NAN, NAN};
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return pass;
    orr_job_options_init(&options);
    options.workload = (orr_workload){.task = task, .prompt = prompt};
    options.detail = ORR_DETAIL_CHUNK;
    options.calibration = calibration;
    orr_plan plan = c->plan;
    plan.kv_cache_dtype = kv_precision_of(c);
    plan.micro_batches = plan.pp;
    plan.micro_batch = (batch + unit_of(c) - 1) / unit_of(c);
    plan.batch = unit_of(c) * plan.micro_batch;
    const orr_cluster *cluster = orr_catalog_cluster(world->catalog, c->cluster);
    if (orr_outcome_of(c->model, &plan, cluster, &options, arena, &outcome, &err) != ORR_OK) {
        (void)snprintf(ret->reason, sizeof ret->reason, "%s", err.text);
    } else {
        const orr_memory_plan *memory = &outcome.memory;
        pass.seconds = 1e-9 * (double)outcome.step_ns / (1 + fmax(0, outcome.bubble_frac)) * batch /
                       plan.batch;
        for (int w = 0; w < ORR_WATERFALLS; w++)
            ret->waterfall_ns[w] = outcome.waterfall_ns[w];
        if (memory->n_stages > 0)
            pass.allocated = (double)memory->stages[memory->worst].allocated_bytes;
        if (memory->capacity_bytes > 0)
            pass.capacity = (double)memory->capacity_bytes;
        ret->missing_gib = fmax(ret->missing_gib, (double)memory->missing_bytes / 1073741824.0);
    }
    orr_outcome_free(&outcome);
    orr_arena_free(arena);
    return pass;
}

/* Requests whose keys and values have room; 0: not even one has. */
uint32_t job_serving_batch(const job_world *world, const job_case *c,
                           const orr_calibration *calibration, job_prediction *ret)
{
    if (c->batch > 0)
        return c->batch;
    const uint32_t tokens = c->workload.prompt + c->workload.generated, few = unit_of(c),
                   most = REQUESTS_MOST * c->plan.dp;
    const serving_pass one = run(world, c, calibration, ORR_TASK_DECODE, tokens, few, ret),
                       two = run(world, c, calibration, ORR_TASK_DECODE, tokens, 2 * few, ret);
    const double each = (two.allocated - one.allocated) / few, rest = one.allocated - each * few;
    if (!(each > 0) || isnan(one.capacity))
        return 0;
    const double fit = floor(KV_SHARE * (one.capacity - rest) / each);
    if (fit < 1)
        (void)snprintf(ret->reason, sizeof ret->reason, "its weights leave no room for a request");
    return fit < 1 ? 0 : fit < most ? (uint32_t)fit : most;
}

void job_predict_serving(const job_world *world, const job_case *c,
                         const orr_calibration *calibration, job_prediction *ret)
{
    const orr_workload *w = &c->workload;
    if (c->measure == JOB_FIRST_TOKEN) {
        ret->seconds =
            run(world, c, calibration, ORR_TASK_PREFILL, w->prompt, c->batch, ret).seconds;
        return;
    }
    const uint32_t batch = job_serving_batch(world, c, calibration, ret);
    if (batch == 0)
        return;
    uint32_t prompts = PROMPT_TOKENS / (w->prompt > 0 ? w->prompt : 1);
    prompts = c->plan.dp * (prompts < 1 ? 1 : prompts);
    prompts = prompts < batch ? prompts : batch;
    const double step = run(world, c, calibration, ORR_TASK_DECODE, w->prompt + w->generated / 2,
                            batch, ret)
                            .seconds,
                 prompt =
                     run(world, c, calibration, ORR_TASK_PREFILL, w->prompt, prompts, ret).seconds /
                     prompts;
    ret->seconds = c->measure == JOB_TOKEN ? step + batch * prompt / w->generated
                                           : prompt + w->generated * step / batch;
}
