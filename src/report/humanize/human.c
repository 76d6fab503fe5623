/* SPDX-License-Identifier: Apache-2.0 */
#include "report/humanize/human.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

typedef struct unit {
    double size;
    const char *name;
} unit;

char *orr_human_si(char buf[ORR_HUMAN_MAX], double count)
{
    static const char *const prefixes[] = {"",   " k", " M", " G", " T", " P",
                                           " E", " Z", " Y", " R", " Q"};
    const double size = fabs(count);
    double scaled = size;
    int u = 0;
    for (; u < 10 && scaled >= 999.5; u++)
        scaled /= 1000;
    if (!(scaled < 999.5))
        snprintf(buf, ORR_HUMAN_MAX, "-");
    else
        snprintf(buf, ORR_HUMAN_MAX, "%s%.*f%s", count < 0 ? "-" : "",
                 u == 0 || scaled >= 99.95 ? 0
                 : scaled >= 9.995         ? 1
                                           : 2,
                 scaled, prefixes[u]);
    return buf;
}

/* `value` in the largest unit that leaves a number of at least one, four digits. */
static char *in_unit(char buf[ORR_HUMAN_MAX], double value, const unit *units, size_t n)
{
    const double size = fabs(value);
    size_t u = 0;
    if (!isfinite(value)) {
        snprintf(buf, ORR_HUMAN_MAX, "-");
        return buf;
    }
    /* 999.95 of a unit would print as 1000.0: it belongs to the next. */
    while (u + 1 < n && size >= units[u + 1].size * 0.99995)
        u++;
    const double scaled = value / units[u].size;
    if (u == 0 && value == rint(value))
        snprintf(buf, ORR_HUMAN_MAX, "%.0f %s", value, units[u].name);
    else if (fabs(scaled) >= 1e6) {
        orr_human_si(buf, scaled); /* no unit is so large: 1.23 Ms */
        strncat(buf, units[u].name, ORR_HUMAN_MAX - strlen(buf) - 1);
    } else
        snprintf(buf, ORR_HUMAN_MAX, "%.*f %s",
                 fabs(scaled) < 9.9995   ? 3
                 : fabs(scaled) < 99.995 ? 2
                                         : 1,
                 scaled, units[u].name);
    return buf;
}

char *orr_human_ns(char buf[ORR_HUMAN_MAX], double ns)
{
    static const unit units[] = {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
    return in_unit(buf, ns, units, sizeof units / sizeof units[0]);
}

char *orr_human_bytes(char buf[ORR_HUMAN_MAX], double bytes)
{
    static const unit units[] = {{1, "B"},
                                 {1024.0, "KiB"},
                                 {1048576.0, "MiB"},
                                 {1073741824.0, "GiB"},
                                 {1099511627776.0, "TiB"}};
    return in_unit(buf, bytes, units, sizeof units / sizeof units[0]);
}

char *orr_human_bytes_per_s(char buf[ORR_HUMAN_MAX], double bytes_per_s)
{
    static const unit units[] = {
        {1, "B/s"}, {1e3, "kB/s"}, {1e6, "MB/s"}, {1e9, "GB/s"}, {1e12, "TB/s"}};
    return in_unit(buf, bytes_per_s, units, sizeof units / sizeof units[0]);
}

char *orr_human_frac(char buf[ORR_HUMAN_MAX], double frac)
{
    const double percent = frac * 100;
    if (!isfinite(frac) || fabs(percent) >= 1e9)
        snprintf(buf, ORR_HUMAN_MAX, "-");
    else if (percent != 0 && fabs(percent) < 0.1)
        snprintf(buf, ORR_HUMAN_MAX, percent > 0 ? "<0.1 %%" : ">-0.1 %%");
    else
        snprintf(buf, ORR_HUMAN_MAX, "%.1f %%", percent);
    return buf;
}

char *orr_human_count(char buf[ORR_HUMAN_MAX], uint64_t count)
{
    char digits[24];
    size_t n = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    size_t w = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            buf[w++] = ',';
        buf[w++] = digits[i];
    }
    buf[w] = '\0';
    return buf;
}

char *orr_human_number(char buf[ORR_HUMAN_MAX], double number)
{
    const double size = fabs(number);
    if (!isfinite(number))
        snprintf(buf, ORR_HUMAN_MAX, "-");
    else if (number == rint(number) && size < 1e15)
        snprintf(buf, ORR_HUMAN_MAX, "%.0f", number);
    else if (size >= 1e15)
        orr_human_si(buf, number);
    else if (size < 1e-12)
        snprintf(buf, ORR_HUMAN_MAX, number > 0 ? "<0.000000000001" : ">-0.000000000001");
    else if (size < 1e-3) /* three digits after the zeros */
        snprintf(buf, ORR_HUMAN_MAX, "%.*f", (int)(2 - floor(log10(size))), number);
    else
        snprintf(buf, ORR_HUMAN_MAX, "%.*f", size < 9.9995 ? 3 : size < 99.995 ? 2 : 1, number);
    return buf;
}

size_t orr_text_display_width(const char *text)
{
    size_t columns = 0;
    for (; *text; text += orr_code_point_bytes(text))
        columns++;
    return columns;
}

/* Up to `columns` code points of `text`, safe for a terminal, to buf[w..cap). */
static size_t put_columns(const char *text, size_t columns, char *buf, size_t w, size_t cap)
{
    for (; *text && columns > 0; columns--) {
        const size_t n = orr_code_point_bytes(text);
        if (w + n + 1 > cap)
            break;
        if (orr_unprintable_bytes(text) > 0) {
            buf[w++] = '?';
        } else {
            memcpy(buf + w, text, n);
            w += n;
        }
        text += n;
    }
    return w;
}

size_t orr_text_elide(const char *text, size_t columns, char *buf, size_t cap)
{
    static const char ellipsis[] = "\xE2\x80\xA6";
    const size_t have = orr_text_display_width(text);
    size_t w = 0;
    if (cap == 0)
        return 0;
    if (have <= columns) {
        w = put_columns(text, have, buf, 0, cap);
    } else if (columns > 0) {
        const size_t tail = (columns - 1) * 2 / 5, head = columns - 1 - tail;
        w = put_columns(text, head, buf, 0, cap);
        if (w + sizeof ellipsis <= cap) {
            memcpy(buf + w, ellipsis, sizeof ellipsis - 1);
            w += sizeof ellipsis - 1;
        }
        for (size_t skip = have - tail; skip > 0; skip--)
            text += orr_code_point_bytes(text);
        w = put_columns(text, tail, buf, w, cap);
    }
    buf[w] = '\0';
    return w;
}
