/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/closest.h"
#include "model/spec/spec.h"

/* Embedding tables of a recommendation model. Either `rows` and `pooling`, a number a table, all
 * with the columns that `dim` says; or `tables`, a list of groups of equal tables:
 *
 *   tables:
 *     - {rows: 1000000, columns: 64, pooling: 20.5, length: geometric, format: fp16, count: 100}
 *
 * Tables are named by their place: t0, t1, ... */

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

typedef struct group_key {
    const char *name;
    orr_status (*read)(const orr_yaml *value, orr_embedding *to, orr_error *err);
} group_key;

/* The number of a name among `n`. */
static orr_status read_choice(const orr_yaml *value, const char *what, const char *const *names,
                              uint32_t n, uint8_t *ret, orr_error *err)
{
    uint32_t i = 0;
    while (i < n && (value->kind != ORR_YAML_SCALAR || strcmp(value->text, names[i]) != 0))
        i++;
    *ret = (uint8_t)i;
    if (i < n)
        return ORR_OK;
    const char *close =
        value->kind == ORR_YAML_SCALAR ? orr_closest_match(value->text, names, n) : NULL;
    return orr_yaml_fail(value, ORR_INVALID, err, "%s: '%.80s' is none%s%s%s", what,
                         value->kind == ORR_YAML_SCALAR ? value->text : "...",
                         close != NULL ? "; did you mean '" : "", close != NULL ? close : "",
                         close != NULL ? "'?" : "");
}

#define TEXT_(name, text) text,
static orr_status read_length(const orr_yaml *value, orr_embedding *to, orr_error *err)
{
    static const char *const NAMES[] = {ORR_BAG_LENGTH_MAP(TEXT_)};
    return read_choice(value, "length", NAMES, ORR_BAG_LENGTHS, &to->length, err);
}

static orr_status read_optimizer(const orr_yaml *value, orr_embedding *to, orr_error *err)
{
    static const char *const NAMES[] = {ORR_ROW_OPTIMIZER_MAP(TEXT_)};
    return read_choice(value, "optimizer", NAMES, ORR_ROW_OPTIMIZERS, &to->optimizer, err);
}

static orr_status read_format(const orr_yaml *value, orr_embedding *to, orr_error *err)
{
    static const uint8_t FORMATS[] = {ORR_ROW_FORMAT_FP32, ORR_ROW_FORMAT_FP16, ORR_ROW_FORMAT_BF16,
                                      ORR_ROW_FORMAT_INT8, ORR_ROW_FORMAT_INT4};
    static const char *const NAMES[] = {"fp32", "fp16", "bf16", "int8", "int4"};
    uint8_t which = 0;
    ORR_TRY(read_choice(value, "format", NAMES, sizeof NAMES / sizeof *NAMES, &which, err));
    to->format = FORMATS[which];
    return ORR_OK;
}
#undef TEXT_

static orr_status read_table_rows(const orr_yaml *value, orr_embedding *to, orr_error *err)
{
    return read_rows(value, &to->rows, err);
}

static orr_status read_table_pooling(const orr_yaml *value, orr_embedding *to, orr_error *err)
{
    return read_pooling(value, &to->pooling, err);
}

static orr_status read_columns(const orr_yaml *value, orr_embedding *to, orr_error *err)
{
    int64_t columns;
    ORR_TRY(orr_yaml_int(value, &columns, err));
    if (columns <= 0 || columns > ORR_MODEL_MAX_WIDTH)
        return orr_yaml_fail(value, ORR_INVALID, err, "columns: %lld is not from 1 to %d",
                             (long long)columns, ORR_MODEL_MAX_WIDTH);
    to->columns = (uint32_t)columns;
    return ORR_OK;
}

static orr_status read_group_key(const orr_yaml *key, const orr_yaml *value, orr_embedding *to,
                                 int64_t *count, orr_error *err)
{
    static const group_key KEYS[] = {
        {"rows", read_table_rows}, {"columns", read_columns}, {"pooling", read_table_pooling},
        {"length", read_length},   {"format", read_format},   {"optimizer", read_optimizer},
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (strcmp(key->text, KEYS[i].name) == 0)
            return KEYS[i].read(value, to, err);
    if (strcmp(key->text, "count") == 0)
        return orr_yaml_int(value, count, err);
    return orr_yaml_fail(key, ORR_INVALID, err,
                         "'%.80s' is nothing that a group of tables has: rows, columns, pooling, "
                         "length, format, optimizer, count",
                         key->text);
}

/* Fixed bags have whole lengths. */
static orr_status read_group(const orr_yaml *group, uint32_t dim, orr_embedding *ret,
                             int64_t *ret_count, orr_error *err)
{
    orr_embedding t = {.columns = dim, .pooling = 1};
    int64_t count = 1;
    if (group->kind != ORR_YAML_MAP)
        return orr_yaml_fail(group, ORR_INVALID, err, "a group of tables is a map: {rows: ...}");
    for (uint32_t i = 0; i < group->n; i++)
        ORR_TRY(read_group_key(group->keys[i], group->values[i], &t, &count, err));
    if (t.rows <= 0)
        return orr_yaml_fail(group, ORR_INVALID, err, "a group of tables needs rows");
    if (count < 1 || count > ORR_TABLES_MAX)
        return orr_yaml_fail(group, ORR_INVALID, err, "count: %lld is not from 1 to %d",
                             (long long)count, ORR_TABLES_MAX);
    if (t.length == ORR_BAG_LENGTH_FIXED && t.pooling != floor(t.pooling))
        return orr_yaml_fail(group, ORR_INVALID, err,
                             "pooling %.6g of bags of fixed length is not whole; length: geometric "
                             "or uniform has such a mean",
                             t.pooling);
    *ret = t;
    *ret_count = count;
    return ORR_OK;
}

static orr_status name_tables(orr_embedding *tables, uint32_t n, orr_arena *arena, orr_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        tables[i].name = orr_arena_printf(arena, "t%u", i);
        if (tables[i].name == NULL)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static orr_status read_groups(const orr_yaml *groups, orr_arena *arena, orr_dlrm *d, orr_error *err)
{
    orr_embedding *tables = orr_arena_array(arena, orr_embedding, ORR_TABLES_MAX);
    uint32_t n = 0;
    if (tables == NULL)
        return orr_fail_memory(err);
    if (groups->kind != ORR_YAML_LIST || groups->n == 0)
        return orr_yaml_fail(groups, ORR_INVALID, err, "a list of groups of tables is needed here");
    for (uint32_t g = 0; g < groups->n; g++) {
        orr_embedding t;
        int64_t count;
        ORR_TRY(read_group(groups->values[g], d->dim, &t, &count, err));
        if (count > ORR_TABLES_MAX - n)
            return orr_yaml_fail(groups->values[g], ORR_INVALID, err, "more than %d tables",
                                 ORR_TABLES_MAX);
        for (int64_t i = 0; i < count; i++)
            tables[n++] = t;
    }
    d->n_tables = n;
    d->tables = tables;
    return name_tables(tables, n, arena, err);
}

/* A number a table. What is not listed is that of the model that it is like. */
static orr_status read_lists(const orr_yaml *rows, const orr_yaml *pooling, orr_arena *arena,
                             orr_dlrm *d, orr_error *err)
{
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
        tables[i] = rows == NULL ? d->tables[i] : (orr_embedding){.pooling = 1};
        if (rows != NULL)
            ORR_TRY(read_rows(rows->values[i], &tables[i].rows, err));
        if (pooling != NULL)
            ORR_TRY(read_pooling(pooling->values[i], &tables[i].pooling, err));
        if (rows != NULL || d->cross_layers == 0)
            tables[i].columns = d->dim;
    }
    d->tables = tables;
    return name_tables(tables, d->n_tables, arena, err);
}

orr_status orr_spec_read_tables(const orr_yaml *dlrm, orr_arena *arena, orr_model *model,
                                orr_error *err)
{
    const orr_yaml *rows = orr_yaml_find(dlrm, "rows"), *pooling = orr_yaml_find(dlrm, "pooling"),
                   *groups = orr_yaml_find(dlrm, "tables");
    if (groups != NULL && (rows != NULL || pooling != NULL))
        return orr_yaml_fail(rows != NULL ? rows : pooling, ORR_INVALID, err,
                             "tables are given as groups, or as lists of rows and pooling");
    return groups != NULL ? read_groups(groups, arena, &model->dlrm, err)
                          : read_lists(rows, pooling, arena, &model->dlrm, err);
}
