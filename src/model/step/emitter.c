/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/emitter.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Nodes, lanes and rendezvous of one kind of rank. Nodes have no start times: the order on a
 * stream is the order of emission. Three things are kept between calls: open computation
 * (consecutive computation merges into one node until orr_stage_emit_flush()), waits (nodes that
 * the next computation depends on), and exposed time (slowdown by overlapped transfers, which is
 * charged before the next slot). */

static const char *const LANES[ORR_STEP_LANES] = {
    "compute",
    "tensor parallel",
    "context parallel",
    "expert parallel",
    "gradients and weights",
    "replicas",
    "to the host",
    "from the host",
    "send forward to next",
    "send forward to previous",
    "send backward to next",
    "send backward to previous",
    "receive forward from next",
    "receive forward from previous",
    "receive backward from next",
    "receive backward from previous",
    "rows from storage",
};

static void fail(orr_stage_emitter *l, orr_status status)
{
    if (l->status == ORR_OK)
        l->status = status;
}

static orr_str text(orr_stage_emitter *l, const char *name)
{
    orr_str s = 0;
    if (orr_stage_emit_ok(l))
        fail(l, orr_builder_str(l->b, name, strlen(name), &s, l->err));
    return s;
}

static orr_lane_id lane_of(orr_stage_emitter *l, orr_step_lane lane)
{
    if (l->lane[lane] != UINT16_MAX)
        return l->lane[lane];
    orr_lane_id id = 0;
    const orr_lane made = {.kind = ORR_LANE_STREAM,
                           .tid = lane + 1,
                           .process = text(l, "device"),
                           .name = text(l, LANES[lane])};
    if (orr_stage_emit_ok(l))
        fail(l, orr_builder_lane(l->b, &made, &id, l->err));
    if (orr_stage_emit_ok(l))
        l->lane[lane] = (uint16_t)id;
    return id;
}

void orr_stage_emit_dependency(orr_stage_emitter *l, orr_node_id node, orr_node_id on)
{
    if (orr_stage_emit_ok(l) && on != ORR_NONE)
        fail(l, orr_builder_dep(l->b, node, on, ORR_DEP_EVENT, l->err));
}

static void follow(orr_stage_emitter *l, orr_node_id node, orr_step_lane lane)
{
    if (orr_stage_emit_ok(l) && l->last[lane] != ORR_NONE)
        fail(l, orr_builder_dep(l->b, node, l->last[lane], ORR_DEP_STREAM, l->err));
    l->last[lane] = node;
}

orr_node_id orr_stage_emit_node(orr_stage_emitter *l, const orr_emitted_node *from)
{
    const int64_t *start_ns = l->who->start_ns;
    const uint32_t at = (uint32_t)l->nodes.n;
    const orr_node node = {.name = text(l, from->name),
                           .kind = from->kind,
                           .lane = lane_of(l, from->lane),
                           .start_ns = start_ns ? start_ns[at] : ORR_TIME_NONE,
                           .duration_ns = start_ns ? l->who->duration_ns[at] : 0,
                           .parent = ORR_NONE};
    orr_node_id id = ORR_NONE;
    orr_step_node what = l->now;
    what.part = (uint8_t)from->part;
    if (!orr_stage_emit_ok(l))
        return ORR_NONE;
    if (!orr_array_push(&l->duration_ns, from->ns) || !orr_array_push(&l->basis, from->basis) ||
        !orr_array_push(&l->axis, ORR_AXIS_NONE) || !orr_array_push(&l->nodes, what))
        fail(l, orr_fail_memory(l->err));
    else
        fail(l, orr_builder_node(l->b, &node, &id, l->err));
    if (orr_stage_emit_ok(l))
        follow(l, id, from->lane);
    return id;
}

void orr_stage_emit_wait(orr_stage_emitter *l, orr_node_id node)
{
    if (orr_stage_emit_ok(l) && node != ORR_NONE && !orr_array_push(&l->waits, node))
        fail(l, orr_fail_memory(l->err));
}

orr_node_id orr_stage_emit_compute_node(orr_stage_emitter *l, const char *name, orr_waterfall part,
                                        int64_t ns, uint8_t basis)
{
    const orr_node_id id = orr_stage_emit_node(l, &(orr_emitted_node){.name = name,
                                                                      .kind = ORR_NODE_COMPUTE,
                                                                      .lane = ORR_STEP_COMPUTE,
                                                                      .part = part,
                                                                      .basis = basis,
                                                                      .ns = ns});
    for (size_t i = 0; i < l->waits.n; i++)
        orr_stage_emit_dependency(l, id, l->waits.at[i]);
    l->waits.n = 0;
    return id;
}

void orr_stage_emit_compute(orr_stage_emitter *l, int64_t ns, uint8_t basis)
{
    if (!l->open) {
        l->open = true;
        l->open_ns = l->open_most_ns = 0;
        l->open_basis = basis;
    }
    l->open_ns += ns;
    if (ns > l->open_most_ns) {
        l->open_most_ns = ns;
        l->open_basis = basis;
    }
}

void orr_stage_emit_waterfall_part(orr_stage_emitter *l, const char *name, orr_waterfall part,
                                   int64_t ns, uint8_t basis)
{
    if (ns <= 0)
        return;
    l->totals.part_ns[part] += ns;
    if (orr_stage_emit_per_operator(l))
        orr_stage_emit_compute_node(l, name, part, ns, basis);
    else
        orr_stage_emit_compute(l, ns, basis);
}

orr_node_id orr_stage_emit_flush(orr_stage_emitter *l)
{
    if (l->open) {
        orr_stage_emit_compute_node(l, l->title, ORR_WATERFALL_KERNELS, l->open_ns, l->open_basis);
        l->open = false;
    }
    return l->last[ORR_STEP_COMPUTE];
}

orr_waterfall orr_axis_waterfall(uint32_t grouping)
{
    switch (grouping) {
    case ORR_AXIS_TP:
    case ORR_AXIS_ETP:
        return ORR_WATERFALL_TP;
    case ORR_AXIS_CP:
        return ORR_WATERFALL_CP;
    case ORR_AXIS_EP:
        return ORR_WATERFALL_EP;
    case ORR_AXIS_PP:
        return ORR_WATERFALL_PP;
    case ORR_STEP_WORLD:
        return ORR_WATERFALL_OPTIMIZER;
    default:
        return ORR_WATERFALL_DP;
    }
}

orr_step_lane orr_axis_lane(uint32_t grouping)
{
    switch (grouping) {
    case ORR_AXIS_TP:
    case ORR_AXIS_ETP:
        return ORR_STEP_TP;
    case ORR_AXIS_CP:
        return ORR_STEP_CP;
    case ORR_AXIS_EP:
        return ORR_STEP_EP;
    case ORR_AXIS_REPLICA:
        return ORR_STEP_REPLICA;
    default:
        return ORR_STEP_DP;
    }
}

static uint32_t size_of(const orr_stage_emitter *l, uint32_t grouping)
{
    if (grouping < ORR_AXES)
        return l->job->prices->members[grouping];
    return grouping == ORR_STEP_MIRROR ? 2 : orr_step_world_size(l->job->plan);
}

/* Ranks of the group that the rank is in. */
static const uint32_t *list_members(orr_stage_emitter *l, uint32_t grouping, uint32_t n)
{
    const orr_plan *plan = l->job->plan;
    uint32_t *ranks = orr_arena_array(l->scratch, uint32_t, n);
    if (ranks == NULL) {
        fail(l, orr_fail_memory(l->err));
    } else if (grouping < ORR_AXES) {
        orr_plan_members_of(plan, (orr_axis)grouping, l->who->rank, ranks);
    } else {
        orr_coordinates at = orr_plan_coordinates(plan, l->who->rank);
        const uint32_t s = at.at[ORR_AXIS_PP], other = plan->pp - 1 - s;
        at.at[ORR_AXIS_PP] = s < other ? s : other;
        ranks[0] = orr_plan_rank_at(plan, &at);
        at.at[ORR_AXIS_PP] = s < other ? other : s;
        ranks[1] = orr_plan_rank_at(plan, &at);
    }
    return ranks;
}

static orr_group_id group_of(orr_stage_emitter *l, uint32_t grouping)
{
    if (l->group[grouping] != ORR_NONE || !orr_stage_emit_ok(l))
        return l->group[grouping];
    char name[16];
    orr_group group = {.size = size_of(l, grouping), .start = 0, .stride = 1};
    const char *axis = grouping < ORR_AXES           ? orr_axis_name((orr_axis)grouping)
                       : grouping == ORR_STEP_MIRROR ? "mirror"
                                                     : "world";
    snprintf(name, sizeof name, "%s", axis);
    if (l->who->group_names != NULL)
        snprintf(name, sizeof name, "%u", l->who->group_names[grouping]);
    group.name = text(l, name);
    group.desc = text(l, axis);
    if (grouping == ORR_STEP_WORLD)
        group.start = l->who->rank / group.size * group.size;
    else
        group.ranks = list_members(l, grouping, group.size);
    if (orr_stage_emit_ok(l))
        fail(l, orr_builder_group(l->b, &group, &l->group[grouping], l->err));
    return l->group[grouping];
}

static orr_node_kind kind_of(const orr_emitted_transfer *t)
{
    return t->collective == ORR_COLL_SEND && t->peer >= 0 ? ORR_NODE_SEND
           : t->collective == ORR_COLL_RECV               ? ORR_NODE_RECV
                                                          : ORR_NODE_COLLECTIVE;
}

/* Does every member of a group send to the next (ring of keys and values)? NCCL has no such
 * collective; it is emitted as an all-gather in which each member sends as many bytes. */
static bool rotates(const orr_emitted_transfer *t)
{
    return t->collective == ORR_COLL_SEND && t->peer < 0;
}

static orr_comm comm_of(orr_stage_emitter *l, const orr_emitted_transfer *t, uint32_t ordinal)
{
    const uint32_t n = size_of(l, t->grouping);
    if (rotates(t) && n > 1) {
        orr_emitted_transfer all_gather = *t;
        all_gather.collective = ORR_COLL_ALL_GATHER;
        all_gather.bytes = t->bytes / (n - 1) * n;
        return comm_of(l, &all_gather, ordinal);
    }
    const bool gathers = t->collective == ORR_COLL_ALL_GATHER;
    const bool scatters = t->collective == ORR_COLL_REDUCE_SCATTER;
    return (orr_comm){.collective = (uint8_t)t->collective,
                      .peer = t->peer,
                      .root = -1,
                      .tag = t->peer >= 0 ? (int32_t)(ordinal & INT32_MAX) : -1,
                      .group = group_of(l, t->grouping),
                      .group_size = (int32_t)n,
                      .seq = ordinal,
                      .in_bytes = t->collective == ORR_COLL_RECV ? 0
                                  : gathers                      ? t->bytes / n
                                                                 : t->bytes,
                      .out_bytes = t->collective == ORR_COLL_SEND ? 0
                                   : scatters                     ? t->bytes / n
                                                                  : t->bytes};
}

static void count(orr_stage_emitter *l, const orr_emitted_transfer *t)
{
    if (t->grouping >= ORR_AXES || t->collective == ORR_COLL_RECV)
        return; /* received bytes were counted at the sender */
    const double sent = orr_step_sent_bytes(t->collective, size_of(l, t->grouping), t->bytes);
    const bool sums =
        t->collective == ORR_COLL_ALL_REDUCE || t->collective == ORR_COLL_REDUCE_SCATTER;
    l->totals.busy_ns[t->grouping] += t->price.ns;
    l->totals.sent_bytes[t->grouping] += sent;
    l->totals.summed_bytes[t->grouping] += sums ? sent : 0;
}

orr_node_id orr_stage_emit_transfer(orr_stage_emitter *l, const orr_emitted_transfer *t,
                                    orr_node_id after)
{
    const uint32_t ordinal = t->ordinal != ORR_NONE ? t->ordinal : l->ordinal[t->grouping]++;
    const orr_node_id id = orr_stage_emit_node(
        l, &(orr_emitted_node){.name = rotates(t) ? "rotate" : orr_collective_name(t->collective),
                               .kind = kind_of(t),
                               .lane = t->lane,
                               .part = orr_axis_waterfall(t->grouping),
                               .basis = t->price.basis,
                               .ns = t->price.ns});
    const orr_comm comm = comm_of(l, t, ordinal);
    orr_stage_emit_dependency(l, id, after);
    if (orr_stage_emit_ok(l))
        fail(l, orr_builder_comm(l->b, id, &comm, l->err));
    if (orr_stage_emit_ok(l) &&
        !orr_array_push(&l->rendezvous, ((orr_rendezvous_id){t->grouping, ordinal})))
        fail(l, orr_fail_memory(l->err));
    if (!orr_stage_emit_ok(l))
        return ORR_NONE;
    if (t->grouping < ORR_AXES)
        l->axis.at[id] = (uint8_t)t->grouping;
    count(l, t);
    return id;
}

orr_node_id orr_stage_emit_transfer_in_order(orr_stage_emitter *l, const orr_emitted_transfer *t)
{
    const orr_node_id computed = orr_stage_emit_flush(l);
    const orr_node_id id = orr_stage_emit_transfer(l, t, computed);
    for (size_t i = 0; i < l->waits.n; i++)
        orr_stage_emit_dependency(l, id, l->waits.at[i]);
    return id;
}

void orr_stage_emit_blocking_collective(orr_stage_emitter *l, orr_axis axis,
                                        orr_collective collective, int64_t bytes)
{
    const orr_step_prices *prices = l->job->prices;
    if (prices->members[axis] <= 1 || bytes <= 0)
        return;
    const orr_price price = orr_step_transfer(prices, axis, collective, bytes);
    const orr_emitted_transfer transfer = {.grouping = axis,
                                           .collective = collective,
                                           .lane = orr_axis_lane(axis),
                                           .bytes = bytes,
                                           .price = price,
                                           .peer = -1,
                                           .ordinal = ORR_NONE};
    if (orr_stage_emit_per_operator(l)) {
        orr_stage_emit_wait(l, orr_stage_emit_transfer_in_order(l, &transfer));
        return;
    }
    count(l, &transfer);
    l->totals.exposed_ns[axis] += price.ns;
    orr_stage_emit_waterfall_part(l, orr_collective_name(collective), orr_axis_waterfall(axis),
                                  price.ns, price.basis);
}
