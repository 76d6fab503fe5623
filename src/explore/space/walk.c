/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/schedule/schedule.h"
#include "explore/space/transfers.h"

/* Enumeration of the plans of a family by nested loops, outermost first: stages (pp), replicas
 * (dp), layout, schedule, sharding, algorithms and transports. Memory options are handed to the
 * leaf, which searches them. Values that do not divide evenly are never generated.
 *
 * At each depth the number of plans below is known before they are visited: the counts of the inner
 * loops are multiplied, and sums over layouts are cached (they depend on the degrees alone). A
 * pruned subtree is therefore counted exactly, and the whole space is counted without visiting its
 * plans. */

enum { SCHEDULES = 96, SHARDINGS = 96, PARTS = 256 };

typedef struct schedule_choice {
    uint8_t schedule;
    uint32_t vp, group;
    orr_memory_options memory_options;
} schedule_choice;
typedef struct sharding_choice {
    uint8_t zero, reshard, gradients;
    uint32_t shards;
} sharding_choice;

typedef struct walker {
    const orr_space *space;
    const orr_plan_walk *walk;
    schedule_choice schedules[SCHEDULES];
    uint32_t n_schedules;
    orr_space_layout layouts[ORR_SPACE_LAYOUTS];
    uint32_t n_layouts;
    sharding_choice shardings[SHARDINGS];
    uint32_t n_shardings;
    orr_plan
        sharding_of; /* the plan for which they were listed: they depend on degrees and order */
    uint32_t parts[PARTS], n_parts, parts_of;
    orr_error *err;
} walker;

/* --- schedules and memory options ------------------------------------------------------------ */

/* At most all layers of a chunk but one are recomputed: recomputing all is another choice of the
 * field. */
bool orr_space_memory_options(const orr_space *s, const orr_plan *p, orr_memory_options *ret)
{
    const orr_schedule_spec spec = orr_plan_schedule(p);
    const uint32_t chunks = orr_schedule_virtual_stages(&spec);
    const uint32_t layers = (s->model->layers + chunks - 1) / chunks;
    orr_memory_options r = {.n_offloads = s->list[ORR_AT_offload].n};
    for (uint32_t i = 0; i < r.n_offloads && i < 4; i++)
        r.offload[i] = (uint8_t)s->list[ORR_AT_offload].at[i];
    if (p->recompute == ORR_RECOMPUTE_BLOCK) {
        const uint32_t least = s->constraints.least[ORR_AT_recompute_layers],
                       most = s->constraints.most[ORR_AT_recompute_layers];
        r.min_recompute = least > 1 ? least : 1;
        r.max_recompute = layers > 0 ? layers - 1 : 0;
        if (most > 0 && most < r.max_recompute)
            r.max_recompute = most;
        if (s->constraints.fixed.recompute_layers > 0)
            r.min_recompute = r.max_recompute = s->constraints.fixed.recompute_layers;
    } else if (!orr_space_allows(&s->constraints, ORR_AT_recompute_layers, 0)) {
        return false;
    }
    *ret = r;
    return r.max_recompute >= r.min_recompute;
}

static void add_schedule(walker *w, const orr_plan *p, uint8_t name, uint32_t vp, uint32_t group)
{
    const orr_space *s = w->space;
    const orr_schedule_spec spec = {.schedule = name,
                                    .stages = p->pp,
                                    .chunks = vp,
                                    .micro_batches = p->micro_batches,
                                    .group = group};
    const uint32_t chunks = orr_schedule_virtual_stages(&spec);
    schedule_choice made = {.schedule = name, .vp = vp, .group = group};
    orr_plan scheduled = *p;
    scheduled.schedule = name;
    scheduled.vp = vp;
    scheduled.group = group;
    if (w->n_schedules == SCHEDULES || orr_schedule_spec_check(&spec, NULL) != ORR_OK ||
        (p->pp > 1 && s->model->layers + 2 < chunks) ||
        !orr_space_allows(&s->constraints, ORR_AT_vp, vp) ||
        !orr_space_allows(&s->constraints, ORR_AT_group, group) ||
        !orr_space_memory_options(s, &scheduled, &made.memory_options))
        return;
    w->schedules[w->n_schedules++] = made;
}

bool orr_space_splits_well(const orr_space *s, uint32_t pp, uint32_t vp)
{
    const uint32_t layers = s->model->layers, chunks = pp * vp;
    return (vp & (vp - 1)) == 0 || layers % chunks == 0 || (layers + 1) % chunks == 0 ||
           (layers + 2) % chunks == 0;
}

static void add_interleaved(walker *w, const orr_plan *p)
{
    enum { MOST_CHUNKS = 32 };
    const orr_space *s = w->space;
    const uint32_t fixed = s->constraints.fixed.vp, m = p->micro_batches;
    const uint32_t best = orr_schedule_smallest_group(p->pp, m), group = s->constraints.fixed.group;
    for (uint32_t vp = 2; vp <= MOST_CHUNKS && p->pp * vp <= s->model->layers + 2; vp++) {
        if (fixed != vp && (fixed != 0 || !orr_space_splits_well(s, p->pp, vp)))
            continue;
        add_schedule(w, p, ORR_SCHEDULE_INTERLEAVED, vp, group != 0 ? group : best);
        if (group == 0 && best != m)
            add_schedule(w, p, ORR_SCHEDULE_INTERLEAVED, vp, m);
    }
}

static void list_schedules(walker *w, const orr_plan *p)
{
    const orr_space_list *names = &w->space->list[ORR_AT_schedule];
    w->n_schedules = 0;
    for (uint32_t i = 0; i < names->n; i++) {
        const uint8_t name = (uint8_t)names->at[i];
        if (name == ORR_SCHEDULE_INTERLEAVED && p->pp > 1)
            add_interleaved(w, p);
        else if (name == ORR_SCHEDULE_ZB_V || name == ORR_SCHEDULE_DUALPIPE)
            add_schedule(w, p, p->pp > 1 ? name : ORR_SCHEDULE_UNKNOWN, 2, 0);
        else if (name == ORR_SCHEDULE_1F1B || p->pp > 1)
            add_schedule(w, p, name, 1, 0);
    }
}

/* --- sharding -------------------------------------------------------------------------------- */

/* Number of devices from the first to the last of `shards` neighbours that hold the same weights.
 */
static uint64_t reach_of(const orr_plan *p, uint32_t shards)
{
    uint64_t reach = 1;
    uint32_t left = shards;
    for (uint32_t i = 0; i < ORR_BASE_AXES && left > 1; i++) {
        const uint32_t axis = p->order[i] - 1U;
        const uint32_t degree = axis == ORR_AXIS_TP   ? p->tp
                                : axis == ORR_AXIS_CP ? p->cp
                                : axis == ORR_AXIS_DP ? p->dp / orr_plan_degree(p->dp_outer)
                                                      : p->pp;
        if (axis != ORR_AXIS_CP && axis != ORR_AXIS_DP) {
            reach *= degree;
            continue;
        }
        reach *= left < degree ? left : degree;
        left = left < degree ? 1 : left / degree;
    }
    return left > 1 ? UINT64_MAX : reach;
}

/* Divisors of the number of ranks, largest first, without the number itself and 1. */
static void list_divisors(walker *w, uint32_t ranks)
{
    if (w->parts_of == ranks)
        return;
    w->parts_of = ranks;
    w->n_parts = 0;
    for (uint32_t copies = 2; copies <= ranks / 2 && w->n_parts < PARTS; copies++)
        if (ranks % copies == 0)
            w->parts[w->n_parts++] = ranks / copies;
}

/* The largest shard group that stays within `devices` neighbours; 0: none, or all. */
static uint32_t shards_within(const walker *w, const orr_plan *p, uint32_t devices)
{
    for (uint32_t i = 0; i < w->n_parts; i++)
        if (reach_of(p, w->parts[i]) <= devices)
            return w->parts[i];
    return 0;
}

static void add_sharding(walker *w, uint8_t zero, uint32_t shards)
{
    const orr_space *s = w->space;
    const orr_space_list *reshard = &s->list[ORR_AT_reshard],
                         *gradients = &s->list[ORR_AT_gradients];
    if (zero > 0 && !orr_space_allows(&s->constraints, ORR_AT_shards, shards))
        return;
    for (uint32_t r = 0; r < (zero == 3 ? reshard->n : 1); r++)
        for (uint32_t g = 0; g < gradients->n && w->n_shardings < SHARDINGS; g++)
            w->shardings[w->n_shardings++] =
                (sharding_choice){.zero = zero,
                                  .shards = shards,
                                  .reshard = zero == 3 ? (uint8_t)reshard->at[r] : 0,
                                  .gradients = (uint8_t)gradients->at[g]};
}

static double rate_of(const orr_level *level)
{
    return orr_fact_or(&level->bytes_per_s, NAN) /
           fmax(orr_fact_or(&level->oversubscription, 1), 1);
}

/* Whether the next level is slower, so that keeping shards within this one may pay off. */
static bool is_next_slower(const orr_cluster *c, uint32_t level)
{
    return level + 1 >= c->n_levels ||
           !(rate_of(&c->levels[level + 1]) >= rate_of(&c->levels[level]));
}

static void add_shards(orr_space_list *list, uint32_t shards)
{
    bool known = shards == 0 || list->n >= sizeof list->at / sizeof *list->at;
    for (uint32_t i = 0; i < list->n && !known; i++)
        known = list->at[i] == shards;
    if (!known)
        list->at[list->n++] = shards;
}

enum { MOST_COPIES = 32 };

static void add_shards_of(walker *w, const orr_plan *p, orr_space_list *ret)
{
    const orr_cluster *c = w->space->cluster;
    const uint32_t ranks = orr_plan_synchronous_replicas(p) * p->cp,
                   fixed = w->space->constraints.fixed.shards;
    if (fixed != 0) {
        if (ranks % fixed == 0)
            add_shards(ret, fixed);
        return;
    }
    list_divisors(w, ranks);
    add_shards(ret, ranks);
    for (uint32_t l = 0; l < c->n_levels; l++)
        if (is_next_slower(c, l))
            add_shards(ret, shards_within(w, p, c->levels[l].devices));
    /* With failures, several copies of the states allow the others to go on without one. */
    for (uint32_t copies = 2; w->space->fails && copies <= MOST_COPIES; copies *= 2)
        if (ranks % copies == 0)
            add_shards(ret, ranks / copies);
}

/* Parts that train alone (local steps) share their states among themselves, others among all. */
static void list_shards(walker *w, const orr_plan *p, orr_space_list *ret)
{
    const orr_space_list *steps = &w->space->list[ORR_AT_local_steps];
    *ret = (orr_space_list){0};
    for (uint32_t i = 0; i < steps->n; i++) {
        orr_plan trained = *p;
        trained.local_steps = steps->at[i];
        if (p->dp_outer > 1 || i == 0)
            add_shards_of(w, &trained, ret);
    }
}

static void list_shardings(walker *w, const orr_plan *p)
{
    const orr_space *s = w->space;
    const orr_space_list *zeros = &s->list[ORR_AT_zero];
    orr_space_list shards;
    const bool same = w->n_shardings > 0 &&
                      memcmp(w->sharding_of.order, p->order, sizeof p->order) == 0 &&
                      w->sharding_of.dp == p->dp && w->sharding_of.pp == p->pp &&
                      w->sharding_of.dp_outer == p->dp_outer;
    if (same)
        return;
    w->sharding_of = *p;
    w->n_shardings = 0;
    list_shards(w, p, &shards);
    for (uint32_t z = 0; z < zeros->n; z++) {
        const bool alone = p->dp * p->cp == 1, sharded = zeros->at[z] > 0;
        if (!sharded && orr_space_allows(&s->constraints, ORR_AT_shards, 0))
            add_sharding(w, 0, 0);
        for (uint32_t i = 0; i < shards.n && sharded && (!alone || zeros->n == 1); i++)
            add_sharding(w, (uint8_t)zeros->at[z], shards.at[i]);
    }
}

static orr_plan with_sharding(const orr_plan *plan, const sharding_choice *sharding)
{
    orr_plan p = *plan;
    p.zero = sharding->zero;
    p.shards = sharding->shards;
    p.reshard = sharding->reshard;
    p.gradients = sharding->gradients;
    return p;
}

/* Number of choices for transfers, summed over the ways of sharding. */
static double count_network(const walker *w, const orr_plan *p, const orr_space_layout *layout)
{
    double n = 0, by_zero[4];
    bool known[4] = {false};
    for (uint32_t i = 0; i < w->n_shardings; i++) {
        const uint32_t zero = w->shardings[i].zero;
        const orr_plan sharded = with_sharding(p, &w->shardings[i]);
        if (!known[zero])
            by_zero[zero] = orr_transfer_count(w->space, &sharded, layout->dp_crosses);
        known[zero] = true;
        n += by_zero[zero];
    }
    return n;
}

/* The plan as the framework runs it: its defaults where the walk leaves fields open, and transfers
 * that computation waits for where they cannot travel beside it (a plan that is never faster). */
static orr_plan with_framework(const orr_space *s, const orr_plan *plan)
{
    const orr_framework_rules *rules = s->constraints.rules;
    if (rules == NULL)
        return *plan;
    orr_plan filled = *plan;
    filled.zero = plan->zero == 0 ? ORR_ZERO_NONE : plan->zero;
    filled = orr_framework_fill(rules, s->model, &filled);
    filled.zero = plan->zero;
    for (uint32_t k = 0; k < 4; k++) {
        orr_plan p = filled;
        p.overlap_pp = k % 2 != 0 ? ORR_SWITCH_OFF : p.overlap_pp;
        p.overlap_dp = k / 2 != 0 ? ORR_SWITCH_OFF : p.overlap_dp;
        if (orr_space_runs(s, &p))
            return p;
    }
    return filled;
}

static orr_status visit_leaf(const walker *w, const orr_plan *plan,
                             const orr_memory_options *memory_options)
{
    const orr_plan p = with_framework(w->space, plan);
    return w->walk->leaf(w->walk->ctx, &p, memory_options, w->err);
}

static orr_status walk_network(const walker *w, orr_plan *p, const orr_space_layout *layout,
                               const orr_memory_options *memory_options, uint32_t at)
{
    if (at == ORR_TRANSFER_FIELDS)
        return visit_leaf(w, p, memory_options);
    const orr_space_list *list = &w->space->list[ORR_TRANSFER_FIELD[at]];
    const bool late = w->walk->default_transports && at >= ORR_TRANSFER_WALKED;
    const uint32_t n =
        late ? 1 : orr_transfer_values(w->space, p, layout->dp_crosses, ORR_TRANSFER_FIELD[at]);
    for (uint32_t i = 0; i < n; i++) {
        if (!late || at < ORR_TRANSFER_REDUCTIONS || list->n == 1)
            orr_transfer_put(w->space, p, ORR_TRANSFER_FIELD[at], i);
        ORR_TRY(walk_network(w, p, layout, memory_options, at + 1));
    }
    return ORR_OK;
}

/* --- whether a plan is one of a walk -----------------------------------------------------------
 */

static bool has_schedule(const walker *w, const orr_plan *p)
{
    for (uint32_t i = 0; i < w->n_schedules; i++) {
        const schedule_choice *c = &w->schedules[i];
        const bool interleaved = c->schedule == ORR_SCHEDULE_INTERLEAVED;
        if (c->schedule == p->schedule && c->vp == p->vp && (!interleaved || c->group == p->group))
            return p->recompute_layers >= c->memory_options.min_recompute &&
                   p->recompute_layers <= c->memory_options.max_recompute;
    }
    return false;
}

static bool has_sharding(const walker *w, const orr_plan *p)
{
    for (uint32_t i = 0; i < w->n_shardings; i++) {
        const sharding_choice *c = &w->shardings[i];
        if (c->zero == p->zero && (c->zero == 0 || c->shards == p->shards) &&
            (c->zero < 3 || c->reshard == p->reshard))
            return true;
    }
    return false;
}

bool orr_space_has_run(const orr_space *space, const orr_plan *plan)
{
    walker w = {.space = space};
    const orr_plan p = orr_plan_with_defaults(plan);
    list_schedules(&w, &p);
    list_shardings(&w, &p);
    return has_schedule(&w, &p) && has_sharding(&w, &p) && orr_transfer_is_listed(space, &p);
}

/* --- nested loops ---------------------------------------------------------------------------- */

static bool enters(const walker *w, orr_walk_depth depth, const orr_plan *p, double n)
{
    return n > 0 && (w->walk->enter == NULL || w->walk->enter(w->walk->ctx, depth, p, n));
}

static double count_memory_options(const walker *w)
{
    double n = 0;
    for (uint32_t i = 0; i < w->n_schedules; i++)
        n += orr_memory_options_count(&w->schedules[i].memory_options);
    return n;
}

static orr_status walk_schedule(walker *w, const orr_plan *placed, const orr_space_layout *layout,
                                const schedule_choice *schedule)
{
    orr_plan p = *placed;
    p.schedule = schedule->schedule;
    p.vp = schedule->vp;
    p.group = schedule->group;
    const double n =
        count_network(w, &p, layout) * orr_memory_options_count(&schedule->memory_options);
    if (w->walk->leaf == NULL || !enters(w, ORR_WALK_SCHEDULE, &p, n))
        return ORR_OK;
    for (uint32_t i = 0; i < w->n_shardings; i++) {
        orr_plan sharded = with_sharding(&p, &w->shardings[i]);
        ORR_TRY(walk_network(w, &sharded, layout, &schedule->memory_options, 0));
    }
    return ORR_OK;
}

static orr_status walk_layouts(walker *w, const orr_plan *p)
{
    const double memory_options = count_memory_options(w);
    for (uint32_t l = 0; l < w->n_layouts; l++) {
        const orr_plan placed = orr_plan_with_layout(p, &w->layouts[l]);
        list_shardings(w, &placed);
        const double n = count_network(w, &placed, &w->layouts[l]) * memory_options;
        if (!enters(w, ORR_WALK_LAYOUT, &placed, n))
            continue;
        for (uint32_t i = 0; i < w->n_schedules; i++)
            ORR_TRY(walk_schedule(w, &placed, &w->layouts[l], &w->schedules[i]));
    }
    return ORR_OK;
}

/* Number of choices of sharding, algorithms and transports, summed over the layouts. */
static double count_layouts(walker *w, const orr_plan *p)
{
    double n = 0;
    w->n_layouts = orr_space_layouts(w->space, p, w->layouts);
    for (uint32_t l = 0; l < w->n_layouts; l++) {
        const orr_plan placed = orr_plan_with_layout(p, &w->layouts[l]);
        list_shardings(w, &placed);
        n += count_network(w, &placed, &w->layouts[l]);
    }
    return n;
}

/* count_layouts(), cached: it depends on the degrees alone, and on those of experts only in the
 * transports that they may choose. */
static double cached_layouts(walker *w, const orr_plan *degrees)
{
    const double transports = orr_transfer_values(w->space, degrees, false, ORR_AT_wire_ep);
    orr_plan without = *degrees, *p = &without;
    if ((uint64_t)p->dp * p->cp > 1) /* else experts alone may be reduced */
        without.ep = without.etp = 1;
    const orr_memo_key key = {{p->tp, p->cp, p->pp, p->dp, p->ep, p->etp}};
    if (w->walk->uncounted)
        return 1;
    if (w->walk->counts == NULL)
        return transports * count_layouts(w, p);
    double *known = orr_memo_find(w->walk->counts, &key);
    if (known != NULL)
        return transports * *known;
    const double n = count_layouts(w, p);
    known = orr_arena_one(w->walk->arena, double);
    if (known != NULL) {
        *known = n;
        (void)orr_memo_add(w->walk->counts, &key, known); /* on failure it is counted again */
    }
    return transports * n;
}

/* Drops the schedules whose bound prunes them in every layout. */
static void prune_schedules(walker *w, const orr_plan *degrees, double layouts)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_schedules; i++) {
        const schedule_choice *run = &w->schedules[i];
        orr_plan p = *degrees;
        p.schedule = run->schedule;
        p.vp = run->vp;
        p.group = run->group;
        if (enters(w, ORR_WALK_ANYWHERE, &p,
                   layouts * orr_memory_options_count(&run->memory_options)))
            w->schedules[n++] = *run;
    }
    w->n_schedules = n;
}

static bool is_valid(const orr_space *s, const orr_plan *p)
{
    const uint64_t of_stage = (uint64_t)p->tp * p->cp * p->dp, ranks = of_stage * p->pp;
    return s->common.batch % ((uint64_t)p->dp * p->micro_batch) == 0 && ranks >= s->least_devices &&
           ranks <= s->most_devices && of_stage % ((uint64_t)p->ep * p->etp) == 0 &&
           orr_space_allows(&s->constraints, ORR_AT_dp, p->dp) &&
           orr_space_allows(&s->constraints, ORR_AT_pp, p->pp);
}

/* Largest dp first, for plans on the most devices tend to be best. */
static orr_status walk_replicas(walker *w, const orr_plan *stages)
{
    const orr_space *s = w->space;
    for (uint32_t i = 0; i < s->n_parts; i++) {
        orr_plan p = *stages;
        p.dp = s->parts[i];
        if (!is_valid(s, &p))
            continue;
        p.micro_batches = s->common.batch / (p.dp * p.micro_batch);
        if (!orr_space_allows(&s->constraints, ORR_AT_micro_batches, p.micro_batches))
            continue;
        list_schedules(w, &p);
        const double layouts = w->n_schedules > 0 ? cached_layouts(w, &p) : 0;
        if (!enters(w, ORR_WALK_DEGREES, &p, layouts * count_memory_options(w)))
            continue;
        prune_schedules(w, &p, layouts);
        if (w->n_schedules == 0)
            continue;
        w->n_layouts = orr_space_layouts(s, &p, w->layouts);
        ORR_TRY(walk_layouts(w, &p));
    }
    return ORR_OK;
}

orr_status orr_space_walk(const orr_space *space, const orr_plan *family, const orr_plan_walk *walk,
                          orr_error *err)
{
    walker w = {.space = space, .walk = walk, .err = err};
    for (uint32_t i = 0; i < space->stages.n; i++) {
        orr_plan p = orr_plan_override(&space->common, family);
        p.pp = space->stages.at[i];
        p.overlap_dp = (uint8_t)space->list[ORR_AT_overlap_dp].at[0];
        p.overlap_pp = (uint8_t)space->list[ORR_AT_overlap_pp].at[0];
        ORR_TRY(walk_replicas(&w, &p));
    }
    return ORR_OK;
}

/* --- size of the space ----------------------------------------------------------------------- */

static bool add_count(void *ctx, orr_walk_depth depth, const orr_plan *plan, double n)
{
    (void)plan;
    *(double *)ctx += depth == ORR_WALK_DEGREES ? n : 0;
    return false;
}

/* Whether two families have equally many plans: equal fields as far as the loops depend on them. */
static bool have_equal_counts(const orr_plan *a, const orr_plan *b)
{
    return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep && a->etp == b->etp &&
           a->micro_batch == b->micro_batch &&
           (a->recompute == ORR_RECOMPUTE_BLOCK) == (b->recompute == ORR_RECOMPUTE_BLOCK);
}

double orr_space_count(const orr_space *space, const orr_families *families)
{
    double sum = 0, block = 0, other = 0;
    orr_memo counts = {0};
    orr_arena *arena = orr_arena_new(0, 0); /* NULL: counted anew each time */
    const orr_plan *block_of = NULL, *other_of = NULL;
    for (uint32_t i = 0; i < families->n; i++) {
        const orr_plan *plan = &families->at[i].plan;
        const bool is_block = plan->recompute == ORR_RECOMPUTE_BLOCK;
        const orr_plan **of = is_block ? &block_of : &other_of;
        double *n = is_block ? &block : &other;
        if (*of == NULL || !have_equal_counts(*of, plan)) {
            const orr_plan_walk walk = {.enter = add_count,
                                        .ctx = n,
                                        .counts = arena != NULL ? &counts : NULL,
                                        .arena = arena};
            *n = 0;
            *of = plan;
            if (orr_space_walk(space, plan, &walk, NULL) != ORR_OK)
                break;
        }
        sum += *n;
    }
    orr_memo_done(&counts);
    orr_arena_free(arena);
    return sum * space->dominated;
}
