/* SPDX-License-Identifier: Apache-2.0 */
#include "model/memory/memory.h"
#include "model/module/lower.h"
#include "op/tape/tape.h"

/* Corrections of lifetimes on a tape: kernels that hold more or less memory than the inputs and
 * outputs of the tape's calls. */

/* The call that makes a value, if it has the given operator. */
static const orr_tape_call *made_by(const orr_tape *tape, orr_value v, orr_op op)
{
    const uint32_t call = tape->values[v].made_by;
    return call != ORR_NONE && tape->calls[call].op == op ? &tape->calls[call] : NULL;
}

/* The value that the gradient is cast to, if nothing else reads the gradient. */
static orr_value cast_of(const orr_tape *tape, orr_value gradient)
{
    orr_value cast = ORR_NONE;
    for (uint32_t c = 0; c < tape->n_calls; c++)
        for (uint32_t i = 0; i < tape->calls[c].n_in; i++)
            if (tape->calls[c].in[i] == gradient) {
                if (tape->calls[c].op != ORR_OP_CAST)
                    return ORR_NONE;
                cast = tape->calls[c].out[0];
            }
    return cast;
}

/* A fused cross entropy reads logits in their own dtype and overwrites them with their gradient
 * (TransformerEngine, parallel_cross_entropy(); Liger, arXiv 2410.10989, section 3.2): casts to
 * fp32 and back are inside of the kernel. */
static void fuse_loss(const orr_tape *tape, const orr_tape_call *backward, orr_tape_liveness *lives)
{
    orr_value logits = backward->in[0], gradient = backward->out[0];
    const uint32_t now = orr_tape_live_range_of(lives, gradient)->first;
    const orr_tape_call *cast = made_by(tape, logits, ORR_OP_CAST);
    const orr_value narrow = cast_of(tape, gradient);
    if (cast != NULL && narrow != ORR_NONE && orr_tape_live_range_of(lives, logits)->last == now) {
        orr_tape_live_range_of(lives, logits)->bytes = 0;
        orr_tape_live_range_of(lives, gradient)->bytes = 0;
        logits = cast->in[0];
        gradient = narrow;
        orr_tape_live_range_of(lives, logits)->last = now;
    }
    orr_live_range *over = orr_tape_live_range_of(lives, logits),
                   *made = orr_tape_live_range_of(lives, gradient);
    if (over->last != now || over->bytes != made->bytes)
        return;
    over->last = made->last;
    made->bytes = 0;
}

/* Not fused, its backward pass is two kernels with an intermediate as large as the logits
 * (PyTorch: nll_loss_backward, then _log_softmax_backward_data); over slices of the vocabulary
 * (gradient + exp(logits)) * seed with two of them (PyTorch,
 * torch/distributed/tensor/parallel/loss.py). */
static orr_live_range between_kernels(const orr_tape_call *backward, orr_tape_liveness *lives)
{
    const orr_live_range *gradient = orr_tape_live_range_of(lives, backward->out[0]);
    const int64_t n = backward->args.members > 1 ? 2 : 1;
    return (orr_live_range){gradient->first, gradient->first, n * gradient->bytes};
}

static uint32_t treat_losses(const orr_tape *tape, bool fused, orr_tape_liveness *lives,
                             orr_live_range *ret)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        if (tape->calls[c].op != ORR_OP_CROSS_ENTROPY_BACKWARD)
            continue;
        if (fused)
            fuse_loss(tape, &tape->calls[c], lives);
        else
            ret[n++] = between_kernels(&tape->calls[c], lives);
    }
    return n;
}

/* Ring attention accumulates the outputs of its blocks, and its backward pass reads the sum and
 * one logsumexp: outputs of blocks are freed once they are added (Liu et al., arXiv 2310.01889,
 * section 3.1; TransformerEngine, AttnFuncWithCPAndKVP2P). */
static void merge_blocks(const orr_tape *tape, orr_tape_liveness *lives)
{
    bool first = true;
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *sum = &tape->calls[c];
        if (sum->op != ORR_OP_ADD ||
            (sum->pass != ORR_PASS_FORWARD && sum->pass != ORR_PASS_RECOMPUTE))
            continue;
        for (uint32_t i = 0; i < sum->n_in; i++) {
            const orr_tape_call *block = made_by(tape, sum->in[i], ORR_OP_ATTENTION);
            if (block == NULL)
                continue;
            const uint32_t added = orr_tape_live_range_of(lives, sum->out[0])->first;
            orr_tape_live_range_of(lives, block->out[0])->last = added;
            if (!first)
                orr_tape_live_range_of(lives, block->out[1])->last = added;
            first = false;
        }
    }
}

/* Megatron-Core's --activation-func-fp8-input-store: what SwiGLU or GELU read is saved in 8 bits.
 */
static void narrow_activations(const orr_tape *tape, orr_tape_liveness *lives)
{
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if (call->pass != ORR_PASS_FORWARD ||
            orr_op_of((orr_op)call->op)->family != ORR_OP_FAMILY_ACTIVATION)
            continue;
        const orr_value root = orr_tape_root(tape, call->in[0]);
        orr_live_range *in = orr_tape_live_range_of(lives, root);
        const orr_type *type = &tape->values[root].type;
        if (in != NULL && in->first < lives->forward_end && in->last >= lives->forward_end &&
            in->bytes == orr_type_bytes(type) && in->bytes > orr_type_elements(type))
            in->bytes = orr_type_elements(type);
    }
}

/* Is the value, or a slice of it, saved for the backward pass? */
static bool is_read_later(const orr_tape *tape, orr_value value, orr_tape_liveness *lives)
{
    for (orr_value v = value; v < tape->n_values; v++) {
        const orr_live_range *l =
            orr_tape_root(tape, v) == value ? orr_tape_live_range_of(lives, v) : NULL;
        if (l != NULL && l->first < lives->forward_end && l->last >= lives->forward_end)
            return true;
    }
    return false;
}

/* torchtitan's selective_ac_option=op saves outputs of products whether or not they are read. */
static void save_products(const orr_tape *tape, orr_tape_liveness *lives)
{
    for (uint32_t c = 0; c < tape->n_calls && tape->calls[c].pass == ORR_PASS_FORWARD; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if (call->op == ORR_OP_MATMUL && orr_module_saves_by_op(tape, call) &&
            !is_read_later(tape, call->out[0], lives))
            orr_tape_live_range_of(lives, call->out[0])->last = lives->forward_end;
    }
}

/* An activation that is weighed by scores is one kernel, which saves its input and computes the
 * rest again (Megatron-Core, weighted_bias_swiglu_impl()). */
static void fuse_weighed_activations(const orr_tape *tape, orr_tape_liveness *lives)
{
    for (uint32_t c = 0; c < tape->n_calls && tape->calls[c].pass == ORR_PASS_FORWARD; c++) {
        const orr_tape_call *call = &tape->calls[c];
        const uint32_t made = call->op == ORR_OP_MUL ? tape->values[call->in[0]].made_by : ORR_NONE;
        if (made == ORR_NONE ||
            orr_op_of((orr_op)tape->calls[made].op)->family != ORR_OP_FAMILY_ACTIVATION)
            continue;
        orr_live_range *in = orr_tape_live_range_of(lives, call->in[0]);
        if (in != NULL && in->last >= lives->forward_end)
            in->last = orr_tape_live_range_of(lives, call->out[0])->first;
    }
}

/* Is the loss one kernel that overwrites the logits? */
static bool fuses_loss(const orr_plan *plan)
{
    return plan->cross_entropy_loss_fusion == ORR_SWITCH_UNKNOWN
               ? plan->fusion != ORR_SWITCH_OFF
               : plan->cross_entropy_loss_fusion == ORR_SWITCH_ON;
}

uint32_t orr_memory_adjust_lifetimes(const orr_tape *tape, const orr_plan *plan,
                                     orr_tape_liveness *lives, orr_live_range *ret)
{
    merge_blocks(tape, lives);
    if (plan->fusion != ORR_SWITCH_OFF)
        fuse_weighed_activations(tape, lives);
    if (plan->activation_func_fp8_input_store == ORR_SWITCH_ON)
        narrow_activations(tape, lives);
    if (plan->recompute == ORR_RECOMPUTE_OP)
        save_products(tape, lives);
    return treat_losses(tape, fuses_loss(plan), lives, ret);
}
