/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/workers.h"
#include "kernel/cpu/embedding/row_update.h"

/* The update of a shard. Gradients of bags are gathered once, so that a shard's columns of all
 * samples stand side by side in whole blocks: they are read for each lookup, from the caches. */
enum { GATHER_SAMPLES = 256 };

typedef struct gather {
    const orr_shard_update *update;
    int64_t columns, padded, samples;
    float *to; /* shape (samples, padded) */
} gather;

static int64_t padded_columns(const orr_shard_update *update)
{
    const int64_t block = ORR_EMBEDDING_BLOCK;
    return (update->lookups->store->columns + block - 1) / block * block;
}

/* Numbers that lookups are sorted by. */
static int64_t slots_of(const orr_shard_lookups *l)
{
    return l->slots != NULL ? l->store->slots : l->store->rows;
}

static size_t gradient_bytes(const orr_shard_update *update)
{
    return (size_t)(update->lookups->samples * padded_columns(update)) * sizeof(float);
}

size_t orr_shard_update_bytes(const orr_shard_update *update)
{
    const orr_shard_lookups *l = update->lookups;
    const size_t sorted = (orr_sorted_lookups_bytes(l->n, slots_of(l)) + 63) / 64 * 64;
    return gradient_bytes(update) + sorted +
           orr_row_update_bytes(l->store, update, l->n,
                                orr_sorted_lookups_ranges(l->n, slots_of(l)));
}

static void gather_samples(void *ctx, size_t part, int thread)
{
    (void)thread;
    const gather *g = ctx;
    const int64_t begin = (int64_t)part * GATHER_SAMPLES,
                  end = g->samples - begin < GATHER_SAMPLES ? g->samples : begin + GATHER_SAMPLES;
    for (int64_t s = begin; s < end; s++) {
        float *to = g->to + s * g->padded;
        memcpy(to, g->update->gradient + s * g->update->gradient_stride,
               (size_t)g->columns * sizeof *to);
        memset(to + g->columns, 0, (size_t)(g->padded - g->columns) * sizeof *to);
    }
}

orr_status orr_shard_update_run(const orr_shard_update *update, void *workspace,
                                orr_workers *workers, orr_error *err)
{
    const orr_shard_lookups *l = update->lookups;
    const orr_operand operand = {.type = {.dtype = ORR_DTYPE_INT64, .rank = 1, .dim = {l->n}},
                                 .stride = {1},
                                 .data = (void *)(uintptr_t)l->ids};
    const orr_indices ids = orr_indices_of(&operand);
    const int64_t columns = padded_columns(update);
    gather g = {update, l->store->columns, columns, l->samples, workspace};
    orr_row_update u = {
        .store = l->store,
        .by = update->by,
        .shard = update,
        .gradient = {.base = workspace,
                     .rows = l->samples,
                     .columns = columns,
                     .row_bytes = columns * (int64_t)sizeof(float),
                     .format = ORR_ROW_FORMAT_FP32},
        .lookups = {.ids = &ids, .slots = l->slots, .lengths = l->lengths, .rows = slots_of(l)}};
    ORR_TRY(orr_row_update_check(l->store, "update of a table's shard", err));
    if (l->n == 0 && update->sum_squares == NULL)
        return ORR_OK;
    char *room = (char *)workspace + gradient_bytes(update);
    orr_workers_run(workers, (size_t)((l->samples + GATHER_SAMPLES - 1) / GATHER_SAMPLES),
                    gather_samples, &g);
    ORR_TRY(orr_sorted_lookups_partition(&u.lookups, room, workers, err));
    room += (orr_sorted_lookups_bytes(l->n, slots_of(l)) + 63) / 64 * 64;
    return orr_row_update_run(&u, room, workers, err);
}
