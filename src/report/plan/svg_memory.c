/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "report/humanize/human.h"
#include "report/plan/svg.h"

enum { HEIGHT = 260, AXIS = 24, LEGEND = 24 };

static const char *const CLASSES[ORR_MEMORY_KINDS] = {
    [ORR_MEMORY_WEIGHTS] = "compute",   [ORR_MEMORY_GRADIENTS] = "host",
    [ORR_MEMORY_OPTIMIZER] = "runtime", [ORR_MEMORY_ACTIVATIONS] = "memory",
    [ORR_MEMORY_TRANSIENT] = "comm",    [ORR_MEMORY_CACHE] = "peer",
    [ORR_MEMORY_BUFFERS] = "python",    [ORR_MEMORY_FRAGMENTATION] = "idle",
};

typedef struct span {
    int64_t begin_ns, end_ns;
} span;

static int by_begin(const void *a_, const void *b_)
{
    const span *a = a_, *b = b_;
    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* When each turn of the stage ran: the computation of one phase of one micro-batch in one chunk. */
static span *find_turns(const orr_outcome *o, const orr_timeline *t, orr_arena *arena,
                        uint32_t *ret_n)
{
    const orr_graph *g = o->ensemble->graphs[t->graph];
    const orr_step_node *nodes = o->nodes[t->graph];
    span *spans = orr_arena_array(arena, span, (size_t)g->n_nodes + 1);
    const orr_step_node *last = NULL;
    uint32_t n = 0;
    for (uint32_t v = 0; spans && v < g->n_nodes; v++) {
        if (g->kind[v] != ORR_NODE_COMPUTE || nodes[v].micro_batch == ORR_NONE ||
            t->start_ns[v] == ORR_TIME_NONE)
            continue;
        const bool same = last && last->micro_batch == nodes[v].micro_batch &&
                          last->chunk == nodes[v].chunk && last->phase == nodes[v].phase;
        if (!same)
            spans[n++] = (span){t->start_ns[v], t->start_ns[v]};
        last = &nodes[v];
        spans[n - 1].end_ns = t->start_ns[v] + t->duration_ns[v];
    }
    if (spans)
        qsort(spans, n, sizeof *spans, by_begin);
    *ret_n = n;
    return spans;
}

typedef struct plot {
    orr_output *out;
    double x_scale, y_scale; /* pixels a ns, a byte */
    int64_t begin_ns;
} plot;

static void block(const plot *p, const char *class, span when, double low, double high)
{
    const double x = ORR_PLAN_LABEL + (double)(when.begin_ns - p->begin_ns) * p->x_scale;
    orr_output_printf(
        p->out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n",
        class, x, HEIGHT - high * p->y_scale, (double)(when.end_ns - when.begin_ns) * p->x_scale,
        (high - low) * p->y_scale);
}

/* What is there all the time, from the bottom up; returns its height. */
static double draw_constant(const plot *p, const orr_stage_memory *m, span whole)
{
    static const orr_memory_kind kinds[] = {ORR_MEMORY_BUFFERS,   ORR_MEMORY_FRAGMENTATION,
                                            ORR_MEMORY_WEIGHTS,   ORR_MEMORY_GRADIENTS,
                                            ORR_MEMORY_OPTIMIZER, ORR_MEMORY_CACHE};
    double at = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const double bytes = (double)m->bytes[kinds[i]];
        if (bytes > 0)
            block(p, CLASSES[kinds[i]], whole, at, at + bytes);
        at += bytes;
    }
    return at;
}

static void draw_legend(orr_output *out, const orr_stage_memory *m)
{
    double x = ORR_PLAN_LABEL;
    for (int k = 0; k < ORR_MEMORY_KINDS; k++) {
        char bytes[ORR_HUMAN_MAX];
        if (m->bytes[k] <= 0)
            continue;
        orr_output_printf(out,
                          "<rect class=\"%s\" x=\"%.0f\" y=\"%d\" width=\"10\" height=\"10\"/>"
                          "<text x=\"%.0f\" y=\"%d\">%s %s</text>\n",
                          CLASSES[k], x, HEIGHT + AXIS + 6, x + 14, HEIGHT + AXIS + 15,
                          orr_memory_kind_name((orr_memory_kind)k),
                          orr_human_bytes(bytes, (double)m->bytes[k]));
        x += 178;
    }
}

static void draw_line(const plot *p, const char *words, double bytes, bool dashed)
{
    char text[ORR_HUMAN_MAX];
    const double y = HEIGHT - bytes * p->y_scale;
    orr_output_printf(p->out,
                      "<line class=\"mark\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"%s/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s %s</text>\n",
                      ORR_PLAN_LABEL, ORR_PLAN_WIDTH, y, y,
                      dashed ? " stroke-dasharray=\"5 4\"" : "", ORR_PLAN_LABEL - 8, y + 4, words,
                      orr_human_bytes(text, bytes));
}

orr_status orr_svg_memory(orr_output *out, const orr_outcome *outcome, orr_arena *arena,
                          orr_error *err)
{
    const orr_memory_plan *memory = &outcome->memory;
    const orr_stage_memory *m = &memory->stages[memory->worst];
    const orr_simulation *s = outcome->simulation;
    const span whole = {s->begin_ns, s->end_ns > s->begin_ns ? s->end_ns : s->begin_ns + 1};
    const double capacity = memory->capacity_bytes > 0 ? (double)memory->capacity_bytes : 0;
    const double most = (double)m->peak_bytes > capacity ? (double)m->peak_bytes : capacity;
    uint32_t n_stages, n_slots = 0;
    const orr_timeline *const *stages = orr_stage_timelines(outcome, arena, &n_stages);
    if (stages == NULL)
        return orr_fail_memory(err);
    const orr_timeline *t = memory->worst < n_stages ? stages[memory->worst] : NULL;
    const span *turns = t ? find_turns(outcome, t, arena, &n_slots) : NULL;
    if (t && turns == NULL)
        return orr_fail_memory(err);
    const plot p = {
        out, (double)(ORR_PLAN_WIDTH - ORR_PLAN_LABEL) / (double)(whole.end_ns - whole.begin_ns),
        (HEIGHT - 16) / (most > 0 ? most : 1), whole.begin_ns};
    orr_output_printf(
        out,
        "<svg class=\"breakdown\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
        "aria-label=\"Memory over the step\" viewBox=\"0 0 %d %d\" font-size=\"11\">\n",
        ORR_PLAN_WIDTH, HEIGHT + AXIS + LEGEND);
    const double base = draw_constant(&p, m, whole);
    for (uint32_t i = 0; i < n_slots && i < m->n_slots; i++) {
        const double before = i > 0 ? (double)m->activations[i - 1] : 0;
        const double after = (double)m->activations[i];
        const double kept = base + (before > after ? before : after);
        const int64_t until = i + 1 < n_slots ? turns[i + 1].begin_ns : turns[i].end_ns;
        block(&p, CLASSES[ORR_MEMORY_ACTIVATIONS], turns[i], base, kept);
        block(&p, CLASSES[ORR_MEMORY_TRANSIENT], turns[i], kept, kept + (double)m->transient[i]);
        block(&p, CLASSES[ORR_MEMORY_ACTIVATIONS], (span){turns[i].end_ns, until}, base,
              base + after);
    }
    draw_line(&p, "peak", (double)m->peak_bytes, false);
    if (capacity > 0)
        draw_line(&p, "room", capacity, true);
    draw_legend(out, m);
    orr_output_text(out, "</svg>\n");
    return ORR_OK;
}
