/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_PAGE_HTML_H
#define ORR_REPORT_PAGE_HTML_H

#include <orrery/report.h>

#include "io/stream/output.h"

/* Text as HTML text or as an attribute in double quotes: nothing of it is markup. */
void orr_html_text(orr_output *out, const char *text);
ORR_PRINTF(2, 3) void orr_html_printf(orr_output *out, const char *format, ...);

/* A table as a card, with exact values beside readable ones, so that the page can sort it. */
typedef struct orr_html_table_options {
    const char *id;        /* of the card, unique on its page; or NULL */
    const char *about;     /* a line beside the title; or NULL */
    const char *analysis;  /* `orrery analyze --only` gives all rows; or NULL */
    const uint32_t *order; /* of rows, shape (n_rows); or NULL: as they come */
    size_t max_rows;
    const struct orr_html_cell_link *links; /* shape (n_rows), or NULL */
} orr_html_table_options;
/* A cell of a row that leads to events of the page's timeline. */
typedef struct orr_html_cell_link {
    const char *column; /* of text; NULL: the row has none */
    const char *events; /* their numbers: "12,57" */
    const char *node;   /* the node that they stand for, "RANK-NODE"; NULL: several */
} orr_html_cell_link;
void orr_html_table(orr_output *out, const orr_table *table, const orr_html_table_options *options);

#endif /* ORR_REPORT_PAGE_HTML_H */
