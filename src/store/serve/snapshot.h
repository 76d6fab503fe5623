/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_SERVE_SNAPSHOT_H
#define ORR_STORE_SERVE_SNAPSHOT_H

#include "kernel/cpu/embedding/row_kernels.h"
#include "kernel/format/row.h"
#include "store/serve/pooled.h"
#include "store/serve/row_server.h"
#include "store/serve/slots.h"

/* One row file that is served, with the caches before it. */
typedef struct orr_served_table {
    const orr_row_shard *shard;
    orr_shared_entry *entries; /* shape (rows) */
    int64_t rows;
    uint32_t columns;
    uint32_t row_bytes, slot_bytes;            /* as stored; as cached, without padding */
    orr_row_format stored_format, slot_format; /* in the file; in slots */
    uint32_t pool;
    uint64_t inverse; /* about 2^64 / rows: for ranges without a division */
    orr_row_tree *tree;
} orr_served_table;

typedef struct orr_row_snapshot {
    uint64_t number; /* of the snapshots of this server: readers know theirs by it */
    char *path;
    uint32_t sector; /* of the file */
    orr_row_file *file;
    orr_block_device *device; /* of the file, which owns it: of the writer */
    const orr_row_file_facts *facts;
    orr_served_table *tables; /* shape (n_tables) */
    uint32_t n_tables, n_pools;
    orr_slot_pool *pools; /* shape (n_pools) */
    orr_entry_tables entries;
    orr_shared_entry **entry_arrays; /* shape (n_tables) */
    orr_pooled_cache pooled;
    bool read_only;
} orr_row_snapshot;

/* `file_options`: callbacks of the writer. Errors as orr_row_server_open(). */
orr_status orr_row_snapshot_open(const char *path, const orr_row_file_facts *facts,
                                 const orr_row_server_options *options,
                                 const orr_row_file_options *file_options, orr_epochs *epochs,
                                 orr_row_snapshot **ret, orr_error *err) ORR_MUST_CHECK;
void orr_row_snapshot_close(orr_row_snapshot *snapshot); /* NULL is allowed */

/* orr_embedding_range_of(), by a product that is the quotient or 1 more. */
static inline int64_t orr_served_range_of(const orr_served_table *t, int64_t row)
{
    const uint64_t rows = (uint64_t)t->rows, end = ((uint64_t)row + 1) * ORR_EMBEDDING_RANGES - 1,
                   range = (uint64_t)((unsigned __int128)end * t->inverse >> 64);
    if (rows == 1)
        return ORR_EMBEDDING_RANGES - 1;
    return (int64_t)(range * rows > end ? range - 1 : range);
}

/* Puts the stored row into the form that slots have. */
static inline void orr_served_decode(const orr_served_table *t, const void *stored, void *ret)
{
    if (t->slot_format == t->stored_format)
        __builtin_memcpy(ret, stored, t->row_bytes);
    else
        orr_row_to_fp32(t->stored_format, stored, t->columns, ret);
}

#endif /* ORR_STORE_SERVE_SNAPSHOT_H */
