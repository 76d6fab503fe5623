/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/command/session.h"
#include "report/table/cell.h"

enum { N_NODE_KINDS = ORR_NODE_OVERHEAD + 1, N_DEP_KINDS = ORR_DEP_SYNC + 1 };

typedef struct recording {
    uint32_t rank, world_size, nodes, dependencies, lanes, groups, tensors, communications, steps;
    const char *source, *device, *files, *not_recorded;
    int64_t span_ns, read_bytes, memory_bytes;
    double bytes_per_node;
    uint64_t records, orphans, faults;
} recording;

#define AS(field, type, name)                                                                      \
    {                                                                                              \
        name, ORR_COLUMN_##type, offsetof(recording, field)                                        \
    }
#define C(field, type) AS(field, type, #field)
static const orr_column RECORDING_COLUMNS[] = {
    C(rank, U32),
    C(files, TEXT),
    C(source, TEXT),
    C(device, TEXT),
    C(world_size, U32),
    C(span_ns, NS),
    C(steps, U32),
    C(records, U64),
    C(nodes, U32),
    C(dependencies, U32),
    C(lanes, U32),
    C(groups, U32),
    C(tensors, U32),
    C(communications, U32),
    AS(orphans, U64, "unlaunched_kernels"),
    C(not_recorded, TEXT),
    AS(faults, U64, "repaired_faults"),
    C(read_bytes, BYTES),
    C(memory_bytes, BYTES),
    C(bytes_per_node, NUMBER),
};
#undef C
#undef AS

typedef struct kind_count {
    uint32_t rank;
    const char *kind;
    uint64_t count;
    int64_t sum_ns;
} kind_count;

#define C(name, type)                                                                              \
    {                                                                                              \
#name, ORR_COLUMN_##type, offsetof(kind_count, name)                                       \
    }
static const orr_column NODE_COLUMNS[] = {C(rank, U32), C(kind, TEXT), C(count, U64),
                                          C(sum_ns, NS)};
static const orr_column DEP_COLUMNS[] = {C(rank, U32), C(kind, TEXT), C(count, U64)};
#undef C
#undef AS

/* Names and numbers of the files that made the graph of a rank. */
static orr_status add_files(orr_session *session, recording *row)
{
    row->files = "";
    for (size_t i = 0; i < session->n_files; i++) {
        const orr_job_file *file = &session->files[i];
        if (file->rank != row->rank)
            continue;
        row->files = *row->files
                         ? orr_arena_printf(session->arena, "%s + %s", row->files, file->path)
                         : file->path;
        if (!row->files)
            return orr_fail_memory(&session->err);
        row->read_bytes += (int64_t)file->report.bytes;
        row->records += file->report.events;
        row->orphans += file->report.orphans;
        for (int fault = 0; fault < ORR_TRACE_FAULTS; fault++)
            row->faults += file->report.faults[fault];
    }
    return ORR_OK;
}

/* What analyses and predictions may ask for and the recording does not say. */
static orr_status list_gaps(orr_session *session, const orr_graph *graph, recording *row)
{
    uint64_t sizes = 0, groups = 0, of_kind[N_NODE_KINDS] = {0}, timed = 0;
    char sizes_text[64], groups_text[64];

    for (uint32_t v = 0; v < graph->n_nodes; v++) {
        of_kind[graph->kind[v]]++;
        timed += graph->start_ns[v] != ORR_TIME_NONE;
    }
    for (uint32_t i = 0; i < graph->n_comms; i++) {
        sizes += graph->comms[i].in_bytes < 0 && graph->comms[i].out_bytes < 0;
        groups += graph->comms[i].group == ORR_NONE;
    }
    bool device = false;
    for (uint32_t l = 0; l < graph->n_lanes; l++)
        device |= graph->lanes[l].kind == ORR_LANE_STREAM;
    (void)snprintf(sizes_text, sizeof sizes_text, "sizes of communications (%" PRIu64 ")", sizes);
    (void)snprintf(groups_text, sizeof groups_text, "groups of communications (%" PRIu64 ")",
                   groups);
    const bool host = of_kind[ORR_NODE_HOST_OP] + of_kind[ORR_NODE_RUNTIME] > 0;
    const struct {
        bool missing;
        const char *what;
    } gaps[] = {
        {timed == 0, "times"},
        {!host, "work of the host"},
        {!device, "work of a device"},
        {row->steps == 0, "steps"},
        {host && graph->n_tensors == 0 && orr_graph_find_str(graph, "Input Dims") == ORR_NONE,
         "shapes"},
        {sizes > 0, sizes_text},
        {groups > 0, groups_text},
        {graph->n_memories == 0, "memory"},
    };
    row->not_recorded = "";
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        if (!gaps[i].missing)
            continue;
        row->not_recorded = orr_arena_printf(session->arena, "%s%s%s", row->not_recorded,
                                             *row->not_recorded ? ", " : "", gaps[i].what);
        if (!row->not_recorded)
            return orr_fail_memory(&session->err);
    }
    return ORR_OK;
}

static orr_status describe(orr_session *session, uint32_t g, recording *row)
{
    const orr_graph *graph = session->job->graphs[g];

    *row = (recording){
        .rank = session->job->rank_of_graph[g],
        .world_size = graph->world_size,
        .nodes = graph->n_nodes,
        .dependencies = graph->n_deps,
        .lanes = graph->n_lanes,
        .groups = graph->n_groups,
        .tensors = graph->n_tensors,
        .communications = graph->n_comms,
        .source = orr_graph_str(graph, graph->source),
        .device = orr_graph_str(graph, graph->device_name),
        .span_ns = graph->span_ns,
        .memory_bytes = (int64_t)orr_graph_held_bytes(graph),
        .bytes_per_node = graph->n_nodes ? (double)orr_graph_core_bytes(graph) / graph->n_nodes : 0,
    };
    const orr_step_summary *steps;
    size_t n_steps;
    const orr_analysis_options options = {.struct_bytes = sizeof options,
                                          .rank = row->rank,
                                          .annotation = session->analysis.annotation,
                                          .step_first = -1,
                                          .step_last = -1};
    ORR_TRY(
        orr_analyze_steps(session->job, &options, session->arena, &steps, &n_steps, &session->err));
    row->steps = (uint32_t)n_steps;
    ORR_TRY(list_gaps(session, graph, row));
    return add_files(session, row);
}

static size_t count_nodes(const orr_job *job, uint32_t g, kind_count *rows)
{
    const orr_graph *graph = job->graphs[g];
    kind_count all[N_NODE_KINDS] = {0};
    size_t n = 0;

    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        all[graph->kind[i]].count++;
        all[graph->kind[i]].sum_ns += graph->duration_ns[i];
    }
    for (int kind = 0; kind < N_NODE_KINDS; kind++)
        if (all[kind].count)
            rows[n++] = (kind_count){job->rank_of_graph[g], orr_node_kind_name((orr_node_kind)kind),
                                     all[kind].count, all[kind].sum_ns};
    return n;
}

static size_t count_deps(const orr_job *job, uint32_t g, kind_count *rows)
{
    const orr_graph *graph = job->graphs[g];
    uint64_t all[N_DEP_KINDS] = {0};
    size_t n = 0;

    for (uint32_t i = 0; i < graph->n_deps; i++)
        all[graph->dep_kind[i]]++;
    for (int kind = 0; kind < N_DEP_KINDS; kind++)
        if (all[kind])
            rows[n++] = (kind_count){job->rank_of_graph[g], orr_dep_kind_name((orr_dep_kind)kind),
                                     all[kind], 0};
    return n;
}

/* For people: a list a rank, since a row of so many columns fits no terminal. */
static void write_lists(const orr_session *session, const orr_table *table)
{
    char heading[ORR_HUMAN_MAX], value[ORR_HUMAN_MAX];

    for (size_t row = 0; row < table->n_rows; row++) {
        for (size_t i = 0; i < table->n_columns; i++) {
            const orr_column *column = &table->columns[i];
            const orr_cell cell = orr_table_cell(table, row, column);
            if (cell.kind == ORR_CELL_NONE || (cell.kind == ORR_CELL_TEXT && !*cell.as.text))
                continue;
            orr_column_heading(column, heading);
            orr_output_printf(
                session->out, "%-16s %s\n", heading,
                orr_session_printable(session, orr_cell_human(&cell, column->type, value)));
        }
        orr_output_text(session->out, "\n");
    }
}

static void write_tables(orr_session *session, const orr_table tables[3],
                         const orr_table_style *style)
{
    static const char *const names[] = {"recordings", "nodes", "dependencies"};
    const bool json = style->format == ORR_TABLE_JSON;

    if (json)
        orr_output_printf(session->out,
                          "{\"schema\":\"orrery.info/1\",\"version\":\"%s\",\"tables\":{",
                          orr_version());
    for (int i = 0; i < 3; i++) {
        if (json)
            orr_output_printf(session->out, "%s\n\"%s\":", i ? "," : "", names[i]);
        else if (i)
            orr_output_text(session->out, "\n");
        if (i == 0 && style->format == ORR_TABLE_TEXT)
            write_lists(session, &tables[i]);
        else
            orr_table_write(&tables[i], style, session->out);
    }
    if (json)
        orr_output_text(session->out, "}}\n");
}

static orr_status print_info(orr_session *session)
{
    const orr_job *job = session->job;
    orr_table_style style;

    recording *recordings = orr_arena_array(session->arena, recording, job->n_graphs);
    kind_count *nodes =
        orr_arena_array(session->arena, kind_count, (size_t)job->n_graphs * N_NODE_KINDS);
    kind_count *deps =
        orr_arena_array(session->arena, kind_count, (size_t)job->n_graphs * N_DEP_KINDS);
    if (!recordings || !nodes || !deps)
        return orr_fail_memory(&session->err);
    size_t n_nodes = 0, n_deps = 0;
    for (uint32_t g = 0; g < job->n_graphs; g++) {
        ORR_TRY(describe(session, g, &recordings[g]));
        n_nodes += count_nodes(job, g, nodes + n_nodes);
        n_deps += count_deps(job, g, deps + n_deps);
    }
#define COLUMNS(c) c, sizeof(c) / sizeof *(c)
    const orr_table tables[3] = {
        {"orrery.recordings/1", "Recordings", COLUMNS(RECORDING_COLUMNS), recordings,
         sizeof *recordings, job->n_graphs},
        {"orrery.nodes/1", "Nodes", COLUMNS(NODE_COLUMNS), nodes, sizeof *nodes, n_nodes},
        {"orrery.dependencies/1", "Dependencies", COLUMNS(DEP_COLUMNS), deps, sizeof *deps, n_deps},
    };
#undef COLUMNS
    ORR_TRY(orr_session_output(session, &style));
    style.max_rows = 0;
    write_tables(session, tables, &style);
    return orr_output_finish(session->out, &session->err);
}

int orr_command_info(const orr_settings *settings)
{
    orr_session session;
    int code = EXIT_DONE;

    if (orr_session_init(&session, settings) != ORR_OK ||
        orr_session_analysis(&session) != ORR_OK ||
        orr_session_load(&session, settings->args, settings->n_args) != ORR_OK ||
        print_info(&session) != ORR_OK)
        code = orr_session_fail(&session);
    orr_session_done(&session);
    return code;
}
