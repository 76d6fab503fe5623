/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "explore/questions/questions.h"

/* Bisection over a number of which an easier one is never worse. The search inside is heuristic up
 * to its gap, so that order is checked: once the bracket is small, one harder number is tried that
 * should not meet the limit either, and reconciled probes that are out of order are counted. Where
 * that makes probe 0 better, and so the limit lower, the bracket is sought again. */

typedef struct bracket {
    const orr_bisection *by;
    orr_asking *asking;
    uint32_t good, bad; /* probes; ORR_NONE: none yet */
} bracket;

static double number(const bracket *b, uint32_t probe)
{
    return b->asking->probes.at[probe].at;
}

static bool is_harder(const bracket *b, double x, double than)
{
    return b->by->direction > 0 ? x > than : x < than;
}

static double clamped(const bracket *b, double x)
{
    const double whole = b->by->whole;
    if (whole > 0)
        x = whole * (b->by->direction > 0 ? ceil(x / whole) : floor(x / whole));
    return is_harder(b, x, b->by->end) ? b->by->end : x;
}

static double harder_by(const bracket *b, double x, double factor)
{
    return clamped(b, b->by->direction > 0 ? x * factor : x / factor);
}

static double middle(const bracket *b)
{
    const double x = number(b, b->good), y = number(b, b->bad);
    const double low = fmin(x, y), high = fmax(x, y), whole = b->by->whole;
    const double at = low > 0 && high > 2 * low ? sqrt(low * high) : (low + high) / 2;
    if (!(whole > 0))
        return at;
    const double rounded = whole * floor(at / whole);
    return rounded > low ? rounded : low + whole; /* below `high`: the bracket is wider than that */
}

static bool is_small(const bracket *b)
{
    const double x = number(b, b->good), y = number(b, b->bad);
    const double low = fmin(x, y), high = fmax(x, y);
    return (b->by->whole > 0 && high - low <= b->by->whole) ||
           high <= low * (1 + b->by->resolution);
}

/* The easiest number beyond the good one that was not met. A search can find what one before it
 * missed, and so move the good end past the bad one. */
static uint32_t nearest_bad(const bracket *b)
{
    uint32_t nearest = ORR_NONE;
    for (uint32_t i = 0; i < b->asking->probes.n; i++)
        if (b->asking->probes.at[i].verdict != ORR_VERDICT_MEETS &&
            is_harder(b, number(b, i), number(b, b->good)) &&
            (nearest == ORR_NONE || is_harder(b, number(b, nearest), number(b, i))))
            nearest = i;
    return nearest;
}

static orr_status try_number(bracket *b, double at)
{
    ORR_TRY(b->by->probe(b->by->ctx, at));
    const uint32_t last = (uint32_t)b->asking->probes.n - 1;
    if (b->asking->probes.at[last].verdict == ORR_VERDICT_MEETS &&
        is_harder(b, number(b, last), number(b, b->good)))
        b->good = last;
    b->bad = nearest_bad(b);
    return ORR_OK;
}

static bool at_end(const bracket *b)
{
    return !is_harder(b, b->by->end, number(b, b->good));
}

enum { PROBES = 64 }; /* more than a bisection takes whose order holds */

static orr_status narrow(bracket *b)
{
    double next = b->by->first > 0 ? clamped(b, b->by->first)
                                   : harder_by(b, number(b, b->good), b->by->stride);
    while (!orr_asking_stopped(b->asking) && b->asking->probes.n < PROBES) {
        if (b->bad == ORR_NONE ? at_end(b) : is_small(b))
            break;
        if (b->bad == ORR_NONE && !is_harder(b, next, number(b, b->good)))
            next = harder_by(b, number(b, b->good), b->by->stride);
        if (b->bad == ORR_NONE && !is_harder(b, next, number(b, b->good)))
            break;
        ORR_TRY(try_number(b, b->bad == ORR_NONE ? next : middle(b)));
    }
    return ORR_OK;
}

/* The harder end of the bracket doubled: if that meets the limit, the order does not hold, and the
 * bracket begins there. */
static orr_status check_beyond(bracket *b)
{
    const uint32_t good = b->good;
    if (b->bad == ORR_NONE || orr_asking_stopped(b->asking))
        return ORR_OK;
    const double at = harder_by(b, number(b, b->bad), 2);
    if (!is_harder(b, at, number(b, b->bad)))
        return ORR_OK;
    ORR_TRY(try_number(b, at));
    return b->good != good ? narrow(b) : ORR_OK;
}

/* The hardest probe that meets the limit, and the nearest beyond it. Probe 0 meets it. */
static void find_ends(bracket *b)
{
    b->good = 0;
    for (uint32_t i = 1; i < b->asking->probes.n; i++)
        if (b->asking->probes.at[i].verdict == ORR_VERDICT_MEETS &&
            is_harder(b, number(b, i), number(b, b->good)))
            b->good = i;
    b->bad = nearest_bad(b);
}

orr_status orr_bisect(orr_asking *asking, const orr_bisection *bisection, orr_answer *ret)
{
    bracket b = {bisection, asking, ORR_NONE, ORR_NONE};
    orr_answer made = *ret;
    made.answer = made.beyond = ORR_NONE;
    const bool meets = asking->probes.n > 0 && asking->probes.at[0].verdict == ORR_VERDICT_MEETS;
    do {
        if (meets) {
            find_ends(&b);
            ORR_TRY(narrow(&b));
            ORR_TRY(check_beyond(&b));
        }
        ORR_TRY(orr_asking_reconcile(asking, bisection->direction, &made.contradictions));
    } while (orr_asking_tighten(asking));
    if (meets) {
        find_ends(&b);
        made.answer = b.good;
        made.beyond = b.bad;
    }
    return orr_asking_answer(asking, &made, ret);
}
