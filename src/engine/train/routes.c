/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/train/trainer.h"

/* Routes of a training: every rank records which experts its tokens chose, in all steps, and rank 0
 * writes one file in the end. A request is a sample by its number in the data, its tokens are
 * prefill. The rank of a token is that of the first stage of its pipeline. */

/* The layers with experts of the model, or those of this rank. */
static orr_status list_layers(const orr_trainer *t, bool all, orr_route_source *ret, orr_error *err)
{
    const orr_model *model = t->training->model;
    uint32_t *number = orr_arena_array(t->arena, uint32_t, model->layers), n_choices;
    const orr_step_choice *choices = orr_engine_step_choices(t->step, &n_choices);
    if (number == NULL)
        return orr_fail_memory(err);
    *ret = (orr_route_source){
        .number = number, .top_k = model->moe.top_k, .experts = model->moe.experts};
    for (uint32_t layer = 0; layer < model->layers; layer++) {
        bool here = all;
        for (uint32_t i = 0; i < n_choices; i++)
            here |= choices[i].layer == layer;
        if (here && orr_model_layer_moe(model, layer))
            number[ret->layers++] = layer;
    }
    return ORR_OK;
}

/* The rank that tells this rank's tokens in the file. */
static uint32_t token_rank(const orr_trainer *t)
{
    const orr_plan *plan = &t->training->plan;
    orr_coordinates at = orr_plan_coordinates(plan, t->transport->rank);
    at.at[ORR_AXIS_PP] = 0;
    return orr_plan_rank_at(plan, &at);
}

static int64_t rows_of(const orr_step_choice *c)
{
    return orr_type_elements(&c->type) / c->type.dim[c->type.rank - 1];
}

static orr_status check_choice(const orr_step_choice *c, orr_error *err)
{
    return c->in_type.rank >= 2 && rows_of(c) == c->in_type.dim[0] * c->in_type.dim[1]
               ? ORR_OK
               : orr_fail(err, ORR_UNSUPPORTED,
                          "routes of layer %u: its router sees tokens of other ranks", c->layer);
}

orr_status orr_train_open_routes(orr_trainer *t, orr_error *err)
{
    orr_route_source source;
    uint32_t n;
    const orr_step_choice *choices = orr_engine_step_choices(t->step, &n);
    if (t->training->options->expert_trace == NULL)
        return ORR_OK;
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(check_choice(&choices[i], err));
    ORR_TRY(list_layers(t, false, &source, err));
    return orr_route_recorder_new(&source, &t->routes, err);
}

/* Tensor-parallel ranks with the same tokens: the first of them records. */
static bool tells_tokens(const orr_trainer *t, const orr_step_choice *c)
{
    const orr_coordinates at = orr_plan_coordinates(&t->training->plan, t->transport->rank);
    return at.at[ORR_AXIS_TP] == 0 || (c->in.slices & orr_axis_bit(ORR_AXIS_TP)) != 0;
}

static orr_status record_tokens(orr_trainer *t, const orr_step_choice *c, uint64_t first,
                                orr_error *err)
{
    const orr_dim_pieces *pieces = &c->in.by[1];
    const uint32_t rank = token_rank(t);
    for (int64_t row = 0; row < c->in_type.dim[0]; row++)
        for (uint32_t i = 0; i < pieces->n; i++)
            for (int64_t k = 0; k < pieces->piece[i].count; k++) {
                const orr_routes_row token = {.request = (uint32_t)(first + (uint64_t)row),
                                              .position = (uint32_t)(pieces->piece[i].whole + k),
                                              .phase = ORR_ROUTE_PREFILL,
                                              .rank = (uint16_t)rank};
                ORR_TRY(orr_route_recorder_token(t->routes, &token, err));
            }
    return ORR_OK;
}

orr_status orr_train_record_routes(orr_trainer *t, uint64_t slot, orr_error *err)
{
    const orr_plan *plan = &t->training->plan;
    const orr_coordinates at = orr_plan_coordinates(plan, t->transport->rank);
    const uint64_t first =
        slot * plan->batch + (uint64_t)at.at[ORR_AXIS_DP] * plan->micro_batches * plan->micro_batch;
    uint32_t n;
    const orr_step_choice *c = orr_engine_step_choices(t->step, &n);
    if (t->routes == NULL || n == 0 || !tells_tokens(t, c))
        return ORR_OK;
    for (uint32_t m = 0; m < plan->micro_batches; m++) {
        ORR_TRY(record_tokens(t, c, first + (uint64_t)m * plan->micro_batch, err));
        for (uint32_t i = 0; i < n; i++)
            ORR_TRY(orr_route_recorder_layer(t->routes, i, (size_t)rows_of(&c[i]),
                                             c[i].data + m * c[i].bytes, (orr_dtype)c[i].type.dtype,
                                             err));
    }
    return ORR_OK;
}

orr_status orr_train_write_routes(orr_trainer *t, orr_error *err)
{
    orr_route_source all;
    if (t->routes == NULL)
        return ORR_OK;
    ORR_TRY(list_layers(t, true, &all, err));
    return orr_route_recorder_write_all(t->routes, t->transport, &all, token_rank(t),
                                        t->training->options->expert_trace, err);
}
