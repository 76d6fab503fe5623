/* SPDX-License-Identifier: Apache-2.0 */
#include "report/trace/parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "report/humanize/human.h"
#include "report/page/page.h"

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Median over all steps of all ranks; the first step of few is as good as any. */
static void step_tile(orr_output *out, const orr_job *job, const orr_trace_headline *h)
{
    enum { STEPS_MAX = 4096 };
    static const char label[] = "Step time";
    char value[ORR_HUMAN_MAX], low[ORR_HUMAN_MAX], high[ORR_HUMAN_MAX], note[160];
    int64_t durations[STEPS_MAX];
    const size_t n = h->n_steps < STEPS_MAX ? h->n_steps : STEPS_MAX;
    if (n == 0) {
        int64_t span = 0;
        for (uint32_t g = 0; g < job->n_graphs; g++)
            if (job->graphs[g]->span_ns > span)
                span = job->graphs[g]->span_ns;
        orr_html_tile(out, NULL, "Recorded span", orr_human_ns(value, (double)span),
                      "no step annotation in the recording");
        return;
    }
    for (size_t i = 0; i < n; i++)
        durations[i] = h->steps[i].duration_ns;
    qsort(durations, n, sizeof durations[0], by_size);
    snprintf(note, sizeof note, "median of %zu; %s to %s", n,
             orr_human_ns(low, (double)durations[0]), orr_human_ns(high, (double)durations[n - 1]));
    orr_html_tile(out, NULL, label, orr_human_ns(value, (double)durations[n / 2]), note);
}

/* Share of the ranks' spans, summed; and the time on an average rank. */
static void share_tile(orr_output *out, const orr_trace_headline *h, const char *swatch,
                       const char *label, size_t offset, bool host_only)
{
    char value[ORR_HUMAN_MAX] = "-", time[ORR_HUMAN_MAX], note[160] = "no device work recorded";
    double span = 0, part = 0;
    for (size_t i = 0; i < h->n_temporal; i++) {
        span += (double)h->temporal[i].span_ns;
        part += (double)*(const int64_t *)((const char *)&h->temporal[i] + offset);
    }
    if (span > 0) {
        orr_human_frac(value, part / span);
        snprintf(note, sizeof note, "%s on an average rank%s",
                 orr_human_ns(time, part / (double)h->n_temporal),
                 host_only ? "; host operators, no device recorded" : "");
    }
    orr_html_tile(out, swatch, label, value, note);
}

static void cause_tile(orr_output *out, const orr_trace_headline *h)
{
    char value[ORR_HUMAN_MAX], note[160];
    int top = 0;
    if (!h->path || h->path->n_pieces == 0)
        return;
    const double span = (double)(h->path->end_ns - h->path->start_ns);
    for (int b = 1; b < ORR_BOUNDS; b++)
        if (h->path->bound_ns[b] > h->path->bound_ns[top])
            top = b;
    snprintf(note, sizeof note, "of the critical path: %s", orr_bound_label((orr_bound)top));
    orr_html_tile(out, "path", "Top cause",
                  orr_human_frac(value, (double)h->path->bound_ns[top] / span), note);
}

static void rank_tile(orr_output *out, const orr_job *job, const orr_trace_headline *h)
{
    char value[ORR_HUMAN_MAX], events[ORR_HUMAN_MAX], note[160];
    uint32_t recorded = 0, world = job->n_ranks;
    for (uint32_t r = 0; r < job->n_ranks; r++)
        recorded += job->graph_of_rank[r] != ORR_NONE;
    for (uint32_t g = 0; g < job->n_graphs; g++)
        if (job->graphs[g]->world_size > world)
            world = job->graphs[g]->world_size;
    snprintf(value, sizeof value, "%u of %u", recorded, world);
    snprintf(note, sizeof note, "recorded; %s events", orr_human_count(events, h->events));
    orr_html_tile(out, NULL, "Ranks", value, note);
}

void orr_html_trace_headline(orr_output *out, const orr_job *job, const orr_trace_headline *h)
{
    const bool host_only = h->n_temporal > 0 && h->temporal[0].host_only;
    orr_html_tiles_open(out);
    step_tile(out, job, h);
    share_tile(out, h, "compute", "Computing", offsetof(orr_temporal, compute_ns), host_only);
    share_tile(out, h, "comm", "Exposed comm.", offsetof(orr_temporal, exposed_comm_ns), host_only);
    share_tile(out, h, "peer", "Bubble", offsetof(orr_temporal, bubble_ns), host_only);
    share_tile(out, h, "idle", "Idle", offsetof(orr_temporal, idle_ns), host_only);
    cause_tile(out, h);
    rank_tile(out, job, h);
    orr_html_tile(out, NULL, "MFU", NULL, "needs the model's FLOPs; a recording has none");
    orr_html_tiles_close(out);
}
