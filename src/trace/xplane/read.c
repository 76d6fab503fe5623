/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/common/reader.h"
#include "trace/kineto/import.h"
#include "trace/xplane/hlo.h"
#include "trace/xplane/plane.h"

/* XSpaces: what jax.profiler, TensorFlow and PyTorch/XLA write (.xplane.pb). A plane is held in
 * memory while it is read, since the names of its events stand behind them. */

typedef enum line_kind {
    LINE_HOST,      /* a thread */
    LINE_STREAM,    /* of a GPU: what CUPTI or the ROCm profiler recorded */
    LINE_OPERATORS, /* of a core: operators of HLO, one after another */
    LINE_SPANS,     /* of a device: steps, modules and whatever else covers work */
    LINE_DERIVED    /* made from other lines */
} line_kind;

typedef struct reader {
    kineto *k;
    xplane plane;
    uint64_t plane_byte;  /* of the file, where plane.fields.begin stands */
    int64_t plane_number; /* in the file: tells apart the lanes of planes of one device */
    int64_t device;       /* -1: a host */
    int64_t process;
    int64_t started_ns, first_ns; /* of the profile; of the first line; 0, INT64_MAX: none */
    line_kind kind;               /* of the line at hand */
    int64_t line, line_ns;
} reader;

static orr_status broken(const reader *r, const uint8_t *at, orr_error *err)
{
    const unsigned long long byte = r->plane_byte + (uint64_t)(at - r->plane.fields.begin);
    return orr_fail_byte(err, ORR_PARSE, byte, "at byte %llu: broken XPlane '%.*s'", byte,
                         (int)(r->plane.name.n < 64 ? r->plane.name.n : 64), r->plane.name.at);
}

/* --- events ---------------------------------------------------------------------------------- */

/* Rounded down, so that what is nested stays so. */
static int64_t whole_ns(int64_t ps)
{
    return ps / 1000 - (ps % 1000 < 0);
}

/* The number behind "size:" in "kind_src:pageable kind_dst:device size:1024 dest:0 async:1"; -1. */
static int64_t number_after(orr_text details, const char *word, const char **ret_after)
{
    const size_t n = strlen(word);
    const char *end = details.at + details.n, *at = memmem(details.at, details.n, word, n);
    int64_t value = 0;
    if (at == NULL || at + n == end || at[n] < '0' || at[n] > '9')
        return -1;
    for (at += n; at < end && *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *at - '0', &value))
            return -1;
    if (ret_after != NULL)
        *ret_after = at;
    return value;
}

static orr_status put_dims(kineto *k, const char *name, orr_text details, const char *word,
                           orr_error *err)
{
    int64_t xyz[3] = {1, 1, 1};
    const char *at = NULL, *end = details.at + details.n;
    xyz[0] = number_after(details, word, &at);
    if (xyz[0] < 0)
        return ORR_OK;
    for (int i = 1; i < 3 && at < end && *at == ','; i++) {
        const int64_t next = number_after((orr_text){at, (size_t)(end - at)}, ",", &at);
        if (next < 0)
            return ORR_OK;
        xyz[i] = next;
    }
    return kineto_put_dims(k, name, xyz[0], xyz[1], xyz[2], err);
}

static orr_status put_details(kineto *k, const xplane_stats *s, orr_error *err)
{
    static const struct {
        xplane_stat stat;
        const char *name;
    } kept[] = {{STAT_HLO_OP, "hlo_op"},
                {STAT_HLO_MODULE, "hlo_module"},
                {STAT_HLO_CATEGORY, "hlo_category"},
                {STAT_FLOPS, "flops"},
                {STAT_BYTES_ACCESSED, "bytes_accessed"}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const orr_text text = xplane_text(s, kept[i].stat);
        if (text.n > 0)
            ORR_TRY(kineto_put_text(k, kept[i].name, text.at, text.n, err));
        else if ((s->ints >> kept[i].stat & 1) != 0)
            ORR_TRY(kineto_put_int(k, kept[i].name, s->value[kept[i].stat], err));
    }
    const orr_text kernel = xplane_text(s, STAT_KERNEL);
    if (kernel.n == 0)
        return ORR_OK;
    ORR_TRY(put_dims(k, "grid", kernel, "grid:", err));
    ORR_TRY(put_dims(k, "block", kernel, "block:", err));
    const int64_t registers = number_after(kernel, "regs:", NULL);
    if (registers >= 0)
        ORR_TRY(kineto_put_int(k, "registers per thread", registers, err));
    int64_t shared = number_after(kernel, "static_shared:", NULL);
    const int64_t dynamic = number_after(kernel, "dynamic_shared:", NULL);
    if (shared >= 0 && dynamic >= 0 && !__builtin_add_overflow(shared, dynamic, &shared))
        ORR_TRY(kineto_put_int(k, "shared memory", shared, err));
    return ORR_OK;
}

static kineto_cat category(const reader *r, orr_text name, const xplane_stats *s)
{
    switch (r->kind) {
    case LINE_HOST:
        if (xplane_int(s, STAT_CORRELATION, 0) > 0)
            return CAT_RUNTIME;
        if (xplane_begins(name, "$")) /* "$module.py:12 function" */
            return CAT_PYTHON;
        if (xplane_begins(name, "NVTX:") ||
            (xplane_int(s, STAT_STEP, -1) >= 0 && xplane_int(s, STAT_ROOT, 0) != 0))
            return CAT_USER_ANNOTATION;
        return CAT_CPU_OP;
    case LINE_STREAM:
        if (xplane_has(s, STAT_COPY) || xplane_begins(name, "Memcpy"))
            return CAT_MEMCPY;
        if (xplane_has(s, STAT_SET) || xplane_begins(name, "Memset"))
            return CAT_MEMSET;
        return xplane_has(s, STAT_ALLOCATION) || xplane_has(s, STAT_FREE) ||
                       xplane_has(s, STAT_RESIDENCY)
                   ? CAT_GPU_ANNOTATION
                   : CAT_KERNEL;
    case LINE_OPERATORS:
        return hlo_is_control_flow(name, xplane_text(s, STAT_HLO_CATEGORY)) ? CAT_GPU_ANNOTATION
                                                                            : CAT_KERNEL;
    case LINE_SPANS:
    case LINE_DERIVED:
        break;
    }
    return CAT_GPU_ANNOTATION;
}

static orr_status set_name(reader *r, kineto_event *e, orr_text name, const xplane_stats *s,
                           orr_error *err)
{
    char step[48];
    kineto *k = r->k;
    if (r->kind != LINE_HOST || e->cat != CAT_USER_ANNOTATION || xplane_begins(name, "NVTX:"))
        return kineto_set_name(k, e, name.at, name.n, err);
    /* StepTraceAnnotation("train", step_num=3) is what torch.profiler calls ProfilerStep#3. */
    const int n = snprintf(step, sizeof step, "ProfilerStep#%lld", (long long)s->value[STAT_STEP]);
    ORR_TRY(kineto_put_text(k, "name", name.at, name.n, err));
    return kineto_set_name(k, e, step, (size_t)n, err);
}

/* Work that one thread hands to another has a number that both tell. */
static orr_status add_flow(reader *r, const kineto_event *e, const xplane_stats *s, orr_error *err)
{
    static const struct {
        xplane_stat kind, id;
        char ph;
    } ends[] = {{STAT_CONSUMER_KIND, STAT_CONSUMER, 'f'}, {STAT_PRODUCER_KIND, STAT_PRODUCER, 's'}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if ((s->ints >> ends[i].id & 1) == 0)
            continue;
        kineto_event flow = *e;
        flow.cat = CAT_FLOW_FORWARD;
        flow.ph = ends[i].ph;
        flow.id = (uint64_t)s->value[ends[i].id] ^ (uint64_t)xplane_int(s, ends[i].kind, 0) << 56;
        ORR_TRY(kineto_add_flow(r->k, &flow, err));
    }
    return ORR_OK;
}

static orr_status add_event(reader *r, kineto_event *e, orr_text name, const xplane_stats *s,
                            orr_error *err)
{
    kineto *k = r->k;
    const bool on_host = r->kind == LINE_HOST;
    const bool is_operator = r->kind == LINE_OPERATORS || (on_host && xplane_has(s, STAT_HLO_OP));
    const char *collective = is_operator ? hlo_collective(name) : NULL;
    e->cat = (uint8_t)category(r, name, s);
    e->pid.number = on_host ? r->process : r->plane_number;
    e->tid.number = r->line;
    if (!on_host)
        kineto_set(e, ARG_DEVICE, r->device);
    if (xplane_int(s, STAT_CORRELATION, 0) > 0)
        kineto_set(e, ARG_CORRELATION, s->value[STAT_CORRELATION]);
    const int64_t bytes =
        e->cat == CAT_MEMCPY   ? number_after(xplane_text(s, STAT_COPY), "size:", NULL)
        : e->cat == CAT_MEMSET ? number_after(xplane_text(s, STAT_SET), "num_bytes:", NULL)
                               : -1;
    if (bytes >= 0)
        kineto_set_bytes(e, bytes);
    if (collective != NULL && e->cat != CAT_GPU_ANNOTATION)
        ORR_TRY(kineto_set_text(k, e, ARG_COLLECTIVE, collective, strlen(collective), err));
    ORR_TRY(set_name(r, e, name, s, err));
    if (k->options->attributes)
        ORR_TRY(put_details(k, s, err));
    const size_t comms = k->comms.n;
    ORR_TRY(kineto_add_node(k, e, err));
    /* A thunk of the CPU is the communication itself. */
    if (on_host && collective != NULL && k->comms.n > comms)
        k->comms.at[comms].executes = true;
    return on_host ? add_flow(r, e, s, err) : ORR_OK;
}

static orr_status read_event(reader *r, const orr_proto_field *event, orr_error *err)
{
    static const orr_text unnamed = {"(no name)", 9};
    int64_t offset_ps = 0, duration_ps = 0, end_ps, start_ns, end_ns;
    const xplane_event_name *name = NULL;
    bool counts = false, has_stats = false;
    xplane_stats stats;
    stats.ints = stats.texts = 0;
    orr_proto p = orr_proto_of(event->bytes, event->len);
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number == XEVENT_NAME_ID && f.wire == ORR_PROTO_VARINT)
            name = xplane_event_name_of(&r->plane, f.value);
        else if (f.number == XEVENT_OFFSET_PS && f.wire == ORR_PROTO_VARINT)
            offset_ps = (int64_t)f.value;
        else if (f.number == XEVENT_DURATION_PS && f.wire == ORR_PROTO_VARINT)
            duration_ps = (int64_t)f.value;
        counts |= f.number == XEVENT_OCCURRENCES;
        has_stats |= f.number == XEVENT_STAT;
    }
    if (p.failed)
        return broken(r, p.at, err);
    ORR_TRY(kineto_begin_event(r->k, err));
    if (counts || r->kind == LINE_DERIVED) { /* a sum over events, or what other lines say */
        r->k->report->ignored++;
        return ORR_OK;
    }
    if ((name != NULL && name->has_stats &&
         !xplane_add_stats(&r->plane, name->message, name->len, XNAME_STAT, &stats)) ||
        (has_stats && !xplane_add_stats(&r->plane, event->bytes, event->len, XEVENT_STAT, &stats)))
        return broken(r, event->bytes, err);
    kineto_event e = {.ph = 'X'};
    if (__builtin_add_overflow(offset_ps, duration_ps, &end_ps) ||
        __builtin_add_overflow(r->line_ns, whole_ns(offset_ps), &start_ns) ||
        __builtin_add_overflow(r->line_ns, whole_ns(end_ps), &end_ns) ||
        !kineto_set_span(r->k, &e, start_ns, end_ns))
        return kineto_bad_event(r->k, "event", "has no time that is possible", err);
    return add_event(r, &e, name != NULL ? name->name : unnamed, &stats, err);
}

/* --- lines and planes ------------------------------------------------------------------------ */

static line_kind kind_of_line(const reader *r, orr_text name)
{
    static const struct {
        const char *name;
        line_kind kind;
    } lines[] = {
        {"XLA Ops", LINE_OPERATORS},     {"Sparse Core Ops", LINE_OPERATORS},
        {"Framework Ops", LINE_DERIVED}, {"Framework Name Scope", LINE_DERIVED},
        {"Source code", LINE_DERIVED},   {"Launch Stats", LINE_DERIVED},
        {"_counters_", LINE_DERIVED},
    };
    if (r->device < 0)
        return LINE_HOST;
    if (xplane_begins(name, "Stream #"))
        return LINE_STREAM;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (orr_text_equal(name, lines[i].name, strlen(lines[i].name)))
            return r->plane.has_streams ? LINE_DERIVED : lines[i].kind;
    return LINE_SPANS;
}

static orr_status name_line(reader *r, orr_text name, orr_error *err)
{
    kineto_label label = {.pid.number = r->device < 0 ? r->process : r->plane_number,
                          .tid.number = r->line};
    ORR_TRY(orr_builder_str(r->k->builder, name.at, name.n, &label.name, err));
    if (name.n > 0 && !orr_array_push(&r->k->labels, label))
        return orr_fail_memory(err);
    return ORR_OK;
}

static orr_status read_line(reader *r, const orr_proto_field *line, orr_error *err)
{
    orr_text name = {"", 0}, shown = {"", 0};
    const orr_proto fields = orr_proto_of(line->bytes, line->len);
    orr_proto p = fields;
    r->line = r->line_ns = 0;
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number == XLINE_ID && f.wire == ORR_PROTO_VARINT)
            r->line = (int64_t)f.value;
        else if (f.number == XLINE_TIMESTAMP_NS && f.wire == ORR_PROTO_VARINT)
            r->line_ns = (int64_t)f.value;
        else if (f.number == XLINE_NAME && f.wire == ORR_PROTO_BYTES)
            name = xplane_field_text(&f);
        else if (f.number == XLINE_DISPLAY_NAME && f.wire == ORR_PROTO_BYTES)
            shown = xplane_field_text(&f);
    }
    if (p.failed)
        return broken(r, p.at, err);
    r->line -= r->line == INT64_MIN ? -1 : 0; /* which stands for a text in a lane */
    r->kind = kind_of_line(r, name);
    if (r->kind != LINE_DERIVED)
        ORR_TRY(name_line(r, shown.n > 0 ? shown : name, err));
    p = fields;
    for (orr_proto_field f; orr_proto_next(&p, &f);)
        if (f.number == XLINE_EVENT && f.wire == ORR_PROTO_BYTES) {
            r->first_ns = r->line_ns < r->first_ns ? r->line_ns : r->first_ns;
            ORR_TRY(read_event(r, &f, err));
        }
    return ORR_OK;
}

/* "/device:GPU:3", "/device:TPU:0 SparseCore 1": its number; -1: a host. */
static int64_t device_of_plane(orr_text name)
{
    int64_t device = 0;
    if (!xplane_begins(name, "/device:"))
        return -1;
    const char *at = memchr(name.at + 8, ':', name.n - 8), *end = name.at + name.n;
    for (at = at != NULL ? at + 1 : end; at < end && *at >= '0' && *at <= '9'; at++)
        device = device < 1000000 ? device * 10 + (*at - '0') : device;
    return device;
}

static orr_status read_plane(reader *r, const uint8_t *bytes, size_t len, orr_error *err)
{
    orr_status status = xplane_read(&r->plane, bytes, len, err);
    xplane_stats stats;
    stats.ints = stats.texts = 0;
    if (status == ORR_PARSE)
        return broken(r, r->plane.broken, err);
    ORR_TRY(status);
    if (!xplane_add_stats(&r->plane, bytes, len, XPLANE_STAT, &stats))
        return broken(r, bytes, err);
    r->device = device_of_plane(r->plane.name);
    r->process = xplane_int(&stats, STAT_PROCESS, r->process);
    r->started_ns = xplane_int(&stats, STAT_START_TIME, r->started_ns);
    const orr_text model =
        xplane_text(&stats, xplane_has(&stats, STAT_GPU_NAME) ? STAT_GPU_NAME : STAT_DEVICE_TYPE);
    if (r->device >= 0 && model.n > 0)
        ORR_TRY(kineto_name_device(r->k, r->device, model.at, model.n, err));
    orr_proto p = r->plane.fields;
    for (orr_proto_field f; orr_proto_next(&p, &f);)
        if (f.number == XPLANE_LINE && f.wire == ORR_PROTO_BYTES)
            ORR_TRY(read_line(r, &f, err));
    return ORR_OK;
}

/* --- the file -------------------------------------------------------------------------------- */

/* The next field of the XSpace, all of which are messages or texts of small numbers. */
static orr_status next_field(orr_stream *stream, uint8_t *ret_tag, const uint8_t **ret_bytes,
                             size_t *ret_len, bool *ret_end, orr_error *err)
{
    const unsigned long long byte = orr_stream_offset(stream);
    bool cut = false;
    *ret_end = false;
    while (!*ret_end && orr_stream_window(stream).n == 0)
        ORR_TRY(orr_stream_fill(stream, ret_end, err));
    if (*ret_end)
        return ORR_OK;
    *ret_tag = orr_stream_window(stream).bytes[0];
    if ((*ret_tag & 7) != ORR_PROTO_BYTES || *ret_tag >= 0x80 || *ret_tag < 8)
        return orr_fail_byte(err, ORR_PARSE, byte, "at byte %llu: no field of an XSpace", byte);
    orr_stream_consume(stream, 1);
    ORR_TRY(orr_proto_read_message(stream, ret_bytes, ret_len, &cut, err));
    return !cut ? ORR_OK
                : orr_fail_byte(err, ORR_PARSE, byte, "at byte %llu: a field is cut short", byte);
}

static orr_status read_space(reader *r, orr_error *err)
{
    kineto *k = r->k;
    for (;;) {
        const uint8_t *bytes = NULL;
        size_t len = 0;
        uint8_t tag = 0;
        bool end = false;
        const orr_status status = next_field(k->stream, &tag, &bytes, &len, &end, err);
        if (status == ORR_PARSE && k->options->tolerant && k->report->events > 0) {
            k->report->faults[ORR_TRACE_FAULT_TRUNCATED]++;
            break;
        }
        ORR_TRY(status);
        if (end)
            break;
        if (tag >> 3 != XSPACE_PLANE)
            continue;
        r->plane_byte = orr_stream_offset(k->stream) - len;
        const orr_status plane = read_plane(r, bytes, len, err);
        xplane_done(&r->plane);
        ORR_TRY(plane);
        r->plane_number++;
    }
    if (k->builder->n_nodes == 0)
        return orr_fail(err, ORR_PARSE, "it has no event: nothing ran while it was recorded");
    /* Lines count from the start of the profile, or, in old ones, from 1970. */
    if (r->started_ns > 0 && r->first_ns < r->started_ns / 2)
        k->builder->recording.base_ns = r->started_ns;
    return kineto_finish_as(k, "xplane", err);
}

orr_status orr_xplane_read(orr_stream *stream, const orr_read_options *options,
                           orr_graph_builder *builder, orr_read_report *report, orr_error *err)
{
    reader r = {.k = kineto_new(stream, options, builder, report), .first_ns = INT64_MAX};
    if (r.k == NULL)
        return orr_fail_memory(err);
    const orr_status status = read_space(&r, err);
    kineto_free(r.k);
    return status;
}
