/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_WRITER_H
#define ORR_IO_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/stream/output.h"

/* JSON writer: commas and escapes are its business. Text that is not UTF-8 is
 * repaired with U+FFFD, so that the output is always valid. Plain struct on
 * the caller's stack; nesting up to 64. */
typedef struct orr_json_writer {
    orr_output *out;
    uint64_t has_value; /* a bit a level: something was written at it */
    uint32_t depth;
    bool after_key;
} orr_json_writer;

void orr_json_write_init(orr_json_writer *w, orr_output *out);
void orr_json_write_object(orr_json_writer *w); /* '{' */
void orr_json_write_object_end(orr_json_writer *w);
void orr_json_write_array(orr_json_writer *w);
void orr_json_write_array_end(orr_json_writer *w);
void orr_json_write_key(orr_json_writer *w, const char *key);
void orr_json_write_text(orr_json_writer *w, const char *text, size_t len);
void orr_json_write_cstr(orr_json_writer *w, const char *text);
void orr_json_write_int(orr_json_writer *w, int64_t value);
void orr_json_write_uint(orr_json_writer *w, uint64_t value);
void orr_json_write_double(orr_json_writer *w, double value); /* reads back; NaN: null */
void orr_json_write_bool(orr_json_writer *w, bool value);
void orr_json_write_null(orr_json_writer *w);
void orr_json_write_raw(orr_json_writer *w, const char *json, size_t len); /* a value, as it is */
void orr_json_write_us(orr_json_writer *w, int64_t ns); /* ns as decimal microseconds, exact */
void orr_json_write_newline(orr_json_writer *w);        /* between values, for people */

/* A key with its value. Text of NULL is null. */
void orr_json_member_text(orr_json_writer *w, const char *key, const char *text);
void orr_json_member_int(orr_json_writer *w, const char *key, int64_t value);
void orr_json_member_uint(orr_json_writer *w, const char *key, uint64_t value);
void orr_json_member_double(orr_json_writer *w, const char *key, double value);
void orr_json_member_bool(orr_json_writer *w, const char *key, bool value);

/* Text as a JSON string, quotes and all, wherever the output stands. */
void orr_json_put_string(orr_output *out, const char *text, size_t len);

#endif /* ORR_IO_JSON_WRITER_H */
