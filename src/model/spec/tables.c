/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/spec/spec.h"

/* Embedding tables of a recommendation model: `rows` and `pooling`, a number a table, all with the
 * columns that `dim` says. */

static orr_status need_list(const orr_yaml *list, uint32_t n, orr_error *err)
{
    if (list->kind == ORR_YAML_LIST && list->n > 0 && list->n <= ORR_TABLES_MAX)
        return n == 0 || list->n == n
                   ? ORR_OK
                   : orr_yaml_fail(list, ORR_INVALID, err, "pooling has %u numbers, rows has %u",
                                   list->n, n);
    return orr_yaml_fail(list, ORR_INVALID, err, "a list of 1 to %d numbers is needed here",
                         ORR_TABLES_MAX);
}

static orr_status read_rows(const orr_yaml *value, int64_t *ret, orr_error *err)
{
    ORR_TRY(orr_yaml_int(value, ret, err));
    if (*ret <= 0 || *ret > INT64_C(1) << 40)
        return orr_yaml_fail(value, ORR_INVALID, err, "rows: %lld is not from 1 to 2^40",
                             (long long)*ret);
    return ORR_OK;
}

static orr_status read_pooling(const orr_yaml *value, double *ret, orr_error *err)
{
    ORR_TRY(orr_yaml_number(value, ret, err));
    if (!isfinite(*ret) || *ret < 0 || *ret > ORR_MODEL_MAX_WIDTH)
        return orr_yaml_fail(value, ORR_INVALID, err, "pooling: %.80s is not from 0 to %d",
                             value->text, ORR_MODEL_MAX_WIDTH);
    *ret = *ret > 0 ? *ret : 1;
    return ORR_OK;
}

/* Tables that the section does not list are those of the model that it is like. */
orr_status orr_spec_read_tables(const orr_yaml *dlrm, orr_arena *arena, orr_model *model,
                                orr_error *err)
{
    const orr_yaml *rows = orr_yaml_find(dlrm, "rows"), *pooling = orr_yaml_find(dlrm, "pooling");
    orr_dlrm *d = &model->dlrm;
    if (rows != NULL) {
        ORR_TRY(need_list(rows, 0, err));
        d->n_tables = rows->n;
    }
    if (pooling != NULL)
        ORR_TRY(need_list(pooling, d->n_tables, err));
    orr_embedding *tables = orr_arena_array(arena, orr_embedding, (size_t)d->n_tables + 1);
    if (tables == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < d->n_tables; i++) {
        orr_embedding *t = &tables[i];
        if (rows == NULL) {
            *t = d->tables[i];
        } else {
            *t = (orr_embedding){.name = orr_arena_printf(arena, "t%u", i), .pooling = 1};
            if (t->name == NULL)
                return orr_fail_memory(err);
            ORR_TRY(read_rows(rows->values[i], &t->rows, err));
        }
        if (pooling != NULL)
            ORR_TRY(read_pooling(pooling->values[i], &t->pooling, err));
        t->columns = d->dim;
    }
    d->tables = tables;
    return ORR_OK;
}
