/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/simulation_meter.h"

#include <unistd.h>

#include "base/term.h"
#include "report/humanize/human.h"

/* Until the first, nobody asks how long it takes; until the second, too few events may have passed
 * to tell, unless they are a good part of all. */
static const int64_t FIRST_NS = 300000000, ANYWAY_NS = 3000000000;
static const double ENOUGH_FRAC = 0.02;

void orr_simulation_meter_begin(orr_simulation_meter *meter, const orr_session *session)
{
    *meter = (orr_simulation_meter){.session = session, .terminal = orr_term_is_tty(STDERR_FILENO)};
    orr_progress_init(&meter->line, "simulating", false, STDERR_FILENO, session->settings->quiet,
                      NULL);
    meter->begin_ns = orr_clock_now_ns(&orr_clock_monotonic);
    meter->next_ns = FIRST_NS;
}

bool orr_simulation_meter_update(void *ctx, uint64_t n_settled, uint64_t n_points)
{
    orr_simulation_meter *meter = ctx;
    if (meter->terminal) {
        orr_progress_update(&meter->line, n_settled, n_points);
        return true;
    }
    const int64_t elapsed_ns = orr_clock_now_ns(&orr_clock_monotonic) - meter->begin_ns;
    const double done_frac = n_points > 0 ? (double)n_settled / (double)n_points : 0;
    char left[ORR_HUMAN_MAX], done[ORR_HUMAN_MAX];
    if (elapsed_ns < meter->next_ns || n_settled == 0 ||
        (done_frac < ENOUGH_FRAC && elapsed_ns < ANYWAY_NS))
        return true;
    orr_session_remark(meter->session,
                       "links are shared: simulating takes about %s more, by the first %s of it",
                       orr_human_ns(left, (double)elapsed_ns * (1 - done_frac) / done_frac),
                       orr_human_frac(done, done_frac));
    meter->next_ns = 3 * elapsed_ns;
    return true;
}

void orr_simulation_meter_done(orr_simulation_meter *meter)
{
    orr_progress_done(&meter->line);
}
