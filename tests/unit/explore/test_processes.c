/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/transport/transport.h"
#include "explore/search/processes.h"

/* Ranks are threads here, over shared memory; under mpirun this program is run again as each rank.
 */
enum { RANKS_MAX = 5 };
static const int64_t patient_ns = INT64_C(60) * 1000 * 1000 * 1000;
static const char *self_path;

/* Three rendezvous of a search: each has found something, or nothing, or is done earlier. */
static const char *meet(orr_processes *share)
{
    const uint32_t rank = orr_processes_rank(share), ranks = orr_processes_count(share);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {0};
    const char *wrong = NULL;
    for (uint32_t round = 0; round < 4 && wrong == NULL; round++) {
        double value = round == 0 ? INFINITY : 100.0 - rank - round;
        bool more = rank >= round && rank + 1 == ranks;
        if (orr_processes_allreduce_min(share, &value, &more, &err) != ORR_OK)
            wrong = "least failed";
        else if (value != (round == 0 ? INFINITY : 100.0 - (ranks - 1) - round) ||
                 more != (ranks - 1 >= round))
            wrong = "least";
        char mine[64] = "";
        size_t n = 0, at = 0;
        const void *all = NULL;
        memset(mine, 'a' + (int)rank, rank * 3); /* the first has nothing to say */
        if (wrong == NULL &&
            orr_processes_allgather(share, mine, rank * 3, arena, &all, &n, &err) != ORR_OK)
            wrong = "gather failed";
        for (uint32_t r = 0; r < ranks && wrong == NULL; r++)
            for (uint32_t i = 0; i < 3 * r; i++, at++)
                if (at >= n || ((const char *)all)[at] != 'a' + (int)r)
                    wrong = "gather";
        if (wrong == NULL && n != at)
            wrong = "gather is too long";
    }
    orr_arena_free(arena);
    return wrong;
}

typedef struct guest {
    orr_transport_shm *shm;
    uint32_t rank;
    bool gives_up;
    const char *wrong;
} guest;

static void *take_part(void *ctx)
{
    guest *g = ctx;
    orr_transport *t = NULL;
    orr_processes *share = NULL;
    orr_error err = {0};
    if (orr_transport_shm_attach(g->shm, g->rank, patient_ns, &t, &err) != ORR_OK)
        return NULL;
    if (orr_processes_over_transport(t, &share, &err) != ORR_OK)
        g->wrong = "over";
    else if (g->gives_up)
        orr_processes_abort(share);
    else
        g->wrong = meet(share);
    orr_processes_close(share);
    t->close(t);
    return NULL;
}

static void run(uint32_t ranks, uint32_t who_gives_up, guest guests[RANKS_MAX])
{
    pthread_t threads[RANKS_MAX];
    orr_error err = {0};
    orr_transport_shm *shm = NULL;
    assert_int_equal(orr_transport_shm_new(ranks, &shm, &err), ORR_OK);
    for (uint32_t r = 0; r < ranks; r++) {
        guests[r] =
            (guest){.shm = shm, .rank = r, .gives_up = r == who_gives_up, .wrong = "never ran"};
        assert_int_equal(pthread_create(&threads[r], NULL, take_part, &guests[r]), 0);
    }
    for (uint32_t r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    orr_transport_shm_free(shm);
}

static void all_know_the_same(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++) {
        guest guests[RANKS_MAX];
        run(ranks, RANKS_MAX, guests);
        for (uint32_t r = 0; r < ranks; r++)
            assert_ptr_equal(guests[r].wrong, NULL);
    }
}

static void nobody_waits_for_who_gave_up(void **state)
{
    (void)state;
    guest guests[RANKS_MAX];
    run(3, 1, guests);
    assert_string_equal(guests[0].wrong, "least failed");
    assert_string_equal(guests[2].wrong, "least failed");
}

static void alone(void **state)
{
    (void)state;
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    orr_processes *share = NULL;
    orr_error err = {0};
    for (size_t i = 0; i < 3; i++)
        unsetenv(names[i]);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(orr_processes_open(&share, &err), ORR_OK);
        assert_int_equal(orr_processes_rank(share), 0);
        assert_int_equal(orr_processes_count(share), 1);
        assert_ptr_equal(meet(share), NULL);
        orr_processes_close(share);
    }
    orr_processes_close(NULL);
}

static void memory_runs_out(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        orr_processes *share = NULL;
        orr_error err = {0};
        double value = 1;
        bool more = false;
        const void *all = NULL;
        size_t n = 0;
        orr_arena *arena = orr_arena_new(0, 0);
        orr_alloc_fail_from(nth);
        orr_status status = orr_processes_open(&share, &err);
        if (status == ORR_OK)
            status = orr_processes_allreduce_min(share, &value, &more, &err);
        if (status == ORR_OK)
            status = orr_processes_allgather(share, "abc", 3, arena, &all, &n, &err);
        orr_alloc_fail_from(0);
        orr_processes_close(share);
        orr_arena_free(arena);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(nth < 100);
    }
}

/* Run by mpirun: `test_plan_share mpi`. */
static int run_under_mpi(void)
{
    orr_processes *share = NULL;
    orr_error err = {0};
    const char *wrong = NULL;
    const orr_status status = orr_processes_open(&share, &err);
    if (status == ORR_OK)
        wrong = meet(share);
    printf("[%s] rank %u of %u: %s\n", orr_status_name(status),
           share != NULL ? orr_processes_rank(share) : 0,
           share != NULL ? orr_processes_count(share) : 0, wrong != NULL ? wrong : err.text);
    orr_processes_close(share);
    return status == ORR_OK && wrong == NULL ? 0 : 3;
}

static void by_mpirun(void **state)
{
    (void)state;
    static char text[1 << 16];
    char command[4096];
    const char *build = getenv("ORRERY_BUILD");
    if (build == NULL || system("command -v mpirun >/dev/null 2>&1") != 0)
        skip();
    snprintf(command, sizeof command, "%s/src/io/orrery_mpi.so", build);
    if (access(command, R_OK) != 0)
        skip();
    setenv("ORRERY_MPI_PLUGIN", command, 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* Open MPI leaks its own */
    snprintf(command, sizeof command, "timeout 1800 mpirun --oversubscribe -np 3 '%s' mpi 2>&1",
             self_path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    const int code = pclose(f);
    for (uint32_t r = 0; r < 3; r++) {
        char want[64];
        snprintf(want, sizeof want, "[OK] rank %u of 3: \n", r);
        if (code != 0 || strstr(text, want) == NULL)
            fail_msg("mpirun: %s", text);
    }
}

int main(int argc, char **argv)
{
    self_path = argv[0];
    if (argc == 2 && strcmp(argv[1], "mpi") == 0)
        return run_under_mpi();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_know_the_same), cmocka_unit_test(nobody_waits_for_who_gave_up),
        cmocka_unit_test(alone), cmocka_unit_test(memory_runs_out), cmocka_unit_test(by_mpirun)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
