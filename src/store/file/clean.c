/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "store/file/file.h"

/* Cleaning. Where free places run short, rows move on from where most places are dead: from whole
 * extents, those with the fewest rows of a window that goes round (Van Houdt, "A mean field model
 * for a class of garbage collection algorithms in flash-based solid state drives", SIGMETRICS 2013:
 * the best of some tens is almost as good as the best of all); where holes are written, from groups
 * chosen in the same way. What is read there is believed where the map has a row's home there and
 * the hash is right. A moved row belongs to the next commit; its old place is needed until that has
 * been settled, so places that will then be free are counted as if they were. */
enum {
    WINDOW = 64,         /* extents */
    GROUP_WINDOW = 1024, /* groups */
    LEAST_DEAD = 32, /* a part of an extent's places that must be dead, or moving gains nothing */
};

static uint64_t capacity(const orr_row_file *f, uint32_t shape)
{
    return (uint64_t)orr_row_space_groups(f, shape) * f->layout.shapes[shape].per_group;
}

static uint64_t sector_of(const orr_row_file *f, uint32_t extent, uint32_t group)
{
    const orr_row_shape *s = &f->layout.shapes[f->space.extents[extent].shape];
    return (uint64_t)extent * f->layout.extent_sectors + (uint64_t)group * s->group_sectors;
}

static uint64_t wanted_groups(const orr_row_file *f, uint32_t shape)
{
    const uint64_t all = f->space.extents_of[shape] * orr_row_space_groups(f, shape);
    return orr_row_space_groups(f, shape) + orr_min_size(64, all / 16 + 1) + all / 64 +
           f->space.taken_last[shape];
}

/* Groups that rows of a shape may take, now or after the next settled commit. */
static uint64_t coming_groups(const orr_row_file *f, uint32_t shape)
{
    const orr_row_space *s = &f->space;
    const uint64_t fresh = s->extents_of[shape] < s->quota[shape] && s->n_free > ORR_ROW_RESERVE
                               ? s->n_free - ORR_ROW_RESERVE
                               : 0;
    return s->free_groups[shape] + fresh * orr_row_space_groups(f, shape) + f->clean.pending[shape];
}

static bool wants_groups(const orr_row_file *f, uint32_t shape)
{
    return f->options.writes == ORR_ROW_WRITES_HOLES && !f->committing &&
           f->space.extents_of[shape] > 0 && coming_groups(f, shape) < wanted_groups(f, shape);
}

static bool wants_extent(const orr_row_file *f)
{
    const orr_row_space *s = &f->space;
    if (f->committing)
        return false; /* what moves now makes places free a commit later */
    const uint64_t coming = s->n_free + s->n_dying + (f->clean.has_victim ? 1 : 0);
    if (f->options.writes == ORR_ROW_WRITES_EXTENTS) {
        /* What one commit took, the next one will. Where less is left than half of that, moving
         * rows would take it without making any place free before a commit. */
        uint64_t last = 0;
        for (uint32_t i = 0; i < f->layout.n_shapes; i++)
            last += s->taken_last[i] / orr_row_space_groups(f, i) + (s->taken_last[i] > 0);
        return coming < ORR_ROW_RESERVE + 1 + f->layout.n_shapes + s->n / 64 + last &&
               (!f->options.durable || s->n_free * 2 > last);
    }
    /* With holes, only where one shape has what is due to another. */
    bool starving = false;
    for (uint32_t i = 0; i < f->layout.n_shapes && !starving; i++)
        starving = s->extents_of[i] < s->quota[i] && s->free_groups[i] < wanted_groups(f, i);
    return starving && coming < ORR_ROW_RESERVE + 2;
}

static bool wants_any(const orr_row_file *f)
{
    bool any = wants_extent(f);
    for (uint32_t i = 0; i < f->layout.n_shapes && !any; i++)
        any = f->layout.shapes[i].per_group > 1 && wants_groups(f, i);
    return any;
}

/* All has been looked at since anything has changed; or as many rows as there are have moved since
 * others changed anything, and more moves would only go round. */
static bool is_hopeless(const orr_row_file *f)
{
    const uint64_t looks = f->space.n / WINDOW + 2 +
                           f->space.n * f->space.groups_room / GROUP_WINDOW * f->layout.n_shapes;
    return f->clean.moved >= f->layout.rows ||
           (f->clean.changes == f->space.changes && f->clean.fruitless > looks);
}

bool orr_row_file_cleaning(const orr_row_file *f)
{
    for (uint32_t i = 0; i < ORR_ROW_CLEAN_JOBS; i++)
        if (f->clean.jobs[i].state != ORR_ROW_CLEAN_IDLE)
            return true;
    return !f->failed && wants_any(f) && !is_hopeless(f);
}

static bool find_extent(orr_row_file *f, uint32_t *ret)
{
    orr_row_clean *c = &f->clean;
    double least = 1 - 1.0 / LEAST_DEAD;
    bool found = false;
    for (uint64_t i = 0; i < WINDOW && i < f->space.n; i++) {
        const uint32_t extent = (uint32_t)(c->next_extent++ % f->space.n);
        const orr_row_extent *e = &f->space.extents[extent];
        if (e->free || e->open > 0 || e->live == 0 || e->damaged || e->tried)
            continue;
        const double full = (double)e->live / (double)capacity(f, e->shape);
        if (full < least) {
            least = full;
            *ret = extent;
            found = true;
        }
    }
    return found;
}

static void leave_victim(orr_row_file *f)
{
    f->space.extents[f->clean.victim].cleaning = false;
    f->clean.has_victim = false;
    orr_row_extent_close(f, f->clean.victim);
}

/* The next groups of the extent that is being cleaned, as many as a job reads at once. */
static bool next_of_victim(orr_row_file *f, orr_row_clean_job *job)
{
    orr_row_clean *c = &f->clean;
    const uint32_t shape = f->space.extents[c->victim].shape;
    const uint32_t end = orr_row_space_groups(f, shape);
    const uint32_t most = f->run_bytes / (f->layout.shapes[shape].group_sectors * f->layout.sector);
    while (c->group < end && orr_row_space_group(f, c->victim, c->group) == 0)
        c->group++;
    if (c->group == end) {
        f->space.extents[c->victim].tried = true;
        leave_victim(f);
        return false;
    }
    uint32_t n = end - c->group < most ? end - c->group : most;
    *job = (orr_row_clean_job){.extent = c->victim, .group = c->group, .n = n, .data = job->data};
    c->group += n;
    return true;
}

static bool next_extent(orr_row_file *f, orr_row_clean_job *job)
{
    orr_row_clean *c = &f->clean;
    if (c->has_victim && next_of_victim(f, job))
        return true;
    if (!wants_extent(f) || !find_extent(f, &c->victim))
        return false;
    c->has_victim = true;
    c->group = 0;
    f->space.extents[c->victim].cleaning = true;
    orr_row_extent_open(f, c->victim);
    return next_of_victim(f, job);
}

/* Its places in use would count those that are only being read. */
static bool is_being_cleaned(const orr_row_file *f, uint32_t extent, uint32_t group)
{
    bool found = false;
    for (uint32_t i = 0; i < ORR_ROW_CLEAN_JOBS; i++) {
        const orr_row_clean_job *job = &f->clean.jobs[i];
        found |= job->state != ORR_ROW_CLEAN_IDLE && job->extent == extent && group >= job->group &&
                 group - job->group < job->n;
    }
    return found;
}

/* A group of the shape with few rows. */
static bool next_group(orr_row_file *f, uint32_t shape, orr_row_clean_job *job)
{
    orr_row_clean *c = &f->clean;
    const uint32_t groups = orr_row_space_groups(f, shape);
    uint32_t least = f->layout.shapes[shape].per_group;
    for (uint32_t i = 0; i < GROUP_WINDOW && least > 1; i++, c->next_group++) {
        const uint32_t extent = (uint32_t)(c->next_group / groups % f->space.n);
        const uint32_t group = (uint32_t)(c->next_group % groups);
        const orr_row_extent *e = &f->space.extents[extent];
        if (e->free || e->shape != shape || e->damaged || e->live == 0) {
            c->next_group += groups - group - 1;
            continue;
        }
        const uint32_t n = orr_row_space_group(f, extent, group);
        if (n == 0 || n >= least || is_being_cleaned(f, extent, group) ||
            orr_row_run_find(f, sector_of(f, extent, group)) != NULL)
            continue;
        least = n;
        *job = (orr_row_clean_job){.extent = extent, .group = group, .n = 1, .data = job->data};
    }
    if (least == f->layout.shapes[shape].per_group)
        return false;
    c->pending[shape] += f->options.durable;
    return true;
}

static bool next_job(orr_row_file *f, orr_row_clean_job *job)
{
    bool found = f->clean.has_victim || wants_extent(f) ? next_extent(f, job) : false;
    for (uint32_t i = 0; i < f->layout.n_shapes && !found; i++)
        found = f->layout.shapes[i].per_group > 1 && wants_groups(f, i) && next_group(f, i, job);
    if (found) {
        orr_row_space_pin(f, job->extent, job->group, job->n);
        orr_row_extent_open(f, job->extent);
    }
    return found;
}

static orr_status submit_job(orr_row_file *f, orr_row_clean_job *job, orr_error *err)
{
    const orr_row_shape *s = &f->layout.shapes[f->space.extents[job->extent].shape];
    const orr_block_request request = {
        .operation = ORR_BLOCK_READ,
        .bytes = job->n * s->group_sectors * f->layout.sector,
        .at = (f->layout.data_at + sector_of(f, job->extent, job->group)) * f->layout.sector,
        .data = job->data,
        .tag = orr_row_tag(&job->read, ORR_ROW_TAG_WAIT)};
    uint32_t begun;
    ORR_TRY(f->device->submit(f->device, &request, 1, &begun, err));
    if (begun == 0)
        return ORR_OK;
    job->read = (orr_row_wait){.pending = 1};
    f->in_flight++;
    orr_row_file_lock(f);
    job->state = ORR_ROW_CLEAN_READING;
    orr_row_file_unlock(f);
    return ORR_OK;
}

/* Moves the record at this place, where a row has its home there. */
static orr_status move(orr_row_file *f, uint32_t extent, uint64_t sector, uint32_t record,
                       const char *bytes, orr_error *err)
{
    orr_row_extent *e = &f->space.extents[extent];
    const orr_row_shape *s = &f->layout.shapes[e->shape];
    const uint64_t place = ((UINT64_C(1) << ORR_ROW_PLACE_BITS) - 1);
    uint64_t id;
    orr_sector_get(bytes, f->layout.sector, (uint64_t)record * s->last_bytes, &id, sizeof id);
    const uint64_t shard = id >> ORR_ROW_NUMBER_BITS;
    const int64_t row = (int64_t)(id & ((UINT64_C(1) << ORR_ROW_NUMBER_BITS) - 1));
    if (shard >= f->header.facts.n_shards || row >= f->header.facts.shards[shard].rows ||
        f->layout.shape_of[shard] != e->shape)
        return ORR_OK;
    const orr_row_shard *of = &f->header.facts.shards[shard];
    const orr_row_entry home = orr_row_home_now(f, (uint32_t)shard, row);
    orr_row_entry to;
    if (home == 0 || (home & place) != (orr_row_home(sector, record, 0) & place))
        return ORR_OK;
    if (orr_row_file_check(f, (uint32_t)shard, row, home, bytes, f->clean.record,
                           f->clean.record + of->row_bytes, NULL) != ORR_OK) {
        e->damaged = true; /* who reads the row will say so */
        return ORR_OK;
    }
    ORR_TRY(orr_row_append(f, (uint32_t)shard, row, f->clean.record,
                           f->clean.record + of->row_bytes, false, ORR_ROW_STREAM_MOVED, &to, err));
    orr_row_entry *const at = &f->entries[shard][row];
    /* Servers bring rows to the cache and evict them meanwhile. */
    orr_row_entry entry = __atomic_load_n(at, __ATOMIC_RELAXED);
    while ((entry & ORR_ROW_RESIDENT) == 0 &&
           !__atomic_compare_exchange_n(at, &entry, (entry & ~ORR_ROW_HOME_MASK) | to, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        continue;
    if ((entry & ORR_ROW_RESIDENT) != 0)
        f->options.set_home(f->options.ctx, (uint32_t)shard, row, entry, to);
    f->clean.moved++;
    f->stats.cleaned_rows++;
    return ORR_OK;
}

/* There is no place to move rows to. Appending says so where it matters. */
static void give_up(orr_row_file *f)
{
    orr_row_clean *c = &f->clean;
    c->fruitless = UINT64_MAX / 2;
    c->changes = f->space.changes;
    if (c->has_victim)
        leave_victim(f);
}

/* The rows of a job that has been read. A lock of a group at a time. */
static orr_status end_job(orr_row_file *f, orr_row_clean_job *job, orr_error *err)
{
    const orr_row_shape *s = &f->layout.shapes[f->space.extents[job->extent].shape];
    orr_status status = ORR_OK;
    for (uint32_t i = 0; i < job->n && job->read.error == 0 && status == ORR_OK; i++) {
        const uint64_t first = sector_of(f, job->extent, job->group + i);
        orr_row_file_lock(f);
        for (uint32_t k = 0; k < s->per_group && status == ORR_OK; k++) {
            const uint64_t in = (uint64_t)k * (s->sectors - 1);
            status =
                move(f, job->extent, first + in, k,
                     job->data + ((uint64_t)i * s->group_sectors + in) * f->layout.sector, err);
        }
        orr_row_file_unlock(f);
    }
    orr_row_file_lock(f);
    if (job->read.error != 0)
        f->space.extents[job->extent].damaged = true;
    job->state = ORR_ROW_CLEAN_IDLE;
    orr_row_space_unpin(f, job->extent, job->group, job->n);
    orr_row_extent_close(f, job->extent);
    if (status == ORR_LIMIT) {
        f->space.extents[job->extent].tried = false;
        give_up(f);
    }
    orr_row_file_unlock(f);
    return status == ORR_LIMIT ? ORR_OK : status;
}

/* What a job reads next. Looks that find nothing are counted until something changes. */
static bool choose(orr_row_file *f, orr_row_clean_job *job)
{
    orr_row_clean *c = &f->clean;
    if (c->changes != f->space.changes)
        c->fruitless = 0;
    const bool found = next_job(f, job);
    if (found)
        job->state = ORR_ROW_CLEAN_CHOSEN;
    else
        c->fruitless++;
    c->changes = f->space.changes;
    return found;
}

static orr_status alloc_jobs(orr_row_file *f, orr_error *err)
{
    uint32_t largest = 0;
    if (f->clean.record != NULL)
        return ORR_OK;
    for (uint32_t i = 0; i < f->layout.n_shapes; i++)
        if (f->layout.shapes[i].record_bytes > largest)
            largest = f->layout.shapes[i].record_bytes;
    for (uint32_t i = 0; i < ORR_ROW_CLEAN_JOBS; i++) {
        orr_row_clean_job *job = &f->clean.jobs[i];
        if (job->data == NULL)
            job->data = orr_row_aligned(f, f->run_bytes);
        if (job->data == NULL)
            return orr_fail_memory(err);
    }
    f->clean.record = orr_malloc(largest);
    return f->clean.record != NULL ? ORR_OK : orr_fail_memory(err);
}

void orr_row_clean_done(orr_row_file *f)
{
    for (uint32_t i = 0; i < ORR_ROW_CLEAN_JOBS; i++)
        orr_row_aligned_free(f->clean.jobs[i].data);
    orr_free(f->clean.record);
    orr_free(f->clean.pending);
}

orr_status orr_row_clean_step(orr_row_file *f, orr_error *err)
{
    bool more = true;
    const uint32_t most = f->options.clean_jobs;
    for (uint32_t i = 0; i < (most > 0 && most < ORR_ROW_CLEAN_JOBS ? most : ORR_ROW_CLEAN_JOBS);
         i++) {
        orr_row_clean_job *job = &f->clean.jobs[i];
        if (job->state == ORR_ROW_CLEAN_READING && job->read.pending == 0)
            ORR_TRY(end_job(f, job, err));
        if (job->state == ORR_ROW_CLEAN_IDLE && more) {
            orr_row_file_lock(f);
            more = (wants_any(f) && !is_hopeless(f)) || f->clean.has_victim;
            orr_row_file_unlock(f);
            if (more)
                ORR_TRY(alloc_jobs(f, err));
            orr_row_file_lock(f);
            more = more && choose(f, job);
            orr_row_file_unlock(f);
        }
        if (job->state == ORR_ROW_CLEAN_CHOSEN)
            ORR_TRY(submit_job(f, job, err));
    }
    return ORR_OK;
}
