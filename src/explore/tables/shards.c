/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/tables/planner.h"

void orr_price_table_shards(const orr_table_planner_options *options,
                            const orr_embedding_plan *plan, orr_table_shard_cost *ret)
{
    orr_table_planner_options o = *options;
    o.costs.miss_frac = orr_table_miss_frac(options);
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        const orr_embedding_placement *p = &plan->placements[t];
        const bool copies = p->sharding == ORR_SHARDING_DATA;
        const orr_table_split split = {.kind = p->sharding,
                                       .columns = p->columns,
                                       .rows = copies ? 1 : p->n_ranks / p->columns};
        for (uint32_t i = 0; i < p->n_shards; i++) {
            orr_table_price price;
            if (copies)
                orr_table_shared_price_of(&o, t, &split, &price);
            else
                orr_table_shard_price_of(&o, t, &split, i, &price);
            ret[p->first_shard + i] =
                (orr_table_shard_cost){orr_table_price_ns(&price), price.bytes};
        }
    }
}
