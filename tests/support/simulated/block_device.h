/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SUPPORT_SIMULATED_BLOCK_DEVICE_H
#define ORR_SUPPORT_SIMULATED_BLOCK_DEVICE_H

#include "io/block/device.h"

/* A simulated drive: a block device that outlives the hosts that use it, with what real ones do at
 * their worst. All that is left to chance is drawn from the seed, so that a run is a function of
 * its seed and of the calls made to it.
 *
 * Writes are visible to reads once they have completed, and durable after a sync that began later.
 * Requests complete in any order, each at a virtual time of its own; what a read finds in a sector
 * that is being written is the old or the new content. Memory of reads is filled with noise until
 * they complete.
 *
 * Power loss: of each sector any version since the last sync is there: the durable one, or one of a
 * write that was submitted, completed or not. So writes are lost, reordered and torn between
 * sectors; a sector itself is never torn. Once in a while all or none of them are kept, or those up
 * to some point. Kill: completed writes stand and can still be lost by a power loss; those in
 * flight are there in part. After either, all calls to the device fail (IO) but close(); opening
 * the drive again is the restart.
 *
 * A sync that fails makes any part of the unsynced writes durable and forgets that the others are
 * not: the next sync succeeds without them, and until the restart they may still be read.
 *
 * Threads: one at a time. */
typedef struct orr_sim_drive orr_sim_drive;

typedef struct orr_sim_drive_options {
    uint64_t seed;
    uint64_t bytes;
    uint32_t sector;    /* 0: 512 */
    uint32_t alignment; /* of memory; 0: the sector. Transfers that are not aligned are refused */
    uint32_t depth;     /* 0: 32 */
    bool in_order;      /* requests complete in the order of their submission */
    int64_t latency_ns; /* of a request: up to twice that; 0: 100 us */
} orr_sim_drive_options;

/* A drive that is all zeros. */
orr_status orr_sim_drive_new(const orr_sim_drive_options *options, orr_sim_drive **ret,
                             orr_error *err) ORR_MUST_CHECK;
void orr_sim_drive_free(orr_sim_drive *drive); /* NULL is allowed; its devices have been closed */
/* A host opens it, after a crash as a restart. LIMIT: a device that writes is open already (one
 * that crashed does not count). */
orr_status orr_sim_drive_open(orr_sim_drive *drive, bool read_only, orr_block_device **ret,
                              orr_error *err) ORR_MUST_CHECK;

typedef enum orr_sim_drive_fault {
    ORR_SIM_DRIVE_POWER_LOSS,
    ORR_SIM_DRIVE_KILL,       /* of the process */
    ORR_SIM_DRIVE_READ_EIO,   /* the memory is noise */
    ORR_SIM_DRIVE_READ_SHORT, /* EIO after some sectors, at least one missing */
    ORR_SIM_DRIVE_WRITE_EIO,  /* any of its sectors may have been written */
    ORR_SIM_DRIVE_NO_SPACE,   /* ENOSPC of a write, which changes nothing */
    ORR_SIM_DRIVE_SYNC_EIO,
    ORR_SIM_DRIVE_SLOW /* a request completes a second later than it would */
} orr_sim_drive_fault;
enum { ORR_SIM_DRIVE_FAULTS = 16 };

/* Operations are counted from 1: each request that is begun, each that completes, each sync.
 * `fault` strikes at that operation, or the next one after it that it can strike: crashes any, SLOW
 * a beginning, errors of requests a completion. At most ORR_SIM_DRIVE_FAULTS at a time. */
void orr_sim_drive_plan(orr_sim_drive *drive, orr_sim_drive_fault fault, uint64_t operation);
uint64_t orr_sim_drive_operations(const orr_sim_drive *drive); /* so far */
bool orr_sim_drive_crashed(const orr_sim_drive *drive);
uint64_t orr_sim_drive_struck(const orr_sim_drive *drive); /* faults so far */
/* All writes fail with ENOSPC from now on, or no longer. */
void orr_sim_drive_set_full(orr_sim_drive *drive, bool full);
/* The drive dies now. */
void orr_sim_drive_crash(orr_sim_drive *drive, orr_sim_drive_fault how);

/* Rot: one bit of the content flips, durable or not, at this byte and bit. */
void orr_sim_drive_flip(orr_sim_drive *drive, uint64_t byte, uint32_t bit);
/* A bit of a random byte of [from, to); gives the byte. */
uint64_t orr_sim_drive_flip_any(orr_sim_drive *drive, uint64_t from, uint64_t to);
/* What is on the medium, all `bytes` of it, for tests that look or that spoil more than bits (they
 * change both): what reads find, and what would be left if all unsynced writes were lost. */
uint8_t *orr_sim_drive_content(orr_sim_drive *drive);
uint8_t *orr_sim_drive_durable(orr_sim_drive *drive);

int64_t orr_sim_drive_now_ns(const orr_sim_drive *drive); /* virtual time */
uint64_t orr_sim_drive_syncs(const orr_sim_drive *drive); /* that succeeded */
/* Writes whose memory changed between submission and completion: a bug of their owner. */
uint64_t orr_sim_drive_changed_writes(const orr_sim_drive *drive);

#endif /* ORR_SUPPORT_SIMULATED_BLOCK_DEVICE_H */
