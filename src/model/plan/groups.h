/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_PLAN_GROUPS_H
#define ORR_MODEL_PLAN_GROUPS_H

#include <orrery/ensemble.h>
#include <orrery/machine.h>
#include <orrery/plan.h>

/* Where ranks stand in a plan, and who shares what with whom. Rank = mixed number of the four base
 * axes, innermost first in the plan's order, and of dp's outer part outside of all of them. */
typedef struct orr_coordinates {
    uint32_t at[ORR_BASE_AXES]; /* by axis: slice, context slice, replica, stage; replicas of an
                                 * inner part come before those of the next                  */
} orr_coordinates;
orr_coordinates orr_plan_coordinates(const orr_plan *plan, uint32_t rank);
uint32_t orr_plan_rank_at(const orr_plan *plan, const orr_coordinates *at);

/* Ranks of the group of `rank` along an axis, in order. `ret`: shape (orr_plan_group_size()). */
void orr_plan_members_of(const orr_plan *plan, orr_axis axis, uint32_t rank, uint32_t *ret);
/* Which member of its group along the axis a rank is. */
uint32_t orr_plan_member(const orr_plan *plan, orr_axis axis, uint32_t rank);
/* All groups of an axis, as a grouping over orr_plan_ranks(). PP groups hold the stages of a
 * pipeline in order. */
orr_status orr_plan_grouping(const orr_plan *plan, orr_axis axis, orr_arena *arena,
                             orr_grouping *ret, orr_error *err) ORR_MUST_CHECK;
/* How the first group of the axis lies on the cluster (all lie alike where degrees divide levels);
 * without listing ranks where it can be told from strides: estimates ask this often. Where units
 * of the cluster are uneven, the group that goes farthest: of the first and last rank of each
 * site. */
orr_status orr_plan_span(const orr_plan *plan, orr_axis axis, const orr_cluster *cluster,
                         orr_span *ret, orr_error *err) ORR_MUST_CHECK;
/* Of a send between stage s and the next; where units are uneven, in the outer part of dp where it
 * goes farthest. */
orr_status orr_plan_stage_span(const orr_plan *plan, uint32_t stage, const orr_cluster *cluster,
                               orr_span *ret, orr_error *err) ORR_MUST_CHECK;

/* Of all ranks, which fill the cluster from its first device on; with local steps of an outer part
 * of dp. */
orr_span orr_plan_world_span(const orr_plan *plan, const orr_cluster *cluster);
/* Ranks of a stage among the first `end`. */
uint32_t orr_plan_stage_ranks(const orr_plan *plan, uint32_t stage, uint32_t end);
/* What sites get: replicas with cross=dp, with cross=pp stages, those of each outer part of dp
 * behind one another. How many there are of it in all. */
uint32_t orr_plan_site_units(const orr_plan *plan);
/* The cluster that a complete plan lies on, rank r being device r: so many of each site's devices
 * as its `sites` say; without, as many as it needs from the first on. INVALID: the cluster has
 * fewer devices, or sites, or none of these; LIMIT; NO_MEMORY. */
orr_status orr_plan_cluster(const orr_plan *plan, const orr_cluster *cluster, orr_arena *arena,
                            const orr_cluster **ret, orr_error *err) ORR_MUST_CHECK;
/* Devices of each site that a complete plan lies on: its units of as many ranks; where it does not
 * say them, sites are filled from the first on. */
void orr_plan_site_devices(const orr_plan *plan, const orr_cluster *cluster,
                           uint32_t ret[ORR_SITES_MAX]);
/* A complete plan that says nothing of sites, with what it comes to on a cluster that it lies on;
 * as it was where sites do not get whole replicas, or stages. */
orr_plan orr_plan_on_sites(const orr_plan *plan, const orr_cluster *cluster);

#endif /* ORR_MODEL_PLAN_GROUPS_H */
