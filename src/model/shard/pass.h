/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SHARD_PASS_H
#define ORR_MODEL_SHARD_PASS_H

#include "model/shard/shard.h"

/* State and helpers that the files of the sharding pass share. */

/* A value in another layout than the one it was made in. Each is made once and reused by all
 * calls that need it. */
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
    orr_value *local; /* by value of the whole tape: its value on the rank */
    bool *flows;      /* by value: a gradient may flow back to it */
    orr_shard_variant *variants;
    uint32_t n_variants, room_variants;
    orr_error *err;
} orr_shard_pass;

/* A call of the tape as its sharding rule sees it. The contract of a rule: `in_layout` comes in as
 * the layouts that the inputs have, and the rule changes them to layouts with which the operator
 * computes correct results; `out_layout` comes in empty, and the rule sets the layouts that the
 * outputs then have; `args` comes in as recorded, and the rule changes what differs on a rank
 * (shapes, numbers of heads). Collectives are none of a rule's business: the pass inserts them
 * where layouts differ. */
typedef struct orr_shard_site {
    const orr_shard_pass *pass;
    const orr_tape_call *call;
    orr_layout in_layout[ORR_CALL_IN], out_layout[ORR_CALL_OUT];
    orr_op_args args;        /* arguments on one rank */
    orr_type shape;          /* storage for a shape that the arguments point to */
    bool no_replicate;       /* no input that is whole along an axis is combined with slices
                              * along it */
    orr_axis_set ring;       /* keys and values are exchanged in a ring along it */
    orr_axis_set vocabulary; /* axes that shard the vocabulary dim of logits */
} orr_shard_site;
static inline const orr_type *orr_shard_in(const orr_shard_site *site, uint32_t i)
{
    return &site->pass->whole->values[site->call->in[i]].type;
}
static inline const orr_type *orr_shard_out(const orr_shard_site *site, uint32_t i)
{
    return &site->pass->whole->values[site->call->out[i]].type;
}
/* Name of the call, else of its operator. */
static inline const char *orr_shard_name(const orr_shard_site *site)
{
    const char *name = site->call->name;
    return name[0] != '\0' ? name : orr_op_of((orr_op)site->call->op)->name;
}

/* Applies the sharding rule of the call's operator. UNSUPPORTED: the operator cannot be sharded
 * so. */
orr_status orr_shard_rule(orr_shard_site *site, orr_error *err) ORR_MUST_CHECK;

orr_status orr_shard_view_rule(orr_shard_site *site, orr_error *err) ORR_MUST_CHECK;
orr_status orr_shard_expert_rule(orr_shard_site *site, orr_error *err) ORR_MUST_CHECK;

/* Product of the sizes of a set of axes: the number of shards. */
int64_t orr_shard_parts(const orr_sharding *how, orr_axis_set set);
/* Redistributes a value to the layout `want` (DTensor's `redistribute`). `replicated`: axes
 * along which the value is whole but used together with slices, so that its gradient is a
 * partial sum over them. */
orr_status orr_shard_redistribute(orr_shard_pass *pass, orr_value value, const orr_layout *want,
                                  orr_axis_set replicated, orr_value *ret) ORR_MUST_CHECK;
/* The same for a value that is on the rank's tape already. `name`: for the collectives. */
orr_status orr_shard_redistribute_local(orr_shard_pass *pass, orr_value local, orr_layout from,
                                        const orr_layout *want, orr_axis_set replicated,
                                        const char *name, orr_value *ret) ORR_MUST_CHECK;
/* Appends a collective of one input along an axis. */
orr_status orr_shard_collective(orr_shard_pass *pass, orr_op op, orr_axis axis, int32_t dim,
                                int32_t to_dim, bool overlap, const char *name, orr_value in,
                                orr_value *ret) ORR_MUST_CHECK;
/* Calls that become several on a rank: ring attention, and cross entropy of a sharded
 * vocabulary. `in`: inputs on the rank, in the layouts that the rule asked for. */
orr_status orr_shard_ring_attention(orr_shard_pass *pass, const orr_shard_site *site,
                                    const orr_value *in, orr_value *ret_out) ORR_MUST_CHECK;
orr_status orr_shard_vocabulary_loss(orr_shard_pass *pass, const orr_shard_site *site,
                                     const orr_value *in, orr_value *ret_out) ORR_MUST_CHECK;

#endif /* ORR_MODEL_SHARD_PASS_H */
