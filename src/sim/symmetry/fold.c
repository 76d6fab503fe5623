/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/symmetry/fold.h"

static orr_status keep_groups(const orr_ensemble *ensemble, orr_arena *arena, orr_fold *fold,
                              orr_error *err)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < ensemble->n_groupings; k++)
        n += ensemble->groupings[k].n_groups;
    if (n > UINT32_MAX - 1)
        return orr_fail(err, ORR_LIMIT, "over 2^32 - 2 groups");
    orr_fold_group *groups = orr_arena_array(arena, orr_fold_group, n);
    if (groups == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < ensemble->n_groupings; k++)
        for (uint32_t g = 0; g < ensemble->groupings[k].n_groups; g++)
            groups[fold->n_groups++] = (orr_fold_group){k, g};
    fold->groups = groups;
    return ORR_OK;
}

orr_status orr_fold_none(const orr_ensemble *ensemble, orr_arena *arena, orr_fold *ret,
                         orr_error *err)
{
    const uint32_t n = ensemble->n_ranks;
    uint32_t *class_of_rank = orr_arena_array(arena, uint32_t, n);
    uint32_t *first_rank = orr_arena_array(arena, uint32_t, n);
    uint32_t *n_ranks = orr_arena_array(arena, uint32_t, n);
    orr_fold fold = {.class_of_rank = class_of_rank, .first_rank = first_rank, .n_ranks = n_ranks};
    if (class_of_rank == NULL || first_rank == NULL || n_ranks == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < n; r++) {
        class_of_rank[r] = ORR_NONE;
        if (ensemble->graph_of_rank[r] == ORR_NONE)
            continue;
        class_of_rank[r] = fold.n_classes;
        first_rank[fold.n_classes] = r;
        n_ranks[fold.n_classes++] = ensemble->multiplicity ? ensemble->multiplicity[r] : 1;
    }
    ORR_TRY(keep_groups(ensemble, arena, &fold, err));
    *ret = fold;
    return ORR_OK;
}
