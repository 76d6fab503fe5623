/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "machine/catalog/schema.h"

static orr_status parse_count(const char *text, double *ret, orr_error *err)
{
    uint64_t count;
    ORR_TRY(orr_parse_count(text, &count, err));
    *ret = (double)count;
    return ORR_OK;
}

static orr_status parse_bytes(const char *text, double *ret, orr_error *err)
{
    uint64_t bytes;
    ORR_TRY(orr_parse_bytes(text, &bytes, err));
    *ret = (double)bytes;
    return ORR_OK;
}

static orr_status parse_ns(const char *text, double *ret, orr_error *err)
{
    int64_t ns;
    ORR_TRY(orr_parse_duration(text, &ns, err));
    *ret = (double)ns;
    return ORR_OK;
}

static orr_status parse_ns_per_km(const char *text, double *ret, orr_error *err)
{
    const char *per = strstr(text, "/km");
    char time[64];
    if (per == NULL || per[3] != '\0' || (size_t)(per - text) >= sizeof time)
        return orr_fail(err, ORR_INVALID,
                        "'%.80s' is not a delay by distance: write for example "
                        "5us/km",
                        text);
    (void)snprintf(time, sizeof time, "%.*s", (int)(per - text), text);
    return parse_ns(time, ret, err);
}

/* "1:7" as "7". */
static orr_status parse_ratio(const char *text, double *ret, orr_error *err)
{
    const orr_yaml scalar = {.text = strncmp(text, "1:", 2) == 0 ? text + 2 : text, .file = ""};
    double value;
    if (orr_yaml_number(&scalar, &value, NULL) != ORR_OK || value < 1)
        return orr_fail(err, ORR_INVALID,
                        "'%.80s' is not an oversubscription: write for example "
                        "1:7, at least 1:1",
                        text);
    *ret = value;
    return ORR_OK;
}

static orr_status parse_number(const char *text, double *ret, orr_error *err)
{
    const orr_yaml scalar = {.text = text, .file = ""};
    double value;
    if (orr_yaml_number(&scalar, &value, NULL) != ORR_OK || value < 0)
        return orr_fail(err, ORR_INVALID, "'%.80s' is not a number of 0 or more", text);
    *ret = value;
    return ORR_OK;
}

/* Twice the Earth's circumference. */
#define MOST_KM 80000.0

static orr_status parse_km(const char *text, double *ret, orr_error *err)
{
    static const struct {
        const char *unit;
        double km;
    } units[] = {{"km", 1}, {"m", 1e-3}};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        const size_t len = strlen(text), unit = strlen(units[u].unit);
        char number[64];
        if (len <= unit || len - unit >= sizeof number ||
            strcmp(text + len - unit, units[u].unit) != 0)
            continue;
        (void)snprintf(number, sizeof number, "%.*s", (int)(len - unit), text);
        double value;
        if (parse_number(number, &value, NULL) != ORR_OK || value > MOST_KM)
            break;
        *ret = value * units[u].km;
        return ORR_OK;
    }
    return orr_fail(err, ORR_INVALID, "'%.80s' is not a distance: write for example 3km or 500m",
                    text);
}

orr_status orr_quantity_read(const orr_yaml *value, const char *key, orr_quantity quantity,
                             double *ret, orr_error *err)
{
    static orr_status (*const parsers[])(const char *, double *, orr_error *) = {
        [ORR_QUANTITY_COUNT] = parse_count,
        [ORR_QUANTITY_BYTES] = parse_bytes,
        [ORR_QUANTITY_BANDWIDTH] = orr_parse_bandwidth,
        [ORR_QUANTITY_NS] = parse_ns,
        [ORR_QUANTITY_NS_PER_KM] = parse_ns_per_km,
        [ORR_QUANTITY_FLOPS] = orr_parse_flops,
        [ORR_QUANTITY_HZ] = orr_parse_frequency,
        [ORR_QUANTITY_WATT] = orr_parse_power,
        [ORR_QUANTITY_IOPS] = orr_parse_iops,
        [ORR_QUANTITY_NUMBER] = parse_number,
        [ORR_QUANTITY_RATIO] = parse_ratio,
        [ORR_QUANTITY_KM] = parse_km,
        [ORR_QUANTITY_USD] = parse_number,
    };
    const char *text;
    orr_error why;
    ORR_TRY(orr_text_read(value, key, &text, err));
    const orr_status status = parsers[quantity](text, ret, &why);
    if (status != ORR_OK)
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: %s", key, why.text);
    return ORR_OK;
}
