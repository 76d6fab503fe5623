/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/emitter.h"

/* Rows of embedding tables that live outside memory, on a lane of their own: storage has nothing
 * else to do. Fetched ahead, rows of a later batch are read while this one is computed, and
 * computation waits for no more than what is left of them when the step has ended. Else the batch
 * itself waits. */

static orr_node_id emit_rows(orr_stage_emitter *l, const orr_tables_fetch *fetch, double ns,
                             orr_node_id after)
{
    const orr_node_id node = orr_stage_emit_node(
        l, &(orr_emitted_node){.name = "fetch_rows",
                               .kind = ORR_NODE_COPY,
                               .lane = ORR_STEP_FETCH,
                               .part = ORR_WATERFALL_TIERS,
                               .basis = ORR_BASIS_ROOFLINE,
                               .ns = orr_step_jittered_ns(l->job->prices, (int64_t)(ns + 0.5))});
    const orr_copy copy = {.bytes = (uint64_t)fetch->read_bytes};
    orr_stage_emit_dependency(l, node, after);
    if (orr_stage_emit_ok(l))
        l->status = orr_builder_copy(l->b, node, &copy, l->err);
    return node;
}

void orr_stage_emit_fetch(orr_stage_emitter *l, const orr_tables_fetch *fetch)
{
    if (!(fetch->ns > 0))
        return;
    if (fetch->ahead > 0) {
        l->fetched_ahead = emit_rows(l, fetch, fetch->ns, ORR_NONE);
        return;
    }
    const orr_node_id last = orr_stage_emit_flush(l);
    orr_stage_emit_wait(l, emit_rows(l, fetch, fetch->ns + fetch->first_ns, last));
}

void orr_stage_emit_wait_for_fetch(orr_stage_emitter *l)
{
    if (l->fetched_ahead == ORR_NONE)
        return;
    orr_stage_emit_wait(l, l->fetched_ahead);
    orr_stage_emit_compute_node(l, "wait for rows", ORR_WATERFALL_TIERS, 0, ORR_BASIS_ROOFLINE);
}
