/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_DATABASE_DATABASE_H
#define ORR_IO_DATABASE_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/status.h>

/* Database: tables in a file that several processes read and one at a time writes (SQLite, with a
 * write-ahead log beside the file). What was committed stands, whatever kills the process; what was
 * not never was.
 *
 * Errors begin with the path and end with SQLite's own words. IO: a file that cannot be opened,
 * read or written, a full disk, or one that another process writes to (os_errno EBUSY); PARSE: no
 * database, or a damaged one; INVALID: wrong SQL, or a value that a table does not take; CANCELED:
 * who asked to stop; LIMIT, NO_MEMORY. Threads: one at a time for a database and its queries. */
typedef struct orr_database orr_database;

typedef struct orr_database_schema {
    int32_t application; /* PRAGMA application_id: whose files these are          */
    int32_t version;     /* PRAGMA user_version: of the schema, from 1            */
    const char *schema;  /* SQL that makes it in an empty file, in a transaction  */
} orr_database_schema;
/* To be read and written; made where it is not there. PARSE: also a database of another
 * application, which is left as it is; UNSUPPORTED: of a newer version. */
orr_status orr_database_open(const char *path, const orr_database_schema *kind, orr_database **ret,
                             orr_error *err) ORR_MUST_CHECK;
/* Only to be read: any SQLite file, also one on a medium that cannot be written. No query changes
 * anything. */
orr_status orr_database_open_readonly(const char *path, orr_database **ret,
                                      orr_error *err) ORR_MUST_CHECK;
/* The same of a database in memory, which is borrowed until close; errors name ":memory:". */
orr_status orr_database_open_memory(const void *bytes, size_t n, orr_database **ret,
                                    orr_error *err) ORR_MUST_CHECK;
/* Its queries are freed before. NULL is allowed. */
void orr_database_close(orr_database *db);

/* How long to wait for another process that writes; 10 s. */
void orr_database_set_busy_timeout(orr_database *db, int64_t patience_ns);
/* Asked from time to time, also while waiting: true ends what runs with CANCELED. */
void orr_database_set_cancel(orr_database *db, bool (*stop)(void *ctx), void *ctx);

/* Statements that give no rows. */
orr_status orr_database_exec(orr_database *db, const char *sql, orr_error *err) ORR_MUST_CHECK;
/* A transaction that writes. A commit that fails undoes all of it. */
orr_status orr_database_begin(orr_database *db, orr_error *err) ORR_MUST_CHECK;
orr_status orr_database_commit(orr_database *db, orr_error *err) ORR_MUST_CHECK;
void orr_database_roll_back(orr_database *db); /* nothing, where no transaction is open */
int64_t orr_database_last_insert_id(const orr_database *db); /* id of the row inserted last */

/* One statement, ready to run again and again. INVALID: wrong, empty, or more than one. */
typedef struct orr_query orr_query;
orr_status orr_query_new(orr_database *db, const char *sql, orr_query **ret,
                         orr_error *err) ORR_MUST_CHECK;
void orr_query_free(orr_query *query); /* NULL is allowed */

/* Values of its parameters, counted from 1; they stay until they are set anew. Texts are copied. A
 * NAN and a NULL text are NULL. A failure is remembered, and told by the next step. */
void orr_query_bind_int(orr_query *query, int at, int64_t value);
void orr_query_bind_number(orr_query *query, int at, double value);
void orr_query_bind_text(orr_query *query, int at, const char *text);
void orr_query_bind_null(orr_query *query, int at);

/* The next row; *ret_row false: there is none, and the query is as before its first step. After an
 * error too. */
orr_status orr_query_step(orr_query *query, bool *ret_row, orr_error *err) ORR_MUST_CHECK;
/* To its end, and rows do not matter. */
orr_status orr_query_run(orr_query *query, orr_error *err) ORR_MUST_CHECK;
void orr_query_reset(orr_query *query); /* as before the first step; values stay */

/* The row, columns counted from 0. */
typedef enum orr_value_kind {
    ORR_VALUE_NULL,
    ORR_VALUE_INT,
    ORR_VALUE_NUMBER,
    ORR_VALUE_TEXT,
    ORR_VALUE_BYTES
} orr_value_kind;
int orr_query_columns(const orr_query *query); /* 0: a statement without rows */
const char *orr_query_column_name(const orr_query *query, int column); /* NULL: out of memory */
orr_value_kind orr_query_kind(const orr_query *query, int column);
int64_t orr_query_int(const orr_query *query, int column);   /* NULL: 0   */
double orr_query_number(const orr_query *query, int column); /* NULL: NAN */
/* Copied; *ret NULL for NULL. Bytes become x'0a0b', and so does a text with a NUL in it. */
orr_status orr_query_text(const orr_query *query, int column, orr_arena *arena, const char **ret,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_IO_DATABASE_DATABASE_H */
