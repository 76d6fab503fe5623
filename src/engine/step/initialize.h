/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_INITIALIZE_H
#define ORR_ENGINE_STEP_INITIALIZE_H

#include <orrery/op.h>

/* What a parameter begins as: normal with deviation 0.02, that of products which add to the
 * residual stream divided by sqrt(2 L) (GPT-2: Radford et al. 2019, section 2.3; Megatron-LM,
 * arXiv 1909.08053, section 4.3); norms at 1; what is added, gates and adapters' second halves
 * at 0. */
typedef enum orr_initializer {
    ORR_INITIALIZER_NORMAL,
    ORR_INITIALIZER_RESIDUAL,
    ORR_INITIALIZER_ONES,
    ORR_INITIALIZER_ZEROS
} orr_initializer;
/* By what the first call that reads it does with it. */
orr_initializer orr_initializer_of(const orr_tape *tape, orr_value parameter);

/* Normal number of a row and column of a tensor: the same on every machine and in every plan. Four
 * columns, from a multiple of 4 on, at once. `stream`: which tensor. */
void orr_initializer_normal4(uint64_t seed, uint32_t stream, uint64_t row, uint32_t column,
                             float ret[4]);

#endif /* ORR_ENGINE_STEP_INITIALIZE_H */
