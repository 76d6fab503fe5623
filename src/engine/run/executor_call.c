/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/program_state.h"

/* Executes one call in the thread of its lane. Worker threads belong to lane 0. */

enum { SPIN_NS = 100000 }; /* how much later than asked a sleep may end (assumed) */

/* Emulated time: sleeps for most of it, which leaves the core to other lanes, then spins until the
 * exact ns. */
static void emulate_time(int64_t ns)
{
    const int64_t end = orr_program_now_ns() + ns;
    if (ns > 2 * SPIN_NS)
        orr_clock_sleep_until_ns(&orr_clock_monotonic, end - SPIN_NS);
    while (orr_program_now_ns() < end)
        ;
}

static orr_kernel_call kernel_call(const orr_program *p, const orr_lane_state *lane, uint32_t index)
{
    const orr_action *action = &p->actions[index];
    const orr_tape_call *call = &p->tape->calls[index];
    const orr_operand *in = &p->operands[action->operands];
    return (orr_kernel_call){.op = call->op,
                             .args = &call->args,
                             .n_in = action->n_in,
                             .n_out = action->n_out,
                             .in = in,
                             .out = in + action->n_in,
                             .accumulate = action->accumulate,
                             .first = p->first,
                             .update = p->update,
                             .seed = p->seed ^ action->seed,
                             .workspace = lane->workspace,
                             .state = action->state,
                             .workers = lane->number == 0 ? p->workers : NULL,
                             .stream = lane->stream};
}

static orr_status run_kernel(const orr_program *p, const orr_lane_state *lane, uint32_t index,
                             const orr_operand *out, orr_error *err)
{
    orr_kernel_call call = kernel_call(p, lane, index);
    call.out = out;
    return p->backend->entries[call.op].run(&call, err);
}

static orr_status copy_one(const orr_program *p, const orr_lane_state *lane, const orr_operand *to,
                           const orr_operand *from, orr_error *err)
{
    static const orr_op_args none;
    if (!p->device) {
        orr_strided_copy(to, from, lane->number == 0 ? p->workers : NULL);
        return ORR_OK;
    }
    if (orr_operand_is_contiguous(from))
        return p->backend->copy(p->backend, to->data, from->data, (size_t)orr_type_bytes(&to->type),
                                lane->stream, err);
    if (p->backend->entries[ORR_OP_COPY].run == NULL)
        return orr_fail(err, ORR_UNSUPPORTED, "the backend %s has no kernel for copy",
                        p->backend->name);
    return p->backend->entries[ORR_OP_COPY].run(&(orr_kernel_call){.op = ORR_OP_COPY,
                                                                   .args = &none,
                                                                   .n_in = 1,
                                                                   .n_out = 1,
                                                                   .in = from,
                                                                   .out = to,
                                                                   .stream = lane->stream},
                                                err);
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Adds the staged output in the workspace to `out`. */
static orr_status add_staged(const orr_program *p, const orr_lane_state *lane,
                             const orr_operand *out, const orr_operand *staged, orr_error *err)
{
    static const orr_op_args none;
    const orr_operand in[] = {*out, *staged};
    return p->backend->entries[ORR_OP_ADD].run(
        &(orr_kernel_call){.op = ORR_OP_ADD,
                           .args = &none,
                           .n_in = 2,
                           .n_out = 1,
                           .in = in,
                           .out = out,
                           .workspace = (char *)staged->data + aligned(orr_type_bytes(&out->type)),
                           .workers = lane->number == 0 ? p->workers : NULL,
                           .stream = lane->stream},
        err);
}

static orr_status do_to(const orr_program *p, const orr_lane_state *lane, uint32_t index,
                        const orr_operand *out, orr_error *err)
{
    const orr_action *action = &p->actions[index];
    const orr_operand *in = &p->operands[action->operands];
    const orr_tape_call *call = &p->tape->calls[index];
    switch (action->kind) {
    case ORR_ACTION_KERNEL:
        return run_kernel(p, lane, index, out, err);
    case ORR_ACTION_COPY:
        for (uint32_t k = 0; k < action->n_out; k++)
            ORR_TRY(copy_one(p, lane, &out[k], &in[k], err));
        return ORR_OK;
    case ORR_ACTION_HOOK:
        return p->calls[index].instead(p->calls[index].hook_ctx, index, err);
    case ORR_ACTION_COLLECTIVE:
        return orr_collective_run(action->communicator, call, p->calls[index].parts, in, out,
                                  lane->workspace, lane->number == 0 ? p->workers : NULL, err);
    default:
        return ORR_OK;
    }
}

orr_status orr_program_run_call(orr_program *p, orr_lane_state *lane, uint32_t index,
                                orr_error *err)
{
    const orr_action *action = &p->actions[index];
    const orr_operand *out = &p->operands[action->operands + action->n_in];
    if (action->kind == ORR_ACTION_EMULATE) {
        emulate_time(p->calls[index].emulate_ns);
        return ORR_OK;
    }
    if (!action->staged)
        return do_to(p, lane, index, out, err);
    orr_operand staged[ORR_CALL_OUT];
    for (uint32_t k = 0; k < action->n_out; k++)
        staged[k] = out[k];
    staged[0] = orr_operand_dense(&out[0].type, (char *)lane->workspace + action->workspace_bytes);
    ORR_TRY(do_to(p, lane, index, staged, err));
    return add_staged(p, lane, &out[0], &staged[0], err);
}
