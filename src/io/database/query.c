/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "io/database/parts.h"

struct orr_query {
    orr_database *db;
    sqlite3_stmt *statement;
    int set_failed; /* what setting a value came to, if that was an error */
};

/* Behind the statement: nothing but space, semicolons and comments. */
static orr_status check_tail(orr_database *db, const char *tail, orr_error *err)
{
    while (*tail != '\0') {
        sqlite3_stmt *more = NULL;
        const char *begin = tail;
        const int code = sqlite3_prepare_v3(db->sqlite, begin, -1, 0, &more, &tail);
        const bool is_more = more != NULL || code != SQLITE_OK;
        sqlite3_finalize(more);
        if (code == SQLITE_NOMEM)
            return orr_fail_memory(err);
        if (is_more)
            return orr_fail(err, ORR_INVALID, "%s: one query at a time, and there is more: %.60s",
                            db->path, begin);
        if (tail == begin)
            break;
    }
    return ORR_OK;
}

orr_status orr_query_new(orr_database *db, const char *sql, orr_query **ret, orr_error *err)
{
    orr_query *query = orr_calloc(1, sizeof *query);
    const char *tail = NULL;
    if (query == NULL)
        return orr_fail_memory(err);
    query->db = db;
    const int code = sqlite3_prepare_v3(db->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                        &query->statement, &tail);
    orr_status status = code != SQLITE_OK ? orr_database_fail(db, code, err)
                        : query->statement == NULL
                            ? orr_fail(err, ORR_INVALID, "%s: the query is empty", db->path)
                            : check_tail(db, tail, err);
    if (status == ORR_OK && db->only_reads && !sqlite3_stmt_readonly(query->statement))
        status = orr_database_fail(db, SQLITE_AUTH, err);
    if (status == ORR_OK)
        *ret = query;
    else
        orr_query_free(query);
    return status;
}

void orr_query_free(orr_query *query)
{
    if (query == NULL)
        return;
    sqlite3_finalize(query->statement);
    orr_free(query);
}

/* --- values that go in ----------------------------------------------------------------------- */

static void note(orr_query *query, int code)
{
    if (code != SQLITE_OK && query->set_failed == SQLITE_OK)
        query->set_failed = code;
}

void orr_query_bind_int(orr_query *query, int at, int64_t value)
{
    note(query, sqlite3_bind_int64(query->statement, at, value));
}

void orr_query_bind_number(orr_query *query, int at, double value)
{
    note(query, sqlite3_bind_double(query->statement, at, value)); /* a NAN is NULL */
}

void orr_query_bind_text(orr_query *query, int at, const char *text)
{
    note(query, sqlite3_bind_text(query->statement, at, text, -1, SQLITE_TRANSIENT));
}

void orr_query_bind_null(orr_query *query, int at)
{
    note(query, sqlite3_bind_null(query->statement, at));
}

/* --- rows that come out ---------------------------------------------------------------------- */

orr_status orr_query_step(orr_query *query, bool *ret_row, orr_error *err)
{
    const int failed = query->set_failed;
    query->set_failed = SQLITE_OK;
    const int code = failed != SQLITE_OK ? failed : sqlite3_step(query->statement);
    if (code == SQLITE_ROW) {
        *ret_row = true;
        return ORR_OK;
    }
    const orr_status status =
        code == SQLITE_DONE ? ORR_OK : orr_database_fail(query->db, code, err);
    sqlite3_reset(query->statement);
    if (status == ORR_OK)
        *ret_row = false;
    return status;
}

orr_status orr_query_run(orr_query *query, orr_error *err)
{
    for (bool row = true; row;)
        ORR_TRY(orr_query_step(query, &row, err));
    return ORR_OK;
}

void orr_query_reset(orr_query *query)
{
    sqlite3_reset(query->statement);
}

int orr_query_columns(const orr_query *query)
{
    return sqlite3_column_count(query->statement);
}

const char *orr_query_column_name(const orr_query *query, int column)
{
    return sqlite3_column_name(query->statement, column);
}

orr_value_kind orr_query_kind(const orr_query *query, int column)
{
    switch (sqlite3_column_type(query->statement, column)) {
    case SQLITE_INTEGER:
        return ORR_VALUE_INT;
    case SQLITE_FLOAT:
        return ORR_VALUE_NUMBER;
    case SQLITE_TEXT:
        return ORR_VALUE_TEXT;
    case SQLITE_BLOB:
        return ORR_VALUE_BYTES;
    default:
        return ORR_VALUE_NULL;
    }
}

int64_t orr_query_int(const orr_query *query, int column)
{
    return sqlite3_column_int64(query->statement, column);
}

double orr_query_number(const orr_query *query, int column)
{
    return orr_query_kind(query, column) == ORR_VALUE_NULL
               ? NAN
               : sqlite3_column_double(query->statement, column);
}

static char *bytes_text(const uint8_t *bytes, size_t n, orr_arena *arena)
{
    static const char hex[] = "0123456789abcdef";
    char *text = orr_arena_array(arena, char, 2 * n + sizeof "x''");
    if (text == NULL)
        return NULL;
    char *to = text;
    *to++ = 'x';
    *to++ = '\'';
    for (size_t i = 0; i < n; i++) {
        *to++ = hex[bytes[i] >> 4];
        *to++ = hex[bytes[i] & 15];
    }
    *to = '\'';
    return text;
}

orr_status orr_query_text(const orr_query *query, int column, orr_arena *arena, const char **ret,
                          orr_error *err)
{
    const orr_value_kind kind = orr_query_kind(query, column);
    if (kind == ORR_VALUE_NULL) {
        *ret = NULL;
        return ORR_OK;
    }
    const void *at = kind == ORR_VALUE_BYTES
                         ? sqlite3_column_blob(query->statement, column)
                         : (const void *)sqlite3_column_text(query->statement, column);
    const size_t n = (size_t)sqlite3_column_bytes(query->statement, column);
    if (at == NULL && (n > 0 || kind != ORR_VALUE_BYTES))
        return orr_fail_memory(err);
    const bool bytes = kind == ORR_VALUE_BYTES || memchr(at, '\0', n) != NULL;
    char *copy = bytes ? bytes_text(at, n, arena) : orr_arena_strndup(arena, at, n);
    if (copy == NULL)
        return orr_fail_memory(err);
    *ret = copy;
    return ORR_OK;
}
