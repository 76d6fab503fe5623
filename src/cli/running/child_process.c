/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/running/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reports of thousands of steps fit while nobody reads. */
enum { PIPE_BYTES = 1 << 20 };
#define FIRST_PAUSE_NS INT64_C(100000000)
#define WINDOW_NS      INT64_C(60000000000)

typedef struct pipes {
    int reports[2], errors[2];
} pipes;

static void close_all(const pipes *p)
{
    for (int i = 0; i < 2; i++) {
        if (p->reports[i] >= 0)
            close(p->reports[i]);
        if (p->errors[i] >= 0)
            close(p->errors[i]);
    }
}

static orr_status open_pipes(pipes *ret, orr_error *err)
{
    *ret = (pipes){{-1, -1}, {-1, -1}};
    if (pipe2(ret->reports, O_CLOEXEC) != 0 || pipe2(ret->errors, O_CLOEXEC) != 0) {
        close_all(ret);
        return orr_fail(err, ORR_IO, "no pipe to another process: %s", strerror(errno));
    }
    (void)fcntl(ret->reports[0], F_SETPIPE_SZ, PIPE_BYTES); /* as much as one may have */
    fcntl(ret->reports[0], F_SETFL, O_NONBLOCK);
    fcntl(ret->errors[0], F_SETFL, O_NONBLOCK);
    return ORR_OK;
}

/* The new process, up to its command line. */
static _Noreturn void become(const char *const *words, const pipes *p, pid_t parent)
{
    char text[16];
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before it was watched */
        _exit(1);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup2(p->errors[1], STDERR_FILENO);
    fcntl(p->reports[1], F_SETFD, 0);
    snprintf(text, sizeof text, "%d", p->reports[1]);
    setenv(ORR_CHILD_REPORT_VARIABLE, text, 1);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv("/proc/self/exe", (char *const *)words);
    fprintf(stderr, "orrery: /proc/self/exe: %s\n", strerror(errno));
    fflush(stderr);
    _exit(1);
}

orr_status orr_child_start(orr_child *c, orr_error *err)
{
    pipes p;
    ORR_TRY(open_pipes(&p, err));
    const pid_t self = getpid();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        become(c->words, &p, self);
    if (pid < 0) {
        close_all(&p);
        return orr_fail(err, ORR_IO, "no other process: %s", strerror(errno));
    }
    setpgid(pid, pid);
    close(p.reports[1]);
    close(p.errors[1]);
    c->pid = pid;
    c->reports = p.reports[0];
    c->errors = p.errors[0];
    c->n_report = c->n_line = 0;
    c->said[0] = '\0';
    c->again_ns = 0;
    c->lives++;
    return ORR_OK;
}

static void hear_reports(orr_child *c, void (*told)(void *, orr_child *, const orr_child_report *),
                         void *ctx)
{
    for (;;) {
        const ssize_t n =
            read(c->reports, (char *)&c->report + c->n_report, sizeof c->report - c->n_report);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        c->n_report += (size_t)n;
        if (c->n_report == sizeof c->report) {
            c->n_report = 0;
            told(ctx, c, &c->report);
        }
    }
}

static void take_line(orr_child *c)
{
    static const char PREFIX[] = "orrery: ";
    c->line[c->n_line] = '\0';
    if (strncmp(c->line, PREFIX, sizeof PREFIX - 1) == 0)
        snprintf(c->said, sizeof c->said, "%s", c->line + sizeof PREFIX - 1);
    else if (c->n_line > 0)
        fprintf(stderr, "%s: %s\n", c->name, c->line);
    c->n_line = 0;
}

static void hear_errors(orr_child *c)
{
    char buffer[1024];
    for (;;) {
        const ssize_t n = read(c->errors, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        for (ssize_t i = 0; i < n; i++) {
            if (buffer[i] == '\n' || c->n_line == sizeof c->line - 1)
                take_line(c);
            if (buffer[i] != '\n')
                c->line[c->n_line++] = buffer[i];
        }
    }
}

void orr_child_read(orr_child *c, void (*told)(void *, orr_child *, const orr_child_report *),
                    void *ctx)
{
    if (c->pid == 0)
        return;
    hear_reports(c, told, ctx);
    hear_errors(c);
}

bool orr_child_ended(orr_child *c, void (*told)(void *, orr_child *, const orr_child_report *),
                     void *ctx)
{
    siginfo_t info = {0};
    if (c->pid == 0 || waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return false;
    kill(-c->pid, SIGKILL); /* ranks that it left behind; while its number is still its own */
    while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR)
        continue;
    orr_child_read(c, told, ctx);
    take_line(c);
    close(c->reports);
    close(c->errors);
    c->pid = 0;
    return true;
}

void orr_child_signal(const orr_child *c, int signal_number)
{
    if (c->pid > 0)
        kill(c->pid, signal_number);
}

static void no_more(void *ctx, orr_child *c, const orr_child_report *report)
{
    (void)ctx, (void)c, (void)report;
}

void orr_child_kill(orr_child *c)
{
    c->again_ns = 0;
    if (c->pid == 0)
        return;
    kill(-c->pid, SIGKILL);
    while (!orr_child_ended(c, no_more, NULL))
        usleep(1000);
}

bool orr_child_schedule_restart(orr_child *c, int64_t now_ns)
{
    uint32_t recent = 0;
    for (uint32_t i = 0; i < ORR_CHILD_FAILURES && i < c->failures; i++)
        recent += now_ns - c->failed_ns[i] < WINDOW_NS;
    c->again_ns = 0;
    if (recent == ORR_CHILD_FAILURES)
        return false;
    c->failed_ns[c->failures++ % ORR_CHILD_FAILURES] = now_ns;
    c->again_ns = now_ns + (FIRST_PAUSE_NS << recent);
    return true;
}

void orr_child_exit_text(const orr_child *c, char *text, size_t n)
{
    const bool why = c->said[0] != '\0';
    if (WIFSIGNALED(c->status))
        snprintf(text, n, "was killed by signal %d (%s)", WTERMSIG(c->status),
                 strsignal(WTERMSIG(c->status)));
    else
        snprintf(text, n, "ended with status %d%s%s", WEXITSTATUS(c->status), why ? ": " : "",
                 why ? c->said : "");
}
