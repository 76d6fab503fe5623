/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_INITIALIZE_H
#define ORR_ENGINE_STEP_INITIALIZE_H

#include <orrery/op.h>

/* Initializers: normal with deviation 0.02; projections into the residual stream additionally
 * divided by sqrt(2 L) (GPT-2: Radford et al. 2019, section 2.3; Megatron-LM, arXiv 1909.08053,
 * section 4.3); norm weights 1; biases, gates and the second factor of LoRA adapters 0. */
typedef enum orr_initializer {
    ORR_INITIALIZER_NORMAL,
    ORR_INITIALIZER_RESIDUAL,
    ORR_INITIALIZER_ONES,
    ORR_INITIALIZER_ZEROS
} orr_initializer;
/* Derived from what the first call that reads the parameter does with it. */
orr_initializer orr_initializer_of(const orr_tape *tape, orr_value parameter);

#endif /* ORR_ENGINE_STEP_INITIALIZE_H */
