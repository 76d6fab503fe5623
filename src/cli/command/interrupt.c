/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "io/stream/output.h"

static volatile sig_atomic_t asked;
static volatile bool flag;

static const int ENDING[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

/* A signal that was ignored when the command was started (nohup) stays ignored. */
static void on_each(void (*handler)(int))
{
    const struct sigaction action = {.sa_handler = handler};
    for (size_t i = 0; i < sizeof ENDING / sizeof *ENDING; i++) {
        struct sigaction before;
        if (sigaction(ENDING[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ENDING[i], &action, NULL);
    }
}

static void end_at_once(int signal_number)
{
    orr_output_remove_temporaries();
    _exit(128 + signal_number);
}

static void note(int signal_number)
{
    asked = signal_number;
    flag = true;
    on_each(end_at_once);
}

void orr_interrupt_catch(void)
{
    on_each(end_at_once);
}

void orr_interrupt_watch(void)
{
    on_each(note);
}

int orr_interrupt_signal(void)
{
    return asked;
}

const volatile bool *orr_interrupt_flag(void)
{
    return &flag;
}

bool orr_interrupt_requested(void *ctx)
{
    (void)ctx;
    return asked != 0;
}

static bool sigpipe_was_ignored;

void orr_interrupt_ignore_sigpipe(void)
{
    sigpipe_was_ignored = signal(SIGPIPE, SIG_IGN) == SIG_IGN;
}

void orr_interrupt_end_like_sigpipe(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};

    if (sigpipe_was_ignored || poll(&out, 1, 0) != 1 || (out.revents & POLLERR) == 0)
        return;
    orr_output_remove_temporaries();
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}
