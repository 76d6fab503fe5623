/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/train/row_files.h"
#include "engine/train/trainer.h"
#include "model/tables/tables.h"

/* Where rows of embedding tables live that are not in memory, in training and in its checkpoints.
 *
 * A run without checkpoints keeps rows in files that nothing outlives. With them the store commits
 * rows whenever a checkpoint is saved, those in memory, too, and the checkpoint says in which
 * files. A run that resumes with the same sharding and tiers opens these as of the checkpoint's
 * step. With others it makes new files beside them, reads all rows from the old ones, and removes
 * these when a checkpoint names the new ones: at any moment the latest checkpoint is whole. */

static const orr_train_store *store_of(const orr_trainer *t)
{
    return t->training->options->store;
}

static bool saves(const orr_trainer *t)
{
    return t->training->options->save != NULL || t->training->options->export_to != NULL;
}

static uint64_t of_number(uint64_t so_far, uint64_t number)
{
    return XXH3_64bits_withSeed(&number, sizeof number, so_far);
}

/* Of everything that decides what rows mean. */
static uint64_t fingerprint(const orr_dlrm *d)
{
    uint64_t h = of_number(0, d->n_tables);
    for (uint32_t i = 0; i < d->n_tables; i++) {
        const orr_embedding *t = &d->tables[i];
        h = XXH3_64bits_withSeed(t->name, strlen(t->name), h);
        h = of_number(of_number(h, (uint64_t)t->rows), t->columns);
        h = of_number(of_number(h, t->format), t->optimizer);
    }
    return h;
}

/* What decides which rows of which rank are in which file. */
static const char *sharding_text(const orr_embedding_plan *plan, orr_arena *arena)
{
    orr_embedding_plan bare = *plan;
    orr_embedding_placement *placements =
        orr_arena_array(arena, orr_embedding_placement, plan->n_tables);
    if (placements == NULL)
        return NULL;
    memcpy(placements, plan->placements, plan->n_tables * sizeof *placements);
    for (uint32_t i = 0; i < plan->n_tables; i++)
        placements[i].cached_rows = 0;
    bare.placements = placements;
    bare.lookahead = 0;
    bare.pipeline = 0;
    bare.forward = bare.backward = ORR_EMBEDDING_CODEC_FP32;
    return orr_embedding_plan_text(&bare, arena);
}

static orr_status make_folder(orr_trainer *t, const char *path, const char **ret, orr_error *err)
{
    *ret = NULL;
    if (path == NULL)
        return ORR_OK;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    char *absolute = realpath(path, NULL);
    if (absolute == NULL)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    *ret = orr_arena_printf(t->arena, "%s", absolute);
    free(absolute);
    return *ret != NULL ? ORR_OK : orr_fail_memory(err);
}

static bool has_tier(const orr_train_store *s, int tier)
{
    return tier == ORR_TIER_BLOCK  ? s->folder != NULL
           : tier == ORR_TIER_BYTE ? s->byte_folder != NULL || s->byte_node >= -1
                                   : false;
}

/* Whether tables have rows that a tier commits: its own, or those in memory. */
static bool commits(const orr_trainer *t, int tier)
{
    const orr_embedding_plan *plan = t->training->options->tables;
    const int with = t->rows.folder[ORR_TIER_BLOCK] != NULL ? ORR_TIER_BLOCK : ORR_TIER_BYTE;
    for (uint32_t i = 0; t->rows.folder[tier] != NULL && i < plan->n_tables; i++)
        if (plan->placements[i].tier == tier ||
            (plan->placements[i].tier == ORR_TIER_DRAM && tier == with))
            return true;
    return false;
}

/* Whether the files of a checkpoint can be gone on with as they are: the same on all ranks. A rank
 * without rows has no file. */
static bool goes_on(const orr_trainer *t, const orr_checkpoint *from)
{
    char path[ORR_CHECKPOINT_PATH];
    if (from == NULL || from->table_plan == NULL || from->ranks != t->transport->ranks ||
        strcmp(from->table_plan, t->rows.sharding) != 0)
        return false;
    for (int tier = ORR_TIER_DRAM + 1; tier < ORR_TIERS; tier++) {
        bool any = false;
        for (uint32_t rank = 0; rank < from->ranks; rank++) {
            if (!orr_checkpoint_rows_path(from, rank, (orr_tier)tier, path))
                continue;
            any = true;
            if (access(path, F_OK) != 0)
                return false;
        }
        if (any != commits(t, tier))
            return false;
    }
    return true;
}

/* Bytes of this rank's rows in each tier. */
static void count_bytes(const orr_trainer *t, int64_t ret[ORR_TIERS])
{
    const orr_embedding_plan *plan = t->training->options->tables;
    memset(ret, 0, ORR_TIERS * sizeof *ret);
    for (uint32_t i = 0; i < plan->n_shards; i++)
        if (plan->shards[i].rank == t->transport->rank % plan->ranks)
            ret[plan->placements[plan->shards[i].table].tier] +=
                orr_embedding_shard_bytes(plan, &plan->shards[i]);
}

/* What is left for row caches is divided by the bytes of the rows behind them. */
static orr_status divide_memory(orr_trainer *t, orr_error *err)
{
    const int64_t memory = store_of(t)->memory_bytes;
    int64_t bytes[ORR_TIERS];
    count_bytes(t, bytes);
    const double stored = (double)bytes[ORR_TIER_BYTE] + (double)bytes[ORR_TIER_BLOCK];
    const int64_t left = memory - bytes[ORR_TIER_DRAM];
    if (stored > 0 && left <= 0)
        return orr_fail(err, ORR_LIMIT,
                        "tables that live in memory take %.1f MiB of rank %u, which leaves nothing "
                        "of %.1f MiB for rows of the others (--table-memory)",
                        (double)bytes[ORR_TIER_DRAM] / 0x1p20, t->transport->rank,
                        (double)memory / 0x1p20);
    for (int tier = ORR_TIER_DRAM + 1; tier < ORR_TIERS; tier++)
        t->rows.tiers[tier].cache_bytes =
            stored > 0 ? (uint64_t)((double)left * ((double)bytes[tier] / stored)) : 0;
    return ORR_OK;
}

static orr_block_limits limits_of(const orr_device_limits *l)
{
    return (orr_block_limits){.read_ns = l->read_ns,
                              .write_ns = l->write_ns,
                              .read_iops = l->read_iops,
                              .write_iops = l->write_iops,
                              .read_bytes = l->read_bytes_per_s,
                              .write_bytes = l->write_bytes_per_s};
}

static orr_status set_tier(orr_trainer *t, orr_tier tier, const orr_checkpoint *from,
                           orr_error *err)
{
    const orr_train_store *s = store_of(t);
    orr_trainer_rows *rows = &t->rows;
    const char *folder = rows->folder[tier];
    orr_tables_tier *to = &rows->tiers[tier];
    *to = (orr_tables_tier){.node = s->byte_node,
                            .create = !rows->resumes,
                            .step = rows->resumes ? from->step : -1,
                            .model = fingerprint(&t->training->model->dlrm),
                            .bytes = (uint64_t)s->file_bytes,
                            .policy = s->policy,
                            .writes = tier == ORR_TIER_BLOCK && s->holes
                                          ? (uint8_t)ORR_ROW_WRITES_HOLES
                                          : (uint8_t)ORR_ROW_WRITES_EXTENTS,
                            .huge_pages = true};
    if (tier == ORR_TIER_BYTE && s->byte_limits != NULL) {
        rows->byte_limits = limits_of(s->byte_limits);
        to->limits = &rows->byte_limits;
    }
    if (folder == NULL)
        return ORR_OK;
    to->durable = saves(t);
    to->path = orr_row_file_path(folder, tier, t->transport->rank, rows->generation, t->arena);
    rows->committed[tier] = to->durable;
    if (to->durable && !rows->committed[ORR_TIER_DRAM])
        to->dram = rows->committed[ORR_TIER_DRAM] = true;
    if (from == NULL || from->table_plan == NULL)
        ORR_TRY(
            orr_row_files_check_unused(folder, tier, t->transport->rank, t->transport->ranks, err));
    return to->path != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_train_place_rows(orr_trainer *t, orr_checkpoint *from, orr_error *err)
{
    const orr_train_store *s = store_of(t);
    orr_trainer_rows *rows = &t->rows;
    if (s == NULL)
        return ORR_OK;
    rows->there = true;
    rows->sharding = sharding_text(t->training->options->tables, t->arena);
    if (rows->sharding == NULL)
        return orr_fail_memory(err);
    ORR_TRY(make_folder(t, s->folder, &rows->folder[ORR_TIER_BLOCK], err));
    ORR_TRY(make_folder(t, s->byte_folder, &rows->folder[ORR_TIER_BYTE], err));
    for (int tier = 0; from != NULL && tier < ORR_TIERS; tier++)
        from->rows_folder[tier] = rows->folder[tier];
    rows->resumes = goes_on(t, from);
    for (int tier = 0; from != NULL && !rows->resumes && tier < ORR_TIERS; tier++)
        from->rows_folder[tier] = NULL;
    rows->generation = from == NULL ? 1 : from->generation + !rows->resumes;
    for (int tier = ORR_TIERS - 1; tier > ORR_TIER_DRAM; tier--)
        if (has_tier(s, tier))
            ORR_TRY(set_tier(t, (orr_tier)tier, from, err));
    return divide_memory(t, err);
}

void orr_train_describe_rows(const orr_trainer *t, orr_checkpoint_metadata *ret)
{
    const orr_trainer_rows *rows = &t->rows;
    const orr_tables *tables = orr_engine_step_tables(t->step);
    if (!rows->committed[ORR_TIER_DRAM])
        return;
    for (int tier = 0; tier < ORR_TIERS; tier++)
        if (rows->committed[tier] && orr_tables_store(tables, (orr_tier)tier) != NULL)
            ret->rows[tier] = rows->tiers[tier].path;
    ret->tables = rows->sharding;
    ret->group = t->transport->rank / t->training->options->tables->ranks;
    ret->generation = rows->generation;
}

void orr_train_stores(const orr_trainer *t, orr_store *ret[ORR_TIERS])
{
    const orr_tables *tables = orr_engine_step_tables(t->step);
    for (int tier = 0; tier < ORR_TIERS; tier++)
        ret[tier] = tables != NULL && t->rows.committed[tier]
                        ? orr_tables_store(tables, (orr_tier)tier)
                        : NULL;
}

void orr_train_remove_rows(const orr_trainer *t, bool exported)
{
    const bool kept = t->training->options->save != NULL;
    for (int tier = 0; tier < ORR_TIERS; tier++) {
        const orr_tables_tier *of = &t->rows.tiers[tier];
        if (of->path != NULL && !kept && (exported || !of->durable))
            (void)unlink(of->path);
    }
}

/* The files of the checkpoint that rows were read from, which this rank looks after. */
orr_status orr_train_remember_rows(orr_trainer *t, const orr_checkpoint *from, orr_error *err)
{
    orr_trainer_rows *rows = &t->rows;
    char path[ORR_CHECKPOINT_PATH];
    if (rows->resumes || from->table_plan == NULL)
        return ORR_OK;
    rows->old = orr_arena_array(t->arena, const char *, (size_t)from->ranks *ORR_TIERS);
    if (rows->old == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = t->transport->rank; r < from->ranks; r += t->transport->ranks)
        for (int tier = 0; tier < ORR_TIERS; tier++) {
            if (!orr_checkpoint_rows_path(from, r, (orr_tier)tier, path))
                continue;
            rows->old[rows->n_old] = orr_arena_printf(t->arena, "%s", path);
            if (rows->old[rows->n_old++] == NULL)
                return orr_fail_memory(err);
        }
    return ORR_OK;
}

void orr_train_remove_older_rows(orr_trainer *t)
{
    orr_trainer_rows *rows = &t->rows;
    for (uint32_t i = 0; i < rows->n_old; i++)
        (void)unlink(rows->old[i]);
    rows->n_old = 0;
    for (int tier = 0; tier < ORR_TIERS; tier++)
        if (rows->committed[tier] && rows->folder[tier] != NULL)
            orr_row_files_remove_older(rows->folder[tier], (orr_tier)tier, t->transport->rank,
                                       t->transport->ranks, rows->generation);
}
