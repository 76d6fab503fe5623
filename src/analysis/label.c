/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "analysis/common.h"

static bool several_devices(const orr_graph *g)
{
    int32_t device = -1;
    for (uint32_t i = 0; i < g->n_lanes; i++) {
        if (g->lanes[i].kind != ORR_LANE_STREAM || g->lanes[i].device < 0)
            continue;
        if (device >= 0 && g->lanes[i].device != device)
            return true;
        device = g->lanes[i].device;
    }
    return false;
}

static const char *label_of(const orr_graph *g, const orr_lane *lane, bool with_device,
                            orr_arena *arena)
{
    const bool stream = lane->kind == ORR_LANE_STREAM;
    if (lane->tid == INT64_MIN || (!stream && lane->name != 0))
        return orr_graph_str(g, lane->name);
    if (stream && with_device)
        return orr_arena_printf(arena, "%" PRId32 ":%" PRId64, lane->device, lane->tid);
    return orr_arena_printf(arena, "%" PRId64, lane->tid);
}

orr_status orr_lane_labels(const orr_graph *g, orr_arena *arena, const char *const **ret,
                           orr_error *err)
{
    const bool with_device = several_devices(g);
    const char **labels = orr_arena_array(arena, const char *, g->n_lanes);
    if (labels == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < g->n_lanes; i++) {
        labels[i] = label_of(g, &g->lanes[i], with_device, arena);
        if (labels[i] == NULL)
            return orr_fail_memory(err);
    }
    *ret = labels;
    return ORR_OK;
}
