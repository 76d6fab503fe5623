/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/plan/groups.h"
#include "model/plan/plan.h"
#include "report/explore/summary.h"

/* The plan's sites are those of the cluster that are used, in their order. */
static void match(const orr_cluster *placed, orr_explore_site *sites, uint32_t n)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        const bool same = next < placed->n_sites &&
                          strcmp(placed->sites[next].name, sites[i].name) == 0 &&
                          strcmp(placed->sites[next].region, sites[i].region) == 0;
        sites[i].number = same ? next++ : ORR_NONE;
    }
}

/* Marks of what was seen, a bit each. */
static bool mark(uint64_t *marks, uint32_t i)
{
    const uint64_t bit = 1ull << i % 64;
    const bool fresh = (marks[i / 64] & bit) == 0;
    marks[i / 64] |= bit;
    return fresh;
}

static void see(orr_explore_site *site, uint32_t stage, bool new_stage, bool new_replica)
{
    site->used++;
    site->stages += new_stage;
    site->replicas += new_replica;
    if (site->first_stage == ORR_NONE || stage < site->first_stage)
        site->first_stage = stage;
    if (site->last_stage == ORR_NONE || stage > site->last_stage)
        site->last_stage = stage;
}

/* Rank r is device r of the outcome's cluster. */
static bool count(const orr_outcome *o, orr_explore_site *sites, uint32_t n, orr_arena *arena)
{
    const size_t stage_words = orr_plan_degree(o->plan.pp) / 64 + 1;
    const size_t replica_words = orr_plan_degree(o->plan.dp) / 64 + 1;
    uint64_t *stages = orr_arena_array(arena, uint64_t, stage_words * n);
    uint64_t *replicas = orr_arena_array(arena, uint64_t, replica_words * n);
    uint32_t of_number[ORR_SITES_MAX] = {0};
    if (stages == NULL || replicas == NULL)
        return false;
    memset(stages, 0, stage_words * n * sizeof *stages);
    memset(replicas, 0, replica_words * n * sizeof *replicas);
    for (uint32_t i = 0; i < n; i++) {
        sites[i].stage_marks = stages + i * stage_words;
        if (sites[i].number < ORR_SITES_MAX)
            of_number[sites[i].number] = i;
    }
    for (uint32_t rank = 0; rank < o->n_ranks; rank++) {
        const uint32_t number = o->cluster->n_sites > 0 ? orr_cluster_site(o->cluster, rank) : 0;
        const uint32_t i = number < ORR_SITES_MAX ? of_number[number] : 0;
        const orr_coordinates at = orr_plan_coordinates(&o->plan, rank);
        see(&sites[i], at.at[ORR_AXIS_PP], mark(stages + i * stage_words, at.at[ORR_AXIS_PP]),
            mark(replicas + i * replica_words, at.at[ORR_AXIS_DP]));
    }
    return true;
}

const orr_explore_site *orr_explore_sites(const orr_cluster *c, const orr_outcome *o,
                                          orr_arena *arena, uint32_t *ret_n)
{
    const uint32_t n = c->n_sites > 0 ? c->n_sites : 1;
    orr_explore_site *sites = orr_arena_array(arena, orr_explore_site, n);
    if (sites == NULL)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        sites[i] = (orr_explore_site){
            .name = c->n_sites > 0 ? c->sites[i].name : c->name,
            .region = c->n_sites > 0 ? c->sites[i].region : "",
            .device = c->n_sites > 0 ? c->sites[i].device->name : c->device->name,
            .devices = c->n_sites > 0 ? c->sites[i].devices : c->n_devices,
            .first_stage = ORR_NONE,
            .last_stage = ORR_NONE,
            .number = c->n_sites > 0 ? ORR_NONE : 0,
        };
    if (c->n_sites > 0 && o->cluster->n_sites > 0)
        match(o->cluster, sites, n);
    else
        sites[0].number = 0; /* what has no sites any more is in the first */
    *ret_n = n;
    return count(o, sites, n, arena) ? sites : NULL;
}
