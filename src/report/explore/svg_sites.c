/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/plan/plan.h"
#include "report/explore/describe.h"
#include "report/explore/svg.h"
#include "report/page/html.h"
#include "report/page/svg.h"

/* Sites stand in a row, those of a region within its frame; below them a lane for each cut, the
 * longer the deeper, so that no line runs through the words of another. */
enum {
    WIDTH = ORR_SVG_WIDTH,
    GAP = 26,
    REGION_GAP = 34,
    REGION_TOP = 24,
    PAD = 14,
    SITE_TOP = 34,
    SITE_HEIGHT = 236,
    SITE_LEAST = 168,
    HEAD = 52,
    FEET = 40,
    LANES_TOP = SITE_TOP + SITE_HEIGHT,
    LANE = 58,
    CORNER = 10,
    ROWS_DRAWN = 32
};

typedef struct picture {
    orr_output *out;
    orr_arena *arena;
    const orr_outcome *outcome;
    const orr_explore_site *sites; /* shape (n) */
    uint32_t n;
    double x[ORR_SITES_MAX], w[ORR_SITES_MAX];
} picture;

static bool new_region(const picture *p, uint32_t i)
{
    return i == 0 || strcmp(p->sites[i].region, p->sites[i - 1].region) != 0;
}

/* As wide as there are devices, but wide enough to be read. */
static void place_sites(picture *p)
{
    double all = 0, gaps = 0, room, small = 0, large = 0, at = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        all += p->sites[i].devices;
        gaps += i == 0 ? 0 : new_region(p, i) ? REGION_GAP + 2 * PAD : GAP;
    }
    room = WIDTH - gaps - 2 * PAD;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->sites[i].devices / all * room < SITE_LEAST)
            small += SITE_LEAST;
        else
            large += p->sites[i].devices;
    at = PAD;
    for (uint32_t i = 0; i < p->n; i++) {
        const double share = p->sites[i].devices / all * room;
        p->w[i] = share < SITE_LEAST ? SITE_LEAST : p->sites[i].devices / large * (room - small);
        at += i == 0 ? 0 : new_region(p, i) ? REGION_GAP + 2 * PAD : GAP;
        p->x[i] = at;
        at += p->w[i];
    }
}

static void put_text(orr_output *out, const char *class, double x, double y, double width,
                     const char *text)
{
    char fit[400];
    orr_text_elide(text, width > 14 ? (size_t)(width / 6.6) : 2, fit, sizeof fit);
    orr_svg_text(out, class, ORR_SVG_START, x, y, "%s", fit);
}

static void put_region(const picture *p, uint32_t first)
{
    uint32_t last = first;
    while (last + 1 < p->n && !new_region(p, last + 1))
        last++;
    if (*p->sites[first].region == '\0')
        return;
    orr_output_printf(p->out,
                      "<rect class=\"region\" rx=\"12\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                      "height=\"%d\"/>\n",
                      p->x[first] - PAD + 1, REGION_TOP,
                      p->x[last] + p->w[last] - p->x[first] + 2 * PAD - 2,
                      SITE_TOP + SITE_HEIGHT - REGION_TOP + PAD);
    put_text(p->out, "", p->x[first] - PAD + 4, REGION_TOP - 8, p->w[first],
             p->sites[first].region);
}

/* --- what stands in a site ------------------------------------------------------------------- */

static bool has_stage(const orr_explore_site *s, uint32_t stage)
{
    return (s->stage_marks[stage / 64] >> stage % 64 & 1) != 0;
}

static void put_stages(const picture *p, const orr_explore_site *s, double x, double y, double w,
                       double h)
{
    const uint32_t stages = orr_plan_degree(p->outcome->plan.pp);
    const double column = w / s->stages;
    uint32_t at = 0;
    for (uint32_t stage = 0; stage < stages; stage++)
        if (has_stage(s, stage)) {
            char words[32];
            snprintf(words, sizeof words, "stage %u", stage);
            orr_svg_stage(p->out, stage, x + at++ * column, y, column > 3 ? column - 1 : column, h,
                          words);
        }
    for (uint32_t r = 1; s->replicas <= ROWS_DRAWN && r < s->replicas; r++)
        orr_svg_line(p->out, "row", x, y + h * r / s->replicas, x + w, y + h * r / s->replicas);
    at = 0;
    for (uint32_t stage = 0; stage < stages && column > 17; stage++)
        if (has_stage(s, stage))
            orr_svg_text(p->out, "in", ORR_SVG_MIDDLE, x + (at++ + 0.5) * column, y + 14, "%u",
                         stage);
}

static void put_site(const picture *p, uint32_t i)
{
    const orr_explore_site *s = &p->sites[i];
    const double x = p->x[i], w = p->w[i], inner = w - 2 * PAD;
    char used[ORR_HUMAN_MAX], all[ORR_HUMAN_MAX], words[160];
    orr_output_printf(p->out,
                      "<rect class=\"%s\" rx=\"8\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                      "height=\"%d\"/>\n",
                      s->used > 0 ? "site" : "unused", x, SITE_TOP, w, SITE_HEIGHT);
    snprintf(words, sizeof words, "%.60s, %.60s", s->name, s->device);
    put_text(p->out, "strong", x + PAD, SITE_TOP + 20, inner, words);
    snprintf(words, sizeof words, "%s of %s devices",
             s->used > 0 ? orr_human_count(used, s->used) : "none",
             orr_human_count(all, s->devices));
    put_text(p->out, "", x + PAD, SITE_TOP + 37, inner, words);
    if (s->used == 0 || s->stages == 0)
        return;
    const double share = (double)s->used / s->devices;
    put_stages(p, s, x + PAD, SITE_TOP + HEAD, inner * (share < 1 ? share : 1),
               SITE_HEIGHT - HEAD - FEET);
    if (s->stages == 1)
        snprintf(words, sizeof words, "stage %u", s->first_stage);
    else
        snprintf(words, sizeof words, "stages %u to %u", s->first_stage, s->last_stage);
    put_text(p->out, "", x + PAD, SITE_TOP + SITE_HEIGHT - 24, inner, words);
    snprintf(words, sizeof words, "%u replica%s of %u x %u", s->replicas,
             s->replicas == 1 ? "" : "s", orr_plan_degree(p->outcome->plan.tp),
             orr_plan_degree(p->outcome->plan.cp));
    put_text(p->out, "", x + PAD, SITE_TOP + SITE_HEIGHT - 9, inner, words);
}

/* --- what crosses between sites -------------------------------------------------------------- */

/* All axes of a cut together, from site to site of the picture. */
typedef struct wire {
    uint32_t from, to; /* sites of the picture, from the left */
    double bytes, utilisation;
    int64_t exposed_ns;
    char axes[80], facts[120];
    double x[2], label_x, reach[2]; /* ends; middle of the words; what it takes of its lane */
    uint32_t lane;
} wire;

static uint32_t site_of(const picture *p, uint32_t number)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->sites[i].number == number)
            return i;
    return 0;
}

static void tell_facts(const orr_cluster *c, uint32_t a, uint32_t b, char facts[120])
{
    facts[0] = '\0';
    for (uint32_t i = 0; i < c->n_cuts; i++) {
        const orr_site_link *cut = &c->cuts[i];
        char latency[ORR_HUMAN_MAX], rate[ORR_HUMAN_MAX];
        if (cut->a != a || cut->b != b)
            continue;
        const double km = orr_fact_or(&cut->km, NAN), over = orr_fact_or(&cut->oversubscription, 1);
        const int n = isfinite(km) ? snprintf(facts, 120, "%.*f km, ", km < 10 ? 1 : 0, km) : 0;
        snprintf(facts + n, (size_t)(120 - n), "%s one way, %s a device, %.3g:1",
                 orr_human_ns(latency, orr_fact_or(&cut->latency_ns, 0)),
                 orr_human_bytes_per_s(rate, orr_fact_or(&cut->bytes_per_s, 0)), over);
    }
}

static void add_use(const picture *p, const orr_site_link_use *use, wire *wires, uint32_t *n)
{
    const uint32_t from = site_of(p, use->a), to = site_of(p, use->b);
    uint32_t i = 0;
    while (i < *n && (wires[i].from != from || wires[i].to != to))
        i++;
    wire *w = &wires[i];
    if (i == *n) {
        *w = (wire){.from = from, .to = to};
        tell_facts(p->outcome->cluster, use->a, use->b, w->facts);
        (*n)++;
    }
    const size_t at = strlen(w->axes);
    snprintf(w->axes + at, sizeof w->axes - at, "%s%s", at > 0 ? " + " : "",
             orr_axis_name((orr_axis)use->axis));
    w->bytes += use->bytes;
    w->utilisation += use->utilisation_frac;
    w->exposed_ns += use->exposed_ns;
}

static int shortest_first(const void *a, const void *b)
{
    const wire *x = a, *y = b;
    const uint32_t m = x->to - x->from, n = y->to - y->from;
    return m != n ? (m > n) - (m < n) : (x->from > y->from) - (x->from < y->from);
}

/* Ends at a site: those that go left on its left half, the longest in the middle; likewise right.
 */
static void place_ends(const picture *p, wire *wires, uint32_t n)
{
    for (uint32_t s = 0; s < p->n; s++) {
        uint32_t left = 0, right = 0, l = 0, r = 0;
        for (uint32_t i = 0; i < n; i++) {
            left += wires[i].to == s;
            right += wires[i].from == s;
        }
        for (uint32_t i = 0; i < n; i++) {
            const double middle = p->x[s] + p->w[s] / 2, half = p->w[s] / 2 - 16;
            if (wires[i].to == s) /* the shortest come first */
                wires[i].x[1] = middle - half * (left - l++) / (left + 1.0);
            if (wires[i].from == s)
                wires[i].x[0] = middle + half * (right - r++) / (right + 1.0);
        }
    }
}

static void tell_use(const wire *w, char words[240])
{
    char bytes[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX], time[ORR_HUMAN_MAX];
    snprintf(words, 240, "%s: %s a step, %s of the cut, %s exposed", w->axes,
             orr_human_bytes(bytes, w->bytes), orr_human_frac(share, w->utilisation),
             orr_human_ns(time, (double)w->exposed_ns));
}

/* The first lane in which neither line nor words meet those of another. Returns how many lanes
 * there are. */
static uint32_t place_lanes(wire *wires, uint32_t n)
{
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < n; i++) {
        wire *w = &wires[i];
        char words[240];
        tell_use(w, words);
        const size_t most = strlen(words) > strlen(w->facts) ? strlen(words) : strlen(w->facts);
        const double half = 3.4 * (double)most;
        w->label_x = (w->x[0] + w->x[1]) / 2;
        w->label_x = fmin(fmax(w->label_x, half), WIDTH - half);
        w->reach[0] = fmin(w->x[0], w->label_x - half) - 12;
        w->reach[1] = fmax(w->x[1], w->label_x + half) + 12;
        for (uint32_t k = 0; k < i; k++)
            if (w->lane == wires[k].lane && w->reach[0] < wires[k].reach[1] &&
                wires[k].reach[0] < w->reach[1]) {
                w->lane++;
                k = ORR_NONE; /* from the start, in the next */
            }
        lanes = w->lane + 1 > lanes ? w->lane + 1 : lanes;
    }
    return lanes;
}

static double lane_y(const wire *w)
{
    return LANES_TOP + PAD + LANE * w->lane + 24.0;
}

static double thickness(const wire *w, double most_bytes)
{
    return 2 + 10 * sqrt(w->bytes / most_bytes);
}

static void put_line(const picture *p, const wire *w, double most_bytes)
{
    const double y = lane_y(w), top = LANES_TOP;
    const int level = w->utilisation < 0.25  ? 0
                      : w->utilisation < 0.6 ? 1
                      : w->utilisation < 0.9 ? 2
                                             : 3;
    orr_output_printf(p->out,
                      "<path class=\"cut u%d\" stroke-width=\"%.1f\" d=\"M%.1f %.1fV%.1fQ%.1f %.1f "
                      "%.1f %.1fH%.1fQ%.1f %.1f %.1f %.1fV%.1f\"><title>",
                      level, thickness(w, most_bytes), w->x[0], top, y - CORNER, w->x[0], y,
                      w->x[0] + CORNER, y, w->x[1] - CORNER, w->x[1], y, w->x[1], y - CORNER, top);
    orr_html_printf(p->out, "%s - %s", p->sites[w->from].name, p->sites[w->to].name);
    orr_output_text(p->out, "</title></path>\n");
}

/* Below its line, so that its own ends do not run through them. */
static void put_words(const picture *p, const wire *w, double most_bytes)
{
    const double y = lane_y(w) + thickness(w, most_bytes) / 2;
    char words[240];
    tell_use(w, words);
    orr_svg_text(p->out, "strong halo", ORR_SVG_MIDDLE, w->label_x, y + 13, "%s", words);
    orr_svg_text(p->out, "halo", ORR_SVG_MIDDLE, w->label_x, y + 27, "%s", w->facts);
}

static orr_status find_wires(const picture *p, wire **ret, uint32_t *ret_n, orr_error *err)
{
    const uint32_t most = p->outcome->n_cuts;
    wire *wires = orr_arena_array(p->arena, wire, most);
    uint32_t n = 0;
    if (wires == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < most; i++)
        add_use(p, &p->outcome->cuts[i], wires, &n);
    if (n > 0)
        qsort(wires, n, sizeof *wires, shortest_first);
    place_ends(p, wires, n);
    *ret = wires;
    *ret_n = n;
    return ORR_OK;
}

orr_status orr_svg_explore_sites(orr_output *out, const orr_explore_report *r, orr_arena *arena,
                                 orr_error *err)
{
    picture p = {.out = out, .arena = arena, .outcome = &r->outcomes[0]};
    wire *wires = NULL;
    uint32_t n = 0;
    double most_bytes = 1;
    p.sites = orr_explore_sites(r->cluster, p.outcome, arena, &p.n);
    if (p.sites == NULL)
        return orr_fail_memory(err);
    place_sites(&p);
    ORR_TRY(find_wires(&p, &wires, &n, err));
    const uint32_t lanes = place_lanes(wires, n);
    orr_svg_open(out, "The plan over the sites",
                 LANES_TOP + 2 * PAD + (int)lanes * LANE + (lanes > 0 ? 12 : 0));
    for (uint32_t i = 0; i < n; i++)
        most_bytes = fmax(most_bytes, wires[i].bytes);
    for (uint32_t i = 0; i < p.n; i++)
        if (new_region(&p, i))
            put_region(&p, i);
    for (uint32_t i = 0; i < p.n; i++)
        put_site(&p, i);
    for (uint32_t i = n; i-- > 0;)
        put_line(&p, &wires[i], most_bytes);
    for (uint32_t i = 0; i < n; i++)
        put_words(&p, &wires[i], most_bytes);
    orr_svg_close(out);
    return ORR_OK;
}
