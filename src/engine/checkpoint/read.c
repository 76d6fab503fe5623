/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/shard_text.h"
#include "engine/data/dataset.h"
#include "engine/step/shard_runs.h"

/* Reads checkpoints. With an unchanged plan and placement a rank reads its own file. Otherwise each
 * parameter is resharded: for every file, the part of the whole tensor that it has is split into
 * contiguous runs (step/shard_runs.h), and the runs that overlap with this rank's shard are copied.
 */

static const char *metadata_value(const orr_weights *file, const char *key)
{
    for (uint32_t i = 0; i < file->n_metadata; i++)
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    return NULL;
}

/* "step-00000200" and the hash of its manifest. */
static bool parse_latest(const char *text, size_t len, char ret[64], uint64_t *ret_hash)
{
    char again[64];
    long long step = -1;
    unsigned long long hash = 0;
    if (len >= sizeof again || sscanf(text, "step-%lld %llx", &step, &hash) != 2 || step < 0)
        return false;
    snprintf(again, sizeof again, ORR_LATEST_FORMAT, step, hash);
    snprintf(ret, 64, "step-%08lld", step);
    *ret_hash = hash;
    return strcmp(text, again) == 0 && strlen(text) == len;
}

static orr_status read_latest(const char *folder, char ret[64], uint64_t *ret_hash, orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    char path[4096];
    const char *text;
    size_t len;
    if (arena == NULL)
        return orr_fail_memory(err);
    snprintf(path, sizeof path, "%s/latest", folder);
    orr_status status = orr_dataset_read_file(path, arena, &text, &len, err);
    if (status == ORR_IO)
        status = orr_fail(err, ORR_NOT_FOUND, "%s: there is no checkpoint to go on from", folder);
    if (status == ORR_OK && !parse_latest(text, len, ret, ret_hash))
        status = orr_fail(err, ORR_PARSE,
                          "%s does not name a checkpoint and the hash of its manifest", path);
    orr_arena_free(arena);
    return status;
}

static orr_status open_file(const char *folder, const char *step, uint32_t rank, orr_weights **ret,
                            orr_error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/rank-%05u.safetensors", folder, step, rank);
    return orr_weights_open(path, ret, err);
}

/* Files without a position have trained one batch a step, from the first. */
static bool read_position(orr_checkpoint *c, const orr_weights *first)
{
    const char *text = metadata_value(first, "next"), *returned = metadata_value(first, "returned");
    const char *epoch = metadata_value(first, "epoch");
    orr_number_text s = {.at = text};
    c->data = (orr_team_data_cursor){.next = (uint64_t)c->step};
    if (text == NULL || returned == NULL)
        return true;
    c->data.next = (uint64_t)orr_number_text_next(&s);
    for (s.at = returned; *s.at != '\0' && !s.failed; c->data.n++) {
        if (c->data.n == ORR_TEAM_MAX_RETURNED_SLOTS)
            return false;
        const uint64_t slot = (uint64_t)orr_number_text_next(&s);
        const uint32_t n = c->data.n;
        if (slot >= c->data.next || (n > 0 && slot <= c->data.returned[n - 1]))
            return false;
        c->data.returned[n] = slot;
    }
    s.at = epoch;
    c->data.epoch = epoch != NULL && !s.failed ? (uint64_t)orr_number_text_next(&s) : 0;
    s.at = metadata_value(first, "made");
    c->data.made = s.at != NULL && !s.failed ? (uint64_t)orr_number_text_next(&s) : 0;
    return !s.failed;
}

static orr_status read_facts(orr_checkpoint *c, const orr_weights *first, const char *folder,
                             orr_error *err)
{
    const char *format = metadata_value(first, "format"), *step = metadata_value(first, "step");
    const char *seed = metadata_value(first, "seed"), *ranks = metadata_value(first, "ranks");
    const char *run = metadata_value(first, "run");
    c->plan = metadata_value(first, "plan");
    c->model = metadata_value(first, "model");
    if (format == NULL || strcmp(format, ORR_CHECKPOINT_FORMAT) != 0 || run == NULL ||
        step == NULL || seed == NULL || ranks == NULL || c->plan == NULL || c->model == NULL)
        return orr_fail(err, ORR_INVALID, "%s: not a checkpoint of training", folder);
    c->table_plan = metadata_value(first, "tables");
    const char *generation = metadata_value(first, "generation");
    c->generation = generation != NULL ? (uint32_t)strtoul(generation, NULL, 10) : 0;
    c->step = strtoll(step, NULL, 10);
    c->seed = strtoull(seed, NULL, 10);
    c->run = strtoull(run, NULL, 16);
    if (c->step < 0 || !read_position(c, first))
        return orr_fail(err, ORR_INVALID, "%s: the checkpoint does not say which data come next",
                        folder);
    const unsigned long n = strtoul(ranks, NULL, 10);
    if (n < 1 || n > 1u << 20)
        return orr_fail(err, ORR_INVALID, "%s: a checkpoint of %lu ranks", folder, n);
    c->ranks = (uint32_t)n;
    return ORR_OK;
}

/* A rank's file has to be of the same run, step and plan as the first. */
static orr_status check_rank(const orr_weights *first, const orr_weights *file, uint32_t rank,
                             orr_error *err)
{
    static const char *const same[] = {"format", "run", "step", "seed", "model", "plan", "ranks"};
    const char *number = metadata_value(file, "rank");
    if (number == NULL || strtoul(number, NULL, 10) != rank)
        return orr_fail(err, ORR_PARSE, "%s is of rank %s", file->path,
                        number != NULL ? number : "none");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const char *want = metadata_value(first, same[i]), *is = metadata_value(file, same[i]);
        if (want == NULL || is == NULL || strcmp(want, is) != 0)
            return orr_fail(err, ORR_PARSE, "%s is of %s %.200s, that of rank 0 of %.200s",
                            file->path, same[i], is != NULL ? is : "(none)",
                            want != NULL ? want : "(none)");
    }
    return ORR_OK;
}

/* A rank without shards of tables has no such file. */
static orr_status open_tables(const char *folder, const char *step, uint32_t rank,
                              orr_table_file **ret, orr_error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/rank-%05u.tables", folder, step, rank);
    const orr_status status = orr_table_file_open(path, ret, err);
    return status == ORR_NOT_FOUND ? ORR_OK : status;
}

orr_status orr_checkpoint_open(const char *folder, orr_checkpoint **ret, orr_error *err)
{
    char step[64], path[4096];
    uint64_t hash;
    orr_weights *first = NULL;
    orr_status status;
    ORR_TRY(read_latest(folder, step, &hash, err));
    orr_checkpoint *c = orr_calloc(1, sizeof *c);
    if (c == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, open_file(folder, step, 0, &first, err));
    status = read_facts(c, first, folder, err);
    c->files = status == ORR_OK ? orr_calloc(c->ranks, sizeof *c->files) : NULL;
    if (c->files == NULL) {
        orr_weights_close(first);
        status = status == ORR_OK ? orr_fail_memory(err) : status;
        goto out;
    }
    c->files[0] = first;
    for (uint32_t r = 1; r < c->ranks; r++)
        ORR_TRY_OUT(status, open_file(folder, step, r, &c->files[r], err));
    for (uint32_t r = 0; r < c->ranks; r++)
        ORR_TRY_OUT(status, check_rank(first, c->files[r], r, err));
    c->tables = orr_calloc(c->ranks, sizeof *c->tables);
    ORR_TRY_OUT(status, c->tables != NULL ? ORR_OK : orr_fail_memory(err));
    for (uint32_t r = 0; r < c->ranks; r++)
        ORR_TRY_OUT(status, open_tables(folder, step, r, &c->tables[r], err));
    snprintf(path, sizeof path, "%s/%s", folder, step);
    ORR_TRY_OUT(status, orr_manifest_check(path, hash, err));
    *ret = c;
out:
    if (status != ORR_OK)
        orr_checkpoint_close(c);
    return status;
}

void orr_checkpoint_close(orr_checkpoint *c)
{
    if (c == NULL)
        return;
    for (uint32_t r = 0; r < c->ranks && c->files != NULL; r++)
        orr_weights_close(c->files[r]);
    for (uint32_t r = 0; r < c->ranks && c->tables != NULL; r++)
        orr_table_file_close(c->tables[r]);
    orr_free(c->tables);
    orr_free(c->files);
    orr_free(c);
}

bool orr_checkpoint_rows_path(const orr_checkpoint *c, uint32_t rank, orr_tier tier,
                              char ret[ORR_CHECKPOINT_PATH])
{
    char key[32];
    snprintf(key, sizeof key, "rows.%s", orr_tier_name(tier));
    const char *was = metadata_value(c->files[rank], key);
    if (was == NULL)
        return false;
    const char *slash = strrchr(was, '/'), *folder = c->rows_folder[tier];
    if (folder != NULL)
        snprintf(ret, ORR_CHECKPOINT_PATH, "%s/%s", folder, slash != NULL ? slash + 1 : was);
    else
        snprintf(ret, ORR_CHECKPOINT_PATH, "%s", was);
    return true;
}

uint32_t orr_checkpoint_group(const orr_checkpoint *c, uint32_t rank)
{
    const char *group = metadata_value(c->files[rank], "group");
    return group != NULL ? (uint32_t)strtoul(group, NULL, 10) : 0;
}

static orr_status check_hash(const orr_weights *file, const orr_weight *tensor, orr_error *err)
{
    char key[ORR_PARAMETER_KEY_CHARS + 32], hash[24];
    snprintf(key, sizeof key, ORR_HASH_KEY, tensor->name);
    const char *want = metadata_value(file, key);
    snprintf(hash, sizeof hash, "%016llx",
             (unsigned long long)XXH3_64bits(tensor->data, (size_t)tensor->bytes));
    return want != NULL && strcmp(want, hash) == 0
               ? ORR_OK
               : orr_fail(err, ORR_PARSE, "%s: tensor %s is damaged: its hash differs", file->path,
                          tensor->name);
}

typedef struct filling {
    const float *from;
    float *to;
    int64_t begin;
} filling;

static void put_run(void *ctx, int64_t own, int64_t whole, int64_t n)
{
    const filling *f = ctx;
    memcpy(f->to + whole, f->from + (own - f->begin), (size_t)n * sizeof(float));
}

/* Copies what the file has of a parameter, by its text. */
static orr_status put_part(const orr_weights *file, const char *parameter, const char *part,
                           const orr_shard_part *p, float *ret, int64_t elements, orr_error *err)
{
    char key[ORR_PARAMETER_KEY_CHARS + 16];
    if (orr_type_elements(&p->own.whole) != elements)
        return orr_fail(err, ORR_INVALID, "%s: %s has %lld numbers and should have %lld",
                        file->path, parameter, (long long)orr_type_elements(&p->own.whole),
                        (long long)elements);
    snprintf(key, sizeof key, "%s/%s", parameter, part);
    const orr_weight *tensor = orr_weights_find(file, key);
    if (p->n == 0 || tensor == NULL)
        return ORR_OK;
    if (tensor->bytes != p->n * (int64_t)sizeof(float))
        return orr_fail(err, ORR_INVALID, "%s: %s has %lld bytes and should have %lld", file->path,
                        key, (long long)tensor->bytes, (long long)p->n * 4);
    ORR_TRY(check_hash(file, tensor, err));
    filling f = {tensor->data, ret, p->begin};
    orr_shard_runs(&p->own, &p->type, p->begin, p->n, put_run, &f);
    return ORR_OK;
}

static orr_status add_part(const orr_weights *file, const char *parameter, const char *part,
                           float *ret, int64_t elements, bool *ret_any, orr_error *err)
{
    char key[ORR_PARAMETER_KEY_CHARS + 16], what[4096];
    orr_shard_part p;
    snprintf(key, sizeof key, "own.%s", parameter);
    const char *text = metadata_value(file, key);
    if (text == NULL)
        return ORR_OK;
    *ret_any = true;
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    snprintf(what, sizeof what, "%s: '%s'", file->path, key);
    orr_status status = orr_shard_text_read(text, what, arena, &p, err);
    if (status == ORR_OK)
        status = put_part(file, parameter, part, &p, ret, elements, err);
    orr_arena_free(arena);
    return status;
}

orr_status orr_checkpoint_read_tensor(const orr_checkpoint *c, const char *parameter,
                                      const char *part, float *ret, int64_t elements,
                                      orr_error *err)
{
    bool any = false;
    memset(ret, 0, (size_t)elements * sizeof *ret);
    for (uint32_t r = 0; r < c->ranks; r++)
        ORR_TRY(add_part(c->files[r], parameter, part, ret, elements, &any, err));
    return any ? ORR_OK
               : orr_fail(err, ORR_INVALID, "the checkpoint has no parameter %s", parameter);
}

static void get_run(void *ctx, int64_t own, int64_t whole, int64_t n)
{
    const filling *f = ctx;
    memcpy(f->to + (own - f->begin), f->from + whole, (size_t)n * sizeof(float));
}

/* Reads this rank's shard of one tensor, from whichever files have its numbers. */
static orr_status restore_resharded(const orr_checkpoint *c, const orr_parameter *p,
                                    const char *name, const char *part, float *to, orr_error *err)
{
    const int64_t elements = orr_type_elements(&p->own.whole);
    float *whole = orr_malloc((size_t)elements * sizeof *whole);
    if (whole == NULL)
        return orr_fail_memory(err);
    const orr_status status = orr_checkpoint_read_tensor(c, name, part, whole, elements, err);
    filling f = {whole, to, p->shard_begin};
    if (status == ORR_OK)
        orr_shard_runs(&p->own, &p->type, p->shard_begin, p->shard_n, get_run, &f);
    orr_free(whole);
    return status;
}

static orr_status restore_same(const orr_weights *file, const orr_parameter *p, const char *name,
                               const char *part, float *to, orr_error *err)
{
    char key[ORR_PARAMETER_KEY_CHARS + 16];
    snprintf(key, sizeof key, "%s/%s", name, part);
    const orr_weight *tensor = orr_weights_find(file, key);
    if (tensor == NULL || tensor->bytes != p->shard_n * (int64_t)sizeof(float))
        return orr_fail(err, ORR_INVALID, "%s: %s is not there, or not of %lld numbers", file->path,
                        key, (long long)p->shard_n);
    memcpy(to, tensor->data, (size_t)tensor->bytes);
    return check_hash(file, tensor, err);
}

/* Whether the rank's file has this very shard. *ret_same: false as well where the file does not
 * say. */
static orr_status compare_shards(const orr_weights *file, const orr_parameter *p, const char *name,
                                 bool *ret_same, orr_error *err)
{
    char key[ORR_PARAMETER_KEY_CHARS + 16];
    orr_arena *arena = orr_arena_new(0, 0);
    const char *mine = arena != NULL ? orr_shard_text(p, arena) : NULL;
    snprintf(key, sizeof key, "own.%s", name);
    const char *theirs = metadata_value(file, key);
    *ret_same = mine != NULL && theirs != NULL && strcmp(mine, theirs) == 0;
    const orr_status status = mine != NULL ? ORR_OK : orr_fail_memory(err);
    orr_arena_free(arena);
    return status;
}

static orr_status restore_one(const orr_checkpoint *c, const orr_parameter *p, uint32_t rank,
                              bool same_plan, orr_error *err)
{
    static const char *const parts[] = {"master", "mean", "square"};
    float *const to[] = {p->master, p->m, p->v};
    char name[ORR_PARAMETER_KEY_CHARS];
    bool same = same_plan;
    orr_parameter_key(p->place, p->name, p->nth, name);
    if (same_plan)
        ORR_TRY(compare_shards(c->files[rank], p, name, &same, err));
    for (int part = 0; part < 3; part++) {
        if (p->shard_n == 0 || to[part] == NULL)
            continue;
        ORR_TRY(same ? restore_same(c->files[rank], p, name, parts[part], to[part], err)
                     : restore_resharded(c, p, name, parts[part], to[part], err));
    }
    return ORR_OK;
}

orr_status orr_checkpoint_restore(const orr_checkpoint *c, const orr_checkpoint_metadata *facts,
                                  const orr_parameter *parameters, uint32_t n, orr_error *err)
{
    const bool same_plan = c->ranks == facts->ranks && strcmp(c->plan, facts->plan) == 0;
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(restore_one(c, &parameters[i], facts->rank, same_plan, err));
    return ORR_OK;
}

static orr_status verify_tables(const orr_table_file *file, int64_t *bytes, orr_error *err)
{
    for (uint32_t i = 0; file != NULL && i < file->n; i++) {
        orr_table_reader reader;
        uint8_t one;
        ORR_TRY(orr_table_reader_open(file, &file->pieces[i], &reader, err));
        orr_status status = ORR_OK;
        for (int64_t at = 0; at < file->pieces[i].layout.bytes && status == ORR_OK;
             at += ORR_TABLE_CHUNK)
            status = orr_table_read(&reader, at, 1, &one, err); /* checks the whole chunk */
        orr_table_reader_close(&reader);
        ORR_TRY(status);
        *bytes += file->pieces[i].layout.piece_bytes;
    }
    return ORR_OK;
}

orr_status orr_checkpoint_verify(const orr_checkpoint *c, int64_t *ret_bytes, orr_error *err)
{
    int64_t bytes = 0;
    for (uint32_t r = 0; r < c->ranks; r++) {
        for (uint32_t i = 0; i < c->files[r]->n; i++)
            ORR_TRY(check_hash(c->files[r], &c->files[r]->tensors[i], err));
        bytes += c->files[r]->bytes;
        ORR_TRY(verify_tables(c->tables[r], &bytes, err));
    }
    *ret_bytes = bytes;
    return ORR_OK;
}
