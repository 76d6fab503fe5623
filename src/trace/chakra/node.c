/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/node.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/builder.h"
#include "trace/common/attr_names.h"
#include "trace/comm/names.h"
#include "trace/chakra/recorded.h"

void orr_chakra_nodes_done(orr_chakra_nodes *nodes)
{
    orr_idmap_done(&nodes->ids);
    orr_idmap_done(&nodes->calls);
    orr_process_groups_done(&nodes->groups);
    orr_array_done(&nodes->waiting);
    orr_chakra_recorded_done(&nodes->recorded);
}

orr_status orr_chakra_recording(orr_chakra_nodes *nodes, const orr_chakra_attrs *attrs,
                                orr_error *err)
{
    orr_graph_builder *b = nodes->builder;
    for (size_t i = 0; i < attrs->list.n; i++) {
        const orr_attr *attr = &attrs->list.at[i];
        const char *name = orr_builder_text(b, attr->name);
        const bool text = attr->kind == ORR_ATTR_STRING && !attr->list;
        int64_t value;
        bool whole;
        if (orr_chakra_is_recorded(b, attr))
            continue;
        if (text && strcmp(name, "process_groups") == 0) {
            /* adding strings may move the text */
            const orr_str s = *(const orr_str *)attr->values;
            const size_t len = orr_strtab_len(b->strings, s);
            const char *copy = orr_arena_strndup(attrs->arena, orr_builder_text(b, s), len);
            if (copy == NULL)
                return orr_fail_memory(err);
            ORR_TRY(orr_process_groups_read(&nodes->groups, b, copy, len, &whole, err));
        } else if (text && strcmp(name, "device_name") == 0) {
            b->recording.device_name = *(const orr_str *)attr->values;
        } else if (!orr_chakra_attr_int(b, attr, &value) || value < 0) {
            continue;
        } else if (strcmp(name, "pid") == 0) {
            nodes->pid = value;
        } else if (strcmp(name, "rank") == 0 && value < UINT32_MAX) {
            b->recording.rank = (uint32_t)value;
        } else if (strcmp(name, "world_size") == 0 && value < UINT32_MAX) {
            b->recording.world_size = (uint32_t)value;
        }
    }
    return ORR_OK;
}

orr_status orr_chakra_check_times(const orr_chakra_node *node, orr_error *err)
{
    const uint64_t most_us = INT64_MAX / 1000 / 2;
    if (node->start_us > most_us || node->duration_us > most_us)
        return orr_fail(err, ORR_INVALID,
                        "node %" PRIu64 ": start or duration is over %" PRIu64 " us", node->id,
                        most_us);
    return ORR_OK;
}

/* Start and duration: the exact attributes of our own files where they agree with the microseconds,
 * else the microseconds, which are kept apart if a rewrite would not reproduce them. */
static orr_status set_times(const orr_chakra_node *node, const orr_chakra_attr_values *facts,
                            orr_chakra_attrs *attrs, orr_graph_builder *builder, orr_node *ret,
                            orr_error *err)
{
    ORR_TRY(orr_chakra_check_times(node, err));
    ret->start_ns = node->start_us == 0 ? ORR_TIME_NONE : (int64_t)node->start_us * 1000;
    ret->duration_ns = (int64_t)node->duration_us * 1000;
    if (facts->has_start_ns) {
        if (facts->start_ns >= 0 && orr_chakra_micros(facts->start_ns) == (int64_t)node->start_us)
            ret->start_ns = facts->start_ns;
        else
            ORR_TRY(orr_chakra_attr_numbers(attrs, builder, ORR_NAME_CHAKRA_START, ORR_ATTR_UINT64,
                                            false, &node->start_us, 1, err));
    }
    if (facts->has_duration_ns || facts->has_self_ns) {
        const int64_t ns = facts->has_self_ns ? facts->self_ns : facts->duration_ns;
        if (facts->has_duration_ns && facts->duration_ns >= 0 && ns >= 0 &&
            facts->duration_ns < INT64_MAX / 2 &&
            orr_chakra_micros(ns) == (int64_t)node->duration_us)
            ret->duration_ns = facts->duration_ns;
        else
            ORR_TRY(orr_chakra_attr_numbers(attrs, builder, ORR_NAME_CHAKRA_DURATION,
                                            ORR_ATTR_UINT64, false, &node->duration_us, 1, err));
    }
    return ORR_OK;
}

/* The kind named by our own files, if it fits the type. */
static bool kind_named(const orr_graph_builder *builder, orr_str name, int32_t type,
                       orr_node_kind *ret)
{
    const char *text = orr_builder_text(builder, name);
    for (int k = 0; k <= ORR_NODE_OVERHEAD; k++)
        if (strcmp(text, orr_node_kind_name((orr_node_kind)k)) == 0 &&
            (int32_t)orr_chakra_type_of((orr_node_kind)k) == type) {
            *ret = (orr_node_kind)k;
            return true;
        }
    return false;
}

orr_node_kind orr_chakra_node_kind(const orr_graph_builder *builder, int32_t type,
                                   const orr_chakra_attr_values *facts)
{
    const bool is_comm = facts->has_comm_type || facts->comm_size >= 0 || !facts->has_cpu_op;
    const bool is_cpu_op = facts->has_cpu_op ? facts->is_cpu_op : !facts->has_stream;
    orr_node_kind kind;
    if (facts->kind != 0 && kind_named(builder, facts->kind, type, &kind))
        return kind;
    kind = orr_chakra_kind(type, is_cpu_op, is_comm);
    /* Calls of the runtime have a correlation, operators a record-function id. */
    return kind == ORR_NODE_HOST_OP && type == CHAKRA_COMP && facts->correlation != 0 &&
                   facts->rf_id == 0
               ? ORR_NODE_RUNTIME
               : kind;
}

static orr_status set_kind(const orr_chakra_node *node, const orr_chakra_attr_values *facts,
                           orr_chakra_attrs *attrs, orr_graph_builder *builder, orr_node *ret,
                           orr_error *err)
{
    ret->kind = orr_chakra_node_kind(builder, node->type, facts);
    if ((int32_t)orr_chakra_type_of(ret->kind) == node->type)
        return ORR_OK;
    return orr_chakra_attr_numbers(attrs, builder, ORR_NAME_CHAKRA_TYPE, ORR_ATTR_INT32, false,
                                   &node->type, 1, err);
}

orr_status orr_chakra_set_lane(const orr_chakra_nodes *nodes, const orr_chakra_attr_values *facts,
                               orr_node *ret, orr_error *err)
{
    const bool host = facts->on_host ? true
                      : facts->has_cpu_op
                          ? facts->is_cpu_op
                          : ret->kind == ORR_NODE_HOST_OP || ret->kind == ORR_NODE_META ||
                                ret->kind == ORR_NODE_OTHER;
    orr_lane lane = {.kind = host ? ORR_LANE_HOST : ORR_LANE_STREAM,
                     .device = host ? -1 : 0,
                     .pid = host ? nodes->pid : 0};
    if (host || !facts->has_stream)
        lane.tid = facts->tid;
    else
        lane.tid = facts->stream;
    return orr_builder_lane(nodes->builder, &lane, &ret->lane, err);
}

static int32_t int32_or_none(int64_t value)
{
    return value >= 0 && value <= INT32_MAX ? (int32_t)value : -1;
}

/* A rank of the world as a rank of the group, where the group's ranks are known. */
static int32_t peer_in_group(const orr_graph_builder *b, orr_group_id group, int64_t rank)
{
    if (group != ORR_NONE && rank >= 0)
        for (uint32_t r = 0; r < b->groups.at[group].size; r++)
            if (orr_group_rank(&b->groups.at[group], r) == (uint64_t)rank)
                return (int32_t)r;
    return int32_or_none(rank);
}

/* Fills in the bytes that comm_size leaves open. */
static void set_bytes(orr_comm *comm, const orr_chakra_attr_values *facts)
{
    const int64_t size = facts->comm_size;
    const bool is_recv = comm->collective == ORR_COLL_RECV;
    const bool same = comm->collective == ORR_COLL_ALL_REDUCE ||
                      comm->collective == ORR_COLL_ALL_TO_ALL ||
                      comm->collective == ORR_COLL_BROADCAST;
    int64_t gathered;
    comm->in_bytes = facts->in_bytes >= 0 ? facts->in_bytes : is_recv ? 0 : size;
    if (facts->out_bytes >= 0)
        comm->out_bytes = facts->out_bytes;
    else if (same || is_recv)
        comm->out_bytes = size;
    else if (comm->collective == ORR_COLL_ALL_GATHER && comm->group_size > 0 && size >= 0 &&
             !__builtin_mul_overflow(size, comm->group_size, &gathered))
        comm->out_bytes = gathered;
    else if (comm->collective == ORR_COLL_REDUCE_SCATTER && comm->group_size > 0 && size >= 0)
        comm->out_bytes = size / comm->group_size;
}

static orr_status add_comm(orr_chakra_nodes *nodes, orr_node_id id, orr_node_kind kind,
                           const orr_chakra_attr_values *facts, orr_error *err)
{
    orr_comm comm = {.peer = -1,
                     .root = int32_or_none(facts->root),
                     .tag = int32_or_none(facts->comm_tag),
                     .group = ORR_NONE,
                     .group_size = -1,
                     .seq = facts->seq,
                     .out_bytes = -1,
                     .dtype = facts->dtype};
    if (facts->pg_name != 0) {
        const orr_group like = {.name = facts->pg_name, .start = -1};
        ORR_TRY(orr_process_groups_named(&nodes->groups, nodes->builder, &like, &comm.group, err));
        const uint32_t size = nodes->builder->groups.at[comm.group].size;
        comm.group_size = size > 0 && size <= INT32_MAX ? (int32_t)size : -1;
    }
    if (kind == ORR_NODE_SEND || kind == ORR_NODE_RECV) {
        comm.collective = kind == ORR_NODE_SEND ? ORR_COLL_SEND : ORR_COLL_RECV;
        comm.peer = peer_in_group(nodes->builder, comm.group,
                                  kind == ORR_NODE_SEND ? facts->comm_dst : facts->comm_src);
    } else if (facts->has_comm_type) {
        comm.collective = (uint8_t)orr_chakra_collective(facts->comm_type);
    }
    set_bytes(&comm, facts);
    return orr_builder_comm(nodes->builder, id, &comm, err);
}

static orr_status two_of_one_id(const orr_chakra_nodes *nodes, uint64_t id, orr_str name,
                                uint32_t old, orr_error *err)
{
    const orr_graph_builder *b = nodes->builder;
    return orr_fail(err, ORR_INVALID, "two nodes of id %" PRIu64 ": '%.80s' and '%.80s'", id,
                    orr_builder_text(b, b->name[old]), orr_builder_text(b, name));
}

orr_status orr_chakra_node_add(orr_chakra_nodes *nodes, const orr_chakra_node *node,
                               orr_chakra_attrs *attrs, orr_error *err)
{
    orr_graph_builder *b = nodes->builder;
    orr_node out = {.name = node->name, .parent = ORR_NONE, .source_id = node->id};
    uint32_t old;
    orr_node_id id;
    ORR_TRY(orr_idmap_add(&nodes->ids, node->id, orr_builder_n_nodes(b), &old, err));
    if (old != ORR_NONE)
        return two_of_one_id(nodes, node->id, node->name, old, err);
    if (nodes->recorded.restores)
        return orr_chakra_recorded_add(nodes, node, attrs, err);
    const orr_chakra_attr_values facts =
        orr_chakra_attr_values_of(b, attrs->list.at, attrs->list.n);
    ORR_TRY(set_times(node, &facts, attrs, b, &out, err));
    ORR_TRY(set_kind(node, &facts, attrs, b, &out, err));
    ORR_TRY(orr_chakra_set_lane(nodes, &facts, &out, err));
    ORR_TRY(orr_builder_node(b, &out, &id, err));
    ORR_TRY(orr_chakra_note_call(nodes, b->lanes.at[out.lane].kind == ORR_LANE_HOST,
                                 facts.correlation, err));
    if (out.kind == ORR_NODE_COLLECTIVE || out.kind == ORR_NODE_SEND || out.kind == ORR_NODE_RECV)
        ORR_TRY(add_comm(nodes, id, out.kind, &facts, err));
    return orr_builder_attrs(b, id, attrs->list.at, (uint32_t)attrs->list.n, err);
}

orr_status orr_chakra_dep_add(orr_chakra_nodes *nodes, uint64_t on, orr_dep_kind kind,
                              orr_error *err)
{
    const orr_chakra_dep dep = {on, orr_builder_n_nodes(nodes->builder) - 1, (uint8_t)kind};
    if (!orr_array_push(&nodes->waiting, dep))
        return orr_fail_memory(err);
    return ORR_OK;
}

orr_status orr_chakra_note_call(orr_chakra_nodes *nodes, bool host, int64_t correlation,
                                orr_error *err)
{
    uint32_t old;
    nodes->launched_by = host ? 0 : correlation;
    if (!host || correlation == 0)
        return ORR_OK;
    return orr_idmap_add(&nodes->calls, (uint64_t)correlation,
                         orr_builder_n_nodes(nodes->builder) - 1, &old, err);
}

orr_status orr_chakra_deps_end(orr_chakra_nodes *nodes, orr_error *err)
{
    if (nodes->launched_by == 0)
        return ORR_OK;
    const uint32_t call = orr_idmap_get(&nodes->calls, (uint64_t)nodes->launched_by);
    if (call == ORR_NONE)
        return ORR_OK;
    return orr_chakra_dep_add(nodes, call, ORR_DEP_LAUNCH, err);
}

/* A dependency on a node that is not in the file. */
static orr_status missing(orr_chakra_nodes *nodes, const orr_chakra_dep *dep, bool tolerant,
                          orr_read_report *report, orr_error *err)
{
    const orr_graph_builder *b = nodes->builder;
    if (!tolerant)
        return orr_fail(err, ORR_INVALID,
                        "node %" PRIu64 " '%.80s' waits for the data of node %" PRIu64
                        ", which is not in the file",
                        b->source_id[dep->node], orr_builder_text(b, b->name[dep->node]), dep->on);
    report->faults[ORR_TRACE_FAULT_BAD_EVENT]++;
    return ORR_OK;
}

/* Resolves the target of each pending dependency, and the component of each node. */
static orr_status resolve(const orr_chakra_nodes *nodes, uint32_t **ret_on,
                          uint32_t **ret_component, orr_error *err)
{
    const size_t n = nodes->waiting.n;
    uint32_t *on = orr_calloc(n > 0 ? n : 1, sizeof *on);
    if (on == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const orr_chakra_dep *dep = &nodes->waiting.at[i];
        on[i] =
            dep->kind == ORR_DEP_LAUNCH ? (uint32_t)dep->on : orr_idmap_get(&nodes->ids, dep->on);
    }
    *ret_on = on;
    return orr_chakra_components(nodes, on, ret_component, err);
}

typedef orr_array(uint64_t) dangling_list;

static orr_status keep_apart(dangling_list *dangling, const orr_chakra_dep *dep, uint64_t position,
                             orr_error *err)
{
    if (!orr_array_reserve(dangling, 3))
        return orr_fail_memory(err);
    dangling->at[dangling->n++] = dep->node;
    dangling->at[dangling->n++] = position;
    dangling->at[dangling->n++] = dep->on;
    return ORR_OK;
}

orr_status orr_chakra_nodes_finish(orr_chakra_nodes *nodes, orr_chakra_attrs *recording,
                                   bool tolerant, orr_read_report *report, orr_error *err)
{
    dangling_list dangling = {0};
    uint32_t *on = NULL, *component = NULL;
    uint64_t position = 0;
    orr_status status;
    bool restored = false;
    if (nodes->recorded.restores)
        ORR_TRY(orr_chakra_recorded_finish(nodes, &restored, err));
    if (restored)
        return orr_builder_attrs(nodes->builder, ORR_NONE, recording->list.at,
                                 (uint32_t)recording->list.n, err);
    ORR_TRY_OUT(status, resolve(nodes, &on, &component, err));
    for (size_t i = 0; i < nodes->waiting.n; i++) {
        const orr_chakra_dep *dep = &nodes->waiting.at[i];
        const bool control = dep->kind == ORR_DEP_CONTROL;
        position = i > 0 && dep[-1].node == dep->node && control ? position + 1 : 0;
        const bool missing_node = on[i] == ORR_NONE;
        const bool cyclic = !missing_node && component[on[i]] == component[dep->node];
        if (dep->kind == ORR_DEP_DATA && missing_node) {
            ORR_TRY_OUT(status, missing(nodes, dep, tolerant, report, err));
        } else if (control && (missing_node || cyclic)) {
            report->ignored++;
            ORR_TRY_OUT(status, keep_apart(&dangling, dep, position, err));
        } else if (dep->kind != ORR_DEP_LAUNCH || !cyclic) {
            ORR_TRY_OUT(status, orr_builder_dep(nodes->builder, dep->node, on[i],
                                                (orr_dep_kind)dep->kind, err));
        }
    }
    if (dangling.n > 0)
        ORR_TRY_OUT(status, orr_chakra_attr_numbers(recording, nodes->builder,
                                                    ORR_NAME_CHAKRA_DANGLING, ORR_ATTR_UINT64, true,
                                                    dangling.at, (uint32_t)dangling.n, err));
    status = orr_builder_attrs(nodes->builder, ORR_NONE, recording->list.at,
                               (uint32_t)recording->list.n, err);
out:
    orr_array_done(&dangling);
    orr_free(on);
    orr_free(component);
    return status;
}
