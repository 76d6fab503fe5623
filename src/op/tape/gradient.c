/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse-mode differentiation by rewriting the tape: a forward scan marks the values through which
 * a wanted gradient flows; a backward scan asks each call's rule for its backward calls and
 * accumulates gradients; a last scan, from the end, separates calls that lead only to weight
 * gradients (which zero-bubble schedules move: Qi et al., arXiv 2401.10241) from those of inputs.
 * Linear in the number of calls. */
#include "op/rules.h"
#include "op/tape/tape.h"

typedef struct sweep {
    orr_tape *tape;
    uint32_t n_values, n_calls; /* of the tape before differentiation */
    bool *
        needed; /* shape (n_values): a gradient of it, or of something it is made from, is wanted */
    orr_value *grad; /* shape (n_values): accumulated gradient, or ORR_NONE */
} sweep;

static bool is_trainable(const orr_tape_value *value)
{
    return value->role == ORR_VALUE_PARAMETER && !value->frozen;
}

/* Integer values (indices) have no gradients. */
static bool is_number(const orr_tape_value *value)
{
    return value->type.dtype != ORR_DTYPE_INT32 && value->type.dtype != ORR_DTYPE_INT64;
}

static bool is_any(const bool *flags, const orr_value *values, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (flags[values[k]])
            return true;
    return false;
}

static orr_status open_sweep(orr_tape *tape, const orr_value *wanted, uint32_t n_wanted, sweep *ret,
                             orr_error *err)
{
    sweep s = {.tape = tape, .n_values = tape->n_values, .n_calls = tape->n_calls};
    s.needed = orr_arena_array(tape->arena, bool, s.n_values);
    s.grad = orr_arena_array(tape->arena, orr_value, s.n_values);
    if (s.needed == NULL || s.grad == NULL)
        return orr_fail_memory(err);
    for (uint32_t v = 0; v < s.n_values; v++) {
        s.grad[v] = ORR_NONE;
        s.needed[v] = is_trainable(&tape->values[v]);
    }
    for (uint32_t k = 0; k < n_wanted; k++)
        s.needed[wanted[k]] = true;
    for (uint32_t c = 0; c < s.n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if (!is_any(s.needed, call->in, call->n_in))
            continue;
        for (uint32_t k = 0; k < call->n_out; k++)
            s.needed[call->out[k]] |= is_number(&tape->values[call->out[k]]);
    }
    *ret = s;
    return ORR_OK;
}

/* Adds a gradient that flows into the value. */
static orr_status add(sweep *s, orr_value value, orr_value grad, orr_error *err)
{
    orr_value sum = grad;
    if (s->grad[value] != ORR_NONE)
        ORR_TRY(orr_tape_call_op(s->tape, ORR_OP_ADD, NULL,
                                 (const orr_value[]){s->grad[value], grad}, 2,
                                 s->tape->values[value].name, &sum, err));
    if (s->tape->values[sum].of == ORR_NONE)
        s->tape->values[sum].of = value;
    s->grad[value] = sum;
    return ORR_OK;
}

/* Sums all gradients that flow into the value. The result has the value's dtype, or the wider one
 * it was made in if the value is quantized. */
static orr_status finish(sweep *s, orr_value value, orr_error *err)
{
    const orr_dtype dtype = s->tape->values[value].type.dtype;
    const orr_value grad = s->grad[value];
    if (grad == ORR_NONE || orr_dtype_bytes(dtype) <= 1 ||
        s->tape->values[grad].type.dtype == dtype)
        return ORR_OK;
    const orr_op_args args = {.dtype = (uint8_t)dtype};
    ORR_TRY(orr_tape_call_op(s->tape, ORR_OP_CAST, &args, &grad, 1, s->tape->values[value].name,
                             &s->grad[value], err));
    s->tape->values[s->grad[value]].of = value;
    return ORR_OK;
}

static orr_status reverse_call(sweep *s, uint32_t index, orr_error *err)
{
    const orr_tape_call call = s->tape->calls[index]; /* a copy, since the array may move */
    if (!is_any(s->needed, call.in, call.n_in))
        return ORR_OK;
    orr_value grad_out[ORR_CALL_OUT], ret_in[ORR_CALL_IN];
    bool wanted[ORR_CALL_IN], flows = false;
    for (uint32_t k = 0; k < call.n_out; k++) {
        ORR_TRY(finish(s, call.out[k], err));
        grad_out[k] = s->grad[call.out[k]];
        flows |= grad_out[k] != ORR_NONE;
    }
    if (!flows)
        return ORR_OK;
    const orr_op_row *row = orr_op_of(call.op);
    if (row->gradient == NULL)
        return orr_fail(err, ORR_INVALID, "%s has no gradient, and one is asked of what it takes",
                        row->name);
    for (uint32_t k = 0; k < call.n_in; k++) {
        wanted[k] = s->needed[call.in[k]];
        ret_in[k] = ORR_NONE;
    }
    orr_gradient g = {.tape = s->tape,
                      .op = call.op,
                      .args = &call.args,
                      .n_in = call.n_in,
                      .n_out = call.n_out,
                      .in = call.in,
                      .out = call.out,
                      .grad_out = grad_out,
                      .wanted = wanted,
                      .ret_in = ret_in,
                      .name = call.name};
    ORR_TRY(row->gradient(&g, err));
    for (uint32_t k = 0; k < call.n_in; k++)
        if (wanted[k] && ret_in[k] != ORR_NONE)
            ORR_TRY(add(s, call.in[k], ret_in[k], err));
    return ORR_OK;
}

/* The gradient of a parameter is a value of its own: a given one, or one shared with another
 * parameter, is copied. */
static orr_status finish_parameter(sweep *s, orr_value parameter, orr_error *err)
{
    ORR_TRY(finish(s, parameter, err));
    orr_value grad = s->grad[parameter];
    if (grad == ORR_NONE)
        return ORR_OK;
    if (grad < s->n_values || s->tape->values[grad].role == ORR_VALUE_PARAMETER_GRADIENT)
        ORR_TRY(orr_tape_call_op(s->tape, ORR_OP_COPY, NULL, &grad, 1,
                                 s->tape->values[parameter].name, &grad, err));
    s->grad[parameter] = grad;
    s->tape->values[grad].role = ORR_VALUE_PARAMETER_GRADIENT;
    s->tape->values[grad].of = parameter;
    return ORR_OK;
}

/* Marks as WEIGHT the calls that lead to no gradients but those of parameters. */
static orr_status mark_passes(sweep *s, const orr_value *wanted, uint32_t n_wanted, orr_error *err)
{
    const orr_tape *tape = s->tape;
    bool *leads = orr_arena_array(tape->arena, bool, tape->n_values);
    if (leads == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < n_wanted; k++)
        if (s->grad[wanted[k]] != ORR_NONE)
            leads[s->grad[wanted[k]]] = true;
    for (uint32_t c = tape->n_calls; c-- > s->n_calls;) {
        orr_tape_call *call = &tape->calls[c];
        if (!is_any(leads, call->out, call->n_out)) {
            call->pass = ORR_PASS_WEIGHT;
            continue;
        }
        for (uint32_t k = 0; k < call->n_in; k++)
            leads[call->in[k]] = true;
    }
    return ORR_OK;
}

static orr_status run_sweep(sweep *s, const orr_value *outputs, const orr_value *seeds, uint32_t n,
                            const orr_value *wanted, uint32_t n_wanted, orr_error *err)
{
    for (uint32_t k = 0; k < n; k++)
        ORR_TRY(add(s, outputs[k], seeds[k], err));
    for (uint32_t c = s->n_calls; c-- > 0;)
        ORR_TRY(reverse_call(s, c, err));
    for (uint32_t k = 0; k < n_wanted; k++)
        ORR_TRY(finish(s, wanted[k], err));
    for (orr_value v = 0; v < s->n_values; v++)
        if (is_trainable(&s->tape->values[v]))
            ORR_TRY(finish_parameter(s, v, err));
    return mark_passes(s, wanted, n_wanted, err);
}

orr_status orr_tape_gradient(orr_tape *tape, const orr_value *outputs, const orr_value *seeds,
                             uint32_t n, const orr_value *wanted, uint32_t n_wanted,
                             orr_value *ret_wanted, orr_error *err)
{
    sweep s;
    ORR_TRY(open_sweep(tape, wanted, n_wanted, &s, err));
    const uint8_t pass = tape->pass;
    tape->pass = ORR_PASS_INPUT;
    const orr_status status = run_sweep(&s, outputs, seeds, n, wanted, n_wanted, err);
    tape->pass = pass;
    if (status != ORR_OK) {
        tape->n_values = s.n_values;
        tape->n_calls = s.n_calls;
        orr_tape_mark_saved(tape);
        return status;
    }
    for (uint32_t k = 0; k < n_wanted; k++)
        ret_wanted[k] = s.grad[wanted[k]];
    return ORR_OK;
}
