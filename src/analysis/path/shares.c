/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"
#include "base/alloc.h"

static const orr_path_piece *piece_at(const void *p)
{
    return *(const orr_path_piece *const *)p;
}

/* By rank, bound and name; a name is one pointer within a graph, but not across graphs. */
static int by_kind(const orr_path_piece *a, const orr_path_piece *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->bound != b->bound)
        return a->bound < b->bound ? -1 : 1;
    return a->name == b->name ? 0 : strcmp(a->name, b->name);
}

static int compare_pieces(const void *a, const void *b)
{
    return by_kind(piece_at(a), piece_at(b));
}

static int compare_rows(const void *x, const void *y)
{
    const orr_path_share *a = x, *b = y;
    if (a->sum_ns != b->sum_ns)
        return a->sum_ns > b->sum_ns ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    const int name = strcmp(a->name, b->name);
    return name != 0 ? name : strcmp(a->bound, b->bound);
}

orr_status orr_critical_path_shares(const orr_critical_path *path, orr_arena *arena,
                                    const orr_path_share **ret_rows, size_t *ret_n, orr_error *err)
{
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    orr_path_share *rows = orr_arena_array(arena, orr_path_share, path->n_pieces);
    const orr_path_piece **order = orr_malloc((path->n_pieces + 1) * sizeof *order);
    if (rows == NULL || order == NULL) {
        orr_free(order);
        orr_arena_rewind(arena, mark);
        return orr_fail_memory(err);
    }
    for (size_t i = 0; i < path->n_pieces; i++)
        order[i] = &path->pieces[i];
    qsort(order, path->n_pieces, sizeof *order, compare_pieces);

    size_t n = 0;
    for (size_t i = 0; i < path->n_pieces; i++) {
        const orr_path_piece *p = order[i];
        if (i == 0 || by_kind(order[i - 1], p) != 0)
            rows[n++] = (orr_path_share){
                .rank = p->rank, .name = p->name, .bound = orr_bound_name((orr_bound)p->bound)};
        rows[n - 1].count++;
        rows[n - 1].sum_ns += p->to_ns - p->from_ns;
    }
    orr_free(order);
    const double whole = (double)(path->end_ns - path->start_ns);
    for (size_t i = 0; i < n; i++)
        rows[i].frac = orr_frac((double)rows[i].sum_ns, whole);
    qsort(rows, n, sizeof *rows, compare_rows);
    *ret_rows = rows;
    *ret_n = n;
    return ORR_OK;
}
