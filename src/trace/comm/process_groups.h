/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMM_PROCESS_GROUPS_H
#define ORR_TRACE_COMM_PROCESS_GROUPS_H

#include <orrery/graph.h>

#include "io/json/writer.h"
#include "trace/common/idmap.h"

/* The process groups of a recording, by the names that its communications use. Zero-initialized is
 * empty. */
typedef struct orr_process_groups {
    orr_idmap by_name;       /* orr_str of the name        -> group in the builder */
    orr_idmap by_backend_id; /* number of old recordings   -> group in the builder */
} orr_process_groups;

void orr_process_groups_done(orr_process_groups *groups);

/* Reads the text of a `## process_group:init ##`: a JSON list of {pg_name, pg_desc, backend_config,
 * ranks, group_size, backend_id}. `ranks` [] means all. *ret_whole is false when the text is cut
 * short (PyTorch truncates long ones) or is no such list; what came before counts. Errors:
 * NO_MEMORY, LIMIT. */
orr_status orr_process_groups_read(orr_process_groups *groups, orr_graph_builder *builder,
                                   const char *json, size_t len, bool *ret_whole,
                                   orr_error *err) ORR_MUST_CHECK;

/* The group of that name, created like `like` if it is new; an existing one is completed from
 * `like`. */
orr_status orr_process_groups_named(orr_process_groups *groups, orr_graph_builder *builder,
                                    const orr_group *like, orr_group_id *ret,
                                    orr_error *err) ORR_MUST_CHECK;

/* Writes the groups of a graph as text that orr_process_groups_read() reads. */
void orr_process_groups_write(const orr_graph *graph, orr_json_writer *w);

#endif /* ORR_TRACE_COMM_PROCESS_GROUPS_H */
