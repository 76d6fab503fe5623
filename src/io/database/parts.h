/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_DATABASE_PARTS_H
#define ORR_IO_DATABASE_PARTS_H

#include <sqlite3.h>

#include "io/database/database.h"

struct orr_database {
    sqlite3 *sqlite;
    char *path;
    bool only_reads;
    int64_t patience_ns;
    bool (*stop)(void *ctx);
    void *stop_ctx;
};

/* What SQLite's code says, in its words. */
orr_status orr_database_fail(const orr_database *db, int code, orr_error *err);

#endif /* ORR_IO_DATABASE_PARTS_H */
