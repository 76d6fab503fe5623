/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_GROUP_PACKING_H
#define ORR_EXPERTS_POLICY_GROUP_PACKING_H

#include <stdbool.h>
#include <stdint.h>

/* Groups of experts on hosts, equally many on each, so that the host with most load for each of its
 * live ranks has as little as can be. */
typedef struct orr_group_packing {
    uint32_t groups, hosts;  /* hosts divide groups */
    const uint32_t *live;    /* shape (hosts): live ranks, not 0 */
    const double *load;      /* shape (groups) */
    uint32_t *host;          /* shape (groups): the answer */
    uint32_t *order, *trial; /* shape (groups): scratch */
    double *sum;             /* shape (hosts): scratch */
    uint32_t *count;         /* shape (hosts): scratch */
} orr_group_packing;

/* Branch and bound from the greedy packing on; after many nodes the best so far is exchanged pair
 * by pair until none helps. Returns whether the answer is proven; *ret_most: load of that host over
 * its live ranks. Threads: none. */
bool orr_groups_pack(orr_group_packing *packing, double *ret_most);

#endif /* ORR_EXPERTS_POLICY_GROUP_PACKING_H */
