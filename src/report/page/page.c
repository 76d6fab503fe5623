/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/humanize/human.h"
#include "report/page/assets.h"

static const orr_asset *find_asset(const char *name)
{
    const orr_asset *asset = orr_assets;
    while (strcmp(asset->name, name) != 0)
        asset++;
    return asset;
}

void orr_html_asset(orr_output *out, const char *name)
{
    const orr_asset *asset = find_asset(name);
    orr_output_write(out, asset->bytes, asset->n);
}

/* --- slots of the template ------------------------------------------------------------------- */

static orr_status put_title(const orr_html_page *p)
{
    enum { TITLE_COLUMNS = 64 };
    char fit[4 * TITLE_COLUMNS];
    orr_text_elide(p->title, TITLE_COLUMNS, fit, sizeof fit);
    orr_html_text(p->out, fit);
    return ORR_OK;
}

static orr_status put_kind(const orr_html_page *p)
{
    orr_output_text(p->out, p->kind->name);
    return ORR_OK;
}

static orr_status put_version(const orr_html_page *p)
{
    orr_output_text(p->out, orr_assets_version);
    return ORR_OK;
}

static orr_status put_hash(const orr_html_page *p)
{
    orr_output_text(p->out, find_asset(p->kind->script)->sha256);
    return ORR_OK;
}

static orr_status put_style(const orr_html_page *p)
{
    orr_html_asset(p->out, "page.css");
    return ORR_OK;
}

static orr_status put_script(const orr_html_page *p)
{
    orr_html_asset(p->out, p->kind->script);
    return ORR_OK;
}

static orr_status put_about(const orr_html_page *p)
{
    p->kind->about(p);
    return ORR_OK;
}

static orr_status put_nav(const orr_html_page *p)
{
    p->kind->nav(p);
    return ORR_OK;
}

static orr_status put_main(const orr_html_page *p)
{
    return p->kind->main(p);
}

static orr_status put_data(const orr_html_page *p)
{
    return p->kind->data != NULL ? p->kind->data(p) : ORR_OK;
}

static const struct slot {
    const char *name;
    orr_status (*put)(const orr_html_page *p);
} slots[] = {
    {"title", put_title}, {"kind", put_kind},     {"version", put_version}, {"hash", put_hash},
    {"style", put_style}, {"script", put_script}, {"about", put_about},     {"nav", put_nav},
    {"main", put_main},   {"data", put_data},
};

static orr_status put_slot(const orr_html_page *p, const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        if (strlen(slots[i].name) == n && memcmp(slots[i].name, name, n) == 0)
            return slots[i].put(p);
    return orr_fail(p->err, ORR_NOT_FOUND, "page.html asks for '%.*s', which nothing writes",
                    (int)n, name);
}

static orr_status write_page(const orr_html_page *p)
{
    const orr_asset *asset = find_asset("page.html");
    const char *at = (const char *)asset->bytes, *end = at + asset->n;
    for (const char *open; (open = memmem(at, (size_t)(end - at), "{{", 2)) != NULL;) {
        const char *close = memmem(open, (size_t)(end - open), "}}", 2);
        if (close == NULL)
            break;
        orr_output_write(p->out, at, (size_t)(open - at));
        ORR_TRY(put_slot(p, open + 2, (size_t)(close - open - 2)));
        at = close + 2;
    }
    orr_output_write(p->out, at, (size_t)(end - at));
    return orr_output_finish(p->out, p->err);
}

orr_status orr_html_page_make(const char *path, const orr_html_kind *kind, const char *title,
                              const void *subject, orr_error *err)
{
    orr_html_page page = {
        .arena = orr_arena_new(0, 0), .err = err, .title = title, .subject = subject, .kind = kind};
    orr_status status = ORR_OK;
    if (page.arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, orr_output_open(path, &page.out, err));
    status = write_page(&page);
out:
    orr_output_close(page.out);
    orr_arena_free(page.arena);
    return status;
}

/* --- parts of a page ------------------------------------------------------------------------- */

static void put_element(orr_output *out, const char *open, const char *text, const char *close)
{
    orr_output_text(out, open);
    orr_html_text(out, text);
    orr_output_text(out, close);
}

void orr_html_link(orr_output *out, const char *id, const char *title)
{
    orr_output_printf(out, "<a href=\"#%s\">", id);
    put_element(out, "", title, "</a>\n");
}

void orr_html_section_open(orr_output *out, const char *id, const char *title)
{
    orr_output_printf(out, "<section id=\"%s\">", id);
    put_element(out, "<h2>", title, "</h2>\n");
}

void orr_html_section_close(orr_output *out)
{
    orr_output_text(out, "</section>\n");
}

void orr_html_plan(orr_output *out, const char *plan)
{
    put_element(out, "<code class=\"text-plan\">", plan, "</code>\n");
}

void orr_html_tiles_open(orr_output *out)
{
    orr_output_text(out, "<dl class=\"tiles\">\n");
}

void orr_html_tiles_close(orr_output *out)
{
    orr_output_text(out, "</dl>\n");
}

static void put_swatch(orr_output *out, const char *swatch)
{
    orr_output_printf(out, "<i class=\"swatch %s\"></i>", swatch);
}

void orr_html_tile(orr_output *out, const char *swatch, const char *name, const char *value,
                   const char *note)
{
    orr_output_text(out, "<div class=\"tile\"><dt>");
    if (swatch != NULL)
        put_swatch(out, swatch);
    put_element(out, "", name, "</dt>");
    put_element(out, value != NULL ? "<dd>" : "<dd class=\"none\">",
                value != NULL ? value : "not available", "</dd>");
    put_element(out, "<dd class=\"note\">", note != NULL ? note : "", "</dd></div>\n");
}

orr_status orr_html_named_tables(const orr_html_page *p, const char *prefix,
                                 const orr_named_table *tables, int n, size_t max_rows)
{
    for (int i = 0; i < n; i++) {
        const char *id = orr_arena_printf(p->arena, "%s-%s", prefix, tables[i].name);
        if (id == NULL)
            return orr_fail_memory(p->err);
        if (tables[i].table.n_rows > 0)
            orr_html_table(p->out, &tables[i].table,
                           &(orr_html_table_options){.id = id, .max_rows = max_rows});
    }
    return ORR_OK;
}

void orr_html_figure_open(orr_output *out, const char *title, const char *note)
{
    put_element(out, "<figure class=\"card\"><figcaption><h3>", title, "</h3>");
    if (note != NULL)
        put_element(out, "<span class=\"soft\">", note, "</span>");
    orr_output_text(out, "</figcaption>\n");
}

void orr_html_figure_close(orr_output *out)
{
    orr_output_text(out, "</figure>\n");
}

void orr_html_legend_open(orr_output *out)
{
    orr_output_text(out, "<ul class=\"legend\">");
}

void orr_html_legend(orr_output *out, const char *swatch, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    orr_output_text(out, "<li>");
    put_swatch(out, swatch);
    put_element(out, "", text, "</li>");
}

void orr_html_legend_close(orr_output *out)
{
    orr_output_text(out, "</ul>\n");
}
