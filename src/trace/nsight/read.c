/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/common/reader.h"
#include "trace/common/sqlite.h"
#include "trace/kineto/import.h"
#include "trace/nsight/tables.h"

/* Exports of Nsight Systems (nsys export --type sqlite). CUPTI is the source of both this and
 * Kineto's recordings, so each row becomes the event that Kineto would have written, and what
 * follows is the same code. */

/* A globalTid holds a thread in its lowest 24 bits, its process in the next 24. */
enum { ID_BITS = 24, ID_MASK = (1 << ID_BITS) - 1 };
enum { PUSH_POP_RANGE = 59, START_END_RANGE = 60 }; /* of eventType, NVTX */

typedef struct event_record { /* of CUDA_EVENT: a call recorded an event on a stream */
    int64_t event, correlation, stream;
} event_record;

typedef struct nsight {
    kineto *k;
    int64_t process; /* whose rows are read, as globalTid >> ID_BITS; -1: of any */
    uint32_t processes;
    kineto_cat cat; /* of the table that is being read */
    orr_array(event_record) records;
} nsight;

static int64_t process_of(const nsight_row *row)
{
    const int64_t id = nsight_value(row, COLUMN_PID, nsight_value(row, COLUMN_TID, -1));
    return id < 0 ? -1 : id >> ID_BITS;
}

/* The process with work on devices. */
static orr_status note_process(void *ctx, const nsight_row *row, orr_error *err)
{
    nsight *n = ctx;
    const int64_t process = process_of(row);
    (void)err;
    if (process >= 0 && process != n->process) {
        n->processes += n->processes < 2;
        n->process = process;
    }
    return ORR_OK;
}

static orr_status note_record(void *ctx, const nsight_row *row, orr_error *err)
{
    nsight *n = ctx;
    const event_record record = {nsight_value(row, COLUMN_EVENT, -1),
                                 nsight_value(row, COLUMN_CORRELATION, 0),
                                 nsight_value(row, COLUMN_STREAM, INT64_MIN)};
    return orr_array_push(&n->records, record) ? ORR_OK : orr_fail_memory(err);
}

static int by_event(const void *a, const void *b)
{
    const event_record *x = a, *y = b;
    if (x->event != y->event)
        return x->event < y->event ? -1 : 1;
    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

/* Correlations are given in the order of the calls: what was recorded last before the wait. */
static void set_waited(const nsight *n, kineto_event *e, int64_t event, int64_t correlation)
{
    size_t low = 0, high = n->records.n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const event_record *r = &n->records.at[middle];
        if (r->event < event || (r->event == event && r->correlation < correlation))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || n->records.at[low - 1].event != event)
        return;
    kineto_set(e, ARG_WAIT_RECORD, n->records.at[low - 1].correlation);
    kineto_set(e, ARG_WAIT_STREAM, n->records.at[low - 1].stream);
}

/* --- names, as Kineto has them --------------------------------------------------------------- */

static const char *memory_kind(const nsight_row *row, nsight_column column)
{
    static const char *const kinds[] = {"Pageable", "Pinned",        "Device",        "Array",
                                        "Managed",  "Device Static", "Managed Static"};
    const int64_t kind = nsight_value(row, column, -1);
    return kind >= 0 && kind < (int64_t)(sizeof kinds / sizeof *kinds) ? kinds[kind] : "Unknown";
}

static void name_copy(const nsight_row *row, char *to, size_t room)
{
    static const char *const kinds[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                        "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
    const int64_t kind = nsight_value(row, COLUMN_COPY_KIND, 0);
    (void)snprintf(to, room, "Memcpy %s (%s -> %s)",
                   kinds[kind > 0 && kind < (int64_t)(sizeof kinds / sizeof *kinds) ? kind : 0],
                   memory_kind(row, COLUMN_FROM_KIND), memory_kind(row, COLUMN_TO_KIND));
}

static const char *name_sync(const nsight_row *row)
{
    static const char *const types[] = {"Sync", "Event Sync", "Stream Wait Event", "Stream Sync",
                                        "Context Sync"};
    const int64_t type = nsight_value(row, COLUMN_SYNC_TYPE, 0);
    return types[type > 0 && type < (int64_t)(sizeof types / sizeof *types) ? type : 0];
}

/* "cudaLaunchKernel_v7000": the version of CUDA that brought the call. */
static size_t length_of_call(const char *name)
{
    const char *version = strrchr(name, '_');
    const size_t len = strlen(name);
    if (version == NULL || version[1] != 'v' || strlen(version) < sizeof "_v999" ||
        strspn(version + 2, "0123456789") != strlen(version + 2))
        return len;
    return (size_t)(version - name);
}

static orr_status set_name(nsight *n, const nsight_row *row, kineto_event *e, orr_error *err)
{
    char made[96] = "";
    const char *name = row->name != NULL ? row->name : "";
    if (n->cat == CAT_MEMCPY)
        name_copy(row, made, sizeof made);
    else if (n->cat == CAT_MEMSET)
        (void)snprintf(made, sizeof made, "Memset (%s)", memory_kind(row, COLUMN_MEMORY_KIND));
    else if (n->cat == CAT_CUDA_SYNC)
        (void)snprintf(made, sizeof made, "%s", name_sync(row));
    else if (nsight_has(row, COLUMN_GRAPH) && row->name == NULL)
        (void)snprintf(made, sizeof made, "CUDA graph %lld", (long long)row->value[COLUMN_GRAPH]);
    if (made[0] != '\0')
        name = made;
    if (n->cat == CAT_USER_ANNOTATION)
        return kineto_set_range_name(n->k, e, name, err);
    const size_t len = n->cat == CAT_RUNTIME ? length_of_call(name) : strlen(name);
    return kineto_set_name(n->k, e, name, len, err);
}

/* --- rows ------------------------------------------------------------------------------------ */

static orr_status put_size(nsight *n, const nsight_row *row, const char *name, nsight_column x,
                           orr_error *err)
{
    if (!nsight_has(row, x))
        return ORR_OK;
    return kineto_put_dims(n->k, name, row->value[x], nsight_value(row, x + 1, 1),
                           nsight_value(row, x + 2, 1), err);
}

static orr_status put_launch(nsight *n, const nsight_row *row, orr_error *err)
{
    ORR_TRY(put_size(n, row, "grid", COLUMN_GRID_X, err));
    ORR_TRY(put_size(n, row, "block", COLUMN_BLOCK_X, err));
    if (nsight_has(row, COLUMN_REGISTERS))
        ORR_TRY(kineto_put_int(n->k, "registers per thread", row->value[COLUMN_REGISTERS], err));
    int64_t shared = nsight_value(row, COLUMN_STATIC_SHARED, -1);
    if (shared >= 0 &&
        !__builtin_add_overflow(shared, nsight_value(row, COLUMN_DYNAMIC_SHARED, 0), &shared))
        ORR_TRY(kineto_put_int(n->k, "shared memory", shared, err));
    return ORR_OK;
}

static void set_device(const nsight *n, const nsight_row *row, kineto_event *e)
{
    /* What has no stream says so with all bits. */
    const int64_t stream = nsight_value(row, COLUMN_STREAM, -1);
    const bool has_stream = stream >= 0 && stream < UINT32_MAX;
    e->pid.number = nsight_value(row, COLUMN_DEVICE, 0);
    e->tid.number = has_stream ? stream : -1;
    kineto_set(e, ARG_DEVICE, e->pid.number);
    if (has_stream)
        kineto_set(e, ARG_STREAM, stream);
    if (n->cat == CAT_CUDA_SYNC && nsight_has(row, COLUMN_EVENT))
        set_waited(n, e, row->value[COLUMN_EVENT], nsight_value(row, COLUMN_CORRELATION, 0));
}

static orr_status take_event(void *ctx, const nsight_row *row, orr_error *err)
{
    nsight *n = ctx;
    kineto *k = n->k;
    const int64_t type = nsight_value(row, COLUMN_EVENT_TYPE, PUSH_POP_RANGE);
    const int64_t process = process_of(row);
    const bool is_range =
        n->cat != CAT_USER_ANNOTATION ||
        ((type == PUSH_POP_RANGE || type == START_END_RANGE) && nsight_has(row, COLUMN_END));
    ORR_TRY(kineto_begin_event(k, err));
    if (!is_range || (n->process >= 0 && process >= 0 && process != n->process)) {
        k->report->ignored++;
        return ORR_OK;
    }
    kineto_event e = {.ph = 'X', .cat = (uint8_t)n->cat};
    if (!kineto_set_span(k, &e, nsight_value(row, COLUMN_START, INT64_MIN),
                         nsight_value(row, COLUMN_END, INT64_MIN)))
        return kineto_bad_event(k, "row", "has no time that is possible", err);
    if (kineto_cat_on_device(n->cat)) {
        set_device(n, row, &e);
    } else {
        e.pid.number = process >= 0 ? process & ID_MASK : 0;
        e.tid.number = nsight_value(row, COLUMN_TID, 0) & ID_MASK;
    }
    if (nsight_value(row, COLUMN_CORRELATION, 0) > 0)
        kineto_set(&e, ARG_CORRELATION, row->value[COLUMN_CORRELATION]);
    if (nsight_has(row, COLUMN_BYTES))
        kineto_set_bytes(&e, row->value[COLUMN_BYTES]);
    ORR_TRY(set_name(n, row, &e, err));
    if (n->cat == CAT_KERNEL && k->options->attributes)
        ORR_TRY(put_launch(n, row, err));
    return kineto_add_node(k, &e, err);
}

static orr_status take_thread(void *ctx, const nsight_row *row, orr_error *err)
{
    nsight *n = ctx;
    if (row->name == NULL || !nsight_has(row, COLUMN_TID))
        return ORR_OK;
    return kineto_name_thread(n->k, row->value[COLUMN_TID] >> ID_BITS & ID_MASK,
                              row->value[COLUMN_TID] & ID_MASK, row->name, strlen(row->name), err);
}

static orr_status take_device(void *ctx, const nsight_row *row, orr_error *err)
{
    nsight *n = ctx;
    if (row->name == NULL)
        return ORR_OK;
    return kineto_name_device(n->k, nsight_value(row, COLUMN_ID, -1), row->name, strlen(row->name),
                              err);
}

static orr_status take_clock(void *ctx, const nsight_row *row, orr_error *err)
{
    nsight *n = ctx;
    (void)err;
    n->k->builder->recording.base_ns = nsight_value(row, COLUMN_UTC, 0);
    return ORR_OK;
}

/* --- the file -------------------------------------------------------------------------------- */

#define PREFIX "CUPTI_ACTIVITY_KIND_"
static const char *const no_names[] = {NULL};

/* One process has the work: correlations, streams and ranks are each process's own. */
static orr_status find_process(nsight *n, orr_database *db, orr_error *err)
{
    static const char *const tables[] = {PREFIX "KERNEL", PREFIX "MEMCPY", PREFIX "MEMSET",
                                         PREFIX "GRAPH_TRACE"};
    n->process = -1;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        ORR_TRY(nsight_each_row(db, tables[i], no_names, note_process, n, err));
    if (n->processes < 2)
        return ORR_OK;
    return orr_fail(err, ORR_UNSUPPORTED,
                    "it has device work of several processes: record each rank with an nsys of its "
                    "own (for example: nsys profile -o rank%%q{RANK} ...)");
}

static orr_status read_database(nsight *n, orr_database *db, orr_error *err)
{
    static const char *const kernel[] = {"demangledName", "shortName", "mangledName", NULL};
    static const char *const call[] = {"nameId", NULL}, *const range[] = {"|text", "textId", NULL};
    static const char *const device[] = {"|name", NULL};
    static const struct {
        const char *table;
        const char *const *names;
        kineto_cat cat;
    } events[] = {
        {"NVTX_EVENTS", range, CAT_USER_ANNOTATION},
        {PREFIX "RUNTIME", call, CAT_RUNTIME},
        {PREFIX "KERNEL", kernel, CAT_KERNEL},
        {PREFIX "MEMCPY", no_names, CAT_MEMCPY},
        {PREFIX "MEMSET", no_names, CAT_MEMSET},
        {PREFIX "GRAPH_TRACE", no_names, CAT_KERNEL},
        {PREFIX "SYNCHRONIZATION", no_names, CAT_CUDA_SYNC},
    };
    ORR_TRY(find_process(n, db, err));
    ORR_TRY(nsight_each_row(db, "TARGET_INFO_SESSION_START_TIME", no_names, take_clock, n, err));
    ORR_TRY(nsight_each_row(db, "TARGET_INFO_GPU", device, take_device, n, err));
    ORR_TRY(nsight_each_row(db, "ThreadNames", call, take_thread, n, err));
    ORR_TRY(nsight_each_row(db, PREFIX "CUDA_EVENT", no_names, note_record, n, err));
    if (n->records.n > 1)
        qsort(n->records.at, n->records.n, sizeof *n->records.at, by_event);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        n->cat = events[i].cat;
        ORR_TRY(nsight_each_row(db, events[i].table, events[i].names, take_event, n, err));
    }
    if (n->k->report->events == 0)
        return orr_fail(err, ORR_PARSE, "it has no event of CUDA or NVTX");
    return kineto_finish_as(n->k, "nsight", err);
}

orr_status orr_nsight_read(orr_stream *stream, const orr_read_options *options,
                           orr_graph_builder *builder, orr_read_report *report, orr_error *err)
{
    nsight n = {.k = kineto_new(stream, options, builder, report)};
    orr_database *db = NULL;
    if (n.k == NULL)
        return orr_fail_memory(err);
    orr_status status = orr_stream_open_database(stream, &db, err);
    if (status == ORR_OK)
        status = read_database(&n, db, err);
    if (status != ORR_OK)
        orr_drop_database_path(stream, err);
    orr_database_close(db);
    orr_stream_consume(stream, orr_stream_window(stream).n);
    orr_array_done(&n.records);
    kineto_free(n.k);
    return status;
}
