/* SPDX-License-Identifier: Apache-2.0 */
#include "op/tape/tape.h"

#include <string.h>

#include "op/rules.h"

/* Recording calls. Invariants: each value is assigned once; `view_of` always names a root, never
 * another view; arrays grow in the arena, and a failed call leaves the tape as it was. */

enum { FIRST_ROOM = 64 };

void orr_tape_init(orr_tape *tape, orr_arena *arena)
{
    *tape = (orr_tape){.arena = arena, .pass = ORR_PASS_FORWARD};
}

/* Ensures room for `more` elements after `n`, doubling the array if needed. */
static orr_status grow(orr_arena *arena, void **at, uint32_t n, uint32_t *room, uint32_t more,
                       size_t element_bytes, orr_error *err)
{
    if (*room - n >= more)
        return ORR_OK;
    uint64_t want = *room > 0 ? 2 * (uint64_t)*room : FIRST_ROOM;
    if (want < (uint64_t)n + more)
        want = (uint64_t)n + more;
    if (want >= ORR_NONE)
        return orr_fail(err, ORR_NO_MEMORY, "a tape of more than %u entries", ORR_NONE - 1);
    void *fresh = orr_arena_alloc(arena, want, element_bytes, _Alignof(max_align_t));
    if (fresh == NULL)
        return orr_fail_memory(err);
    if (n > 0)
        memcpy(fresh, *at, n * element_bytes);
    *at = fresh;
    *room = (uint32_t)want;
    return ORR_OK;
}

orr_status orr_tape_reserve(orr_tape *tape, uint32_t values, uint32_t calls, orr_error *err)
{
    ORR_TRY(grow(tape->arena, (void **)&tape->values, tape->n_values, &tape->room_values, values,
                 sizeof *tape->values, err));
    return grow(tape->arena, (void **)&tape->calls, tape->n_calls, &tape->room_calls, calls,
                sizeof *tape->calls, err);
}

/* Rejects sizes that would overflow later. */
static orr_status check_type(const orr_type *type, const char *name, orr_error *err)
{
    if (type->rank <= ORR_TYPE_DIMS && type->dtype < ORR_DTYPES && orr_type_bytes(type) >= 0)
        return ORR_OK;
    char text[ORR_TYPE_TEXT];
    return orr_fail(err, ORR_INVALID, "%s: no tensor has the dims %s", name,
                    orr_type_text(type, text));
}

orr_status orr_tape_value_new(orr_tape *tape, orr_value_role role, const orr_type *type,
                              const char *name, orr_value *ret, orr_error *err)
{
    ORR_TRY(check_type(type, name != NULL ? name : "", err));
    ORR_TRY(orr_tape_reserve(tape, 1, 0, err));
    *ret = tape->n_values;
    tape->values[tape->n_values++] = (orr_tape_value){.type = *type,
                                                      .role = (uint8_t)role,
                                                      .made_by = ORR_NONE,
                                                      .of = ORR_NONE,
                                                      .view_of = ORR_NONE,
                                                      .name = name != NULL ? name : ""};
    return ORR_OK;
}

/* A forward value that is read after the forward pass is marked as saved. */
static void mark_read(orr_tape *tape, const orr_tape_call *call)
{
    if (call->pass == ORR_PASS_FORWARD || call->pass == ORR_PASS_OPTIMIZER)
        return;
    for (uint32_t k = 0; k < call->n_in; k++) {
        const orr_value root = orr_tape_root(tape, call->in[k]);
        orr_tape_value *value = &tape->values[root];
        if (value->made_by == ORR_NONE ? value->role != ORR_VALUE_GRADIENT
                                       : orr_tape_is_forward(tape, root))
            value->kept = true;
    }
}

void orr_tape_mark_saved(orr_tape *tape)
{
    for (uint32_t v = 0; v < tape->n_values; v++)
        tape->values[v].kept = false;
    for (uint32_t c = 0; c < tape->n_calls; c++)
        mark_read(tape, &tape->calls[c]);
}

void orr_tape_link_outputs(orr_tape *tape, uint32_t index)
{
    const orr_tape_call *call = &tape->calls[index];
    const orr_value root =
        orr_op_of((orr_op)call->op)->shares ? orr_tape_root(tape, call->in[0]) : ORR_NONE;
    for (uint32_t k = 0; k < call->n_out; k++) {
        tape->values[call->out[k]].made_by = index;
        tape->values[call->out[k]].view_of = root;
    }
}

void orr_tape_commit_call(orr_tape *tape)
{
    const uint32_t index = tape->n_calls++;
    orr_tape_link_outputs(tape, index);
    mark_read(tape, &tape->calls[index]);
}

static orr_value_role role_in(orr_pass pass)
{
    switch (pass) {
    case ORR_PASS_INPUT:
    case ORR_PASS_WEIGHT:
        return ORR_VALUE_GRADIENT;
    case ORR_PASS_OPTIMIZER:
        return ORR_VALUE_STATE;
    default:
        return ORR_VALUE_ACTIVATION;
    }
}

/* Infers output types by the row; trailing outputs may be absent. */
static orr_status infer(const orr_tape *tape, const orr_op_row *row, orr_tape_call *call,
                        orr_type types[ORR_CALL_OUT], orr_error *err)
{
    orr_type in[ORR_CALL_IN];
    for (uint32_t k = 0; k < call->n_in; k++)
        in[k] = tape->values[call->in[k]].type;
    const orr_op_signature sig = {
        .op = call->op, .args = &call->args, .n_in = call->n_in, .in = in};
    ORR_TRY(row->shape(&sig, types, err));
    for (call->n_out = row->n_out; call->n_out > 0; call->n_out--)
        if (types[call->n_out - 1].dtype < ORR_DTYPES)
            break;
    for (uint32_t k = 0; k < call->n_out; k++)
        ORR_TRY(check_type(&types[k], row->name, err));
    return ORR_OK;
}

static orr_status check_inputs(const orr_tape *tape, const orr_op_row *row, const orr_value *in,
                               uint32_t n_in, orr_error *err)
{
    if (n_in < row->min_in || n_in > row->max_in)
        return orr_fail(err, ORR_INVALID, "%s takes %u to %u inputs, not %u", row->name,
                        row->min_in, row->max_in, n_in);
    for (uint32_t k = 0; k < n_in; k++)
        if (in[k] >= tape->n_values)
            return orr_fail(err, ORR_INVALID, "%s: input %u is no value of the tape", row->name, k);
    return ORR_OK;
}

static void put_outputs(orr_tape *tape, orr_tape_call *call, const orr_type *types)
{
    for (uint32_t k = 0; k < call->n_out; k++) {
        orr_tape_value *value = &tape->values[tape->n_values];
        call->out[k] = tape->n_values++;
        value->type = types[k];
        value->role = (uint8_t)role_in(call->pass);
        value->frozen = value->kept = false;
        value->of = ORR_NONE;
        value->name = "";
        value->tag = 0;
    }
}

static orr_status copy_shape(orr_tape *tape, orr_op_args *args, orr_error *err)
{
    if (args->shape == NULL)
        return ORR_OK;
    orr_type *shape = orr_arena_one(tape->arena, orr_type);
    if (shape == NULL)
        return orr_fail_memory(err);
    *shape = *args->shape;
    args->shape = shape;
    return ORR_OK;
}

orr_status orr_tape_call_op(orr_tape *tape, orr_op op, const orr_op_args *args, const orr_value *in,
                            uint32_t n_in, const char *name, orr_value *ret_out, orr_error *err)
{
    const orr_op_row *row = orr_op_of(op);
    ORR_TRY(check_inputs(tape, row, in, n_in, err));
    ORR_TRY(orr_tape_reserve(tape, row->n_out, 1, err));
    orr_tape_call *call = &tape->calls[tape->n_calls];
    memset(call, 0, sizeof *call);
    call->op = (uint8_t)op;
    call->pass = tape->pass;
    call->n_in = (uint8_t)n_in;
    call->name = name != NULL ? name : "";
    if (args != NULL)
        call->args = *args;
    for (uint32_t k = 0; k < n_in; k++)
        call->in[k] = in[k];
    orr_type types[ORR_CALL_OUT];
    ORR_TRY(infer(tape, row, call, types, err));
    ORR_TRY(copy_shape(tape, &call->args, err));
    put_outputs(tape, call, types);
    for (uint32_t k = 0; k < row->n_out; k++)
        ret_out[k] = k < call->n_out ? call->out[k] : ORR_NONE;
    orr_tape_commit_call(tape);
    return ORR_OK;
}

bool orr_tape_is_saved(const orr_tape *tape, orr_value value)
{
    return tape->values[value].kept;
}

orr_op_signature orr_tape_signature(const orr_tape *tape, uint32_t call,
                                    orr_op_signature_types *room)
{
    const orr_tape_call *at = &tape->calls[call];
    for (uint32_t k = 0; k < at->n_in; k++)
        room->in[k] = tape->values[at->in[k]].type;
    for (uint32_t k = 0; k < at->n_out; k++)
        room->out[k] = tape->values[at->out[k]].type;
    return (orr_op_signature){.op = at->op,
                              .args = &at->args,
                              .n_in = at->n_in,
                              .n_out = at->n_out,
                              .in = room->in,
                              .out = room->out};
}

void orr_tape_work(const orr_tape *tape, uint32_t call, orr_op_work *ret)
{
    orr_op_signature_types room;
    const orr_op_signature sig = orr_tape_signature(tape, call, &room);
    const orr_op_row *row = orr_op_of(sig.op);
    *ret = (orr_op_work){.dtype = sig.n_in > 0 ? sig.in[0].dtype : ORR_DTYPE_FP32};
    if (row->work != NULL)
        row->work(&sig, ret);
}
