/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of the experts that this rank has: rows of the mapped file, or converted or drawn for
 * each slot. */
#include "engine/generate/experts.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kernel/format/row.h"

orr_status orr_expert_weight_add(orr_generator *g, const orr_expert_weight *weight, orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    const orr_row_format asked = g->options.format;
    orr_expert_weight w = *weight;
    w.layer = orr_generator_expert_layer(g, w.place);
    w.format = (uint8_t)(asked < ORR_ROW_FORMATS ? asked : w.source.format);
    w.slots = (orr_weight_rows){
        .format = w.format,
        .columns = w.source.columns,
        .row_bytes = orr_row_format_bytes((orr_row_format)w.format, w.source.columns)};
    if (w.slots.row_bytes < 0)
        return orr_fail(err, ORR_INVALID, "rows of %lld numbers have no whole blocks of %s",
                        (long long)w.source.columns, orr_row_format_name((orr_row_format)w.format));
    return orr_array_push(&x->weights, w) ? ORR_OK : orr_fail_memory(err);
}

static bool is_mapped(const orr_expert_weight *w)
{
    return w->source.n_segments > 0 && w->source.format == w->format;
}

int64_t orr_expert_weight_bytes(const orr_expert_weight *w)
{
    return w->rows * w->slots.row_bytes;
}

/* Writes the rows of an expert in the format of slots. */
static orr_status make_expert(const orr_generator *g, const orr_expert_weight *w, uint32_t expert,
                              char *ret, orr_error *err)
{
    const int64_t columns = w->source.columns, from = expert * w->rows;
    const bool drawn = w->source.n_segments == 0;
    const size_t stored = drawn ? (size_t)(w->rows * columns) * sizeof(uint16_t) : 0;
    char *room = orr_malloc((size_t)columns * sizeof(float) + stored + 1);
    if (room == NULL)
        return orr_fail_memory(err);
    float *numbers = (float *)(void *)room;
    char *rows = room + (size_t)columns * sizeof(float);
    if (drawn)
        orr_generator_draw(g, w->rows * g->model.moe.experts, columns, from, w->rows,
                           (uint16_t *)(void *)rows);
    for (int64_t i = 0; i < w->rows; i++) {
        const void *row =
            drawn ? rows + i * columns * 2 : (const char *)orr_row_at(&w->source, from + i);
        char *to = ret + i * w->slots.row_bytes;
        if (w->source.format == w->format) {
            memcpy(to, row, (size_t)w->slots.row_bytes);
            continue;
        }
        orr_row_to_fp32((orr_row_format)w->source.format, row, columns, numbers);
        orr_row_from_fp32((orr_row_format)w->format, numbers, columns, to);
    }
    orr_free(room);
    return ORR_OK;
}

/* Appends the segments of an expert in the mapped file. */
static void append_mapped(const orr_expert_weight *w, uint32_t expert, orr_row_segment *to,
                          uint32_t *n, int64_t *rows)
{
    const int64_t from = expert * w->rows, end = from + w->rows;
    for (uint32_t i = 0; i < w->source.n_segments; i++) {
        const orr_row_segment *s = &w->source.segments[i];
        const int64_t a = s->first > from ? s->first : from,
                      b = s->first + s->count < end ? s->first + s->count : end;
        if (b <= a)
            continue;
        to[(*n)++] =
            (orr_row_segment){.data = (const char *)s->data + (a - s->first) * w->source.row_bytes,
                              .first = *rows,
                              .count = b - a};
        *rows += b - a;
    }
}

static uint32_t mapped_segments(const orr_expert_weight *w, uint32_t expert)
{
    const int64_t from = expert * w->rows, end = from + w->rows;
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->source.n_segments; i++)
        n += w->source.segments[i].first < end &&
             w->source.segments[i].first + w->source.segments[i].count > from;
    return n;
}

/* Segments of all slots: of this rank's `n` experts, and of the first again up to `slots`. */
static orr_status list_slots(orr_expert_weight *w, const uint16_t *expert, uint32_t n,
                             uint32_t slots, orr_error *err)
{
    uint32_t segments = 0, at = 0;
    int64_t rows = 0;
    for (uint32_t s = 0; s < slots; s++) {
        const uint16_t e = expert[s < n ? s : 0];
        segments += w->made[e] != NULL ? 1 : mapped_segments(w, e);
    }
    orr_row_segment *list = orr_malloc(segments * sizeof *list + 1);
    if (list == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < slots; s++) {
        const uint16_t e = expert[s < n ? s : 0];
        if (w->made[e] == NULL) {
            append_mapped(w, e, list, &at, &rows);
            continue;
        }
        list[at++] = (orr_row_segment){.data = w->made[e], .first = rows, .count = w->rows};
        rows += w->rows;
    }
    orr_free((void *)w->slots.segments);
    w->slots.segments = list;
    w->slots.n_segments = at;
    return ORR_OK;
}

orr_status orr_expert_weights_list(orr_generator *g, orr_error *err)
{
    const orr_expert_parallel *x = g->parallel;
    for (size_t i = 0; i < x->weights.n; i++) {
        orr_expert_weight *w = &g->parallel->weights.at[i];
        uint32_t n;
        const uint16_t *expert = orr_generator_experts_of(x, w->layer, &n);
        if (n > 0)
            ORR_TRY(list_slots(w, expert, n, x->slots, err));
    }
    return ORR_OK;
}

orr_status orr_expert_weight_take(const orr_expert_weight *w, uint32_t expert, orr_error *err)
{
    if (w->made[expert] == NULL)
        w->made[expert] = orr_malloc((size_t)orr_expert_weight_bytes(w) + 1);
    return w->made[expert] != NULL ? ORR_OK : orr_fail_memory(err);
}

void orr_expert_weight_drop(const orr_expert_weight *w, uint32_t expert)
{
    orr_free(w->made[expert]);
    w->made[expert] = NULL;
}

void orr_expert_weight_copy(const orr_expert_weight *w, uint32_t expert, char *ret)
{
    const size_t bytes = (size_t)w->slots.row_bytes;
    if (w->made[expert] != NULL)
        memcpy(ret, w->made[expert], (size_t)w->rows * bytes);
    for (int64_t i = 0; i < w->rows && w->made[expert] == NULL; i++)
        memcpy(ret + (size_t)i * bytes, orr_row_at(&w->source, expert * w->rows + i), bytes);
}

static orr_status make_weight(orr_generator *g, orr_expert_weight *w, orr_error *err)
{
    const orr_expert_parallel *x = g->parallel;
    uint32_t n;
    const uint16_t *expert = orr_generator_experts_of(x, w->layer, &n);
    w->made = orr_calloc(x->placement->experts + 1, sizeof *w->made);
    if (w->made == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < n && !is_mapped(w); s++) {
        if (w->made[expert[s]] != NULL)
            continue;
        ORR_TRY(orr_expert_weight_take(w, expert[s], err));
        ORR_TRY(make_expert(g, w, expert[s], w->made[expert[s]], err));
    }
    return ORR_OK;
}

/* --- first touches ------------------------------------------------------------------------------
 */

static int64_t rows_bytes(const orr_weight_rows *rows)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < rows->n_segments; i++)
        n += rows->segments[i].count * rows->row_bytes;
    return n;
}

/* Maps the pages of rows, which the system reads where it does not have them. */
static void touch_rows(const orr_weight_rows *rows)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < rows->n_segments; i++) {
        const char *data = rows->segments[i].data;
        const size_t bytes = (size_t)(rows->segments[i].count * rows->row_bytes),
                     before = (uintptr_t)data % page;
#ifdef MADV_POPULATE_READ
        if (madvise((void *)(uintptr_t)(data - before), before + bytes, MADV_POPULATE_READ) == 0)
            continue;
#endif
        for (size_t at = 0; at < bytes; at += page)
            (void)*(const volatile char *)(data + at);
    }
}

/* In a round all ranks wait for the slowest, and the first rounds would wait for pages: weights are
 * touched before, where all ranks' have room. */
static void touch_weights(const orr_generator *g)
{
    const orr_expert_parallel *x = g->parallel;
    const int64_t free_bytes = g->backend->free_bytes(g->backend);
    int64_t bytes = 0;
    for (size_t i = 0; i < g->weights.n; i++)
        bytes += rows_bytes(&g->weights.at[i].rows);
    for (size_t i = 0; i < x->weights.n; i++)
        bytes += rows_bytes(&x->weights.at[i].slots);
    if (free_bytes < 0 || bytes > free_bytes / x->placement->ranks)
        return;
    for (size_t i = 0; i < g->weights.n; i++)
        touch_rows(&g->weights.at[i].rows);
    for (size_t i = 0; i < x->weights.n; i++)
        touch_rows(&x->weights.at[i].slots);
}

orr_status orr_expert_weights_make(orr_generator *g, orr_error *err)
{
    for (size_t i = 0; i < g->parallel->weights.n; i++)
        ORR_TRY(make_weight(g, &g->parallel->weights.at[i], err));
    ORR_TRY(orr_expert_weights_list(g, err));
    touch_weights(g);
    return ORR_OK;
}

void orr_expert_weights_free(orr_generator *g)
{
    for (size_t i = 0; i < g->parallel->weights.n; i++) {
        orr_expert_weight *w = &g->parallel->weights.at[i];
        for (uint32_t e = 0; e < g->parallel->placement->experts && w->made != NULL; e++)
            orr_free(w->made[e]);
        orr_free(w->made);
        orr_free((void *)w->slots.segments);
    }
    orr_array_done(&g->parallel->weights);
}
