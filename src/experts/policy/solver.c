/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/solver.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MOST_WORDS = 10, POLL_NS = 2000000 };

/* Words of the command; "MODEL", "ANSWER" and "LIMIT" stand for what they say. */
static const char *const solvers[][MOST_WORDS] = {
    {"cbc", "MODEL", "sec", "LIMIT", "ratio", "0", "solve", "solution", "ANSWER", NULL},
    {"highs", "--model_file", "MODEL", "--time_limit", "LIMIT", "--solution_file", "ANSWER", NULL},
};
enum { SOLVERS = sizeof solvers / sizeof *solvers };

/* Starts a program whose output nobody reads; returns an errno. */
static int start(const char *const *words, const char *model, const char *answer, uint32_t limit_s,
                 pid_t *ret)
{
    char limit[16], *argv[MOST_WORDS] = {NULL};
    posix_spawn_file_actions_t actions;
    (void)snprintf(limit, sizeof limit, "%u", limit_s);
    for (int i = 0; words[i] != NULL; i++)
        argv[i] = (char *)(strcmp(words[i], "MODEL") == 0    ? model
                           : strcmp(words[i], "ANSWER") == 0 ? answer
                           : strcmp(words[i], "LIMIT") == 0  ? limit
                                                             : words[i]);
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0)
        return failed;
    for (int fd = 0; fd < 3 && failed == 0; fd++)
        failed = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null",
                                                  fd == 0 ? O_RDONLY : O_WRONLY, 0);
    if (failed == 0)
        failed = posix_spawnp(ret, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Waits for the end; a solver that runs on far beyond its limit is ended. */
static orr_status wait_for(pid_t pid, const char *name, uint32_t limit_s, const volatile bool *stop,
                           orr_error *err)
{
    static const struct timespec pause = {0, POLL_NS};
    const uint64_t most = (2 * (uint64_t)limit_s + 1) * (1000000000 / POLL_NS);
    int end = 0;
    for (uint64_t polls = 0; waitpid(pid, &end, WNOHANG) == 0; polls++) {
        const bool stopped = stop != NULL && *stop;
        if (stopped || polls > most) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, &end, 0);
            return stopped ? orr_fail(err, ORR_CANCELED, "%s was stopped", name)
                           : orr_fail(err, ORR_IO, "%s did not end within %u s", name, 2 * limit_s);
        }
        (void)nanosleep(&pause, NULL);
    }
    if (!WIFEXITED(end) || WEXITSTATUS(end) != 0)
        return orr_fail(err, ORR_IO, "%s failed, status %d", name, end);
    return ORR_OK;
}

orr_status orr_solver_run(const char *model, const char *answer, uint32_t limit_s,
                          const volatile bool *stop, orr_error *err)
{
    for (int i = 0; i < SOLVERS; i++) {
        pid_t pid;
        const int failed = start(solvers[i], model, answer, limit_s, &pid);
        if (failed == 0)
            return wait_for(pid, solvers[i][0], limit_s, stop, err);
        if (failed != ENOENT && failed != EACCES)
            return orr_fail(err, ORR_IO, "%s cannot be started: %s", solvers[i][0],
                            strerror(failed));
    }
    return orr_fail(err, ORR_UNSUPPORTED,
                    "policy 'ilp' needs a solver: neither cbc nor highs is on the PATH");
}
