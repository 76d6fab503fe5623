/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/common/reader.h"

orr_status kineto_begin_event(kineto *k, orr_error *err)
{
    enum { EVENTS_A_STEP = 4096 };
    k->attrs.n = k->attr_values.n = 0;
    return ++k->report->events % EVENTS_A_STEP == 0 ? orr_read_progress(k->options, k->stream, err)
                                                    : ORR_OK;
}

bool kineto_set_span(kineto *k, kineto_event *e, int64_t start_ns, int64_t end_ns)
{
    const int64_t most = INT64_MAX / 4;
    if (start_ns <= -most || start_ns > most || end_ns < -most || end_ns > most)
        return false;
    e->has_ts = true;
    e->ts_ns = start_ns;
    e->dur_ns = end_ns - start_ns;
    k->report->faults[ORR_TRACE_FAULT_NEGATIVE_DURATION] += e->dur_ns < 0;
    return true;
}

orr_status kineto_bad_event(kineto *k, const char *noun, const char *what, orr_error *err)
{
    if (!k->options->tolerant)
        return orr_fail(err, ORR_PARSE, "%s %llu of its events %s; read tolerantly to leave it out",
                        noun, (unsigned long long)k->report->events, what);
    k->report->faults[ORR_TRACE_FAULT_BAD_EVENT]++;
    return ORR_OK;
}

void kineto_set_bytes(kineto_event *e, int64_t bytes)
{
    kineto_set(e, ARG_BYTES, bytes);
    if (e->dur_ns > 0)
        e->rate_gb_per_s = (double)bytes / (double)e->dur_ns;
}

orr_status kineto_set_text(kineto *k, kineto_event *e, kineto_arg arg, const char *text, size_t len,
                           orr_error *err)
{
    orr_str str;
    ORR_TRY(orr_builder_str(k->builder, text, len, &str, err));
    kineto_set(e, arg, str);
    return ORR_OK;
}

orr_status kineto_set_name(kineto *k, kineto_event *e, const char *text, size_t len, orr_error *err)
{
    return orr_builder_str(k->builder, text, len, &e->name, err);
}

/* PyTorch's operators under emit_nvtx(): "aten::mm, seq = 4, op_id = 12, sizes = ...". */
static size_t length_of_operator(const char *name, kineto_event *e)
{
    static const char *const marks[] = {", seq = ", ", op_id = ", ", sizes = "};
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = strstr(name, marks[i]);
        if (at == NULL)
            continue;
        e->cat = CAT_CPU_OP;
        if ((size_t)(at - name) < len)
            len = (size_t)(at - name);
        if (i == 0 && at[8] >= '0' && at[8] <= '9')
            kineto_set(e, ARG_SEQUENCE, strtoll(at + 8, NULL, 10));
    }
    return len;
}

orr_status kineto_set_range_name(kineto *k, kineto_event *e, const char *name, orr_error *err)
{
    const size_t len = length_of_operator(name, e);
    if (strncmp(name, "nccl", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z')
        ORR_TRY(kineto_set_text(k, e, ARG_COLLECTIVE, name + 4, len - 4, err));
    return kineto_set_name(k, e, name, len, err);
}

orr_status kineto_put_int(kineto *k, const char *name, int64_t value, orr_error *err)
{
    orr_str key;
    ORR_TRY(orr_builder_str(k->builder, name, strlen(name), &key, err));
    return kineto_add_attr(k, key, ORR_ATTR_INT64, (kineto_attr_value){.int64 = value}, err);
}

static orr_status put(kineto *k, const char *name, orr_attr_kind kind, const char *text, size_t len,
                      orr_error *err)
{
    orr_str key;
    ORR_TRY(orr_builder_str(k->builder, name, strlen(name), &key, err));
    return kineto_add_text_attr(k, key, kind, (orr_text){text, len}, err);
}

orr_status kineto_put_text(kineto *k, const char *name, const char *text, size_t len,
                           orr_error *err)
{
    return put(k, name, ORR_ATTR_STRING, text, len, err);
}

orr_status kineto_put_dims(kineto *k, const char *name, int64_t x, int64_t y, int64_t z,
                           orr_error *err)
{
    char text[80];
    const int len =
        snprintf(text, sizeof text, "[%lld, %lld, %lld]", (long long)x, (long long)y, (long long)z);
    return put(k, name, ORR_ATTR_JSON, text, (size_t)len, err);
}

orr_status kineto_name_thread(kineto *k, int64_t pid, int64_t tid, const char *name, size_t len,
                              orr_error *err)
{
    kineto_label label = {.pid.number = pid, .tid.number = tid};
    ORR_TRY(orr_builder_str(k->builder, name, len, &label.name, err));
    return orr_array_push(&k->labels, label) ? ORR_OK : orr_fail_memory(err);
}

orr_status kineto_name_device(kineto *k, int64_t id, const char *name, size_t len, orr_error *err)
{
    kineto_device device = {.id = id};
    ORR_TRY(orr_builder_str(k->builder, name, len, &device.name, err));
    return orr_array_push(&k->devices, device) ? ORR_OK : orr_fail_memory(err);
}

orr_status kineto_finish_as(kineto *k, const char *source, orr_error *err)
{
    ORR_TRY(kineto_finish(k, err));
    return orr_builder_str(k->builder, source, strlen(source), &k->builder->recording.source, err);
}
