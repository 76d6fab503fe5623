/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_LIST_H
#define ORR_IO_JSON_LIST_H

#include <stdint.h>

/* Arrays of plain values by a structural scan, 64 bytes at a time (after G. Langdale and D. Lemire,
 * "Parsing Gigabytes of JSON per Second", VLDB Journal 28, 2019): a vector comparison gives a word
 * of bits for each kind of character, and the grammar of arrays is a few operations on words.
 *
 * Behind the array whose bracket is at p, when it holds only strings of plain letters, numbers
 * without exponent and such arrays, at most `most_depth` deep, and ends before `end`; else NULL:
 * the reader is to look at it. 64 bytes behind `end` must be readable. Threads: any. */
typedef const uint8_t *orr_json_list_scan(const uint8_t *p, const uint8_t *end,
                                          uint32_t most_depth);

/* The scan of this CPU's level; NULL: it has none, and values are passed over one by one. */
orr_json_list_scan *orr_json_list_scan_of_cpu(void);

#endif /* ORR_IO_JSON_LIST_H */
