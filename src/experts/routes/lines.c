/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/lines.h"

#include <stdio.h>
#include <string.h>

bool orr_csv_next_line(orr_csv_lines *lines, orr_text *ret, size_t *ret_used, orr_status *status,
                       orr_error *err)
{
    bool end = false;
    size_t seen = 0;
    for (;;) {
        const orr_window w = orr_stream_window(lines->stream);
        const uint8_t *newline = w.n > seen ? memchr(w.bytes + seen, '\n', w.n - seen) : NULL;
        if (newline != NULL || (end && w.n > 0)) {
            const char *at = (const char *)w.bytes;
            size_t n = newline != NULL ? (size_t)(newline - w.bytes) : w.n;
            *ret_used = n + (newline != NULL);
            n -= n > 0 && at[n - 1] == '\r';
            const size_t mark =
                lines->line == 0 && n >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
            *ret = (orr_text){at + mark, n - mark};
            lines->line++;
            return true;
        }
        if (end)
            return false;
        seen = w.n;
        *status = orr_stream_fill(lines->stream, &end, err);
        if (*status != ORR_OK)
            return false;
    }
}

/* The closing quote; a doubled quote is part of the text. */
static const char *end_of_quoted(const char *at, const char *end)
{
    while (at < end && (*at != '"' || (at + 1 < end && at[1] == '"')))
        at += *at == '"' ? 2 : 1;
    return at;
}

bool orr_csv_next_field(orr_text *rest, orr_text *ret)
{
    if (rest->at == NULL)
        return false;
    const char *at = rest->at, *end = at + rest->n, *stop = at;
    if (rest->n > 0 && *at == '"')
        stop = end_of_quoted(++at, end);
    else
        while (stop < end && *stop != ',')
            stop++;
    *ret = (orr_text){at, (size_t)(stop - at)};
    while (stop < end && *stop != ',')
        stop++;
    *rest = stop < end ? (orr_text){stop + 1, (size_t)(end - stop - 1)} : (orr_text){NULL, 0};
    return true;
}

orr_text orr_csv_unquoted(orr_text text, char *room)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        room[n++] = text.at[i];
        i += text.at[i] == '"' && i + 1 < text.n && text.at[i + 1] == '"';
    }
    return (orr_text){room, n};
}

orr_status orr_csv_at(const orr_csv_lines *lines, size_t column, orr_status status, orr_error *err)
{
    char place[512];
    (void)snprintf(place, sizeof place, "%.400s:%llu:%zu", lines->path,
                   (unsigned long long)lines->line, column);
    if (err != NULL)
        orr_error_prefix(err, place);
    return status;
}
