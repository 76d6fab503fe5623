/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "cli/search/explore.h"
#include "report/explore/describe.h"

/* Text behind what stands in out[0..*at); what has no room is left out. */
static void add(char *out, size_t room, size_t *at, const char *text)
{
    if (*at >= room)
        return;
    const int n = snprintf(out + *at, room - *at, "%s", text);
    *at += n > 0 ? (size_t)n : 0;
}

static void add_value(char *out, size_t room, size_t *at, const char *what, orr_objective objective,
                      double value)
{
    char text[80], human[ORR_HUMAN_MAX];
    if (!isfinite(value))
        return;
    (void)snprintf(text, sizeof text, "  %s %s", what,
                   orr_objective_human(objective, value, human));
    add(out, room, at, text);
}

void orr_explore_progress_line(const orr_explore_progress *p, orr_objective objective,
                               int64_t elapsed_ns, char *out, size_t room)
{
    const double seconds = (double)elapsed_ns / 1e9;
    char text[120], a[ORR_HUMAN_MAX], b[ORR_HUMAN_MAX];
    size_t at = 0;
    if (room > 0)
        out[0] = '\0';
    add(out, room, &at, "exploring");
    if (p->phase != NULL) {
        (void)snprintf(text, sizeof text, " (%s)", p->phase);
        add(out, room, &at, text);
    }
    if (p->families > 0) {
        (void)snprintf(text, sizeof text, " %3d %%",
                       (int)(100.0 * (double)p->families_done / (double)p->families));
        add(out, room, &at, text);
    }
    add_value(out, room, &at, "best", objective, p->best);
    add_value(out, room, &at, "bound", objective, p->bound);
    if (isfinite(p->best) && isfinite(p->bound) && p->best > 0) {
        (void)snprintf(text, sizeof text, "  gap %s",
                       orr_human_frac(a, (p->best - p->bound) / p->best));
        add(out, room, &at, text);
    }
    (void)snprintf(text, sizeof text, "  %s plans  %s/s  %llu simulated",
                   orr_human_si(a, (double)p->plans),
                   orr_human_si(b, seconds > 0 ? (double)p->plans / seconds : 0),
                   (unsigned long long)p->simulated);
    add(out, room, &at, text);
    if (p->families > 0) {
        (void)snprintf(text, sizeof text, "  %s of %s sets", orr_human_count(a, p->families_done),
                       orr_human_count(b, p->families));
        add(out, room, &at, text);
    }
    if (p->family != NULL && p->family[0] != '\0') {
        (void)snprintf(text, sizeof text, "  %.40s", p->family);
        add(out, room, &at, text);
    }
}
