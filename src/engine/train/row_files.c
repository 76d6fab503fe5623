/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/train/row_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/tables/tables.h"

static const char *ending_of(orr_tier tier)
{
    return tier == ORR_TIER_BYTE ? "bytes" : "rows";
}

const char *orr_row_file_path(const char *folder, orr_tier tier, uint32_t rank, uint32_t generation,
                              orr_arena *arena)
{
    return generation > 1
               ? orr_arena_printf(arena, "%s/rank-%05u.%u.%s", folder, rank, generation,
                                  ending_of(tier))
               : orr_arena_printf(arena, "%s/rank-%05u.%s", folder, rank, ending_of(tier));
}

/* Digits; false: there are none. */
static bool scan_number(const char **at, uint32_t *ret)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    *ret = (uint32_t)strtoul(*at, &end, 10);
    *at = end;
    return true;
}

static bool is_row_file(const char *name, orr_tier tier, uint32_t *ret_rank,
                        uint32_t *ret_generation)
{
    const char *at = name;
    if (strncmp(at, "rank-", 5) != 0)
        return false;
    at += 5;
    *ret_generation = 1;
    if (!scan_number(&at, ret_rank) || *at++ != '.')
        return false;
    if (scan_number(&at, ret_generation) && *at++ != '.')
        return false;
    return strcmp(at, ending_of(tier)) == 0;
}

/* Visits the files that a rank looks after. */
typedef struct visitor {
    orr_status (*file)(const struct visitor *v, const char *path, uint32_t generation,
                       orr_error *err);
    orr_tier tier;
    uint32_t before; /* generation */
} visitor;

static orr_status visit(const char *folder, const visitor *v, uint32_t rank, uint32_t ranks,
                        orr_error *err)
{
    char path[4096 + 256];
    DIR *all = opendir(folder);
    orr_status status = ORR_OK;
    if (all == NULL)
        return ORR_OK; /* it is still to be made */
    for (struct dirent *entry; status == ORR_OK && (entry = readdir(all)) != NULL;) {
        uint32_t of, generation;
        if (!is_row_file(entry->d_name, v->tier, &of, &generation) || of % ranks != rank)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        status = v->file(v, path, generation, err);
    }
    closedir(all);
    return status;
}

/* A file that was begun and never committed is no loss. */
static bool has_commit(const char *path, orr_tier tier, int64_t *ret_step)
{
    const orr_block_open open = {.path = path, .read_only = true};
    const orr_block_map map = {
        .path = path, .node = -1, .read_only = true, .sector = ORR_TABLES_GRANULE};
    const orr_row_file_options options = {.durable = false};
    orr_block_device *device;
    orr_row_file *file;
    if ((tier == ORR_TIER_BYTE ? orr_block_device_map(&map, &device, NULL)
                               : orr_block_device_open(&open, &device, NULL)) != ORR_OK)
        return false;
    if (orr_row_file_open(device, NULL, -1, &options, &file, NULL) != ORR_OK) {
        device->close(device);
        return false;
    }
    *ret_step = orr_row_file_step(file);
    orr_row_file_close(file);
    return *ret_step >= 0;
}

static orr_status check_unused(const visitor *v, const char *path, uint32_t generation,
                               orr_error *err)
{
    int64_t step;
    (void)generation;
    return has_commit(path, v->tier, &step)
               ? orr_fail(err, ORR_INVALID,
                          "%s has rows of an earlier run, after step %lld: --resume goes on from "
                          "them; else name another folder, or remove it",
                          path, (long long)step)
               : ORR_OK;
}

orr_status orr_row_files_check_unused(const char *folder, orr_tier tier, uint32_t rank,
                                      uint32_t ranks, orr_error *err)
{
    const visitor v = {check_unused, tier, 0};
    return visit(folder, &v, rank, ranks, err);
}

static orr_status remove_older(const visitor *v, const char *path, uint32_t generation,
                               orr_error *err)
{
    (void)err;
    if (generation < v->before)
        (void)unlink(path);
    return ORR_OK;
}

void orr_row_files_remove_older(const char *folder, orr_tier tier, uint32_t rank, uint32_t ranks,
                                uint32_t generation)
{
    const visitor v = {remove_older, tier, generation};
    (void)visit(folder, &v, rank, ranks, NULL);
}
