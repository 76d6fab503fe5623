/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/reader.h"

#include <stdlib.h>

#include "base/alloc.h"

/* Flow arrows: launch arrows for device work without correlation, and forward-to-backward
 * arrows. */

orr_status kineto_add_flow(kineto *k, const kineto_event *e, orr_error *err)
{
    const bool finish = e->ph == 'f';
    if (e->cat == CAT_FLOW_FORWARD) {
        orr_flow flow = {.id = e->id, .at_ns = e->ts_ns, .finish = finish};
        ORR_TRY(kineto_lane(k, e, ORR_LANE_HOST, &flow.lane, err));
        return orr_array_push(&k->recovery.forward, flow) ? ORR_OK : orr_fail_memory(err);
    }
    /* Kineto draws an arrow right after each event with a correlation, under the same id: nothing
     * new. */
    if (e->cat != CAT_FLOW_LAUNCH || (e->id == k->last_correlation && e->ts_ns == k->last_ts_ns) ||
        e->pid.number == INT64_MIN || e->tid.number == INT64_MIN)
        return ORR_OK;
    const kineto_arrow arrow = {e->id, e->ts_ns, e->pid.number, e->tid.number, finish};
    return orr_array_push(&k->arrows, arrow) ? ORR_OK : orr_fail_memory(err);
}

/* A lane by its numbers. */
typedef struct lane_key {
    int64_t pid, tid;
    uint32_t kind, lane;
} lane_key;

static int by_key(const void *a, const void *b)
{
    const lane_key *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static orr_status pass(kineto *k, const lane_key *keys, size_t n_keys, orr_error *err)
{
    for (size_t i = 0; i < k->arrows.n; i++) {
        const kineto_arrow *a = &k->arrows.at[i];
        const lane_key wanted = {
            .pid = a->pid, .tid = a->tid, .kind = a->finish ? ORR_LANE_STREAM : ORR_LANE_HOST};
        const lane_key *key = bsearch(&wanted, keys, n_keys, sizeof *keys, by_key);
        if (key == NULL)
            continue;
        const orr_flow flow = {a->id, a->at_ns, key->lane, a->finish};
        if (!orr_array_push(&k->recovery.launches, flow))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

orr_status kineto_pass_arrows(kineto *k, orr_error *err)
{
    const size_t n_lanes = k->builder->lanes.n;
    if (k->uncorrelated == 0 || k->arrows.n == 0 || n_lanes == 0)
        return ORR_OK;
    lane_key *keys = orr_malloc(n_lanes * sizeof *keys);
    if (keys == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n_lanes; i++) {
        const orr_lane *lane = &k->builder->lanes.at[i];
        keys[i] = (lane_key){lane->pid, lane->tid, lane->kind, (uint32_t)i};
    }
    qsort(keys, n_lanes, sizeof *keys, by_key);
    const orr_status status = pass(k, keys, n_lanes, err);
    orr_free(keys);
    return status;
}
