/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_PARALLEL_AXIS_H
#define ORR_MODEL_PARALLEL_AXIS_H

#include <orrery/plan.h>

/* Groups of any axis by arithmetic. A rank's digits that an axis is made of, read as a mixed
 * number, are its index along the axis; a group is every `stride`-th index, `size` of them:
 *
 *   base axes  one digit, all of it              cp of tp-cp-dp-pp: (c, every t)
 *   GRADIENT   the digits cp and dp; SHARD is their innermost part, REPLICA every so many-th
 *   EP ETP EDP all digits but pp: those inside of pp are one digit, those outside another
 *   TIED       the digit pp, first and last */
typedef struct orr_digit {
    uint32_t size, stride; /* the next value of the digit is `stride` ranks on */
} orr_digit;
typedef struct orr_axis_layout {
    orr_digit digits[2]; /* innermost first */
    uint32_t  n_digits;
    uint32_t  n;         /* indices: product of the digits' sizes */
    uint32_t  stride, size;
} orr_axis_layout;
orr_axis_layout orr_plan_layout(const orr_plan *plan, orr_axis axis);

/* Rank of an index along the axis, from the rank of index 0. */
static inline uint32_t orr_layout_rank(const orr_axis_layout *l, uint32_t base, uint32_t index)
{
    for (uint32_t i = 0; i < l->n_digits; i++) {
        base += index % l->digits[i].size * l->digits[i].stride;
        index /= l->digits[i].size;
    }
    return base;
}

#endif /* ORR_MODEL_PARALLEL_AXIS_H */
