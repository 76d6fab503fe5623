/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/lane_rows.h"

#include <string.h>

#include "base/alloc.h"

/* Sorting moves the start with the id, so that most comparisons stay in the cache. */
typedef struct item {
    int64_t start_ns;
    orr_node_id id;
} item;

static bool precedes(const orr_lane_columns *c, item a, item b)
{
    if (a.start_ns != b.start_ns)
        return a.start_ns < b.start_ns;
    if (c->duration_ns[a.id] != c->duration_ns[b.id])
        return c->duration_ns[a.id] > c->duration_ns[b.id];
    return a.id < b.id;
}

static item item_of(const orr_lane_columns *c, orr_node_id id)
{
    return (item){c->start_ns[id], id};
}

static bool is_sorted(const orr_lane_columns *c, const orr_node_id *node, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (!precedes(c, item_of(c, node[i - 1]), item_of(c, node[i])))
            return false;
    return true;
}

/* Short blocks in place: the merge then begins with runs of at least this many. */
enum { BLOCK = 16 };

static void sort_blocks(const orr_lane_columns *c, item *at, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const item moving = at[i];
        const uint32_t begin = i / BLOCK * BLOCK;
        uint32_t to = i;
        for (; to > begin && precedes(c, moving, at[to - 1]); to--)
            at[to] = at[to - 1];
        at[to] = moving;
    }
}

static uint32_t run_end(const orr_lane_columns *c, const item *at, uint32_t begin, uint32_t n)
{
    uint32_t end = begin + 1;
    while (end < n && precedes(c, at[end - 1], at[end]))
        end++;
    return end;
}

static void merge(const orr_lane_columns *c, const item *a, const item *a_end, const item *b,
                  const item *b_end, item *to)
{
    while (a < a_end && b < b_end)
        *to++ = precedes(c, *b, *a) ? *b++ : *a++;
    memcpy(to, a, (size_t)(a_end - a) * sizeof *a);
    memcpy(to + (a_end - a), b, (size_t)(b_end - b) * sizeof *b);
}

/* Natural merge sort: recordings are nearly in order, in few long runs. Gives the
 * sorted one of the two buffers. */
static item *sort_items(const orr_lane_columns *c, item *at, item *other, uint32_t n)
{
    sort_blocks(c, at, n);
    for (;;) {
        uint32_t begin = 0, runs = 0;
        while (begin < n) {
            const uint32_t middle = run_end(c, at, begin, n);
            const uint32_t end = middle < n ? run_end(c, at, middle, n) : n;
            merge(c, at + begin, at + middle, at + middle, at + end, other + begin);
            begin = end;
            runs++;
        }
        item *sorted = other;
        other = at;
        at = sorted;
        if (runs <= 1)
            return at;
    }
}

static void sort_lane(const orr_lane_columns *c, orr_node_id *node, uint32_t n, item *scratch)
{
    for (uint32_t i = 0; i < n; i++)
        scratch[i] = item_of(c, node[i]);
    const item *sorted = sort_items(c, scratch, scratch + n, n);
    for (uint32_t i = 0; i < n; i++)
        node[i] = sorted[i].id;
}

static orr_status sort_lanes(const orr_lane_columns *c, const orr_lane_rows *rows, orr_error *err)
{
    uint32_t largest = 0; /* of those that need sorting */
    for (uint32_t l = 0; l < c->n_lanes; l++) {
        const uint32_t n = rows->first[l + 1] - rows->first[l];
        if (n > largest && !is_sorted(c, rows->node + rows->first[l], n))
            largest = n;
    }
    if (largest == 0)
        return ORR_OK;
    item *scratch = orr_malloc(2 * (size_t)largest * sizeof *scratch);
    if (scratch == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < c->n_lanes; l++) {
        const uint32_t n = rows->first[l + 1] - rows->first[l];
        if (n <= largest && !is_sorted(c, rows->node + rows->first[l], n))
            sort_lane(c, rows->node + rows->first[l], n, scratch);
    }
    orr_free(scratch);
    return ORR_OK;
}

/* Nodes of each lane by id. */
static orr_status group_by_lane(const orr_lane_columns *c, const orr_lane_rows *rows,
                                orr_error *err)
{
    for (uint32_t v = 0; v < c->n_nodes; v++) {
        if (c->lane[v] >= c->n_lanes)
            return orr_fail(err, ORR_INVALID, "node %u: lane %u does not exist; there are %u", v,
                            c->lane[v], c->n_lanes);
        rows->first[c->lane[v] + 1]++;
    }
    for (uint32_t l = 0; l < c->n_lanes; l++)
        rows->first[l + 1] += rows->first[l];
    for (uint32_t v = 0; v < c->n_nodes; v++)
        rows->node[rows->first[c->lane[v]]++] = v;
    for (uint32_t l = c->n_lanes; l > 0; l--)
        rows->first[l] = rows->first[l - 1];
    rows->first[0] = 0;
    return ORR_OK;
}

orr_status orr_lane_rows_sort(const orr_lane_columns *c, orr_lane_rows *ret, orr_error *err)
{
    orr_lane_rows rows = {
        .first = orr_calloc((size_t)c->n_lanes + 1, sizeof *rows.first),
        .node = orr_malloc(c->n_nodes * sizeof *rows.node),
    };
    orr_status status = ORR_OK;
    if (rows.first == NULL || rows.node == NULL)
        status = orr_fail_memory(err);
    else if ((status = group_by_lane(c, &rows, err)) == ORR_OK)
        status = sort_lanes(c, &rows, err);
    if (status == ORR_OK)
        *ret = rows;
    else
        orr_lane_rows_done(&rows);
    return status;
}

/* In each row strictly ascending nodes of that lane, N in all: then each node is there once. */
bool orr_lane_rows_valid(const orr_lane_rows *rows, const orr_lane_columns *c)
{
    for (uint32_t l = 0; l < c->n_lanes; l++) {
        const uint32_t first = rows->first[l], n = rows->first[l + 1] - first;
        for (uint32_t i = 0; i < n; i++)
            if (c->lane[rows->node[first + i]] != l)
                return false;
        if (!is_sorted(c, rows->node + first, n))
            return false;
    }
    return true;
}

void orr_lane_rows_done(orr_lane_rows *rows)
{
    orr_free(rows->first);
    orr_free(rows->node);
    *rows = (orr_lane_rows){0};
}

orr_status orr_builder_sort_lanes(orr_graph_builder *b, orr_error *err)
{
    const orr_lane_columns columns = {b->n_nodes, (uint32_t)b->lanes.n, b->lane, b->start_ns,
                                      b->duration_ns};
    orr_lane_rows_done(&b->lane_rows);
    ORR_TRY(orr_lane_rows_sort(&columns, &b->lane_rows, err));
    b->sorted_lanes = columns.n_lanes;
    b->sorted_nodes = columns.n_nodes;
    return ORR_OK;
}
