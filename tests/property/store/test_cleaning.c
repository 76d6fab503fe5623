/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../support/seeds.h"
#include "store/file/row_file.h"
#include "support/simulated/block_device.h"

/* Cleaning ends: between two things that are done to a row file it moves no more rows than there
 * are (and those that it was reading by then), and stops after a number of requests that follows
 * from the size of the file, whatever records of several sizes have left in it. Files are small and
 * much too full, so that an append often finds no place. */
enum { SHARDS = 4, DEPTH = 16, ACTIONS = 60 };

typedef struct cleaned_file {
    uint64_t seed;
    orr_random random;
    orr_row_shard shards[SHARDS];
    orr_row_file_facts facts;
    orr_row_file_options options;
    orr_sim_drive *drive;
    orr_block_device *device;
    orr_row_file *file;
    uint64_t groups; /* sectors of the drive: no fewer than there are groups */
    uint64_t rows;
    int64_t step;
    bool full;
} cleaned_file;

static uint64_t below(cleaned_file *c, uint64_t bound)
{
    return orr_random_below(&c->random, bound);
}

static void must(const cleaned_file *c, orr_status status, const orr_error *err)
{
    if (status != ORR_OK)
        seed_fail(c->seed, "%s", err->text);
}

static void begin(cleaned_file *c, uint64_t seed)
{
    static const char *const NAMES[SHARDS] = {"a", "b", "c", "d"};
    static const double SPARE[] = {0, 0.1, 0.3, 1};
    orr_error err;
    *c = (cleaned_file){.seed = seed, .random = orr_random_of(seed, 5)};
    c->facts = (orr_row_file_facts){.model = 1, .seed = 1, .ranks = 1, .shards = c->shards};
    c->facts.n_shards = 1 + (uint32_t)below(c, SHARDS);
    for (uint32_t i = 0; i < c->facts.n_shards; i++) {
        const int64_t rows = 1 + (int64_t)below(c, 2000);
        const uint32_t columns = 1 + (uint32_t)below(c, below(c, 3) == 0 ? 400 : 60);
        c->shards[i] =
            (orr_row_shard){NAMES[i], rows, 0, rows, columns, 0, columns, 0, 0, columns * 4, 0};
        c->rows += (uint64_t)rows;
    }
    c->options =
        (orr_row_file_options){.writes = (orr_row_writes)below(c, 2), .durable = below(c, 2) == 0};
    orr_sim_drive_options drive = {.seed = seed, .sector = 512, .depth = DEPTH};
    must(c, orr_row_file_bytes(&c->facts, 512, SPARE[below(c, 4)], &drive.bytes, &err), &err);
    c->groups = drive.bytes / 512;
    must(c, orr_sim_drive_new(&drive, &c->drive, &err), &err);
    must(c, orr_sim_drive_open(c->drive, false, &c->device, &err), &err);
    must(c, orr_row_file_create(c->device, &c->facts, &c->options, &c->file, &err), &err);
}

static void turn(cleaned_file *c)
{
    orr_block_completion done[DEPTH];
    orr_error err;
    uint32_t n = 0;
    if (orr_row_file_in_flight(c->file) > 0)
        must(c, c->device->reap(c->device, 1, done, DEPTH, &n, &err), &err);
    must(c, orr_row_file_pump(c->file, done, n, &err), &err);
}

static bool is_cleaning(cleaned_file *c)
{
    orr_row_file_lock(c->file);
    const bool cleaning = orr_row_file_cleaning(c->file);
    orr_row_file_unlock(c->file);
    return cleaning;
}

/* Nothing else is done meanwhile. */
static void clean_to_the_end(cleaned_file *c)
{
    const uint64_t before = orr_row_file_stats_of(c->file).cleaned_rows;
    for (uint64_t turns = 0; is_cleaning(c) || orr_row_file_in_flight(c->file) > 0; turns++) {
        if (turns > 100 + 20 * c->groups)
            seed_fail(c->seed, "cleaning goes on after %llu turns; %llu of %llu rows have moved",
                      (unsigned long long)turns,
                      (unsigned long long)(orr_row_file_stats_of(c->file).cleaned_rows - before),
                      (unsigned long long)c->rows);
        turn(c);
    }
    const uint64_t moved = orr_row_file_stats_of(c->file).cleaned_rows - before;
    if (moved > 2 * c->rows)
        seed_fail(c->seed, "%llu rows have moved, there are %llu", (unsigned long long)moved,
                  (unsigned long long)c->rows);
}

static void append_some(cleaned_file *c)
{
    char record[1600];
    const uint32_t shard = (uint32_t)below(c, c->facts.n_shards);
    const int64_t rows = c->shards[shard].rows;
    const bool all = below(c, 4) == 0;
    const int64_t n = all ? rows : 1 + (int64_t)below(c, (uint64_t)rows);
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = all ? i : (int64_t)below(c, (uint64_t)rows);
        orr_row_entry home;
        orr_error err;
        memset(record, (int)(row * 7 + shard), sizeof record);
        orr_row_file_lock(c->file);
        orr_status status =
            orr_row_file_append(c->file, shard, row, record, NULL, false, &home, &err);
        if (status == ORR_OK)
            orr_row_file_entries(c->file, shard)[row] = home;
        orr_row_file_unlock(c->file);
        if (status == ORR_LIMIT && is_cleaning(c)) {
            clean_to_the_end(c);
            i -= all;
        } else if (status == ORR_LIMIT) {
            c->full = true;
            return;
        } else {
            must(c, status, &err);
        }
        if (below(c, 8) == 0)
            turn(c);
    }
}

static void commit(cleaned_file *c)
{
    orr_error err;
    if (!c->options.durable)
        return;
    orr_row_file_lock(c->file);
    must(c, orr_row_file_begin_commit(c->file, ++c->step, &err), &err);
    orr_row_file_unlock(c->file);
    must(c, orr_row_file_finish_commit(c->file, NULL, NULL, &err), &err);
    orr_row_file_lock(c->file);
    orr_row_file_settle(c->file, c->step);
    orr_row_file_unlock(c->file);
    c->full = false;
}

/* All rows that were written are still what they were. */
static void check(cleaned_file *c)
{
    char record[1600], want[1600];
    orr_error err;
    for (uint32_t i = 0; i < c->facts.n_shards; i++)
        for (int64_t row = 0; row < c->shards[i].rows; row++) {
            const orr_row_entry home = orr_row_file_entries(c->file, i)[row];
            if ((home & ORR_ROW_HOME_MASK) == 0)
                continue;
            orr_row_file_lock(c->file);
            const orr_row_read at = orr_row_file_locate(c->file, i, home);
            const void *sectors =
                at.data != NULL ? at.data : orr_sim_drive_content(c->drive) + at.at;
            must(c, orr_row_file_check(c->file, i, row, home, sectors, record, NULL, &err), &err);
            orr_row_file_unlock(c->file);
            memset(want, (int)(row * 7 + i), sizeof want);
            if (memcmp(record, want, c->shards[i].row_bytes) != 0)
                seed_fail(c->seed, "shard %u, row %lld is another", i, (long long)row);
        }
}

static void test_cleaning_ends(void **state)
{
    (void)state;
    const seed_range range = seeds(50);
    uint64_t moved = 0, full = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        cleaned_file c;
        begin(&c, seed);
        for (int i = 0; i < ACTIONS; i++) {
            append_some(&c);
            full += c.full;
            if (below(&c, 3) == 0 || c.full)
                commit(&c);
            if (below(&c, 3) == 0)
                clean_to_the_end(&c);
        }
        clean_to_the_end(&c);
        check(&c);
        moved += orr_row_file_stats_of(c.file).cleaned_rows;
        orr_row_file_close(c.file);
        orr_sim_drive_free(c.drive);
    }
    if (range.end - range.begin > 1)
        assert_true(moved > 0 && full > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cleaning_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
