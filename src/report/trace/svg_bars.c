/* SPDX-License-Identifier: Apache-2.0 */
#include "report/trace/parts.h"

#include <stdio.h>

#include "report/humanize/human.h"
#include "report/page/page.h"
#include "report/page/svg.h"

enum { LABEL = 76, BAR = 18, STEP = 26, RANKS_SHOWN = 64 };

/* A part of a bar: its class, which gives the colour, and its name. */
typedef struct part {
    const char *class, *words;
    int64_t ns;
} part;

/* `whole_ns` long bars are as wide as the picture. */
static void put_bar(orr_output *out, const char *label, const part *parts, int n, int64_t span_ns,
                    int64_t whole_ns, int y)
{
    double x = LABEL;
    orr_svg_text(out, "", ORR_SVG_END, LABEL - 10, y + 13, "%s", label);
    for (int i = 0; i < n; i++) {
        char time[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX], words[160], class[32];
        const double w = (double)parts[i].ns / (double)whole_ns * (ORR_SVG_WIDTH - LABEL);
        if (parts[i].ns <= 0)
            continue;
        orr_human_frac(share, span_ns > 0 ? (double)parts[i].ns / (double)span_ns : 0);
        snprintf(words, sizeof words, "%s, %s: %s, %s", label, parts[i].words,
                 orr_human_ns(time, (double)parts[i].ns), share);
        orr_svg_rect(out, parts[i].class, x, y, w, BAR, words);
        snprintf(class, sizeof class, "in %s", parts[i].class);
        if (w > 56)
            orr_svg_text(out, class, ORR_SVG_START, x + 7, y + 13, "%s", share);
        x += w;
    }
}

/* What a rank does with its time, in the order of a bar. */
static const part kinds[] = {{"compute", "computing", 0},
                             {"comm", "exposed transfers", 0},
                             {"peer", "bubble: waiting for a peer", 0},
                             {"memory", "exposed memory", 0},
                             {"idle", "idle", 0}};

void orr_svg_breakdown(orr_output *out, const orr_temporal *rows, size_t n_rows)
{
    const size_t n = n_rows < RANKS_SHOWN ? n_rows : RANKS_SHOWN;
    int64_t longest_ns = 1;
    for (size_t i = 0; i < n; i++)
        if (rows[i].span_ns > longest_ns)
            longest_ns = rows[i].span_ns;
    orr_html_legend_open(out);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        orr_html_legend(out, kinds[i].class, "%s", kinds[i].words);
    orr_html_legend_close(out);
    orr_svg_open(out, "Time of each rank by what it did", (int)n * STEP);
    for (size_t i = 0; i < n; i++) {
        const orr_temporal *row = &rows[i];
        part parts[] = {kinds[0], kinds[1], kinds[2], kinds[3], kinds[4]};
        char label[24];
        parts[0].ns = row->compute_ns;
        parts[1].ns = row->exposed_comm_ns - row->bubble_ns;
        parts[2].ns = row->bubble_ns;
        parts[3].ns = row->exposed_memory_ns;
        parts[4].ns = row->idle_ns;
        snprintf(label, sizeof label, "rank %u", row->rank);
        put_bar(out, label, parts, 5, row->span_ns, longest_ns, (int)i * STEP + (STEP - BAR) / 2);
    }
    orr_svg_close(out);
    if (n < n_rows)
        orr_output_printf(out, "<p class=\"note\">The first %zu of %zu ranks.</p>\n", n, n_rows);
}

/* By orr_bound, in its order. */
static const part bounds[ORR_BOUNDS] = {
    [ORR_BOUND_CPU] = {"host", "host (CPU)", 0},
    [ORR_BOUND_COMPUTE] = {"compute", "computation", 0},
    [ORR_BOUND_COMMUNICATION] = {"comm", "communication", 0},
    [ORR_BOUND_MEMORY] = {"memory", "memory copies", 0},
    [ORR_BOUND_KERNEL_GAP] = {"overhead", "gaps between kernels", 0},
    [ORR_BOUND_LAUNCH] = {"runtime", "launch delays", 0},
    [ORR_BOUND_HOST_GAP] = {"other", "between operators", 0},
    [ORR_BOUND_DATA_LOADING] = {"python", "data loading", 0},
    [ORR_BOUND_PEER] = {"peer", "waiting for a peer", 0},
    [ORR_BOUND_NONE] = {"idle", "nothing recorded", 0},
};

const char *orr_bound_label(orr_bound bound)
{
    return bounds[bound].words;
}

void orr_svg_critical_path(orr_output *out, const orr_critical_path *path)
{
    part parts[ORR_BOUNDS];
    const int64_t span_ns = path->end_ns - path->start_ns;
    orr_html_legend_open(out);
    for (int b = 0; b < ORR_BOUNDS; b++) {
        char share[ORR_HUMAN_MAX];
        parts[b] = bounds[b];
        parts[b].ns = path->bound_ns[b];
        if (parts[b].ns > 0)
            orr_html_legend(out, parts[b].class, "%s %s", parts[b].words,
                            orr_human_frac(share, (double)parts[b].ns / (double)span_ns));
    }
    orr_html_legend_close(out);
    orr_svg_open(out, "The critical path by what bounds it", STEP);
    put_bar(out, "path", parts, ORR_BOUNDS, span_ns, span_ns, (STEP - BAR) / 2);
    orr_svg_close(out);
}
