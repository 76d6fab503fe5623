/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "experts/routes/lines.h"
#include "experts/routes/read.h"
#include "experts/routes/windows.h"

enum { LOOKED_AT_BYTES = 1 << 16 };

static bool has_text(orr_text text, const char *what)
{
    return memmem(text.at, text.n, what, strlen(what)) != NULL;
}

static bool has_load_key(orr_text text)
{
    char key[64];
    for (uint32_t i = 0; orr_windows_key(i) != NULL; i++) {
        (void)snprintf(key, sizeof key, "\"%s\"", orr_windows_key(i));
        if (has_text(text, key))
            return true;
    }
    return false;
}

static bool has_layer_column(orr_text text)
{
    const char *end = memchr(text.at, '\n', text.n);
    orr_text line = {text.at, end != NULL ? (size_t)(end - text.at) : text.n}, field;
    line.n -= line.n > 0 && line.at[line.n - 1] == '\r';
    while (orr_csv_next_field(&line, &field))
        if (orr_text_is(field, "layer"))
            return true;
    return false;
}

orr_status orr_windows_look(orr_stream *stream, bool *ret, orr_error *err)
{
    bool end = false;
    while (!end && orr_stream_window(stream).n < LOOKED_AT_BYTES)
        ORR_TRY(orr_stream_fill(stream, &end, err));
    const orr_window w = orr_stream_window(stream);
    orr_text text = {(const char *)w.bytes, w.n < LOOKED_AT_BYTES ? w.n : LOOKED_AT_BYTES};
    size_t at = 0;
    while (at < text.n && strchr(" \t\r\n", text.at[at]) != NULL && text.at[at] != '\0')
        at++;
    if (at < text.n && text.at[at] == '[')
        *ret = !has_text(text, "{");
    else if (at < text.n && text.at[at] == '{')
        *ret = has_load_key(text);
    else
        *ret = has_layer_column(text);
    return ORR_OK;
}

/* Checks the loads, and leaves windows out in which nothing was counted, as the buffers have that
 * servers make for more steps than there were. */
static orr_status check_loads(orr_windows_reading *r, uint32_t *ret_windows, orr_error *err)
{
    const size_t window = (size_t)r->layers * r->experts;
    uint32_t n = 0;
    for (size_t at = 0; at < r->load.n; at += window) {
        double sum = 0;
        for (size_t i = 0; i < window; i++) {
            const double load = r->load.at[at + i];
            if (!(load >= 0) || isinf(load))
                return orr_fail(err, ORR_INVALID, "the load of expert %zu in layer %u is %g",
                                i % r->experts, r->number.at[i / r->experts], load);
            sum += load;
        }
        if (sum > 0)
            memmove(r->load.at + window * n++, r->load.at + at, window * sizeof *r->load.at);
    }
    for (uint32_t l = 0; l < r->layers; l++) {
        double sum = 0;
        for (size_t i = 0; i < (size_t)n * r->experts; i++)
            sum += r->load.at[i / r->experts * window + (size_t)l * r->experts + i % r->experts];
        if (!(sum > 0))
            return orr_fail(err, ORR_INVALID, "no expert of layer %u has any load",
                            r->number.at[l]);
    }
    *ret_windows = n;
    return ORR_OK;
}

static orr_status check_layers(orr_windows_reading *r, orr_error *err)
{
    for (uint32_t l = 0; r->number.n == l && l < r->layers; l++)
        if (!orr_array_push(&r->number, l))
            return orr_fail_memory(err);
    if (r->number.n != r->layers)
        return orr_fail(err, ORR_PARSE, "%zu numbers of %u layers", r->number.n, r->layers);
    for (uint32_t l = 1; l < r->layers; l++)
        if (r->number.at[l] <= r->number.at[l - 1])
            return orr_fail(err, ORR_INVALID, "layer %u stands after layer %u", r->number.at[l],
                            r->number.at[l - 1]);
    return ORR_OK;
}

static orr_status finish(orr_windows_reading *r, orr_arena *arena, orr_expert_windows *ret,
                         orr_error *err)
{
    uint32_t windows;
    if (r->load.n == 0)
        return orr_fail(err, ORR_PARSE, "no loads of experts");
    ORR_TRY(check_layers(r, err));
    ORR_TRY(check_loads(r, &windows, err));
    const size_t n = (size_t)windows * r->layers * r->experts;
    double *load = orr_arena_array(arena, double, n);
    uint32_t *number = orr_arena_array(arena, uint32_t, r->layers);
    const char *source = orr_arena_strndup(arena, r->path, strlen(r->path));
    if (load == NULL || number == NULL || source == NULL)
        return orr_fail_memory(err);
    memcpy(load, r->load.at, n * sizeof *load);
    memcpy(number, r->number.at, r->layers * sizeof *number);
    *ret = (orr_expert_windows){.windows = windows,
                                .layers = r->layers,
                                .experts = r->experts,
                                .number = number,
                                .load = load,
                                .source = source};
    return ORR_OK;
}

orr_status orr_windows_read_stream(orr_stream *stream, const char *path, orr_arena *arena,
                                   orr_expert_windows *ret, orr_error *err)
{
    orr_windows_reading r = {.path = path, .stream = stream};
    bool json;
    ORR_TRY(orr_route_look(stream, &json, err));
    orr_status status = json ? orr_windows_read_json(&r, err) : orr_windows_read_csv(&r, err);
    if (status == ORR_OK)
        status = finish(&r, arena, ret, err);
    orr_array_done(&r.number);
    orr_array_done(&r.load);
    return status;
}

orr_status orr_expert_windows_read(const char *path, orr_arena *arena, orr_expert_windows *ret,
                                   orr_error *err)
{
    orr_stream *stream;
    orr_status status = orr_stream_open(path, &stream, err);
    if (status == ORR_OK) {
        status = orr_windows_read_stream(stream, path, arena, ret, err);
        orr_stream_close(stream);
    }
    return orr_route_name_file(path, status, err);
}

orr_status orr_windows_look_at(const char *path, bool *ret, orr_error *err)
{
    orr_stream *stream;
    orr_status status = orr_stream_open(path, &stream, err);
    if (status == ORR_OK) {
        status = orr_windows_look(stream, ret, err);
        orr_stream_close(stream);
    }
    return orr_route_name_file(path, status, err);
}
