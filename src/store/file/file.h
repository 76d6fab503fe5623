/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_FILE_FILE_H
#define ORR_STORE_FILE_FILE_H

#include <pthread.h>

#include "base/array.h"
#include "store/file/broken.h"
#include "store/file/header.h"

/* The parts of an open row file, for the sources of this folder. All that changes is under the
 * lock, except what "device" stands behind: that is the thread's that makes the requests. */

/* --- places (space.c) ------------------------------------------------------------------------ */

/* Places in use are those of rows as they are now, and those that a commit needs which may still be
 * opened. A group without them that is not being written is free; so is an extent of such groups.
 */
typedef struct orr_row_extent {
    uint32_t live; /* places of rows as they are now */
    uint32_t busy; /* groups that are not free */
    uint16_t open; /* runs that are not written, streams that fill it, a cleaning of it */
    uint16_t shape;
    bool free;
    bool cleaning;
    bool tried;   /* rows were left when it was cleaned, and none has gone since: damaged ones */
    bool damaged; /* has a sector that cannot be read: not cleaned again */
} orr_row_extent;

typedef struct orr_row_space {
    orr_row_extent *extents; /* shape (n) */
    uint64_t n;
    uint8_t *groups;      /* shape (n, groups_room): places in use, and one while it is written */
    uint32_t groups_room; /* of an extent */
    uint32_t *free;       /* shape (n): free extents, n_free of them, taken from the end */
    uint64_t n_free;
    uint64_t n_dying;     /* extents without live rows that are still in use: free after a commit */
    uint64_t changes;     /* counts what can make cleaning worthwhile */
    uint64_t *extents_of; /* shape (n_shapes) */
    uint64_t *quota;      /* shape (n_shapes): extents that it should have, at most */
    uint64_t *free_groups; /* shape (n_shapes): in its extents */
    /* Groups that changed rows have taken since the last commit, and for that one. shape (n_shapes)
     */
    uint64_t *taken, *taken_last;
} orr_row_space;

/* --- runs of sectors that are being filled or written (write.c) ------------------------------- */

typedef enum orr_row_run_state {
    ORR_ROW_RUN_FILLING,
    ORR_ROW_RUN_QUEUED,
    ORR_ROW_RUN_IN_FLIGHT,
    ORR_ROW_RUN_FAILED /* kept, so that its rows can still be read */
} orr_row_run_state;

/* Groups of one extent that lie side by side and are written at once. */
typedef struct orr_row_run orr_row_run;
struct orr_row_run {
    orr_row_run *chain, *next; /* in a bucket; in the queue */
    uint64_t sector;           /* of the data region */
    uint32_t extent, group;    /* the first */
    uint32_t groups, records;
    uint32_t generation;
    uint16_t shape;
    orr_row_run_state state;
    char *data; /* aligned for the device, run_bytes */
};

/* Where records of one size go: those that were changed, and those that cleaning moves, which are
 * colder and die later. */
enum { ORR_ROW_STREAM_CHANGED, ORR_ROW_STREAM_MOVED, ORR_ROW_STREAMS };
typedef struct orr_row_stream {
    bool open;
    uint32_t extent, group; /* the next group of its extent */
    orr_row_run *run;       /* NULL: none is being filled */
} orr_row_stream;

/* --- commits (commit.c) ----------------------------------------------------------------------- */

typedef orr_array(orr_row_entry) orr_row_homes;
/* Places that the commit of `step` does not need, nor any later one. */
typedef struct orr_row_retired {
    int64_t step;
    orr_row_homes homes;
} orr_row_retired;

/* Homes as of the commit under way, of rows that have moved since it began. Open addressing. */
typedef struct orr_row_undo {
    struct orr_row_undo_slot {
        uint64_t key; /* orr_row_id() + 1; 0: none */
        orr_row_entry home;
    } * at;
    size_t n, room; /* room: a power of two, or 0 */
} orr_row_undo;

/* Where the next record of a commit goes. Device. */
typedef struct orr_row_log {
    uint32_t region;   /* 0 or 1 */
    uint64_t sequence; /* of the region: one more than the other's had */
    uint64_t at;       /* sector of the region where the next mark goes */
    uint64_t number;   /* of the next record of the region */
    int64_t base;      /* step of the region's snapshot */
} orr_row_log;

/* Requests that are waited for. */
typedef struct orr_row_wait {
    _Alignas(8) uint32_t pending; /* tags have the kind in the low bits of the address */
    int error;                    /* the first */
} orr_row_wait;

/* Cleaning: rows of extents, or groups, that are mostly empty are read and appended anew. Device.
 */
enum { ORR_ROW_CLEAN_JOBS = 4 };
typedef struct orr_row_clean_job {
    enum { ORR_ROW_CLEAN_IDLE, ORR_ROW_CLEAN_CHOSEN, ORR_ROW_CLEAN_READING } state;
    orr_row_wait read;
    uint32_t extent, group, n; /* groups that are read */
    char *data;                /* run_bytes */
} orr_row_clean_job;
typedef struct orr_row_clean {
    orr_row_clean_job jobs[ORR_ROW_CLEAN_JOBS];
    bool has_victim;
    uint32_t victim, group; /* the extent, and the next group of it */
    uint64_t next_extent, next_group;
    char *record;       /* the largest */
    uint64_t fruitless; /* looks for a victim since `changes` was as it is */
    uint64_t changes;   /* of the space */
    uint64_t moved;     /* rows, since one was appended by others or a commit was settled */
    uint64_t *pending;  /* shape (n_shapes): groups that the next settled commit makes free */
} orr_row_clean;

struct orr_row_file {
    pthread_mutex_t lock;
    orr_block_device *device;
    orr_arena *arena;
    orr_row_header header;
    orr_row_layout layout;
    orr_row_file_options options;
    orr_row_entry **entries; /* shape (n_shards)(rows) */

    orr_row_space space;
    orr_row_stream (*streams)[ORR_ROW_STREAMS]; /* shape (n_shapes) */
    orr_row_run **buckets;                      /* runs by extent */
    uint32_t n_buckets;                         /* a power of two */
    orr_row_run *queue, **queue_end;            /* to be submitted */
    orr_row_run *spare;                         /* runs that are used again */
    uint32_t run_bytes, generation;
    uint32_t unwritten; /* runs that are queued or in flight */
    uint32_t in_flight; /* requests. Device */

    orr_row_clean clean;

    /* Rows that were appended since the last commit began, and rows of the commit under way: a bit
     * each. NULL: no commits. */
    uint64_t **next, **now;
    uint64_t n_next, n_now;
    bool committing;
    int64_t committing_step, step, settled;
    orr_row_undo undo;
    orr_row_homes retired_next, retired_now;
    orr_array(orr_row_retired) retired; /* by step */
    orr_row_log log;
    char *log_buffer; /* aligned for the device, ORR_ROW_LOG_BUFFER. Device */
    /* Not durable: whether the logs have been made void. Device. */
    enum { ORR_ROW_VOID_NOT, ORR_ROW_VOID_WRITING, ORR_ROW_VOID_DONE } voiding;
    orr_row_wait void_wait;
    uint32_t void_left;

    bool failed; /* a write or a sync has: no more of either */
    char why[256];
    orr_row_file_stats stats;
};
enum { ORR_ROW_LOG_BUFFER = 1 << 20, ORR_ROW_RUN_BYTES = 1 << 18 };

/* space.c */
orr_status orr_row_space_init(orr_row_file *file, orr_error *err) ORR_MUST_CHECK;
void orr_row_space_done(orr_row_file *file);
/* PARSE, for recovery: no place of this shape, or one that is another's. */
orr_status orr_row_place_check(const orr_row_file *file, uint32_t shape, orr_row_entry home,
                               orr_error *err) ORR_MUST_CHECK;
void orr_row_place_use(orr_row_file *file, uint32_t shape, orr_row_entry home);
void orr_row_place_bury(orr_row_file *file, orr_row_entry home);    /* it is not live any more */
void orr_row_place_release(orr_row_file *file, orr_row_entry home); /* nor in use */
/* After recovery: extents without places in use are free. */
void orr_row_space_free_all(orr_row_file *file);
/* Free groups of an extent that lie side by side, `most` of them at most: they are not free any
 * more until orr_row_space_unpin(). 0: none is. */
uint32_t orr_row_space_take(orr_row_file *file, uint32_t shape, uint32_t stream, uint32_t most,
                            uint32_t *ret_extent, uint32_t *ret_group);
void orr_row_space_pin(orr_row_file *file, uint32_t extent, uint32_t group, uint32_t n);
uint32_t orr_row_space_groups(const orr_row_file *file, uint32_t shape); /* of an extent */
uint32_t orr_row_space_group(const orr_row_file *file, uint32_t extent, uint32_t group);
enum { ORR_ROW_RESERVE = 1 }; /* extents that only cleaning may take, so that it can move rows */
void orr_row_space_unpin(orr_row_file *file, uint32_t extent, uint32_t group, uint32_t n);
/* Groups from this one on were not needed, after all: they have been unpinned. */
void orr_row_space_rewind(orr_row_file *file, uint32_t shape, uint32_t stream, uint32_t group);
orr_status orr_row_fail_full(const orr_row_file *file, orr_error *err);
void orr_row_extent_open(orr_row_file *file, uint32_t extent);
void orr_row_extent_close(orr_row_file *file, uint32_t extent);

/* write.c */
orr_status orr_row_append(orr_row_file *file, uint32_t shard, int64_t row, const void *weights,
                          const void *state, bool now, uint32_t stream, orr_row_entry *ret_home,
                          orr_error *err) ORR_MUST_CHECK;
void orr_row_runs_flush(orr_row_file *file); /* all that are being filled */
orr_row_run *orr_row_run_find(const orr_row_file *file, uint64_t sector);
void orr_row_run_written(orr_row_file *file, orr_row_run *run, int error);
void orr_row_runs_done(orr_row_file *file);

/* transfer.c. Device. Tags: ORR_ROW_FILE_TAG, the address of what is transferred, and its kind. */
enum { ORR_ROW_TAG_RUN, ORR_ROW_TAG_WAIT, ORR_ROW_TAG_KINDS = 8 };
orr_status orr_row_fail_poisoned(const orr_row_file *file, orr_error *err);
void orr_row_poison(orr_row_file *file, const char *what, int error);
orr_status orr_row_fail_write(orr_row_file *file, int error, orr_error *err); /* of the log */
uint64_t orr_row_tag(const void *of, uint32_t kind);
void orr_row_complete(orr_row_file *file, const orr_block_completion *completion);
/* Submits queued runs, as many as the device takes. */
orr_status orr_row_submit_runs(orr_row_file *file, orr_error *err) ORR_MUST_CHECK;
/* Waits for one completion at least. */
typedef struct orr_row_others {
    orr_row_file_other *call;
    void *ctx;
} orr_row_others;
orr_status orr_row_reap(orr_row_file *file, orr_row_others others, orr_error *err) ORR_MUST_CHECK;
/* Sectors at sector `at` of the device, and waits for them. */
orr_status orr_row_transfer(orr_row_file *file, orr_block_operation operation, uint64_t at,
                            uint64_t sectors, void *data, orr_row_others others,
                            orr_error *err) ORR_MUST_CHECK;
orr_status orr_row_sync(orr_row_file *file, orr_error *err) ORR_MUST_CHECK;
void *orr_row_aligned(const orr_row_file *file, size_t bytes); /* orr_row_aligned_free() */
void orr_row_aligned_free(void *data);

/* clean.c. Device. */
orr_status orr_row_clean_step(orr_row_file *file, orr_error *err) ORR_MUST_CHECK;
void orr_row_clean_done(orr_row_file *file);

/* commit.c */
orr_row_entry orr_row_home_now(const orr_row_file *file, uint32_t shard, int64_t row);
bool orr_row_undo_reserve(orr_row_undo *undo); /* one more */
void orr_row_undo_set(orr_row_undo *undo, uint64_t id, orr_row_entry home);
orr_row_entry orr_row_home_committing(const orr_row_file *file, uint32_t shard, int64_t row);
bool orr_row_bit(uint64_t *const *bits, uint32_t shard, int64_t row);
void orr_row_set_bit(uint64_t **bits, uint32_t shard, int64_t row, bool to);

/* log.c. Device. */
orr_status orr_row_log_create(orr_row_file *file, orr_error *err) ORR_MUST_CHECK;
/* The commit under way becomes durable; its rows have been written, not synced. */
orr_status orr_row_log_commit(orr_row_file *file, orr_row_others others,
                              orr_error *err) ORR_MUST_CHECK;
/* Goes on to make the log void, where there is anything to write; *ret_done: it is. */
orr_status orr_row_log_void(orr_row_file *file, bool *ret_done, orr_error *err) ORR_MUST_CHECK;

/* recover.c: entries, `log`, `step` and `settled` as of a commit. Later ones are undone where the
 * file is durable. */
orr_status orr_row_log_recover(orr_row_file *file, int64_t step, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_STORE_FILE_FILE_H */
