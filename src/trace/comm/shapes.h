/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMM_SHAPES_H
#define ORR_TRACE_COMM_SHAPES_H

#include <stddef.h>
#include <stdint.h>

#include <orrery/graph.h>

/* Parses lists in JSON text of recordings. Threads: any. */

/* Elements of argument `index` of "Input Dims": 12 for index 0 of "[[3, 4], []]", and the sum over
 * its tensors where the argument is a list of them. -1: no numbers there, or over 2^63. */
int64_t orr_dims_element_count(const char *dims, size_t len, unsigned index);

/* The first non-empty type of "Input type": "float" of "["", "float"]". NULL: none. */
const char *orr_types_first(const char *types, size_t len, size_t *ret_len);

/* Parses "[0, 2, 4]" into the group's size, and start and stride where they describe the ranks,
 * else `ranks`, which is *ret_list. A truncated list ("[0, 1, ...]") leaves the group as it is:
 * size, start and stride are recorded beside it. Errors: NO_MEMORY. */
orr_status orr_ranks_parse(const char *text, size_t len, uint32_t **ret_list, orr_group *group,
                           orr_error *err) ORR_MUST_CHECK;
void orr_ranks_free(uint32_t *list);

#endif /* ORR_TRACE_COMM_SHAPES_H */
