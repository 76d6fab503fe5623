/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/perfetto/writer.h"

#include <string.h>

#include "graph/job.h"

/* Perfetto track events. Slices of a track must nest; what overlaps in a lane (kernels of one CUDA
 * graph) goes to further tracks below it. Begins and ends of a track are written in nesting order,
 * since equal time stamps keep the order of the file. */
enum { MOST_ROWS = 64 };

typedef struct row {
    uint64_t track;
    orr_array(int64_t) ends; /* ends of the open slices, outermost first */
} row;

typedef struct rows {
    row at[MOST_ROWS];
    uint32_t n;
} rows;

static void close_until(orr_perfetto *p, row *r, int64_t ns)
{
    while (r->ends.n > 0 && r->ends.at[r->ends.n - 1] <= ns)
        orr_perfetto_end(p, r->ends.at[--r->ends.n], r->track);
}

static int64_t innermost_end(const row *r)
{
    return r->ends.n == 0 ? INT64_MAX : r->ends.at[r->ends.n - 1];
}

/* The first track where [start, end] fits; the last one takes the rest, cut short. */
static row *choose_row(orr_perfetto *p, rows *all, int64_t start, int64_t *end)
{
    for (uint32_t i = 0; i < all->n; i++) {
        close_until(p, &all->at[i], start);
        if (innermost_end(&all->at[i]) >= *end)
            return &all->at[i];
    }
    if (all->n < MOST_ROWS) {
        row *r = &all->at[all->n++];
        r->track = orr_perfetto_track(p);
        r->ends.n = 0;
        orr_perfetto_describe_row(p, all->at[0].track, r->track);
        return r;
    }
    row *last = &all->at[all->n - 1];
    *end = innermost_end(last);
    return last;
}

static orr_status write_node(orr_perfetto *p, rows *all, orr_node_id v, orr_error *err)
{
    const orr_graph *g = p->graph;
    const int64_t start = g->start_ns[v];
    int64_t end = start + g->duration_ns[v];
    row *r = choose_row(p, all, start, &end);
    orr_perfetto_begin(p, v, r->track);
    if (g->kind[v] == ORR_NODE_MEMORY)
        return ORR_OK;
    return orr_array_push(&r->ends, end) ? ORR_OK : orr_fail_memory(err);
}

static orr_status write_lane(orr_perfetto *p, uint32_t lane, uint64_t track, rows *all,
                             orr_error *err)
{
    const orr_graph *g = p->graph;
    all->n = 1;
    all->at[0].track = track;
    all->at[0].ends.n = 0;
    for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++)
        if (g->start_ns[g->lane_node[i]] != ORR_TIME_NONE)
            ORR_TRY(write_node(p, all, g->lane_node[i], err));
    for (uint32_t i = 0; i < all->n; i++)
        close_until(p, &all->at[i], INT64_MAX);
    return ORR_OK;
}

static bool same_process(const orr_lane *a, const orr_lane *b)
{
    return a->kind == b->kind && a->pid == b->pid && a->device == b->device &&
           (a->pid != INT64_MIN || a->process == b->process);
}

static orr_status write_lanes(orr_perfetto *p, orr_error *err)
{
    const orr_graph *g = p->graph;
    uint64_t *process = orr_arena_array(p->arena, uint64_t, g->n_lanes);
    rows *all = orr_arena_one(p->arena, rows);
    if (process == NULL || all == NULL)
        return orr_fail_memory(err);
    orr_status status = ORR_OK;
    for (uint32_t l = 0; l < g->n_lanes && status == ORR_OK; l++) {
        for (uint32_t k = 0; k < l && process[l] == 0; k++)
            if (same_process(&g->lanes[k], &g->lanes[l]))
                process[l] = process[k];
        const bool new_process = process[l] == 0;
        if (new_process)
            process[l] = orr_perfetto_track(p);
        const uint64_t track = orr_perfetto_track(p);
        orr_perfetto_describe_lane(p, l, process[l], new_process, track);
        status = write_lane(p, l, track, all, err);
    }
    for (uint32_t i = 0; i < MOST_ROWS; i++)
        orr_array_done(&all->at[i].ends);
    return status;
}

static orr_status write_graph(const orr_write_set *set, uint32_t i, orr_output *out, orr_error *err)
{
    orr_perfetto p = {.graph = set->graphs[i],
                      .out = out,
                      .index = i,
                      .rank = set->ranks[i],
                      .several = set->n > 1,
                      .shift_ns = set->shift_ns[i]};
    orr_status status;
    /* Time stamps are unsigned: a base before the epoch is left out. */
    if (set->base_ns > 0)
        p.shift_ns = orr_ns_add_saturating(p.shift_ns, set->base_ns);
    p.arena = orr_arena_new(0, 0);
    if (p.arena == NULL)
        return orr_fail_memory(err);
    p.named = orr_arena_array(p.arena, bool, p.graph->n_strings);
    p.keyed = orr_arena_array(p.arena, bool, p.graph->n_strings);
    if (p.named == NULL || p.keyed == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, orr_graph_dependants(p.graph, p.arena, &p.next, err));
    status = write_lanes(&p, err);
    if (status == ORR_OK && p.packet.failed)
        status = orr_fail_memory(err);
out:
    orr_proto_buffer_done(&p.packet);
    orr_arena_free(p.arena);
    return status;
}

orr_status orr_perfetto_write(const orr_write_set *set, orr_output *out, orr_error *err)
{
    for (uint32_t i = 0; i < set->n; i++)
        ORR_TRY(write_graph(set, i, out, err));
    return ORR_OK;
}
