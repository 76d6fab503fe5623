/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/plan/axis_layout.h"
#include "model/plan/plan.h"
#include "estimate/estimate.h"

/* Placement of a plan: where the groups of all axes lie on the cluster, what their transfers cost,
 * and on which devices the stages run. */

/* Key: all that a placement depends on. */
static orr_memo_key key_of(const orr_plan *p)
{
    orr_memo_key key = {{p->tp, p->cp, p->dp, p->pp, p->ep, p->etp, p->zero > 0 ? p->shards : 0, 0,
                         p->schedule == ORR_SCHEDULE_ZB_V,
                         p->graphs | (uint32_t)p->fusion << 8 | (uint32_t)p->cross << 16,
                         p->wire_dp | (uint32_t)p->wire_pp << 8 | (uint32_t)p->wire_cp << 16 |
                             (uint32_t)p->wire_ep << 24,
                         p->dp_algorithm | (uint32_t)p->compress << 8,
                         p->compress > ORR_COMPRESS_NONE ? p->gradients : 0, p->dp_chunks,
                         p->dp_outer, p->local_steps}};
    memcpy(&key.word[7], p->order, sizeof p->order);
    _Static_assert(2 * sizeof p->sites <= (ORR_MEMO_WORDS - 16) * sizeof *key.word,
                   "room for sites");
    memcpy(&key.word[16], p->sites, sizeof p->sites);
    memcpy(&key.word[16 + ORR_PLAN_PARTS / 2], p->site_micro_batches, sizeof p->site_micro_batches);
    return key;
}

/* A placement while it is built. */
typedef struct placing {
    orr_estimator *e;
    const orr_plan *plan;
    const orr_cluster *cluster;
    const orr_job_rates *rates; /* of the cluster */
    orr_placement *place;
} placing;

/* Compares hops between sites with the usual hop. */
static void compare_hops(placing *m)
{
    enum { USUAL_BYTES = 32 << 20, STEPS = 15 };
    orr_placement *place = m->place;
    double ns[ORR_LEVELS_MAX] = {0}, longest = 0;
    for (uint32_t i = 0; i < place->n_hops; i++)
        if (m->cluster->n_sites > 1 && place->hop[i].top > m->cluster->site_level) {
            ns[i] = (double)orr_job_rates_collective(place->prices.transfers[ORR_AXIS_PP],
                                                     &place->hop[i], ORR_COLL_SEND, USUAL_BYTES)
                        .ns;
            longest = fmax(longest, ns[i]);
        }
    for (uint32_t i = 0; i < place->n_hops; i++)
        if (ns[i] > 0)
            place->far_hops |= (uint32_t)fmin(1 + floor(2 * log2(longest / ns[i]) + 0.5), STEPS)
                               << 4 * i;
}

static orr_status find_hops(placing *m, orr_error *err)
{
    const uint32_t p = m->plan->pp;
    orr_placement *place = m->place;
    place->hop_of = orr_arena_array(m->e->arena, uint8_t, p);
    if (place->hop_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < p && p > 1; s++) {
        orr_span span;
        uint32_t id, i = 0;
        ORR_TRY(orr_plan_stage_span(m->plan, s, m->cluster, &span, err));
        ORR_TRY(orr_estimate_span_id(m->e, place->prices.transfers[ORR_AXIS_PP], &span, &id, err));
        while (i < place->n_hops && place->hop_id[i] != id)
            i++;
        if (i == place->n_hops && i < ORR_LEVELS_MAX) {
            place->hop_id[i] = id;
            place->hop[i] = span;
            place->n_hops++;
        }
        place->hop_of[s] = (uint8_t)(i < ORR_LEVELS_MAX ? i : ORR_LEVELS_MAX - 1);
    }
    compare_hops(m);
    return ORR_OK;
}

/* Price of a rendezvous of all ranks, on each kind of device, for it is unknown which is slowest.
 */
static void price_world(placing *m)
{
    const orr_span span = orr_plan_world_span(m->plan, m->cluster);
    orr_placement *place = m->place;
    if (span.n_ranks <= 1)
        return;
    place->world_ns = (double)orr_job_rates_collective(m->rates, &span, ORR_COLL_ALL_REDUCE, 4).ns;
    place->min_world_ns = place->world_ns;
    for (uint32_t i = 0; i < place->n_patterns; i++)
        for (uint32_t k = 0; k < place->patterns[i].n; k++) {
            const orr_estimate_device *on = &m->e->devices[place->patterns[i].device[k]];
            orr_cluster cluster = *m->cluster;
            orr_job_rates rates;
            if (on->device == m->cluster->device)
                continue;
            cluster.device = on->device;
            orr_job_rates_init(&cluster, on->calibration, m->e->options.algorithm, &rates);
            place->min_world_ns =
                fmin(place->min_world_ns,
                     (double)orr_job_rates_collective(&rates, &span, ORR_COLL_ALL_REDUCE, 4).ns);
        }
}

/* --- devices ---------------------------------------------------------------------------------- */

static orr_status device_at(const placing *m, uint32_t rank, uint32_t *ret, orr_error *err)
{
    const orr_cluster *c = m->cluster;
    const orr_device *device = c->n_sites > 1 ? c->sites[orr_cluster_site(c, rank)].device : NULL;
    return orr_estimate_device_of(m->e, device != NULL ? device : c->device, ret, err);
}

static bool is_mixed(const orr_cluster *cluster)
{
    bool mixed = false;
    for (uint32_t s = 1; s < cluster->n_sites; s++)
        mixed |= cluster->sites[s].device != cluster->sites[0].device;
    return mixed;
}

static void use(orr_device_pattern *pattern, uint8_t *of_stage, uint32_t stage, uint32_t device)
{
    uint8_t i = 0;
    while (i < pattern->n && pattern->device[i] != device)
        i++;
    if (i == pattern->n)
        pattern->device[pattern->n++] = (uint8_t)device;
    of_stage[stage] = i;
}

/* Devices of the pipeline of one replica. */
static orr_status pattern_of(const placing *m, uint32_t replica, orr_device_pattern *ret,
                             orr_error *err)
{
    orr_device_pattern pattern = {.n = 0};
    uint8_t *of_stage = orr_arena_array(m->e->arena, uint8_t, m->plan->pp);
    if (of_stage == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < m->plan->pp; s++) {
        uint32_t device;
        ORR_TRY(device_at(m, orr_plan_base_rank(m->plan, s, replica), &device, err));
        use(&pattern, of_stage, s, device);
    }
    if (pattern.n > 1)
        pattern.of_stage = of_stage;
    if (orr_plan_has_site_micro_batches(m->plan))
        pattern.micro_batches = orr_plan_micro_batches_of(m->plan, replica);
    *ret = pattern;
    return ORR_OK;
}

static bool is_same(const orr_device_pattern *a, const orr_device_pattern *b, uint32_t stages)
{
    return a->n == b->n && a->micro_batches == b->micro_batches &&
           memcmp(a->device, b->device, a->n) == 0 &&
           (a->of_stage == NULL || memcmp(a->of_stage, b->of_stage, stages) == 0);
}

/* The first replica of each site, or of each outer part, has a pattern: these are all. */
static orr_status find_patterns(placing *m, orr_error *err)
{
    const bool stages = m->plan->cross == ORR_CROSS_PP;
    const uint32_t room = stages ? orr_plan_degree(m->plan->dp_outer) : m->cluster->n_sites;
    orr_device_pattern *patterns =
        orr_arena_array(m->e->arena, orr_device_pattern, room > 0 ? room : 1);
    const bool mixed = is_mixed(m->cluster) || orr_plan_has_site_micro_batches(m->plan);
    uint32_t n = 0;
    if (patterns == NULL)
        return orr_fail_memory(err);
    if (!mixed) {
        ORR_TRY(pattern_of(m, 0, &patterns[n++], err));
    } else if (!orr_plan_has_sites(m->plan)) {
        return orr_fail(err, ORR_UNSUPPORTED,
                        "on devices of several kinds the plan has to say what each site gets");
    }
    for (uint32_t i = 0, replica = 0; i < room && mixed; i++) {
        ORR_TRY(pattern_of(m, replica, &patterns[n], err));
        uint32_t k = 0;
        while (k < n && !is_same(&patterns[k], &patterns[n], m->plan->pp))
            k++;
        n += k == n;
        replica += stages ? orr_plan_dp_inner(m->plan)
                          : m->cluster->sites[i].devices /
                                (uint32_t)(orr_plan_ranks(m->plan) / m->plan->dp);
    }
    m->place->patterns = patterns;
    m->place->n_patterns = n;
    return ORR_OK;
}

/* --- the placement --------------------------------------------------------------------------- */

/* The part of the cluster on which the plan lies and its rates; without sites they are the same for
 * all plans. */
static orr_status find_cluster(placing *m, orr_error *err)
{
    orr_estimator *e = m->e;
    uint32_t device;
    m->cluster = e->cluster;
    m->rates = &e->rates;
    if (e->cluster->n_sites == 0 && !orr_plan_has_sites(m->plan))
        return ORR_OK;
    orr_job_rates *rates = orr_arena_one(e->scratch, orr_job_rates);
    if (rates == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_plan_cluster(m->plan, e->cluster, e->scratch, &m->cluster, err));
    ORR_TRY(orr_estimate_device_of(e, m->cluster->device, &device, err));
    orr_job_rates_init(m->cluster, e->devices[device].calibration, e->options.algorithm, rates);
    m->rates = rates;
    return ORR_OK;
}

/* Copies rates to outlive their source. */
static orr_status keep_rates(placing *m, orr_error *err)
{
    orr_step_prices *p = &m->place->prices;
    for (int axis = 0; axis < ORR_AXES; axis++) {
        if (p->transfers[axis] != &m->e->rates)
            ORR_TRY(orr_estimate_keep_rates(m->e, p->transfers[axis], &p->transfers[axis], err));
        if (p->sums[axis] != NULL)
            ORR_TRY(orr_estimate_keep_rates(m->e, p->sums[axis], &p->sums[axis], err));
    }
    return ORR_OK;
}

static orr_status make_place(placing *m, orr_error *err)
{
    orr_placement *place = m->place;
    orr_step_prices *prices = &place->prices;
    ORR_TRY(find_cluster(m, err));
    ORR_TRY(orr_step_prices_of(m->plan, m->rates, prices, err));
    ORR_TRY(orr_step_prices_wire(m->plan, m->rates, m->e->scratch, prices, err));
    ORR_TRY(keep_rates(m, err));
    place->stretch = prices->stretch;
    prices->stretch = 1;
    for (int axis = 0; axis < ORR_AXES; axis++) {
        const orr_job_rates *sums = prices->sums[axis];
        ORR_TRY(orr_estimate_span_id(m->e, prices->transfers[axis], &prices->span[axis],
                                     &place->span_id[axis], err));
        place->sums_id[axis] = place->span_id[axis];
        if (sums != NULL)
            ORR_TRY(
                orr_estimate_span_id(m->e, sums, &prices->span[axis], &place->sums_id[axis], err));
    }
    ORR_TRY(find_hops(m, err));
    ORR_TRY(find_patterns(m, err));
    price_world(m);
    prices->kernels = &m->e->devices[place->patterns[0].device[0]].rates;
    return ORR_OK;
}

orr_status orr_estimate_placement(orr_estimator *e, const orr_plan *plan, const orr_placement **ret,
                                  orr_error *err)
{
    const orr_memo_key key = key_of(plan);
    orr_placement *place = orr_memo_find(&e->places, &key);
    if (place == NULL) {
        if (orr_plan_ranks(plan) > e->cluster->n_devices)
            return orr_fail(err, ORR_INVALID, "%llu ranks: cluster '%s' has %u devices",
                            (unsigned long long)orr_plan_ranks(plan), e->cluster->name,
                            e->cluster->n_devices);
        place = orr_arena_one(e->arena, orr_placement);
        if (place == NULL)
            return orr_fail_memory(err);
        placing m = {.e = e, .plan = plan, .place = place};
        const orr_status status = make_place(&m, err);
        orr_arena_reset(e->scratch);
        ORR_TRY(status);
        if (!orr_memo_add(&e->places, &key, place))
            return orr_fail_memory(err);
    }
    *ret = place;
    return ORR_OK;
}

/* --- prices ----------------------------------------------------------------------------------- */

static double price(orr_estimator *e, const orr_job_rates *rates, uint32_t span_id,
                    const orr_span *span, orr_collective collective, int64_t bytes)
{
    const uint64_t what = (uint64_t)bytes << 6 | (uint64_t)collective;
    const uint64_t mixed =
        (what + 1) * UINT64_C(0x9e3779b97f4a7c15) + span_id * UINT64_C(0xc2b2ae3d27d4eb4f);
    orr_memo_price *seat = &e->prices[(mixed ^ mixed >> 29) >> 20 & (ORR_MEMO_PRICES - 1)];
    if (seat->what != what || seat->span_id != span_id)
        *seat = (orr_memo_price){
            what, span_id, (double)orr_job_rates_collective(rates, span, collective, bytes).ns};
    return seat->ns;
}

void orr_estimate_any_reductions(orr_estimator *e, bool any)
{
    e->any_reductions = any;
}

static bool is_reduction(orr_axis axis)
{
    return axis == ORR_AXIS_DP || axis == ORR_AXIS_EDP || axis == ORR_AXIS_GRADIENT ||
           axis == ORR_AXIS_SHARD || axis == ORR_AXIS_REPLICA || axis == ORR_AXIS_TIED ||
           axis == ORR_AXIS_OUTER;
}

/* The least price of all algorithms, and of all numbers of pieces that are powers of two. */
static double least_price(orr_estimator *e, const orr_job_rates *rates, uint32_t span_id,
                          const orr_span *span, orr_collective collective, int64_t bytes)
{
    enum { ANY = 32 }; /* a bit beside the collective: another entry of the cache */
    _Static_assert((int)ORR_COLL_BARRIER < (int)ANY, "a bit beside the collective");
    const uint64_t what = (uint64_t)bytes << 6 | ANY | (uint64_t)collective;
    const uint64_t mixed =
        (what + 1) * UINT64_C(0x9e3779b97f4a7c15) + span_id * UINT64_C(0xc2b2ae3d27d4eb4f);
    orr_memo_price *seat = &e->prices[(mixed ^ mixed >> 29) >> 20 & (ORR_MEMO_PRICES - 1)];
    if (seat->what == what && seat->span_id == span_id)
        return seat->ns;
    orr_job_rates any = *rates;
    double least = (double)orr_job_rates_collective(rates, span, collective, bytes).ns;
    for (uint8_t a = 0; a < ORR_ALGORITHMS; a++) {
        any.algorithm = a;
        any.network.chunks = 1;
        least = fmin(least, (double)orr_job_rates_collective(&any, span, collective, bytes).ns);
    }
    any.algorithm = ORR_ALGORITHM_HIERARCHICAL;
    for (uint32_t chunks = 2; chunks <= ORR_ESTIMATE_CHUNKS; chunks *= 2) {
        any.network.chunks = chunks;
        least = fmin(least, (double)orr_job_rates_collective(&any, span, collective, bytes).ns);
    }
    *seat = (orr_memo_price){what, span_id, least};
    return least;
}

double orr_estimate_transfer(orr_estimator *e, const orr_placement *place, orr_axis axis,
                             orr_collective collective, int64_t bytes)
{
    const orr_step_prices *prices = &place->prices;
    const orr_job_rates *rates = orr_step_rates(prices, axis, collective);
    const uint32_t id = rates == prices->sums[axis] ? place->sums_id[axis] : place->span_id[axis];
    if (prices->members[axis] <= 1 || bytes <= 0)
        return 0;
    const double call_ns = (double)orr_step_call_ns(prices);
    if (!is_reduction(axis))
        return call_ns + price(e, rates, id, &prices->span[axis], collective, bytes);
    const double ns = (e->any_reductions ? least_price : price)(e, rates, id, &prices->span[axis],
                                                                collective, bytes);
    if (e->n_reductions < ORR_ESTIMATE_REDUCTIONS)
        e->reductions[e->n_reductions++] = ns;
    return call_ns + ns;
}

double orr_estimate_hop(orr_estimator *e, const orr_placement *place, uint32_t hop,
                        orr_collective collective, int64_t bytes)
{
    return price(e, place->prices.transfers[ORR_AXIS_PP], place->hop_id[hop], &place->hop[hop],
                 collective, bytes);
}
