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

/* Records as numbers and back: of a row's columns, then of its state. */
static void read_records(const orr_row_store *store, int64_t row, int64_t n, float *ret)
{
    for (int64_t i = row; i < row + n; i++) {
        char *record = store->base + i * store->record_bytes;
        orr_row_to_fp32(store->format, record, store->columns, ret);
        ret += store->columns;
        memcpy(ret, orr_row_store_state(store, record, i), (size_t)store->state_bytes);
        ret += state_numbers(store);
    }
}

static void write_records(const orr_row_store *store, int64_t row, int64_t n, const float *from)
{
    for (int64_t i = row; i < row + n; i++) {
        char *record = store->base + i * store->record_bytes;
        orr_row_from_fp32(store->format, from, store->columns, record);
        from += store->columns;
        memcpy(orr_row_store_state(store, record, i), from, (size_t)store->state_bytes);
        from += state_numbers(store);
    }
}

static orr_status average_store(orr_tables *t, const orr_row_store *store, orr_error *err)
{
    const int64_t numbers = store->columns + state_numbers(store),
                  room = (int64_t)(t->average.bytes / sizeof(float)) / numbers;
    const float groups = (float)t->layout.groups;
    float *at = t->average.at;
    for (int64_t row = 0; row < store->rows; row += room) {
        const int64_t n = store->rows - row < room ? store->rows - row : room;
        read_records(store, row, n, at);
        ORR_TRY(orr_all_reduce(t->groups, at, at, n * numbers, ORR_DTYPE_FP32, err));
        for (int64_t i = 0; i < n * numbers; i++)
            at[i] /= groups;
        write_records(store, row, n, at);
    }
    return ORR_OK;
}

orr_status orr_tables_average_groups(orr_tables *t, orr_error *err)
{
    for (uint32_t i = 0; i < t->n_shards; i++)
        ORR_TRY(average_store(t, &t->stores[i], err));
    return ORR_OK;
}
