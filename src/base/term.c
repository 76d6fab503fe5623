/* SPDX-License-Identifier: Apache-2.0 */
#include "base/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_WIDTH = 80, MOST_WIDTH = 1000 };

bool orr_color_from_name(const char *name, orr_color *ret)
{
    static const char *const names[] = {
        [ORR_COLOR_AUTO] = "auto", [ORR_COLOR_ALWAYS] = "always", [ORR_COLOR_NEVER] = "never"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret = (orr_color)i;
            return true;
        }
    }
    return false;
}

bool orr_term_is_tty(int fd)
{
    return isatty(fd) == 1;
}

int orr_term_width(int fd)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    const long width = columns != NULL ? strtol(columns, NULL, 10) : 0;
    return width > 0 && width <= MOST_WIDTH ? (int)width : DEFAULT_WIDTH;
}

bool orr_term_use_color(orr_color color, int fd)
{
    if (color != ORR_COLOR_AUTO)
        return color == ORR_COLOR_ALWAYS;
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return orr_term_is_tty(fd) && (no_color == NULL || no_color[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}
