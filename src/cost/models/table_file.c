/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/array.h"
#include "cost/models/file.h"

/* The table in a fitted file:
 *   {"families": [{"family", "neighbours", "trend", "error_frac", "repeat_frac"}],
 *    "series": [{"family", "dtype", "copy", "backward", "n_dims", "label", "device",
 *                "points": [[ns, count, flops, read_bytes, write_bytes, dims...]]}]} */
enum { POINT_HEAD = 5 };
static const double ERROR_MOST = 1e30; /* of a prediction; bounds what a file may claim */

typedef orr_array(orr_table_point) point_list;

static orr_status read_family(orr_model_reader *r, orr_cost_table *table)
{
    orr_table_family family = {.present = true};
    uint8_t at = ORR_FAMILIES;
    int64_t neighbours = 0;
    orr_text key;
    orr_status status;

    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (orr_text_is(key, "family"))
            ORR_TRY(orr_model_family(r, &at));
        else if (orr_text_is(key, "neighbours"))
            ORR_TRY(orr_model_int(r, "neighbours", 0, ORR_TABLE_NEIGHBOURS_MAX, &neighbours));
        else if (orr_text_is(key, "trend"))
            ORR_TRY(orr_model_bool(r, "trend", &family.trend));
        else if (orr_text_is(key, "error_frac"))
            ORR_TRY(orr_model_number(r, "error_frac", 0, ERROR_MOST, true, &family.error_frac));
        else if (orr_text_is(key, "repeat_frac"))
            ORR_TRY(orr_model_number(r, "repeat_frac", 0, ERROR_MOST, true, &family.repeat_frac));
        else
            return orr_model_fail(r, "a key that no family of a table has");
    }
    ORR_TRY(status);
    family.neighbours = (uint32_t)neighbours;
    if (at == ORR_FAMILIES || table->families[at].present)
        return orr_model_fail(r, "a family without its name, or twice");
    table->families[at] = family;
    return ORR_OK;
}

static orr_status read_families(orr_model_reader *r, orr_cost_table *table)
{
    orr_status status;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err))
        ORR_TRY(read_family(r, table));
    return status;
}

static orr_status read_point(orr_model_reader *r, const orr_table_series *series,
                             orr_table_point *ret)
{
    orr_table_point point = {0};
    int64_t count = 0;
    orr_status status;
    unsigned n = 0;

    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err)) {
        if (n == 0)
            ORR_TRY(orr_model_number(r, "ns of a point", ORR_TABLE_NS_MIN, ORR_TABLE_NS_MAX, false,
                                     &point.ns));
        else if (n == 1)
            ORR_TRY(orr_model_int(r, "count of a point", 1, INT64_MAX, &count));
        else if (n == 2)
            ORR_TRY(orr_model_number(r, "FLOPs of a point", 0, ORR_TABLE_FLOPS_MAX, false,
                                     &point.flops));
        else if (n == 3 || n == 4)
            ORR_TRY(orr_model_number(r, "bytes of a point", 0, ORR_TABLE_BYTES_MAX, false,
                                     n == 3 ? &point.read_bytes : &point.write_bytes));
        else if (n < POINT_HEAD + (unsigned)series->n_dims)
            ORR_TRY(orr_model_int(r, "dim of a point", 0, INT64_MAX, &point.dims[n - POINT_HEAD]));
        else
            return orr_model_fail(r, "a point of too many numbers");
        n++;
    }
    ORR_TRY(status);
    if (n != POINT_HEAD + (unsigned)series->n_dims)
        return orr_model_fail(r, "a point of %u numbers, %u are due", n,
                              POINT_HEAD + series->n_dims);
    point.count = (uint64_t)count;
    orr_table_locate(series, &point);
    *ret = point;
    return ORR_OK;
}

static orr_status read_points(orr_model_reader *r, orr_table_series *series, point_list *points)
{
    orr_status status;
    points->n = 0;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err)) {
        orr_table_point point;
        ORR_TRY(read_point(r, series, &point));
        if (points->n > 0 && orr_table_compare_points(&points->at[points->n - 1], &point) >= 0)
            return orr_model_fail(r, "points out of order");
        if (!orr_array_push(points, point))
            return orr_fail_memory(r->err);
    }
    ORR_TRY(status);
    if (points->n == 0 || points->n > UINT32_MAX)
        return orr_model_fail(r, "a series without points");
    orr_table_point *kept = orr_arena_array(r->arena, orr_table_point, points->n);
    if (kept == NULL)
        return orr_fail_memory(r->err);
    memcpy(kept, points->at, points->n * sizeof *kept);
    series->points = kept;
    series->n = (uint32_t)points->n;
    return orr_table_index(series, r->arena, r->err);
}

static orr_status read_dtype(orr_model_reader *r, uint8_t *ret)
{
    const char *name;
    ORR_TRY(orr_model_text(r, "dtype", &name));
    for (int dtype = 0; dtype < ORR_DTYPES; dtype++)
        if (strcmp(orr_dtype_name((orr_dtype)dtype), name) == 0) {
            *ret = (uint8_t)dtype;
            return ORR_OK;
        }
    return orr_model_fail(r, "dtype: it is none that is known");
}

/* The names of a series come before its points. */
static orr_status read_series(orr_model_reader *r, orr_table_series *ret, point_list *points)
{
    orr_table_series series = {.family = ORR_FAMILIES, .dtype = ORR_DTYPES};
    int64_t copy = -1, n_dims = -1;
    orr_text key;
    orr_status status;

    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (series.points != NULL)
            return orr_model_fail(r, "the points come last in a series");
        if (orr_text_is(key, "family")) {
            ORR_TRY(orr_model_family(r, &series.family));
        } else if (orr_text_is(key, "dtype")) {
            ORR_TRY(read_dtype(r, &series.dtype));
        } else if (orr_text_is(key, "copy")) {
            ORR_TRY(orr_model_int(r, "copy", 0, ORR_COPY_DTOD, &copy));
        } else if (orr_text_is(key, "backward")) {
            ORR_TRY(orr_model_bool(r, "backward", &series.backward));
        } else if (orr_text_is(key, "n_dims")) {
            ORR_TRY(orr_model_int(r, "n_dims", 0, ORR_WORK_DIMS, &n_dims));
            series.n_dims = (uint8_t)n_dims;
        } else if (orr_text_is(key, "label")) {
            ORR_TRY(orr_model_text(r, "label", &series.label));
        } else if (orr_text_is(key, "device")) {
            ORR_TRY(orr_model_text(r, "device", &series.device));
        } else if (orr_text_is(key, "points")) {
            if (series.family == ORR_FAMILIES || series.dtype == ORR_DTYPES || copy < 0 ||
                n_dims < 0 || series.label == NULL || series.device == NULL)
                return orr_model_fail(r, "a series that does not say what it is of");
            series.copy = (uint8_t)copy;
            ORR_TRY(read_points(r, &series, points));
        } else {
            return orr_model_fail(r, "a key that no series has");
        }
    }
    ORR_TRY(status);
    if (series.points == NULL)
        return orr_model_fail(r, "a series without points");
    *ret = series;
    return ORR_OK;
}

static orr_status read_all_series(orr_model_reader *r, orr_cost_table *table)
{
    orr_array(orr_table_series) all = {0};
    point_list points = {0};
    orr_status status = orr_json_enter_array(r->json, r->err);

    while (status == ORR_OK && orr_json_next_element(r->json, &status, r->err)) {
        orr_table_series series;
        status = read_series(r, &series, &points);
        if (status != ORR_OK)
            break;
        if (all.n > 0 && orr_table_compare_series(&all.at[all.n - 1], &series) >= 0)
            status = orr_model_fail(r, "series out of order");
        else if (!orr_array_push(&all, series))
            status = orr_fail_memory(r->err);
    }
    if (status == ORR_OK) {
        orr_table_series *kept = orr_arena_array(r->arena, orr_table_series, all.n);
        if (kept != NULL && all.n > 0)
            memcpy(kept, all.at, all.n * sizeof *kept);
        table->series = kept;
        table->n = (uint32_t)all.n;
        status = kept != NULL ? ORR_OK : orr_fail_memory(r->err);
    }
    orr_array_done(&points);
    orr_array_done(&all);
    return status;
}

orr_status orr_model_read_table(orr_model_reader *r, const orr_cost_table **ret)
{
    orr_cost_table *table = orr_arena_one(r->arena, orr_cost_table);
    orr_text key;
    orr_status status;

    if (table == NULL)
        return orr_fail_memory(r->err);
    ORR_TRY(orr_json_enter_object(r->json, r->err));
    while (orr_json_next_key(r->json, &key, &status, r->err)) {
        if (orr_text_is(key, "families"))
            ORR_TRY(read_families(r, table));
        else if (orr_text_is(key, "series") && table->series == NULL)
            ORR_TRY(read_all_series(r, table));
        else
            return orr_model_fail(r, "a key that no table has, or twice");
    }
    ORR_TRY(status);
    for (uint32_t i = 0; i < table->n; i++)
        if (!table->families[table->series[i].family].present)
            return orr_model_fail(r, "a series of a family that the table does not list");
    *ret = table;
    return ORR_OK;
}

static void write_point(orr_json_writer *w, const orr_table_point *point, uint32_t n_dims)
{
    orr_json_write_array(w);
    orr_json_write_double(w, point->ns);
    orr_json_write_uint(w, point->count);
    orr_json_write_double(w, point->flops);
    orr_json_write_double(w, point->read_bytes);
    orr_json_write_double(w, point->write_bytes);
    for (uint32_t d = 0; d < n_dims; d++)
        orr_json_write_int(w, point->dims[d]);
    orr_json_write_array_end(w);
}

static void write_series(orr_json_writer *w, const orr_table_series *series)
{
    orr_json_write_newline(w);
    orr_json_write_object(w);
    orr_json_member_text(w, "family", orr_kernel_family_name((orr_kernel_family)series->family));
    orr_json_member_text(w, "dtype", orr_dtype_name((orr_dtype)series->dtype));
    orr_json_member_int(w, "copy", series->copy);
    orr_json_member_bool(w, "backward", series->backward);
    orr_json_member_int(w, "n_dims", series->n_dims);
    orr_json_member_text(w, "label", series->label);
    orr_json_member_text(w, "device", series->device);
    orr_json_write_key(w, "points");
    orr_json_write_array(w);
    for (uint32_t i = 0; i < series->n; i++)
        write_point(w, &series->points[i], series->n_dims);
    orr_json_write_array_end(w);
    orr_json_write_object_end(w);
}

void orr_model_write_table(orr_json_writer *w, const orr_cost_table *table)
{
    orr_json_write_key(w, "table");
    orr_json_write_object(w);
    orr_json_write_key(w, "families");
    orr_json_write_array(w);
    for (int f = 0; f < ORR_FAMILIES; f++) {
        const orr_table_family *family = &table->families[f];
        if (!family->present)
            continue;
        orr_json_write_newline(w);
        orr_json_write_object(w);
        orr_json_member_text(w, "family", orr_kernel_family_name((orr_kernel_family)f));
        orr_json_member_int(w, "neighbours", family->neighbours);
        orr_json_member_bool(w, "trend", family->trend);
        orr_json_member_double(w, "error_frac", family->error_frac);
        orr_json_member_double(w, "repeat_frac", family->repeat_frac);
        orr_json_write_object_end(w);
    }
    orr_json_write_array_end(w);
    orr_json_write_key(w, "series");
    orr_json_write_array(w);
    for (uint32_t i = 0; i < table->n; i++)
        write_series(w, &table->series[i]);
    orr_json_write_array_end(w);
    orr_json_write_object_end(w);
}
