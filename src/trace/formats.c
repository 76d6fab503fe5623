/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/trace.h>

#include <string.h>
#include <strings.h>

static const char *const format_names[] = {
#define FORMAT_NAME(name, text, about) text,
    ORR_FORMAT_MAP(FORMAT_NAME)
#undef FORMAT_NAME
};
static const char *const fault_texts[] = {
#define FAULT_TEXT(name, text) text,
    ORR_TRACE_FAULT_MAP(FAULT_TEXT)
#undef FAULT_TEXT
};
static const char *const miss_texts[] = {
#define MISS_TEXT(name, text) text,
    ORR_LINK_MISS_MAP(MISS_TEXT)
#undef MISS_TEXT
};
enum { N_FORMATS = sizeof format_names / sizeof *format_names };

const char *orr_format_name(orr_format format)
{
    return (unsigned)format < N_FORMATS ? format_names[format] : format_names[0];
}

orr_format orr_format_from_name(const char *name)
{
    for (unsigned i = 1; i < N_FORMATS; i++)
        if (strcasecmp(name, format_names[i]) == 0)
            return (orr_format)i;
    return ORR_FORMAT_UNKNOWN;
}

static bool ends_with(const char *text, size_t len, const char *ending)
{
    const size_t n = strlen(ending);
    return len > n && strncasecmp(text + len - n, ending, n) == 0;
}

orr_format orr_format_from_path(const char *path)
{
    static const struct {
        const char *ending;
        orr_format format;
    } endings[] = {
        {".et", ORR_FORMAT_CHAKRA},   {".pftrace", ORR_FORMAT_PERFETTO},
        {".json", ORR_FORMAT_CHROME}, {".textproto", ORR_FORMAT_TEXT},
        {".dot", ORR_FORMAT_DOT},     {".graphml", ORR_FORMAT_GRAPHML},
    };
    size_t len = strlen(path);
    if (ends_with(path, len, ".gz"))
        len -= 3;
    else if (ends_with(path, len, ".zst"))
        len -= 4;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(path, len, endings[i].ending))
            return endings[i].format;
    return ORR_FORMAT_UNKNOWN;
}

const char *orr_trace_fault_text(orr_trace_fault fault)
{
    return (unsigned)fault < ORR_TRACE_FAULTS ? fault_texts[fault] : "unknown fault";
}

const char *orr_link_miss_text(orr_link_miss miss)
{
    return (unsigned)miss < ORR_LINK_MISSES ? miss_texts[miss] : "unknown reason";
}
