/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/nsight/tables.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const column_names[] = {
#define COLUMN_NAME(name, text) text,
    NSIGHT_COLUMNS(COLUMN_NAME)
#undef COLUMN_NAME
};

/* Of a kernel or range; longer ones are cut. A file may compute its texts, so that no size of it
 * bounds them. */
enum { MOST_NAME_BYTES = 65536, SQL_ROOM = 2048, MOST_NAMES = 4 };

/* What a table has of what is asked for. */
typedef struct found {
    uint32_t columns;
    uint32_t names;
    bool any;
} found;

static void note_column(found *f, const char *column, const char *const *names)
{
    f->any = true;
    for (unsigned c = 0; c < NSIGHT_N_COLUMNS; c++)
        if (strcasecmp(column, column_names[c]) == 0)
            f->columns |= 1u << c;
    for (unsigned i = 0; names[i] != NULL && i < MOST_NAMES; i++)
        if (strcasecmp(column, names[i][0] == '|' ? names[i] + 1 : names[i]) == 0)
            f->names |= 1u << i;
}

/* Tables have a root page; views and virtual tables, whose rows a file may make up, have none. */
static orr_status is_table(orr_database *db, const char *table, bool *ret, orr_error *err)
{
    orr_query *query;
    ORR_TRY(orr_query_new(
        db, "SELECT 1 FROM sqlite_schema WHERE name = ?1 AND type = 'table' AND rootpage > 0",
        &query, err));
    orr_query_bind_text(query, 1, table);
    const orr_status status = orr_query_step(query, ret, err);
    orr_query_free(query);
    return status;
}

static orr_status find_columns(orr_database *db, const char *table, const char *const *names,
                               orr_arena *arena, found *ret, orr_error *err)
{
    enum { NAME_COLUMN = 1 };
    char sql[128];
    orr_query *query;
    bool row = false;
    ORR_TRY(is_table(db, table, &row, err));
    if (!row)
        return ORR_OK;
    (void)snprintf(sql, sizeof sql, "PRAGMA table_info(%s)", table);
    ORR_TRY(orr_query_new(db, sql, &query, err));
    orr_status status;
    for (;;) {
        const char *name = NULL;
        ORR_TRY_OUT(status, orr_query_step(query, &row, err));
        if (!row)
            break;
        ORR_TRY_OUT(status, orr_query_text(query, NAME_COLUMN, arena, &name, err));
        if (name != NULL)
            note_column(ret, name, names);
    }
out:
    orr_query_free(query);
    return status;
}

/* SELECT, with NULL in the place of a column that the table lacks. */
static void make_sql(const found *f, const char *table, const char *const *names, bool strings,
                     char sql[SQL_ROOM])
{
    size_t n = (size_t)snprintf(sql, SQL_ROOM, "SELECT ");
    int joins = 0;
    for (unsigned c = 0; c < NSIGHT_N_COLUMNS; c++)
        n += (size_t)((f->columns >> c & 1) != 0
                          ? snprintf(sql + n, SQL_ROOM - n, "t.\"%s\", ", column_names[c])
                          : snprintf(sql + n, SQL_ROOM - n, "NULL, "));
    n += (size_t)snprintf(sql + n, SQL_ROOM - n, "substr(coalesce(NULL, NULL");
    for (unsigned i = 0; names[i] != NULL && i < MOST_NAMES; i++) {
        if ((f->names >> i & 1) == 0)
            continue;
        if (names[i][0] == '|')
            n += (size_t)snprintf(sql + n, SQL_ROOM - n, ", t.\"%s\"", names[i] + 1);
        else if (strings)
            n += (size_t)snprintf(sql + n, SQL_ROOM - n, ", s%d.value", joins++);
    }
    n += (size_t)snprintf(sql + n, SQL_ROOM - n, "), 1, %d) FROM \"%s\" t", (int)MOST_NAME_BYTES,
                          table);
    joins = 0;
    for (unsigned i = 0; strings && names[i] != NULL && i < MOST_NAMES; i++)
        if ((f->names >> i & 1) != 0 && names[i][0] != '|') {
            n += (size_t)snprintf(sql + n, SQL_ROOM - n,
                                  " LEFT JOIN StringIds s%d ON s%d.id = t.\"%s\"", joins, joins,
                                  names[i]);
            joins++;
        }
}

static orr_status take_rows(orr_query *query, orr_arena *arena, nsight_take take, void *ctx,
                            orr_error *err)
{
    bool is_row = false;
    for (;;) {
        nsight_row row = {.has = 0};
        const orr_arena_mark mark = orr_arena_get_mark(arena);
        ORR_TRY(orr_query_step(query, &is_row, err));
        if (!is_row)
            return ORR_OK;
        for (int c = 0; c < NSIGHT_N_COLUMNS; c++)
            if (orr_query_kind(query, c) == ORR_VALUE_INT) {
                row.value[c] = orr_query_int(query, c);
                row.has |= 1u << c;
            }
        ORR_TRY(orr_query_text(query, NSIGHT_N_COLUMNS, arena, &row.name, err));
        ORR_TRY(take(ctx, &row, err));
        orr_arena_rewind(arena, mark);
    }
}

orr_status nsight_each_row(orr_database *db, const char *table, const char *const *names,
                           nsight_take take, void *ctx, orr_error *err)
{
    char sql[SQL_ROOM];
    found f = {.any = false};
    orr_query *query = NULL;
    bool strings = false;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, find_columns(db, table, names, arena, &f, err));
    if (!f.any)
        goto out;
    ORR_TRY_OUT(status, is_table(db, "StringIds", &strings, err));
    make_sql(&f, table, names, strings, sql);
    ORR_TRY_OUT(status, orr_query_new(db, sql, &query, err));
    status = take_rows(query, arena, take, ctx, err);
out:
    orr_query_free(query);
    orr_arena_free(arena);
    return status;
}
