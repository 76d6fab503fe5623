/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <orrery/calibration.h>

#include "base/array.h"
#include "cli/models/hw.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A parameter of a calibration, of a device or a technology of links, and how well it is known. */
typedef struct parameter_row {
    const char *name, *parameter, *basis, *rests_on, *prior_source, *about;
    double value, low, high, prior, yearly_frac;
    bool at_bound;
} parameter_row;

#define C(name, type)                                                                              \
    {                                                                                              \
#name, ORR_COLUMN_##type, offsetof(parameter_row, name)                                    \
    }
static const orr_column PARAMETER_COLUMNS[] = {
    C(name, TEXT),     C(parameter, TEXT), C(value, NUMBER),      C(low, NUMBER),
    C(high, NUMBER),   C(prior, NUMBER),   C(yearly_frac, FRAC),  C(basis, TEXT),
    C(at_bound, BOOL), C(rests_on, TEXT),  C(prior_source, TEXT), C(about, TEXT),
};
#undef C

typedef struct interval_row {
    const char *job;
    double low_frac, high_frac, error_frac;
    int64_t rows;
} interval_row;
#define C(name, type)                                                                              \
    {                                                                                              \
#name, ORR_COLUMN_##type, offsetof(interval_row, name)                                     \
    }
static const orr_column INTERVAL_COLUMNS[] = {
    C(job, TEXT), C(low_frac, FRAC), C(high_frac, FRAC), C(error_frac, FRAC), C(rows, I64),
};
#undef C

typedef struct row_list {
    orr_array(parameter_row) rows;
    orr_error *err;
} row_list;

/* `as`: its value with software of the year that was asked for. */
static orr_status add(row_list *list, const char *name, const char *parameter, const char *about,
                      const orr_calibration_parameter *p, double as, bool own)
{
    const parameter_row row = {.name = name,
                               .parameter = parameter,
                               .basis = own && p->basis == ORR_BASIS_FITTED ? "data"
                                        : own                               ? "prior"
                                                                            : "of another device",
                               .rests_on = p->rests_on,
                               .prior_source = p->prior_source,
                               .about = about,
                               .value = as,
                               .low = p->low,
                               .high = p->high,
                               .prior = p->prior,
                               .yearly_frac = expm1(p->yearly),
                               .at_bound = p->at_bound};
    return orr_array_push(&list->rows, row) ? ORR_OK : orr_fail_memory(list->err);
}

static orr_status add_link(row_list *list, const orr_link_rates *link)
{
    ORR_TRY(add(list, link->technology, "frac", "of its bandwidth, that collectives reach",
                &link->frac, link->frac.value, true));
    ORR_TRY(add(list, link->technology, "base_ns", "a collective beside its bytes", &link->base_ns,
                link->base_ns.value, true));
    return link->reduction.value > 0 ? add(list, link->technology, "reduction",
                                           "of that bandwidth, while switches reduce",
                                           &link->reduction, link->reduction.value, true)
                                     : ORR_OK;
}

/* Technologies of the links that clusters of the device have. */
static orr_status add_links(row_list *list, const orr_catalog *catalog, const orr_device *device,
                            const orr_calibration *c)
{
    for (uint32_t i = 0; i < c->n_links; i++) {
        bool has = false;
        for (uint32_t k = 0; k < catalog->n_clusters; k++) {
            const orr_cluster *cluster = catalog->clusters[k];
            for (uint32_t l = 0; l < cluster->n_levels && cluster->device == device; l++)
                has |= strcmp(cluster->levels[l].technology, c->links[i].technology) == 0;
        }
        if (has)
            ORR_TRY(add_link(list, &c->links[i]));
    }
    return ORR_OK;
}

static orr_status add_device(row_list *list, const orr_catalog *catalog, const orr_device *device,
                             const orr_calibration *c)
{
    const bool own = strcmp(c->name, device->name) == 0;
#define ADD_(field, text)                                                                          \
    ORR_TRY(add(list, device->name, #field, text, &c->parameters[ORR_CALIBRATION_##field],         \
                c->field, own));
    ORR_CALIBRATION_MAP(ADD_)
#undef ADD_
    return add_links(list, catalog, device, c);
}

orr_status orr_hw_calibration(const orr_catalog *catalog, const orr_device *const *devices,
                              size_t n, double software_year, orr_arena *arena, orr_table *ret,
                              orr_error *err)
{
    row_list list = {.err = err};
    orr_status status = ORR_OK;
    for (size_t i = 0; i < n && status == ORR_OK; i++) {
        const orr_calibration *c;
        status = orr_calibration_of(devices[i], software_year, arena, &c, err);
        if (status == ORR_OK)
            status = add_device(&list, catalog, devices[i], c);
    }
    parameter_row *rows = orr_arena_array(arena, parameter_row, list.rows.n + 1);
    if (status == ORR_OK && rows == NULL)
        status = orr_fail_memory(err);
    if (status == ORR_OK) {
        memcpy(rows, list.rows.at, list.rows.n * sizeof *rows);
        *ret = (orr_table){"orrery.hw_calibration/1",
                           "calibration: what jobs reach; 90 % intervals, all else refitted",
                           PARAMETER_COLUMNS,
                           COUNT(PARAMETER_COLUMNS),
                           rows,
                           sizeof *rows,
                           list.rows.n};
    }
    orr_array_done(&list.rows);
    return status;
}

orr_status orr_hw_intervals(const orr_device *device, orr_arena *arena, orr_table *ret,
                            orr_error *err)
{
    const orr_calibration *c;
    size_t n = 0;
    interval_row *rows = orr_arena_array(arena, interval_row, ORR_JOB_KINDS);
    if (rows == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_calibration_of(device, 0, arena, &c, err));
    for (int kind = 0; kind < ORR_JOB_KINDS && c->intervals != NULL; kind++) {
        const orr_calibration *of;
        ORR_TRY(orr_calibration_for_kind(c, (orr_job_kind)kind, arena, &of, err));
        if (c->intervals[kind].rows > 0)
            rows[n++] = (interval_row){orr_job_kind_name((orr_job_kind)kind), of->low_frac,
                                       of->high_frac, of->error_frac, c->intervals[kind].rows};
    }
    *ret = (orr_table){"orrery.hw_intervals/1",
                       "measured over predicted, minus 1: where 90 % of published jobs lie",
                       INTERVAL_COLUMNS,
                       COUNT(INTERVAL_COLUMNS),
                       rows,
                       sizeof *rows,
                       n};
    return ORR_OK;
}
