/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tables/tables_state.h"

/* Updates of rows. Shards that sum squares with others are updated first, in the plan's order,
 * which is the same on all ranks: a rank waits only for ranks that are at the same table or an
 * earlier one, so that the earliest table can always go on. */

static orr_status update_shard(orr_tables *t, orr_tables_set *set, uint32_t i, uint32_t n_peers,
                               const orr_update *by, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    const orr_tables_entry *e = &t->entries[i];
    orr_tables_square_sum squares = {t, e, n_peers, &set->traffic.squares};
    const bool alone = l->ranks == 1;
    const orr_shard_update update = {
        .lookups = &set->lookups[i],
        .gradient = alone ? set->gradient + l->parts[e->table].first_column
                          : (const float *)t->vectors.at + e->gradient_at,
        .gradient_stride = alone ? l->columns : l->rank[l->me].gradient_numbers,
        .by = by,
        .seed = t->source.seed,
        .table_columns = l->plan->tables[e->table].columns,
        .sum_squares = n_peers > 0 ? orr_tables_sum_squares : NULL,
        .ctx = &squares,
    };
    ORR_TRY(orr_tables_reserve(t, &t->workspace, orr_shard_update_bytes(&update), err));
    return orr_shard_update_run(&update, t->workspace.at, t->source.workers, err);
}

orr_status orr_tables_update(orr_tables *t, uint32_t slot, const orr_update *by, orr_error *err)
{
    const orr_embedding_plan *plan = t->layout.plan;
    orr_tables_set *set = orr_tables_set_of(t, slot);
    ORR_TRY(orr_tables_change(t, set, err));
    for (int second = 0; second <= 1; second++)
        for (uint32_t i = 0; i < t->n_shards; i++) {
            const uint32_t n = orr_tables_square_peers(&t->layout, &t->entries[i], t->peers);
            if ((n == 0) == second)
                ORR_TRY(update_shard(t, set, i, n, by, err));
        }
    orr_tables_end(t, set, true);
    if (t->groups != NULL && plan->synchronize > 0 && by->step % plan->synchronize == 0)
        ORR_TRY(orr_tables_average_groups(t, err));
    t->last = set->traffic;
    return ORR_OK;
}
