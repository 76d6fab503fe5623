/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/run/program_state.h"

/* NaN and infinity checks on the outputs of a call. Used to find the first call that made one: it
 * reads all outputs again, so normal runs go without. */

/* `exponent` and `fraction`: masks of the bits of a format; a number is not finite when all
 * exponent bits are set. */
static bool is_nonfinite(uint64_t bits, uint64_t exponent, uint64_t fraction, bool lowest_allowed,
                         bool *ret_nan)
{
    if ((bits & exponent) != exponent)
        return false;
    *ret_nan = (bits & fraction) != 0;
    const bool negative = (bits & (exponent | fraction)) != bits;
    return !(lowest_allowed && !*ret_nan && negative);
}

static bool nonfinite_at(const char *at, uint8_t dtype, bool lowest_allowed, bool *ret_nan)
{
    uint64_t wide;
    uint32_t bits;
    uint16_t half;
    switch (dtype) {
    case ORR_DTYPE_FP64:
        memcpy(&wide, at, sizeof wide);
        return is_nonfinite(wide, UINT64_C(0x7ff) << 52, (UINT64_C(1) << 52) - 1, lowest_allowed,
                            ret_nan);
    case ORR_DTYPE_FP32:
    case ORR_DTYPE_TF32:
        memcpy(&bits, at, sizeof bits);
        return is_nonfinite(bits, 0x7f800000, 0x7fffff, lowest_allowed, ret_nan);
    case ORR_DTYPE_BF16:
        memcpy(&half, at, sizeof half);
        return is_nonfinite(half, 0x7f80, 0x7f, lowest_allowed, ret_nan);
    case ORR_DTYPE_FP16:
        memcpy(&half, at, sizeof half);
        return is_nonfinite(half, 0x7c00, 0x3ff, lowest_allowed, ret_nan);
    default:
        return false;
    }
}

static bool is_looked_at(uint8_t dtype)
{
    return dtype == ORR_DTYPE_FP64 || dtype == ORR_DTYPE_FP32 || dtype == ORR_DTYPE_TF32 ||
           dtype == ORR_DTYPE_BF16 || dtype == ORR_DTYPE_FP16;
}

static bool find_nonfinite(const orr_operand *o, bool lowest_allowed, bool *ret_nan)
{
    const int64_t bytes = orr_element_bits(o->type.dtype) / 8, n = orr_type_elements(&o->type);
    int64_t at[ORR_TYPE_DIMS] = {0}, offset = 0;
    if (o->data == NULL || !is_looked_at(o->type.dtype))
        return false;
    for (int64_t i = 0; i < n; i++) {
        if (nonfinite_at((const char *)o->data + offset * bytes, o->type.dtype, lowest_allowed,
                         ret_nan))
            return true;
        for (int d = o->type.rank - 1; d >= 0; d--) {
            offset += o->stride[d];
            if (++at[d] < o->type.dim[d])
                break;
            offset -= at[d] * o->stride[d];
            at[d] = 0;
        }
    }
    return false;
}

/* "layer 3 / mlp_norm" is reported as "mlp_norm of layer 3". */
static orr_status report(const orr_program *p, uint32_t call, bool nan, orr_error *err)
{
    const char *label = orr_program_label(p, call), *what = nan ? "NaN" : "an infinity";
    const char *cut = strstr(label, " / ");
    if (cut == NULL)
        return orr_fail(err, ORR_INVALID, "%s made %s", label, what);
    return orr_fail(err, ORR_INVALID, "%s of %.*s made %s", cut + 3, (int)(cut - label), label,
                    what);
}

orr_status orr_program_check_finite(const orr_program *p, uint32_t call, orr_error *err)
{
    const orr_action *action = &p->actions[call];
    const orr_tape_call *of = &p->tape->calls[call];
    const orr_operand *in = &p->operands[action->operands], *out = in + action->n_in;
    const bool updates = orr_op_of((orr_op)of->op)->family == ORR_OP_FAMILY_OPTIMIZER;
    bool nan = false;
    if (p->device || action->kind == ORR_ACTION_NONE || action->kind == ORR_ACTION_EMULATE ||
        action->kind == ORR_ACTION_HOOK) /* whose outputs need not be where they are bound */
        return ORR_OK;
    if (updates && action->n_in > 0 && find_nonfinite(&in[0], false, &nan))
        return report(p, call, nan, err);
    for (uint32_t k = 0; k < action->n_out; k++)
        /* The log-sum-exp of a query that attends to no key is minus infinity by definition. */
        if (find_nonfinite(&out[k], k == 1, &nan))
            return report(p, call, nan, err);
    return ORR_OK;
}
