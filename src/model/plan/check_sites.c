/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan/check.h"

#include <stdio.h>

#include <orrery/cost.h>

#include "model/plan/groups.h"
#include "model/plan/plan.h"

/* Checks of what a plan says about sites, about the outer part of dp, and about stages of
 * unequal depth. */

/* Is the axis the outermost one of the order, explicitly or by default? */
static bool is_outermost(const orr_plan *p, uint32_t axis)
{
    return !orr_plan_has_order(p) || p->order[ORR_BASE_AXES - 1] == axis + 1;
}

/* A list of numbers as text, "5-3", without trailing zeros. */
typedef struct list_text {
    char text[ORR_PLAN_PARTS * 6 + 1];
} list_text;
static list_text listed(const uint16_t *parts)
{
    list_text list = {""};
    uint32_t n = ORR_PLAN_PARTS, len = 0;
    while (n > 0 && parts[n - 1] == 0)
        n--;
    for (uint32_t i = 0; i < n; i++)
        len += (uint32_t)snprintf(list.text + len, sizeof list.text - len, "%s%u", i > 0 ? "-" : "",
                                  parts[i]);
    return list;
}

/* Where dp is not the outermost axis, replicas of one site are not contiguous ranks unless they
 * are whole outer parts. */
static orr_status check_blocks(const orr_plan *p, orr_error *err)
{
    const uint32_t block = orr_plan_dp_inner(p);
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        if (p->sites[i] % block != 0)
            return orr_fail(err, ORR_INVALID,
                            "sites=%s with cross=dp: replicas of a site stand together where dp is "
                            "the outermost axis of `order`, or in whole outer parts of dp (of %u)",
                            listed(p->sites).text, block);
    return ORR_OK;
}

static orr_status check_sites(const orr_plan *p, orr_error *err)
{
    const bool stages = p->cross == ORR_CROSS_PP;
    const uint32_t axis = stages ? ORR_AXIS_PP : ORR_AXIS_DP;
    uint32_t sum = 0;
    if (!orr_plan_has_sites(p))
        return ORR_OK;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        sum += p->sites[i];
    const uint64_t units = orr_plan_site_units(p);
    if (sum != units)
        return orr_fail(err, ORR_INVALID, "sites=%s are %u %s: there are %llu%s",
                        listed(p->sites).text, sum, stages ? "stages" : "replicas",
                        (unsigned long long)units,
                        stages && p->dp_outer > 1 ? " (pp x dp_outer)" : "");
    if (is_outermost(p, axis))
        return ORR_OK;
    if (!stages)
        return check_blocks(p, err);
    return orr_fail(err, ORR_INVALID,
                    "sites=%s with cross=pp: pp has to be the outermost axis of `order`",
                    listed(p->sites).text);
}

static orr_status check_outer(const orr_plan *p, orr_error *err)
{
    if (p->dp_outer > 1 && orr_plan_degree(p->dp) % p->dp_outer != 0)
        return orr_fail(err, ORR_INVALID, "dp=%u does not divide into %u outer parts",
                        orr_plan_degree(p->dp), p->dp_outer);
    return ORR_OK;
}

/* Groups that communicate within a step have to lie inside of an outer part: gradient reductions
 * and experts. */
static orr_status check_local_steps(const orr_plan *given, orr_error *err)
{
    const orr_plan p = orr_plan_with_defaults(given);
    const uint64_t ranks = (uint64_t)p.tp * p.cp * orr_plan_dp_inner(&p);
    if (p.local_steps <= 1)
        return ORR_OK;
    if (p.dp_outer <= 1)
        return orr_fail(err, ORR_INVALID, "local_steps=%u: of what parts that meet (dp_outer=2)?",
                        p.local_steps);
    if (ranks % ((uint64_t)p.ep * (p.ep > 1 ? p.etp : 1)) == 0)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID,
                    "local_steps=%u: the ranks of experts, %u in slices of %u, do not divide the "
                    "%llu of an outer part of dp",
                    p.local_steps, p.ep, p.etp, (unsigned long long)ranks);
}

static orr_status check_reduction(const orr_plan *p, orr_error *err)
{
    if (p->dp_chunks > 1 && p->dp_algorithm != 0 && p->dp_algorithm != ORR_ALGORITHM_HIERARCHICAL)
        return orr_fail(err, ORR_INVALID, "dp_chunks=%u goes with dp_algorithm=hierarchical",
                        p->dp_chunks);
    return ORR_OK;
}

orr_status orr_plan_check_sites(const orr_plan *plan, orr_error *err)
{
    ORR_TRY(check_outer(plan, err));
    ORR_TRY(check_sites(plan, err));
    ORR_TRY(check_local_steps(plan, err));
    return check_reduction(plan, err);
}

/* The first and the last stage have embedding and head: there a chunk may be without layers. */
static orr_status check_section(const orr_plan *p, uint32_t i, uint32_t first_stage, orr_error *err)
{
    const uint32_t stages = p->section_stages[i], layers = p->section_layers[i];
    const uint32_t end = first_stage + stages;
    const bool has_end = stages == 1 && (first_stage == 0 || end == orr_plan_degree(p->pp));
    const uint32_t chunks = orr_plan_degree(p->vp), least = has_end ? chunks - 1 : chunks;
    if (layers >= least)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID,
                    "sections=...%ux%u...: %u layers cannot fill %u chunks of a "
                    "stage",
                    stages, layers, layers, chunks);
}

orr_status orr_plan_check_sections(const orr_plan *p, orr_error *err)
{
    uint64_t layers = 0;
    uint32_t stages = 0;
    const bool balanced = orr_plan_balances_sections(p);
    if (!orr_plan_has_sections(p) && !balanced)
        return ORR_OK;
    if (p->first_layers > 0 || p->last_layers > 0)
        return orr_fail(err, ORR_INVALID,
                        "sections say the layers of all stages: first_layers and last_layers are "
                        "too much");
    if (p->schedule == ORR_SCHEDULE_DUALPIPE)
        return orr_fail(err, ORR_INVALID,
                        "sections: DualPipe's stages have two parts of the model each, and all "
                        "alike");
    for (uint32_t i = 0; i < ORR_PLAN_PARTS && !balanced; i++) {
        if (p->section_stages[i] == 0 && p->section_layers[i] > 0)
            return orr_fail(err, ORR_INVALID, "sections: no stages of %u layers",
                            p->section_layers[i]);
        if (p->section_stages[i] > 0)
            ORR_TRY(check_section(p, i, stages, err));
        stages += p->section_stages[i];
        layers += (uint64_t)p->section_stages[i] * p->section_layers[i];
    }
    if (balanced)
        return ORR_OK;
    if (stages != orr_plan_degree(p->pp))
        return orr_fail(err, ORR_INVALID, "sections of %u stages: there are %u", stages,
                        orr_plan_degree(p->pp));
    if (p->layers > 0 && layers != p->layers)
        return orr_fail(err, ORR_INVALID, "sections of %llu layers: the model has %u",
                        (unsigned long long)layers, p->layers);
    return ORR_OK;
}
