/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_MAPPED_TABLES_H
#define ORR_ENGINE_SERVE_MAPPED_TABLES_H

#include "engine/checkpoint/table_file.h"
#include "store/serve/row_server.h"

/* The embedding tables that training exported to a folder (NAME.table), for who serves them: mapped
 * in memory, or read to be packed into a snapshot. Immutable once open: any number of threads. */
typedef struct orr_mapped_tables orr_mapped_tables;
/* `tables`, shape (n): those of the model; their formats are the files'. INVALID: a file that is
 * not the whole table of the model; others: as orr_table_file_open(). `mapped`: rows are to be
 * looked up here; all their hashes are checked. */
orr_status orr_mapped_tables_open(const char *folder, const orr_embedding *tables, uint32_t n,
                                  bool mapped, orr_mapped_tables **ret,
                                  orr_error *err) ORR_MUST_CHECK;
void orr_mapped_tables_close(orr_mapped_tables *tables); /* NULL is allowed */
/* Shape (n), with the formats of the files. */
const orr_embedding *orr_mapped_tables_of(const orr_mapped_tables *tables);
/* A hash of all rows, as the files have it: equal where the rows are. */
uint64_t orr_mapped_tables_fingerprint(const orr_mapped_tables *tables);

/* Workspace of one thread; {0} before the first use. */
typedef struct orr_lookup_space {
    void *at;
    size_t bytes;
} orr_lookup_space;
void orr_lookup_space_done(orr_lookup_space *space);
/* Ids and lengths of bags. INVALID: "table t3, sample 17: id 12 of 10 rows". */
orr_status orr_check_bags(const orr_embedding *table, const orr_row_bags *bags,
                          orr_error *err) ORR_MUST_CHECK;
/* As orr_row_reader_bags(). */
orr_status orr_mapped_tables_bags(const orr_mapped_tables *tables, const orr_row_bags *bags,
                                  uint32_t n, orr_lookup_space *space,
                                  orr_error *err) ORR_MUST_CHECK;
/* Reads rows of a table, with their hashes (orr_row_source; `ctx`: the tables). From one thread. */
orr_row_source orr_mapped_tables_read;

#endif /* ORR_ENGINE_SERVE_MAPPED_TABLES_H */
