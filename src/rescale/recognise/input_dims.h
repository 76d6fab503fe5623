/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_RECOGNISE_INPUT_DIMS_H
#define ORR_RESCALE_RECOGNISE_INPUT_DIMS_H

#include "rescale/recognise/survey.h"

/* "Input Dims" of an operator, number by number: "[[8, 128, 64], [], [192, 64]]". */
enum { ORR_DIMS_MOST = 64 };
typedef struct orr_input_dim {
    uint32_t arg;   /* which argument        */
    uint32_t at, n; /* which of its n numbers */
    int64_t value;
    uint32_t text_at, text_len;
} orr_input_dim;
typedef struct orr_input_dims {
    orr_input_dim at[ORR_DIMS_MOST];
    uint32_t n;
} orr_input_dims;
/* False: more numbers than that, or none that fits; `ret` is empty then. */
bool orr_dims_parse(const char *text, orr_input_dims *ret);
/* The number at that place, or -1. */
int64_t orr_dims_value(const orr_input_dims *dims, uint32_t arg, uint32_t at);
/* How many numbers the argument has. */
uint32_t orr_dims_rank(const orr_input_dims *dims, uint32_t arg);
/* Product of the argument's numbers; 0 where it has none. */
int64_t orr_dims_product(const orr_input_dims *dims, uint32_t arg);
/* The text with the values of `dims` in place of its own. In the arena; NULL: out of memory. */
const char *orr_dims_text(const char *text, const orr_input_dims *dims, orr_arena *arena);

/* What each number of an operator counts. `mm`: how many aten::mm came before it in the piece. */
void orr_dims_meaning(const orr_step_piece *piece, const orr_plan *plan, const char *op,
                      uint32_t mm, const orr_input_dims *dims, orr_dim_meaning *ret);
/* The value carried over to another plan; false: it does not divide, or what it counts is not known
 * in one of the plans. */
bool orr_dim_translate(const orr_plan *from, const orr_plan *to, orr_dim_meaning feature,
                       int64_t *value);

/* Parameters of a forward piece by the shapes of its weights. */
int64_t orr_piece_parameters(const orr_profiled_step *step, const orr_step_piece *piece);

#endif /* ORR_RESCALE_RECOGNISE_INPUT_DIMS_H */
