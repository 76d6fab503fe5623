/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tables/tables_state.h"

/* Rows that do not live in memory: a store for each tier, which reads, keeps and writes them. */

/* Of the room for rows, more of it: for cleaning; where commits are wanted, for all rows as the
 * last commit has them, too. */
#define SPARE_FRAC         0.5
#define DURABLE_SPARE_FRAC 1.5
enum { LARGE_SECTOR = 4096, WHOLE_BYTES = 1 << 20 };

orr_tier orr_tables_tier_of(const orr_tables_source *source, uint32_t table)
{
    const orr_tier tier = (orr_tier)source->plan->placements[table].tier;
    if (tier != ORR_TIER_DRAM || source->tiers == NULL)
        return tier;
    for (int i = 0; i < ORR_TIERS; i++)
        if (source->tiers[i].dram)
            return (orr_tier)i;
    return ORR_TIER_DRAM;
}

static bool lives_in_memory(const orr_tables *t, uint32_t shard)
{
    return t->layout.plan->placements[t->entries[shard].table].tier == ORR_TIER_DRAM;
}

static void initial_row(void *ctx, uint32_t shard, int64_t row, void *ret_record)
{
    const orr_tables_shelf *shelf = ctx;
    orr_tables_draw_record(&shelf->drawings[shard], row, ret_record);
}

static orr_row_shard row_shard_of(const orr_tables *t, uint32_t shard)
{
    const orr_tables_entry *e = &t->entries[shard];
    const orr_embedding *table = &t->layout.plan->tables[e->table];
    const orr_row_store *s = &t->stores[shard];
    return (orr_row_shard){.table = table->name,
                           .table_rows = table->rows,
                           .first_row = e->first_row,
                           .rows = e->rows,
                           .table_columns = table->columns,
                           .column_begin = e->shard->column_begin,
                           .column_end = e->shard->column_end,
                           .format = table->format,
                           .optimizer = table->optimizer,
                           .row_bytes = (uint32_t)s->record_bytes,
                           .state_bytes = (uint32_t)s->state_bytes};
}

/* Which shards of this rank a tier has. */
static orr_status make_shelf(orr_tables *t, orr_tier tier, orr_error *err)
{
    orr_tables_shelf *shelf = &t->shelves[tier];
    shelf->shards = orr_arena_array(t->arena, uint32_t, t->n_shards);
    shelf->drawings = orr_arena_array(t->arena, orr_tables_drawing, t->n_shards);
    shelf->resident = orr_arena_array(t->arena, bool, t->n_shards);
    if (shelf->shards == NULL || shelf->drawings == NULL || shelf->resident == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < t->n_shards; i++) {
        const orr_embedding *table = &t->layout.plan->tables[t->entries[i].table];
        if (orr_tables_tier_of(&t->source, t->entries[i].table) != tier)
            continue;
        shelf->shards[shelf->n] = i;
        shelf->resident[shelf->n] = lives_in_memory(t, i);
        shelf->drawings[shelf->n] = orr_tables_drawing_of_shard(t, i);
        if (shelf->drawings[shelf->n++].columns > ORR_SHARD_UPDATE_COLUMNS)
            return orr_fail(err, ORR_UNSUPPORTED, "table %s: rows of %u numbers outside of memory",
                            table->name, table->columns);
    }
    return ORR_OK;
}

/* Room for all rows, whatever the sector will be. */
static orr_status bytes_of(const orr_tables_tier *tier, const orr_row_file_facts *facts,
                           uint64_t *ret, orr_error *err)
{
    const uint32_t sectors[2] = {tier->sector > 0 ? tier->sector : 512,
                                 tier->sector > 0 ? tier->sector : LARGE_SECTOR};
    const double spare = tier->durable ? DURABLE_SPARE_FRAC : SPARE_FRAC;
    *ret = tier->bytes;
    for (int i = 0; i < 2 && tier->bytes == 0; i++) {
        uint64_t bytes;
        ORR_TRY(orr_row_file_bytes(facts, sectors[i], spare, &bytes, err));
        *ret = bytes > *ret ? bytes : *ret;
    }
    *ret = (*ret + WHOLE_BYTES - 1) / WHOLE_BYTES * WHOLE_BYTES;
    return ORR_OK;
}

static orr_status open_device(orr_tier which, const orr_tables_tier *tier,
                              const orr_row_file_facts *facts, orr_block_device **ret,
                              orr_error *err)
{
    uint64_t bytes = 0;
    orr_block_device *device;
    if (tier->create)
        ORR_TRY(bytes_of(tier, facts, &bytes, err));
    if (which == ORR_TIER_BYTE) {
        const orr_block_map map = {.path = tier->path,
                                   .node = tier->node,
                                   .create = tier->create,
                                   .bytes = bytes,
                                   .sector = tier->sector > 0 ? tier->sector : ORR_TABLES_GRANULE};
        ORR_TRY(orr_block_device_map(&map, &device, err));
    } else {
        const orr_block_open open = {.path = tier->path,
                                     .create = tier->create,
                                     .bytes = bytes,
                                     .sector = tier->sector,
                                     .plain = tier->plain};
        ORR_TRY(orr_block_device_open(&open, &device, err));
    }
    *ret = device;
    if (tier->limits == NULL)
        return ORR_OK;
    const orr_status status = orr_block_device_throttle(device, tier->limits, ret, err);
    if (status != ORR_OK)
        device->close(device);
    return status;
}

static orr_status open_store(orr_tables *t, orr_tier which, const orr_row_file_facts *facts,
                             const double *cached_rows, orr_error *err)
{
    const orr_tables_tier *tier = &t->source.tiers[which];
    orr_tables_shelf *shelf = &t->shelves[which];
    const orr_store_options options = {.cache_bytes = tier->cache_bytes,
                                       .resident = shelf->resident,
                                       .cached_rows = cached_rows,
                                       .policy = (orr_cache_policy)tier->policy,
                                       .writes = (orr_row_writes)tier->writes,
                                       .durable = tier->durable,
                                       .huge_pages = tier->huge_pages,
                                       .window = t->n_sets + 1,
                                       .initial = initial_row,
                                       .ctx = shelf};
    orr_block_device *device;
    ORR_TRY(open_device(which, tier, facts, &device, err));
    shelf->remark = orr_block_device_remark(device);
    const orr_status status =
        tier->create ? orr_store_create(device, facts, &options, &shelf->store, err)
                     : orr_store_open(device, facts, tier->step, &options, &shelf->store, err);
    if (status != ORR_OK)
        device->close(device);
    if (status != ORR_OK && tier->path != NULL)
        orr_error_prefix(err, tier->path);
    return status;
}

static orr_status open_shelf(orr_tables *t, orr_tier which, orr_error *err)
{
    const orr_tables_shelf *shelf = &t->shelves[which];
    const orr_embedding_plan *plan = t->layout.plan;
    orr_row_shard *shards = orr_arena_array(t->arena, orr_row_shard, shelf->n);
    double *cached = orr_arena_array(t->arena, double, shelf->n);
    bool told = true;
    if (shards == NULL || cached == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < shelf->n; k++) {
        const orr_tables_entry *e = &t->entries[shelf->shards[k]];
        const double share = (double)e->rows / (double)plan->tables[e->table].rows;
        shards[k] = row_shard_of(t, shelf->shards[k]);
        cached[k] = plan->placements[e->table].cached_rows * share;
        told &= shelf->resident[k] || cached[k] > 0;
    }
    const orr_row_file_facts facts = {.model = t->source.tiers[which].model,
                                      .seed = t->source.seed,
                                      .rank = t->source.transport->rank,
                                      .ranks = t->source.transport->ranks,
                                      .n_shards = shelf->n,
                                      .shards = shards};
    return open_store(t, which, &facts, told ? cached : NULL, err);
}

/* --- rows of a store, as those in memory are seen -------------------------------------------- */

typedef struct shelf_rows {
    orr_tables *t;
    orr_store *store;
    uint32_t shard;
} shelf_rows;

static orr_status read_rows(orr_row_store *self, int64_t first, int64_t n, char *records,
                            orr_error *err)
{
    const shelf_rows *of = self->ctx;
    const orr_store_scan scan = {of->shard, first, n, records};
    orr_tables_pause(of->t);
    return orr_store_read(of->store, &scan, err);
}

static orr_status write_rows(orr_row_store *self, int64_t first, int64_t n, const char *records,
                             orr_error *err)
{
    const shelf_rows *of = self->ctx;
    const orr_store_scan scan = {of->shard, first, n, (char *)(uintptr_t)records};
    orr_tables_pause(of->t);
    return orr_store_write(of->store, &scan, err);
}

static orr_status show_rows(orr_tables *t, orr_tables_shelf *shelf, orr_error *err)
{
    for (uint32_t k = 0; k < shelf->n; k++) {
        orr_row_store *s = &t->stores[shelf->shards[k]];
        const orr_store_slots slots = orr_store_slots_of(shelf->store, k);
        shelf_rows *of = orr_arena_one(t->arena, shelf_rows);
        if (of == NULL)
            return orr_fail_memory(err);
        *of = (shelf_rows){t, shelf->store, k};
        s->base = slots.rows;
        s->states = s->state_bytes > 0 ? slots.states : NULL;
        s->slots = slots.n;
        s->owner = slots.resident ? NULL : slots.owner;
        s->read = slots.resident ? NULL : read_rows;
        s->write = write_rows;
        s->ctx = of;
    }
    return ORR_OK;
}

orr_status orr_tables_open_tiers(orr_tables *t, orr_error *err)
{
    for (uint32_t i = 0; i < t->n_shards; i++)
        if (!lives_in_memory(t, i) && t->source.tiers == NULL)
            return orr_fail(
                err, ORR_INVALID, "table %s is placed on tier %s, which is not there",
                t->layout.plan->tables[t->entries[i].table].name,
                orr_tier_name((orr_tier)t->layout.plan->placements[t->entries[i].table].tier));
    for (int tier = ORR_TIER_DRAM + 1; tier < ORR_TIERS; tier++) {
        orr_tables_shelf *shelf = &t->shelves[tier];
        ORR_TRY(make_shelf(t, (orr_tier)tier, err));
        if (shelf->n == 0)
            continue;
        if (tier == ORR_TIER_BLOCK && t->source.tiers[tier].path == NULL)
            return orr_fail(err, ORR_INVALID,
                            "table %s is placed on tier block, which is not there",
                            t->layout.plan->tables[t->entries[shelf->shards[0]].table].name);
        ORR_TRY(open_shelf(t, (orr_tier)tier, err));
        ORR_TRY(show_rows(t, shelf, err));
    }
    return orr_tables_ahead_open(t, err);
}

void orr_tables_close_tiers(orr_tables *t)
{
    orr_tables_ahead_close(t);
    for (int tier = 0; tier < ORR_TIERS; tier++)
        orr_store_close(t->shelves[tier].store);
}

const char *orr_tables_remark(const orr_tables *t, orr_tier tier)
{
    return t->shelves[tier].remark;
}

orr_store *orr_tables_store(const orr_tables *t, orr_tier tier)
{
    return t->shelves[tier].store;
}
