/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_SERVE_ROW_SERVER_H
#define ORR_STORE_SERVE_ROW_SERVER_H

#include "base/clock.h"
#include "store/file/row_file.h"

/* Rows of embedding tables for readers that do not wait for each other: what serving reaches rows
 * through. Rows stand in a snapshot: a row file (store/file) that was packed from exported tables,
 * read with one sector run a miss; a row cache and a cache of pooled embeddings before it. Rows may
 * be updated and whole snapshots exchanged while readers read: a reader sees a row as it was before
 * an update or after it, never half of it; there is no lock that all readers take.
 *
 * Threads: any number of readers, each with an orr_row_reader of its own, up to 255; one writer,
 * always the same thread between open and close: update, sync, swap, record and warm. */
typedef struct orr_row_server orr_row_server;

typedef struct orr_row_server_options {
    uint64_t cache_bytes;    /* of rows */
    uint64_t pooled_bytes;   /* of pooled embeddings; 0: none */
    bool dequantize_on_load; /* the cache has fp32 rows; else rows as they are stored */
    double table_iops;       /* of one table, a second; 0: not limited */
    double device_iops;      /* of all */
    uint32_t depth;          /* reads in flight of a reader */
    bool plain;              /* no io_uring */
    bool read_only;          /* the file is not locked, so that others may serve it; no updates */
    const orr_clock *clock;  /* of the caps; NULL: orr_clock_monotonic */
} orr_row_server_options;

/* Packs rows into a row file at `path`, which is replaced when all is written. Shards of `facts`:
 * one for each table, whole, without optimizer state (INVALID). */
typedef orr_status orr_row_source(void *ctx, uint32_t table, int64_t row, int64_t n, void *ret_rows,
                                  orr_error *err); /* n rows as the format has them */
orr_status orr_row_snapshot_pack(const char *path, const orr_row_file_facts *facts,
                                 orr_row_source *rows, void *ctx, orr_error *err) ORR_MUST_CHECK;

/* Errors: those of orr_block_device_open() and orr_row_file_open(). `facts` NULL: any tables. */
orr_status orr_row_server_open(const char *path, const orr_row_file_facts *facts,
                               const orr_row_server_options *options, orr_row_server **ret,
                               orr_error *err) ORR_MUST_CHECK;
void orr_row_server_close(orr_row_server *server); /* after its readers; NULL is allowed */
/* The tables, as shards. Good until a swap. */
const orr_row_file_facts *orr_row_server_facts(const orr_row_server *server);

typedef struct orr_row_reader orr_row_reader;
orr_status orr_row_reader_open(orr_row_server *server, orr_row_reader **ret,
                               orr_error *err) ORR_MUST_CHECK;
void orr_row_reader_close(orr_row_reader *reader);

/* Lookups of some samples in one table. */
typedef struct orr_row_bags {
    uint32_t table;
    int64_t samples;
    const int32_t *lengths; /* shape (samples) */
    const int64_t *ids;     /* by sample */
    float *ret;             /* of sample s: ret + s * ret_stride; the table's columns */
    int64_t ret_stride;
} orr_row_bags;
/* Pooled embeddings of n tables, in the order of sums that training has
 * (include/orrery/embedding.h): the same bits with any cache. INVALID: "table t3, sample 17: id 12
 * of 10 rows". IO, PARSE: a row that cannot be read. */
orr_status orr_row_reader_bags(orr_row_reader *reader, const orr_row_bags *bags, uint32_t n,
                               orr_error *err) ORR_MUST_CHECK;

/* The writer: new numbers of rows, in the table's format. Durable after sync. */
orr_status orr_row_server_update(orr_row_server *server, uint32_t table, const int64_t *rows,
                                 int64_t n, const void *records, orr_error *err) ORR_MUST_CHECK;
orr_status orr_row_server_sync(orr_row_server *server, orr_error *err) ORR_MUST_CHECK;
/* Readers go on in the snapshot of `path`; the old one is closed when its last reader has left. */
orr_status orr_row_server_swap(orr_row_server *server, const char *path,
                               orr_error *err) ORR_MUST_CHECK;
/* The same in two steps, for who exchanges other things at the same moment: prepare() opens the
 * snapshot, in place of one that was prepared before; show() does not fail. Nothing else of the
 * writer's between them. */
orr_status orr_row_server_prepare(orr_row_server *server, const char *path,
                                  orr_error *err) ORR_MUST_CHECK;
void orr_row_server_show(orr_row_server *server);
/* Lookups are recorded to a file; the rows that a recording asked for most often are brought to the
 * cache. */
orr_status orr_row_server_record(orr_row_server *server, const char *path, /* NULL: ends it */
                                 orr_error *err) ORR_MUST_CHECK;
orr_status orr_row_server_warm(orr_row_server *server, const char *path,
                               orr_error *err) ORR_MUST_CHECK;

typedef struct orr_row_server_stats {
    uint64_t lookups, hits, pooled_lookups, pooled_hits, pooled_rows_saved;
    uint64_t reads, read_bytes, in_flight, throttled;
    uint64_t updates, swaps;
    uint64_t bytes_written; /* to the device, cleaning included: against its endurance */
    uint64_t read_ns[64];   /* histogram of reads: [k] took 2^k .. 2^(k+1) - 1 ns */
} orr_row_server_stats;
/* table UINT32_MAX: all. */
orr_row_server_stats orr_row_server_stats_of(const orr_row_server *server, uint32_t table);

#endif /* ORR_STORE_SERVE_ROW_SERVER_H */
