/* SPDX-License-Identifier: Apache-2.0 */
#include "op/tape/live_ranges.h"

#include "base/alloc.h"
#include "op/tape/tape.h"

/* Liveness analysis of a tape: first and last step in which each value's bytes exist (Aho et al.,
 * Compilers). */

typedef enum part { FORWARD, BACKWARD, WEIGHT, NONE } part;

static part part_of(const orr_tape_call *call, bool apart)
{
    switch (call->pass) {
    case ORR_PASS_FORWARD:
        return FORWARD;
    case ORR_PASS_OPTIMIZER:
        return NONE;
    case ORR_PASS_WEIGHT:
        return apart ? WEIGHT : BACKWARD;
    default:
        return BACKWARD;
    }
}

/* The order in which calls run: shape (n_steps). */
static uint32_t *order_of(const orr_tape *tape, bool apart, orr_tape_liveness *lives)
{
    uint32_t *order = orr_malloc((size_t)tape->n_calls * sizeof *order + 1);
    if (order == NULL)
        return NULL;
    uint32_t n = 0, end[NONE];
    for (part p = FORWARD; p < NONE; p++) {
        for (uint32_t c = 0; c < tape->n_calls; c++)
            if (part_of(&tape->calls[c], apart) == p)
                order[n++] = c;
        end[p] = n;
    }
    lives->n_steps = n;
    lives->forward_end = end[FORWARD];
    lives->input_end = end[BACKWARD];
    return order;
}

/* Finds values that are needed whole. A slice of a value that the backward pass does not otherwise
 * need is copied instead of viewed, so that the rest can be freed (as attention kernels do with
 * keys and values sliced from one product). `whole`, shape (n_values), by storage. */
static void find_whole(const orr_tape *tape, const uint32_t *order, const orr_tape_liveness *lives,
                       bool *whole)
{
    for (uint32_t s = lives->forward_end; s < lives->n_steps; s++) {
        const orr_tape_call *call = &tape->calls[order[s]];
        for (uint32_t i = 0; i < call->n_in; i++) {
            if (call->in[i] == ORR_NONE)
                continue;
            const orr_value root = orr_tape_root(tape, call->in[i]);
            if (!orr_tape_is_forward(tape, root) ||
                orr_type_bytes(&tape->values[call->in[i]].type) ==
                    orr_type_bytes(&tape->values[root].type))
                whole[root] = true;
        }
    }
}

/* The value whose bytes a value has: itself, its root, or the copied slice it is a view of. */
static orr_value owner(const orr_tape *tape, const bool *whole, orr_value v)
{
    const orr_value root = orr_tape_root(tape, v);
    if (whole[root] || !orr_tape_is_forward(tape, root))
        return root;
    while (v != root && tape->values[v].made_by != ORR_NONE) {
        const orr_value from = tape->calls[tape->values[v].made_by].in[0];
        if (orr_type_bytes(&tape->values[from].type) > orr_type_bytes(&tape->values[v].type))
            return v;
        v = from;
    }
    return root;
}

static uint32_t start_of_part(const orr_tape_liveness *lives, uint32_t step)
{
    if (step < lives->forward_end)
        return 0;
    return step < lives->input_end ? lives->forward_end : lives->input_end;
}

static void use(const orr_tape *tape, const bool *whole, orr_value v, uint32_t step,
                orr_tape_liveness *lives)
{
    const orr_value storage = owner(tape, whole, v);
    uint32_t *row = &lives->row_of[storage];
    if (*row == ORR_NONE) {
        const bool given = tape->values[storage].made_by == ORR_NONE;
        *row = lives->n++;
        lives->lives[*row] = (orr_tape_live_range){
            .value = storage,
            .given = given,
            .life = {given ? start_of_part(lives, step) : step, step, 0},
        };
    }
    lives->row_of[v] = *row;
    lives->lives[*row].life.last = step;
}

/* Finds values made from parameters and constants alone. Calls are in topological order. */
static void find_derived(const orr_tape *tape, const uint32_t *order, orr_tape_liveness *lives)
{
    for (uint32_t s = 0; s < lives->n_steps; s++) {
        const orr_tape_call *call = &tape->calls[order[s]];
        bool derived = call->n_in > 0;
        for (uint32_t i = 0; i < call->n_in && derived; i++) {
            if (call->in[i] == ORR_NONE)
                continue;
            const orr_tape_live_range *in = &lives->lives[lives->row_of[call->in[i]]];
            const uint8_t role = tape->values[in->value].role;
            derived =
                in->given ? role == ORR_VALUE_PARAMETER || role == ORR_VALUE_CONSTANT : in->derived;
        }
        for (uint32_t o = 0; o < call->n_out; o++) {
            orr_tape_live_range *out = &lives->lives[lives->row_of[call->out[o]]];
            if (!out->given)
                out->derived = derived;
        }
    }
}

static orr_status walk(const orr_tape *tape, const uint32_t *order, const bool *whole,
                       orr_tape_liveness *lives, orr_error *err)
{
    for (uint32_t s = 0; s < lives->n_steps; s++) {
        const orr_tape_call *call = &tape->calls[order[s]];
        for (uint32_t i = 0; i < call->n_in; i++)
            if (call->in[i] != ORR_NONE)
                use(tape, whole, call->in[i], s, lives);
        for (uint32_t o = 0; o < call->n_out; o++)
            use(tape, whole, call->out[o], s, lives);
    }
    for (uint32_t i = 0; i < lives->n; i++) {
        orr_tape_live_range *l = &lives->lives[i];
        l->life.bytes = orr_type_bytes(&tape->values[l->value].type);
        if (l->life.bytes < 0)
            return orr_fail(err, ORR_INVALID, "'%s' is a tensor of over 2^63 bytes",
                            tape->values[l->value].name);
    }
    find_derived(tape, order, lives);
    return ORR_OK;
}

orr_status orr_tape_liveness_of(const orr_tape *tape, bool apart, orr_arena *arena,
                                orr_tape_liveness *ret, orr_error *err)
{
    orr_tape_liveness lives = {
        .lives = orr_arena_array(arena, orr_tape_live_range, tape->n_values),
        .row_of = orr_arena_array(arena, uint32_t, tape->n_values),
    };
    orr_status status = ORR_OK;
    uint32_t *order = order_of(tape, apart, &lives);
    bool *whole = orr_calloc((size_t)tape->n_values + 1, sizeof *whole);
    if (lives.lives == NULL || lives.row_of == NULL || order == NULL || whole == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t v = 0; v < tape->n_values; v++)
        lives.row_of[v] = ORR_NONE;
    find_whole(tape, order, &lives, whole);
    ORR_TRY_OUT(status, walk(tape, order, whole, &lives, err));
    *ret = lives;
out:
    orr_free(whole);
    orr_free(order);
    return status;
}
