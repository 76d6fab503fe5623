/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel/cpu/embedding/sharded_table.h"

/* Rows as records, wherever they are kept. */

int64_t orr_row_store_bytes(const orr_row_store *store)
{
    return store->record_bytes + store->state_bytes;
}

orr_status orr_row_store_read(orr_row_store *store, int64_t first, int64_t n, char *records,
                              orr_error *err)
{
    if (store->read != NULL)
        return store->read(store, first, n, records, err);
    for (int64_t row = first; row < first + n; row++, records += orr_row_store_bytes(store)) {
        memcpy(records, store->base + row * store->record_bytes, (size_t)store->record_bytes);
        if (store->state_bytes > 0)
            memcpy(records + store->record_bytes, store->states + row * store->state_bytes,
                   (size_t)store->state_bytes);
    }
    return ORR_OK;
}

orr_status orr_row_store_write(orr_row_store *store, int64_t first, int64_t n, const char *records,
                               orr_error *err)
{
    if (store->write != NULL)
        return store->write(store, first, n, records, err);
    for (int64_t row = first; row < first + n; row++, records += orr_row_store_bytes(store)) {
        memcpy(store->base + row * store->record_bytes, records, (size_t)store->record_bytes);
        if (store->state_bytes > 0)
            memcpy(store->states + row * store->state_bytes, records + store->record_bytes,
                   (size_t)store->state_bytes);
    }
    return ORR_OK;
}
