/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include <orrery/op.h>

/* How each row counts FLOPs, in the letters of what it takes and gives: a sum of what op/ computes,
 * for people. */
static const char *const FLOPS[ORR_OPS] = {
    [ORR_OP_MATMUL] = "2 M N K",
    [ORR_OP_GROUPED_MATMUL] = "2 T K N",
    [ORR_OP_ATTENTION] = "2 B H (D + Dv) a pair seen; all pairs without flash",
    [ORR_OP_ATTENTION_BACKWARD] = "2 B H (3 D + 2 Dv) a pair seen; without flash 4 B H (D + Dv)",
    [ORR_OP_SOFTMAX] = "5 an element",
    [ORR_OP_SOFTMAX_BACKWARD] = "4 an element",
    [ORR_OP_RMS_NORM] = "4 an element",
    [ORR_OP_RMS_NORM_BACKWARD] = "8 an element",
    [ORR_OP_LAYER_NORM] = "7 an element",
    [ORR_OP_LAYER_NORM_BACKWARD] = "11 an element",
    [ORR_OP_BATCH_NORM] = "7 an element",
    [ORR_OP_BATCH_NORM_BACKWARD] = "11 an element",
    [ORR_OP_ROTARY] = "3 an element",
    [ORR_OP_ATTENTION_MERGE] = "5 an element of y",
    [ORR_OP_ATTENTION_TEMPERATURE] = "1 an element",
    [ORR_OP_SWIGLU] = "6 an element of y",
    [ORR_OP_SWIGLU_BACKWARD] = "11 an element of dy",
    [ORR_OP_GELU] = "5 an element",
    [ORR_OP_RELU] = "1 an element",
    [ORR_OP_SILU] = "5 an element",
    [ORR_OP_SIGMOID] = "4 an element",
    [ORR_OP_ACTIVATION_BACKWARD] = "gelu 10, relu 1, silu 8, sigmoid 3 an element",
    [ORR_OP_EMBEDDING_BACKWARD] = "1 an element of dy",
    [ORR_OP_EMBEDDING_BAG] = "D a lookup",
    [ORR_OP_CROSS_ENTROPY] = "4 an element, 3 a row",
    [ORR_OP_CROSS_ENTROPY_BACKWARD] = "3 an element, 1 a row",
    [ORR_OP_BCE_LOSS] = "7 an element",
    [ORR_OP_BCE_LOSS_BACKWARD] = "5 an element",
    [ORR_OP_TOP_K] = "4 + K a logit",
    [ORR_OP_TOP_K_BACKWARD] = "4 a logit, 4 a choice",
    [ORR_OP_DISPATCH] = "1 an element, with scores",
    [ORR_OP_COMBINE] = "1 an element, 2 with scores",
    [ORR_OP_INTERACTION] = "B D F (F - 1)",
    [ORR_OP_INTERACTION_BACKWARD] = "2 B D F (F - 1)",
    [ORR_OP_CONVOLUTION] = "2 N K P Q C R S",
    [ORR_OP_CONVOLUTION_INPUT] = "2 N K P Q C R S",
    [ORR_OP_CONVOLUTION_WEIGHT] = "2 N K P Q C R S",
    [ORR_OP_POOL] = "1 an element of a window",
    [ORR_OP_POOL_BACKWARD] = "1 an element of a window",
    [ORR_OP_SGD] = "2 a parameter, 4 with momentum",
    [ORR_OP_ADAMW] = "14 a parameter",
    [ORR_OP_ROWWISE_ADAGRAD] = "3 an element of drows, 2 of a row touched",
    [ORR_OP_ADD] = "1 an element",
    [ORR_OP_MUL] = "1 an element",
    [ORR_OP_SCALE] = "1 an element",
    [ORR_OP_BIAS] = "1 an element",
    [ORR_OP_SUM] = "1 an element",
    [ORR_OP_DROPOUT] = "2 an element",
    [ORR_OP_QUANTIZE] = "2 an element",
    [ORR_OP_DEQUANTIZE] = "1 an element",
};

typedef struct operator_row {
    const char *name, *family, *takes, *gives;
    bool gradient;
    const char *flops, *pytorch, *chakra;
} operator_row;

#define C(field, type) ORR_COL_(operator_row, field, type)
static const orr_column columns[] = {
    C(name, TEXT),     C(family, TEXT), C(takes, TEXT),   C(gives, TEXT),
    C(gradient, BOOL), C(flops, TEXT),  C(pytorch, TEXT), C(chakra, TEXT),
};
#undef C

/* "aten::mm, aten::addmm" */
static const char *joined(const char *const *names, orr_arena *arena)
{
    const char *text = "";
    for (; text != NULL && names != NULL && *names != NULL; names++)
        text = orr_arena_printf(arena, "%s%s%s", text, *text != '\0' ? ", " : "", *names);
    return text;
}

orr_status orr_operators_table(orr_arena *arena, orr_table *ret, orr_error *err)
{
    operator_row *rows = orr_arena_array(arena, operator_row, ORR_OPS);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (int op = 0; op < ORR_OPS; op++) {
        const orr_op_row *row = orr_op_of((orr_op)op);
        const char *pytorch = joined(row->pytorch, arena);
        if (pytorch == NULL)
            return orr_fail_memory(err);
        rows[op] = (operator_row){
            .name = row->name,
            .family = orr_op_family_name((orr_op_family)row->family),
            .takes = row->takes,
            .gives = row->gives,
            .gradient = row->gradient != NULL,
            .flops = FLOPS[op] != NULL ? FLOPS[op] : "",
            .pytorch = pytorch,
            .chakra = row->chakra != NULL ? row->chakra : "",
        };
    }
    *ret = ORR_TABLE_("orrery.operators/1", "Operators", columns, rows, ORR_OPS);
    return ORR_OK;
}
