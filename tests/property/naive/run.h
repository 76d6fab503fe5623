/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_RUN_H
#define TESTS_NAIVE_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "dense.h"
#include "grid.h"
#include "routing.h"
#include "lookup.h"
#include "elementwise.h"

/* Tapes run in double precision, one for each of a group's ranks, which meet in collectives. */
static const naive_kernel NAIVE[ORR_OPS] = {
    [ORR_OP_MATMUL] = naive_matmul,
    [ORR_OP_GROUPED_MATMUL] = naive_grouped_matmul,
    [ORR_OP_ATTENTION] = naive_attention,
    [ORR_OP_ATTENTION_BACKWARD] = naive_attention_backward,
    [ORR_OP_SOFTMAX] = naive_softmax,
    [ORR_OP_SOFTMAX_BACKWARD] = naive_softmax_backward,
    [ORR_OP_RMS_NORM] = naive_rms_norm,
    [ORR_OP_RMS_NORM_BACKWARD] = naive_rms_norm_backward,
    [ORR_OP_LAYER_NORM] = naive_layer_norm,
    [ORR_OP_LAYER_NORM_BACKWARD] = naive_layer_norm_backward,
    [ORR_OP_BATCH_NORM] = naive_batch_norm,
    [ORR_OP_BATCH_NORM_BACKWARD] = naive_batch_norm_backward,
    [ORR_OP_ROTARY] = naive_rotary,
    [ORR_OP_ATTENTION_TEMPERATURE] = naive_tune,
    [ORR_OP_ATTENTION_MERGE] = naive_merge,
    [ORR_OP_CACHE] = naive_cache,
    [ORR_OP_MASKED_SCATTER] = naive_splice,
    [ORR_OP_SWIGLU] = naive_swiglu,
    [ORR_OP_SWIGLU_BACKWARD] = naive_swiglu_backward,
    [ORR_OP_GELU] = naive_gelu,
    [ORR_OP_RELU] = naive_relu,
    [ORR_OP_SILU] = naive_silu,
    [ORR_OP_SIGMOID] = naive_sigmoid_op,
    [ORR_OP_ACTIVATION_BACKWARD] = naive_activation_backward,
    [ORR_OP_EMBEDDING] = naive_embedding,
    [ORR_OP_EMBEDDING_BACKWARD] = naive_embedding_backward,
    [ORR_OP_EMBEDDING_BAG] = naive_embedding_bag,
    [ORR_OP_EMBEDDING_BAG_BACKWARD] = naive_embedding_bag_backward,
    [ORR_OP_CROSS_ENTROPY] = naive_cross_entropy,
    [ORR_OP_CROSS_ENTROPY_BACKWARD] = naive_cross_entropy_backward,
    [ORR_OP_BCE_LOSS] = naive_bce_loss,
    [ORR_OP_BCE_LOSS_BACKWARD] = naive_bce_loss_backward,
    [ORR_OP_TOP_K] = naive_top_k,
    [ORR_OP_TOP_K_BACKWARD] = naive_top_k_backward,
    [ORR_OP_DISPATCH] = naive_dispatch,
    [ORR_OP_COMBINE] = naive_combine,
    [ORR_OP_INTERACTION] = naive_interaction,
    [ORR_OP_INTERACTION_BACKWARD] = naive_interaction_backward,
    [ORR_OP_CONVOLUTION] = naive_convolution,
    [ORR_OP_CONVOLUTION_INPUT] = naive_convolution_input,
    [ORR_OP_CONVOLUTION_WEIGHT] = naive_convolution_weight,
    [ORR_OP_POOL] = naive_pool,
    [ORR_OP_POOL_BACKWARD] = naive_pool_backward,
    [ORR_OP_ADD] = naive_add,
    [ORR_OP_MUL] = naive_mul,
    [ORR_OP_SCALE] = naive_scale,
    [ORR_OP_BIAS] = naive_bias,
    [ORR_OP_SUM] = naive_sum,
    [ORR_OP_DROPOUT] = naive_dropout,
    [ORR_OP_FILL] = naive_fill,
    [ORR_OP_VIEW] = naive_same,
    [ORR_OP_TRANSPOSE] = naive_transpose,
    [ORR_OP_CONCAT] = naive_concat,
    [ORR_OP_SPLIT] = naive_split,
    [ORR_OP_SLICE] = naive_slice,
    [ORR_OP_EXPAND] = naive_expand,
    [ORR_OP_PAD] = naive_pad,
    [ORR_OP_CAST] = naive_same,
    [ORR_OP_QUANTIZE] = naive_quantize,
    [ORR_OP_DEQUANTIZE] = naive_same,
    [ORR_OP_REPLICATE] = naive_same,
    [ORR_OP_COPY] = naive_same,
};

typedef struct naive_rank {
    const orr_tape *tape;
    double **at;   /* shape (n_values): elements of each value; of leaves, given */
    uint32_t next; /* call */
} naive_rank;

static naive_call naive_now(const naive_rank *rank, orr_op_signature_types *room)
{
    const orr_tape_call *call = &rank->tape->calls[rank->next];
    const orr_op_signature site = orr_tape_signature(rank->tape, rank->next, room);
    naive_call c = {.args = site.args,
                    .n_in = site.n_in,
                    .n_out = site.n_out,
                    .in_type = site.in,
                    .out_type = site.out};
    for (uint32_t k = 0; k < c.n_in; k++)
        c.in[k] = rank->at[call->in[k]];
    for (uint32_t k = 0; k < c.n_out; k++)
        c.out[k] = rank->at[call->out[k]];
    return c;
}

/* Part p of `whole` along dim, of `n` equal ones: from or to `part`. */
static void naive_share(double *part, const orr_type *part_type, double *whole,
                        const orr_type *whole_type, int32_t dim, uint32_t p, bool to_whole)
{
    naive_part(part, part_type, whole, whole_type, dim, p * part_type->dim[dim], to_whole);
}

static void naive_all_to_all(const naive_call *from, const naive_call *to, uint32_t from_rank,
                             uint32_t to_rank)
{
    const orr_op_args *args = from->args;
    orr_type piece = from->in_type[0];
    piece.dim[args->dim] /= args->members;
    double *between = calloc((size_t)naive_size(&piece), sizeof *between);
    assert_non_null(between);
    naive_share(between, &piece, (double *)from->in[0], &from->in_type[0], args->dim, to_rank,
                false);
    naive_share(between, &piece, to->out[0], &to->out_type[0], args->to_dim, from_rank, true);
    free(between);
}

/* What member r gets from member q. */
static void naive_pass(uint8_t op, const naive_call *c, uint32_t q, uint32_t r)
{
    const int32_t dim = c[r].args->dim;
    const int64_t n = naive_size(&c[r].out_type[0]);
    double *whole = (double *)c[q].in[0];
    switch (op) {
    case ORR_OP_ALL_REDUCE:
        for (int64_t i = 0; i < n; i++)
            c[r].out[0][i] = (q == 0 ? 0 : c[r].out[0][i]) + c[q].in[0][i];
        break;
    case ORR_OP_ALL_GATHER:
        naive_share(whole, &c[q].in_type[0], c[r].out[0], &c[r].out_type[0], dim, q, true);
        break;
    case ORR_OP_REDUCE_SCATTER:
        for (int64_t i = 0; i < n; i++) {
            int64_t at[ORR_TYPE_DIMS];
            naive_unravel(&c[r].out_type[0], i, at);
            at[dim] += r * c[r].out_type[0].dim[dim];
            c[r].out[0][i] =
                (q == 0 ? 0 : c[r].out[0][i]) + whole[naive_ravel(&c[q].in_type[0], at)];
        }
        break;
    case ORR_OP_ALL_TO_ALL:
        naive_all_to_all(&c[q], &c[r], q, r);
        break;
    case ORR_OP_BROADCAST:
        if (q == 0)
            memcpy(c[r].out[0], whole, (size_t)n * sizeof(double));
        break;
    case ORR_OP_SHARD:
        if (q == r)
            naive_share(c[r].out[0], &c[r].out_type[0], whole, &c[q].in_type[0], dim, r, false);
        break;
    default:
        fail_msg("nobody knows how to %s", orr_op_of(op)->name);
    }
}

enum { NAIVE_RANKS_MAX = 4 };

static uint8_t naive_op(const naive_rank *rank)
{
    return rank->tape->calls[rank->next].op;
}

/* All ranks stand before a collective. Two may also send and receive. */
static void naive_meet(naive_rank *ranks, uint32_t n)
{
    orr_op_signature_types room[NAIVE_RANKS_MAX];
    naive_call c[NAIVE_RANKS_MAX];
    for (uint32_t r = 0; r < n; r++)
        c[r] = naive_now(&ranks[r], &room[r]);
    if (n == 2 && naive_op(&ranks[0]) != naive_op(&ranks[1])) {
        const uint32_t sends = naive_op(&ranks[0]) == ORR_OP_SEND ? 0 : 1;
        assert_int_equal(naive_op(&ranks[sends]), ORR_OP_SEND);
        assert_int_equal(naive_op(&ranks[1 - sends]), ORR_OP_RECV);
        memcpy(c[1 - sends].out[0], c[sends].in[0],
               (size_t)naive_size(&c[sends].in_type[0]) * sizeof(double));
    } else {
        for (uint32_t r = 0; r < n; r++) {
            assert_int_equal(naive_op(&ranks[r]), naive_op(&ranks[0]));
            assert_int_equal(c[r].args->members, n);
            for (uint32_t q = 0; q < n; q++)
                naive_pass(naive_op(&ranks[0]), c, q, r);
        }
    }
    for (uint32_t r = 0; r < n; r++)
        ranks[r].next++;
}

/* To the next collective, or the end; false: there is none. Backward calls are left out if asked.
 */
static bool naive_advance(naive_rank *rank, bool forward_only)
{
    for (; rank->next < rank->tape->n_calls; rank->next++) {
        const orr_tape_call *call = &rank->tape->calls[rank->next];
        if (forward_only && call->pass != ORR_PASS_FORWARD)
            continue;
        if (NAIVE[call->op] == NULL)
            return true;
        orr_op_signature_types room;
        const naive_call c = naive_now(rank, &room);
        NAIVE[call->op](&c);
    }
    return false;
}

static inline void naive_run(naive_rank *ranks, uint32_t n, bool forward_only)
{
    for (uint32_t r = 0; r < n; r++)
        ranks[r].next = 0;
    for (;;) {
        uint32_t waiting = 0;
        for (uint32_t r = 0; r < n; r++)
            waiting += naive_advance(&ranks[r], forward_only);
        if (waiting == 0)
            return;
        assert_int_equal(waiting, n);
        naive_meet(ranks, n);
    }
}

#endif /* TESTS_NAIVE_RUN_H */
