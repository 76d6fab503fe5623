/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/pollers.h"

#include <string.h>

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The part of a runtime call's name after the vendor's prefix; NULL: no such name. */
static const char *after_vendor(const char *name)
{
    static const char *const vendors[] = {"cuda", "hip", "cu"};
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++)
        if (begins_with(name, vendors[i]))
            return name + strlen(vendors[i]);
    return NULL;
}

bool orr_is_query(const char *name)
{
    const char *call = after_vendor(name);
    return call != NULL && (strcmp(call, "EventQuery") == 0 || strcmp(call, "StreamQuery") == 0);
}

bool orr_is_synchronisation(const char *name)
{
    static const char word[] = "Synchronize";
    const char *call = after_vendor(name);
    const size_t len = call == NULL ? 0 : strlen(call);
    if (call == NULL) /* MTIA, Meta's accelerator */
        return strcmp(name, "synchronizeStream") == 0 || strcmp(name, "synchronize") == 0;
    return len >= sizeof word - 1 && strcmp(call + len - (sizeof word - 1), word) == 0;
}

/* Calls that read or set what belongs to the calling thread, or make and destroy events. */
static bool is_harmless(const char *name)
{
    static const char *const prefixes[] = {
        "Get",          "Peek",      "Pointer",   "EventCreate",       "EventDestroy",
        "EventElapsed", "DeviceGet", "SetDevice", "StreamIsCapturing", "StreamGet",
        "ThreadExch",   "CtxGet",    "DriverGet", "RuntimeGet",        "CtxSetCurrent",
        "FuncGet"};
    const char *call = after_vendor(name);
    for (size_t i = 0; call != NULL && i < sizeof prefixes / sizeof *prefixes; i++)
        if (begins_with(call, prefixes[i]))
            return true;
    return false;
}

bool orr_lane_only_polls(const orr_graph *g, orr_lane_id lane)
{
    bool asks = false;
    if (g->lanes[lane].kind != ORR_LANE_HOST)
        return false;
    for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
        const orr_node_id v = g->lane_node[i];
        const char *name = orr_graph_str(g, g->name[v]);
        if (g->kind[v] != ORR_NODE_RUNTIME || g->parent[v] != ORR_NONE)
            return false;
        if (orr_is_query(name))
            asks = true;
        else if (!is_harmless(name))
            return false;
    }
    return asks;
}

const bool *orr_lanes_that_poll(const orr_graph *g, orr_arena *arena)
{
    bool *polls = orr_arena_array(arena, bool, g->n_lanes);
    for (orr_lane_id lane = 0; polls != NULL && lane < g->n_lanes; lane++)
        polls[lane] = orr_lane_only_polls(g, lane);
    return polls;
}
