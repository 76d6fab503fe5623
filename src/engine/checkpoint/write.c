/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/shard_text.h"
#include "engine/checkpoint/table_image.h"
#include "io/stream/output.h"

/* Writes checkpoints: state is copied in the training thread and written in another. */

static const char *const PARTS[] = {"master", "mean", "square"};
enum { N_PARTS = 3, FACTS = 18, NUMBER_TEXT = 24, HASH_TEXT = 17 };

struct orr_checkpointer {
    char *folder;
    orr_checkpoint_metadata facts;
    const orr_parameter *parameters;
    uint32_t n;
    orr_arena *arena;          /* of names and metadata */
    orr_weight *tensors;       /* shape (n_tensors)     */
    const float **from;        /* shape (n_tensors)     */
    char (*hashes)[HASH_TEXT]; /* shape (n_tensors) */
    uint32_t n_tensors;
    orr_metadata *metadata; /* shape (n_metadata); those of the position first */
    uint32_t n_metadata;
    float *copy; /* copy of the state */
    size_t copy_bytes;
    orr_table_image *tables; /* copy of the shards of tables; NULL: none */
    orr_store *stores[ORR_TIERS];
    int64_t step; /* that is being written */
    char step_text[NUMBER_TEXT], next_text[NUMBER_TEXT], epoch_text[NUMBER_TEXT],
        made_text[NUMBER_TEXT];
    char returned_text[ORR_TEAM_MAX_RETURNED_SLOTS * NUMBER_TEXT];
    pthread_t thread;
    bool running;
    orr_status status;
    orr_error error;
    _Atomic int64_t written;
};

const char *orr_parameter_key(uint32_t place, const char *name, uint32_t nth,
                              char ret[ORR_PARAMETER_KEY_CHARS])
{
    snprintf(ret, ORR_PARAMETER_KEY_CHARS, "%u.%s.%u", place, name, nth);
    return ret;
}

static const float *part_of(const orr_parameter *p, int part)
{
    return part == 0 ? p->master : part == 1 ? p->m : p->v;
}

static bool add_metadata(orr_checkpointer *c, const char *key, const char *value)
{
    orr_metadata *m = &c->metadata[c->n_metadata++];
    *m = (orr_metadata){key, value};
    return key != NULL && value != NULL;
}

/* Where rows are that stores commit. */
static bool describe_rows(orr_checkpointer *c)
{
    const orr_checkpoint_metadata *f = &c->facts;
    orr_arena *a = c->arena;
    bool there = true;
    if (f->tables == NULL)
        return true;
    for (int tier = 0; tier < ORR_TIERS && there; tier++)
        if (f->rows[tier] != NULL)
            there = add_metadata(c, orr_arena_printf(a, "rows.%s", orr_tier_name((orr_tier)tier)),
                                 f->rows[tier]);
    return there && add_metadata(c, "tables", f->tables) &&
           add_metadata(c, "group", orr_arena_printf(a, "%u", f->group)) &&
           add_metadata(c, "generation", orr_arena_printf(a, "%u", f->generation));
}

static bool describe(orr_checkpointer *c)
{
    orr_arena *a = c->arena;
    bool there =
        add_metadata(c, "step", c->step_text) && add_metadata(c, "next", c->next_text) &&
        add_metadata(c, "returned", c->returned_text) && add_metadata(c, "epoch", c->epoch_text) &&
        add_metadata(c, "made", c->made_text) && add_metadata(c, "format", ORR_CHECKPOINT_FORMAT) &&
        add_metadata(c, "run", orr_arena_printf(a, "%016llx", (unsigned long long)c->facts.run)) &&
        add_metadata(c, "seed", orr_arena_printf(a, "%llu", (unsigned long long)c->facts.seed)) &&
        add_metadata(c, "model", c->facts.model) && add_metadata(c, "plan", c->facts.plan) &&
        add_metadata(c, "rank", orr_arena_printf(a, "%u", c->facts.rank)) &&
        add_metadata(c, "ranks", orr_arena_printf(a, "%u", c->facts.ranks)) && describe_rows(c);
    for (uint32_t i = 0; i < c->n && there; i++) {
        char name[ORR_PARAMETER_KEY_CHARS];
        const orr_parameter *p = &c->parameters[i];
        orr_parameter_key(p->place, p->name, p->nth, name);
        there = add_metadata(c, orr_arena_printf(a, "own.%s", name), orr_shard_text(p, a));
    }
    return there;
}

static bool list_tensors(orr_checkpointer *c, int64_t *ret_numbers)
{
    int64_t numbers = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const orr_parameter *p = &c->parameters[i];
        char name[ORR_PARAMETER_KEY_CHARS];
        orr_parameter_key(p->place, p->name, p->nth, name);
        for (int part = 0; part < N_PARTS; part++) {
            if (p->shard_n == 0 || part_of(p, part) == NULL)
                continue;
            c->from[c->n_tensors] = part_of(p, part);
            char *hash = c->hashes[c->n_tensors];
            orr_weight *t = &c->tensors[c->n_tensors++];
            *t = (orr_weight){.name = orr_arena_printf(c->arena, "%s/%s", name, PARTS[part]),
                              .format = ORR_ROW_FORMAT_FP32,
                              .rank = 1,
                              .dim = {p->shard_n},
                              .bytes = p->shard_n * (int64_t)sizeof(float)};
            numbers += p->shard_n;
            if (t->name == NULL ||
                !add_metadata(c, orr_arena_printf(c->arena, ORR_HASH_KEY, t->name), hash))
                return false;
        }
    }
    *ret_numbers = numbers;
    return true;
}

static bool prepare(orr_checkpointer *c)
{
    int64_t numbers;
    c->tensors = orr_arena_array(c->arena, orr_weight, (size_t)c->n * N_PARTS + 1);
    c->from = orr_arena_array(c->arena, const float *, (size_t)c->n *N_PARTS + 1);
    c->hashes = (void *)orr_arena_array(c->arena, char, ((size_t)c->n * N_PARTS + 1) * HASH_TEXT);
    c->metadata = orr_arena_array(c->arena, orr_metadata, (size_t)c->n * (1 + N_PARTS) + FACTS);
    if (c->tensors == NULL || c->from == NULL || c->hashes == NULL || c->metadata == NULL ||
        !describe(c) || !list_tensors(c, &numbers))
        return false;
    c->copy_bytes = (size_t)numbers * sizeof(float) + 64;
    c->copy = orr_malloc_aligned(c->copy_bytes);
    return c->copy != NULL;
}

orr_status orr_checkpointer_new(const char *folder, const orr_checkpoint_metadata *facts,
                                const orr_parameter *parameters, uint32_t n, orr_checkpointer **ret,
                                orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_checkpointer *c = arena != NULL ? orr_arena_one(arena, orr_checkpointer) : NULL;
    if (c == NULL) {
        orr_arena_free(arena);
        return orr_fail_memory(err);
    }
    *c = (orr_checkpointer){.facts = *facts, .parameters = parameters, .n = n, .arena = arena};
    c->folder = orr_arena_printf(arena, "%s", folder);
    if (c->folder == NULL || !prepare(c)) {
        orr_checkpointer_free(c);
        return orr_fail_memory(err);
    }
    *ret = c;
    return ORR_OK;
}

orr_status orr_checkpointer_add_tables(orr_checkpointer *c, const orr_table_part *parts, uint32_t n,
                                       orr_error *err)
{
    return orr_table_image_new(parts, n, &c->tables, err);
}

void orr_checkpointer_add_stores(orr_checkpointer *c, orr_store *const stores[ORR_TIERS])
{
    memcpy(c->stores, stores, sizeof c->stores);
}

void orr_checkpointer_settle(orr_checkpointer *c, int64_t step)
{
    for (int tier = 0; tier < ORR_TIERS; tier++)
        if (c->stores[tier] != NULL)
            orr_store_settle(c->stores[tier], step);
}

/* Waits until all stores have committed the step. */
static orr_status finish_stores(const orr_checkpointer *c, orr_error *err)
{
    for (int tier = 0; tier < ORR_TIERS; tier++) {
        int64_t step = c->step;
        if (c->stores[tier] != NULL)
            ORR_TRY(orr_store_committed(c->stores[tier], &step, err));
        if (step != c->step)
            return orr_fail(err, ORR_IO,
                            "rows of step %lld are not committed: the last are of %lld",
                            (long long)c->step, (long long)step);
    }
    return ORR_OK;
}

static orr_status make_folder(const char *path, orr_error *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return ORR_OK;
    return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
}

static orr_status write_file(orr_checkpointer *c, orr_error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/step-%08lld", c->folder, (long long)c->step);
    ORR_TRY(make_folder(c->folder, err));
    ORR_TRY(make_folder(path, err));
    snprintf(path, sizeof path, "%s/step-%08lld/rank-%05u.tables", c->folder, (long long)c->step,
             c->facts.rank);
    if (orr_table_image_bytes(c->tables) > 0)
        ORR_TRY(orr_table_image_write(c->tables, c->step, path, err));
    snprintf(path, sizeof path, "%s/step-%08lld/rank-%05u.safetensors", c->folder,
             (long long)c->step, c->facts.rank);
    for (uint32_t i = 0; i < c->n_tensors; i++)
        snprintf(c->hashes[i], HASH_TEXT, "%016llx",
                 (unsigned long long)XXH3_64bits(c->tensors[i].data, (size_t)c->tensors[i].bytes));
    const orr_weight_source source = {.tensors = c->tensors,
                                      .n = c->n_tensors,
                                      .metadata = c->metadata,
                                      .n_metadata = c->n_metadata};
    return orr_safetensors_write(&source, path, 0, err);
}

static void *run(void *ctx)
{
    orr_checkpointer *c = ctx;
    c->status = write_file(c, &c->error);
    if (c->status == ORR_OK)
        c->status = finish_stores(c, &c->error);
    if (c->status == ORR_OK)
        atomic_store(&c->written, c->step);
    return NULL;
}

orr_status orr_checkpointer_wait(orr_checkpointer *c, orr_error *err)
{
    if (c->running)
        pthread_join(c->thread, NULL);
    c->running = false;
    if (c->status != ORR_OK && err != NULL)
        *err = c->error;
    return c->status;
}

static void write_position(orr_checkpointer *c, int64_t step, const orr_team_data_cursor *data)
{
    size_t at = 0;
    c->step = step;
    snprintf(c->step_text, sizeof c->step_text, "%lld", (long long)step);
    snprintf(c->next_text, sizeof c->next_text, "%llu", (unsigned long long)data->next);
    snprintf(c->epoch_text, sizeof c->epoch_text, "%llu", (unsigned long long)data->epoch);
    snprintf(c->made_text, sizeof c->made_text, "%llu", (unsigned long long)data->made);
    c->returned_text[0] = '\0';
    for (uint32_t i = 0; i < data->n; i++)
        at += (size_t)snprintf(c->returned_text + at, sizeof c->returned_text - at, "%s%llu",
                               i > 0 ? " " : "", (unsigned long long)data->returned[i]);
}

orr_status orr_checkpointer_save(orr_checkpointer *c, int64_t step,
                                 const orr_team_data_cursor *data, orr_error *err)
{
    ORR_TRY(orr_checkpointer_wait(c, err));
    float *at = c->copy;
    for (uint32_t i = 0; i < c->n_tensors; i++) {
        memcpy(at, c->from[i], (size_t)c->tensors[i].bytes);
        c->tensors[i].data = at;
        at += c->tensors[i].dim[0];
    }
    if (c->tables != NULL)
        ORR_TRY(orr_table_image_copy(c->tables, err));
    for (int tier = 0; tier < ORR_TIERS; tier++)
        if (c->stores[tier] != NULL)
            ORR_TRY(orr_store_commit(c->stores[tier], step, err));
    write_position(c, step, data);
    if (pthread_create(&c->thread, NULL, run, c) == 0)
        c->running = true;
    else
        run(c); /* no thread: training waits */
    return ORR_OK;
}

int64_t orr_checkpointer_written(orr_checkpointer *c)
{
    return atomic_load(&c->written);
}

void orr_checkpointer_free(orr_checkpointer *c)
{
    if (c == NULL)
        return;
    if (c->running)
        pthread_join(c->thread, NULL);
    orr_free(c->copy);
    orr_table_image_free(c->tables);
    orr_arena_free(c->arena);
}

int64_t orr_checkpointer_bytes(const orr_checkpointer *c)
{
    return c != NULL ? (int64_t)c->copy_bytes + orr_table_image_bytes(c->tables) : 0;
}
