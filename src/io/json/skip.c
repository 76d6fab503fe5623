/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "io/json/plain.h"
#include "io/json/reader_parts.h"
#include "io/json/scan.h"

/* Passing over values without looking at them, but not without checking them.
 *
 * run() goes over the common tokens with its state in registers. At anything else (an
 * escape, an exponent, the end of the window, an error) it stops before the token, with the
 * reader's state as it would be there, and the reader itself takes that one step. So there is
 * one place that knows about faults and errors, and it is not this one. */

/* Behind the key at p and its colon, NULL likewise. */
static inline const uint8_t *pass_key(const uint8_t *p, const uint8_t *end)
{
    if (p >= end || *p != '"' || (p = orr_json_pass_string(p, end)) == NULL)
        return NULL;
    p = orr_json_skip_space(p, end);
    return p < end && *p == ':' ? p + 1 : NULL;
}

/* Behind the array at p, NULL likewise. It is asked for where a value of an object or the value
 * that is skipped begins, not within arrays: so it looks at no byte in vain a second time. */
static inline const uint8_t *pass_list(const orr_json *json, const uint8_t *p)
{
    if (json->depth >= json->depth_limit)
        return NULL;
    if (json->end - p > 1 && p[1] == ']')
        return p + 2;
    return json->list_scan != NULL ? json->list_scan(p, json->end, json->depth_limit - json->depth)
                                   : NULL;
}

static void run(orr_json *json, uint32_t depth)
{
    const uint8_t *const end = json->end;
    const uint8_t *p = json->at, *after;
    orr_json_expect expect = (orr_json_expect)json->expect;
    bool in_object = json->in_object;
    while (json->depth > depth) {
        json->at = p;
        json->expect = expect;
        p = orr_json_skip_space(p, end);
        if (p >= end)
            return;
        if (expect != ORR_JSON_EXPECT_VALUE) {
            if (*p == (in_object ? '}' : ']')) {
                json->depth--;
                in_object = json->depth > 0 && json->is_object.at[json->depth - 1];
                json->in_object = in_object;
                expect = json->depth > 0 ? ORR_JSON_EXPECT_MORE : ORR_JSON_EXPECT_VALUE;
                p++;
                continue;
            }
            if (expect == ORR_JSON_EXPECT_MORE) {
                if (*p != ',')
                    return;
                p = orr_json_skip_space(p + 1, end);
            }
            if (in_object && (p = pass_key(p, end)) == NULL)
                return;
            p = orr_json_skip_space(p, end);
            if (p >= end || *p == ']')
                return;
        }
        if (*p == '[' && in_object && (after = pass_list(json, p)) != NULL) {
            p = after;
            expect = ORR_JSON_EXPECT_MORE;
            continue;
        }
        if (*p == '{' || *p == '[') {
            if (json->depth >= json->depth_limit || json->depth >= json->is_object.room)
                return;
            in_object = *p == '{';
            json->is_object.at[json->depth++] = in_object;
            json->in_object = in_object;
            expect = ORR_JSON_EXPECT_FIRST;
            p++;
            continue;
        }
        if ((p = orr_json_pass_scalar(p, end)) == NULL)
            return;
        expect = ORR_JSON_EXPECT_MORE;
    }
    json->at = p;
    json->expect = expect;
}

orr_status orr_json_skip_to_depth(orr_json *json, uint32_t depth, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_json_value value;
    orr_text key;
    while (json->depth > depth) {
        run(json, depth);
        if (json->depth <= depth)
            break;
        if (json->expect == ORR_JSON_EXPECT_VALUE)
            status = orr_json_value_next(json, &value, err);
        else if (json->in_object)
            (void)orr_json_next_key(json, &key, &status, err);
        else
            (void)orr_json_next_element(json, &status, err);
        ORR_TRY(status);
    }
    return ORR_OK;
}

orr_status orr_json_skip(orr_json *json, orr_error *err)
{
    if (orr_json_skip_plain(json))
        return ORR_OK;
    const uint8_t *p = orr_json_plain_value(json);
    if (p != NULL && *p == '[' && orr_json_plain_take(json, pass_list(json, p)))
        return ORR_OK;
    const uint32_t depth = json->depth;
    orr_json_value value;
    ORR_TRY(orr_json_value_next(json, &value, err));
    return orr_json_skip_to_depth(json, depth, err);
}
