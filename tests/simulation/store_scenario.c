/* SPDX-License-Identifier: Apache-2.0 */
#include "store_scenario.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/file/broken.h"

enum { BUFFER = 1 << 16, LIVES = 4 };

static uint64_t draw(store_scenario *s, uint64_t bound)
{
    return orr_random_below(&s->random, bound);
}

static bool chance(store_scenario *s, uint32_t percent)
{
    return draw(s, 100) < percent;
}

static void wrong(store_scenario *s, const char *format, ...) ORR_PRINTF(2, 3);
static void wrong(store_scenario *s, const char *format, ...)
{
    va_list args;
    if (s->why[0] != '\0')
        return;
    va_start(args, format);
    (void)vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
}

static void say(const store_scenario *s, const char *format, ...) ORR_PRINTF(2, 3);
static void say(const store_scenario *s, const char *format, ...)
{
    va_list args;
    if (!s->trace)
        return;
    va_start(args, format);
    printf("%8" PRIu64 "  ", s->drive != NULL ? orr_sim_drive_operations(s->drive) : 0);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

/* Can the process go on? An error must have a fault that explains it, and be one line. */
static bool went_well(store_scenario *s, const char *what, orr_status status, const orr_error *err)
{
    if (status == ORR_OK)
        return true;
    say(s, "%s: %s", what, err->text);
    if (orr_sim_drive_crashed(s->drive))
        s->dead = true;
    else if (status == ORR_IO && (orr_sim_drive_struck(s->drive) > s->struck || s->failing))
        s->failing = true;
    else
        wrong(s, "%s: %s", what, err->text);
    if (err->text[0] == '\0' || strchr(err->text, '\n') != NULL)
        wrong(s, "%s: an error that is not one line: '%s'", what, err->text);
    return false;
}

static bool is_over(const store_scenario *s)
{
    return s->dead || s->why[0] != '\0';
}

/* --- rows --------------------------------------------------------------------------------------
 */

static uint32_t shard_of(const store_scenario *s, uint32_t row)
{
    uint32_t shard = 0;
    while (row >= s->base[shard + 1])
        shard++;
    return shard;
}

static size_t record_bytes(const orr_row_shard *shard)
{
    return shard->row_bytes + shard->state_bytes;
}

static void content(const store_scenario *s, uint32_t row, uint32_t version, char *ret)
{
    orr_random bytes = orr_random_of(s->seed ^ ((uint64_t)version << 32), row);
    const size_t n = record_bytes(&s->shards[shard_of(s, row)]);
    for (size_t i = 0; i < n; i++)
        ret[i] = (char)(i % 16 == 0 ? orr_random_u32(&bytes) : (uint32_t)ret[i - 1] + 3);
}

static orr_row_entry *entry_of(const store_scenario *s, uint32_t row)
{
    const uint32_t shard = shard_of(s, row);
    return &orr_row_file_entries(s->file, shard)[row - s->base[shard]];
}

static orr_row_entry home_of(const store_scenario *s, uint32_t row)
{
    return s->rows[row].resident ? s->rows[row].home : *entry_of(s, row) & ORR_ROW_HOME_MASK;
}

/* Slots of resident rows are their numbers. */
static orr_row_entry slot_home(void *ctx, uint32_t shard, int64_t row, orr_row_entry entry)
{
    const store_scenario *s = ctx;
    const uint32_t slot = (uint32_t)entry;
    if (slot != s->base[shard] + (uint64_t)row)
        abort();
    return s->rows[slot].home;
}

static void set_slot_home(void *ctx, uint32_t shard, int64_t row, orr_row_entry entry,
                          orr_row_entry home)
{
    store_scenario *s = ctx;
    (void)shard;
    (void)row;
    s->rows[(uint32_t)entry].home = home;
}

static void set_resident(store_scenario *s, uint32_t row, bool to)
{
    orr_row_entry *entry = entry_of(s, row);
    store_row *r = &s->rows[row];
    orr_row_file_lock(s->file);
    if (to && !r->resident) {
        r->home = *entry & ORR_ROW_HOME_MASK;
        *entry = ORR_ROW_RESIDENT | row;
    } else if (!to && r->resident) {
        *entry = r->home | (uint64_t)5 << ORR_ROW_FREQUENCY_SHIFT;
    }
    r->resident = to;
    orr_row_file_unlock(s->file);
}

static void pump(store_scenario *s, const orr_block_completion *done, uint32_t n)
{
    orr_error err;
    (void)went_well(s, "pump", orr_row_file_pump(s->file, done, n, &err), &err);
}

/* Gives completions of the file to it. True: the read of `tag` has completed, too. */
static bool reap(store_scenario *s, uint32_t least, uint64_t tag, int *ret_error)
{
    orr_block_completion done[8];
    orr_error err;
    uint32_t n = 0, own = 0;
    bool found = false;
    if (!went_well(s, "reap", s->device->reap(s->device, least, done, 8, &n, &err), &err))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if ((done[i].tag & ORR_ROW_FILE_TAG) != 0) {
            done[own++] = done[i];
        } else if (done[i].tag == tag) {
            *ret_error = done[i].error;
            found = true;
        }
    pump(s, done, own);
    return found;
}

/* The sectors of a home, read. False: they are not to be had. */
static bool read_sectors(store_scenario *s, orr_row_read at)
{
    orr_error err;
    uint32_t n = 0;
    int error = 0;
    const uint64_t tag = 1 + draw(s, 1000);
    const orr_block_request request = {ORR_BLOCK_READ, at.bytes, at.at, s->sectors, tag};
    while (n == 0) {
        if (!went_well(s, "submit", s->device->submit(s->device, &request, 1, &n, &err), &err))
            return false;
        if (n == 0)
            (void)reap(s, 1, 0, &error);
        if (is_over(s))
            return false;
    }
    while (!reap(s, 1, tag, &error))
        if (is_over(s))
            return false;
    if (error != 0 && orr_sim_drive_struck(s->drive) == s->struck)
        wrong(s, "a read failed without a fault: %s", strerror(error));
    return error == 0;
}

/* A row as the file has it: must be the version that was appended last. */
static void check_row(store_scenario *s, uint32_t row)
{
    const uint32_t shard = shard_of(s, row);
    const orr_row_shard *of = &s->shards[shard];
    const int64_t in = row - s->base[shard];
    orr_error err;
    orr_status status;
    orr_row_file_lock(s->file);
    orr_row_entry home = home_of(s, row);
    if ((home == 0) != (s->rows[row].disk == 0))
        wrong(s, "row %u: version %u, and its home is %" PRIx64, row, s->rows[row].disk, home);
    if (home == 0 || is_over(s)) {
        orr_row_file_unlock(s->file);
        return;
    }
    orr_row_read at = orr_row_file_locate(s->file, shard, home);
    if (at.data != NULL) {
        status = orr_row_file_check(s->file, shard, in, home, at.data, s->record,
                                    s->record + of->row_bytes, &err);
        orr_row_file_unlock(s->file);
    } else {
        orr_row_file_unlock(s->file);
        if (!read_sectors(s, at))
            return;
        status = orr_row_file_check(s->file, shard, in, home, s->sectors, s->record,
                                    s->record + of->row_bytes, &err);
    }
    if (status != ORR_OK && home_of(s, row) != home)
        return; /* it has moved on while it was read */
    if (status != ORR_OK) {
        s->n_told++;
        /* A sync that failed may have lost what was written before it: never taken for the row. */
        if (!(s->spoiled || s->failing) || status != ORR_PARSE ||
            strstr(err.text, ": sector ") == NULL)
            wrong(s, "row %u, version %u: %s", row, s->rows[row].disk, err.text);
        return;
    }
    content(s, row, s->rows[row].disk, s->want);
    if (memcmp(s->want, s->record, record_bytes(of)) != 0)
        wrong(s, "row %u: not what version %u was", row, s->rows[row].disk);
}

/* --- what a process does ------------------------------------------------------------------------
 */

static bool commit(store_scenario *s);

static orr_status try_append(store_scenario *s, uint32_t row, uint32_t version, bool now,
                             orr_error *err)
{
    const uint32_t shard = shard_of(s, row);
    orr_row_entry home;
    content(s, row, version, s->record);
    orr_row_file_lock(s->file);
    const orr_status status = orr_row_file_append(
        s->file, shard, row - s->base[shard], s->record,
        s->shards[shard].state_bytes > 0 ? s->record + s->shards[shard].row_bytes : NULL, now,
        &home, err);
    if (status == ORR_OK && s->rows[row].resident)
        s->rows[row].home = home;
    else if (status == ORR_OK)
        *entry_of(s, row) = home;
    if (status == ORR_OK)
        s->rows[row].disk = version;
    orr_row_file_unlock(s->file);
    return status;
}

/* False: the file is full, or the process is over. */
static bool append(store_scenario *s, uint32_t row, uint32_t version, bool now)
{
    for (uint32_t i = 0; !is_over(s) && !s->failing; i++) {
        orr_error err;
        const orr_status status = try_append(s, row, version, now, &err);
        if (status != ORR_LIMIT) {
            say(s, "row %u is version %u%s", row, version, now ? ", now" : "");
            return went_well(s, "append", status, &err);
        }
        orr_row_file_lock(s->file);
        const bool cleaning = orr_row_file_cleaning(s->file);
        orr_row_file_unlock(s->file);
        if (!cleaning && orr_row_file_in_flight(s->file) == 0)
            return false;
        int error;
        if (orr_row_file_in_flight(s->file) > 0)
            (void)reap(s, 1, 0, &error);
        else
            pump(s, NULL, 0);
        if (i > 100000)
            wrong(s, "cleaning does not end");
    }
    return false;
}

static void settle(store_scenario *s, int64_t step)
{
    uint32_t n = 0;
    orr_row_file_lock(s->file);
    orr_row_file_settle(s->file, step);
    orr_row_file_unlock(s->file);
    s->settled = step > s->settled ? step : s->settled;
    say(s, "settled %" PRId64, s->settled);
    while (n + 1 < s->n_commits && s->commits[n].step < s->settled)
        free(s->commits[n++].versions);
    memmove(s->commits, s->commits + n, (s->n_commits - n) * sizeof *s->commits);
    s->n_commits -= n;
}

/* A row goes to the file as it is in memory. Where it is full, a checkpoint must make room. */
static void write_back(store_scenario *s, uint32_t row)
{
    store_row *r = &s->rows[row];
    if (r->is_owed) {
        const bool same = r->owed == r->now;
        if (!append(s, row, r->owed, true))
            goto full;
        r->is_owed = false;
        if (same)
            return;
    }
    if (r->disk == r->now || append(s, row, r->now, false))
        return;
full:
    if (is_over(s) || s->failing)
        return;
    s->n_full++;
    if (r->is_owed) { /* the commit cannot be: the process ends, and the last one stands */
        s->failing = true;
        return;
    }
    /* Rows that cleaning has moved need one more commit for their old places. */
    for (uint32_t i = 0; i < 3 && r->disk != r->now; i++) {
        if (!commit(s))
            return;
        settle(s, s->step);
        if (r->disk != r->now && append(s, row, r->now, false))
            return;
    }
    if (r->disk != r->now && !is_over(s) && !s->failing)
        wrong(s, "full, although all that was committed is settled");
}

static void change(store_scenario *s, uint32_t row)
{
    store_row *r = &s->rows[row];
    if (r->is_owed) { /* the commit has the row as it was */
        if (!append(s, row, r->owed, true))
            return;
        r->is_owed = false;
    }
    r->now = ++s->versions;
}

static void begin(store_scenario *s)
{
    orr_error err;
    const int64_t step = s->step + 1 + (int64_t)draw(s, 3);
    if (s->n_commits == STORE_COMMITS)
        settle(s, s->step);
    orr_row_file_lock(s->file);
    const orr_status status = orr_row_file_begin_commit(s->file, step, &err);
    orr_row_file_unlock(s->file);
    if (!went_well(s, "begin", status, &err))
        return;
    store_commit *c = &s->commits[s->n_commits++];
    *c = (store_commit){step, false, malloc(s->n_rows * sizeof *c->versions)};
    if (c->versions == NULL)
        abort();
    for (uint32_t i = 0; i < s->n_rows; i++) {
        c->versions[i] = s->rows[i].now;
        s->rows[i].is_owed = s->rows[i].disk != s->rows[i].now;
        s->rows[i].owed = s->rows[i].now;
    }
    s->committing = true;
    say(s, "commit %" PRId64 " begins", step);
}

static void ignore(void *ctx, const orr_block_completion *completion)
{
    (void)ctx;
    (void)completion;
}

static void finish(store_scenario *s)
{
    orr_error err;
    orr_status status;
    for (uint32_t i = 0; i < s->n_rows && !is_over(s) && !s->failing; i++)
        if (s->rows[i].is_owed && append(s, i, s->rows[i].owed, true))
            s->rows[i].is_owed = false;
        else if (s->rows[i].is_owed)
            s->failing = true; /* full */
    if (is_over(s) || s->failing)
        return;
    status = orr_row_file_finish_commit(s->file, ignore, s, &err);
    if (status == ORR_LIMIT && s->n_commits > 1) { /* the log is full */
        settle(s, s->step);
        status = orr_row_file_finish_commit(s->file, ignore, s, &err);
    }
    if (!went_well(s, "finish", status, &err))
        return;
    s->committing = false;
    s->commits[s->n_commits - 1].sure = true;
    s->step = s->commits[s->n_commits - 1].step;
    s->n_finished++;
    say(s, "commit %" PRId64 " is done", s->step);
    if (orr_row_file_step(s->file) != s->step)
        wrong(s, "the step is %" PRId64 " after the commit of %" PRId64, orr_row_file_step(s->file),
              s->step);
}

/* All that is needed for a whole one. */
static bool commit(store_scenario *s)
{
    if (!s->committing)
        begin(s);
    if (!is_over(s) && !s->failing)
        finish(s);
    return !is_over(s) && !s->failing;
}

static void plan_faults(store_scenario *s)
{
    static const orr_sim_drive_fault FAULTS[] = {
        ORR_SIM_DRIVE_POWER_LOSS, ORR_SIM_DRIVE_POWER_LOSS, ORR_SIM_DRIVE_KILL,
        ORR_SIM_DRIVE_READ_EIO,   ORR_SIM_DRIVE_READ_SHORT, ORR_SIM_DRIVE_WRITE_EIO,
        ORR_SIM_DRIVE_NO_SPACE,   ORR_SIM_DRIVE_SYNC_EIO,   ORR_SIM_DRIVE_SLOW};
    const uint64_t n = 1 + draw(s, 2);
    for (uint64_t i = 0; i < n; i++) {
        const orr_sim_drive_fault fault = FAULTS[draw(s, sizeof FAULTS / sizeof *FAULTS)];
        const uint64_t span = UINT64_C(1) << (2 + draw(s, 9));
        orr_sim_drive_plan(s->drive, fault, orr_sim_drive_operations(s->drive) + 1 + draw(s, span));
    }
}

/* Rot of the drive: one bit anywhere, or a sector of rows that is as it was some time ago. */
static void spoil(store_scenario *s)
{
    const uint64_t data = s->drive_bytes / 2 / s->sector; /* behind the logs, mostly */
    if (s->stale == NULL || chance(s, 40)) {
        /* Half of the bits are of what the header and the logs have. */
        const uint8_t *has = orr_sim_drive_content(s->drive);
        uint64_t at = draw(s, s->drive_bytes / s->sector);
        if (chance(s, 50))
            for (at /= 2; at > 0 && has[at * s->sector] == 0; at--)
                continue;
        const uint64_t byte =
            orr_sim_drive_flip_any(s->drive, at * s->sector, (at + 1) * s->sector);
        say(s, "a bit of byte %" PRIu64 " flips", byte);
    } else {
        for (uint32_t i = 0; i < 40; i++) {
            const uint64_t at = (data + draw(s, s->drive_bytes / s->sector - data)) * s->sector;
            memcpy(orr_sim_drive_content(s->drive) + at, s->stale + at, s->sector);
            memcpy(orr_sim_drive_durable(s->drive) + at, s->stale + at, s->sector);
        }
        say(s, "sectors are as they were");
    }
    s->spoiled = true;
}

static void act(store_scenario *s)
{
    const uint32_t row =
        (uint32_t)(chance(s, 50) ? draw(s, s->n_rows) : draw(s, s->n_rows / 8 + 1));
    const uint64_t what = draw(s, 1000);
    int error;
    if (what < 300) {
        for (uint64_t n = 1 + draw(s, 12), i = 0; i < n && !is_over(s) && !s->failing; i++)
            change(s, (uint32_t)((row + i * (1 + what % 3)) % s->n_rows));
    } else if (what < 600) {
        for (uint64_t n = 1 + draw(s, 12), i = 0; i < n && !is_over(s) && !s->failing; i++)
            write_back(s, (uint32_t)((row + i * (1 + what % 3)) % s->n_rows));
    } else if (what < 700) {
        pump(s, NULL, 0);
    } else if (what < 760) {
        (void)reap(s, 0, 0, &error);
    } else if (what < 820) {
        check_row(s, row);
    } else if (what < 880) {
        set_resident(s, row, chance(s, 50));
    } else if (what < 920) {
        if (!s->committing)
            begin(s);
    } else if (what < 960) {
        (void)commit(s);
    } else if (what < 985) {
        if (s->hoards) /* both logs fill up with commits that may still be opened */
            for (uint32_t i = 0; i < 80 && !is_over(s) && !s->failing; i++) {
                change(s, row);
                (void)commit(s);
            }
        else if (s->n_commits > (s->committing ? 1u : 0u))
            settle(s, s->commits[draw(s, s->n_commits - (s->committing ? 1 : 0))].step);
    } else if (chance(s, 40)) { /* a commit of all rows fills the log */
        for (uint32_t i = 0; i < s->n_rows && !is_over(s) && !s->failing; i++)
            change(s, i);
    } else if (s->stale != NULL && chance(s, 20)) {
        memcpy(s->stale, orr_sim_drive_content(s->drive), s->drive_bytes);
    }
}

/* --- processes ----------------------------------------------------------------------------------
 */

static void end_process(store_scenario *s)
{
    if (s->file != NULL)
        s->n_cleaned += orr_row_file_stats_of(s->file).cleaned_rows;
    orr_row_file_close(s->file);
    s->file = NULL;
    s->device = NULL;
}

/* The commit that a process finds: one that it asked for, or the last. A commit that nobody was
 * told of may be there or not. */
static const store_commit *expected(store_scenario *s, int64_t asked)
{
    const int64_t found = orr_row_file_step(s->file);
    for (uint32_t i = s->n_commits; i-- > 0;) {
        const store_commit *c = &s->commits[i];
        if (c->step == found && (asked < 0 || asked == found))
            return c;
        if (asked < 0 && c->sure)
            break;
    }
    wrong(s,
          "opened as of step %" PRId64 ", and %" PRId64 " was the last of %u commits (%" PRId64
          " asked)",
          found, s->step, s->n_commits, asked);
    return NULL;
}

static void take_over(store_scenario *s, const store_commit *from)
{
    const uint32_t at = (uint32_t)(from - s->commits);
    for (uint32_t i = 0; i < s->n_rows; i++)
        s->rows[i] = (store_row){.now = from->versions[i], .disk = from->versions[i]};
    for (uint32_t i = 0; i < s->n_commits; i++)
        if (i != at)
            free(s->commits[i].versions);
    s->commits[0] = *from;
    s->commits[0].sure = true;
    s->n_commits = 1;
    s->step = s->settled = s->commits[0].step;
    s->committing = s->dead = s->failing = false;
}

static bool open_process(store_scenario *s, int64_t asked)
{
    orr_error err;
    s->dead = s->failing = false;
    s->struck = orr_sim_drive_struck(s->drive);
    if (orr_sim_drive_open(s->drive, false, &s->device, &err) != ORR_OK) {
        wrong(s, "the drive does not open: %s", err.text);
        return false;
    }
    const orr_status status =
        orr_row_file_open(s->device, &s->facts, asked, &s->options, &s->file, &err);
    if (status != ORR_OK) {
        say(s, "open %" PRId64 ": %s", asked, err.text);
        s->device->close(s->device);
        s->device = NULL;
        s->file = NULL;
        if (s->spoiled && status == ORR_PARSE && strchr(err.text, '\n') == NULL) {
            s->n_told++;
            return false;
        }
        (void)went_well(s, "open", status, &err);
        return false;
    }
    return true;
}

static void open_again(store_scenario *s)
{
    int64_t asked = -1;
    if (chance(s, 30) && s->n_commits > 0) {
        const store_commit *c = &s->commits[draw(s, s->n_commits)];
        asked = c->sure && c->step >= s->settled ? c->step : -1;
    }
    if (chance(s, 15))
        plan_faults(s);
    for (uint32_t i = 0; !open_process(s, asked); i++) {
        if (s->why[0] != '\0' || s->spoiled)
            return;
        if (i > 40)
            wrong(s, "it does not open");
    }
    say(s, "opened as of step %" PRId64 " (%" PRId64 " asked)", orr_row_file_step(s->file), asked);
    const store_commit *from = expected(s, asked);
    if (from == NULL)
        return;
    take_over(s, from);
    for (uint32_t i = 0; i < s->n_rows && !is_over(s); i++)
        check_row(s, i);
}

static void live(store_scenario *s)
{
    const uint64_t n = 20 + draw(s, 200), rot = chance(s, 10) ? draw(s, n) : n;
    if (chance(s, 80))
        plan_faults(s);
    for (uint64_t i = 0; i < n && !is_over(s) && !s->failing; i++) {
        if (i == rot)
            spoil(s);
        act(s);
        s->operations++;
    }
    /* Who cannot write any more can still read. */
    for (uint32_t i = 0; i < 10 && !is_over(s); i++)
        check_row(s, (uint32_t)draw(s, s->n_rows));
    if (!is_over(s) && chance(s, 70))
        orr_sim_drive_crash(s->drive,
                            chance(s, 60) ? ORR_SIM_DRIVE_POWER_LOSS : ORR_SIM_DRIVE_KILL);
    s->n_crashes++;
    say(s, "the process ends");
    end_process(s);
}

/* --- the beginning ------------------------------------------------------------------------------
 */

static void draw_shards(store_scenario *s)
{
    static const uint32_t ROWS[] = {16, 40, 128, 256, 500, 512, 1000};
    static const uint32_t SECTORS[] = {512, 512, 512, 64, 256, 4096};
    const uint32_t n = 1 + (uint32_t)draw(s, STORE_SHARDS);
    s->sector = SECTORS[draw(s, sizeof SECTORS / sizeof *SECTORS)];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bytes = ROWS[draw(s, sizeof ROWS / sizeof *ROWS)];
        const int64_t rows = 1 + (int64_t)draw(s, chance(s, 30) ? 400 : 60);
        (void)snprintf(s->names[i], sizeof s->names[i], "t%u", i);
        s->shards[i] = (orr_row_shard){.table = s->names[i],
                                       .table_rows = rows,
                                       .rows = rows,
                                       .table_columns = bytes / 4,
                                       .column_end = bytes / 4,
                                       .row_bytes = bytes,
                                       .state_bytes = (uint32_t)draw(s, 3) * 4};
        s->base[i + 1] = s->base[i] + (uint32_t)rows;
    }
    s->n_rows = s->base[n];
    s->facts = (orr_row_file_facts){s->seed, 1, 0, 1, n, s->shards};
    s->options = (orr_row_file_options){.writes = chance(s, 50) ? ORR_ROW_WRITES_EXTENTS
                                                                : ORR_ROW_WRITES_HOLES,
                                        .durable = true,
                                        .home = slot_home,
                                        .set_home = set_slot_home,
                                        .ctx = s};
}

static void *need(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static bool set_up(store_scenario *s)
{
    orr_error err;
    draw_shards(s);
    const double spare = 0.1 + (double)draw(s, 15) / 10;
    if (orr_row_file_bytes(&s->facts, s->sector, spare, &s->drive_bytes, &err) != ORR_OK) {
        wrong(s, "%s", err.text);
        return false;
    }
    const orr_sim_drive_options drive = {.seed = s->seed,
                                         .bytes = s->drive_bytes,
                                         .sector = s->sector,
                                         .depth = 1 + (uint32_t)draw(s, 32),
                                         .in_order = chance(s, 20)};
    s->rows = need(calloc(s->n_rows, sizeof *s->rows));
    s->sectors = need(aligned_alloc(4096, BUFFER));
    s->record = need(malloc(BUFFER));
    s->want = need(malloc(BUFFER));
    s->hoards = chance(s, 10);
    if (chance(s, 30))
        s->stale = need(calloc(1, s->drive_bytes));
    if (orr_sim_drive_new(&drive, &s->drive, &err) != ORR_OK ||
        orr_sim_drive_open(s->drive, false, &s->device, &err) != ORR_OK ||
        orr_row_file_create(s->device, &s->facts, &s->options, &s->file, &err) != ORR_OK) {
        wrong(s, "%s", err.text);
        return false;
    }
    s->step = s->settled = -1;
    s->commits[0] = (store_commit){-1, true, need(calloc(s->n_rows, sizeof(uint32_t)))};
    s->n_commits = 1;
    return true;
}

static void tear_down(store_scenario *s)
{
    for (uint32_t i = 0; i < s->n_commits; i++)
        free(s->commits[i].versions);
    if (s->file != NULL)
        orr_row_file_close(s->file);
    if (s->drive != NULL && orr_sim_drive_changed_writes(s->drive) > 0)
        wrong(s, "memory was changed while it was written");
    orr_sim_drive_free(s->drive);
    free(s->rows);
    free(s->sectors);
    free(s->record);
    free(s->want);
    free(s->stale);
}

bool store_scenario_run(store_scenario *s, uint64_t seed, bool trace)
{
    memset(s, 0, sizeof *s);
    s->seed = seed;
    s->trace = trace;
    s->random = orr_random_of(seed, 18);
    orr_row_drawn = seed;
    if (set_up(s))
        for (uint32_t i = 0; i < LIVES && s->why[0] == '\0'; i++) {
            live(s);
            if (s->why[0] == '\0')
                open_again(s);
            if (s->file == NULL)
                break;
        }
    tear_down(s);
    return s->why[0] == '\0';
}
