/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/models/table.h"

#include <math.h>
#include <string.h>

static bool has_label(uint8_t family)
{
    return family == ORR_FAMILY_OTHER || family == ORR_FAMILY_REDUCTION ||
           family == ORR_FAMILY_ELEMENTWISE || family == ORR_FAMILY_OPTIMIZER;
}

/* The label of a series: helper kernels of an operator have their kernel's name. */
static const char *label_of(const orr_work *work)
{
    const char *op = work->op != NULL ? work->op : "";
    const char *kernel = work->kernel != NULL ? work->kernel : "";

    if (!has_label(work->family))
        return "";
    if (work->family == ORR_FAMILY_OTHER)
        return *kernel != '\0' ? kernel : op;
    return *op != '\0' ? op : kernel;
}

orr_table_series orr_table_series_of(const orr_device *device, const orr_work *work)
{
    return (orr_table_series){
        .family = work->family,
        .dtype = work->dtype,
        .copy = work->copy,
        .n_dims = work->n_dims,
        .backward = work->backward,
        .label = label_of(work),
        .device = device->name,
    };
}

orr_table_point orr_table_point_of(const orr_work *work)
{
    orr_table_point point = {
        .flops = work->flops, .read_bytes = work->read_bytes, .write_bytes = work->write_bytes};
    for (int i = 0; i < work->n_dims; i++)
        point.dims[i] = work->dims[i];
    return point;
}

#define ORDER(a, b)                                                                                \
    do {                                                                                           \
        if ((a) != (b))                                                                            \
            return (a) < (b) ? -1 : 1;                                                             \
    } while (0)

int orr_table_compare_series(const orr_table_series *a, const orr_table_series *b)
{
    ORDER(a->family, b->family);
    ORDER(a->dtype, b->dtype);
    ORDER(a->copy, b->copy);
    ORDER(a->backward, b->backward);
    ORDER(a->n_dims, b->n_dims);
    const int label = strcmp(a->label, b->label);
    return label != 0 ? label : strcmp(a->device, b->device);
}

int orr_table_compare_points(const orr_table_point *a, const orr_table_point *b)
{
    for (int i = 0; i < ORR_WORK_DIMS; i++)
        ORDER(a->dims[i], b->dims[i]);
    ORDER(a->flops, b->flops);
    ORDER(a->read_bytes, b->read_bytes);
    ORDER(a->write_bytes, b->write_bytes);
    return 0;
}

/* Bytes are coordinates where the dims do not determine them, and FLOPs where there are no dims. */
static bool has_bytes(const orr_table_series *series)
{
    return series->n_dims == 0 || has_label(series->family);
}

uint32_t orr_table_coords(const orr_table_series *series)
{
    return (uint32_t)series->n_dims + has_bytes(series) + (series->n_dims == 0);
}

static double octaves(double value)
{
    return log2(value < 1 ? 1 : value);
}

void orr_table_locate(const orr_table_series *series, orr_table_point *point)
{
    uint32_t n = 0;
    for (; n < series->n_dims; n++)
        point->coord[n] = octaves((double)point->dims[n]);
    if (has_bytes(series))
        point->coord[n++] = octaves(point->read_bytes + point->write_bytes);
    if (series->n_dims == 0)
        point->coord[n] = octaves(point->flops);
}

static const orr_table_series *find_series(const orr_cost_table *table,
                                           const orr_table_series *wanted)
{
    uint32_t low = 0, high = table->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = orr_table_compare_series(&table->series[middle], wanted);
        if (order == 0)
            return &table->series[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static const orr_table_point *find_point(const orr_table_series *series,
                                         const orr_table_point *wanted)
{
    uint32_t low = 0, high = series->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = orr_table_compare_points(&series->points[middle], wanted);
        if (order == 0)
            return &series->points[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool in_box(const orr_table_series *series, const orr_table_point *point)
{
    const uint32_t coords = orr_table_coords(series);
    for (uint32_t c = 0; c < coords; c++)
        if (point->coord[c] < series->low[c] || point->coord[c] > series->high[c])
            return false;
    return true;
}

static bool log_roofline(const orr_device *device, const orr_work *work, double *ret)
{
    const orr_cost_model *roofline = orr_cost_roofline();
    orr_price price;
    if (!roofline->price(roofline, device, work, &price) || price.ns <= 0)
        return false;
    *ret = log((double)price.ns);
    return true;
}

/* ln of the interpolated quantity at a point. */
static bool log_value(const orr_table_point *point, bool trend, const orr_device *device,
                      const orr_work *asked, double *ret)
{
    double roofline = 0;
    if (trend) {
        orr_work work = *asked;
        memcpy(work.dims, point->dims, sizeof work.dims);
        work.flops = point->flops;
        work.read_bytes = point->read_bytes;
        work.write_bytes = point->write_bytes;
        if (!log_roofline(device, &work, &roofline))
            return false;
    }
    *ret = log(point->ns) - roofline;
    return true;
}

static bool interpolate(const orr_table_series *series, const orr_table_family *family,
                        const orr_device *device, const orr_work *work,
                        const orr_table_point *wanted, double *ret_ns)
{
    orr_table_neighbour found[ORR_TABLE_NEIGHBOURS_MAX];
    const uint32_t n = orr_table_nearest(series, wanted, family->neighbours, found);
    if (n == 0 || found[0].squared > ORR_TABLE_MAX_DISTANCE * ORR_TABLE_MAX_DISTANCE)
        return false;
    double sum = 0, weights = 0, roofline = 0;
    for (uint32_t i = 0; i < n; i++) {
        double value;
        if (!log_value(&series->points[found[i].point], family->trend, device, work, &value))
            return false;
        /* two shapes may share coordinates: dims of 0 and 1, or bytes split otherwise */
        const double weight = 1 / fmax(found[i].squared, 1e-9);
        sum += weight * value;
        weights += weight;
    }
    if (family->trend && !log_roofline(device, work, &roofline))
        return false;
    *ret_ns = exp(sum / weights + roofline);
    return *ret_ns < 9e18;
}

bool orr_table_price(const orr_cost_table *table, const orr_device *device, const orr_work *work,
                     orr_price *ret)
{
    if (work->family >= ORR_FAMILIES || work->n_dims > ORR_WORK_DIMS)
        return false;
    const orr_table_family *family = &table->families[work->family];
    if (!family->present)
        return false;
    const orr_table_series wanted = orr_table_series_of(device, work);
    const orr_table_series *series = find_series(table, &wanted);
    if (series == NULL)
        return false;
    orr_table_point point = orr_table_point_of(work);
    const orr_table_point *same = find_point(series, &point);
    double ns;
    if (same != NULL) {
        ns = same->ns;
    } else {
        orr_table_locate(series, &point);
        if (family->neighbours == 0 || !in_box(series, &point) ||
            !interpolate(series, family, device, work, &point, &ns))
            return false;
    }
    *ret = (orr_price){
        .ns = ns < 1 ? 1 : (int64_t)llround(ns),
        .basis = ORR_BASIS_TABLE,
        .error_frac = same != NULL ? family->repeat_frac : family->error_frac,
        .model = "table",
    };
    return true;
}
