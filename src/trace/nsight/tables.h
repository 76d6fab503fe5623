/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_NSIGHT_TABLES_H
#define ORR_TRACE_NSIGHT_TABLES_H

#include <stdbool.h>

#include <orrery/arena.h>

#include "io/database/database.h"

/* Rows of the tables of an export, whatever columns its version of Nsight Systems has. Names of
 * tables and columns: NVIDIA's "SQLite Schema Reference" (docs.nvidia.com/nsight-systems). */

/* Columns that are asked for, of whatever table has them: all integers. */
#define NSIGHT_COLUMNS(X)                                                                          \
    X(START, "start")                                                                              \
    X(END, "end")                                                                                  \
    X(TID, "globalTid")                                                                            \
    X(PID, "globalPid")                                                                            \
    X(DEVICE, "deviceId")                                                                          \
    X(STREAM, "streamId")                                                                          \
    X(CORRELATION, "correlationId")                                                                \
    X(BYTES, "bytes")                                                                              \
    X(COPY_KIND, "copyKind")                                                                       \
    X(FROM_KIND, "srcKind")                                                                        \
    X(TO_KIND, "dstKind")                                                                          \
    X(MEMORY_KIND, "memKind")                                                                      \
    X(SYNC_TYPE, "syncType")                                                                       \
    X(EVENT, "eventId")                                                                            \
    X(EVENT_TYPE, "eventType")                                                                     \
    X(GRAPH, "graphId")                                                                            \
    X(GRID_X, "gridX")                                                                             \
    X(GRID_Y, "gridY")                                                                             \
    X(GRID_Z, "gridZ")                                                                             \
    X(BLOCK_X, "blockX")                                                                           \
    X(BLOCK_Y, "blockY")                                                                           \
    X(BLOCK_Z, "blockZ")                                                                           \
    X(REGISTERS, "registersPerThread")                                                             \
    X(STATIC_SHARED, "staticSharedMemory")                                                         \
    X(DYNAMIC_SHARED, "dynamicSharedMemory")                                                       \
    X(ID, "id")                                                                                    \
    X(UTC, "utcEpochNs")

typedef enum nsight_column {
#define NSIGHT_COLUMN_ENUM_(name, text) COLUMN_##name,
    NSIGHT_COLUMNS(NSIGHT_COLUMN_ENUM_)
#undef NSIGHT_COLUMN_ENUM_
        NSIGHT_N_COLUMNS
} nsight_column;

typedef struct nsight_row {
    uint32_t has; /* bit c of nsight_column c: it is an integer */
    int64_t value[NSIGHT_N_COLUMNS];
    const char *name; /* NULL: none; until the next row */
} nsight_row;
_Static_assert(NSIGHT_N_COLUMNS <= 32, "one bit each in nsight_row.has");

static inline bool nsight_has(const nsight_row *row, nsight_column c)
{
    return (row->has >> c & 1) != 0;
}
static inline int64_t nsight_value(const nsight_row *row, nsight_column c, int64_t otherwise)
{
    return nsight_has(row, c) ? row->value[c] : otherwise;
}

/* All rows of a table, in the order in which they lie; none if there is no such table (views and
 * virtual tables are none). Name: the text in the first of `names` that the table has ("|" before:
 * a text itself; else an id in StringIds), ending in NULL. Errors: of the database, of `take`. */
typedef orr_status (*nsight_take)(void *ctx, const nsight_row *row, orr_error *err);
orr_status nsight_each_row(orr_database *db, const char *table, const char *const *names,
                           nsight_take take, void *ctx, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_NSIGHT_TABLES_H */
