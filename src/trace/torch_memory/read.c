/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "trace/torch_memory/snapshot.h"

/* Snapshots of torch.cuda.memory: the pickle of _dump_snapshot(), or the same as JSON. */

static orr_status read_record(orr_json *json, snapshot_record *record, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_json_value v;
    orr_text key;
    int64_t number;
    *record = (snapshot_record){.has = 0};
    ORR_TRY(orr_json_value_next(json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return orr_fail(err, ORR_PARSE, "an entry that is no object");
    while (orr_json_next_key(json, &key, &status, err)) {
        const snapshot_word word = snapshot_word_of(key);
        if (word >= WORD_FIELDS) {
            ORR_TRY(orr_json_skip(json, err));
            continue;
        }
        ORR_TRY(orr_json_value_next(json, &v, err));
        if (v.type == ORR_JSON_STRING && word == WORD_ACTION)
            snapshot_set(record, word, snapshot_word_of(v.text));
        else if (v.type == ORR_JSON_NUMBER && orr_text_int64(v.text, &number))
            snapshot_set(record, word, number);
        else if (v.type == ORR_JSON_OBJECT || v.type == ORR_JSON_ARRAY)
            return orr_fail(err, ORR_PARSE, "a number of an entry is a list or an object");
    }
    return status;
}

static orr_status read_segments(snapshot *s, orr_json *json, orr_error *err)
{
    orr_status status = ORR_OK;
    snapshot_record record;
    ORR_TRY(orr_json_enter_array(json, err));
    while (orr_json_next_element(json, &status, err)) {
        ORR_TRY(read_record(json, &record, err));
        ORR_TRY(snapshot_add_segment(s, &record, err));
    }
    return status;
}

static orr_status read_traces(snapshot *s, orr_json *json, orr_error *err)
{
    orr_status status = ORR_OK, inner = ORR_OK;
    snapshot_record record;
    ORR_TRY(orr_json_enter_array(json, err));
    for (uint64_t device = 0; orr_json_next_element(json, &status, err); device++) {
        ORR_TRY(orr_json_enter_array(json, err));
        while (orr_json_next_element(json, &inner, err)) {
            ORR_TRY(read_record(json, &record, err));
            ORR_TRY(snapshot_add_entry(s, device, &record, err));
        }
        ORR_TRY(inner);
    }
    s->has_traces = true;
    return status;
}

static orr_status read_json(snapshot *s, orr_json *json, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_json_value v;
    orr_text key;
    ORR_TRY(orr_json_value_next(json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return orr_fail_byte(err, ORR_PARSE, 0, "at byte 0: no object");
    while (orr_json_next_key(json, &key, &status, err)) {
        const snapshot_word word = snapshot_word_of(key);
        if (word == WORD_SEGMENTS)
            ORR_TRY(read_segments(s, json, err));
        else if (word == WORD_DEVICE_TRACES)
            ORR_TRY(read_traces(s, json, err));
        else
            ORR_TRY(orr_json_skip(json, err));
    }
    ORR_TRY(status);
    return orr_json_end(json, err);
}

orr_status orr_torch_memory_read(orr_stream *stream, const orr_read_options *options,
                                 orr_graph_builder *builder, orr_read_report *report,
                                 orr_error *err)
{
    enum { PICKLE_PROTO = 0x80 };
    snapshot s = {.builder = builder, .options = options, .report = report, .stream = stream};
    orr_json *json = NULL;
    orr_status status = ORR_OK;
    for (bool end = false; !end && orr_stream_window(stream).n == 0;)
        ORR_TRY_OUT(status, orr_stream_fill(stream, &end, err));
    const orr_window w = orr_stream_window(stream);
    if (w.n > 0 && w.bytes[0] == PICKLE_PROTO) {
        status = snapshot_read_pickle(&s, err);
    } else {
        ORR_TRY_OUT(status, orr_json_new(stream, options->tolerant, &json, err));
        status = read_json(&s, json, err);
        orr_report_json_faults(report, json);
    }
    if (status == ORR_OK)
        status = snapshot_finish(&s, err);
out:
    orr_json_free(json);
    snapshot_done(&s);
    return status;
}
