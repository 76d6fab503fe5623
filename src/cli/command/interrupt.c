/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "io/stream/output.h"

static volatile sig_atomic_t asked;
static volatile bool flag;

static void on_interrupt(int signal_number)
{
    asked = signal_number;
    flag = true;
    signal(signal_number, SIG_DFL); /* the second time ends it at once */
}

void orr_interrupt_watch(void)
{
    const struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
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
