/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "report/page/page.h"
#include "report/timeline/pack.h"
#include "report/trace/parts.h"
#include "report/trace/sections.h"

enum { EVENTS_DEFAULT = 4000000, EXTRA_ROWS = 400 };

/* What the page shows, gathered before its file is opened. */
typedef struct recording {
    const orr_job *job;
    const orr_analysis_options *options;
    orr_arena *arena;
    orr_trace_headline headline;
    orr_critical_path path;
    const orr_trace_sections *sections;
    orr_timeline_view timeline;
    const orr_series_sample *samples;
    size_t n_samples;
    orr_output *meta;
    orr_blob columns;
    const orr_trace_html_options *extra; /* or NULL */
    orr_html_cell_link **links;          /* shape (tables)(rows) of `extra` */
} recording;

/* Of many ranks the path that crosses them, of one its own; none where nothing has a time. */
static orr_status find_path(recording *r, orr_error *err)
{
    orr_error why = {0};
    orr_status status =
        r->job->n_graphs > 1
            ? orr_analyze_critical_path_job(r->job, r->options, r->arena, &r->path, &why)
            : orr_analyze_critical_path(r->job, r->options, r->arena, &r->path, &why);
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(err);
    r->headline.path = status == ORR_OK && r->path.n_pieces > 0 ? &r->path : NULL;
    return ORR_OK;
}

static int by_series(const void *a, const void *b)
{
    const orr_series_sample *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    const int names = strcmp(x->series, y->series);
    if (names != 0)
        return names;
    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* The memory samples, one series after the other. */
static orr_status find_samples(recording *r, orr_error *err)
{
    const orr_series_sample *rows = NULL;
    size_t n = 0;
    ORR_TRY(orr_analyze_memory_series(r->job, r->options, r->arena, &rows, &n, err));
    orr_series_sample *sorted = orr_arena_array(r->arena, orr_series_sample, n);
    if (!sorted)
        return orr_fail_memory(err);
    if (n > 0) {
        memcpy(sorted, rows, n * sizeof *rows);
        qsort(sorted, n, sizeof *sorted, by_series);
    }
    r->samples = sorted;
    r->n_samples = n;
    return ORR_OK;
}

/* "12,57": the numbers of the events that a cell is about, with those before them. */
static const char *join_event(recording *r, const char *before, uint32_t event)
{
    return before != NULL ? orr_arena_printf(r->arena, "%s,%u", before, event)
                          : orr_arena_printf(r->arena, "%u", event);
}

/* Cells of the tables shown first that lead to events; of nodes that are drawn. */
static orr_status find_links(recording *r, orr_error *err)
{
    const orr_trace_html_options *extra = r->extra;
    const size_t n_tables = extra ? extra->n_tables : 0, n = extra ? extra->n_cell_nodes : 0;
    r->links = orr_arena_array(r->arena, orr_html_cell_link *, n_tables);
    if (r->links == NULL)
        return orr_fail_memory(err);
    for (size_t t = 0; t < n_tables; t++) {
        r->links[t] = orr_arena_array(r->arena, orr_html_cell_link, extra->tables[t].n_rows);
        if (r->links[t] == NULL)
            return orr_fail_memory(err);
    }
    for (size_t i = 0; i < n; i++) {
        const orr_cell_node *cell = &extra->cell_nodes[i];
        const uint32_t event = r->timeline.event_of[cell->graph][cell->node];
        if (event == ORR_NONE)
            continue;
        orr_html_cell_link *link = &r->links[cell->table][cell->row];
        const bool several = link->events != NULL;
        const char *node =
            orr_arena_printf(r->arena, "%u-%u", r->job->rank_of_graph[cell->graph], cell->node);
        link->column = cell->column;
        link->node = several ? NULL : node;
        link->events = join_event(r, link->events, event);
        if (link->events == NULL || node == NULL)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static orr_status gather(recording *r, uint32_t max_events, orr_error *err)
{
    orr_trace_headline *h = &r->headline;
    ORR_TRY(orr_analyze_temporal(r->job, r->options, r->arena, &h->temporal, &h->n_temporal, err));
    ORR_TRY(orr_analyze_steps(r->job, r->options, r->arena, &h->steps, &h->n_steps, err));
    ORR_TRY(find_path(r, err));
    ORR_TRY(find_samples(r, err));
    ORR_TRY(orr_trace_sections_run(r->job, r->options, r->arena, &r->sections, err));
    const orr_job *shown = r->extra && r->extra->overlay ? r->extra->overlay : r->job;
    ORR_TRY(orr_timeline_build(shown, max_events, r->arena, &r->timeline, err));
    ORR_TRY(find_links(r, err));
    for (uint32_t g = 0; g < r->job->n_graphs; g++)
        h->events += r->job->graphs[g]->n_nodes;
    const orr_timeline_input input = {shown, &r->timeline, h->path, r->samples, r->n_samples};
    ORR_TRY(orr_output_open_memory(&r->meta, err));
    ORR_TRY(orr_timeline_pack(&input, r->meta, &r->columns, err));
    return orr_output_finish(r->meta, err);
}

static bool has_tables(const recording *r)
{
    return r->extra != NULL && r->extra->n_tables > 0;
}

static void put_about(const orr_html_page *p)
{
    const recording *r = p->subject;
    const orr_graph *graph = r->job->n_graphs > 0 ? r->job->graphs[0] : NULL;
    if (graph == NULL)
        return;
    const char *device = orr_graph_str(graph, graph->device_name);
    orr_html_text(p->out, orr_graph_str(graph, graph->source));
    if (*device) {
        orr_output_text(p->out, " · ");
        orr_html_text(p->out, device);
    }
}

static void put_nav(const orr_html_page *p)
{
    const recording *r = p->subject;
    orr_html_link(p->out, "overview", "Overview");
    orr_html_link(p->out, "timeline", "Timeline");
    if (has_tables(r))
        orr_html_link(p->out, "extra", r->extra->tables_title);
    orr_trace_sections_write_nav(r->sections, p->out);
}

static void put_overview(const orr_html_page *p)
{
    const recording *r = p->subject;
    orr_html_section_open(p->out, "overview", "Overview");
    orr_html_trace_headline(p->out, r->job, &r->headline);
    orr_html_figure_open(p->out, "Where the time of each rank went", NULL);
    orr_svg_breakdown(p->out, r->headline.temporal, r->headline.n_temporal);
    orr_html_figure_close(p->out);
    if (r->headline.path != NULL) {
        orr_html_figure_open(p->out,
                             r->job->n_graphs > 1
                                 ? "What sets the end: the critical path through all ranks"
                                 : "What sets the end: the critical path",
                             NULL);
        orr_svg_critical_path(p->out, r->headline.path);
        orr_html_figure_close(p->out);
    }
    orr_html_section_close(p->out);
}

static void put_extra(const orr_html_page *p)
{
    const recording *r = p->subject;
    const orr_trace_html_options *extra = r->extra;
    orr_html_section_open(p->out, "extra", extra->tables_title);
    orr_output_text(p->out, "<div class=\"cards\">\n");
    for (size_t i = 0; i < extra->n_tables; i++) {
        const orr_html_table_options options = {.max_rows = EXTRA_ROWS, .links = r->links[i]};
        if (extra->tables[i].n_rows > 0)
            orr_html_table(p->out, &extra->tables[i], &options);
    }
    orr_output_text(p->out, "</div>");
    orr_html_section_close(p->out);
}

static orr_status put_main(const orr_html_page *p)
{
    const recording *r = p->subject;
    put_overview(p);
    orr_html_asset(p->out, "timeline.html");
    if (has_tables(r))
        put_extra(p);
    orr_trace_sections_write(r->sections, p->out);
    return ORR_OK;
}

static orr_status put_blob(const orr_html_page *p, const char *id, const void *bytes, size_t n)
{
    orr_output_printf(p->out, "<script type=\"text/plain\" id=\"%s\">", id);
    ORR_TRY(orr_blob_write(bytes, n, p->out, p->err));
    orr_output_text(p->out, "</script>\n");
    return ORR_OK;
}

static orr_status put_data(const orr_html_page *p)
{
    const recording *r = p->subject;
    size_t n;
    const void *meta = orr_output_memory(r->meta, &n);
    ORR_TRY(put_blob(p, "data-meta", meta, n));
    return put_blob(p, "data-events", r->columns.bytes.at, r->columns.bytes.n);
}

orr_status orr_trace_html(const char *path, const orr_job *job,
                          const orr_analysis_options *analysis,
                          const orr_trace_html_options *options, orr_error *err)
{
    const uint32_t max_events =
        options && options->max_events ? options->max_events : EVENTS_DEFAULT;
    const char *title = options && options->title ? options->title : "Execution trace";
    static const orr_html_kind kind = {"trace", "trace.js", put_about, put_nav, put_main, put_data};
    recording r = {.job = job, .options = analysis, .arena = orr_arena_new(0, 0), .extra = options};
    orr_status status;
    if (!r.arena)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, gather(&r, max_events, err));
    status = orr_html_page_make(path, &kind, title, &r, err);
out:
    orr_output_close(r.meta);
    orr_blob_done(&r.columns);
    orr_arena_free(r.arena);
    return status;
}
