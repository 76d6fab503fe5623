/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "store/file/log.h"

/* The map as of a commit, read back from the log. What is on the device is believed where its hash
 * is right and it says what its neighbours say; all else is damage, which is told and not guessed
 * around. */

bool orr_row_is_zeros(const void *bytes, size_t n)
{
    const char *b = bytes;
    return n == 0 || (b[0] == 0 && memcmp(b, b + 1, n - 1) == 0);
}

static orr_status fail_sector(const orr_row_file *f, uint64_t sector, const char *what,
                              orr_error *err)
{
    return orr_fail_byte(err, ORR_PARSE, sector * f->layout.sector,
                         "sector %llu: %s of the rows is damaged", (unsigned long long)sector,
                         what);
}

/* Reads one sector; *ret_zeros: it has nothing. */
static orr_status get_sector(orr_row_file *f, uint64_t sector, uint64_t generation,
                             const char *what, void *ret, size_t n, bool *ret_zeros, orr_error *err)
{
    const uint32_t bytes = f->layout.sector;
    ORR_TRY(
        orr_row_transfer(f, ORR_BLOCK_READ, sector, 1, f->log_buffer, (orr_row_others){0}, err));
    *ret_zeros = orr_row_is_zeros(f->log_buffer, bytes);
    if (!*ret_zeros && !ORR_ROW_IS_BROKEN(LOG_HASH_IGNORED) &&
        !orr_sector_is_whole(f->log_buffer, bytes,
                             (orr_sector_key){f->header.file_id, sector, generation}))
        return fail_sector(f, sector, what, err);
    memcpy(ret, f->log_buffer, n);
    return ORR_OK;
}

/* Reads what log_writer wrote. */
typedef struct log_reader {
    orr_row_file *file;
    uint64_t sector, end; /* of the device: the next to read */
    uint64_t sequence, hash;
    uint64_t payload, at; /* bytes in the buffer; of them read */
} log_reader;

static orr_status fill(log_reader *r, const char *what, orr_error *err)
{
    orr_row_file *f = r->file;
    const uint32_t bytes = f->layout.sector;
    const uint64_t n = orr_min_size(r->end - r->sector, ORR_ROW_LOG_BUFFER / bytes);
    ORR_TRY(
        orr_row_transfer(f, ORR_BLOCK_READ, r->sector, n, f->log_buffer, (orr_row_others){0}, err));
    for (uint64_t i = 0; i < n; i++) {
        const orr_sector_key key = {f->header.file_id, r->sector + i, r->sequence};
        if (!orr_sector_is_whole(f->log_buffer + i * bytes, bytes, key) &&
            !ORR_ROW_IS_BROKEN(LOG_HASH_IGNORED))
            return fail_sector(f, r->sector + i, what, err);
        r->hash = orr_row_log_hash(r->hash, f->log_buffer + i * bytes, bytes);
    }
    r->sector += n;
    r->payload = n * (bytes - ORR_ROW_HASH_BYTES);
    r->at = 0;
    return ORR_OK;
}

static orr_status get(log_reader *r, void *ret, size_t n, const char *what, orr_error *err)
{
    for (size_t done = 0; done < n;) {
        if (r->at == r->payload)
            ORR_TRY(fill(r, what, err));
        const size_t part = orr_min_size(n - done, r->payload - r->at);
        orr_sector_get(r->file->log_buffer, r->file->layout.sector, r->at, (char *)ret + done,
                       part);
        r->at += part;
        done += part;
    }
    return ORR_OK;
}

static orr_status get_snapshot(orr_row_file *f, uint32_t region, const orr_row_region *head,
                               orr_error *err)
{
    const uint64_t first = orr_row_log_sector(f, region, 1);
    log_reader r = {f, first, first + f->layout.snapshot_sectors, head->sequence, 0, 0, 0};
    for (uint32_t i = 0; i < f->header.facts.n_shards; i++) {
        const int64_t rows = f->header.facts.shards[i].rows;
        if (head->rows == 0)
            memset(f->entries[i], 0, (size_t)rows * sizeof(orr_row_entry));
        else
            ORR_TRY(
                get(&r, f->entries[i], (size_t)rows * sizeof(orr_row_entry), "a snapshot", err));
    }
    if (r.hash != head->hash && !ORR_ROW_IS_BROKEN(LOG_HASH_IGNORED))
        return fail_sector(f, first, "a snapshot", err);
    return ORR_OK;
}

static orr_status get_changes(orr_row_file *f, uint32_t region, uint64_t sequence, uint64_t at,
                              const orr_row_mark *mark, orr_error *err)
{
    const uint64_t first = orr_row_log_sector(f, region, at);
    const uint64_t n = orr_row_log_sectors(f, mark->changes * sizeof(orr_row_change));
    log_reader r = {f, first, first + n, sequence, 0, 0, 0};
    for (uint64_t i = 0; i < mark->changes; i++) {
        orr_row_change c;
        ORR_TRY(get(&r, &c, sizeof c, "a commit", err));
        const uint64_t shard = c.id >> ORR_ROW_NUMBER_BITS;
        const uint64_t row = c.id & ((UINT64_C(1) << ORR_ROW_NUMBER_BITS) - 1);
        if (shard >= f->header.facts.n_shards ||
            row >= (uint64_t)f->header.facts.shards[shard].rows)
            return fail_sector(f, first, "a commit", err);
        f->entries[shard][row] = c.home;
    }
    if (r.hash != mark->hash && !ORR_ROW_IS_BROKEN(LOG_HASH_IGNORED))
        return fail_sector(f, first, "a commit", err);
    return ORR_OK;
}

/* What a region has. */
typedef struct found {
    int64_t first, last, step, settled; /* steps; the one that was taken */
    orr_row_log log;                    /* behind it */
    orr_row_mark mark;                  /* its own, where the log has a record */
    uint64_t mark_at;
    bool has_later, is_there;
} found;

static orr_status get_mark(orr_row_file *f, uint32_t region, const orr_row_log *log, int64_t after,
                           orr_row_mark *ret, bool *ret_end, orr_error *err)
{
    const uint64_t sector = orr_row_log_sector(f, region, log->at);
    ORR_TRY(get_sector(f, sector, log->sequence, "a commit", ret, sizeof *ret, ret_end, err));
    if (*ret_end)
        return ORR_OK;
    const uint64_t left = f->layout.log_sectors - log->at;
    if (ret->magic != ORR_ROW_MARK_MAGIC || ret->number != log->number || ret->step <= after ||
        ret->changes > f->layout.rows || left < 2 ||
        orr_row_log_sectors(f, ret->changes * sizeof(orr_row_change)) > left - 2)
        return fail_sector(f, sector, "a commit", err);
    return ORR_OK;
}

/* Entries as of a step of this region, -1: its last. */
static orr_status get_region(orr_row_file *f, uint32_t region, const orr_row_region *head,
                             int64_t step, found *ret, orr_error *err)
{
    found r = {.first = head->step,
               .last = head->step,
               .step = head->step,
               .settled = head->settled,
               .is_there = step < 0 || head->step == step};
    const uint64_t snapshot = head->rows == 0 ? 0 : f->layout.snapshot_sectors;
    orr_row_log log = {region, head->sequence, 1 + snapshot, 0, head->step};
    r.log = log;
    if (step < 0 || head->step <= step)
        ORR_TRY(get_snapshot(f, region, head, err));
    for (;;) {
        orr_row_mark mark;
        bool end;
        ORR_TRY(get_mark(f, region, &log, r.last, &mark, &end, err));
        if (end)
            break;
        const uint64_t mark_at = log.at, changes = mark_at + 1;
        log.at = changes + orr_row_log_sectors(f, mark.changes * sizeof(orr_row_change));
        log.number++;
        r.last = mark.step;
        r.settled = mark.settled > r.settled ? mark.settled : r.settled;
        if (step >= 0 && mark.step > step) {
            r.has_later = true;
            continue;
        }
        ORR_TRY(get_changes(f, region, head->sequence, changes, &mark, err));
        r.step = mark.step;
        r.log = log;
        r.mark = mark;
        r.mark_at = mark_at;
        r.is_there = r.is_there || mark.step == step;
    }
    *ret = r;
    return ORR_OK;
}

static orr_status get_heads(orr_row_file *f, orr_row_region heads[2], int *ret_newest,
                            orr_error *err)
{
    bool none[2];
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t sector = orr_row_log_sector(f, i, 0);
        ORR_TRY(get_sector(f, sector, 0, "a log", &heads[i], sizeof heads[i], &none[i], err));
        if (!none[i] &&
            (heads[i].magic != ORR_ROW_REGION_MAGIC || heads[i].sequence == 0 ||
             heads[i].step < -1 || (heads[i].rows != 0 && heads[i].rows != f->layout.rows)))
            return fail_sector(f, sector, "a log", err);
    }
    if (none[0] && none[1])
        return orr_fail(err, ORR_PARSE,
                        "the rows have no commit: they were written without, or are incomplete");
    if (!none[0] && !none[1] && heads[0].sequence + 1 != heads[1].sequence &&
        heads[1].sequence + 1 != heads[0].sequence)
        return fail_sector(f, orr_row_log_sector(f, 0, 0), "a log", err);
    *ret_newest = none[0] || (!none[1] && heads[1].sequence > heads[0].sequence);
    heads[0].sequence = none[0] ? 0 : heads[0].sequence;
    heads[1].sequence = none[1] ? 0 : heads[1].sequence;
    return ORR_OK;
}

/* What was read may never have reached the device: a sync that failed before this process began
 * leaves it to be read and forgets it. So all that the log ends with is written again, as it was
 * read (a sector is not torn, and the rows and changes before a mark were synced before it), and
 * commits after the one that was opened are made void, so that none of them comes back after their
 * places have been given away. */
static orr_status make_last(orr_row_file *f, const found *is, const orr_row_region heads[2],
                            bool newer_region, orr_error *err)
{
    const orr_row_others none = {0};
    const orr_row_log *log = &is->log;
    const uint32_t other = 1 - log->region;
    const size_t n = heads[other].sequence == 0 || newer_region ? 0 : sizeof *heads;
    if (!is->has_later || !ORR_ROW_IS_BROKEN(LATER_KEPT))
        ORR_TRY(orr_row_log_put(f, log->region, log->at, 0, NULL, 0, none, err));
    if (log->number > 0)
        ORR_TRY(orr_row_log_put(f, log->region, is->mark_at, log->sequence, &is->mark,
                                sizeof is->mark, none, err));
    ORR_TRY(orr_row_log_put(f, log->region, 0, 0, &heads[log->region], sizeof *heads, none, err));
    if (newer_region) /* it is valid until what it has after this commit cannot come back */
        ORR_TRY(orr_row_sync(f, err));
    if (!newer_region || !ORR_ROW_IS_BROKEN(LATER_KEPT))
        ORR_TRY(orr_row_log_put(f, other, 0, 0, &heads[other], n, none, err));
    return ORR_ROW_IS_BROKEN(NO_SYNC_AT_OPEN) ? ORR_OK : orr_row_sync(f, err);
}

/* Places of the rows as they are now are in use, all others free. */
static orr_status use_places(orr_row_file *f, orr_error *err)
{
    for (uint32_t i = 0; i < f->header.facts.n_shards; i++) {
        const uint32_t shape = f->layout.shape_of[i];
        for (int64_t row = 0; row < f->header.facts.shards[i].rows; row++) {
            const orr_row_entry home = f->entries[i][row];
            if (home == 0)
                continue;
            if (home > ORR_ROW_HOME_MASK)
                return orr_fail(err, ORR_PARSE, "table %s, row %lld: no place of the file",
                                f->header.facts.shards[i].table, (long long)row);
            ORR_TRY(orr_row_place_check(f, shape, home, err));
            orr_row_place_use(f, shape, home);
        }
    }
    orr_row_space_free_all(f);
    return ORR_OK;
}

orr_status orr_row_log_recover(orr_row_file *f, int64_t step, orr_error *err)
{
    orr_row_region heads[2];
    int newest;
    bool older = false;
    found is;
    ORR_TRY(get_heads(f, heads, &newest, err));
    ORR_TRY(get_region(f, (uint32_t)newest, &heads[newest], step, &is, err));
    const int64_t last = is.last, settled = is.settled;
    if (!is.is_there && step >= settled && step < is.first && heads[1 - newest].sequence != 0) {
        older = true;
        ORR_TRY(get_region(f, (uint32_t)(1 - newest), &heads[1 - newest], step, &is, err));
    }
    if (!is.is_there || (step >= 0 && step < settled))
        return orr_fail(
            err, ORR_NOT_FOUND,
            "there is no commit of step %lld: those of steps %lld to %lld can be opened",
            (long long)step, (long long)(settled > is.first ? settled : is.first), (long long)last);
    if (f->options.durable && !ORR_ROW_IS_BROKEN(NO_WRITE_AT_OPEN))
        ORR_TRY(make_last(f, &is, heads, older, err));
    ORR_TRY(use_places(f, err));
    f->log = is.log;
    f->step = f->settled = is.step;
    return ORR_OK;
}
