/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "engine/tables/tables_state.h"

/* Opens and closes the tables of a rank. Everything that a step needs for lookups of the mean
 * length is allocated here. */

static void release(orr_tables *t, orr_tables_buffer *buffer)
{
    if (buffer->bytes > 0)
        t->backend->release(t->backend, buffer->at, buffer->bytes);
    *buffer = (orr_tables_buffer){0};
}

orr_status orr_tables_reserve(orr_tables *t, orr_tables_buffer *buffer, size_t bytes,
                              orr_error *err)
{
    static char nothing; /* places in a buffer of no bytes are computed as all others */
    if (bytes <= buffer->bytes) {
        buffer->at = buffer->at == NULL ? &nothing : buffer->at;
        return ORR_OK;
    }
    const size_t more = buffer->bytes > 0 ? bytes / 2 : 0;
    release(t, buffer);
    ORR_TRY(t->backend->allocate(t->backend, bytes + more, &buffer->at, err));
    buffer->bytes = bytes + more;
    return ORR_OK;
}

orr_status orr_tables_send_receive(orr_tables *t, uint32_t lane, const orr_tables_message *message,
                                   int64_t *sent, orr_error *err)
{
    const uint32_t first = t->layout.group * t->layout.ranks;
    const orr_exchange x = {.channel = t->source.channels[lane],
                            .to = first + message->to,
                            .from = first + message->from,
                            .out = message->out,
                            .in = message->in,
                            .out_bytes = message->out_bytes,
                            .in_bytes = message->in_bytes};
    *sent += (int64_t)message->out_bytes;
    return t->source.transport->exchange(t->source.transport, &x, err);
}

uint32_t orr_tables_after(const orr_tables *t, uint32_t k)
{
    return (t->layout.me + k) % t->layout.ranks;
}

uint32_t orr_tables_before(const orr_tables *t, uint32_t k)
{
    return (t->layout.me + t->layout.ranks - k) % t->layout.ranks;
}

orr_tables_set *orr_tables_set_of(orr_tables *t, uint32_t slot)
{
    return &t->sets[slot % t->n_sets];
}

/* Joins of the bags of a table: a run of its entries has the same columns. */
static void join_table(orr_tables *t, uint32_t table, uint32_t *n_parts)
{
    const orr_tables_layout *l = &t->layout;
    const orr_tables_parts *p = &l->parts[table];
    const orr_tables_entry *last = NULL;
    for (uint32_t i = 0; i < p->n_entries; i++) {
        const orr_tables_entry *e = &l->entries[l->of_table[p->first_entry + i]];
        const uint32_t rank = e->shard->rank;
        if (last == NULL || last->shard->column_begin != e->shard->column_begin)
            t->joins[t->n_joins++] =
                (orr_tables_join){.column = p->first_column + e->shard->column_begin,
                                  .columns = e->columns,
                                  .first_part = *n_parts};
        for (uint32_t b = 0; b < e->n_bags; b++) {
            const orr_tables_vector *bag = &l->bags[e->first_bag + b];
            t->subtrees[*n_parts] = bag->subtree;
            t->parts[(*n_parts)++] =
                (orr_tables_part){t->bags_from[rank] + bag->to, l->rank[rank].bag_numbers};
        }
        t->joins[t->n_joins - 1].n += e->n_bags;
        last = e;
    }
}

/* In `vectors` stand the bags that this rank sums, of all samples, then those that it receives, by
 * rank. */
static orr_status make_joins(orr_tables *t, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    const int64_t own = l->rank[l->me].bag_numbers * l->samples;
    float *at = t->vectors.at;
    uint32_t n_parts = 0;
    t->bags_from = orr_arena_array(t->arena, float *, l->ranks);
    t->joins = orr_arena_array(t->arena, orr_tables_join, l->n_entries);
    t->parts = orr_arena_array(t->arena, orr_tables_part, l->n_bags);
    t->subtrees = orr_arena_array(t->arena, orr_range_subtree, l->n_bags);
    if (t->bags_from == NULL || t->joins == NULL || t->parts == NULL || t->subtrees == NULL)
        return orr_fail_memory(err);
    if (l->ranks == 1)
        return ORR_OK;
    t->bags_from[l->me] = at + l->me * own;
    at += l->ranks * own;
    for (uint32_t r = 0; r < l->ranks; r++)
        if (r != l->me) {
            t->bags_from[r] = at;
            at += l->rank[r].bag_numbers * l->samples;
        }
    for (uint32_t i = 0; i < l->plan->n_tables; i++)
        if (l->plan->placements[i].sharding != ORR_SHARDING_DATA)
            join_table(t, i, &n_parts);
    return ORR_OK;
}

/* What messages of ids are counted by; sizes depend on the plan alone. */
static orr_status make_counts(orr_tables *t, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    const uint32_t n = l->plan->n_tables;
    uint32_t parts = 0, counted = 0;
    t->first_part = orr_arena_array(t->arena, uint32_t, n);
    t->first_counted = orr_arena_array(t->arena, uint32_t, l->ranks + 1);
    t->message = orr_arena_array(t->arena, size_t, l->ranks + 1);
    t->section = orr_arena_array(t->arena, size_t, l->n_entries);
    if (t->first_part == NULL || t->first_counted == NULL || t->message == NULL ||
        t->section == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; parts += l->parts[i++].n)
        t->first_part[i] = parts;
    for (uint32_t r = 0; r < l->ranks; counted += l->rank[r++].n_counted)
        t->first_counted[r] = counted;
    t->first_counted[l->ranks] = counted;
    t->part_lookups = orr_arena_array(t->arena, int64_t, parts);
    t->next = orr_arena_array(t->arena, orr_tables_next, l->most_parts);
    t->counts_out = orr_arena_array(t->arena, uint32_t, counted);
    t->counts_in = orr_arena_array(t->arena, uint32_t, (size_t)l->rank[l->me].n_counted * l->ranks);
    return t->part_lookups == NULL || t->next == NULL || t->counts_out == NULL ||
                   t->counts_in == NULL
               ? orr_fail_memory(err)
               : ORR_OK;
}

static orr_status make_sets(orr_tables *t, const orr_tables_sizes *sizes, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    t->n_sets = sizes->sets;
    for (uint32_t k = 0; k < t->n_sets; k++) {
        orr_tables_set *set = &t->sets[k];
        set->lookups = orr_arena_array(t->arena, orr_shard_lookups, t->n_shards);
        set->before_own = orr_arena_array(t->arena, int64_t, t->n_shards);
        set->own = orr_arena_array(t->arena, int64_t, t->n_shards);
        if (set->lookups == NULL || set->before_own == NULL || set->own == NULL)
            return orr_fail_memory(err);
        ORR_TRY(orr_tables_reserve(t, &set->lengths, sizes->lengths, err));
        ORR_TRY(orr_tables_reserve(t, &set->ids, sizes->ids, err));
        ORR_TRY(orr_tables_reserve(t, &set->slots, sizes->slots, err));
        for (uint32_t i = 0; i < t->n_shards; i++)
            set->lookups[i] =
                (orr_shard_lookups){.store = &t->stores[i],
                                    .shard = t->entries[i].shard,
                                    .table_rows = l->plan->tables[t->entries[i].table].rows,
                                    .first_row = t->entries[i].first_row,
                                    .samples = l->samples * l->ranks};
    }
    return ORR_OK;
}

static orr_status make_buffers(orr_tables *t, orr_error *err)
{
    const orr_tables_sizes s = orr_tables_sizes_of(&t->layout, &t->source);
    ORR_TRY(orr_tables_reserve(t, &t->vectors, s.vectors, err));
    ORR_TRY(orr_tables_reserve(t, &t->out, s.out, err));
    ORR_TRY(orr_tables_reserve(t, &t->in, s.in, err));
    ORR_TRY(orr_tables_reserve(t, &t->ids_out, s.ids_out, err));
    ORR_TRY(orr_tables_reserve(t, &t->ids_in, s.ids_in, err));
    ORR_TRY(orr_tables_reserve(t, &t->workspace, s.workspace, err));
    ORR_TRY(orr_tables_reserve(t, &t->squares, s.squares, err));
    ORR_TRY(orr_tables_reserve(t, &t->average, s.average, err));
    return make_sets(t, &s, err);
}

/* The ranks that have the same shards in the other groups. */
static orr_status make_groups(orr_tables *t, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    if (l->groups == 1)
        return ORR_OK;
    uint32_t *members = orr_arena_array(t->arena, uint32_t, l->groups);
    if (members == NULL)
        return orr_fail_memory(err);
    for (uint32_t g = 0; g < l->groups; g++)
        members[g] = g * l->ranks + l->me;
    return orr_communicator_make(t->source.transport, members, l->groups, t->source.channels[1], 0,
                                 t->arena, &t->groups, err);
}

static orr_status make(orr_tables *t, orr_error *err)
{
    t->arena = orr_arena_new(0, 0);
    if (t->arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_backend_cpu(&t->backend, err));
    ORR_TRY(orr_tables_layout_make(&t->source, t->arena, &t->layout, err));
    const orr_tables_rank *mine = &t->layout.rank[t->layout.me];
    t->n_shards = mine[1].first_entry - mine[0].first_entry;
    t->entries = t->layout.entries + mine[0].first_entry;
    t->stores = orr_arena_array(t->arena, orr_row_store, t->n_shards);
    t->peers = orr_arena_array(t->arena, const orr_tables_entry *, t->layout.ranks);
    t->first_subtree = orr_arena_array(t->arena, uint32_t, t->layout.ranks + 1);
    t->block_subtrees = orr_arena_array(t->arena, orr_range_subtree,
                                        (size_t)t->layout.ranks * ORR_TABLES_BLOCK_SUBTREES);
    if (t->stores == NULL || t->peers == NULL || t->first_subtree == NULL ||
        t->block_subtrees == NULL)
        return orr_fail_memory(err);
    ORR_TRY(make_buffers(t, err));
    ORR_TRY(make_joins(t, err));
    ORR_TRY(make_counts(t, err));
    ORR_TRY(make_groups(t, err));
    ORR_TRY(orr_tables_make_rows(t, err));
    return orr_tables_open_tiers(t, err);
}

orr_status orr_tables_open(const orr_tables_source *source, orr_tables **ret, orr_error *err)
{
    orr_tables *t = orr_calloc(1, sizeof *t);
    if (t == NULL)
        return orr_fail_memory(err);
    t->source = *source;
    if (source->tiers != NULL) {
        memcpy(t->tiers, source->tiers, sizeof t->tiers);
        t->source.tiers = t->tiers;
    }
    const orr_status status = make(t, err);
    if (status == ORR_OK)
        *ret = t;
    else
        orr_tables_close(t);
    return status;
}

void orr_tables_close(orr_tables *t)
{
    if (t == NULL)
        return;
    orr_tables_close_tiers(t);
    orr_tables_buffer *const buffers[] = {&t->vectors, &t->out,       &t->in,      &t->ids_out,
                                          &t->ids_in,  &t->workspace, &t->squares, &t->average};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        release(t, buffers[i]);
    for (uint32_t k = 0; k < t->n_sets; k++) {
        release(t, &t->sets[k].lengths);
        release(t, &t->sets[k].ids);
        release(t, &t->sets[k].slots);
    }
    orr_tables_free_rows(t);
    orr_arena_free(t->arena);
    orr_free(t);
}

int64_t orr_tables_held_bytes(const orr_tables *t)
{
    const orr_tables_buffer *const buffers[] = {&t->vectors, &t->out,    &t->in,
                                                &t->ids_out, &t->ids_in, &t->workspace,
                                                &t->squares, &t->average};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        bytes += buffers[i]->bytes;
    for (uint32_t k = 0; k < t->n_sets; k++)
        bytes += t->sets[k].lengths.bytes + t->sets[k].ids.bytes + t->sets[k].slots.bytes;
    return (int64_t)bytes;
}

void orr_tables_skip(orr_tables *t, uint32_t slot)
{
    orr_tables_set *set = orr_tables_set_of(t, slot);
    orr_tables_end(t, set, false);
    t->last = set->traffic;
}

uint32_t orr_tables_n_shards(const orr_tables *t)
{
    return t->n_shards;
}

const orr_embedding_shard *orr_tables_shard(const orr_tables *t, uint32_t i, orr_row_store **ret)
{
    *ret = &t->stores[i];
    return t->entries[i].shard;
}

orr_tables_traffic orr_tables_traffic_of(const orr_tables *t)
{
    return t->last;
}
