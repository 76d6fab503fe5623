/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/reader.h"

#include <string.h>

#include "base/alloc.h"
#include "io/json/plain.h"
#include "trace/common/reader.h"

/* events between two progress reports */
enum { EVENTS_A_STEP = 4096 };

static orr_status read_events(kineto *k, orr_error *err)
{
    orr_status status = ORR_OK;
    uint32_t left = EVENTS_A_STEP;
    while (orr_json_plain_element(k->json) || orr_json_next_element(k->json, &status, err)) {
        ORR_TRY(kineto_read_event(k, err));
        if (--left == 0) {
            left = EVENTS_A_STEP;
            ORR_TRY(orr_read_progress(k->options, k->stream, err));
        }
    }
    return status;
}

static orr_status read_object(kineto *k, orr_error *err)
{
    orr_text key;
    orr_status status = ORR_OK;
    bool has_events = false;
    while (orr_json_next_key(k->json, &key, &status, err)) {
        if (orr_text_is(key, "traceEvents")) {
            ORR_TRY(orr_json_enter_array(k->json, err));
            ORR_TRY(read_events(k, err));
            has_events = true;
        } else {
            ORR_TRY(kineto_read_header(k, key, err));
        }
    }
    ORR_TRY(status);
    if (!has_events && orr_json_faults(k->json, ORR_JSON_FAULT_TRUNCATED) == 0)
        return orr_fail(err, ORR_PARSE, "no \"traceEvents\": this is no Kineto recording");
    return ORR_OK;
}

static orr_status read_all(kineto *k, orr_error *err)
{
    orr_json_value v;
    ORR_TRY(orr_json_value_next(k->json, &v, err));
    if (v.type != ORR_JSON_OBJECT && v.type != ORR_JSON_ARRAY)
        return orr_fail_byte(err, ORR_PARSE, 0,
                             "at byte 0: neither an object nor a list of events");
    k->is_list = v.type == ORR_JSON_ARRAY;
    ORR_TRY(k->is_list ? read_events(k, err) : read_object(k, err));
    return orr_json_end(k->json, err);
}

orr_status kineto_finish(kineto *k, orr_error *err)
{
    k->recovery.rounding_ns = k->fractions ? 0 : 1000;
    kineto_apply_labels(k);
    ORR_TRY(kineto_pass_arrows(k, err));
    ORR_TRY(orr_recover(k->builder, &k->recovery, err));
    ORR_TRY(kineto_resolve_comms(k, err));
    ORR_TRY(kineto_complete_copies(k, err));
    k->report->orphans = k->recovery.orphans;
    return kineto_finish_header(k, err);
}

void kineto_free(kineto *k)
{
    if (k == NULL)
        return;
    orr_json_free(k->json);
    orr_array_done(&k->names);
    orr_array_done(&k->labels);
    orr_array_done(&k->comms);
    orr_array_done(&k->copy_sizes);
    orr_array_done(&k->arrows);
    orr_array_done(&k->attrs);
    orr_array_done(&k->attr_values);
    orr_array_done(&k->recording_attrs);
    orr_array_done(&k->recording_values);
    orr_array_done(&k->devices);
    orr_recovery_done(&k->recovery);
    orr_process_groups_done(&k->groups);
    orr_free(k);
}

kineto *kineto_new(orr_stream *stream, const orr_read_options *options, orr_graph_builder *builder,
                   orr_read_report *report)
{
    kineto *k = orr_calloc(1, sizeof *k);
    if (k == NULL)
        return NULL;
    k->builder = builder;
    k->options = options;
    k->report = report;
    k->stream = stream;
    k->first_device = -1;
    k->schema_version = 1;
    memset(k->lane_cache, 0xff, sizeof k->lane_cache);
    kineto_words_init(&k->words);
    return k;
}

orr_status orr_kineto_read(orr_stream *stream, const orr_read_options *options,
                           orr_graph_builder *builder, orr_read_report *report, orr_error *err)
{
    orr_status status;
    kineto *k = kineto_new(stream, options, builder, report);
    if (k == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, orr_json_new(stream, options->tolerant, &k->json, err));
    status = read_all(k, err);
    orr_report_json_faults(report, k->json);
    if (status == ORR_OK)
        status = kineto_finish(k, err);
out:
    kineto_free(k);
    return status;
}
