/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/results/store.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "explore/results/row.h"
#include "explore/results/schema.h"

/* The results database and its writer thread.
 *
 * New rows go into pending tables in memory. The writer wakes a second later and moves them into
 * the file in one transaction of milliseconds, so that the search seldom waits for the disk and
 * another process hardly ever for the search. One lock covers the database handle and the state
 * below it: callers hold it while they insert or look up, the writer while it moves rows, and it is
 * released while the writer sleeps. A kill loses at most the rows of the last second; a transaction
 * is all or nothing. */

static const int64_t SEARCH_TIMEOUT_NS = 250 * 1000 * 1000, CLOSE_TIMEOUT_NS = INT64_C(10000000000);
enum { DELAY_S = 1 };
enum { PLAN, FAMILY, NOTE, TABLES };

struct orr_results {
    orr_database *db;
    orr_arena *arena; /* memory of the SQL */
    int64_t search;
    bool continues; /* it is of an earlier run */
    orr_query *insert[TABLES], *find[NOTE], *list;
    const char *move[TABLES];
    pthread_mutex_t lock; /* covers the database and all fields below */
    pthread_cond_t changed;
    pthread_t writer;
    bool is_writing, is_closing, has_pending;
    orr_status failed; /* error of the writer, returned to the next caller that adds */
    orr_error failure;
};

/* --- writing --------------------------------------------------------------------------------- */

static orr_status move_pending(orr_results *r, orr_error *err)
{
    ORR_TRY(orr_database_begin(r->db, err));
    orr_status status = ORR_OK;
    for (int i = 0; i < TABLES && status == ORR_OK; i++)
        status = orr_database_exec(r->db, r->move[i], err);
    if (status == ORR_OK)
        return orr_database_commit(r->db, err);
    orr_database_roll_back(r->db);
    return status;
}

static orr_status write_pending(orr_results *r, int64_t busy_timeout_ns, orr_error *err)
{
    if (!r->has_pending)
        return ORR_OK;
    orr_database_set_busy_timeout(r->db, busy_timeout_ns);
    const orr_status status = move_pending(r, err);
    if (status == ORR_OK)
        r->has_pending = false;
    return status;
}

static void wait_delay(orr_results *r)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += DELAY_S;
    while (!r->is_closing && pthread_cond_timedwait(&r->changed, &r->lock, &until) != ETIMEDOUT)
        ;
}

/* Another writing process (EBUSY) is no error yet: the rows stay pending. */
static void *writer_thread(void *ctx)
{
    orr_results *r = ctx;
    pthread_mutex_lock(&r->lock);
    while (!r->is_closing) {
        if (!r->has_pending) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        wait_delay(r);
        orr_error err = {0};
        const orr_status status =
            r->is_closing ? ORR_OK : write_pending(r, SEARCH_TIMEOUT_NS, &err);
        if (status != ORR_OK && err.os_errno != EBUSY) {
            r->failed = status;
            r->failure = err;
        }
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* The writer blocks all signals, which are for the program's own threads. */
static orr_status start_writer(orr_results *r, orr_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&r->writer, NULL, writer_thread, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    r->is_writing = code == 0;
    return code == 0 ? ORR_OK : orr_fail(err, ORR_NO_MEMORY, "no thread to write results with");
}

static void stop_writer(orr_results *r)
{
    if (!r->is_writing)
        return;
    pthread_mutex_lock(&r->lock);
    r->is_closing = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->writer, NULL);
}

/* --- opening and closing --------------------------------------------------------------------- */

static orr_status open_file(orr_results *r, const char *path, orr_error *err)
{
    const orr_database_schema kind = {.application = ORR_RESULTS_APPLICATION,
                                      .version = ORR_RESULTS_VERSION,
                                      .schema = orr_results_schema_sql(r->arena)};
    const char *pending = orr_results_pending_schema_sql(r->arena);
    if (kind.schema == NULL || pending == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_database_open(path, &kind, &r->db, err));
    ORR_TRY(orr_results_add_missing_columns(r->db, r->arena, err));
    return orr_database_exec(r->db, pending, err);
}

static orr_status prepare(orr_results *r, const char *sql, orr_query **ret, orr_error *err)
{
    return sql != NULL ? orr_query_new(r->db, sql, ret, err) : orr_fail_memory(err);
}

static orr_status prepare_all(orr_results *r, orr_error *err)
{
    const orr_results_table tables[TABLES] = {orr_results_plan_table(), orr_results_family_table(),
                                              orr_results_note_table()};
    for (int i = 0; i < TABLES; i++) {
        ORR_TRY(prepare(r, orr_results_insert_sql(&tables[i], r->arena), &r->insert[i], err));
        r->move[i] = orr_results_move_sql(&tables[i], r->arena);
        if (r->move[i] == NULL)
            return orr_fail_memory(err);
    }
    for (int i = 0; i < NOTE; i++)
        ORR_TRY(prepare(r, orr_results_find_sql(&tables[i], r->arena), &r->find[i], err));
    return prepare(r, orr_results_candidates_sql(&tables[PLAN], r->arena), &r->list, err);
}

/* *ret 0: there is no search of this question. */
static orr_status last_search(orr_results *r, const char *question, int64_t *ret, orr_error *err)
{
    orr_query *query = NULL;
    bool row = false;
    ORR_TRY(orr_query_new(r->db, "SELECT max(search) FROM search WHERE question = ?", &query, err));
    orr_query_bind_text(query, 1, question);
    const orr_status status = orr_query_step(query, &row, err);
    if (status == ORR_OK)
        *ret = row ? orr_query_int(query, 0) : 0;
    orr_query_free(query);
    return status;
}

static orr_status begin_search(orr_results *r, const char *question, bool resume, orr_error *err)
{
    orr_query *query = NULL;
    if (resume)
        ORR_TRY(last_search(r, question, &r->search, err));
    r->continues = r->search > 0;
    if (r->continues)
        return ORR_OK;
    ORR_TRY(orr_query_new(r->db, "INSERT INTO search(question) VALUES(?)", &query, err));
    orr_query_bind_text(query, 1, question);
    const orr_status status = orr_query_run(query, err);
    if (status == ORR_OK)
        r->search = orr_database_last_insert_id(r->db);
    orr_query_free(query);
    return status;
}

static orr_status open_results(orr_results *r, const char *path, const char *question, bool resume,
                               orr_error *err)
{
    r->arena = orr_arena_new(0, 0);
    if (r->arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY(open_file(r, path, err));
    ORR_TRY(begin_search(r, question, resume, err));
    ORR_TRY(prepare_all(r, err));
    return start_writer(r, err);
}

static void results_free(orr_results *r)
{
    stop_writer(r);
    for (int i = 0; i < TABLES; i++)
        orr_query_free(r->insert[i]);
    for (int i = 0; i < NOTE; i++)
        orr_query_free(r->find[i]);
    orr_query_free(r->list);
    orr_database_close(r->db);
    orr_arena_free(r->arena);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    orr_free(r);
}

orr_status orr_results_open(const char *path, const char *question, bool resume, orr_results **ret,
                            orr_error *err)
{
    orr_results *r = orr_calloc(1, sizeof *r);
    pthread_condattr_t clock;
    if (r == NULL)
        return orr_fail_memory(err);
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &clock);
    pthread_condattr_destroy(&clock);
    const orr_status status = open_results(r, path, question, resume, err);
    if (status == ORR_OK)
        *ret = r;
    else
        results_free(r);
    return status;
}

bool orr_results_continues(const orr_results *results)
{
    return results->continues;
}

orr_status orr_results_flush(orr_results *results, orr_error *err)
{
    pthread_mutex_lock(&results->lock);
    const orr_status status = write_pending(results, CLOSE_TIMEOUT_NS, err);
    if (status == ORR_OK)
        results->failed = ORR_OK;
    pthread_mutex_unlock(&results->lock);
    return status;
}

orr_status orr_results_close(orr_results *results, orr_error *err)
{
    if (results == NULL)
        return ORR_OK;
    stop_writer(results);
    results->is_writing = false;
    const orr_status status = orr_results_flush(results, err);
    results_free(results);
    return status;
}

/* --- adding ---------------------------------------------------------------------------------- */

/* Executes a bound query, with the lock held. */
static orr_status add(orr_results *r, orr_query *query, orr_error *err)
{
    ORR_TRY(orr_query_run(query, err));
    if (!r->has_pending) {
        r->has_pending = true;
        pthread_cond_signal(&r->changed);
    }
    if (r->failed == ORR_OK)
        return ORR_OK;
    if (err != NULL)
        *err = r->failure;
    const orr_status status = r->failed;
    r->failed = ORR_OK;
    return status;
}

orr_status orr_results_note(orr_results *results, const char *name, const char *text,
                            orr_error *err)
{
    pthread_mutex_lock(&results->lock);
    orr_query *query = results->insert[NOTE];
    orr_query_bind_int(query, 1, results->search);
    orr_query_bind_text(query, 2, name);
    orr_query_bind_text(query, 3, text);
    const orr_status status = add(results, query, err);
    pthread_mutex_unlock(&results->lock);
    return status;
}

orr_status orr_results_add_family(orr_results *results, const char *key,
                                  const orr_family_result *family, orr_error *err)
{
    pthread_mutex_lock(&results->lock);
    orr_results_set_family(results->insert[FAMILY], results->search, key, family);
    const orr_status status = add(results, results->insert[FAMILY], err);
    pthread_mutex_unlock(&results->lock);
    return status;
}

static orr_status add_plan(orr_results *r, const char *family, const char *text,
                           const orr_explored *explored, orr_error *err)
{
    pthread_mutex_lock(&r->lock);
    orr_results_set_plan(r->insert[PLAN], r->search, family, text, explored);
    const orr_status status = add(r, r->insert[PLAN], err);
    pthread_mutex_unlock(&r->lock);
    return status;
}

orr_status orr_results_add_plan(orr_results *results, const char *text,
                                const orr_explored *explored, orr_error *err)
{
    return add_plan(results, NULL, text, explored, err);
}

orr_status orr_results_add_candidate(orr_results *results, const char *family, const char *text,
                                     const orr_explored *explored, orr_error *err)
{
    return add_plan(results, family, text, explored, err);
}

/* --- looking up ------------------------------------------------------------------------------ */

/* Looks a key up, with the lock held. A read error counts as absent: the plan is then evaluated
 * again. */
static bool find(orr_results *r, orr_query *query, const char *key)
{
    bool row = false;
    orr_query_bind_int(query, 1, r->search);
    orr_query_bind_text(query, 2, key);
    return orr_query_step(query, &row, NULL) == ORR_OK && row;
}

bool orr_results_family(orr_results *results, const char *key, orr_family_result *ret)
{
    pthread_mutex_lock(&results->lock);
    orr_query *query = results->find[FAMILY];
    const bool found = find(results, query, key);
    if (found)
        orr_results_get_family(query, ret);
    orr_query_reset(query);
    pthread_mutex_unlock(&results->lock);
    return found;
}

bool orr_results_plan(orr_results *results, const char *text, orr_explored *ret)
{
    orr_explored explored = {0};
    if (orr_plan_parse(text, &explored.plan, NULL) != ORR_OK)
        return false;
    pthread_mutex_lock(&results->lock);
    orr_query *query = results->find[PLAN];
    const bool found = find(results, query, text);
    if (found)
        orr_results_get_figures(query, &explored);
    orr_query_reset(query);
    pthread_mutex_unlock(&results->lock);
    if (found)
        *ret = explored;
    return found;
}

typedef orr_array(orr_explored) explored_array;

/* A plan whose text this build cannot parse is not in the space that it searches. */
static orr_status read_candidates(orr_results *r, orr_arena *arena, explored_array *all,
                                  orr_error *err)
{
    for (bool row = true; row;) {
        ORR_TRY(orr_query_step(r->list, &row, err));
        if (!row)
            break;
        const orr_arena_mark mark = orr_arena_get_mark(arena);
        const char *text = NULL;
        orr_explored explored = {0};
        ORR_TRY(orr_query_text(r->list, 1, arena, &text, err));
        const bool known = orr_plan_parse(text, &explored.plan, NULL) == ORR_OK;
        orr_arena_rewind(arena, mark);
        orr_results_get_figures(r->list, &explored);
        if (known && !orr_array_push(all, explored))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

orr_status orr_results_candidates(orr_results *results, orr_arena *arena, const orr_explored **ret,
                                  uint32_t *ret_n, orr_error *err)
{
    explored_array all = {0};
    orr_explored *copy = NULL;
    ORR_TRY(orr_results_flush(results, err));
    pthread_mutex_lock(&results->lock);
    orr_query_bind_int(results->list, 1, results->search);
    orr_status status = read_candidates(results, arena, &all, err);
    orr_query_reset(results->list);
    pthread_mutex_unlock(&results->lock);
    if (status == ORR_OK && (copy = orr_arena_array(arena, orr_explored, all.n)) == NULL)
        status = orr_fail_memory(err);
    if (status == ORR_OK && all.n > 0)
        memcpy(copy, all.at, all.n * sizeof *copy);
    if (status == ORR_OK) {
        *ret = copy;
        *ret_n = (uint32_t)all.n;
    }
    orr_array_done(&all);
    return status;
}
