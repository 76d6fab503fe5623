/* SPDX-License-Identifier: Apache-2.0 */
#include "model/shard/shard.h"

#include "model/shard/pass.h"

/* The sharding pass: walks the calls of a whole tape and writes one rank's tape. For each call:
 * its rule (rules.c), redistribution of its inputs (redistribute.c), the call itself or what it
 * decomposes into (decompose.c), and redistribution of its outputs where their layout is fixed. */

static bool is_number(const orr_type *type)
{
    return type->dtype != ORR_DTYPE_INT32 && type->dtype != ORR_DTYPE_INT64;
}

/* The rank's shard of an input or a parameter: a value that no call makes. */
static orr_status open_value(orr_shard_pass *pass, orr_value value)
{
    const orr_tape_value *whole = &pass->whole->values[value];
    orr_type type = whole->type;
    for (uint32_t dim = 0; dim < type.rank; dim++) {
        const int64_t parts = orr_shard_parts(pass->how, pass->layouts->of[value].by[dim]);
        if (type.dim[dim] % parts != 0)
            return orr_fail(pass->err, ORR_INVALID, "%s: %lld do not divide into %lld slices",
                            whole->name, (long long)type.dim[dim], (long long)parts);
        type.dim[dim] /= parts;
    }
    ORR_TRY(orr_tape_value_new(pass->rank, (orr_value_role)whole->role, &type, whole->name,
                               &pass->local[value], pass->err));
    orr_tape_value *share = &pass->rank->values[pass->local[value]];
    share->frozen = whole->frozen;
    share->tag = whole->tag;
    pass->flows[value] = whole->role == ORR_VALUE_INPUT && is_number(&whole->type);
    return ORR_OK;
}

/* A parameter that is used by slices of the sequence has a gradient that is a partial sum over
 * them. Along TP the parameter is tagged, so that the step reduces it; other axes are reduced
 * with the replicas anyway. */
static void tag_parameter(orr_shard_pass *pass, orr_value value, orr_axis_set axes)
{
    orr_tape_value *share = &pass->rank->values[pass->local[value]];
    if ((axes & orr_axis_bit(ORR_AXIS_TP)) && share->tag == ORR_WEIGHT_DENSE)
        share->tag = ORR_WEIGHT_SLICED;
}

/* Inputs in the layouts that the rule asks for. An input that is whole along an axis and is
 * combined with slices along it has a gradient that is a partial sum over the axis. */
static orr_status bring_inputs(orr_shard_pass *pass, const orr_shard_site *site, orr_value *ret_in)
{
    const orr_tape_call *call = site->call;
    orr_axis_set active = 0;
    for (uint32_t i = 0; i < call->n_in && !site->no_replicate; i++)
        active |= orr_layout_axes(&site->in_layout[i]);
    for (uint32_t i = 0; i < call->n_out && !site->no_replicate; i++)
        active |= orr_layout_axes(&site->out_layout[i]);
    for (uint32_t i = 0; i < call->n_in; i++) {
        const orr_value value = call->in[i];
        const orr_layout *need = &site->in_layout[i];
        orr_axis_set replicated = active & (orr_axis_set) ~(orr_layout_axes(need) | need->partial);
        if (pass->whole->values[value].role == ORR_VALUE_PARAMETER)
            tag_parameter(pass, value, replicated);
        if (!pass->flows[value]) /* no gradient flows back: nothing to sum */
            replicated =
                orr_layout_axes(&pass->layouts->of[value]) & (orr_axis_set)~orr_layout_axes(need);
        ORR_TRY(orr_shard_redistribute(pass, value, need, replicated, &ret_in[i]));
    }
    return ORR_OK;
}

static orr_status record(orr_shard_pass *pass, const orr_shard_site *site, const orr_value *in,
                         orr_value *ret_out)
{
    const orr_tape_call *call = site->call;
    if (call->op == ORR_OP_ATTENTION && site->ring != 0)
        return orr_shard_ring_attention(pass, site, in, ret_out);
    if (call->op == ORR_OP_CROSS_ENTROPY && site->vocabulary != 0)
        return orr_shard_vocabulary_loss(pass, site, in, ret_out);
    return orr_tape_call_op(pass->rank, (orr_op)call->op, &site->args, in, call->n_in, call->name,
                            ret_out, pass->err);
}

/* Outputs in the layout that the operator gives, or that the writer of the tape fixed. */
static orr_status place_outputs(orr_shard_pass *pass, const orr_shard_site *site,
                                const orr_value *made, bool flows)
{
    for (uint32_t i = 0; i < site->call->n_out; i++) {
        const orr_value value = site->call->out[i];
        const orr_tape_value *whole = &pass->whole->values[value];
        pass->local[value] = made[i];
        pass->flows[value] = flows && is_number(&whole->type);
        if (!pass->layouts->fixed[value])
            pass->layouts->of[value] = site->out_layout[i];
        else
            ORR_TRY(orr_shard_redistribute_local(pass, made[i], site->out_layout[i],
                                                 &pass->layouts->of[value], 0, site->call->name,
                                                 &pass->local[value]));
    }
    return ORR_OK;
}

static orr_status shard_call(orr_shard_pass *pass, const orr_tape_call *call)
{
    orr_shard_site site = {.pass = pass, .call = call, .args = call->args};
    orr_value in[ORR_CALL_IN], out[ORR_CALL_OUT];
    bool flows = false;
    for (uint32_t i = 0; i < call->n_in; i++) {
        const orr_tape_value *value = &pass->whole->values[call->in[i]];
        site.in_layout[i] = pass->layouts->of[call->in[i]];
        flows |= pass->flows[call->in[i]] || (value->role == ORR_VALUE_PARAMETER && !value->frozen);
    }
    ORR_TRY(orr_shard_rule(&site, pass->err));
    ORR_TRY(bring_inputs(pass, &site, in));
    ORR_TRY(record(pass, &site, in, out));
    return place_outputs(pass, &site, out, flows);
}

orr_status orr_tape_shard(const orr_tape *whole, orr_layouts *layouts, const orr_sharding *how,
                          orr_tape *rank, orr_value *ret_local, orr_error *err)
{
    orr_shard_pass pass = {.whole = whole,
                           .layouts = layouts,
                           .how = how,
                           .rank = rank,
                           .local = ret_local,
                           .flows = orr_arena_array(rank->arena, bool, whole->n_values),
                           .err = err};
    if (pass.flows == NULL)
        return orr_fail_memory(err);
    for (orr_value v = 0; v < whole->n_values; v++)
        if (whole->values[v].made_by == ORR_NONE)
            ORR_TRY(open_value(&pass, v));
    for (uint32_t c = 0; c < whole->n_calls; c++)
        ORR_TRY(shard_call(&pass, &whole->calls[c]));
    return ORR_OK;
}
