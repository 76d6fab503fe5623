/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_FILE_ROW_FILE_H
#define ORR_STORE_FILE_ROW_FILE_H

#include <orrery/arena.h>

#include "io/block/device.h"

/* Rows of embedding tables on a block device, by number, and commits of them: after a crash at any
 * point the rows are those of the last step that was committed, to the bit.
 *
 *   header   one sector run, written once: what the file is of
 *   logs     two regions that take turns: a snapshot of the map, then a record for each commit with
 *            the rows that moved; a commit is one record, valid by its hash
 *   extents  of EXTENT bytes each, of records of one size; in each sector records, then a hash
 *
 * Rows are never overwritten where the last commit has them: a row that is written goes to another
 * place, and its old place is free once a commit that does not need it has been settled. Places are
 * given either by whole extents, which are written in sequence and cleaned (live rows move on) when
 * they are mostly empty, or by single free sectors, written where they are (`orr_row_writes`).
 *
 * A record is the row's number (8 bytes), then row and optimizer state; it crosses no sector
 * boundary that it need not cross. The hash of a sector (XXH3, 64 bits) is seeded with the file's
 * number, the sector's, and the generation that the map has of it, so that a sector that was lost,
 * misplaced or written long ago is found like a flipped bit.
 *
 * Memory: 8 bytes a row (orr_row_entry) and a byte a sector. Threads: `lock` is held by callers of
 * everything that says so; device requests are made by one thread (pump). */
typedef struct orr_row_file orr_row_file;

/* What the map has of a row: its home on disk, or, while it is in the row cache, its slot.
 *
 *   not resident: bits 0..42 place (sector of the data region << 7 | record in the sector) + 1, 0:
 *                 never written, the row has its initial value; 43..54 generation; 55..62 frequency
 *   resident:     bits 0..31 slot; 32..62 batch that last asked for it; bit 63 set
 *
 * Entries are read by any thread (relaxed atomics), written under the lock. */
typedef uint64_t orr_row_entry;
#define ORR_ROW_RESIDENT  (UINT64_C(1) << 63)
#define ORR_ROW_HOME_MASK ((UINT64_C(1) << 55) - 1) /* place and generation */
enum { ORR_ROW_SLOT_BITS = 32, ORR_ROW_FREQUENCY_SHIFT = 55 };

/* A shard of an embedding table. */
typedef struct orr_row_shard {
    const char *table;                   /* its name */
    int64_t table_rows, first_row, rows; /* of the whole table; of the shard */
    uint32_t table_columns, column_begin, column_end;
    uint8_t format, optimizer;       /* orr_row_format, orr_row_optimizer */
    uint32_t row_bytes, state_bytes; /* a record is row, then state */
} orr_row_shard;

typedef struct orr_row_file_facts {
    uint64_t model; /* fingerprint of what the tables are part of */
    uint64_t seed;  /* of initial values */
    uint32_t rank, ranks;
    uint32_t n_shards;
    const orr_row_shard *shards;
} orr_row_file_facts;

typedef enum orr_row_writes { ORR_ROW_WRITES_EXTENTS, ORR_ROW_WRITES_HOLES } orr_row_writes;

typedef struct orr_row_file_options {
    orr_row_writes writes;
    bool durable; /* commits are wanted; else places are free as soon as they are not current */
    /* Of reads and writes, and of reads in flight for cleaning, at most; 0: 256 KiB, 4. Less is
     * gentler to others who read the device meanwhile. */
    uint32_t run_bytes, clean_jobs;
    /* Rows that the cache holds: the home of a resident row, and its change (cleaning). */
    orr_row_entry (*home)(void *ctx, uint32_t shard, int64_t row, orr_row_entry entry);
    void (*set_home)(void *ctx, uint32_t shard, int64_t row, orr_row_entry entry,
                     orr_row_entry home);
    void *ctx;
} orr_row_file_options;

/* Bytes that a file for these shards should have: all rows, `spare_frac` of them once more for rows
 * that have changed since the last settled commit and for cleaning, logs and header. */
orr_status orr_row_file_bytes(const orr_row_file_facts *facts, uint32_t sector, double spare_frac,
                              uint64_t *ret, orr_error *err) ORR_MUST_CHECK;
/* Makes a file; durable when it returns. LIMIT: the device is too small ("needs N GiB"). Takes the
 * device over where it succeeds (create, open). */
orr_status orr_row_file_create(orr_block_device *device, const orr_row_file_facts *facts,
                               const orr_row_file_options *options, orr_row_file **ret,
                               orr_error *err) ORR_MUST_CHECK;
/* Opens it as of a commit: `step`, -1: the last; later ones are undone. PARSE: no such file, or a
 * damaged one (which sector); INVALID: another model, seed, format, sector size, rank, or shards,
 * and which differs; NOT_FOUND: no commit of that step. Facts NULL: any (to read). */
orr_status orr_row_file_open(orr_block_device *device, const orr_row_file_facts *facts,
                             int64_t step, const orr_row_file_options *options, orr_row_file **ret,
                             orr_error *err) ORR_MUST_CHECK;
/* What the file is of, by its header alone: which commits there are is not looked at. The device
 * stays the caller's; the facts are in the arena. PARSE, INVALID as above. */
orr_status orr_row_file_read_facts(orr_block_device *device, orr_arena *arena,
                                   orr_row_file_facts *ret, orr_error *err) ORR_MUST_CHECK;
void orr_row_file_close(orr_row_file *file); /* uncommitted rows are lost; NULL is allowed */
const orr_row_file_facts *orr_row_file_facts_of(const orr_row_file *file);
int64_t orr_row_file_step(const orr_row_file *file); /* of the last commit; -1: none */
orr_row_entry *orr_row_file_entries(orr_row_file *file, uint32_t shard); /* shape (rows) */

/* --- reading: by any device that has the file open ------------------------------------------- */

typedef struct orr_row_read {
    uint64_t at; /* of the device */
    uint32_t bytes;
    const void *data; /* not NULL: the sectors, which are still to be written (under the lock) */
} orr_row_read;
/* Where the sectors of a home are, which is not 0. Lock. */
orr_row_read orr_row_file_locate(const orr_row_file *file, uint32_t shard, orr_row_entry home);
/* The same, `data` NULL: sectors that are still to be written fail the check when they are read.
 * Any thread, no lock. */
orr_row_read orr_row_file_place(const orr_row_file *file, uint32_t shard, orr_row_entry home);
/* Copies a record out of its sectors: the row to `ret_row`, its state to `ret_state` (NULL: not
 * wanted). PARSE: "table t3, row 17: sector N is damaged". A place may have been given to other
 * rows while it was read: who sees this error looks whether the row still has that home, and reads
 * again where it has moved. Any thread, no lock. */
orr_status orr_row_file_check(const orr_row_file *file, uint32_t shard, int64_t row,
                              orr_row_entry home, const void *sectors, void *ret_row,
                              void *ret_state, orr_error *err) ORR_MUST_CHECK;

/* --- writing --------------------------------------------------------------------------------- */

/* Gives a row a new home and keeps a copy of its record until it is written; the caller puts the
 * home where it belongs (entry or slot) before it lets the lock go. `state` may be NULL where there
 * is none. `now`: of the commit that is under way (the row had this record when it began), else of
 * the next one. LIMIT: no place is free; where orr_row_file_cleaning() says so it is worth trying
 * again after orr_row_file_pump(). IO: a write has failed before. Lock. */
orr_status orr_row_file_append(orr_row_file *file, uint32_t shard, int64_t row, const void *weights,
                               const void *state, bool now, orr_row_entry *ret_home,
                               orr_error *err) ORR_MUST_CHECK;
/* Places are being made free. Lock. */
bool orr_row_file_cleaning(const orr_row_file *file);
/* Submits what is to be written and cleans where space is short; `completions`: those of the device
 * whose tags have ORR_ROW_FILE_TAG. Called by the thread of the device; takes the lock itself. */
#define ORR_ROW_FILE_TAG (UINT64_C(1) << 63)
orr_status orr_row_file_pump(orr_row_file *file, const orr_block_completion *completions,
                             uint32_t n, orr_error *err) ORR_MUST_CHECK;
/* Requests of the file that the device has not completed: there is something to reap. By the thread
 * of the device. */
uint32_t orr_row_file_in_flight(const orr_row_file *file);
/* The lock of the file. */
void orr_row_file_lock(orr_row_file *file);
bool orr_row_file_try_lock(orr_row_file *file); /* false: another thread has it */
void orr_row_file_unlock(orr_row_file *file);

/* A commit: rows appended so far belong to `step`. Lock. */
orr_status orr_row_file_begin_commit(orr_row_file *file, int64_t step,
                                     orr_error *err) ORR_MUST_CHECK;
/* Writes what belongs to it, syncs, appends its record and syncs again: durable when it returns.
 * By the thread of the device, all its requests are reaped here (those of others: `others`). IO:
 * the file takes no further commit; the last one stands. */
typedef void orr_row_file_other(void *ctx, const orr_block_completion *completion);
orr_status orr_row_file_finish_commit(orr_row_file *file, orr_row_file_other *others, void *ctx,
                                      orr_error *err) ORR_MUST_CHECK;
/* Commits before `step` are not opened any more: their places become free. Lock. */
void orr_row_file_settle(orr_row_file *file, int64_t step);

typedef struct orr_row_file_stats {
    uint64_t bytes_written, rows_written, cleaned_rows, log_bytes, syncs, commits;
    uint64_t data_bytes, used_bytes; /* of the data region; of rows that are live */
} orr_row_file_stats;
orr_row_file_stats orr_row_file_stats_of(orr_row_file *file); /* takes the lock itself */

#endif /* ORR_STORE_FILE_ROW_FILE_H */
