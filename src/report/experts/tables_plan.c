/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "experts/placement/loads.h"
#include "report/analyses/registry.h"
#include "report/experts/parts.h"

/* Bytes of a step are those of all tokens of the routes, as many times as a step has tokens. */
double orr_experts_step_bytes(const orr_experts_report *report, const orr_expert_quality *quality,
                              int level)
{
    const orr_expert_costs *costs = report->options->costs;
    const double bytes = quality->dispatch_bytes[level] + quality->combine_bytes[level];
    const double tokens = report->held_out.requests > 0 ? (double)report->held_out.tokens
                          : report->routes != NULL      ? (double)report->routes->tokens
                                                        : NAN;
    return costs != NULL && costs->tokens > 0 ? bytes * costs->tokens / tokens : bytes;
}

/* --- policies --------------------------------------------------------------------------------- */

typedef struct policy_row {
    const char *policy, *refused;
    uint32_t slots, missing, doubled_slots, worst_layer, worst_layer_without;
    double imbalance_mean, imbalance_p95, imbalance_worst, mean_without, p95_without, worst_without,
        served_mean, served_worst, remote_frac, remote_without_frac, dispatches, dispatches_without,
        network_frac, step_ns, of_before_frac, bound_ns, gap_frac, bound_imbalance;
    int64_t host_bytes, network_bytes;
} policy_row;

static const orr_column policy_columns[] = {
    ORR_COL_(policy_row, policy, TEXT),
    ORR_COL_(policy_row, step_ns, NS_MEAN),
    ORR_COL_(policy_row, of_before_frac, FRAC),
    ORR_COL_(policy_row, bound_ns, NS_MEAN),
    ORR_COL_(policy_row, gap_frac, FRAC),
    ORR_COL_(policy_row, imbalance_mean, NUMBER),
    ORR_COL_(policy_row, imbalance_p95, NUMBER),
    ORR_COL_(policy_row, imbalance_worst, NUMBER),
    ORR_COL_(policy_row, worst_layer, U32),
    ORR_COL_(policy_row, bound_imbalance, NUMBER),
    ORR_COL_AS_(policy_row, mean_without, NUMBER, "imbalance_mean_without"),
    ORR_COL_AS_(policy_row, p95_without, NUMBER, "imbalance_p95_without"),
    ORR_COL_AS_(policy_row, worst_without, NUMBER, "imbalance_worst_without"),
    ORR_COL_(policy_row, worst_layer_without, U32),
    ORR_COL_(policy_row, served_mean, NUMBER),
    ORR_COL_(policy_row, served_worst, NUMBER),
    ORR_COL_(policy_row, remote_frac, FRAC),
    ORR_COL_(policy_row, remote_without_frac, FRAC),
    ORR_COL_(policy_row, dispatches, NUMBER),
    ORR_COL_(policy_row, dispatches_without, NUMBER),
    ORR_COL_(policy_row, network_frac, FRAC),
    ORR_COL_(policy_row, host_bytes, BYTES),
    ORR_COL_(policy_row, network_bytes, BYTES),
    ORR_COL_(policy_row, slots, U32),
    ORR_COL_(policy_row, doubled_slots, U32),
    ORR_COL_(policy_row, missing, U32),
    ORR_COL_(policy_row, refused, TEXT),
};

static int64_t bytes_of(double bytes)
{
    return isfinite(bytes) && bytes < 9e18 ? (int64_t)bytes : -1;
}

static policy_row refused_row(const orr_experts_plan *plan)
{
    return (policy_row){.policy = plan->policy,
                        .refused = plan->refused,
                        .slots = ORR_NONE,
                        .missing = ORR_NONE,
                        .doubled_slots = ORR_NONE,
                        .worst_layer = ORR_NONE,
                        .worst_layer_without = ORR_NONE,
                        .imbalance_mean = NAN,
                        .imbalance_p95 = NAN,
                        .imbalance_worst = NAN,
                        .mean_without = NAN,
                        .p95_without = NAN,
                        .worst_without = NAN,
                        .served_mean = NAN,
                        .served_worst = NAN,
                        .remote_frac = NAN,
                        .remote_without_frac = NAN,
                        .dispatches = NAN,
                        .dispatches_without = NAN,
                        .network_frac = NAN,
                        .step_ns = NAN,
                        .of_before_frac = NAN,
                        .bound_ns = NAN,
                        .gap_frac = NAN,
                        .bound_imbalance = NAN,
                        .host_bytes = -1,
                        .network_bytes = -1};
}

static policy_row policy_row_of(const orr_experts_report *r, const orr_experts_plan *plan)
{
    const orr_expert_quality *q = &plan->all, *w = &plan->without;
    const uint32_t *number = plan->result.placement.number;
    const double before_ns = r->before != NULL ? r->before->all.step_ns : NAN;
    policy_row row = refused_row(plan);
    if (plan->refused != NULL)
        return row;
    row.slots = plan->slots;
    row.missing = plan->result.n_missing;
    row.doubled_slots = q->doubled_slots;
    row.worst_layer = number[q->worst_layer];
    row.imbalance_mean = q->imbalance_mean;
    row.imbalance_p95 = q->imbalance_p95;
    row.imbalance_worst = q->imbalance_worst;
    row.served_mean = q->served_mean;
    row.served_worst = q->served_worst;
    row.remote_frac = q->remote_frac;
    row.dispatches = q->dispatches;
    row.network_frac = q->network_frac;
    row.bound_ns = plan->result.bound_ns > 0 ? plan->result.bound_ns : NAN;
    row.gap_frac = plan->result.gap_frac;
    row.bound_imbalance = plan->result.bound_imbalance;
    if (q->step_ns > 0) {
        row.step_ns = q->step_ns;
        row.of_before_frac = q->step_ns / before_ns;
    }
    if (r->statistics->concentrated > 0 && r->statistics->concentrated < r->statistics->layers) {
        row.mean_without = w->imbalance_mean;
        row.p95_without = w->imbalance_p95;
        row.worst_without = w->imbalance_worst;
        row.worst_layer_without = number[w->worst_layer];
        row.remote_without_frac = w->remote_frac;
        row.dispatches_without = w->dispatches;
    }
    if (r->routes != NULL && r->options->costs != NULL) {
        row.host_bytes = bytes_of(orr_experts_step_bytes(r, q, 0));
        row.network_bytes = bytes_of(orr_experts_step_bytes(r, q, 1));
    }
    return row;
}

static orr_status policy_table(const orr_experts_report *r, orr_arena *arena, orr_table *ret,
                               orr_error *err)
{
    policy_row *rows = orr_arena_array(arena, policy_row, r->n_plans);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < r->n_plans; i++)
        rows[i] = policy_row_of(r, &r->plans[i]);
    *ret =
        ORR_TABLE_("orrery.experts_policies/1",
                   r->statistics->concentrated > 0 ? "placements; without: the concentrated layers"
                                                   : "placements",
                   policy_columns, rows, r->n_plans);
    return ORR_OK;
}

/* --- layers ----------------------------------------------------------------------------------- */

typedef struct placed_row {
    uint32_t layer, slots, copied, most_copies;
    double imbalance_before, imbalance, served, remote_before_frac, remote_frac, step_before_ns,
        step_ns;
} placed_row;

static const orr_column placed_columns[] = {
    ORR_COL_(placed_row, layer, U32),
    ORR_COL_(placed_row, slots, U32),
    ORR_COL_(placed_row, copied, U32),
    ORR_COL_(placed_row, most_copies, U32),
    ORR_COL_(placed_row, imbalance_before, NUMBER),
    ORR_COL_(placed_row, imbalance, NUMBER),
    ORR_COL_(placed_row, served, NUMBER),
    ORR_COL_(placed_row, remote_before_frac, FRAC),
    ORR_COL_(placed_row, remote_frac, FRAC),
    ORR_COL_(placed_row, step_before_ns, NS_MEAN),
    ORR_COL_(placed_row, step_ns, NS_MEAN),
};

static double remote_of(const orr_layer_quality *q)
{
    return q->distinct > 0 ? (double)(q->sent[0] + q->sent[1]) / (double)q->distinct : NAN;
}

/* copies: shape (E), is overwritten. */
static void count_copies(const orr_expert_placement *p, uint32_t layer, uint32_t *copies,
                         placed_row *ret)
{
    const uint32_t *first = p->first_slot + (size_t)layer * (p->ranks + 1);
    for (uint32_t e = 0; e < p->experts; e++)
        copies[e] = 0;
    ret->slots = first[p->ranks] - first[0];
    for (uint32_t s = first[0]; s < first[p->ranks]; s++) {
        const uint32_t n = ++copies[p->expert[s]];
        ret->copied += n == 2;
        ret->most_copies = n > ret->most_copies ? n : ret->most_copies;
    }
}

static orr_status placed_table(const orr_experts_report *r, orr_arena *arena, orr_table *ret,
                               orr_error *err)
{
    const orr_experts_plan *plan = &r->plans[0];
    const orr_expert_placement *p = &plan->result.placement;
    const uint32_t n = plan->refused == NULL ? p->layers : 0;
    placed_row *rows = orr_arena_array(arena, placed_row, n);
    uint32_t *copies = orr_arena_array(arena, uint32_t, p->experts);
    const char *title = orr_arena_printf(arena, "layers by %s; before: %s", plan->policy,
                                         r->before != NULL ? r->before->policy : "none");
    if (rows == NULL || copies == NULL || title == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < n; l++) {
        const orr_layer_quality *q = &plan->layer[l];
        const orr_layer_quality *before = r->before != NULL ? &r->before->layer[l] : NULL;
        const bool priced = r->options->costs != NULL, routed = r->routes != NULL;
        rows[l] = (placed_row){.layer = p->number[l],
                               .imbalance = q->imbalance,
                               .imbalance_before = before != NULL ? before->imbalance : NAN,
                               .served = routed ? q->served : NAN,
                               .remote_frac = routed ? remote_of(q) : NAN,
                               .remote_before_frac = routed && before ? remote_of(before) : NAN,
                               .step_ns = priced ? q->ns : NAN,
                               .step_before_ns = priced && before ? before->ns : NAN};
        count_copies(p, l, copies, &rows[l]);
    }
    *ret = ORR_TABLE_("orrery.experts_placed_layers/1", title, placed_columns, rows, n);
    return ORR_OK;
}

/* --- ranks ------------------------------------------------------------------------------------ */

typedef struct rank_row {
    uint32_t rank, slots, fullest_layer;
    double mean_load, most_load;
    int64_t weight_bytes;
} rank_row;

static const orr_column rank_columns[] = {
    ORR_COL_(rank_row, rank, U32),           ORR_COL_(rank_row, slots, U32),
    ORR_COL_(rank_row, weight_bytes, BYTES), ORR_COL_(rank_row, mean_load, NUMBER),
    ORR_COL_(rank_row, most_load, NUMBER),   ORR_COL_(rank_row, fullest_layer, U32),
};

static void add_layer(const orr_experts_report *r, const orr_expert_placement *p, uint32_t layer,
                      const double *load, double sum, rank_row *rows)
{
    const uint32_t *first = p->first_slot + (size_t)layer * (p->ranks + 1);
    const double weight = r->options->costs != NULL ? r->options->costs->expert_bytes : NAN;
    for (uint32_t rank = 0; rank < p->ranks; rank++) {
        const double share = sum > 0 ? load[rank] * p->ranks / sum : 0;
        const uint32_t slots = first[rank + 1] - first[rank];
        rows[rank].slots += slots;
        rows[rank].mean_load += share / p->layers;
        if (layer == 0 || share > rows[rank].most_load) {
            rows[rank].most_load = share;
            rows[rank].fullest_layer = p->number[layer];
        }
        rows[rank].weight_bytes = bytes_of(weight * rows[rank].slots);
    }
}

static orr_status rank_table(const orr_experts_report *r, orr_arena *arena, orr_table *ret,
                             orr_error *err)
{
    const orr_experts_plan *plan = &r->plans[0];
    const orr_expert_placement *p = &plan->result.placement;
    const uint32_t n = plan->refused == NULL ? p->ranks : 0;
    rank_row *rows = orr_arena_array(arena, rank_row, n);
    double *of_expert = orr_arena_array(arena, double, p->experts);
    double *load = orr_arena_array(arena, double, n);
    const uint32_t known = r->statistics->experts; /* the placement may know more */
    if (rows == NULL || of_expert == NULL || load == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        rows[i].rank = i;
    for (uint32_t l = 0; l < p->layers && n > 0; l++) {
        for (uint32_t e = 0; e < p->experts && e < known; e++)
            of_expert[e] = r->statistics->load[(size_t)l * known + e];
        add_layer(r, p, l, load, orr_layer_rank_loads(p, l, of_expert, load), rows);
    }
    *ret = ORR_TABLE_("orrery.experts_ranks/1", "ranks; load: over the mean of a layer's ranks",
                      rank_columns, rows, n);
    return ORR_OK;
}

/* --- moves ------------------------------------------------------------------------------------ */

typedef struct move_row {
    uint32_t move, step, layer, expert, from, to;
    const char *what;
} move_row;

static const orr_column move_columns[] = {
    ORR_COL_(move_row, move, U32),  ORR_COL_(move_row, step, U32),   ORR_COL_(move_row, what, TEXT),
    ORR_COL_(move_row, layer, U32), ORR_COL_(move_row, expert, U32), ORR_COL_(move_row, from, U32),
    ORR_COL_(move_row, to, U32),
};

static orr_status move_table(const orr_experts_report *r, orr_arena *arena, orr_table *ret,
                             orr_error *err)
{
    const uint32_t n = r->moves != NULL ? r->moves->n : 0;
    move_row *rows = orr_arena_array(arena, move_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        const orr_expert_move *m = &r->moves->moves[i];
        const bool given_up = m->from == m->to;
        rows[i] = (move_row){.move = i,
                             .step = m->step,
                             .layer = r->plans[0].result.placement.number[m->layer],
                             .expert = m->expert,
                             .from = m->from,
                             .to = given_up ? ORR_NONE : m->to,
                             .what = given_up ? "give up" : "copy"};
    }
    *ret = ORR_TABLE_("orrery.experts_moves/1", "moves, in order", move_columns, rows, n);
    return ORR_OK;
}

orr_status orr_experts_plan_tables(const orr_experts_report *report, orr_arena *arena,
                                   orr_named_table ret[ORR_EXPERTS_PLAN_TABLES], orr_error *err)
{
    static const struct {
        const char *name;
        orr_status (*make)(const orr_experts_report *, orr_arena *, orr_table *, orr_error *);
    } tables[ORR_EXPERTS_PLAN_TABLES] = {
        {"policies", policy_table},
        {"placed_layers", placed_table},
        {"ranks", rank_table},
        {"moves", move_table},
    };
    for (int i = 0; i < ORR_EXPERTS_PLAN_TABLES; i++) {
        ret[i].name = tables[i].name;
        ORR_TRY(tables[i].make(report, arena, &ret[i].table, err));
    }
    return ORR_OK;
}

orr_status orr_experts_tables(const orr_experts_report *report, orr_arena *arena,
                              orr_named_table ret[ORR_EXPERTS_TABLES], uint32_t *ret_n,
                              orr_error *err)
{
    const uint32_t of_plans = report->n_plans > 0 ? ORR_EXPERTS_PLAN_TABLES : 0;
    if (of_plans > 0)
        ORR_TRY(orr_experts_plan_tables(report, arena, ret, err));
    ORR_TRY(orr_experts_statistics_tables(report, arena, ret + of_plans, err));
    *ret_n = of_plans + ORR_EXPERTS_TABLES - ORR_EXPERTS_PLAN_TABLES;
    return ORR_OK;
}
