/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/common/json_slice.h"

#include <string.h>

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == ',' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

static orr_json_slice inside(orr_text text, char open)
{
    const char *begin = text.n > 0 ? text.at : ""; /* an absent text has no address */
    const char *end = begin + text.n, *at = skip_blanks(begin, end);
    if (at >= end || *at != open)
        return (orr_json_slice){end, end};
    return (orr_json_slice){at + 1, end};
}

orr_json_slice orr_json_slice_of(orr_text array)
{
    return inside(array, '[');
}

orr_json_slice orr_json_slice_of_object(orr_text object)
{
    return inside(object, '{');
}

/* Returns the end of the string that begins at `at`. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\' && at + 1 < end;
    return at < end ? at + 1 : end;
}

/* Returns the end of the array or object that begins at `at`. */
static const char *skip_nested(const char *at, const char *end)
{
    size_t depth = 0;
    while (at < end) {
        const char c = *at;
        if (c == '"') {
            at = skip_string(at, end);
            continue;
        }
        at++;
        if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && --depth == 0)
            return at;
    }
    return end;
}

bool orr_json_slice_next(orr_json_slice *slice, orr_text *ret)
{
    const char *at = skip_blanks(slice->at, slice->end), *end = slice->end;
    if (at >= end || *at == ']')
        return false;
    const char *begin = at;
    if (*at == '"')
        at = skip_string(at, end);
    else if (*at == '[' || *at == '{')
        at = skip_nested(at, end);
    else
        while (at < end && *at != ',' && *at != ']' && *at != ' ' && *at != '\n')
            at++;
    *ret = (orr_text){begin, (size_t)(at - begin)};
    slice->at = at > begin ? at : end;
    return true;
}

bool orr_json_slice_next_member(orr_json_slice *slice, orr_text *ret_key, orr_text *ret_value)
{
    const char *at = skip_blanks(slice->at, slice->end);
    if (at >= slice->end || *at != '"')
        return false;
    const char *behind = skip_string(at, slice->end);
    *ret_key = orr_json_unquote((orr_text){at, (size_t)(behind - at)});
    behind = skip_blanks(behind, slice->end);
    slice->at = behind < slice->end ? behind + 1 : behind; /* ':' */
    return orr_json_slice_next(slice, ret_value);
}

orr_text orr_json_unquote(orr_text text)
{
    if (text.n >= 2 && text.at[0] == '"')
        return (orr_text){text.at + 1, text.n - 2};
    return text;
}

orr_json_slice orr_type_list_of(orr_text type)
{
    const char *open = memchr(type.at, '[', type.n);
    const char *end = type.at + type.n;
    if (open == NULL || end[-1] != ']' || memchr(type.at, '(', (size_t)(open - type.at)) != NULL)
        return (orr_json_slice){end, end};
    return (orr_json_slice){open + 1, end - 1};
}

bool orr_type_list_next(orr_json_slice *slice, orr_text *ret)
{
    const char *at = slice->at;
    size_t depth = 0;
    if (at >= slice->end)
        return false;
    for (; at < slice->end && (depth > 0 || *at != ','); at++) {
        if (*at == '[' || *at == '(')
            depth++;
        else if ((*at == ']' || *at == ')') && depth > 0)
            depth--;
    }
    *ret = (orr_text){slice->at, (size_t)(at - slice->at)};
    slice->at = at < slice->end ? at + 1 : slice->end;
    return true;
}
