/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/lifetime.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "graph/hash_index.h"

typedef struct storages {
    orr_array(orr_storage) all; /* as they are met */
    orr_hash_index index;
    uint32_t *of_tensor; /* shape (T): row of all */
} storages;

static orr_status end_of(const orr_graph *graph, orr_tensor_id id, uint64_t *ret_bytes,
                         orr_error *err)
{
    const orr_tensor *t = &graph->tensors[id];
    int64_t bytes;
    if (t->offset_bytes < 0 || t->elements < 0 || t->element_bytes < 0 ||
        __builtin_mul_overflow(t->elements, (int64_t)t->element_bytes, &bytes) ||
        __builtin_add_overflow(bytes, t->offset_bytes, &bytes))
        return orr_fail(err, ORR_INVALID,
                        "tensor %u: %lld elements of %d bytes at offset %lld do not fit a storage",
                        id, (long long)t->elements, t->element_bytes, (long long)t->offset_bytes);
    *ret_bytes = (uint64_t)bytes;
    return ORR_OK;
}

static orr_status storage_of(storages *s, const orr_tensor *tensor, uint32_t *ret_row,
                             orr_error *err)
{
    const int64_t key[2] = {tensor->storage, tensor->device};
    const uint32_t hash = orr_hash_bytes(key, sizeof key);
    orr_hash_index_probe probe = orr_hash_index_find(&s->index, hash);
    for (uint32_t row; (row = orr_hash_index_next(&s->index, &probe)) != ORR_NONE;) {
        if (s->all.at[row].id == tensor->storage && s->all.at[row].device == tensor->device) {
            *ret_row = row;
            return ORR_OK;
        }
    }
    *ret_row = (uint32_t)s->all.n;
    const orr_storage fresh = {.id = tensor->storage, .device = tensor->device, .first = ORR_NONE};
    if (!orr_array_push(&s->all, fresh) || !orr_hash_index_add(&s->index, hash, *ret_row))
        return orr_fail_memory(err);
    return ORR_OK;
}

static orr_status size_storages(storages *s, const orr_graph *graph, orr_error *err)
{
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        uint64_t bytes = 0;
        ORR_TRY(end_of(graph, t, &bytes, err));
        ORR_TRY(storage_of(s, &graph->tensors[t], &s->of_tensor[t], err));
        orr_storage *storage = &s->all.at[s->of_tensor[t]];
        if (bytes > storage->bytes)
            storage->bytes = bytes;
    }
    return ORR_OK;
}

static void find_lives(storages *s, const orr_graph *graph)
{
    for (uint32_t v = 0; v < graph->n_nodes; v++) {
        for (uint32_t i = graph->io_first[v]; i < graph->io_first[v + 1]; i++) {
            orr_storage *storage = &s->all.at[s->of_tensor[graph->io[i]]];
            if (storage->first == ORR_NONE) {
                storage->first = v;
                storage->produced = i >= graph->io_out[v];
            }
            storage->last = v;
        }
    }
}

static int by_first(const void *a_, const void *b_)
{
    const orr_storage *a = a_, *b = b_;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return (a->device > b->device) - (a->device < b->device);
}

/* A storage comes to life at a node or has died before it. */
typedef struct change {
    orr_str device;
    orr_node_id node;
    bool is_birth;
    uint64_t bytes;
} change;

static int by_device_node(const void *a_, const void *b_)
{
    const change *a = a_, *b = b_;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return (int)a->is_birth - (int)b->is_birth;
}

static orr_status sum_changes(const change *changes, size_t n, orr_storage_peak *peaks,
                              uint32_t *ret_peaks, orr_error *err)
{
    uint32_t n_peaks = 0;
    uint64_t alive = 0;
    for (size_t i = 0; i < n; i++) {
        const change *c = &changes[i];
        if (i == 0 || c->device != c[-1].device) {
            peaks[n_peaks++] = (orr_storage_peak){c->device, 0, c->node};
            alive = 0;
        }
        if (!c->is_birth)
            alive -= c->bytes;
        else if (__builtin_add_overflow(alive, c->bytes, &alive))
            return orr_fail(err, ORR_INVALID, "node %u: over 2^64 bytes of tensors alive", c->node);
        if (alive > peaks[n_peaks - 1].bytes) {
            peaks[n_peaks - 1].bytes = alive;
            peaks[n_peaks - 1].node = c->node;
        }
    }
    *ret_peaks = n_peaks;
    return ORR_OK;
}

static orr_status find_peaks(const orr_storage *storages_, uint32_t n, orr_arena *arena,
                             orr_lifetimes *lives, orr_error *err)
{
    change *changes = orr_malloc(2 * (size_t)n * sizeof *changes);
    orr_storage_peak *peaks = orr_arena_array(arena, orr_storage_peak, n);
    orr_status status = ORR_OK;
    if (changes == NULL || peaks == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) {
        const orr_storage *s = &storages_[i];
        changes[2 * (size_t)i] = (change){s->device, s->first, true, s->bytes};
        changes[2 * (size_t)i + 1] = (change){s->device, s->last + 1, false, s->bytes};
    }
    if (n > 0)
        qsort(changes, 2 * (size_t)n, sizeof *changes, by_device_node);
    ORR_TRY_OUT(status, sum_changes(changes, 2 * (size_t)n, peaks, &lives->n_peaks, err));
    lives->peaks = peaks;
out:
    orr_free(changes);
    return status;
}

static orr_status keep(storages *s, orr_arena *arena, orr_lifetimes *lives, orr_error *err)
{
    orr_storage *kept = orr_arena_array(arena, orr_storage, s->all.n);
    if (kept == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < s->all.n; i++)
        if (s->all.at[i].first != ORR_NONE)
            kept[lives->n_storages++] = s->all.at[i];
    if (lives->n_storages > 0)
        qsort(kept, lives->n_storages, sizeof *kept, by_first);
    lives->storages = kept;
    return find_peaks(kept, lives->n_storages, arena, lives, err);
}

orr_status orr_graph_lifetimes(const orr_graph *graph, orr_arena *arena, orr_lifetimes *ret,
                               orr_error *err)
{
    storages s = {.of_tensor = orr_malloc(graph->n_tensors * sizeof *s.of_tensor)};
    orr_lifetimes lives = {0};
    orr_status status = s.of_tensor ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK)
        status = size_storages(&s, graph, err);
    if (status == ORR_OK) {
        if (graph->n_tensors > 0)
            find_lives(&s, graph);
        status = keep(&s, arena, &lives, err);
    }
    if (status == ORR_OK)
        *ret = lives;
    orr_array_done(&s.all);
    orr_hash_index_done(&s.index);
    orr_free(s.of_tensor);
    return status;
}
