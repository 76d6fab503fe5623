/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "trace/common/reader.h"
#include "trace/common/sqlite.h"
#include "trace/kineto/import.h"

/* Databases of rocprofv3 ("rocpd", the default output of ROCm 7). Tables and columns:
 * rocpd_tables.sql, schema 3, and generateRocpd.cpp of ROCm/rocprofiler-sdk. Each table's name ends
 * in an identifier of the process ("rocpd_region_0198..."); views have the names without it. An
 * event's stack_id is the correlation by which a dispatch is known to the call that made it. */

typedef enum table {
    TABLE_REGION,
    TABLE_DISPATCH,
    TABLE_COPY,
    TABLE_EVENT,
    TABLE_STRING,
    TABLE_SYMBOL,
    TABLE_AGENT,
    TABLE_THREAD,
    TABLE_PROCESS,
    N_TABLES
} table;

static const char *const table_names[N_TABLES] = {
    "rocpd_region",     "rocpd_kernel_dispatch", "rocpd_memory_copy",
    "rocpd_event",      "rocpd_string",          "rocpd_info_kernel_symbol",
    "rocpd_info_agent", "rocpd_info_thread",     "rocpd_info_process"};

typedef struct reader {
    kineto *k;
    orr_database *db;
    orr_arena *arena;
    const char *tables[N_TABLES]; /* as they are called here; NULL: there is none */
} reader;

enum { SQL_ROOM = 2048, MOST_TABLES = 5 };

/* --- tables ---------------------------------------------------------------------------------- */

/* Tables have a root page; views and virtual tables, whose rows a file may make up, have none. */
static orr_status find_table(reader *r, table t, orr_error *err)
{
    orr_query *query;
    orr_status status;
    char sql[320];
    const char *name = table_names[t];
    (void)snprintf(sql, sizeof sql,
                   "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND (name "
                   "= '%s' OR name GLOB '%s_[0-9a-f]*') AND name NOT GLOB '*[^0-9a-z_]*'",
                   name, name);
    ORR_TRY(orr_query_new(r->db, sql, &query, err));
    for (bool row = true; row;) {
        ORR_TRY_OUT(status, orr_query_step(query, &row, err));
        if (row && r->tables[t] != NULL)
            status = orr_fail(err, ORR_UNSUPPORTED,
                              "it has tables of several processes: give each rank's database, not "
                              "one that they were merged into");
        else if (row)
            status = orr_query_text(query, 0, r->arena, &r->tables[t], err);
        ORR_TRY_OUT(status, status);
    }
out:
    orr_query_free(query);
    return status;
}

/* Calls `take` for each row of a query. */
typedef orr_status (*take_row)(reader *r, const orr_query *row, orr_error *err);

static orr_status each_row(reader *r, const char *sql, take_row take, orr_error *err)
{
    orr_query *query;
    orr_status status;
    ORR_TRY(orr_query_new(r->db, sql, &query, err));
    for (;;) {
        bool row = false;
        const orr_arena_mark mark = orr_arena_get_mark(r->arena);
        ORR_TRY_OUT(status, orr_query_step(query, &row, err));
        if (!row)
            break;
        ORR_TRY_OUT(status, take(r, query, err));
        orr_arena_rewind(r->arena, mark);
    }
out:
    orr_query_free(query);
    return status;
}

/* An integer column, or `otherwise`. */
static int64_t int_at(const orr_query *row, int column, int64_t otherwise)
{
    return orr_query_kind(row, column) == ORR_VALUE_INT ? orr_query_int(row, column) : otherwise;
}

static orr_status text_at(reader *r, const orr_query *row, int column, const char **ret,
                          orr_error *err)
{
    ORR_TRY(orr_query_text(row, column, r->arena, ret, err));
    *ret = *ret != NULL ? *ret : "";
    return ORR_OK;
}

/* --- events ---------------------------------------------------------------------------------- */

/* The first columns of every query of events. */
enum { COLUMN_START, COLUMN_END, COLUMN_STACK, COLUMN_NAME, COLUMN_REST };
#define EVENT_COLUMNS "t.start, t.\"end\", e.stack_id, "

static orr_status begin(reader *r, const orr_query *row, kineto_event *e, const char **ret_name,
                        bool *ret_good, orr_error *err)
{
    ORR_TRY(kineto_begin_event(r->k, err));
    *ret_good = kineto_set_span(r->k, e, int_at(row, COLUMN_START, INT64_MIN),
                                int_at(row, COLUMN_END, INT64_MIN));
    if (!*ret_good)
        return kineto_bad_event(r->k, "row", "has no time that is possible", err);
    if (int_at(row, COLUMN_STACK, 0) > 0)
        kineto_set(e, ARG_CORRELATION, orr_query_int(row, COLUMN_STACK));
    return text_at(r, row, COLUMN_NAME, ret_name, err);
}

/* {"message": "step 3"}: the text of a range. */
static orr_status message_of(const char *json_text, orr_text *ret, orr_json **ret_json,
                             orr_stream **ret_stream, orr_error *err)
{
    orr_json_value v;
    orr_text key;
    bool is = false;
    orr_status status;
    ORR_TRY(orr_stream_open_memory(json_text, strlen(json_text), ret_stream, err));
    ORR_TRY(orr_json_new(*ret_stream, true, ret_json, err));
    ORR_TRY(orr_json_value_next(*ret_json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return ORR_OK;
    while (orr_json_next_key(*ret_json, &key, &status, err)) {
        if (orr_text_is(key, "message")) {
            ORR_TRY(orr_json_text(*ret_json, ret, &is, err));
            return ORR_OK;
        }
        ORR_TRY(orr_json_skip(*ret_json, err));
    }
    return status;
}

static orr_status name_range(reader *r, kineto_event *e, const char *name, const char *extra,
                             orr_error *err)
{
    orr_text message = {"", 0};
    orr_json *json = NULL;
    orr_stream *stream = NULL;
    orr_status status = message_of(extra, &message, &json, &stream, err);
    if (status == ORR_PARSE || status == ORR_LIMIT || status == ORR_INVALID)
        status = ORR_OK; /* no JSON: the range has the name of the call */
    if (status == ORR_OK && message.n > 0) {
        name = orr_arena_strndup(r->arena, message.at, message.n);
        status = name != NULL ? ORR_OK : orr_fail_memory(err);
    }
    orr_json_free(json);
    orr_stream_close(stream);
    ORR_TRY(status);
    return kineto_set_range_name(r->k, e, name, err);
}

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A call of HIP, HSA or RCCL, or a range of roctx, by its category. */
static orr_status take_region(reader *r, const orr_query *row, orr_error *err)
{
    enum { COLUMN_PROCESS = COLUMN_REST, COLUMN_THREAD, COLUMN_CATEGORY, COLUMN_EXTRA };
    kineto_event e = {.ph = 'X', .cat = CAT_RUNTIME};
    const char *name, *category, *extra;
    bool good;
    ORR_TRY(begin(r, row, &e, &name, &good, err));
    if (!good)
        return ORR_OK;
    ORR_TRY(text_at(r, row, COLUMN_CATEGORY, &category, err));
    ORR_TRY(text_at(r, row, COLUMN_EXTRA, &extra, err));
    e.pid.number = int_at(row, COLUMN_PROCESS, 0);
    e.tid.number = int_at(row, COLUMN_THREAD, 0);
    if (begins(category, "MARKER") || begins(category, "RCCL")) {
        e.cat = CAT_USER_ANNOTATION;
        e.has &= ~(UINT64_C(1) << ARG_CORRELATION);
        ORR_TRY(name_range(r, &e, name, extra, err));
    } else {
        ORR_TRY(kineto_set_name(r->k, &e, name, strlen(name), err));
    }
    return kineto_add_node(r->k, &e, err);
}

static void set_stream(kineto_event *e, int64_t agent, int64_t stream)
{
    e->pid.number = agent;
    e->tid.number = stream;
    kineto_set(e, ARG_DEVICE, agent);
    kineto_set(e, ARG_STREAM, stream);
}

/* Sizes of a grid are in threads here, and in blocks in Kineto. */
static int64_t blocks(int64_t threads, int64_t of_a_block)
{
    return threads > 0 && of_a_block > 0 ? (threads - 1) / of_a_block + 1 : threads;
}

static orr_status take_dispatch(reader *r, const orr_query *row, orr_error *err)
{
    enum {
        COLUMN_DEVICE = COLUMN_REST,
        COLUMN_STREAM,
        COLUMN_GROUP,
        COLUMN_BLOCK,
        COLUMN_GRID = 10
    };
    kineto_event e = {.ph = 'X', .cat = CAT_KERNEL};
    const char *name;
    int64_t block[3], grid[3];
    bool good;
    ORR_TRY(begin(r, row, &e, &name, &good, err));
    if (!good)
        return ORR_OK;
    set_stream(&e, int_at(row, COLUMN_DEVICE, 0), int_at(row, COLUMN_STREAM, 0));
    ORR_TRY(kineto_set_name(r->k, &e, name, strlen(name), err));
    for (int i = 0; i < 3; i++) {
        block[i] = int_at(row, COLUMN_BLOCK + i, 1);
        grid[i] = int_at(row, COLUMN_GRID + i, 1);
    }
    if (r->k->options->attributes) {
        ORR_TRY(kineto_put_dims(r->k, "grid", blocks(grid[0], block[0]), blocks(grid[1], block[1]),
                                blocks(grid[2], block[2]), err));
        ORR_TRY(kineto_put_dims(r->k, "block", block[0], block[1], block[2], err));
        if (int_at(row, COLUMN_GROUP, -1) >= 0)
            ORR_TRY(kineto_put_int(r->k, "shared memory", orr_query_int(row, COLUMN_GROUP), err));
    }
    return kineto_add_node(r->k, &e, err);
}

static orr_status take_copy(reader *r, const orr_query *row, orr_error *err)
{
    enum { COLUMN_DEVICE = COLUMN_REST, COLUMN_STREAM, COLUMN_SIZE };
    kineto_event e = {.ph = 'X', .cat = CAT_MEMCPY};
    const char *name;
    bool good;
    ORR_TRY(begin(r, row, &e, &name, &good, err));
    if (!good)
        return ORR_OK;
    set_stream(&e, int_at(row, COLUMN_DEVICE, 0), int_at(row, COLUMN_STREAM, 0));
    if (int_at(row, COLUMN_SIZE, -1) >= 0)
        kineto_set_bytes(&e, orr_query_int(row, COLUMN_SIZE));
    ORR_TRY(kineto_set_name(r->k, &e, name, strlen(name), err));
    return kineto_add_node(r->k, &e, err);
}

/* --- what is true of the process ------------------------------------------------------------- */

static orr_status take_agent(reader *r, const orr_query *row, orr_error *err)
{
    const char *name;
    ORR_TRY(text_at(r, row, 1, &name, err));
    return kineto_name_device(r->k, int_at(row, 0, -1), name, strlen(name), err);
}

static orr_status take_thread(reader *r, const orr_query *row, orr_error *err)
{
    const char *name;
    ORR_TRY(text_at(r, row, 2, &name, err));
    return kineto_name_thread(r->k, int_at(row, 0, 0), int_at(row, 1, 0), name, strlen(name), err);
}

/* The rank and the number of ranks, as launchers leave them in the environment. */
static orr_status read_environment(reader *r, orr_json *json, orr_error *err)
{
    static const struct {
        const char *variable;
        bool size;
    } variables[] = {{"RANK", false},      {"OMPI_COMM_WORLD_RANK", false},
                     {"PMI_RANK", false},  {"SLURM_PROCID", false},
                     {"WORLD_SIZE", true}, {"OMPI_COMM_WORLD_SIZE", true},
                     {"PMI_SIZE", true},   {"SLURM_NTASKS", true}};
    orr_recording *recording = &r->k->builder->recording;
    orr_status status = ORR_OK;
    orr_json_value v;
    orr_text key, text;
    size_t best[2] = {SIZE_MAX, SIZE_MAX};
    ORR_TRY(orr_json_value_next(json, &v, err));
    while (v.type == ORR_JSON_OBJECT && orr_json_next_key(json, &key, &status, err)) {
        size_t i = 0;
        bool is = false;
        int64_t number;
        while (i < sizeof variables / sizeof *variables &&
               !orr_text_equal(key, variables[i].variable, strlen(variables[i].variable)))
            i++;
        ORR_TRY(orr_json_text(json, &text, &is, err));
        if (i == sizeof variables / sizeof *variables || !is || !orr_text_int64(text, &number) ||
            number < 0 || number >= 1 << 24 || i > best[variables[i].size])
            continue;
        best[variables[i].size] = i;
        *(variables[i].size ? &recording->world_size : &recording->rank) = (uint32_t)number;
    }
    return status;
}

static orr_status take_process(reader *r, const orr_query *row, orr_error *err)
{
    const char *text;
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    orr_status status;
    ORR_TRY(text_at(r, row, 0, &text, err));
    ORR_TRY_OUT(status, orr_stream_open_memory(text, strlen(text), &stream, err));
    ORR_TRY_OUT(status, orr_json_new(stream, true, &json, err));
    status = read_environment(r, json, err);
    if (status == ORR_PARSE || status == ORR_LIMIT || status == ORR_INVALID)
        status = ORR_OK; /* it says nothing of ranks */
out:
    orr_json_free(json);
    orr_stream_close(stream);
    return status;
}

/* --- the file -------------------------------------------------------------------------------- */

/* Queries; a '$' stands for the name of the next of its tables. What is not recorded has no first
 * table, or an empty one; the others are there in every database. */
static const struct {
    uint8_t n, tables[MOST_TABLES];
    take_row take;
    const char *sql;
} queries[] = {
    {1,
     {TABLE_AGENT},
     take_agent,
     "SELECT type_index, substr(coalesce(nullif(product_name, ''), name), 1, 256) FROM $ WHERE "
     "type = 'GPU'"},
    {1,
     {TABLE_THREAD},
     take_thread,
     "SELECT pid, tid, substr(name, 1, 256) FROM $ WHERE name IS NOT NULL AND name <> ''"},
    {1, {TABLE_PROCESS}, take_process, "SELECT substr(environment, 1, 1048576) FROM $ LIMIT 1"},
    {4,
     {TABLE_REGION, TABLE_EVENT, TABLE_STRING, TABLE_STRING},
     take_region,
     "SELECT " EVENT_COLUMNS "substr(s.string, 1, 65536), t.pid, t.tid, substr(c.string, 1, 256), "
     "substr(e.extdata, 1, 65536) FROM $ t LEFT JOIN $ e ON e.id = t.event_id LEFT JOIN $ s ON "
     "s.id = t.name_id LEFT JOIN $ c ON c.id = e.category_id"},
    {4,
     {TABLE_DISPATCH, TABLE_EVENT, TABLE_SYMBOL, TABLE_AGENT},
     take_dispatch,
     "SELECT " EVENT_COLUMNS "substr(coalesce(nullif(s.display_name, ''), s.kernel_name), 1, "
     "65536), a.type_index, t.stream_id, t.group_segment_size, t.workgroup_size_x, "
     "t.workgroup_size_y, t.workgroup_size_z, t.grid_size_x, t.grid_size_y, t.grid_size_z FROM $ "
     "t LEFT JOIN $ e ON e.id = t.event_id LEFT JOIN $ s ON s.id = t.kernel_id LEFT JOIN $ a ON "
     "a.id = t.agent_id"},
    {5,
     {TABLE_COPY, TABLE_EVENT, TABLE_STRING, TABLE_AGENT, TABLE_AGENT},
     take_copy,
     "SELECT " EVENT_COLUMNS "substr(s.string, 1, 65536), CASE WHEN d.type = 'GPU' THEN "
     "d.type_index ELSE f.type_index END, t.stream_id, t.size FROM $ t LEFT JOIN $ e ON e.id = "
     "t.event_id LEFT JOIN $ s ON s.id = t.name_id LEFT JOIN $ d ON d.id = t.dst_agent_id LEFT "
     "JOIN $ f ON f.id = t.src_agent_id"},
};

/* The query with its tables' names; false: they do not fit. */
static bool fill_in(const reader *r, size_t query, char to[SQL_ROOM])
{
    const uint8_t *next = queries[query].tables;
    size_t n = 0;
    for (const char *at = queries[query].sql; *at != '\0'; at++) {
        const char one[2] = {*at, '\0'};
        const char *part = *at == '$' ? r->tables[*next++] : one;
        const size_t len = strlen(part);
        if (len >= SQL_ROOM - n)
            return false;
        memcpy(to + n, part, len);
        n += len;
    }
    to[n] = '\0';
    return true;
}

static orr_status read_database(reader *r, orr_error *err)
{
    char sql[SQL_ROOM];
    for (table t = 0; t < N_TABLES; t++)
        ORR_TRY(find_table(r, t, err));
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        if (r->tables[queries[i].tables[0]] == NULL)
            continue;
        for (uint8_t j = 1; j < queries[i].n; j++)
            if (r->tables[queries[i].tables[j]] == NULL)
                return orr_fail(err, ORR_PARSE, "its table %s is missing",
                                table_names[queries[i].tables[j]]);
        if (!fill_in(r, i, sql))
            return orr_fail(err, ORR_PARSE, "the names of its tables are too long");
        ORR_TRY(each_row(r, sql, queries[i].take, err));
    }
    if (r->k->report->events == 0)
        return orr_fail(err, ORR_PARSE, "it has no call, kernel or copy");
    return kineto_finish_as(r->k, "rocpd", err);
}

orr_status orr_rocpd_read(orr_stream *stream, const orr_read_options *options,
                          orr_graph_builder *builder, orr_read_report *report, orr_error *err)
{
    reader r = {.k = kineto_new(stream, options, builder, report), .arena = orr_arena_new(0, 0)};
    orr_status status = r.k != NULL && r.arena != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK)
        status = orr_stream_open_database(stream, &r.db, err);
    if (status == ORR_OK)
        status = read_database(&r, err);
    if (status != ORR_OK)
        orr_drop_database_path(stream, err);
    orr_database_close(r.db);
    orr_stream_consume(stream, orr_stream_window(stream).n);
    orr_arena_free(r.arena);
    kineto_free(r.k);
    return status;
}
