/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/command/interrupt.h"
#include "cli/search/experts.h"
#include "model/experts/costs.h"

/* Statistics, and placements by one policy or all, each measured on the same routes. */

/* Concentrated layers are left out of a placement's second figures. */
typedef struct evaluator {
    orr_experts_request *request;
    orr_expert_options options; /* with the routes that figures are told of */
    bool *concentrated;         /* shape (L) */
} evaluator;

static orr_status evaluator_init(orr_experts_request *r, evaluator *ret)
{
    const orr_expert_statistics *s = &r->statistics;
    *ret = (evaluator){r, r->options, orr_arena_array(r->session.arena, bool, s->layers)};
    if (ret->concentrated == NULL)
        return orr_fail_memory(&r->session.err);
    for (uint32_t l = 0; l < s->layers; l++)
        ret->concentrated[l] = s->of_layer[l].concentrated;
    if (r->routes == NULL)
        return ORR_OK;
    /* Loads are counted once, not for every placement. */
    orr_expert_windows *loads = orr_arena_one(r->session.arena, orr_expert_windows);
    if (loads == NULL)
        return orr_fail_memory(&r->session.err);
    ret->options.routes = r->told_of;
    ret->options.windows = loads;
    return orr_expert_windows_of_routes(r->told_of, 1, r->session.arena, loads, &r->session.err);
}

/* plan->result.placement -> its figures. */
static orr_status evaluate(const evaluator *e, orr_experts_plan *plan)
{
    orr_arena *arena = e->request->session.arena;
    orr_error *err = &e->request->session.err;
    const orr_expert_statistics *s = &e->request->statistics;
    const orr_expert_placement *p = &plan->result.placement;
    orr_layer_quality *layer = orr_arena_array(arena, orr_layer_quality, p->layers);
    if (layer == NULL)
        return orr_fail_memory(err);
    plan->layer = layer;
    plan->slots = orr_expert_placement_slots(p);
    ORR_TRY(orr_experts_evaluate_layers(p, &e->options, NULL, arena, layer, &plan->all, err));
    return s->concentrated > 0 && s->concentrated < s->layers
               ? orr_experts_evaluate_layers(p, &e->options, e->concentrated, arena, NULL,
                                             &plan->without, err)
               : ORR_OK;
}

/* What a policy cannot do is a row of its own where all were asked for. */
static orr_status place(const evaluator *e, orr_expert_policy policy, uint32_t slots,
                        orr_experts_plan *ret)
{
    orr_experts_request *r = e->request;
    orr_error *err = &r->session.err;
    orr_expert_options options = r->options;
    options.policy = (uint8_t)policy;
    options.slots = slots;
    if (policy == ORR_EXPERT_POLICY_EPLB && options.expert_groups == 0)
        options.expert_groups = orr_expert_groups_kept(r->model, r->ranks, options.host_ranks);
    if (r->remote_first)
        options.costs = NULL;
    *ret = (orr_experts_plan){.policy = orr_expert_policy_name(policy)};
    if (r->session.settings->verbose)
        orr_session_remark(&r->session, "placing by %s", ret->policy);
    const orr_status status = orr_experts_place(&options, r->session.arena, &ret->result, err);
    if (status == ORR_INVALID || status == ORR_UNSUPPORTED) {
        ret->refused = orr_arena_strndup(r->session.arena, err->text, strlen(err->text));
        *err = (orr_error){0};
        return ret->refused != NULL ? ORR_OK : orr_fail_memory(err);
    }
    ORR_TRY(status);
    return evaluate(e, ret);
}

static orr_status place_policies(const evaluator *e, orr_experts_plan *plans, uint32_t *n)
{
    const orr_expert_options *o = &e->request->options;
    if (!e->request->every_policy)
        return place(e, (orr_expert_policy)o->policy, o->slots, &plans[(*n)++]);
    for (int p = 0; p < ORR_EXPERT_POLICIES; p++)
        ORR_TRY(place(e, (orr_expert_policy)p, o->slots, &plans[(*n)++]));
    return ORR_OK;
}

/* A placement that costs at most this much more than the fresh one is as good, if fewer weights
 * have to move for it. */
#define AS_GOOD_FRAC 0.01

/* As good as the fresh placement of the first policy, and near to what runs. */
static orr_status approach(const evaluator *e, const orr_experts_plan *fresh, orr_experts_plan *ret)
{
    orr_experts_request *r = e->request;
    orr_error *err = &r->session.err;
    orr_expert_approach *a = &r->approach;
    ORR_TRY(orr_experts_approach(&r->running, &fresh->result.placement, &r->options, AS_GOOD_FRAC,
                                 r->session.arena, a, err));
    *ret = (orr_experts_plan){
        .policy = orr_arena_printf(r->session.arena, "%s, near to what runs", fresh->policy),
        .result = fresh->result};
    if (ret->policy == NULL)
        return orr_fail_memory(err);
    ret->result.placement = a->placement;
    ret->result.gap_frac = NAN;
    return evaluate(e, ret);
}

static orr_status add_running(const evaluator *e, orr_experts_plan *ret)
{
    *ret = (orr_experts_plan){.policy = "running",
                              .result = {.placement = e->request->running,
                                         .bound_ns = NAN,
                                         .gap_frac = NAN,
                                         .bound_imbalance = NAN}};
    return evaluate(e, ret);
}

/* Where something runs, a placement near to it comes first; then the policies', then what runs,
 * then a linear one without spare slots. */
static orr_status place_all(orr_experts_request *r)
{
    evaluator e;
    orr_experts_plan *plans =
        orr_arena_array(r->session.arena, orr_experts_plan, ORR_EXPERT_POLICIES + 3);
    uint32_t n = 0;
    if (plans == NULL)
        return orr_fail_memory(&r->session.err);
    ORR_TRY(evaluator_init(r, &e));
    if (!r->has_running) {
        ORR_TRY(place_policies(&e, plans, &n));
    } else {
        n = 1;
        ORR_TRY(place_policies(&e, plans, &n));
        if (plans[1].refused == NULL)
            ORR_TRY(approach(&e, &plans[1], &plans[0]));
        else
            plans[0] = plans[1];
        ORR_TRY(add_running(&e, &plans[n++]));
        r->report.before = &plans[n - 1];
    }
    ORR_TRY(place(&e, ORR_EXPERT_POLICY_LINEAR, r->statistics.experts, &plans[n]));
    plans[n].policy = "linear, no spare slots";
    if (plans[n].refused == NULL && r->report.before == NULL)
        r->report.before = &plans[n];
    n += plans[n].refused == NULL;
    r->report.plans = plans;
    r->report.n_plans = n;
    return ORR_OK;
}

/* The routes that statistics are of: of very many choices, whole requests, evenly spaced. Few
 * requests are all counted. */
static orr_status sample(orr_experts_request *r, const orr_routes **ret)
{
    static const double MOST_CHOICES = 1 << 26;
    enum { LEAST_REQUESTS = 256 };
    const orr_routes *routes = r->routes;
    const double choices = (double)routes->tokens * routes->top_k * routes->layers;
    const uint32_t stride = (uint32_t)ceil(choices / MOST_CHOICES);
    *ret = routes;
    if (r->session.settings->exact || stride <= 1 || routes->requests / stride < LEAST_REQUESTS)
        return ORR_OK;
    bool *keep = orr_arena_array(r->session.arena, bool, routes->requests);
    if (keep == NULL)
        return orr_fail_memory(&r->session.err);
    for (uint32_t i = 0; i < routes->requests; i++)
        keep[i] = i % stride == 0;
    return orr_routes_select(routes, keep, -1, r->session.arena, ret, &r->session.err);
}

orr_status orr_experts_request_answer(orr_experts_request *r)
{
    const orr_settings *s = r->session.settings;
    orr_error *err = &r->session.err;
    const orr_routes *counted = NULL;
    if (r->routes != NULL)
        ORR_TRY(sample(r, &counted));
    if (r->routes != NULL)
        ORR_TRY(orr_expert_statistics_of_routes(counted, r->ranks, (int)s->threads,
                                                r->session.arena, &r->statistics, err));
    else
        ORR_TRY(orr_expert_statistics_of_windows(&r->windows, r->ranks, r->session.arena,
                                                 &r->statistics, err));
    r->report = (orr_experts_report){.routes = r->routes,
                                     .windows = r->has_windows ? &r->windows : NULL,
                                     .statistics = &r->statistics,
                                     .ranks = r->ranks,
                                     .options = &r->options,
                                     .cluster = r->cluster,
                                     .model = r->model,
                                     .model_by_shape = r->model_by_shape,
                                     .spare = r->spare,
                                     .remote_first = r->remote_first,
                                     .held_out = r->held_out,
                                     .counted = counted != r->routes ? counted->tokens : 0};
    if (r->cluster == NULL)
        return ORR_OK;
    r->options.stop = orr_interrupt_flag();
    ORR_TRY(place_all(r));
    return orr_experts_request_moves(r);
}
