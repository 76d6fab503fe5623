/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/program_state.h"

/* Collectives on tensors, from those on contiguous numbers (ranks/communicator.h): parts along an
 * inner dim are packed into the workspace before, and unpacked after. op/families/collective.c
 * defines what each collective means. */

typedef struct site {
    orr_communicator *c;
    const orr_tape_call *call;
    const int64_t *parts;
    const orr_operand *in, *out;
    char *workspace;
    orr_workers *workers;
} site;

bool orr_op_is_collective(uint8_t op)
{
    return orr_op_of((orr_op)op)->family == ORR_OP_FAMILY_COLLECTIVE;
}

/* Whether parts along the dim are contiguous. */
static bool is_outermost(const orr_type *type, int32_t dim)
{
    for (int32_t d = 0; d < dim; d++)
        if (type->dim[d] != 1)
            return false;
    return true;
}

static bool is_ready(const orr_operand *operand, int32_t dim)
{
    return orr_operand_is_contiguous(operand) && is_outermost(&operand->type, dim);
}

static size_t bytes_of(const orr_operand *operand)
{
    return ((size_t)orr_type_bytes(&operand->type) + 63) / 64 * 64;
}

size_t orr_collective_workspace(const orr_tape_call *call, const orr_operand *in,
                                const orr_operand *out)
{
    const orr_op_args *args = &call->args;
    switch (call->op) {
    case ORR_OP_ALL_GATHER:
        return (orr_operand_is_contiguous(in) ? 0 : bytes_of(in)) +
               (is_ready(out, args->dim) ? 0 : bytes_of(out));
    case ORR_OP_REDUCE_SCATTER:
        return is_ready(in, args->dim) ? 0 : bytes_of(in);
    case ORR_OP_ALL_TO_ALL:
        return (is_ready(in, args->dim) ? 0 : bytes_of(in)) +
               (is_ready(out, args->to_dim) ? 0 : bytes_of(out));
    case ORR_OP_SEND:
    case ORR_OP_RECV:
        return call->n_in == 0 || orr_operand_is_contiguous(in) ? 0 : bytes_of(in);
    default:
        return 0;
    }
}

/* Takes workspace for a whole operand. */
static char *take(site *s, const orr_operand *operand)
{
    char *at = s->workspace;
    s->workspace += bytes_of(operand);
    return at;
}

/* Packs the parts of `whole` along a dim, one per member, one after another; or unpacks them. */
static void pack(const site *s, const orr_operand *whole, int32_t dim, char *packed, bool unpack)
{
    const int64_t count = whole->type.dim[dim] / s->c->n;
    for (uint32_t q = 0; q < s->c->n; q++) {
        const orr_operand part = orr_operand_slice(whole, dim, q * count, count);
        const int64_t bytes = orr_type_bytes(&part.type);
        const orr_operand other = orr_operand_dense(&part.type, packed + q * bytes);
        orr_strided_copy(unpack ? &part : &other, unpack ? &other : &part, s->workers);
    }
}

/* The input with its parts contiguous, one after another. */
static const void *packed_input(site *s, int32_t dim)
{
    if (is_ready(s->in, dim))
        return s->in->data;
    char *packed = take(s, s->in);
    pack(s, s->in, dim, packed, false);
    return packed;
}

static const void *plain_input(site *s)
{
    if (orr_operand_is_contiguous(s->in))
        return s->in->data;
    const orr_operand plain = orr_operand_dense(&s->in->type, take(s, s->in));
    orr_strided_copy(&plain, s->in, s->workers);
    return plain.data;
}

static orr_status all_reduce(site *s, orr_error *err)
{
    const void *in = s->in->data;
    const int64_t n = orr_type_elements(&s->out->type);
    if (!orr_operand_is_contiguous(s->in)) {
        orr_strided_copy(s->out, s->in, s->workers);
        in = s->out->data;
    }
    return orr_all_reduce(s->c, in, s->out->data, n, (orr_dtype)s->out->type.dtype, err);
}

static orr_status all_gather(site *s, orr_error *err)
{
    const void *in = plain_input(s);
    const bool ready = is_ready(s->out, s->call->args.dim);
    char *out = ready ? s->out->data : take(s, s->out);
    ORR_TRY(orr_all_gather(s->c, in, out, orr_type_elements(&s->in->type),
                           (orr_dtype)s->in->type.dtype, err));
    if (!ready)
        pack(s, s->out, s->call->args.dim, out, true);
    return ORR_OK;
}

static orr_status reduce_scatter(site *s, orr_error *err)
{
    return orr_reduce_scatter(s->c, packed_input(s, s->call->args.dim), s->out->data,
                              orr_type_elements(&s->out->type), (orr_dtype)s->out->type.dtype, err);
}

static orr_status all_to_all(site *s, orr_error *err)
{
    enum { MEMBERS = 1024 };
    int64_t bytes[MEMBERS];
    const void *in = packed_input(s, s->call->args.dim);
    const bool ready = is_ready(s->out, s->call->args.to_dim);
    if (s->parts != NULL)
        return orr_all_to_all(s->c, in, s->parts, s->out->data, s->parts + s->c->n, err);
    char *out = ready ? s->out->data : take(s, s->out);
    if (s->c->n > MEMBERS)
        return orr_fail(err, ORR_LIMIT, "all_to_all among over %d members", MEMBERS);
    for (uint32_t q = 0; q < s->c->n; q++)
        bytes[q] = orr_type_bytes(&s->in->type) / s->c->n;
    ORR_TRY(orr_all_to_all(s->c, in, bytes, out, bytes, err));
    if (!ready)
        pack(s, s->out, s->call->args.to_dim, out, true);
    return ORR_OK;
}

static orr_status broadcast(site *s, orr_error *err)
{
    if (s->c->me == 0)
        orr_strided_copy(s->out, s->in, s->workers);
    return orr_broadcast(s->c, s->out->data, (size_t)orr_type_bytes(&s->out->type), 0, err);
}

void orr_collective_peers(const orr_communicator *c, const orr_tape_call *call, uint32_t *ret_to,
                          uint32_t *ret_from)
{
    const orr_op_args *args = &call->args;
    const uint32_t next = (c->me + 1) % c->n, before = (c->me + c->n - 1) % c->n;
    *ret_to = *ret_from = ORR_NONE;
    if (call->op != ORR_OP_SEND && call->op != ORR_OP_RECV)
        return;
    if (call->n_in == 0 || call->n_out == 0) {
        if (call->n_in > 0)
            *ret_to = (uint32_t)(args->begin - 1);
        if (call->n_out > 0)
            *ret_from = (uint32_t)(args->count - 1);
    } else if (args->count > 0) {
        *ret_to = (uint32_t)args->begin;
        *ret_from = (uint32_t)(args->count - 1);
    } else {
        *ret_to = call->op == ORR_OP_SEND ? next : before;
        *ret_from = call->op == ORR_OP_SEND ? before : next;
    }
}

static orr_status pass_on(site *s, orr_error *err)
{
    uint32_t to, from;
    orr_collective_peers(s->c, s->call, &to, &from);
    const bool gives = to != ORR_NONE, gets = from != ORR_NONE;
    return orr_send_receive(
        s->c, to, gives ? plain_input(s) : NULL, gives ? (size_t)orr_type_bytes(&s->in->type) : 0,
        from, gets ? s->out->data : NULL, gets ? (size_t)orr_type_bytes(&s->out->type) : 0, err);
}

orr_status orr_collective_run(orr_communicator *c, const orr_tape_call *call, const int64_t *parts,
                              const orr_operand *in, const orr_operand *out, void *workspace,
                              orr_workers *workers, orr_error *err)
{
    site s = {c, call, parts, in, out, workspace, workers};
    switch (call->op) {
    case ORR_OP_ALL_REDUCE:
        return all_reduce(&s, err);
    case ORR_OP_ALL_GATHER:
        return all_gather(&s, err);
    case ORR_OP_REDUCE_SCATTER:
        return reduce_scatter(&s, err);
    case ORR_OP_ALL_TO_ALL:
        return all_to_all(&s, err);
    case ORR_OP_BROADCAST:
        return broadcast(&s, err);
    case ORR_OP_BARRIER:
        return orr_barrier(c, err);
    default:
        return pass_on(&s, err);
    }
}
