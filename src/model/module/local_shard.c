/* SPDX-License-Identifier: Apache-2.0 */
#include "model/module/local_shard.h"

/* Local shards: the index ranges of a whole tensor that one rank holds. Most dims are cut into
 * equal contiguous slices; packed dims are several pieces. Where there are more slices than
 * key-value heads, slices hold copies of the same head, and the gradient of such a piece is a
 * partial sum over its copies. */

uint32_t orr_module_slice_index(const orr_module *module, const orr_plan *plan, uint32_t rank,
                                orr_axis_set slices, uint32_t *ret_n)
{
    uint32_t index = 0, n = 1;
    for (int axis = 0; axis < ORR_AXES; axis++)
        if (slices & orr_axis_bit((orr_axis)axis)) {
            index += n * orr_plan_member(plan, (orr_axis)axis, rank);
            n *= module->members[axis];
        }
    if (ret_n != NULL)
        *ret_n = n;
    return index;
}

/* The value whose gradient it is; else the value itself. */
static orr_value held_of(const orr_module *module, orr_value value)
{
    if (value == module->grad_out && value != ORR_NONE)
        return module->out;
    if (value == module->grad_in && value != ORR_NONE)
        return module->in;
    if (value == module->loss_seed && value != ORR_NONE)
        return module->loss;
    const orr_tape_value *v = &module->tape->values[value];
    return v->role == ORR_VALUE_PARAMETER_GRADIENT ? v->of : value;
}

static const orr_value_placement *find(const orr_module *module, orr_value value)
{
    const orr_value held = held_of(module, value);
    for (uint32_t i = 0; i < module->n_holdings; i++)
        if (module->holdings[i].value == held)
            return &module->holdings[i];
    return NULL;
}

static void add(orr_dim_pieces *share, int64_t whole, int64_t own, int64_t count, uint32_t copies)
{
    if (count <= 0)
        return;
    share->piece[share->n].whole = whole;
    share->piece[share->n].own = own;
    share->piece[share->n].count = count;
    share->piece[share->n++].copies = copies;
}

/* Adds one slice of each of the tensors that are packed side by side. */
static void add_joined(orr_dim_pieces *share, uint32_t tensors, int64_t whole, int64_t own,
                       uint32_t slice)
{
    const int64_t all = whole / tensors, each = own / tensors;
    for (uint32_t i = 0; i < tensors; i++)
        add(share, i * all + slice * each, i * each, each, 1);
}

/* Adds the slice's part of the columns that a group of heads distributes, and the columns that
 * all slices of the group share. */
static void add_copied(orr_dim_pieces *share, const orr_packed_dim *form, uint32_t slice)
{
    const int64_t part = form->lead / form->copies;
    const int64_t first = slice / form->copies * (form->lead + form->shared);
    add(share, first + slice % form->copies * part, 0, part, 1);
    add(share, first + form->lead, part, form->shared, form->copies);
}

static orr_dim_pieces share_of(const orr_value_placement *h, uint32_t dim, int64_t own,
                               uint32_t slice)
{
    orr_dim_pieces share = {0};
    const bool special = h->form.dim == dim;
    const int64_t whole = h->whole.dim[dim], first = slice * own;
    if (special && h->form.copies > 1)
        add_copied(&share, &h->form, slice);
    else if (special && h->form.joined > 1)
        add_joined(&share, h->form.joined, whole, own, slice);
    else
        add(&share, first, 0, own < whole - first ? own : whole - first, 1);
    return share;
}

orr_status orr_module_local_shard(const orr_module *module, const orr_plan *plan, uint32_t rank,
                                  orr_value value, orr_local_shard *ret, orr_error *err)
{
    const orr_value_placement *h = value < module->tape->n_values ? find(module, value) : NULL;
    if (h == NULL)
        return orr_fail(err, ORR_INVALID, "%s: how value %u lies on ranks is not known",
                        module->name, value);
    const orr_type *own = &module->tape->values[value].type;
    orr_local_shard o = {.whole = h->whole, .slices = orr_layout_axes(&h->layout)};
    o.whole.dtype = own->dtype;
    o.copied = h->form.copies > 1;
    for (uint32_t dim = 0; dim < own->rank; dim++)
        o.by[dim] = share_of(h, dim, own->dim[dim],
                             orr_module_slice_index(module, plan, rank, h->layout.by[dim], NULL));
    *ret = o;
    return ORR_OK;
}
