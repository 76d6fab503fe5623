/* SPDX-License-Identifier: Apache-2.0 */
#include "model/module/lower.h"

#include <string.h>

#include "op/tape/tape.h"

/* Values that are not saved for the backward pass but recomputed: some under every plan, some with
 * recomputation of parts of a layer.
 *
 * Under every plan: gathered slices of the sequence, and keys and values of other slices of the
 * context. They are gathered again, so that a rank saves its own slice only (Korthikanti et al.,
 * arXiv 2205.05198, section 4.2.2; Megatron-LM's context parallelism). Parts of a layer: those of
 * Megatron-Core's --recompute-modules (megatron/core/transformer/transformer_config.py), or what
 * torchtitan's selective_ac_option=op does not save (torchtitan/distributed/activation_checkpoint).
 * Whatever is computed from such a part alone, as its copy in fp8, is not saved either
 * (Megatron-Core, set_save_original_input()). */

/* Is the value an input of a merge of partial attention results? */
static bool is_merged(const orr_tape *tape, orr_value value)
{
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if (call->op == ORR_OP_ATTENTION_MERGE && (call->in[0] == value || call->in[2] == value))
            return true;
    }
    return false;
}

static bool is_named(const orr_tape_call *call, const char *name)
{
    return strcmp(call->name, name) == 0;
}

static bool is_one_of(const orr_tape_call *call, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_named(call, names[i]))
            return true;
    return false;
}
#define IS_ONE_OF(call, ...)                                                                       \
    is_one_of((call), (const char *const[]){__VA_ARGS__},                                          \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* The core of attention: what it saves for its own backward pass (probabilities, dropped or not,
 * and with flash attention the logsumexp). Its output is saved, since the layer after it saves its
 * input anyway. */
static bool is_core(const orr_tape *tape, const orr_tape_call *call, orr_value value)
{
    return (call->op == ORR_OP_ATTENTION || call->op == ORR_OP_ATTENTION_MERGE) &&
           (value != call->out[0] || is_merged(tape, value));
}

static const orr_tape_call *maker_of(const orr_tape *tape, orr_value value)
{
    const uint32_t call = tape->values[orr_tape_root(tape, value)].made_by;
    return call == ORR_NONE ? NULL : &tape->calls[call];
}

static bool is_activation(const orr_tape_call *call)
{
    return IS_ONE_OF(call, "swiglu", "gelu", "silu", "gate");
}

/* Is the value of the experts' activation? Not where a dense product leads to it. */
static bool is_of_experts(const orr_tape *tape, const orr_tape_call *call)
{
    while (call != NULL && call->op != ORR_OP_GROUPED_MATMUL && call->op != ORR_OP_MATMUL)
        call = maker_of(tape, call->in[0]);
    return call != NULL && call->op == ORR_OP_GROUPED_MATMUL;
}

static bool is_in(const orr_tape *tape, const orr_tape_call *call, orr_value value,
                  orr_recompute_module module)
{
    switch (module) {
    case ORR_RECOMPUTE_MODULE_core_attn:
        return is_core(tape, call, value);
    case ORR_RECOMPUTE_MODULE_layernorm:
        return IS_ONE_OF(call, "attention_norm", "mlp_norm");
    case ORR_RECOMPUTE_MODULE_mlp_act:
        return is_activation(call) && !is_of_experts(tape, call);
    case ORR_RECOMPUTE_MODULE_moe_act:
        return is_activation(call) && is_of_experts(tape, call);
    case ORR_RECOMPUTE_MODULE_mla_up_proj:
        return IS_ONE_OF(call, "q_up", "kv_up", "q", "k", "q_rope", "k_rope");
    case ORR_RECOMPUTE_MODULE_mlp:
        return IS_ONE_OF(call, "gate_up", "up") ||
               (is_activation(call) && !is_of_experts(tape, call));
    default:
        return IS_ONE_OF(call, "dispatch", "expert_gate_up", "expert_down") ||
               (is_activation(call) && is_of_experts(tape, call));
    }
}

/* torchtitan saves outputs of attention, of reduce-scatters, and of the first, third, ... product
 * of a layer. Here q, k and v are one product: k is saved as well. */
bool orr_module_saves_by_op(const orr_tape *tape, const orr_tape_call *call)
{
    uint32_t n = 0;
    if (call->op == ORR_OP_ATTENTION || call->op == ORR_OP_ATTENTION_MERGE ||
        call->op == ORR_OP_REDUCE_SCATTER)
        return true;
    for (const orr_tape_call *c = tape->calls; c <= call; c++)
        n += c->op == ORR_OP_MATMUL;
    return call->op == ORR_OP_MATMUL && n % 2 == 1;
}

static bool is_in_any(const orr_tape *tape, const orr_tape_call *call, orr_value value,
                      uint32_t modules)
{
    for (uint32_t i = 0; i < ORR_RECOMPUTE_MODULES; i++)
        if (modules >> i & 1 && is_in(tape, call, value, (orr_recompute_module)i))
            return true;
    return false;
}

bool orr_module_drops(void *plan_, const orr_tape *tape, orr_value value)
{
    const orr_plan *plan = plan_;
    const orr_tape_call *call = &tape->calls[tape->values[value].made_by];
    const bool slices = call->args.axis == ORR_AXIS_TP || call->args.axis == ORR_AXIS_CP;
    if (call->op == ORR_OP_ALL_GATHER || call->op == ORR_OP_SEND)
        return slices;
    switch (plan->recompute) {
    case ORR_RECOMPUTE_SELECTIVE:
        return is_core(tape, call, value);
    case ORR_RECOMPUTE_OP:
        return !orr_module_saves_by_op(tape, call);
    case ORR_RECOMPUTE_SOME:
        while (call != NULL && call->op == ORR_OP_QUANTIZE) {
            value = orr_tape_root(tape, call->in[0]);
            call = maker_of(tape, value);
        }
        return call != NULL && is_in_any(tape, call, value, plan->recompute_modules);
    default:
        return false;
    }
}
