/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that become several calls on a rank: attention over a sharded context (ring attention),
 * and cross entropy over a sharded vocabulary. */
#include "model/plan/plan.h"
#include "model/shard/pass.h"

static orr_axis first_axis(orr_axis_set set)
{
    return (orr_axis)__builtin_ctz(set);
}

/* Number of ring pieces that a rank's queries attend to. With a chunked context, slices that
 * share no chunk need no exchange: a chunk reaches at most tokens - gcd(tokens, window) before
 * the beginning of a slice. */
static uint32_t pieces_of(const orr_shard_pass *pass, const orr_shard_site *site)
{
    const uint32_t members = pass->how->members[first_axis(site->ring)];
    const int64_t tokens = orr_shard_in(site, 1)->dim[1] / members, window = site->args.window;
    if (site->args.mask != ORR_MASK_CHUNKED || window / tokens >= members)
        return members;
    const int64_t behind = window - orr_gcd(tokens, window);
    const int64_t pieces = (behind + tokens - 1) / tokens + 1;
    return pieces < members ? (uint32_t)pieces : members;
}

/* Merges partial results of attention. `both`: outputs and logsumexps of the pieces so far, then
 * those of the next piece. */
static orr_status merge(orr_shard_pass *pass, orr_value *both, orr_error *err)
{
    orr_value made[ORR_CALL_OUT];
    ORR_TRY(
        orr_tape_call_op(pass->rank, ORR_OP_ATTENTION_MERGE, NULL, both, 4, ORR_RING, made, err));
    both[0] = made[0];
    both[1] = made[1];
    return ORR_OK;
}

/* Ring attention (Liu et al., arXiv 2310.01889): a rank computes attention of its queries to the
 * keys and values that it holds while those of the previous rank are in transfer; after n - 1
 * rounds every key has passed. Partial outputs are weighted by their logsumexps.
 *
 * A rank's tokens are contiguous; which of them a query may see in a piece follows from
 * positions that are filled in when the rank is known (specialize.c). The tape counts the causal
 * mask of one slice for each piece: on average half of the pairs of two slices are visible, and
 * where each rank holds a piece of the context's first and of its second half, every rank has
 * that average (Llama 3, arXiv 2407.21783, section 3.3.2). */
orr_status orr_shard_ring_attention(orr_shard_pass *pass, const orr_shard_site *site,
                                    const orr_value *in, orr_value *ret_out)
{
    const orr_axis axis = first_axis(site->ring);
    const uint32_t pieces = pieces_of(pass, site);
    orr_value k = in[1], v = in[2], both[2 * ORR_CALL_OUT];
    if (!site->args.flash)
        return orr_fail(pass->err, ORR_UNSUPPORTED,
                        "%s: a ring weighs its pieces by what flash attention keeps: flash=on, or "
                        "cp_kind=all_gather",
                        site->call->name);
    for (uint32_t i = 0; i < pieces; i++) {
        orr_value next_k = ORR_NONE, next_v = ORR_NONE;
        if (i + 1 < pieces) {
            ORR_TRY(orr_shard_collective(pass, ORR_OP_SEND, axis, 0, 0, true, "keys", k, &next_k));
            ORR_TRY(
                orr_shard_collective(pass, ORR_OP_SEND, axis, 0, 0, true, "values", v, &next_v));
        }
        const orr_value piece[] = {in[0], k, v};
        ORR_TRY(orr_tape_call_op(pass->rank, ORR_OP_ATTENTION, &site->args, piece, 3,
                                 site->call->name, &both[i == 0 ? 0 : 2], pass->err));
        if (i > 0)
            ORR_TRY(merge(pass, both, pass->err));
        k = next_k;
        v = next_v;
    }
    ret_out[0] = both[0];
    ret_out[1] = both[1];
    return ORR_OK;
}

/* Cross entropy over slices of the vocabulary, as Megatron-LM computes it: see
 * src/op/families/loss.c. */
orr_status orr_shard_vocabulary_loss(orr_shard_pass *pass, const orr_shard_site *site,
                                     const orr_value *in, orr_value *ret_out)
{
    const orr_axis axis = first_axis(site->vocabulary);
    const char *name = site->call->name;
    orr_op_args args = site->args;
    orr_value part[ORR_CALL_OUT], lse, all[3] = {in[0], in[1]};
    args.members = pass->how->members[axis];
    ORR_TRY(
        orr_tape_call_op(pass->rank, ORR_OP_CROSS_ENTROPY, &args, in, 2, name, part, pass->err));
    orr_type shape = pass->rank->values[part[1]].type;
    for (uint32_t dim = shape.rank++; dim > 0; dim--)
        shape.dim[dim] = shape.dim[dim - 1];
    shape.dim[0] = 1;
    const orr_op_args view = {.shape = &shape};
    ORR_TRY(orr_tape_call_op(pass->rank, ORR_OP_VIEW, &view, &part[1], 1, name, &lse, pass->err));
    ORR_TRY(orr_shard_collective(pass, ORR_OP_ALL_GATHER, axis, 0, 0, false, name, lse, &all[2]));
    ORR_TRY(
        orr_tape_call_op(pass->rank, ORR_OP_CROSS_ENTROPY, &args, all, 3, name, part, pass->err));
    ret_out[1] = part[1];
    return orr_shard_collective(pass, ORR_OP_ALL_REDUCE, axis, 0, 0, false, name, part[0],
                                &ret_out[0]);
}
