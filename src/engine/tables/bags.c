/* SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"
#include "engine/tables/tables_state.h"

/* Bags: summed by the owners of their rows, for all samples of the group, and joined where the
 * samples are. */

/* Bags of this rank's samples alone. */
static orr_shard_lookups own_lookups(const orr_tables *t, const orr_tables_set *set, uint32_t i)
{
    orr_shard_lookups own = set->lookups[i];
    own.samples = t->layout.samples;
    own.lengths += t->layout.me * t->layout.samples;
    own.ids += set->before_own[i];
    if (own.slots != NULL)
        own.slots += set->before_own[i];
    own.n = set->own[i];
    return own;
}

static orr_status sum_shard(orr_tables *t, const orr_shard_lookups *lookups, float *ret,
                            int64_t stride, orr_error *err)
{
    orr_workers *workers = t->source.workers;
    ORR_TRY(orr_tables_reserve(t, &t->workspace, orr_shard_bag_bytes(lookups, workers), err));
    return orr_shard_bag_sums(lookups, ret, stride, t->workspace.at, workers, err);
}

orr_status orr_tables_sum(orr_tables *t, uint32_t slot, float *ret, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    orr_tables_set *set = orr_tables_set_of(t, slot);
    ORR_TRY(orr_tables_wait(t, set, err));
    for (uint32_t i = 0; i < t->n_shards; i++) {
        const orr_tables_entry *e = &t->entries[i];
        float *bag = ret + l->parts[e->table].first_column;
        if (l->ranks == 1) {
            ORR_TRY(sum_shard(t, &set->lookups[i], bag, l->columns, err));
        } else if (e->n_bags == 0) {
            const orr_shard_lookups own = own_lookups(t, set, i);
            ORR_TRY(sum_shard(t, &own, bag, l->columns, err));
        } else {
            ORR_TRY(sum_shard(t, &set->lookups[i], (float *)t->vectors.at + e->bag_at,
                              l->rank[l->me].bag_numbers, err));
        }
    }
    return ORR_OK;
}

/* Sends a rank the bags of its samples and receives those of this rank's. */
static orr_status exchange_with(orr_tables *t, uint32_t to, uint32_t from, int64_t *sent,
                                orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    const orr_tables_rank *mine = &l->rank[l->me], *theirs = &l->rank[from];
    const orr_embedding_codec codec = l->plan->forward;
    const bool plain = codec == ORR_EMBEDDING_CODEC_FP32;
    const float *bags = (const float *)t->vectors.at + to * l->samples * mine->bag_numbers;
    const orr_tables_message m = {.to = to,
                                  .from = from,
                                  .out = plain ? (const void *)bags : t->out.at,
                                  .in = plain ? (void *)t->bags_from[from] : t->in.at,
                                  .out_bytes = (size_t)(mine->bag_bytes * l->samples),
                                  .in_bytes = (size_t)(theirs->bag_bytes * l->samples)};
    const orr_tables_vector *of_mine = l->bags + mine->first_bag,
                            *of_theirs = l->bags + theirs->first_bag;
    if (!plain)
        orr_tables_encode(t, of_mine, mine[1].first_bag - mine->first_bag, codec, bags,
                          mine->bag_numbers, t->out.at);
    ORR_TRY(orr_tables_send_receive(t, 1, &m, sent, err));
    if (!plain)
        orr_tables_decode(t, of_theirs, theirs[1].first_bag - theirs->first_bag, codec, t->in.at,
                          t->bags_from[from], theirs->bag_numbers);
    return ORR_OK;
}

typedef struct join_work {
    const orr_tables *t;
    float *ret;
} join_work;

static void join_sample(void *ctx, size_t sample, int thread)
{
    const join_work *w = ctx;
    const orr_tables *t = w->t;
    const float *parts[ORR_EMBEDDING_RANGES];
    float *ret = w->ret + (int64_t)sample * t->layout.columns;
    (void)thread;
    for (uint32_t i = 0; i < t->n_joins; i++) {
        const orr_tables_join *join = &t->joins[i];
        for (uint32_t k = 0; k < join->n; k++) {
            const orr_tables_part *part = &t->parts[join->first_part + k];
            parts[k] = part->at + (int64_t)sample * part->stride;
        }
        orr_join_subtrees(t->subtrees + join->first_part, parts, join->n, join->columns,
                          ret + join->column);
    }
}

orr_status orr_tables_exchange_bags(orr_tables *t, uint32_t slot, float *ret, orr_error *err)
{
    orr_tables_set *set = orr_tables_set_of(t, slot);
    join_work w = {t, ret};
    if (t->layout.ranks == 1)
        return ORR_OK;
    for (uint32_t k = 1; k < t->layout.ranks; k++)
        ORR_TRY(exchange_with(t, orr_tables_after(t, k), orr_tables_before(t, k),
                              &set->traffic.bags, err));
    orr_workers_run(t->source.workers, (size_t)t->layout.samples, join_sample, &w);
    return ORR_OK;
}
