/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/shard/pass.h"

/* Redistribution of a value between layouts (GSPMD, arXiv 2105.04663; DTensor's `redistribute`),
 * axis by axis. Along one axis a value is sharded at a dim (>= 0), or has one of these
 * placements; ROUTED is dim 0 sharded by expert instead of by token. */
enum { WHOLE = -1, PARTIAL = -2, ROUTED = ORR_TYPE_DIMS };

static int place_of(const orr_layout *layout, orr_axis_set axis)
{
    if (layout->partial & axis)
        return PARTIAL;
    if (layout->routed & axis)
        return ROUTED;
    for (int dim = 0; dim < ORR_TYPE_DIMS; dim++)
        if (layout->by[dim] & axis)
            return dim;
    return WHOLE;
}

static void put(orr_layout *layout, orr_axis_set axis, int place)
{
    layout->partial &= (orr_axis_set)~axis;
    layout->routed &= (orr_axis_set)~axis;
    for (int dim = 0; dim < ORR_TYPE_DIMS; dim++)
        layout->by[dim] &= (orr_axis_set)~axis;
    if (place == PARTIAL)
        layout->partial |= axis;
    else if (place == ROUTED)
        layout->routed |= layout->by[0] |= axis;
    else if (place != WHOLE)
        layout->by[place] |= axis;
}

int64_t orr_shard_parts(const orr_sharding *how, orr_axis_set set)
{
    int64_t parts = 1;
    for (int axis = 0; axis < ORR_AXES; axis++)
        if (set & orr_axis_bit((orr_axis)axis))
            parts *= how->members[axis];
    return parts;
}

orr_status orr_shard_collective(orr_shard_pass *pass, orr_op op, orr_axis axis, int32_t dim,
                                int32_t to_dim, bool overlap, const char *name, orr_value in,
                                orr_value *ret)
{
    const orr_op_args args = {.dim = dim,
                              .to_dim = to_dim,
                              .axis = (uint8_t)axis,
                              .members = pass->how->members[axis],
                              .overlap = overlap};
    return orr_tape_call_op(pass->rank, op, &args, &in, 1, name, ret, pass->err);
}

/* Kinds of transitions, in the order in which they are done. Sums first, because a
 * reduce-scatter leaves less to move; then all-to-alls, so that tokens go to their experts
 * before the slices of an expert share them; then all-gathers; local cuts last. */
enum { SUM, EXCHANGE, GATHER, CUT, KINDS };
static int kind_of(int from, int to)
{
    if (from == PARTIAL)
        return SUM;
    if (to == WHOLE)
        return GATHER;
    return from == WHOLE ? CUT : EXCHANGE;
}

static orr_status step(orr_shard_pass *pass, orr_axis axis, int from, int to, const char *name,
                       orr_value *value)
{
    static const uint8_t op_of[KINDS] = {ORR_OP_REDUCE_SCATTER, ORR_OP_ALL_TO_ALL,
                                         ORR_OP_ALL_GATHER, ORR_OP_SHARD};
    const int kind = kind_of(from, to);
    const orr_op op = from == PARTIAL && to == WHOLE ? ORR_OP_ALL_REDUCE : (orr_op)op_of[kind];
    from = from == ROUTED ? 0 : from;
    const int dim = kind == GATHER ? from : to == WHOLE || to == ROUTED ? 0 : to;
    const bool overlap = (pass->how->overlapped & orr_axis_bit(axis)) != 0;
    return orr_shard_collective(pass, op, axis, dim, kind == EXCHANGE ? from : 0, overlap, name,
                                *value, value);
}

orr_status orr_shard_redistribute_local(orr_shard_pass *pass, orr_value local, orr_layout from,
                                        const orr_layout *want, orr_axis_set replicated,
                                        const char *name, orr_value *ret)
{
    orr_axis_set gathered = 0;
    for (int kind = SUM; kind < KINDS; kind++)
        for (int axis = 0; axis < ORR_AXES; axis++) {
            const orr_axis_set bit = orr_axis_bit((orr_axis)axis);
            const int is = place_of(&from, bit), shall = place_of(want, bit);
            if (is == shall || kind_of(is, shall) != kind)
                continue;
            if (shall == PARTIAL)
                return orr_fail(pass->err, ORR_UNSUPPORTED, "%s: a term of a sum over %s is wanted",
                                name, orr_axis_name((orr_axis)axis));
            if (kind == GATHER && pass->how->backward && !(replicated & bit))
                return orr_fail(pass->err, ORR_UNSUPPORTED,
                                "%s: slices along %s would be gathered for what all members then "
                                "compute alike; sp=on keeps them apart",
                                name, orr_axis_name((orr_axis)axis));
            gathered |= kind == GATHER ? bit : 0;
            ORR_TRY(step(pass, (orr_axis)axis, is, shall, name, &local));
            put(&from, bit, shall);
        }
    /* A whole value that meets slices: identity in the forward pass, all-reduce of the gradient
     * in the backward pass (Megatron-LM's operator f). After an all-gather there is nothing to
     * add: its backward pass is a reduce-scatter, which sums already. */
    for (int axis = 0; axis < ORR_AXES && pass->how->backward; axis++)
        if (replicated & ~gathered & orr_axis_bit((orr_axis)axis))
            ORR_TRY(orr_shard_collective(pass, ORR_OP_REPLICATE, (orr_axis)axis, 0, 0, false, name,
                                         local, &local));
    *ret = local;
    return ORR_OK;
}

static orr_value find(const orr_shard_pass *pass, orr_value value, const orr_layout *want,
                      orr_axis_set replicated)
{
    for (uint32_t i = pass->n_variants; i-- > 0;) {
        const orr_shard_variant *v = &pass->variants[i];
        if (v->of == value && v->replicated == replicated &&
            memcmp(&v->layout, want, sizeof *want) == 0)
            return v->local;
    }
    return ORR_NONE;
}

static orr_status keep(orr_shard_pass *pass, const orr_shard_variant *variant)
{
    if (pass->n_variants == pass->room_variants) {
        const uint32_t room = 2 * pass->room_variants + 32;
        orr_shard_variant *more = orr_arena_array(pass->rank->arena, orr_shard_variant, room);
        if (more == NULL)
            return orr_fail_memory(pass->err);
        if (pass->n_variants > 0)
            memcpy(more, pass->variants, pass->n_variants * sizeof *more);
        pass->variants = more;
        pass->room_variants = room;
    }
    pass->variants[pass->n_variants++] = *variant;
    return ORR_OK;
}

orr_status orr_shard_redistribute(orr_shard_pass *pass, orr_value value, const orr_layout *want,
                                  orr_axis_set replicated, orr_value *ret)
{
    const orr_layout *is = &pass->layouts->of[value];
    if (replicated == 0 && memcmp(is, want, sizeof *is) == 0) {
        *ret = pass->local[value];
        return ORR_OK;
    }
    *ret = find(pass, value, want, replicated);
    if (*ret != ORR_NONE)
        return ORR_OK;
    ORR_TRY(orr_shard_redistribute_local(pass, pass->local[value], *is, want, replicated,
                                         pass->whole->values[value].name, ret));
    return keep(pass, &(orr_shard_variant){
                          .of = value, .local = *ret, .layout = *want, .replicated = replicated});
}
