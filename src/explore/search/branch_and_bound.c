/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "explore/search/search.h"

/* Families are gone through by their floors, then candidates are simulated by their bounds, in
 * rounds: what a round does follows from what the ones before it found, however many threads there
 * are. */

enum { ROUND = 16, MOST_CANDIDATES = 1 << 20 };

bool orr_search_should_stop(void *ctx)
{
    const orr_search *s = ctx;
    return (s->options->stop != NULL && *s->options->stop) ||
           (s->deadline_ns > 0 && orr_clock_now_ns(&orr_clock_monotonic) >= s->deadline_ns);
}

/* --- what is known --------------------------------------------------------------------------- */

static double bound_of(const orr_incumbent *incumbent, const orr_explored *e)
{
    const double bound = e->value[incumbent->objective];
    return isnan(bound) ? 0 : bound;
}

static orr_memo_key key_of(orr_search *s, const orr_plan *plan, orr_error *err, orr_status *status)
{
    const orr_plan tidy = orr_plan_without_defaults(plan);
    orr_memo_key key = {{0}};
    const orr_arena_mark mark = orr_arena_get_mark(s->arena);
    const char *text = orr_plan_text(&tidy, s->arena);
    *status = text != NULL ? ORR_OK : orr_fail_memory(err);
    if (text != NULL) {
        const XXH128_hash_t hash = XXH3_128bits(text, strlen(text));
        memcpy(key.word, &hash, sizeof hash);
        key.word[4] = 1;
    }
    orr_arena_rewind(s->arena, mark);
    return key;
}

bool orr_search_knows(orr_search *s, const orr_plan *plan)
{
    orr_status status;
    const orr_memo_key key = key_of(s, plan, NULL, &status);
    return status == ORR_OK && orr_memo_find(&s->known, &key) != NULL;
}

static orr_status learn(orr_search *s, const orr_explored *e, orr_error *err)
{
    static char yes;
    orr_status status;
    const orr_memo_key key = key_of(s, &e->plan, err, &status);
    ORR_TRY(status);
    if (orr_memo_find(&s->known, &key) != NULL)
        return ORR_OK;
    if (!orr_memo_add(&s->known, &key, &yes))
        return orr_fail_memory(err);
    if (e->step_ns <= 0 || !orr_explored_fits(e, 0))
        return ORR_OK;
    if (!orr_array_push(&s->done, *e) || !orr_incumbent_add(&s->incumbent, e->value))
        return orr_fail_memory(err);
    return ORR_OK;
}

static orr_status remember_seen(orr_search *s, const orr_explored *e, orr_error *err)
{
    for (size_t i = 0; i < s->seen.n; i++) {
        if (!orr_plan_same_arrangement(&s->seen.at[i].plan, &e->plan))
            continue;
        if (orr_explored_estimated_value(e, s->incumbent.objective) <
            orr_explored_estimated_value(&s->seen.at[i], s->incumbent.objective))
            s->seen.at[i] = *e;
        return ORR_OK;
    }
    return orr_array_push(&s->seen, *e) ? ORR_OK : orr_fail_memory(err);
}

/* --- candidates ------------------------------------------------------------------------------ */

static bool is_before(const orr_incumbent *incumbent, const orr_explored *a, const orr_explored *b)
{
    return orr_explored_is_better(incumbent, a, b); /* their values are bounds */
}

bool orr_explored_heap_push(const orr_incumbent *incumbent, orr_explored_list *heap,
                            const orr_explored *e)
{
    if (!orr_array_push(heap, *e))
        return false;
    for (size_t i = heap->n - 1; i > 0 && is_before(incumbent, e, &heap->at[(i - 1) / 2]);
         i = (i - 1) / 2) {
        heap->at[i] = heap->at[(i - 1) / 2];
        heap->at[(i - 1) / 2] = *e;
    }
    return true;
}

orr_explored orr_explored_heap_pop(const orr_incumbent *incumbent, orr_explored_list *heap)
{
    const orr_explored least = heap->at[0], last = heap->at[--heap->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n && is_before(incumbent, &heap->at[child + 1], &heap->at[child]))
            child++;
        if (!is_before(incumbent, &heap->at[child], &last))
            break;
        heap->at[i] = heap->at[child];
    }
    if (heap->n > 0)
        heap->at[i] = last;
    return least;
}

/* More than memory should hold: half of them go, those with the highest bounds (of a heap, roughly
 * the leaves). What they could have been is remembered in the bound. */
static void make_room(orr_search *s, orr_explored_list *heap)
{
    const size_t keep = heap->n / 2;
    for (size_t i = keep; i < heap->n; i++)
        s->behind = fmin(s->behind, bound_of(&s->incumbent, &heap->at[i]));
    heap->n = keep;
}

/* The heap with the least bound; NULL: all are empty. */
static orr_explored_list *least_heap(orr_search *s)
{
    if (s->open.n == 0 || s->candidates.n == 0)
        return s->open.n > 0 ? &s->open : s->candidates.n > 0 ? &s->candidates : NULL;
    return is_before(&s->incumbent, &s->open.at[0], &s->candidates.at[0]) ? &s->open
                                                                          : &s->candidates;
}

/* --- what came of an item ------------------------------------------------------------------ */

static void add_counts(orr_search *s, const orr_work_item *e)
{
    s->resumed += e->resumed;
    s->simulated += e->simulated.n - e->resumed;
    if (e->scan)
        return;
    s->behind = fmin(s->behind, e->result.bound);
    if (e->family == NULL)
        return;
    s->plans += e->result.plans;
    s->bounded += e->result.bounded;
    s->estimated += e->result.estimated;
    for (int i = 0; i < ORR_PRUNES; i++)
        s->pruned[i] += e->result.pruned[i];
}

static void take_binding(orr_search *s, const orr_binding_constraint *t)
{
    orr_binding_constraint *best = &s->binding;
    if (!t->has_least)
        return;
    if (!best->has_least || (double)t->least.peak_bytes / (double)t->least.usable_bytes <
                                (double)best->least.peak_bytes / (double)best->least.usable_bytes)
        *best = *t;
}

static orr_status take_over(orr_search *s, const orr_work_item *e, orr_error *err)
{
    const orr_explored *likely = NULL;
    const bool opens = s->space.chooses_transport && e->family != NULL;
    ORR_TRY(orr_search_store(s, e, err));
    for (size_t i = 0; i < e->simulated.n; i++)
        ORR_TRY(learn(s, &e->simulated.at[i], err));
    if (e->stopped)
        return ORR_OK;
    if (e->scan)
        return e->left.n == 0 || orr_array_push(&s->promising, e->left.at[0])
                   ? ORR_OK
                   : orr_fail_memory(err);
    for (size_t i = 0; i < e->left.n; i++) {
        if (!orr_explored_heap_push(&s->incumbent, opens ? &s->open : &s->candidates,
                                    &e->left.at[i]))
            return orr_fail_memory(err);
        if (likely == NULL || orr_explored_estimated_value(&e->left.at[i], s->incumbent.objective) <
                                  orr_explored_estimated_value(likely, s->incumbent.objective))
            likely = &e->left.at[i];
    }
    if (likely != NULL && !orr_array_push(&s->promising, *likely))
        return orr_fail_memory(err);
    for (size_t i = 0; i < e->seen.n; i++)
        ORR_TRY(remember_seen(s, &e->seen.at[i], err));
    take_binding(s, &e->binding);
    add_counts(s, e);
    if (s->candidates.n > MOST_CANDIDATES)
        make_room(s, &s->candidates);
    if (s->open.n > MOST_CANDIDATES)
        make_room(s, &s->open);
    return ORR_OK;
}

/* Values of what was simulated are no bounds: what it was before that. */
static void take_bound(const orr_search *s, orr_explored *e)
{
    if (e->step_ns <= 0)
        return;
    for (int i = 0; i < ORR_OBJECTIVES; i++)
        e->value[i] *= i == ORR_OBJECTIVE_DEVICES ? 1 : (double)e->bound_ns / (double)e->step_ns;
    e->value[ORR_OBJECTIVE_ENERGY] =
        s->incumbent.objective == ORR_OBJECTIVE_ENERGY ? 0 : e->value[ORR_OBJECTIVE_ENERGY];
    e->step_ns = 0;
}

orr_status orr_search_restore_candidate(orr_search *s, const orr_explored *e, orr_error *err)
{
    ORR_TRY(remember_seen(s, e, err));
    const bool fits = e->step_ns > 0 && orr_explored_fits(e, 0);
    orr_explored left = *e;
    if (fits) {
        s->resumed++;
        ORR_TRY(learn(s, e, err));
    }
    if (fits && !s->space.chooses_transport)
        return ORR_OK;
    take_bound(s, &left);
    return orr_explored_heap_push(&s->incumbent,
                                  s->space.chooses_transport ? &s->open : &s->candidates, &left)
               ? ORR_OK
               : orr_fail_memory(err);
}

/* --- a round --------------------------------------------------------------------------------- */

typedef struct round {
    orr_search *search;
    orr_work_item *items;
} round_of;

static void run_item(void *ctx, size_t i, int thread)
{
    const round_of *r = ctx;
    orr_search *s = r->search;
    const orr_search_thread search_thread = {.space = &s->space,
                                             .incumbent = &s->incumbent,
                                             .evaluator = s->evaluators[thread],
                                             .least = s->least[thread],
                                             .flat = s->flat[thread],
                                             .counts = &s->counts[thread],
                                             .arena = s->arenas[thread],
                                             .results = s->results,
                                             .stops = orr_search_should_stop,
                                             .stops_ctx = s,
                                             .slack = s->options->exact ? 0.10 : 0.02};
    orr_work_item *e = &r->items[i];
    e->result.bound = INFINITY;
    if (!orr_search_is_mine(s, (uint32_t)i))
        return;
    if (orr_search_should_stop(s))
        e->stopped = true;
    else if (e->scan)
        orr_family_search_scan(&search_thread, e);
    else if (e->family != NULL)
        orr_family_search(&search_thread, e);
    else if (e->transports)
        orr_candidate_choose_transport(&search_thread, e);
    else
        orr_candidate_simulate(&search_thread, e);
}

static void report_progress(const orr_search *s)
{
    const orr_explore_progress at = {.families = s->families.n,
                                     .families_done = s->next_family,
                                     .plans = s->plans,
                                     .simulated = s->simulated,
                                     .best = isinf(s->incumbent.best) ? NAN : s->incumbent.best,
                                     .bound = orr_search_bound(s)};
    if (s->options->progress != NULL)
        s->options->progress(s->options->progress_ctx, &at);
}

orr_status orr_search_run(orr_search *s, orr_work_item *items, uint32_t n, orr_error *err)
{
    round_of r = {s, items};
    orr_status status = ORR_OK;
    orr_workers_run(s->workers, n, run_item, &r);
    status = orr_search_exchange(s, items, n, err);
    for (uint32_t i = 0; i < n && status == ORR_OK; i++) {
        if (items[i].status != ORR_OK && err != NULL)
            *err = items[i].err;
        status = items[i].status != ORR_OK ? items[i].status : take_over(s, &items[i], err);
    }
    for (uint32_t i = 0; i < n; i++)
        orr_work_item_done(&items[i]);
    report_progress(s);
    return status;
}

/* --- a first good plan ----------------------------------------------------------------------- */

/* Of the scanned families so far the best estimates, best first. */
static void keep_promising(orr_search *s, uint32_t most)
{
    const uint8_t objective = s->incumbent.objective;
    for (size_t i = 1; i < s->promising.n; i++) {
        const orr_explored e = s->promising.at[i];
        size_t at = i;
        while (at > 0 && orr_explored_estimated_value(&e, objective) <
                             orr_explored_estimated_value(&s->promising.at[at - 1], objective)) {
            s->promising.at[at] = s->promising.at[at - 1];
            at--;
        }
        s->promising.at[at] = e;
    }
    if (s->promising.n > most)
        s->promising.n = most;
}

/* The incumbent is set by estimates while families are scanned: what it keeps out is not lost, for
 * all of them are gone through afterwards. */
orr_status orr_search_scan(orr_search *s, orr_error *err)
{
    enum { MOST_SCANNED = 4096, AT_ONCE = 64 };
    const uint8_t objective = s->incumbent.objective;
    orr_work_item items[AT_ONCE];
    for (uint32_t i = 0; i < s->families.n && i < MOST_SCANNED && !s->stopped;) {
        uint32_t n = 0;
        for (; n < AT_ONCE && i < s->families.n; i++)
            if (!orr_incumbent_dominates(&s->incumbent, s->families.at[i].floor))
                items[n++] = (orr_work_item){.family = &s->families.at[i], .scan = true};
        ORR_TRY(orr_search_run(s, items, n, err));
        keep_promising(s, ROUND);
        if (s->promising.n > 0)
            s->incumbent.best = fmin(s->incumbent.best,
                                     orr_explored_estimated_value(&s->promising.at[0], objective));
    }
    s->incumbent.best = INFINITY;
    return ORR_OK;
}

/* --- from round to round --------------------------------------------------------------------- */

static bool family_is_beaten(const orr_search *s, uint32_t i)
{
    return orr_incumbent_dominates(&s->incumbent, s->families.at[i].floor);
}

static void add_candidate(orr_search *s, orr_work_item *items, uint32_t *n, const orr_explored *e)
{
    if (orr_search_knows(s, &e->plan))
        return;
    for (uint32_t i = 0; i < *n; i++)
        if (items[i].family == NULL && !items[i].transports &&
            orr_plan_equal(&items[i].candidate.plan, &e->plan))
            return;
    items[(*n)++] = (orr_work_item){.candidate = *e};
}

/* What was promising in the last round, before it is known whether it has to be looked at. */
static void add_promising(orr_search *s, orr_work_item *items, uint32_t *n)
{
    for (size_t i = 0; i < s->promising.n && *n < 2 * ROUND; i++)
        if (orr_explored_estimated_value(&s->promising.at[i], s->incumbent.objective) <
            s->incumbent.best)
            add_candidate(s, items, n, &s->promising.at[i]);
    s->promising.n = 0;
}

/* So many families; how many of the list are then behind. */
static uint32_t add_families(orr_search *s, orr_work_item *items, uint32_t *n, uint32_t most)
{
    uint32_t passed = 0;
    for (uint32_t added = 0; added < most && s->next_family + passed < s->families.n; passed++) {
        const uint32_t next = s->next_family + passed;
        if (s->families.at[next].resumed)
            continue;
        if (family_is_beaten(s, next))
            break;
        items[(*n)++] = (orr_work_item){.family = &s->families.at[next]};
        added++;
    }
    return passed;
}

static void add_candidates(orr_search *s, orr_work_item *items, uint32_t *n)
{
    const bool one = s->incumbent.second >= ORR_OBJECTIVES;
    for (orr_explored_list *heap; *n < ROUND && (heap = least_heap(s)) != NULL;) {
        const bool beaten = orr_incumbent_dominates(&s->incumbent, heap->at[0].value),
                   open = heap == &s->open;
        if (beaten && one)
            return;
        const orr_explored e = orr_explored_heap_pop(&s->incumbent, heap);
        if (beaten)
            s->behind = fmin(s->behind, bound_of(&s->incumbent, &e));
        else if (open)
            items[(*n)++] = (orr_work_item){.candidate = e, .transports = true};
        else
            add_candidate(s, items, n, &e);
    }
}

/* A stopped round is as if it had not been, but for what was simulated. */
static orr_status undo(orr_search *s, const orr_work_item *items, uint32_t n, orr_error *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (items[i].family == NULL &&
            (items[i].transports || !orr_search_knows(s, &items[i].candidate.plan)) &&
            !orr_explored_heap_push(&s->incumbent, items[i].transports ? &s->open : &s->candidates,
                                    &items[i].candidate))
            return orr_fail_memory(err);
    return ORR_OK;
}

orr_status orr_search_branch_and_bound(orr_search *s, orr_error *err)
{
    orr_work_item items[3 * ROUND];
    while (!s->stopped) {
        uint32_t n = 0;
        add_promising(s, items, &n);
        const uint32_t families =
            n > 0 && isinf(s->incumbent.best) ? 0 : ROUND; /* first a incumbent */
        const uint32_t promising = n, passed = add_families(s, items, &n, families),
                       added = n - promising;
        if (n == 0)
            add_candidates(s, items, &n);
        if (n == 0) {
            s->next_family += passed;
            break;
        }
        ORR_TRY(orr_search_run(s, items, n, err));
        if (s->stopped) {
            ORR_TRY(undo(s, items, n, err));
            break;
        }
        s->next_family += passed;
        s->families_built += added;
    }
    return ORR_OK;
}

double orr_search_bound(const orr_search *s)
{
    double bound = fmin(s->behind, s->incumbent.best);
    if (s->candidates.n > 0)
        bound = fmin(bound, bound_of(&s->incumbent, &s->candidates.at[0]));
    if (s->open.n > 0)
        bound = fmin(bound, bound_of(&s->incumbent, &s->open.at[0]));
    if (s->next_family < s->families.n)
        bound = fmin(bound, fmax(s->families.at[s->next_family].floor[s->incumbent.objective], 0));
    return isinf(bound) ? NAN : bound;
}

orr_status orr_search_simulate(orr_search *s, const orr_explored *candidates, size_t n,
                               bool alternatives, orr_error *err)
{
    orr_work_item items[ROUND];
    for (size_t at = 0; at < n && !s->stopped;) {
        uint32_t some = 0;
        while (at < n && some < ROUND)
            add_candidate(s, items, &some, &candidates[at++]);
        for (uint32_t i = 0; i < some; i++)
            items[i].alternative = alternatives;
        ORR_TRY(orr_search_run(s, items, some, err));
    }
    return ORR_OK;
}
