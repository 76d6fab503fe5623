/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMMON_JSON_SLICE_H
#define ORR_TRACE_COMMON_JSON_SLICE_H

#include <stdbool.h>

#include "io/json/reader.h"

/* Iterates over the elements of a JSON array or the members of an object that is in memory as text
 * (orr_json_raw()), for values that are kept as text and inspected later. Other text has none. */
typedef struct orr_json_slice {
    const char *at, *end;
} orr_json_slice;

orr_json_slice orr_json_slice_of(orr_text array);
/* The next element, as text: a string with its quotes, an array with its brackets. */
bool orr_json_slice_next(orr_json_slice *slice, orr_text *ret);

orr_json_slice orr_json_slice_of_object(orr_text object);
/* The next member: its key without quotes (escapes stay), its value as above. */
bool orr_json_slice_next_member(orr_json_slice *slice, orr_text *ret_key, orr_text *ret_value);

/* Text between the quotes of a string; escapes stay. Other text stays as it is. */
orr_text orr_json_unquote(orr_text text);

/* Elements of a type list without quotes: "GenericList[Tensor(float),Int]" -> "Tensor(float)",
 * "Int". None for a type that is no list. */
orr_json_slice orr_type_list_of(orr_text type);
bool orr_type_list_next(orr_json_slice *slice, orr_text *ret);

#endif /* ORR_TRACE_COMMON_JSON_SLICE_H */
