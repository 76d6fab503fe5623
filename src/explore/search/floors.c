/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "model/plan/plan.h"
#include "explore/search/search.h"

/* Lower bounds of families, found as they are needed. Families that differ in recomputation and in
 * whether transfers overlap share a *basis*: the family that recomputes nothing and overlaps all,
 * which none of the others undercuts, for what is computed again comes on top and a floor takes
 * what may be hidden for hidden. At first bases alone are priced; the floor of a basis stands for
 * all of its families. They lie in a heap, lowest floor first, and a family gets a floor of its own
 * when it comes to the top. A floor that is not known yet is 0, so that at every moment the least
 * floor in the heap is a lower bound of all that was not searched. */

enum { AT_ONCE = 64, CHUNK = 1024 };
static const double ROUNDING = 1 - 1e-5; /* prices of overlapped kernels are rounded otherwise */

/* --- bases ------------------------------------------------------------------------------------ */

static orr_plan basis_of(const orr_plan *family)
{
    orr_plan p = *family;
    p.recompute = ORR_RECOMPUTE_NONE;
    p.recompute_layers = 0;
    p.overlap_tp = p.overlap_tp == 0 ? 0 : ORR_SWITCH_ON;
    p.overlap_ep = p.overlap_ep == 0 ? 0 : ORR_SWITCH_ON;
    return p;
}

static orr_memo_key key_of(const char *text)
{
    orr_memo_key key = {{0}};
    const XXH128_hash_t hash = XXH3_128bits(text, strlen(text));
    memcpy(key.word, &hash, sizeof hash);
    key.word[4] = 1;
    return key;
}

/* Finds or makes the basis of the family. */
static orr_status find_basis(orr_search *s, orr_memo *known, orr_plan_family *f, orr_error *err)
{
    const orr_plan plan = basis_of(&f->plan);
    const orr_arena_mark mark = orr_arena_get_mark(s->arena);
    const char *text = orr_plan_text(&plan, s->arena);
    if (text == NULL)
        return orr_fail_memory(err);
    const orr_memo_key key = key_of(text);
    orr_arena_rewind(s->arena, mark);
    f->basis = orr_memo_find(known, &key);
    if (f->basis != NULL)
        return ORR_OK;
    f->basis = &s->bases.at[s->bases.n];
    *f->basis = (orr_plan_family){.plan = plan, .key = f->key};
    s->bases.n++;
    return orr_memo_add(known, &key, f->basis) ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_search_list_families(orr_search *s, orr_error *err)
{
    orr_memo known = {0};
    orr_status status = ORR_OK;
    ORR_TRY(orr_space_families(&s->space, s->arena, &s->families, err));
    s->bases.at = orr_arena_array(s->arena, orr_plan_family, s->families.n);
    s->queue = orr_arena_array(s->arena, uint32_t, s->families.n);
    s->leading = orr_arena_array(s->arena, uint32_t, s->families.n);
    if (s->bases.at == NULL || s->queue == NULL || s->leading == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < s->families.n && status == ORR_OK; i++) {
        status = find_basis(s, &known, &s->families.at[i], err);
        s->families.at[i].estimate = INFINITY;
        s->queue[s->n_queue++] = i; /* all floors are 0 */
    }
    orr_memo_done(&known);
    s->left_out = s->families.n == 0;
    return status;
}

/* --- one floor ------------------------------------------------------------------------------- */

static void set_floor(const orr_search *s, orr_plan_family *f, double floor_ns)
{
    const uint32_t devices =
        s->space.uniform_devices ? s->space.most_devices : s->space.least_devices;
    f->floor_ns = floor_ns;
    orr_space_objective_bounds(&s->space, floor_ns, devices, 1, f->floor);
    f->floor[ORR_OBJECTIVE_DEVICES] = s->space.least_devices;
}

/* NAN: no plan of the family is valid. */
static void price(const orr_search *s, int thread, orr_plan_family *f)
{
    orr_evaluator *evaluator = s->space.uniform_devices ? s->flat[thread] : s->ideal[thread];
    orr_plan plan = orr_plan_override(&s->space.common, &f->plan);
    double floor_ns = 0;
    plan.recompute_layers = plan.recompute == ORR_RECOMPUTE_BLOCK; /* at least one layer */
    /* With mixed devices, not every family has a bound. */
    if (orr_evaluator_family_bound(evaluator, &plan, &floor_ns, NULL) != ORR_OK)
        floor_ns = s->space.uniform_devices ? NAN : 0;
    set_floor(s, f, floor_ns);
    f->refined = true;
}

/* --- heap of families ------------------------------------------------------------------------ */

static const orr_plan_family *at(const orr_search *s, uint32_t i)
{
    return &s->families.at[s->queue[i]];
}

/* Invalid families come to the top, to be dropped. */
static double value_of(const orr_search *s, const orr_plan_family *f)
{
    const double value = f->floor[s->incumbent.objective];
    return isnan(f->floor_ns) ? -1 : isnan(value) ? 0 : value;
}

static bool is_lower(const orr_search *s, const orr_plan_family *a, const orr_plan_family *b)
{
    const double x = value_of(s, a), y = value_of(s, b);
    if (x != y)
        return x < y;
    if (a->floor_ns != b->floor_ns && !isnan(a->floor_ns) && !isnan(b->floor_ns))
        return a->floor_ns < b->floor_ns;
    return a < b;
}

static void sift_down(orr_search *s, uint32_t i)
{
    const uint32_t moved = s->queue[i];
    for (uint32_t child; (child = 2 * i + 1) < s->n_queue; i = child) {
        if (child + 1 < s->n_queue && is_lower(s, at(s, child + 1), at(s, child)))
            child++;
        if (!is_lower(s, at(s, child), &s->families.at[moved]))
            break;
        s->queue[i] = s->queue[child];
    }
    s->queue[i] = moved;
}

void orr_search_push_family(orr_search *s, const orr_plan_family *f)
{
    uint32_t i = s->n_queue++;
    for (; i > 0 && is_lower(s, f, at(s, (i - 1) / 2)); i = (i - 1) / 2)
        s->queue[i] = s->queue[(i - 1) / 2];
    s->queue[i] = (uint32_t)(f - s->families.at);
}

static orr_plan_family *pop(orr_search *s)
{
    orr_plan_family *least = &s->families.at[s->queue[0]];
    s->queue[0] = s->queue[--s->n_queue];
    if (s->n_queue > 0)
        sift_down(s, 0);
    return least;
}

static void order_queue(orr_search *s)
{
    for (uint32_t i = s->n_queue / 2; i-- > 0;)
        sift_down(s, i);
}

/* --- pricing --------------------------------------------------------------------------------- */

/* Several processes have to know the same floors: they agree on an end between rounds. */
static bool may_stop(orr_search *s)
{
    return orr_processes_count(s->processes) == 1 && orr_search_should_stop(s);
}

typedef struct pricer {
    orr_search *search;
    orr_plan_family *const *families;
} pricer;

static void price_one(void *ctx, size_t i, int thread)
{
    const pricer *p = ctx;
    if (!may_stop(p->search))
        price(p->search, thread, p->families[i]);
}

static void price_all(orr_search *s, orr_plan_family *const *families, uint32_t n)
{
    pricer p = {s, families};
    orr_workers_run(s->workers, n, price_one, &p);
}

/* Prices the next bases, in an order that has all kinds early; their families take the floors over.
 * False: all are priced. */
bool orr_search_price_bases(orr_search *s)
{
    orr_plan_family *chunk[CHUNK];
    uint32_t n = 0;
    uint64_t stride = 1 + (uint64_t)(0.618 * s->bases.n);
    while (s->bases.n > 0 && orr_gcd((int64_t)stride, s->bases.n) > 1)
        stride++;
    for (; n < CHUNK && s->priced_bases < s->bases.n; n++)
        chunk[n] = &s->bases.at[s->priced_bases++ * stride % s->bases.n];
    if (n == 0)
        return false;
    price_all(s, chunk, n);
    for (uint32_t i = 0; i < s->families.n; i++) {
        orr_plan_family *f = &s->families.at[i];
        if (f->refined || !f->basis->refined)
            continue;
        if (!isnan(f->basis->floor_ns))
            set_floor(s, f, f->basis->floor_ns * ROUNDING);
    }
    order_queue(s);
    return true;
}

/* Gives the families at the top floors of their own. */
static void refine_top(orr_search *s)
{
    orr_plan_family *top[AT_ONCE];
    uint32_t n = 0;
    while (n < AT_ONCE && s->n_queue > 0 && !at(s, 0)->refined &&
           !orr_incumbent_dominates(&s->incumbent, at(s, 0)->floor))
        top[n++] = pop(s);
    price_all(s, top, n);
    for (uint32_t i = 0; i < n; i++)
        orr_search_push_family(s, top[i]);
}

orr_plan_family *orr_search_pop_family(orr_search *s)
{
    while (s->n_queue > 0 && !may_stop(s)) {
        const orr_plan_family *top = at(s, 0);
        if (top->taken || top->resumed || (top->refined && isnan(top->floor_ns)))
            (void)pop(s);
        else if (orr_incumbent_dominates(&s->incumbent, top->floor))
            return NULL;
        else if (top->refined)
            return pop(s);
        else
            refine_top(s);
    }
    return NULL;
}

double orr_search_family_bound(const orr_search *s)
{
    double least = INFINITY;
    if (s->n_queue > 0 && at(s, 0)->taken) /* the heap's top was taken out of turn: look at all */
        for (uint32_t i = 0; i < s->n_queue; i++)
            least = at(s, i)->taken ? least : fmin(least, value_of(s, at(s, i)));
    else if (s->n_queue > 0)
        least = value_of(s, at(s, 0));
    return fmax(least, 0);
}
