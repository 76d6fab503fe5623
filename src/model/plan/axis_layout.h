/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_PLAN_AXIS_LAYOUT_H
#define ORR_MODEL_PLAN_AXIS_LAYOUT_H

#include <orrery/machine.h>
#include <orrery/plan.h>

/* Groups of any axis by arithmetic. A rank's digits that an axis is made of, read as a mixed
 * number, are its index along the axis; a group is every `stride`-th index, `size` of them:
 *
 *   base axes  one digit, all of it              cp of tp-cp-dp-pp: (c, every t)
 *   DP         its digit in `order`, and its outer part, which lies outside of all others
 *   GRADIENT   the digits cp and dp; SHARD is their innermost part, REPLICA every so many-th
 *   EP ETP EDP all digits but pp: those inside of pp are one digit, those outside another
 *   TIED       the digit pp, first and last
 *   OUTER    the outer part of dp; with local steps GRADIENT and EP, ETP, EDP are without it */
typedef struct orr_digit {
    uint32_t size, stride; /* the next value of the digit is `stride` ranks on */
} orr_digit;
typedef struct orr_axis_layout {
    orr_digit digits[3]; /* innermost first */
    uint32_t n_digits;
    uint32_t n; /* indices: product of the digits' sizes */
    uint32_t stride, size;
} orr_axis_layout;
orr_axis_layout orr_plan_axis_layout(const orr_plan *plan, orr_axis axis);

/* Where a plan says which ranks each site gets, the site of a rank depends on its replica with
 * cross=dp, on its stage and its outer part of dp with cross=pp. So of all groups of an axis in a
 * stage few have to be looked at to know how all lie: those with the ranks of replicas 0, `step`,
 * 2 x `step`, ..., `n` of them, as their index 0. n 0: no group leaves its site. */
typedef struct orr_axis_bases {
    uint32_t n, step;
} orr_axis_bases;
orr_axis_bases orr_plan_axis_bases(const orr_plan *plan, orr_axis axis);
/* The first rank of a stage in a replica. */
uint32_t orr_plan_base_rank(const orr_plan *plan, uint32_t stage, uint32_t replica);

/* Rank of an index along the axis, from the rank of index 0. */
static inline uint32_t orr_axis_layout_rank(const orr_axis_layout *l, uint32_t base, uint32_t index)
{
    for (uint32_t i = 0; i < l->n_digits; i++) {
        base += index % l->digits[i].size * l->digits[i].stride;
        index /= l->digits[i].size;
    }
    return base;
}

/* The first group of an axis as all sums of runs: a run is `size` ranks, each `stride` after the
 * one before, and encloses the run before it. */
typedef struct orr_runs {
    orr_digit run[3];
    uint32_t n;
} orr_runs;
/* False: the group does not begin and end with whole digits. */
bool orr_runs_of(const orr_axis_layout *l, orr_runs *ret);
/* Do units of so many devices begin with whole elements of every run? */
bool orr_runs_aligned(const orr_runs *r, uint32_t devices);
/* How many units of the level below, of so many devices, a unit of a level has members in; *even
 * turns false where units differ. */
uint32_t orr_runs_width(const orr_runs *r, uint32_t below, uint32_t devices, bool *even);

/* Of two ways to lie, does the first go farther? */
bool orr_span_is_wider(const orr_span *a, const orr_span *b);
/* orr_plan_span() where units of the cluster are uneven. */
orr_status orr_plan_site_span(const orr_plan *plan, orr_axis axis, const orr_cluster *cluster,
                              orr_span *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_PLAN_AXIS_LAYOUT_H */
