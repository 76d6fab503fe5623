/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct unit {
    const char *name;
    double factor;
} unit;

/* The number at *at, without the locale that strtod would follow. Fifteen digits are more
 * than any quantity that a person types. */
static bool parse_number(const char **at, double *ret)
{
    const char *p = *at;
    double value = 0;
    int digits = 0, exponent = 0;
    for (; *p >= '0' && *p <= '9'; p++, digits++)
        value = value * 10 + (*p - '0');
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++, digits++, exponent--)
            value = value * 10 + (*p - '0');
    }
    if (digits == 0)
        return false;
    const char *e = p + 1;
    if ((*p == 'e' || *p == 'E') && (e += *e == '-' || *e == '+', *e >= '0' && *e <= '9')) {
        int written = 0;
        for (; *e >= '0' && *e <= '9'; e++)
            written = written < 1000 ? written * 10 + (*e - '0') : written;
        exponent += p[1] == '-' ? -written : written;
        p = e;
    }
    *at = p;
    *ret = exponent < 0 ? value / pow(10, -exponent) : value * pow(10, exponent);
    return isfinite(*ret);
}

/* Power behind "k", "Gi"...; moves past it. */
static double parse_prefix(const char **at)
{
    static const char letters[] = "kMGTP";
    const char c = **at == 'K' ? 'k' : **at;
    const char *found = c != '\0' ? strchr(letters, c) : NULL;
    if (found == NULL)
        return 1;
    ++*at;
    const bool binary = **at == 'i';
    *at += binary;
    return pow(binary ? 1024 : 1000, (double)(found - letters + 1));
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

static bool find_unit(const unit *units, const char *name, double *ret_factor)
{
    const size_t len = strcspn(name, " \t");
    if (*skip_blanks(name + len) != '\0')
        return false;
    for (; units->name != NULL; units++) {
        if (strlen(units->name) == len && memcmp(units->name, name, len) == 0) {
            *ret_factor = units->factor;
            return true;
        }
    }
    return false;
}

/* A number, a prefix where `prefixes`, one of `units`. */
static orr_status parse_quantity(const char *text, const unit *units, bool prefixes,
                                 const char *what, double *ret, orr_error *err)
{
    const char *at = skip_blanks(text);
    double value, factor;
    bool good = parse_number(&at, &value);
    if (good) {
        at = skip_blanks(at);
        if (prefixes)
            value *= parse_prefix(&at);
        good = find_unit(units, at, &factor);
    }
    if (!good)
        return orr_fail(err, ORR_INVALID, "'%.80s' is not %s", text, what);
    *ret = value * factor;
    return ORR_OK;
}

static orr_status to_uint64(const char *text, double value, uint64_t *ret, orr_error *err)
{
    if (!(value < 0x1p63))
        return orr_fail(err, ORR_LIMIT, "'%.80s' is too large", text);
    *ret = (uint64_t)(value + 0.5);
    return ORR_OK;
}

orr_status orr_parse_count(const char *text, uint64_t *ret, orr_error *err)
{
    static const unit units[] = {{"", 1}, {NULL, 0}};
    double value;
    ORR_TRY(parse_quantity(text, units, true, "a count: write for example 16k or 2M", &value, err));
    return to_uint64(text, value, ret, err);
}

orr_status orr_parse_bytes(const char *text, uint64_t *ret_bytes, orr_error *err)
{
    static const unit units[] = {{"", 1}, {"B", 1}, {NULL, 0}};
    double value;
    ORR_TRY(
        parse_quantity(text, units, true, "a size: write for example 80GiB or 64kB", &value, err));
    return to_uint64(text, value, ret_bytes, err);
}

orr_status orr_parse_duration(const char *text, int64_t *ret_ns, orr_error *err)
{
    static const unit units[] = {{"ns", 1},     {"us", 1e3},    {"\xc2\xb5s", 1e3},
                                 {"ms", 1e6},   {"s", 1e9},     {"min", 6e10},
                                 {"h", 3.6e12}, {"d", 8.64e13}, {NULL, 0}};
    double value = 0;
    uint64_t ns = 0;
    if (strcmp(text, "0") != 0)
        ORR_TRY(parse_quantity(text, units, false, "a duration: write for example 5us, 2ms or 1h",
                               &value, err));
    ORR_TRY(to_uint64(text, value, &ns, err));
    *ret_ns = (int64_t)ns;
    return ORR_OK;
}

orr_status orr_parse_bandwidth(const char *text, double *ret_bytes_per_s, orr_error *err)
{
    static const unit units[] = {{"bps", 0.125}, {"bit/s", 0.125}, {"b/s", 0.125},
                                 {"B/s", 1},     {"Bps", 1},       {NULL, 0}};
    return parse_quantity(text, units, true, "a bandwidth: write for example 400Gbps or 50GB/s",
                          ret_bytes_per_s, err);
}

orr_status orr_parse_flops(const char *text, double *ret_flops_per_s, orr_error *err)
{
    static const unit units[] = {{"FLOPS", 1}, {"FLOP/s", 1}, {"OPS", 1}, {"OP/s", 1}, {NULL, 0}};
    return parse_quantity(text, units, true, "a rate of arithmetic: write for example 989TFLOPS",
                          ret_flops_per_s, err);
}

orr_status orr_parse_frequency(const char *text, double *ret_hz, orr_error *err)
{
    static const unit units[] = {{"Hz", 1}, {NULL, 0}};
    return parse_quantity(text, units, true, "a frequency: write for example 1410MHz", ret_hz, err);
}

orr_status orr_parse_power(const char *text, double *ret_w, orr_error *err)
{
    static const unit units[] = {{"W", 1}, {NULL, 0}};
    return parse_quantity(text, units, true, "a power: write for example 700W", ret_w, err);
}

orr_status orr_parse_iops(const char *text, double *ret_per_s, orr_error *err)
{
    static const unit units[] = {{"IOPS", 1}, {NULL, 0}};
    return parse_quantity(text, units, true, "operations a second: write for example 550kIOPS",
                          ret_per_s, err);
}

/* Three significant digits of value / factor of the largest unit that gives 1 or more.
 * 999.6 rounds to 1000, and that is 1.00 of the next. */
static char *format_scaled(char out[ORR_UNIT_CHARS], double value, const unit *units, int count)
{
    const char *sign = value < 0 ? "-" : "";
    value = fabs(value);
    int i = 0;
    while (i + 1 < count && value >= units[i + 1].factor)
        i++;
    double scaled = value / units[i].factor;
    if (i + 1 < count && round(scaled) * units[i].factor >= units[i + 1].factor)
        scaled = value / units[++i].factor;
    const bool whole = i == 0 && scaled == floor(scaled);
    const int decimals = whole || scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
    (void)snprintf(out, ORR_UNIT_CHARS, "%s%.*f%s%s", sign, decimals, scaled,
                   units[i].name[0] != '\0' ? " " : "", units[i].name);
    char *comma = strchr(out, ','); /* of the program's locale */
    if (comma != NULL)
        *comma = '.';
    return out;
}

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

char *orr_format_bytes(char out[ORR_UNIT_CHARS], uint64_t bytes)
{
    static const unit units[] = {{"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                 {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"PiB", 0x1p50}};
    return format_scaled(out, (double)bytes, units, COUNT(units));
}

char *orr_format_count(char out[ORR_UNIT_CHARS], uint64_t count)
{
    static const unit units[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
    return format_scaled(out, (double)count, units, COUNT(units));
}
