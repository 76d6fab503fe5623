/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PROPERTY_RANDOM_PLANS_H
#define TESTS_PROPERTY_RANDOM_PLANS_H

#include <orrery/plan.h>

#include "base/philox.h"

/* Random choices of plans, for properties that hold for all of them. */

static inline uint32_t one_of(orr_random *random, uint32_t n, const uint32_t *values)
{
    return values[orr_random_below(random, n)];
}
#define PICK(random, ...)                                                                          \
    one_of((random), sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                   \
           (const uint32_t[]){__VA_ARGS__})
#define ONE_OF(s, ...) PICK(&(s)->random, __VA_ARGS__)

/* What a plan says beside degrees, schedule and networks. */
static inline void choose_switches(orr_random *random, orr_plan *p)
{
    p->recompute = (uint8_t)PICK(random, 0, 0, ORR_RECOMPUTE_FULL, ORR_RECOMPUTE_SELECTIVE,
                                 ORR_RECOMPUTE_BLOCK);
    p->recompute_layers = p->recompute == ORR_RECOMPUTE_BLOCK ? 1 : 0;
    p->overlap_dp = (uint8_t)PICK(random, 0, 0, 0, ORR_SWITCH_OFF);
    p->overlap_tp = (uint8_t)PICK(random, 0, 0, 0, ORR_SWITCH_ON);
    p->overlap_pp = (uint8_t)PICK(random, 0, 0, 0, ORR_SWITCH_OFF);
    p->overlap_ep = (uint8_t)PICK(random, 0, 0, 0, ORR_SWITCH_ON);
    p->precision = (uint8_t)PICK(random, 0, 0, ORR_PRECISION_FP8);
    p->gradients = (uint8_t)PICK(random, 0, 0, 0, ORR_PRECISION_BF16);
    p->offload = (uint8_t)PICK(random, 0, 0, 0, 0, 0, ORR_OFFLOAD_OPTIMIZER, ORR_OFFLOAD_BOTH);
    p->graphs = (uint8_t)PICK(random, 0, 0, 0, ORR_SWITCH_ON);
    p->fusion = (uint8_t)PICK(random, 0, 0, 0, ORR_SWITCH_OFF);
    p->zero = PICK(random, 0, 1, 1, 1, 2, 3);
    p->prefetch = p->zero == 3 ? PICK(random, 0, 1, 2, 4) : 0;
    p->reshard = (uint8_t)(p->zero == 3 ? PICK(random, 0, 0, ORR_SWITCH_OFF) : 0);
    p->bucket_bytes = PICK(random, 0, 0, 0, 1U << 22, 1U << 30);
    if (p->zero > 0 && p->dp * p->cp % 4 == 0 && PICK(random, 0, 0, 1) == 1)
        p->shards = p->dp * p->cp / 4;
}

#endif /* TESTS_PROPERTY_RANDOM_PLANS_H */
