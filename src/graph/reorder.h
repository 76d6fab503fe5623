/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_REORDER_H
#define ORR_GRAPH_REORDER_H

#include <orrery/graph.h>

/* Are the n numbers 0 to n - 1, each once? False too where there is no memory to tell. */
bool orr_is_permutation(const uint32_t *order, uint32_t n);

/* Node v of the builder becomes node order[v], in its columns, parents, dependencies and tensors.
 * `order`: a permutation of its nodes. The lanes must be sorted anew. Errors: NO_MEMORY; the
 * builder is fit for nothing then but to be freed. */
orr_status orr_builder_reorder(orr_graph_builder *builder, const uint32_t *order,
                               orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_GRAPH_REORDER_H */
