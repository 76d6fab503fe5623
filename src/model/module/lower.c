/* SPDX-License-Identifier: Apache-2.0 */
#include "model/module/lower.h"

#include <string.h>

#include "op/tape/tape.h"

/* Lowers a draft to a rank's tape. The passes in order: shard (shard.c), differentiate (op/tape/),
 * complete rings, choose which values are saved for the backward pass, insert full recomputation,
 * hoist transfers (hoist_transfers.c). Fusion (fuse.c) comes last and only groups calls. */

/* Calls of the forward pass; these come first on the tape. */
static uint32_t forward_calls(const orr_tape *tape)
{
    uint32_t n = 0;
    while (n < tape->n_calls && tape->calls[n].pass == ORR_PASS_FORWARD)
        n++;
    return n;
}

/* Copies a forward call and its outputs. `again`: by value, the recomputed value that replaces
 * it. */
static void copy_call(orr_tape *tape, uint32_t from, uint32_t to, orr_value *again)
{
    orr_tape_call call = tape->calls[from];
    call.pass = ORR_PASS_RECOMPUTE;
    for (uint32_t i = 0; i < call.n_in; i++)
        call.in[i] = again[call.in[i]];
    for (uint32_t i = 0; i < call.n_out; i++) {
        orr_tape_value copy = tape->values[call.out[i]];
        copy.of = call.out[i];
        if (copy.view_of != ORR_NONE)
            copy.view_of = again[copy.view_of];
        again[call.out[i]] = tape->n_values;
        call.out[i] = tape->n_values;
        tape->values[tape->n_values++] = copy;
    }
    tape->calls[to] = call;
}

/* Full recomputation (activation checkpointing of a layer, as in Megatron-LM): the whole forward
 * pass is repeated before the backward pass, with outputs that the backward pass does not read
 * as well. */
static orr_status insert_recomputation(orr_tape *tape, orr_arena *arena, orr_error *err)
{
    const uint32_t n = forward_calls(tape), n_values = tape->n_values, all = tape->n_calls;
    orr_value *again = orr_arena_array(arena, orr_value, n_values);
    if (again == NULL)
        return orr_fail_memory(err);
    for (orr_value v = 0; v < n_values; v++)
        again[v] = v;
    ORR_TRY(orr_tape_reserve(tape, n * ORR_CALL_OUT, n, err));
    memmove(&tape->calls[2 * n], &tape->calls[n], (all - n) * sizeof *tape->calls);
    tape->n_calls = all + n;
    for (uint32_t c = 0; c < n; c++)
        copy_call(tape, c, n + c, again);
    for (uint32_t c = n; c < tape->n_calls; c++) {
        orr_tape_call *call = &tape->calls[c];
        for (uint32_t i = 0; c >= 2 * n && i < call->n_in; i++)
            call->in[i] = call->in[i] < n_values ? again[call->in[i]] : call->in[i];
        for (uint32_t i = 0; i < call->n_out; i++) {
            orr_tape_value *made = &tape->values[call->out[i]];
            made->made_by = c;
            if (c >= 2 * n && made->view_of != ORR_NONE && made->view_of < n_values)
                made->view_of = again[made->view_of];
        }
    }
    orr_tape_mark_saved(tape);
    return ORR_OK;
}

/* Completes rings on the differentiated tape. In a ring each rank receives as much as it sends,
 * so the gradient's way back is a SEND too. The backward pass of a piece reads the merged output
 * and logsumexp, so those of the pieces need not be saved. */
static orr_status close_rings(orr_tape *tape, orr_error *err)
{
    orr_value *whole = orr_arena_array(tape->arena, orr_value, tape->n_values);
    if (whole == NULL)
        return orr_fail_memory(err);
    for (orr_value v = 0; v < tape->n_values; v++)
        whole[v] = v;
    for (uint32_t c = tape->n_calls; c-- > 0;) /* from the end, so that a merged value is known
                                                * before its parts */
        for (uint32_t i = 0; i < 4 && tape->calls[c].op == ORR_OP_ATTENTION_MERGE; i++)
            whole[tape->calls[c].in[i]] = whole[tape->calls[c].out[i % 2]];
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        orr_tape_call *call = &tape->calls[c];
        if (call->op == ORR_OP_RECV)
            call->op = ORR_OP_SEND;
        if (call->op == ORR_OP_ATTENTION_BACKWARD && call->args.flash)
            for (uint32_t i = 4; i < 6; i++)
                call->in[i] = whole[call->in[i]];
    }
    return ORR_OK;
}

static orr_status seed_of(orr_tape *tape, orr_value out, orr_value *ret, orr_error *err)
{
    const orr_type type = tape->values[out].type;
    return orr_tape_value_new(tape, ORR_VALUE_GRADIENT, &type, "gradient", ret, err);
}

/* Differentiates the module with respect to its output and its contribution to the loss. */
static orr_status differentiate(orr_tape *tape, const orr_draft *draft, const orr_value *local,
                                orr_module *module, orr_arena *arena, orr_error *err)
{
    const orr_value ends[] = {draft->out, draft->loss};
    orr_value outputs[2], seeds[2], wanted[1 + ORR_DRAFT_SHARED_MAX],
        grads[1 + ORR_DRAFT_SHARED_MAX];
    uint32_t n = 0, n_wanted = 0;
    for (uint32_t i = 0; i < 2; i++) {
        if (ends[i] == ORR_NONE)
            continue;
        outputs[n] = local[ends[i]];
        ORR_TRY(seed_of(tape, outputs[n], &seeds[n], err));
        *(i == 0 ? &module->grad_out : &module->loss_seed) = seeds[n];
        n++;
    }
    if (draft->in != ORR_NONE)
        wanted[n_wanted++] = local[draft->in];
    for (uint32_t i = 0; i < draft->n_shared; i++)
        wanted[n_wanted++] = local[draft->shared[i]];
    ORR_TRY(orr_tape_gradient(tape, outputs, seeds, n, wanted, n_wanted, grads, err));
    module->grad_in = draft->in == ORR_NONE ? ORR_NONE : grads[0];
    if (draft->job->how.ring != 0)
        ORR_TRY(close_rings(tape, err));
    const orr_recompute_policy keep = {orr_module_drops, (void *)draft->job->plan};
    ORR_TRY(orr_tape_recompute(tape, &keep, err));
    if (module->recomputed)
        ORR_TRY(insert_recomputation(tape, arena, err));
    return orr_module_hoist_transfers(tape, err);
}

static orr_value share_of(const orr_value *local, orr_value value)
{
    return value == ORR_NONE ? ORR_NONE : local[value];
}

/* Type of the value on one device, without padding and copies. */
static orr_type whole_of(const orr_draft *draft, orr_value value)
{
    const orr_packed_dim *form = &draft->forms[value];
    orr_type whole = draft->tape.values[value].type;
    if (form->copies > 1) {
        const int64_t slices = draft->job->how.members[ORR_AXIS_TP];
        whole.dim[form->dim] = slices / form->copies * (form->lead + form->shared);
    }
    if (form->real > 0)
        whole.dim[form->dim] = form->real;
    return whole;
}

static bool is_held(const orr_draft *draft, orr_value value)
{
    return draft->tape.values[value].made_by == ORR_NONE || value == draft->in ||
           value == draft->out || value == draft->loss;
}

static orr_status hold(const orr_draft *draft, const orr_layouts *layouts, const orr_value *local,
                       orr_arena *arena, orr_module *module, orr_error *err)
{
    uint32_t n = 0;
    for (orr_value v = 0; v < draft->tape.n_values; v++)
        n += is_held(draft, v);
    orr_value_placement *holdings = orr_arena_array(arena, orr_value_placement, n);
    if (holdings == NULL)
        return orr_fail_memory(err);
    module->holdings = holdings;
    for (orr_value v = 0; v < draft->tape.n_values; v++)
        if (is_held(draft, v))
            holdings[module->n_holdings++] = (orr_value_placement){.value = local[v],
                                                                   .whole = whole_of(draft, v),
                                                                   .layout = layouts->of[v],
                                                                   .form = draft->forms[v]};
    memcpy(module->members, draft->job->how.members, sizeof module->members);
    return ORR_OK;
}

orr_status orr_module_lower(const orr_draft *draft, orr_arena *arena, orr_module *module,
                            orr_error *err)
{
    const orr_job_shape *job = draft->job;
    const uint32_t n = draft->tape.n_values;
    orr_tape *tape = orr_arena_one(arena, orr_tape);
    orr_value *local = orr_arena_array(arena, orr_value, n);
    orr_layouts layouts = {orr_arena_array(arena, orr_layout, n), draft->layouts.fixed};
    if (tape == NULL || local == NULL || layouts.of == NULL)
        return orr_fail_memory(err);
    memcpy(layouts.of, draft->layouts.of, n * sizeof *layouts.of);
    orr_tape_init(tape, arena);
    ORR_TRY(orr_tape_shard(&draft->tape, &layouts, &job->how, tape, local, err));
    module->tape = tape;
    module->in = share_of(local, draft->in);
    module->out = share_of(local, draft->out);
    module->loss = share_of(local, draft->loss);
    module->grad_in = module->grad_out = module->loss_seed = ORR_NONE;
    ORR_TRY(hold(draft, &layouts, local, arena, module, err));
    if (job->trained)
        ORR_TRY(differentiate(tape, draft, local, module, arena, err));
    return job->fused ? orr_module_fuse(module, arena, err) : ORR_OK;
}
