/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_TERM_H
#define ORR_BASE_TERM_H

#include <stdbool.h>

/* What stands at the other end of a file descriptor. Threads: any, while nobody changes the
 * environment. */
typedef enum orr_color { ORR_COLOR_AUTO, ORR_COLOR_ALWAYS, ORR_COLOR_NEVER } orr_color;

/* "auto", "always", "never"; false when it is none of them. */
bool orr_color_from_name(const char *name, orr_color *ret);

bool orr_term_is_tty(int fd);
/* Columns of the terminal, else of $COLUMNS, else 80. */
int orr_term_width(int fd);
/* AUTO: on a terminal that is not dumb, unless NO_COLOR is set to anything (no-color.org). */
bool orr_term_use_color(orr_color color, int fd);

#endif /* ORR_BASE_TERM_H */
