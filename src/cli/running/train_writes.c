/* SPDX-License-Identifier: Apache-2.0 */
/* How rows of tables that have changed are written: in whole extents or into free sectors,
 * whichever costs the device less that `orrery bench --storage` measured. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/arguments/machine_file.h"
#include "cli/running/train.h"

/* Shares of a file's places that rows are in, where its size is not said: as
 * src/engine/tables/tiers.c makes them. */
#define USED_FRAC         (1 / 1.5)
#define DURABLE_USED_FRAC (1 / 2.5)

/* The folder, or the one that it will be made in, from the root. */
static bool resolve(const char *folder, char ret[PATH_MAX])
{
    char parent[PATH_MAX];
    if (realpath(folder, ret) != NULL)
        return true;
    if (strlen(folder) >= sizeof parent)
        return false;
    memcpy(parent, folder, strlen(folder) + 1);
    char *slash = strrchr(parent, '/');
    if (slash != NULL && slash != parent)
        *slash = '\0';
    return realpath(slash == NULL ? "." : slash == parent ? "/" : parent, ret) != NULL;
}

/* The table of the most bytes among those on the device: its rows are most of what is written. */
static const orr_embedding *largest_of(const orr_embedding_plan *plan, int64_t *ret_bytes)
{
    const orr_embedding *largest = NULL;
    *ret_bytes = 0;
    for (uint32_t i = 0; i < plan->n_tables; i++) {
        const orr_embedding *table = &plan->tables[i];
        if (plan->placements[i].tier != ORR_TIER_BLOCK)
            continue;
        *ret_bytes += orr_embedding_bytes(table);
        if (largest == NULL || orr_embedding_bytes(table) > orr_embedding_bytes(largest))
            largest = table;
    }
    return largest;
}

/* What was measured of the device under the folder; NULL: nothing. */
static orr_status measured_storage(orr_training *t, const char *folder, orr_measured *measured,
                                   const orr_measured_storage **ret)
{
    orr_session *session = &t->session;
    const char *path;
    *ret = NULL;
    ORR_TRY(orr_machine_file_path(session->settings->machine, false, session->arena, &path,
                                  &session->err));
    if (access(path, F_OK) != 0)
        return ORR_OK;
    ORR_TRY(orr_measured_load(path, session->arena, measured, &session->err));
    *ret = orr_measured_storage_of(measured, folder);
    return ORR_OK;
}

orr_status orr_training_choose_writes(orr_training *t, uint32_t ranks)
{
    const char *said = t->session.settings->row_writes;
    orr_measured measured;
    const orr_measured_storage *storage;
    orr_write_costs costs;
    char folder[PATH_MAX];
    int64_t bytes = 0;
    const orr_embedding *table =
        t->store.folder != NULL ? largest_of(&t->table_plan, &bytes) : NULL;
    t->store.holes = said != NULL && strcmp(said, "holes") == 0;
    if (table == NULL || said != NULL || !resolve(t->store.folder, folder))
        return ORR_OK;
    ORR_TRY(measured_storage(t, folder, &measured, &storage));
    double used = t->options.save != NULL ? DURABLE_USED_FRAC : USED_FRAC;
    if (t->store.file_bytes > 0)
        used = (double)bytes / (double)ranks / (double)t->store.file_bytes;
    if (used >= 1) /* too small a file is told when it is made */
        return ORR_OK;
    if (storage == NULL ||
        orr_storage_write_costs(storage, (uint32_t)orr_embedding_row_bytes(table), used, &costs,
                                NULL) != ORR_OK) {
        orr_session_remark(&t->session,
                           "changed rows are written as extents: what %s does was not measured "
                           "(orrery bench --storage %s)",
                           t->store.folder, t->store.folder);
        return ORR_OK;
    }
    t->store.holes = costs.holes;
    orr_session_remark(&t->session, "changed rows are written as %s", costs.reason);
    return ORR_OK;
}
