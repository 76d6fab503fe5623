/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/reader.h"

#include <stdlib.h>
#include <string.h>

#include "trace/comm/hint.h"
#include "trace/comm/names.h"
#include "trace/comm/shapes.h"
#include "trace/common/json_slice.h"

/* What a Kineto recording tells of communications. The kernel carries the least (a name, in newer
 * recordings arguments); the operators around its launch know more: c10d::allreduce_ >
 * record_param_comms > nccl:all_reduce > cudaLaunchKernel. For each kernel the walk goes from its
 * launch outwards, and what inner operators say wins over what outer ones say. Sizes come from
 * recorded counts, else from shapes. */

/* How many operators above a launch are searched; a few of the user's may lie between. */
enum { MOST_LEVELS_ABOVE = 32 };

static const char *text_of(const kineto *k, orr_str s, size_t *ret_len)
{
    *ret_len = orr_strtab_len(k->builder->strings, s);
    return orr_builder_text(k->builder, s);
}

static void set_collective(kineto_comm *c, orr_comm_hint hint)
{
    c->comm.collective = hint.collective;
    c->comm.vector = hint.vector;
}

/* Elements in and out; -1: unknown. */
typedef struct elements {
    int64_t in, out;
} elements;

/* From arguments, which record_param_comms and, in newer recordings, kernels carry. */
static void from_args(const kineto *k, const kineto_event *e, kineto_comm *c)
{
    size_t len;
    if (kineto_has(e, ARG_COLLECTIVE)) {
        const char *name = text_of(k, (orr_str)e->value[ARG_COLLECTIVE], &len);
        const orr_comm_hint hint = orr_comm_of_collective(name, len);
        if (hint.collective != ORR_COLL_UNKNOWN)
            set_collective(c, hint);
        else
            c->comm.vector |= hint.vector;
    }
    c->comm.dtype = (orr_str)kineto_value(e, ARG_DTYPE, 0);
    c->comm.in_splits = (orr_str)kineto_value(e, ARG_IN_SPLITS, 0);
    c->comm.out_splits = (orr_str)kineto_value(e, ARG_OUT_SPLITS, 0);
    const int64_t size = kineto_value(e, ARG_GROUP_SIZE, -1);
    c->comm.group_size = size > 0 && size < INT32_MAX ? (int32_t)size : -1;
    c->comm.seq = kineto_value(e, ARG_SEQ, -1);
    c->group_name = (orr_str)kineto_value(e, ARG_GROUP_NAME, kineto_value(e, ARG_GROUP_ID, 0));
    c->group_desc = (orr_str)kineto_value(e, ARG_GROUP_DESC, 0);
    c->group_ranks = (orr_str)kineto_value(e, ARG_GROUP_RANKS, 0);
    c->global_start = kineto_value(e, ARG_GLOBAL_START, INT64_MIN);
    c->global_stride = kineto_value(e, ARG_GLOBAL_STRIDE, INT64_MIN);
    c->rank = kineto_value(e, ARG_RANK, -1);
    c->global_peer = kineto_value(e, ARG_DST_RANK, kineto_value(e, ARG_SRC_RANK, -1));
}

/* Operators of c10d that take outputs before inputs; the others have one list for both. */
static bool has_outputs_first(const char *name, size_t len)
{
    static const char *const words[] = {"gather", "scatter", "alltoall"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(name, len, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

/* Without counts, from the operator's shapes: those of nccl:... and gloo:... are of its input. */
static elements from_shapes(const kineto *k, const kineto_event *e)
{
    elements n = {-1, -1};
    size_t len, name_len;
    if (!kineto_has(e, ARG_INPUT_DIMS))
        return n;
    const char *name = text_of(k, e->name, &name_len);
    const char *dims = text_of(k, (orr_str)e->value[ARG_INPUT_DIMS], &len);
    if (memchr(name, ':', name_len) == NULL) /* record_param_comms */
        return n;
    const bool outputs_first = strncmp(name, "c10d::", 6) == 0 && has_outputs_first(name, name_len);
    n.in = orr_dims_element_count(dims, len, outputs_first ? 1 : 0);
    if (outputs_first)
        n.out = orr_dims_element_count(dims, len, 0);
    return n;
}

/* The peer of c10d::send(tensors, process_group, dst, tag), and of c10d::recv_ likewise. */
static int64_t peer_from_values(const kineto *k, const kineto_event *e)
{
    enum { PEER = 2 };
    size_t len;
    int64_t peer;
    orr_text value;
    const char *name = text_of(k, e->name, &len);
    if (!kineto_has(e, ARG_INPUT_VALUES) ||
        (strcmp(name, "c10d::send") != 0 && strcmp(name, "c10d::recv_") != 0))
        return -1;
    const char *values = text_of(k, (orr_str)e->value[ARG_INPUT_VALUES], &len);
    orr_json_slice list = orr_json_slice_of((orr_text){values, len});
    for (int i = 0; i <= PEER; i++)
        if (!orr_json_slice_next(&list, &value))
            return -1;
    return orr_text_int64(orr_json_unquote(value), &peer) && peer >= 0 ? peer : -1;
}

static orr_status dtype_from_types(kineto *k, const kineto_event *e, kineto_comm *c, orr_error *err)
{
    size_t len, type_len;
    if (!kineto_has(e, ARG_INPUT_TYPE))
        return ORR_OK;
    const char *types = text_of(k, (orr_str)e->value[ARG_INPUT_TYPE], &len);
    const char *type = orr_types_first(types, len, &type_len);
    if (type == NULL)
        return ORR_OK;
    /* adding a string may move the text, so it is copied first */
    char copy[64];
    if (type_len >= sizeof copy)
        return ORR_OK;
    memcpy(copy, type, type_len);
    return orr_builder_str(k->builder, copy, type_len, &c->comm.dtype, err);
}

static void set_bytes(const kineto *k, kineto_comm *c, elements n)
{
    size_t len;
    const char *dtype = text_of(k, c->comm.dtype, &len);
    const int64_t element_bytes = orr_element_bytes(dtype, len);
    c->in_bytes = c->out_bytes = -1;
    if (n.in >= 0 && element_bytes > 0 && n.in <= INT64_MAX / element_bytes)
        c->in_bytes = n.in * element_bytes;
    if (n.out >= 0 && element_bytes > 0 && n.out <= INT64_MAX / element_bytes)
        c->out_bytes = n.out * element_bytes;
}

orr_status kineto_add_comm(kineto *k, const kineto_event *e, orr_node_id node,
                           const kineto_name *name, bool executes, orr_error *err)
{
    kineto_comm c = {.node = node,
                     .executes = executes,
                     .comm = {.peer = -1, .root = -1, .tag = -1, .group = ORR_NONE}};
    const bool kernel = e->cat == CAT_KERNEL;
    set_collective(&c, (orr_comm_hint){.vector = !kernel && name->vector,
                                       .collective = kernel ? name->kernel_collective
                                                            : name->host_collective});
    from_args(k, e, &c);
    if (c.rank < 0)
        c.rank = peer_from_values(k, e);
    elements n = {kineto_value(e, ARG_IN_ELEMENTS, -1), kineto_value(e, ARG_OUT_ELEMENTS, -1)};
    if (!kernel && n.in < 0 && n.out < 0) {
        n = from_shapes(k, e);
        if (c.comm.dtype == 0 && (n.in >= 0 || n.out >= 0))
            ORR_TRY(dtype_from_types(k, e, &c, err));
    }
    c.in_elements = n.in;
    set_bytes(k, &c, n);
    return orr_array_push(&k->comms, c) ? ORR_OK : orr_fail_memory(err);
}

static int by_node(const void *a, const void *b)
{
    const kineto_comm *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

static const kineto_comm *comm_of(const kineto *k, orr_node_id node)
{
    const kineto_comm wanted = {.node = node};
    return bsearch(&wanted, k->comms.at, k->comms.n, sizeof wanted, by_node);
}

void kineto_merge_comm(kineto_comm *to, const kineto_comm *from)
{
    if (to->comm.collective == ORR_COLL_UNKNOWN) {
        to->comm.collective = from->comm.collective;
        to->comm.vector |= from->comm.vector;
    }
#define TAKE_FIELD(field, unknown)                                                                 \
    if (to->field == (unknown))                                                                    \
    to->field = from->field
    TAKE_FIELD(in_bytes, -1);
    TAKE_FIELD(out_bytes, -1);
    TAKE_FIELD(comm.dtype, 0);
    TAKE_FIELD(comm.in_splits, 0);
    TAKE_FIELD(comm.out_splits, 0);
    TAKE_FIELD(comm.group_size, -1);
    TAKE_FIELD(comm.seq, -1);
    TAKE_FIELD(group_name, 0);
    TAKE_FIELD(group_desc, 0);
    TAKE_FIELD(group_ranks, 0);
    TAKE_FIELD(global_start, INT64_MIN);
    TAKE_FIELD(global_stride, INT64_MIN);
    TAKE_FIELD(rank, -1);
    TAKE_FIELD(global_peer, -1);
#undef TAKE_FIELD
}

static void ask_operators_above(const kineto *k, kineto_comm *c)
{
    const orr_graph_builder *b = k->builder;
    orr_node_id v = k->recovery.launch[c->node];
    if (v == ORR_NONE)
        v = b->parent[c->node];
    for (int level = 0; v != ORR_NONE && level < MOST_LEVELS_ABOVE; level++, v = b->parent[v]) {
        const kineto_comm *above = comm_of(k, v);
        if (above != NULL)
            kineto_merge_comm(c, above);
    }
}

/* Group size of an all-gather or reduce-scatter, from its two sides. */
static void infer_group_size(kineto_comm *c)
{
    const bool gather = c->comm.collective == ORR_COLL_ALL_GATHER;
    const int64_t part = gather ? c->in_bytes : c->out_bytes;
    const int64_t whole = gather ? c->out_bytes : c->in_bytes;
    if ((!gather && c->comm.collective != ORR_COLL_REDUCE_SCATTER) || c->comm.group_size > 0 ||
        c->comm.vector || part <= 0 || whole <= part || whole % part != 0 ||
        whole / part > INT32_MAX)
        return;
    c->comm.group_size = (int32_t)(whole / part);
}

static orr_status find_group(kineto *k, kineto_comm *c, orr_error *err)
{
    orr_group group = {.name = c->group_name,
                       .desc = c->group_desc,
                       .size = c->comm.group_size > 0 ? (uint32_t)c->comm.group_size : 0,
                       .start = -1,
                       .stride = 1};
    size_t len;
    const char *ranks = text_of(k, c->group_ranks, &len);
    uint32_t *list = NULL;
    if (c->group_name == 0 && c->group_ranks == 0 && c->global_start < 0) {
        if (k->only_group)
            c->comm.group = 0; /* the recording has no other group */
        return ORR_OK;
    }
    ORR_TRY(orr_ranks_parse(ranks, len, &list, &group, err));
    if (group.ranks == NULL && group.start < 0 && c->global_start >= 0 &&
        c->global_start < INT32_MAX && c->global_stride > 0 && c->global_stride < INT32_MAX) {
        group.start = (int32_t)c->global_start;
        group.stride = (int32_t)c->global_stride;
    }
    const orr_status status =
        c->group_name != 0
            ? orr_process_groups_named(&k->groups, k->builder, &group, &c->comm.group, err)
            : orr_builder_group(k->builder, &group, &c->comm.group, err);
    orr_ranks_free(list);
    return status;
}

static int32_t rank_in_group(const orr_group *group, int64_t global)
{
    for (uint32_t r = 0; r < group->size; r++)
        if (orr_group_rank(group, r) == global)
            return (int32_t)r;
    return -1;
}

/* "Rank" is the peer, the root, or for other collectives just this rank. */
static void set_peer_and_root(const kineto *k, kineto_comm *c)
{
    const int32_t rank = c->rank >= 0 && c->rank < INT32_MAX ? (int32_t)c->rank : -1;
    switch ((orr_collective)c->comm.collective) {
    case ORR_COLL_SEND:
    case ORR_COLL_RECV:
        c->comm.peer = rank;
        if (rank < 0 && c->global_peer >= 0 && c->comm.group != ORR_NONE)
            c->comm.peer = rank_in_group(&k->builder->groups.at[c->comm.group], c->global_peer);
        break;
    case ORR_COLL_BROADCAST:
    case ORR_COLL_REDUCE:
    case ORR_COLL_GATHER:
    case ORR_COLL_SCATTER:
        c->comm.root = rank;
        break;
    default:
        break;
    }
}

static orr_status resolve(kineto *k, kineto_comm *c, orr_error *err)
{
    ask_operators_above(k, c);
    infer_group_size(c);
    ORR_TRY(find_group(k, c, err));
    if (c->comm.group != ORR_NONE && c->comm.group_size < 0) {
        const uint32_t size = k->builder->groups.at[c->comm.group].size;
        c->comm.group_size = size > 0 && size < INT32_MAX ? (int32_t)size : -1;
    }
    orr_comm_set_bytes(&c->comm, c->in_bytes, c->out_bytes);
    set_peer_and_root(k, c);
    k->builder->kind[c->node] = c->comm.collective == ORR_COLL_SEND   ? ORR_NODE_SEND
                                : c->comm.collective == ORR_COLL_RECV ? ORR_NODE_RECV
                                                                      : ORR_NODE_COLLECTIVE;
    return orr_builder_comm(k->builder, c->node, &c->comm, err);
}

orr_status kineto_resolve_comms(kineto *k, orr_error *err)
{
    ORR_TRY(kineto_tie_host_comms(k, err));
    k->only_group = k->builder->groups.n == 1;
    for (size_t i = 0; i < k->comms.n; i++)
        if (k->comms.at[i].executes)
            ORR_TRY(resolve(k, &k->comms.at[i], err));
    return ORR_OK;
}
