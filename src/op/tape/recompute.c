/* SPDX-License-Identifier: Apache-2.0 */
/* Activation recomputation: the tape is rewritten; before a call that reads a dropped value, the
 * forward calls that lead to it are recorded again. */
#include "op/rules.h"
#include "op/tape/tape.h"

typedef enum answer { NOT_ASKED, STAYS, DROPPED } answer;
typedef struct redo {
    orr_tape *tape;
    const orr_recompute_policy *keep;
    uint8_t *answers; /* shape (n_values before): for roots */
    orr_value *again; /* shape (n_values before): its recomputed copy, or ORR_NONE */
    uint32_t *stack;  /* shape (n_calls before)                         */
} redo;

/* Asks the policy once per value; for a view its root is asked. Recomputed values are not values of
 * the forward pass. */
static bool is_dropped(redo *r, orr_value value)
{
    const orr_value root = orr_tape_root(r->tape, value);
    if (!orr_tape_is_forward(r->tape, root))
        return false;
    uint8_t *known = &r->answers[root];
    if (*known == NOT_ASKED)
        *known = r->keep->drops(r->keep->ctx, r->tape, root) ? DROPPED : STAYS;
    return *known == DROPPED;
}

static orr_value source_of(redo *r, orr_value value)
{
    return is_dropped(r, value) ? r->again[value] : value;
}

static orr_status record_again(redo *r, uint32_t index, orr_error *err)
{
    orr_tape *tape = r->tape;
    ORR_TRY(orr_tape_reserve(tape, ORR_CALL_OUT, 1, err));
    orr_tape_call *call = &tape->calls[tape->n_calls];
    *call = tape->calls[index];
    call->pass = ORR_PASS_RECOMPUTE;
    call->again = true;
    for (uint32_t k = 0; k < call->n_in; k++)
        call->in[k] = source_of(r, call->in[k]);
    for (uint32_t k = 0; k < call->n_out; k++) {
        const orr_value original = call->out[k];
        orr_tape_value copy = tape->values[original];
        copy.of = original;
        copy.kept = false;
        call->out[k] = r->again[original] = tape->n_values;
        tape->values[tape->n_values++] = copy;
    }
    orr_tape_commit_call(tape);
    return ORR_OK;
}

/* The call that makes the first missing input of the call; ORR_NONE: none is missing. */
static uint32_t missing(redo *r, const orr_tape_call *call)
{
    for (uint32_t k = 0; k < call->n_in; k++)
        if (is_dropped(r, call->in[k]) && r->again[call->in[k]] == ORR_NONE)
            return r->tape->values[call->in[k]].made_by;
    return ORR_NONE;
}

/* Depth first with an explicit stack: chains are as long as tapes. */
static orr_status provide(redo *r, uint32_t index, orr_error *err)
{
    uint32_t depth = 0;
    r->stack[depth++] = index;
    while (depth > 0) {
        const uint32_t top = r->stack[depth - 1];
        const uint32_t next = missing(r, &r->tape->calls[top]);
        if (next != ORR_NONE) {
            r->stack[depth++] = next;
            continue;
        }
        ORR_TRY(record_again(r, top, err));
        depth--;
    }
    return ORR_OK;
}

static orr_status rewrite(redo *r, const orr_tape *before, orr_error *err)
{
    orr_tape *tape = r->tape;
    for (uint32_t c = 0; c < before->n_calls; c++) {
        const orr_tape_call *old = &before->calls[c];
        const bool backward = old->pass != ORR_PASS_FORWARD;
        for (uint32_t next; backward && (next = missing(r, old)) != ORR_NONE;)
            ORR_TRY(provide(r, next, err));
        ORR_TRY(orr_tape_reserve(tape, 0, 1, err));
        orr_tape_call *call = &tape->calls[tape->n_calls];
        *call = *old;
        for (uint32_t k = 0; backward && k < call->n_in; k++)
            call->in[k] = source_of(r, call->in[k]);
        orr_tape_commit_call(tape);
    }
    return ORR_OK;
}

/* Restores the tape, including links that were changed in between. */
static void restore(orr_tape *tape, const orr_tape *before)
{
    *tape = *before;
    for (uint32_t c = 0; c < tape->n_calls; c++)
        orr_tape_link_outputs(tape, c);
    orr_tape_mark_saved(tape);
}

orr_status orr_tape_recompute(orr_tape *tape, const orr_recompute_policy *keep, orr_error *err)
{
    const orr_tape before = *tape;
    orr_arena *arena = tape->arena;
    redo r = {.tape = tape, .keep = keep};
    r.answers = orr_arena_array(arena, uint8_t, tape->n_values);
    r.again = orr_arena_array(arena, orr_value, tape->n_values);
    r.stack = orr_arena_array(arena, uint32_t, tape->n_calls);
    if (r.answers == NULL || r.again == NULL || r.stack == NULL)
        return orr_fail_memory(err);
    for (orr_value v = 0; v < tape->n_values; v++)
        r.again[v] = ORR_NONE;
    tape->calls = NULL;
    tape->n_calls = tape->room_calls = 0;
    const orr_status status = rewrite(&r, &before, err);
    if (status != ORR_OK) {
        restore(tape, &before);
        return status;
    }
    orr_tape_mark_saved(tape);
    return ORR_OK;
}
