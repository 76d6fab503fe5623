/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tables/layout.h"

#include <math.h>

static bool is_data(const orr_embedding_plan *plan, uint32_t table)
{
    return plan->placements[table].sharding == ORR_SHARDING_DATA;
}

static uint32_t row_parts(const orr_embedding_plan *plan, uint32_t table)
{
    const orr_embedding_placement *p = &plan->placements[table];
    return p->sharding == ORR_SHARDING_DATA ? 1 : p->n_shards / p->columns;
}

static int64_t shard_rows(const orr_embedding_plan *plan, const orr_embedding_shard *shard)
{
    const int64_t rows = plan->tables[shard->table].rows;
    return orr_embedding_range_begin(rows, shard->range_end) -
           orr_embedding_range_begin(rows, shard->range_begin);
}

static bool is_empty(const orr_embedding_plan *plan, const orr_embedding_shard *shard)
{
    return shard->column_begin >= shard->column_end || shard_rows(plan, shard) == 0;
}

static orr_tables_entry entry_of(const orr_tables_layout *l, uint32_t i)
{
    const orr_embedding_shard *shard = &l->plan->shards[i];
    const orr_embedding *table = &l->plan->tables[shard->table];
    const uint32_t parts = row_parts(l->plan, shard->table);
    const int64_t rows = shard_rows(l->plan, shard);
    const double mean = (double)l->samples * table->pooling * (double)rows / (double)table->rows;
    return (orr_tables_entry){
        .shard = shard,
        .table = shard->table,
        .part = (i - l->plan->placements[shard->table].first_shard) % parts,
        .columns = shard->column_end - shard->column_begin,
        .first_row = orr_embedding_range_begin(table->rows, shard->range_begin),
        .rows = rows,
        .mean_lookups = (int64_t)ceil(mean),
        .is_counted = parts > 1 || table->length != ORR_BAG_LENGTH_FIXED,
        .is_wide = rows > UINT32_MAX,
    };
}

/* Entries by rank, by a counting sort of the plan's shards. */
static orr_status make_entries(orr_tables_layout *l, orr_arena *arena, orr_tables_rank *rank,
                               orr_error *err)
{
    const orr_embedding_plan *plan = l->plan;
    orr_tables_entry *entries = orr_arena_array(arena, orr_tables_entry, plan->n_shards);
    uint32_t *of_table = orr_arena_array(arena, uint32_t, plan->n_shards),
             *next = orr_arena_array(arena, uint32_t, l->ranks);
    if (entries == NULL || of_table == NULL || next == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < plan->n_shards; i++)
        rank[plan->shards[i].rank + 1].first_entry += !is_empty(plan, &plan->shards[i]);
    for (uint32_t r = 0; r < l->ranks; r++) {
        rank[r + 1].first_entry += rank[r].first_entry;
        next[r] = rank[r].first_entry;
    }
    for (uint32_t i = 0; i < plan->n_shards; i++)
        if (!is_empty(plan, &plan->shards[i])) {
            of_table[l->n_entries++] = next[plan->shards[i].rank];
            entries[next[plan->shards[i].rank]++] = entry_of(l, i);
        }
    l->entries = entries;
    l->of_table = of_table;
    return ORR_OK;
}

static orr_status make_parts(orr_tables_layout *l, orr_arena *arena, orr_error *err)
{
    const orr_embedding_plan *plan = l->plan;
    orr_tables_parts *parts = orr_arena_array(arena, orr_tables_parts, plan->n_tables);
    uint32_t e = 0;
    if (parts == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        const orr_embedding_shard *shards = plan->shards + plan->placements[t].first_shard;
        const uint32_t n = row_parts(plan, t);
        int64_t *bound = orr_arena_array(arena, int64_t, n + 1);
        if (bound == NULL)
            return orr_fail_memory(err);
        for (uint32_t p = 0; p < n; p++)
            bound[p] = orr_embedding_range_begin(plan->tables[t].rows, shards[p].range_begin);
        bound[n] = plan->tables[t].rows;
        parts[t] = (orr_tables_parts){
            .n = n, .first_entry = e, .first_column = l->columns, .bound = bound};
        while (e < l->n_entries && l->entries[l->of_table[e]].table == t)
            e++;
        parts[t].n_entries = e - parts[t].first_entry;
        l->columns += plan->tables[t].columns;
        l->most_parts = n > l->most_parts ? n : l->most_parts;
    }
    l->parts = parts;
    return ORR_OK;
}

/* Vectors of the bags of an entry: one for each subtree. */
static void add_bags(orr_tables_layout *l, orr_tables_rank *rank, orr_tables_entry *e,
                     orr_tables_vector *bags)
{
    orr_range_subtree subtrees[ORR_SHARD_SUBTREES_MAX];
    const uint32_t n = is_data(l->plan, e->table) ? 0 : orr_shard_subtrees(e->shard, subtrees);
    e->bag_at = rank->bag_numbers;
    e->first_bag = l->n_bags;
    e->n_bags = n;
    for (uint32_t i = 0; i < n; i++) {
        bags[l->n_bags++] = (orr_tables_vector){.from = rank->bag_numbers,
                                                .to = rank->bag_numbers,
                                                .bytes_at = rank->bag_bytes,
                                                .columns = e->columns,
                                                .subtree = subtrees[i]};
        rank->bag_numbers += e->columns;
        rank->bag_bytes += orr_embedding_codec_bytes(l->plan->forward, e->columns);
    }
}

static void add_gradient(const orr_tables_layout *l, orr_tables_rank *rank, orr_tables_entry *e,
                         orr_tables_vector *ret)
{
    e->gradient_at = rank->gradient_numbers;
    *ret = (orr_tables_vector){.from = l->parts[e->table].first_column + e->shard->column_begin,
                               .to = rank->gradient_numbers,
                               .bytes_at = rank->gradient_bytes,
                               .columns = e->columns};
    rank->gradient_numbers += e->columns;
    rank->gradient_bytes += orr_embedding_codec_bytes(l->plan->backward, e->columns);
}

static orr_status make_vectors(orr_tables_layout *l, orr_arena *arena, orr_tables_rank *rank,
                               orr_error *err)
{
    orr_range_subtree subtrees[ORR_SHARD_SUBTREES_MAX];
    orr_tables_entry *entries = (orr_tables_entry *)l->entries;
    size_t n = 0;
    for (uint32_t e = 0; e < l->n_entries; e++)
        n +=
            is_data(l->plan, entries[e].table) ? 0 : orr_shard_subtrees(entries[e].shard, subtrees);
    orr_tables_vector *bags = orr_arena_array(arena, orr_tables_vector, n),
                      *gradients = orr_arena_array(arena, orr_tables_vector, l->n_entries);
    if (bags == NULL || gradients == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < l->ranks; r++) {
        rank[r].first_bag = l->n_bags;
        for (uint32_t e = rank[r].first_entry; e < rank[r + 1].first_entry; e++) {
            entries[e].counted = rank[r].n_counted;
            rank[r].n_counted += entries[e].is_counted;
            add_bags(l, &rank[r], &entries[e], bags);
            add_gradient(l, &rank[r], &entries[e], &gradients[e]);
        }
    }
    rank[l->ranks].first_bag = l->n_bags;
    l->bags = bags;
    l->gradients = gradients;
    return ORR_OK;
}

orr_status orr_tables_layout_make(const orr_tables_source *source, orr_arena *arena,
                                  orr_tables_layout *ret, orr_error *err)
{
    const orr_embedding_plan *plan = source->plan;
    const uint32_t groups = plan->groups == 0 ? 1 : plan->groups;
    if ((uint64_t)plan->ranks * groups != source->transport->ranks)
        return orr_fail(err, ORR_INVALID,
                        "the plan shards tables over %u groups of %u ranks, and there are %u ranks",
                        groups, plan->ranks, source->transport->ranks);
    orr_tables_layout l = {.plan = plan,
                           .ranks = plan->ranks,
                           .me = source->transport->rank % plan->ranks,
                           .group = source->transport->rank / plan->ranks,
                           .groups = groups,
                           .samples = source->samples};
    orr_tables_rank *rank = orr_arena_array(arena, orr_tables_rank, plan->ranks + 1);
    if (rank == NULL)
        return orr_fail_memory(err);
    ORR_TRY(make_entries(&l, arena, rank, err));
    ORR_TRY(make_parts(&l, arena, err));
    ORR_TRY(make_vectors(&l, arena, rank, err));
    l.rank = rank;
    *ret = l;
    return ORR_OK;
}

static size_t in_eights(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

size_t orr_tables_lengths_bytes(const orr_tables_layout *l, const orr_tables_entry *entry)
{
    return entry->is_counted ? in_eights((size_t)l->samples * sizeof(uint16_t)) : 0;
}

size_t orr_tables_ids_bytes(const orr_tables_entry *entry, int64_t lookups)
{
    return in_eights((size_t)lookups * (entry->is_wide ? sizeof(uint64_t) : sizeof(uint32_t)));
}

uint32_t orr_tables_block_subtrees(const orr_tables_layout *l, const orr_tables_entry *entry,
                                   orr_range_subtree ret[ORR_TABLES_BLOCK_SUBTREES])
{
    const orr_embedding_shard *shard = entry->shard;
    const uint64_t columns = l->plan->tables[entry->table].columns;
    uint64_t all = 1, begin = shard->column_begin / ORR_EMBEDDING_BLOCK,
             end = shard->column_end / ORR_EMBEDDING_BLOCK;
    uint32_t n = 0;
    while (all * ORR_EMBEDDING_BLOCK < columns)
        all *= 2;
    if (shard->column_end == columns)
        end = all;
    while (begin < end) {
        uint64_t count = begin != 0 ? begin & -begin : all;
        while (count > end - begin)
            count /= 2;
        ret[n++] = (orr_range_subtree){(uint32_t)begin, (uint32_t)count};
        begin += count;
    }
    return n;
}

uint32_t orr_tables_square_peers(const orr_tables_layout *l, const orr_tables_entry *entry,
                                 const orr_tables_entry **ret)
{
    const orr_tables_parts *parts = &l->parts[entry->table];
    const uint8_t optimizer = l->plan->tables[entry->table].optimizer;
    uint32_t n = 0;
    if (is_data(l->plan, entry->table) || (optimizer != ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD &&
                                           optimizer != ORR_ROW_OPTIMIZER_ROWWISE_ADAM))
        return 0;
    for (uint32_t i = 0; i < parts->n_entries; i++) {
        const orr_tables_entry *peer = &l->entries[l->of_table[parts->first_entry + i]];
        if (peer->part != entry->part)
            continue;
        if (ret != NULL)
            ret[n] = peer;
        n++;
    }
    return n > 1 ? n : 0;
}

/* A rank has a table once at most, so as many numbers are the same numbers. */
bool orr_tables_gradients_in_place(const orr_tables_layout *l, uint32_t rank)
{
    return l->plan->backward == ORR_EMBEDDING_CODEC_FP32 &&
           l->rank[rank].gradient_numbers == l->columns;
}

orr_row_store orr_tables_store_of(const orr_tables_layout *l, const orr_tables_entry *entry,
                                  bool trained)
{
    const orr_embedding *table = &l->plan->tables[entry->table];
    return (orr_row_store){
        .rows = entry->rows,
        .columns = entry->columns,
        .format = table->format,
        .optimizer = table->optimizer,
        .record_bytes = orr_row_format_bytes(table->format, entry->columns),
        .state_bytes = trained ? orr_row_optimizer_bytes(table->optimizer, entry->columns) : 0};
}
