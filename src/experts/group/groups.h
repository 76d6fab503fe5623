/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_GROUP_GROUPS_H
#define ORR_EXPERTS_GROUP_GROUPS_H

#include <orrery/experts.h>

enum {
    ORR_EXPERT_GROUPS_MAX = 1024,
    ORR_EXPERT_NEIGHBOURS_MAX = 64,
    ORR_EXPERT_GROUPS_SAMPLE = 2048 /* most requests that centres are fitted on, and that are kept
                                     * as neighbours: of more, evenly spaced ones */
};

/* What orr_expert_groups is. Frozen; lives in the arena. D = L x E. */
struct orr_expert_groups {
    uint32_t layers, experts, top_k, groups, neighbours;
    double capacity, load_band;
    const float *centre;    /* shape (groups, D): unit vectors */
    uint32_t recorded;      /* 0 where no neighbours are asked */
    const float *signature; /* shape (recorded, D) */
    const uint32_t *group;  /* shape (recorded) */
};

/* Balanced k-means of n unit vectors: centres to which each vector is assigned such that no group
 * has more than ceil(capacity * n / groups) vectors and the sum of scalar products is high. The
 * best of a few starts that `seed` draws. centre: shape (groups, d); group: shape (n). */
typedef struct orr_balanced_means {
    const float *vector; /* shape (n, d) */
    uint32_t n, groups;
    size_t d;
    double capacity;
    uint64_t seed;
} orr_balanced_means;
orr_status orr_balanced_means_fit(const orr_balanced_means *how, float *centre, uint32_t *group,
                                  orr_error *err) ORR_MUST_CHECK;

/* Assigns each of n vectors to one of the groups, the highest products first. similarity: shape (n,
 * groups); capacity: shape (groups): room of each group, counted down. pair: scratch, shape (n *
 * groups). ret: shape (n). */
typedef struct orr_similarity_pair {
    float similarity;
    uint32_t vector, group;
} orr_similarity_pair;
void orr_assign_balanced(const float *similarity, uint32_t n, uint32_t groups, uint32_t *capacity,
                         orr_similarity_pair *pair, uint32_t *ret);

#endif /* ORR_EXPERTS_GROUP_GROUPS_H */
