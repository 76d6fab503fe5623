/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cost/host/overheads.h"
#include "io/json/reader.h"
#include "io/json/number.h"
#include "io/stream/output.h"
#include "io/stream/stream.h"

/* CSV of overheads: kind,name,mean_us,std_us,count. RFC 4180: names of operators hold commas
 * and quotes. */
#define HEADER "kind,name,mean_us,std_us,count"
enum { COLUMNS = 5, MAX_FILE_BYTES = 256 << 20 };

static const char *const KINDS[ORR_OVERHEADS] = {"t1", "t2", "t3", "t4", "t5"};

static orr_overhead_kind kind_of(const char *text, size_t len)
{
    for (int kind = 0; kind < ORR_OVERHEADS; kind++)
        if (len == strlen(KINDS[kind]) && memcmp(text, KINDS[kind], len) == 0)
            return (orr_overhead_kind)kind;
    return ORR_OVERHEADS;
}

typedef struct reader {
    const char *path;
    char *at; /* the file's text, decoded in place */
    uint32_t line;
    orr_arena *arena;
    orr_array(orr_overhead) rows;
    orr_error *err;
} reader;

/* The next field, decoded in place and NUL-terminated; false: the line has no more. */
static bool next_field(char **at, orr_text *ret)
{
    if (**at == '\0')
        return false;
    char *in = *at, *out = *at;
    bool quoted = false;
    ret->at = out;
    for (; *in != '\0' && (quoted || *in != ','); in++) {
        if (*in != '"')
            *out++ = *in;
        else if (quoted && in[1] == '"')
            *out++ = *in++;
        else
            quoted = !quoted;
    }
    ret->n = (size_t)(out - ret->at);
    *at = *in == '\0' ? in : in + 1;
    *out = '\0';
    return true;
}

static orr_status bad_line(const reader *r, const char *what)
{
    return orr_fail(r->err, ORR_PARSE, "%s:%u: %s; a line is: " HEADER, r->path, r->line, what);
}

static orr_status read_row(reader *r, char *line)
{
    orr_text fields[COLUMNS];
    int n = 0;
    while (n < COLUMNS && next_field(&line, &fields[n]))
        n++;
    if (n < COLUMNS || *line != '\0')
        return bad_line(r, "not five fields");
    orr_overhead row = {0};
    const orr_overhead_kind kind = kind_of(fields[0].at, fields[0].n);
    if (kind == ORR_OVERHEADS)
        return bad_line(r, "the kind is none of t1 to t5");
    row.kind = (uint8_t)kind;
    if (!orr_text_double(fields[2], &row.mean_us) || !orr_text_double(fields[3], &row.std_us) ||
        !(row.mean_us >= 0) || !(row.std_us >= 0) || !orr_text_uint64(fields[4], &row.count))
        return bad_line(r, "mean_us, std_us and count must be numbers, none negative");
    row.name = orr_arena_strndup(r->arena, fields[1].at, fields[1].n);
    if (row.name == NULL || !orr_array_push(&r->rows, row))
        return orr_fail_memory(r->err);
    return ORR_OK;
}

/* Length up to the line break that is not inside of quotes. */
static size_t line_length(const char *at)
{
    size_t len = 0;
    for (bool quoted = false; at[len] != '\0' && (quoted || at[len] != '\n'); len++)
        quoted ^= at[len] == '"';
    return len;
}

static orr_status read_lines(reader *r)
{
    for (char *next; *r->at != '\0'; r->at = next) {
        const size_t len = line_length(r->at);
        next = r->at + len + (r->at[len] == '\n');
        r->at[len] = '\0';
        if (len > 0 && r->at[len - 1] == '\r')
            r->at[len - 1] = '\0';
        r->line++;
        if (r->line == 1) {
            if (strcmp(r->at, HEADER) != 0)
                return bad_line(r, "not a file of overheads");
        } else if (*r->at != '\0') {
            ORR_TRY(read_row(r, r->at));
        }
    }
    return r->line == 0 ? bad_line(r, "empty") : ORR_OK;
}

static orr_status read_all(const char *path, char **ret, orr_error *err)
{
    orr_stream *stream = NULL;
    orr_status status = ORR_OK;
    ORR_TRY(orr_stream_open(path, &stream, err));
    orr_stream_set_limit(stream, MAX_FILE_BYTES);
    for (bool end = false; !end;)
        ORR_TRY_OUT(status, orr_stream_fill(stream, &end, err));
    const orr_window window = orr_stream_window(stream);
    char *text = orr_malloc(window.n + 1);
    if (text == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    memcpy(text, window.bytes, window.n);
    text[window.n] = '\0';
    *ret = text;
out:
    orr_stream_close(stream);
    return status;
}

static int by_kind_name(const void *a, const void *b)
{
    const orr_overhead *x = a, *y = b;
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : strcmp(x->name, y->name);
}

static orr_status keep_rows(reader *r, orr_overheads *ret)
{
    if (r->rows.n > 0)
        qsort(r->rows.at, r->rows.n, sizeof *r->rows.at, by_kind_name);
    for (size_t i = 1; i < r->rows.n; i++)
        if (by_kind_name(&r->rows.at[i - 1], &r->rows.at[i]) == 0)
            return orr_fail(r->err, ORR_INVALID, "%s: two rows for %s of '%s'", r->path,
                            KINDS[r->rows.at[i].kind], r->rows.at[i].name);
    orr_overhead *rows = orr_arena_array(r->arena, orr_overhead, r->rows.n);
    if (rows == NULL)
        return orr_fail_memory(r->err);
    if (r->rows.n > 0)
        memcpy(rows, r->rows.at, r->rows.n * sizeof *rows);
    *ret = (orr_overheads){rows, r->rows.n};
    return ORR_OK;
}

orr_status orr_overheads_load(const char *path, orr_arena *arena, orr_overheads *ret,
                              orr_error *err)
{
    char *text = NULL;
    ORR_TRY(read_all(path, &text, err));
    reader r = {.path = path, .at = text, .arena = arena, .err = err};
    orr_status status = read_lines(&r);
    if (status == ORR_OK)
        status = keep_rows(&r, ret);
    orr_array_done(&r.rows);
    orr_free(text);
    return status;
}

static void write_name(orr_output *out, const char *name)
{
    const bool quote = strpbrk(name, ",\"\r\n") != NULL;
    if (quote)
        orr_output_text(out, "\"");
    for (const char *at = name; *at != '\0'; at++)
        orr_output_printf(out, "%s%c", *at == '"' ? "\"" : "", *at);
    if (quote)
        orr_output_text(out, "\"");
}

static void write_number(orr_output *out, double value)
{
    char text[ORR_DOUBLE_CHARS];
    const size_t len = orr_print_double(text, value);
    orr_output_text(out, ",");
    orr_output_write(out, text, len);
}

orr_status orr_overheads_save(const orr_overheads *overheads, const char *path, orr_error *err)
{
    orr_output *out = NULL;
    ORR_TRY(orr_output_open(path, &out, err));
    orr_output_text(out, HEADER "\n");
    for (size_t i = 0; i < overheads->n; i++) {
        const orr_overhead *row = &overheads->rows[i];
        orr_output_printf(out, "%s,", KINDS[row->kind]);
        write_name(out, row->name);
        write_number(out, row->mean_us);
        write_number(out, row->std_us);
        orr_output_printf(out, ",%llu\n", (unsigned long long)row->count);
    }
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}
