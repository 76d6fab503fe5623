/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_JSON_TOKENS_H
#define ORR_TESTS_JSON_TOKENS_H

#include <inttypes.h>
#include <string.h>

#include "io/json/layout.h"
#include "io/json/reader.h"
#include "io/json/reader_parts.h"
#include "io/stream/output.h"
#include "io/stream/stream_test.h"

/* A JSON document as the sequence of its tokens, one a line, so that two ways of reading it can be
 * compared. Not recursive: fuzzers nest deep. */

static inline void put_token(orr_output *out, char kind, orr_text text)
{
    orr_output_printf(out, "%c%zu:", kind, text.n);
    orr_output_write(out, text.at, text.n);
    orr_output_write(out, "\n", 1);
}

static inline bool next_known_key(orr_json *json, orr_json_layout *layout, uint8_t **ret_tag,
                                  orr_status *status, orr_error *err)
{
    const uint8_t *p = json->at;
    if (!orr_json_next_key_at(json, layout, &p, json->expect, ret_tag, status, err))
        return false;
    orr_json_value_at(json, p);
    return true;
}

/* One value, whole. `skip_every` n > 0: every n-th value is skipped, and the one after
 * it read raw; the number of the line tells. `layout`: NULL, or what keys are remembered in. */
static inline orr_status put_tokens(orr_json *json, orr_output *out, int skip_every,
                                    orr_json_layout *layout, orr_error *err)
{
    static const char kinds[] = {'z', 'f', 't', 'n', 's', '[', '{'};
    const uint32_t depth = json->depth;
    int count = 0;
    do {
        orr_status status;
        orr_text key;
        uint8_t *tag;
        if (json->depth > depth) {
            const bool object = json->in_object;
            const bool more = !object          ? orr_json_next_element(json, &status, err)
                              : layout != NULL ? next_known_key(json, layout, &tag, &status, err)
                                               : orr_json_next_key(json, &key, &status, err);
            ORR_TRY(status);
            if (!more) {
                orr_output_text(out, object ? "}\n" : "]\n");
                continue;
            }
            if (object)
                put_token(out, 'k', layout != NULL ? orr_json_layout_key(layout) : key);
        }
        count++;
        if (skip_every > 0 && count % skip_every == 0) {
            ORR_TRY(orr_json_skip(json, err));
            orr_output_text(out, "skipped\n");
        } else if (skip_every > 0 && count % skip_every == 1) {
            orr_text raw;
            ORR_TRY(orr_json_raw(json, &raw, err));
            put_token(out, 'r', raw);
        } else {
            orr_json_value value;
            ORR_TRY(orr_json_value_next(json, &value, err));
            put_token(out, kinds[value.type], value.text);
            if (layout != NULL && value.type == ORR_JSON_OBJECT)
                layout->last = 0;
        }
    } while (json->depth > depth);
    return ORR_OK;
}

typedef struct token_options {
    bool tolerant;
    size_t step; /* window; 0: as usual */
    int skip_every;
    uint32_t depth_limit; /* 0: default */
    bool layout;          /* keys are remembered */
} token_options;

/* Tokens of a whole stream, then the faults or the error, into memory: close it. NULL: no memory.
 */
static inline orr_output *stream_tokens(orr_stream *stream, token_options options)
{
    orr_output *out = NULL;
    orr_json *json = NULL;
    orr_json_layout layout = {.n = 0};
    orr_error err = {.byte_pos = UINT64_MAX};
    if (orr_output_open_memory(&out, NULL) != ORR_OK)
        return NULL;
    orr_status status = orr_json_new(stream, options.tolerant, &json, &err);
    if (status == ORR_OK && options.depth_limit > 0)
        orr_json_set_depth_limit(json, options.depth_limit);
    if (status == ORR_OK)
        status = put_tokens(json, out, options.skip_every, options.layout ? &layout : NULL, &err);
    if (status == ORR_OK)
        status = orr_json_end(json, &err);
    if (status != ORR_OK)
        orr_output_printf(out, "!%s at %" PRIu64 ": %s\n", orr_status_name(status), err.byte_pos,
                          err.text);
    else
        orr_output_printf(out, "end at %" PRIu64 "\n", orr_json_byte_pos(json));
    for (int i = 0; json != NULL && i < ORR_JSON_FAULTS; i++)
        if (orr_json_faults(json, (orr_json_fault)i) > 0)
            orr_output_printf(out, "fault %d: %" PRIu64 " from %" PRIu64 "\n", i,
                              orr_json_faults(json, (orr_json_fault)i),
                              orr_json_first_fault_byte(json));
    orr_json_free(json);
    return out;
}

static inline orr_output *memory_tokens(const void *bytes, size_t len, token_options options)
{
    orr_stream *stream = NULL;
    orr_stream_test_step(options.step);
    const orr_status status = orr_stream_open_memory(bytes, len, &stream, NULL);
    orr_stream_test_step(0);
    if (status != ORR_OK)
        return NULL;
    orr_output *out = stream_tokens(stream, options);
    orr_stream_close(stream);
    return out;
}

static inline bool same_tokens(const orr_output *a, const orr_output *b)
{
    size_t an, bn;
    const void *at = orr_output_memory(a, &an), *bt = orr_output_memory(b, &bn);
    return an == bn && memcmp(at, bt, an) == 0;
}

#endif /* ORR_TESTS_JSON_TOKENS_H */
