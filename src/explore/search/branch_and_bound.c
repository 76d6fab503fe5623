/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "explore/search/search.h"

/* Best-first branch and bound (Land and Doig, 1960) over families and candidates, in rounds. A
 * round
 *    1. takes up to 16 work items for the plans that the last round estimated to be best, since a
 *       better incumbent prunes more than any other work;
 *    2. takes up to 16 families, half of them those whose sampled plans are estimated to be best,
 *       the others lowest bound first, until one is dominated by the incumbent; while there is no
 *       incumbent, the items of 1 alone;
 *    3. if that gives no item, takes up to 16 candidates, those with the best estimates and then
 *       lowest bound first, from two heaps: `open` (transports not chosen yet: branched on) and
 *       `candidates` (simulated);
 *    4. runs the items on all threads of all processes, with the incumbent of the round's start;
 *    5. merges what came of them in the order of the items: simulated plans into the incumbent,
 *       plans that were not pruned into the heaps, bounds of pruned plans into `left_bound`.
 *
 * The choice of items and the order of merging do not depend on timing, so any number of threads
 * and processes finds the same plans. `left_bound` is the minimum over all that was pruned: with
 * the heaps' minima and the next family's bound it is the proven lower bound of the space. A round
 * that is stopped midway is undone: its candidates go back into the heaps and only completed
 * simulations count. */

enum { ROUND = 16, SAMPLED = 256, MOST_CANDIDATES = 1 << 20 };

bool orr_search_should_stop(void *ctx)
{
    const orr_search *s = ctx;
    return (s->options->stop != NULL && *s->options->stop) ||
           (s->deadline_ns > 0 && !(s->beginning && isinf(s->incumbent.best)) &&
            orr_clock_now_ns(&orr_clock_monotonic) >= s->deadline_ns);
}

/* --- simulated plans ------------------------------------------------------------------------- */

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

static bool is_simulated(orr_search *s, const orr_plan *plan)
{
    orr_status status;
    const orr_memo_key key = key_of(s, plan, NULL, &status);
    return status == ORR_OK && orr_memo_find(&s->known_plans, &key) != NULL;
}

static orr_status add_simulated(orr_search *s, const orr_explored *e, orr_error *err)
{
    static char yes;
    orr_status status;
    const orr_memo_key key = key_of(s, &e->plan, err, &status);
    ORR_TRY(status);
    if (orr_memo_find(&s->known_plans, &key) != NULL)
        return ORR_OK;
    if (!orr_memo_add(&s->known_plans, &key, &yes))
        return orr_fail_memory(err);
    if (e->step_ns <= 0 || !orr_explored_fits(e, 0))
        return ORR_OK;
    if (!orr_array_push(&s->done, *e) || !orr_incumbent_add(&s->incumbent, e->value))
        return orr_fail_memory(err);
    return ORR_OK;
}

static orr_status remember_arrangement(orr_search *s, const orr_explored *e, orr_error *err)
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

/* --- heaps of candidates --------------------------------------------------------------------- */

/* Bounds the memory of the search: drops half of a heap, its leaves, which have roughly the highest
 * bounds. Their bounds stay in `left_bound`, so that the gap remains proven. */
static void drop_worst_half(orr_search *s, orr_explored_list *heap)
{
    const size_t keep = heap->n / 2;
    for (size_t i = keep; i < heap->n; i++)
        s->left_bound = fmin(s->left_bound, bound_of(&s->incumbent, &heap->at[i]));
    heap->n = keep;
}

/* The heap whose minimum is lower; NULL: both are empty. */
static orr_explored_list *lowest_heap(orr_search *s)
{
    if (s->open.n == 0 || s->candidates.n == 0)
        return s->open.n > 0 ? &s->open : s->candidates.n > 0 ? &s->candidates : NULL;
    return orr_explored_is_better(&s->incumbent, &s->open.at[0], &s->candidates.at[0])
               ? &s->open
               : &s->candidates;
}

/* --- results of work items ------------------------------------------------------------------- */

static void add_counts(orr_search *s, const orr_work_item *e)
{
    s->resumed += e->resumed;
    s->simulated += e->simulated.n - e->resumed;
    if (e->scan || e->baseline > 0)
        return;
    s->left_bound = fmin(s->left_bound, e->result.bound);
    if (e->family == NULL)
        return;
    s->plans += e->result.plans;
    s->bounded += e->result.bounded;
    s->estimated += e->result.estimated;
    for (int i = 0; i < ORR_PRUNES; i++)
        s->pruned[i] += e->result.pruned[i];
}

static void merge_binding(orr_search *s, const orr_binding_constraint *t)
{
    orr_binding_constraint *best = &s->binding;
    if (!t->has_least)
        return;
    if (!best->has_least || (double)t->least.peak_bytes / (double)t->least.usable_bytes <
                                (double)best->least.peak_bytes / (double)best->least.usable_bytes)
        *best = *t;
}

void orr_search_note_binding(orr_search *s, const orr_explored *e)
{
    const orr_binding_constraint near = {.has_least = true, .least = *e};
    merge_binding(s, &near);
}

static orr_plan_family *family_of(const orr_search *s, const orr_work_item *item)
{
    return &s->families.at[item->family - s->families.at];
}

static orr_status merge_scan(orr_search *s, const orr_work_item *item, orr_error *err)
{
    orr_plan_family *f = family_of(s, item);
    f->scanned = true;
    s->sampled++;
    merge_binding(s, &item->binding);
    if (item->left.n == 0)
        return ORR_OK;
    f->estimate = orr_explored_estimated_value(&item->left.at[0], s->incumbent.objective);
    return orr_array_push(&s->promising, item->left.at[0]) ? ORR_OK : orr_fail_memory(err);
}

static orr_status merge_item(orr_search *s, const orr_work_item *e, orr_error *err)
{
    const orr_explored *likely = NULL;
    const bool opens = s->space.chooses_transport && e->family != NULL;
    ORR_TRY(orr_search_store(s, e, err));
    for (size_t i = 0; i < e->simulated.n; i++)
        ORR_TRY(add_simulated(s, &e->simulated.at[i], err));
    if (e->stopped)
        return ORR_OK;
    if (e->scan)
        return merge_scan(s, e, err);
    for (size_t i = 0; i < e->left.n; i++) {
        if (!orr_heap_push(&s->incumbent, opens ? &s->open : &s->candidates, &e->left.at[i]))
            return orr_fail_memory(err);
        if (likely == NULL || orr_explored_estimated_value(&e->left.at[i], s->incumbent.objective) <
                                  orr_explored_estimated_value(likely, s->incumbent.objective))
            likely = &e->left.at[i];
    }
    if (likely != NULL && !orr_array_push(&s->promising, *likely))
        return orr_fail_memory(err);
    for (size_t i = 0; i < e->seen.n; i++)
        ORR_TRY(remember_arrangement(s, &e->seen.at[i], err));
    merge_binding(s, &e->binding);
    add_counts(s, e);
    if (s->candidates.n > MOST_CANDIDATES)
        drop_worst_half(s, &s->candidates);
    if (s->open.n > MOST_CANDIDATES)
        drop_worst_half(s, &s->open);
    return ORR_OK;
}

/* The values of a simulated plan are no lower bounds: scales them back from the step to its bound.
 */
static void restore_bound(const orr_search *s, orr_explored *e)
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
    const bool fits = e->step_ns > 0 && orr_explored_fits(e, 0);
    orr_explored left = *e;
    restore_bound(s, &left);
    ORR_TRY(remember_arrangement(s, &left, err)); /* as the earlier run did: by its estimate */
    if (fits) {
        s->resumed++;
        ORR_TRY(add_simulated(s, e, err));
    }
    if (fits && !s->space.chooses_transport)
        return ORR_OK;
    return orr_heap_push(&s->incumbent, s->space.chooses_transport ? &s->open : &s->candidates,
                         &left)
               ? ORR_OK
               : orr_fail_memory(err);
}

/* --- a round --------------------------------------------------------------------------------- */

typedef struct round {
    orr_search *search;
    orr_work_item *items;
} search_round;

static void run_item(void *ctx, size_t i, int thread)
{
    const search_round *r = ctx;
    orr_search *s = r->search;
    const orr_search_thread search_thread = {.space = &s->space,
                                             .incumbent = &s->incumbent,
                                             .evaluator = s->evaluators[thread],
                                             .ideal = s->ideal[thread],
                                             .flat = s->flat[thread],
                                             .counts = &s->counts[thread],
                                             .arena = s->arenas[thread],
                                             .results = s->results,
                                             .should_stop = orr_search_should_stop,
                                             .should_stop_ctx = s,
                                             .slack = s->options->exact ? 0.10 : 0.02};
    orr_work_item *e = &r->items[i];
    e->result.bound = INFINITY;
    if (!orr_search_is_mine(s, (uint32_t)i))
        return;
    if (orr_search_should_stop(s))
        e->stopped = true;
    else if (e->baseline > 0)
        orr_search_ask_baseline(s, thread, e);
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
                                     .families_done = s->families.n - s->n_queue,
                                     .plans = s->plans,
                                     .simulated = s->simulated,
                                     .best = isinf(s->incumbent.best) ? NAN : s->incumbent.best,
                                     .bound = orr_search_bound(s),
                                     .phase = s->phase,
                                     .family = s->family != NULL ? s->family : ""};
    if (s->options->progress != NULL)
        s->options->progress(s->options->progress_ctx, &at);
}

orr_status orr_search_run_round(orr_search *s, orr_work_item *items, uint32_t n, orr_error *err)
{
    search_round r = {s, items};
    s->family = n > 0 && items[n - 1].family != NULL ? items[n - 1].family->key : NULL;
    orr_status status = ORR_OK;
    orr_workers_run(s->workers, n, run_item, &r);
    status = orr_search_exchange(s, items, n, err);
    for (uint32_t i = 0; i < n && status == ORR_OK; i++) {
        if (items[i].status != ORR_OK && err != NULL)
            *err = items[i].err;
        status = items[i].status != ORR_OK ? items[i].status : merge_item(s, &items[i], err);
    }
    for (uint32_t i = 0; i < n; i++)
        orr_work_item_done(&items[i]);
    report_progress(s);
    return status;
}

/* --- promising plans ------------------------------------------------------------------------- */

static void add_candidate(orr_search *s, orr_work_item *items, uint32_t *n, const orr_explored *e)
{
    if (is_simulated(s, &e->plan))
        return;
    for (uint32_t i = 0; i < *n; i++)
        if (items[i].family == NULL && !items[i].transports &&
            orr_plan_equal(&items[i].candidate.plan, &e->plan))
            return;
    items[(*n)++] = (orr_work_item){.candidate = *e};
}

/* Adds the plans that the last round estimated to be best. */
static void add_promising(orr_search *s, orr_work_item *items, uint32_t *n)
{
    for (size_t i = 0; i < s->promising.n && *n < 2 * ROUND; i++)
        if (orr_explored_estimated_value(&s->promising.at[i], s->incumbent.objective) <
            s->incumbent.best)
            add_candidate(s, items, n, &s->promising.at[i]);
    s->promising.n = 0;
}

/* --- a first incumbent ----------------------------------------------------------------------- */

/* Keeps the best estimates of the families scanned so far, best first. */
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

static int by_family_floor(const void *a, const void *b, void *ctx)
{
    const orr_search *s = ctx;
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const double x = s->families.at[i].floor[s->incumbent.objective],
                 y = s->families.at[j].floor[s->incumbent.objective];
    return x != y ? (x < y ? -1 : 1) : i < j ? -1 : i > j;
}

static int by_estimate(const void *a, const void *b, void *ctx)
{
    const orr_search *s = ctx;
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const double x = s->families.at[i].estimate, y = s->families.at[j].estimate;
    return x != y ? (x < y ? -1 : 1) : i < j ? -1 : i > j;
}

/* Families to sample: half of them those with the lowest floors, and as many of all others, since
 * floors, which count what can be hidden as hidden, mislead where much is exposed. */
static uint32_t choose_sample(orr_search *s, uint32_t *chosen)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->families.n; i++) {
        const orr_plan_family *f = &s->families.at[i];
        if (f->floor_ns > 0 && !f->scanned && !f->resumed &&
            !orr_incumbent_dominates(&s->incumbent, f->floor))
            chosen[n++] = i;
    }
    if (n > 1)
        qsort_r(chosen, n, sizeof *chosen, by_family_floor, s);
    const uint32_t share = s->families.n / 16 + 32, half = (share < SAMPLED ? share : SAMPLED) / 2;
    for (uint32_t i = half; i < 2 * half && n > 2 * half; i++)
        chosen[i] = chosen[half + (uint64_t)(i - half) * (n - half) / half];
    return n < 2 * half ? n : 2 * half;
}

/* Estimates of sampled families serve as the incumbent of the scan; this prunes nothing for good,
 * because every family is searched afterwards. */
static orr_status scan_chosen(orr_search *s, const uint32_t *chosen, uint32_t n_chosen,
                              orr_error *err)
{
    enum { AT_ONCE = 32 };
    const double best = s->incumbent.best;
    orr_work_item items[AT_ONCE];
    orr_status status = ORR_OK;
    for (uint32_t i = 0; i < n_chosen && !s->stopped && status == ORR_OK;) {
        uint32_t n = 0;
        for (; n < AT_ONCE && i < n_chosen; i++)
            if (!orr_incumbent_dominates(&s->incumbent, s->families.at[chosen[i]].floor))
                items[n++] = (orr_work_item){.family = &s->families.at[chosen[i]], .scan = true};
        status = orr_search_run_round(s, items, n, err);
        keep_promising(s, ROUND);
        if (s->promising.n > 0)
            s->incumbent.best =
                fmin(s->incumbent.best,
                     orr_explored_estimated_value(&s->promising.at[0], s->incumbent.objective));
    }
    s->incumbent.best = best;
    return status;
}

static orr_status simulate_promising(orr_search *s, orr_error *err)
{
    orr_work_item items[2 * ROUND];
    uint32_t n = 0;
    add_promising(s, items, &n);
    return n > 0 && !s->stopped ? orr_search_run_round(s, items, n, err) : ORR_OK;
}

orr_status orr_search_scan(orr_search *s, orr_error *err)
{
    const orr_arena_mark mark = orr_arena_get_mark(s->arena);
    uint32_t *chosen = orr_arena_array(s->arena, uint32_t, s->families.n);
    if (chosen == NULL)
        return orr_fail_memory(err);
    s->phase = "sampling";
    const uint32_t n = choose_sample(s, chosen);
    orr_status status = scan_chosen(s, chosen, n, err);
    orr_arena_rewind(s->arena, mark);
    if (status == ORR_OK)
        status = simulate_promising(s, err);
    return status;
}

/* Families in the order of the best estimate that the scan saw of each. */
static void order_by_estimate(orr_search *s)
{
    s->n_leading = s->next_leading = 0;
    for (uint32_t i = 0; i < s->families.n; i++)
        if (isfinite(s->families.at[i].estimate))
            s->leading[s->n_leading++] = i;
    if (s->n_leading > 1)
        qsort_r(s->leading, s->n_leading, sizeof *s->leading, by_estimate, s);
}

/* --- from round to round --------------------------------------------------------------------- */

/* Adds at most `most` families: half of them the most promising by estimate, to find better plans,
 * and those with the lowest floors, to raise the bound. */
static void add_families(orr_search *s, orr_work_item *items, uint32_t *n, uint32_t most)
{
    const uint32_t end = *n + most, half = *n + most / 2;
    while (*n < half && s->next_leading < s->n_leading) {
        orr_plan_family *f = &s->families.at[s->leading[s->next_leading++]];
        if (f->taken || f->searched || f->resumed ||
            orr_incumbent_dominates(&s->incumbent, f->floor))
            continue;
        f->taken = true;
        items[(*n)++] = (orr_work_item){.family = f};
    }
    for (orr_plan_family *f; *n < end && (f = orr_search_pop_family(s)) != NULL;)
        items[(*n)++] = (orr_work_item){.family = f};
}

static void add_one(orr_search *s, orr_work_item *items, uint32_t *n, orr_explored_list *heap,
                    size_t at)
{
    const orr_explored e = orr_heap_take(&s->incumbent, heap, at);
    if (heap == &s->open)
        items[(*n)++] = (orr_work_item){.candidate = e, .transports = true};
    else
        add_candidate(s, items, n, &e);
}

/* The most promising of a heap by estimate, to find better plans. */
static void add_likely(orr_search *s, orr_work_item *items, uint32_t *n, orr_explored_list *heap)
{
    enum { LOOKED_AT = 1 << 16 };
    const uint8_t objective = s->incumbent.objective;
    double least = s->incumbent.best;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < heap->n && i < LOOKED_AT; i++) {
        const double value = orr_explored_estimated_value(&heap->at[i], objective);
        best = value < least ? i : best;
        least = fmin(value, least);
    }
    if (best != SIZE_MAX)
        add_one(s, items, n, heap, best);
}

static void add_candidates(orr_search *s, orr_work_item *items, uint32_t *n)
{
    const bool one = s->incumbent.second >= ORR_OBJECTIVES;
    add_likely(s, items, n, &s->candidates);
    add_likely(s, items, n, &s->open);
    for (orr_explored_list *heap; *n < ROUND && (heap = lowest_heap(s)) != NULL;) {
        const bool dominated = orr_incumbent_dominates(&s->incumbent, heap->at[0].value);
        if (dominated && one)
            return;
        if (!dominated) {
            add_one(s, items, n, heap, 0);
            continue;
        }
        const orr_explored e = orr_heap_take(&s->incumbent, heap, 0);
        s->left_bound = fmin(s->left_bound, bound_of(&s->incumbent, &e));
    }
}

/* Undoes a stopped round, but for what was simulated. */
static orr_status undo_round(orr_search *s, const orr_work_item *items, uint32_t n, orr_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        const orr_work_item *e = &items[i];
        if (e->family != NULL && family_of(s, e)->taken)
            family_of(s, e)->taken = false;
        else if (e->family != NULL)
            orr_search_push_family(s, e->family);
        else if ((e->transports || !is_simulated(s, &e->candidate.plan)) &&
                 !orr_heap_push(&s->incumbent, e->transports ? &s->open : &s->candidates,
                                &e->candidate))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static void count_families(orr_search *s, const orr_work_item *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (items[i].family != NULL) {
            family_of(s, &items[i])->searched = true;
            s->families_built++;
        }
}

orr_status orr_search_branch_and_bound(orr_search *s, orr_error *err)
{
    enum { LAST_BASELINES = 6 };
    orr_work_item items[3 * ROUND];
    order_by_estimate(s);
    s->phase = "searching";
    for (uint32_t round = 0; !s->stopped; round++) {
        uint32_t n = 0;
        if (round == LAST_BASELINES && s->families_resumed == 0 && !s->options->relaxed)
            ORR_TRY(orr_search_ask_last_baselines(s, err));
        add_promising(s, items, &n);
        if (n == 0 || isfinite(s->incumbent.best)) /* an incumbent first */
            add_families(s, items, &n, ROUND);
        if (n == 0)
            add_candidates(s, items, &n);
        if (n == 0)
            break;
        ORR_TRY(orr_search_run_round(s, items, n, err));
        if (s->stopped)
            return undo_round(s, items, n, err);
        count_families(s, items, n);
        ORR_TRY(orr_search_climb_from_best(s, err));
    }
    return ORR_OK;
}

double orr_search_bound(const orr_search *s)
{
    double bound = fmin(s->left_bound, s->incumbent.best);
    if (s->candidates.n > 0)
        bound = fmin(bound, bound_of(&s->incumbent, &s->candidates.at[0]));
    if (s->open.n > 0)
        bound = fmin(bound, bound_of(&s->incumbent, &s->open.at[0]));
    bound = fmin(bound, orr_search_family_bound(s));
    return s->left_out ? 0 : isinf(bound) ? NAN : bound;
}

orr_status orr_search_simulate(orr_search *s, const orr_explored *candidates, size_t n,
                               orr_error *err)
{
    orr_work_item items[ROUND];
    for (size_t at = 0; at < n && !s->stopped;) {
        uint32_t some = 0;
        while (at < n && some < ROUND)
            add_candidate(s, items, &some, &candidates[at++]);
        for (uint32_t i = 0; i < some; i++)
            items[i].alternative = true;
        ORR_TRY(orr_search_run_round(s, items, some, err));
    }
    return ORR_OK;
}
