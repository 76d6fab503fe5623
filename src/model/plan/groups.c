/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan/groups.h"

#include "model/plan/axis_layout.h"
#include "model/plan/plan.h"

/* Degree of an axis, for dp without its outer part. */
static uint32_t degree_of(const orr_plan *plan, uint32_t axis)
{
    switch (axis) {
    case ORR_AXIS_TP:
        return orr_plan_degree(plan->tp);
    case ORR_AXIS_CP:
        return orr_plan_degree(plan->cp);
    case ORR_AXIS_DP:
        return orr_plan_dp_inner(plan);
    default:
        return orr_plan_degree(plan->pp);
    }
}

/* The i-th base axis of the order, innermost first. */
static uint32_t axis_at(const orr_plan *plan, uint32_t i)
{
    return orr_plan_has_order(plan) ? plan->order[i] - 1U : i;
}

static orr_digit digit_of(const orr_plan *plan, uint32_t axis)
{
    uint32_t stride = 1, i = 0;
    while (axis_at(plan, i) != axis)
        stride *= degree_of(plan, axis_at(plan, i++));
    return (orr_digit){degree_of(plan, axis), stride};
}

/* Ranks of one outer part of dp: the product of the degrees of all base axes. */
static uint32_t outer_stride(const orr_plan *plan)
{
    uint32_t stride = 1;
    for (uint32_t axis = 0; axis < ORR_BASE_AXES; axis++)
        stride *= degree_of(plan, axis);
    return stride;
}

static orr_digit outer_digit(const orr_plan *plan)
{
    return (orr_digit){orr_plan_degree(plan->dp_outer), outer_stride(plan)};
}

uint32_t orr_plan_stage_ranks(const orr_plan *plan, uint32_t stage, uint32_t end)
{
    const orr_digit pipeline = digit_of(plan, ORR_AXIS_PP);
    const uint32_t stride = pipeline.stride, round = stride * pipeline.size;
    const uint32_t rest = end % round, from = stage * stride;
    const uint32_t more = rest <= from ? 0 : rest - from < stride ? rest - from : stride;
    return end / round * stride + more;
}

uint64_t orr_plan_ranks(const orr_plan *plan)
{
    const uint32_t degrees[] = {plan->tp, plan->cp, plan->dp, plan->pp};
    uint64_t ranks = 1;
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        if (__builtin_mul_overflow(ranks, (uint64_t)orr_plan_degree(degrees[i]), &ranks))
            return UINT64_MAX;
    return ranks;
}

orr_coordinates orr_plan_coordinates(const orr_plan *plan, uint32_t rank)
{
    orr_coordinates ret;
    for (uint32_t i = 0; i < ORR_BASE_AXES; i++) {
        const uint32_t axis = axis_at(plan, i), degree = degree_of(plan, axis);
        ret.at[axis] = rank % degree;
        rank /= degree;
    }
    ret.at[ORR_AXIS_DP] += rank * degree_of(plan, ORR_AXIS_DP);
    return ret;
}

uint32_t orr_plan_rank_at(const orr_plan *plan, const orr_coordinates *at)
{
    uint32_t rank = 0, stride = 1;
    for (uint32_t i = 0; i < ORR_BASE_AXES; i++) {
        const uint32_t axis = axis_at(plan, i), degree = degree_of(plan, axis);
        rank += at->at[axis] % degree * stride;
        stride *= degree;
    }
    return rank + at->at[ORR_AXIS_DP] / degree_of(plan, ORR_AXIS_DP) * stride;
}

uint32_t orr_plan_site_units(const orr_plan *plan)
{
    return plan->cross == ORR_CROSS_PP ? orr_plan_degree(plan->pp) * orr_plan_degree(plan->dp_outer)
                                       : orr_plan_degree(plan->dp);
}

static uint32_t gradient_ranks(const orr_plan *plan)
{
    return degree_of(plan, ORR_AXIS_CP) * orr_plan_synchronous_replicas(plan);
}

static uint32_t expert_slices(const orr_plan *plan)
{
    return plan->etp > 0 ? plan->etp : degree_of(plan, ORR_AXIS_TP);
}

static uint32_t shard_ranks(const orr_plan *plan)
{
    if (plan->zero == 0)
        return 1;
    return plan->shards > 0 ? plan->shards : gradient_ranks(plan);
}

/* Ranks from the stage with the embedding to the stage with the head. Where the pipeline is
 * folded into a V (ZB-V, DualPipe) both are on the first stage. */
static uint32_t tied_ranks(const orr_plan *plan)
{
    return degree_of(plan, ORR_AXIS_PP) > 1 && plan->schedule != ORR_SCHEDULE_ZB_V ? 2 : 1;
}

uint32_t orr_plan_group_size(const orr_plan *plan, orr_axis axis)
{
    switch (axis) {
    case ORR_AXIS_EP:
        return orr_plan_degree(plan->ep);
    case ORR_AXIS_ETP:
        return expert_slices(plan);
    case ORR_AXIS_EDP:
        return degree_of(plan, ORR_AXIS_TP) * gradient_ranks(plan) / expert_slices(plan) /
               orr_plan_degree(plan->ep);
    case ORR_AXIS_GRADIENT:
        return gradient_ranks(plan);
    case ORR_AXIS_SHARD:
        return shard_ranks(plan);
    case ORR_AXIS_REPLICA:
        return gradient_ranks(plan) / shard_ranks(plan);
    case ORR_AXIS_TIED:
        return tied_ranks(plan);
    case ORR_AXIS_OUTER:
        return plan->local_steps > 1 ? orr_plan_degree(plan->dp_outer) : 1;
    case ORR_AXIS_DP:
        return orr_plan_degree(plan->dp);
    default:
        return axis < ORR_BASE_AXES ? degree_of(plan, axis) : 1;
    }
}

/* Appends a digit outside of the others. */
static void add_digit(orr_axis_layout *l, orr_digit digit)
{
    l->digits[l->n_digits++] = digit;
    l->n = l->n_digits == 1 ? digit.size : l->n * digit.size;
}

/* Appends the digit of the outer part of dp: all outer parts, or only where their gradients are
 * summed in every step. */
static void add_outer(orr_axis_layout *l, const orr_plan *plan, bool all)
{
    if (orr_plan_degree(plan->dp_outer) > 1 && (all || plan->local_steps <= 1))
        add_digit(l, outer_digit(plan));
}

static orr_axis_layout gradient_layout(const orr_plan *plan)
{
    orr_axis_layout l = {.n_digits = 0};
    for (uint32_t i = 0; i < ORR_BASE_AXES; i++)
        if (axis_at(plan, i) == ORR_AXIS_CP || axis_at(plan, i) == ORR_AXIS_DP)
            add_digit(&l, digit_of(plan, axis_at(plan, i)));
    add_outer(&l, plan, false);
    return l;
}

/* The layout of all ranks of one stage: digits inside of pp are contiguous and become one digit;
 * base axes outside of pp, another. */
static orr_axis_layout stage_layout(const orr_plan *plan)
{
    const orr_digit pipeline = digit_of(plan, ORR_AXIS_PP);
    const uint32_t inside = pipeline.stride, all = (uint32_t)orr_plan_ranks(plan),
                   together = plan->local_steps > 1 ? outer_stride(plan) : all;
    orr_axis_layout l = {.n_digits = 0};
    add_digit(&l, (orr_digit){inside, 1});
    add_digit(&l, (orr_digit){together / inside / pipeline.size, inside * pipeline.size});
    return l;
}

static orr_axis_layout space_of(const orr_plan *plan, orr_axis axis)
{
    orr_axis_layout l = {.n_digits = 0};
    switch (axis) {
    case ORR_AXIS_EP:
    case ORR_AXIS_ETP:
    case ORR_AXIS_EDP:
        return stage_layout(plan);
    case ORR_AXIS_GRADIENT:
    case ORR_AXIS_SHARD:
    case ORR_AXIS_REPLICA:
        return gradient_layout(plan);
    case ORR_AXIS_OUTER:
        add_digit(&l, outer_digit(plan));
        return l;
    default:
        add_digit(&l, digit_of(plan, axis < ORR_BASE_AXES ? axis : ORR_AXIS_PP));
        if (axis == ORR_AXIS_DP)
            add_outer(&l, plan, true);
        return l;
    }
}

orr_axis_layout orr_plan_axis_layout(const orr_plan *plan, orr_axis axis)
{
    orr_axis_layout l = space_of(plan, axis);
    l.size = orr_plan_group_size(plan, axis);
    l.stride = 1;
    if (axis == ORR_AXIS_EP || axis == ORR_AXIS_EDP)
        l.stride = expert_slices(plan);
    if (axis == ORR_AXIS_EDP)
        l.stride *= orr_plan_degree(plan->ep);
    if (axis == ORR_AXIS_REPLICA)
        l.stride = shard_ranks(plan);
    if (axis == ORR_AXIS_TIED && l.size > 1)
        l.stride = l.n - 1;
    return l;
}

/* Does the axis have a digit for the outer part of dp? */
static bool has_outer(const orr_plan *plan, orr_axis axis)
{
    if (orr_plan_degree(plan->dp_outer) == 1)
        return false;
    switch (axis) {
    case ORR_AXIS_TP:
    case ORR_AXIS_CP:
    case ORR_AXIS_PP:
    case ORR_AXIS_TIED:
        return false;
    case ORR_AXIS_DP:
    case ORR_AXIS_OUTER:
        return true;
    default:
        return plan->local_steps <= 1;
    }
}

orr_axis_bases orr_plan_axis_bases(const orr_plan *plan, orr_axis axis)
{
    const uint32_t outer = orr_plan_degree(plan->dp_outer), inner = orr_plan_dp_inner(plan);
    const bool stages = axis == ORR_AXIS_PP || axis == ORR_AXIS_TIED;
    if (plan->cross == ORR_CROSS_PP)
        return stages                  ? (orr_axis_bases){outer, inner}
               : has_outer(plan, axis) ? (orr_axis_bases){1, 0}
                                       : (orr_axis_bases){0, 0};
    if (stages || axis == ORR_AXIS_TP || axis == ORR_AXIS_CP)
        return (orr_axis_bases){0, 0};
    if (axis == ORR_AXIS_OUTER)
        return (orr_axis_bases){inner, 1};
    return has_outer(plan, axis) ? (orr_axis_bases){1, 0} : (orr_axis_bases){outer, inner};
}

uint32_t orr_plan_base_rank(const orr_plan *plan, uint32_t stage, uint32_t replica)
{
    orr_coordinates at = {{0}};
    at.at[ORR_AXIS_PP] = stage;
    at.at[ORR_AXIS_DP] = replica;
    return orr_plan_rank_at(plan, &at);
}

/* Position of a rank along an axis: its index, and the rank with index 0 of the same line. */
typedef struct axis_position {
    uint32_t index, base;
} axis_position;

static axis_position axis_position_of(const orr_axis_layout *l, uint32_t rank)
{
    axis_position at = {0, rank};
    for (uint32_t i = l->n_digits; i-- > 0;) {
        const uint32_t value = rank / l->digits[i].stride % l->digits[i].size;
        at.index = at.index * l->digits[i].size + value;
        at.base -= value * l->digits[i].stride;
    }
    return at;
}

/* Index of the first member of the group. ORR_NONE: the group would not end within the axis
 * (stages between the two that share tied weights). */
static uint32_t first_index(const orr_axis_layout *l, uint32_t index)
{
    const uint32_t first = index - index / l->stride % l->size * l->stride;
    return first + (uint64_t)l->stride * (l->size - 1) < l->n ? first : ORR_NONE;
}

/* A counter over the indices of an axis, digit by digit, so that the next member is found
 * without a division. */
typedef struct counter {
    const orr_axis_layout *l;
    uint32_t at[3], step[3]; /* by digit */
} counter;

static counter counter_at(const orr_axis_layout *l, uint32_t index)
{
    counter c = {.l = l};
    uint32_t step = l->stride;
    for (uint32_t i = 0; i < l->n_digits; i++) {
        c.at[i] = index % l->digits[i].size;
        c.step[i] = step % l->digits[i].size;
        index /= l->digits[i].size;
        step /= l->digits[i].size;
    }
    return c;
}

/* Advances to the next member. Returns the difference of ranks, modulo 2^32. */
static uint32_t count_on(counter *c)
{
    uint32_t ranks = 0, carry = 0;
    for (uint32_t i = 0; i < c->l->n_digits; i++) {
        const orr_digit digit = c->l->digits[i];
        uint32_t next = c->at[i] + c->step[i] + carry;
        carry = next >= digit.size;
        next -= carry ? digit.size : 0;
        ranks += (next - c->at[i]) * digit.stride;
        c->at[i] = next;
    }
    return ranks;
}

void orr_plan_members_of(const orr_plan *plan, orr_axis axis, uint32_t rank, uint32_t *ret)
{
    const orr_axis_layout l = orr_plan_axis_layout(plan, axis);
    const axis_position at = axis_position_of(&l, rank);
    uint32_t first = first_index(&l, at.index);
    if (first == ORR_NONE)
        first = 0;
    counter c = counter_at(&l, first);
    uint32_t member = orr_axis_layout_rank(&l, at.base, first);
    for (uint32_t i = 0; i < l.size; i++, member += count_on(&c))
        ret[i] = member;
}

uint32_t orr_plan_member(const orr_plan *plan, orr_axis axis, uint32_t rank)
{
    const orr_axis_layout l = orr_plan_axis_layout(plan, axis);
    return axis_position_of(&l, rank).index / l.stride % l.size;
}

/* Groups are numbered by their first rank; these come before all other ranks of their groups. */
orr_status orr_plan_grouping(const orr_plan *plan, orr_axis axis, orr_arena *arena,
                             orr_grouping *ret, orr_error *err)
{
    const orr_axis_layout l = orr_plan_axis_layout(plan, axis);
    const uint32_t n_ranks = (uint32_t)orr_plan_ranks(plan);
    uint32_t *group_of = orr_arena_array(arena, uint32_t, n_ranks), n = 0;
    if (group_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        const axis_position at = axis_position_of(&l, rank);
        const uint32_t first = first_index(&l, at.index);
        if (first == ORR_NONE)
            group_of[rank] = ORR_NONE;
        else if (first == at.index)
            group_of[rank] = n++;
        else
            group_of[rank] = group_of[orr_axis_layout_rank(&l, at.base, first)];
    }
    return orr_grouping_of(orr_axis_name(axis), group_of, n_ranks, n, arena, ret, err);
}
