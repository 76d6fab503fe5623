/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* Collectives among `members` ranks of the axis `axis`. Shapes are one rank's; all have the same.
 *
 * - ALL_REDUCE: sums; x (...), y (...).
 * - ALL_GATHER: x (..., N, ...), y (..., N members, ...) along `dim`.
 * - REDUCE_SCATTER: sums; x (..., N, ...), y (..., N / members, ...) along `dim`.
 * - ALL_TO_ALL: `dim` is cut into a part for each member, parts from all are joined along `to_dim`:
 *   x (..., N, ..., P, ...), y (..., N / members, ..., P members, ...); the same dim twice
 * exchanges parts.
 * - BROADCAST: from the first member. BARRIER: no tensors.
 * - REPLICATE: x goes as it is into what each member does with a part of the weights; shares bytes.
 * - SHARD: the member's own part of x along `dim`, copied so that the whole need not stay.
 * - SEND and RECV: a neighbour gets x, the rank gets y. They stand in pairs on the tapes of two
 *   ranks: y of a SEND and x of a RECV lie on the other one. A SEND with both and count > 0 is a
 *   turn of a ring: x goes to member `begin`, and y comes from member count - 1, on the same rank.
 *   One with x or y alone says member + 1: in begin where x goes, in count where y comes from.
 *
 * Gradients (Megatron-LM, arXiv 1909.08053 section 3 and 2205.05198 section 4.2): y is on every
 * rank, and what flows into it there differs unless all compute the same with it. After an
 * ALL_REDUCE they do: its gradient is passed on; after REPLICATE they do not: an all-reduce.
 * ALL_GATHER and REDUCE_SCATTER are each other's, SHARD has the ALL_GATHER, ALL_TO_ALL itself with
 * the dims exchanged, SEND and RECV each other. */

static orr_status check_members(const orr_op_signature *sig, orr_error *err)
{
    if (sig->args->members < 1)
        return orr_op_shape_error(sig, err, "a group of no members");
    return ORR_OK;
}

static orr_status same_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(check_members(sig, err));
    return orr_op_shape_same(sig, ret_out, err);
}

static orr_status grow(const orr_op_signature *sig, int32_t dim, orr_type *type, orr_error *err)
{
    ORR_TRY(orr_op_check_dim(sig, dim, err));
    if (__builtin_mul_overflow(type->dim[dim], sig->args->members, &type->dim[dim]))
        return orr_op_shape_error(sig, err, "the gathered dim does not fit 63 bits");
    return ORR_OK;
}

static orr_status cut(const orr_op_signature *sig, int32_t dim, orr_type *type, orr_error *err)
{
    ORR_TRY(orr_op_check_dim(sig, dim, err));
    if (type->dim[dim] % sig->args->members != 0)
        return orr_op_shape_error(sig, err, "%lld does not divide among %u members",
                                  (long long)type->dim[dim], sig->args->members);
    type->dim[dim] /= sig->args->members;
    return ORR_OK;
}

static orr_status gather_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    orr_type y = sig->in[0];
    ORR_TRY(check_members(sig, err));
    ORR_TRY(grow(sig, sig->args->dim, &y, err));
    ret_out[0] = y;
    return ORR_OK;
}

static orr_status scatter_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    orr_type y = sig->in[0];
    ORR_TRY(check_members(sig, err));
    ORR_TRY(cut(sig, sig->args->dim, &y, err));
    ret_out[0] = y;
    return ORR_OK;
}

static orr_status exchange_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    orr_type y = sig->in[0];
    ORR_TRY(check_members(sig, err));
    ORR_TRY(cut(sig, sig->args->dim, &y, err));
    ORR_TRY(grow(sig, sig->args->to_dim, &y, err));
    ret_out[0] = y;
    return ORR_OK;
}

static orr_status no_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    (void)ret_out;
    return check_members(sig, err);
}

/* Traffic in this rank's memory only; the network is modelled elsewhere. */
static void move_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 0, ret);
}

/* Only the slice is read. */
static void shard_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 0, ret);
    ret->read_bytes = ret->write_bytes;
}

static orr_status record(orr_gradient *g, orr_op op, orr_error *err)
{
    return orr_gradient_call(g, op, g->args, &g->grad_out[0], 1, &g->ret_in[0], err);
}

#define GRADIENT(name, op)                                                                         \
    static orr_status name(orr_gradient *g, orr_error *err)                                        \
    {                                                                                              \
        return record(g, op, err);                                                                 \
    }
GRADIENT(by_all_reduce, ORR_OP_ALL_REDUCE)
GRADIENT(by_all_gather, ORR_OP_ALL_GATHER)
GRADIENT(by_reduce_scatter, ORR_OP_REDUCE_SCATTER)
GRADIENT(by_send, ORR_OP_SEND)
GRADIENT(by_recv, ORR_OP_RECV)

static orr_status by_exchange(orr_gradient *g, orr_error *err)
{
    orr_op_args args = *g->args;
    args.dim = g->args->to_dim;
    args.to_dim = g->args->dim;
    return orr_gradient_call(g, ORR_OP_ALL_TO_ALL, &args, &g->grad_out[0], 1, &g->ret_in[0], err);
}

const orr_op_row orr_row_ALL_REDUCE = {
    ORR_ROW(ALL_REDUCE, "all_reduce", COLLECTIVE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("c10d::allreduce_", "nccl:all_reduce", "_c10d_functional::all_reduce"),
    .chakra = "COMM_COLL_NODE ALL_REDUCE",
    .shape = same_shape,
    .work = move_work,
    .gradient = orr_gradient_identity,
};

const orr_op_row orr_row_ALL_GATHER = {
    ORR_ROW(ALL_GATHER, "all_gather", COLLECTIVE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (..., N, ...)",
    .gives = "y (..., N members, ...)",
    .pytorch = ORR_NAMES("c10d::_allgather_base_", "c10d::allgather_", "nccl:all_gather",
                         "nccl:_all_gather_base", "_c10d_functional::all_gather_into_tensor"),
    .chakra = "COMM_COLL_NODE ALL_GATHER",
    .shape = gather_shape,
    .work = move_work,
    .gradient = by_reduce_scatter,
};

const orr_op_row orr_row_REDUCE_SCATTER = {
    ORR_ROW(REDUCE_SCATTER, "reduce_scatter", COLLECTIVE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (..., N, ...)",
    .gives = "y (..., N / members, ...)",
    .pytorch =
        ORR_NAMES("c10d::_reduce_scatter_base_", "c10d::reduce_scatter_", "nccl:reduce_scatter",
                  "nccl:_reduce_scatter_base", "_c10d_functional::reduce_scatter_tensor"),
    .chakra = "COMM_COLL_NODE REDUCE_SCATTER",
    .shape = scatter_shape,
    .work = move_work,
    .gradient = by_all_gather,
};

const orr_op_row orr_row_ALL_TO_ALL = {
    ORR_ROW(ALL_TO_ALL, "all_to_all", COLLECTIVE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (..., N, ..., P, ...)",
    .gives = "y (..., N / members, ..., P members, ...)",
    .pytorch = ORR_NAMES("c10d::alltoall_base_", "c10d::alltoall_", "nccl:all_to_all",
                         "nccl:all_to_allv", "_c10d_functional::all_to_all_single"),
    .chakra = "COMM_COLL_NODE ALL_TO_ALL",
    .shape = exchange_shape,
    .work = move_work,
    .gradient = by_exchange,
};

const orr_op_row orr_row_BROADCAST = {
    ORR_ROW(BROADCAST, "broadcast", COLLECTIVE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("c10d::broadcast_", "nccl:broadcast", "_c10d_functional::broadcast"),
    .chakra = "COMM_COLL_NODE BROADCAST",
    .shape = same_shape,
    .work = move_work,
    .gradient = by_all_reduce,
};

const orr_op_row orr_row_REPLICATE = {
    ORR_ROW(REPLICATE, "replicate", COLLECTIVE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .shares = true,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("_CopyToModelParallelRegion", "_CopyToModelParallelRegionBackward"),
    .chakra = "",
    .shape = same_shape,
    .gradient = by_all_reduce,
};

const orr_op_row orr_row_SHARD = {
    ORR_ROW(SHARD, "shard", COLLECTIVE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (..., N, ...)",
    .gives = "y (..., N / members, ...)",
    .pytorch = ORR_NAMES("_ScatterToSequenceParallelRegion", "_ScatterToModelParallelRegion"),
    .chakra = "",
    .shape = scatter_shape,
    .work = shard_work,
    .gradient = by_all_gather,
};

const orr_op_row orr_row_SEND = {
    ORR_ROW(SEND, "send", COLLECTIVE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("c10d::send", "nccl:send"),
    .chakra = "COMM_SEND_NODE",
    .shape = same_shape,
    .work = move_work,
    .gradient = by_recv,
};

const orr_op_row orr_row_RECV = {
    ORR_ROW(RECV, "recv", COLLECTIVE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("c10d::recv_", "nccl:recv"),
    .chakra = "COMM_RECV_NODE",
    .shape = same_shape,
    .work = move_work,
    .gradient = by_send,
};

const orr_op_row orr_row_BARRIER = {
    ORR_ROW(BARRIER, "barrier", COLLECTIVE),
    .min_in = 0,
    .max_in = 0,
    .n_out = 0,
    .takes = "",
    .gives = "",
    .pytorch = ORR_NAMES("c10d::barrier", "nccl:barrier"),
    .chakra = "COMM_COLL_NODE BARRIER",
    .shape = no_shape,
};

orr_collective orr_op_collective(orr_op op)
{
    switch (op) {
    case ORR_OP_ALL_REDUCE:
        return ORR_COLL_ALL_REDUCE;
    case ORR_OP_ALL_GATHER:
        return ORR_COLL_ALL_GATHER;
    case ORR_OP_REDUCE_SCATTER:
        return ORR_COLL_REDUCE_SCATTER;
    case ORR_OP_ALL_TO_ALL:
        return ORR_COLL_ALL_TO_ALL;
    case ORR_OP_BROADCAST:
        return ORR_COLL_BROADCAST;
    case ORR_OP_BARRIER:
        return ORR_COLL_BARRIER;
    case ORR_OP_SEND:
        return ORR_COLL_SEND;
    case ORR_OP_RECV:
        return ORR_COLL_RECV;
    default:
        return ORR_COLL_UNKNOWN;
    }
}
