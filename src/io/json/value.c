/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/reader.h"

#include "base/alloc.h"
#include "io/json/plain.h"
#include "io/json/reader_parts.h"
#include "io/json/writer.h"
#include "io/stream/output.h"

static orr_status enter(orr_json *json, orr_json_type type, const char *expected, orr_error *err)
{
    orr_json_value value;
    ORR_TRY(orr_json_value_next(json, &value, err));
    return value.type == type ? ORR_OK
                              : orr_json_fail(json, json->at, err, "expected %s", expected);
}

orr_status orr_json_enter_object(orr_json *json, orr_error *err)
{
    return enter(json, ORR_JSON_OBJECT, "an object", err);
}

orr_status orr_json_enter_array(orr_json *json, orr_error *err)
{
    return enter(json, ORR_JSON_ARRAY, "an array", err);
}

/* A scalar as text; anything else is skipped and gives none. */
static orr_status scalar(orr_json *json, orr_json_value *ret, bool *ret_is, orr_error *err)
{
    const uint32_t depth = json->depth;
    ORR_TRY(orr_json_value_next(json, ret, err));
    *ret_is = ret->type == ORR_JSON_NUMBER || ret->type == ORR_JSON_STRING;
    return orr_json_skip_to_depth(json, depth, err);
}

orr_status orr_json_int64(orr_json *json, int64_t *ret, bool *ret_is, orr_error *err)
{
    orr_json_value value;
    bool is;
    ORR_TRY(scalar(json, &value, &is, err));
    *ret_is = is && orr_text_int64(value.text, ret);
    return ORR_OK;
}

orr_status orr_json_double(orr_json *json, double *ret, bool *ret_is, orr_error *err)
{
    orr_json_value value;
    bool is;
    ORR_TRY(scalar(json, &value, &is, err));
    *ret_is = is && orr_text_double(value.text, ret);
    return ORR_OK;
}

orr_status orr_json_us_as_ns(orr_json *json, int64_t *ret_ns, bool *ret_is, orr_error *err)
{
    if (orr_json_us_as_ns_plain(json, ret_ns)) {
        *ret_is = true;
        return ORR_OK;
    }
    orr_json_value value;
    bool is;
    ORR_TRY(scalar(json, &value, &is, err));
    *ret_is = is && orr_text_us_as_ns(value.text, ret_ns);
    return ORR_OK;
}

orr_status orr_json_text(orr_json *json, orr_text *ret, bool *ret_is, orr_error *err)
{
    if (orr_json_text_plain(json, ret)) {
        *ret_is = true;
        return ORR_OK;
    }
    orr_json_value value;
    ORR_TRY(scalar(json, &value, ret_is, err));
    if (*ret_is)
        *ret = value.text;
    return ORR_OK;
}

/* A scalar of a value with faults, as JSON without them. */
static void put_scalar(orr_output *out, const orr_json_value *value)
{
    const orr_text text = value->text;
    const bool is_nan = value->type == ORR_JSON_NUMBER &&
                        (text.at[text.n - 1] == 'N' || text.at[text.n - 1] == 'y');
    if (value->type == ORR_JSON_STRING)
        orr_json_put_string(out, text.at, text.n);
    else if (is_nan)
        orr_output_text(out, "null");
    else
        orr_output_write(out, text.at, text.n);
}

static orr_status put_value(orr_json *json, orr_output *out, orr_error *err)
{
    bool comma = false;
    do {
        orr_status status;
        orr_text key;
        const bool in = json->depth > 0, object = json->in_object;
        if (in && !(object ? orr_json_next_key(json, &key, &status, err)
                           : orr_json_next_element(json, &status, err))) {
            ORR_TRY(status);
            orr_output_text(out, object ? "}" : "]");
            comma = true;
            continue;
        }
        if (comma)
            orr_output_text(out, ",");
        if (in && object) {
            orr_json_put_string(out, key.at, key.n);
            orr_output_text(out, ":");
        }
        orr_json_value value;
        ORR_TRY(orr_json_value_next(json, &value, err));
        comma = value.type != ORR_JSON_OBJECT && value.type != ORR_JSON_ARRAY;
        put_scalar(out, &value);
    } while (json->depth > 0);
    return ORR_OK;
}

/* A raw value with faults in it, written again without them: what is kept of a file must not
 * break the files that it is written to. */
static orr_status repair(orr_json *json, orr_text raw, orr_text *ret, orr_error *err)
{
    orr_status status;
    orr_stream *stream = NULL;
    orr_json *again = NULL;
    size_t n;
    orr_output_close(json->repaired);
    json->repaired = NULL;
    ORR_TRY_OUT(status, orr_output_open_memory(&json->repaired, err));
    ORR_TRY_OUT(status, orr_stream_open_memory(raw.at, raw.n, &stream, err));
    ORR_TRY_OUT(status, orr_json_new(stream, true, &again, err));
    orr_json_set_depth_limit(again, json->depth_limit);
    ORR_TRY_OUT(status, put_value(again, json->repaired, err));
    ORR_TRY_OUT(status, orr_output_finish(json->repaired, err));
    ret->at = orr_output_memory(json->repaired, &n);
    ret->n = n;
out:
    orr_json_free(again);
    orr_stream_close(stream);
    return status;
}

static uint64_t all_faults(const orr_json *json)
{
    uint64_t sum = 0;
    for (int i = 0; i < ORR_JSON_FAULTS; i++)
        sum += json->faults[i];
    return sum;
}

/* A string as it is mostly written, quotes and all. */
static bool raw_plain(orr_json *json, orr_text *ret)
{
    const uint8_t *const p = orr_json_plain_value(json);
    const uint8_t *after;
    orr_text inside;
    if (p == NULL || (after = orr_json_plain_string(p, json->end, &inside)) == NULL)
        return false;
    orr_json_value_done(json, after);
    *ret = (orr_text){(const char *)p, (size_t)(after - p)};
    return true;
}

orr_status orr_json_raw(orr_json *json, orr_text *ret, orr_error *err)
{
    if (raw_plain(json, ret))
        return ORR_OK;
    ORR_TRY(orr_json_begin_value(json, err));
    const uint64_t faults = all_faults(json);
    json->keep = json->at;
    const orr_status status = orr_json_skip(json, err);
    const orr_text raw = {.at = (const char *)json->keep, .n = (size_t)(json->at - json->keep)};
    json->keep = NULL;
    ORR_TRY(status);
    if (all_faults(json) != faults)
        return repair(json, raw, ret, err);
    *ret = raw;
    return ORR_OK;
}
