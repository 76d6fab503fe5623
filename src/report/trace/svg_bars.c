/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page/html.h"

#include <stdio.h>

#include "report/humanize/human.h"

enum { WIDTH = 1400, LABEL = 76, BAR = 18, STEP = 26, RANKS_SHOWN = 64 };

/* One colour of a bar: class in the page, fills for a picture that stands alone. */
typedef struct part {
    const char *class, *words, *fill, *ink;
    int64_t ns;
} part;

/* `whole_ns` long bars are as wide as the picture. */
static void put_bar(orr_output *out, const char *label, const part *parts, int n, int64_t span_ns,
                    int64_t whole_ns, int y)
{
    double x = LABEL;
    orr_output_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LABEL - 10,
                      y + 13, label);
    for (int i = 0; i < n; i++) {
        char time[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX];
        const double w = (double)parts[i].ns / (double)whole_ns * (WIDTH - LABEL);
        if (parts[i].ns <= 0)
            continue;
        orr_human_frac(share, span_ns > 0 ? (double)parts[i].ns / (double)span_ns : 0);
        orr_output_printf(out,
                          "<rect class=\"%s\" fill=\"%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" "
                          "height=\"%d\"><title>%s, %s: %s, %s</title></rect>\n",
                          parts[i].class, parts[i].fill, x, y, w, BAR, label, parts[i].words,
                          orr_human_ns(time, (double)parts[i].ns), share);
        if (w > 56)
            orr_output_printf(out,
                              "<text class=\"in %s\" x=\"%.2f\" y=\"%d\" fill=\"%s\">%s</text>\n",
                              parts[i].class, x + 7, y + 13, parts[i].ink, share);
        x += w;
    }
}

static void open_picture(orr_output *out, const char *about, int n_bars)
{
    orr_output_printf(out,
                      "<svg class=\"breakdown\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
                      "aria-label=\"%s\" viewBox=\"0 0 %d %d\" "
                      "font-family=\"system-ui, sans-serif\" font-size=\"12\">\n",
                      about, WIDTH, n_bars * STEP);
}

void orr_svg_breakdown(orr_output *out, const orr_temporal *rows, size_t n_rows)
{
    const size_t n = n_rows < RANKS_SHOWN ? n_rows : RANKS_SHOWN;
    int64_t longest_ns = 1;
    for (size_t i = 0; i < n; i++)
        if (rows[i].span_ns > longest_ns)
            longest_ns = rows[i].span_ns;
    open_picture(out, "Time of each rank by what it did", (int)n);
    for (size_t i = 0; i < n; i++) {
        const orr_temporal *row = &rows[i];
        const part parts[] = {
            {"compute", "computing", "#3b76c4", "#fff", row->compute_ns},
            {"comm", "exposed communication", "#e08a1e", "#2b1800", row->exposed_comm_ns},
            {"memory", "exposed memory", "#2a9d83", "#fff", row->exposed_memory_ns},
            {"idle", "idle", "#d4d8df", "#1b1f27", row->idle_ns},
        };
        char label[24];
        snprintf(label, sizeof label, "rank %u", row->rank);
        put_bar(out, label, parts, 4, row->span_ns, longest_ns, (int)i * STEP + (STEP - BAR) / 2);
    }
    orr_output_text(out, "</svg>\n");
    if (n < n_rows)
        orr_output_printf(out, "<p class=\"note\">The first %zu of %zu ranks.</p>\n", n, n_rows);
}

/* By orr_bound, in its order. */
static const part bounds[ORR_BOUNDS] = {
    [ORR_BOUND_CPU] = {"host", "host (CPU)", "#9cbcdc", "#0e2238", 0},
    [ORR_BOUND_COMPUTE] = {"compute", "computation", "#3b76c4", "#fff", 0},
    [ORR_BOUND_COMMUNICATION] = {"comm", "communication", "#e08a1e", "#2b1800", 0},
    [ORR_BOUND_MEMORY] = {"memory", "memory copies", "#2a9d83", "#fff", 0},
    [ORR_BOUND_KERNEL_GAP] = {"overhead", "gaps between kernels", "#c4553b", "#fff", 0},
    [ORR_BOUND_LAUNCH] = {"runtime", "launch delays", "#b792cc", "#25102f", 0},
    [ORR_BOUND_DATA_LOADING] = {"python", "data loading", "#dccb7c", "#322a00", 0},
    [ORR_BOUND_PEER] = {"peer", "waiting for a peer", "#ecc22b", "#2b2300", 0},
    [ORR_BOUND_NONE] = {"idle", "nothing recorded", "#d4d8df", "#1b1f27", 0},
};

const char *orr_bound_label(orr_bound bound)
{
    return bounds[bound].words;
}

void orr_svg_critical_path(orr_output *out, const orr_critical_path *path)
{
    part parts[ORR_BOUNDS];
    const int64_t span_ns = path->end_ns - path->start_ns;
    orr_output_text(out, "<ul class=\"legend\">");
    for (int b = 0; b < ORR_BOUNDS; b++) {
        char share[ORR_HUMAN_MAX];
        parts[b] = bounds[b];
        parts[b].ns = path->bound_ns[b];
        if (parts[b].ns > 0)
            orr_output_printf(out, "<li><i class=\"swatch k-%s\"></i>%s %s</li>", parts[b].class,
                              parts[b].words,
                              orr_human_frac(share, (double)parts[b].ns / (double)span_ns));
    }
    orr_output_text(out, "</ul></figcaption>\n");
    open_picture(out, "The critical path by what bounds it", 1);
    put_bar(out, "path", parts, ORR_BOUNDS, span_ns, span_ns, (STEP - BAR) / 2);
    orr_output_text(out, "</svg>\n");
}
