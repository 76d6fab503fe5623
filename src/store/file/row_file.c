/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "store/file/log.h"

/* Files made, opened and closed; rows found and read. */

void orr_row_file_lock(orr_row_file *f)
{
    (void)pthread_mutex_lock(&f->lock);
}

bool orr_row_file_try_lock(orr_row_file *f)
{
    return pthread_mutex_trylock(&f->lock) == 0;
}

void orr_row_file_unlock(orr_row_file *f)
{
    (void)pthread_mutex_unlock(&f->lock);
}

/* Files that were made one after the other on one device do not take each other's sectors for
 * theirs. */
static uint64_t new_id(void)
{
    uint64_t id;
    struct timespec t;
#ifdef ORR_ROW_BREAKABLE
    orr_row_drawn += UINT64_C(0x9e3779b97f4a7c15);
    return XXH3_64bits(&orr_row_drawn, sizeof orr_row_drawn);
#endif
    if (getrandom(&id, sizeof id, GRND_NONBLOCK) == (ssize_t)sizeof id)
        return id;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec * UINT64_C(1000000007)) ^ ((uint64_t)t.tv_nsec << 20);
}

/* The parts whose size is that of the device and the header: all but the map. */
static orr_status new_file(orr_block_device *device, const orr_row_file_options *options,
                           orr_row_file **ret, orr_error *err)
{
    orr_row_file *f = orr_calloc(1, sizeof *f);
    if (f == NULL)
        return orr_fail_memory(err);
    (void)pthread_mutex_init(&f->lock, NULL);
    f->device = device;
    f->options = *options;
    f->queue_end = &f->queue;
    f->step = f->settled = -1;
    f->layout.sector = device->sector;
    f->arena = orr_arena_new(0, 0);
    f->log_buffer = orr_row_aligned(f, ORR_ROW_LOG_BUFFER);
    *ret = f;
    if (f->arena == NULL || f->log_buffer == NULL)
        return orr_fail_memory(err);
    return ORR_OK;
}

static void free_lists(orr_row_file *f)
{
    orr_array_done(&f->retired_now);
    orr_array_done(&f->retired_next);
    for (size_t i = 0; i < f->retired.n; i++)
        orr_array_done(&f->retired.at[i].homes);
    orr_array_done(&f->retired);
    orr_free(f->undo.at);
}

static void free_file(orr_row_file *f)
{
    if (f == NULL)
        return;
    for (uint32_t i = 0; i < f->header.facts.n_shards; i++) {
        orr_free(f->entries != NULL ? f->entries[i] : NULL);
        orr_free(f->next != NULL ? f->next[i] : NULL);
        orr_free(f->now != NULL ? f->now[i] : NULL);
    }
    orr_free(f->entries);
    orr_free(f->next);
    orr_free(f->now);
    orr_free(f->streams);
    free_lists(f);
    orr_row_clean_done(f);
    orr_row_runs_done(f);
    orr_row_space_done(f);
    orr_row_aligned_free(f->log_buffer);
    orr_arena_free(f->arena);
    (void)pthread_mutex_destroy(&f->lock);
    orr_free(f);
}

static bool alloc_bits(uint64_t ***bits, const orr_row_file_facts *facts)
{
    *bits = orr_calloc(facts->n_shards, sizeof **bits);
    for (uint32_t i = 0; *bits != NULL && i < facts->n_shards; i++) {
        (*bits)[i] = orr_calloc(((size_t)facts->shards[i].rows + 63) / 64, sizeof(uint64_t));
        if ((*bits)[i] == NULL)
            return false;
    }
    return *bits != NULL;
}

static orr_status alloc_map(orr_row_file *f, orr_error *err)
{
    const orr_row_file_facts *facts = &f->header.facts;
    f->entries = orr_calloc(facts->n_shards, sizeof *f->entries);
    f->streams = orr_calloc(f->layout.n_shapes, sizeof *f->streams);
    for (f->n_buckets = 64; f->n_buckets < f->layout.extents && f->n_buckets < 1 << 16;)
        f->n_buckets *= 2;
    f->buckets = orr_calloc(f->n_buckets, sizeof(orr_row_run *));
    if (f->entries == NULL || f->streams == NULL || f->buckets == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < facts->n_shards; i++) {
        f->entries[i] = orr_calloc((size_t)facts->shards[i].rows, sizeof(orr_row_entry));
        if (f->entries[i] == NULL)
            return orr_fail_memory(err);
    }
    if (f->options.durable && (!alloc_bits(&f->next, facts) || !alloc_bits(&f->now, facts)))
        return orr_fail_memory(err);
    f->run_bytes = f->options.run_bytes != 0 ? f->options.run_bytes : ORR_ROW_RUN_BYTES;
    for (uint32_t i = 0; i < f->layout.n_shapes; i++)
        if (f->layout.shapes[i].group_sectors * f->layout.sector > f->run_bytes)
            f->run_bytes = f->layout.shapes[i].group_sectors * f->layout.sector;
    if ((uint64_t)f->layout.extent_sectors * f->layout.sector < f->run_bytes)
        f->run_bytes = f->layout.extent_sectors * f->layout.sector;
    f->generation = (uint32_t)(new_id() % ORR_ROW_GENERATIONS);
    f->stats.data_bytes = f->layout.extents * f->layout.extent_sectors * f->layout.sector;
    f->clean.pending = orr_calloc(f->layout.n_shapes, sizeof *f->clean.pending);
    if (f->clean.pending == NULL)
        return orr_fail_memory(err);
    return orr_row_space_init(f, err);
}

/* The layout on this device. LIMIT: it is too small. */
static orr_status lay_out(orr_row_file *f, orr_error *err)
{
    orr_row_layout *l = &f->layout;
    const uint32_t sector = f->header.sector;
    ORR_TRY(orr_row_layout_of(&f->header.facts, sector, f->arena, l, err));
    const uint64_t need = orr_row_layout_extents(l, &f->header.facts, 0);
    const uint64_t sectors = f->header.device_bytes / sector;
    l->extents = sectors < l->data_at ? 0 : (sectors - l->data_at) / l->extent_sectors;
    if (l->extents < need)
        return orr_fail(err, ORR_LIMIT, "the rows need %.6f GiB, and the device has %.6f",
                        (double)(l->data_at + need * l->extent_sectors) * sector / (1 << 30),
                        (double)f->header.device_bytes / (1 << 30));
    const uint64_t most = UINT64_C(1) << (ORR_ROW_PLACE_BITS - 7);
    if (l->extents > UINT32_MAX)
        l->extents = UINT32_MAX;
    if (l->extents * l->extent_sectors >= most)
        l->extents = (most - 1) / l->extent_sectors;
    return ORR_OK;
}

static orr_status write_header(orr_row_file *f, orr_error *err)
{
    void *bytes;
    size_t n;
    ORR_TRY(orr_row_header_write(&f->header, f->arena, &bytes, &n, err));
    char *aligned = orr_row_aligned(f, n);
    if (aligned == NULL)
        return orr_fail_memory(err);
    memcpy(aligned, bytes, n);
    const orr_status status = orr_row_transfer(f, ORR_BLOCK_WRITE, 0, n / f->layout.sector, aligned,
                                               (orr_row_others){0}, err);
    orr_row_aligned_free(aligned);
    return status;
}

orr_status orr_row_file_create(orr_block_device *device, const orr_row_file_facts *facts,
                               const orr_row_file_options *options, orr_row_file **ret,
                               orr_error *err)
{
    orr_row_file *f = NULL;
    orr_status status;
    ORR_TRY_OUT(status, new_file(device, options, &f, err));
    f->header = (orr_row_header){
        .file_id = new_id(), .sector = device->sector, .device_bytes = device->bytes};
    ORR_TRY_OUT(status, orr_row_facts_copy(facts, f->arena, &f->header.facts, err));
    ORR_TRY_OUT(status, lay_out(f, err));
    ORR_TRY_OUT(status, alloc_map(f, err));
    orr_row_space_free_all(f);
    /* The header is last: a file that has one is complete. */
    ORR_TRY_OUT(status, orr_row_log_create(f, err));
    ORR_TRY_OUT(status, orr_row_sync(f, err));
    ORR_TRY_OUT(status, write_header(f, err));
    ORR_TRY_OUT(status, orr_row_sync(f, err));
    *ret = f;
out:
    if (status != ORR_OK)
        free_file(f);
    return status;
}

static orr_status read_header(orr_row_file *f, orr_error *err)
{
    const uint32_t sector = f->device->sector;
    size_t n = sector > ORR_ROW_FILE_HEADER_FIRST ? sector : ORR_ROW_FILE_HEADER_FIRST;
    if (n > f->device->bytes)
        n = (size_t)(f->device->bytes / sector * sector);
    for (char *bytes = NULL;;) {
        orr_row_aligned_free(bytes);
        bytes = orr_row_aligned(f, n);
        if (bytes == NULL)
            return orr_fail_memory(err);
        size_t need = 0;
        orr_status status =
            orr_row_transfer(f, ORR_BLOCK_READ, 0, n / sector, bytes, (orr_row_others){0}, err);
        if (status == ORR_OK)
            status = orr_row_header_bytes(bytes, n, &need, err);
        need = (need + sector - 1) / sector * sector;
        if (status == ORR_OK && need > n && need <= f->device->bytes) {
            n = need;
            continue;
        }
        if (status == ORR_OK)
            status = orr_row_header_read(bytes, n, f->arena, &f->header, err);
        orr_row_aligned_free(bytes);
        return status;
    }
}

static orr_status check_header(const orr_row_file *f, const orr_row_file_facts *facts,
                               orr_error *err)
{
    const orr_row_header *h = &f->header;
    if (h->sector != f->device->sector)
        return orr_fail(err, ORR_INVALID,
                        "the rows lie in sectors of %u bytes, and the device has %u", h->sector,
                        f->device->sector);
    if (facts != NULL)
        ORR_TRY(orr_row_header_check(h, facts, err));
    if (h->device_bytes > f->device->bytes)
        return orr_fail(err, ORR_INVALID,
                        "the rows were put on %llu bytes, and the device has %llu",
                        (unsigned long long)h->device_bytes, (unsigned long long)f->device->bytes);
    return ORR_OK;
}

orr_status orr_row_file_open(orr_block_device *device, const orr_row_file_facts *facts,
                             int64_t step, const orr_row_file_options *options, orr_row_file **ret,
                             orr_error *err)
{
    orr_row_file *f = NULL;
    orr_status status;
    ORR_TRY_OUT(status, new_file(device, options, &f, err));
    ORR_TRY_OUT(status, read_header(f, err));
    ORR_TRY_OUT(status, check_header(f, facts, err));
    ORR_TRY_OUT(status, lay_out(f, err));
    ORR_TRY_OUT(status, alloc_map(f, err));
    ORR_TRY_OUT(status, orr_row_log_recover(f, step, err));
    *ret = f;
out:
    if (status != ORR_OK)
        free_file(f);
    return status;
}

orr_status orr_row_file_read_facts(orr_block_device *device, orr_arena *arena,
                                   orr_row_file_facts *ret, orr_error *err)
{
    const orr_row_file_options options = {.durable = false};
    orr_row_file *f = NULL;
    orr_status status;
    ORR_TRY_OUT(status, new_file(device, &options, &f, err));
    ORR_TRY_OUT(status, read_header(f, err));
    ORR_TRY_OUT(status, check_header(f, NULL, err));
    ORR_TRY_OUT(status, lay_out(f, err));
    ORR_TRY_OUT(status, orr_row_facts_copy(&f->header.facts, arena, ret, err));
out:
    free_file(f);
    return status;
}

void orr_row_file_close(orr_row_file *f)
{
    orr_error err;
    if (f == NULL)
        return;
    while (f->in_flight > 0 && orr_row_reap(f, (orr_row_others){0}, &err) == ORR_OK)
        continue;
    f->device->close(f->device);
    free_file(f);
}

const orr_row_file_facts *orr_row_file_facts_of(const orr_row_file *f)
{
    return &f->header.facts;
}

int64_t orr_row_file_step(const orr_row_file *f)
{
    return __atomic_load_n(&f->step, __ATOMIC_RELAXED);
}

orr_row_entry *orr_row_file_entries(orr_row_file *f, uint32_t shard)
{
    return f->entries[shard];
}

orr_row_read orr_row_file_place(const orr_row_file *f, uint32_t shard, orr_row_entry home)
{
    const orr_row_shape *s = &f->layout.shapes[f->layout.shape_of[shard]];
    return (orr_row_read){.at = (f->layout.data_at + orr_row_home_sector(home)) * f->layout.sector,
                          .bytes = s->sectors * f->layout.sector};
}

orr_row_read orr_row_file_locate(const orr_row_file *f, uint32_t shard, orr_row_entry home)
{
    orr_row_read read = orr_row_file_place(f, shard, home);
    const uint64_t sector = orr_row_home_sector(home);
    const orr_row_run *run = orr_row_run_find(f, sector);
    if (run != NULL)
        read.data = run->data + (sector - run->sector) * f->layout.sector;
    return read;
}

orr_status orr_row_file_check(const orr_row_file *f, uint32_t shard, int64_t row,
                              orr_row_entry home, const void *sectors, void *ret_row,
                              void *ret_state, orr_error *err)
{
    const orr_row_shape *s = &f->layout.shapes[f->layout.shape_of[shard]];
    const orr_row_shard *of = &f->header.facts.shards[shard];
    const uint32_t bytes = f->layout.sector;
    const uint64_t first = f->layout.data_at + orr_row_home_sector(home);
    const uint64_t at = (uint64_t)orr_row_home_record(home) * s->last_bytes;
    uint64_t id = 0;
    uint32_t i = 0;
    while (i < s->sectors && !ORR_ROW_IS_BROKEN(ROW_HASH_IGNORED) &&
           orr_sector_is_whole(
               (const char *)sectors + (size_t)i * bytes, bytes,
               (orr_sector_key){f->header.file_id, first + i, orr_row_home_generation(home)}))
        i++;
    if (ORR_ROW_IS_BROKEN(ROW_HASH_IGNORED))
        i = s->sectors;
    if (i == s->sectors)
        orr_sector_get(sectors, bytes, at, &id, sizeof id);
    if (i < s->sectors || id != orr_row_id(shard, row))
        return orr_fail_byte(err, ORR_PARSE, (first + i) * bytes,
                             "table %s, row %lld: sector %llu is damaged", of->table,
                             (long long)(of->first_row + row),
                             (unsigned long long)(first + (i < s->sectors ? i : 0)));
    orr_sector_get(sectors, bytes, at + sizeof id, ret_row, of->row_bytes);
    if (ret_state != NULL)
        orr_sector_get(sectors, bytes, at + sizeof id + of->row_bytes, ret_state, of->state_bytes);
    return ORR_OK;
}

orr_status orr_row_file_append(orr_row_file *f, uint32_t shard, int64_t row, const void *weights,
                               const void *state, bool now, orr_row_entry *ret_home, orr_error *err)
{
    return orr_row_append(f, shard, row, weights, state, now, ORR_ROW_STREAM_CHANGED, ret_home,
                          err);
}

orr_status orr_row_file_pump(orr_row_file *f, const orr_block_completion *completions, uint32_t n,
                             orr_error *err)
{
    bool ready = true;
    for (uint32_t i = 0; i < n; i++)
        orr_row_complete(f, &completions[i]);
    if (f->failed)
        return orr_row_fail_poisoned(f, err);
    if (!f->options.durable)
        ORR_TRY(orr_row_log_void(f, &ready, err));
    if (!ready)
        return ORR_OK;
    ORR_TRY(orr_row_clean_step(f, err));
    return orr_row_submit_runs(f, err);
}

uint32_t orr_row_file_in_flight(const orr_row_file *f)
{
    return f->in_flight;
}

orr_row_file_stats orr_row_file_stats_of(orr_row_file *f)
{
    orr_row_file_lock(f);
    const orr_row_file_stats stats = f->stats;
    orr_row_file_unlock(f);
    return stats;
}
