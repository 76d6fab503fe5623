/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIMULATION_STORE_SCENARIO_H
#define ORR_SIMULATION_STORE_SCENARIO_H

#include "base/philox.h"
#include "store/file/row_file.h"
#include "support/simulated/block_device.h"

/* One run of a row file on a simulated drive, drawn from a seed: shards, rows that change, that are
 * written early or late, commits, settling, reading, and faults of the drive. Beside it a map of
 * what every row should be, in memory, at each commit. A process that has died is followed by
 * another, which opens the file as of the last commit or of an earlier one. */
enum { STORE_SHARDS = 3, STORE_COMMITS = 200 };

typedef struct store_row {
    uint32_t now;  /* version in memory; 0: never changed */
    uint32_t disk; /* version that was appended last */
    uint32_t owed; /* of the commit under way, where `is_owed` */
    bool is_owed, resident;
    orr_row_entry home; /* while it is resident */
} store_row;

typedef struct store_commit {
    int64_t step;
    bool sure;          /* finish said so; else it may be there or not */
    uint32_t *versions; /* shape (rows) */
} store_commit;

typedef struct store_scenario {
    uint64_t seed;
    orr_random random;
    bool trace;
    char why[1024]; /* what is wrong; "": nothing */

    uint32_t sector;
    orr_row_shard shards[STORE_SHARDS];
    char names[STORE_SHARDS][8];
    orr_row_file_facts facts;
    uint32_t base[STORE_SHARDS + 1]; /* first row of each shard */
    orr_row_file_options options;
    orr_sim_drive *drive;
    uint64_t drive_bytes;
    orr_block_device *device;
    orr_row_file *file;

    store_row *rows; /* shape (n_rows) */
    uint32_t n_rows, versions;
    store_commit commits[STORE_COMMITS]; /* that may be opened, by step */
    uint32_t n_commits;
    int64_t step, settled;
    bool committing;
    bool hoards;     /* commits are hardly ever settled */
    bool dead;       /* the drive, or the process */
    bool failing;    /* a write has failed: no more commits */
    bool spoiled;    /* sectors have rotted: they may be told of, not be taken for rows */
    uint64_t struck; /* faults before this process */
    uint8_t *stale;  /* content of the drive some time ago */
    char *sectors, *record, *want;

    uint64_t operations, n_finished, n_crashes, n_full, n_told, n_cleaned; /* what happened */
} store_scenario;

/* False: `why` says what is wrong. */
bool store_scenario_run(store_scenario *s, uint64_t seed, bool trace);

#endif /* ORR_SIMULATION_STORE_SCENARIO_H */
