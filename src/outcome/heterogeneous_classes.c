/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/heterogeneous.h"

#include <string.h>

#include "model/plan/axis_layout.h"
#include "model/plan/plan.h"

/* Finds whether ranks of a kind are equivalent, and their classes, by stage and site instead of by
 * rank.
 *
 * The variant of a rank is the device of its site, and the micro-batches of its replicas. With
 * cross=dp the site follows from the replica; with cross=pp from the stage and the outer part of
 * dp. Kinds (stage, variant) form an equitable partition if, along every axis, all groups that
 * contain a variant have the same set of variants. That is checked group by group over the distinct
 * groups of an axis; a variant that is in two different sets ends the search, and the caller then
 * numbers all ranks. */

typedef struct class_finder {
    const orr_outcome_job *job;
    const orr_plan *plan;
    uint32_t n_variants, stages;
    uint8_t variant_of_site[ORR_SITES_MAX];
    uint16_t *group_variants;
    uint32_t *pipeline, *world;
} class_finder;

static const orr_rank_variant cluster_variant = {.device = NULL};

/* Micro-batches of a site's replicas; 0: the plan's. */
static uint32_t site_micro_batches(const orr_plan *plan, uint32_t first_rank)
{
    if (!orr_plan_has_site_micro_batches(plan))
        return 0;
    const uint32_t replica = orr_plan_coordinates(plan, first_rank).at[ORR_AXIS_DP];
    const uint32_t n = orr_plan_micro_batches_of(plan, replica);
    return n != plan->micro_batches ? n : 0;
}

uint32_t orr_site_variants(const orr_plan *plan, const orr_cluster *cluster, orr_rank_variant *ret,
                           uint8_t *ret_of_site)
{
    uint32_t n = 1, first_rank = 0;
    ret[0] = cluster_variant;
    for (int axis = 0; axis < ORR_AXES; axis++)
        ret[0].bandwidth_frac[axis] = 1;
    memset(ret_of_site, 0, ORR_SITES_MAX);
    for (uint32_t i = 0; i < cluster->n_sites; first_rank += cluster->sites[i++].devices) {
        const orr_device *on = cluster->sites[i].device;
        const orr_device *device = on == cluster->device ? NULL : on;
        const uint32_t micro_batches = site_micro_batches(plan, first_rank);
        uint32_t k = 0;
        while (k < n && (ret[k].device != device || ret[k].micro_batches != micro_batches))
            k++;
        if (k == n) {
            ret[n] = ret[0];
            ret[n].device = device;
            ret[n++].micro_batches = micro_batches;
        }
        ret_of_site[i] = (uint8_t)k;
    }
    return n;
}

static uint32_t variant_at(const class_finder *f, uint32_t rank)
{
    return f->variant_of_site[orr_cluster_site(f->job->cluster, rank)];
}

static size_t kind_row(const class_finder *f, uint32_t stage, uint32_t variant)
{
    return (size_t)stage * f->n_variants + variant;
}

static uint16_t *group_variants_of(const class_finder *f, orr_axis axis, uint32_t stage,
                                   uint32_t variant)
{
    return &f->group_variants[((size_t)axis * f->stages + stage) * f->n_variants + variant];
}

/* --- groups within a stage ------------------------------------------------------------------- */

/* Records that the variants are together in a group. False: one of them is in a group with another
 * set. */
static bool record_group(class_finder *f, orr_axis axis, uint32_t stage, uint16_t variants)
{
    for (uint32_t v = 0; v < f->n_variants; v++) {
        uint16_t *group_variants = group_variants_of(f, axis, stage, v);
        if (!(variants >> v & 1))
            continue;
        if (*group_variants != 0 && *group_variants != variants)
            return false;
        *group_variants = variants;
    }
    return true;
}

/* Visits all groups of the axis that contain index 0 at rank `base`. */
static bool record_groups(class_finder *f, orr_axis axis, const orr_axis_layout *l, uint32_t stage,
                          uint32_t base)
{
    for (uint32_t first = 0; first < l->n; first++) {
        uint16_t variants = 0;
        if (first / l->stride % l->size != 0)
            continue;
        for (uint32_t i = 0; i < l->size; i++)
            variants |= (uint16_t)(1U << variant_at(
                                       f, orr_axis_layout_rank(l, base, first + i * l->stride)));
        if (!record_group(f, axis, stage, variants))
            return false;
    }
    return true;
}

static void set_alone(class_finder *f, orr_axis axis)
{
    for (uint32_t s = 0; s < f->stages; s++)
        for (uint32_t v = 0; v < f->n_variants; v++)
            *group_variants_of(f, axis, s, v) = (uint16_t)(1U << v);
}

/* The groups of a variant depend on its stage only where stages cross sites. */
static bool check_axis(class_finder *f, orr_axis axis)
{
    const orr_axis_layout l = orr_plan_axis_layout(f->plan, axis);
    const orr_axis_bases bases = orr_plan_axis_bases(f->plan, axis);
    const bool by_stage = f->plan->cross == ORR_CROSS_PP;
    if (f->n_variants == 1 || l.size == 1 || bases.n == 0) {
        set_alone(f, axis);
        return true;
    }
    for (uint32_t s = 0; s < (by_stage ? f->stages : 1); s++)
        for (uint32_t i = 0; i < bases.n; i++)
            if (!record_groups(f, axis, &l, s, orr_plan_base_rank(f->plan, s, i * bases.step)))
                return false;
    for (uint32_t s = 1; s < f->stages && !by_stage; s++)
        memcpy(group_variants_of(f, axis, s, 0), group_variants_of(f, axis, 0, 0),
               f->n_variants * sizeof *f->group_variants);
    return true;
}

static bool check_axes(class_finder *f)
{
    static const uint8_t axes[] = {ORR_AXIS_TP,    ORR_AXIS_CP,      ORR_AXIS_EP,
                                   ORR_AXIS_ETP,   ORR_AXIS_EDP,     ORR_AXIS_GRADIENT,
                                   ORR_AXIS_SHARD, ORR_AXIS_REPLICA, ORR_AXIS_OUTER};
    for (size_t i = 0; i < sizeof axes; i++)
        if (!check_axis(f, (orr_axis)axes[i]))
            return false;
    return true;
}

/* Transfers that are merged with computation need groups of a single variant. */
static bool have_uniform_groups(const class_finder *f)
{
    static const uint8_t axes[] = {ORR_AXIS_TP, ORR_AXIS_CP, ORR_AXIS_EP, ORR_AXIS_ETP};
    for (size_t i = 0; i < sizeof axes; i++)
        for (uint32_t s = 0; s < f->stages; s++)
            for (uint32_t v = 0; v < f->n_variants; v++) {
                const uint16_t group_variants = *group_variants_of(f, (orr_axis)axes[i], s, v);
                if (group_variants != 0 && group_variants != 1U << v)
                    return false;
            }
    return true;
}

/* --- pipelines, and the rendezvous of all ranks ---------------------------------------------- */

/* Numbers the kinds of one pipeline by the variant of its first stage. Pipelines with the same
 * first variant have to be equal. */
static bool number_kinds(class_finder *f, uint32_t *number, uint32_t part)
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

/* Whether each number stands for one sort of pipeline. */
static bool is_unambiguous(const class_finder *f, const uint32_t *number)
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

static bool check_pipelines(class_finder *f)
{
    memset(f->pipeline, 0xff, f->stages * f->n_variants * sizeof *f->pipeline);
    if (f->plan->cross == ORR_CROSS_PP) {
        for (uint32_t part = 0; part < orr_plan_degree(f->plan->dp_outer); part++)
            if (!number_kinds(f, f->pipeline, part))
                return false;
        return is_unambiguous(f, f->pipeline);
    }
    for (uint32_t s = 0; s < f->stages; s++)
        for (uint32_t v = 0; v < f->n_variants; v++)
            f->pipeline[kind_row(f, s, v)] = v;
    return true;
}

/* The variants of the replicas of an outer part of dp. */
static uint16_t variants_of_part(const class_finder *f, uint32_t part)
{
    const uint32_t inner = orr_plan_dp_inner(f->plan);
    uint16_t variants = 0;
    for (uint32_t d = part * inner; d < (part + 1) * inner; d++)
        variants |= (uint16_t)(1U << variant_at(f, orr_plan_base_rank(f->plan, 0, d)));
    return variants;
}

/* With local steps, only the ranks of an outer part of dp meet in every step. */
static bool check_rendezvous(class_finder *f)
{
    const bool apart = f->plan->local_steps > 1 && f->n_variants > 1;
    uint16_t groups[ORR_SITE_VARIANTS_MAX] = {0};
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
            if (groups[v] != 0 && groups[v] != variants)
                return false;
            groups[v] = variants;
            for (uint32_t s = 0; s < f->stages; s++)
                f->world[kind_row(f, s, v)] = (uint32_t)__builtin_ctz(variants);
        }
    }
    return true;
}

/* --- kinds ----------------------------------------------------------------------------------- */

static uint32_t first_from(uint32_t rank, uint32_t stride, uint32_t stages, uint32_t stage)
{
    const uint32_t round = stride * stages;
    uint32_t first = rank / round * round + stage * stride;
    if (first + stride <= rank)
        first += round;
    return first > rank ? first : rank;
}

/* Counts the ranks on [rank, end), which are on one site, for each stage. */
static void count_site(const class_finder *f, uint32_t rank, uint32_t end, orr_rank_kind *kinds)
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
static orr_status list_kinds(const class_finder *f, orr_arena *arena, orr_rank_kinds *ret,
                             orr_error *err)
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

static orr_status store_kinds(const class_finder *f, const orr_rank_variant *variants,
                              orr_arena *arena, orr_rank_kinds *ret, orr_error *err)
{
    orr_rank_classes *equivalent = orr_arena_one(arena, orr_rank_classes);
    orr_rank_variant *copy = orr_arena_array(arena, orr_rank_variant, f->n_variants);
    orr_rank_kinds kinds = {.n_variants = f->n_variants};
    if (equivalent == NULL || copy == NULL)
        return orr_fail_memory(err);
    memcpy(copy, variants, f->n_variants * sizeof *copy);
    *equivalent = (orr_rank_classes){f->n_variants, {0}, f->group_variants, f->pipeline, f->world};
    memcpy(equivalent->variant_of_site, f->variant_of_site, sizeof equivalent->variant_of_site);
    ORR_TRY(list_kinds(f, arena, &kinds, err));
    kinds.variants = copy;
    kinds.classes = equivalent;
    *ret = kinds;
    return ORR_OK;
}

orr_status orr_rank_classes_find(const orr_outcome_job *job, orr_arena *arena, orr_rank_kinds *ret,
                                 bool *ret_equivalent, orr_error *err)
{
    orr_rank_variant variants[ORR_SITE_VARIANTS_MAX];
    class_finder f = {.job = job, .plan = &job->on_sites, .stages = job->plan.pp};
    f.n_variants = orr_site_variants(f.plan, job->cluster, variants, f.variant_of_site);
    const size_t kinds = (size_t)f.stages * f.n_variants;
    *ret_equivalent = false;
    if (f.n_variants > 1 && !orr_plan_has_sites(f.plan))
        return ORR_OK;
    f.group_variants = orr_arena_array(arena, uint16_t, ORR_AXES * kinds);
    f.pipeline = orr_arena_array(arena, uint32_t, kinds);
    f.world = orr_arena_array(arena, uint32_t, kinds);
    if (f.group_variants == NULL || f.pipeline == NULL || f.world == NULL)
        return orr_fail_memory(err);
    if (!check_axes(&f) || !have_uniform_groups(&f) || !check_pipelines(&f) ||
        !check_rendezvous(&f))
        return ORR_OK;
    *ret_equivalent = true;
    return store_kinds(&f, variants, arena, ret, err);
}
