/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/experts/skew.h"
#include "model/module/lower.h"

/* The module of a layer whose ranks have uneven rows, from the one of even routing: the same calls
 * on other sizes, since sharding, differentiation and recomputation do not depend on them. Rows
 * that have come to the fullest rank's experts are more, and weights are those of the rank with
 * most slots; rows on their way are as before. */

enum { ARRIVED = 1, WEIGHTS = 2 }; /* what the first dim of a value counts */

static uint8_t counts_of(const orr_tape *tape, const orr_tape_call *call, const uint8_t *of,
                         const orr_type *out)
{
    const bool travels = call->op == ORR_OP_ALL_TO_ALL && call->args.axis == ORR_AXIS_EP;
    if (travels)
        return of[call->in[0]] == ARRIVED || out->dtype == ORR_DTYPE_INT32 ? 0 : ARRIVED;
    if (call->op == ORR_OP_GROUPED_MATMUL && call->args.transpose_a)
        return WEIGHTS;
    const bool resized = call->op == ORR_OP_ALL_GATHER || call->op == ORR_OP_REDUCE_SCATTER;
    for (uint32_t i = 0; i < call->n_in; i++) {
        const uint8_t counted = of[call->in[i]];
        if (counted != 0 && (resized || out->dim[0] == tape->values[call->in[i]].type.dim[0]))
            return counted;
    }
    return 0;
}

/* What the first dims count, by value. */
static void mark(const orr_tape *tape, uint8_t *of)
{
    for (orr_value v = 0; v < tape->n_values; v++) {
        const orr_tape_value *value = &tape->values[v];
        const bool weights = value->role == ORR_VALUE_PARAMETER &&
                             value->tag == ORR_WEIGHT_EXPERT && value->type.rank > 1;
        of[v] = weights ? WEIGHTS : 0;
    }
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        for (uint32_t i = 0; i < call->n_out; i++)
            if (call->out[i] != ORR_NONE)
                of[call->out[i]] = counts_of(tape, call, of, &tape->values[call->out[i]].type);
    }
}

orr_status orr_module_skew(const orr_module *even, const orr_layer_skew *skew, uint32_t experts,
                           orr_arena *arena, orr_module *ret, orr_error *err)
{
    const orr_tape *from = even->tape;
    orr_tape *tape = orr_arena_one(arena, orr_tape);
    orr_tape_value *values = orr_arena_array(arena, orr_tape_value, from->n_values);
    uint8_t *of = orr_arena_array(arena, uint8_t, from->n_values);
    if (tape == NULL || values == NULL || of == NULL)
        return orr_fail_memory(err);
    memcpy(values, from->values, from->n_values * sizeof *values);
    *tape = *from;
    tape->values = values;
    tape->room_values = from->n_values;
    mark(from, of);
    for (orr_value v = 0; v < from->n_values; v++) {
        int64_t *dim = &values[v].type.dim[0];
        if (of[v] == ARRIVED)
            *dim = (int64_t)ceil((double)*dim * skew->rows - 1e-6);
        else if (of[v] == WEIGHTS)
            *dim = *dim * skew->slots * skew->ranks / experts;
    }
    *ret = *even;
    ret->tape = tape;
    ret->skew = skew;
    return even->kernels != NULL ? orr_module_fuse(ret, arena, err) : ORR_OK;
}
