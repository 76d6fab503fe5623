/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_READER_PARTS_H
#define ORR_IO_JSON_READER_PARTS_H

#include "base/array.h"
#include "io/json/list.h"
#include "io/json/reader.h"

/* What the files of the JSON reader share. */

/* What the grammar allows next. */
typedef enum orr_json_expect {
    ORR_JSON_EXPECT_VALUE,
    ORR_JSON_EXPECT_FIRST,       /* first element or key, or the end of the container */
    ORR_JSON_EXPECT_MORE,        /* comma or the end of the container */
    ORR_JSON_EXPECT_AFTER_COMMA, /* tolerant: element or key; its comma was passed already */
} orr_json_expect;

struct orr_json {
    /* The window as the stream gave it at `begin`; read up to `at`. A token is read with a
     * pointer of its own, and `at` moves when it is complete: when it runs into `end`, it is
     * begun again in a longer window. */
    const uint8_t *begin, *at, *end;
    const uint8_t *keep; /* start of the raw value being read; NULL: none */
    orr_stream *stream;
    bool tolerant;
    bool ended; /* `end` is the end of the input */
    bool cut;   /* tolerant: the input ended in the middle; containers end one by one */

    bool in_object;
    orr_json_expect expect;
    uint32_t depth, depth_limit;
    orr_json_list_scan *list_scan; /* NULL: none on this CPU */
    orr_array(bool) is_object;     /* of each level */

    orr_array(char) scratch; /* a string with escapes, decoded */
    struct orr_output *repaired;
    uint64_t faults[ORR_JSON_FAULTS];
    uint64_t first_fault_byte;
    uint64_t next_fault_byte; /* faults before it are counted: a token may be read twice */
};

/* Private status: the token is not complete in this window. */
#define ORR_JSON_INCOMPLETE ((orr_status)1000)

static inline uint64_t orr_json_pos(const orr_json *json, const uint8_t *p)
{
    return orr_stream_offset(json->stream) + (uint64_t)(p - json->begin);
}

/* Fail, naming the byte at `p`. */
#define orr_json_fail(json, p, err, format, ...)                                                   \
    orr_fail_byte((err), ORR_PARSE, orr_json_pos((json), (p)), "at byte %llu: " format,            \
                  (unsigned long long)orr_json_pos((json), (p)), ##__VA_ARGS__)

/* Behind a value: what the grammar allows there. */
static inline void orr_json_value_done(orr_json *json, const uint8_t *after)
{
    json->at = after;
    json->expect = json->depth > 0 ? ORR_JSON_EXPECT_MORE : ORR_JSON_EXPECT_VALUE;
}

/* Out of the container we are in. */
static inline void orr_json_leave(orr_json *json, const uint8_t *after)
{
    json->depth--;
    json->in_object = json->depth > 0 && json->is_object.at[json->depth - 1];
    orr_json_value_done(json, after);
}

void orr_json_count_fault(orr_json *json, orr_json_fault fault, const uint8_t *p);

/* Move `at` to the first byte of the next value, where a value is next. */
orr_status orr_json_begin_value(orr_json *json, orr_error *err) ORR_MUST_CHECK;

/* Pass over what is left of the containers that were entered since `depth`. */
orr_status orr_json_skip_to_depth(orr_json *json, uint32_t depth, orr_error *err) ORR_MUST_CHECK;

/* The string that begins at `p`, behind its quote, where the plain way does not do: escapes,
 * non-ASCII text, faults. *ret_after is behind the closing quote. */
orr_status orr_json_decode_string(orr_json *json, const uint8_t *p, orr_text *ret,
                                  const uint8_t **ret_after, orr_error *err) ORR_MUST_CHECK;

/* The number that begins at `p`: its grammar only. */
orr_status orr_json_scan_number(orr_json *json, const uint8_t *p, orr_json_value *ret,
                                const uint8_t **ret_after, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_IO_JSON_READER_PARTS_H */
