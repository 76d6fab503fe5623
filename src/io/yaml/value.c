/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/json/reader.h"
#include "io/yaml/yaml.h"

const orr_yaml *orr_yaml_find(const orr_yaml *map, const char *key)
{
    for (uint32_t i = 0; map->kind == ORR_YAML_MAP && i < map->n; i++)
        if (strcmp(map->keys[i]->text, key) == 0)
            return map->values[i];
    return NULL;
}

/* A plain scalar; `what` is how the message calls what it should have been. */
static orr_status scalar(const orr_yaml *value, const char *what, orr_text *ret, orr_error *err)
{
    if (value->kind != ORR_YAML_SCALAR)
        return orr_yaml_fail(value, ORR_INVALID, err, "%s is needed here, not a %s", what,
                             value->kind == ORR_YAML_LIST ? "list" : "map");
    if (value->quoted)
        return orr_yaml_fail(value, ORR_INVALID, err, "%s is needed here: write it without quotes",
                             what);
    *ret = (orr_text){value->text, strlen(value->text)};
    return ORR_OK;
}

orr_status orr_yaml_int(const orr_yaml *value, int64_t *ret, orr_error *err)
{
    orr_text text;
    ORR_TRY(scalar(value, "a whole number", &text, err));
    return orr_text_int64(text, ret) ? ORR_OK
                                     : orr_yaml_fail(value, ORR_INVALID, err,
                                                     "'%.80s' is not a whole number", value->text);
}

orr_status orr_yaml_number(const orr_yaml *value, double *ret, orr_error *err)
{
    orr_text text;
    ORR_TRY(scalar(value, "a number", &text, err));
    return orr_text_double(text, ret)
               ? ORR_OK
               : orr_yaml_fail(value, ORR_INVALID, err, "'%.80s' is not a number", value->text);
}

orr_status orr_yaml_bool(const orr_yaml *value, bool *ret, orr_error *err)
{
    orr_text text;
    ORR_TRY(scalar(value, "true or false", &text, err));
    const bool truth = strcmp(text.at, "true") == 0;
    if (!truth && strcmp(text.at, "false") != 0)
        return orr_yaml_fail(value, ORR_INVALID, err, "'%.80s' is neither true nor false",
                             value->text);
    *ret = truth;
    return ORR_OK;
}

orr_status orr_yaml_fail_(const orr_yaml *at, orr_status status, orr_error *err, const char *file,
                          int line, const char *format, ...)
{
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    va_end(args);
    return orr_fail_at_(err, status, UINT64_MAX, file, line, "%s:%u:%u: %s", at->file, at->line,
                        at->column, text);
}
