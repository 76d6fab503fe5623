/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/fleet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

/* 95th percentile of the standard normal distribution. */
#define NORMAL_95 1.6448536269514722

/* Upper limit of a duration, with room for sums of a few. */
#define LONGEST_NS ((int64_t)1 << 60)

static const char *const WORDS[] = {
#define NAME_(name, text) text,
    ORR_FLEET_SHAPE_MAP(NAME_)
#undef NAME_
};

static orr_status fail_form(const char *text, orr_error *err)
{
    return orr_fail(err, ORR_INVALID,
                    "'%.80s' is no time: write 90s, exp(5min), lognormal(2min, 10min) or "
                    "uniform(1s, 3s)",
                    text);
}

static orr_status parse_part(const char *from, size_t len, int64_t *ret, orr_error *err)
{
    char part[64];
    while (len > 0 && *from == ' ') {
        from++;
        len--;
    }
    while (len > 0 && from[len - 1] == ' ')
        len--;
    if (len == 0 || len >= sizeof part)
        return fail_form(from, err);
    memcpy(part, from, len);
    part[len] = '\0';
    ORR_TRY(orr_parse_duration(part, ret, err));
    return *ret <= LONGEST_NS ? ORR_OK : orr_fail(err, ORR_INVALID, "'%s' is too long", part);
}

orr_status orr_fleet_time_parse(const char *text, orr_fleet_time *ret, orr_error *err)
{
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    orr_fleet_time time = {0};
    if (open == NULL) {
        ORR_TRY(parse_part(text, strlen(text), &time.a_ns, err));
        *ret = time;
        return ORR_OK;
    }
    for (time.shape = ORR_FLEET_EXPONENTIAL; time.shape < ORR_FLEET_SHAPES; time.shape++)
        if (strlen(WORDS[time.shape]) == (size_t)(open - text) &&
            strncmp(text, WORDS[time.shape], (size_t)(open - text)) == 0)
            break;
    if (time.shape == ORR_FLEET_SHAPES || close == NULL || close[1] != '\0')
        return fail_form(text, err);
    const char *comma = memchr(open, ',', (size_t)(close - open));
    if ((comma == NULL) != (time.shape == ORR_FLEET_EXPONENTIAL))
        return fail_form(text, err);
    const char *end = comma != NULL ? comma : close;
    ORR_TRY(parse_part(open + 1, (size_t)(end - open - 1), &time.a_ns, err));
    if (comma != NULL)
        ORR_TRY(parse_part(comma + 1, (size_t)(close - comma - 1), &time.b_ns, err));
    if (comma != NULL && (time.b_ns < time.a_ns ||
                          (time.a_ns == 0 && time.b_ns > 0 && time.shape == ORR_FLEET_LOGNORMAL)))
        return orr_fail(err, ORR_INVALID, "'%.80s': the second is to be the longer", text);
    *ret = time;
    return ORR_OK;
}

/* Prints in the largest unit that needs few digits; from minutes up, whole numbers only. */
static void put_duration(char *text, size_t size, int64_t ns)
{
    static const struct {
        int64_t ns, grain_ns;
        const char *name;
    } units[] = {{86400000000000, 86400000000000, "d"},
                 {3600000000000, 3600000000000, "h"},
                 {60000000000, 60000000000, "min"},
                 {1000000000, 10000000, "s"},
                 {1000000, 10000, "ms"},
                 {1000, 10, "us"},
                 {1, 1, "ns"}};
    size_t u = 0;
    while (u < 6 && (ns < units[u].ns || ns % units[u].grain_ns != 0))
        u++;
    if (ns == 0)
        snprintf(text, size, "0s");
    else
        snprintf(text, size, "%.10g%s", (double)ns / (double)units[u].ns, units[u].name);
}

void orr_fleet_time_text(const orr_fleet_time *time, char *text, size_t size)
{
    char a[32], b[32];
    put_duration(a, sizeof a, time->a_ns);
    put_duration(b, sizeof b, time->b_ns);
    if (time->shape == ORR_FLEET_CONSTANT)
        snprintf(text, size, "%s", a);
    else if (time->shape == ORR_FLEET_EXPONENTIAL)
        snprintf(text, size, "exp(%s)", a);
    else
        snprintf(text, size, "%s(%s, %s)", WORDS[time->shape], a, b);
}

static double sigma_of(const orr_fleet_time *time)
{
    return time->a_ns > 0 ? log((double)time->b_ns / (double)time->a_ns) / NORMAL_95 : 0;
}

static int64_t whole(double ns)
{
    return ns < (double)LONGEST_NS ? llround(ns) : LONGEST_NS;
}

int64_t orr_fleet_time_mean_ns(const orr_fleet_time *time)
{
    const double sigma = sigma_of(time);
    switch ((orr_fleet_shape)time->shape) {
    case ORR_FLEET_LOGNORMAL:
        return whole((double)time->a_ns * exp(sigma * sigma / 2));
    case ORR_FLEET_UNIFORM:
        return time->a_ns + (time->b_ns - time->a_ns) / 2;
    default:
        return time->a_ns;
    }
}

orr_fleet_time orr_fleet_time_scaled(const orr_fleet_time *time, double factor)
{
    return (orr_fleet_time){.shape = time->shape,
                            .a_ns = whole((double)time->a_ns * factor),
                            .b_ns = whole((double)time->b_ns * factor)};
}

int64_t orr_fleet_exponential(orr_random *random, double mean_ns)
{
    return whole(-log1p(-orr_random_unit(random)) * mean_ns);
}

/* Box and Muller, 1958. The second value of the pair is dropped, so that each draw takes two random
 * numbers. */
static double normal(orr_random *random)
{
    const double r = sqrt(-2 * log1p(-orr_random_unit(random)));
    return r * cos(2 * M_PI * orr_random_unit(random));
}

int64_t orr_fleet_draw(const orr_fleet_time *time, orr_random *random)
{
    switch ((orr_fleet_shape)time->shape) {
    case ORR_FLEET_EXPONENTIAL:
        return orr_fleet_exponential(random, (double)time->a_ns);
    case ORR_FLEET_LOGNORMAL:
        return whole((double)time->a_ns * exp(sigma_of(time) * normal(random)));
    case ORR_FLEET_UNIFORM:
        return time->a_ns +
               (int64_t)orr_random_below(random, (uint64_t)(time->b_ns - time->a_ns) + 1);
    default:
        return time->a_ns;
    }
}
