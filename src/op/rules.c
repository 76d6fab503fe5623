/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for the gradient and work rules of the families. */
#include "op/rules.h"

void orr_op_work_stream(const orr_op_signature *sig, double flops, orr_op_work *ret)
{
    orr_dtype dtype = sig->n_in > 0 ? sig->in[0].dtype : sig->out[0].dtype;
    ret->flops = flops;
    for (uint32_t k = 0; k < sig->n_in; k++) {
        dtype = orr_dtype_wider(dtype, sig->in[k].dtype);
        ret->read_bytes += (double)orr_type_bytes(&sig->in[k]);
    }
    for (uint32_t k = 0; k < sig->n_out; k++)
        ret->write_bytes += (double)orr_type_bytes(&sig->out[k]);
    ret->dtype = (uint8_t)dtype;
}

orr_status orr_gradient_call(orr_gradient *g, orr_op op, const orr_op_args *args,
                             const orr_value *in, uint32_t n_in, orr_value *ret_out, orr_error *err)
{
    return orr_tape_call_op(g->tape, op, args, in, n_in, g->name, ret_out, err);
}

orr_status orr_gradient_view(orr_gradient *g, orr_value value, const orr_type *like, orr_value *ret,
                             orr_error *err)
{
    *ret = value;
    if (orr_type_same_dims(orr_gradient_type(g, value), like))
        return ORR_OK;
    const orr_op_args args = {.shape = like};
    return orr_gradient_call(g, ORR_OP_VIEW, &args, &value, 1, ret, err);
}

orr_status orr_gradient_sum(orr_gradient *g, orr_value value, uint32_t keep, orr_value *ret,
                            orr_error *err)
{
    *ret = value;
    const uint32_t rank = orr_gradient_type(g, value)->rank;
    if (rank <= keep)
        return ORR_OK;
    const orr_op_args args = {.dim = 0, .count = rank - keep};
    return orr_gradient_call(g, ORR_OP_SUM, &args, &value, 1, ret, err);
}

orr_status orr_gradient_identity(orr_gradient *g, orr_error *err)
{
    (void)err;
    g->ret_in[0] = g->grad_out[0];
    return ORR_OK;
}
