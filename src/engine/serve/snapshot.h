/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_SNAPSHOT_H
#define ORR_ENGINE_SERVE_SNAPSHOT_H

#include "engine/serve/mapped_tables.h"
#include "io/stream/output.h"

/* Serves exported tables from storage: they are packed into a snapshot, FOLDER/tables.rows, when
 * there is none of these rows yet; later it is opened again, with what was updated since. */
typedef struct orr_serve_snapshot {
    orr_row_server *server;
    bool packed, replaced; /* now; in place of one of other rows */
    bool next;             /* the server has it prepared, and is to show it */
    uint64_t packed_bytes; /* of rows */
} orr_serve_snapshot;
/* `tables`, n of them: read where rows are to be packed. `serving`: of this process, has other rows
 * open there: new ones are packed, and it is to go on with them; NULL: none has. Errors: IO; PARSE:
 * a damaged snapshot; those of reading tables. */
orr_status orr_serve_snapshot_open(const char *folder, orr_mapped_tables *tables, uint32_t n,
                                   const orr_row_server_options *options, orr_row_server *serving,
                                   orr_serve_snapshot *ret, orr_error *err) ORR_MUST_CHECK;

/* Hit rates by table and tier, and reads, as Prometheus' text. */
void orr_serve_snapshot_metrics(const orr_row_server *server, const orr_embedding *tables,
                                uint32_t n, orr_output *out);
/* Bytes written in all; where it is known what the drive takes (0: not), the share of that. */
void orr_serve_written_metrics(uint64_t bytes, double bytes_per_day, double endurance_bytes_per_day,
                               orr_output *out);

#endif /* ORR_ENGINE_SERVE_SNAPSHOT_H */
