/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BLOCK_H
#define TESTS_BLOCK_H

#include "tape_text.h"

/* A transformer's attention block, as small as it can be: norm, one product for queries, keys and
 * values, rotary, attention, output product, residual. Names of values and calls are those of the
 * field. */
typedef struct block {
    orr_value x, y, seed;
    orr_value norm, wqkv, wo;
    orr_value normed, r, qkv, q, k, v, rq, rk, context, lse, flat, out;
} block;

enum { BLOCK_B = 2, BLOCK_S = 16, BLOCK_H = 4, BLOCK_D = 8, BLOCK_W = BLOCK_H * BLOCK_D };

static inline orr_status block_value(orr_tape *tape, orr_value_role role, const char *name,
                                     uint8_t rank, const int64_t *dims, orr_value *ret,
                                     orr_error *err)
{
    orr_type type = {.dtype = ORR_DTYPE_BF16, .rank = rank};
    memcpy(type.dim, dims, rank * sizeof *dims);
    return orr_tape_value_new(tape, role, &type, name, ret, err);
}

static inline orr_status block_call(orr_tape *tape, orr_op op, const orr_op_args *args,
                                    const orr_value *in, uint32_t n, const char *const *names,
                                    orr_value *const *ret, orr_error *err)
{
    orr_value out[ORR_CALL_OUT];
    ORR_TRY(orr_tape_call_op(tape, op, args, in, n, names[0], out, err));
    for (uint32_t k = 0; ret[k] != NULL; k++) {
        *ret[k] = out[k];
        tape->values[out[k]].name = names[k];
    }
    return ORR_OK;
}
#define BLOCK_NAMES(...) ((const char *const[]){__VA_ARGS__})
#define BLOCK_RET(...)   ((orr_value *const[]){__VA_ARGS__, NULL})

static inline orr_status block_forward(orr_tape *tape, block *b, orr_error *err)
{
    const int64_t x[3] = {BLOCK_B, BLOCK_S, BLOCK_W}, square[2] = {BLOCK_W, BLOCK_W};
    const int64_t wide[2] = {BLOCK_W, 3 * BLOCK_W}, row[1] = {BLOCK_W};
    ORR_TRY(block_value(tape, ORR_VALUE_INPUT, "x", 3, x, &b->x, err));
    ORR_TRY(block_value(tape, ORR_VALUE_PARAMETER, "norm", 1, row, &b->norm, err));
    ORR_TRY(block_value(tape, ORR_VALUE_PARAMETER, "wqkv", 2, wide, &b->wqkv, err));
    ORR_TRY(block_value(tape, ORR_VALUE_PARAMETER, "wo", 2, square, &b->wo, err));
    const orr_op_args heads = {
        .shape = &(orr_type){.rank = 4, .dim = {BLOCK_B, BLOCK_S, 3 * BLOCK_H, BLOCK_D}}};
    const orr_op_args parts = {.dim = 2,
                               .shape = &(orr_type){.rank = 3, .dim = {BLOCK_H, BLOCK_H, BLOCK_H}}};
    const orr_op_args rows = {.shape = &(orr_type){.rank = 3, .dim = {BLOCK_B, BLOCK_S, BLOCK_W}}};
    const orr_op_args turn = {.value = 10000}, causal = {.flash = true, .mask = ORR_MASK_CAUSAL};
    orr_value split;
    ORR_TRY(block_call(tape, ORR_OP_RMS_NORM, NULL, (const orr_value[]){b->x, b->norm}, 2,
                       BLOCK_NAMES("n", "r"), BLOCK_RET(&b->normed, &b->r), err));
    ORR_TRY(block_call(tape, ORR_OP_MATMUL, NULL, (const orr_value[]){b->normed, b->wqkv}, 2,
                       BLOCK_NAMES("qkv"), BLOCK_RET(&b->qkv), err));
    ORR_TRY(block_call(tape, ORR_OP_VIEW, &heads, &b->qkv, 1, BLOCK_NAMES("heads"),
                       BLOCK_RET(&split), err));
    ORR_TRY(block_call(tape, ORR_OP_SPLIT, &parts, &split, 1, BLOCK_NAMES("q", "k", "v"),
                       BLOCK_RET(&b->q, &b->k, &b->v), err));
    ORR_TRY(block_call(tape, ORR_OP_ROTARY, &turn, &b->q, 1, BLOCK_NAMES("rq"), BLOCK_RET(&b->rq),
                       err));
    ORR_TRY(block_call(tape, ORR_OP_ROTARY, &turn, &b->k, 1, BLOCK_NAMES("rk"), BLOCK_RET(&b->rk),
                       err));
    ORR_TRY(block_call(tape, ORR_OP_ATTENTION, &causal, (const orr_value[]){b->rq, b->rk, b->v}, 3,
                       BLOCK_NAMES("a", "lse"), BLOCK_RET(&b->context, &b->lse), err));
    ORR_TRY(block_call(tape, ORR_OP_VIEW, &rows, &b->context, 1, BLOCK_NAMES("flat"),
                       BLOCK_RET(&b->flat), err));
    ORR_TRY(block_call(tape, ORR_OP_MATMUL, NULL, (const orr_value[]){b->flat, b->wo}, 2,
                       BLOCK_NAMES("o"), BLOCK_RET(&b->out), err));
    return block_call(tape, ORR_OP_ADD, NULL, (const orr_value[]){b->x, b->out}, 2,
                      BLOCK_NAMES("y"), BLOCK_RET(&b->y), err);
}

static inline orr_status block_backward(orr_tape *tape, block *b, orr_value *ret_dx, orr_error *err)
{
    ORR_TRY(orr_tape_value_new(tape, ORR_VALUE_GRADIENT, &tape->values[b->y].type, "dy", &b->seed,
                               err));
    return orr_tape_gradient(tape, &b->y, &b->seed, 1, &b->x, 1, ret_dx, err);
}

#endif /* TESTS_BLOCK_H */
