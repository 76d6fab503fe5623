/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/cost.h>
#include <orrery/machine.h>

#include "base/array.h"
#include "cost/roofline/device_rates.h"

/* What operators achieve: FLOP/s and bytes/s by operator and shape, beside what the device's
 * roofline allows. Of a rank with device work its kernels count; of one without, the outermost host
 * operators whose work is known. */
typedef struct sample {
    orr_work work;
    const orr_device *device; /* NULL: not known */
    int64_t ns;
} sample;

typedef struct operator_rate {
    const char *op, *family, *dtype, *shape;
    bool backward;
    uint64_t count;
    int64_t sum_ns;
    double mean_ns, flops, bytes; /* of one; 0: unknown */
    double flops_per_s, bytes_per_s;
    double roofline_ns, roofline_frac; /* NAN: device or closed form not known */
    const char *limit;                 /* "compute", "memory"; "" not known */
} operator_rate;

#define C(field, type) ORR_COL_(operator_rate, field, type)
static const orr_column columns_operator_rates[] = {
    C(op, TEXT),
    C(family, TEXT),
    C(dtype, TEXT),
    C(shape, TEXT),
    C(backward, BOOL),
    C(count, U64),
    C(sum_ns, NS),
    C(mean_ns, NS_MEAN),
    C(flops, NUMBER),
    C(bytes, NUMBER),
    C(flops_per_s, NUMBER),
    C(bytes_per_s, BYTES_PER_S),
    C(roofline_ns, NS_MEAN),
    C(roofline_frac, FRAC),
    C(limit, TEXT),
};
#undef C

typedef orr_array(sample) sample_list;

static bool has_device_work(const orr_graph *g)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (g->kind[v] == ORR_NODE_COMPUTE && g->lanes[g->lane[v]].kind == ORR_LANE_STREAM)
            return true;
    return false;
}

static orr_status add_sample(const orr_graph *g, orr_node_id v, const orr_device *device,
                             sample_list *list, bool *ret_known, orr_error *err)
{
    sample s = {.device = device, .ns = g->duration_ns[v]};
    *ret_known = orr_work_of_node(g, v, &s.work, NULL) == ORR_OK &&
                 (orr_graph_on_device(g, v) || s.work.family != ORR_FAMILY_OTHER) &&
                 s.work.flops + s.work.read_bytes + s.work.write_bytes > 0;
    return !*ret_known || orr_array_push(list, s) ? ORR_OK : orr_fail_memory(err);
}

/* Parents come before what is nested in them in the order of a lane. */
static orr_status sample_graph(const orr_graph *g, const orr_device *device, orr_arena *scratch,
                               sample_list *list, orr_error *err)
{
    const bool on_device = has_device_work(g);
    bool *covered = orr_arena_array(scratch, bool, g->n_nodes);
    if (covered == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const orr_node_id v = g->lane_node[i], up = g->parent[v];
        const bool stream = g->lanes[g->lane[v]].kind == ORR_LANE_STREAM;
        covered[v] = up != ORR_NONE && covered[up];
        if (g->duration_ns[v] <= 0 || stream != on_device || covered[v] ||
            (g->kind[v] != ORR_NODE_COMPUTE && (stream || g->kind[v] != ORR_NODE_HOST_OP)))
            continue;
        ORR_TRY(add_sample(g, v, device, list, &covered[v], err));
    }
    return ORR_OK;
}

static int compare_samples(const void *a_, const void *b_)
{
    const sample *a = a_, *b = b_;
    const int op = strcmp(a->work.op, b->work.op);
    if (op != 0)
        return op;
    if (a->work.family != b->work.family)
        return a->work.family < b->work.family ? -1 : 1;
    if (a->work.dtype != b->work.dtype)
        return a->work.dtype < b->work.dtype ? -1 : 1;
    if (a->work.backward != b->work.backward)
        return a->work.backward ? 1 : -1;
    if (a->work.n_dims != b->work.n_dims)
        return a->work.n_dims < b->work.n_dims ? -1 : 1;
    for (uint8_t i = 0; i < a->work.n_dims; i++)
        if (a->work.dims[i] != b->work.dims[i])
            return a->work.dims[i] < b->work.dims[i] ? -1 : 1;
    if (a->device != b->device)
        return strcmp(a->device ? a->device->name : "", b->device ? b->device->name : "");
    return 0;
}

static const char *shape_of(const orr_work *work, orr_arena *arena)
{
    char text[ORR_WORK_DIMS * 22] = "";
    size_t n = 0;
    for (uint8_t i = 0; i < work->n_dims; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", i > 0 ? "x" : "",
                              (long long)work->dims[i]);
    return orr_arena_strndup(arena, text, n);
}

/* Which roof is lower at the work's intensity. */
static const char *limit_of(const orr_device *device, const orr_work *work)
{
    const orr_device_rates rates = orr_device_rates_of(device);
    const bool product = work->family == ORR_FAMILY_GEMM ||
                         work->family == ORR_FAMILY_CONVOLUTION ||
                         work->family == ORR_FAMILY_ATTENTION;
    const double peak =
        product ? orr_device_matmul_rate(device, (orr_dtype)work->dtype, NULL) : rates.vector_flops;
    const double compute_ns = 1e9 * work->flops / peak, memory_ns = orr_bytes_ns(&rates, work);
    return !isfinite(compute_ns) || !isfinite(memory_ns) ? ""
           : compute_ns > memory_ns                      ? "compute"
                                                         : "memory";
}

static void add_roofline(const sample *s, operator_rate *row)
{
    const orr_cost_model *const models[] = {orr_cost_roofline()};
    const orr_cost_chain chain = {models, 1};
    if (s->device == NULL)
        return;
    const orr_price price = orr_cost_price(&chain, s->device, &s->work);
    row->limit = limit_of(s->device, &s->work);
    if (price.basis == ORR_BASIS_ASSUMED || price.ns <= 0 || row->mean_ns <= 0)
        return;
    row->roofline_ns = (double)price.ns;
    row->roofline_frac = row->roofline_ns / row->mean_ns;
}

/* Samples that are alike, shape (n). */
static orr_status row_of(const sample *s, size_t n, orr_arena *arena, operator_rate *row,
                         orr_error *err)
{
    const orr_work *work = &s->work;
    *row = (operator_rate){.op = *work->op ? work->op : work->kernel,
                           .family = orr_kernel_family_name((orr_kernel_family)work->family),
                           .dtype = orr_dtype_name((orr_dtype)work->dtype),
                           .shape = shape_of(work, arena),
                           .backward = work->backward,
                           .count = n,
                           .flops = work->flops,
                           .bytes = work->read_bytes + work->write_bytes,
                           .roofline_ns = NAN,
                           .roofline_frac = NAN,
                           .limit = ""};
    if (row->shape == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        row->sum_ns += s[i].ns;
    row->mean_ns = (double)row->sum_ns / (double)n;
    row->flops_per_s = 1e9 * row->flops / row->mean_ns;
    row->bytes_per_s = 1e9 * row->bytes / row->mean_ns;
    add_roofline(s, row);
    return ORR_OK;
}

static int most_time_first(const void *a_, const void *b_)
{
    const operator_rate *a = a_, *b = b_;
    if (a->sum_ns != b->sum_ns)
        return a->sum_ns > b->sum_ns ? -1 : 1;
    const int op = strcmp(a->op, b->op);
    return op != 0 ? op : strcmp(a->shape, b->shape);
}

static orr_status sum_up(sample_list *list, orr_arena *arena, const operator_rate **ret_rows,
                         size_t *ret_n, orr_error *err)
{
    operator_rate *rows = orr_arena_array(arena, operator_rate, list->n);
    size_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    if (list->n > 1)
        qsort(list->at, list->n, sizeof *list->at, compare_samples);
    for (size_t i = 0, end; i < list->n; i = end) {
        for (end = i + 1; end < list->n && compare_samples(&list->at[i], &list->at[end]) == 0;)
            end++;
        ORR_TRY(row_of(&list->at[i], end - i, arena, &rows[n++], err));
    }
    if (n > 1)
        qsort(rows, n, sizeof *rows, most_time_first);
    *ret_rows = rows;
    *ret_n = n;
    return ORR_OK;
}

/* The device that a recording names. The catalogue is opened for the first that does. */
static orr_status device_of(const orr_graph *g, orr_arena *arena, const orr_catalog **catalog,
                            const orr_device **ret, orr_error *err)
{
    const char *name = orr_graph_str(g, g->device_name);
    if (name[0] == '\0')
        return ORR_OK;
    if (*catalog == NULL)
        ORR_TRY(orr_catalog_open(arena, catalog, err));
    *ret = orr_catalog_recognise(*catalog, name);
    return ORR_OK;
}

static orr_status find_rates(const orr_job *job, const orr_analysis_options *options,
                             orr_arena *arena, const operator_rate **ret_rows, size_t *ret_n,
                             orr_error *err)
{
    const uint32_t rank =
        options != NULL && options->struct_bytes > offsetof(orr_analysis_options, rank)
            ? options->rank
            : ORR_NONE;
    const orr_catalog *catalog = NULL;
    sample_list list = {0};
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_status status = scratch ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        const orr_graph *g = job->graphs[d];
        if (rank != ORR_NONE && rank != job->rank_of_graph[d])
            continue;
        const orr_device *device = NULL;
        ORR_TRY_OUT(status, device_of(g, scratch, &catalog, &device, err));
        ORR_TRY_OUT(status, sample_graph(g, device, scratch, &list, err));
    }
    ORR_TRY_OUT(status, sum_up(&list, arena, ret_rows, ret_n, err));
out:
    orr_array_done(&list);
    orr_arena_free(scratch);
    return status;
}
ORR_RUN_(operator_rates, operator_rate, find_rates,
         "FLOP/s and bytes/s by operator and shape, beside the device's roofline")
