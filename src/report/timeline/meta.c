/* SPDX-License-Identifier: Apache-2.0 */
#include "report/timeline/meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io/json/writer.h"
#include "report/humanize/short_name.h"

enum { SHORT_MAX_BYTES = 160, COUNTER_POINTS = 1500 };

/* [[name, short name or 0 where it is the same, kind], ...] */
static void write_names(orr_json_writer *w, const orr_name_index *names)
{
    orr_json_write_key(w, "names");
    orr_json_write_array(w);
    for (uint32_t i = 0; i < orr_name_index_count(names); i++) {
        char brief[SHORT_MAX_BYTES];
        size_t len;
        const char *text = orr_name_index_text(names, i, &len);
        orr_short_name(text, brief, sizeof brief);
        orr_json_write_array(w);
        orr_json_write_text(w, text, len);
        if (strcmp(brief, text) == 0)
            orr_json_write_int(w, 0);
        else
            orr_json_write_cstr(w, brief);
        orr_json_write_uint(w, orr_name_index_tag(names, i));
        orr_json_write_array_end(w);
    }
    orr_json_write_array_end(w);
}

static void write_details(orr_json_writer *w, const orr_name_index *details)
{
    orr_json_write_key(w, "details");
    orr_json_write_array(w);
    orr_json_write_cstr(w, "");
    for (uint32_t i = 0; i < orr_name_index_count(details); i++) {
        size_t len;
        const char *text = orr_name_index_text(details, i, &len);
        orr_json_write_text(w, text, len);
    }
    orr_json_write_array_end(w);
}

static void lane_label(const orr_graph *graph, const orr_lane *lane, bool devices, char *buf,
                       size_t cap)
{
    const char *name = orr_graph_str(graph, lane->name);
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, lane->tid);
    if (lane->kind == ORR_LANE_STREAM && lane->tid != INT64_MIN) {
        char device[32] = "";
        if (devices)
            snprintf(device, sizeof device, "GPU %" PRId32 " ", lane->device);
        snprintf(buf, cap, "%sstream %" PRId64, device, lane->tid);
    } else if (lane->tid == INT64_MIN ||
               strstr(name, number)) { /* "thread 1234 (python)" says it */
        snprintf(buf, cap, "%s", *name ? name : "thread");
    } else if (*name) {
        snprintf(buf, cap, "thread %" PRId64 " (%s)", lane->tid, name);
    } else {
        snprintf(buf, cap, "thread %" PRId64, lane->tid);
    }
}

static bool has_several_devices(const orr_graph *graph)
{
    int32_t first = -1;
    for (uint32_t l = 0; l < graph->n_lanes; l++)
        if (graph->lanes[l].kind == ORR_LANE_STREAM) {
            if (first >= 0 && graph->lanes[l].device != first)
                return true;
            first = graph->lanes[l].device;
        }
    return false;
}

/* The lanes of a graph and how many events each of their rows has. Returns the row after them. */
static uint32_t write_lanes(orr_json_writer *w, const orr_timeline_input *in, uint32_t g,
                            uint32_t row)
{
    const orr_graph *graph = in->job->graphs[g];
    const orr_timeline_view *t = in->timeline;
    const bool devices = has_several_devices(graph);
    orr_json_write_key(w, "lanes");
    orr_json_write_array(w);
    while (row < t->n_rows && t->rows[row].graph == g) {
        const uint16_t lane = t->rows[row].lane;
        char label[200];
        lane_label(graph, &graph->lanes[lane], devices, label, sizeof label);
        orr_json_write_object(w);
        orr_json_write_key(w, "label");
        orr_json_write_cstr(w, label);
        orr_json_write_key(w, "device");
        orr_json_write_bool(w, graph->lanes[lane].kind == ORR_LANE_STREAM);
        orr_json_write_key(w, "rows");
        orr_json_write_array(w);
        for (; row < t->n_rows && t->rows[row].graph == g && t->rows[row].lane == lane; row++)
            orr_json_write_uint(w, t->rows[row].count);
        orr_json_write_array_end(w);
        orr_json_write_object_end(w);
    }
    orr_json_write_array_end(w);
    return row;
}

static void write_ranks(orr_json_writer *w, const orr_timeline_input *in)
{
    const orr_job *job = in->job;
    uint32_t row = 0;
    orr_json_write_key(w, "ranks");
    orr_json_write_array(w);
    for (uint32_t g = 0; g < job->n_graphs; g++) {
        uint32_t alike = 0;
        for (uint32_t r = 0; r < job->n_ranks; r++)
            alike += job->graph_of_rank[r] == g;
        orr_json_write_object(w);
        orr_json_write_key(w, "rank");
        orr_json_write_uint(w, job->rank_of_graph[g]);
        orr_json_write_key(w, "alike");
        orr_json_write_uint(w, alike);
        orr_json_write_key(w, "device");
        orr_json_write_cstr(w, orr_graph_str(job->graphs[g], job->graphs[g]->device_name));
        row = write_lanes(w, in, g, row);
        orr_json_write_object_end(w);
    }
    orr_json_write_array_end(w);
}

/* One series: of each of COUNTER_POINTS bins of time the largest value, as [ns, bytes, ...]. */
static size_t write_counter(orr_json_writer *w, const orr_timeline_input *in, size_t i)
{
    const orr_series_sample *first = &in->samples[i];
    size_t end = i;
    while (end < in->n_samples && in->samples[end].rank == first->rank &&
           strcmp(in->samples[end].series, first->series) == 0)
        end++;
    const size_t n = end - i, bin = n / COUNTER_POINTS + 1;
    orr_json_write_object(w);
    orr_json_write_key(w, "rank");
    orr_json_write_uint(w, first->rank);
    orr_json_write_key(w, "label");
    orr_json_write_cstr(w, first->series);
    orr_json_write_key(w, "points");
    orr_json_write_array(w);
    for (size_t at = i; at < end; at += bin) {
        size_t most = at;
        for (size_t k = at; k < end && k < at + bin; k++)
            if (in->samples[k].value > in->samples[most].value)
                most = k;
        orr_json_write_int(w, in->samples[most].at_ns);
        orr_json_write_double(w, in->samples[most].value);
    }
    orr_json_write_array_end(w);
    orr_json_write_object_end(w);
    return end;
}

static void write_enums(orr_json_writer *w)
{
#define NAME(name, ...) orr_json_write_cstr(w, orr_node_kind_name(ORR_NODE_##name));
    orr_json_write_key(w, "kinds");
    orr_json_write_array(w);
    ORR_NODE_MAP(NAME)
    orr_json_write_array_end(w);
#undef NAME
#define NAME(name, text) orr_json_write_cstr(w, orr_dep_kind_name(ORR_DEP_##name));
    orr_json_write_key(w, "deps");
    orr_json_write_array(w);
    ORR_DEP_MAP(NAME)
    orr_json_write_array_end(w);
#undef NAME
#define NAME(name, text) orr_json_write_cstr(w, orr_bound_name(ORR_BOUND_##name));
    orr_json_write_key(w, "bounds");
    orr_json_write_array(w);
    ORR_BOUND_MAP(NAME)
    orr_json_write_array_end(w);
#undef NAME
}

static void write_columns(orr_json_writer *w, const size_t begin[ORR_TIMELINE_COLUMNS + 1])
{
    static const char *const names[] = {
#define NAME(name, text) text,
        ORR_TIMELINE_COLUMN_MAP(NAME)
#undef NAME
    };
    orr_json_write_key(w, "columns");
    orr_json_write_object(w);
    for (int c = 0; c < ORR_TIMELINE_COLUMNS; c++) {
        orr_json_write_key(w, names[c]);
        orr_json_write_array(w);
        orr_json_write_uint(w, begin[c]);
        orr_json_write_uint(w, begin[c + 1]);
        orr_json_write_array_end(w);
    }
    orr_json_write_object_end(w);
}

static void write_count(orr_json_writer *w, const char *key, uint64_t count)
{
    orr_json_write_key(w, key);
    orr_json_write_uint(w, count);
}

void orr_timeline_write_meta(const orr_timeline_input *in, const orr_name_index *names,
                             const orr_name_index *details,
                             const size_t begin[ORR_TIMELINE_COLUMNS + 1],
                             uint64_t details_left_out, orr_output *meta)
{
    orr_json_writer w;
    orr_json_write_init(&w, meta);
    orr_json_write_object(&w);
    write_count(&w, "events", in->timeline->n_events);
    write_count(&w, "thinned", in->timeline->thinned);
    write_count(&w, "untimed", in->timeline->untimed);
    write_count(&w, "details_left_out", details_left_out);
    write_enums(&w);
    write_columns(&w, begin);
    write_ranks(&w, in);
    if (in->path) {
        orr_json_write_key(&w, "path_start_ns");
        orr_json_write_int(&w, in->path->start_ns);
        write_count(&w, "path_pieces", in->path->n_pieces);
    }
    orr_json_write_key(&w, "counters");
    orr_json_write_array(&w);
    for (size_t i = 0; i < in->n_samples;)
        i = write_counter(&w, in, i);
    orr_json_write_array_end(&w);
    write_names(&w, names);
    write_details(&w, details);
    orr_json_write_object_end(&w);
}
