/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "report/humanize/human.h"
#include "report/page/page.h"
#include "report/page/svg.h"
#include "report/plan/svg.h"

enum { HEIGHT = 260, FOOT = 4 };

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

/* When each slot of the stage ran: the computation of one phase of one micro-batch in one chunk. */
static span *find_slots(const orr_outcome *o, const orr_timeline *t, orr_arena *arena,
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
    orr_svg_rect(p->out, class, x, HEIGHT - high * p->y_scale,
                 (double)(when.end_ns - when.begin_ns) * p->x_scale, (high - low) * p->y_scale,
                 NULL);
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

static void put_legend(orr_output *out, const orr_stage_memory *m)
{
    orr_html_legend_open(out);
    for (int k = 0; k < ORR_MEMORY_KINDS; k++) {
        char bytes[ORR_HUMAN_MAX];
        if (m->bytes[k] > 0)
            orr_html_legend(out, CLASSES[k], "%s %s", orr_memory_kind_name((orr_memory_kind)k),
                            orr_human_bytes(bytes, (double)m->bytes[k]));
    }
    orr_html_legend_close(out);
}

static void draw_line(const plot *p, const char *class, const char *words, double bytes)
{
    char text[ORR_HUMAN_MAX];
    const double y = HEIGHT - bytes * p->y_scale;
    orr_svg_line(p->out, class, ORR_PLAN_LABEL, y, ORR_SVG_WIDTH, y);
    orr_svg_text(p->out, "", ORR_SVG_END, ORR_PLAN_LABEL - 8, y + 4, "%s %s", words,
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
    const span *slots = t ? find_slots(outcome, t, arena, &n_slots) : NULL;
    if (t && slots == NULL)
        return orr_fail_memory(err);
    const plot p = {
        out, (double)(ORR_SVG_WIDTH - ORR_PLAN_LABEL) / (double)(whole.end_ns - whole.begin_ns),
        (HEIGHT - 16) / (most > 0 ? most : 1), whole.begin_ns};
    put_legend(out, m);
    orr_svg_open(out, "Memory over the step", HEIGHT + FOOT);
    const double base = draw_constant(&p, m, whole);
    for (uint32_t i = 0; i < n_slots && i < m->n_slots; i++) {
        const double before = i > 0 ? (double)m->activations[i - 1] : 0;
        const double after = (double)m->activations[i];
        const double kept = base + (before > after ? before : after);
        const int64_t until = i + 1 < n_slots ? slots[i + 1].begin_ns : slots[i].end_ns;
        block(&p, CLASSES[ORR_MEMORY_ACTIVATIONS], slots[i], base, kept);
        block(&p, CLASSES[ORR_MEMORY_TRANSIENT], slots[i], kept, kept + (double)m->transient[i]);
        block(&p, CLASSES[ORR_MEMORY_ACTIVATIONS], (span){slots[i].end_ns, until}, base,
              base + after);
    }
    draw_line(&p, "mark", "peak", (double)m->peak_bytes);
    if (capacity > 0)
        draw_line(&p, "mark dashed", "room", capacity);
    orr_svg_close(out);
    return ORR_OK;
}
