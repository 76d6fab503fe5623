/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding rules of operators that rearrange: views, transpositions, concatenations and slices. */
#include "model/shard/pass.h"

/* Divides the shape among the call's arguments as the output is sharded. */
static orr_status cut_shape(orr_shard_site *site, const orr_layout *layout, orr_error *err)
{
    site->shape = *site->call->args.shape;
    for (uint32_t dim = 0; dim < site->shape.rank; dim++) {
        const int64_t parts = orr_shard_parts(site->pass->how, layout->by[dim]);
        if (site->shape.dim[dim] % parts != 0)
            return orr_fail(err, ORR_INVALID, "%s: %lld does not divide into %lld parts",
                            orr_shard_name(site), (long long)site->shape.dim[dim],
                            (long long)parts);
        site->shape.dim[dim] /= parts;
    }
    site->args.shape = &site->shape;
    return ORR_OK;
}

/* Dims from `first` on that become a block of dims with the same product on the other side. */
typedef struct block {
    uint32_t first, end;
} block;

static void next_blocks(const orr_type *in, const orr_type *out, block *a, block *b)
{
    int64_t products[2] = {1, 1};
    a->first = a->end;
    b->first = b->end;
    do {
        const bool left = (products[0] <= products[1] && a->end < in->rank) || b->end == out->rank;
        if (left)
            products[0] *= in->dim[a->end++];
        else
            products[1] *= out->dim[b->end++];
    } while (products[0] != products[1] && (a->end < in->rank || b->end < out->rank));
    while (a->end < in->rank && in->dim[a->end] == 1)
        a->end++;
    while (b->end < out->rank && out->dim[b->end] == 1)
        b->end++;
}

static uint32_t outermost(const orr_type *type, const block *dims)
{
    uint32_t dim = dims->first;
    while (dim + 1 < dims->end && type->dim[dim] == 1)
        dim++;
    return dim;
}

/* The axes that shard a block of dims shard the outermost dim of those that replace it. */
static orr_status view(orr_shard_site *site, orr_error *err)
{
    const orr_type *in = orr_shard_in(site, 0), *out = orr_shard_out(site, 0);
    orr_layout *give = &site->out_layout[0];
    const orr_value value = site->call->out[0];
    give->partial = site->in_layout[0].partial;
    give->routed = site->in_layout[0].routed;
    block a = {0, 0}, b = {0, 0};
    while (a.end < in->rank || b.end < out->rank) {
        next_blocks(in, out, &a, &b);
        orr_axis_set by = 0;
        for (uint32_t dim = a.first; dim < a.end; dim++)
            by |= site->in_layout[0].by[dim];
        if (b.end > b.first)
            give->by[outermost(out, &b)] |= by;
    }
    const orr_layout *fixed = &site->pass->layouts->of[value];
    if (site->pass->layouts->fixed[value] && orr_layout_axes(fixed) == orr_layout_axes(give))
        *give = *fixed;
    return cut_shape(site, give, err);
}

static orr_status transpose(orr_shard_site *site)
{
    const int32_t a = site->call->args.dim, b = site->call->args.to_dim;
    site->out_layout[0] = site->in_layout[0];
    site->out_layout[0].by[a] = site->in_layout[0].by[b];
    site->out_layout[0].by[b] = site->in_layout[0].by[a];
    return ORR_OK;
}

/* Parts have the layout of the whole: each rank has its slice of each part. */
static orr_status split(orr_shard_site *site, orr_error *err)
{
    const uint32_t dim = (uint32_t)site->call->args.dim;
    site->in_layout[0].partial = 0;
    for (uint32_t i = 0; i < site->call->n_out; i++)
        site->out_layout[i] = site->in_layout[0];
    const int64_t parts = orr_shard_parts(site->pass->how, site->in_layout[0].by[dim]);
    site->shape = *site->call->args.shape;
    for (uint32_t i = 0; i < site->shape.rank; i++) {
        if (site->shape.dim[i] % parts != 0)
            return orr_fail(err, ORR_INVALID, "%s: a part of %lld does not divide into %lld",
                            orr_shard_name(site), (long long)site->shape.dim[i], (long long)parts);
        site->shape.dim[i] /= parts;
    }
    site->args.shape = &site->shape;
    return ORR_OK;
}

static uint32_t axes_of(const orr_layout *layout)
{
    return (uint32_t)__builtin_popcount(orr_layout_axes(layout));
}

/* Concatenation along a dim that is whole in all inputs; other dims as in the most sharded
 * input. */
static orr_status concat(orr_shard_site *site)
{
    uint32_t lead = 0;
    for (uint32_t i = 1; i < site->call->n_in; i++)
        if (axes_of(&site->in_layout[i]) > axes_of(&site->in_layout[lead]))
            lead = i;
    orr_layout layout = site->in_layout[lead];
    layout.partial = 0;
    for (uint32_t i = 0; i < site->call->n_in; i++)
        site->in_layout[i] = layout;
    site->out_layout[0] = layout;
    return ORR_OK;
}

/* A slice of a dim, or padding of it: the dim has to be whole. */
static orr_status along_dim(orr_shard_site *site)
{
    site->in_layout[0].partial = 0;
    site->in_layout[0].by[site->call->args.dim] = 0;
    site->out_layout[0] = site->in_layout[0];
    return ORR_OK;
}

/* A new dim before `dim`. Where the output is sharded along it, each rank expands to its slice
 * only. */
static orr_status expand(orr_shard_site *site)
{
    const uint32_t dim = (uint32_t)site->call->args.dim;
    const orr_value value = site->call->out[0];
    const orr_axis_set cut =
        site->pass->layouts->fixed[value] ? site->pass->layouts->of[value].by[dim] : 0;
    orr_layout *x = &site->in_layout[0];
    for (uint32_t i = 0; i < ORR_TYPE_DIMS; i++)
        x->by[i] &= (orr_axis_set)~cut;
    site->out_layout[0] = *x;
    for (uint32_t i = ORR_TYPE_DIMS - 1; i > dim; i--)
        site->out_layout[0].by[i] = site->out_layout[0].by[i - 1];
    site->out_layout[0].by[dim] = cut;
    site->args.count /= orr_shard_parts(site->pass->how, cut);
    return ORR_OK;
}

/* Values written into a cache get the layout of the cache. */
static orr_status cache(orr_shard_site *site)
{
    site->in_layout[1] = site->out_layout[0] = site->in_layout[0];
    return ORR_OK;
}

/* A constant has no inputs: it is made in the layout that its writer gave it. */
static orr_status fill(orr_shard_site *site, orr_error *err)
{
    const orr_layouts *layouts = site->pass->layouts;
    const orr_value value = site->call->out[0];
    if (layouts->fixed[value])
        site->out_layout[0] = layouts->of[value];
    return cut_shape(site, &site->out_layout[0], err);
}

orr_status orr_shard_view_rule(orr_shard_site *site, orr_error *err)
{
    switch (site->call->op) {
    case ORR_OP_FILL:
        return fill(site, err);
    case ORR_OP_VIEW:
        return view(site, err);
    case ORR_OP_TRANSPOSE:
        return transpose(site);
    case ORR_OP_SPLIT:
        return split(site, err);
    case ORR_OP_CONCAT:
        return concat(site);
    case ORR_OP_EXPAND:
        return expand(site);
    case ORR_OP_CACHE:
        return cache(site);
    default:
        return along_dim(site);
    }
}
