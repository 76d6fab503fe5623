/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_HUMANIZE_HUMAN_H
#define ORR_REPORT_HUMANIZE_HUMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers as people read them: four significant digits and a unit. Each function writes
 * a NUL-terminated text of at most ORR_HUMAN_MAX bytes to `buf` and returns `buf`. */
#define ORR_HUMAN_MAX 40

char *orr_human_ns(char buf[ORR_HUMAN_MAX], double ns);                   /* "1.234 ms"  */
char *orr_human_bytes(char buf[ORR_HUMAN_MAX], double bytes);             /* "1.5 MiB"   */
char *orr_human_bytes_per_s(char buf[ORR_HUMAN_MAX], double bytes_per_s); /* "12.3 GB/s" */
char *orr_human_frac(char buf[ORR_HUMAN_MAX], double frac);               /* "12.3 %"    */
char *orr_human_count(char buf[ORR_HUMAN_MAX], uint64_t count);           /* "1,234,567" */
char *orr_human_si(char buf[ORR_HUMAN_MAX], double count);                /* "1.23 G"    */
char *orr_human_number(char buf[ORR_HUMAN_MAX], double number);           /* "1234.5"    */

/* Columns that a text takes on a terminal: its code points;
 * bytes that are not UTF-8 count one each. */
size_t orr_text_display_width(const char *text);

/* The text in at most `columns` columns, the middle of what is too long replaced by an
 * ellipsis, control characters by '?' (a name must not drive the terminal). Writes at most `cap`
 * bytes with the NUL and returns the length. */
size_t orr_text_elide(const char *text, size_t columns, char *buf, size_t cap);

#endif /* ORR_REPORT_HUMANIZE_HUMAN_H */
