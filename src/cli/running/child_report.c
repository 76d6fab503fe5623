/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/running/child_report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Written whole or not at all, whichever thread writes. */
_Static_assert(sizeof(orr_child_report) <= PIPE_BUF, "a report is written at once");

int orr_child_report_open(void)
{
    const char *text = getenv(ORR_CHILD_REPORT_VARIABLE);
    char *end;
    if (text == NULL)
        return -1;
    const long fd = strtol(text, &end, 10);
    const bool is = end != text && *end == '\0' && fd > STDERR_FILENO && fd < INT_MAX &&
                    fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0 &&
                    fcntl((int)fd, F_SETFL, O_NONBLOCK) == 0;
    unsetenv(ORR_CHILD_REPORT_VARIABLE);
    return is ? (int)fd : -1;
}

static void send(int reports, const orr_child_report *report, bool waits)
{
    enum { PATIENCE_MS = 10000 };
    struct pollfd pipe = {.fd = reports, .events = POLLOUT};
    for (;;) {
        if (write(reports, report, sizeof *report) == sizeof *report)
            return;
        if (errno != EINTR && (errno != EAGAIN || !waits || poll(&pipe, 1, PATIENCE_MS) <= 0))
            return;
    }
}

void orr_child_report_send_event(int reports, const orr_team_event *event)
{
    orr_child_report report = {.kind = ORR_CHILD_REPORT_EVENT, .event = *event};
    snprintf(report.text, sizeof report.text, "%s", event->text != NULL ? event->text : "");
    report.event.text = NULL;
    send(reports, &report, false);
}

void orr_child_report_send_step(int reports, const orr_train_step *step)
{
    const orr_child_report report = {.kind = ORR_CHILD_REPORT_STEP, .step = *step};
    send(reports, &report, false);
}

void orr_child_report_send_result(int reports, const orr_train_result *result)
{
    const orr_child_report report = {.kind = ORR_CHILD_REPORT_RESULT, .result = *result};
    send(reports, &report, true);
}

void orr_child_report_send_address(int reports, const char *address)
{
    orr_child_report report = {.kind = ORR_CHILD_REPORT_ADDRESS};
    snprintf(report.text, sizeof report.text, "%s", address);
    send(reports, &report, true);
}

/* Events carry the time since the machine started; people have clocks. */
static void print_time(int64_t at_ns)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t ago_ns = orr_clock_now_ns(&orr_clock_monotonic) - at_ns;
    const int64_t then_ms = ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec - ago_ns) / 1000000;
    const time_t seconds = (time_t)(then_ms / 1000);
    if (localtime_r(&seconds, &parts) != NULL)
        fprintf(stderr, "%02d:%02d:%02d.%03d ", parts.tm_hour, parts.tm_min, parts.tm_sec,
                (int)(then_ms % 1000));
}

void orr_team_event_print(const char *who, const orr_team_event *event, const char *text)
{
    flockfile(stderr);
    fputs("orrery: ", stderr);
    print_time(event->at_ns);
    if (who != NULL)
        fprintf(stderr, "%s: ", who);
    if (event->epoch > 0)
        fprintf(stderr, "epoch %llu, step %llu: ", (unsigned long long)event->epoch,
                (unsigned long long)event->step);
    if (event->kind != ORR_TEAM_EPOCH)
        fprintf(stderr, "%s%s", orr_team_event_name((orr_team_event_kind)event->kind),
                *text != '\0' ? ": " : "");
    fprintf(stderr, "%s\n", text);
    funlockfile(stderr);
}
