/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page/page.h"

#include <stdio.h>
#include <string.h>

#include "report/page/assets.h"

static orr_status put_page(const orr_html_page *page, orr_html_page_writer *put, const void *ctx)
{
    ORR_TRY(put(page, ctx));
    orr_output_printf(page->out,
                      "</main>\n<footer class=\"note\">Orrery %s</footer>\n</body>\n</html>\n",
                      orr_assets_version);
    return orr_output_finish(page->out, page->err);
}

orr_status orr_html_page_make(const char *path, orr_html_page_writer *put, const void *ctx,
                              orr_error *err)
{
    orr_html_page page = {.arena = orr_arena_new(0, 0), .err = err};
    orr_status status = ORR_OK;
    if (page.arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, orr_output_open(path, &page.out, err));
    status = put_page(&page, put, ctx);
out:
    orr_output_close(page.out);
    orr_arena_free(page.arena);
    return status;
}

static void put_style(orr_output *out, const char *name)
{
    for (size_t i = 0; i < orr_n_assets; i++)
        if (strcmp(orr_assets[i].name, name) == 0)
            orr_output_write(out, orr_assets[i].bytes, orr_assets[i].n);
}

static void put_styles(orr_output *out, const char *own)
{
    char name[32];
    put_style(out, "page.css");
    if (own == NULL)
        return;
    snprintf(name, sizeof name, "%s.css", own);
    put_style(out, name);
}

void orr_html_page_head(orr_output *out, const char *title, const char *heading, const char *style)
{
    orr_output_text(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                         "<meta name=\"viewport\" content=\"width=device-width, "
                         "initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
                         "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    orr_output_text(out, "<title>");
    orr_html_text(out, title);
    orr_output_text(out, " · Orrery</title>\n<style>\n");
    put_styles(out, style);
    orr_output_text(out, "</style>\n</head>\n<body");
    if (style != NULL)
        orr_output_printf(out, " class=\"%s\"", style);
    orr_output_text(out, ">\n<header class=\"top\"><div class=\"brand\"><div><h1>");
    orr_html_text(out, heading);
    orr_output_text(out, "</h1><p>");
}

void orr_html_page_nav(orr_output *out)
{
    orr_output_text(out, "</p></div></div><nav aria-label=\"Sections\">");
}

void orr_html_page_main(orr_output *out)
{
    orr_output_text(out, "</nav></header>\n<main>\n");
}

void orr_html_tile(orr_output *out, const char *what, const char *value, const char *note)
{
    orr_output_text(out, "<div class=\"tile\"><dt>");
    orr_html_text(out, what);
    orr_output_text(out, "</dt><dd>");
    orr_html_text(out, value);
    orr_output_text(out, "</dd><dd class=\"note\">");
    orr_html_text(out, note != NULL ? note : "");
    orr_output_text(out, "</dd></div>\n");
}

void orr_html_figure_open(orr_output *out, const char *title, const char *note)
{
    orr_output_text(out, "<figure class=\"card\"><figcaption><h3>");
    orr_html_text(out, title);
    orr_output_text(out, "</h3><span class=\"soft\">");
    orr_html_text(out, note);
    orr_output_text(out, "</span></figcaption>\n");
}

void orr_html_figure_close(orr_output *out)
{
    orr_output_text(out, "</figure>\n");
}
