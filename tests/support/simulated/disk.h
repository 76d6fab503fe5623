/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SUPPORT_SIMULATED_DISK_H
#define ORR_SUPPORT_SIMULATED_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* One record on a simulated disk, replaced whole; it outlives the host that wrote it. What can
 * happen to it: the host dies in the middle of a save, and then the new record is there or the old
 * one; the disk is lost with all that it had; the record turns out to be unreadable. A plain
 * struct: orr_sim_disk_done() frees its memory. */
typedef struct orr_sim_disk {
    uint8_t *record;
    size_t bytes;
    uint64_t version;
    bool holds, unreadable;
    uint64_t saves;           /* that are durable                                          */
    uint64_t crash_save;      /* in this one from now the host dies; 0: never              */
    bool crash_kept;          /* and what it wrote is there afterwards                     */
    void (*crash)(void *ctx); /* called in the middle of it: kill the host here       */
    void *ctx;
} orr_sim_disk;

void orr_sim_disk_done(orr_sim_disk *disk);
/* NOT_FOUND: there is none. PARSE: there is, and it cannot be read. LIMIT: longer than `room`. */
orr_status orr_sim_disk_load(const orr_sim_disk *disk, uint64_t *ret_version, void *ret,
                             size_t room, size_t *ret_bytes, orr_error *err) ORR_MUST_CHECK;
/* Durable when it returns. IO: the host died in the middle. NO_MEMORY. */
orr_status orr_sim_disk_save(orr_sim_disk *disk, uint64_t version, const void *record, size_t bytes,
                             orr_error *err) ORR_MUST_CHECK;
void orr_sim_disk_wipe(orr_sim_disk *disk);  /* amnesia: an empty disk in its place */
void orr_sim_disk_spoil(orr_sim_disk *disk); /* until the next save                 */

#endif /* ORR_SUPPORT_SIMULATED_DISK_H */
