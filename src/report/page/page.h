/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_PAGE_PAGE_H
#define ORR_REPORT_PAGE_PAGE_H

#include "report/page/html.h"

/* The HTML pages are one family: a recording, a plan or two, an exploration, a fleet. All are the
 * template page.html with its slots filled; a kind of page is the writers of those slots. */
typedef struct orr_html_page {
    orr_output *out;
    orr_arena *arena;
    orr_error *err;
    const char *title; /* of the window, and the heading */
    const void *subject;
    const struct orr_html_kind *kind;
} orr_html_page;

typedef struct orr_html_kind {
    const char *name;                      /* class of <body>, for rules of the style sheet */
    const char *script;                    /* "page.js" or "trace.js" */
    void (*about)(const orr_html_page *p); /* the line below the heading */
    void (*nav)(const orr_html_page *p);   /* links to the sections */
    orr_status (*main)(const orr_html_page *p);
    orr_status (*data)(const orr_html_page *p); /* for the script; or NULL */
} orr_html_kind;

/* Writes a page about `subject`, which the writers find in the page: a whole file, or none.
 * Errors: IO, NO_MEMORY, and those of the writers. */
orr_status orr_html_page_make(const char *path, const orr_html_kind *kind, const char *title,
                              const void *subject, orr_error *err) ORR_MUST_CHECK;

/* A file of the template's folder or of a page's own, as it stands. */
void orr_html_asset(orr_output *out, const char *name);

void orr_html_link(orr_output *out, const char *id, const char *title); /* of the navigation */
void orr_html_section_open(orr_output *out, const char *id, const char *title);
void orr_html_section_close(orr_output *out);

/* A plan as text that can be copied whole. */
void orr_html_plan(orr_output *out, const char *plan);

/* Figures at the top of a section, side by side: tiles between open and close. `swatch`: class of
 * a colour beside the name; it and `note` may be NULL, and `value` where there is none. */
void orr_html_tiles_open(orr_output *out);
void orr_html_tiles_close(orr_output *out);
void orr_html_tile(orr_output *out, const char *swatch, const char *name, const char *value,
                   const char *note);

/* Tables that have rows, as cards with ids "PREFIX-NAME". Errors: NO_MEMORY. */
orr_status orr_html_named_tables(const orr_html_page *p, const char *prefix,
                                 const orr_named_table *tables, int n,
                                 size_t max_rows) ORR_MUST_CHECK;

/* A picture in a frame: title, a note beside it (or NULL), then legend and picture, then close. */
void orr_html_figure_open(orr_output *out, const char *title, const char *note);
void orr_html_figure_close(orr_output *out);
/* What the colours of a picture mean: an entry for each class, between open and close. */
void orr_html_legend_open(orr_output *out);
ORR_PRINTF(3, 4)
void orr_html_legend(orr_output *out, const char *swatch, const char *format, ...);
void orr_html_legend_close(orr_output *out);

#endif /* ORR_REPORT_PAGE_PAGE_H */
