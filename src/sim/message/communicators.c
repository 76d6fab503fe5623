/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/message/collective_plan.h"

#include <inttypes.h>

orr_status orr_planner_init(orr_planner *planner, const orr_astra_job *job, orr_arena *arena,
                            orr_error *err)
{
    const orr_astra_network *network = job->network;
    *planner = (orr_planner){.job = job, .arena = arena};
    planner->of_group =
        orr_arena_array(arena, orr_message_group *, job->groups != NULL ? job->groups->n : 0);
    if (planner->of_group == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < network->n_dims && network->n_dims > 1; d++) {
        uint32_t *pos = orr_arena_array(arena, uint32_t, network->n_ranks);
        if (pos == NULL)
            return orr_fail_memory(err);
        for (uint32_t rank = 0; rank < network->n_ranks; rank++)
            pos[rank] = rank / network->stride[d] % network->size[d];
        planner->pos[d] = pos;
    }
    return ORR_OK;
}

void orr_planner_done(orr_planner *planner)
{
    orr_array_done(&planner->communicators);
}

static orr_message_group *add(orr_planner *planner, orr_error *err)
{
    orr_message_group *members = orr_arena_one(planner->arena, orr_message_group);
    if (members == NULL || !orr_array_push(&planner->communicators, members)) {
        (void)orr_fail_memory(err);
        return NULL;
    }
    members->number = (uint32_t)planner->communicators.n - 1;
    return members;
}

/* Ranks of a slice and their places: the dimensions that take part are counted through, the
 * lowest fastest. */
static orr_status fill_slice(orr_planner *planner, orr_message_group *members, orr_error *err)
{
    const orr_astra_network *network = planner->job->network;
    uint32_t *pos[ORR_ASTRA_DIMS] = {0};
    uint32_t *ranks = orr_arena_array(planner->arena, uint32_t, members->n);
    if (ranks == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < network->n_dims; d++)
        if (members->dims[d].n > 1 &&
            (pos[d] = orr_arena_array(planner->arena, uint32_t, members->n)) == NULL)
            return orr_fail_memory(err);
    for (uint32_t m = 0; m < members->n; m++) {
        uint32_t left = m;
        ranks[m] = members->first;
        for (uint32_t d = 0; d < network->n_dims; d++) {
            if (members->dims[d].n == 1)
                continue;
            pos[d][m] = left % members->dims[d].n;
            left /= members->dims[d].n;
            ranks[m] += pos[d][m] * network->stride[d];
        }
    }
    members->ranks = ranks;
    for (uint32_t d = 0; d < network->n_dims; d++)
        members->dims[d].pos = pos[d];
    return ORR_OK;
}

orr_status orr_planner_slice(orr_planner *planner, uint32_t rank, uint32_t mask,
                             orr_message_group **ret, orr_error *err)
{
    const orr_astra_network *network = planner->job->network;
    const uint32_t every = (UINT32_C(1) << network->n_dims) - 1;
    uint32_t first = rank;
    mask &= every;
    for (uint32_t d = 0; d < network->n_dims; d++)
        if (mask >> d & 1)
            first -= rank / network->stride[d] % network->size[d] * network->stride[d];
    for (size_t i = planner->communicators.n; i-- > 0;) {
        orr_message_group *old = planner->communicators.at[i];
        if (old->group == 0 && old->mask == mask && old->first == first) {
            *ret = old;
            return ORR_OK;
        }
    }
    orr_message_group *members = add(planner, err);
    if (members == NULL)
        return ORR_NO_MEMORY;
    members->mask = mask;
    members->first = first;
    members->n_dims = network->n_dims;
    members->n = 1;
    for (uint32_t d = 0; d < network->n_dims; d++) {
        const bool walked = mask >> d & 1;
        members->dims[d] = (orr_line){.n = walked ? network->size[d] : 1,
                                      .stride = members->n,
                                      .pos = planner->pos[d],
                                      .dim = (int32_t)d};
        members->n *= members->dims[d].n;
    }
    if (mask != every)
        ORR_TRY(fill_slice(planner, members, err));
    *ret = members;
    return ORR_OK;
}

orr_status orr_planner_group(orr_planner *planner, uint32_t number, orr_message_group **ret,
                             orr_error *err)
{
    const orr_astra_group *group = &planner->job->groups->at[number];
    const uint32_t n_ranks = planner->job->network->n_ranks;
    orr_message_group *all = NULL;
    if (planner->of_group[number] != NULL) {
        *ret = planner->of_group[number];
        return ORR_OK;
    }
    for (uint32_t i = 0; i < group->n; i++)
        if (group->ranks[i] >= n_ranks)
            return orr_fail(err, ORR_INVALID,
                            "communication group %" PRId64 ": rank %u of a network of %u",
                            group->id, group->ranks[i], n_ranks);
    if (group->n == n_ranks)
        ORR_TRY(orr_planner_slice(planner, 0, UINT32_MAX, &all, err));
    orr_message_group *members = add(planner, err);
    if (members == NULL)
        return ORR_NO_MEMORY;
    const uint32_t place = members->number;
    if (all != NULL)
        *members = *all;
    else
        *members = (orr_message_group){.n = group->n,
                                       .ranks = group->ranks,
                                       .local = true,
                                       .n_dims = 1,
                                       .dims = {{.n = group->n, .stride = 1, .dim = -1}}};
    members->number = place;
    members->group = group->id;
    members->plans = NULL;
    planner->of_group[number] = members;
    *ret = members;
    return ORR_OK;
}

uint32_t orr_communicator_member(const orr_planner *planner, const orr_message_group *members,
                                 uint32_t rank)
{
    const orr_astra_network *network = planner->job->network;
    if (members->ranks == NULL)
        return rank;
    if (members->group != 0) {
        for (uint32_t m = 0; m < members->n; m++)
            if (members->ranks[m] == rank)
                return m;
        return ORR_NONE;
    }
    uint32_t member = 0;
    for (uint32_t d = 0; d < network->n_dims; d++)
        if (members->dims[d].n > 1)
            member += rank / network->stride[d] % network->size[d] * members->dims[d].stride;
    return member;
}
