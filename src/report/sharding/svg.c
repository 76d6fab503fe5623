/* SPDX-License-Identifier: Apache-2.0 */
#include "report/sharding/svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/humanize/human.h"
#include "report/page/page.h"
#include "report/page/svg.h"

enum {
    LABEL = 84, /* room for the numbers of the vertical axis */
    PLOT = ORR_SVG_WIDTH - LABEL,
    TOP = 22,
    HEIGHT = 430, /* of the plot */
    FOOT = 26,
    MOST_BLOCKS = 30000, /* of a picture, so that a browser draws it at once */
    NAME_HEIGHT = 14,
    CHARACTER = 7, /* a width of the text, as far as it can be known */
};
static const double COLUMN_MAX = 160, BLOCK_MIN = 2, LEAST_COMMON = 0.2; /* width; heights */

/* Colours of the kinds, told apart with any colour vision by their lightness and by their order,
 * which is the same in all columns. */
static const char *const CLASSES[ORR_SHARDINGS] = {
    [ORR_SHARDING_TABLE] = "compute", [ORR_SHARDING_ROW] = "comm",
    [ORR_SHARDING_COLUMN] = "memory", [ORR_SHARDING_TABLE_ROW] = "peer",
    [ORR_SHARDING_GRID] = "runtime",  [ORR_SHARDING_DATA] = "overhead",
};

/* A shard as one sorts it: by rank, then kind, then the highest first. */
typedef struct block {
    uint32_t rank, shard;
    double height; /* ns or bytes */
    uint8_t kind;
} block;

typedef struct drawing {
    orr_output *out;
    const orr_sharding_picture *p;
    orr_sharding_measure measure;
    block *blocks;       /* shape (n_shards) */
    double pitch, width; /* from column to column, of a column */
    double scale;        /* units of the picture to a ns or byte */
    double least;        /* units that a block has, at least, to stand by itself */
} drawing;

static int by_place(const void *a_, const void *b_)
{
    const block *a = a_, *b = b_;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->height != b->height)
        return a->height > b->height ? -1 : 1;
    return a->shard < b->shard ? -1 : 1;
}

static char *human(orr_sharding_measure measure, char buf[ORR_HUMAN_MAX], double value)
{
    return measure == ORR_SHARDING_TIME ? orr_human_ns(buf, value) : orr_human_bytes(buf, value);
}

static double line_of(const drawing *d)
{
    return d->measure == ORR_SHARDING_TIME ? d->p->bound_ns : d->p->room_bytes;
}

/* A line far above all ranks would press them to the ground: it is left to the note. */
static bool is_line_shown(const drawing *d, double most)
{
    enum { FAR = 3 };
    return line_of(d) > 0 && line_of(d) <= FAR * most;
}

static double y_of(const drawing *d, double value)
{
    return TOP + HEIGHT - value * d->scale;
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* "t12, row, ranges 0 to 63 of 256, columns 0 to 63, on rank 3: 1.2 ms, 512 MiB" */
static void put_shard(const drawing *d, const block *b, double x, double y, double h)
{
    const orr_embedding_plan *plan = d->p->plan;
    const orr_embedding_shard *s = &plan->shards[b->shard];
    const orr_embedding *table = &plan->tables[s->table];
    char name[80], words[320], time[ORR_HUMAN_MAX], bytes[ORR_HUMAN_MAX], rows[ORR_HUMAN_MAX];
    orr_text_elide(table->name, 40, name, sizeof name);
    const int64_t first = orr_embedding_range_begin(table->rows, s->range_begin),
                  end = orr_embedding_range_begin(table->rows, s->range_end);
    int n = snprintf(words, sizeof words, "%s, %s", name,
                     orr_embedding_sharding_name((orr_embedding_sharding)b->kind));
    if (end - first < table->rows)
        n += snprintf(words + n, sizeof words - (size_t)n, ", rows from %lld to %lld",
                      (long long)first, (long long)end - 1);
    else
        n += snprintf(words + n, sizeof words - (size_t)n, ", all %s rows",
                      orr_human_count(rows, (uint64_t)table->rows));
    if (s->column_end - s->column_begin < table->columns)
        n += snprintf(words + n, sizeof words - (size_t)n, ", columns from %u to %u",
                      s->column_begin, s->column_end - 1);
    (void)snprintf(words + n, sizeof words - (size_t)n, ", on rank %u: %s, %s", b->rank,
                   orr_human_ns(time, d->p->costs[b->shard].ns),
                   orr_human_bytes(bytes, d->p->costs[b->shard].memory_bytes));
    orr_svg_rect(d->out, CLASSES[b->kind], x, y, d->width, h, words);
    if (h >= NAME_HEIGHT && (double)orr_text_display_width(name) * CHARACTER < d->width) {
        char class[32];
        (void)snprintf(class, sizeof class, "in %s", CLASSES[b->kind]);
        orr_svg_text(d->out, class, ORR_SVG_MIDDLE, x + d->width / 2, y + h / 2 + 4, "%s", name);
    }
}

/* Small shards of one kind on a rank, from block `from` on. */
static void put_small(const drawing *d, uint32_t from, uint32_t n, double height, double x,
                      double y, double h)
{
    const block *b = &d->blocks[from];
    char words[200], value[ORR_HUMAN_MAX];
    (void)snprintf(words, sizeof words, "%u small tables, %s, on rank %u: %s together", n,
                   orr_embedding_sharding_name((orr_embedding_sharding)b->kind), b->rank,
                   human(d->measure, value, height));
    char class[32];
    (void)snprintf(class, sizeof class, "%s odd", CLASSES[b->kind]);
    orr_svg_rect(d->out, class, x, y, d->width, h, words);
}

static double common_of(const drawing *d)
{
    return d->measure == ORR_SHARDING_TIME ? d->p->common_ns : d->p->common_bytes;
}

static double x_of(const drawing *d, uint32_t rank)
{
    return LABEL + rank * d->pitch + (d->pitch - d->width) / 2;
}

/* What is the same on every rank lies below its shards. */
static void put_common(const drawing *d)
{
    const double h = common_of(d) * d->scale;
    char words[160], value[ORR_HUMAN_MAX];
    if (h < LEAST_COMMON)
        return;
    for (uint32_t r = 0; r < d->p->plan->ranks; r++) {
        (void)snprintf(words, sizeof words, "%s, the same on every rank: %s",
                       d->measure == ORR_SHARDING_TIME ? "joined sums and latencies" : "buffers",
                       human(d->measure, value, common_of(d)));
        orr_svg_rect(d->out, "idle", x_of(d, r), y_of(d, common_of(d)), d->width, h, words);
    }
}

/* The blocks of a rank, from the bottom up; returns the first of the next rank. */
static uint32_t put_column(const drawing *d, uint32_t from)
{
    const uint32_t rank = d->blocks[from].rank, n = d->p->plan->n_shards;
    const double x = x_of(d, rank);
    double top = common_of(d);
    uint32_t at = from;
    while (at < n && d->blocks[at].rank == rank) {
        const block *b = &d->blocks[at];
        double height = b->height;
        uint32_t end = at + 1;
        if (height * d->scale < d->least)
            for (; end < n && d->blocks[end].rank == rank && d->blocks[end].kind == b->kind; end++)
                height += d->blocks[end].height;
        const double h = height * d->scale, gap = h > 3 ? 0.6 : 0;
        const double y = y_of(d, top + height);
        if (end == at + 1)
            put_shard(d, b, x, y, h - gap);
        else
            put_small(d, at, end - at, height, x, y, h - gap);
        top += height;
        at = end;
    }
    return at;
}

/* --- around them ------------------------------------------------------------------------------ */

/* 1, 2 or 5 times a power of ten; of bytes, a power of two. */
static double tick_of(orr_sharding_measure measure, double most)
{
    if (measure == ORR_SHARDING_MEMORY)
        return exp2(ceil(log2(most / 6)));
    const double power = pow(10, floor(log10(most / 6)));
    const double digit = most / 6 / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static void put_axis(const drawing *d, double most)
{
    const double tick = tick_of(d->measure, most);
    for (double value = 0; value <= most; value += tick) {
        char text[ORR_HUMAN_MAX];
        const double y = y_of(d, value);
        orr_svg_line(d->out, value > 0 ? "grid" : "axis", LABEL, y, ORR_SVG_WIDTH, y);
        orr_svg_text(d->out, "", ORR_SVG_END, LABEL - 8, y + 4, "%s",
                     value > 0 ? human(d->measure, text, value) : "0");
    }
}

/* Numbers of ranks, as many as have room, and a line between hosts. */
static void put_ranks(const drawing *d)
{
    enum { ROOM = 34 };
    const orr_embedding_plan *plan = d->p->plan;
    const uint32_t host = plan->host_ranks > 0 ? plan->host_ranks : plan->ranks;
    uint32_t every = 1;
    while (every * d->pitch < ROOM)
        every *= 2;
    orr_svg_text(d->out, "", ORR_SVG_END, LABEL - 8, TOP + HEIGHT + 17, "rank");
    for (uint32_t r = 0; r < plan->ranks; r += every)
        orr_svg_text(d->out, "", ORR_SVG_MIDDLE, LABEL + (r + 0.5) * d->pitch, TOP + HEIGHT + 17,
                     "%u", r);
    for (uint32_t r = host; r < plan->ranks && host * d->pitch > 4; r += host)
        orr_svg_line(d->out, "grid", LABEL + r * d->pitch, TOP, LABEL + r * d->pitch,
                     TOP + HEIGHT + 6);
}

static void put_line(const drawing *d)
{
    const double value = line_of(d), y = y_of(d, value);
    char text[ORR_HUMAN_MAX];
    orr_svg_line(d->out, "mark", LABEL, y, ORR_SVG_WIDTH, y);
    orr_svg_text(d->out, "strong halo", ORR_SVG_END, ORR_SVG_WIDTH - 6, y - 6, "%s %s",
                 d->measure == ORR_SHARDING_TIME ? "bound" : "room for tables",
                 human(d->measure, text, value));
}

static void put_legend(const drawing *d)
{
    const orr_embedding_plan *plan = d->p->plan;
    uint32_t n[ORR_SHARDINGS] = {0};
    for (uint32_t t = 0; t < plan->n_tables; t++)
        n[plan->placements[t].sharding]++;
    orr_html_legend_open(d->out);
    for (int k = 0; k < ORR_SHARDINGS; k++)
        if (n[k] > 0)
            orr_html_legend(d->out, CLASSES[k], "%s: %u table%s",
                            orr_embedding_sharding_name((orr_embedding_sharding)k), n[k],
                            n[k] == 1 ? "" : "s");
    orr_html_legend_close(d->out);
}

/* --- the picture ------------------------------------------------------------------------------ */

/* The height of the fullest rank. */
static double sort_blocks(drawing *d)
{
    const orr_embedding_plan *plan = d->p->plan;
    double most = 0, sum = 0;
    for (uint32_t i = 0; i < plan->n_shards; i++) {
        const orr_embedding_shard *s = &plan->shards[i];
        const orr_table_shard_cost *cost = &d->p->costs[i];
        d->blocks[i] =
            (block){s->rank, i, d->measure == ORR_SHARDING_TIME ? cost->ns : cost->memory_bytes,
                    plan->placements[s->table].sharding};
    }
    qsort(d->blocks, plan->n_shards, sizeof *d->blocks, by_place);
    for (uint32_t i = 0; i < plan->n_shards; i++) {
        sum = i > 0 && d->blocks[i].rank == d->blocks[i - 1].rank ? sum + d->blocks[i].height
                                                                  : d->blocks[i].height;
        most = fmax(most, sum);
    }
    return most + common_of(d);
}

orr_status orr_svg_sharding(orr_output *out, const orr_sharding_picture *picture,
                            orr_sharding_measure measure, orr_arena *arena, orr_error *err)
{
    const orr_embedding_plan *plan = picture->plan;
    drawing d = {.out = out,
                 .p = picture,
                 .measure = measure,
                 .blocks = orr_arena_array(arena, block, plan->n_shards)};
    if (d.blocks == NULL)
        return orr_fail_memory(err);
    const double fullest = sort_blocks(&d);
    const bool has_line = is_line_shown(&d, fullest);
    const double most = has_line ? fmax(fullest, line_of(&d)) : fullest;
    d.scale = HEIGHT / (most > 0 ? most : 1);
    d.pitch = fmin((double)PLOT / plan->ranks, COLUMN_MAX);
    d.width = d.pitch - fmin(6, d.pitch / 8);
    d.least = fmax(BLOCK_MIN, (double)HEIGHT * plan->ranks / MOST_BLOCKS);
    put_legend(&d);
    orr_svg_open(
        out, measure == ORR_SHARDING_TIME ? "Time of tables by rank" : "Memory of tables by rank",
        TOP + HEIGHT + FOOT);
    put_axis(&d, most > 0 ? most : 1);
    put_ranks(&d);
    put_common(&d);
    for (uint32_t at = 0; at < plan->n_shards;)
        at = put_column(&d, at);
    if (has_line)
        put_line(&d);
    orr_svg_close(out);
    return ORR_OK;
}
