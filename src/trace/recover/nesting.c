/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover/recover.h"

#include "base/alloc.h"

/* The call stack of a thread while its operators are visited in order of start; the bottom frame is
 * the thread itself. */
typedef struct frame {
    int64_t end_ns;
    orr_node_id node; /* ORR_NONE: the thread */
    orr_node_id last; /* the child that ended last, or ORR_NONE */
    int64_t last_end_ns;
    orr_node_id
        before_last; /* what `last` follows: the child that ended before it began, or ORR_NONE */
} frame;

typedef orr_array(frame) frames;

static const frame *top(const frames *open)
{
    return &open->at[open->n - 1];
}

/* Program order: v follows the sibling that ended last. Overlapping siblings (annotations that span
 * the ends of other calls) are unordered. */
static orr_status follow_sibling(orr_graph_builder *b, frame *f, orr_node_id v, int64_t start_ns,
                                 int64_t end_ns, orr_error *err)
{
    const bool in_order = f->last == ORR_NONE || f->last_end_ns <= start_ns;
    const orr_node_id before = in_order ? f->last : f->before_last;
    if (before != ORR_NONE)
        ORR_TRY(orr_builder_dep(b, v, before, ORR_DEP_THREAD, err));
    if (in_order || end_ns > f->last_end_ns) {
        f->before_last = before;
        f->last = v;
        f->last_end_ns = end_ns;
    }
    return ORR_OK;
}

static orr_status place(orr_graph_builder *b, frames *open, orr_node_id v, int64_t rounding_ns,
                        orr_error *err)
{
    const int64_t start = b->start_ns[v];
    int64_t end = start + b->duration_ns[v];
    while (open->n > 1 && top(open)->end_ns <= start)
        open->n--;
    while (open->n > 1 && top(open)->end_ns < end - rounding_ns)
        open->n--;
    frame *f = &open->at[open->n - 1];
    b->parent[v] = f->node;
    if (b->kind[v] == ORR_NODE_MEMORY) /* an instant encloses nothing */
        return ORR_OK;
    if (end > f->end_ns)
        end = f->end_ns;
    ORR_TRY(follow_sibling(b, f, v, start, end, err));
    const frame inner = {.end_ns = end, .node = v, .last = ORR_NONE, .before_last = ORR_NONE};
    return orr_array_push(open, inner) ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_recover_nesting(orr_graph_builder *b, const orr_recovery *r, orr_error *err)
{
    frames open = {0};
    orr_status status = ORR_OK;
    for (uint32_t lane = 0; lane < b->lanes.n; lane++) {
        if (b->lanes.at[lane].kind != ORR_LANE_HOST)
            continue;
        const frame thread = {
            .end_ns = INT64_MAX, .node = ORR_NONE, .last = ORR_NONE, .before_last = ORR_NONE};
        open.n = 0;
        if (!orr_array_push(&open, thread)) {
            status = orr_fail_memory(err);
            goto out;
        }
        for (uint32_t i = b->lane_rows.first[lane]; i < b->lane_rows.first[lane + 1]; i++) {
            const orr_node_id v = b->lane_rows.node[i];
            if (b->start_ns[v] != ORR_TIME_NONE)
                ORR_TRY_OUT(status, place(b, &open, v, r->rounding_ns, err));
        }
    }
out:
    orr_array_done(&open);
    return status;
}
