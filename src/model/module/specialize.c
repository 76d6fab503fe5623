/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/module/local_shard.h"

/* Specialises the tape of any rank to one rank: fills in the arguments that calls count from,
 * and the peers of rings. */

typedef struct filler {
    const orr_module *module;
    const orr_plan *plan;
    uint32_t rank;
} filler;

static const orr_type *type_of(const filler *f, orr_value value)
{
    return &f->module->tape->values[value].type;
}

static int64_t slice_of(const filler *f, const orr_tape_call *call)
{
    return orr_module_slice_index(f->module, f->plan, f->rank, call->args.slices, NULL);
}

/* Rounds that the ring has made until these keys arrived. */
static uint32_t turns_of(const filler *f, orr_value keys)
{
    const orr_tape *tape = f->module->tape;
    uint32_t turns = 0;
    for (uint32_t c = tape->values[keys].made_by; c != ORR_NONE;
         c = tape->values[tape->calls[c].in[0]].made_by) {
        if (tape->calls[c].op != ORR_OP_SEND)
            break;
        turns++;
    }
    return turns;
}

/* Positions of attention between queries `q` and keys `k` of a slice of the context; the keys
 * are those of all slices or of one. */
static void fill_attention(const filler *f, orr_tape_call *call, orr_value q, orr_value k)
{
    orr_op_args *args = &call->args;
    uint32_t n;
    const int64_t slice = orr_module_slice_index(f->module, f->plan, f->rank, args->slices, &n);
    const int64_t tokens = type_of(f, q)->dim[1];
    if (n < 2 || args->mask == ORR_MASK_NONE)
        return;
    args->offset = slice * tokens;
    if (type_of(f, k)->dim[1] == tokens)
        args->begin = (slice + n - turns_of(f, k) % n) % n * tokens;
}

/* The range of the vocabulary shard: `count` words of all. */
static void fill_loss(const filler *f, orr_tape_call *call)
{
    const orr_type *logits = type_of(f, call->in[0]);
    const int64_t columns = logits->dim[logits->rank - 1], words = call->args.count;
    orr_op_args *args = &call->args;
    args->begin = slice_of(f, call) * columns;
    args->count = 0;
    if (words > 0 && words < args->begin + columns)
        args->count = words > args->begin ? words - args->begin : -1;
}

/* Peers of a ring: keys and values go to the next rank, gradients to the previous one. */
static void fill_turn(const filler *f, orr_tape_call *call)
{
    const uint32_t n = call->args.members;
    const uint32_t me = orr_plan_member(f->plan, (orr_axis)call->args.axis, f->rank);
    const uint32_t next = (me + 1) % n, last = (me + n - 1) % n;
    const bool forward = call->pass == ORR_PASS_FORWARD || call->pass == ORR_PASS_RECOMPUTE;
    call->args.begin = forward ? next : last;
    call->args.count = (forward ? last : next) + 1;
}

static void fill(const filler *f, orr_tape_call *call)
{
    orr_op_args *args = &call->args;
    switch (call->op) {
    case ORR_OP_ROTARY:
    case ORR_OP_ATTENTION_TEMPERATURE: {
        const orr_type *x = type_of(f, call->in[0]);
        args->offset += slice_of(f, call) * x->dim[x->rank - 3];
        break;
    }
    case ORR_OP_ATTENTION:
        fill_attention(f, call, call->in[0], call->in[1]);
        break;
    case ORR_OP_ATTENTION_BACKWARD:
        fill_attention(f, call, call->in[1], call->in[2]);
        break;
    case ORR_OP_EMBEDDING:
        args->count = type_of(f, call->in[0])->dim[0];
        args->begin = slice_of(f, call) * args->count;
        break;
    case ORR_OP_EMBEDDING_BACKWARD:
        args->begin = slice_of(f, call) * args->count;
        break;
    case ORR_OP_CROSS_ENTROPY:
    case ORR_OP_CROSS_ENTROPY_BACKWARD:
        fill_loss(f, call);
        break;
    case ORR_OP_SEND:
        fill_turn(f, call);
        break;
    default:
        break;
    }
}

orr_status orr_module_specialize(const orr_module *module, const orr_plan *plan, uint32_t rank,
                                 orr_arena *arena, orr_module *ret, orr_error *err)
{
    const filler f = {module, plan, rank};
    const orr_tape *tape = module->tape;
    orr_tape *own = orr_arena_one(arena, orr_tape);
    orr_tape_call *calls = orr_arena_array(arena, orr_tape_call, tape->n_calls);
    if (own == NULL || calls == NULL)
        return orr_fail_memory(err);
    memcpy(calls, tape->calls, tape->n_calls * sizeof *calls);
    for (uint32_t c = 0; c < tape->n_calls; c++)
        fill(&f, &calls[c]);
    *own = *tape;
    own->calls = calls;
    own->room_calls = tape->n_calls;
    *ret = *module;
    ret->tape = own;
    return ORR_OK;
}
