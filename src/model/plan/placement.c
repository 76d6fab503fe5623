/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan/groups.h"
#include "model/plan/plan.h"

/* Placement of a plan on sites. A plan gives each site a number of units, which are whole
 * replicas (cross=dp) or whole stages (cross=pp); from these follow the devices of each site
 * that the plan uses. The rule that keeps all else simple: rank r is always device r of the
 * cluster that is cut out so. */

/* Ranks of one unit: a replica, or a stage. */
static uint32_t ranks_of_unit(const orr_plan *plan)
{
    const uint32_t units = orr_plan_site_units(plan);
    return (uint32_t)(orr_plan_ranks(plan) / units);
}

static orr_status check_sites(const orr_plan *plan, const orr_cluster *cluster, orr_error *err)
{
    if (cluster->n_sites == 0)
        return orr_fail(err, ORR_INVALID, "a plan over sites: cluster '%s' has none",
                        cluster->name);
    for (uint32_t i = cluster->n_sites; i < ORR_PLAN_PARTS; i++)
        if (plan->sites[i] > 0)
            return orr_fail(err, ORR_INVALID, "a plan over %u sites: cluster '%s' has %u", i + 1,
                            cluster->name, cluster->n_sites);
    return ORR_OK;
}

void orr_plan_site_devices(const orr_plan *plan, const orr_cluster *cluster,
                           uint32_t ret[ORR_SITES_MAX])
{
    const bool said = orr_plan_has_sites(plan);
    const uint32_t unit = said ? ranks_of_unit(plan) : 0;
    uint32_t left = (uint32_t)orr_plan_ranks(plan);
    for (uint32_t i = 0; i < ORR_SITES_MAX; i++) {
        const uint32_t room = i < cluster->n_sites ? cluster->sites[i].devices : 0;
        ret[i] = said ? plan->sites[i] * unit : left < room ? left : room;
        left -= said ? 0 : ret[i];
    }
}

static orr_status place(const orr_plan *plan, const orr_cluster *cluster, orr_arena *arena,
                        const orr_cluster **ret, orr_error *err)
{
    const uint32_t ranks = ranks_of_unit(plan);
    uint32_t devices[ORR_SITES_MAX];
    ORR_TRY(check_sites(plan, cluster, err));
    for (uint32_t i = 0; i < cluster->n_sites; i++) {
        const orr_site *site = &cluster->sites[i];
        if ((uint64_t)plan->sites[i] * ranks > site->devices)
            return orr_fail(err, ORR_INVALID,
                            "%u %s of %u ranks each on site %u%s%s: it has %u devices",
                            plan->sites[i], plan->cross == ORR_CROSS_PP ? "stages" : "replicas",
                            ranks, i + 1, site->name[0] ? ", " : "", site->name, site->devices);
    }
    orr_plan_site_devices(plan, cluster, devices);
    return orr_cluster_select_sites(cluster, devices, arena, ret, err);
}

orr_status orr_plan_cluster(const orr_plan *plan, const orr_cluster *cluster, orr_arena *arena,
                            const orr_cluster **ret, orr_error *err)
{
    const uint64_t ranks = orr_plan_ranks(plan);
    if (ranks > UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "%llu ranks: at most 2^24", (unsigned long long)ranks);
    return orr_plan_has_sites(plan) ? place(plan, cluster, arena, ret, err)
                                    : orr_cluster_resize(cluster, (uint32_t)ranks, arena, ret, err);
}

/* Units on each site. False: a boundary between sites cuts a unit. */
static bool count_units(const orr_cluster *cluster, uint32_t n_ranks, uint32_t unit,
                        uint16_t sites[ORR_PLAN_PARTS])
{
    for (uint32_t first = 0, i = 0; first < n_ranks; i++) {
        uint32_t end = orr_cluster_unit(cluster, cluster->site_level, first).end;
        end = end < n_ranks ? end : n_ranks;
        if (i == ORR_PLAN_PARTS || end % unit != 0 || (end - first) / unit > UINT16_MAX)
            return false;
        sites[i] = (uint16_t)((end - first) / unit);
        first = end;
    }
    return true;
}

orr_plan orr_plan_on_sites(const orr_plan *plan, const orr_cluster *cluster)
{
    orr_plan on = *plan;
    if (cluster->n_sites < 2 || orr_plan_has_sites(plan))
        return on;
    on.cross = plan->order[ORR_BASE_AXES - 1] == ORR_AXIS_DP + 1   ? ORR_CROSS_DP
               : plan->order[ORR_BASE_AXES - 1] == ORR_AXIS_PP + 1 ? ORR_CROSS_PP
                                                                   : ORR_CROSS_UNKNOWN;
    const bool whole =
        on.cross != ORR_CROSS_UNKNOWN &&
        count_units(cluster, (uint32_t)orr_plan_ranks(plan), ranks_of_unit(&on), on.sites);
    return whole ? on : *plan;
}
