/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMMON_WRITER_H
#define ORR_TRACE_COMMON_WRITER_H

#include <orrery/trace.h>

#include "io/stream/output.h"

/* The interface of a format's writer: it writes the whole file to `out`; the caller finishes and
 * closes it. Write errors are reported by orr_output_finish(); a writer itself fails with NO_MEMORY
 * only. */
orr_status orr_chakra_write(const orr_graph *graph, orr_output *out, orr_error *err) ORR_MUST_CHECK;
/* The same as CHAKRA, or its messages as JSON or TEXT. */
orr_status orr_chakra_write_as(const orr_graph *graph, orr_format form, orr_output *out,
                               orr_error *err) ORR_MUST_CHECK;

/* Graphs on a common time axis: node v of graphs[i] starts at shift_ns[i] + start_ns[v], counted
 * from base_ns. */
typedef struct orr_write_set {
    const orr_graph *const *graphs; /* shape (n) */
    const int64_t *shift_ns;        /* shape (n) */
    const uint32_t *ranks;          /* shape (n): ORR_NONE where it is not known */
    uint32_t n;
    int64_t base_ns;
} orr_write_set;

/* A graph to look at. Errors: LIMIT: more nodes than Graphviz lays out; none of GraphML. */
orr_status orr_dot_write(const orr_graph *graph, orr_output *out, orr_error *err) ORR_MUST_CHECK;
orr_status orr_graphml_write(const orr_graph *graph, orr_output *out,
                             orr_error *err) ORR_MUST_CHECK;

orr_status orr_chrome_write(const orr_write_set *set, orr_output *out,
                            orr_error *err) ORR_MUST_CHECK;
orr_status orr_perfetto_write(const orr_write_set *set, orr_output *out,
                              orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_COMMON_WRITER_H */
