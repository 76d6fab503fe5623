/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/running/generate_predict.h"

#include <string.h>

/* Sums over the rounds of one kind. */
typedef struct round_sums {
    uint32_t n, run_n;
    int64_t ns, exchange_ns, run_ns;
} round_sums;

static round_sums sum_of(const orr_predicted_serving *p, const orr_generated_bytes *run,
                         bool prefills)
{
    round_sums sum = {0};
    for (uint32_t i = 0; i < p->rounds; i++)
        if (p->round[i].prefills == prefills) {
            sum.n++;
            sum.ns += p->round[i].ns;
            sum.exchange_ns += p->round[i].exchange_ns;
        }
    for (uint64_t i = 0; i + 1 < run->rounds; i++)
        if (run->round[i].prefills == prefills) {
            sum.run_n++;
            sum.run_ns += run->round[i].ns;
        }
    return sum;
}

/* Whether what was sent is what was predicted, in every layer and level. */
static bool same_bytes(const orr_predicted_serving *p, const orr_generated_bytes *run)
{
    const size_t bytes = p->layers * sizeof *p->dispatch;
    return p->layers == run->layers && memcmp(p->dispatch, run->dispatch, bytes) == 0 &&
           memcmp(p->combine, run->combine, bytes) == 0;
}

orr_status orr_generate_predict(orr_session *session, const orr_generator_options *options,
                                const orr_generator_ranks *ranks, const orr_prompt *prompts,
                                uint32_t n, orr_predicted_serving *ret)
{
    const orr_settings *s = session->settings;
    orr_error *err = &session->err;
    orr_routes_options how;
    orr_measured_serving measured;
    orr_serving_job job = {.options = options, .ranks = ranks, .prompts = prompts, .n = n};
    if (s->routes == NULL || s->group != NULL || s->rebalance > 0)
        return orr_fail(err, ORR_INVALID,
                        s->routes == NULL
                            ? "--predict goes with --routes: what --expert-trace wrote of these "
                              "prompts"
                            : "--predict: runs with --group or --rebalance are not predicted");
    orr_routes_options_init(&how);
    how.experts = options->model->moe.experts;
    how.keep_warm_up = true;
    ORR_TRY(orr_routes_read(s->routes, &how, session->arena, &job.routes, err));
    ORR_TRY(orr_measure_serving(&job, session->arena, &measured, err));
    ORR_TRY(orr_predict_serving(&job, &measured, session->arena, ret, err));
    orr_session_remark(session, "predicted: %u rounds", ret->rounds);
    return ORR_OK;
}

static void put_sum(orr_output *out, const char *name, const round_sums *s)
{
    orr_output_printf(out,
                      "\"%s\":{\"rounds\":%u,\"ns\":%lld,\"exchange_ns\":%lld,\"run_rounds\":%u,"
                      "\"run_ns\":%lld},",
                      name, s->n, (long long)s->ns, (long long)s->exchange_ns, s->run_n,
                      (long long)s->run_ns);
}

void orr_generate_print_prediction(const orr_predicted_serving *p, const orr_generated_bytes *run,
                                   orr_output *out)
{
    const round_sums prefill = sum_of(p, run, true), decode = sum_of(p, run, false);
    orr_output_text(out, ",\n\"prediction\":{");
    put_sum(out, "prefill", &prefill);
    put_sum(out, "decode", &decode);
    orr_output_printf(out, "\"bytes_equal\":%s}", same_bytes(p, run) ? "true" : "false");
}

static void tell_sum(const orr_session *session, const char *name, const round_sums *s)
{
    if (s->n == 0 || s->run_n == 0 || s->run_ns == 0)
        return;
    const double predicted = (double)s->ns / s->n, took = (double)s->run_ns / s->run_n;
    orr_session_remark(session,
                       "%s rounds: %u predicted, %u made; %.2f ms predicted, %.2f ms taken "
                       "(%+.1f %%); %.2f ms of it between ranks",
                       name, s->n, s->run_n, predicted / 1e6, took / 1e6,
                       100 * (predicted / took - 1), (double)s->exchange_ns / s->n / 1e6);
}

void orr_generate_tell_prediction(const orr_session *session, const orr_predicted_serving *p,
                                  const orr_generated_bytes *run)
{
    const round_sums prefill = sum_of(p, run, true), decode = sum_of(p, run, false);
    tell_sum(session, "prefill", &prefill);
    tell_sum(session, "decode", &decode);
    orr_session_remark(session, "bytes of every layer are %sas predicted",
                       same_bytes(p, run) ? "" : "not ");
}
