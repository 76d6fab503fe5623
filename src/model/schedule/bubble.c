/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/schedule/schedule.h"

/* Published formulas of the pipeline bubble: idle time over ideal time. */

/* Interleaved 1F1B: Narayanan et al. 2021, section 2.2.2, for enough micro-batches to fill the
 * pipeline. */
static double interleaved(const orr_schedule_spec *s)
{
    if ((s->chunks > 1 && s->micro_batches < s->stages) || orr_schedule_fills_at_once(s))
        return NAN;
    return (s->stages - 1.0) / ((double)s->chunks * s->micro_batches);
}

double orr_schedule_bubble(const orr_schedule_spec *s, const orr_slot_times *t)
{
    const double p = s->stages, m = s->micro_batches;
    const double backward = t->input + t->weight, of_one = t->forward + backward;
    if (s->overlapped)
        return NAN;
    switch ((orr_schedule)s->schedule) {
    case ORR_SCHEDULE_1F1B:  /* Narayanan et al. 2021, section 2.2.1 */
    case ORR_SCHEDULE_GPIPE: /* Huang et al. 2019, section 2.3       */
        return (p - 1) / m;
    case ORR_SCHEDULE_INTERLEAVED:
        return interleaved(s);
    case ORR_SCHEDULE_ZB_H1: /* arXiv 2401.10241, table 2 */
        return m < p ? NAN : (p - 1) * (t->forward + t->input - t->weight) / (m * of_one);
    case ORR_SCHEDULE_ZB_V: /* arXiv 2401.10241, section 6: no bubble where F = B = W */
        return m < 2 * p - 1 || t->forward != t->input || t->input != t->weight ? NAN : 0;
    case ORR_SCHEDULE_DUALPIPE: /* arXiv 2412.19437, table 2: (p/2 - 1)(F&B + B - 3W), where an
                                 * overlapped pair F&B takes as long as F + B */
        return (p / 2 - 1) * (of_one + backward - 3 * t->weight) / (m * of_one);
    default:
        return NAN;
    }
}
