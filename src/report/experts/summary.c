/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "report/experts/parts.h"
#include "report/humanize/human.h"

/* Names of the user's, which must not drive the terminal. */
enum { NAME_COLUMNS = 300, TEXT_MAX = 4 * NAME_COLUMNS };
static const char *name_of(const char *name, char buf[TEXT_MAX])
{
    orr_text_elide(name, NAME_COLUMNS, buf, TEXT_MAX);
    return buf;
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* --- the routes ------------------------------------------------------------------------------- */

/* What is not counted in full. */
static void tell_sample(const orr_experts_report *r, orr_output *out)
{
    const orr_routes *routes = r->routes;
    const double choices = (double)routes->tokens * routes->top_k * routes->layers;
    const double most = r->cluster != NULL ? (double)r->options->most_choices : 0;
    char tokens[ORR_HUMAN_MAX];
    if (r->counted > 0)
        orr_output_printf(out, "sampled: what routes say is of %s tokens; --exact counts all\n",
                          orr_human_count(tokens, r->counted));
    if (most > 0 && choices > most)
        orr_output_printf(out,
                          "sampled: rows and bytes of placements are of one token in %.0f, loads "
                          "of all; --exact counts all\n",
                          ceil(choices / most));
}

static void tell_routes(const orr_experts_report *r, orr_output *out)
{
    const orr_expert_statistics *s = r->statistics;
    const orr_routes *routes = r->routes;
    char name[TEXT_MAX], tokens[ORR_HUMAN_MAX], requests[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX];
    if (routes == NULL) {
        orr_output_printf(out, "%s: loads of %u layer%s of %u experts, %u window%s\n",
                          name_of(r->windows->source, name), s->layers, plural(s->layers),
                          s->experts, r->windows->windows, plural(r->windows->windows));
        return;
    }
    orr_output_printf(
        out, "%s: %s tokens (%s prefill) of %s request%s, %u layer%s, %u of %u experts a token\n",
        name_of(routes->source, name), orr_human_count(tokens, routes->tokens),
        orr_human_frac(share, (double)s->prefill_tokens / (double)s->tokens),
        orr_human_count(requests, routes->requests), plural(routes->requests), s->layers,
        plural(s->layers), s->top_k, s->experts);
    tell_sample(r, out);
    if (routes->warm_up > 0)
        orr_output_printf(out, "warm-up: %s tokens that all chose the same experts are left out\n",
                          orr_human_count(tokens, routes->warm_up));
    if (routes->kinds > s->kinds)
        orr_output_printf(out, "kinds: the first %u of %u are compared\n", s->kinds, routes->kinds);
}

/* Concentrated layers are named wherever a worst-of figure stands. */
static void tell_concentrated(const orr_expert_statistics *s, orr_output *out)
{
    enum { MOST = 8 };
    uint32_t told = 0;
    char share[ORR_HUMAN_MAX];
    if (s->concentrated == 0)
        return;
    orr_output_printf(out, "concentrated: ");
    for (uint32_t l = 0; l < s->layers && told < MOST; l++) {
        const orr_expert_layer_statistics *layer = &s->of_layer[l];
        if (layer->concentrated)
            orr_output_printf(out, "%slayer %u (%s to expert %u)", told++ > 0 ? ", " : "",
                              layer->layer, orr_human_frac(share, layer->top_frac),
                              layer->top_expert);
    }
    if (s->concentrated > MOST)
        orr_output_printf(out, " and %u more", s->concentrated - MOST);
    orr_output_printf(out, "; figures are with and without\n");
}

static void tell_imbalance(const orr_experts_report *r, orr_output *out)
{
    const orr_expert_linear_imbalance *row = orr_experts_imbalance_row(r);
    if (row == NULL)
        return;
    orr_output_printf(out,
                      "imbalance of %u ranks, neighbouring experts: mean %.3f, 95 %% of layers "
                      "below %.3f, worst %.3f (layer %u)",
                      row->ranks, row->all.mean, row->all.tail, row->all.worst,
                      row->all.worst_layer);
    if (r->statistics->concentrated > 0 && row->without.worst_layer != ORR_NONE)
        orr_output_printf(out, "; without: %.3f, %.3f, %.3f (layer %u)", row->without.mean,
                          row->without.tail, row->without.worst, row->without.worst_layer);
    orr_output_printf(out, "\n");
}

static void tell_requests(const orr_experts_report *r, orr_output *out)
{
    const orr_expert_request_statistics *q = &r->statistics->request;
    if (r->routes == NULL)
        return;
    if (!isnan(q->own))
        orr_output_printf(out,
                          "prefill predicts decode: correlation %.3f with the request's own, %.3f "
                          "with another's\n",
                          q->own, q->other);
    if (q->without_decode > 0 || q->without_prefill > 0)
        orr_output_printf(out, "requests without decode: %u, without prefill: %u\n",
                          q->without_decode, q->without_prefill);
}

/* --- placements ------------------------------------------------------------------------------- */

static void tell_question(const orr_experts_report *r, orr_output *out)
{
    const orr_expert_options *o = r->options;
    char name[TEXT_MAX], tokens[ORR_HUMAN_MAX];
    orr_output_printf(out, "\n%u ranks of %s, %u a host; %u spare slot%s a rank and layer",
                      o->ranks, name_of(r->cluster->name, name), o->host_ranks, r->spare,
                      plural(r->spare));
    if (o->group_of_request != NULL)
        orr_output_printf(out, "; requests in %u groups, told from their prefill",
                          o->request_groups);
    if (r->remote_first)
        orr_output_printf(out, "; best makes rows to other ranks few");
    if (o->expert_groups > 1)
        orr_output_printf(out, "; %u groups of experts, each on a host", o->expert_groups);
    orr_output_printf(out, "\n");
    if (o->costs != NULL)
        orr_output_printf(out, "weighed by: %s%s; %s tokens a step\n",
                          name_of(o->costs->source, name),
                          r->model_by_shape ? " (by the shape of its layers)" : "",
                          orr_human_count(tokens, (uint64_t)o->costs->tokens));
    if (r->held_out.requests > 0)
        orr_output_printf(out,
                          "figures are of %u of %u requests, which placements and groups were not "
                          "made from\n",
                          r->held_out.requests, r->held_out.of);
}

static void tell_quality(const orr_experts_report *r, const orr_experts_plan *plan, orr_output *out)
{
    const orr_expert_quality *q = &plan->all;
    char name[TEXT_MAX], step[ORR_HUMAN_MAX], remote[ORR_HUMAN_MAX], host[ORR_HUMAN_MAX],
        network[ORR_HUMAN_MAX];
    orr_output_printf(out, "%s: imbalance mean %.3f, worst %.3f (layer %u)",
                      name_of(plan->policy, name), q->imbalance_mean, q->imbalance_worst,
                      plan->result.placement.number[q->worst_layer]);
    if (r->statistics->concentrated > 0)
        orr_output_printf(out, ", without %.3f, %.3f", plan->without.imbalance_mean,
                          plan->without.imbalance_worst);
    if (!isnan(q->remote_frac))
        orr_output_printf(out, "; %s of dispatches remote", orr_human_frac(remote, q->remote_frac));
    if (r->routes != NULL && r->options->costs != NULL)
        orr_output_printf(out, "; %s within hosts and %s between them a step",
                          orr_human_bytes(host, orr_experts_step_bytes(r, q, 0)),
                          orr_human_bytes(network, orr_experts_step_bytes(r, q, 1)));
    if (q->step_ns > 0)
        orr_output_printf(out, "; %s", orr_human_ns(step, q->step_ns));
    orr_output_printf(out, "\n");
}

static void tell_bound(const orr_experts_plan *plan, orr_output *out)
{
    const orr_expert_result *result = &plan->result;
    char bound[ORR_HUMAN_MAX], gap[ORR_HUMAN_MAX];
    if (result->bound_ns > 0)
        orr_output_printf(out, "no placement takes less than %s: the gap is at most %s\n",
                          orr_human_ns(bound, result->bound_ns),
                          orr_human_frac(gap, result->gap_frac));
    if (!isnan(result->bound_imbalance) && result->bound_imbalance > 0)
        orr_output_printf(out, "no placement has a worst imbalance below %.4f\n",
                          result->bound_imbalance);
}

static void tell_missing(const orr_experts_plan *plan, orr_output *out)
{
    enum { MOST = 8 };
    const orr_expert_result *result = &plan->result;
    if (result->n_missing == 0)
        return;
    orr_output_printf(out, "without a slot: ");
    for (uint32_t i = 0; i < result->n_missing && i < MOST; i++)
        orr_output_printf(out, "%sexpert %u of layer %u", i > 0 ? ", " : "", result->missing[i][1],
                          result->placement.number[result->missing[i][0]]);
    if (result->n_missing > MOST)
        orr_output_printf(out, " and %u more", result->n_missing - MOST);
    orr_output_printf(out, "\n");
}

static void tell_moves(const orr_expert_moves *m, orr_output *out)
{
    char bytes[ORR_HUMAN_MAX], network[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX];
    uint32_t copies = 0;
    for (uint32_t i = 0; i < m->n; i++)
        copies += m->moves[i].from != m->moves[i].to;
    orr_output_printf(out, "moves: %u copies in %u step%s, %s, %s of it between hosts", copies,
                      m->steps, plural(m->steps), orr_human_bytes(bytes, m->bytes),
                      orr_human_bytes(network, m->network_bytes));
    if (m->fresh_bytes > 0)
        orr_output_printf(out, "; %s of what the fresh placement would move",
                          orr_human_frac(share, m->bytes / m->fresh_bytes));
    orr_output_printf(out, "\n");
}

static void tell_plans(const orr_experts_report *r, orr_output *out)
{
    const orr_experts_plan *plan = &r->plans[0];
    char name[TEXT_MAX], reason[TEXT_MAX];
    tell_question(r, out);
    if (r->before != NULL && r->before != plan)
        tell_quality(r, r->before, out);
    if (plan->refused != NULL) {
        orr_output_printf(out, "%s: none: %s\n", name_of(plan->policy, name),
                          name_of(plan->refused, reason));
        return;
    }
    tell_quality(r, plan, out);
    tell_bound(plan, out);
    tell_missing(plan, out);
    if (r->moves != NULL)
        tell_moves(r->moves, out);
}

void orr_experts_summary(const orr_experts_report *report, orr_output *out)
{
    tell_routes(report, out);
    tell_concentrated(report->statistics, out);
    if (report->n_plans == 0)
        tell_imbalance(report, out);
    tell_requests(report, out);
    if (report->n_plans > 0)
        tell_plans(report, out);
}
