/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/run/program_state.h"
#include "op/tape/live_ranges.h"
#include "op/tape/tape.h"

/* Resolves views: outputs that share the bytes of an input wherever strides can express it. A slice
 * that the backward pass reads while nothing else of the whole stays alive gets bytes of its own,
 * since it would keep all of the whole; memory estimates decide this by the same function. */

/* Strides of the view `to` of a tensor `from` with these strides; false: strides cannot express it.
 * Contiguous runs of dims are merged, then divided into the dims of the view, from the innermost
 * (cf. PyTorch's computeStride). */
static bool view_strides(const orr_type *from, const int64_t *stride, const orr_type *to,
                         int64_t *ret)
{
    int64_t room = 1, step = 1;
    int d = from->rank - 1;
    if (orr_type_elements(to) == 0) {
        orr_operand_contiguous(to, ret);
        return true;
    }
    for (int j = to->rank - 1; j >= 0; j--) {
        while (room == 1 && to->dim[j] > 1 && d >= 0) {
            room = from->dim[d];
            step = room > 1 ? stride[d] : step;
            for (d--; d >= 0 && (from->dim[d] == 1 || stride[d] == step * room); d--)
                room *= from->dim[d];
        }
        if (room % to->dim[j] != 0)
            return false;
        ret[j] = step;
        step *= to->dim[j];
        room /= to->dim[j];
    }
    return true;
}

static bool is_bound(const orr_program *p, orr_value v)
{
    return !orr_binding_is_own(&p->bindings[v]) || p->bindings[v].kept;
}

static orr_value_location own_place(const orr_tape *tape, orr_value v)
{
    orr_value_location place = {.root = v};
    orr_operand_contiguous(&tape->values[v].type, place.stride);
    return place;
}

/* Whether the output is bound to the very bytes that the view would have. */
static bool is_there(const orr_program *p, orr_value v, const orr_value_location *view)
{
    const char *data = p->bindings[view->root].data;
    return data != NULL && p->bindings[v].data == data + view->offset_bytes;
}

static bool move_on(const orr_tape *tape, orr_value v, int32_t dim, int64_t begin,
                    orr_value_location *view)
{
    const int64_t bits = begin * view->stride[dim] * orr_element_bits(tape->values[v].type.dtype);
    view->offset_bytes += bits / 8;
    return bits % 8 == 0;
}

/* The location of output `k` as a view of the input; false: strides cannot express it. */
static bool view_of(const orr_program *p, const orr_tape_call *call, uint32_t k,
                    orr_value_location *view)
{
    const orr_tape *tape = p->tape;
    const orr_value from = call->in[0], to = call->out[k];
    const orr_op_args *args = &call->args;
    int64_t begin = 0;
    *view = p->places[from];
    switch (call->op) {
    case ORR_OP_VIEW:
        return view_strides(&tape->values[from].type, p->places[from].stride,
                            &tape->values[to].type, view->stride);
    case ORR_OP_SLICE:
        return move_on(tape, from, args->dim, args->begin, view);
    case ORR_OP_SPLIT:
        for (uint32_t i = 0; i < k; i++)
            begin += args->shape->dim[i];
        return move_on(tape, from, args->dim, begin, view);
    default:
        return true; /* the same dims */
    }
}

/* With one member a collective's output is its input. */
static bool shares(const orr_program *p, const orr_tape_call *call)
{
    if (call->n_in == 0 || call->n_out == 0)
        return false;
    if (orr_op_of((orr_op)call->op)->shares)
        return true;
    const orr_communicator *c =
        orr_op_is_collective(call->op) ? p->communicators[call->args.axis] : NULL;
    return orr_op_is_collective(call->op) && (c == NULL || c->n == 1);
}

static bool same_dims(const orr_type *a, const orr_type *b)
{
    return a->rank == b->rank && a->dtype == b->dtype &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

static orr_status place_view(orr_program *p, uint32_t index, uint32_t k, const bool *apart,
                             orr_error *err)
{
    const orr_tape *tape = p->tape;
    const orr_tape_call *call = &tape->calls[index];
    const orr_value v = call->out[k];
    const char *name = orr_program_label(p, index);
    orr_value_location view;
    const bool told = view_of(p, call, k, &view);
    const bool of_rows = p->bindings[view.root].rows != NULL;
    if (of_rows && !(told && same_dims(&tape->values[v].type, &tape->values[view.root].type)))
        return orr_fail(err, ORR_UNSUPPORTED, "%s: a view of weights that are kept as rows", name);
    const bool in_place = !is_bound(p, v) || is_there(p, v, &view);
    if (call->op == ORR_OP_CACHE && !in_place)
        return orr_fail(err, ORR_INVALID, "%s: the cache that is given back is bound elsewhere",
                        name);
    if (told && in_place && (!apart[v] || of_rows)) {
        p->places[v] = view;
        return ORR_OK;
    }
    if (orr_element_bits(tape->values[v].type.dtype) % 8 != 0)
        return orr_fail(err, ORR_UNSUPPORTED, "%s: a view into the middle of bytes", name);
    p->places[v] = own_place(tape, v);
    return ORR_OK;
}

/* Finds the slices that memory estimates give bytes of their own. */
static orr_status find_copied_slices(const orr_program *p, orr_arena *scratch, bool **ret,
                                     orr_error *err)
{
    const orr_tape *tape = p->tape;
    orr_tape_liveness lives;
    bool *apart = orr_arena_array(scratch, bool, tape->n_values);
    if (apart == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_tape_liveness_of(tape, false, scratch, &lives, err));
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if (call->pass == ORR_PASS_FORWARD || call->pass == ORR_PASS_OPTIMIZER || p->calls[c].skip)
            continue;
        for (uint32_t i = 0; i < call->n_in; i++) {
            const uint32_t row = call->in[i] == ORR_NONE ? ORR_NONE : lives.row_of[call->in[i]];
            const orr_value owner = row == ORR_NONE ? ORR_NONE : lives.lives[row].value;
            if (owner != ORR_NONE && tape->values[owner].view_of != ORR_NONE &&
                tape->calls[tape->values[owner].made_by].op != ORR_OP_CACHE)
                apart[owner] = true;
        }
    }
    *ret = apart;
    return ORR_OK;
}

orr_status orr_program_resolve_views(orr_program *p, orr_error *err)
{
    const orr_tape *tape = p->tape;
    bool *apart = NULL;
    orr_arena *scratch = orr_arena_new(0, 0);
    if (scratch == NULL)
        return orr_fail_memory(err);
    orr_status status = find_copied_slices(p, scratch, &apart, err);
    for (orr_value v = 0; v < tape->n_values; v++)
        p->places[v] = own_place(tape, v);
    for (uint32_t c = 0; c < tape->n_calls && status == ORR_OK; c++)
        for (uint32_t k = 0; k < tape->calls[c].n_out && status == ORR_OK; k++)
            if (shares(p, &tape->calls[c]) && !p->calls[c].skip && p->calls[c].instead == NULL)
                status = place_view(p, c, k, apart, err);
    orr_arena_free(scratch);
    return status;
}
