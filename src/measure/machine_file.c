/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements as YAML: the machine's facts, then a line for each kernel and collective. */
#include <orrery/measure.h>

#include <string.h>

#include "io/stream/output.h"
#include "io/yaml/yaml.h"

#define SCHEMA "orrery.machine/1"

static void put_kernel(orr_output *out, const orr_measured_kernel *k)
{
    orr_output_printf(out, "  - [%s, %s, %u, %s, %u, %lld, %lld, %lld, %.9g, %.9g, %lld, %.3f]\n",
                      orr_op_of((orr_op)k->op)->name, orr_dtype_name((orr_dtype)k->dtype), k->form,
                      k->cold ? "true" : "false", k->threads, (long long)k->dim[0],
                      (long long)k->dim[1], (long long)k->dim[2], k->flops, k->bytes,
                      (long long)k->ns, k->spread);
}

static void put_table(orr_output *out, const orr_measured_table *t)
{
    orr_output_printf(out, "  - [%s, %s, %s, %u, %lld, %u, %lld, %lld, %lld, %.3f]\n",
                      t->update ? "update" : "sum", orr_row_format_name((orr_row_format)t->format),
                      orr_row_optimizer_name((orr_row_optimizer)t->optimizer), t->threads,
                      (long long)t->rows, t->columns, (long long)t->samples, (long long)t->lookups,
                      (long long)t->ns, t->spread);
}

/* In single quotes, which are doubled inside. */
static void put_quoted(orr_output *out, const char *text)
{
    orr_output_text(out, "'");
    for (; *text != '\0'; text++)
        orr_output_write(out, *text == '\'' ? "''" : text, *text == '\'' ? 2 : 1);
    orr_output_text(out, "'");
}

static void put_storage(orr_output *out, const orr_measured_storage *s)
{
    orr_output_text(out, "  - path: ");
    put_quoted(out, s->path);
    orr_output_printf(out, "\n    engine: %s\n    sector: %u\n    bytes: %lld\n    accesses:%s\n",
                      s->engine, s->sector, (long long)s->bytes, s->n_accesses > 0 ? "" : " []");
    for (uint32_t i = 0; i < s->n_accesses; i++) {
        const orr_measured_access *a = &s->accesses[i];
        orr_output_printf(out, "      - [%s, %u, %u, %.9g, %lld, %lld, %.9g]\n",
                          orr_storage_access_name((orr_storage_access)a->access), a->bytes,
                          a->depth, a->per_s, (long long)a->p50_ns, (long long)a->p99_ns,
                          a->cpu_ns);
    }
}

orr_status orr_measured_save(const orr_measured *m, const char *path, orr_error *err)
{
    orr_output *out;
    ORR_TRY(orr_output_open(path, &out, err));
    orr_output_printf(
        out,
        "# Made by `orrery bench`.\nschema: " SCHEMA "\ncpu: '%s'\nisa: '%s'\nwhen: '%s'\n"
        "cores: %u\nread_bytes_per_s: %.9g\ncopy_bytes_per_s: %.9g\nflops_fp32: %.9g\n"
        "flops_bf16: %.9g\ncache_bytes: %lld\nbase_bytes: %lld\n",
        m->cpu, m->isa, m->when, m->cores, m->read_bytes_per_s, m->copy_bytes_per_s, m->flops_fp32,
        m->flops_bf16, (long long)m->cache_bytes, (long long)m->base_bytes);
    orr_output_text(
        out, "# operator, dtype, form, cold, threads, dims, FLOPs, bytes, ns, spread\nkernels:");
    orr_output_text(out, m->n_kernels > 0 ? "\n" : " []\n");
    for (uint32_t i = 0; i < m->n_kernels; i++)
        put_kernel(out, &m->kernels[i]);
    orr_output_text(out, "# collective, ranks, bytes, ns\ntransfers:");
    orr_output_text(out, m->n_transfers > 0 ? "\n" : " []\n");
    for (uint32_t i = 0; i < m->n_transfers; i++)
        orr_output_printf(out, "  - [%s, %u, %lld, %lld]\n",
                          orr_collective_name((orr_collective)m->transfers[i].collective),
                          m->transfers[i].ranks, (long long)m->transfers[i].bytes,
                          (long long)m->transfers[i].ns);
    orr_output_text(out, "# work on an embedding table, row format, optimizer, threads, rows, "
                         "columns, samples, lookups, ns, spread\ntables:");
    orr_output_text(out, m->n_tables > 0 ? "\n" : " []\n");
    for (uint32_t i = 0; i < m->n_tables; i++)
        put_table(out, &m->tables[i]);
    if (m->n_storage > 0)
        orr_output_text(out, "# access, bytes, requests in flight, per second, p50 and p99 in ns, "
                             "CPU ns of a request\nstorage:\n");
    for (uint32_t i = 0; i < m->n_storage; i++)
        put_storage(out, &m->storage[i]);
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}

static orr_status find(const orr_yaml *map, const char *key, orr_yaml_kind kind,
                       const orr_yaml **ret, orr_error *err)
{
    *ret = orr_yaml_find(map, key);
    if (*ret == NULL || (*ret)->kind != kind)
        return orr_yaml_fail(map, ORR_INVALID, err, "a machine file has '%s', %s", key,
                             kind == ORR_YAML_LIST ? "a list" : "a value");
    return ORR_OK;
}

static orr_status text(const orr_yaml *map, const char *key, const char **ret, orr_error *err)
{
    const orr_yaml *value;
    ORR_TRY(find(map, key, ORR_YAML_SCALAR, &value, err));
    *ret = value->text;
    return ORR_OK;
}

static orr_status number(const orr_yaml *map, const char *key, double *ret, orr_error *err)
{
    const orr_yaml *value;
    ORR_TRY(find(map, key, ORR_YAML_SCALAR, &value, err));
    ORR_TRY(orr_yaml_number(value, ret, err));
    return *ret >= 0 && *ret < 1e18
               ? ORR_OK
               : orr_yaml_fail(value, ORR_INVALID, err, "%s: from 0 to 1e18", key);
}

/* Column i of a row, an integer. */
static orr_status whole(const orr_yaml *row, uint32_t i, int64_t most, int64_t *ret, orr_error *err)
{
    ORR_TRY(orr_yaml_int(row->values[i], ret, err));
    return *ret >= 0 && *ret <= most
               ? ORR_OK
               : orr_yaml_fail(row->values[i], ORR_INVALID, err, "from 0 to %lld", (long long)most);
}

static int named(const orr_yaml *value, int n, const char *(*name)(int))
{
    int i = 0;
    while (i < n && (value->kind != ORR_YAML_SCALAR || strcmp(name(i), value->text) != 0))
        i++;
    return i;
}
static const char *op_name(int i)
{
    return orr_op_of((orr_op)i)->name;
}
static const char *dtype_name(int i)
{
    return orr_dtype_name((orr_dtype)i);
}
static const char *collective_name(int i)
{
    return orr_collective_name((orr_collective)i);
}

static const char *access_name(int i)
{
    return orr_storage_access_name((orr_storage_access)i);
}
static const char *format_name(int i)
{
    return orr_row_format_name((orr_row_format)i);
}
static const char *optimizer_name(int i)
{
    return orr_row_optimizer_name((orr_row_optimizer)i);
}

enum {
    KERNEL_COLUMNS = 12,
    TRANSFER_COLUMNS = 4,
    TABLE_COLUMNS = 10,
    ACCESS_COLUMNS = 7,
    COLLECTIVES = ORR_COLL_RECV + 1
};

static orr_status read_kernel(const orr_yaml *row, orr_measured_kernel *ret, orr_error *err)
{
    int64_t form, threads;
    if (row->kind != ORR_YAML_LIST || row->n != KERNEL_COLUMNS)
        return orr_yaml_fail(row, ORR_INVALID, err, "a kernel is a list of %d values",
                             KERNEL_COLUMNS);
    const int op = named(row->values[0], ORR_OPS, op_name);
    const int dtype = named(row->values[1], ORR_DTYPES, dtype_name);
    if (op == ORR_OPS || dtype == ORR_DTYPES)
        return orr_yaml_fail(row, ORR_INVALID, err, "no such %s",
                             op == ORR_OPS ? "operator" : "dtype");
    ORR_TRY(whole(row, 2, 2, &form, err));
    ORR_TRY(orr_yaml_bool(row->values[3], &ret->cold, err));
    ORR_TRY(whole(row, 4, 65536, &threads, err));
    for (uint32_t i = 0; i < 3; i++)
        ORR_TRY(whole(row, 5 + i, INT64_MAX / 2, &ret->dim[i], err));
    ORR_TRY(orr_yaml_number(row->values[8], &ret->flops, err));
    ORR_TRY(orr_yaml_number(row->values[9], &ret->bytes, err));
    ORR_TRY(whole(row, 10, INT64_MAX / 2, &ret->ns, err));
    ORR_TRY(orr_yaml_number(row->values[11], &ret->spread, err));
    ret->op = (uint8_t)op;
    ret->dtype = (uint8_t)dtype;
    ret->form = (uint8_t)form;
    ret->threads = (uint32_t)threads;
    return ORR_OK;
}

static orr_status read_transfer(const orr_yaml *row, orr_measured_collective *ret, orr_error *err)
{
    int64_t ranks;
    if (row->kind != ORR_YAML_LIST || row->n != TRANSFER_COLUMNS)
        return orr_yaml_fail(row, ORR_INVALID, err, "a transfer is a list of %d values",
                             TRANSFER_COLUMNS);
    const int kind = named(row->values[0], COLLECTIVES, collective_name);
    if (kind == COLLECTIVES)
        return orr_yaml_fail(row, ORR_INVALID, err, "no such collective");
    ORR_TRY(whole(row, 1, 1 << 24, &ranks, err));
    ORR_TRY(whole(row, 2, INT64_MAX / 2, &ret->bytes, err));
    ORR_TRY(whole(row, 3, INT64_MAX / 2, &ret->ns, err));
    ret->collective = (uint8_t)kind;
    ret->ranks = (uint32_t)ranks;
    return ORR_OK;
}

static orr_status read_table(const orr_yaml *row, orr_measured_table *ret, orr_error *err)
{
    int64_t n[5]; /* threads, rows, columns, samples, lookups */
    if (row->kind != ORR_YAML_LIST || row->n != TABLE_COLUMNS)
        return orr_yaml_fail(row, ORR_INVALID, err, "a table is a list of %d values",
                             TABLE_COLUMNS);
    const orr_yaml *work = row->values[0];
    const bool sum = work->kind == ORR_YAML_SCALAR && strcmp(work->text, "sum") == 0;
    ret->update = work->kind == ORR_YAML_SCALAR && strcmp(work->text, "update") == 0;
    const int format = named(row->values[1], ORR_ROW_FORMATS, format_name);
    const int optimizer = named(row->values[2], ORR_ROW_OPTIMIZERS, optimizer_name);
    if ((!sum && !ret->update) || format == ORR_ROW_FORMATS || optimizer == ORR_ROW_OPTIMIZERS)
        return orr_yaml_fail(row, ORR_INVALID, err, "no such %s",
                             !sum && !ret->update        ? "work on a table"
                             : format == ORR_ROW_FORMATS ? "row format"
                                                         : "optimizer");
    for (uint32_t i = 0; i < 5; i++)
        ORR_TRY(whole(row, 3 + i, i == 0 || i == 2 ? 65536 : INT64_MAX / 2, &n[i], err));
    ORR_TRY(whole(row, 8, INT64_MAX / 2, &ret->ns, err));
    ORR_TRY(orr_yaml_number(row->values[9], &ret->spread, err));
    ret->format = (uint8_t)format;
    ret->optimizer = (uint8_t)optimizer;
    ret->threads = (uint32_t)n[0];
    ret->rows = n[1];
    ret->columns = (uint32_t)n[2];
    ret->samples = n[3];
    ret->lookups = n[4];
    return ORR_OK;
}

/* Files of before embedding tables were measured have none. */
static orr_status read_tables(const orr_yaml *document, orr_arena *arena, orr_measured *m,
                              orr_error *err)
{
    const orr_yaml *tables = orr_yaml_find(document, "tables");
    if (tables == NULL)
        return ORR_OK;
    ORR_TRY(find(document, "tables", ORR_YAML_LIST, &tables, err));
    orr_measured_table *t = orr_arena_array(arena, orr_measured_table, tables->n);
    if (t == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < tables->n; i++)
        ORR_TRY(read_table(tables->values[i], &t[i], err));
    m->tables = t;
    m->n_tables = tables->n;
    return ORR_OK;
}

static orr_status read_access(const orr_yaml *row, orr_measured_access *ret, orr_error *err)
{
    int64_t bytes, depth;
    if (row->kind != ORR_YAML_LIST || row->n != ACCESS_COLUMNS)
        return orr_yaml_fail(row, ORR_INVALID, err, "an access is a list of %d values",
                             ACCESS_COLUMNS);
    const int access = named(row->values[0], ORR_STORAGE_ACCESSES, access_name);
    if (access == ORR_STORAGE_ACCESSES)
        return orr_yaml_fail(row, ORR_INVALID, err, "no such access to storage");
    ORR_TRY(whole(row, 1, INT32_MAX, &bytes, err));
    ORR_TRY(whole(row, 2, 65536, &depth, err));
    ORR_TRY(orr_yaml_number(row->values[3], &ret->per_s, err));
    ORR_TRY(whole(row, 4, INT64_MAX / 2, &ret->p50_ns, err));
    ORR_TRY(whole(row, 5, INT64_MAX / 2, &ret->p99_ns, err));
    ORR_TRY(orr_yaml_number(row->values[6], &ret->cpu_ns, err));
    if (!(ret->per_s >= 0 && ret->per_s < 1e18 && ret->cpu_ns >= 0 && ret->cpu_ns < 1e18))
        return orr_yaml_fail(row, ORR_INVALID, err, "figures of storage are from 0 to 1e18");
    ret->access = (uint8_t)access;
    ret->bytes = (uint32_t)bytes;
    ret->depth = (uint32_t)depth;
    return ORR_OK;
}

static orr_status read_device(const orr_yaml *map, orr_arena *arena, orr_measured_storage *ret,
                              orr_error *err)
{
    const orr_yaml *accesses;
    double sector, bytes;
    if (map->kind != ORR_YAML_MAP)
        return orr_yaml_fail(map, ORR_INVALID, err, "what was measured of storage is a map");
    ORR_TRY(text(map, "path", &ret->path, err));
    ORR_TRY(text(map, "engine", &ret->engine, err));
    ORR_TRY(number(map, "sector", &sector, err));
    ORR_TRY(number(map, "bytes", &bytes, err));
    ORR_TRY(find(map, "accesses", ORR_YAML_LIST, &accesses, err));
    if (!(sector >= 1 && sector <= 1 << 20))
        return orr_yaml_fail(map, ORR_INVALID, err, "a sector is 1 to 1048576 bytes");
    orr_measured_access *a = orr_arena_array(arena, orr_measured_access, accesses->n);
    if (a == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < accesses->n; i++)
        ORR_TRY(read_access(accesses->values[i], &a[i], err));
    ret->sector = (uint32_t)sector;
    ret->bytes = (int64_t)bytes;
    ret->accesses = a;
    ret->n_accesses = accesses->n;
    return ORR_OK;
}

/* Only where a folder was named. */
static orr_status read_storage(const orr_yaml *document, orr_arena *arena, orr_measured *m,
                               orr_error *err)
{
    const orr_yaml *storage = orr_yaml_find(document, "storage");
    if (storage == NULL)
        return ORR_OK;
    ORR_TRY(find(document, "storage", ORR_YAML_LIST, &storage, err));
    orr_measured_storage *s = orr_arena_array(arena, orr_measured_storage, storage->n);
    if (s == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < storage->n; i++)
        ORR_TRY(read_device(storage->values[i], arena, &s[i], err));
    m->storage = s;
    m->n_storage = storage->n;
    return ORR_OK;
}

static orr_status read_lists(const orr_yaml *document, orr_arena *arena, orr_measured *m,
                             orr_error *err)
{
    const orr_yaml *kernels, *transfers;
    ORR_TRY(find(document, "kernels", ORR_YAML_LIST, &kernels, err));
    ORR_TRY(find(document, "transfers", ORR_YAML_LIST, &transfers, err));
    orr_measured_kernel *k = orr_arena_array(arena, orr_measured_kernel, kernels->n);
    orr_measured_collective *t = orr_arena_array(arena, orr_measured_collective, transfers->n);
    if (k == NULL || t == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < kernels->n; i++)
        ORR_TRY(read_kernel(kernels->values[i], &k[i], err));
    for (uint32_t i = 0; i < transfers->n; i++)
        ORR_TRY(read_transfer(transfers->values[i], &t[i], err));
    m->kernels = k;
    m->n_kernels = kernels->n;
    m->transfers = t;
    m->n_transfers = transfers->n;
    ORR_TRY(read_tables(document, arena, m, err));
    return read_storage(document, arena, m, err);
}

orr_status orr_measured_load(const char *path, orr_arena *arena, orr_measured *ret, orr_error *err)
{
    const orr_yaml *document;
    orr_measured m = {0};
    const char *schema;
    double cores, cache, base;
    ORR_TRY(orr_yaml_load(path, arena, &document, err));
    if (document->kind != ORR_YAML_MAP)
        return orr_yaml_fail(document, ORR_INVALID, err, "a machine file is a map");
    ORR_TRY(text(document, "schema", &schema, err));
    if (strcmp(schema, SCHEMA) != 0)
        return orr_yaml_fail(document, ORR_UNSUPPORTED, err,
                             "a machine file of %.60s; known: " SCHEMA, schema);
    ORR_TRY(text(document, "cpu", &m.cpu, err));
    ORR_TRY(text(document, "isa", &m.isa, err));
    ORR_TRY(text(document, "when", &m.when, err));
    ORR_TRY(number(document, "cores", &cores, err));
    ORR_TRY(number(document, "read_bytes_per_s", &m.read_bytes_per_s, err));
    ORR_TRY(number(document, "copy_bytes_per_s", &m.copy_bytes_per_s, err));
    ORR_TRY(number(document, "flops_fp32", &m.flops_fp32, err));
    ORR_TRY(number(document, "flops_bf16", &m.flops_bf16, err));
    ORR_TRY(number(document, "cache_bytes", &cache, err));
    ORR_TRY(number(document, "base_bytes", &base, err));
    m.cores = cores < 65536 ? (uint32_t)cores : 65536;
    m.cache_bytes = (int64_t)cache;
    m.base_bytes = (int64_t)base;
    ORR_TRY(read_lists(document, arena, &m, err));
    *ret = m;
    return ORR_OK;
}
