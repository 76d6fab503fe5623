/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_PLAN_AXIS_LAYOUT_H
#define ORR_MODEL_PLAN_AXIS_LAYOUT_H

#include <orrery/machine.h>
#include <orrery/plan.h>

/* Process groups by arithmetic instead of lists. A rank is a mixed-radix number: its digits,
 * innermost first, are its coordinates along the base axes in the plan's `order`, and the outer
 * part of dp is the last digit. An axis is made of some of these digits; read as a number of their
 * own, they are the rank's index along the axis. A group is `size` indices, each `stride` after the
 * one before:
 *
 *   base axes  one digit, all of it              cp of tp-cp-dp-pp: (c, every t)
 *   DP         its digit in `order`, and its outer part, which lies outside of all others
 *   GRADIENT   the digits cp and dp; SHARD is their innermost part, REPLICA every so many-th
 *   EP ETP EDP all digits but pp: those inside of pp are one digit, those outside another
 *   TIED       the digit pp, first and last stage
 *   OUTER      the outer part of dp; with local steps GRADIENT and EP, ETP, EDP are without it
 *
 * Example, 16 ranks, tp=2, dp=4, pp=2 in the order tp-dp-pp: rank = t + 2 d + 8 p. Rank 11 is t
 * 1, d 1, p 1. Its TP group is {10, 11}, its DP group {9, 11, 13, 15}, its PP group {3, 11}.
 * With ep=4, EP groups are 4 neighbouring indices of the digits (tp, dp) of a stage: {8, 9, 10,
 * 11}, and EDP groups take every 4th: {11, 15}. */
typedef struct orr_digit {
    uint32_t size, stride; /* adding 1 to the digit adds `stride` to the rank */
} orr_digit;
typedef struct orr_axis_layout {
    orr_digit digits[3]; /* innermost digit first */
    uint32_t n_digits;
    uint32_t n; /* indices along the axis: product of the digits' sizes */
    uint32_t stride, size;
} orr_axis_layout;
orr_axis_layout orr_plan_axis_layout(const orr_plan *plan, orr_axis axis);

/* Which groups of an axis must be examined to know the spans of all. Where a plan assigns ranks
 * to sites, the site of a rank follows from its replica with cross=dp, and from its stage and
 * its outer part of dp with cross=pp. So the groups of a stage differ only by the replica that
 * they begin in, and few replicas stand for all: 0, `step`, 2 x `step`, ... (`n` of them). n 0:
 * no group leaves its site. */
typedef struct orr_axis_bases {
    uint32_t n, step;
} orr_axis_bases;
orr_axis_bases orr_plan_axis_bases(const orr_plan *plan, orr_axis axis);
/* First rank of a stage in a replica. */
uint32_t orr_plan_base_rank(const orr_plan *plan, uint32_t stage, uint32_t replica);

/* Rank with the given index along the axis; `base` is the rank with index 0. */
static inline uint32_t orr_axis_layout_rank(const orr_axis_layout *l, uint32_t base, uint32_t index)
{
    for (uint32_t i = 0; i < l->n_digits; i++) {
        base += index % l->digits[i].size * l->digits[i].stride;
        index /= l->digits[i].size;
    }
    return base;
}

/* The first group of an axis as a set of nested arithmetic progressions (runs): its ranks are
 * all sums of one element of each run. A run has `size` elements, `stride` ranks apart, and its
 * stride is at least the extent of the run before it. */
typedef struct orr_runs {
    orr_digit run[3];
    uint32_t n;
} orr_runs;
/* The runs of the first group. False: the group begins or ends inside of a digit, so that it is
 * no set of runs. */
bool orr_runs_of(const orr_axis_layout *l, orr_runs *ret);
/* Does every boundary between units of `devices` devices fall between elements of each run? */
bool orr_runs_aligned(const orr_runs *r, uint32_t devices);
/* The group's width at a level: how many units of the level below, of `below` devices each, it
 * reaches within one unit of `devices` devices. Clears *even where units differ. */
uint32_t orr_runs_width(const orr_runs *r, uint32_t below, uint32_t devices, bool *even);

/* Does span `a` reach farther than `b`? The outermost level at which they differ decides. */
bool orr_span_is_wider(const orr_span *a, const orr_span *b);
/* orr_plan_span() for clusters whose units have unequal sizes. */
orr_status orr_plan_site_span(const orr_plan *plan, orr_axis axis, const orr_cluster *cluster,
                              orr_span *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_PLAN_AXIS_LAYOUT_H */
