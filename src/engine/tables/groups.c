/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/tables/tables_state.h"
#include "kernel/format/row.h"

/* Averages of tables over groups that each learned from their own samples (2D sharding, arXiv
 * 2508.03854): all rows with their state, summed in the order of groups. */

static int64_t state_numbers(const orr_row_store *store)
{
    return store->state_bytes / (int64_t)sizeof(float);
}

/* Records as numbers, of a row's columns, then of its state, and back. */
static void read_numbers(const orr_row_store *store, const char *record, int64_t n, float *ret)
{
    for (int64_t i = 0; i < n; i++, record += orr_row_store_bytes(store)) {
        orr_row_to_fp32(store->format, record, store->columns, ret);
        ret += store->columns;
        memcpy(ret, record + store->record_bytes, (size_t)store->state_bytes);
        ret += state_numbers(store);
    }
}

static void write_numbers(const orr_row_store *store, const float *from, int64_t n, char *record)
{
    for (int64_t i = 0; i < n; i++, record += orr_row_store_bytes(store)) {
        orr_row_from_fp32(store->format, from, store->columns, record);
        from += store->columns;
        memcpy(record + store->record_bytes, from, (size_t)store->state_bytes);
        from += state_numbers(store);
    }
}

static orr_status average_store(orr_tables *t, orr_row_store *store, orr_error *err)
{
    const int64_t numbers = store->columns + state_numbers(store),
                  bytes = numbers * (int64_t)sizeof(float) + orr_row_store_bytes(store),
                  room = (int64_t)t->average.bytes / bytes;
    const float groups = (float)t->layout.groups;
    float *at = t->average.at;
    char *records = (char *)(at + room * numbers);
    for (int64_t row = 0; row < store->rows; row += room) {
        const int64_t n = store->rows - row < room ? store->rows - row : room;
        ORR_TRY(orr_row_store_read(store, row, n, records, err));
        read_numbers(store, records, n, at);
        ORR_TRY(orr_all_reduce(t->groups, at, at, n * numbers, ORR_DTYPE_FP32, err));
        for (int64_t i = 0; i < n * numbers; i++)
            at[i] /= groups;
        write_numbers(store, at, n, records);
        ORR_TRY(orr_row_store_write(store, row, n, records, err));
    }
    return ORR_OK;
}

orr_status orr_tables_average_groups(orr_tables *t, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_tables_hold(t, true);
    for (uint32_t i = 0; i < t->n_shards && status == ORR_OK; i++)
        status = average_store(t, &t->stores[i], err);
    orr_tables_hold(t, false);
    return status;
}
