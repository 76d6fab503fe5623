/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "rescale/data_parallel/replicate.h"

/* Sets of recorded ranks that communicate, and what becomes of them. A set that spans all replicas
 * of a stage and slice grows with the number of replicas: with dp 2 -> 4 the set {0, 4} of a job of
 * 8 becomes {0, 4, 8, 12}. Any other set, such as the two stages of a pipeline, is copied for each
 * copy of the recording. Disjoint sets are packed into one grouping, first fit. */

/* Whether the set has all replicas of each of its stages and slices, so that more replicas join it.
 * If one replica was recorded, its groups cannot be told from those within a replica. */
static bool spans_replicas(const orr_plan *from, const uint32_t *ranks, uint32_t n, bool *scratch)
{
    uint32_t seen = 0;
    if (from->dp < 2)
        return false;
    memset(scratch, 0, from->dp * sizeof *scratch);
    for (uint32_t i = 0; i < n; i++) {
        bool *replica = &scratch[orr_recorded_position_of(from, ranks[i]).replica];
        seen += !*replica;
        *replica = true;
    }
    return seen == from->dp;
}

static orr_status set_of_group(const orr_replication *s, const orr_group *group,
                               orr_replicated_set *ret, orr_error *err)
{
    uint32_t *ranks = orr_arena_array(s->arena, uint32_t, group->size);
    if (ranks == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < group->size; i++)
        ranks[i] = orr_group_rank(group, i);
    *ret = (orr_replicated_set){.ranks = ranks, .n = group->size};
    return ORR_OK;
}

static bool is_known(const orr_replication *s, const orr_group *group)
{
    if (group->size == 0 || group->size > s->job->n_ranks)
        return false;
    for (uint32_t i = 0; i < group->size; i++)
        if (orr_group_rank(group, i) >= s->job->n_ranks)
            return false;
    return true;
}

/* The process group behind a grouping of the recording, by any of its matches; a set of recorded
 * ranks may lack some of it. ORR_NONE: send and recv, or no group. */
static void groups_of_groupings(const orr_replication *s, uint32_t *group)
{
    const orr_job *job = s->job;
    for (uint32_t i = 0; i < s->base->n_groupings; i++)
        group[i] = ORR_NONE;
    for (uint32_t d = 0; d < job->n_graphs; d++)
        for (uint32_t c = 0; c < job->graphs[d]->n_comms && s->base->rendezvous != NULL; c++) {
            const orr_rendezvous_id m = s->base->rendezvous[d][c];
            if (m.grouping != ORR_NONE && job->matches[m.ordinal].collective != ORR_COLL_SEND)
                group[m.grouping] = job->matches[m.ordinal].group;
        }
}

static orr_status recorded_sets(orr_replication *s, uint32_t *group, orr_error *err)
{
    groups_of_groupings(s, group);
    for (uint32_t i = 0; i < s->base->n_groupings; i++) {
        const orr_grouping *g = &s->base->groupings[i];
        s->sets[i] = (orr_replicated_set){.ranks = g->members, .n = g->first[1]};
        if (group[i] != ORR_NONE && is_known(s, &s->job->groups[group[i]]))
            ORR_TRY(set_of_group(s, &s->job->groups[group[i]], &s->sets[i], err));
    }
    return ORR_OK;
}

/* The communications of a single recorded rank match nothing: its process groups tell its sets. */
static orr_status own_sets(orr_replication *s, orr_error *err)
{
    const orr_graph *g = s->job->graphs[0];
    s->own_first = s->n_sets;
    if (s->job->n_graphs != 1)
        return ORR_OK;
    s->own_group = orr_arena_array(s->arena, orr_group_id, g->n_groups);
    if (s->own_group == NULL)
        return orr_fail_memory(err);
    for (orr_group_id i = 0; i < g->n_groups; i++) {
        if (!is_known(s, &g->groups[i]) || g->groups[i].size < 2)
            continue;
        ORR_TRY(set_of_group(s, &g->groups[i], &s->sets[s->n_sets], err));
        s->own_group[s->n_sets++ - s->own_first] = i;
    }
    return ORR_OK;
}

/* With fewer replicas, ranks of a copied set may lose their partner. */
static orr_status check_cut(const orr_replication *s, const orr_replicated_set *set, orr_error *err)
{
    uint32_t gone = 0;
    for (uint32_t i = 0; i < set->n && !set->grows; i++)
        gone += orr_recorded_position_of(&s->from, set->ranks[i]).replica >= s->to.dp;
    if (gone == 0 || gone == set->n)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID,
                    "ranks %u and %u speak to one another in a group of %u; what they would do on "
                    "%u ranks is not known: state the plan of the recording",
                    set->ranks[0], set->ranks[set->n - 1], set->n, s->n_ranks);
}

orr_status orr_replication_find_sets(orr_replication *s, orr_error *err)
{
    const orr_ensemble *base = s->base;
    const size_t most = (size_t)base->n_groupings + s->job->graphs[0]->n_groups;
    orr_status status = ORR_OK;
    uint32_t *group = orr_malloc((base->n_groupings + (size_t)1) * sizeof *group);
    bool *scratch = orr_malloc(s->from.dp * sizeof *scratch);
    s->sets = orr_arena_array(s->arena, orr_replicated_set, most);
    s->n_sets = base->n_groupings;
    if (group == NULL || scratch == NULL || s->sets == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, recorded_sets(s, group, err));
    ORR_TRY_OUT(status, own_sets(s, err));
    for (uint32_t i = 0; i < s->n_sets; i++) {
        orr_replicated_set *set = &s->sets[i];
        set->grows = spans_replicas(&s->from, set->ranks, set->n, scratch);
        ORR_TRY_OUT(status, check_cut(s, set, err));
    }
out:
    orr_free(group);
    orr_free(scratch);
    return status;
}

/* A grouping under construction: which set a recorded rank is in. */
typedef struct packed {
    uint32_t *set_of; /* shape (recorded ranks) */
    uint32_t n_groups;
} packed;

static bool fits(const packed *p, const orr_replicated_set *set)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (p->set_of[set->ranks[i]] != ORR_NONE)
            return false;
    return true;
}

static orr_status place_set(orr_replication *s, packed *all, uint32_t *n, uint32_t set_number,
                            orr_error *err)
{
    enum { LOOK_BACK = 64 }; /* a bound on the search, not on the number of groupings */
    orr_replicated_set *set = &s->sets[set_number];
    uint32_t at = *n > LOOK_BACK ? *n - LOOK_BACK : 0;
    while (at < *n && !fits(&all[at], set))
        at++;
    if (at == *n) {
        all[at].set_of = orr_arena_array(s->arena, uint32_t, s->job->n_ranks);
        if (all[at].set_of == NULL)
            return orr_fail_memory(err);
        memset(all[at].set_of, 0xff, s->job->n_ranks * sizeof(uint32_t));
        ++*n;
    }
    for (uint32_t i = 0; i < set->n; i++)
        all[at].set_of[set->ranks[i]] = set_number;
    const uint32_t copies = (s->to.dp + s->from.dp - 1) / s->from.dp;
    set->grouping = at;
    set->number = all[at].n_groups;
    all[at].n_groups += set->grows ? 1 : copies;
    return ORR_OK;
}

/* The recorded rank at the same place in the plan. */
static uint32_t model_of(const orr_replication *s, uint32_t rank)
{
    orr_recorded_position at = orr_recorded_position_of(&s->to, rank);
    at.replica %= s->from.dp;
    return orr_recorded_rank_at(&s->from, at);
}

static orr_status finish_grouping(orr_replication *s, const packed *p, orr_grouping *ret,
                                  orr_error *err)
{
    uint32_t *group_of = orr_arena_array(s->arena, uint32_t, s->n_ranks);
    if (group_of == NULL)
        return orr_fail_memory(err);
    const orr_replicated_set *any = NULL;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        const uint32_t set_number = p->set_of[model_of(s, r)];
        group_of[r] = ORR_NONE;
        if (set_number == ORR_NONE)
            continue;
        any = &s->sets[set_number];
        const uint32_t copy = orr_recorded_position_of(&s->to, r).replica / s->from.dp;
        group_of[r] = any->number + (any->grows ? 0 : copy);
    }
    const char *name = any == NULL ? "" : any->grows ? "all replicas" : "within a replica";
    return orr_grouping_of(name, group_of, s->n_ranks, p->n_groups, s->arena, ret, err);
}

orr_status orr_replication_pack(orr_replication *s, orr_error *err)
{
    uint32_t n = 0;
    orr_status status = ORR_OK;
    packed *all = orr_calloc(s->n_sets + (size_t)1, sizeof *all);
    if (all == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < s->n_sets; i++)
        ORR_TRY_OUT(status, place_set(s, all, &n, i, err));
    orr_grouping *groupings = orr_arena_array(s->arena, orr_grouping, n);
    if (groupings == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY_OUT(status, finish_grouping(s, &all[i], &groupings[i], err));
    s->ensemble->groupings = groupings;
    s->ensemble->n_groupings = n;
out:
    orr_free(all);
    return status;
}
