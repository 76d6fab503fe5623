/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "store/file/file.h"

/* Records on their way to the device. A row is appended to the run that its record size is filling;
 * a run that is full is queued for the thread of the device. Sectors get their hash with every
 * record, so what is in memory can be read as if it were on the device. */

static orr_row_run **bucket_of(const orr_row_file *f, uint64_t extent)
{
    return &f->buckets[extent & (f->n_buckets - 1)];
}

static uint32_t group_sectors(const orr_row_file *f, const orr_row_run *run)
{
    return f->layout.shapes[run->shape].group_sectors;
}

orr_row_run *orr_row_run_find(const orr_row_file *f, uint64_t sector)
{
    orr_row_run *run = *bucket_of(f, sector / f->layout.extent_sectors);
    while (run != NULL && (sector < run->sector ||
                           sector - run->sector >= (uint64_t)run->groups * group_sectors(f, run)))
        run = run->chain;
    return run;
}

static orr_row_run *new_run(orr_row_file *f)
{
    orr_row_run *run = f->spare;
    if (run != NULL) {
        f->spare = run->next;
        return run;
    }
    run = orr_calloc(1, sizeof *run);
    if (run != NULL)
        run->data = orr_row_aligned(f, f->run_bytes);
    if (run != NULL && run->data == NULL) {
        orr_free(run);
        run = NULL;
    }
    return run;
}

static void keep_run(orr_row_file *f, orr_row_run *run)
{
    run->next = f->spare;
    f->spare = run;
}

static orr_status begin_run(orr_row_file *f, uint32_t shape, uint32_t stream, orr_error *err)
{
    const orr_row_shape *s = &f->layout.shapes[shape];
    const uint32_t most = f->run_bytes / (s->group_sectors * f->layout.sector);
    orr_row_run *run = new_run(f);
    uint32_t extent, group;
    if (run == NULL)
        return orr_fail_memory(err);
    const uint32_t n = orr_row_space_take(f, shape, stream, most, &extent, &group);
    if (n == 0) {
        keep_run(f, run);
        return orr_row_fail_full(f, err);
    }
    char *const data = run->data;
    *run = (orr_row_run){.chain = *bucket_of(f, extent),
                         .sector = (uint64_t)extent * f->layout.extent_sectors +
                                   (uint64_t)group * s->group_sectors,
                         .extent = extent,
                         .group = group,
                         .groups = n,
                         .generation = f->generation,
                         .shape = (uint16_t)shape,
                         .state = ORR_ROW_RUN_FILLING,
                         .data = data};
    f->generation =
        ORR_ROW_IS_BROKEN(GENERATION_IGNORED) ? 0 : (f->generation + 1) % ORR_ROW_GENERATIONS;
    memset(data, 0, (size_t)n * s->group_sectors * f->layout.sector);
    *bucket_of(f, extent) = run;
    orr_row_extent_open(f, extent);
    f->streams[shape][stream].run = run;
    if (ORR_ROW_IS_BROKEN(WRITING_IGNORED))
        orr_row_space_unpin(f, extent, group, n);
    return ORR_OK;
}

static void end_run(orr_row_file *f, uint32_t shape, uint32_t stream)
{
    orr_row_run *run = f->streams[shape][stream].run;
    const uint32_t per_group = f->layout.shapes[shape].per_group;
    const uint32_t filled = (run->records + per_group - 1) / per_group;
    f->streams[shape][stream].run = NULL;
    if (filled < run->groups) {
        if (!ORR_ROW_IS_BROKEN(WRITING_IGNORED))
            orr_row_space_unpin(f, run->extent, run->group + filled, run->groups - filled);
        orr_row_space_rewind(f, shape, stream, run->group + filled);
        run->groups = filled;
    }
    run->state = ORR_ROW_RUN_QUEUED;
    run->next = NULL;
    *f->queue_end = run;
    f->queue_end = &run->next;
    f->unwritten++;
}

void orr_row_runs_flush(orr_row_file *f)
{
    for (uint32_t i = 0; i < f->layout.n_shapes; i++)
        for (uint32_t k = 0; k < ORR_ROW_STREAMS; k++)
            if (f->streams[i][k].run != NULL)
                end_run(f, i, k);
}

static void remove_run(orr_row_file *f, orr_row_run *run)
{
    orr_row_run **at = bucket_of(f, run->extent);
    while (*at != run)
        at = &(*at)->chain;
    *at = run->chain;
}

void orr_row_run_written(orr_row_file *f, orr_row_run *run, int error)
{
    f->unwritten--;
    if (error != 0 && !ORR_ROW_IS_BROKEN(FAILED_WRITE_IGNORED)) {
        /* The only good copy of its rows is the one in memory. */
        run->state = ORR_ROW_RUN_FAILED;
        orr_row_poison(f, "rows", error);
        return;
    }
    f->stats.bytes_written += (uint64_t)run->groups * group_sectors(f, run) * f->layout.sector;
    if (!ORR_ROW_IS_BROKEN(WRITING_IGNORED))
        orr_row_space_unpin(f, run->extent, run->group, run->groups);
    orr_row_extent_close(f, run->extent);
    remove_run(f, run);
    keep_run(f, run);
}

void orr_row_runs_done(orr_row_file *f)
{
    for (uint32_t i = 0; f->buckets != NULL && i < f->n_buckets; i++)
        while (f->buckets[i] != NULL) {
            orr_row_run *run = f->buckets[i];
            f->buckets[i] = run->chain;
            keep_run(f, run);
        }
    while (f->spare != NULL) {
        orr_row_run *run = f->spare;
        f->spare = run->next;
        orr_row_aligned_free(run->data);
        orr_free(run);
    }
    orr_free(f->buckets);
}

/* Puts a record into the run, seals the sectors it is in, and gives its home. */
static orr_row_entry put(orr_row_file *f, orr_row_run *run, uint32_t shard, int64_t row,
                         const void *weights, const void *state)
{
    const orr_row_shape *s = &f->layout.shapes[run->shape];
    const orr_row_shard *of = &f->header.facts.shards[shard];
    const uint32_t group = run->records / s->per_group, record = run->records % s->per_group;
    const uint64_t in = (uint64_t)group * s->group_sectors + record * (s->sectors - 1);
    char *const to = run->data + in * f->layout.sector;
    const uint64_t id = orr_row_id(shard, row), at = (uint64_t)record * s->last_bytes;
    orr_sector_put(to, f->layout.sector, at, &id, sizeof id);
    orr_sector_put(to, f->layout.sector, at + sizeof id, weights, of->row_bytes);
    if (of->state_bytes > 0)
        orr_sector_put(to, f->layout.sector, at + sizeof id + of->row_bytes, state,
                       of->state_bytes);
    for (uint32_t i = 0; i < s->sectors; i++)
        orr_sector_seal(to + (size_t)i * f->layout.sector, f->layout.sector,
                        (orr_sector_key){f->header.file_id,
                                         f->layout.data_at + run->sector + in + i,
                                         run->generation});
    run->records++;
    return orr_row_home(run->sector + in, record, run->generation);
}

/* The place that a row had before it was appended. */
static void retire(orr_row_file *f, uint32_t shard, int64_t row, orr_row_entry old, bool now)
{
    const bool in_next = f->next != NULL && orr_row_bit(f->next, shard, row);
    const bool in_now = f->committing && orr_row_bit(f->now, shard, row);
    if (f->next != NULL && f->committing && !now && !in_next)
        orr_row_undo_set(&f->undo, orr_row_id(shard, row), old);
    if (old == 0)
        return;
    orr_row_place_bury(f, old);
    if (f->next == NULL || in_next || (in_now && now) || ORR_ROW_IS_BROKEN(FREED_AT_ONCE))
        orr_row_place_release(f, old); /* no commit has it */
    else if (now)
        (void)orr_array_push(&f->retired_now, old); /* there is room */
    else
        (void)orr_array_push(&f->retired_next, old);
}

static void mark_changed(orr_row_file *f, uint32_t shard, int64_t row, bool now)
{
    if (f->next == NULL)
        return;
    uint64_t **const to = now ? f->now : f->next;
    if (!orr_row_bit(to, shard, row)) {
        orr_row_set_bit(to, shard, row, true);
        *(now ? &f->n_now : &f->n_next) += 1;
    }
    if (now && orr_row_bit(f->next, shard, row)) {
        orr_row_set_bit(f->next, shard, row, false);
        f->n_next--;
    }
}

orr_status orr_row_append(orr_row_file *f, uint32_t shard, int64_t row, const void *weights,
                          const void *state, bool now, uint32_t stream, orr_row_entry *ret_home,
                          orr_error *err)
{
    const uint32_t shape = f->layout.shape_of[shard];
    orr_row_run **const run = &f->streams[shape][stream].run;
    assert(shard < f->header.facts.n_shards && row >= 0 &&
           row < f->header.facts.shards[shard].rows);
    if (f->failed)
        return orr_row_fail_poisoned(f, err);
    if (!orr_array_reserve(&f->retired_now, 1) || !orr_array_reserve(&f->retired_next, 1) ||
        !orr_row_undo_reserve(&f->undo))
        return orr_fail_memory(err);
    if (*run == NULL)
        ORR_TRY(begin_run(f, shape, stream, err));
    now = now && f->committing && !ORR_ROW_IS_BROKEN(LATE_ROW_IS_NEXT);
    const orr_row_entry home = put(f, *run, shard, row, weights, state);
    orr_row_place_use(f, shape, home);
    retire(f, shard, row, orr_row_home_now(f, shard, row), now);
    if (stream == ORR_ROW_STREAM_CHANGED || !ORR_ROW_IS_BROKEN(MOVE_FORGOTTEN))
        mark_changed(f, shard, row, now);
    if (stream == ORR_ROW_STREAM_CHANGED)
        f->clean.moved = 0;
    f->stats.rows_written++;
    if ((*run)->records == (*run)->groups * f->layout.shapes[shape].per_group)
        end_run(f, shape, stream);
    *ret_home = home;
    return ORR_OK;
}
