/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/builder.h"

#include <string.h>

#include "base/alloc.h"

#define MAX_ELEMENTS (UINT32_MAX - 1) /* of any kind; ORR_NONE stays free */
#define MAX_LANES    UINT16_MAX
#define DETAIL_FLAGS (ORR_FLAG_COMM | ORR_FLAG_COPY | ORR_FLAG_MEMORY)

orr_graph_builder *orr_graph_builder_new(void)
{
    orr_graph_builder *b = orr_malloc(sizeof *b);
    if (b == NULL)
        return NULL;
    *b = (orr_graph_builder){.recording = {.rank = ORR_NONE}};
    b->strings = orr_strtab_new();
    if (b->strings == NULL) {
        orr_free(b);
        return NULL;
    }
    return b;
}

void orr_builder_reset(orr_graph_builder *b)
{
#define FREE_COLUMN(type, name) orr_free(b->name);
    ORR_NODE_COLUMNS(FREE_COLUMN)
    ORR_DEP_COLUMNS(FREE_COLUMN)
#undef FREE_COLUMN
    for (size_t i = 0; i < b->groups.n; i++)
        orr_free((void *)b->groups.at[i].ranks);
    orr_array_done(&b->lanes);
    orr_array_done(&b->groups);
    orr_array_done(&b->tensors);
    orr_array_done(&b->comms);
    orr_array_done(&b->copies);
    orr_array_done(&b->memories);
    orr_array_done(&b->io_rows);
    orr_array_done(&b->io);
    orr_hash_index_done(&b->lane_index);
    orr_hash_index_done(&b->group_index);
    orr_hash_index_done(&b->tensor_index);
    orr_attr_heap_done(&b->attr_heap);
    orr_free(b->lane_rows.first);
    orr_free(b->lane_rows.node);
    orr_strtab_free(b->strings);
    *b = (orr_graph_builder){.recording = {.rank = ORR_NONE}};
}

void orr_graph_builder_free(orr_graph_builder *b)
{
    if (b == NULL)
        return;
    orr_builder_reset(b);
    orr_free(b);
}

void orr_builder_recording(orr_graph_builder *b, const orr_recording *recording)
{
    b->recording = *recording;
}

static uint32_t n_strings(const orr_graph_builder *b)
{
    return b->strings ? orr_strtab_count(b->strings) : 1;
}

orr_status orr_builder_str(orr_graph_builder *b, const char *text, size_t len, orr_str *ret,
                           orr_error *err)
{
    if (b->strings == NULL && (b->strings = orr_strtab_new()) == NULL)
        return orr_fail_memory(err);
    const orr_str s = orr_strtab_add(b->strings, text, len);
    if (s == UINT32_MAX && (n_strings(b) >= MAX_ELEMENTS || len >= UINT32_MAX))
        return orr_fail(err, ORR_LIMIT, "over 2^32 - 2 different strings, or one over 4 GiB");
    if (s == UINT32_MAX)
        return orr_fail_memory(err);
    *ret = s;
    return ORR_OK;
}

static orr_status limit(orr_error *err, const char *what)
{
    return orr_fail(err, ORR_LIMIT, "over 2^32 - 2 %s in one graph", what);
}

/* Room for one more row in columns that share one length: each column grows by itself, and the
 * common room is what all of them have. */
static uint32_t next_room(uint32_t room)
{
    const uint64_t next = (uint64_t)room + room / 2 + 256;
    return next < MAX_ELEMENTS ? (uint32_t)next : MAX_ELEMENTS;
}

static bool grow_column(void **column, size_t room, size_t element_bytes)
{
    size_t bytes;
    void *grown = orr_mul_size(room, element_bytes, &bytes) ? orr_realloc(*column, bytes) : NULL;
    if (grown == NULL)
        return false;
    *column = grown;
    return true;
}

#define GROW_COLUMN(type, name)                                                                    \
    if (!grow_column((void **)&b->name, room, sizeof(type)))                                       \
        return orr_fail_memory(err);

static orr_status grow_nodes(orr_graph_builder *b, orr_error *err)
{
    if (b->n_nodes >= MAX_ELEMENTS)
        return limit(err, "nodes");
    const uint32_t room = next_room(b->node_room);
    ORR_NODE_COLUMNS(GROW_COLUMN)
    b->node_room = room;
    return ORR_OK;
}

static orr_status grow_deps(orr_graph_builder *b, orr_error *err)
{
    if (b->n_deps >= MAX_ELEMENTS)
        return limit(err, "dependencies");
    const uint32_t room = next_room(b->dep_room);
    ORR_DEP_COLUMNS(GROW_COLUMN)
    b->dep_room = room;
    return ORR_OK;
}

orr_status orr_builder_node(orr_graph_builder *b, const orr_node *node, orr_node_id *ret,
                            orr_error *err)
{
    if (b->n_nodes == b->node_room)
        ORR_TRY(grow_nodes(b, err));
    const orr_node_id id = b->n_nodes++;
    b->name[id] = node->name;
    b->kind[id] = node->kind < UINT8_MAX ? (uint8_t)node->kind : UINT8_MAX; /* build refuses it */
    b->flags[id] = 0;
    b->lane[id] = node->lane < MAX_LANES ? (uint16_t)node->lane : MAX_LANES; /* this too */
    b->start_ns[id] = node->start_ns;
    b->duration_ns[id] = node->duration_ns;
    b->parent[id] = node->parent;
    b->source_id[id] = node->source_id;
    b->detail[id] = 0;
    b->attrs[id] = 0;
    *ret = id;
    return ORR_OK;
}

orr_status orr_builder_dep(orr_graph_builder *b, orr_node_id node, orr_node_id on,
                           orr_dep_kind kind, orr_error *err)
{
    if (b->n_deps == b->dep_room)
        ORR_TRY(grow_deps(b, err));
    const uint32_t id = b->n_deps++;
    b->deps_scattered |= id > 0 && node < b->dep_node[id - 1];
    b->dep_node[id] = node;
    b->dep_on[id] = on;
    b->dep_kind[id] = kind < UINT8_MAX ? (uint8_t)kind : UINT8_MAX; /* the build refuses it */
    return ORR_OK;
}

/* A lane is known by its kind and its numbers, or by the texts that stand in for them. */
static bool same_lane(const orr_lane *a, const orr_lane *b)
{
    return a->kind == b->kind && a->pid == b->pid && a->tid == b->tid &&
           (a->kind != ORR_LANE_STREAM || a->device == b->device) &&
           (a->pid != INT64_MIN || a->process == b->process) &&
           (a->tid != INT64_MIN || a->name == b->name);
}

static uint32_t hash_lane(const orr_lane *lane)
{
    const int64_t key[5] = {lane->kind, lane->pid, lane->tid,
                            lane->pid == INT64_MIN ? lane->process : 0,
                            lane->tid == INT64_MIN ? lane->name : 0};
    return orr_hash_bytes(key, sizeof key);
}

orr_status orr_builder_lane(orr_graph_builder *b, const orr_lane *lane, orr_lane_id *ret,
                            orr_error *err)
{
    const uint32_t hash = hash_lane(lane);
    orr_hash_index_probe probe = orr_hash_index_find(&b->lane_index, hash);
    for (uint32_t id; (id = orr_hash_index_next(&b->lane_index, &probe)) != ORR_NONE;) {
        orr_lane *known = &b->lanes.at[id];
        if (!same_lane(known, lane))
            continue;
        if (known->process == 0)
            known->process = lane->process;
        if (known->name == 0)
            known->name = lane->name;
        *ret = id;
        return ORR_OK;
    }
    if (b->lanes.n >= MAX_LANES)
        return orr_fail(err, ORR_LIMIT, "over %d threads and streams in one graph", MAX_LANES);
    const uint32_t id = (uint32_t)b->lanes.n;
    if (!orr_array_reserve(&b->lanes, 1) || !orr_hash_index_add(&b->lane_index, hash, id))
        return orr_fail_memory(err);
    b->lanes.at[b->lanes.n++] = *lane;
    *ret = id;
    return ORR_OK;
}

static bool same_group(const orr_group *a, const orr_group *b)
{
    if (a->name != b->name || a->desc != b->desc || a->backend != b->backend ||
        a->size != b->size || (a->ranks == NULL) != (b->ranks == NULL))
        return false;
    if (a->ranks == NULL)
        return a->size == 0 || (a->start == b->start && a->stride == b->stride);
    return memcmp(a->ranks, b->ranks, a->size * sizeof *a->ranks) == 0;
}

orr_status orr_builder_group(orr_graph_builder *b, const orr_group *group, orr_group_id *ret,
                             orr_error *err)
{
    const uint32_t key[4] = {group->name, group->desc, group->backend, group->size};
    const uint32_t hash = orr_hash_bytes(key, sizeof key);
    orr_hash_index_probe probe = orr_hash_index_find(&b->group_index, hash);
    for (uint32_t id; (id = orr_hash_index_next(&b->group_index, &probe)) != ORR_NONE;) {
        if (same_group(&b->groups.at[id], group)) {
            *ret = id;
            return ORR_OK;
        }
    }
    if (b->groups.n >= MAX_ELEMENTS)
        return limit(err, "process groups");

    orr_group copy = *group;
    if (group->size == 0)
        copy.ranks = NULL;
    if (copy.ranks != NULL) {
        uint32_t *ranks = orr_malloc(group->size * sizeof *ranks);
        if (ranks == NULL)
            return orr_fail_memory(err);
        copy.ranks = memcpy(ranks, group->ranks, group->size * sizeof *ranks);
    }
    const uint32_t id = (uint32_t)b->groups.n;
    if (!orr_array_reserve(&b->groups, 1) || !orr_hash_index_add(&b->group_index, hash, id)) {
        orr_free((void *)copy.ranks);
        return orr_fail_memory(err);
    }
    b->groups.at[b->groups.n++] = copy;
    *ret = id;
    return ORR_OK;
}

orr_status orr_builder_tensor(orr_graph_builder *b, const orr_tensor *tensor, orr_tensor_id *ret,
                              orr_error *err)
{
    _Static_assert(sizeof *tensor == 3 * 8 + 4 * 4 + 8, "a tensor has no padding: it is compared");
    const uint32_t hash = orr_hash_bytes(tensor, sizeof *tensor);
    orr_hash_index_probe probe = orr_hash_index_find(&b->tensor_index, hash);
    for (uint32_t id; (id = orr_hash_index_next(&b->tensor_index, &probe)) != ORR_NONE;) {
        if (memcmp(&b->tensors.at[id], tensor, sizeof *tensor) == 0) {
            *ret = id;
            return ORR_OK;
        }
    }
    if (b->tensors.n >= MAX_ELEMENTS)
        return limit(err, "tensors");
    const uint32_t id = (uint32_t)b->tensors.n;
    if (!orr_array_reserve(&b->tensors, 1) || !orr_hash_index_add(&b->tensor_index, hash, id))
        return orr_fail_memory(err);
    b->tensors.at[b->tensors.n++] = *tensor;
    *ret = id;
    return ORR_OK;
}

static orr_status need_node(const orr_graph_builder *b, orr_node_id node, orr_error *err)
{
    if (node >= b->n_nodes)
        return orr_fail(err, ORR_INVALID, "node %u does not exist yet; there are %u", node,
                        b->n_nodes);
    return ORR_OK;
}

/* The row of a table of `n_rows` for the node's detail of that kind: the one that it has, or the
 * next. A node has one detail; another kind of detail on top is refused. */
static orr_status detail_row(orr_graph_builder *b, orr_node_id node, uint8_t flag, size_t n_rows,
                             uint32_t *ret_row, orr_error *err)
{
    ORR_TRY(need_node(b, node, err));
    const uint8_t has = b->flags[node] & DETAIL_FLAGS;
    if (has != 0 && has != flag)
        return orr_fail(err, ORR_INVALID, "node %u is two of communication, copy and memory event",
                        node);
    if (has == 0 && n_rows >= MAX_ELEMENTS)
        return limit(err, "communications, copies or memory events");
    *ret_row = has != 0 ? b->detail[node] : (uint32_t)n_rows;
    return ORR_OK;
}

static void set_detail(orr_graph_builder *b, orr_node_id node, uint8_t flag, uint32_t row)
{
    b->flags[node] |= flag;
    b->detail[node] = row;
}

orr_status orr_builder_comm(orr_graph_builder *b, orr_node_id node, const orr_comm *comm,
                            orr_error *err)
{
    if (comm->group != ORR_NONE && comm->group >= b->groups.n)
        return orr_fail(err, ORR_INVALID, "node %u: process group %u does not exist", node,
                        comm->group);
    const uint32_t strings = n_strings(b);
    if (comm->collective > ORR_COLL_RECV || comm->dtype >= strings || comm->in_splits >= strings ||
        comm->out_splits >= strings)
        return orr_fail(err, ORR_INVALID,
                        "node %u: communication with an unknown collective or string", node);
    uint32_t row = 0;
    ORR_TRY(detail_row(b, node, ORR_FLAG_COMM, b->comms.n, &row, err));
    if (row == b->comms.n && !orr_array_push(&b->comms, *comm))
        return orr_fail_memory(err);
    b->comms.at[row] = *comm;
    set_detail(b, node, ORR_FLAG_COMM, row);
    return ORR_OK;
}

orr_status orr_builder_copy(orr_graph_builder *b, orr_node_id node, const orr_copy *copy,
                            orr_error *err)
{
    uint32_t row = 0;
    ORR_TRY(detail_row(b, node, ORR_FLAG_COPY, b->copies.n, &row, err));
    if (row == b->copies.n && !orr_array_push(&b->copies, *copy))
        return orr_fail_memory(err);
    b->copies.at[row] = *copy;
    set_detail(b, node, ORR_FLAG_COPY, row);
    return ORR_OK;
}

orr_status orr_builder_memory(orr_graph_builder *b, orr_node_id node, const orr_memory *memory,
                              orr_error *err)
{
    uint32_t row = 0;
    ORR_TRY(detail_row(b, node, ORR_FLAG_MEMORY, b->memories.n, &row, err));
    if (row == b->memories.n && !orr_array_push(&b->memories, *memory))
        return orr_fail_memory(err);
    b->memories.at[row] = *memory;
    set_detail(b, node, ORR_FLAG_MEMORY, row);
    return ORR_OK;
}

orr_status orr_builder_attrs(orr_graph_builder *b, orr_node_id node, const orr_attr *attrs,
                             uint32_t n_attrs, orr_error *err)
{
    if (node != ORR_NONE)
        ORR_TRY(need_node(b, node, err));
    uint32_t list;
    ORR_TRY(orr_attr_heap_add(&b->attr_heap, attrs, n_attrs, n_strings(b), &list, err));
    *(node == ORR_NONE ? &b->recording_attrs : &b->attrs[node]) = list;
    return ORR_OK;
}

orr_status orr_builder_io(orr_graph_builder *b, orr_node_id node, const orr_tensor_id *in,
                          uint32_t n_in, const orr_tensor_id *out, uint32_t n_out, orr_error *err)
{
    ORR_TRY(need_node(b, node, err));
    for (uint64_t i = 0; i < (uint64_t)n_in + n_out; i++) {
        const orr_tensor_id id = i < n_in ? in[i] : out[i - n_in];
        if (id >= b->tensors.n)
            return orr_fail(err, ORR_INVALID, "node %u: tensor %u does not exist", node, id);
    }
    const uint64_t n = (uint64_t)n_in + n_out;
    if (n == 0)
        return ORR_OK;
    if (b->io.n + n > MAX_ELEMENTS)
        return limit(err, "inputs and outputs");
    if (!orr_array_reserve(&b->io_rows, 1) || !orr_array_reserve(&b->io, n))
        return orr_fail_memory(err);
    b->io_rows.at[b->io_rows.n++] = (orr_io_row){node, (uint32_t)b->io.n, n_in, n_out};
    if (n_in != 0)
        memcpy(b->io.at + b->io.n, in, n_in * sizeof *in);
    if (n_out != 0)
        memcpy(b->io.at + b->io.n + n_in, out, n_out * sizeof *out);
    b->io.n += n;
    return ORR_OK;
}
