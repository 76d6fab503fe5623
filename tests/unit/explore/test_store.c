/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/database/database.h"
#include "explore/results/store.h"

#include "../io/folder.h"
#include "../io/lite_memory.h"

enum { PATH_ROOM = 4096, TEXT_ROOM = 128 };
static char path[PATH_ROOM + 16];

static int make_place(void **state)
{
    const int code = make_folder(state);
    snprintf(path, sizeof path, "%s/runs.db", (const char *)*state);
    return code;
}

static orr_results *open_results(const char *question, bool resume)
{
    orr_results *r = NULL;
    orr_error err = {0};
    if (orr_results_open(path, question, resume, &r, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return r;
}

static void close_results(orr_results *r)
{
    orr_error err = {0};
    if (orr_results_close(r, &err) != ORR_OK)
        fail_msg("%s", err.text);
}

/* A plan unlike all others, and figures that show when a bit of them is lost. */
static const char *plan_text(uint32_t i, char text[TEXT_ROOM])
{
    snprintf(text, TEXT_ROOM, "dp=%u,tp=%u,pp=4,batch=%u,schedule=zb_v,sites=5-3,sections=2x6-2x7",
             1 + i % 7, 1 + i % 5, 1000 + i);
    return text;
}

static orr_explored explored_of(uint32_t i, bool simulated)
{
    char text[TEXT_ROOM];
    orr_explored e = {.n_devices = 100 + i,
                      .bound_ns = INT64_C(1234567891) * (i + 1),
                      .estimate_ns = INT64_C(1300000003) * (i + 1),
                      .step_ns = simulated ? INT64_C(1400000007) * (i + 1) : 0,
                      .peak_bytes = (INT64_C(77) << 30) + i,
                      .usable_bytes = INT64_C(80) << 30,
                      .tokens_per_s = simulated ? 1e6 / 3 + i : NAN,
                      .mfu_frac = simulated ? 1.0 / (3 + i) : NAN,
                      .effective_frac = NAN,
                      .other_numerics = i % 2 == 1};
    assert_int_equal(orr_plan_parse(plan_text(i, text), &e.plan, NULL), ORR_OK);
    for (int k = 0; k < ORR_OBJECTIVES; k++)
        e.value[k] = k == ORR_OBJECTIVE_ENERGY ? NAN : (0.1 + k) * (i + 1) * (simulated ? 3 : 1);
    return e;
}

static bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static bool same(const orr_explored *a, const orr_explored *b)
{
    bool is = orr_plan_equal(&a->plan, &b->plan) && a->n_devices == b->n_devices &&
              a->bound_ns == b->bound_ns && a->estimate_ns == b->estimate_ns &&
              a->step_ns == b->step_ns && a->peak_bytes == b->peak_bytes &&
              a->usable_bytes == b->usable_bytes && a->other_numerics == b->other_numerics &&
              same_number(a->tokens_per_s, b->tokens_per_s) &&
              same_number(a->mfu_frac, b->mfu_frac) &&
              same_number(a->effective_frac, b->effective_frac);
    for (int k = 0; k < ORR_OBJECTIVES; k++)
        is &= same_number(a->value[k], b->value[k]);
    return is;
}

static orr_family_result family_of(uint32_t i)
{
    orr_family_result f = {.plans = UINT64_C(1) << 40 | i,
                           .bounded = i,
                           .estimated = 2 * i,
                           .bound = i % 2 ? INFINITY : 0.3 * i};
    for (int k = 0; k < ORR_PRUNES; k++)
        f.pruned[k] = 1e18 / 7 * (k + 1) + i;
    return f;
}

static bool same_family(const orr_family_result *a, const orr_family_result *b)
{
    return a->plans == b->plans && a->bounded == b->bounded && a->estimated == b->estimated &&
           a->bound == b->bound && memcmp(a->pruned, b->pruned, sizeof a->pruned) == 0;
}

static orr_status add_candidate(orr_results *r, const char *family, uint32_t i, orr_error *err)
{
    char text[TEXT_ROOM];
    const orr_explored e = explored_of(i, false);
    return orr_results_add_candidate(r, family, plan_text(i, text), &e, err);
}

static orr_status add_plan(orr_results *r, uint32_t i, orr_error *err)
{
    char text[TEXT_ROOM];
    const orr_explored e = explored_of(i, true);
    return orr_results_add_plan(r, plan_text(i, text), &e, err);
}

static orr_status add_family(orr_results *r, const char *key, uint32_t i, orr_error *err)
{
    const orr_family_result f = family_of(i);
    return orr_results_add_family(r, key, &f, err);
}

static bool has_plan(orr_results *r, uint32_t i)
{
    char text[TEXT_ROOM];
    orr_explored got;
    const orr_explored want = explored_of(i, true);
    if (!orr_results_plan(r, plan_text(i, text), &got))
        return false;
    assert_true(same(&got, &want));
    return true;
}

static bool has_family(orr_results *r, const char *key, uint32_t i)
{
    orr_family_result got;
    const orr_family_result want = family_of(i);
    if (!orr_results_family(r, key, &got))
        return false;
    assert_true(same_family(&got, &want));
    return true;
}

static int64_t ask(const char *sql)
{
    orr_database *db = NULL;
    orr_query *query = NULL;
    orr_error err = {0};
    bool row = false;
    if (orr_database_open_readonly(path, &db, &err) != ORR_OK ||
        orr_query_new(db, sql, &query, &err) != ORR_OK ||
        orr_query_step(query, &row, &err) != ORR_OK || !row)
        fail_msg("%s: %s", sql, err.text);
    const int64_t value = orr_query_int(query, 0);
    orr_query_free(query);
    orr_database_close(db);
    return value;
}

/* --- tests ----------------------------------------------------------------------------------- */

static void what_was_added_is_found(void **state)
{
    (void)state;
    orr_results *r = open_results("a", false);
    orr_error err = {0};
    assert_false(has_plan(r, 1));
    assert_false(has_family(r, "tp=2", 1));
    assert_int_equal(add_plan(r, 1, &err), ORR_OK);
    assert_int_equal(add_family(r, "tp=2", 1, &err), ORR_OK);
    for (int round = 0; round < 3; round++) { /* while it waits, written, and in a later run */
        assert_true(has_plan(r, 1));
        assert_true(has_family(r, "tp=2", 1));
        assert_false(has_plan(r, 2));
        assert_false(has_family(r, "tp=4", 1));
        if (round == 0)
            assert_int_equal(orr_results_flush(r, &err), ORR_OK);
        if (round == 1) {
            close_results(r);
            r = open_results("a", true);
        }
    }
    close_results(r);
}

static void questions_stand_beside_one_another(void **state)
{
    (void)state;
    orr_error err = {0};
    orr_results *a = open_results("a", false), *b = open_results("b", true);
    assert_int_equal(add_plan(a, 1, &err), ORR_OK);
    assert_int_equal(add_plan(b, 2, &err), ORR_OK);
    assert_int_equal(orr_results_flush(a, &err), ORR_OK);
    assert_int_equal(orr_results_flush(b, &err), ORR_OK);
    assert_true(has_plan(a, 1) && !has_plan(a, 2));
    assert_true(has_plan(b, 2) && !has_plan(b, 1));
    close_results(a);
    close_results(b);
    a = open_results("a", false); /* begins anew, and the earlier one stays */
    assert_false(has_plan(a, 1));
    assert_int_equal(add_plan(a, 3, &err), ORR_OK);
    close_results(a);
    a = open_results("a", true); /* the last */
    assert_true(has_plan(a, 3) && !has_plan(a, 1));
    close_results(a);
    assert_int_equal(ask("SELECT count(*) FROM search"), 3);
    assert_int_equal(ask("SELECT count(*) FROM plan"), 3);
}

static void check_candidates(orr_results *r, const uint32_t *want, const bool *simulated,
                             uint32_t n)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_explored *all = NULL;
    uint32_t got = 0;
    orr_error err = {0};
    assert_int_equal(orr_results_candidates(r, arena, &all, &got, &err), ORR_OK);
    assert_int_equal(got, n);
    for (uint32_t i = 0; i < n; i++) {
        bool found = false;
        const orr_explored e = explored_of(want[i], simulated[i]);
        for (uint32_t k = 0; k < n && !found; k++)
            found = same(&all[k], &e);
        assert_true(found);
    }
    orr_arena_free(arena);
}

/* Only of families that are done; what was simulated of them stays so when they are worked out
 * again. */
static void candidates(void **state)
{
    (void)state;
    orr_error err = {0};
    orr_results *r = open_results("a", false);
    check_candidates(r, NULL, NULL, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(add_candidate(r, i < 2 ? "done" : "begun", i, &err), ORR_OK);
    assert_int_equal(add_family(r, "done", 7, &err), ORR_OK);
    assert_int_equal(add_plan(r, 5, &err), ORR_OK); /* of no family */
    check_candidates(r, (const uint32_t[]){0, 1}, (const bool[]){false, false}, 2);
    assert_false(has_plan(r, 1)); /* it waits to be simulated */
    assert_int_equal(add_plan(r, 1, &err), ORR_OK);
    assert_true(has_plan(r, 1));
    close_results(r);
    r = open_results("a", true);
    check_candidates(r, (const uint32_t[]){0, 1}, (const bool[]){false, true}, 2);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(add_candidate(r, i < 2 ? "done" : "begun", i, &err), ORR_OK);
    assert_int_equal(add_family(r, "begun", 8, &err), ORR_OK);
    check_candidates(r, (const uint32_t[]){0, 1, 2}, (const bool[]){false, true, false}, 3);
    assert_true(has_plan(r, 1));
    assert_true(has_plan(r, 5));
    close_results(r);
}

static void people_can_ask(void **state)
{
    (void)state;
    orr_error err = {0};
    orr_results *r = open_results("a", false);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(add_plan(r, i, &err), ORR_OK);
    for (uint32_t i = 20; i < 30; i++)
        assert_int_equal(add_candidate(r, "f", i, &err), ORR_OK);
    assert_int_equal(orr_results_note(r, "model", "llama", &err), ORR_OK);
    assert_int_equal(orr_results_note(r, "model", "mixtral", &err), ORR_OK);
    close_results(r);
    assert_int_equal(ask("SELECT count(*) FROM plan WHERE tp = 1 AND schedule = 'zb_v'"), 6);
    assert_int_equal(ask("SELECT count(*) FROM plan WHERE cp = 1 AND sites = '5-3'"), 30);
    assert_int_equal(ask("SELECT count(*) FROM plan WHERE sections = '2x6-2x7'"), 30);
    assert_int_equal(ask("SELECT count(*) FROM best"), 20);
    assert_int_equal(ask("SELECT step_s = 1.400000007 FROM best WHERE place = 1"), 1);
    assert_int_equal(ask("SELECT max(peak_gib) > 77 AND max(peak_gib) < 77.001 FROM plan"), 1);
    assert_int_equal(ask("SELECT count(*) FROM tp_pp"), 5);
    assert_int_equal(ask("SELECT plans FROM tp_pp WHERE tp = 3 AND pp = 4"), 6);
    assert_int_equal(ask("SELECT simulated FROM tp_pp WHERE tp = 3 AND pp = 4"), 4);
    assert_int_equal(ask("SELECT simulated FROM progress"), 20);
    assert_int_equal(ask("SELECT count(*) FROM note WHERE value = 'mixtral'"), 1);
    assert_int_equal(ask("SELECT count(*) FROM note"), 1);
    assert_int_equal(ask("SELECT count(*) FROM search WHERE started > '2020-01-01'"), 1);
}

/* What the documents promise of version 1. */
static void columns_are_stable(void **state)
{
    (void)state;
    static const char *const promised[][2] = {
        {"plan",
         "search plan family bound_s estimate_s step_s peak_gib usable_gib fits devices bound_ns estimate_ns "
         "step_ns peak_bytes usable_bytes tokens_per_s mfu_frac effective_frac other_numerics "
         "objective_step_ns objective_budget_ns objective_cost_usd objective_energy_j objective_devices "
         "dp tp pp cp ep etp vp batch micro_batch micro_batches seq zero schedule recompute precision "
         "cross order sites sections"},
        {"family",
         "search family plans bounded estimated bound pruned_invalid pruned_excluded pruned_memory "
         "pruned_bound pruned_dominated"},
        {"search", "search question started"},
        {"note", "search name value"},
        {"best",
         "search place value step_s bound_s estimate_s peak_gib tokens_per_s mfu_frac cost_usd devices plan"},
        {"tp_pp", "search tp pp plans simulated fitting step_s bound_s estimate_s peak_gib plan"},
        {"progress", "search started families plans simulated best_step_s question"}};
    close_results(open_results("a", false));
    for (size_t i = 0; i < sizeof promised / sizeof *promised; i++)
        for (const char *at = promised[i][1]; *at != '\0';) {
            const int n = (int)strcspn(at, " ");
            char sql[256];
            snprintf(sql, sizeof sql,
                     "SELECT count(*) FROM pragma_table_xinfo('%s') WHERE name = '%.*s'",
                     promised[i][0], n, at);
            if (ask(sql) != 1)
                fail_msg("%s has no %.*s", promised[i][0], n, at);
            at += n + (at[n] == ' ');
        }
    assert_int_equal(ask("PRAGMA user_version"), 1);
}

/* What does not fit is not the best, however quick it is. */
static void best_that_fits(void **state)
{
    (void)state;
    orr_error err = {0};
    char text[TEXT_ROOM];
    orr_results *r = open_results("a", false);
    for (uint32_t i = 0; i < 12; i++) {
        orr_explored e = explored_of(i, true);
        e.peak_bytes = i < 6 ? e.usable_bytes + 1 : e.usable_bytes;
        assert_int_equal(orr_results_add_plan(r, plan_text(i, text), &e, &err), ORR_OK);
    }
    close_results(r);
    assert_int_equal(ask("SELECT count(*) FROM best"), 6);
    assert_int_equal(ask("SELECT round(step_s / 1.400000007) FROM best WHERE place = 1"), 7);
    assert_int_equal(ask("SELECT fitting FROM tp_pp WHERE tp = 1"), 1);
    assert_int_equal(ask("SELECT round(step_s / 1.400000007) FROM tp_pp WHERE tp = 1"), 11);
    assert_int_equal(ask("SELECT round(best_step_s / 1.400000007) FROM progress"), 7);
}

/* The views order by the objective that was noted. */
static void best_by_objective(void **state)
{
    (void)state;
    orr_error err = {0};
    char text[TEXT_ROOM];
    orr_results *r = open_results("a", false);
    for (uint32_t i = 0; i < 5; i++) {
        orr_explored e = explored_of(i, true);
        e.value[ORR_OBJECTIVE_COST] = 100 - i;
        assert_int_equal(orr_results_add_plan(r, plan_text(i, text), &e, &err), ORR_OK);
    }
    assert_int_equal(orr_results_note(r, "objective", "cost", &err), ORR_OK);
    close_results(r);
    assert_int_equal(ask("SELECT value FROM best WHERE place = 1"), 96);
}

static void written_a_second_later(void **state)
{
    (void)state;
    orr_error err = {0};
    orr_results *r = open_results("a", false);
    assert_int_equal(add_plan(r, 1, &err), ORR_OK);
    const int64_t begin_ns = orr_clock_now_ns(&orr_clock_monotonic);
    while (ask("SELECT count(*) FROM plan") == 0) {
        assert_true(orr_clock_now_ns(&orr_clock_monotonic) - begin_ns < INT64_C(1800000000000));
        usleep(20000);
    }
    close_results(r);
}

/* --- processes ------------------------------------------------------------------------------- */

/* Writes as fast as it can, and tells what is committed, until somebody ends it. */
static void write_for_ever(int to)
{
    orr_error err = {0};
    orr_results *r = NULL;
    if (orr_results_open(path, "killed", true, &r, &err) != ORR_OK)
        _exit(1);
    for (uint32_t i = 0;; i++) {
        char key[32];
        snprintf(key, sizeof key, "family %u", i);
        if (add_candidate(r, key, i, &err) != ORR_OK || add_plan(r, i, &err) != ORR_OK ||
            add_family(r, key, i, &err) != ORR_OK)
            _exit(2);
        if (i % 50 == 49 &&
            (orr_results_flush(r, &err) != ORR_OK || write(to, &i, sizeof i) != sizeof i))
            _exit(3);
    }
}

/* Everything that was said to be committed is there; what came after is there whole or not at all.
 */
static void check_after_kill(uint32_t last)
{
    orr_error err = {0};
    orr_results *r = open_results("killed", true);
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_explored *all = NULL;
    uint32_t n = 0, i = 0;
    assert_int_equal(orr_results_candidates(r, arena, &all, &n, &err), ORR_OK);
    assert_true(n > last);
    for (;; i++) {
        char key[32];
        snprintf(key, sizeof key, "family %u", i);
        const bool plan = has_plan(r, i);
        if (has_family(r, key, i))
            assert_true(plan);
        else
            break;
    }
    assert_true(i > last);
    assert_int_equal(n, i);
    orr_arena_free(arena);
    close_results(r);
    assert_int_equal(ask("SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    assert_int_equal(ask("SELECT count(*) FROM search"), 1);
}

static void killed_in_the_middle(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        int ends[2];
        uint32_t last = 0, said = 0;
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            write_for_ever(ends[1]);
        }
        close(ends[1]);
        assert_int_equal(read(ends[0], &last, sizeof last), sizeof last);
        usleep((useconds_t)(1000 * (7 * round % 29)));
        kill(child, SIGKILL);
        while (read(ends[0], &said, sizeof said) == sizeof said)
            last = said;
        int how = 0;
        waitpid(child, &how, 0);
        assert_true(WIFSIGNALED(how));
        close(ends[0]);
        check_after_kill(last);
    }
}

/* Reads as long as the pipe is open: counts never go down, and families have their plans. */
static void read_beside(int until)
{
    orr_database *db = NULL;
    orr_query *query = NULL;
    int64_t before = 0, looks = 0;
    char byte;
    bool ended = false;
    fcntl(until, F_SETFL, O_NONBLOCK);
    if (orr_database_open_readonly(path, &db, NULL) != ORR_OK ||
        orr_query_new(
            db, "SELECT count(*), (SELECT count(*) FROM family) FROM plan WHERE family NOT NULL",
            &query, NULL) != ORR_OK)
        _exit(1);
    for (;; looks++) {
        bool row = false;
        if (orr_query_step(query, &row, NULL) != ORR_OK || !row)
            _exit(2);
        const int64_t plans = orr_query_int(query, 0), families = orr_query_int(query, 1);
        orr_query_reset(query);
        if (plans < before || families > plans)
            _exit(3);
        before = plans;
        ended |= read(until, &byte, 1) == 1;
        if (ended && looks > 2)
            _exit(before > 0 ? 0 : 4);
        usleep(1000);
    }
}

static void readers_beside_a_writer(void **state)
{
    (void)state;
    enum { READERS = 2, FAMILIES = 600 };
    orr_error err = {0};
    pid_t readers[READERS];
    int ends[READERS][2];
    close_results(open_results("a", false));
    for (int k = 0; k < READERS; k++) {
        assert_int_equal(pipe(ends[k]), 0);
        readers[k] = fork();
        if (readers[k] == 0) {
            dup2(ends[k][0], STDIN_FILENO);
            signal(SIGALRM, SIG_DFL);
            alarm(1800);
            read_beside(STDIN_FILENO);
        }
    }
    orr_results *r = open_results("a", true);
    for (uint32_t i = 0; i < FAMILIES; i++) {
        char key[32];
        snprintf(key, sizeof key, "family %u", i);
        assert_int_equal(add_candidate(r, key, i, &err), ORR_OK);
        assert_int_equal(add_family(r, key, i, &err), ORR_OK);
        if (i % 10 == 0) {
            assert_int_equal(orr_results_flush(r, &err), ORR_OK);
            for (int k = 0; k < READERS; k++)
                if (i % 50 == 0)
                    usleep(2000);
        }
    }
    close_results(r);
    for (int k = 0; k < READERS; k++) {
        int how = 0;
        assert_int_equal(write(ends[k][1], "x", 1), 1);
        waitpid(readers[k], &how, 0);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
        close(ends[k][0]);
        close(ends[k][1]);
    }
}

static void processes_that_open_at_once(void **state)
{
    (void)state;
    enum { PROCESSES = 6 };
    pid_t children[PROCESSES];
    for (int k = 0; k < PROCESSES; k++) {
        children[k] = fork();
        if (children[k] == 0) {
            char question[16];
            orr_results *r = NULL;
            orr_error err = {0};
            snprintf(question, sizeof question, "q%d", k);
            orr_status status = orr_results_open(path, question, true, &r, &err);
            for (uint32_t i = 0; status == ORR_OK && i < 40; i++)
                status = add_plan(r, i, &err);
            if (status == ORR_OK)
                status = orr_results_close(r, &err);
            if (status != ORR_OK)
                fprintf(stderr, "%s\n", err.text);
            _exit(status == ORR_OK ? 0 : 1);
        }
    }
    for (int k = 0; k < PROCESSES; k++) {
        int how = 0;
        waitpid(children[k], &how, 0);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    assert_int_equal(ask("SELECT count(*) FROM plan"), 40 * PROCESSES);
    assert_int_equal(ask("SELECT count(*) FROM search"), PROCESSES);
}

/* --- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 200 };
typedef struct hand {
    orr_results *results;
    uint32_t first;
    bool failed;
} hand;

static void *work(void *ctx)
{
    hand *h = ctx;
    orr_explored got;
    for (uint32_t i = h->first; i < h->first + EACH; i++) {
        char key[32], text[TEXT_ROOM];
        snprintf(key, sizeof key, "family %u", i);
        h->failed |= add_candidate(h->results, key, i, NULL) != ORR_OK ||
                     add_family(h->results, key, i, NULL) != ORR_OK ||
                     orr_results_plan(h->results, plan_text(i, text), &got) ||
                     add_plan(h->results, i, NULL) != ORR_OK ||
                     !orr_results_plan(h->results, plan_text(i, text), &got) ||
                     (i % 64 == 0 && orr_results_flush(h->results, NULL) != ORR_OK);
    }
    return NULL;
}

static void threads_take_turns(void **state)
{
    (void)state;
    hand hands[THREADS];
    pthread_t threads[THREADS];
    orr_results *r = open_results("a", false);
    for (uint32_t k = 0; k < THREADS; k++) {
        hands[k] = (hand){.results = r, .first = k * EACH};
        assert_int_equal(pthread_create(&threads[k], NULL, work, &hands[k]), 0);
    }
    for (uint32_t k = 0; k < THREADS; k++) {
        pthread_join(threads[k], NULL);
        assert_false(hands[k].failed);
    }
    close_results(r);
    assert_int_equal(ask("SELECT count(step_ns) FROM plan"), THREADS * EACH);
}

/* --- failures -------------------------------------------------------------------------------- */

static void another_holds_the_file(void **state)
{
    (void)state;
    const orr_database_schema any = {.application = 0x4f727279, .version = 1, .schema = ""};
    orr_error err = {0};
    orr_database *other = NULL;
    orr_results *r = open_results("a", false);
    assert_int_equal(orr_database_open(path, &any, &other, &err), ORR_OK);
    assert_int_equal(orr_database_begin(other, &err), ORR_OK);
    assert_int_equal(add_plan(r, 1, &err), ORR_OK);
    usleep(1600 * 1000); /* the writer tried, and could not */
    assert_int_equal(add_plan(r, 2, &err), ORR_OK);
    orr_database_roll_back(other);
    orr_database_close(other);
    close_results(r);
    assert_int_equal(ask("SELECT count(*) FROM plan"), 2);
}

static void columns_that_came_since(void **state)
{
    (void)state;
    orr_error err = {0};
    const orr_database_schema any = {.application = 0x4f727279, .version = 1, .schema = ""};
    orr_database *db = NULL;
    orr_results *r = open_results("a", false);
    assert_int_equal(add_plan(r, 1, &err), ORR_OK);
    close_results(r);
    assert_int_equal(orr_database_open(path, &any, &db, &err), ORR_OK);
    assert_int_equal(orr_database_exec(db, "ALTER TABLE plan DROP COLUMN prefetch", &err), ORR_OK);
    orr_database_close(db);
    r = open_results("a", true);
    assert_true(has_plan(r, 1));
    assert_int_equal(add_plan(r, 2, &err), ORR_OK);
    close_results(r);
    assert_int_equal(ask("SELECT count(*) FROM plan WHERE prefetch IS NULL OR prefetch > 0"), 2);
}

static orr_status use(orr_error *err)
{
    orr_results *r = NULL;
    const orr_explored *all = NULL;
    uint32_t n = 0;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_status status = arena != NULL ? ORR_OK : ORR_NO_MEMORY;
    if (status == ORR_OK)
        status = orr_results_open(path, "a", true, &r, err);
    if (status == ORR_OK)
        status = orr_results_note(r, "model", "a model with a rather long name", err);
    if (status == ORR_OK)
        status = add_candidate(r, "f", 1, err);
    if (status == ORR_OK)
        status = add_family(r, "f", 1, err);
    if (status == ORR_OK)
        status = orr_results_candidates(r, arena, &all, &n, err);
    if (status == ORR_OK && n != 1)
        status = ORR_INVALID;
    const orr_status closed = orr_results_close(r, err);
    orr_arena_free(arena);
    return status != ORR_OK ? status : closed;
}

/* Whichever allocation fails, SQLite's own too. */
static void memory_runs_out(void **state)
{
    (void)state;
    close_results(open_results("a", false));
    uint64_t failures = 0;
    for (uint64_t nth = 1;; nth += nth < 100 ? 1 : 7) {
        orr_error err = {0};
        orr_alloc_fail_from(nth);
        const orr_status status = use(&err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        /* SQLite tells some of these as an error of the disk. */
        if (status != ORR_NO_MEMORY && status != ORR_IO)
            fail_msg("allocation %u: %s", (unsigned)nth, err.text);
        failures += status == ORR_NO_MEMORY;
        assert_true(nth < 100000);
    }
    assert_true(failures > 50);
    assert_int_equal(ask("SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
}

/* Told by who adds, kept, and written once there is room. */
static void full_disk(void **state)
{
    (void)state;
    orr_error err = {0};
    orr_results *r = open_results("a", false);
    struct rlimit before, small = {.rlim_cur = 200 * 1000};
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(add_plan(r, i, &err), ORR_OK);
    assert_int_equal(orr_results_flush(r, &err), ORR_IO);
    assert_non_null(strstr(err.text, path));
    orr_status status = ORR_OK;
    for (uint32_t i = 1000; i < 37000 && status == ORR_OK; i++) {
        usleep(50 * 1000);
        err = (orr_error){0};
        status = add_plan(r, i, &err); /* the writer tried in vain meanwhile */
    }
    assert_int_equal(status, ORR_IO);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(ask("SELECT count(*) FROM plan"), 0);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_true(has_plan(r, 999));
    close_results(r);
    assert_true(ask("SELECT count(*) FROM plan") > 1000);
}

static void what_is_no_results_file(void **state)
{
    (void)state;
    orr_results *r = NULL;
    orr_error err = {0};
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 1000; i++)
        fputs("this is no database\n", f);
    fclose(f);
    assert_int_equal(orr_results_open(path, "a", true, &r, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(orr_results_open("/no/such/folder/x.db", "a", true, &r, &err), ORR_IO);
    assert_null(r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_folder)

int main(void)
{
    if (!lite_memory_use())
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(what_was_added_is_found),
        TEST(questions_stand_beside_one_another),
        TEST(candidates),
        TEST(people_can_ask),
        TEST(columns_are_stable),
        TEST(best_that_fits),
        TEST(best_by_objective),
        TEST(written_a_second_later),
        TEST(killed_in_the_middle),
        TEST(readers_beside_a_writer),
        TEST(processes_that_open_at_once),
        TEST(threads_take_turns),
        TEST(another_holds_the_file),
        TEST(columns_that_came_since),
        TEST(full_disk),
        TEST(memory_runs_out),
        TEST(what_is_no_results_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
