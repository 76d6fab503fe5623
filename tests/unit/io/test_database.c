/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/database/database.h"

#include "files.h"
#include "lite_memory.h"

enum { PATH_ROOM = 4096 };
static const orr_database_schema kind = {
    .application = 4711,
    .version = 3,
    .schema = "CREATE TABLE t(i INTEGER, x REAL, s TEXT); CREATE TABLE u(k UNIQUE)"};

static char place[PATH_ROOM], path[PATH_ROOM + 8];

static int make_place(void **state)
{
    const int code = make_folder(state);
    snprintf(place, sizeof place, "%s", (const char *)*state);
    snprintf(path, sizeof path, "%s/a.db", place);
    return code;
}

static orr_database *open_it(void)
{
    orr_database *db = NULL;
    orr_error err = {0};
    if (orr_database_open(path, &kind, &db, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return db;
}

static orr_database *open_to_read(void)
{
    orr_database *db = NULL;
    orr_error err = {0};
    if (orr_database_open_readonly(path, &db, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return db;
}

static void run(orr_database *db, const char *sql)
{
    orr_error err = {0};
    if (orr_database_exec(db, sql, &err) != ORR_OK)
        fail_msg("%s: %s", sql, err.text);
}

static orr_query *ask(orr_database *db, const char *sql)
{
    orr_query *query = NULL;
    orr_error err = {0};
    if (orr_query_new(db, sql, &query, &err) != ORR_OK)
        fail_msg("%s: %s", sql, err.text);
    return query;
}

static int64_t number_of(orr_database *db, const char *sql)
{
    bool row = false;
    orr_query *query = ask(db, sql);
    assert_int_equal(orr_query_step(query, &row, NULL), ORR_OK);
    assert_true(row);
    const int64_t value = orr_query_int(query, 0);
    orr_query_free(query);
    return value;
}

/* --- what works ------------------------------------------------------------------------------ */

static void values_come_back(void **state)
{
    (void)state;
    orr_database *db = open_it();
    orr_arena *arena = orr_arena_new(0, 0);
    orr_query *in = ask(db, "INSERT INTO t VALUES(?, ?, ?)"), *out = NULL;
    static const int64_t ints[] = {0, -1, INT64_MAX, INT64_MIN};
    static const double numbers[] = {0.1, -1e300, INFINITY, 5e-324};
    static const char *const texts[] = {"", "it's", "\xc3\xa9\n\"x\"", "y"};
    for (int i = 0; i < 4; i++) {
        orr_query_bind_int(in, 1, ints[i]);
        orr_query_bind_number(in, 2, numbers[i]);
        orr_query_bind_text(in, 3, texts[i]);
        assert_int_equal(orr_query_run(in, NULL), ORR_OK);
        assert_int_equal(orr_database_last_insert_id(db), i + 1);
    }
    orr_query_bind_null(in, 1);
    orr_query_bind_number(in, 2, NAN);
    orr_query_bind_text(in, 3, NULL);
    assert_int_equal(orr_query_run(in, NULL), ORR_OK);
    orr_query_free(in);
    for (int again = 0; again < 2; again++) {
        out = ask(db, "SELECT i, x, s, 7 AS seven FROM t -- all of them\n ; ");
        assert_int_equal(orr_query_columns(out), 4);
        assert_string_equal(orr_query_column_name(out, 3), "seven");
        for (int i = 0; i < 5; i++) {
            bool row = false;
            const char *text = "?";
            assert_int_equal(orr_query_step(out, &row, NULL), ORR_OK);
            assert_true(row);
            assert_int_equal(orr_query_text(out, 2, arena, &text, NULL), ORR_OK);
            assert_int_equal(orr_query_kind(out, 0), i < 4 ? ORR_VALUE_INT : ORR_VALUE_NULL);
            assert_int_equal(orr_query_kind(out, 1), i < 4 ? ORR_VALUE_NUMBER : ORR_VALUE_NULL);
            assert_int_equal(orr_query_kind(out, 2), i < 4 ? ORR_VALUE_TEXT : ORR_VALUE_NULL);
            if (i < 4) {
                assert_true(orr_query_int(out, 0) == ints[i]);
                assert_true(orr_query_number(out, 1) == numbers[i]);
                assert_string_equal(text, texts[i]);
            } else {
                assert_true(isnan(orr_query_number(out, 1)));
                assert_null(text);
            }
        }
        bool row = true;
        assert_int_equal(orr_query_step(out, &row, NULL), ORR_OK);
        assert_false(row);
        orr_query_free(out);
        if (again == 0) {
            orr_database_close(db);
            db = open_to_read();
        }
    }
    orr_database_close(db);
    orr_arena_free(arena);
}

static void bytes_are_shown(void **state)
{
    (void)state;
    orr_database *db = open_it();
    orr_arena *arena = orr_arena_new(0, 0);
    orr_query *query = ask(db, "SELECT x'00ff1a', x'', 'a' || char(0) || 'b'");
    bool row = false;
    const char *text = NULL;
    assert_int_equal(orr_query_step(query, &row, NULL), ORR_OK);
    assert_int_equal(orr_query_kind(query, 0), ORR_VALUE_BYTES);
    assert_int_equal(orr_query_text(query, 0, arena, &text, NULL), ORR_OK);
    assert_string_equal(text, "x'00ff1a'");
    assert_int_equal(orr_query_text(query, 1, arena, &text, NULL), ORR_OK);
    assert_string_equal(text, "x''");
    assert_int_equal(orr_query_text(query, 2, arena, &text, NULL), ORR_OK);
    assert_string_equal(text, "x'610062'");
    orr_query_free(query);
    orr_database_close(db);
    orr_arena_free(arena);
}

static void transactions(void **state)
{
    (void)state;
    orr_database *db = open_it();
    assert_int_equal(orr_database_begin(db, NULL), ORR_OK);
    run(db, "INSERT INTO t VALUES(1, 1, 'a')");
    orr_database_roll_back(db);
    assert_int_equal(number_of(db, "SELECT count(*) FROM t"), 0);
    assert_int_equal(orr_database_begin(db, NULL), ORR_OK);
    run(db, "INSERT INTO t VALUES(1, 1, 'a')");
    assert_int_equal(orr_database_commit(db, NULL), ORR_OK);
    orr_database_roll_back(db); /* nothing to undo */
    assert_int_equal(number_of(db, "SELECT count(*) FROM t"), 1);
    orr_database_close(db);
}

/* Names that mean something to SQLite are names of files here. */
static void strange_names(void **state)
{
    (void)state;
    static const char *const names[] = {":memory:", "file:x?mode=memory", "a%20b#c?d.db", "-x",
                                        " "};
    char before[PATH_ROOM];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(place), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        orr_database *db = NULL;
        struct stat s;
        assert_int_equal(orr_database_open(names[i], &kind, &db, NULL), ORR_OK);
        run(db, "INSERT INTO t VALUES(1, 1, 'a')");
        orr_database_close(db);
        assert_int_equal(stat(names[i], &s), 0);
        assert_int_equal(orr_database_open_readonly(names[i], &db, NULL), ORR_OK);
        assert_int_equal(number_of(db, "SELECT count(*) FROM t"), 1);
        orr_database_close(db);
    }
    assert_int_equal(chdir(before), 0);
}

static void nothing_is_left_beside_it(void **state)
{
    (void)state;
    char beside[PATH_ROOM + 8];
    static const char *const endings[] = {"-wal", "-shm", "-journal"};
    orr_database *db = open_it();
    run(db, "INSERT INTO t VALUES(1, 1, 'a')");
    orr_database_close(db);
    db = open_to_read();
    assert_int_equal(number_of(db, "SELECT count(*) FROM t"), 1);
    orr_database_close(db);
    for (size_t i = 0; i < 3; i++) {
        snprintf(beside, sizeof beside, "%s%s", path, endings[i]);
        assert_int_equal(access(beside, F_OK), -1);
    }
}

/* --- only to be read ------------------------------------------------------------------------- */

static void readers_change_nothing(void **state)
{
    (void)state;
    static const char *const refused[] = {"INSERT INTO t VALUES(1, 1, 'a')",
                                          "DELETE FROM t",
                                          "UPDATE t SET i = 1",
                                          "DROP TABLE t",
                                          "CREATE TABLE v(x)",
                                          "CREATE TEMP TABLE v(x)",
                                          "ATTACH 'other.db' AS o",
                                          "BEGIN",
                                          "SAVEPOINT x",
                                          "VACUUM",
                                          "VACUUM INTO 'other.db'",
                                          "REINDEX",
                                          "ANALYZE",
                                          "PRAGMA user_version = 9",
                                          "PRAGMA journal_mode = DELETE",
                                          "PRAGMA query_only = 0",
                                          "PRAGMA writable_schema = 1",
                                          "PRAGMA wal_checkpoint",
                                          "PRAGMA optimize",
                                          "UPDATE sqlite_master SET name = 'x'",
                                          "INSERT INTO t VALUES(1, 1, 'a') RETURNING i",
                                          "SELECT load_extension('x')"};
    static const char *const allowed[] = {
        "SELECT 1",
        "VALUES(1)",
        "EXPLAIN SELECT 1",
        "EXPLAIN QUERY PLAN SELECT * FROM t",
        "PRAGMA table_info(t)",
        "PRAGMA user_version",
        "SELECT * FROM pragma_table_info('t')",
        "SELECT value FROM json_each('[1]')",
        "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c LIMIT 9) SELECT * FROM c",
        "PRAGMA integrity_check",
        "SELECT row_number() OVER () FROM t"};
    orr_database_close(open_it());
    orr_database *db = open_to_read();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        orr_query *query = NULL;
        orr_error err = {0};
        bool row = false;
        orr_status status = orr_query_new(db, refused[i], &query, &err);
        if (status == ORR_OK)
            status = orr_query_step(query, &row, &err);
        orr_query_free(query);
        if (status != ORR_INVALID)
            fail_msg("%s: %s", refused[i], err.text);
    }
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        bool row = false;
        orr_query *query = ask(db, allowed[i]);
        assert_int_equal(orr_query_step(query, &row, NULL), ORR_OK);
        orr_query_free(query);
    }
    orr_database_close(db);
}

/* Where the file and its folder cannot be written, by somebody who is not root. */
static void a_medium_that_cannot_be_written(void **state)
{
    (void)state;
    orr_database *db = open_it();
    run(db, "INSERT INTO t VALUES(1, 1, 'a')");
    orr_database_close(db);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(place, 0555), 0);
    const pid_t child = fork();
    if (child == 0) {
        orr_error err = {0};
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(9);
        if (orr_database_open_readonly(path, &db, &err) != ORR_OK)
            _exit(1);
        if (number_of(db, "SELECT count(*) FROM t") != 1)
            _exit(2);
        orr_database_close(db);
        if (orr_database_open(path, &kind, &db, &err) != ORR_IO || strstr(err.text, path) == NULL)
            _exit(3);
        _exit(0);
    }
    int how = 0;
    waitpid(child, &how, 0);
    chmod(place, 0755);
    chmod(path, 0644);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 9)
        skip();
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* --- what fails ------------------------------------------------------------------------------ */

static void wrong_sql(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"SELEC 1", "syntax error"},
                                           {"SELECT nowhere FROM t", "no such column: nowhere"},
                                           {"SELECT 1; SELECT 2", "one query at a time"},
                                           {"SELECT 1; nonsense", "one query at a time"},
                                           {"", "empty"},
                                           {" -- only this\n", "empty"},
                                           {"SELECT (", "incomplete"}};
    orr_database *db = open_it();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        orr_query *query = NULL;
        orr_error err = {0};
        assert_int_equal(orr_query_new(db, wrong[i][0], &query, &err), ORR_INVALID);
        assert_null(query);
        if (strstr(err.text, wrong[i][1]) == NULL || strstr(err.text, path) != err.text)
            fail_msg("%s", err.text);
    }
    orr_query *query = ask(db, "INSERT INTO u VALUES(?)");
    orr_error err = {0};
    orr_query_bind_int(query, 1, 5);
    assert_int_equal(orr_query_run(query, &err), ORR_OK);
    assert_int_equal(orr_query_run(query, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "UNIQUE"));
    orr_query_bind_int(query, 2, 5); /* there is one parameter */
    assert_int_equal(orr_query_run(query, &err), ORR_INVALID);
    orr_query_bind_int(query, 1, 6);
    assert_int_equal(orr_query_run(query, &err), ORR_OK);
    orr_query_free(query);
    orr_database_close(db);
}

static void cannot_open(orr_status want, const char *text)
{
    orr_database *db = NULL;
    orr_error err = {0};
    const orr_status status = orr_database_open(path, &kind, &db, &err);
    if (status != want || strstr(err.text, text) == NULL || strstr(err.text, path) != err.text)
        fail_msg("%s: %s", orr_status_name(status), err.text);
    assert_null(db);
}

static void others_files_are_left_alone(void **state)
{
    (void)state;
    static const char text[] =
        "This is a letter, and no database at all. It is long enough to have a header.\n"
        "It goes on for a while, so that it is longer than a hundred bytes.\n";
    size_t n = 0;
    write_file(path, text, sizeof text);
    cannot_open(ORR_PARSE, "not a database");
    char *after = read_all(path, &n, NULL);
    assert_int_equal(n, sizeof text);
    assert_memory_equal(after, text, n);
    free(after);
    remove(path);

    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "CREATE TABLE mail(x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    char *before = read_all(path, &n, NULL);
    cannot_open(ORR_PARSE, "another program");
    after = read_all(path, &n, NULL);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
}

static void versions(void **state)
{
    (void)state;
    static const int32_t others[] = {2, 4, 1000000};
    for (size_t i = 0; i < 3; i++) {
        orr_database *db = open_it();
        char sql[64], text[64];
        snprintf(sql, sizeof sql, "PRAGMA user_version = %d", (int)others[i]);
        snprintf(text, sizeof text, "version %d, and this program knows version 3", (int)others[i]);
        run(db, sql);
        orr_database_close(db);
        cannot_open(ORR_UNSUPPORTED, text);
        db = open_to_read(); /* but who only looks may */
        orr_database_close(db);
        remove(path);
    }
}

static void no_such_place(void **state)
{
    (void)state;
    orr_database *db = NULL;
    orr_error err = {0};
    snprintf(path, sizeof path, "%s/no.db/a", place);
    cannot_open(ORR_IO, "unable to open database file");
    assert_int_equal(orr_database_open_readonly(path, &db, &err), ORR_IO);
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(err.os_errno, ENOENT);
    snprintf(path, sizeof path, "%s", place);
    cannot_open(ORR_IO, "");
    assert_int_equal(orr_database_open_readonly(place, &db, &err), ORR_IO);
}

static orr_status read_damaged(orr_error *err)
{
    orr_database *db = NULL;
    orr_query *query = NULL;
    bool row = true;
    orr_status status = orr_database_open_readonly(path, &db, err);
    if (status == ORR_OK)
        status = orr_query_new(db, "SELECT sum(length(s)) FROM t", &query, err);
    if (status == ORR_OK)
        status = orr_query_step(query, &row, err);
    orr_query_free(query);
    orr_database_close(db);
    return status;
}

/* Cut short at any length: never a crash, and told wherever a page is missing. */
static void damaged(void **state)
{
    (void)state;
    enum { PAGE = 4096 };
    size_t n = 0;
    orr_database *db = open_it();
    for (int i = 0; i < 200; i++)
        run(db, "INSERT INTO t VALUES(1, 1, 'quite a long text that fills the pages of the file')");
    orr_database_close(db);
    char *whole = read_all(path, &n, NULL);
    assert_true(n > 5 * PAGE);
    for (size_t cut = 2; cut < n; cut += 509) {
        orr_error err = {0};
        write_file(path, whole, cut);
        const orr_status status = read_damaged(&err);
        if (status != ORR_PARSE && status != ORR_IO && (status != ORR_OK || cut + PAGE < n))
            fail_msg("%zu bytes: %s %s", cut, orr_status_name(status), err.text);
    }
    free(whole);
}

static void full_disk(void **state)
{
    (void)state;
    orr_database *db = open_it();
    run(db, "INSERT INTO t VALUES(1, 1, 'a')");
    struct rlimit before, small = {.rlim_cur = 100 * 1000};
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    orr_error err = {0};
    assert_int_equal(orr_database_begin(db, &err), ORR_OK);
    orr_status status = ORR_OK;
    for (int i = 0; i < 10000 && status == ORR_OK; i++)
        status = orr_database_exec(db, "INSERT INTO t VALUES(2, 2, hex(zeroblob(500)))", &err);
    if (status == ORR_OK)
        status = orr_database_commit(db, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, ORR_IO);
    assert_non_null(strstr(err.text, path));
    orr_database_roll_back(db);
    assert_int_equal(number_of(db, "SELECT count(*) FROM t"), 1);
    run(db, "INSERT INTO t VALUES(1, 1, 'b')"); /* there is room again */
    orr_database_close(db);
    db = open_to_read();
    assert_int_equal(number_of(db, "SELECT count(*) FROM t"), 2);
    orr_database_close(db);
}

static void another_writes(void **state)
{
    (void)state;
    orr_error err = {0};
    orr_database *a = open_it(), *b = open_it(), *reader = open_to_read();
    assert_int_equal(orr_database_begin(a, &err), ORR_OK);
    run(a, "INSERT INTO t VALUES(1, 1, 'a')");
    orr_database_set_busy_timeout(b, 30 * 1000 * 1000);
    assert_int_equal(orr_database_begin(b, &err), ORR_IO);
    assert_int_equal(err.os_errno, EBUSY);
    assert_non_null(strstr(err.text, "locked"));
    assert_int_equal(number_of(reader, "SELECT count(*) FROM t"), 0); /* does not wait */
    assert_int_equal(orr_database_commit(a, &err), ORR_OK);
    assert_int_equal(number_of(reader, "SELECT count(*) FROM t"), 1);
    assert_int_equal(orr_database_begin(b, &err), ORR_OK);
    assert_int_equal(orr_database_commit(b, &err), ORR_OK);
    orr_database_close(a);
    orr_database_close(b);
    orr_database_close(reader);
}

static bool after_some_looks(void *ctx)
{
    return --*(int *)ctx < 0;
}

static void stopped(void **state)
{
    (void)state;
    int looks = 5;
    bool row = false;
    orr_error err = {0};
    orr_database_close(open_it());
    orr_database *db = open_to_read();
    orr_database_set_cancel(db, after_some_looks, &looks);
    orr_query *query = ask(
        db,
        "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c");
    assert_int_equal(orr_query_step(query, &row, &err), ORR_CANCELED);
    orr_query_free(query);
    looks = INT_MAX;
    assert_int_equal(number_of(db, "SELECT 5"), 5); /* it can go on */
    orr_database_close(db);

    orr_database *a = open_it(), *b = open_it();
    assert_int_equal(orr_database_begin(a, NULL), ORR_OK);
    looks = 3;
    orr_database_set_cancel(b, after_some_looks, &looks);
    assert_int_not_equal(orr_database_begin(b, &err), ORR_OK); /* long before its patience ends */
    assert_true(looks < 0);
    orr_database_close(a);
    orr_database_close(b);
}

/* --- memory ---------------------------------------------------------------------------------- */

static orr_status use(orr_error *err)
{
    orr_database *db = NULL;
    orr_query *query = NULL;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_status status =
        arena != NULL ? orr_database_open(path, &kind, &db, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        status = orr_database_begin(db, err);
    if (status == ORR_OK)
        status = orr_query_new(db, "INSERT INTO t VALUES(1, 2, ?)", &query, err);
    if (status == ORR_OK) {
        orr_query_bind_text(query, 1, "a text of some length that has to be copied somewhere");
        status = orr_query_run(query, err);
    }
    orr_query_free(query);
    query = NULL;
    if (status == ORR_OK)
        status = orr_database_commit(db, err);
    orr_database_close(db);
    db = NULL;
    if (status == ORR_OK)
        status = orr_database_open_readonly(path, &db, err);
    if (status == ORR_OK)
        status = orr_query_new(db, "SELECT upper(s), x'01' FROM t ORDER BY s DESC", &query, err);
    bool row = false;
    const char *text = NULL;
    if (status == ORR_OK)
        status = orr_query_step(query, &row, err);
    if (status == ORR_OK && row)
        status = orr_query_text(query, 0, arena, &text, err);
    if (status == ORR_OK && row)
        status = orr_query_text(query, 1, arena, &text, err);
    orr_query_free(query);
    orr_database_close(db);
    orr_arena_free(arena);
    return status;
}

/* Whichever allocation fails, SQLite's own too: an error, nothing leaks, and the file is whole. */
static void memory_runs_out(void **state)
{
    (void)state;
    uint64_t failures = 0;
    for (uint64_t nth = 1;; nth += nth < 300 ? 1 : 3) {
        orr_error err = {0};
        orr_alloc_fail_from(nth);
        const orr_status status = use(&err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        /* SQLite tells some of these as an error of the disk or of the file. */
        if (status != ORR_NO_MEMORY && status != ORR_IO)
            fail_msg("allocation %llu: %s: %s", (unsigned long long)nth, orr_status_name(status),
                     err.text);
        failures += status == ORR_NO_MEMORY;
        assert_true(nth < 100000);
    }
    assert_true(failures > 50);
    orr_database *db = open_to_read();
    orr_query *query = ask(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check");
    bool row = false;
    assert_int_equal(orr_query_step(query, &row, NULL), ORR_OK);
    assert_int_equal(orr_query_int(query, 0), 1);
    orr_query_free(query);
    orr_database_close(db);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_folder)

int main(void)
{
    if (!lite_memory_use())
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(values_come_back),
        TEST(bytes_are_shown),
        TEST(transactions),
        TEST(strange_names),
        TEST(nothing_is_left_beside_it),
        TEST(readers_change_nothing),
        TEST(a_medium_that_cannot_be_written),
        TEST(wrong_sql),
        TEST(others_files_are_left_alone),
        TEST(versions),
        TEST(no_such_place),
        TEST(damaged),
        TEST(full_disk),
        TEST(another_writes),
        TEST(stopped),
        TEST(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
