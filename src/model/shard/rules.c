/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding rules of operators: from the layouts of inputs, those that the operator can compute
 * with, and the layout of its output. Where these differ from how values lie, redistribute.c
 * inserts a collective:
 *
 *   from             to                        collective
 *   partial sum      whole / sharded           all-reduce / reduce-scatter
 *   sharded          whole / another dim       all-gather / all-to-all
 *   whole            sharded                   none: each rank cuts its slice
 *   whole            whole, beside slices      replicate: identity, all-reduce of the gradient
 *
 * Tensor and sequence parallelism, vocabulary-parallel embedding and loss, and context and
 * expert parallelism are consequences of these rules and of the parameters' layouts. */
#include <string.h>

#include "model/shard/pass.h"

static orr_axis_set *by_last(orr_layout *layout, const orr_type *type)
{
    return &layout->by[type->rank - 1];
}

static void forget(orr_layout *layout, orr_axis_set axes)
{
    layout->routed &= (orr_axis_set)~axes;
    for (int dim = 0; dim < ORR_TYPE_DIMS; dim++)
        layout->by[dim] &= (orr_axis_set)~axes;
}

/* The layout of the leading dims of a tensor with fewer dims. */
static orr_layout first_dims(const orr_layout *layout, const orr_type *type)
{
    orr_layout some = *layout;
    for (int dim = type->rank; dim < ORR_TYPE_DIMS; dim++)
        some.by[dim] = 0;
    return some;
}

/* x (..., M, K), w (K, N) or (..., K, N): the sharding of w decides. With K sharded the product
 * is a partial sum. */
static orr_status matmul(orr_shard_site *site, orr_error *err)
{
    (void)err;
    const orr_op_args *args = &site->call->args;
    const uint32_t x_end = orr_shard_in(site, 0)->rank - 1u,
                   w_end = orr_shard_in(site, 1)->rank - 1u;
    orr_layout *x = &site->in_layout[0], *w = &site->in_layout[1];
    x->partial = w->partial = 0;
    const uint32_t xk = args->transpose_a ? x_end - 1 : x_end, xm = x_end + x_end - 1 - xk;
    const uint32_t wk = args->transpose_b ? w_end : w_end - 1, wn = w_end + w_end - 1 - wk;
    if (w_end > 1) /* batch dims of x and w are sharded alike */
        for (uint32_t dim = 0; dim + 1 < w_end; dim++)
            w->by[dim] = x->by[dim];
    const orr_axis_set k = w->by[wk], n = w->by[wn];
    forget(x, k | n);
    x->by[xk] = k;
    site->out_layout[0] = *x;
    site->out_layout[0].by[x_end - 1] = x->by[xm];
    site->out_layout[0].by[x_end] = n;
    site->out_layout[0].partial = k;
    for (uint32_t i = 2; i < site->call->n_in; i++)
        site->in_layout[i] = (orr_layout){0}; /* scales apply to the whole tensor */
    return ORR_OK;
}

/* x (T, K) sorted by expert, w (E, K, N): rows are on the rank of their expert; every slice of
 * an expert gets all of its rows. */
static orr_status grouped_matmul(orr_shard_site *site, orr_error *err)
{
    (void)err;
    const bool turned = site->call->args.transpose_b;
    orr_layout *x = &site->in_layout[0], *w = &site->in_layout[1];
    const orr_axis_set experts = w->by[0], k = w->by[turned ? 2 : 1], n = w->by[turned ? 1 : 2];
    forget(x, experts | k | n);
    x->partial = w->partial = 0;
    x->by[0] |= experts;
    x->routed = experts;
    x->by[1] = k;
    for (uint32_t i = 2; i < site->call->n_in; i++) {
        const orr_axis_set counts = i == 2 && site->call->n_in != 4 ? experts : 0;
        site->in_layout[i] = (orr_layout){.by = {counts}, .routed = counts};
    }
    site->out_layout[0] = *x;
    site->out_layout[0].by[1] = n;
    site->out_layout[0].partial = k;
    return ORR_OK;
}

/* q (B, S, H, D), k and v (B, T, G, D): heads of all three are sharded alike; queries may be
 * sharded freely; every query needs all keys, unless these are exchanged in a ring. */
static orr_status attention(orr_shard_site *site, orr_error *err)
{
    (void)err;
    orr_layout *q = &site->in_layout[0];
    q->partial = 0;
    q->by[3] = 0;
    site->ring = q->by[1] & site->in_layout[1].by[1] & site->pass->how->ring;
    site->args.slices = q->by[1];
    for (uint32_t i = 1; i < 3; i++) {
        site->in_layout[i] = *q;
        site->in_layout[i].by[1] = site->ring;
    }
    site->out_layout[0] = *q;
    /* Statistics (B, H, S), or probabilities (B, H, S, T). */
    for (uint32_t i = 1; i < site->call->n_out; i++)
        site->out_layout[i] = (orr_layout){.by = {q->by[0], q->by[2], q->by[1]}};
    const orr_axis_set gathered = q->by[1] & (orr_axis_set)~site->ring;
    const int64_t parts = orr_shard_parts(site->pass->how, gathered);
    if (parts > 1 && site->args.mask != ORR_MASK_NONE) {
        /* With a causal mask slices see different numbers of keys; the tape counts the average. */
        const int64_t queries = orr_shard_in(site, 0)->dim[1];
        site->args.offset += (queries - queries / parts) / 2;
    }
    return ORR_OK;
}

/* x (..., S, H, D): positions are sharded with S. */
static orr_status positioned(orr_shard_site *site)
{
    const orr_type *x = orr_shard_in(site, 0);
    site->in_layout[0].partial = 0;
    *by_last(&site->in_layout[0], x) = 0;
    site->args.slices = site->in_layout[0].by[x->rank - 3];
    site->out_layout[0] = site->in_layout[0];
    return ORR_OK;
}

/* Operators that reduce over the last dim (norms, softmax): that dim has to be whole. Their
 * parameters are as long as it. */
static orr_status along_last(orr_shard_site *site, orr_error *err)
{
    (void)err;
    const orr_type *x = orr_shard_in(site, 0);
    site->in_layout[0].partial = 0;
    *by_last(&site->in_layout[0], x) = 0;
    for (uint32_t i = 1; i < site->call->n_in; i++)
        site->in_layout[i] = (orr_layout){0};
    for (uint32_t i = 0; i < site->call->n_out; i++)
        site->out_layout[i] = first_dims(&site->in_layout[0], orr_shard_out(site, i));
    return ORR_OK;
}

static bool is_linear(uint8_t op)
{
    return op == ORR_OP_ADD || op == ORR_OP_SCALE || op == ORR_OP_CAST || op == ORR_OP_COPY;
}

static uint32_t sliced_dims(const orr_layout *layout)
{
    uint32_t n = 0;
    for (int dim = 0; dim < ORR_TYPE_DIMS; dim++)
        n += (uint32_t)__builtin_popcount(layout->by[dim]);
    return n;
}

/* The layout of a smaller input that is broadcast: its dims are the last ones of the larger; a
 * dim of one element is not sharded. */
static orr_layout aligned(const orr_layout *lead, const orr_type *lead_type, const orr_type *type)
{
    orr_layout layout = {.partial = lead->partial, .routed = lead->routed};
    const int shift = lead_type->rank - type->rank;
    for (int dim = 0; dim < type->rank; dim++)
        if (type->dim[dim] > 1 && dim + shift >= 0)
            layout.by[dim] = lead->by[dim + shift];
    return layout;
}

/* Elementwise operators: all inputs get the layout of the most sharded one. Partial sums stay
 * partial where all inputs are and the operator is linear. */
static orr_status elementwise(orr_shard_site *site, orr_error *err)
{
    (void)err;
    uint32_t lead = 0;
    orr_axis_set common = site->in_layout[0].partial;
    for (uint32_t i = 1; i < site->call->n_in; i++) {
        const bool as_large = orr_shard_in(site, i)->rank >= orr_shard_in(site, lead)->rank;
        if (as_large && sliced_dims(&site->in_layout[i]) > sliced_dims(&site->in_layout[lead]))
            lead = i;
        if (orr_shard_in(site, i)->rank > 0)
            common = common == site->in_layout[i].partial ? common : 0;
    }
    orr_layout layout = site->in_layout[lead];
    layout.partial = is_linear(site->call->op) ? common : 0;
    const orr_type *type = orr_shard_in(site, lead);
    for (uint32_t i = 0; i < site->call->n_in; i++)
        site->in_layout[i] = aligned(&layout, type, orr_shard_in(site, i));
    for (uint32_t i = 0; i < site->call->n_out; i++)
        site->out_layout[i] = first_dims(&layout, orr_shard_out(site, i));
    return ORR_OK;
}

/* table (V, D), ids (...): where V is sharded, a row of another rank counts as zeros, so that
 * the output is a partial sum. */
static orr_status embedding(orr_shard_site *site, orr_error *err)
{
    (void)err;
    const orr_layout *table = &site->in_layout[0];
    const orr_type *y = orr_shard_out(site, 0);
    forget(&site->in_layout[1], orr_layout_axes(table));
    site->out_layout[0] = site->in_layout[1];
    *by_last(&site->out_layout[0], y) = table->by[1];
    site->out_layout[0].partial = table->by[0];
    site->args.slices = table->by[0];
    if (table->by[0] != 0)
        site->args.count = 0;
    return ORR_OK;
}

static orr_status all_whole(orr_shard_site *site)
{
    for (uint32_t i = 0; i < site->call->n_in; i++)
        site->in_layout[i] = (orr_layout){0};
    return ORR_OK;
}

/* logits (..., V), targets (...). */
static orr_status cross_entropy(orr_shard_site *site, orr_error *err)
{
    (void)err;
    site->in_layout[0].partial = 0;
    site->vocabulary = *by_last(&site->in_layout[0], orr_shard_in(site, 0));
    site->args.slices = site->vocabulary;
    site->in_layout[1] = first_dims(&site->in_layout[0], orr_shard_in(site, 1));
    site->out_layout[0] = site->out_layout[1] = site->in_layout[1];
    return ORR_OK;
}

orr_status orr_shard_rule(orr_shard_site *site, orr_error *err)
{
    const uint8_t op = site->call->op;
    switch (orr_op_of((orr_op)op)->family) {
    case ORR_OP_FAMILY_MATMUL:
        return op == ORR_OP_GROUPED_MATMUL ? grouped_matmul(site, err) : matmul(site, err);
    case ORR_OP_FAMILY_ATTENTION:
        if (op == ORR_OP_ATTENTION)
            return attention(site, err);
        return op == ORR_OP_ATTENTION_TEMPERATURE ? positioned(site) : along_last(site, err);
    case ORR_OP_FAMILY_NORM:
        return op == ORR_OP_BATCH_NORM ? orr_shard_expert_rule(site, err) : along_last(site, err);
    case ORR_OP_FAMILY_ROTARY:
        return positioned(site);
    case ORR_OP_FAMILY_ACTIVATION:
    case ORR_OP_FAMILY_ELEMENTWISE:
    case ORR_OP_FAMILY_CAST:
    case ORR_OP_FAMILY_COPY:
        return op == ORR_OP_FILL ? orr_shard_view_rule(site, err) : elementwise(site, err);
    case ORR_OP_FAMILY_EMBEDDING:
        return op == ORR_OP_MASKED_SCATTER ? all_whole(site) : embedding(site, err);
    case ORR_OP_FAMILY_LOSS:
        return cross_entropy(site, err);
    case ORR_OP_FAMILY_LAYOUT:
        return orr_shard_view_rule(site, err);
    default:
        return orr_shard_expert_rule(site, err);
    }
}
