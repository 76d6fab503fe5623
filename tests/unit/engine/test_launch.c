/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/ranks/communicator.h"
#include "engine/ranks/launch.h"

enum { RANKS = 4, ROUNDS = 40, NUMBERS = 50000 };
static const int64_t patient_ns = INT64_C(1800) * 1000 * 1000 * 1000;
static const int64_t short_ns = INT64_C(500) * 1000 * 1000;
static const char *self_path;

/* What a rank does instead of its part, in the middle of the work. */
typedef enum deed { NOTHING, FAIL, DIE, CRASH, STOP, SLOW, LEAVE, ANSWER_OTHERS } deed;
typedef struct work {
    deed deed;
    uint32_t who;
    _Atomic int32_t *pids; /* shape (RANKS), shared */
} work;

static orr_status misbehave(deed what, orr_error *err)
{
    const struct timespec late = {.tv_nsec = 100 * 1000 * 1000};
    switch (what) {
    case FAIL:
        return orr_fail(err, ORR_PARSE, "a file is broken");
    case DIE:
        raise(SIGKILL);
        break;
    case CRASH:
        signal(SIGABRT, SIG_DFL);
        raise(SIGABRT);
        break;
    case STOP:
        raise(SIGSTOP);
        break;
    case SLOW:
        nanosleep(&late, NULL);
        break;
    case LEAVE:
        return ORR_OK;
    default:
        break;
    }
    return ORR_OK;
}

static orr_status sum_for_long(void *ctx, orr_transport *t, orr_error *err)
{
    const work *w = ctx;
    orr_arena *arena = orr_arena_new(0, 0);
    uint32_t members[RANKS] = {0, 1, 2, 3};
    orr_communicator *c = NULL;
    orr_status status = orr_communicator_make(t, members, t->ranks, 1, 0, arena, &c, err);
    float *numbers = orr_arena_array(arena, float, NUMBERS);
    if (w->pids != NULL)
        w->pids[t->rank] = getpid();
    for (int round = 0; status == ORR_OK && round < ROUNDS; round++) {
        if (w->who == t->rank && round == ROUNDS / 2) {
            status = misbehave(w->deed, err);
            if (w->deed == LEAVE || status != ORR_OK)
                break;
        }
        for (int i = 0; i < NUMBERS; i++)
            numbers[i] = (float)(t->rank + 1);
        status = orr_all_reduce(c, numbers, numbers, NUMBERS, ORR_DTYPE_FP32, err);
        const float want = (float)(t->ranks * (t->ranks + 1) / 2);
        for (int i = 0; status == ORR_OK && i < NUMBERS; i++)
            if (numbers[i] != want)
                status = orr_fail(err, ORR_INVALID, "the sum is %g", (double)numbers[i]);
    }
    orr_arena_free(arena);
    return status;
}

/* Nothing is left: no child, dead or alive. */
static void assert_no_children(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void run(orr_ranks_kind kind, deed what, uint32_t who, int64_t deadline_ns, orr_status want,
                const char *text)
{
    work w = {.deed = what, .who = who};
    orr_error err = {0};
    const orr_status status = orr_ranks_run(RANKS, kind, deadline_ns, sum_for_long, &w, &err);
    if (status != want || (text != NULL && strstr(err.text, text) == NULL))
        fail_msg("%s: %s, not %s", orr_status_name(status), err.text, text);
    assert_no_children();
}

static void works(void **state)
{
    (void)state;
    run(ORR_RANKS_SHM, NOTHING, 0, patient_ns, ORR_OK, NULL);
    run(ORR_RANKS_TCP, NOTHING, 0, patient_ns, ORR_OK, NULL);
    run(ORR_RANKS_SHM, SLOW, 2, patient_ns, ORR_OK, NULL);
}

static void failures(void **state)
{
    (void)state;
    for (orr_ranks_kind kind = ORR_RANKS_SHM; kind <= ORR_RANKS_TCP; kind++) {
        run(kind, FAIL, 2, patient_ns, ORR_PARSE, "rank 2: a file is broken");
        run(kind, FAIL, 0, patient_ns, ORR_PARSE, "rank 0: a file is broken");
        run(kind, DIE, 3, patient_ns, ORR_IO, "rank 3 was killed by signal 9");
        run(kind, CRASH, 1, patient_ns, ORR_IO, "rank 1 was killed by signal 6");
        run(kind, LEAVE, 1, patient_ns, ORR_IO, "rank 1 is gone");
    }
}

/* A rank that hangs is left behind, and killed after a grace. */
static void hang(void **state)
{
    (void)state;
    run(ORR_RANKS_SHM, STOP, 2, short_ns, ORR_IO, "said nothing for 0.5 s");
}

static void one_rank(void **state)
{
    (void)state;
    work w = {0};
    orr_error err = {0};
    assert_int_equal(orr_ranks_run(1, ORR_RANKS_AUTO, 0, sum_for_long, &w, &err), ORR_OK);
    assert_int_equal(orr_ranks_run(0, ORR_RANKS_SHM, 0, sum_for_long, &w, &err), ORR_OK);
    assert_int_equal(orr_ranks_run(1 << 20, ORR_RANKS_SHM, 0, sum_for_long, &w, &err), ORR_LIMIT);
}

static orr_status wait_forever(void *ctx, orr_transport *t, orr_error *err)
{
    ((work *)ctx)->pids[t->rank] = getpid();
    for (int i = 0; i < 600; i++)
        sleep(1);
    return orr_fail(err, ORR_CANCELED, "nobody ended this rank");
}

static bool ended(pid_t pid)
{
    for (int i = 0; i < 360000; i++) {
        const struct timespec while_ = {.tv_nsec = 5 * 1000 * 1000};
        char path[40], line[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        FILE *f = fopen(path, "r");
        if (f == NULL)
            return true;
        const bool read = fgets(line, sizeof line, f) != NULL;
        fclose(f);
        const char *state = strrchr(line, ')');
        if (!read || state == NULL || state[2] == 'Z' || state[2] == 'X')
            return true;
        nanosleep(&while_, NULL);
    }
    return false;
}

/* Whatever ends the first process ends them all. */
static void parent_dies(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGKILL};
    for (size_t s = 0; s < sizeof signals / sizeof *signals; s++) {
        _Atomic int32_t *pids =
            mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        work w = {.pids = pids};
        const pid_t parent = fork();
        if (parent == 0) {
            signal(SIGINT, SIG_DFL);
            _exit(orr_ranks_run(RANKS, ORR_RANKS_SHM, 0, wait_forever, &w, NULL) == ORR_OK ? 0 : 1);
        }
        for (int i = 0; i < RANKS; i++)
            while (pids[i] == 0)
                usleep(1000);
        kill(parent, signals[s]);
        int how = 0;
        waitpid(parent, &how, 0);
        assert_true(WIFSIGNALED(how));
        assert_int_equal(WTERMSIG(how), signals[s]);
        for (int i = 1; i < RANKS; i++)
            assert_true(ended(pids[i]));
        munmap((void *)pids, 4096);
    }
}

static void launched(void **state)
{
    (void)state;
    uint32_t rank = 9, n = 9;
    static const char *const names[] = {
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
        "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < 6; i++)
        unsetenv(names[i]);
    assert_false(orr_launcher_ranks(&rank, &n));
    setenv("SLURM_PROCID", "0", 1); /* of a batch script */
    assert_false(orr_launcher_ranks(&rank, &n));
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    setenv("SLURM_PROCID", "3", 1);
    assert_true(orr_launcher_ranks(&rank, &n));
    assert_int_equal(rank, 3);
    assert_int_equal(n, 4);
    setenv("SLURM_PROCID", "4", 1);
    assert_false(orr_launcher_ranks(&rank, &n));
    for (size_t i = 0; i < 6; i++)
        unsetenv(names[i]);
}

/* Run by mpirun: `test_engine_ranks mpi WHAT WHO`; prints what came out. */
static int run_under_mpi(char **args)
{
    work w = {.deed = (deed)strtol(args[0], NULL, 10), .who = (uint32_t)strtoul(args[1], NULL, 10)};
    orr_error err = {0};
    const orr_status status =
        orr_ranks_run(0, ORR_RANKS_AUTO, patient_ns, sum_for_long, &w, &err);
    printf("[%s] %s\n", orr_status_name(status), err.text);
    return status == ORR_OK ? 0 : 3;
}

/* What mpirun printed, all ranks together; NULL: it cannot be used here. */
static const char *mpirun(deed what, uint32_t who, char *text, size_t room)
{
    const char *build = getenv("ORRERY_BUILD");
    char command[4096];
    if (build == NULL || system("command -v mpirun >/dev/null 2>&1") != 0)
        return NULL;
    snprintf(command, sizeof command, "%s/src/io/orrery_mpi.so", build);
    if (access(command, R_OK) != 0)
        return NULL;
    setenv("ORRERY_MPI_PLUGIN", command, 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    snprintf(command, sizeof command, "timeout 1800 mpirun --oversubscribe -np 2 '%s' mpi %d %u 2>&1",
             self_path, (int)what, who);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, room - 1, f);
    text[n] = '\0';
    pclose(f);
    return text;
}

static void by_mpirun(void **state)
{
    (void)state;
    static char text[1 << 16];
    if (mpirun(NOTHING, 9, text, sizeof text) == NULL)
        skip();
    const char *first = strstr(text, "[OK]");
    if (first == NULL || strstr(first + 1, "[OK]") == NULL)
        fail_msg("mpirun: %s", text);
    mpirun(FAIL, 1, text, sizeof text);
    if (strstr(text, "[PARSE] a file is broken") == NULL ||
        strstr(text, "[IO] rank 1 gave up") == NULL)
        fail_msg("mpirun: %s", text);
}

int main(int argc, char **argv)
{
    self_path = argv[0];
    if (argc == 4 && strcmp(argv[1], "mpi") == 0)
        return run_under_mpi(argv + 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launched),  cmocka_unit_test(works),    cmocka_unit_test(failures),
        cmocka_unit_test(hang),      cmocka_unit_test(one_rank), cmocka_unit_test(parent_dies),
        cmocka_unit_test(by_mpirun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
