/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/heterogeneous.h"

#include <math.h>
#include <string.h>

#include "base/array.h"

/* Heterogeneous ranks: stragglers, other devices, slow links.
 *
 * A straggler keeps its kind and gets a slowdown in ppm, which the simulation applies to its device
 * work. A device other than the cluster's, or a link at a share of its bandwidth, makes a variant:
 * what differs is the price of tasks, and so the graph. A kind is a stage and a variant; ranks of
 * equal kind share one graph, so a job of 100,000 ranks with three slow hosts has a handful of
 * graphs. A slow link concerns the groups that reach out of its unit, and each of their axes alone.
 *
 * Transfers within a slot (TP, CP, EP) are merged with its computation unless operators are
 * simulated one by one. Members of such a group would wait for the slowest in every layer, so all
 * of them get its device and slowdown.
 *
 * Without stragglers and slow links on request, one rank of a kind may stand for all:
 * heterogeneous_classes.c finds out, without looking at every rank. */

enum { MILLION = 1000000 };

/* Time of all modules on a device. */
typedef struct device_time {
    const orr_device *device; /* NULL: the cluster's */
    double ns;
} device_time;

typedef struct kind_finder {
    const orr_outcome_job *job;
    const orr_job_options *options;
    orr_arena *arena;
    uint32_t *variant_of;   /* shape (R) */
    uint32_t *slowdown_ppm; /* shape (R); NULL: none */
    orr_array(orr_rank_variant) variants;
    orr_array(orr_rank_kind) kinds;
    orr_array(device_time) device_times;
    orr_error *err;
} kind_finder;

static orr_status check_heterogeneous(const orr_heterogeneous_ranks *heterogeneous,
                                      uint32_t n_ranks, orr_error *err)
{
    if (heterogeneous->count == 0 || heterogeneous->first >= n_ranks ||
        heterogeneous->count > n_ranks - heterogeneous->first)
        return orr_fail(err, ORR_INVALID,
                        "heterogeneous ranks %u, %u of them: there are ranks 0 to %u",
                        heterogeneous->first, heterogeneous->count, n_ranks - 1);
    if (heterogeneous->slowdown != 0 &&
        !(heterogeneous->slowdown >= 1 && heterogeneous->slowdown <= 1000))
        return orr_fail(err, ORR_INVALID, "a slowdown of %g: must be from 1 to 1000",
                        heterogeneous->slowdown);
    return ORR_OK;
}

/* Finds the unit of a level by number. False: it does not exist; *ret_n is how many there are. */
static bool find_unit(const orr_cluster *cluster, const orr_slow_link *slow, orr_device_range *ret,
                      uint32_t *ret_n)
{
    *ret_n = 0;
    for (uint32_t device = 0; device < cluster->n_devices; device = ret->end) {
        *ret = orr_cluster_unit(cluster, slow->level, device);
        if ((*ret_n)++ == slow->unit)
            return true;
    }
    return false;
}

static orr_status check_slow(const orr_slow_link *slow, const orr_cluster *cluster,
                             orr_device_range *ret, orr_error *err)
{
    uint32_t units;
    if (slow->level >= cluster->n_levels)
        return orr_fail(err, ORR_INVALID, "a slow link of level %u: '%s' has %u levels here",
                        slow->level, cluster->name, cluster->n_levels);
    if (!find_unit(cluster, slow, ret, &units))
        return orr_fail(err, ORR_INVALID, "a slow link of %s %u: this job has %u",
                        cluster->levels[slow->level].name, slow->unit, units);
    if (!(slow->bandwidth_frac >= 0.001 && slow->bandwidth_frac <= 1))
        return orr_fail(err, ORR_INVALID,
                        "a share of %g of a link's bandwidth: must be from 0.001 to 1",
                        slow->bandwidth_frac);
    return ORR_OK;
}

/* Index of the variant, which is added if new; ORR_NONE: out of memory. */
static uint32_t variant(kind_finder *f, const orr_rank_variant *wanted)
{
    for (uint32_t i = 0; i < f->variants.n; i++) {
        const orr_rank_variant *known = &f->variants.at[i];
        if (known->device == wanted->device && known->micro_batches == wanted->micro_batches &&
            memcmp(known->bandwidth_frac, wanted->bandwidth_frac, sizeof known->bandwidth_frac) ==
                0 &&
            memcmp(known->from_level, wanted->from_level, sizeof known->from_level) == 0)
            return i;
    }
    return orr_array_push(&f->variants, *wanted) ? (uint32_t)f->variants.n - 1 : ORR_NONE;
}

static orr_status change(kind_finder *f, uint32_t rank, const orr_rank_variant *to)
{
    f->variant_of[rank] = variant(f, to);
    return f->variant_of[rank] != ORR_NONE ? ORR_OK : orr_fail_memory(f->err);
}

static orr_status need_slowdowns(kind_finder *f)
{
    if (f->slowdown_ppm != NULL)
        return ORR_OK;
    f->slowdown_ppm = orr_arena_array(f->arena, uint32_t, f->job->n_ranks);
    if (f->slowdown_ppm == NULL)
        return orr_fail_memory(f->err);
    for (uint32_t r = 0; r < f->job->n_ranks; r++)
        f->slowdown_ppm[r] = MILLION;
    return ORR_OK;
}

static orr_status add_heterogeneous(kind_finder *f, const orr_heterogeneous_ranks *heterogeneous)
{
    ORR_TRY(check_heterogeneous(heterogeneous, f->job->n_ranks, f->err));
    if (heterogeneous->slowdown > 1) {
        ORR_TRY(need_slowdowns(f));
        for (uint32_t r = heterogeneous->first; r < heterogeneous->first + heterogeneous->count;
             r++)
            f->slowdown_ppm[r] = (uint32_t)llround(heterogeneous->slowdown * MILLION);
    }
    for (uint32_t r = heterogeneous->first;
         heterogeneous->device != NULL && r < heterogeneous->first + heterogeneous->count; r++) {
        orr_rank_variant as = f->variants.at[f->variant_of[r]];
        as.device = heterogeneous->device;
        ORR_TRY(change(f, r, &as));
    }
    return ORR_OK;
}

/* A group that reaches out of the slow unit is as slow as the link. */
static orr_status slow_down_group(kind_finder *f, const uint32_t *members, uint32_t n,
                                  uint32_t axis, const orr_slow_link *slow, orr_device_range unit)
{
    bool inside = false, outside = false;
    for (uint32_t i = 0; i < n; i++) {
        const bool is_in = members[i] >= unit.first && members[i] < unit.end;
        inside |= is_in;
        outside |= !is_in;
    }
    for (uint32_t i = 0; i < n && inside && outside; i++) {
        orr_rank_variant as = f->variants.at[f->variant_of[members[i]]];
        const float frac = (float)slow->bandwidth_frac;
        if (frac >= as.bandwidth_frac[axis])
            continue;
        as.bandwidth_frac[axis] = frac;
        as.from_level[axis] = slow->level + 1;
        ORR_TRY(change(f, members[i], &as));
    }
    return ORR_OK;
}

static orr_status slow_down_grouping(kind_finder *f, const orr_grouping *grouping, uint32_t axis,
                                     const orr_slow_link *slow, orr_device_range unit)
{
    for (uint32_t g = 0; g < grouping->n_groups; g++) {
        const uint32_t *members = grouping->members + grouping->first[g];
        const uint32_t n = grouping->first[g + 1] - grouping->first[g];
        if (axis != ORR_AXIS_PP) {
            ORR_TRY(slow_down_group(f, members, n, axis, slow, unit));
            continue;
        }
        for (uint32_t i = 0; i < n; i++) { /* neighbours in the ring */
            const uint32_t pair[2] = {members[i], members[(i + 1) % n]};
            ORR_TRY(slow_down_group(f, pair, 2, axis, slow, unit));
        }
    }
    return ORR_OK;
}

static orr_status add_slow_link(kind_finder *f, const orr_slow_link *slow)
{
    orr_device_range unit;
    ORR_TRY(check_slow(slow, f->job->cluster, &unit, f->err));
    for (uint32_t axis = 0; axis < ORR_AXES; axis++) {
        orr_grouping grouping;
        if (f->job->prices.members[axis] <= 1)
            continue;
        const orr_arena_mark mark = orr_arena_get_mark(f->arena);
        ORR_TRY(orr_outcome_grouping(f->job, axis, f->arena, &grouping, f->err));
        ORR_TRY(slow_down_grouping(f, &grouping, axis, slow, unit));
        orr_arena_rewind(f->arena, mark);
    }
    return ORR_OK;
}

static orr_status price_all(const kind_finder *f, const orr_device *device, orr_step_job *ret)
{
    orr_rank_variant as = {.device = device};
    for (int axis = 0; axis < ORR_AXES; axis++)
        as.bandwidth_frac[axis] = 1;
    return orr_rank_variant_step(f->job, &as, f->arena, ret, f->err);
}

/* Compares devices by simulated time, not by peak FLOP/s: small kernels may take longer on the
 * device with the higher peak. */
static orr_status device_time_of(kind_finder *f, const orr_device *device, double *ret_ns)
{
    device_time made = {.device = device};
    orr_step_job step;
    for (size_t i = 0; i < f->device_times.n; i++)
        if (f->device_times.at[i].device == device) {
            *ret_ns = f->device_times.at[i].ns;
            return ORR_OK;
        }
    const orr_arena_mark mark = orr_arena_get_mark(f->arena);
    ORR_TRY(price_all(f, device, &step));
    for (uint32_t i = 0; i < f->job->row.n; i++)
        for (int phase = ORR_SLOT_FORWARD; phase <= ORR_SLOT_BACKWARD; phase++)
            made.ns += (double)step.costs[f->job->row.module_of[i]].phase[phase].compute_ns;
    orr_arena_rewind(f->arena, mark);
    if (!orr_array_push(&f->device_times, made))
        return orr_fail_memory(f->err);
    *ret_ns = made.ns;
    return ORR_OK;
}

/* Gives all members the device and the slowdown of the slowest. */
static orr_status synchronise(kind_finder *f, const uint32_t *members, uint32_t n)
{
    const orr_device *slowest = NULL;
    uint32_t most = MILLION;
    double slowest_ns = -1, ns;
    for (uint32_t i = 0; i < n; i++) {
        const orr_device *device = f->variants.at[f->variant_of[members[i]]].device;
        ORR_TRY(device_time_of(f, device, &ns));
        if (ns > slowest_ns) {
            slowest_ns = ns;
            slowest = device;
        }
        if (f->slowdown_ppm != NULL && f->slowdown_ppm[members[i]] > most)
            most = f->slowdown_ppm[members[i]];
    }
    for (uint32_t i = 0; i < n; i++) {
        orr_rank_variant as = f->variants.at[f->variant_of[members[i]]];
        if (f->slowdown_ppm != NULL)
            f->slowdown_ppm[members[i]] = most;
        if (as.device == slowest)
            continue;
        as.device = slowest;
        ORR_TRY(change(f, members[i], &as));
    }
    return ORR_OK;
}

/* Whether the axis has transfers within micro-batches. */
static bool has_transfers(const orr_outcome_job *job, uint32_t axis)
{
    for (uint32_t i = 0; i < job->row.n_modules; i++)
        for (int phase = 0; phase < ORR_SLOT_PHASES; phase++)
            if (job->step.costs[i].phase[phase].busy_ns[axis] > 0)
                return true;
    return false;
}

/* Synchronises the groups whose transfers are merged with computation. */
static orr_status synchronise_groups(kind_finder *f)
{
    static const uint8_t axes[] = {ORR_AXIS_TP, ORR_AXIS_CP, ORR_AXIS_EP, ORR_AXIS_ETP};
    for (uint32_t i = 0; i < sizeof axes; i++) {
        orr_grouping grouping;
        if (!has_transfers(f->job, axes[i]))
            continue;
        const orr_arena_mark mark = orr_arena_get_mark(f->arena);
        ORR_TRY(orr_outcome_grouping(f->job, axes[i], f->arena, &grouping, f->err));
        for (uint32_t g = 0; g < grouping.n_groups; g++)
            ORR_TRY(synchronise(f, grouping.members + grouping.first[g],
                                grouping.first[g + 1] - grouping.first[g]));
        orr_arena_rewind(f->arena, mark);
    }
    return ORR_OK;
}

/* Ranks of a site have its device. */
static orr_status add_site_devices(kind_finder *f)
{
    orr_rank_variant variants[ORR_SITE_VARIANTS_MAX];
    uint8_t of_site[ORR_SITES_MAX];
    const uint32_t n = orr_site_variants(&f->job->plan, f->job->cluster, variants, of_site);
    for (uint32_t i = 0; i < n; i++)
        if (!orr_array_push(&f->variants, variants[i]))
            return orr_fail_memory(f->err);
    for (uint32_t r = 0; r < f->job->n_ranks && n > 1; r++)
        f->variant_of[r] = of_site[orr_cluster_site(f->job->cluster, r)];
    return ORR_OK;
}

static orr_status find_variants(kind_finder *f)
{
    const orr_job_options *o = f->options;
    ORR_TRY(add_site_devices(f));
    const bool heterogeneous = o->n_heterogeneous > 0 || f->variants.n > 1;
    for (uint32_t i = 0; i < o->n_heterogeneous; i++)
        ORR_TRY(add_heterogeneous(f, &o->heterogeneous[i]));
    for (uint32_t i = 0; i < o->n_slow; i++)
        ORR_TRY(add_slow_link(f, &o->slow[i]));
    return heterogeneous && o->detail != ORR_DETAIL_OPERATOR ? synchronise_groups(f) : ORR_OK;
}

/* Numbers the kinds by variant, then stage, so that the most frequent variant comes first. */
static orr_status number_kinds(kind_finder *f, uint32_t *kind_of_rank)
{
    const uint32_t p = f->job->plan.pp, v = (uint32_t)f->variants.n;
    uint32_t *number = orr_arena_array(f->arena, uint32_t, (size_t)p * v);
    if (number == NULL)
        return orr_fail_memory(f->err);
    memset(number, 0xff, (size_t)p * v * sizeof *number);
    for (uint32_t r = 0; r < f->job->n_ranks; r++) {
        const uint32_t stage = orr_plan_coordinates(&f->job->plan, r).at[ORR_AXIS_PP];
        uint32_t *at = &number[(size_t)f->variant_of[r] * p + stage];
        if (*at == ORR_NONE)
            *at = r; /* its first rank */
    }
    for (uint32_t i = 0; i < p * v; i++) {
        if (number[i] == ORR_NONE)
            continue;
        const orr_rank_kind kind = {i % p, i / p, number[i], 0};
        number[i] = (uint32_t)f->kinds.n;
        if (!orr_array_push(&f->kinds, kind))
            return orr_fail_memory(f->err);
    }
    for (uint32_t r = 0; r < f->job->n_ranks; r++) {
        const uint32_t stage = orr_plan_coordinates(&f->job->plan, r).at[ORR_AXIS_PP];
        kind_of_rank[r] = number[(size_t)f->variant_of[r] * p + stage];
        f->kinds.at[kind_of_rank[r]].n_ranks++;
    }
    return ORR_OK;
}

static orr_status store_kinds(kind_finder *f, const uint32_t *kind_of_rank, orr_rank_kinds *ret)
{
    orr_rank_kind *kinds = orr_arena_array(f->arena, orr_rank_kind, f->kinds.n);
    orr_rank_variant *variants = orr_arena_array(f->arena, orr_rank_variant, f->variants.n);
    if (kinds == NULL || variants == NULL)
        return orr_fail_memory(f->err);
    memcpy(kinds, f->kinds.at, f->kinds.n * sizeof *kinds);
    memcpy(variants, f->variants.at, f->variants.n * sizeof *variants);
    *ret = (orr_rank_kinds){.kinds = kinds,
                            .variants = variants,
                            .n = (uint32_t)f->kinds.n,
                            .n_variants = (uint32_t)f->variants.n,
                            .kind_of_rank = kind_of_rank,
                            .slowdown_ppm = f->slowdown_ppm};
    return ORR_OK;
}

uint32_t orr_rank_kind_of(const orr_outcome_job *job, uint32_t rank)
{
    const orr_rank_kinds *kinds = job->kinds;
    uint32_t kind = 0;
    if (kinds->kind_of_rank != NULL)
        return kinds->kind_of_rank[rank];
    const uint32_t stage = orr_plan_coordinates(&job->plan, rank).at[ORR_AXIS_PP];
    const uint32_t site = orr_cluster_site(job->cluster, rank);
    while (kinds->kinds[kind].stage != stage ||
           kinds->kinds[kind].variant != kinds->classes->variant_of_site[site])
        kind++;
    return kind;
}

/* Whether ranks of a kind can be equivalent whatever their positions: not if some have slowdowns or
 * slow links, or if flows share links, where the simulator finds classes by position. */
static bool may_be_equivalent(const orr_job_options *options)
{
    return options->fold && options->n_heterogeneous == 0 && options->n_slow == 0 &&
           options->network != ORR_NETWORK_FLOWS;
}

orr_status orr_rank_kinds_find(const orr_outcome_job *job, const orr_job_options *options,
                               orr_arena *arena, orr_rank_kinds *ret, orr_error *err)
{
    kind_finder f = {.job = job, .options = options, .arena = arena, .err = err};
    bool equivalent = false;
    if (may_be_equivalent(options))
        ORR_TRY(orr_rank_classes_find(job, arena, ret, &equivalent, err));
    if (equivalent)
        return ORR_OK;
    uint32_t *kind_of_rank = orr_arena_array(arena, uint32_t, job->n_ranks);
    orr_status status = ORR_OK;
    f.variant_of = orr_arena_array(arena, uint32_t, job->n_ranks);
    if (kind_of_rank == NULL || f.variant_of == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, find_variants(&f));
    ORR_TRY_OUT(status, number_kinds(&f, kind_of_rank));
    status = store_kinds(&f, kind_of_rank, ret);
out:
    orr_array_done(&f.variants);
    orr_array_done(&f.kinds);
    orr_array_done(&f.device_times);
    return status;
}
