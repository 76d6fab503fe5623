/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "analysis/common.h"

/* Allocator events of one device in order of time. Where the recording has no totals
 * the events are summed up from zero: then the start of the recording is the zero line. */
typedef struct event {
    int64_t at_ns, bytes;
    int64_t allocated_bytes, reserved_bytes; /* after it; reserved -1: not recorded */
} event;
typedef struct timeline {
    const char *device;  /* "cuda:0" */
    const event *events; /* shape (n), n > 0 */
    size_t n;
} timeline;
typedef orr_status (*timeline_visitor)(orr_analysis_run *f, const orr_view *view,
                                       const timeline *t);

/* c10::DeviceType, from PyTorch's c10/core/DeviceType.h. */
static const char *const DEVICE_TYPES[] = {
    "cpu",  "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",
    "fpga", "maia", "xla",    "vulkan", "metal",  "xpu",   "mps",
    "meta", "hpu",  "ve",     "lazy",   "ipu",    "mtia",  "privateuseone"};
enum { N_DEVICE_TYPES = sizeof DEVICE_TYPES / sizeof *DEVICE_TYPES };

static const char *device_label(const orr_memory *memory, orr_arena *arena)
{
    const int32_t type = memory->device_type;
    const bool known = type >= 0 && type < N_DEVICE_TYPES;
    if (known && memory->device < 0)
        return DEVICE_TYPES[type];
    if (known)
        return orr_arena_printf(arena, "%s:%" PRId32, DEVICE_TYPES[type], memory->device);
    return orr_arena_printf(arena, "device%" PRId32 ":%" PRId32, type, memory->device);
}

/* Memory events in the window, by device, then time. */
static orr_status by_device(orr_analysis_run *f, const orr_view *view, orr_keyed **ret,
                            size_t *ret_n)
{
    const orr_graph *g = view->graph;
    orr_keyed *items = orr_arena_array(f->scratch, orr_keyed, g->n_memories);
    orr_node_id *in_time = orr_arena_array(f->scratch, orr_node_id, g->n_memories);
    if (items == NULL || in_time == NULL)
        return orr_fail_memory(f->err);
    size_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes && n < g->n_memories; v++)
        if (orr_graph_memory(g, v) != NULL && g->start_ns[v] != ORR_TIME_NONE &&
            orr_view_holds(view, v))
            items[n++] = (orr_keyed){.key = g->start_ns[v], .id = v};
    ORR_TRY(orr_sort_keyed(items, n, f->scratch, f->err));
    for (size_t i = 0; i < n; i++) {
        const orr_memory *memory = orr_graph_memory(g, items[i].id);
        in_time[i] = items[i].id;
        items[i] = (orr_keyed){.key = (int64_t)memory->device_type * ((int64_t)1 << 32) |
                                      (uint32_t)memory->device,
                               .id = (uint32_t)i};
    }
    ORR_TRY(orr_sort_keyed(items, n, f->scratch, f->err));
    for (size_t i = 0; i < n; i++)
        items[i].id = in_time[items[i].id];
    *ret = items;
    *ret_n = n;
    return ORR_OK;
}

static event event_of(const orr_graph *g, orr_node_id v, int64_t before_bytes)
{
    const orr_memory *memory = orr_graph_memory(g, v);
    return (event){.at_ns = g->start_ns[v],
                   .bytes = memory->bytes,
                   .allocated_bytes = memory->allocated_bytes >= 0
                                          ? memory->allocated_bytes
                                          : orr_saturating_sum(before_bytes, memory->bytes),
                   .reserved_bytes = memory->reserved_bytes};
}

static orr_status visit_devices(orr_analysis_run *f, const orr_view *view, timeline_visitor visit)
{
    const orr_graph *g = view->graph;
    orr_keyed *items = NULL;
    size_t n = 0;
    ORR_TRY(by_device(f, view, &items, &n));
    event *events = orr_arena_array(f->scratch, event, n);
    if (events == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 0; i < n;) {
        const int64_t device = items[i].key;
        timeline t = {.device = device_label(orr_graph_memory(g, items[i].id), f->arena),
                      .events = events};
        if (t.device == NULL)
            return orr_fail_memory(f->err);
        for (; i < n && items[i].key == device; i++, t.n++)
            events[t.n] = event_of(g, items[i].id, t.n == 0 ? 0 : events[t.n - 1].allocated_bytes);
        ORR_TRY(visit(f, view, &t));
    }
    return ORR_OK;
}

static int64_t allocated_before(const event *e)
{
    int64_t before;
    return __builtin_sub_overflow(e->allocated_bytes, e->bytes, &before) ? 0 : before;
}

static orr_status add_summary(orr_analysis_run *f, const orr_view *view, const timeline *t)
{
    orr_memory_summary *row = orr_analysis_add_row(f);
    if (row == NULL)
        return orr_fail_memory(f->err);
    row->rank = view->rank;
    row->device = t->device;
    row->peak_reserved_bytes = -1;
    for (size_t i = 0; i < t->n; i++) {
        const event *e = &t->events[i];
        row->allocations += e->bytes > 0;
        row->frees += e->bytes < 0;
        if (i == 0 || e->allocated_bytes > row->peak_allocated_bytes) {
            row->peak_allocated_bytes = e->allocated_bytes;
            row->peak_at_ns = orr_view_job_ns(view, e->at_ns);
        }
        if (e->reserved_bytes > row->peak_reserved_bytes)
            row->peak_reserved_bytes = e->reserved_bytes;
    }
    row->start_allocated_bytes = allocated_before(&t->events[0]);
    row->end_allocated_bytes = t->events[t->n - 1].allocated_bytes;
    return ORR_OK;
}

static orr_status add_sample(orr_analysis_run *f, const orr_view *view, const char *series,
                             int64_t at_ns, int64_t bytes)
{
    orr_series_sample *row = orr_analysis_add_row(f);
    if (row == NULL)
        return orr_fail_memory(f->err);
    *row = (orr_series_sample){view->rank, series, orr_view_job_ns(view, at_ns), (double)bytes};
    return ORR_OK;
}

static orr_status add_samples(orr_analysis_run *f, const orr_view *view, const timeline *t)
{
    const char *allocated = orr_arena_printf(f->arena, "%s allocated", t->device);
    const char *reserved = orr_arena_printf(f->arena, "%s reserved", t->device);
    if (allocated == NULL || reserved == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 0; i < t->n; i++)
        ORR_TRY(add_sample(f, view, allocated, t->events[i].at_ns, t->events[i].allocated_bytes));
    for (size_t i = 0; i < t->n; i++)
        if (t->events[i].reserved_bytes >= 0)
            ORR_TRY(add_sample(f, view, reserved, t->events[i].at_ns, t->events[i].reserved_bytes));
    return ORR_OK;
}

static orr_status summary_of_rank(orr_analysis_run *f, const orr_view *view)
{
    return visit_devices(f, view, add_summary);
}

static orr_status series_of_rank(orr_analysis_run *f, const orr_view *view)
{
    return visit_devices(f, view, add_samples);
}

orr_status orr_analyze_memory(const orr_job *job, const orr_analysis_options *options,
                              orr_arena *arena, const orr_memory_summary **ret_rows, size_t *ret_n,
                              orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_memory_summary), summary_of_rank, (const void **)ret_rows,
                             ret_n);
}

orr_status orr_analyze_memory_series(const orr_job *job, const orr_analysis_options *options,
                                     orr_arena *arena, const orr_series_sample **ret_rows,
                                     size_t *ret_n, orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_series_sample), series_of_rank, (const void **)ret_rows,
                             ret_n);
}
