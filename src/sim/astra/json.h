/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ASTRA_JSON_H
#define ORR_SIM_ASTRA_JSON_H

#include "io/json/reader.h"

/* Reads a small JSON file with one function; `read` is called before its single value. Errors
 * have the file's name and the byte. */
typedef orr_status orr_astra_json_reader(orr_json *json, void *ctx, orr_error *err);
orr_status orr_astra_json_load(const char *path, orr_astra_json_reader *read, void *ctx,
                               orr_error *err) ORR_MUST_CHECK;
orr_status orr_astra_json_parse(const void *bytes, size_t len, const char *file,
                                orr_astra_json_reader *read, void *ctx,
                                orr_error *err) ORR_MUST_CHECK;

/* INVALID at the value just read: "at byte 12: endpoint-delay: a number of 0 or more". */
#define orr_astra_json_fail(json, err, key, what)                                                  \
    orr_fail_byte((err), ORR_INVALID, orr_json_byte_pos(json), "at byte %llu: %s: %s",             \
                  (unsigned long long)orr_json_byte_pos(json), (key), (what))

#endif /* ORR_SIM_ASTRA_JSON_H */
