/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/closest.h"
#include "base/units.h"
#include "cli/command/session.h"
#include "cli/search/sql_table.h"
#include "cli/command/interrupt.h"
#include "report/table/cell.h"

typedef struct sql {
    orr_session session;
    orr_database *db;
    int64_t until_ns; /* of the monotonic clock */
} sql;

/* --- what there is --------------------------------------------------------------------------- */

typedef struct relation {
    const char *name, *kind, *columns;
    double rows; /* NAN: it cannot be counted */
} relation;
static const orr_column RELATION_COLUMNS[] = {
    {"name", ORR_COLUMN_TEXT, offsetof(relation, name)},
    {"kind", ORR_COLUMN_TEXT, offsetof(relation, kind)},
    {"rows", ORR_COLUMN_NUMBER, offsetof(relation, rows)},
    {"columns", ORR_COLUMN_TEXT, offsetof(relation, columns)},
};
typedef orr_array(relation) relation_array;

/* A view of somebody else's file may be broken: then it has no number, and the others are told. */
static orr_status count_rows(sql *q, relation *of)
{
    orr_query *query = NULL;
    bool row = false;
    orr_arena *arena = q->session.arena;
    char *quoted = orr_arena_array(arena, char, 2 * strlen(of->name) + 1), *to = quoted;
    for (const char *c = of->name; quoted != NULL && *c != '\0'; c++) {
        *to++ = *c;
        if (*c == '"')
            *to++ = '"';
    }
    const char *text =
        quoted != NULL ? orr_arena_printf(arena, "SELECT count(*) FROM \"%s\"", quoted) : NULL;
    if (text == NULL)
        return orr_fail_memory(&q->session.err);
    orr_status status = orr_query_new(q->db, text, &query, &q->session.err);
    if (status == ORR_OK)
        status = orr_query_step(query, &row, &q->session.err);
    of->rows = status == ORR_OK && row ? orr_query_number(query, 0) : NAN;
    orr_query_free(query);
    return status == ORR_INVALID ? ORR_OK : status;
}

static orr_status read_relations(sql *q, orr_query *query, relation_array *all)
{
    orr_error *err = &q->session.err;
    for (bool row = true;;) {
        relation next = {0};
        ORR_TRY(orr_query_step(query, &row, err));
        if (!row)
            return ORR_OK;
        ORR_TRY(orr_query_text(query, 0, q->session.arena, &next.name, err));
        ORR_TRY(orr_query_text(query, 1, q->session.arena, &next.kind, err));
        ORR_TRY(orr_query_text(query, 2, q->session.arena, &next.columns, err));
        if (!orr_array_push(all, next))
            return orr_fail_memory(err);
    }
}

static orr_status find_relations(sql *q, relation_array *all)
{
    orr_query *query = NULL;
    ORR_TRY(orr_query_new(q->db,
                          "SELECT s.name, s.type, (SELECT group_concat(c.name, ', ') "
                          "FROM pragma_table_xinfo(s.name) AS c WHERE c.hidden <> 1) "
                          "FROM sqlite_schema AS s WHERE s.type IN ('table', 'view') "
                          "AND s.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY s.type, s.name",
                          &query, &q->session.err));
    const orr_status status = read_relations(q, query, all);
    orr_query_free(query);
    return status;
}

static orr_status relations_table(sql *q, orr_table *ret)
{
    relation_array all = {0};
    relation *rows = NULL;
    orr_status status = find_relations(q, &all);
    for (size_t i = 0; i < all.n && status == ORR_OK; i++)
        status = count_rows(q, &all.at[i]);
    if (status == ORR_OK && (rows = orr_arena_array(q->session.arena, relation, all.n)) == NULL)
        status = orr_fail_memory(&q->session.err);
    if (status == ORR_OK) {
        if (all.n > 0)
            memcpy(rows, all.at, all.n * sizeof *rows);
        *ret = (orr_table){.schema = "orrery.sql_tables/1",
                           .title = "tables and views",
                           .columns = RELATION_COLUMNS,
                           .n_columns = sizeof RELATION_COLUMNS / sizeof *RELATION_COLUMNS,
                           .rows = rows,
                           .row_bytes = sizeof *rows,
                           .n_rows = all.n};
    }
    orr_array_done(&all);
    return status;
}

/* --- a query --------------------------------------------------------------------------------- */

/* Adds to "no such column: tq" what might have been meant. */
static void suggest(sql *q, const char *missing, const char *names_sql)
{
    enum { NAMES_MAX = 512 };
    const char *names[NAMES_MAX];
    orr_error *err = &q->session.err;
    orr_query *query = NULL;
    size_t n = 0;
    if (orr_query_new(q->db, names_sql, &query, NULL) != ORR_OK)
        return;
    for (bool row = true; n < NAMES_MAX;) {
        if (orr_query_step(query, &row, NULL) != ORR_OK || !row ||
            orr_query_text(query, 0, q->session.arena, &names[n], NULL) != ORR_OK)
            break;
        n += names[n] != NULL;
    }
    orr_query_free(query);
    const char *close = orr_closest_match(missing, names, n);
    const size_t len = strlen(err->text);
    if (close != NULL)
        snprintf(err->text + len, sizeof err->text - len, "; did you mean '%s'?", close);
}

static void explain(sql *q)
{
    static const char *const lacks[][2] = {
        {"no such table: ", "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"},
        {"no such column: ", "SELECT DISTINCT c.name FROM sqlite_schema AS s, "
                             "pragma_table_xinfo(s.name) AS c WHERE s.type IN ('table', 'view')"},
    };
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        const char *at = strstr(q->session.err.text, lacks[i][0]);
        if (at != NULL)
            suggest(q, at + strlen(lacks[i][0]), lacks[i][1]);
    }
}

static orr_status query_table(sql *q, const char *text, orr_table *ret)
{
    orr_query *query = NULL;
    orr_error *err = &q->session.err;
    orr_status status = orr_query_new(q->db, text, &query, err);
    if (status == ORR_OK && orr_query_columns(query) == 0)
        status = orr_fail(err, ORR_INVALID, "the query gives no table");
    if (status == ORR_OK)
        status = orr_sql_table(query, q->session.arena, ret, err);
    if (status == ORR_OK)
        ret->title = text;
    orr_query_free(query);
    if (status == ORR_INVALID)
        explain(q);
    return status;
}

/* --- the command ----------------------------------------------------------------------------- */

static orr_status print(sql *q, orr_table *table)
{
    orr_session *session = &q->session;
    orr_table_style style;
    ORR_TRY(orr_session_output(session, &style));
    style.max_rows = 0; /* LIMIT is the query's */
    if (style.format == ORR_TABLE_TEXT)
        table->title = NULL;
    if (style.format == ORR_TABLE_TEXT && table->n_columns > ORR_COLUMNS_MAX)
        return orr_fail(&session->err, ORR_LIMIT,
                        "%zu columns are more than a table for people has: name %d, or ask for "
                        "--format csv",
                        table->n_columns, (int)ORR_COLUMNS_MAX);
    if (style.format == ORR_TABLE_TEXT && table->n_rows == 0)
        orr_output_text(session->out, "(no rows)\n");
    else
        orr_table_write(table, &style, session->out);
    return orr_output_finish(session->out, &session->err);
}

static int fail(sql *q, orr_status status, bool of_query)
{
    const bool stopped = status == ORR_CANCELED && orr_interrupt_requested(NULL);
    if (status == ORR_CANCELED && !stopped)
        (void)orr_fail(&q->session.err, status, "the query took longer than --time-limit %s",
                       q->session.settings->time_limit);
    const bool usage = of_query && (status == ORR_INVALID || status == ORR_LIMIT);
    const int code = stopped ? 128 + orr_interrupt_signal() : usage ? EXIT_USAGE : EXIT_INPUT;
    if (!stopped)
        orr_session_fail(&q->session);
    orr_database_close(q->db);
    orr_session_done(&q->session);
    return code;
}

static bool is_over(void *ctx)
{
    const sql *q = ctx;
    return orr_interrupt_requested(NULL) || orr_clock_now_ns(&orr_clock_monotonic) >= q->until_ns;
}

static orr_status read_limit(sql *q)
{
    const char *limit = q->session.settings->time_limit;
    int64_t for_ns;
    q->until_ns = INT64_MAX;
    if (limit == NULL)
        return ORR_OK;
    if (orr_parse_duration(limit, &for_ns, &q->session.err) != ORR_OK) {
        orr_error_prefix(&q->session.err, "--time-limit");
        return q->session.err.status;
    }
    if (__builtin_add_overflow(orr_clock_now_ns(&orr_clock_monotonic), for_ns, &q->until_ns))
        q->until_ns = INT64_MAX;
    return ORR_OK;
}

int orr_command_sql(const orr_settings *settings)
{
    sql q = {0};
    orr_table table = {0};
    orr_status status = orr_session_init(&q.session, settings);
    orr_interrupt_watch();
    if (status == ORR_OK && (status = read_limit(&q)) != ORR_OK)
        return fail(&q, status, true);
    if (status == ORR_OK)
        status = orr_database_open_readonly(settings->args[0], &q.db, &q.session.err);
    if (status != ORR_OK)
        return fail(&q, status, false);
    orr_database_set_cancel(q.db, is_over, &q);
    status = settings->n_args > 1 ? query_table(&q, settings->args[1], &table)
                                  : relations_table(&q, &table);
    if (status == ORR_OK)
        status = print(&q, &table);
    if (status != ORR_OK)
        return fail(&q, status, settings->n_args > 1);
    orr_database_close(q.db);
    orr_session_done(&q.session);
    return EXIT_DONE;
}
