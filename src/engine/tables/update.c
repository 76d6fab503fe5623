/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/tables/tables_state.h"

/* Updates of rows. Shards that sum squares with others are updated first, in the plan's order,
 * which is the same on all ranks: a rank waits only for ranks that are at the same table or an
 * earlier one, so that the earliest table can always go on. */

typedef struct square_sum {
    orr_tables *t;
    const orr_tables_entry *entry;
    uint32_t n_peers;
    int64_t *sent;
} square_sum;

/* Sums of squares of all peers, by peer; this rank's own stay where they are. */
static orr_status gather_squares(const square_sum *s, const float *own, int64_t rows, float *others,
                                 const float **ret_of, orr_error *err)
{
    orr_tables *t = s->t;
    uint32_t me = 0;
    for (uint32_t i = 0; i < s->n_peers; i++) {
        if (t->peers[i] == s->entry) {
            me = i;
            ret_of[i] = own;
            continue;
        }
        ret_of[i] = others;
        others += rows * orr_tables_blocks(t->peers[i]);
    }
    for (uint32_t k = 1; k < s->n_peers; k++) {
        const uint32_t to = (me + k) % s->n_peers, from = (me + s->n_peers - k) % s->n_peers;
        const size_t row_bytes = sizeof(float) * (size_t)rows;
        const orr_tables_message m = {.to = t->peers[to]->shard->rank,
                                      .from = t->peers[from]->shard->rank,
                                      .out = own,
                                      .in = (float *)ret_of[from],
                                      .out_bytes = row_bytes * orr_tables_blocks(s->entry),
                                      .in_bytes = row_bytes * orr_tables_blocks(t->peers[from])};
        ORR_TRY(orr_tables_send_receive(t, 1, &m, s->sent, err));
    }
    return ORR_OK;
}

static orr_status sum_squares(void *ctx, const float *squares, int64_t rows, uint32_t blocks,
                              float *ret, orr_error *err)
{
    const square_sum *s = ctx;
    orr_tables *t = s->t;
    const orr_tables_layout *l = &t->layout;
    const uint32_t columns = l->plan->tables[s->entry->table].columns,
                   all_blocks = (columns + ORR_EMBEDDING_BLOCK - 1) / ORR_EMBEDDING_BLOCK;
    ORR_TRY(orr_tables_reserve(t, &t->squares, orr_tables_squares_bytes(l, s->entry, rows), err));
    float *row_blocks = t->squares.at;
    ORR_TRY(gather_squares(s, squares, rows, row_blocks + all_blocks, t->squares_of, err));
    (void)blocks;
    for (int64_t row = 0; row < rows; row++) {
        uint32_t at = 0;
        for (uint32_t i = 0; i < s->n_peers; i++) {
            const uint32_t n = orr_tables_blocks(t->peers[i]);
            memcpy(row_blocks + at, t->squares_of[i] + row * n, n * sizeof *row_blocks);
            at += n;
        }
        ret[row] = orr_sum_blocks(row_blocks, all_blocks);
    }
    return ORR_OK;
}

static orr_status update_shard(orr_tables *t, orr_tables_set *set, uint32_t i, uint32_t n_peers,
                               const orr_update *by, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    const orr_tables_entry *e = &t->entries[i];
    square_sum squares = {t, e, n_peers, &set->traffic.squares};
    const bool alone = l->ranks == 1;
    const orr_shard_update update = {
        .lookups = &set->lookups[i],
        .gradient = alone ? set->gradient + l->parts[e->table].first_column
                          : (const float *)t->vectors.at + e->gradient_at,
        .gradient_stride = alone ? l->columns : l->rank[l->me].gradient_numbers,
        .by = by,
        .seed = t->source.seed,
        .table_columns = l->plan->tables[e->table].columns,
        .sum_squares = n_peers > 0 ? sum_squares : NULL,
        .ctx = &squares,
    };
    ORR_TRY(orr_tables_reserve(t, &t->workspace, orr_shard_update_bytes(&update), err));
    return orr_shard_update_run(&update, t->workspace.at, t->source.workers, err);
}

orr_status orr_tables_update(orr_tables *t, uint32_t slot, const orr_update *by, orr_error *err)
{
    const orr_embedding_plan *plan = t->layout.plan;
    orr_tables_set *set = orr_tables_set_of(t, slot);
    for (int second = 0; second <= 1; second++)
        for (uint32_t i = 0; i < t->n_shards; i++) {
            const uint32_t n = orr_tables_square_peers(&t->layout, &t->entries[i], t->peers);
            if ((n == 0) == second)
                ORR_TRY(update_shard(t, set, i, n, by, err));
        }
    if (t->groups != NULL && plan->synchronize > 0 && by->step % plan->synchronize == 0)
        ORR_TRY(orr_tables_average_groups(t, err));
    t->last = set->traffic;
    return ORR_OK;
}
