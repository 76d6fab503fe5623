/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "store/file/file.h"

/* Which places are free. A group is what becomes free and is written again; extents are given to
 * record sizes as a whole, and come back when all their groups are free. */

uint32_t orr_row_space_groups(const orr_row_file *f, uint32_t shape)
{
    return f->layout.extent_sectors / f->layout.shapes[shape].group_sectors;
}

orr_status orr_row_space_init(orr_row_file *f, orr_error *err)
{
    orr_row_space *s = &f->space;
    const orr_row_layout *l = &f->layout;
    const uint64_t needed = orr_row_layout_extents(l, &f->header.facts, 0);
    size_t groups;
    s->n = l->extents;
    for (uint32_t i = 0; i < l->n_shapes; i++)
        if (orr_row_space_groups(f, i) > s->groups_room)
            s->groups_room = orr_row_space_groups(f, i);
    s->extents = orr_calloc(s->n, sizeof *s->extents);
    s->free = orr_calloc(s->n, sizeof *s->free);
    s->groups = orr_mul_size(s->n, s->groups_room, &groups) ? orr_calloc(groups, 1) : NULL;
    s->extents_of = orr_calloc(l->n_shapes, sizeof *s->extents_of);
    s->quota = orr_calloc(l->n_shapes, sizeof *s->quota);
    s->free_groups = orr_calloc(l->n_shapes, sizeof *s->free_groups);
    s->taken = orr_calloc(l->n_shapes, sizeof *s->taken);
    s->taken_last = orr_calloc(l->n_shapes, sizeof *s->taken_last);
    if (s->taken == NULL || s->taken_last == NULL || s->extents == NULL || s->free == NULL ||
        s->groups == NULL || s->extents_of == NULL || s->quota == NULL || s->free_groups == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < l->n_shapes; i++)
        s->quota[i] = (uint64_t)((double)orr_row_layout_shape_extents(l, &f->header.facts, i, 0) /
                                 (double)needed * (double)s->n);
    return ORR_OK;
}

void orr_row_space_done(orr_row_file *f)
{
    orr_row_space *s = &f->space;
    orr_free(s->extents);
    orr_free(s->free);
    orr_free(s->groups);
    orr_free(s->extents_of);
    orr_free(s->quota);
    orr_free(s->free_groups);
    orr_free(s->taken);
    orr_free(s->taken_last);
}

static uint32_t extent_of(const orr_row_file *f, orr_row_entry home)
{
    return (uint32_t)(orr_row_home_sector(home) / f->layout.extent_sectors);
}

static uint8_t *group_at(const orr_row_file *f, uint32_t extent, uint32_t group)
{
    return &f->space.groups[(uint64_t)extent * f->space.groups_room + group];
}

static uint8_t *group_of(const orr_row_file *f, uint32_t extent, orr_row_entry home)
{
    const orr_row_shape *shape = &f->layout.shapes[f->space.extents[extent].shape];
    const uint64_t in = orr_row_home_group(shape, home) % f->layout.extent_sectors;
    return group_at(f, extent, (uint32_t)(in / shape->group_sectors));
}

orr_status orr_row_place_check(const orr_row_file *f, uint32_t shape, orr_row_entry home,
                               orr_error *err)
{
    const orr_row_shape *s = &f->layout.shapes[shape];
    const uint64_t sector = orr_row_home_sector(home), sectors = f->layout.extent_sectors;
    const uint64_t before = (uint64_t)orr_row_home_record(home) * (s->sectors - 1);
    const uint64_t group = sector % sectors - before; /* wraps where it is none */
    if ((home & ((UINT64_C(1) << ORR_ROW_PLACE_BITS) - 1)) == 0 || sector >= f->space.n * sectors ||
        orr_row_home_record(home) >= s->per_group || before > sector % sectors ||
        group % s->group_sectors != 0 || group / s->group_sectors >= orr_row_space_groups(f, shape))
        return orr_fail(err, ORR_PARSE, "sector %llu, record %u: no row has its place there",
                        (unsigned long long)sector, orr_row_home_record(home));
    const orr_row_extent *e = &f->space.extents[extent_of(f, home)];
    if (e->busy > 0 &&
        (e->shape != shape || *group_of(f, extent_of(f, home), home) >= s->per_group))
        return orr_fail(err, ORR_PARSE, "sector %llu: more rows than one have their place there",
                        (unsigned long long)sector);
    return ORR_OK;
}

static void give_extent(orr_row_file *f, uint32_t extent, uint32_t shape)
{
    f->space.extents[extent].shape = (uint16_t)shape;
    f->space.extents[extent].free = false;
    f->space.extents_of[shape]++;
    f->space.free_groups[shape] += orr_row_space_groups(f, shape);
}

static bool is_dying(const orr_row_extent *e)
{
    return !e->free && e->live == 0 && e->open == 0 && e->busy > 0;
}

/* To be called with what is_dying() said before a change. */
static void count_dying(orr_row_file *f, const orr_row_extent *e, bool was)
{
    f->space.n_dying += (uint64_t)is_dying(e) - (uint64_t)was;
}

static void free_if_empty(orr_row_file *f, uint32_t extent)
{
    orr_row_extent *e = &f->space.extents[extent];
    if (e->busy > 0 || e->open > 0 || e->free)
        return;
    assert(e->live == 0);
    e->free = true;
    e->damaged = e->tried = false;
    f->space.changes++;
    f->space.extents_of[e->shape]--;
    f->space.free_groups[e->shape] -= orr_row_space_groups(f, e->shape);
    f->space.free[f->space.n_free++] = extent;
}

static void pin(orr_row_file *f, uint32_t extent, uint8_t *group)
{
    orr_row_extent *e = &f->space.extents[extent];
    const bool was = is_dying(e);
    if ((*group)++ == 0) {
        e->busy++;
        f->space.free_groups[e->shape]--;
        count_dying(f, e, was);
    }
}

static void unpin(orr_row_file *f, uint32_t extent, uint8_t *group)
{
    orr_row_extent *e = &f->space.extents[extent];
    const bool was = is_dying(e);
    assert(*group > 0);
    if (--(*group) == 0) {
        e->busy--;
        f->space.free_groups[e->shape]++;
        count_dying(f, e, was);
        free_if_empty(f, extent);
    }
}

void orr_row_place_use(orr_row_file *f, uint32_t shape, orr_row_entry home)
{
    const uint32_t extent = extent_of(f, home);
    orr_row_extent *e = &f->space.extents[extent];
    if (e->busy == 0 && e->open == 0) /* recovery */
        give_extent(f, extent, shape);
    pin(f, extent, group_of(f, extent, home));
    const bool was = is_dying(e);
    e->live++;
    count_dying(f, e, was);
    f->stats.used_bytes += f->layout.shapes[shape].record_bytes;
}

void orr_row_place_bury(orr_row_file *f, orr_row_entry home)
{
    orr_row_extent *e = &f->space.extents[extent_of(f, home)];
    const bool was = is_dying(e);
    e->live--;
    e->tried = false;
    f->space.changes++;
    count_dying(f, e, was);
    f->stats.used_bytes -= f->layout.shapes[e->shape].record_bytes;
}

void orr_row_place_release(orr_row_file *f, orr_row_entry home)
{
    const uint32_t extent = extent_of(f, home);
    f->space.changes++;
    unpin(f, extent, group_of(f, extent, home));
}

void orr_row_space_free_all(orr_row_file *f)
{
    for (uint64_t i = f->space.n; i-- > 0;) {
        orr_row_extent *e = &f->space.extents[i];
        if (e->busy == 0) {
            e->free = true;
            f->space.free[f->space.n_free++] = (uint32_t)i;
        }
    }
}

uint32_t orr_row_space_group(const orr_row_file *f, uint32_t extent, uint32_t group)
{
    return *group_at(f, extent, group);
}

void orr_row_space_pin(orr_row_file *f, uint32_t extent, uint32_t group, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        pin(f, extent, group_at(f, extent, group + i));
}

void orr_row_space_unpin(orr_row_file *f, uint32_t extent, uint32_t group, uint32_t n)
{
    orr_row_extent_open(f, extent); /* it does not become free while groups are left */
    for (uint32_t i = 0; i < n; i++)
        unpin(f, extent, group_at(f, extent, group + i));
    orr_row_extent_close(f, extent);
}

void orr_row_extent_open(orr_row_file *f, uint32_t extent)
{
    orr_row_extent *e = &f->space.extents[extent];
    const bool was = is_dying(e);
    e->open++;
    count_dying(f, e, was);
}

void orr_row_extent_close(orr_row_file *f, uint32_t extent)
{
    orr_row_extent *e = &f->space.extents[extent];
    const bool was = is_dying(e);
    e->open--;
    count_dying(f, e, was);
    free_if_empty(f, extent);
}

static void enter(orr_row_file *f, orr_row_stream *s, uint32_t extent)
{
    orr_row_extent_open(f, extent);
    if (s->open)
        orr_row_extent_close(f, s->extent);
    s->open = true;
    s->extent = extent;
    s->group = 0;
}

static bool enter_free(orr_row_file *f, orr_row_stream *s, uint32_t shape, uint32_t stream)
{
    if (f->space.n_free <= (stream == ORR_ROW_STREAM_MOVED ? 0 : ORR_ROW_RESERVE))
        return false;
    const uint32_t extent = f->space.free[--f->space.n_free];
    give_extent(f, extent, shape);
    enter(f, s, extent);
    return true;
}

/* The next free groups of the extent that the stream is in. */
static uint32_t take_here(orr_row_file *f, orr_row_stream *s, uint32_t shape, uint32_t most,
                          uint32_t *ret_group)
{
    const uint32_t end = orr_row_space_groups(f, shape);
    uint32_t n = 0;
    while (s->group < end && *group_at(f, s->extent, s->group) != 0)
        s->group++;
    *ret_group = s->group;
    while (n < most && s->group < end && *group_at(f, s->extent, s->group) == 0) {
        pin(f, s->extent, group_at(f, s->extent, s->group));
        s->group++;
        n++;
    }
    return n;
}

/* The next extent of the shape with a free group. */
static bool enter_hole(orr_row_file *f, orr_row_stream *s, uint32_t shape)
{
    if (f->space.free_groups[shape] == 0)
        return false;
    for (uint64_t i = 1; i <= f->space.n; i++) {
        const uint32_t extent = (uint32_t)((s->extent + i) % f->space.n);
        const orr_row_extent *e = &f->space.extents[extent];
        if (!e->free && !e->cleaning && e->shape == shape &&
            e->busy < orr_row_space_groups(f, shape)) {
            enter(f, s, extent);
            return true;
        }
    }
    return false;
}

uint32_t orr_row_space_take(orr_row_file *f, uint32_t shape, uint32_t stream, uint32_t most,
                            uint32_t *ret_extent, uint32_t *ret_group)
{
    orr_row_stream *s = &f->streams[shape][stream];
    const bool holes = f->options.writes == ORR_ROW_WRITES_HOLES;
    /* Whole extents are written in longer runs, so they go first: to each shape its share. */
    const bool fresh = !holes || f->space.extents_of[shape] < f->space.quota[shape];
    if (holes && stream == ORR_ROW_STREAM_CHANGED) {
        /* Cleaning needs groups to move rows to, or nothing would ever become free again. */
        const uint64_t groups = orr_row_space_groups(f, shape);
        const uint64_t left = f->space.free_groups[shape] + f->space.n_free * groups;
        if (left <= groups)
            return 0;
        most = (uint32_t)orr_min_size(most, left - groups);
    }
    for (;;) {
        const uint32_t n = s->open ? take_here(f, s, shape, most, ret_group) : 0;
        if (n > 0) {
            *ret_extent = s->extent;
            f->space.taken[shape] += stream == ORR_ROW_STREAM_CHANGED ? n : 0;
            return n;
        }
        if (!(fresh && enter_free(f, s, shape, stream)) && !(holes && enter_hole(f, s, shape)) &&
            !(holes && enter_free(f, s, shape, stream)))
            return 0;
    }
}

void orr_row_space_rewind(orr_row_file *f, uint32_t shape, uint32_t stream, uint32_t group)
{
    orr_row_stream *s = &f->streams[shape][stream];
    f->space.taken[shape] -= stream == ORR_ROW_STREAM_CHANGED ? s->group - group : 0;
    s->group = group;
}

orr_status orr_row_fail_full(const orr_row_file *f, orr_error *err)
{
    const double gib = 1 << 30;
    return orr_fail(err, ORR_LIMIT,
                    "the store is full: %.3f GiB of %.3f are rows, and %llu have changed since the "
                    "last checkpoint; it needs more bytes or more frequent checkpoints",
                    (double)f->stats.used_bytes / gib, (double)f->stats.data_bytes / gib,
                    (unsigned long long)(f->n_next + f->n_now));
}
