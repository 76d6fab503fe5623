/* SPDX-License-Identifier: Apache-2.0 */
#include "report/experts/svg.h"

#include <math.h>
#include <stdio.h>

#include "experts/placement/loads.h"
#include "report/humanize/human.h"
#include "report/page/page.h"
#include "report/page/svg.h"

enum { LEFT = 64, TOP = 8, FOOT = 34, PLOT = ORR_SVG_WIDTH - LEFT - 4, LEVELS_MAX = 8 };
static const double ROW_MAX = 22, ROW_MIN = 5, COLUMN_MAX = 90;

/* What a colour stands for: values below `below`, the last one all others. */
typedef struct heat_level {
    double below;
    const char *class, *words;
} heat_level;

/* Of experts loads differ by factors, ... */
static const heat_level of_experts[] = {
    {1e-12, "heat0", "never chosen"},      {0.25, "heat1", "below a quarter of the mean"},
    {0.5, "heat2", "a quarter to a half"}, {1, "heat3", "a half to the mean"},
    {2, "heat4", "up to twice the mean"},  {4, "heat5", "2 to 4 times"},
    {8, "heat6", "4 to 8 times"},          {INFINITY, "heat7", "8 times and more"},
};
/* ... of ranks by parts of the mean. */
static const heat_level of_ranks[] = {
    {1e-12, "heat0", "nothing"},    {0.5, "heat1", "below half of the mean"},
    {0.9, "heat2", "50 to 90 %"},   {1.02, "heat3", "90 to 102 %"},
    {1.1, "heat4", "102 to 110 %"}, {1.5, "heat5", "110 to 150 %"},
    {2, "heat6", "150 to 200 %"},   {INFINITY, "heat7", "twice the mean and more"},
};

typedef struct heat {
    const char *label, *of_column; /* "expert" */
    const heat_level *levels;      /* shape (LEVELS_MAX) */
    uint32_t rows, columns;
    const double *value;         /* shape (rows, columns): over the mean of the row */
    const char *const *row_name; /* shape (rows) */
    const char *const *words;    /* shape (rows): said when a row is pointed at */
    double w, h;                 /* of a cell */
} heat;

/* --- cells ------------------------------------------------------------------------------------ */

static bool is_at_level(const heat *p, double value, int level)
{
    return value < p->levels[level].below && (level == 0 || value >= p->levels[level - 1].below);
}

/* Neighbouring cells of a level in a row are one rectangle of its path. */
static void put_level(orr_output *out, const heat *p, int level)
{
    const double gap = p->h > 8 ? 1 : 0;
    bool any = false;
    for (uint32_t r = 0; r < p->rows; r++)
        for (uint32_t c = 0; c < p->columns;) {
            uint32_t end = c;
            while (end < p->columns &&
                   is_at_level(p, p->value[(size_t)r * p->columns + end], level))
                end++;
            if (end == c) {
                c++;
                continue;
            }
            if (!any)
                orr_output_printf(out, "<path class=\"%s\" d=\"", p->levels[level].class);
            any = true;
            orr_output_printf(out, "M%.1f %.1fh%.1fv%.1fh%.1fz", LEFT + c * p->w, TOP + r * p->h,
                              (end - c) * p->w, p->h - gap, -(double)(end - c) * p->w);
            c = end;
        }
    if (any)
        orr_output_text(out, "\"/>\n");
}

/* --- around them ------------------------------------------------------------------------------ */

static void put_legend(orr_output *out, const heat *p)
{
    orr_html_legend_open(out);
    for (int level = 0; level < LEVELS_MAX; level++) {
        bool seen = false;
        for (size_t i = 0; i < (size_t)p->rows * p->columns && !seen; i++)
            seen = is_at_level(p, p->value[i], level);
        if (seen)
            orr_html_legend(out, p->levels[level].class, "%s", p->levels[level].words);
    }
    orr_html_legend_close(out);
}

static void put_columns(orr_output *out, const heat *p)
{
    enum { ROOM = 34 };
    const double y = TOP + p->rows * p->h + 16;
    uint32_t every = 1;
    while (every * p->w < ROOM)
        every *= 2;
    orr_svg_text(out, "", ORR_SVG_END, LEFT - 8, y, "%s", p->of_column);
    for (uint32_t c = 0; c < p->columns; c += every)
        orr_svg_text(out, "", ORR_SVG_MIDDLE, LEFT + (c + 0.5) * p->w, y, "%u", c);
}

/* A row's name stands where there is room for it; its words are told all along it. */
static void put_rows(orr_output *out, const heat *p)
{
    uint32_t every = 1;
    while (every * p->h < 12)
        every++;
    for (uint32_t r = 0; r < p->rows; r++) {
        const double y = TOP + r * p->h;
        if (r % every == 0)
            orr_svg_text(out, "", ORR_SVG_END, LEFT - 8, y + p->h / 2 + 4, "%s", p->row_name[r]);
        orr_svg_rect(out, "hit", LEFT, y, p->columns * p->w, p->h, p->words[r]);
    }
}

static void put_heat(orr_output *out, heat *p)
{
    p->w = fmin(COLUMN_MAX, (double)PLOT / p->columns);
    p->h = fmax(ROW_MIN, fmin(ROW_MAX, 420.0 / p->rows));
    put_legend(out, p);
    orr_svg_open(out, p->label, (int)(TOP + p->rows * p->h + FOOT));
    for (int level = 0; level < LEVELS_MAX; level++)
        put_level(out, p, level);
    put_columns(out, p);
    put_rows(out, p);
    orr_svg_close(out);
}

/* --- loads of experts ------------------------------------------------------------------------- */

/* Room for the names and words of n rows. */
static orr_status rows_init(uint32_t n, uint32_t columns, orr_arena *arena, heat *p,
                            double **ret_value, const char ***ret_name, const char ***ret_words,
                            orr_error *err)
{
    *ret_value = orr_arena_array(arena, double, (size_t)n *columns);
    *ret_name = orr_arena_array(arena, const char *, n);
    *ret_words = orr_arena_array(arena, const char *, n);
    if (*ret_value == NULL || *ret_name == NULL || *ret_words == NULL)
        return orr_fail_memory(err);
    p->rows = n;
    p->columns = columns;
    p->value = *ret_value;
    p->row_name = *ret_name;
    p->words = *ret_words;
    return ORR_OK;
}

orr_status orr_experts_svg_loads(orr_output *out, const orr_experts_report *report,
                                 orr_arena *arena, orr_error *err)
{
    const orr_expert_statistics *s = report->statistics;
    heat p = {.label = "Load of experts by layer", .of_column = "expert", .levels = of_experts};
    double *value;
    const char **name, **words;
    ORR_TRY(rows_init(s->layers, s->experts, arena, &p, &value, &name, &words, err));
    for (size_t i = 0; i < (size_t)s->layers * s->experts; i++)
        value[i] = s->load[i] * s->experts;
    for (uint32_t l = 0; l < s->layers; l++) {
        const orr_expert_layer_statistics *layer = &s->of_layer[l];
        char top[ORR_HUMAN_MAX];
        name[l] = orr_arena_printf(arena, "%s%u", l == 0 ? "layer " : "", layer->layer);
        words[l] = orr_arena_printf(
            arena,
            "layer %u: expert %u has %s of the tokens; %u of %u experts are never chosen; "
            "as uneven as %.1f even ones%s",
            layer->layer, layer->top_expert, orr_human_frac(top, layer->top_frac), layer->unused,
            s->experts, layer->effective_experts, layer->concentrated ? "; concentrated" : "");
        if (name[l] == NULL || words[l] == NULL)
            return orr_fail_memory(err);
    }
    put_heat(out, &p);
    return ORR_OK;
}

/* --- loads of ranks --------------------------------------------------------------------------- */

orr_status orr_experts_svg_ranks(orr_output *out, const orr_experts_report *report,
                                 const orr_experts_plan *plan, orr_arena *arena, orr_error *err)
{
    const orr_expert_statistics *s = report->statistics;
    const orr_expert_placement *p = &plan->result.placement;
    const uint32_t live = orr_placement_live_ranks(p);
    heat picture = {.label = "Load of ranks by layer", .of_column = "rank", .levels = of_ranks};
    double *value, *of_expert = orr_arena_array(arena, double, p->experts);
    const char **name, **words;
    if (of_expert == NULL)
        return orr_fail_memory(err);
    ORR_TRY(rows_init(p->layers, p->ranks, arena, &picture, &value, &name, &words, err));
    for (uint32_t l = 0; l < p->layers; l++) {
        double *of_rank = value + (size_t)l * p->ranks;
        const uint32_t *first = p->first_slot + (size_t)l * (p->ranks + 1);
        for (uint32_t e = 0; e < p->experts && e < s->experts; e++)
            of_expert[e] = s->load[(size_t)l * s->experts + e];
        const double sum = orr_layer_rank_loads(p, l, of_expert, of_rank);
        uint32_t fullest = 0;
        for (uint32_t r = 0; r < p->ranks; r++) {
            of_rank[r] *= sum > 0 ? live / sum : 0;
            fullest = of_rank[r] > of_rank[fullest] ? r : fullest;
        }
        name[l] = orr_arena_printf(arena, "%s%u", l == 0 ? "layer " : "", p->number[l]);
        words[l] =
            orr_arena_printf(arena, "layer %u: rank %u has %.3f of the mean; %u slots",
                             p->number[l], fullest, of_rank[fullest], first[p->ranks] - first[0]);
        if (name[l] == NULL || words[l] == NULL)
            return orr_fail_memory(err);
    }
    put_heat(out, &picture);
    return ORR_OK;
}
