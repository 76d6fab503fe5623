/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_TRAIN_LEARNING_RATE_H
#define ORR_ENGINE_TRAIN_LEARNING_RATE_H

#include <stdint.h>

/* Learning-rate schedules: linear warmup over `warmup` steps, then decay to `least` at the last
 * step by half a cosine (Loshchilov and Hutter, ICLR 2017, equation 5, one period), linearly, or
 * not at all. */
typedef struct orr_learning_rate {
    double most, least;
    int64_t warmup, steps;
    uint8_t schedule; /* orr_learning_rate_schedule */
} orr_learning_rate;
double orr_learning_rate_at(const orr_learning_rate *rate, int64_t step); /* from 1 */

#endif /* ORR_ENGINE_TRAIN_LEARNING_RATE_H */
