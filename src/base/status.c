/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/status.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

const char *orr_status_name(orr_status status)
{
    switch (status) {
#define ORR_STATUS_NAME_(name, value, text)                                                        \
    case ORR_##name:                                                                               \
        return #name;
        ORR_STATUS_MAP(ORR_STATUS_NAME_)
#undef ORR_STATUS_NAME_
    }
    return "UNKNOWN";
}

const char *orr_status_text(orr_status status)
{
    switch (status) {
#define ORR_STATUS_TEXT_(name, value, text)                                                        \
    case ORR_##name:                                                                               \
        return text;
        ORR_STATUS_MAP(ORR_STATUS_TEXT_)
#undef ORR_STATUS_TEXT_
    }
    return "unknown status";
}

/* Input may be quoted in an error: it must neither break the line nor drive the terminal. A
 * sequence that the buffer cut in half would not be UTF-8 any more and goes too. */
static void make_one_line(char *text)
{
    const size_t n = strlen(text);
    size_t lead = n;
    while (lead > 0 && n - lead < 3 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
        lead--;
    if (lead > 0 && (unsigned char)text[lead - 1] >= 0xc0) {
        const unsigned char c = (unsigned char)text[lead - 1];
        const size_t follow = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (n - lead < follow)
            text[lead - 1] = '\0';
    }
    orr_text_make_printable(text);
}

orr_status orr_fail_at_(orr_error *err, orr_status status, uint64_t byte_pos, const char *file,
                        int line, const char *format, ...)
{
    const int saved_errno = errno;
    if (err == NULL)
        return status;
    err->status = status;
    err->os_errno = status == ORR_IO ? saved_errno : 0;
    err->file = file;
    err->line = line;
    err->byte_pos = byte_pos;
    va_list args;
    va_start(args, format);
    if (vsnprintf(err->text, sizeof err->text, format, args) < 0)
        err->text[0] = '\0';
    va_end(args);
    make_one_line(err->text);
    errno = saved_errno;
    return status;
}

void orr_error_prefix(orr_error *err, const char *prefix)
{
    if (err == NULL)
        return;
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    old[sizeof old - 1] = '\0';
    /* Room for the message comes first: of a very long prefix its end is kept. */
    const size_t prefix_max = sizeof err->text / 2;
    const size_t len = strlen(prefix);
    if (len > prefix_max)
        (void)snprintf(err->text, sizeof err->text, "...%s: %.250s",
                       prefix + (len - prefix_max + 3), old);
    else
        (void)snprintf(err->text, sizeof err->text, "%s: %.*s", prefix,
                       (int)(sizeof err->text - len - 3), old);
    make_one_line(err->text);
}
