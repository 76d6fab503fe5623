/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMMON_TENSORS_H
#define ORR_TRACE_COMMON_TENSORS_H

#include <orrery/graph.h>

#include "base/array.h"
#include "io/json/reader.h"

/* Inputs or outputs of an operator in a host trace, as JSON; see tensors.c. */
typedef struct orr_tensor_texts {
    orr_text values, shapes, types;
} orr_tensor_texts;

typedef orr_array(orr_tensor_id) orr_found_tensors;

/* The tensors in inputs or outputs, in order, to the end of `ret`. `args`: a bit for each of
 * the first 64 arguments; others are left out. The texts must not be the builder's own, which
 * adding strings moves. Errors: NO_MEMORY, LIMIT. */
orr_status orr_find_tensors(orr_graph_builder *builder, const orr_tensor_texts *texts,
                            uint64_t args, orr_found_tensors *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_COMMON_TENSORS_H */
