/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured of this machine. */
#include "report/analyses/registry.h"

typedef struct figure_row {
    const char *figure, *unit;
    double value;
} figure_row;

#define C(field, type)        ORR_COL_(figure_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(figure_row, field, type, name)
static const orr_column figure_columns[] = {C(figure, TEXT), C(value, NUMBER), C(unit, TEXT)};
#undef C
#undef AS

typedef struct kernel_row {
    const char *operator_name, *dtype, *shape, *operands;
    uint32_t threads;
    int64_t ns;
    double flops_per_s, bytes_per_s, spread_frac;
} kernel_row;

#define C(field, type)        ORR_COL_(kernel_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(kernel_row, field, type, name)
static const orr_column kernel_columns[] = {
    AS(operator_name, TEXT, "operator"),
    C(shape, TEXT),
    C(dtype, TEXT),
    C(operands, TEXT),
    C(threads, U32),
    C(ns, NS),
    C(flops_per_s, NUMBER),
    C(bytes_per_s, BYTES_PER_S),
    C(spread_frac, FRAC),
};
#undef C
#undef AS

typedef struct transfer_row {
    const char *collective;
    uint32_t ranks;
    int64_t bytes, ns;
    double bytes_per_s;
} transfer_row;

#define C(field, type)        ORR_COL_(transfer_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(transfer_row, field, type, name)
static const orr_column transfer_columns[] = {C(collective, TEXT), C(ranks, U32), C(bytes, BYTES),
                                              C(ns, NS), C(bytes_per_s, BYTES_PER_S)};
#undef C
#undef AS

typedef struct table_row {
    const char *work, *format, *optimizer;
    int64_t rows;
    uint32_t columns, threads;
    int64_t ns;
    double rows_per_s, spread_frac;
} table_row;

#define C(field, type) ORR_COL_(table_row, field, type)
static const orr_column table_columns[] = {
    C(work, TEXT),   C(rows, I64), C(columns, U32),       C(format, TEXT),      C(optimizer, TEXT),
    C(threads, U32), C(ns, NS),    C(rows_per_s, NUMBER), C(spread_frac, FRAC),
};
#undef C

static double per_second(double amount, int64_t ns)
{
    return ns > 0 ? amount * 1e9 / (double)ns : 0;
}

static const char *shape_of(const orr_measured_kernel *k, orr_arena *arena)
{
    static const char *const forms[] = {"", " (w')", " (x')"};
    const long long a = k->dim[0], b = k->dim[1], c = k->dim[2];
    return c > 0 ? orr_arena_printf(arena, "%lld x %lld x %lld%s", a, b, c, forms[k->form % 3])
                 : orr_arena_printf(arena, "%lld x %lld", a, b);
}

static const kernel_row *kernel_rows(const orr_measured *m, orr_arena *arena)
{
    kernel_row *rows = orr_arena_array(arena, kernel_row, m->n_kernels);
    for (uint32_t i = 0; rows != NULL && i < m->n_kernels; i++) {
        const orr_measured_kernel *k = &m->kernels[i];
        rows[i] = (kernel_row){.operator_name = orr_op_of((orr_op)k->op)->name,
                               .shape = shape_of(k, arena),
                               .dtype = orr_dtype_name((orr_dtype)k->dtype),
                               .operands = k->cold ? "in memory" : "in caches",
                               .threads = k->threads,
                               .ns = k->ns,
                               .flops_per_s = per_second(k->flops, k->ns),
                               .bytes_per_s = per_second(k->bytes, k->ns),
                               .spread_frac = k->spread};
        if (rows[i].shape == NULL)
            return NULL;
    }
    return rows;
}

static const transfer_row *transfer_rows(const orr_measured *m, orr_arena *arena)
{
    transfer_row *rows = orr_arena_array(arena, transfer_row, m->n_transfers);
    for (uint32_t i = 0; rows != NULL && i < m->n_transfers; i++) {
        const orr_measured_collective *t = &m->transfers[i];
        rows[i] = (transfer_row){orr_collective_name((orr_collective)t->collective), t->ranks,
                                 t->bytes, t->ns, per_second((double)t->bytes, t->ns)};
    }
    return rows;
}

static const table_row *table_rows(const orr_measured *m, orr_arena *arena)
{
    table_row *rows = orr_arena_array(arena, table_row, m->n_tables);
    for (uint32_t i = 0; rows != NULL && i < m->n_tables; i++) {
        const orr_measured_table *t = &m->tables[i];
        rows[i] = (table_row){.work = t->update ? "update" : "sum",
                              .format = orr_row_format_name((orr_row_format)t->format),
                              .optimizer = orr_row_optimizer_name((orr_row_optimizer)t->optimizer),
                              .rows = t->rows,
                              .columns = t->columns,
                              .threads = t->threads,
                              .ns = t->ns,
                              .rows_per_s = per_second((double)t->lookups, t->ns),
                              .spread_frac = t->spread};
    }
    return rows;
}

typedef struct storage_row {
    const char *path, *access, *engine;
    uint32_t bytes, depth;
    double per_s, bytes_per_s;
    int64_t p50_ns, p99_ns, cpu_ns;
} storage_row;

#define C(field, type) ORR_COL_(storage_row, field, type)
static const orr_column storage_columns[] = {
    C(path, TEXT),   C(access, TEXT),  C(bytes, U32),
    C(depth, U32),   C(per_s, NUMBER), C(bytes_per_s, BYTES_PER_S),
    C(p50_ns, NS),   C(p99_ns, NS),    C(cpu_ns, NS),
    C(engine, TEXT),
};
#undef C

static const storage_row *storage_rows(const orr_measured *m, orr_arena *arena, uint64_t *ret_n)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->n_storage; i++)
        n += m->storage[i].n_accesses;
    storage_row *rows = orr_arena_array(arena, storage_row, n);
    storage_row *row = rows;
    *ret_n = n;
    for (uint32_t i = 0; rows != NULL && i < m->n_storage; i++)
        for (uint32_t k = 0; k < m->storage[i].n_accesses; k++) {
            const orr_measured_storage *s = &m->storage[i];
            const orr_measured_access *a = &s->accesses[k];
            *row++ = (storage_row){.path = s->path,
                                   .access = orr_storage_access_name((orr_storage_access)a->access),
                                   .engine = s->engine,
                                   .bytes = a->bytes,
                                   .depth = a->depth,
                                   .per_s = a->per_s,
                                   .bytes_per_s = a->per_s * a->bytes,
                                   .p50_ns = a->p50_ns,
                                   .p99_ns = a->p99_ns,
                                   .cpu_ns = (int64_t)a->cpu_ns};
        }
    return rows;
}

enum { FIGURES = 6 };
static const figure_row *figure_rows(const orr_measured *m, orr_arena *arena)
{
    figure_row *rows = orr_arena_array(arena, figure_row, FIGURES);
    if (rows == NULL)
        return NULL;
    rows[0] = (figure_row){"cores", "", m->cores};
    rows[1] = (figure_row){"memory, read by all cores", "GB/s", m->read_bytes_per_s / 1e9};
    rows[2] = (figure_row){"memory, copied by all cores", "GB/s", m->copy_bytes_per_s / 1e9};
    rows[3] = (figure_row){"products in fp32", "GFLOP/s", m->flops_fp32 / 1e9};
    rows[4] = (figure_row){"products in bf16", "GFLOP/s", m->flops_bf16 / 1e9};
    rows[5] = (figure_row){"memory of a process without a model", "MiB",
                           (double)m->base_bytes / (1 << 20)};
    return rows;
}

orr_status orr_measured_tables(const orr_measured *m, orr_arena *arena,
                               orr_named_table ret[ORR_MEASURED_TABLES], orr_error *err)
{
    const figure_row *figures = figure_rows(m, arena);
    const kernel_row *kernels = kernel_rows(m, arena);
    const transfer_row *transfers = transfer_rows(m, arena);
    const table_row *tables = table_rows(m, arena);
    uint64_t n_storage = 0;
    const storage_row *storage = storage_rows(m, arena, &n_storage);
    if (figures == NULL || kernels == NULL || transfers == NULL || tables == NULL ||
        storage == NULL)
        return orr_fail_memory(err);
    ret[0] = (orr_named_table){"machine", ORR_TABLE_("orrery.machine_figures/1", "this machine",
                                                     figure_columns, figures, FIGURES)};
    ret[1] = (orr_named_table){"kernels", ORR_TABLE_("orrery.measured_kernels/1", "kernels",
                                                     kernel_columns, kernels, m->n_kernels)};
    ret[2] = (orr_named_table){
        "transfers", ORR_TABLE_("orrery.measured_transfers/1", "collectives among processes",
                                transfer_columns, transfers, m->n_transfers)};
    ret[3] = (orr_named_table){"embedding_tables", ORR_TABLE_("orrery.measured_embedding_tables/1",
                                                              "lookups in embedding tables",
                                                              table_columns, tables, m->n_tables)};
    ret[4] = (orr_named_table){"storage", ORR_TABLE_("orrery.measured_storage/1", "storage",
                                                     storage_columns, storage, n_storage)};
    return ORR_OK;
}
