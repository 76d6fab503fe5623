/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding rules of mixture-of-experts routing, embedding tables and images. */
#include "model/shard/pass.h"

/* logits (..., E): top-k needs the logits of all experts of a token on one rank. */
static orr_status top_k(orr_shard_site *site)
{
    orr_layout *logits = &site->in_layout[0];
    logits->partial = 0;
    logits->by[orr_shard_in(site, 0)->rank - 1] = 0;
    site->in_layout[1] = (orr_layout){0};
    site->out_layout[0] = site->out_layout[1] = *logits;
    return ORR_OK;
}

/* Dispatch needs different tokens on all ranks, except where the slices of an expert are the
 * tensor-parallel ranks, which may hold the same ones. Tokens that TP holds whole are cut by
 * samples, else by tokens. */
static orr_status cut_tokens(const orr_shard_site *site, const orr_type *x, orr_layout *tokens,
                             orr_error *err)
{
    const orr_sharding *how = site->pass->how;
    const orr_axis_set tp = orr_axis_bit(ORR_AXIS_TP);
    const uint32_t slices = how->members[ORR_AXIS_TP];
    tokens->partial = 0;
    tokens->by[x->rank - 1] = 0;
    if (slices == 1 || (orr_layout_axes(tokens) & tp) || how->members[ORR_AXIS_ETP] == slices)
        return ORR_OK;
    for (uint32_t dim = 0; dim + 1 < x->rank; dim++)
        if (tokens->by[dim] == 0 && x->dim[dim] % slices == 0) {
            tokens->by[dim] = tp;
            return ORR_OK;
        }
    return orr_fail(
        err, ORR_UNSUPPORTED,
        "%s: with etp=%u each of the %u tensor-parallel ranks sends other tokens to the "
        "experts, and the %lld tokens of a micro-batch do not divide over them: give "
        "a micro_batch that is a multiple of %u",
        site->call->name, how->members[ORR_AXIS_ETP], slices,
        (long long)(orr_type_elements(x) / x->dim[x->rank - 1]), slices);
}

/* After dispatch rows differ along EP, and along ETP where tokens differ along TP. */
static orr_axis_set rows_by(const orr_shard_site *site, const orr_layout *tokens)
{
    const orr_sharding *how = site->pass->how;
    const bool differ =
        how->members[ORR_AXIS_TP] == 1 || (orr_layout_axes(tokens) & orr_axis_bit(ORR_AXIS_TP));
    return how->experts | (differ ? how->expert_slices : 0);
}

/* Number of sorted rows on a rank. As simulated: the average. As executed: one block for each
 * rank that holds experts, each with room for all of the rank's tokens, of which none goes to
 * more experts of a block than the block has. */
static void set_rows(orr_shard_site *site, const orr_type *indices, const orr_layout *tokens)
{
    const orr_sharding *how = site->pass->how;
    const int64_t slices = orr_shard_parts(how, orr_layout_axes(tokens));
    orr_op_args *args = &site->args;
    args->count /= slices;
    if (args->members == 0)
        return;
    args->members = (uint32_t)orr_shard_parts(how, how->experts);
    const int64_t choices = indices->dim[indices->rank - 1], each = args->experts / args->members;
    args->count = args->count / choices * (choices < each ? choices : each) * args->members;
}

/* x (..., D), indices (..., K)[, scores]: sorted (T x K, D). */
static orr_status dispatch(orr_shard_site *site, orr_error *err)
{
    orr_layout *tokens = &site->in_layout[0];
    ORR_TRY(cut_tokens(site, orr_shard_in(site, 0), tokens, err));
    for (uint32_t i = 1; i < site->call->n_in; i++)
        site->in_layout[i] = *tokens;
    set_rows(site, orr_shard_in(site, 1), tokens);
    site->out_layout[0] = site->out_layout[1] = (orr_layout){.by = {rows_by(site, tokens)}};
    site->no_replicate = true;
    return ORR_OK;
}

/* sorted (T x K, D), indices (..., K)[, scores]: x (..., D). */
static orr_status combine(orr_shard_site *site, orr_error *err)
{
    orr_layout *tokens = &site->in_layout[1];
    ORR_TRY(cut_tokens(site, orr_shard_in(site, 1), tokens, err));
    for (uint32_t i = 2; i < site->call->n_in; i++)
        site->in_layout[i] = *tokens;
    set_rows(site, orr_shard_in(site, 1), tokens);
    site->in_layout[0] = (orr_layout){.by = {rows_by(site, tokens)}};
    site->out_layout[0] = *tokens;
    site->no_replicate = true;
    return ORR_OK;
}

/* table (R, D), ids, offsets (B, F): a whole table's bags are looked up on its rank; of a table
 * whose rows are sharded each rank sums the rows that it has. */
static orr_status bags(orr_shard_site *site)
{
    const orr_axis_set rows = site->in_layout[0].by[0];
    const orr_layout *of_bags = &site->in_layout[site->call->n_in - 1];
    site->out_layout[0] = *of_bags;
    site->out_layout[0].partial = rows & (orr_axis_set)~orr_layout_axes(of_bags);
    site->args.count /= orr_shard_parts(site->pass->how, site->out_layout[0].partial);
    site->no_replicate = true;
    return ORR_OK;
}

/* Operators that may be sharded by samples only; every other dim has to be whole. */
static orr_status by_sample(orr_shard_site *site)
{
    const orr_axis_set samples = site->in_layout[0].by[0];
    for (uint32_t i = 0; i < site->call->n_in; i++) {
        const bool weight =
            site->pass->whole->values[site->call->in[i]].role == ORR_VALUE_PARAMETER;
        site->in_layout[i] = (orr_layout){.by = {weight ? 0 : samples}};
    }
    for (uint32_t i = 0; i < site->call->n_out; i++)
        site->out_layout[i] = (orr_layout){.by = {samples}};
    return ORR_OK;
}

orr_status orr_shard_expert_rule(orr_shard_site *site, orr_error *err)
{
    switch (site->call->op) {
    case ORR_OP_TOP_K:
        return top_k(site);
    case ORR_OP_DISPATCH:
        return dispatch(site, err);
    case ORR_OP_COMBINE:
        return combine(site, err);
    case ORR_OP_EMBEDDING_BAG:
        return bags(site);
    case ORR_OP_INTERACTION:
    case ORR_OP_BATCH_NORM:
    case ORR_OP_CONVOLUTION:
    case ORR_OP_POOL:
        return by_sample(site);
    default:
        return orr_fail(err, ORR_UNSUPPORTED, "%s cannot be sliced",
                        orr_op_of((orr_op)site->call->op)->name);
    }
}
