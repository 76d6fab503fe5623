/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_SERVE_RECORDING_H
#define ORR_STORE_SERVE_RECORDING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <orrery/status.h>

/* Lookups in a file, to warm a cache with. All numbers are little endian:
 *
 *   header  32 bytes: "orrery.lookups\n" with its NUL, tables (4), 0 (4), XXH3 of these bytes (8)
 *   blocks  bytes of its payload (4), its XXH3 (8), the payload: runs of lookups in one table, each
 *           table (LEB128), lookups (LEB128), then rows (LEB128 of the zigzag difference to the one
 *           before; the first to 0)
 *
 * A file may end within a block: what was recorded before counts. */
#define ORR_LOOKUPS_MAGIC "orrery.lookups\n"
enum {
    ORR_LOOKUPS_HEADER = 32,
    ORR_LOOKUPS_BLOCK_HEADER = 12,
    ORR_LOOKUPS_BLOCK = 1 << 16, /* payload of a block, at most */
};

typedef struct orr_recording orr_recording;
orr_status orr_recording_open(const char *path, uint32_t tables, orr_recording **ret,
                              orr_error *err) ORR_MUST_CHECK;
/* After all recorders have been flushed: durable, in place. Frees it in any case. */
orr_status orr_recording_finish(orr_recording *recording, orr_error *err) ORR_MUST_CHECK;

void orr_recording_abandon(orr_recording *recording); /* there will be no file */

/* What one thread records. */
typedef struct orr_recorder {
    uint8_t *block; /* shape (ORR_LOOKUPS_BLOCK); NULL: nothing was recorded yet */
    uint32_t used;
} orr_recorder;
/* Lookups that were checked. No memory: nothing is recorded. */
void orr_recorder_add(orr_recorder *recorder, orr_recording *recording, uint32_t table,
                      const int64_t *rows, int64_t n);
void orr_recorder_flush(orr_recorder *recorder, orr_recording *recording);
void orr_recorder_done(orr_recorder *recorder);

/* Reads a recording, in memory of one block: `rows` is called for each run. PARSE with the byte: no
 * such file, a block with another hash, a table or a row that does not exist (`table_rows`, shape
 * (tables)). A file that ends early: *ret_cut. */
typedef void orr_lookups_run(void *ctx, uint32_t table, const int64_t *rows, int64_t n);
orr_status orr_recording_read(const char *path, uint32_t tables, const int64_t *table_rows,
                              orr_lookups_run *rows, void *ctx, bool *ret_cut,
                              orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_STORE_SERVE_RECORDING_H */
