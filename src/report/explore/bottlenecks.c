/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "report/explore/describe.h"

/* What the parts of a waterfall are, for whom looks for what limits a step. */
static const struct group {
    const char *limit;
    uint8_t axes[3];  /* orr_axis + 1 of what travels; 0: none */
    uint8_t parts[4]; /* orr_waterfall + 1 */
} GROUPS[] = {
    {"computation",
     {0},
     {ORR_WATERFALL_IDEAL + 1, ORR_WATERFALL_KERNELS + 1, ORR_WATERFALL_OPTIMIZER + 1}},
    {"what is computed again", {0}, {ORR_WATERFALL_RECOMPUTE + 1}},
    {"pipeline bubble", {0}, {ORR_WATERFALL_BUBBLE + 1}},
    {"tensor-parallel transfers", {ORR_AXIS_TP + 1}, {ORR_WATERFALL_TP + 1}},
    {"context-parallel transfers", {ORR_AXIS_CP + 1}, {ORR_WATERFALL_CP + 1}},
    {"expert-parallel transfers", {ORR_AXIS_EP + 1, ORR_AXIS_ETP + 1}, {ORR_WATERFALL_EP + 1}},
    {"transfers between stages", {ORR_AXIS_PP + 1, ORR_AXIS_TIED + 1}, {ORR_WATERFALL_PP + 1}},
    {"gradients and weights",
     {ORR_AXIS_GRADIENT + 1, ORR_AXIS_SHARD + 1, ORR_AXIS_REPLICA + 1},
     {ORR_WATERFALL_DP + 1}},
    {"overhead", {0}, {ORR_WATERFALL_OVERHEAD + 1}},
    {"rows from storage", {0}, {ORR_WATERFALL_TIERS + 1}},
};
enum { N_GROUPS = sizeof GROUPS / sizeof *GROUPS };
_Static_assert((int)N_GROUPS < (int)ORR_EXPLORE_BOTTLENECKS, "and memory");

static int64_t time_of(const orr_outcome *o, const struct group *g)
{
    int64_t ns = 0;
    for (int i = 0; i < 4 && g->parts[i] > 0; i++)
        ns += o->waterfall_ns[g->parts[i] - 1];
    return ns;
}

static bool travels(const struct group *g, uint8_t axis)
{
    /* Experts have gradients of their own. */
    const bool of_dp =
        g->parts[0] == ORR_WATERFALL_DP + 1 && (axis == ORR_AXIS_DP || axis == ORR_AXIS_EDP);
    for (int i = 0; i < 3; i++)
        if (g->axes[i] == axis + 1)
            return true;
    return of_dp;
}

/* The cut that a group waits for most; else the level. */
static const char *place_of(const orr_outcome *o, const struct group *g, orr_arena *arena)
{
    const orr_site_link_use *cut = NULL;
    const orr_axis_use *most = NULL;
    for (uint32_t i = 0; i < o->n_cuts; i++)
        if (travels(g, o->cuts[i].axis) && (cut == NULL || o->cuts[i].exposed_ns > cut->exposed_ns))
            cut = &o->cuts[i];
    if (cut != NULL && cut->exposed_ns > 0)
        return orr_arena_printf(arena, "%s - %s", o->cluster->sites[cut->a].name,
                                o->cluster->sites[cut->b].name);
    for (uint32_t i = 0; i < o->n_axes; i++)
        if (travels(g, o->axes[i].axis) &&
            (most == NULL || o->axes[i].exposed_ns > most->exposed_ns))
            most = &o->axes[i];
    return most != NULL && most->level < o->cluster->n_levels ? o->cluster->levels[most->level].name
                                                              : "";
}

static int by_time(const void *a, const void *b)
{
    const orr_explore_bottleneck *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

uint32_t orr_explore_bottlenecks(const orr_outcome *o, orr_arena *arena,
                                 orr_explore_bottleneck *ret)
{
    const orr_stage_memory *worst = &o->memory.stages[o->memory.worst];
    uint32_t n = 0;
    for (int i = 0; i < N_GROUPS; i++) {
        const int64_t ns = time_of(o, &GROUPS[i]);
        if (ns <= 0)
            continue;
        ret[n] = (orr_explore_bottleneck){GROUPS[i].limit, place_of(o, &GROUPS[i], arena), ns,
                                          o->step_ns > 0 ? (double)ns / (double)o->step_ns : 0};
        if (ret[n++].where == NULL)
            return 0;
    }
    qsort(ret, n, sizeof *ret, by_time);
    if (o->memory.capacity_bytes > 0) {
        ret[n] = (orr_explore_bottleneck){
            "memory of a device", orr_arena_printf(arena, "stage %u", o->memory.worst), 0,
            (double)worst->peak_bytes / (double)o->memory.capacity_bytes};
        if (ret[n++].where == NULL)
            return 0;
    }
    return n;
}

const char *orr_explore_largest_penalty(const orr_outcome *winner, const orr_outcome *other,
                                        int64_t *ret_ns)
{
    const char *payer = NULL;
    *ret_ns = 0;
    for (int i = 0; i < N_GROUPS; i++) {
        const int64_t more = time_of(other, &GROUPS[i]) - time_of(winner, &GROUPS[i]);
        if (more > *ret_ns) {
            *ret_ns = more;
            payer = i == 0 && other->n_ranks < winner->n_ranks ? "computation on fewer devices"
                                                               : GROUPS[i].limit;
        }
    }
    return payer;
}
