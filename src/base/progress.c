/* SPDX-License-Identifier: Apache-2.0 */
#include "base/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/term.h"
#include "base/units.h"

static const int64_t patience_ns = 2000000000, interval_ns = 100000000;

void orr_progress_init(orr_progress *p, const char *what, bool bytes, int fd, bool quiet,
                       const orr_clock *clock)
{
    *p = (orr_progress){.what = what,
                        .bytes = bytes,
                        .fd = !quiet && orr_term_is_tty(fd) ? fd : -1,
                        .clock = clock != NULL ? clock : &orr_clock_monotonic};
    p->start_ns = orr_clock_now_ns(p->clock);
    p->next_ns = p->start_ns + patience_ns;
}

static void format_amount(const orr_progress *p, double amount, char out[ORR_UNIT_CHARS])
{
    if (p->bytes)
        orr_format_bytes(out, (uint64_t)amount);
    else
        orr_format_count(out, (uint64_t)amount);
}

/* "1:02:03" or "0:07". */
static void format_time(double seconds, char out[ORR_UNIT_CHARS])
{
    const long s = seconds < 1e7 ? lround(seconds) : 10000000;
    if (s < 3600)
        (void)snprintf(out, ORR_UNIT_CHARS, "%ld:%02ld", s / 60, s % 60);
    else
        (void)snprintf(out, ORR_UNIT_CHARS, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

void orr_progress_line(const orr_progress *p, uint64_t done, uint64_t total, int64_t elapsed_ns,
                       char *out, size_t room)
{
    char amount[ORR_UNIT_CHARS], of[ORR_UNIT_CHARS], rate[ORR_UNIT_CHARS], left[ORR_UNIT_CHARS];
    const double per_s = elapsed_ns > 0 ? (double)done * 1e9 / (double)elapsed_ns : 0;
    format_amount(p, (double)done, amount);
    format_amount(p, per_s, rate);
    if (total == 0 || done > total) {
        (void)snprintf(out, room, "%s  %s  %s/s", p->what, amount, rate);
        return;
    }
    const double frac = (double)done / (double)total;
    format_amount(p, (double)total, of);
    format_time(per_s > 0 ? (double)(total - done) / per_s : 0, left);
    (void)snprintf(out, room, "%s %3d %%  %s of %s  %s/s  %s left", p->what, (int)(frac * 100),
                   amount, of, rate, left);
}

static void draw(const orr_progress *p, const char *line)
{
    char text[256];
    const int n = snprintf(text, sizeof text, "\r%s\033[K", line);
    if (n > 0)
        (void)!write(p->fd, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

bool orr_progress_due(orr_progress *p, int64_t *ret_elapsed_ns)
{
    if (p->fd < 0)
        return false;
    const int64_t now = orr_clock_now_ns(p->clock);
    if (now < p->next_ns)
        return false;
    p->next_ns = now + interval_ns;
    *ret_elapsed_ns = now - p->start_ns;
    return true;
}

void orr_progress_say(orr_progress *p, const char *line)
{
    char cut[200];
    const int width = orr_term_width(p->fd);
    (void)snprintf(cut, width > 0 && (size_t)width < sizeof cut ? (size_t)width : sizeof cut, "%s",
                   line);
    p->drawn = true;
    draw(p, cut);
}

void orr_progress_update(orr_progress *p, uint64_t done, uint64_t total)
{
    int64_t elapsed_ns;
    char line[200];
    if (!orr_progress_due(p, &elapsed_ns))
        return;
    orr_progress_line(p, done, total, elapsed_ns, line, sizeof line);
    orr_progress_say(p, line);
}

void orr_progress_done(orr_progress *p)
{
    if (p->drawn)
        draw(p, "");
    p->drawn = false;
}
