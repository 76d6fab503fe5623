/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/checkpoint/table_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static const char ENDING[] = ".table";

static orr_status add_file(orr_table_folder *f, const char *folder, const char *name,
                           orr_error *err)
{
    char path[4096];
    if (f->n == f->room) {
        const uint32_t room = f->room + f->room / 2 + 8;
        orr_table_file **larger = orr_realloc(f->at, room * sizeof(orr_table_file *));
        if (larger == NULL)
            return orr_fail_memory(err);
        f->at = larger;
        f->room = room;
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ORR_TRY(orr_table_file_open(path, &f->at[f->n], err));
    f->n++;
    return ORR_OK;
}

static int by_path(const void *a_, const void *b_)
{
    const orr_table_file *const *a = a_, *const *b = b_;
    return strcmp((*a)->path, (*b)->path);
}

orr_status orr_table_folder_open(const char *folder, orr_table_folder *ret, orr_error *err)
{
    DIR *all = opendir(folder);
    orr_table_folder f = {0};
    orr_status status = ORR_OK;
    if (all == NULL)
        return orr_fail(err, ORR_IO, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; status == ORR_OK && (entry = readdir(all)) != NULL;) {
        const size_t n = strlen(entry->d_name), end = sizeof ENDING - 1;
        if (n > end && strcmp(entry->d_name + n - end, ENDING) == 0)
            status = add_file(&f, folder, entry->d_name, err);
    }
    closedir(all);
    if (status != ORR_OK) {
        orr_table_folder_close(&f);
        return status;
    }
    if (f.n > 0)
        qsort(f.at, f.n, sizeof *f.at, by_path);
    *ret = f;
    return ORR_OK;
}

void orr_table_folder_close(orr_table_folder *folder)
{
    for (uint32_t i = 0; i < folder->n; i++)
        orr_table_file_close(folder->at[i]);
    orr_free(folder->at);
}
