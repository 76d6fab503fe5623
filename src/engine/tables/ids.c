/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/tables/tables_state.h"

/* Lookups on their way to the ranks of their rows. A message has a section for each shard of the
 * receiving rank: lengths of bags, 16 bits each, where they are not known, then ids relative to the
 * shard's first row. Before it goes a message with the number of ids of each counted section. */

static orr_status fail_bag(const orr_tables *t, uint32_t table, int64_t sample, int32_t length,
                           orr_error *err)
{
    const orr_embedding *e = &t->layout.plan->tables[table];
    const long long number = (long long)(t->source.transport->rank * t->layout.samples + sample);
    if (length > ORR_TABLES_BAG_MAX)
        return orr_fail(err, ORR_LIMIT, "table %s, sample %lld: %d lookups, of at most %d", e->name,
                        number, length, ORR_TABLES_BAG_MAX);
    if (length < 0)
        return orr_fail(err, ORR_INVALID, "table %s, sample %lld: %d lookups", e->name, number,
                        length);
    return orr_fail(err, ORR_INVALID, "table %s, sample %lld: %d lookups, not %.0f", e->name,
                    number, length, e->pooling);
}

/* Names the first id that no row has. */
static orr_status fail_id(const orr_tables *t, uint32_t table, const int32_t *lengths,
                          const int64_t *ids, orr_error *err)
{
    const orr_embedding *e = &t->layout.plan->tables[table];
    int64_t sample = 0, at = 0, end = lengths[0];
    while (ids[at] >= 0 && ids[at] < e->rows)
        at++;
    while (end <= at)
        end += lengths[++sample];
    return orr_fail(err, ORR_INVALID, "table %s, sample %lld: id %lld of %lld rows", e->name,
                    (long long)(t->source.transport->rank * t->layout.samples + sample),
                    (long long)ids[at], (long long)e->rows);
}

static orr_status check_lengths(const orr_tables *t, uint32_t table, const int32_t *lengths,
                                int64_t *ret_n, orr_error *err)
{
    const orr_embedding *e = &t->layout.plan->tables[table];
    const bool fixed = e->length == ORR_BAG_LENGTH_FIXED;
    const int32_t least = fixed ? (int32_t)e->pooling : 0,
                  most = fixed && least < ORR_TABLES_BAG_MAX ? least : ORR_TABLES_BAG_MAX;
    int64_t n = 0;
    for (int64_t s = 0; s < t->layout.samples; s++) {
        if (lengths[s] < least || lengths[s] > most)
            return fail_bag(t, table, s, lengths[s], err);
        n += lengths[s];
    }
    *ret_n = n;
    return ORR_OK;
}

/* The row part of a row: a guess that rows are spread evenly, and a few steps from there. */
static inline uint32_t part_of(const orr_tables_parts *parts, double parts_per_row, int64_t row)
{
    uint32_t p = (uint32_t)((double)row * parts_per_row);
    p = p < parts->n ? p : parts->n - 1;
    while (row < parts->bound[p])
        p--;
    while (row >= parts->bound[p + 1])
        p++;
    return p;
}

static double parts_per_row(const orr_tables_parts *parts)
{
    return (double)parts->n / (double)parts->bound[parts->n];
}

/* Checks the lookups of a table and counts those of each of its row parts. */
static orr_status count_table(orr_tables *t, uint32_t table, const int32_t *lengths,
                              const int64_t *ids, int64_t *ret_n, orr_error *err)
{
    const orr_tables_parts *parts = &t->layout.parts[table];
    const double scale = parts_per_row(parts);
    const uint64_t rows = (uint64_t)parts->bound[parts->n];
    int64_t *lookups = t->part_lookups + t->first_part[table], n = 0;
    bool bad = false;
    ORR_TRY(check_lengths(t, table, lengths, &n, err));
    for (int64_t i = 0; i < n; i++)
        bad |= (uint64_t)ids[i] >= rows;
    if (bad)
        return fail_id(t, table, lengths, ids, err);
    memset(lookups, 0, parts->n * sizeof *lookups);
    if (parts->n == 1)
        lookups[0] = n;
    else
        for (int64_t i = 0; i < n; i++)
            lookups[part_of(parts, scale, ids[i])]++;
    *ret_n = n;
    return ORR_OK;
}

/* A rank that is alone looks up what the batch has, where it stands. */
static orr_status take_batch(orr_tables *t, orr_tables_set *set, const orr_tables_batch *batch,
                             orr_error *err)
{
    const int64_t *ids = batch->ids;
    for (uint32_t i = 0; i < t->n_shards; i++) {
        orr_shard_lookups *lookups = &set->lookups[i];
        lookups->lengths = batch->lengths + t->entries[i].table * t->layout.samples;
        lookups->ids = ids;
        ORR_TRY(count_table(t, t->entries[i].table, lookups->lengths, ids, &lookups->n, err));
        ids += lookups->n;
    }
    return ORR_OK;
}

static int64_t lookups_of(const orr_tables *t, const orr_tables_entry *entry)
{
    return t->part_lookups[t->first_part[entry->table] + entry->part];
}

/* Where sections and messages begin, now that lookups are counted. */
static orr_status lay_out(orr_tables *t, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    size_t at = 0;
    for (uint32_t r = 0; r < l->ranks; r++) {
        t->message[r] = at;
        for (uint32_t e = l->rank[r].first_entry; e < l->rank[r + 1].first_entry; e++) {
            const orr_tables_entry *entry = &l->entries[e];
            const int64_t n = lookups_of(t, entry);
            if (n > UINT32_MAX)
                return orr_fail(err, ORR_LIMIT, "table %s: %lld lookups of %lld samples",
                                l->plan->tables[entry->table].name, (long long)n,
                                (long long)l->samples);
            t->section[e] = at;
            at += orr_tables_lengths_bytes(l, entry) + orr_tables_ids_bytes(entry, n);
            if (entry->is_counted)
                t->counts_out[t->first_counted[r] + entry->counted] = (uint32_t)n;
        }
    }
    t->message[l->ranks] = at;
    return orr_tables_reserve(t, &t->ids_out, at, err);
}

/* Lookups of a table that is whole in its rows. */
static void pack_whole(const orr_tables *t, const int32_t *lengths, const int64_t *ids, int64_t n,
                       orr_tables_next *next)
{
    for (int64_t s = 0; next->lengths != NULL && s < t->layout.samples; s++)
        next->lengths[s] = (uint16_t)lengths[s];
    if (next->is_wide) {
        memcpy(next->ids, ids, (size_t)n * sizeof *ids);
        return;
    }
    uint32_t *to = next->ids;
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint32_t)ids[i];
}

static inline void put_id(orr_tables_next *next, int64_t row)
{
    const uint64_t id = (uint64_t)(row - next->first_row);
    if (next->is_wide)
        ((uint64_t *)next->ids)[next->n++] = id;
    else
        ((uint32_t *)next->ids)[next->n++] = (uint32_t)id;
}

/* Lookups of a table to the parts of its rows. */
static void pack_parts(const orr_tables *t, const orr_tables_parts *parts, const int32_t *lengths,
                       const int64_t *ids)
{
    const double scale = parts_per_row(parts);
    orr_tables_next *next = t->next;
    for (int64_t s = 0; s < t->layout.samples; ids += lengths[s++]) {
        for (int32_t i = 0; i < lengths[s]; i++)
            put_id(&next[part_of(parts, scale, ids[i])], ids[i]);
        for (uint32_t p = 0; p < parts->n; p++)
            if (next[p].lengths != NULL) {
                next[p].lengths[s] = (uint16_t)(next[p].n - next[p].before);
                next[p].before = next[p].n;
            }
    }
}

static char *section_of(const orr_tables *t, uint32_t entry)
{
    return (char *)t->ids_out.at + t->section[entry];
}

/* Packs a table's lookups once for each row part, and copies them to the other shards of the same
 * rows: columns, or DATA on other ranks. */
static void pack_table(orr_tables *t, uint32_t table, const int32_t *lengths, const int64_t *ids,
                       int64_t n)
{
    const orr_tables_layout *l = &t->layout;
    const orr_tables_parts *parts = &l->parts[table];
    const uint32_t *of_table = l->of_table + parts->first_entry;
    memset(t->next, 0, parts->n * sizeof *t->next);
    for (uint32_t i = 0; i < parts->n_entries; i++) {
        const orr_tables_entry *entry = &l->entries[of_table[i]];
        orr_tables_next *next = &t->next[entry->part];
        char *at = section_of(t, of_table[i]);
        if (next->ids == NULL)
            *next = (orr_tables_next){.ids = at + orr_tables_lengths_bytes(l, entry),
                                      .lengths = entry->is_counted ? (uint16_t *)(void *)at : NULL,
                                      .entry = of_table[i],
                                      .first_row = entry->first_row,
                                      .is_wide = entry->is_wide};
    }
    if (parts->n == 1)
        pack_whole(t, lengths, ids, n, &t->next[0]);
    else
        pack_parts(t, parts, lengths, ids);
    for (uint32_t i = 0; i < parts->n_entries; i++) {
        const orr_tables_entry *entry = &l->entries[of_table[i]];
        const uint32_t first = t->next[entry->part].entry;
        if (first != of_table[i])
            memcpy(section_of(t, of_table[i]), section_of(t, first),
                   orr_tables_lengths_bytes(l, entry) +
                       orr_tables_ids_bytes(entry, lookups_of(t, entry)));
    }
}

static orr_status pack_batch(orr_tables *t, const orr_tables_batch *batch, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    const int64_t *ids = batch->ids;
    int64_t n;
    for (uint32_t i = 0; i < l->plan->n_tables; i++, ids += n)
        ORR_TRY(count_table(t, i, batch->lengths + i * l->samples, ids, &n, err));
    ORR_TRY(lay_out(t, err));
    ids = batch->ids;
    for (uint32_t i = 0; i < l->plan->n_tables; i++, ids += n) {
        const int64_t *parts = t->part_lookups + t->first_part[i];
        n = 0;
        for (uint32_t p = 0; p < l->parts[i].n; p++)
            n += parts[p];
        pack_table(t, i, batch->lengths + i * l->samples, ids, n);
    }
    return ORR_OK;
}

static orr_status exchange_counts(orr_tables *t, orr_tables_set *set, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    const uint32_t mine = l->rank[l->me].n_counted;
    const uint32_t *own = t->counts_out + t->first_counted[l->me];
    memcpy(t->counts_in + (size_t)l->me * mine, own, mine * sizeof *own);
    for (uint32_t k = 1; k < l->ranks; k++) {
        const uint32_t to = orr_tables_after(t, k), from = orr_tables_before(t, k);
        const orr_tables_message m = {.to = to,
                                      .from = from,
                                      .out = t->counts_out + t->first_counted[to],
                                      .in = t->counts_in + (size_t)from * mine,
                                      .out_bytes = l->rank[to].n_counted * sizeof(uint32_t),
                                      .in_bytes = mine * sizeof(uint32_t)};
        ORR_TRY(orr_tables_send_receive(t, 0, &m, &set->traffic.ids, err));
    }
    return ORR_OK;
}

/* Lookups of a rank in a shard of this one. */
static int64_t lookups_from(const orr_tables *t, uint32_t rank, const orr_tables_entry *entry)
{
    return entry->is_counted ? t->counts_in[(size_t)rank * t->layout.rank[t->layout.me].n_counted +
                                            entry->counted]
                             : entry->mean_lookups;
}

static size_t message_bytes(const orr_tables *t, uint32_t from)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < t->n_shards; i++)
        bytes += orr_tables_lengths_bytes(&t->layout, &t->entries[i]) +
                 orr_tables_ids_bytes(&t->entries[i], lookups_from(t, from, &t->entries[i]));
    return bytes;
}

/* Room for the lookups of all ranks in each shard of this one, by rank. */
static orr_status make_room(orr_tables *t, orr_tables_set *set, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    const int64_t samples = l->samples * l->ranks;
    int64_t all = 0;
    for (uint32_t i = 0; i < t->n_shards; i++) {
        int64_t n = 0;
        for (uint32_t r = 0; r < l->ranks; r++) {
            set->before_own[i] = r == l->me ? n : set->before_own[i];
            n += lookups_from(t, r, &t->entries[i]);
        }
        set->own[i] = lookups_from(t, l->me, &t->entries[i]);
        set->lookups[i].n = n;
        all += n;
    }
    ORR_TRY(orr_tables_reserve(t, &set->ids, (size_t)all * sizeof(int64_t), err));
    all = 0;
    for (uint32_t i = 0; i < t->n_shards; all += set->lookups[i++].n) {
        set->lookups[i].lengths = (int32_t *)set->lengths.at + i * samples;
        set->lookups[i].ids = (int64_t *)set->ids.at + all;
    }
    return ORR_OK;
}

/* Widens what a rank sent into the lookups of each shard. */
static void unpack(orr_tables *t, orr_tables_set *set, uint32_t from, const char *message)
{
    const orr_tables_layout *l = &t->layout;
    for (uint32_t i = 0; i < t->n_shards; i++) {
        const orr_tables_entry *entry = &t->entries[i];
        int32_t *lengths = (int32_t *)set->lookups[i].lengths + from * l->samples;
        int64_t *ids = (int64_t *)set->lookups[i].ids;
        const int64_t n = lookups_from(t, from, entry);
        const uint16_t *packed = (const uint16_t *)(const void *)message;
        for (uint32_t r = 0; r < from; r++)
            ids += lookups_from(t, r, entry);
        for (int64_t s = 0; s < l->samples; s++)
            lengths[s] =
                entry->is_counted ? packed[s] : (int32_t)l->plan->tables[entry->table].pooling;
        message += orr_tables_lengths_bytes(l, entry);
        if (entry->is_wide) {
            memcpy(ids, message, (size_t)n * sizeof *ids);
        } else {
            const uint32_t *narrow = (const uint32_t *)(const void *)message;
            for (int64_t k = 0; k < n; k++)
                ids[k] = narrow[k];
        }
        message += orr_tables_ids_bytes(entry, n);
    }
}

static orr_status exchange_lookups(orr_tables *t, orr_tables_set *set, orr_error *err)
{
    const orr_tables_layout *l = &t->layout;
    const char *out = t->ids_out.at;
    for (uint32_t r = 0; r < l->ranks; r++)
        if (r != l->me)
            ORR_TRY(orr_tables_reserve(t, &t->ids_in, message_bytes(t, r), err));
    unpack(t, set, l->me, out + t->message[l->me]);
    for (uint32_t k = 1; k < l->ranks; k++) {
        const uint32_t to = orr_tables_after(t, k), from = orr_tables_before(t, k);
        const orr_tables_message m = {.to = to,
                                      .from = from,
                                      .out = out + t->message[to],
                                      .in = t->ids_in.at,
                                      .out_bytes = t->message[to + 1] - t->message[to],
                                      .in_bytes = message_bytes(t, from)};
        ORR_TRY(orr_tables_send_receive(t, 0, &m, &set->traffic.ids, err));
        unpack(t, set, from, t->ids_in.at);
    }
    return ORR_OK;
}

orr_status orr_tables_exchange_ids(orr_tables *t, uint32_t slot, const orr_tables_batch *batch,
                                   orr_error *err)
{
    orr_tables_set *set = orr_tables_set_of(t, slot);
    set->traffic = (orr_tables_traffic){0};
    if (t->layout.ranks == 1)
        return take_batch(t, set, batch, err);
    ORR_TRY(pack_batch(t, batch, err));
    ORR_TRY(exchange_counts(t, set, err));
    ORR_TRY(make_room(t, set, err));
    return exchange_lookups(t, set, err);
}
