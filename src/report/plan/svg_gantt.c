/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "report/humanize/human.h"
#include "report/page/svg.h"
#include "report/plan/svg.h"

/* Work is drawn above, what travels below it; what is narrower than MERGE pixels is one with its
 * neighbour. */
enum { ROW = 26, WORK = 16, WIRE = 5, AXIS = 22 };
static const double MERGE = 0.5;

const orr_timeline *const *orr_stage_timelines(const orr_outcome *outcome, orr_arena *arena,
                                               uint32_t *ret_n)
{
    const orr_simulation *s = outcome->simulation;
    const uint32_t n = outcome->plan.pp > 0 ? outcome->plan.pp : 1;
    const orr_timeline **of = orr_arena_array(arena, const orr_timeline *, n);
    for (uint32_t i = 0; of && i < n; i++)
        of[i] = NULL;
    for (uint32_t c = 0; of && c < s->n_classes; c++) {
        const uint32_t stage = outcome->stage_of_graph[s->timelines[c].graph];
        if (stage < n && of[stage] == NULL)
            of[stage] = &s->timelines[c];
    }
    *ret_n = n;
    return of;
}

typedef struct chart {
    orr_output *out;
    const orr_outcome *outcome;
    double scale; /* pixels a ns */
    int64_t begin_ns;
} chart;

/* A rectangle in the making: grows while what follows is of its kind and closer than can be seen.
 */
typedef struct pen {
    const char *class;
    double x, end;
    uint32_t chunk, micro_batch, phase, count;
} pen;

static void lift(const chart *c, pen *p, int y, int height)
{
    if (p->class == NULL)
        return;
    const bool one = p->micro_batch != ORR_NONE && p->count == 1;
    char class[24], words[64];
    snprintf(class, sizeof class, "%s%s", p->class, p->chunk & 1 ? " odd" : "");
    snprintf(words, sizeof words, "micro-batch %u, chunk %u", p->micro_batch, p->chunk);
    orr_svg_rect(c->out, class, p->x, y, p->end - p->x, height, one ? words : NULL);
    if (height == WORK && p->end - p->x > 16 && one)
        orr_svg_text(c->out, "in compute", ORR_SVG_START, p->x + 3, y + 12, "%u", p->micro_batch);
    p->class = NULL;
}

static void draw(const chart *c, pen *p, const char *class, const orr_step_node *node,
                 int64_t start_ns, int64_t ns, int y, int height)
{
    const double x = ORR_PLAN_LABEL + (double)(start_ns - c->begin_ns) * c->scale;
    const double end = x + (double)ns * c->scale;
    const bool same = p->class == class && p->micro_batch == node->micro_batch &&
                      p->chunk == node->chunk && p->phase == node->phase && x - p->end < MERGE;
    const bool tiny = p->class == class && end - p->x < 2 * MERGE;
    if (same || tiny) {
        p->end = end > p->end ? end : p->end;
        p->count += !same;
        return;
    }
    lift(c, p, y, height);
    *p = (pen){class, x, end, node->chunk, node->micro_batch, node->phase, 1};
}

static const char *class_of(const orr_step_node *node)
{
    if (node->part == ORR_WATERFALL_OPTIMIZER)
        return "python";
    if (node->micro_batch == ORR_NONE)
        return "overhead";
    switch (node->phase) {
    case ORR_SLOT_FORWARD:
        return "compute";
    case ORR_SLOT_WEIGHT:
        return "runtime";
    default:
        return "memory";
    }
}

/* The nodes of each lane are in order of time, and so are those of the few lanes of a kind. */
static void draw_stage(const chart *c, const orr_timeline *t, int y)
{
    const orr_graph *g = c->outcome->ensemble->graphs[t->graph];
    const orr_step_node *nodes = c->outcome->nodes[t->graph];
    for (uint32_t lane = 0; lane < g->n_lanes; lane++) {
        pen work = {0}, wire = {0};
        for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
            const orr_node_id v = g->lane_node[i];
            if (t->start_ns[v] == ORR_TIME_NONE || t->duration_ns[v] <= 0)
                continue;
            if (g->kind[v] == ORR_NODE_COMPUTE)
                draw(c, &work, class_of(&nodes[v]), &nodes[v], t->start_ns[v], t->duration_ns[v], y,
                     WORK);
            else if (g->kind[v] == ORR_NODE_COLLECTIVE || g->kind[v] == ORR_NODE_SEND)
                draw(c, &wire, "comm", &nodes[v], t->start_ns[v], t->duration_ns[v], y + WORK + 1,
                     WIRE);
        }
        lift(c, &work, y, WORK);
        lift(c, &wire, y + WORK + 1, WIRE);
    }
}

static void draw_axis(const chart *c, int64_t span_ns, int y)
{
    enum { TICKS = 8 };
    for (int i = 0; i <= TICKS; i++) {
        char time[ORR_HUMAN_MAX];
        const double x = ORR_PLAN_LABEL + (double)span_ns * i / TICKS * c->scale;
        orr_svg_text(c->out, "",
                     i == TICKS ? ORR_SVG_END
                     : i        ? ORR_SVG_MIDDLE
                                : ORR_SVG_START,
                     x, y, "%s", orr_human_ns(time, (double)span_ns * i / TICKS));
    }
}

orr_status orr_svg_gantt(orr_output *out, const orr_outcome *outcome, orr_arena *arena,
                         orr_error *err)
{
    uint32_t n;
    const orr_timeline *const *stages = orr_stage_timelines(outcome, arena, &n);
    const orr_simulation *s = outcome->simulation;
    const int64_t span_ns = s->end_ns > s->begin_ns ? s->end_ns - s->begin_ns : 1;
    const chart c = {out, outcome, (double)(ORR_SVG_WIDTH - ORR_PLAN_LABEL) / (double)span_ns,
                     s->begin_ns};
    if (stages == NULL)
        return orr_fail_memory(err);
    orr_svg_open(out, "Pipeline", (int)n * ROW + AXIS);
    for (uint32_t i = 0; i < n; i++) {
        const int y = (int)i * ROW + 1;
        orr_svg_text(out, "", ORR_SVG_END, ORR_PLAN_LABEL - 10, y + 12, "stage %u", i);
        orr_svg_rect(out, "hatch", ORR_PLAN_LABEL, y, ORR_SVG_WIDTH - ORR_PLAN_LABEL, WORK, NULL);
        if (stages[i] != NULL)
            draw_stage(&c, stages[i], y);
    }
    draw_axis(&c, span_ns, (int)n * ROW + AXIS - 6);
    orr_svg_close(out);
    return ORR_OK;
}
