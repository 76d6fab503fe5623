/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_PAGE_PAGE_H
#define ORR_REPORT_PAGE_PAGE_H

#include "report/page/html.h"

/* Pages without scripts: plans, fleets, explorations. They share the style sheet of the report's
 * page. */

/* What a page is made of; made and freed by orr_html_page_make(). */
typedef struct orr_html_page {
    orr_output *out;
    orr_arena *arena;
    orr_error *err;
} orr_html_page;
/* Opens the file, lets `put` write the page from its head on, ends it: a file that is whole, or
 * none. */
typedef orr_status orr_html_page_writer(const orr_html_page *page, const void *ctx);
orr_status orr_html_page_make(const char *path, orr_html_page_writer *put, const void *ctx,
                              orr_error *err) ORR_MUST_CHECK;

/* From the beginning to within the line under the heading. `style`: a style sheet of its own, the
 * name of which is its body's class: "explore"; or NULL. */
void orr_html_page_head(orr_output *out, const char *title, const char *heading, const char *style);
void orr_html_page_nav(orr_output *out);  /* that line ends; links to sections follow */
void orr_html_page_main(orr_output *out); /* the links end; sections follow */

/* A figure for the top; `note` may be NULL. */
void orr_html_tile(orr_output *out, const char *what, const char *value, const char *note);
/* A picture with its title, and a note beside it; then what is in it, then its end. */
void orr_html_figure_open(orr_output *out, const char *title, const char *note);
void orr_html_figure_close(orr_output *out);

#endif /* ORR_REPORT_PAGE_PAGE_H */
