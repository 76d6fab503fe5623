/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/running/replica_launcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parallel_for.h"
#include "cli/command/option.h"

/* All replicas of a team on this machine: a process that trains nothing starts the coordinator and
 * the replicas, starts again what dies, and tells what happens. */

#define SECOND_NS INT64_C(1000000000)
/* Once the team has ended nothing is waited for: a replica that is still there is stuck. */
#define LAST_WORDS_NS (30 * SECOND_NS)

static int64_t now_ns(void)
{
    return orr_clock_now_ns(&orr_clock_monotonic);
}

/* --- who is started, and how ------------------------------------------------------------------ */

static orr_status coordinator_words(launcher *l)
{
    const orr_settings *s = l->t->session.settings;
    const orr_settings said = {.format = "table",
                               .color = "auto",
                               .rank = -1,
                               .top = 10,
                               .listen = l->address[0] != '\0' ? l->address : "127.0.0.1:0",
                               .log = l->log,
                               .metrics = s->metrics,
                               .replicas = l->n,
                               .key = s->key,
                               .least = 1,
                               .failure_timeout = s->failure_timeout,
                               .quiet = true};
    l->coordinator.words =
        orr_options_to_argv(orr_command_find("coordinator"), &said, l->t->session.arena);
    return l->coordinator.words != NULL ? ORR_OK : orr_fail_memory(&l->t->session.err);
}

/* The same command, but for what one replica does for all of them. */
static orr_status replica_words(launcher *l, replica_slot *of)
{
    const orr_plan plan = orr_plan_with_defaults(&l->t->plan);
    const int cores = orr_core_count() / (int)(l->n * (uint32_t)orr_plan_ranks(&plan));
    orr_settings said = *l->t->session.settings;
    said.team = l->address;
    said.replica = of->child.name;
    said.metrics = said.output = NULL;
    said.format = "table";
    said.quiet = true;
    said.resume |= of->child.lives > 0 && said.save != NULL;
    if (said.threads == 0)
        said.threads = cores > 1 ? cores : 1;
    if (of != l->replica_slots)
        said.record = said.export_to = NULL;
    of->child.words = orr_options_to_argv(orr_command_find("train"), &said, l->t->session.arena);
    return of->child.words != NULL ? ORR_OK : orr_fail_memory(&l->t->session.err);
}

static void fail(launcher *l, int code)
{
    l->code = code;
    l->failed = true;
}

static bool is_due(const orr_child *c, int64_t now)
{
    return c->pid == 0 && c->again_ns > 0 && now >= c->again_ns;
}

static void start_due(launcher *l)
{
    orr_error *err = &l->t->session.err;
    const int64_t now = now_ns();
    if (is_due(&l->coordinator, now) &&
        (coordinator_words(l) != ORR_OK || orr_child_start(&l->coordinator, err) != ORR_OK))
        fail(l, EXIT_INPUT);
    for (uint32_t i = 0; i < l->n && !l->failed; i++)
        if (is_due(&l->replica_slots[i].child, now) &&
            (replica_words(l, &l->replica_slots[i]) != ORR_OK ||
             orr_child_start(&l->replica_slots[i].child, err) != ORR_OK))
            fail(l, EXIT_INPUT);
}

/* --- what they say ---------------------------------------------------------------------------- */

/* All that had a later state have died: the team goes on from the latest that is left, or from the
 * start. (One step back is none: its sums may have survived whoever told it.) */
static void take_epoch(launcher *l, const orr_team_event *event)
{
    const int64_t from = (int64_t)event->step;
    if (from + 1 >= l->last_step)
        return;
    orr_session_remark(&l->t->session, "steps %lld to %lld are lost with all that had made them",
                       (long long)from + 1, (long long)l->last_step);
    l->last_step = from;
    while (l->n_history > 0 && l->history[l->n_history - 1].step > from)
        l->n_history--;
}

/* The coordinator tells what happens to the team, a replica what only it knows. */
static bool is_told(const launcher *l, const orr_child *c, uint8_t kind)
{
    const orr_settings *s = l->t->session.settings;
    if (s->quiet || kind == ORR_TEAM_COMMIT)
        return false;
    return c == &l->coordinator || kind == ORR_TEAM_FETCH || kind == ORR_TEAM_CAUGHT_UP ||
           kind == ORR_TEAM_REFUSED || s->verbose;
}

/* Whoever is the first to have made it tells a step. */
static void take_step(launcher *l, const orr_train_step *step)
{
    if (step->step <= l->last_step || l->n_history == (size_t)l->t->options.steps)
        return;
    l->last_step = step->step;
    l->history[l->n_history++] = *step;
    l->told.retries += step->retries;
    orr_training_print_step(l->t, step);
}

static void heard(void *ctx, orr_child *c, const orr_child_report *r)
{
    launcher *l = ctx;
    replica_slot *of = c == &l->coordinator ? NULL : (replica_slot *)c;
    switch (r->kind) {
    case ORR_CHILD_REPORT_ADDRESS:
        if (l->address[0] == '\0')
            for (uint32_t i = 0; i < l->n; i++)
                l->replica_slots[i].child.again_ns = now_ns();
        memcpy(l->address, r->text, sizeof l->address);
        break;
    case ORR_CHILD_REPORT_EVENT:
        if (is_told(l, c, r->event.kind))
            orr_team_event_print(of != NULL ? c->name : NULL, &r->event, r->text);
        if (of == NULL && r->event.kind == ORR_TEAM_EPOCH)
            take_epoch(l, &r->event);
        break;
    case ORR_CHILD_REPORT_STEP:
        if (of != NULL)
            of->step = r->step.step;
        take_step(l, &r->step);
        break;
    case ORR_CHILD_REPORT_RESULT:
        if (of != NULL) {
            of->result = r->result;
            of->has_result = true;
            of->step = r->result.stopped ? of->step : l->t->options.steps;
        }
        break;
    default:
        break;
    }
}

/* --- who has ended ---------------------------------------------------------------------------- */

static bool starts_again(launcher *l, orr_child *c)
{
    char text[ORR_CHILD_LINE + 64];
    const int64_t now = now_ns();
    orr_child_exit_text(c, text, sizeof text);
    const bool again = orr_child_schedule_restart(c, now);
    if (again)
        orr_session_remark(&l->t->session, "%s %s; it is started again in %.1f s", c->name, text,
                           (double)(c->again_ns - now) / 1e9);
    else
        orr_session_remark(&l->t->session, "%s %s; it is given up, after %d failures in a minute",
                           c->name, text, ORR_CHILD_FAILURES + 1);
    return again;
}

/* What is wrong with the whole job is told once. */
static void fail_as(launcher *l, const orr_child *c, int code)
{
    char text[ORR_CHILD_LINE + 64];
    orr_child_exit_text(c, text, sizeof text);
    if (c->said[0] != '\0')
        (void)orr_fail(&l->t->session.err, ORR_IO, "%s", c->said);
    else
        (void)orr_fail(&l->t->session.err, ORR_IO, "%s %s", c->name, text);
    fail(l, code);
}

static void after_coordinator(launcher *l)
{
    orr_child *c = &l->coordinator;
    const bool exited = WIFEXITED(c->status);
    if (exited && WEXITSTATUS(c->status) == EXIT_DONE) {
        l->ended_ns = now_ns();
        for (uint32_t i = 0; i < l->n; i++)
            l->replica_slots[i].child.again_ns = 0;
    } else if (l->address[0] == '\0' && exited) {
        fail_as(l, c, WEXITSTATUS(c->status));
    } else if (l->address[0] == '\0' || !starts_again(l, c)) {
        fail_as(l, c, EXIT_INPUT);
    } else {
        l->told.coordinator_restarts++;
    }
}

/* Of the command line, of what is read: every replica would end so. */
static bool is_of_job(const launcher *l, const replica_slot *of, int code)
{
    return code == EXIT_USAGE || code == EXIT_INFEASIBLE ||
           (code == EXIT_INPUT && l->last_step == 0 && of->child.lives == 1);
}

static void after_replica(launcher *l, replica_slot *of)
{
    const int code = WIFEXITED(of->child.status) ? WEXITSTATUS(of->child.status) : -1;
    if (code == EXIT_DONE) { /* who stopped before the last step came late: the job has ended */
        of->state = of->has_result && of->result.stopped ? "not needed" : "done";
    } else if (code > 128) {
        of->state = "left";
    } else if (l->stop_signal != 0 || l->ended_ns > 0) {
        of->state = "died";
    } else if (is_of_job(l, of, code)) {
        fail_as(l, &of->child, code);
    } else if (starts_again(l, &of->child)) {
        l->told.restarts++;
        of->state = "died";
        of->has_result = false;
    } else {
        of->state = "given up";
    }
}

static void hear_all(launcher *l)
{
    orr_child_read(&l->coordinator, heard, l);
    if (orr_child_ended(&l->coordinator, heard, l))
        after_coordinator(l);
    for (uint32_t i = 0; i < l->n && !l->failed; i++) {
        orr_child_read(&l->replica_slots[i].child, heard, l);
        if (orr_child_ended(&l->replica_slots[i].child, heard, l))
            after_replica(l, &l->replica_slots[i]);
    }
}

/* --- until all is over ------------------------------------------------------------------------ */

/* Replicas finish their step and leave. The second time nobody is waited for. */
static void stop(launcher *l, int signal_number)
{
    if (l->stop_signal != 0 || l->address[0] == '\0')
        fail(l, 128 + signal_number);
    l->stop_signal = signal_number;
    for (uint32_t i = 0; i < l->n; i++) {
        l->replica_slots[i].child.again_ns = 0;
        orr_child_signal(&l->replica_slots[i].child, SIGTERM);
    }
}

static bool is_over(const launcher *l)
{
    uint32_t there = 0;
    for (uint32_t i = 0; i < l->n; i++)
        there += l->replica_slots[i].child.pid > 0 || l->replica_slots[i].child.again_ns > 0;
    return l->failed || (l->address[0] != '\0' && there == 0) ||
           (l->ended_ns > 0 && now_ns() > l->ended_ns + LAST_WORDS_NS);
}

static int patience_ms(const launcher *l)
{
    int64_t first = now_ns() + SECOND_NS;
    for (uint32_t i = 0; i <= l->n; i++) {
        const orr_child *c = i < l->n ? &l->replica_slots[i].child : &l->coordinator;
        if (c->pid == 0 && c->again_ns > 0 && c->again_ns < first)
            first = c->again_ns;
    }
    const int64_t left = first - now_ns();
    return left > 0 ? (int)((left + 999999) / 1000000) : 0;
}

static void wait_for_news(launcher *l)
{
    struct pollfd *p = l->polled;
    nfds_t n = 0;
    p[n++] = (struct pollfd){.fd = l->signals, .events = POLLIN};
    for (uint32_t i = 0; i <= l->n; i++) {
        const orr_child *c = i < l->n ? &l->replica_slots[i].child : &l->coordinator;
        if (c->pid == 0)
            continue;
        p[n++] = (struct pollfd){.fd = c->reports, .events = POLLIN};
        p[n++] = (struct pollfd){.fd = c->errors, .events = POLLIN};
    }
    (void)poll(p, n, patience_ms(l));
    struct signalfd_siginfo info;
    while (read(l->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            stop(l, (int)info.ssi_signo);
}

/* It ends by itself when all have left, which it may be about to say. */
static void end_coordinator(launcher *l)
{
    const int64_t begin = now_ns();
    bool asked = false;
    while (l->coordinator.pid > 0 && !l->failed && now_ns() < begin + 3 * SECOND_NS) {
        if (!asked && now_ns() > begin + SECOND_NS) {
            orr_child_signal(&l->coordinator, SIGTERM);
            asked = true;
        }
        poll(NULL, 0, 10);
        orr_child_read(&l->coordinator, heard, l);
        if (orr_child_ended(&l->coordinator, heard, l))
            break;
    }
    orr_child_kill(&l->coordinator);
}

static orr_status watch_signals(launcher *l, sigset_t *ret_before)
{
    static const int watched[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        sigaddset(&set, watched[i]);
    sigprocmask(SIG_BLOCK, &set, ret_before);
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return l->signals >= 0 ? ORR_OK
                           : orr_fail(&l->t->session.err, ORR_IO,
                                      "no signals can be waited for: %s", strerror(errno));
}

static void run(launcher *l)
{
    sigset_t before;
    orr_options_unset_environment();
    if (watch_signals(l, &before) != ORR_OK) {
        fail(l, EXIT_INPUT);
        return;
    }
    l->coordinator.again_ns = now_ns();
    for (start_due(l); !is_over(l); start_due(l)) {
        wait_for_news(l);
        hear_all(l);
    }
    for (uint32_t i = 0; i < l->n; i++)
        orr_child_kill(&l->replica_slots[i].child);
    end_coordinator(l);
    close(l->signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

int orr_training_replicas(orr_training *t)
{
    launcher l = {.t = t, .n = t->team.replicas, .coordinator = {.name = "the coordinator"}};
    if (orr_replicas_prepare(&l) != ORR_OK)
        return EXIT_INPUT;
    run(&l);
    orr_replicas_clean(&l);
    return l.failed ? l.code : orr_replicas_print_summary(&l);
}
