/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/run/program_state.h"

/* Prepares calls for execution: the action of each (kernel, copy, collective, emulated time,
 * nothing), its operands and its workspace. */

enum { ALIGNMENT = 64 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static orr_communicator *communicator_of(const orr_program *p, const orr_tape_call *call)
{
    return orr_op_is_collective(call->op) ? p->communicators[call->args.axis] : NULL;
}

static bool has_peers(const orr_communicator *c)
{
    return c != NULL && c->n > 1;
}

static orr_status check_peers(const orr_program *p, uint32_t index, orr_error *err)
{
    const orr_tape_call *call = &p->tape->calls[index];
    const orr_communicator *c = communicator_of(p, call);
    uint32_t to, from;
    if (!has_peers(c))
        return ORR_OK;
    orr_collective_peers(c, call, &to, &from);
    if ((to != ORR_NONE && to >= c->n) || (from != ORR_NONE && from >= c->n))
        return orr_fail(err, ORR_INVALID, "%s: a message to or from a member that is none of %u",
                        orr_program_label(p, index), c->n);
    return ORR_OK;
}

static orr_status check_collective(const orr_program *p, uint32_t index, orr_error *err)
{
    const orr_tape_call *call = &p->tape->calls[index];
    const orr_communicator *c = communicator_of(p, call);
    const uint32_t have = c != NULL ? c->n : 1, want = call->args.members;
    if (call->op == ORR_OP_REPLICATE || want == have)
        return check_peers(p, index, err);
    return orr_fail(err, ORR_INVALID, "%s: %s of %u members, but there are %u",
                    orr_program_label(p, index), orr_op_of((orr_op)call->op)->name, want, have);
}

/* Whether an output is bound elsewhere, so that a view must be copied. */
static bool has_copies(const orr_program *p, const orr_tape_call *call)
{
    for (uint32_t k = 0; k < call->n_out; k++)
        if (p->places[call->out[k]].root == call->out[k])
            return true;
    return false;
}

static orr_status choose_action(const orr_program *p, uint32_t index, orr_action_kind *ret,
                                orr_error *err)
{
    const orr_tape_call *call = &p->tape->calls[index];
    const orr_program_call *how = &p->calls[index];
    const orr_op_row *row = orr_op_of((orr_op)call->op);
    *ret = ORR_ACTION_NONE;
    if (how->skip)
        return ORR_OK;
    if (how->instead != NULL) {
        *ret = ORR_ACTION_HOOK;
        return ORR_OK;
    }
    if (how->emulate_ns > 0) {
        *ret = ORR_ACTION_EMULATE;
        return ORR_OK;
    }
    if (orr_op_is_collective(call->op))
        ORR_TRY(check_collective(p, index, err));
    const bool meets = has_peers(communicator_of(p, call));
    if (meets && call->op != ORR_OP_REPLICATE && call->op != ORR_OP_SHARD)
        *ret = p->device && p->backend->entries[call->op].run != NULL ? ORR_ACTION_KERNEL
                                                                      : ORR_ACTION_COLLECTIVE;
    else if (call->op == ORR_OP_CACHE || !(row->shares || orr_op_is_collective(call->op)))
        *ret = ORR_ACTION_KERNEL;
    else if (call->n_in > 0 && has_copies(p, call))
        *ret = ORR_ACTION_COPY;
    if (*ret == ORR_ACTION_COLLECTIVE && p->device)
        return orr_fail(err, ORR_UNSUPPORTED, "%s: the backend %s has no %s",
                        orr_program_label(p, index), p->backend->name, row->name);
    if (call->op == ORR_OP_CACHE &&
        p->tape->values[call->in[0]].type.dtype != p->tape->values[call->in[1]].type.dtype)
        return orr_fail(err, ORR_UNSUPPORTED, "%s: a cache of another dtype is simulated only",
                        orr_program_label(p, index));
    if (*ret == ORR_ACTION_KERNEL && p->backend != NULL &&
        p->backend->entries[call->op].run == NULL)
        return orr_fail(err, ORR_UNSUPPORTED, "%s: the backend %s has no kernel for %s",
                        orr_program_label(p, index), p->backend->name, row->name);
    return ORR_OK;
}

static void put_operand(orr_program *p, orr_value v, const orr_type *type, const int64_t *stride,
                        int64_t offset_bytes)
{
    const orr_value root = p->places[v].root;
    orr_operand *operand = &p->operands[p->n_operands];
    *operand = (orr_operand){.type = *type, .rows = p->bindings[root].rows};
    memcpy(operand->stride, stride, sizeof operand->stride);
    p->operand_of[p->n_operands] = root;
    p->operand_offset[p->n_operands++] = offset_bytes;
}

static void put_value(orr_program *p, orr_value v)
{
    if (v == ORR_NONE) {
        p->operand_of[p->n_operands] = ORR_NONE;
        p->operands[p->n_operands++] = (orr_operand){.type = {.dtype = ORR_DTYPES}};
        return;
    }
    put_operand(p, v, &p->tape->values[v].type, p->places[v].stride, p->places[v].offset_bytes);
}

/* The source that output `k` of a view copies: as many elements, in the same order. */
static void put_source(orr_program *p, const orr_tape_call *call, uint32_t k)
{
    const orr_value from = call->in[0];
    const orr_value_location *place = &p->places[from];
    const orr_op_args *args = &call->args;
    const orr_communicator *c = communicator_of(p, call);
    orr_type type = p->tape->values[from].type;
    int64_t begin = 0;
    int32_t dim = 0;
    if (call->op == ORR_OP_SPLIT || call->op == ORR_OP_SLICE || call->op == ORR_OP_SHARD) {
        dim = args->dim;
        type = p->tape->values[call->out[k]].type;
        begin = call->op == ORR_OP_SLICE                   ? args->begin
                : call->op == ORR_OP_SHARD && has_peers(c) ? c->me * type.dim[dim]
                                                           : 0;
        for (uint32_t i = 0; i < k && call->op == ORR_OP_SPLIT; i++)
            begin += args->shape->dim[i];
    }
    put_operand(p, from, &type, place->stride,
                place->offset_bytes +
                    begin * place->stride[dim] * orr_element_bits(type.dtype) / 8);
}

/* A contiguous destination with the dims of its source. */
static void put_copy(orr_program *p, orr_value v, const orr_type *source)
{
    int64_t stride[ORR_TYPE_DIMS];
    orr_operand_contiguous(source, stride);
    put_operand(p, v, source, stride, p->places[v].offset_bytes);
}

static void put_copies(orr_program *p, const orr_tape_call *call, orr_action *action)
{
    for (uint32_t k = 0; k < call->n_out; k++)
        if (p->places[call->out[k]].root == call->out[k]) {
            put_source(p, call, k);
            action->n_in++;
        }
    const uint32_t first = action->operands;
    for (uint32_t k = 0; k < call->n_out; k++)
        if (p->places[call->out[k]].root == call->out[k])
            put_copy(p, call->out[k], &p->operands[first + action->n_out++].type);
}

static void put_operands(orr_program *p, uint32_t index)
{
    const orr_tape_call *call = &p->tape->calls[index];
    orr_action *action = &p->actions[index];
    action->operands = p->n_operands;
    if (action->kind == ORR_ACTION_NONE && p->calls[index].before == NULL)
        return;
    if (action->kind == ORR_ACTION_COPY) {
        put_copies(p, call, action);
        return;
    }
    /* With only a hook to run, the hook may produce the outputs. */
    action->n_in = action->kind == ORR_ACTION_NONE ? 0 : call->n_in;
    action->n_out = call->n_out;
    for (uint32_t k = 0; k < action->n_in; k++)
        put_value(p, call->in[k]);
    for (uint32_t k = 0; k < action->n_out; k++)
        put_value(p, call->out[k]);
}

static orr_status choose_accumulation(orr_program *p, uint32_t index, orr_error *err)
{
    orr_action *action = &p->actions[index];
    if (!p->calls[index].accumulate || action->n_out == 0 || action->kind == ORR_ACTION_EMULATE)
        return ORR_OK;
    const orr_kernel_entry *entries = p->backend != NULL ? p->backend->entries : NULL;
    const uint8_t op = p->tape->calls[index].op;
    if (action->kind == ORR_ACTION_KERNEL && (entries == NULL || entries[op].accumulates)) {
        action->accumulate = true;
        return ORR_OK;
    }
    if (entries != NULL && entries[ORR_OP_ADD].run == NULL)
        return orr_fail(err, ORR_UNSUPPORTED, "%s: the backend %s has no kernel for add",
                        orr_program_label(p, index), p->backend->name);
    action->staged = true;
    return ORR_OK;
}

static size_t sum_workspace(const orr_program *p, const orr_operand *out, orr_workers *workers)
{
    static const orr_op_args none;
    const orr_operand in[] = {*out, *out};
    const orr_kernel_entry *add = p->backend != NULL ? &p->backend->entries[ORR_OP_ADD] : NULL;
    return add == NULL || add->workspace == NULL
               ? 0
               : add->workspace(&(orr_kernel_call){.op = ORR_OP_ADD,
                                                   .args = &none,
                                                   .n_in = 2,
                                                   .n_out = 1,
                                                   .in = in,
                                                   .out = out,
                                                   .workers = workers});
}

/* Workspace of a call: the kernel's, then its staged output, then what the addition needs. */
static void size_workspace(orr_program *p, uint32_t index)
{
    orr_action *action = &p->actions[index];
    const orr_tape_call *call = &p->tape->calls[index];
    orr_operand *in = &p->operands[action->operands], *out = in + action->n_in;
    orr_workers *workers = action->lane == 0 ? p->workers : NULL;
    const orr_kernel_entry *entry = p->backend != NULL ? &p->backend->entries[call->op] : NULL;
    size_t bytes = 0;
    if (action->kind == ORR_ACTION_KERNEL && entry != NULL && entry->workspace != NULL)
        bytes = entry->workspace(&(orr_kernel_call){.op = call->op,
                                                    .args = &call->args,
                                                    .n_in = action->n_in,
                                                    .n_out = action->n_out,
                                                    .in = in,
                                                    .out = out,
                                                    .accumulate = action->accumulate,
                                                    .workers = workers});
    else if (action->kind == ORR_ACTION_COLLECTIVE)
        bytes = orr_collective_workspace(call, in, out);
    action->workspace_bytes = aligned(bytes);
    if (action->staged)
        bytes = action->workspace_bytes + aligned((size_t)orr_type_bytes(&out[0].type)) +
                sum_workspace(p, &out[0], workers);
    orr_lane_state *lane = p->lanes[action->lane];
    if (aligned(bytes) > lane->workspace_bytes)
        lane->workspace_bytes = aligned(bytes);
}

/* The call whose random numbers this one draws: recomputation and the backward pass of dropout use
 * those of the forward call. */
static uint32_t drawn_by(const orr_tape *tape, uint32_t index)
{
    const orr_tape_call *call = &tape->calls[index];
    uint32_t by = index;
    if (call->op == ORR_OP_ATTENTION_BACKWARD)
        for (uint32_t k = 0; k < call->n_in; k++) {
            const uint32_t made_by =
                call->in[k] == ORR_NONE ? ORR_NONE : tape->values[call->in[k]].made_by;
            if (made_by != ORR_NONE && tape->calls[made_by].op == ORR_OP_ATTENTION)
                by = made_by;
        }
    const orr_value of = tape->calls[by].again && tape->calls[by].n_out > 0
                             ? tape->values[tape->calls[by].out[0]].of
                             : ORR_NONE;
    return of != ORR_NONE && tape->values[of].made_by != ORR_NONE ? tape->values[of].made_by : by;
}

/* Finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): consecutive numbers to well-mixed
 * 64 bits. */
static uint64_t mix64(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void mark_waited(orr_program *p)
{
    for (uint32_t d = 0; d < p->n_deps; d++)
        p->actions[p->deps[d].on].runs = p->actions[p->deps[d].call].runs = true;
}

orr_status orr_program_prepare_calls(orr_program *p, orr_error *err)
{
    const orr_tape *tape = p->tape;
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        orr_action *action = &p->actions[c];
        orr_action_kind kind;
        ORR_TRY(choose_action(p, c, &kind, err));
        *action = (orr_action){.kind = (uint8_t)kind,
                               .lane = p->calls[c].lane,
                               .seed = mix64(drawn_by(tape, c)),
                               .communicator = communicator_of(p, &tape->calls[c])};
        action->runs = kind != ORR_ACTION_NONE || p->calls[c].before != NULL;
        put_operands(p, c);
        ORR_TRY(choose_accumulation(p, c, err));
        size_workspace(p, c);
    }
    mark_waited(p);
    return ORR_OK;
}

void orr_program_resolve_addresses(orr_program *p)
{
    for (uint32_t k = 0; k < p->n_operands; k++) {
        const orr_value root = p->operand_of[k];
        if (root != ORR_NONE && p->operands[k].rows == NULL)
            p->operands[k].data =
                p->base[root] != NULL ? p->base[root] + p->operand_offset[k] : NULL;
    }
}
