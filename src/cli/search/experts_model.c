/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search/experts.h"

/* The model that routes are of: named and checked against them, or found by its shape. */

typedef struct route_shape {
    const uint32_t *number;          /* shape (layers) */
    uint32_t layers, experts, top_k; /* top_k 0: not known */
} route_shape;

static route_shape shape_of(const orr_experts_request *r)
{
    return r->routes != NULL
               ? (route_shape){r->routes->number, r->routes->layers, r->routes->experts,
                               r->routes->top_k}
               : (route_shape){r->windows.number, r->windows.layers, r->windows.experts, 0};
}

static uint32_t count_layers(const orr_model *model)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < model->layers; l++)
        n += orr_model_layer_moe(model, l);
    return n;
}

/* Layers are numbered as the model's, or those with experts are counted alone: 0, 1, .. */
static bool has_layers(const orr_model *model, const route_shape *s, uint32_t *ret_wrong)
{
    bool counted = s->layers == count_layers(model);
    for (uint32_t i = 0; i < s->layers; i++)
        counted &= s->number[i] == i;
    for (uint32_t i = 0; i < s->layers && !counted; i++)
        if (s->number[i] >= model->layers || !orr_model_layer_moe(model, s->number[i])) {
            *ret_wrong = s->number[i];
            return false;
        }
    return true;
}

static orr_status check(const orr_model *model, const route_shape *s, orr_error *err)
{
    uint32_t wrong = 0;
    if (model->moe.experts == 0)
        return orr_fail(err, ORR_INVALID, "--model: %s has no experts", model->name);
    if (!has_layers(model, s, &wrong))
        return orr_fail(err, ORR_PARSE,
                        "routes of another model: %s has no experts in layer %u (of %u layers)",
                        model->name, wrong, model->layers);
    if (s->experts > model->moe.experts)
        return orr_fail(err, ORR_PARSE,
                        "routes of another model: expert %u, and %s has %u in a layer",
                        s->experts - 1, model->name, model->moe.experts);
    if (s->top_k > 0 && s->top_k != model->moe.top_k)
        return orr_fail(err, ORR_PARSE,
                        "routes of another model: %u experts a token, and %s chooses %u", s->top_k,
                        model->name, model->moe.top_k);
    return ORR_OK;
}

static orr_status find_by_shape(orr_experts_request *r, const route_shape *s)
{
    orr_models models;
    const orr_model *found = NULL;
    uint32_t n = 0, wrong;
    ORR_TRY(orr_models_open(r->session.arena, &models, &r->session.err));
    for (uint32_t i = 0; i < models.n; i++) {
        const orr_model *m = models.models[i];
        if (m->moe.experts != s->experts || (s->top_k > 0 && m->moe.top_k != s->top_k) ||
            count_layers(m) != s->layers || !has_layers(m, s, &wrong))
            continue;
        found = m;
        n++;
    }
    r->model = n == 1 ? found : NULL;
    r->model_by_shape = n == 1;
    return ORR_OK;
}

orr_status orr_experts_request_model(orr_experts_request *r)
{
    const route_shape shape = shape_of(r);
    return r->model != NULL ? check(r->model, &shape, &r->session.err) : find_by_shape(r, &shape);
}
