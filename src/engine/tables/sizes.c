/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "engine/tables/tables_state.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes of the vectors of a rank: bags as it sums them and as it receives them; then, in the same
 * place, gradients. */
static size_t vectors_bytes(const orr_tables_layout *l, bool trained)
{
    size_t bags = (size_t)l->rank[l->me].bag_numbers * (l->ranks - 1), gradients = 0;
    for (uint32_t r = 0; r < l->ranks; r++)
        bags += (size_t)l->rank[r].bag_numbers;
    if (trained)
        gradients = (size_t)l->rank[l->me].gradient_numbers * l->ranks;
    return larger(bags, gradients) * (size_t)l->samples * sizeof(float);
}

static void size_messages(const orr_tables_layout *l, bool trained, orr_tables_sizes *ret)
{
    const orr_tables_rank *me = &l->rank[l->me];
    const size_t samples = (size_t)l->samples;
    const bool bags = l->plan->forward != ORR_EMBEDDING_CODEC_FP32,
               gradients = trained && l->plan->backward != ORR_EMBEDDING_CODEC_FP32;
    ret->out = bags ? (size_t)me->bag_bytes * samples : 0;
    ret->in = gradients ? (size_t)me->gradient_bytes * samples : 0;
    for (uint32_t r = 0; r < l->ranks; r++) {
        if (bags && r != l->me)
            ret->in = larger(ret->in, (size_t)l->rank[r].bag_bytes * samples);
        if (gradients || (trained && r != l->me && !orr_tables_gradients_in_place(l, r)))
            ret->out = larger(ret->out, (size_t)l->rank[r].gradient_bytes * samples);
    }
}

static void size_lookups(const orr_tables_layout *l, orr_tables_sizes *ret)
{
    for (uint32_t e = 0; e < l->n_entries; e++) {
        const orr_tables_entry *entry = &l->entries[e];
        const size_t bytes =
            orr_tables_lengths_bytes(l, entry) + orr_tables_ids_bytes(entry, entry->mean_lookups);
        ret->ids_out += bytes;
        if (entry->shard->rank != l->me)
            continue;
        ret->ids_in += bytes;
        ret->ids += (size_t)entry->mean_lookups * l->ranks * sizeof(int64_t);
    }
    ret->lengths = (size_t)(l->rank[l->me + 1].first_entry - l->rank[l->me].first_entry) *
                   l->ranks * (size_t)l->samples * sizeof(int32_t);
}

/* Subtrees of blocks that all column shards of a shard's rows sum. */
static uint32_t subtrees_of_peers(const orr_tables_layout *l, const orr_tables_entry *entry)
{
    const orr_tables_parts *parts = &l->parts[entry->table];
    orr_range_subtree subtrees[ORR_TABLES_BLOCK_SUBTREES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < parts->n_entries; i++) {
        const orr_tables_entry *peer = &l->entries[l->of_table[parts->first_entry + i]];
        n += peer->part == entry->part ? orr_tables_block_subtrees(l, peer, subtrees) : 0;
    }
    return n;
}

static orr_status no_squares(void *ctx, const float *squares, int64_t rows, uint32_t blocks,
                             float *ret, orr_error *err)
{
    (void)ctx, (void)squares, (void)rows, (void)blocks, (void)ret;
    return orr_fail(err, ORR_INVALID, "sums of squares of an update that is only measured");
}

/* Workspace of sums and updates, and what updates exchange. */
static void size_work(const orr_tables_layout *l, const orr_tables_entry *entry,
                      const orr_tables_source *source, orr_tables_sizes *ret)
{
    const bool shared = orr_tables_square_peers(l, entry, NULL) > 0;
    const int64_t n = entry->mean_lookups * l->ranks;
    const size_t rows = (size_t)(n < entry->rows ? n : entry->rows);
    const orr_update by = {.step = 1, .gradient_scale = 1};
    const uint32_t slot = 0;
    orr_row_store store = orr_tables_store_of(l, entry, source->trained);
    const bool cached = orr_tables_tier_of(source, entry->table) != ORR_TIER_DRAM;
    store.slots = entry->rows; /* at most */
    const orr_shard_lookups lookups = {.store = &store,
                                       .shard = entry->shard,
                                       .table_rows = l->plan->tables[entry->table].rows,
                                       .first_row = entry->first_row,
                                       .samples = l->samples * l->ranks,
                                       .n = n,
                                       .slots = cached ? &slot : NULL};
    const orr_shard_update update = {.lookups = &lookups,
                                     .gradient_stride = entry->columns,
                                     .by = &by,
                                     .table_columns = l->plan->tables[entry->table].columns,
                                     .sum_squares = shared ? no_squares : NULL};
    ret->slots += cached ? (size_t)n * sizeof slot : 0;
    ret->workspace = larger(ret->workspace, orr_shard_bag_bytes(&lookups, source->workers));
    if (!source->trained)
        return;
    ret->workspace = larger(ret->workspace, orr_shard_update_bytes(&update));
    if (shared)
        ret->squares = larger(ret->squares, rows * subtrees_of_peers(l, entry) * sizeof(float));
    if (l->groups > 1)
        ret->average =
            larger(ret->average, larger(ORR_TABLES_AVERAGE_NUMBERS * sizeof(float),
                                        2 * sizeof(float) * (size_t)orr_row_store_bytes(&store)));
}

uint32_t orr_tables_lookahead(const orr_embedding_plan *plan)
{
    enum { MOST = ORR_TABLES_AHEAD - 3 }; /* reading is two steps further ahead */
    bool cached = false;
    for (uint32_t i = 0; i < plan->n_tables; i++)
        cached |= plan->placements[i].tier != ORR_TIER_DRAM;
    return !cached ? 0 : plan->lookahead < MOST ? plan->lookahead : MOST;
}

uint32_t orr_tables_steps(const orr_embedding_plan *plan)
{
    const uint32_t ahead = orr_tables_lookahead(plan),
                   pipeline = plan->pipeline < 3 ? plan->pipeline : 3;
    uint32_t wanted = 1 + pipeline + (ahead > 0 ? ahead - (pipeline > 0) : 0), steps = 1;
    while (steps < wanted)
        steps *= 2;
    return steps;
}

orr_tables_sizes orr_tables_sizes_of(const orr_tables_layout *l, const orr_tables_source *source)
{
    orr_tables_sizes ret = {.sets = orr_tables_steps(l->plan)};
    if (l->ranks > 1) {
        ret.vectors = vectors_bytes(l, source->trained);
        size_messages(l, source->trained, &ret);
        size_lookups(l, &ret);
    }
    for (uint32_t e = l->rank[l->me].first_entry; e < l->rank[l->me + 1].first_entry; e++)
        size_work(l, &l->entries[e], source, &ret);
    return ret;
}

static orr_tables_memory memory_of(const orr_tables_layout *l, const orr_tables_source *source)
{
    const orr_tables_sizes s = orr_tables_sizes_of(l, source);
    orr_tables_memory ret = {.buffers = (int64_t)(s.vectors + s.out + s.in + s.ids_out + s.ids_in +
                                                  s.sets * (s.lengths + s.ids + s.slots) +
                                                  s.workspace + s.squares + s.average)};
    bool has_cache[ORR_TIERS] = {false};
    for (uint32_t e = l->rank[l->me].first_entry; e < l->rank[l->me + 1].first_entry; e++) {
        const orr_row_store store = orr_tables_store_of(l, &l->entries[e], source->trained);
        const int tier = (int)orr_tables_tier_of(source, l->entries[e].table);
        if (tier != ORR_TIER_DRAM)
            ret.cache += store.rows * (int64_t)sizeof(orr_row_entry);
        has_cache[tier] |= tier != ORR_TIER_DRAM;
        if (l->plan->placements[l->entries[e].table].tier != ORR_TIER_DRAM)
            continue;
        ret.rows += store.rows * store.record_bytes;
        ret.state += store.rows * store.state_bytes;
    }
    for (int tier = ORR_TIER_DRAM + 1; tier < ORR_TIERS && source->tiers != NULL; tier++)
        ret.cache += has_cache[tier] ? (int64_t)source->tiers[tier].cache_bytes : 0;
    return ret;
}

orr_status orr_tables_measure(const orr_tables_source *source, orr_tables_memory *ret,
                              orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_tables_layout l;
    if (arena == NULL)
        return orr_fail_memory(err);
    const orr_status status = orr_tables_layout_make(source, arena, &l, err);
    if (status == ORR_OK)
        *ret = memory_of(&l, source);
    orr_arena_free(arena);
    return status;
}

/* Distinct rows of a shard among n lookups that are distributed uniformly. */
static int64_t expected_rows(const orr_tables_entry *entry, int64_t n)
{
    return llround((double)entry->rows * -expm1((double)n * log1p(-1 / (double)entry->rows)));
}

static orr_tables_traffic traffic_of(const orr_tables_layout *l, bool trained,
                                     const int64_t *lookups, const int64_t *rows)
{
    orr_range_subtree subtrees[ORR_TABLES_BLOCK_SUBTREES];
    orr_tables_traffic ret = {.bags = l->samples * l->rank[l->me].bag_bytes * (l->ranks - 1)};
    for (uint32_t e = 0; e < l->n_entries; e++) {
        const orr_tables_entry *entry = &l->entries[e];
        const int64_t i = entry->shard - l->plan->shards,
                      n = lookups != NULL ? lookups[i] : entry->mean_lookups;
        const uint32_t peers = trained ? orr_tables_square_peers(l, entry, NULL) : 0;
        if (entry->shard->rank != l->me) {
            ret.ids +=
                (int64_t)(orr_tables_lengths_bytes(l, entry) + orr_tables_ids_bytes(entry, n) +
                          (entry->is_counted ? sizeof(uint32_t) : 0));
        } else if (peers > 0) {
            const int64_t distinct =
                rows != NULL ? rows[i] : expected_rows(entry, entry->mean_lookups * l->ranks);
            ret.squares += distinct * orr_tables_block_subtrees(l, entry, subtrees) * (peers - 1) *
                           (int64_t)sizeof(float);
        }
    }
    for (uint32_t r = 0; r < l->ranks && trained; r++)
        if (r != l->me)
            ret.gradients += l->samples * l->rank[r].gradient_bytes;
    return ret;
}

orr_status orr_tables_predict_traffic(const orr_tables_source *source, const int64_t *lookups,
                                      const int64_t *rows, orr_tables_traffic *ret, orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_tables_layout l;
    if (arena == NULL)
        return orr_fail_memory(err);
    const orr_status status = orr_tables_layout_make(source, arena, &l, err);
    if (status == ORR_OK)
        *ret = traffic_of(&l, source->trained, lookups, rows);
    orr_arena_free(arena);
    return status;
}
