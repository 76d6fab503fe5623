/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/heterogeneous.h"

#include <string.h>

#include "model/plan/axis_layout.h"
#include "model/plan/plan.h"

/* Kinds by stage and site, without looking at every rank. What a rank runs on depends on its
 * replica with cross=dp, on its stage and its outer part of dp with cross=pp. */

typedef struct finder {
    const orr_outcome_job *job;
    const orr_plan *plan;
    uint32_t n_variants, stages;
    uint8_t variant_of_site[ORR_SITES_MAX];
    uint16_t *meets;
    uint32_t *pipeline, *world;
} finder;

static const orr_rank_variant usual = {.device = NULL};

uint32_t orr_site_variants(const orr_cluster *cluster, orr_rank_variant *ret, uint8_t *ret_of_site)
{
    uint32_t n = 1;
    ret[0] = usual;
    for (int axis = 0; axis < ORR_AXES; axis++)
        ret[0].bandwidth_frac[axis] = 1;
    memset(ret_of_site, 0, ORR_SITES_MAX);
    for (uint32_t i = 0; i < cluster->n_sites; i++) {
        const orr_device *device = cluster->sites[i].device;
        uint32_t k = 1;
        if (device == NULL || device == cluster->device)
            continue;
        while (k < n && ret[k].device != device)
            k++;
        if (k == n) {
            ret[n] = ret[0];
            ret[n++].device = device;
        }
        ret_of_site[i] = (uint8_t)k;
    }
    return n;
}

static uint32_t variant_at(const finder *f, uint32_t rank)
{
    return f->variant_of_site[orr_cluster_site(f->job->cluster, rank)];
}

static size_t kind_row(const finder *f, uint32_t stage, uint32_t variant)
{
    return (size_t)stage * f->n_variants + variant;
}

static uint16_t *meets_of(const finder *f, orr_axis axis, uint32_t stage, uint32_t variant)
{
    return &f->meets[((size_t)axis * f->stages + stage) * f->n_variants + variant];
}

/* --- groups within a stage ------------------------------------------------------------------- */

/* Those variants are together in a group. False: one of them is with others in another group. */
static bool take_group(finder *f, orr_axis axis, uint32_t stage, uint16_t variants)
{
    for (uint32_t v = 0; v < f->n_variants; v++) {
        uint16_t *meets = meets_of(f, axis, stage, v);
        if (!(variants >> v & 1))
            continue;
        if (*meets != 0 && *meets != variants)
            return false;
        *meets = variants;
    }
    return true;
}

/* All groups of the axis with the rank of index 0 at `base`. */
static bool take_groups(finder *f, orr_axis axis, const orr_axis_layout *l, uint32_t stage,
                        uint32_t base)
{
    for (uint32_t first = 0; first < l->n; first++) {
        uint16_t variants = 0;
        if (first / l->stride % l->size != 0)
            continue;
        for (uint32_t i = 0; i < l->size; i++)
            variants |= (uint16_t)(1U << variant_at(
                                       f, orr_axis_layout_rank(l, base, first + i * l->stride)));
        if (!take_group(f, axis, stage, variants))
            return false;
    }
    return true;
}

static void alone(finder *f, orr_axis axis)
{
    for (uint32_t s = 0; s < f->stages; s++)
        for (uint32_t v = 0; v < f->n_variants; v++)
            *meets_of(f, axis, s, v) = (uint16_t)(1U << v);
}

/* Which groups a variant is in depends on its stage only where stages cross. */
static bool take_axis(finder *f, orr_axis axis)
{
    const orr_axis_layout l = orr_plan_axis_layout(f->plan, axis);
    const orr_axis_bases bases = orr_plan_axis_bases(f->plan, axis);
    const bool by_stage = f->plan->cross == ORR_CROSS_PP;
    if (f->n_variants == 1 || l.size == 1 || bases.n == 0) {
        alone(f, axis);
        return true;
    }
    for (uint32_t s = 0; s < (by_stage ? f->stages : 1); s++)
        for (uint32_t i = 0; i < bases.n; i++)
            if (!take_groups(f, axis, &l, s, orr_plan_base_rank(f->plan, s, i * bases.step)))
                return false;
    for (uint32_t s = 1; s < f->stages && !by_stage; s++)
        memcpy(meets_of(f, axis, s, 0), meets_of(f, axis, 0, 0), f->n_variants * sizeof *f->meets);
    return true;
}

static bool take_axes(finder *f)
{
    static const uint8_t axes[] = {ORR_AXIS_TP,    ORR_AXIS_CP,      ORR_AXIS_EP,
                                   ORR_AXIS_ETP,   ORR_AXIS_EDP,     ORR_AXIS_GRADIENT,
                                   ORR_AXIS_SHARD, ORR_AXIS_REPLICA, ORR_AXIS_OUTER};
    for (size_t i = 0; i < sizeof axes; i++)
        if (!take_axis(f, (orr_axis)axes[i]))
            return false;
    return true;
}

/* Transfers that are merged with computation need members that go at one pace. */
static bool at_one_pace(const finder *f)
{
    static const uint8_t axes[] = {ORR_AXIS_TP, ORR_AXIS_CP, ORR_AXIS_EP, ORR_AXIS_ETP};
    for (size_t i = 0; i < sizeof axes; i++)
        for (uint32_t s = 0; s < f->stages; s++)
            for (uint32_t v = 0; v < f->n_variants; v++) {
                const uint16_t meets = *meets_of(f, (orr_axis)axes[i], s, v);
                if (meets != 0 && meets != 1U << v)
                    return false;
            }
    return true;
}

/* --- pipelines, and all ranks ---------------------------------------------------------------- */

/* A number for the kinds that a group of all stages has; those of the same first kind are alike, or
 * not at all. */
static bool number_kinds(finder *f, uint32_t *number, uint32_t part)
{
    const uint32_t inner = orr_plan_dp_inner(f->plan);
    const uint32_t id = variant_at(f, orr_plan_base_rank(f->plan, 0, part * inner));
    for (uint32_t s = 0; s < f->stages; s++) {
        const uint32_t v = variant_at(f, orr_plan_base_rank(f->plan, s, part * inner));
        uint32_t *at = &number[kind_row(f, s, v)];
        if (*at != ORR_NONE && *at != id)
            return false;
        *at = id;
    }
    return true;
}

/* One number must not stand for two sorts of pipelines. */
static bool one_of_each(const finder *f, const uint32_t *number)
{
    for (uint32_t id = 0; id < f->n_variants; id++)
        for (uint32_t s = 0; s < f->stages; s++) {
            uint32_t n = 0;
            for (uint32_t v = 0; v < f->n_variants; v++)
                n += number[kind_row(f, s, v)] == id;
            if (n > 1)
                return false;
        }
    return true;
}

static bool take_pipelines(finder *f)
{
    memset(f->pipeline, 0xff, f->stages * f->n_variants * sizeof *f->pipeline);
    if (f->plan->cross == ORR_CROSS_PP) {
        for (uint32_t part = 0; part < orr_plan_degree(f->plan->dp_outer); part++)
            if (!number_kinds(f, f->pipeline, part))
                return false;
        return one_of_each(f, f->pipeline);
    }
    for (uint32_t s = 0; s < f->stages; s++)
        for (uint32_t v = 0; v < f->n_variants; v++)
            f->pipeline[kind_row(f, s, v)] = v;
    return true;
}

/* The variants of the replicas of an outer part of dp. */
static uint16_t variants_of_part(const finder *f, uint32_t part)
{
    const uint32_t inner = orr_plan_dp_inner(f->plan);
    uint16_t variants = 0;
    for (uint32_t d = part * inner; d < (part + 1) * inner; d++)
        variants |= (uint16_t)(1U << variant_at(f, orr_plan_base_rank(f->plan, 0, d)));
    return variants;
}

/* With local steps not all ranks meet in every step, but those of an outer part of dp. */
static bool take_world(finder *f)
{
    const bool apart = f->plan->local_steps > 1 && f->n_variants > 1;
    uint16_t met[ORR_SITE_VARIANTS_MAX] = {0};
    memset(f->world, 0, f->stages * f->n_variants * sizeof *f->world);
    if (apart && f->plan->cross == ORR_CROSS_PP) {
        memcpy(f->world, f->pipeline, f->stages * f->n_variants * sizeof *f->world);
        return true;
    }
    for (uint32_t part = 0; apart && part < orr_plan_degree(f->plan->dp_outer); part++) {
        const uint16_t variants = variants_of_part(f, part);
        for (uint32_t v = 0; v < f->n_variants; v++) {
            if (!(variants >> v & 1))
                continue;
            if (met[v] != 0 && met[v] != variants)
                return false;
            met[v] = variants;
            for (uint32_t s = 0; s < f->stages; s++)
                f->world[kind_row(f, s, v)] = (uint32_t)__builtin_ctz(variants);
        }
    }
    return true;
}

/* --- the kinds that there are ---------------------------------------------------------------- */

static uint32_t first_from(uint32_t rank, uint32_t stride, uint32_t stages, uint32_t stage)
{
    const uint32_t round = stride * stages;
    uint32_t first = rank / round * round + stage * stride;
    if (first + stride <= rank)
        first += round;
    return first > rank ? first : rank;
}

/* Of each stage the ranks on [rank, end), which are of one site. */
static void count_site(const finder *f, uint32_t rank, uint32_t end, orr_rank_kind *kinds)
{
    const uint32_t stride = orr_plan_axis_layout(f->plan, ORR_AXIS_PP).digits[0].stride;
    const uint32_t variant = variant_at(f, rank);
    for (uint32_t s = 0; s < f->stages; s++) {
        orr_rank_kind *kind = &kinds[(size_t)variant * f->stages + s];
        const uint32_t n =
            orr_plan_stage_ranks(f->plan, s, end) - orr_plan_stage_ranks(f->plan, s, rank);
        if (n == 0)
            continue;
        if (kind->n_ranks == 0)
            *kind = (orr_rank_kind){s, variant, first_from(rank, stride, f->stages, s), 0};
        kind->n_ranks += n;
    }
}

static uint32_t site_end(const orr_cluster *cluster, uint32_t rank, uint32_t n_ranks)
{
    const uint32_t end =
        cluster->n_sites > 1 ? orr_cluster_unit(cluster, cluster->site_level, rank).end : n_ranks;
    return end < n_ranks ? end : n_ranks;
}

/* In the order of variant, then of stage. */
static orr_status list_kinds(const finder *f, orr_arena *arena, orr_rank_kinds *ret, orr_error *err)
{
    const size_t room = (size_t)f->stages * f->n_variants;
    orr_rank_kind *kinds = orr_arena_array(arena, orr_rank_kind, room);
    if (kinds == NULL)
        return orr_fail_memory(err);
    for (uint32_t rank = 0; rank < f->job->n_ranks;) {
        const uint32_t end = site_end(f->job->cluster, rank, f->job->n_ranks);
        count_site(f, rank, end, kinds);
        rank = end;
    }
    for (size_t i = 0; i < room; i++)
        if (kinds[i].n_ranks > 0)
            kinds[ret->n++] = kinds[i];
    ret->kinds = kinds;
    return ORR_OK;
}

static orr_status keep(const finder *f, const orr_rank_variant *variants, orr_arena *arena,
                       orr_rank_kinds *ret, orr_error *err)
{
    orr_rank_classes *alike = orr_arena_one(arena, orr_rank_classes);
    orr_rank_variant *copy = orr_arena_array(arena, orr_rank_variant, f->n_variants);
    orr_rank_kinds kinds = {.n_variants = f->n_variants};
    if (alike == NULL || copy == NULL)
        return orr_fail_memory(err);
    memcpy(copy, variants, f->n_variants * sizeof *copy);
    *alike = (orr_rank_classes){f->n_variants, {0}, f->meets, f->pipeline, f->world};
    memcpy(alike->variant_of_site, f->variant_of_site, sizeof alike->variant_of_site);
    ORR_TRY(list_kinds(f, arena, &kinds, err));
    kinds.variants = copy;
    kinds.alike = alike;
    *ret = kinds;
    return ORR_OK;
}

orr_status orr_rank_classes_find(const orr_outcome_job *job, orr_arena *arena, orr_rank_kinds *ret,
                                 bool *ret_alike, orr_error *err)
{
    orr_rank_variant variants[ORR_SITE_VARIANTS_MAX];
    finder f = {.job = job, .plan = &job->on_sites, .stages = job->plan.pp};
    f.n_variants = orr_site_variants(job->cluster, variants, f.variant_of_site);
    const size_t kinds = (size_t)f.stages * f.n_variants;
    *ret_alike = false;
    if (f.n_variants > 1 && !orr_plan_has_sites(f.plan))
        return ORR_OK;
    f.meets = orr_arena_array(arena, uint16_t, ORR_AXES * kinds);
    f.pipeline = orr_arena_array(arena, uint32_t, kinds);
    f.world = orr_arena_array(arena, uint32_t, kinds);
    if (f.meets == NULL || f.pipeline == NULL || f.world == NULL)
        return orr_fail_memory(err);
    if (!take_axes(&f) || !at_one_pace(&f) || !take_pipelines(&f) || !take_world(&f))
        return ORR_OK;
    *ret_alike = true;
    return keep(&f, variants, arena, ret, err);
}
