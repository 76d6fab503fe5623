/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_PLAN_GROUPS_H
#define ORR_MODEL_PLAN_GROUPS_H

#include <orrery/ensemble.h>
#include <orrery/machine.h>
#include <orrery/plan.h>

/* Coordinates of ranks in the device mesh of a plan, and the process groups along its axes. A
 * rank is a mixed-radix number of the four base axes, innermost first in the plan's order, with
 * the outer part of dp outside of all of them (axis_layout.h has an example). */
typedef struct orr_coordinates {
    uint32_t at[ORR_BASE_AXES]; /* by axis: tensor slice, context slice, replica, stage. Replicas
                                 * are counted through: those of one outer part, then those of
                                 * the next */
} orr_coordinates;
orr_coordinates orr_plan_coordinates(const orr_plan *plan, uint32_t rank);
uint32_t orr_plan_rank_at(const orr_plan *plan, const orr_coordinates *at);

/* Ranks of the process group that `rank` belongs to along an axis, in order. `ret`: shape
 * (orr_plan_group_size()). */
void orr_plan_members_of(const orr_plan *plan, orr_axis axis, uint32_t rank, uint32_t *ret);
/* Index of a rank within its group along the axis. */
uint32_t orr_plan_member(const orr_plan *plan, orr_axis axis, uint32_t rank);
/* All groups of an axis, as a grouping over orr_plan_ranks(). PP groups list the stages of a
 * pipeline in order. */
orr_status orr_plan_grouping(const orr_plan *plan, orr_axis axis, orr_arena *arena,
                             orr_grouping *ret, orr_error *err) ORR_MUST_CHECK;
/* Span of the first group of the axis on the cluster; all groups have the same span where
 * degrees divide levels. It is computed from strides where possible, without listing ranks: cost
 * estimates ask for it often. Where units of the cluster are uneven: the widest span of the
 * groups that contain the first or last rank of a site. */
orr_status orr_plan_span(const orr_plan *plan, orr_axis axis, const orr_cluster *cluster,
                         orr_span *ret, orr_error *err) ORR_MUST_CHECK;
/* Span of a send between stage s and s + 1. Where units are uneven: the widest over the outer
 * parts of dp. */
orr_status orr_plan_stage_span(const orr_plan *plan, uint32_t stage, const orr_cluster *cluster,
                               orr_span *ret, orr_error *err) ORR_MUST_CHECK;

/* Span of all ranks, which fill the cluster from its first device on; with local steps, of one
 * outer part of dp. */
orr_span orr_plan_world_span(const orr_plan *plan, const orr_cluster *cluster);
/* Ranks of a stage among ranks 0 .. end - 1. */
uint32_t orr_plan_stage_ranks(const orr_plan *plan, uint32_t stage, uint32_t end);
/* Number of units that a plan distributes over sites: replicas with cross=dp; stages with
 * cross=pp, where the stages of each outer part of dp count by themselves. */
uint32_t orr_plan_site_units(const orr_plan *plan);
/* The part of a cluster that a complete plan occupies; rank r is device r. With `sites`: that
 * many units from each site; without: the cluster's first devices. INVALID: the cluster has too
 * few devices or sites, or no sites at all; LIMIT; NO_MEMORY. */
orr_status orr_plan_cluster(const orr_plan *plan, const orr_cluster *cluster, orr_arena *arena,
                            const orr_cluster **ret, orr_error *err) ORR_MUST_CHECK;
/* Devices that a complete plan occupies on each site: units times ranks of a unit. A plan
 * without `sites` fills sites in order. */
void orr_plan_site_devices(const orr_plan *plan, const orr_cluster *cluster,
                           uint32_t ret[ORR_SITES_MAX]);
/* A complete plan without `sites`, with those that it amounts to on a cluster; unchanged where a
 * site boundary would cut a replica (or stage). */
orr_plan orr_plan_on_sites(const orr_plan *plan, const orr_cluster *cluster);

#endif /* ORR_MODEL_PLAN_GROUPS_H */
