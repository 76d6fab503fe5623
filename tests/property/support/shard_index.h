/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_OWNED_H
#define TESTS_OWNED_H

#include "model/module/local_shard.h"
#include "../naive/run.h"

/* Where the elements of a rank's value stand in that of one device, by orr_module_local_shard().
 * Samples of replicas stand behind one another. */
typedef struct owned {
    orr_local_shard o;
    orr_type own, whole;
    int64_t sample; /* the replica's first */
} owned;

static owned owned_of(const orr_module *module, const orr_plan *plan, uint32_t rank,
                      orr_value value, const orr_type *whole)
{
    const orr_tape_value *v = &module->tape->values[value];
    owned s = {.own = v->type, .whole = *whole};
    orr_error err = {0};
    if (orr_module_local_shard(module, plan, rank, value, &s.o, &err) != ORR_OK)
        fail_msg("%s: %s", v->name, err.text);
    const bool borrowed = v->role == ORR_VALUE_INPUT &&
                          (strcmp(v->name, "embedding") == 0 || strcmp(v->name, "head") == 0);
    const bool weights =
        v->role == ORR_VALUE_PARAMETER || v->role == ORR_VALUE_PARAMETER_GRADIENT || borrowed;
    const bool dealt = s.o.slices & orr_axis_bit(ORR_AXIS_DP); /* over replicas already */
    const uint32_t replicas = dealt ? 1 : orr_plan_group_size(plan, ORR_AXIS_DP);
    for (uint32_t d = 0; d < whole->rank; d++)
        if (s.o.whole.dim[d] * (d == 0 && !weights ? replicas : 1) != whole->dim[d])
            fail_msg("%s: dim %u is %lld of a whole of %lld", v->name, d,
                     (long long)s.o.whole.dim[d], (long long)whole->dim[d]);
    if (!weights && !dealt)
        s.sample = orr_plan_member(plan, ORR_AXIS_DP, rank) * s.o.whole.dim[0];
    return s;
}

/* Of element i; -1: padding. */
static int64_t owned_index(const owned *s, int64_t i)
{
    int64_t at[ORR_TYPE_DIMS];
    naive_unravel(&s->own, i, at);
    for (uint32_t d = 0; d < s->own.rank; d++) {
        const orr_dim_pieces *share = &s->o.by[d];
        int64_t found = -1;
        for (uint32_t k = 0; k < share->n; k++)
            if (at[d] >= share->piece[k].own && at[d] < share->piece[k].own + share->piece[k].count)
                found = share->piece[k].whole + at[d] - share->piece[k].own;
        if (found < 0)
            return -1;
        at[d] = found + (d == 0 ? s->sample : 0);
    }
    return naive_ravel(&s->whole, at);
}

/* The rank's elements, from those of the whole; padding is zeros. */
static void owned_take(const owned *s, const double *whole, double *own)
{
    for (int64_t i = 0; i < naive_size(&s->own); i++) {
        const int64_t at = owned_index(s, i);
        own[i] = at < 0 ? 0 : whole[at];
    }
}

#endif /* TESTS_OWNED_H */
