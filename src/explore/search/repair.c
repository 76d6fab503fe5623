/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/plan/plan.h"
#include "explore/search/search.h"

/* Greedy repair of a plan that does not fit into memory: of all single changes that save memory
 * (recompute more, shard more, offload, smaller micro-batches, twice the stages, slices, context
 * slices or expert ranks in place of replicas), the one with the least estimated peak is made,
 * until the plan fits; of changes with which it fits, the quickest by estimate. */

enum { LAYOUTS = 4 };

typedef struct repair {
    orr_search *search;
    orr_explored best; /* the best plan so far; its degrees are laid out */
    bool found;        /* `best` is a change of the plan, or fits */
    orr_error *err;
} repair;

static double excess_of(const orr_explored *e)
{
    return e->usable_bytes > 0 ? (double)e->peak_bytes / (double)e->usable_bytes : 0;
}

/* Fits before it does not; then quick before slow, and small before large. */
static bool is_better(const orr_explored *a, const orr_explored *b)
{
    const bool fits = orr_explored_fits(a, 0);
    if (fits != orr_explored_fits(b, 0))
        return fits;
    return fits ? a->estimate_ns < b->estimate_ns : excess_of(a) < excess_of(b);
}

static orr_status try_plan(repair *r, const orr_plan *given)
{
    orr_search *s = r->search;
    orr_explored e;
    orr_plan filled = *given;
    const orr_plan *plan = &filled;
    const orr_arena_mark mark = orr_arena_get_mark(s->arena);
    const bool allowed =
        orr_search_fill(s, &filled) && orr_search_objection(s, plan, s->arena) == NULL;
    orr_arena_rewind(s->arena, mark);
    if (!allowed)
        return ORR_OK;
    const orr_status status = orr_evaluator_estimate(s->evaluators[0], plan, &e, r->err);
    if (status == ORR_NO_MEMORY || status == ORR_IO)
        return status;
    if (status != ORR_OK)
        return ORR_OK;
    e.plan = *plan;
    if (!r->found || is_better(&e, &r->best)) {
        r->best = e;
        r->found = true;
    }
    return ORR_OK;
}

/* The plan in the first layouts of its degrees. */
static orr_status try_degrees(repair *r, const orr_plan *plan)
{
    const orr_space *space = &r->search->space;
    orr_space_layout layouts[ORR_SPACE_LAYOUTS];
    orr_plan p = *plan;
    p.micro_batches = p.shards = p.group = p.dp_outer = 0;
    memset(p.sites, 0, sizeof p.sites);
    memset(p.order, 0, sizeof p.order);
    if (p.dp == 0 || space->common.batch % ((uint64_t)p.dp * orr_plan_degree(p.micro_batch)) != 0)
        return ORR_OK;
    const orr_plan whole = orr_plan_with_defaults(&p);
    const uint32_t n = orr_space_layouts(space, &whole, layouts);
    for (uint32_t i = 0; i < n && i < LAYOUTS; i++) {
        const orr_plan placed = orr_plan_with_layout(&p, &layouts[i]);
        ORR_TRY(try_plan(r, &placed));
    }
    return ORR_OK;
}

static orr_status try_memory_options(repair *r, const orr_plan *from)
{
    static const uint8_t RECOMPUTE[] = {ORR_RECOMPUTE_SELECTIVE, ORR_RECOMPUTE_FULL};
    const orr_space_list *offloads = &r->search->space.list[ORR_AT_offload];
    for (uint32_t i = 0; i < sizeof RECOMPUTE; i++) {
        orr_plan p = *from;
        p.recompute = RECOMPUTE[i];
        p.recompute_layers = 0;
        ORR_TRY(try_plan(r, &p));
    }
    for (uint32_t zero = 1; zero <= 3; zero++) {
        orr_plan p = *from;
        p.zero = zero;
        ORR_TRY(try_plan(r, &p));
    }
    for (uint32_t i = 0; i < offloads->n; i++) {
        orr_plan p = *from;
        p.offload = (uint8_t)offloads->at[i];
        ORR_TRY(try_plan(r, &p));
    }
    return ORR_OK;
}

/* Twice the degree in place of half of the replicas. */
static orr_status try_twice(repair *r, const orr_plan *from, uint32_t field)
{
    orr_plan p = *from;
    orr_plan_put(&p, field, 2 * orr_plan_degree(orr_plan_get(from, field)));
    if (field != ORR_AT_ep && from->dp % 2 != 0)
        return ORR_OK;
    p.dp = field == ORR_AT_ep ? from->dp : from->dp / 2;
    return try_degrees(r, &p);
}

static orr_status try_changes(repair *r, const orr_plan *from)
{
    static const uint8_t DEGREES[] = {ORR_AT_pp, ORR_AT_tp, ORR_AT_cp, ORR_AT_ep};
    ORR_TRY(try_memory_options(r, from));
    for (uint32_t i = 0; i < sizeof DEGREES; i++)
        if (DEGREES[i] != ORR_AT_ep || r->search->space.model->moe.experts > 0)
            ORR_TRY(try_twice(r, from, DEGREES[i]));
    if (orr_plan_degree(from->micro_batch) == 1)
        return ORR_OK;
    orr_plan p = *from;
    p.micro_batch = 1;
    return try_degrees(r, &p);
}

orr_status orr_search_repair(orr_search *s, const orr_plan *plan, uint32_t changes, bool *ret_found,
                             orr_explored *ret, orr_error *err)
{
    repair r = {.search = s, .err = err};
    *ret_found = false;
    if (orr_plan_has_sites(plan) || s->cluster->n_sites < 2)
        ORR_TRY(try_plan(&r, plan));
    if (!r.found)
        ORR_TRY(try_degrees(&r, plan));
    for (uint32_t i = 0; i < changes && !(r.found && orr_explored_fits(&r.best, 0)); i++) {
        const orr_plan from = r.found ? r.best.plan : *plan;
        const double before = r.found ? excess_of(&r.best) : INFINITY;
        ORR_TRY(try_changes(&r, &from));
        if (!r.found || excess_of(&r.best) >= before)
            break;
    }
    if (!r.found)
        return ORR_OK;
    *ret = r.best;
    *ret_found = orr_explored_fits(&r.best, 0);
    if (!*ret_found)
        orr_search_note_binding(s, &r.best);
    return ORR_OK;
}
