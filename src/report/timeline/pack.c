/* SPDX-License-Identifier: Apache-2.0 */
#include "report/timeline/pack.h"

#include <string.h>

#include "base/alloc.h"
#include "report/timeline/event_detail.h"
#include "report/timeline/name_index.h"
#include "report/timeline/meta.h"

/* Details beyond this are left out, the page says how many events have none for that. */
enum { DETAIL_MAX_BYTES = 2048, DETAILS_MAX_BYTES = 6 << 20 };

typedef struct pack {
    const orr_timeline_input *in;
    uint32_t *name, *detail; /* shape (V): numbers in names and details */
    orr_name_index names, details;
    orr_blob columns[ORR_TIMELINE_COLUMNS];
    uint32_t *path_name; /* shape (pieces) */
    uint64_t details_left_out;
} pack;

static orr_status add_name(pack *p, uint8_t kind, const char *text, size_t len, uint32_t *ret,
                           orr_error *err)
{
    *ret = orr_name_index_add(&p->names, kind, text, len);
    return *ret != ORR_NONE ? ORR_OK : orr_fail_memory(err);
}

static orr_status add_detail(pack *p, const orr_graph *graph, orr_node_id node, uint32_t *ret,
                             orr_error *err)
{
    char text[DETAIL_MAX_BYTES];
    const size_t n = orr_event_detail(graph, node, text, sizeof text);
    *ret = 0;
    if (n == 0)
        return ORR_OK;
    if (p->details.bytes > DETAILS_MAX_BYTES) {
        p->details_left_out++;
        return ORR_OK;
    }
    const uint32_t id = orr_name_index_add(&p->details, 0, text, n);
    *ret = id + 1;
    return id != ORR_NONE ? ORR_OK : orr_fail_memory(err);
}

/* Which names and details there are, and which each event has. */
static orr_status collect(pack *p, orr_error *err)
{
    const orr_timeline_view *t = p->in->timeline;
    for (uint32_t i = 0; i < t->n_events; i++) {
        const orr_timeline_event e = t->events[i];
        const orr_graph *graph = p->in->job->graphs[e.graph];
        const orr_str name = graph->name[e.node];
        ORR_TRY(add_name(p, graph->kind[e.node], orr_graph_str(graph, name),
                         orr_graph_str_len(graph, name), &p->name[i], err));
        ORR_TRY(add_detail(p, graph, e.node, &p->detail[i], err));
    }
    for (size_t i = 0; p->in->path && i < p->in->path->n_pieces; i++) {
        const orr_path_piece *piece = &p->in->path->pieces[i];
        const char *text = piece->name ? piece->name : "";
        if (t->event_of[piece->graph][piece->node] != ORR_NONE)
            continue;
        ORR_TRY(add_name(p, ORR_NODE_OTHER, text, strlen(text), &p->path_name[i], err));
    }
    return orr_name_index_sort(&p->names) && orr_name_index_sort(&p->details)
               ? ORR_OK
               : orr_fail_memory(err);
}

static void pack_events(pack *p)
{
    const orr_timeline_view *t = p->in->timeline;
    for (uint32_t r = 0; r < t->n_rows; r++) {
        const orr_timeline_row *row = &t->rows[r];
        int64_t end = 0;
        for (uint32_t i = row->first; i < row->first + row->count; i++) {
            const orr_timeline_event e = t->events[i];
            const int64_t start = orr_job_start_ns(p->in->job, e.graph, e.node);
            const int64_t duration = p->in->job->graphs[e.graph]->duration_ns[e.node];
            orr_blob_varint(&p->columns[ORR_TIMELINE_GAP], (uint64_t)(start - end));
            orr_blob_varint(&p->columns[ORR_TIMELINE_DURATION], (uint64_t)duration);
            orr_blob_varint(&p->columns[ORR_TIMELINE_NAME], p->names.number.at[p->name[i]]);
            orr_blob_varint(&p->columns[ORR_TIMELINE_DETAIL],
                            p->detail[i] ? p->details.number.at[p->detail[i] - 1] + 1 : 0);
            end = start + duration;
        }
    }
}

/* Dependencies that the order within a lane does not tell. */
static void pack_edges(pack *p)
{
    const orr_timeline_view *t = p->in->timeline;
    orr_blob *out = &p->columns[ORR_TIMELINE_EDGE];
    uint32_t previous = 0;
    for (uint32_t i = 0; i < t->n_events; i++) {
        const orr_timeline_event e = t->events[i];
        const orr_graph *graph = p->in->job->graphs[e.graph];
        for (uint32_t d = graph->dep_first[e.node]; d < graph->dep_first[e.node + 1]; d++) {
            const uint32_t from = t->event_of[e.graph][graph->dep[d]];
            const uint8_t kind = graph->dep_kind[d];
            if (from == ORR_NONE || kind == ORR_DEP_THREAD || kind == ORR_DEP_STREAM)
                continue;
            orr_blob_varint(out, i - previous);
            orr_blob_zigzag(out, (int64_t)from - (int64_t)i);
            orr_blob_put(out, &kind, 1);
            previous = i;
        }
    }
}

static void pack_peers(pack *p)
{
    const orr_job *job = p->in->job;
    orr_blob *out = &p->columns[ORR_TIMELINE_PEER];
    int64_t previous = 0;
    for (uint32_t m = 0; m < job->n_matches; m++) {
        const orr_match *match = &job->matches[m];
        uint32_t shown = 0;
        for (uint32_t i = match->first; i < match->first + match->count; i++)
            shown +=
                p->in->timeline->event_of[job->members[i].graph][job->members[i].node] != ORR_NONE;
        if (shown < 2)
            continue;
        orr_blob_varint(out, shown);
        for (uint32_t i = match->first; i < match->first + match->count; i++) {
            const uint32_t event =
                p->in->timeline->event_of[job->members[i].graph][job->members[i].node];
            if (event == ORR_NONE)
                continue;
            orr_blob_zigzag(out, (int64_t)event - previous);
            previous = event;
        }
    }
}

static void pack_path(pack *p)
{
    const orr_critical_path *path = p->in->path;
    orr_blob *out = &p->columns[ORR_TIMELINE_PATH];
    for (size_t i = 0; path && i < path->n_pieces; i++) {
        const orr_path_piece *piece = &path->pieces[i];
        const uint32_t event = p->in->timeline->event_of[piece->graph][piece->node];
        orr_blob_varint(out, piece->graph);
        orr_blob_varint(out, event == ORR_NONE ? 0 : (uint64_t)event + 1);
        orr_blob_varint(out, (uint64_t)piece->bound * 2 + piece->wait);
        orr_blob_varint(out, (uint64_t)(piece->to_ns - piece->from_ns));
        if (event == ORR_NONE)
            orr_blob_varint(out, p->names.number.at[p->path_name[i]]);
    }
}

/* The columns one after the other, and where each begins. */
static orr_status join(pack *p, orr_blob *columns, size_t begin[ORR_TIMELINE_COLUMNS + 1],
                       orr_error *err)
{
    for (int c = 0; c < ORR_TIMELINE_COLUMNS; c++) {
        columns->failed |= p->columns[c].failed;
        begin[c] = columns->bytes.n;
        orr_blob_put(columns, p->columns[c].bytes.at, p->columns[c].bytes.n);
        orr_blob_done(&p->columns[c]);
    }
    begin[ORR_TIMELINE_COLUMNS] = columns->bytes.n;
    return columns->failed ? orr_fail_memory(err) : ORR_OK;
}

static orr_status room(pack *p, orr_error *err)
{
    const uint32_t n = p->in->timeline->n_events;
    p->name = orr_calloc((size_t)n + 1, sizeof *p->name);
    p->detail = orr_calloc((size_t)n + 1, sizeof *p->detail);
    p->path_name = orr_calloc(p->in->path ? p->in->path->n_pieces + 1 : 1, sizeof *p->path_name);
    const bool indexes = orr_name_index_init(&p->names) && orr_name_index_init(&p->details);
    return p->name && p->detail && p->path_name && indexes ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_timeline_pack(const orr_timeline_input *input, orr_output *meta, orr_blob *columns,
                             orr_error *err)
{
    size_t begin[ORR_TIMELINE_COLUMNS + 1];
    pack p = {.in = input};
    orr_status status;
    ORR_TRY_OUT(status, room(&p, err));
    ORR_TRY_OUT(status, collect(&p, err));
    pack_events(&p);
    pack_edges(&p);
    pack_peers(&p);
    pack_path(&p);
    ORR_TRY_OUT(status, join(&p, columns, begin, err));
    orr_timeline_write_meta(input, &p.names, &p.details, begin, p.details_left_out, meta);
out:
    for (int c = 0; c < ORR_TIMELINE_COLUMNS; c++)
        orr_blob_done(&p.columns[c]);
    orr_name_index_done(&p.names);
    orr_name_index_done(&p.details);
    orr_free(p.path_name);
    orr_free(p.detail);
    orr_free(p.name);
    return status;
}
