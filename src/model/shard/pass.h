/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SHARD_PASS_H
#define ORR_MODEL_SHARD_PASS_H

#include "model/shard/shard.h"

/* What the parts of the pass share. */

/* A value in another layout than it was made in: made once, used by all that want it so. */
typedef struct orr_shard_variant {
    orr_value of, local;
    orr_layout layout;
    orr_axis_set replicated;
} orr_shard_variant;

typedef struct orr_shard_pass {
    const orr_tape *whole;
    orr_layouts *layouts;
    const orr_sharding *how;
    orr_tape *rank;
    orr_value *local; /* shape (values of whole) */
    bool *flows;      /* the same: a gradient may flow back to it */
    orr_shard_variant *variants;
    uint32_t n_variants, room_variants;
    orr_error *err;
} orr_shard_pass;

/* A call of the tape as its rule sees it: in which layouts it wants its inputs, what it then gives.
 * A rule finds `need` as the inputs lie, `give` and `args` empty and as recorded. */
typedef struct orr_shard_site {
    const orr_shard_pass *pass;
    const orr_tape_call *call;
    orr_layout need[ORR_CALL_IN], give[ORR_CALL_OUT];
    orr_op_args args;        /* of one rank */
    orr_type shape;          /* room for that of the arguments */
    bool alike;              /* inputs whole along an axis are not used together with slices */
    orr_axis_set ring;       /* keys and values go round along it                    */
    orr_axis_set vocabulary; /* slices the logits                                    */
} orr_shard_site;
static inline const orr_type *orr_shard_in(const orr_shard_site *site, uint32_t i)
{
    return &site->pass->whole->values[site->call->in[i]].type;
}
static inline const orr_type *orr_shard_out(const orr_shard_site *site, uint32_t i)
{
    return &site->pass->whole->values[site->call->out[i]].type;
}
/* Of the call, or of its operator. */
static inline const char *orr_shard_name(const orr_shard_site *site)
{
    const char *name = site->call->name;
    return name[0] != '\0' ? name : orr_op_of((orr_op)site->call->op)->name;
}

/* The rule of the call's operator. UNSUPPORTED: it cannot be sliced so. */
orr_status orr_shard_rule(orr_shard_site *site, orr_error *err) ORR_MUST_CHECK;

orr_status orr_shard_view_rule(orr_shard_site *site, orr_error *err) ORR_MUST_CHECK;
orr_status orr_shard_expert_rule(orr_shard_site *site, orr_error *err) ORR_MUST_CHECK;

/* How many parts the axes of a set make. */
int64_t orr_shard_parts(const orr_sharding *how, orr_axis_set set);
/* The value's share in the layout `want`, whose gradient is a partial sum over the axes
 * `replicated`: it is whole along them, and is used together with what is not. */
orr_status orr_shard_redistribute(orr_shard_pass *pass, orr_value value, const orr_layout *want,
                                  orr_axis_set replicated, orr_value *ret) ORR_MUST_CHECK;
/* The same for what is already on the rank's tape. `name`: of the collectives. */
orr_status orr_shard_redistribute_local(orr_shard_pass *pass, orr_value local, orr_layout from,
                                        const orr_layout *want, orr_axis_set replicated,
                                        const char *name, orr_value *ret) ORR_MUST_CHECK;
/* A collective of one input along an axis. */
orr_status orr_shard_collective(orr_shard_pass *pass, orr_op op, orr_axis axis, int32_t dim,
                                int32_t to_dim, bool overlap, const char *name, orr_value in,
                                orr_value *ret) ORR_MUST_CHECK;
/* Calls that become several on a rank: attention whose keys and values go round, and cross
 * entropy of a slice of the vocabulary. `in`: inputs on the rank, as the rule wanted them. */
orr_status orr_shard_ring_attention(orr_shard_pass *pass, const orr_shard_site *site,
                                    const orr_value *in, orr_value *ret_out) ORR_MUST_CHECK;
orr_status orr_shard_vocabulary_loss(orr_shard_pass *pass, const orr_shard_site *site,
                                     const orr_value *in, orr_value *ret_out) ORR_MUST_CHECK;

#endif /* ORR_MODEL_SHARD_PASS_H */
