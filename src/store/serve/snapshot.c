/* SPDX-License-Identifier: Apache-2.0 */
#include "store/serve/snapshot.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

enum { SLOT_ALIGNMENT = 16, LINE = 64, SLOT_OVERHEAD = 16, SLOTS_MIN = 16, HUGE_PAGE = 2 << 20 };

static orr_status check_shards(const orr_row_file_facts *facts, orr_error *err)
{
    for (uint32_t i = 0; i < facts->n_shards; i++) {
        const orr_row_shard *s = &facts->shards[i];
        const int64_t bytes =
            s->format < ORR_ROW_FORMATS
                ? orr_row_format_bytes((orr_row_format)s->format, s->table_columns)
                : -1;
        if (s->rows <= 0 || s->first_row != 0 || s->rows != s->table_rows || s->column_begin != 0 ||
            s->column_end != s->table_columns || s->state_bytes != 0)
            return orr_fail(err, ORR_INVALID,
                            "table %s: whole tables without optimizer state are served, not shards",
                            s->table);
        if (bytes <= 0 || bytes != s->row_bytes)
            return orr_fail(err, ORR_INVALID, "table %s: rows of %u bytes, expected %lld", s->table,
                            s->row_bytes, (long long)bytes);
        if (orr_row_kernels_of_cpu()->tree[s->format] == NULL)
            return orr_fail(err, ORR_UNSUPPORTED, "table %s: rows of %s are not served", s->table,
                            orr_row_format_name((orr_row_format)s->format));
    }
    return facts->n_shards > 0 ? ORR_OK : orr_fail(err, ORR_INVALID, "no tables to serve");
}

/* Slots begin at cache lines where that costs little. */
static uint32_t padded(uint32_t bytes)
{
    const uint32_t lines = (bytes + LINE - 1) / LINE * LINE;
    return lines - bytes <= lines / 8
               ? lines
               : (bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
}

/* Entries are looked up at random, by every lookup. What is there already is moved to huge pages
 * where the kernel can (6.1). */
static void use_huge_pages(void *memory, size_t bytes)
{
    const uintptr_t begin = ((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE,
                    end = ((uintptr_t)memory + bytes) / HUGE_PAGE * HUGE_PAGE;
    if (begin >= end)
        return;
    (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#ifdef MADV_COLLAPSE
    (void)madvise((void *)begin, end - begin, MADV_COLLAPSE);
#endif
}

static void describe_tables(orr_row_snapshot *s, bool dequantize)
{
    for (uint32_t i = 0; i < s->n_tables; i++) {
        orr_served_table *t = &s->tables[i];
        t->shard = &s->facts->shards[i];
        t->entries = (orr_shared_entry *)orr_row_file_entries(s->file, i);
        s->entry_arrays[i] = t->entries;
        use_huge_pages((void *)t->entries, (size_t)t->shard->rows * sizeof *t->entries);
        t->rows = t->shard->rows;
        t->columns = t->shard->table_columns;
        t->row_bytes = t->shard->row_bytes;
        t->stored_format = (orr_row_format)t->shard->format;
        t->slot_format = dequantize ? ORR_ROW_FORMAT_FP32 : t->stored_format;
        t->slot_bytes = dequantize ? t->columns * (uint32_t)sizeof(float) : t->row_bytes;
        t->inverse = UINT64_MAX / (uint64_t)t->rows + 1;
        t->tree = orr_row_kernels_of_cpu()->tree[t->slot_format];
    }
    s->entries.of = s->entry_arrays;
}

/* A pool for each size of slots, memory in proportion to the bytes of their tables. */
static orr_status make_pools(orr_row_snapshot *s, uint64_t cache_bytes, orr_error *err)
{
    double all = 0;
    for (uint32_t i = 0; i < s->n_tables; i++)
        all += (double)s->tables[i].rows * (padded(s->tables[i].slot_bytes) + SLOT_OVERHEAD);
    for (uint32_t i = 0; i < s->n_tables; i++) {
        const uint32_t bytes = padded(s->tables[i].slot_bytes);
        uint32_t p = 0;
        while (p < s->n_pools && s->pools[p].slot_bytes != bytes)
            p++;
        s->tables[i].pool = p;
        if (p < s->n_pools)
            continue;
        double rows = 0;
        for (uint32_t j = i; j < s->n_tables; j++)
            rows += padded(s->tables[j].slot_bytes) == bytes ? (double)s->tables[j].rows : 0;
        const double share = rows / all * (double)cache_bytes;
        double n = share < rows ? share : rows;
        n = n > UINT32_MAX - SLOTS_MIN ? UINT32_MAX - SLOTS_MIN : n;
        s->n_pools++;
        ORR_TRY(orr_slot_pool_init(&s->pools[p], bytes, (uint32_t)n + SLOTS_MIN, err));
    }
    return ORR_OK;
}

static orr_status open_file(orr_row_snapshot *s, const orr_row_file_facts *facts,
                            const orr_row_server_options *options,
                            const orr_row_file_options *file_options, orr_error *err)
{
    const orr_block_open how = {
        .path = s->path, .read_only = options->read_only, .plain = options->plain};
    orr_row_file_options as = *file_options;
    orr_block_device *device;
    ORR_TRY(orr_block_device_open(&how, &device, err));
    as.durable = !options->read_only; /* recovery writes where there are to be commits */
    const orr_status status = orr_row_file_open(device, facts, -1, &as, &s->file, err);
    if (status != ORR_OK) {
        device->close(device);
        return status;
    }
    s->device = device;
    s->sector = device->sector;
    s->facts = orr_row_file_facts_of(s->file);
    return ORR_OK;
}

static orr_status open_parts(orr_row_snapshot *s, const orr_row_file_facts *facts,
                             const orr_row_server_options *options,
                             const orr_row_file_options *file_options, orr_epochs *epochs,
                             orr_error *err)
{
    uint64_t rows = 0;
    ORR_TRY(open_file(s, facts, options, file_options, err));
    ORR_TRY(check_shards(s->facts, err));
    s->n_tables = s->facts->n_shards;
    s->tables = orr_calloc(s->n_tables, sizeof *s->tables);
    s->entry_arrays = orr_calloc(s->n_tables, sizeof *s->entry_arrays);
    s->pools = orr_malloc_aligned(s->n_tables * sizeof *s->pools);
    if (s->tables == NULL || s->entry_arrays == NULL || s->pools == NULL)
        return orr_fail_memory(err);
    describe_tables(s, options->dequantize_on_load);
    for (uint32_t i = 0; i < s->n_tables; i++)
        rows += (uint64_t)s->tables[i].rows;
    ORR_TRY(make_pools(s, options->cache_bytes, err));
    return orr_pooled_init(&s->pooled, options->pooled_bytes, rows, epochs, err);
}

orr_status orr_row_snapshot_open(const char *path, const orr_row_file_facts *facts,
                                 const orr_row_server_options *options,
                                 const orr_row_file_options *file_options, orr_epochs *epochs,
                                 orr_row_snapshot **ret, orr_error *err)
{
    orr_row_snapshot *s = orr_calloc(1, sizeof *s);
    const size_t chars = strlen(path) + 1;
    if (s == NULL)
        return orr_fail_memory(err);
    s->read_only = options->read_only;
    s->path = orr_malloc(chars);
    orr_status status = ORR_OK;
    if (s->path == NULL)
        status = orr_fail_memory(err);
    else
        memcpy(s->path, path, chars);
    if (status == ORR_OK)
        status = open_parts(s, facts, options, file_options, epochs, err);
    if (status != ORR_OK) {
        orr_row_snapshot_close(s);
        return status;
    }
    *ret = s;
    return ORR_OK;
}

void orr_row_snapshot_close(orr_row_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    orr_pooled_done(&snapshot->pooled);
    for (uint32_t i = 0; i < snapshot->n_pools; i++)
        orr_slot_pool_done(&snapshot->pools[i]);
    orr_row_file_close(snapshot->file);
    orr_free(snapshot->pools);
    orr_free(snapshot->entry_arrays);
    orr_free(snapshot->tables);
    orr_free(snapshot->path);
    orr_free(snapshot);
}
