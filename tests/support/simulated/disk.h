/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SUPPORT_SIMULATED_DISK_H
#define ORR_SUPPORT_SIMULATED_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* A simulated disk: one record, replaced as a whole, which outlives the host that wrote it.
 * Faults: the host dies during a save, and then either the new record or the old one is there;
 * the disk is lost with its record; the record is unreadable. A plain struct:
 * orr_sim_disk_done() frees its memory. */
typedef struct orr_sim_disk {
    uint8_t *record;
    size_t bytes;
    uint64_t version;
    bool holds, unreadable;
    uint64_t saves;           /* durable saves */
    uint64_t crash_save;      /* the host dies during this save, counted from now; 0: never */
    bool crash_kept;          /* and the new record is there afterwards */
    void (*crash)(void *ctx); /* called during that save: kill the host here */
    void *ctx;
} orr_sim_disk;

void orr_sim_disk_done(orr_sim_disk *disk);
/* NOT_FOUND: there is no record. PARSE: it is unreadable. LIMIT: longer than `room`. */
orr_status orr_sim_disk_load(const orr_sim_disk *disk, uint64_t *ret_version, void *ret,
                             size_t room, size_t *ret_bytes, orr_error *err) ORR_MUST_CHECK;
/* Durable when it returns. IO: the host died during the save. NO_MEMORY. */
orr_status orr_sim_disk_save(orr_sim_disk *disk, uint64_t version, const void *record, size_t bytes,
                             orr_error *err) ORR_MUST_CHECK;
void orr_sim_disk_wipe(orr_sim_disk *disk);  /* amnesia: an empty disk replaces it */
void orr_sim_disk_spoil(orr_sim_disk *disk); /* unreadable until the next save */

#endif /* ORR_SUPPORT_SIMULATED_DISK_H */
