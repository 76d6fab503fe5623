/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/reader.h"

#include <string.h>

#include "base/alloc.h"
#include "io/json/reader_parts.h"
#include "io/json/scan.h"
#include "io/stream/output.h"

static const size_t default_token_bytes = (size_t)256 << 20;
static const uint32_t default_depth = 1024;

static void take_window(orr_json *json)
{
    const orr_window window = orr_stream_window(json->stream);
    json->begin = json->at = window.bytes;
    json->end = window.bytes + window.n;
}

orr_status orr_json_new(orr_stream *stream, bool tolerant, orr_json **ret, orr_error *err)
{
    orr_json *json = orr_calloc(1, sizeof *json);
    if (json == NULL)
        return orr_fail_memory(err);
    json->stream = stream;
    json->tolerant = tolerant;
    json->depth_limit = default_depth;
    json->list_scan = orr_json_list_scan_of_cpu();
    json->first_fault_byte = UINT64_MAX;
    orr_stream_set_limit(stream, default_token_bytes);
    orr_stream_set_tolerant(stream, tolerant);
    take_window(json);
    *ret = json;
    return ORR_OK;
}

void orr_json_free(orr_json *json)
{
    if (json == NULL)
        return;
    orr_output_close(json->repaired);
    orr_array_done(&json->scratch);
    orr_array_done(&json->is_object);
    orr_free(json);
}

void orr_json_set_depth_limit(orr_json *json, uint32_t limit)
{
    json->depth_limit = limit;
}

uint64_t orr_json_byte_pos(const orr_json *json)
{
    return orr_json_pos(json, json->at);
}

uint64_t orr_json_faults(const orr_json *json, orr_json_fault fault)
{
    return json->faults[fault];
}

uint64_t orr_json_first_fault_byte(const orr_json *json)
{
    return json->first_fault_byte;
}

void orr_json_count_fault(orr_json *json, orr_json_fault fault, const uint8_t *p)
{
    const uint64_t pos = orr_json_pos(json, p);
    if (pos < json->next_fault_byte)
        return;
    json->next_fault_byte = pos + 1;
    json->faults[fault]++;
    if (json->first_fault_byte == UINT64_MAX)
        json->first_fault_byte = pos;
}

/* The token at json->at does not end in this window: get a longer one, to begin it again.
 * When there is none, the input ends at `place`. Outside of all containers a cut off value
 * leaves nothing to go on with. */
static orr_status need_more(orr_json *json, const char *place, orr_error *err)
{
    if (!json->ended) {
        const uint8_t *token = orr_json_skip_space(json->at, json->end);
        json->at = token < json->end ? token : json->end;
        const uint8_t *from = json->keep != NULL ? json->keep : json->at;
        const size_t kept = (size_t)(json->at - from);
        bool ended = false;
        orr_stream_consume(json->stream, (size_t)(from - json->begin));
        const orr_status status = orr_stream_fill(json->stream, &ended, err);
        take_window(json);
        if (json->keep != NULL)
            json->keep = json->begin;
        json->at = json->begin + kept;
        json->ended = ended;
        return status;
    }
    if (!json->tolerant || json->depth == 0)
        return orr_json_fail(json, json->end, err, "the input ends %s", place);
    orr_json_count_fault(json, ORR_JSON_FAULT_TRUNCATED, json->end);
    json->at = json->end;
    json->cut = true;
    return ORR_OK;
}

/* "'x'", or the number of a byte that cannot be shown. */
static const char *show(uint8_t c, char out[8])
{
    static const char hex[] = "0123456789abcdef";
    if (c >= 0x20 && c < 0x7f)
        memcpy(out, (char[]){'\'', (char)c, '\'', '\0'}, 4);
    else
        memcpy(out, (char[]){'0', 'x', hex[c >> 4], hex[c & 15], '\0'}, 5);
    return out;
}

static orr_status unexpected(orr_json *json, const uint8_t *p, const char *expected, orr_error *err)
{
    char seen[8];
    return orr_json_fail(json, p, err, "expected %s, found %s", expected, show(*p, seen));
}

static orr_status enter(orr_json *json, const uint8_t *p, bool object, orr_error *err)
{
    if (json->depth >= json->depth_limit)
        return orr_fail_byte(err, ORR_LIMIT, orr_json_pos(json, p),
                             "at byte %llu: nested deeper than the limit of %u levels",
                             (unsigned long long)orr_json_pos(json, p), json->depth_limit);
    json->is_object.n = json->depth;
    if (!orr_array_push(&json->is_object, object))
        return orr_fail_memory(err);
    json->depth++;
    json->in_object = object;
    json->expect = ORR_JSON_EXPECT_FIRST;
    json->at = p + 1;
    return ORR_OK;
}

static bool parent_is_array(const orr_json *json)
{
    return json->depth > 1 && !json->is_object.at[json->depth - 2];
}

static bool parent_is_object(const orr_json *json)
{
    return json->depth > 1 && json->is_object.at[json->depth - 2];
}

/* The string whose quote is at p. */
static inline orr_status scan_string(orr_json *json, const uint8_t *p, orr_text *ret,
                                     const uint8_t **ret_after, orr_error *err)
{
    const uint8_t *begin = p + 1;
    const uint8_t *q = orr_json_plain_end(begin, json->end);
    if (__builtin_expect(q < json->end && *q == '"', 1)) {
        *ret = (orr_text){.at = (const char *)begin, .n = (size_t)(q - begin)};
        *ret_after = q + 1;
        return ORR_OK;
    }
    return orr_json_decode_string(json, begin, ret, ret_after, err);
}

static orr_status scan_word(orr_json *json, const uint8_t *p, const char *word, orr_json_type type,
                            orr_json_value *ret, orr_error *err)
{
    const size_t n = strlen(word), left = (size_t)(json->end - p);
    if (memcmp(p, word, left < n ? left : n) != 0)
        return unexpected(json, p, "a value", err);
    if (left < n)
        return ORR_JSON_INCOMPLETE;
    *ret = (orr_json_value){type, {(const char *)p, n}};
    orr_json_value_done(json, p + n);
    return ORR_OK;
}

/* A byte order mark, which may stand at the very front, or no value at all. */
static orr_status scan_mark(orr_json *json, const uint8_t *p, orr_json_value *ret, orr_error *err)
{
    static const uint8_t mark[3] = {0xef, 0xbb, 0xbf};
    const size_t left = (size_t)(json->end - p);
    if (orr_json_pos(json, p) != 0 || memcmp(p, mark, left < 3 ? left : 3) != 0)
        return unexpected(json, p, "a value", err);
    if (left < 3)
        return ORR_JSON_INCOMPLETE;
    json->at = p + 3;
    return orr_json_value_next(json, ret, err);
}

static inline bool begins_number(uint8_t c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == 'N' || c == 'I';
}

static inline orr_status scan_value(orr_json *json, orr_json_value *ret, orr_error *err)
{
    const uint8_t *after;
    const uint8_t *p = orr_json_skip_space(json->at, json->end);
    if (p >= json->end)
        return ORR_JSON_INCOMPLETE;
    switch (*p) {
    case '"':
        ret->type = ORR_JSON_STRING;
        ORR_TRY(scan_string(json, p, &ret->text, &after, err));
        orr_json_value_done(json, after);
        return ORR_OK;
    case '{':
    case '[':
        *ret = (orr_json_value){*p == '{' ? ORR_JSON_OBJECT : ORR_JSON_ARRAY, {(const char *)p, 1}};
        return enter(json, p, *p == '{', err);
    case 't':
        return scan_word(json, p, "true", ORR_JSON_TRUE, ret, err);
    case 'f':
        return scan_word(json, p, "false", ORR_JSON_FALSE, ret, err);
    case 'n':
        return scan_word(json, p, "null", ORR_JSON_NULL, ret, err);
    default:
        if (!begins_number(*p))
            return scan_mark(json, p, ret, err);
        ORR_TRY(orr_json_scan_number(json, p, ret, &after, err));
        orr_json_value_done(json, after);
        return ORR_OK;
    }
}

/* Where the next value is not in this window, or not at all. */
static orr_status value_slowly(orr_json *json, orr_json_value *ret, orr_error *err)
{
    for (;;) {
        const bool begun = orr_json_skip_space(json->at, json->end) < json->end;
        ORR_TRY(need_more(json, begun ? "in the middle of a value" : "before a value", err));
        if (json->cut) {
            *ret = (orr_json_value){ORR_JSON_NULL, {"null", 4}};
            orr_json_value_done(json, json->at);
            return ORR_OK;
        }
        const orr_status status = scan_value(json, ret, err);
        if (status != ORR_JSON_INCOMPLETE)
            return status;
    }
}

/* A value where the grammar does not have one yet: an array's element is asked for. */
static orr_status prepare_value(orr_json *json, orr_error *err)
{
    orr_status status;
    if (json->in_object)
        return orr_fail(err, ORR_INVALID, "a key must be read before its value");
    if (orr_json_next_element(json, &status, err))
        return ORR_OK;
    return status != ORR_OK ? status
                            : orr_json_fail(json, json->at, err, "the array has no more elements");
}

orr_status orr_json_begin_value(orr_json *json, orr_error *err)
{
    if (json->expect != ORR_JSON_EXPECT_VALUE)
        ORR_TRY(prepare_value(json, err));
    for (;;) {
        json->at = orr_json_skip_space(json->at, json->end);
        if (json->at < json->end || json->cut)
            return ORR_OK;
        json->at = json->end;
        ORR_TRY(need_more(json, "before a value", err));
    }
}

static inline orr_status next_value(orr_json *json, orr_json_value *ret, orr_error *err)
{
    if (__builtin_expect(json->expect != ORR_JSON_EXPECT_VALUE, 0))
        ORR_TRY(prepare_value(json, err));
    const orr_status status = scan_value(json, ret, err);
    if (__builtin_expect(status != ORR_JSON_INCOMPLETE, 1))
        return status;
    return value_slowly(json, ret, err);
}

orr_status orr_json_value_next(orr_json *json, orr_json_value *ret, orr_error *err)
{
    orr_json_value value;
    ORR_TRY(next_value(json, &value, err));
    *ret = value;
    return ORR_OK;
}

/* Tolerant: what may stand where a comma or the end of the object belongs. *ret_left: the object is
 * taken to be closed before p. Else a key follows at p. */
static orr_status repair_object(orr_json *json, const uint8_t *p, bool had_comma, bool *ret_left,
                                orr_error *err)
{
    const bool closes_parent = *p == ']' && parent_is_array(json);
    const bool next_of_parent = *p == '{' && parent_is_array(json);
    if (!json->tolerant || !(closes_parent || next_of_parent || *p == '"' || *p == '}'))
        return unexpected(json, p, had_comma ? "a key" : "',' or '}'", err);
    orr_json_count_fault(json, ORR_JSON_FAULT_MISSING_COMMA, p);
    *ret_left = closes_parent || next_of_parent || *p == '}';
    if (*ret_left)
        orr_json_leave(json, *p == '}' ? p + 1 : p);
    if (next_of_parent)
        json->expect = ORR_JSON_EXPECT_AFTER_COMMA;
    return ORR_OK;
}

/* The next key and its colon, or the end of the object. */
static inline orr_status scan_key(orr_json *json, orr_text *ret, bool *ret_found, orr_error *err)
{
    const uint8_t *const end = json->end;
    const uint8_t *p = orr_json_skip_space(json->at, end);
    if (p >= end)
        return ORR_JSON_INCOMPLETE;
    bool had_comma = json->expect != ORR_JSON_EXPECT_MORE;
    if (*p == ',' && !had_comma) {
        had_comma = true;
        p = orr_json_skip_space(p + 1, end);
        if (p >= end)
            return ORR_JSON_INCOMPLETE;
    } else if (*p == '}') {
        *ret_found = false;
        orr_json_leave(json, p + 1);
        return ORR_OK;
    }
    if (__builtin_expect(!had_comma || *p != '"', 0)) {
        bool left = false;
        ORR_TRY(repair_object(json, p, had_comma, &left, err));
        *ret_found = false;
        if (left)
            return ORR_OK;
    }
    const uint8_t *after;
    orr_text key;
    ORR_TRY(scan_string(json, p, &key, &after, err));
    p = orr_json_skip_space(after, end);
    if (p >= end)
        return ORR_JSON_INCOMPLETE;
    if (*p != ':')
        return unexpected(json, p, "':' after a key", err);
    json->at = p + 1;
    json->expect = ORR_JSON_EXPECT_VALUE;
    *ret = key;
    *ret_found = true;
    return ORR_OK;
}

static orr_status next_key(orr_json *json, orr_text *ret, bool *ret_found, orr_error *err)
{
    if (!json->in_object || json->expect == ORR_JSON_EXPECT_VALUE)
        return orr_fail(err, ORR_INVALID, "no key can be read here");
    for (;;) {
        const orr_status status = scan_key(json, ret, ret_found, err);
        if (__builtin_expect(status != ORR_JSON_INCOMPLETE, 1))
            return status;
        ORR_TRY(need_more(json, "in the middle of an object", err));
        if (json->cut) {
            *ret_found = false;
            orr_json_leave(json, json->at);
            return ORR_OK;
        }
    }
}

bool orr_json_next_key(orr_json *json, orr_text *ret_key, orr_status *status, orr_error *err)
{
    bool found = false;
    *status = next_key(json, ret_key, &found, err);
    return *status == ORR_OK && found;
}

/* As repair_object(), for arrays: else an element follows at p. */
static orr_status repair_array(orr_json *json, const uint8_t *p, bool had_comma, bool *ret_left,
                               orr_error *err)
{
    const bool closes_parent = *p == '}' && parent_is_object(json);
    const bool element = !had_comma && strchr("\"{[tfnNI-0123456789", *p) != NULL && *p != '\0';
    if (!json->tolerant || !(closes_parent || element || *p == ']'))
        return unexpected(json, p, had_comma ? "a value" : "',' or ']'", err);
    orr_json_count_fault(json, ORR_JSON_FAULT_MISSING_COMMA, p);
    *ret_left = !element;
    if (*ret_left)
        orr_json_leave(json, closes_parent ? p : p + 1);
    return ORR_OK;
}

static inline orr_status scan_element(orr_json *json, bool *ret_found, orr_error *err)
{
    const uint8_t *const end = json->end;
    const uint8_t *p = orr_json_skip_space(json->at, end);
    if (p >= end)
        return ORR_JSON_INCOMPLETE;
    bool left = false;
    *ret_found = true;
    if (json->expect == ORR_JSON_EXPECT_MORE && *p == ',') {
        p = orr_json_skip_space(p + 1, end);
        if (p >= end)
            return ORR_JSON_INCOMPLETE;
        if (*p == ']' || *p == '}')
            ORR_TRY(repair_array(json, p, true, &left, err));
    } else if (*p == ']') {
        left = true;
        orr_json_leave(json, p + 1);
    } else if (json->expect == ORR_JSON_EXPECT_MORE || *p == '}') {
        ORR_TRY(repair_array(json, p, json->expect != ORR_JSON_EXPECT_MORE, &left, err));
    }
    if (left) {
        *ret_found = false;
        return ORR_OK;
    }
    json->at = p;
    json->expect = ORR_JSON_EXPECT_VALUE;
    return ORR_OK;
}

static orr_status next_element(orr_json *json, bool *ret_found, orr_error *err)
{
    if (json->in_object || json->depth == 0 || json->expect == ORR_JSON_EXPECT_VALUE)
        return orr_fail(err, ORR_INVALID, "no element can be read here");
    for (;;) {
        const orr_status status = scan_element(json, ret_found, err);
        if (__builtin_expect(status != ORR_JSON_INCOMPLETE, 1))
            return status;
        ORR_TRY(need_more(json, "in the middle of an array", err));
        if (json->cut) {
            *ret_found = false;
            orr_json_leave(json, json->at);
            return ORR_OK;
        }
    }
}

bool orr_json_next_element(orr_json *json, orr_status *status, orr_error *err)
{
    bool found = false;
    *status = next_element(json, &found, err);
    return *status == ORR_OK && found;
}

orr_status orr_json_end(orr_json *json, orr_error *err)
{
    for (;;) {
        const uint8_t *p = orr_json_skip_space(json->at, json->end);
        if (p < json->end)
            return orr_json_fail(json, p, err, "garbage after the end of the JSON value");
        if (json->ended || json->cut) {
            /* The value may be whole where its packing is not. */
            if (orr_stream_truncated(json->stream))
                orr_json_count_fault(json, ORR_JSON_FAULT_TRUNCATED, json->end);
            return ORR_OK;
        }
        json->at = json->end;
        ORR_TRY(need_more(json, "", err));
    }
}
