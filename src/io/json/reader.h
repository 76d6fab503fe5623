/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_READER_H
#define ORR_IO_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/stream/stream.h"

/* JSON pull reader (RFC 8259). Memory is bounded by the longest token, nesting by
 * `depth_limit`. Nothing is recursive. Threads: one.
 *
 * Usage: one call, one token; at a KEY the next token is its value.
 *
 *   ORR_TRY(orr_json_enter_object(r, err));                  // '{'
 *   while (orr_json_next_key(r, &key, &status, err)) {       // key text
 *       if (orr_text_is(key, "ts")) ... orr_json_value_next(r, &v, err) ...
 *       else ORR_TRY(orr_json_skip(r, err));
 *   }
 *   ORR_TRY(status);
 */
typedef struct orr_json orr_json;

/* A slice of the input, valid until the next call on the reader. */
typedef struct orr_text {
    const char *at;
    size_t n;
} orr_text;

typedef enum orr_json_type {
    ORR_JSON_NULL,
    ORR_JSON_FALSE,
    ORR_JSON_TRUE,
    ORR_JSON_NUMBER,
    ORR_JSON_STRING,
    ORR_JSON_ARRAY,  /* begin; its values follow */
    ORR_JSON_OBJECT, /* begin; its keys follow   */
} orr_json_type;

typedef struct orr_json_value {
    orr_json_type type;
    orr_text text; /* NUMBER: its digits; STRING: decoded UTF-8 without quotes */
} orr_json_value;

typedef enum orr_json_fault {
    ORR_JSON_FAULT_TRUNCATED,
    ORR_JSON_FAULT_CONTROL_CHARACTER,
    ORR_JSON_FAULT_MISSING_COMMA,
    ORR_JSON_FAULT_NOT_A_NUMBER,
    ORR_JSON_FAULT_LONE_SURROGATE,
    ORR_JSON_FAULTS
} orr_json_fault;

/* `stream` is borrowed. Free with orr_json_free(). Sets the stream's limit, here that of a
 * token, to 256 MiB, and its tolerance to `tolerant`.
 *
 * Strict is RFC 8259 to the letter, but for a byte order mark at the front, which is passed
 * over. Tolerant lets the faults below pass and counts each: arrays and objects simply end
 * where the file does, and a value that is cut off is null. Every error names the byte, in its
 * text too. Errors of all functions: PARSE, LIMIT (token, nesting), those of orr_stream_fill(),
 * and INVALID (a key asked for in an array and the like). After an error the reader is of no
 * use. */
orr_status orr_json_new(orr_stream *stream, bool tolerant, orr_json **ret,
                        orr_error *err) ORR_MUST_CHECK;
void orr_json_free(orr_json *json);
void orr_json_set_depth_limit(orr_json *json, uint32_t limit); /* default 1024 */

/* The next value: of the top level, of the array we are in, or of the key just
 * read. Enters arrays and objects. */
orr_status orr_json_value_next(orr_json *json, orr_json_value *ret, orr_error *err) ORR_MUST_CHECK;

/* The same where only an object or an array will do; else PARSE. */
orr_status orr_json_enter_object(orr_json *json, orr_error *err) ORR_MUST_CHECK;
orr_status orr_json_enter_array(orr_json *json, orr_error *err) ORR_MUST_CHECK;

/* In an array: is there another element? False leaves the array. On a failure
 * false too, and *status says why. */
bool orr_json_next_element(orr_json *json, orr_status *status, orr_error *err);
/* In an object: the next key, decoded. False leaves the object, or fails, as above. */
bool orr_json_next_key(orr_json *json, orr_text *ret_key, orr_status *status, orr_error *err);

/* Pass over the next value, whatever it is. Fast: does not decode. */
orr_status orr_json_skip(orr_json *json, orr_error *err) ORR_MUST_CHECK;
/* The next value as raw JSON text, whole. Where faults were let pass in it, the text is
 * written again without them (NaN as null), so that it is always valid JSON. */
orr_status orr_json_raw(orr_json *json, orr_text *ret, orr_error *err) ORR_MUST_CHECK;
/* The next value as a number, or a string that holds one (tracers write both): false in
 * *ret_is when it is something else, which is skipped: null, NaN, a fraction where an integer
 * is asked for, or out of range. "12.0" and "1.2e1" are the integer 12. */
orr_status orr_json_int64(orr_json *json, int64_t *ret, bool *ret_is,
                          orr_error *err) ORR_MUST_CHECK;
orr_status orr_json_double(orr_json *json, double *ret, bool *ret_is,
                           orr_error *err) ORR_MUST_CHECK;
/* The next value, microseconds in decimal, exactly as ns ("1.0005" is 1000 with the rest
 * rounded half away from zero; "12e-1" works too). */
orr_status orr_json_us_as_ns(orr_json *json, int64_t *ret_ns, bool *ret_is,
                             orr_error *err) ORR_MUST_CHECK;
/* The next value as text: decoded string, or the literal of a number; else ret_is false. */
orr_status orr_json_text(orr_json *json, orr_text *ret, bool *ret_is,
                         orr_error *err) ORR_MUST_CHECK;
/* Nothing but white space may follow. */
orr_status orr_json_end(orr_json *json, orr_error *err) ORR_MUST_CHECK;

uint64_t orr_json_byte_pos(const orr_json *json);
uint64_t orr_json_faults(const orr_json *json, orr_json_fault fault);
uint64_t orr_json_first_fault_byte(const orr_json *json); /* UINT64_MAX: none */

/* Text helpers. The number parsers take the whole text or fail. */
static inline bool orr_text_equal(orr_text a, const char *b, size_t n)
{
    return a.n == n && __builtin_memcmp(a.at, b, n) == 0;
}
#define orr_text_is(text, literal) orr_text_equal((text), (literal), sizeof(literal) - 1)
bool orr_text_int64(orr_text text, int64_t *ret);
bool orr_text_uint64(orr_text text, uint64_t *ret);
bool orr_text_double(orr_text text, double *ret);
bool orr_text_us_as_ns(orr_text text, int64_t *ret_ns);

#endif /* ORR_IO_JSON_READER_H */
