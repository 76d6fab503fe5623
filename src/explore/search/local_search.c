/* SPDX-License-Identifier: Apache-2.0 */
#include "model/schedule/schedule.h"
#include "explore/search/search.h"

/* Hill climbing after the branch and bound: fields of which the space enumerates few values or one
 * are changed a step at a time from the best plans on, as long as that helps. The proven bound is
 * that of the space without these values. */

enum { STEPS = 3, TRIED = 24 };

typedef struct tries {
    orr_explored at[TRIED];
    uint32_t n;
    const orr_space *space;
    const orr_explored *from;
} tries;

static void try_value(tries *t, uint32_t field, uint32_t value)
{
    orr_plan plan = t->from->plan;
    const orr_space_constraints *w = &t->space->constraints;
    const uint8_t scheduling = ORR_SEARCH_SCHEDULING, network = ORR_SEARCH_NETWORK;
    const bool of_network = field == ORR_AT_dp_chunks || field == ORR_AT_bucket_bytes;
    if (t->n == TRIED || value == 0 || !orr_space_allows(w, field, value) ||
        !(w->searched & (of_network ? network : scheduling)))
        return;
    orr_plan_put(&plan, field, value);
    const orr_plan whole = orr_plan_with_defaults(&plan);
    if (orr_plan_check(&whole, NULL) != ORR_OK || !orr_space_runs(t->space, &whole))
        return;
    t->at[t->n] = *t->from;
    t->at[t->n++].plan = orr_plan_without_defaults(&plan);
}

/* One layer fewer than an even split on the first and the last stage, which have the embedding and
 * the head. */
static void try_ends(tries *t, const orr_plan *p, uint32_t layers)
{
    const uint32_t each = layers / p->pp;
    if (p->pp < 3 || each < 2 || orr_plan_has_sections(p))
        return;
    try_value(t, ORR_AT_last_layers, p->last_layers > 1 ? p->last_layers - 1 : each - 1);
    try_value(t, ORR_AT_first_layers, p->first_layers > 1 ? p->first_layers - 1 : each - 1);
    try_value(t, ORR_AT_last_layers, p->last_layers > 0 ? p->last_layers + 1 : 0);
    try_value(t, ORR_AT_first_layers, p->first_layers > 0 ? p->first_layers + 1 : 0);
}

static void try_all(tries *t)
{
    const orr_plan p = orr_plan_with_defaults(&t->from->plan);
    const uint32_t bucket =
        p.bucket_bytes > 0 ? p.bucket_bytes : 160000000; /* 40M elements, as in estimate/bound.c */
    if (p.dp * p.cp > 1 && p.zero < 3) {
        try_value(t, ORR_AT_bucket_bytes, bucket / 2);
        try_value(t, ORR_AT_bucket_bytes, bucket < UINT32_MAX / 2 ? bucket * 2 : 0);
    }
    if (p.zero == 3)
        try_value(t, ORR_AT_prefetch, p.prefetch + 1);
    if (p.schedule == ORR_SCHEDULE_INTERLEAVED) {
        try_value(t, ORR_AT_group, p.group + p.pp);
        try_value(t, ORR_AT_group, p.group > p.pp ? p.group - p.pp : 0);
    }
    if (p.recompute == ORR_RECOMPUTE_BLOCK)
        try_value(t, ORR_AT_recompute_layers, p.recompute_layers - 1);
    if (p.dp_chunks > 1 || p.dp_outer > 1 || orr_plan_has_sites(&p)) {
        try_value(t, ORR_AT_dp_chunks, p.dp_chunks * 2);
        try_value(t, ORR_AT_dp_chunks, p.dp_chunks / 2);
    }
    try_ends(t, &p, t->space->model->layers);
}

/* The best simulated plan of the arrangement. */
static const orr_explored *best_like(const orr_search *s, const orr_plan *plan)
{
    const orr_explored *best = NULL;
    for (size_t i = 0; i < s->done.n; i++)
        if (orr_plan_same_arrangement(&s->done.at[i].plan, plan) &&
            (best == NULL || orr_explored_is_better(&s->incumbent, &s->done.at[i], best)))
            best = &s->done.at[i];
    return best;
}

orr_status orr_search_local_search(orr_search *s, const orr_plan *arrangement, orr_error *err)
{
    for (uint32_t step = 0; step < STEPS && !s->stopped; step++) {
        const orr_explored *best = best_like(s, arrangement);
        if (best == NULL)
            return ORR_OK;
        const orr_explored from = *best;
        tries t = {.space = &s->space, .from = &from};
        try_all(&t);
        ORR_TRY(orr_search_simulate(s, t.at, t.n, false, err));
        const orr_explored *now = best_like(s, arrangement);
        if (now->value[s->incumbent.objective] >= from.value[s->incumbent.objective])
            return ORR_OK;
    }
    return ORR_OK;
}
