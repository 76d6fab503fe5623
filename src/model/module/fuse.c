/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/calibration.h>

#include "model/module/lower.h"

/* Kernel fusion: which calls of a tape run as one kernel. Two rules. Epilogue: a bias is added
 * in the matrix product before it (cuBLASLt). Chain: consecutive elementwise calls are one pass
 * over memory that reads the inputs from outside and writes the outputs that others read
 * (Megatron-LM's fused bias, dropout and residual; Transformer Engine's casts after norms and
 * activations). Sums of gradients stay kernels of their own, as autograd runs them. */

typedef struct uses {
    uint32_t n; /* calls of the pass that makes the value which read it */
    bool after; /* a later pass reads it too */
} uses;

static bool is_elementwise(const orr_tape_call *call)
{
    if (call->op == ORR_OP_ADD && call->pass != ORR_PASS_FORWARD &&
        call->pass != ORR_PASS_RECOMPUTE)
        return false;
    switch (call->op) {
    case ORR_OP_ADD:
    case ORR_OP_MUL:
    case ORR_OP_SCALE:
    case ORR_OP_BIAS:
    case ORR_OP_DROPOUT:
    case ORR_OP_GELU:
    case ORR_OP_RELU:
    case ORR_OP_SILU:
    case ORR_OP_SIGMOID:
    case ORR_OP_SWIGLU:
    case ORR_OP_SWIGLU_BACKWARD:
    case ORR_OP_ACTIVATION_BACKWARD:
    case ORR_OP_CAST:
        return true;
    default:
        return false;
    }
}

/* May `next`, which reads the output of `call`, run in its kernel? */
static bool goes_on(const orr_tape_call *call, const orr_tape_call *next, bool epilogue)
{
    if (call->pass != next->pass)
        return false;
    if (next->op == ORR_OP_QUANTIZE)
        return is_elementwise(call) || call->op == ORR_OP_RMS_NORM || call->op == ORR_OP_LAYER_NORM;
    return is_elementwise(call) && is_elementwise(next) && !epilogue;
}

static bool is_epilogue(const orr_tape *tape, const orr_tape_call *call)
{
    const uint32_t maker = tape->values[call->in[0]].made_by;
    return call->op == ORR_OP_BIAS && maker != ORR_NONE && tape->calls[maker].op == ORR_OP_MATMUL &&
           tape->calls[maker].pass == call->pass;
}

static void count_uses(const orr_tape *tape, uses *of)
{
    for (uint32_t c = 0; c < tape->n_calls; c++)
        for (uint32_t i = 0; i < tape->calls[c].n_in; i++) {
            const orr_value v = tape->calls[c].in[i];
            const uint32_t maker = tape->values[v].made_by;
            if (maker != ORR_NONE && tape->calls[maker].pass != tape->calls[c].pass)
                of[v].after = true;
            else
                of[v].n++;
        }
}

/* Are the outputs of the call read by `next` alone, within this pass? */
static bool is_for_next(const orr_tape_call *call, const uses *of)
{
    for (uint32_t i = 0; i < call->n_out; i++)
        if (of[call->out[i]].n != (i == 0))
            return false;
    return true;
}

/* Finds chains. `kernel`: by call, the last call of its chain. */
static void find_chains(const orr_tape *tape, const uses *of, uint32_t *kernel)
{
    for (uint32_t c = 0; c < tape->n_calls; c++)
        kernel[c] = c;
    for (uint32_t c = tape->n_calls; c-- > 0;) {
        const orr_tape_call *next = &tape->calls[c];
        for (uint32_t i = 0; i < next->n_in; i++) {
            const uint32_t maker = tape->values[next->in[i]].made_by;
            if (maker == ORR_NONE || next->in[i] != tape->calls[maker].out[0])
                continue;
            const orr_tape_call *call = &tape->calls[maker];
            if (goes_on(call, next, is_epilogue(tape, call)) && is_for_next(call, of))
                kernel[maker] = kernel[c];
        }
    }
}

static bool reads_before(const orr_tape *tape, const uint32_t *kernel, uint32_t last, uint32_t c,
                         orr_value value)
{
    for (uint32_t k = 0; k < c; k++)
        for (uint32_t i = 0; kernel[k] == last && i < tape->calls[k].n_in; i++)
            if (tape->calls[k].in[i] == value)
                return true;
    return false;
}

/* Adds call c to the cost of its chain's kernel: inputs from outside count once, and outputs
 * that others read. */
static void add_call(const orr_tape *tape, const uint32_t *kernel, const uses *of, uint32_t c,
                     orr_module_kernel *ret)
{
    const orr_tape_call *call = &tape->calls[c];
    const uint32_t last = kernel[c];
    orr_op_work work;
    orr_tape_work(tape, c, &work);
    ret->flops += work.flops;
    for (uint32_t i = 0; i < call->n_in; i++) {
        const orr_tape_value *value = &tape->values[call->in[i]];
        const bool within = value->made_by != ORR_NONE && kernel[value->made_by] == last;
        if (!within && !reads_before(tape, kernel, last, c, call->in[i]))
            ret->read_bytes += (double)orr_type_bytes(&value->type);
    }
    for (uint32_t i = 0; i < call->n_out; i++)
        if (c == last || i > 0 || of[call->out[i]].after)
            ret->write_bytes += (double)orr_type_bytes(&tape->values[call->out[i]].type);
}

static void fill_kernels(const orr_tape *tape, const uint32_t *kernel, const uses *of,
                         orr_module_kernel *ret)
{
    for (uint32_t c = 0; c < tape->n_calls; c++)
        if (kernel[c] != c) {
            ret[c].part = true;
            ret[kernel[c]].chain = true;
        }
    for (uint32_t c = 0; c < tape->n_calls; c++)
        if (ret[kernel[c]].chain)
            add_call(tape, kernel, of, c, &ret[kernel[c]]);
    for (uint32_t c = 0; c < tape->n_calls; c++)
        ret[c].part |= !ret[c].chain && is_epilogue(tape, &tape->calls[c]);
}

orr_status orr_module_fuse(orr_module *module, orr_arena *arena, orr_error *err)
{
    const orr_tape *tape = module->tape;
    orr_module_kernel *kernels = orr_arena_array(arena, orr_module_kernel, tape->n_calls);
    uint32_t *kernel = orr_arena_array(arena, uint32_t, tape->n_calls);
    uses *of = orr_arena_array(arena, uses, tape->n_values);
    if (kernels == NULL || kernel == NULL || of == NULL)
        return orr_fail_memory(err);
    count_uses(tape, of);
    if (module->out != ORR_NONE)
        of[module->out].after = true;
    find_chains(tape, of, kernel);
    fill_kernels(tape, kernel, of, kernels);
    module->kernels = kernels;
    return ORR_OK;
}

bool orr_module_work(const orr_module *module, uint32_t call, orr_work *ret)
{
    const orr_module_kernel *kernel = module->kernels == NULL ? NULL : &module->kernels[call];
    if (kernel != NULL && kernel->part)
        return false;
    orr_work_of_call(module->tape, call, ret);
    if (kernel != NULL && kernel->chain) {
        ret->flops = kernel->flops;
        ret->read_bytes = kernel->read_bytes;
        ret->write_bytes = kernel->write_bytes;
    }
    return true;
}
