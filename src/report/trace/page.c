/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page/html.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "report/page/assets.h"
#include "report/trace/sections.h"
#include "report/humanize/human.h"
#include "report/timeline/pack.h"

enum { EVENTS_DEFAULT = 4000000, EXTRA_ROWS = 400 };

typedef struct page {
    const orr_job *job;
    const orr_analysis_options *options;
    const char *title;
    orr_arena *arena;
    orr_output *out;
    orr_trace_headline headline;
    orr_critical_path path;
    const orr_trace_sections *sections;
    orr_timeline_view timeline;
    const orr_series_sample *samples;
    size_t n_samples;
    orr_output *meta;
    orr_blob columns;
    const orr_trace_html_options *extra; /* or NULL */
} page;

/* Of many ranks the path that crosses them, of one its own; none where nothing has a time. */
static orr_status find_path(page *p, orr_error *err)
{
    orr_error why = {0};
    orr_status status =
        p->job->n_graphs > 1
            ? orr_analyze_critical_path_job(p->job, p->options, p->arena, &p->path, &why)
            : orr_analyze_critical_path(p->job, p->options, p->arena, &p->path, &why);
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(err);
    p->headline.path = status == ORR_OK && p->path.n_pieces > 0 ? &p->path : NULL;
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
static orr_status find_samples(page *p, orr_error *err)
{
    const orr_series_sample *rows = NULL;
    size_t n = 0;
    ORR_TRY(orr_analyze_memory_series(p->job, p->options, p->arena, &rows, &n, err));
    orr_series_sample *sorted = orr_arena_array(p->arena, orr_series_sample, n);
    if (!sorted)
        return orr_fail_memory(err);
    if (n > 0) {
        memcpy(sorted, rows, n * sizeof *rows);
        qsort(sorted, n, sizeof *sorted, by_series);
    }
    p->samples = sorted;
    p->n_samples = n;
    return ORR_OK;
}

static orr_status gather(page *p, uint32_t max_events, orr_error *err)
{
    orr_trace_headline *h = &p->headline;
    ORR_TRY(orr_analyze_temporal(p->job, p->options, p->arena, &h->temporal, &h->n_temporal, err));
    ORR_TRY(orr_analyze_steps(p->job, p->options, p->arena, &h->steps, &h->n_steps, err));
    ORR_TRY(find_path(p, err));
    ORR_TRY(find_samples(p, err));
    ORR_TRY(orr_trace_sections_run(p->job, p->options, p->arena, &p->sections, err));
    const orr_job *shown = p->extra && p->extra->overlay ? p->extra->overlay : p->job;
    ORR_TRY(orr_timeline_build(shown, max_events, p->arena, &p->timeline, err));
    for (uint32_t g = 0; g < p->job->n_graphs; g++)
        h->events += p->job->graphs[g]->n_nodes;
    const orr_timeline_input input = {shown, &p->timeline, h->path, p->samples, p->n_samples};
    ORR_TRY(orr_output_open_memory(&p->meta, err));
    ORR_TRY(orr_timeline_pack(&input, p->meta, &p->columns, err));
    return orr_output_finish(p->meta, err);
}

/* What stands for {{name}} in page.html. */
static orr_status put_title(page *p, orr_error *err)
{
    enum { TITLE_COLUMNS = 64 };
    char fit[4 * TITLE_COLUMNS];
    (void)err;
    orr_text_elide(p->title, TITLE_COLUMNS, fit, sizeof fit);
    orr_html_text(p->out, fit);
    return ORR_OK;
}

/* Scripts run only with this word. It hangs on what the page holds, so that no text in
 * the recording can name it. */
static orr_status put_nonce(page *p, orr_error *err)
{
    (void)err;
    const uint64_t hash = XXH3_64bits(p->columns.bytes.at, p->columns.bytes.n);
    orr_output_printf(p->out, "%016llx", (unsigned long long)hash);
    return ORR_OK;
}

static void put_assets(page *p, const char *ending)
{
    for (size_t i = 0; i < orr_n_assets; i++) {
        const size_t n = strlen(orr_assets[i].name), m = strlen(ending);
        if (n >= m && strcmp(orr_assets[i].name + n - m, ending) == 0)
            orr_output_write(p->out, orr_assets[i].bytes, orr_assets[i].n);
    }
}

static orr_status put_style(page *p, orr_error *err)
{
    (void)err;
    put_assets(p, "page.css");
    return ORR_OK;
}

static orr_status put_script(page *p, orr_error *err)
{
    (void)err;
    put_assets(p, ".js");
    return ORR_OK;
}

static orr_status put_nav(page *p, orr_error *err)
{
    (void)err;
    if (p->extra && p->extra->n_tables > 0) {
        orr_output_text(p->out, "<a href=\"#extra\">");
        orr_html_text(p->out, p->extra->tables_title);
        orr_output_text(p->out, "</a>\n");
    }
    orr_trace_sections_write_nav(p->sections, p->out);
    return ORR_OK;
}

static orr_status put_about(page *p, orr_error *err)
{
    const orr_graph *graph = p->job->n_graphs > 0 ? p->job->graphs[0] : NULL;
    (void)err;
    if (!graph)
        return ORR_OK;
    const char *device = orr_graph_str(graph, graph->device_name);
    orr_html_text(p->out, orr_graph_str(graph, graph->source));
    if (*device) {
        orr_output_text(p->out, " · ");
        orr_html_text(p->out, device);
    }
    return ORR_OK;
}

static orr_status put_headline(page *p, orr_error *err)
{
    (void)err;
    orr_html_trace_headline(p->out, p->job, &p->headline);
    return ORR_OK;
}

static orr_status put_breakdown(page *p, orr_error *err)
{
    (void)err;
    orr_svg_breakdown(p->out, p->headline.temporal, p->headline.n_temporal);
    return ORR_OK;
}

static orr_status put_path(page *p, orr_error *err)
{
    (void)err;
    if (!p->headline.path)
        return ORR_OK;
    orr_output_text(p->out,
                    "<figure class=\"card\"><figcaption><h3>What sets the end: the critical path");
    orr_output_text(p->out, p->job->n_graphs > 1 ? " through all ranks</h3>" : "</h3>");
    orr_svg_critical_path(p->out, p->headline.path);
    orr_output_text(p->out, "</figure>\n");
    return ORR_OK;
}

static void put_extra(page *p)
{
    const orr_trace_html_options *extra = p->extra;
    orr_output_text(p->out, "<section id=\"extra\"><h2>");
    orr_html_text(p->out, extra->tables_title);
    orr_output_text(p->out, "</h2>\n<div class=\"cards\">\n");
    for (size_t i = 0; i < extra->n_tables; i++)
        if (extra->tables[i].n_rows > 0)
            orr_html_table(p->out, NULL, "", &extra->tables[i], NULL, EXTRA_ROWS);
    orr_output_text(p->out, "</div></section>\n");
}

static orr_status put_sections(page *p, orr_error *err)
{
    (void)err;
    if (p->extra && p->extra->n_tables > 0)
        put_extra(p);
    orr_trace_sections_write(p->sections, p->out);
    return ORR_OK;
}

static orr_status put_meta(page *p, orr_error *err)
{
    size_t n;
    const void *bytes = orr_output_memory(p->meta, &n);
    return orr_blob_write(bytes, n, p->out, err);
}

static orr_status put_events(page *p, orr_error *err)
{
    return orr_blob_write(p->columns.bytes.at, p->columns.bytes.n, p->out, err);
}

static orr_status put_version(page *p, orr_error *err)
{
    (void)err;
    orr_output_text(p->out, orr_assets_version);
    return ORR_OK;
}

static const struct slot {
    const char *name;
    orr_status (*put)(page *p, orr_error *err);
} slots[] = {
    {"title", put_title},       {"nonce", put_nonce},
    {"style", put_style},       {"script", put_script},
    {"nav", put_nav},           {"about", put_about},
    {"headline", put_headline}, {"breakdown", put_breakdown},
    {"path", put_path},         {"sections", put_sections},
    {"meta", put_meta},         {"events", put_events},
    {"version", put_version},
};

static orr_status put_slot(page *p, const char *name, size_t n, orr_error *err)
{
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        if (strlen(slots[i].name) == n && memcmp(slots[i].name, name, n) == 0)
            return slots[i].put(p, err);
    return orr_fail(err, ORR_NOT_FOUND, "page.html asks for '%.*s', which nothing writes", (int)n,
                    name);
}

static orr_status write_page(page *p, orr_error *err)
{
    const orr_asset *asset = orr_assets;
    while (strcmp(asset->name, "page.html") != 0)
        asset++;
    const char *at = (const char *)asset->bytes, *end = at + asset->n;
    for (const char *open; (open = memmem(at, (size_t)(end - at), "{{", 2));) {
        const char *close = memmem(open, (size_t)(end - open), "}}", 2);
        if (!close)
            break;
        orr_output_write(p->out, at, (size_t)(open - at));
        ORR_TRY(put_slot(p, open + 2, (size_t)(close - open - 2), err));
        at = close + 2;
    }
    orr_output_write(p->out, at, (size_t)(end - at));
    return ORR_OK;
}

orr_status orr_trace_html(const char *path, const orr_job *job,
                          const orr_analysis_options *analysis,
                          const orr_trace_html_options *options, orr_error *err)
{
    const uint32_t max_events =
        options && options->max_events ? options->max_events : EVENTS_DEFAULT;
    page p = {.job = job, .options = analysis, .arena = orr_arena_new(0, 0), .extra = options};
    orr_status status;
    p.title = options && options->title ? options->title : "Execution trace";
    if (!p.arena)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, gather(&p, max_events, err));
    ORR_TRY_OUT(status, orr_output_open(path, &p.out, err));
    ORR_TRY_OUT(status, write_page(&p, err));
    ORR_TRY_OUT(status, orr_output_finish(p.out, err));
out:
    orr_output_close(p.out);
    orr_output_close(p.meta);
    orr_blob_done(&p.columns);
    orr_arena_free(p.arena);
    return status;
}
