/* SPDX-License-Identifier: Apache-2.0 */
#include "io/database/parts.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"

static const int64_t ms_ns = 1000 * 1000;
enum { PATIENCE_MS = 10000, WAIT_MS_MAX = 50, STEPS_BETWEEN_ASKS = 1000 };

/* --- what failed ----------------------------------------------------------------------------- */

static orr_status status_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
        return ORR_OK;
    case SQLITE_NOMEM:
        return ORR_NO_MEMORY;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT:
        return ORR_PARSE;
    case SQLITE_INTERRUPT:
        return ORR_CANCELED;
    case SQLITE_TOOBIG:
        return ORR_LIMIT;
    case SQLITE_ERROR:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
    case SQLITE_AUTH:
        return ORR_INVALID;
    default:
        return ORR_IO;
    }
}

orr_status orr_database_fail(const orr_database *db, int code, orr_error *err)
{
    const orr_status status = status_of(code);
    const int primary = code & 0xff;
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(err);
    if (primary == SQLITE_AUTH)
        return orr_fail(err, ORR_INVALID, "%s: the query does more than read", db->path);
    const char *said = sqlite3_errcode(db->sqlite) != SQLITE_OK ? sqlite3_errmsg(db->sqlite)
                                                                : sqlite3_errstr(code);
    const int os = primary == SQLITE_BUSY || primary == SQLITE_LOCKED ? EBUSY
                   : status == ORR_IO ? sqlite3_system_errno(db->sqlite)
                                      : 0;
    orr_fail(err, status, "%s: %s%s%s", db->path, said, os > 0 && os != EBUSY ? ": " : "",
             os > 0 && os != EBUSY ? strerror(os) : "");
    if (err != NULL)
        err->os_errno = os;
    return status;
}

/* --- waiting, and being asked to stop -------------------------------------------------------- */

static bool asked_to_stop(const orr_database *db)
{
    return db->stop != NULL && db->stop(db->stop_ctx);
}

static int on_progress(void *ctx)
{
    return asked_to_stop(ctx);
}

/* Another process writes; `waits` so often already, each a little longer than the last. */
static int on_busy(void *ctx, int waits)
{
    const orr_database *db = ctx;
    const int64_t n = waits < WAIT_MS_MAX ? waits : WAIT_MS_MAX;
    const int64_t waited_ms = n * (n + 1) / 2 + (waits - n) * WAIT_MS_MAX;
    if (waited_ms * ms_ns >= db->patience_ns || asked_to_stop(db))
        return 0;
    const struct timespec ms = {.tv_nsec = (n < WAIT_MS_MAX ? n + 1 : n) * ms_ns};
    nanosleep(&ms, NULL);
    return 1;
}

void orr_database_set_busy_timeout(orr_database *db, int64_t patience_ns)
{
    db->patience_ns = patience_ns;
}

void orr_database_set_cancel(orr_database *db, bool (*stop)(void *ctx), void *ctx)
{
    db->stop = stop;
    db->stop_ctx = ctx;
    sqlite3_progress_handler(db->sqlite, stop != NULL ? STEPS_BETWEEN_ASKS : 0, on_progress, db);
}

/* --- statements without rows ----------------------------------------------------------------- */

orr_status orr_database_exec(orr_database *db, const char *sql, orr_error *err)
{
    const int code = sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? ORR_OK : orr_database_fail(db, code, err);
}

orr_status orr_database_begin(orr_database *db, orr_error *err)
{
    return orr_database_exec(db, "BEGIN IMMEDIATE", err);
}

orr_status orr_database_commit(orr_database *db, orr_error *err)
{
    const orr_status status = orr_database_exec(db, "COMMIT", err);
    if (status != ORR_OK)
        orr_database_roll_back(db);
    return status;
}

void orr_database_roll_back(orr_database *db)
{
    if (!sqlite3_get_autocommit(db->sqlite))
        sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
}

int64_t orr_database_last_insert_id(const orr_database *db)
{
    return sqlite3_last_insert_rowid(db->sqlite);
}

/* --- opening --------------------------------------------------------------------------------- */

static orr_database *database_new(const char *path)
{
    orr_database *db = orr_calloc(1, sizeof *db);
    const size_t n = strlen(path) + 1;
    if (db == NULL || (db->path = orr_malloc(n)) == NULL) {
        orr_free(db);
        return NULL;
    }
    memcpy(db->path, path, n);
    db->patience_ns = PATIENCE_MS * ms_ns;
    return db;
}

/* A name as SQLite takes it, which has meanings of its own for ":memory:" and "file:". `uri`: with
 * a flag behind it, and then what is special in one is %-encoded. */
static char *name_for_sqlite(const char *path, bool uri)
{
    static const char hex[] = "0123456789abcdef", flag[] = "?immutable=1";
    char *name = orr_malloc(3 * strlen(path) + sizeof "file:./" + sizeof flag);
    char *to = name;
    if (name == NULL)
        return NULL;
    for (const char *c = uri ? "file:" : ""; *c != '\0'; c++)
        *to++ = *c;
    for (const char *c = path[0] == '/' ? "" : "./"; *c != '\0'; c++)
        *to++ = *c;
    for (const unsigned char *c = (const unsigned char *)path; *c != '\0'; c++) {
        if (uri && (*c == '%' || *c == '?' || *c == '#')) {
            *to++ = '%';
            *to++ = hex[*c >> 4];
            *to++ = hex[*c & 15];
        } else {
            *to++ = (char)*c;
        }
    }
    memcpy(to, uri ? flag : "", uri ? sizeof flag : 1);
    return name;
}

static orr_status connect_as(orr_database *db, int flags, bool immutable, orr_error *err)
{
    char *name = name_for_sqlite(db->path, immutable);
    if (name == NULL)
        return orr_fail_memory(err);
    if (immutable)
        flags |= SQLITE_OPEN_URI;
    sqlite3_close_v2(db->sqlite);
    db->sqlite = NULL;
    int code = sqlite3_open_v2(name, &db->sqlite, flags | SQLITE_OPEN_NOMUTEX, NULL);
    orr_free(name);
    if (db->sqlite == NULL)
        return orr_fail_memory(err);
    if (code != SQLITE_OK)
        return orr_database_fail(db, code, err);
    sqlite3_extended_result_codes(db->sqlite, 1);
    code = sqlite3_busy_handler(db->sqlite, on_busy, db);
    return code == SQLITE_OK ? ORR_OK : orr_database_fail(db, code, err);
}

void orr_database_close(orr_database *db)
{
    if (db == NULL)
        return;
    sqlite3_close_v2(db->sqlite);
    orr_free(db->path);
    orr_free(db);
}

static orr_status ask_number(orr_database *db, const char *sql, int64_t *ret, orr_error *err)
{
    orr_query *query = NULL;
    bool row = false;
    orr_status status = orr_query_new(db, sql, &query, err);
    if (status == ORR_OK)
        status = orr_query_step(query, &row, err);
    if (status == ORR_OK)
        *ret = row ? orr_query_int(query, 0) : 0;
    orr_query_free(query);
    return status;
}

/* *ret_empty: nothing is in it, and it is nobody's. */
static orr_status identify(orr_database *db, const orr_database_schema *kind, bool *ret_empty,
                           orr_error *err)
{
    int64_t application = 0, version = 0, tables = 0;
    ORR_TRY(ask_number(db, "SELECT count(*) FROM sqlite_schema", &tables, err));
    ORR_TRY(ask_number(db, "PRAGMA application_id", &application, err));
    ORR_TRY(ask_number(db, "PRAGMA user_version", &version, err));
    *ret_empty = tables == 0 && application == 0 && version == 0;
    if (*ret_empty)
        return ORR_OK;
    if (application != kind->application || version < 1)
        return orr_fail(err, ORR_PARSE, "%s: is a database of another program", db->path);
    if (version != kind->version)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s: is of version %lld, and this program knows version %d", db->path,
                        (long long)version, (int)kind->version);
    return ORR_OK;
}

/* Readers go on beside a writer. Where the file system cannot do that they wait, as ever. While two
 * processes open a new file SQLite does not wait for the other one by itself. */
static orr_status use_log(orr_database *db, orr_error *err)
{
    for (int waits = 0;; waits++) {
        const orr_status status = orr_database_exec(db, "PRAGMA journal_mode=WAL", err);
        if (status == ORR_OK)
            return orr_database_exec(db, "PRAGMA synchronous=NORMAL", err);
        const int code = sqlite3_errcode(db->sqlite) & 0xff;
        if ((code != SQLITE_BUSY && code != SQLITE_LOCKED) || !on_busy(db, waits))
            return status;
    }
}

static orr_status make_schema(orr_database *db, const orr_database_schema *kind, orr_error *err)
{
    bool empty = false;
    ORR_TRY(orr_database_begin(db, err));
    orr_status status = identify(db, kind, &empty, err); /* another process may have been faster */
    if (status == ORR_OK && empty) {
        char *mark = sqlite3_mprintf("PRAGMA application_id=%d; PRAGMA user_version=%d",
                                     (int)kind->application, (int)kind->version);
        status = mark == NULL ? orr_fail_memory(err) : orr_database_exec(db, kind->schema, err);
        if (status == ORR_OK)
            status = orr_database_exec(db, mark, err);
        sqlite3_free(mark);
    }
    if (status == ORR_OK)
        return orr_database_commit(db, err);
    orr_database_roll_back(db);
    return status;
}

static orr_status open_to_write(orr_database *db, const orr_database_schema *kind, orr_error *err)
{
    bool empty = false;
    ORR_TRY(connect_as(db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, false, err));
    ORR_TRY(identify(db, kind, &empty, err));
    if (sqlite3_db_readonly(db->sqlite, "main") == 1) {
        orr_fail(err, ORR_IO, "%s: %s", db->path, strerror(EACCES));
        if (err != NULL)
            err->os_errno = EACCES;
        return ORR_IO;
    }
    ORR_TRY(use_log(db, err));
    return empty ? make_schema(db, kind, err) : ORR_OK;
}

orr_status orr_database_open(const char *path, const orr_database_schema *kind, orr_database **ret,
                             orr_error *err)
{
    orr_database *db = database_new(path);
    const orr_status status = db != NULL ? open_to_write(db, kind, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        *ret = db;
    else
        orr_database_close(db);
    return status;
}

/* --- only to be read ------------------------------------------------------------------------- */

/* PRAGMAs that only ask; of the first list with an argument too. */
static bool pragma_reads(const char *name, const char *argument)
{
    static const char *const of_something[] = {
        "table_info",  "table_xinfo",      "table_list",      "index_list", "index_info",
        "index_xinfo", "foreign_key_list", "integrity_check", "quick_check"};
    static const char *const alone[] = {
        "application_id", "collation_list", "compile_options", "data_version",   "database_list",
        "encoding",       "freelist_count", "function_list",   "journal_mode",   "module_list",
        "page_count",     "page_size",      "pragma_list",     "schema_version", "user_version"};
    for (size_t i = 0; i < sizeof of_something / sizeof *of_something; i++)
        if (sqlite3_stricmp(name, of_something[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (sqlite3_stricmp(name, alone[i]) == 0)
            return argument == NULL;
    return false;
}

static int authorise(void *ctx, int action, const char *a, const char *b, const char *c,
                     const char *d)
{
    (void)ctx, (void)c, (void)d;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_UPDATE: /* what the making of a table-valued function looks like */
        return sqlite3_stricmp(a, "sqlite_master") == 0 ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_PRAGMA:
        return pragma_reads(a, b) ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

/* A file may come from anywhere: what its schema says is not trusted, and nothing is changed. */
static orr_status look(orr_database *db, orr_error *err)
{
    int64_t tables = 0;
    sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    ORR_TRY(orr_database_exec(db, "PRAGMA query_only=1; PRAGMA cell_size_check=1", err));
    ORR_TRY(ask_number(db, "SELECT count(*) FROM sqlite_schema", &tables, err));
    sqlite3_set_authorizer(db->sqlite, authorise, NULL);
    db->only_reads = true;
    return ORR_OK;
}

/* Nobody has it open, and nothing waits beside it to be written back. */
static bool is_at_rest(const orr_database *db)
{
    struct stat s;
    char *log = sqlite3_mprintf("%s-wal", db->path);
    const bool rests =
        stat(db->path, &s) == 0 && log != NULL && (stat(log, &s) != 0 || s.st_size == 0);
    sqlite3_free(log);
    return rests;
}

/* Opened to write, if that can be, since only then SQLite takes away the files beside it that
 * readers use too. On a medium that cannot be written it has to be told that nobody else can. */
static orr_status open_to_read(orr_database *db, orr_error *err)
{
    orr_status status = connect_as(db, SQLITE_OPEN_READWRITE, false, err);
    if (status == ORR_OK)
        status = look(db, err);
    const int code = db->sqlite != NULL ? sqlite3_errcode(db->sqlite) & 0xff : SQLITE_OK;
    if (status != ORR_IO || (code != SQLITE_CANTOPEN && code != SQLITE_READONLY) || !is_at_rest(db))
        return status;
    ORR_TRY(connect_as(db, SQLITE_OPEN_READONLY, true, err));
    return look(db, err);
}

orr_status orr_database_open_readonly(const char *path, orr_database **ret, orr_error *err)
{
    orr_database *db = database_new(path);
    const orr_status status = db != NULL ? open_to_read(db, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        *ret = db;
    else
        orr_database_close(db);
    return status;
}

/* SQLite does not write to what it is told is read-only. */
static orr_status open_bytes(orr_database *db, const void *bytes, size_t n, orr_error *err)
{
    if (sqlite3_open_v2(":memory:", &db->sqlite, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        return orr_fail_memory(err);
    sqlite3_extended_result_codes(db->sqlite, 1);
    const int code =
        sqlite3_deserialize(db->sqlite, "main", (unsigned char *)(uintptr_t)bytes, (sqlite3_int64)n,
                            (sqlite3_int64)n, SQLITE_DESERIALIZE_READONLY);
    return code == SQLITE_OK ? look(db, err) : orr_database_fail(db, code, err);
}

orr_status orr_database_open_memory(const void *bytes, size_t n, orr_database **ret, orr_error *err)
{
    orr_database *db = database_new(":memory:");
    const orr_status status = db != NULL ? open_bytes(db, bytes, n, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        *ret = db;
    else
        orr_database_close(db);
    return status;
}
