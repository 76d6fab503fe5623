/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/plan/plan.h"
#include "model/schedule/schedule.h"
#include "explore/search/search.h"

/* Better plans next to a plan, by estimates alone: tens of microseconds each.
 *
 * repair  of a plan that does not fit into memory: of all single changes that save memory
 *         (recompute more, shard more, offload, smaller micro-batches, twice the stages, slices,
 *         context slices or expert ranks in place of replicas), the one with the least estimated
 *         peak is made, until the plan fits; of changes with which it fits, the quickest
 * climb   coordinate descent: the best value of each field is taken in turn, then of degrees two
 *         at a time, which trade ranks, layouts and schedules, until no change helps */

enum { LAYOUTS = 4 };

typedef struct neighbours {
    orr_search *search;
    orr_explored best; /* the best plan so far; its degrees are laid out */
    bool found;        /* `best` is a change of the plan, or fits */
    bool climbs;       /* within the space, and the time of the search */
    double slack;      /* of memory, by how much the estimate of a plan that fits is over it */
    orr_error *err;
} neighbours;

static double excess_of(const orr_explored *e)
{
    return e->usable_bytes > 0 ? (double)e->peak_bytes / (double)e->usable_bytes : 0;
}

/* Fits before it does not; then quick before slow, and small before large. */
static bool is_better(const neighbours *r, const orr_explored *a, const orr_explored *b)
{
    const uint8_t by = r->search->incumbent.objective;
    const bool fits = orr_explored_fits(a, r->slack);
    if (fits != orr_explored_fits(b, r->slack))
        return fits;
    if (!fits)
        return excess_of(a) < excess_of(b);
    const double x = orr_explored_estimated_value(a, by), y = orr_explored_estimated_value(b, by);
    return x != y ? x < y : a->estimate_ns < b->estimate_ns;
}

static bool may_climb_to(orr_search *s, const orr_plan *plan)
{
    return !orr_search_should_stop(s) && orr_space_has_run(&s->space, plan);
}

static orr_status try_plan(neighbours *r, const orr_plan *given)
{
    orr_search *s = r->search;
    orr_explored e;
    orr_plan filled = *given;
    const orr_plan *plan = &filled;
    const orr_arena_mark mark = orr_arena_get_mark(s->arena);
    const bool allowed = (!r->climbs || may_climb_to(s, plan)) && orr_search_fill(s, &filled) &&
                         orr_search_objection(s, plan, s->arena) == NULL;
    orr_arena_rewind(s->arena, mark);
    if (!allowed)
        return ORR_OK;
    const orr_status status = orr_evaluator_estimate(s->evaluators[0], plan, &e, r->err);
    if (status == ORR_NO_MEMORY || status == ORR_IO)
        return status;
    if (status != ORR_OK)
        return ORR_OK;
    e.plan = *plan;
    if (!r->found || is_better(r, &e, &r->best)) {
        r->best = e;
        r->found = true;
    }
    return ORR_OK;
}

/* The plan in the first layouts of its degrees. */
static orr_status try_degrees(neighbours *r, const orr_plan *plan)
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

/* --- repair ----------------------------------------------------------------------------------- */

static orr_status try_memory_options(neighbours *r, const orr_plan *from)
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
static orr_status try_twice(neighbours *r, const orr_plan *from, uint32_t field)
{
    orr_plan p = *from;
    orr_plan_put(&p, field, 2 * orr_plan_degree(orr_plan_get(from, field)));
    if (field != ORR_AT_ep && from->dp % 2 != 0)
        return ORR_OK;
    p.dp = field == ORR_AT_ep ? from->dp : from->dp / 2;
    return try_degrees(r, &p);
}

static orr_status try_changes(neighbours *r, const orr_plan *from)
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
    neighbours r = {.search = s, .err = err};
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

/* --- climbing --------------------------------------------------------------------------------- */

/* Fields that no other field has to follow. */
static const uint8_t ALONE[] = {
    ORR_AT_recompute, ORR_AT_cp_kind,   ORR_AT_overlap_tp,   ORR_AT_overlap_ep, ORR_AT_dispatcher,
    ORR_AT_precision, ORR_AT_graphs,    ORR_AT_expert_slots, ORR_AT_zero,       ORR_AT_reshard,
    ORR_AT_offload,   ORR_AT_gradients, ORR_AT_dp_algorithm, ORR_AT_dp_chunks,  ORR_AT_bucket_bytes,
    ORR_AT_prefetch,  ORR_AT_compress,  ORR_AT_local_steps};

static orr_status try_fields(neighbours *r)
{
    const orr_space *s = &r->search->space;
    for (uint32_t f = 0; f < sizeof ALONE; f++) {
        const orr_space_list *list = &s->list[ALONE[f]];
        const orr_plan from = r->best.plan;
        for (uint32_t i = 0; list->n > 1 && i < list->n; i++) {
            orr_plan p = from;
            orr_plan_put(&p, ALONE[f], list->at[i]);
            if (ALONE[f] == ORR_AT_recompute)
                p.recompute_layers = p.recompute == ORR_RECOMPUTE_BLOCK;
            ORR_TRY(try_plan(r, &p));
        }
    }
    return ORR_OK;
}

/* Steps of the number of layers that are computed again, halved while none helps. */
static orr_status try_recompute_layers(neighbours *r)
{
    orr_memory_options options;
    const orr_plan whole = orr_plan_with_defaults(&r->best.plan);
    if (whole.recompute != ORR_RECOMPUTE_BLOCK ||
        !orr_space_memory_options(&r->search->space, &whole, &options))
        return ORR_OK;
    for (uint32_t by = (options.max_recompute - options.min_recompute + 1) / 2; by > 0;) {
        const orr_plan from = r->best.plan;
        const uint32_t at = from.recompute_layers;
        for (int way = 0; way < 2; way++) {
            orr_plan p = from;
            p.recompute_layers = way == 0 ? at + by : at > by ? at - by : options.min_recompute;
            if (p.recompute_layers <= options.max_recompute)
                ORR_TRY(try_plan(r, &p));
        }
        by = r->best.plan.recompute_layers != at ? by : by / 2;
    }
    return ORR_OK;
}

/* Keeps the number of layers of a chunk where the number of stages changes. */
static void keep_chunks(orr_plan *p, uint32_t stages_before)
{
    const uint32_t chunks = stages_before * orr_plan_degree(p->vp);
    if (p->schedule != ORR_SCHEDULE_INTERLEAVED || p->pp == 0)
        return;
    p->vp = chunks / p->pp;
    if (p->vp > 1)
        return;
    p->vp = 1;
    p->schedule = ORR_SCHEDULE_1F1B;
}

/* Trades `times` of a degree for as many of another. */
static orr_status try_trade(neighbours *r, const orr_plan *from, uint32_t more, uint32_t fewer,
                            uint32_t times)
{
    orr_plan p = *from;
    const uint32_t left = orr_plan_degree(orr_plan_get(from, fewer));
    if (left % times != 0)
        return ORR_OK;
    orr_plan_put(&p, more, times * orr_plan_degree(orr_plan_get(from, more)));
    orr_plan_put(&p, fewer, left / times);
    if (p.tp != from->tp && orr_plan_degree(from->etp) == orr_plan_degree(from->tp))
        p.etp = p.tp;
    ORR_TRY(try_degrees(r, &p));
    if (p.pp == from->pp)
        return ORR_OK;
    keep_chunks(&p, orr_plan_degree(from->pp));
    return try_degrees(r, &p);
}

static orr_status try_trades(neighbours *r)
{
    static const uint8_t DEGREES[] = {ORR_AT_dp, ORR_AT_pp, ORR_AT_tp, ORR_AT_cp};
    for (uint32_t i = 0; i < sizeof DEGREES * sizeof DEGREES; i++) {
        const uint8_t more = DEGREES[i / sizeof DEGREES], fewer = DEGREES[i % sizeof DEGREES];
        const orr_plan from = orr_plan_with_defaults(&r->best.plan);
        for (uint32_t times = 2; more != fewer && times <= 3; times++)
            ORR_TRY(try_trade(r, &from, more, fewer, times));
    }
    return ORR_OK;
}

/* Degrees that do not change the number of ranks. */
static orr_status try_lists(neighbours *r)
{
    static const uint8_t FIELDS[] = {ORR_AT_ep, ORR_AT_micro_batch};
    const orr_space *s = &r->search->space;
    for (uint32_t i = 0; i < sizeof FIELDS; i++) {
        const orr_plan from = r->best.plan;
        for (uint32_t k = 0; k < s->list[FIELDS[i]].n && s->list[FIELDS[i]].n > 1; k++) {
            orr_plan p = from;
            orr_plan_put(&p, FIELDS[i], s->list[FIELDS[i]].at[k]);
            ORR_TRY(try_degrees(r, &p));
        }
    }
    orr_plan p = r->best.plan;
    p.etp = orr_plan_degree(p.etp) > 1 ? 1 : orr_plan_degree(p.tp);
    return s->model->moe.experts > 0 ? try_degrees(r, &p) : ORR_OK;
}

/* The next numbers of replicas, with more and with fewer ranks. */
static orr_status try_replicas(neighbours *r)
{
    const orr_space *s = &r->search->space;
    const orr_plan from = r->best.plan;
    for (uint32_t i = 0; i < s->n_parts; i++) {
        orr_plan p = from;
        p.dp = s->parts[i];
        if (p.dp > 2 * (uint64_t)orr_plan_degree(from.dp) ||
            2 * (uint64_t)p.dp < orr_plan_degree(from.dp))
            continue;
        ORR_TRY(try_degrees(r, &p));
    }
    return ORR_OK;
}

static orr_status try_interleaved(neighbours *r, const orr_plan *from)
{
    enum { MOST_CHUNKS = 32 };
    const orr_space *s = &r->search->space;
    const uint32_t smallest = orr_schedule_smallest_group(from->pp, from->micro_batches);
    for (uint32_t vp = 2; vp <= MOST_CHUNKS && from->pp * vp <= s->model->layers + 2; vp++) {
        orr_plan p = *from;
        p.schedule = ORR_SCHEDULE_INTERLEAVED;
        p.vp = vp;
        p.group = smallest;
        if (orr_space_splits_well(s, p.pp, vp))
            ORR_TRY(try_plan(r, &p));
    }
    return ORR_OK;
}

static orr_status try_schedules(neighbours *r)
{
    const orr_space_list *list = &r->search->space.list[ORR_AT_schedule];
    const orr_plan from = orr_plan_with_defaults(&r->best.plan);
    for (uint32_t i = 0; i < list->n && from.pp > 1; i++) {
        orr_plan p = from;
        const bool two = list->at[i] == ORR_SCHEDULE_ZB_V || list->at[i] == ORR_SCHEDULE_DUALPIPE;
        p.schedule = (uint8_t)list->at[i];
        p.vp = two ? 2 : 1;
        p.group = 0;
        if (list->at[i] == ORR_SCHEDULE_INTERLEAVED)
            ORR_TRY(try_interleaved(r, &from));
        else
            ORR_TRY(try_plan(r, &p));
    }
    return ORR_OK;
}

static orr_status try_layouts(neighbours *r)
{
    enum { MOST = 32 };
    const orr_space *space = &r->search->space;
    orr_space_layout layouts[ORR_SPACE_LAYOUTS];
    const orr_plan whole = orr_plan_with_defaults(&r->best.plan);
    const uint32_t n = orr_space_layouts(space, &whole, layouts), stride = (n + MOST - 1) / MOST;
    for (uint32_t i = 0; i < n; i += stride) {
        const orr_plan placed = orr_plan_with_layout(&whole, &layouts[i]);
        ORR_TRY(try_plan(r, &placed));
    }
    return ORR_OK;
}

orr_status orr_search_climb(orr_search *s, const orr_explored *from, orr_explored *ret,
                            orr_error *err)
{
    static orr_status (*const MOVES[])(neighbours *) = {
        try_schedules, try_fields,  try_lists,           try_trades,
        try_replicas,  try_layouts, try_recompute_layers};
    enum { ROUNDS = 8 };
    neighbours r = {.search = s, .err = err};
    ORR_TRY(try_plan(&r, &from->plan));
    r.climbs = true;
    if (r.found && from->step_ns > 0 && orr_explored_fits(from, 0))
        r.slack = fmax(excess_of(&r.best) - 1, 0);
    for (uint32_t round = 0; r.found && round < ROUNDS; round++) {
        const orr_plan before = r.best.plan;
        for (size_t i = 0; i < sizeof MOVES / sizeof *MOVES; i++)
            ORR_TRY(MOVES[i](&r));
        if (orr_plan_equal(&before, &r.best.plan))
            break;
    }
    *ret = r.found ? r.best : *from;
    return ORR_OK;
}

/* The best simulated plan; NULL: there is none. */
static const orr_explored *best_of(const orr_search *s)
{
    const orr_explored *best = NULL;
    for (size_t i = 0; i < s->done.n; i++)
        if (best == NULL || orr_explored_is_better(&s->incumbent, &s->done.at[i], best))
            best = &s->done.at[i];
    return best;
}

orr_status orr_search_climb_from_best(orr_search *s, orr_error *err)
{
    for (const orr_explored *best = best_of(s);
         best != NULL && !s->stopped && s->incumbent.best < s->climbed; best = best_of(s)) {
        const orr_explored from = *best;
        orr_explored top;
        s->climbed = s->incumbent.best;
        ORR_TRY(orr_search_climb(s, &from, &top, err));
        ORR_TRY(orr_search_simulate(s, &top, 1, err));
    }
    return ORR_OK;
}
