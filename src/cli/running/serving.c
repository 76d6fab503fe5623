/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/running/serving.h"

#include <unistd.h>

#include "base/units.h"
#include "cli/arguments/factor.h"

enum { THREADS_MAX = 256 };

orr_status orr_serving_count(const char *option, const char *text, uint64_t usual, uint64_t most,
                             uint64_t *ret, orr_error *err)
{
    uint64_t n = usual;
    if (text != NULL && orr_parse_count(text, &n, err) != ORR_OK) {
        orr_error_prefix(err, option);
        return err->status;
    }
    if (n == 0 || n > most)
        return orr_fail(err, ORR_INVALID, "%s: %llu is not in 1 to %llu", option,
                        (unsigned long long)n, (unsigned long long)most);
    *ret = n;
    return ORR_OK;
}

static uint32_t threads_of(const orr_settings *s)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int64_t asked = s->threads > 0 ? s->threads : cores > 0 ? cores : 1;
    return (uint32_t)(asked < THREADS_MAX ? asked : THREADS_MAX);
}

static orr_status open_data(orr_serving *v)
{
    const orr_settings *s = v->session.settings;
    orr_error *err = &v->session.err;
    uint64_t seed = 0; /* what `train` begins with */
    if (s->seed != NULL)
        ORR_TRY(orr_parse_seed(s->seed, &seed, err));
    return orr_click_data_open(s->data, &v->model->dlrm, seed, &v->clicks, err);
}

orr_status orr_serving_open(orr_serving *v, bool reads)
{
    const orr_settings *s = v->session.settings;
    orr_error *err = &v->session.err;
    uint64_t block;
    ORR_TRY(orr_model_load(s->args[0], v->session.arena, &v->model, err));
    if (v->model->kind != ORR_MODEL_DLRM)
        return orr_fail(err, ORR_INVALID, "--weights: %s is no recommendation model", s->args[0]);
    ORR_TRY(orr_serving_count("--batch", s->batch, ORR_SCORER_BLOCK, ORR_SCORER_BLOCK_MAX, &block,
                              err));
    if (reads)
        ORR_TRY(open_data(v));
    v->threads = threads_of(s);
    const orr_scorer_options options = {
        .model = v->model, .weights = s->weights, .block = (int64_t)block};
    return orr_scorer_open(&options, &v->scorer, err);
}

void orr_serving_close(orr_serving *v)
{
    orr_click_data_free(v->clicks);
    orr_scorer_close(v->scorer);
}
