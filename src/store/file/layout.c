/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "store/file/header.h"

/* Where the parts of a file are. All follows from the shards and the sector, so that a file has no
 * numbers of its own that could contradict them. */
enum {
    LARGEST_EXTENT = 1 << 20, /* bytes, unless a group is larger */
    SMALL_FILE_EXTENTS = 64,  /* that a small file has at least */
    LEAST_EXTENT = 8,         /* sectors */
    GROUPS = 4,               /* of an extent, at least */
    LEAST_RECORDS = 64,       /* sectors of a log behind its snapshot */
    LARGEST_SHAPES = 1024,
};

static orr_status check_shard(const orr_row_shard *s, uint32_t i, orr_error *err)
{
    if (s->rows < 1 || s->first_row < 0 || s->table_rows < s->rows ||
        s->first_row > s->table_rows - s->rows || s->rows >= INT64_C(1) << 40 ||
        s->column_begin > s->column_end || s->column_end > s->table_columns)
        return orr_fail(err, ORR_INVALID,
                        "shard %u: %lld rows from %lld of %lld, columns %u to %u of %u: no shard "
                        "is so",
                        i, (long long)s->rows, (long long)s->first_row, (long long)s->table_rows,
                        s->column_begin, s->column_end, s->table_columns);
    return ORR_OK;
}

/* Shapes are few: shards with records of one size share one. */
static orr_status add_shape(orr_row_layout *l, const orr_row_shape *shape, uint32_t *ret,
                            orr_error *err)
{
    uint32_t at = 0;
    while (at < l->n_shapes && l->shapes[at].record_bytes != shape->record_bytes)
        at++;
    if (at == LARGEST_SHAPES)
        return orr_fail(err, ORR_LIMIT, "records of more than %d sizes", LARGEST_SHAPES);
    if (at == l->n_shapes)
        l->shapes[l->n_shapes++] = *shape;
    *ret = at;
    return ORR_OK;
}

static uint64_t sectors_for(uint64_t bytes, uint32_t payload)
{
    return (bytes + payload - 1) / payload;
}

static void set_extent(orr_row_layout *l, const orr_row_file_facts *facts)
{
    double sectors = 0;
    uint32_t largest = 1, extent = LEAST_EXTENT;
    for (uint32_t i = 0; i < facts->n_shards; i++) {
        const orr_row_shape *s = &l->shapes[l->shape_of[i]];
        sectors += (double)facts->shards[i].rows * s->group_sectors / s->per_group;
        if (s->group_sectors > largest)
            largest = s->group_sectors;
    }
    while ((uint64_t)extent * 2 * l->sector <= LARGEST_EXTENT &&
           (double)extent * 2 * SMALL_FILE_EXTENTS <= sectors)
        extent *= 2;
    while (extent < GROUPS * largest)
        extent *= 2;
    l->extent_sectors = extent;
}

orr_status orr_row_layout_of(const orr_row_file_facts *facts, uint32_t sector, orr_arena *arena,
                             orr_row_layout *ret, orr_error *err)
{
    orr_row_layout l = {.sector = sector};
    size_t header = 128;
    if (facts->n_shards == 0 || facts->n_shards > ORR_ROW_FILE_SHARDS)
        return orr_fail(err, ORR_INVALID, "%u shards: must be 1 to %d", facts->n_shards,
                        ORR_ROW_FILE_SHARDS);
    l.shapes = orr_arena_array(arena, orr_row_shape, facts->n_shards);
    l.shape_of = orr_arena_array(arena, uint32_t, facts->n_shards);
    if (l.shapes == NULL || l.shape_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < facts->n_shards; i++) {
        const orr_row_shard *s = &facts->shards[i];
        orr_row_shape shape;
        ORR_TRY(check_shard(s, i, err));
        ORR_TRY(orr_row_shape_of(s->row_bytes, s->state_bytes, sector, &shape, err));
        ORR_TRY(add_shape(&l, &shape, &l.shape_of[i], err));
        l.rows += (uint64_t)s->rows;
        header += 64 + strlen(s->table);
    }
    if (l.rows >= UINT64_C(1) << 40)
        return orr_fail(err, ORR_LIMIT, "%llu rows are too many", (unsigned long long)l.rows);
    const uint32_t payload = sector - ORR_ROW_HASH_BYTES;
    set_extent(&l, facts);
    l.header_sectors = (header + sector - 1) / sector;
    l.snapshot_sectors = sectors_for(l.rows * sizeof(orr_row_entry), payload);
    l.log_at = l.header_sectors;
    l.log_sectors = 2 + l.snapshot_sectors + sectors_for(l.rows * 4, payload) + LEAST_RECORDS;
    l.data_at = l.log_at + 2 * l.log_sectors;
    *ret = l;
    return ORR_OK;
}

uint64_t orr_row_layout_shape_extents(const orr_row_layout *l, const orr_row_file_facts *facts,
                                      uint32_t shape, double spare_frac)
{
    const orr_row_shape *s = &l->shapes[shape];
    const uint64_t in_extent = (uint64_t)(l->extent_sectors / s->group_sectors) * s->per_group;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < facts->n_shards; i++)
        rows += l->shape_of[i] == shape ? (uint64_t)facts->shards[i].rows : 0;
    return (uint64_t)((double)rows * (1 + spare_frac)) / in_extent + 1 + ORR_ROW_FILLING;
}

uint64_t orr_row_layout_extents(const orr_row_layout *l, const orr_row_file_facts *facts,
                                double spare_frac)
{
    uint64_t extents = 0;
    for (uint32_t i = 0; i < l->n_shapes; i++)
        extents += orr_row_layout_shape_extents(l, facts, i, spare_frac);
    return extents;
}

orr_status orr_row_file_bytes(const orr_row_file_facts *facts, uint32_t sector, double spare_frac,
                              uint64_t *ret, orr_error *err)
{
    orr_row_layout l;
    orr_status status = ORR_OK;
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, orr_row_layout_of(facts, sector, arena, &l, err));
    *ret = (l.data_at + orr_row_layout_extents(&l, facts, spare_frac) * l.extent_sectors) * sector;
out:
    orr_arena_free(arena);
    return status;
}
