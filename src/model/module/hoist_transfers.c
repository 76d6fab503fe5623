/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/module/lower.h"

/* Hoists collectives on the tape, so that they overlap products. In the backward pass of a
 * linear layer two products are independent: Megatron-LM starts the reduction of the input's
 * gradient before it computes the weight gradient, and gathers the input for the latter during
 * the former (Korthikanti et al., arXiv 2205.05198, section 4.2.2). */

static bool is_product(const orr_tape_call *call)
{
    return call->op == ORR_OP_MATMUL || call->op == ORR_OP_ATTENTION_BACKWARD;
}

static bool is_transfer(uint8_t op)
{
    return op == ORR_OP_ALL_REDUCE || op == ORR_OP_ALL_GATHER || op == ORR_OP_REDUCE_SCATTER ||
           op == ORR_OP_ALL_TO_ALL || op == ORR_OP_SEND;
}

/* May the collective overlap a product: a reduction of an input's gradient, or a repeated gather
 * of an input? */
static bool goes_beside(const orr_tape_call *call)
{
    if (call->args.overlap)
        return true;
    if (call->args.axis != ORR_AXIS_TP)
        return false;
    if (call->pass == ORR_PASS_INPUT)
        return call->op == ORR_OP_REDUCE_SCATTER || call->op == ORR_OP_ALL_REDUCE;
    return call->pass == ORR_PASS_RECOMPUTE && call->again && call->op == ORR_OP_ALL_GATHER;
}

/* The earliest place for the collective: after the calls that make its inputs, and past one
 * product at most, since its result would otherwise occupy memory long before it is used. Tokens
 * of experts leave at once: the products that they pass are those of shared experts. */
static uint32_t earliest(const orr_tape *tape, uint32_t at)
{
    const orr_tape_call *call = &tape->calls[at];
    uint32_t first = 0, to = at;
    for (uint32_t i = 0; i < call->n_in; i++) {
        const uint32_t maker = tape->values[call->in[i]].made_by;
        if (maker != ORR_NONE && maker + 1 > first)
            first = maker + 1;
    }
    for (uint32_t c = at; c > first; c--) {
        const bool before = tape->calls[c - 1].pass == ORR_PASS_FORWARD;
        if (before != (call->pass == ORR_PASS_FORWARD))
            break;
        to = c - 1;
        if (is_product(&tape->calls[c - 1]) && call->args.axis != ORR_AXIS_EP)
            break;
    }
    return to;
}

static void move_up(orr_tape *tape, uint32_t from, uint32_t to)
{
    const orr_tape_call call = tape->calls[from];
    memmove(&tape->calls[to + 1], &tape->calls[to], (from - to) * sizeof call);
    tape->calls[to] = call;
    for (uint32_t c = to; c <= from; c++)
        for (uint32_t i = 0; i < tape->calls[c].n_out; i++)
            tape->values[tape->calls[c].out[i]].made_by = c;
}

static uint32_t readers_of(const orr_tape *tape, orr_value value, uint32_t *ret_last)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < tape->n_calls; c++)
        for (uint32_t i = 0; i < tape->calls[c].n_in; i++)
            if (tape->calls[c].in[i] == value) {
                *ret_last = c;
                n++;
            }
    return n;
}

/* Swaps a gather and the quantisation after it: fewer bytes travel when a gradient is quantised
 * first, as in Transformer Engine. The value in between changes its type and its maker. */
static orr_status quantise_first(orr_tape *tape, uint32_t gather, uint32_t quantise, orr_error *err)
{
    orr_tape_call first = tape->calls[quantise], then = tape->calls[gather];
    const orr_value between = then.out[0], whole = first.out[0];
    first.in[0] = then.in[0];
    first.out[0] = between;
    then.in[0] = between;
    then.out[0] = whole;
    orr_type types[ORR_CALL_OUT];
    const orr_op_signature site = {
        .op = first.op, .args = &first.args, .n_in = 1, .in = &tape->values[first.in[0]].type};
    ORR_TRY(orr_op_of((orr_op)first.op)->shape(&site, types, err));
    for (uint32_t i = 0; i < first.n_out; i++)
        tape->values[first.out[i]].type = types[i];
    tape->calls[gather] = first;
    tape->calls[quantise] = then;
    tape->values[between].made_by = gather;
    for (uint32_t i = 1; i < first.n_out; i++)
        tape->values[first.out[i]].made_by = gather;
    tape->values[whole].made_by = quantise;
    return ORR_OK;
}

static orr_status quantise_gradients(orr_tape *tape, orr_error *err)
{
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        uint32_t reader = 0;
        if (call->op == ORR_OP_ALL_GATHER && call->pass == ORR_PASS_INPUT &&
            readers_of(tape, call->out[0], &reader) == 1 &&
            tape->calls[reader].op == ORR_OP_QUANTIZE)
            ORR_TRY(quantise_first(tape, c, reader, err));
    }
    return ORR_OK;
}

orr_status orr_module_hoist_transfers(orr_tape *tape, orr_error *err)
{
    ORR_TRY(quantise_gradients(tape, err));
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        if (!is_transfer(tape->calls[c].op) || !goes_beside(&tape->calls[c]))
            continue;
        const uint32_t to = earliest(tape, c);
        tape->calls[c].args.overlap = true;
        if (to < c)
            move_up(tape, c, to);
    }
    return ORR_OK;
}
