/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "graph/builder.h"
#include "trace/comm/hint.h"
#include "trace/comm/names.h"
#include "trace/common/json_slice.h"
#include "trace/pytorch/reader.h"

/* A node `record_param_comms` has these inputs, in every generation of the format:
 *   [tensors,] seq, group, rank, "collective", in splits, out splits[, more]
 * Tensors are missing where none take part (wait, barrier). seq is a number, later
 * [seq, is point to point]. The group is a number that says nothing across processes (until
 * 1.0.2), later [name, description]. `rank` is the root or the peer in the group where
 * the collective has one, else this rank itself. `more` is the group's size, or its
 * start, stride and size. From 1.1.0 on attributes say the same and more. */
typedef struct arguments {
    orr_text seq, group, rank, collective, in_splits, out_splits;
    int64_t more[3];
    int n_more;
} arguments;

static bool next_argument(orr_json_slice *values, orr_json_slice *types, orr_text *value,
                          orr_text *type)
{
    if (!orr_json_slice_next(values, value) || !orr_json_slice_next(types, type))
        return false;
    *type = orr_json_unquote(*type);
    return true;
}

static bool begins(orr_text text, const char *prefix)
{
    const size_t n = strlen(prefix);
    return text.n >= n && memcmp(text.at, prefix, n) == 0;
}

static bool read_arguments(const orr_et_io *in, arguments *ret)
{
    orr_json_slice values = orr_json_slice_of(in->text[ORR_ET_VALUES]);
    orr_json_slice types = orr_json_slice_of(in->text[ORR_ET_TYPES]);
    orr_text type;
    *ret = (arguments){.n_more = 0};
    if (!next_argument(&values, &types, &ret->seq, &type))
        return false;
    if ((begins(type, "Tensor(") || begins(type, "GenericList[")) &&
        !next_argument(&values, &types, &ret->seq, &type))
        return false;
    if (!next_argument(&values, &types, &ret->group, &type) ||
        !next_argument(&values, &types, &ret->rank, &type) ||
        !next_argument(&values, &types, &ret->collective, &type) || !begins(type, "String"))
        return false;
    ret->collective = orr_json_unquote(ret->collective);
    if (!next_argument(&values, &types, &ret->in_splits, &type) ||
        !next_argument(&values, &types, &ret->out_splits, &type))
        return true;
    orr_text value;
    while (ret->n_more < 3 && next_argument(&values, &types, &value, &type) &&
           orr_text_int64(value, &ret->more[ret->n_more]))
        ret->n_more++;
    return true;
}

/* A number, or the first of a list. */
static int64_t number_or(orr_text text, int64_t otherwise)
{
    orr_json_slice slice = orr_json_slice_of(text);
    orr_text first;
    int64_t value;
    if (orr_json_slice_next(&slice, &first))
        text = first;
    return orr_text_int64(text, &value) ? value : otherwise;
}

static int32_t small_or_none(int64_t value)
{
    return value >= 0 && value <= INT32_MAX ? (int32_t)value : -1;
}

/* Size, start and stride of the group, from the attributes, else from the arguments. */
static orr_group describe_group(const orr_et_node *node, const arguments *args)
{
    int64_t size = node->group_size, start = node->group_start, stride = node->group_stride;
    if (size < 0 && args->n_more > 0)
        size = args->more[args->n_more - 1];
    if (start < 0 && args->n_more == 3) {
        start = args->more[0];
        stride = args->more[1];
    }
    orr_group group = {.name = node->pg_name, .desc = node->pg_desc, .start = -1, .stride = 1};
    group.size = size > 0 && size <= INT32_MAX ? (uint32_t)size : 0;
    if (start >= 0 && start <= INT32_MAX && stride > 0 && stride <= INT32_MAX) {
        group.start = (int32_t)start;
        group.stride = (int32_t)stride;
    }
    return group;
}

static orr_status find_group(orr_et_reader *r, const arguments *args, orr_comm *comm,
                             orr_error *err)
{
    orr_group group = describe_group(&r->node, args);
    orr_json_slice names = orr_json_slice_of(args->group);
    orr_text name, desc;
    if (group.name == 0 && orr_json_slice_next(&names, &name)) {
        name = orr_json_unquote(name);
        ORR_TRY(orr_builder_str(r->builder, name.at, name.n, &group.name, err));
        if (orr_json_slice_next(&names, &desc)) {
            desc = orr_json_unquote(desc);
            ORR_TRY(orr_builder_str(r->builder, desc.at, desc.n, &group.desc, err));
        }
    }
    if (group.name != 0) {
        ORR_TRY(orr_process_groups_named(&r->groups, r->builder, &group, &comm->group, err));
    } else {
        const int64_t backend_id = number_or(args->group, 0);
        comm->group = backend_id == 0
                          ? ORR_NONE
                          : orr_idmap_get(&r->groups.by_backend_id, (uint64_t)backend_id);
    }
    comm->group_size = group.size > 0 ? (int32_t)group.size : -1;
    if (comm->group_size < 0 && comm->group != ORR_NONE)
        comm->group_size = small_or_none(r->builder->groups.at[comm->group].size);
    if (comm->group_size == 0)
        comm->group_size = -1;
    return ORR_OK;
}

static orr_status keep_splits(orr_et_reader *r, orr_text splits, orr_str *ret, orr_comm *comm,
                              orr_error *err)
{
    orr_json_slice slice = orr_json_slice_of(splits);
    orr_text element;
    int32_t n = 0;
    while (orr_json_slice_next(&slice, &element))
        n++;
    if (n == 0)
        return ORR_OK;
    if (comm->group_size < 0 && comm->collective == ORR_COLL_ALL_TO_ALL)
        comm->group_size = n;
    return *ret != 0 ? ORR_OK : orr_builder_str(r->builder, splits.at, splits.n, ret, err);
}

/* -1: there are none, or too many. */
static int64_t bytes_of(const orr_graph_builder *b, const orr_found_tensors *tensors)
{
    int64_t sum = tensors->n > 0 ? 0 : -1, bytes;
    for (size_t i = 0; i < tensors->n; i++) {
        const orr_tensor *t = &b->tensors.at[tensors->at[i]];
        if (__builtin_mul_overflow(t->elements, (int64_t)t->element_bytes, &bytes) || bytes < 0 ||
            __builtin_add_overflow(sum, bytes, &sum))
            return -1;
    }
    return sum;
}

/* The type of its elements: "Float" where the attributes say it, else what stands in the
 * brackets of "Tensor(float)". */
static orr_status set_dtype(orr_et_reader *r, orr_comm *comm, orr_error *err)
{
    const orr_graph_builder *b = r->builder;
    comm->dtype = r->node.dtype;
    if (comm->dtype != 0 || r->in.n + r->out.n == 0)
        return ORR_OK;
    const orr_tensor_id first = r->in.n > 0 ? r->in.at[0] : r->out.at[0];
    const char *text = orr_builder_text(b, b->tensors.at[first].dtype);
    char copy[64];
    const size_t n = strlen(text);
    if (n <= 8 || n >= sizeof copy)
        return ORR_OK;
    memcpy(copy, text + 7, n - 8);
    return orr_builder_str(r->builder, copy, n - 8, &comm->dtype, err);
}

/* Bytes by what the attributes count, else by the tensors that the node has. */
static void set_bytes(const orr_et_reader *r, orr_comm *comm)
{
    const orr_graph_builder *b = r->builder;
    const orr_et_node *node = &r->node;
    const uint32_t element_bytes = orr_element_bytes(orr_builder_text(b, node->dtype),
                                                     orr_strtab_len(b->strings, node->dtype));
    int64_t in, out;
    if (element_bytes > 0 && node->in_elements >= 0 && node->out_elements >= 0 &&
        !__builtin_mul_overflow(node->in_elements, (int64_t)element_bytes, &in) &&
        !__builtin_mul_overflow(node->out_elements, (int64_t)element_bytes, &out))
        orr_comm_set_bytes(comm, in, out);
    else
        orr_comm_set_bytes(comm, bytes_of(b, &r->in), bytes_of(b, &r->out));
}

/* Where a collective has neither root nor peer, `rank` is this rank in the group. */
static void learn_rank(orr_et_reader *r, const orr_comm *comm, int64_t rank)
{
    const orr_group *group = comm->group == ORR_NONE ? NULL : &r->builder->groups.at[comm->group];
    if (rank < 0 || (group == NULL && r->groups.by_name.n > 0))
        return;
    if (group != NULL)
        rank = rank < group->size ? orr_group_rank(group, (uint32_t)rank) : ORR_NONE;
    if (rank == ORR_NONE)
        return;
    r->rank = r->rank == -1 || r->rank == rank ? rank : -2;
}

orr_status orr_et_find_comm(orr_et_reader *r, orr_comm *ret, bool *ret_is, orr_error *err)
{
    arguments args;
    *ret_is = false;
    if (!read_arguments(&r->node.in, &args))
        return ORR_OK;
    const orr_comm_hint hint = orr_comm_of_collective(args.collective.at, args.collective.n);
    if (!hint.communicates)
        return ORR_OK;
    *ret = (orr_comm){.collective = hint.collective,
                      .vector = hint.vector,
                      .peer = -1,
                      .root = -1,
                      .tag = -1,
                      .group = ORR_NONE,
                      .group_size = -1,
                      .seq = number_or(args.seq, -1),
                      .in_splits = r->node.in_splits,
                      .out_splits = r->node.out_splits};
    ORR_TRY(find_group(r, &args, ret, err));
    ORR_TRY(keep_splits(r, args.in_splits, &ret->in_splits, ret, err));
    ORR_TRY(keep_splits(r, args.out_splits, &ret->out_splits, ret, err));
    ORR_TRY(set_dtype(r, ret, err));
    set_bytes(r, ret);
    const int64_t rank = number_or(args.rank, -1);
    switch ((orr_collective)ret->collective) {
    case ORR_COLL_SEND:
    case ORR_COLL_RECV:
        ret->peer = small_or_none(rank);
        break;
    case ORR_COLL_BROADCAST:
    case ORR_COLL_REDUCE:
    case ORR_COLL_GATHER:
    case ORR_COLL_SCATTER:
        ret->root = small_or_none(rank);
        break;
    default:
        learn_rank(r, ret, rank);
    }
    *ret_is = true;
    return ORR_OK;
}
