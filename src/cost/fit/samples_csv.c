/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/fit/samples.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json/reader.h"
#include "io/stream/stream.h"

/* Samples from a CSV of measurements: RFC 4180, but without line breaks inside of fields. */
enum { MAX_LINE_BYTES = 1 << 20, MAX_FIELDS = 64 };

typedef enum column {
    COLUMN_DEVICE,
    COLUMN_FAMILY,
    COLUMN_DTYPE,
    COLUMN_DIMS,
    COLUMN_NS,
    COLUMN_OP,
    COLUMN_KERNEL,
    COLUMN_FLOPS,
    COLUMN_BYTES,
    COLUMN_READ_BYTES,
    COLUMN_WRITE_BYTES,
    COLUMN_BACKWARD,
    COLUMN_COPY,
    COLUMNS
} column;
static const char *const COLUMN_NAMES[] = {
    [COLUMN_DEVICE] = "device",
    [COLUMN_FAMILY] = "family",
    [COLUMN_DTYPE] = "dtype",
    [COLUMN_DIMS] = "dims",
    [COLUMN_NS] = "ns",
    [COLUMN_OP] = "op",
    [COLUMN_KERNEL] = "kernel",
    [COLUMN_FLOPS] = "flops",
    [COLUMN_BYTES] = "bytes",
    [COLUMN_READ_BYTES] = "read_bytes",
    [COLUMN_WRITE_BYTES] = "write_bytes",
    [COLUMN_BACKWARD] = "backward",
    [COLUMN_COPY] = "copy",
};

/* Dims of each family: the list in <orrery/cost.h>. */
static const uint8_t FAMILY_DIMS[ORR_FAMILIES] = {
    [ORR_FAMILY_OTHER] = 0,
    [ORR_FAMILY_GEMM] = 4,
    [ORR_FAMILY_CONVOLUTION] = 8,
    [ORR_FAMILY_ATTENTION] = 5,
    [ORR_FAMILY_EMBEDDING_FORWARD] = 5,
    [ORR_FAMILY_EMBEDDING_BACKWARD] = 5,
    [ORR_FAMILY_CONCAT] = 1,
    [ORR_FAMILY_COPY] = 1,
    [ORR_FAMILY_TRANSPOSE] = 3,
    [ORR_FAMILY_INTERACTION] = 3,
    [ORR_FAMILY_NORM] = 2,
    [ORR_FAMILY_SOFTMAX] = 2,
    [ORR_FAMILY_REDUCTION] = 1,
    [ORR_FAMILY_ELEMENTWISE] = 1,
    [ORR_FAMILY_OPTIMIZER] = 1,
};

typedef struct csv {
    orr_samples *samples;
    const orr_catalog *catalog;
    const orr_device *given; /* may be NULL */
    const char *path;
    uint64_t line;
    orr_stream *stream;
    orr_array(char) text; /* the current line; its fields are NUL-terminated in place */
    const char *fields[MAX_FIELDS];
    size_t n_fields;
    int8_t field_of[COLUMNS]; /* field, or -1  */
    size_t n_columns;
    const orr_device *device; /* device of the previous row: most files have one */
    const char *device_name;
    orr_samples_report report;
    orr_error *err;
} csv;

#define csv_fail(c, status, format, ...)                                                           \
    orr_fail((c)->err, (status), "%s:%llu: " format, (c)->path, (unsigned long long)(c)->line,     \
             ##__VA_ARGS__)

/* The next line without its end; *ret_is false at the end of the file. */
static orr_status next_line(csv *c, bool *ret_is)
{
    bool ended = false;
    for (size_t seen = 0;;) {
        const orr_window window = orr_stream_window(c->stream);
        const uint8_t *end =
            window.n > seen ? memchr(window.bytes + seen, '\n', window.n - seen) : NULL;
        if (end != NULL || ended) {
            size_t n = end != NULL ? (size_t)(end - window.bytes) : window.n;
            const size_t taken = n + (end != NULL);
            *ret_is = taken > 0;
            c->line += taken > 0;
            if (n > 0 && window.bytes[n - 1] == '\r')
                n--;
            c->text.n = 0;
            if (!orr_array_reserve(&c->text, n + 1))
                return orr_fail_memory(c->err);
            memcpy(c->text.at, window.bytes, n);
            c->text.at[n] = '\0';
            c->text.n = n;
            orr_stream_consume(c->stream, taken);
            return ORR_OK;
        }
        seen = window.n;
        const orr_status status = orr_stream_fill(c->stream, &ended, c->err);
        if (status == ORR_LIMIT)
            return csv_fail(c, ORR_LIMIT, "line %llu is over %d bytes long",
                            (unsigned long long)c->line + 1, MAX_LINE_BYTES);
        if (status != ORR_OK) {
            orr_error_prefix(c->err, c->path);
            return status;
        }
    }
}

/* A quoted field, unquoted in place; NULL: the quote does not end. */
static char *unquote(char *at)
{
    char *out = at;
    for (at++; *at != '\0'; at++) {
        if (*at == '"' && at[1] != '"') {
            *out = '\0';
            return at + 1;
        }
        at += *at == '"';
        *out++ = *at;
    }
    return NULL;
}

static orr_status split(csv *c)
{
    if (memchr(c->text.at, '\0', c->text.n) != NULL)
        return csv_fail(c, ORR_PARSE, "a NUL byte: this is no CSV");
    char *at = c->text.at;
    for (c->n_fields = 0;; at++) {
        if (c->n_fields == MAX_FIELDS)
            return csv_fail(c, ORR_LIMIT, "over %d fields", MAX_FIELDS);
        c->fields[c->n_fields++] = at;
        char *end = *at == '"' ? unquote(at) : at + strcspn(at, ",");
        if (end == NULL || (*end != ',' && *end != '\0'))
            return csv_fail(c, ORR_PARSE, "field %zu: its quotes do not end with it", c->n_fields);
        if (*end == '\0')
            return ORR_OK;
        *end = '\0';
        at = end;
    }
}

static bool is_remark(const csv *c)
{
    return c->text.n == 0 || c->text.at[0] == '#';
}

static orr_status read_header(csv *c)
{
    bool is;
    do {
        ORR_TRY(next_line(c, &is));
        if (!is)
            return orr_fail(c->err, ORR_PARSE, "%s: it is empty: the first line names the columns",
                            c->path);
    } while (is_remark(c));
    ORR_TRY(split(c));
    memset(c->field_of, -1, sizeof c->field_of);
    for (size_t f = 0; f < c->n_fields; f++)
        for (int i = 0; i < COLUMNS; i++)
            if (strcmp(c->fields[f], COLUMN_NAMES[i]) == 0)
                c->field_of[i] = (int8_t)f;
    c->n_columns = c->n_fields;
    static const column NEEDED[] = {COLUMN_FAMILY, COLUMN_DTYPE, COLUMN_DIMS, COLUMN_NS};
    for (size_t i = 0; i < sizeof NEEDED / sizeof *NEEDED; i++)
        if (c->field_of[NEEDED[i]] < 0)
            return csv_fail(c, ORR_INVALID, "no column '%s'; it needs family, dtype, dims and ns",
                            COLUMN_NAMES[NEEDED[i]]);
    if (c->given == NULL && c->field_of[COLUMN_DEVICE] < 0)
        return csv_fail(c, ORR_INVALID, "no column 'device'; add it or name the device (--device)");
    return ORR_OK;
}

static const char *field(const csv *c, column of)
{
    return c->field_of[of] < 0 ? "" : c->fields[c->field_of[of]];
}

/* A number >= 0; 0 where the field is empty. */
static orr_status read_number(csv *c, column of, double *ret)
{
    const char *text = field(c, of);
    double value = 0;
    if (*text != '\0' &&
        (!orr_text_double((orr_text){text, strlen(text)}, &value) || !(value >= 0) || isinf(value)))
        return csv_fail(c, ORR_INVALID, "%s: '%s' is not a number of 0 or more", COLUMN_NAMES[of],
                        text);
    *ret = value;
    return ORR_OK;
}

static orr_status read_device(csv *c, const orr_device **ret)
{
    const char *name = field(c, COLUMN_DEVICE);
    if (c->given == NULL && (c->device == NULL || strcmp(name, c->device_name) != 0)) {
        c->device = orr_catalog_device(c->catalog, name);
        if (c->device == NULL)
            c->device = orr_catalog_recognise(c->catalog, name);
        if (c->device == NULL)
            return csv_fail(c, ORR_NOT_FOUND, "device: the catalogue knows no '%s'", name);
        const uint32_t id = orr_strtab_add(c->samples->names, name, strlen(name));
        if (id == UINT32_MAX)
            return orr_fail_memory(c->err);
        c->device_name = orr_strtab_text(c->samples->names, id);
    }
    *ret = c->given != NULL ? c->given : c->device;
    return ORR_OK;
}

static orr_status read_names(csv *c, orr_work *work)
{
    const char *family = field(c, COLUMN_FAMILY), *dtype = field(c, COLUMN_DTYPE);
    int at = 0;
    while (at < ORR_FAMILIES && strcmp(orr_kernel_family_name((orr_kernel_family)at), family) != 0)
        at++;
    if (at == ORR_FAMILIES)
        return csv_fail(c, ORR_INVALID, "family: '%s' is none: gemm, attention, norm, ...", family);
    work->family = (uint8_t)at;
    for (at = 0; at < ORR_DTYPES && strcmp(orr_dtype_name((orr_dtype)at), dtype) != 0;)
        at++;
    if (at == ORR_DTYPES)
        return csv_fail(c, ORR_INVALID, "dtype: '%s' is none: fp32, fp16, bf16, ...", dtype);
    work->dtype = (uint8_t)at;
    work->op = field(c, COLUMN_OP);
    work->kernel = field(c, COLUMN_KERNEL);
    return ORR_OK;
}

static orr_status read_dims(csv *c, orr_work *work)
{
    const char *text = field(c, COLUMN_DIMS);
    const unsigned wanted = FAMILY_DIMS[work->family];
    unsigned n = 0;
    for (const char *at = text; *at != '\0';) {
        const size_t len = strcspn(at, "x");
        int64_t dim;
        if (!orr_text_int64((orr_text){at, len}, &dim) || dim < 1)
            return csv_fail(c, ORR_INVALID, "dims: '%s' is not like 4096x1024", text);
        if (n < ORR_WORK_DIMS)
            work->dims[n] = dim;
        n++;
        at += len;
        if (*at == 'x' && *++at == '\0')
            return csv_fail(c, ORR_INVALID, "dims: '%s' ends in an x", text);
    }
    if (n != wanted)
        return csv_fail(c, ORR_INVALID, "dims: '%s' are not the %u of %s", text, wanted,
                        orr_kernel_family_name((orr_kernel_family)work->family));
    work->n_dims = (uint8_t)n;
    return ORR_OK;
}

static orr_status read_flags(csv *c, orr_work *work)
{
    static const char *const COPIES[] = {"", "htod", "dtoh", "dtod"};
    const char *backward = field(c, COLUMN_BACKWARD), *copy = field(c, COLUMN_COPY);

    if (strlen(backward) > 1 || strspn(backward, "01") != strlen(backward))
        return csv_fail(c, ORR_INVALID, "backward: '%s' is not 0 or 1", backward);
    work->backward = *backward == '1';
    int at = 0;
    while (at < 4 && strcmp(copy, COPIES[at]) != 0)
        at++;
    if (at == 4)
        return csv_fail(c, ORR_INVALID, "copy: '%s' is not htod, dtoh or dtod", copy);
    work->copy = (uint8_t)at;
    return ORR_OK;
}

static orr_status read_amounts(csv *c, orr_work *work)
{
    double bytes;
    ORR_TRY(read_number(c, COLUMN_FLOPS, &work->flops));
    ORR_TRY(read_number(c, COLUMN_BYTES, &bytes));
    ORR_TRY(read_number(c, COLUMN_READ_BYTES, &work->read_bytes));
    ORR_TRY(read_number(c, COLUMN_WRITE_BYTES, &work->write_bytes));
    if (bytes > 0 && work->read_bytes + work->write_bytes > 0)
        return csv_fail(c, ORR_INVALID,
                        "bytes and read_bytes or write_bytes: give one or the other");
    if (bytes > 0) /* the direction makes no difference to a price */
        work->read_bytes = work->write_bytes = bytes / 2;
    return ORR_OK;
}

static orr_status read_row(csv *c)
{
    orr_cost_sample sample = {0};

    ORR_TRY(split(c));
    if (c->n_fields != c->n_columns)
        return csv_fail(c, ORR_PARSE, "%zu fields, the header has %zu", c->n_fields, c->n_columns);
    ORR_TRY(read_device(c, &sample.device));
    ORR_TRY(read_names(c, &sample.work));
    ORR_TRY(read_dims(c, &sample.work));
    ORR_TRY(read_flags(c, &sample.work));
    ORR_TRY(read_amounts(c, &sample.work));
    ORR_TRY(read_number(c, COLUMN_NS, &sample.ns));
    return orr_samples_add(c->samples, &sample, &c->report, c->err);
}

static orr_status read_all(csv *c)
{
    bool is;
    orr_stream_set_limit(c->stream, MAX_LINE_BYTES);
    ORR_TRY(read_header(c));
    for (;;) {
        ORR_TRY(next_line(c, &is));
        if (!is)
            return orr_samples_add_source(c->samples, c->path, c->err);
        if (!is_remark(c))
            ORR_TRY(read_row(c));
    }
}

orr_status orr_samples_add_csv(orr_samples *samples, const char *path, const orr_catalog *catalog,
                               const orr_device *device, orr_samples_report *ret, orr_error *err)
{
    csv c = {.samples = samples, .catalog = catalog, .given = device, .path = path, .err = err};
    const size_t before = samples->rows.n;

    ORR_TRY(orr_stream_open(path, &c.stream, err));
    const orr_status status = read_all(&c);
    orr_stream_close(c.stream);
    orr_array_done(&c.text);
    if (status == ORR_OK)
        *ret = c.report;
    else
        samples->rows.n = before;
    return status;
}
