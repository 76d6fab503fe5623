/* SPDX-License-Identifier: Apache-2.0 */
#include "team/protocol/roster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Computes the next epoch in three steps: the committed step to go on from and what is carried
 * (settle_step), the members and their roles (admit, is_up_to_date), and the data slots of the
 * contributors (keep_slots, assign_slots). The rules stand in roster.h. */

/* Whether the replica has a complete state. */
static bool has_state(const orr_member_report *r)
{
    return r->step != ORR_TEAM_NONE;
}

/* Whether the state is of a branch that this coordinator never saw committed: the team gave it up
 * while its owner was away. */
static bool is_foreign(const orr_membership *memory, const orr_member_report *r)
{
    return !memory->uncommitted &&
           (r->step > memory->step || (r->step == memory->step && r->data.made != memory->made));
}

/* The order of states. A restarted coordinator prefers the branch of the later epoch, since the
 * team had gone on with that. */
static bool is_further(const orr_membership *memory, const orr_member_report *a,
                       const orr_member_report *b)
{
    const bool later = a->data.epoch > b->data.epoch, same = a->data.epoch == b->data.epoch;
    if (memory->uncommitted)
        return later || (same && a->step > b->step);
    return a->step > b->step || (a->step == b->step && later);
}

/* The furthest state that any candidate has; NULL: none has one. */
static const orr_member_report *furthest(const orr_membership *memory,
                                         const orr_epoch_candidate *candidates, uint32_t n)
{
    const orr_member_report *best = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const orr_member_report *r = candidates[i].report;
        if (has_state(r) && !is_foreign(memory, r) && (best == NULL || is_further(memory, r, best)))
            best = r;
    }
    return best;
}

/* A member with the prepared sums of the next step, if all members that have the state `best` are
 * prepared with the same sums; else NULL. */
static const orr_member_report *all_prepared(const orr_epoch_candidate *candidates, uint32_t n,
                                             const orr_member_report *best)
{
    const orr_member_report *one = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const orr_member_report *r = candidates[i].report;
        if (r->step != best->step || r->data.made != best->data.made)
            continue;
        if (!r->prepared || (one != NULL && one->digest != r->digest))
            return NULL;
        one = r;
    }
    return one;
}

/* Of the members prepared for the step after `step`, whether or not they have a complete state, one
 * of the latest epoch. */
static const orr_member_report *latest_prepared(const orr_epoch_candidate *candidates, uint32_t n,
                                                uint64_t step)
{
    const orr_member_report *one = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const orr_member_report *r = candidates[i].report;
        if (r->prepared && r->known == step && (one == NULL || r->epoch > one->epoch))
            one = r;
    }
    return one;
}

/* Of the members that entered an epoch into which the step was carried, one of the latest: others
 * may have committed the step there. */
static const orr_member_report *latest_carried(const orr_epoch_candidate *candidates, uint32_t n,
                                               uint64_t step)
{
    const orr_member_report *one = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const orr_member_report *r = candidates[i].report;
        if (r->carried && r->known == step && (one == NULL || r->epoch > one->epoch))
            one = r;
    }
    return one;
}

/* Whether the sums that `one` prepared may have been committed: nobody who was in its epoch, and
 * lives, shows that not all of it were prepared. Who came back with a later life shows nothing. */
static bool may_be_committed(const orr_epoch_candidate *candidates, uint32_t n,
                             const orr_member_report *one)
{
    for (uint32_t i = 0; i < n; i++) {
        const orr_member_report *r = candidates[i].report;
        for (uint32_t k = 0; k < one->members.n; k++)
            if (orr_member_id_equal(&one->members.ids[k], &r->id) && r->known == one->known &&
                !(r->prepared && r->made == one->made))
                return false;
    }
    return true;
}

/* A member that has the state and the prepared sums: made in this epoch, or of this digest. */
static const orr_member_report *holder(const orr_epoch_candidate *candidates, uint32_t n,
                                       uint64_t step, const uint64_t *made, const uint64_t *digest)
{
    for (uint32_t i = 0; i < n; i++) {
        const orr_member_report *r = candidates[i].report;
        if (r->prepared && r->step == step && (made == NULL || r->made == *made) &&
            (digest == NULL || r->digest == *digest))
            return r;
    }
    return NULL;
}

/* The sums that the next epoch must carry, since somebody may have committed them. *ret_must: there
 * are such sums, so that without them (NULL) no epoch can be formed. */
static const orr_member_report *must_carry(const orr_membership *memory,
                                           const orr_epoch_candidate *candidates, uint32_t n,
                                           const orr_member_report *best, bool all_heard,
                                           bool *ret_must)
{
    const orr_member_report *carried = latest_carried(candidates, n, best->step);
    const orr_member_report *latest = latest_prepared(candidates, n, best->step);
    const bool behind = best->step < memory->step;
    const orr_member_report *known = best->step + 1 == memory->step
                                         ? holder(candidates, n, best->step, &memory->made, NULL)
                                         : NULL;
    *ret_must = true;
    if (known != NULL || (behind && !all_heard))
        return known;
    if (carried != NULL)
        return holder(candidates, n, best->step, NULL, &carried->digest);
    if (behind)
        return NULL;
    if (memory->uncommitted && latest != NULL &&
        (!all_heard || may_be_committed(candidates, n, latest)))
        return holder(candidates, n, best->step, &latest->made, NULL);
    *ret_must = false;
    return NULL;
}

/* Settles the committed step of the next epoch, the data cursor after it, and what is carried. */
static bool settle_step(const orr_membership *memory, const orr_epoch_candidate *candidates,
                        uint32_t n, orr_epoch *ret, char why[ORR_TEAM_REASON_BYTES])
{
    const orr_member_report *best = furthest(memory, candidates, n);
    const bool all_heard = memory->waited_for_absent ||
                           (!memory->lost && orr_roster_quorum(memory, candidates, n).all_heard);
    bool must;
    if (best == NULL) {
        snprintf(why, ORR_TEAM_REASON_BYTES,
                 "no replica has a whole state: begin from a checkpoint");
        return false;
    }
    const orr_member_report *sums = must_carry(memory, candidates, n, best, all_heard, &must);
    if (sums == NULL && must && !all_heard) {
        snprintf(why, ORR_TEAM_REASON_BYTES, "who may have committed step %llu is not here",
                 (unsigned long long)best->step + 1);
        return false;
    }
    if (sums == NULL)
        sums = all_prepared(candidates, n, best);
    ret->step = best->step;
    ret->data = best->data;
    if (sums == NULL)
        return true;
    ret->carried = true;
    ret->digest = sums->digest;
    ret->made = sums->made;
    ret->n_slots = sums->n_slots;
    memcpy(ret->slots, sums->slots, sums->n_slots * sizeof *ret->slots);
    return true;
}

/* Whether a member can contribute: it has the state after the epoch's step or can make it from its
 * prepared sums; in a carried epoch it has the state and the carried sums. */
static bool is_up_to_date(const orr_member_report *r, const orr_epoch *epoch)
{
    if (!has_state(r))
        return false;
    if (r->step == epoch->step && r->data.made == epoch->data.made)
        return !epoch->carried || (r->prepared && r->digest == epoch->digest);
    return !epoch->carried && r->step + 1 == epoch->step && r->prepared &&
           r->made == epoch->data.made;
}

static int by_name(const void *a_, const void *b_)
{
    const orr_epoch_candidate *a = a_, *b = b_;
    return strcmp(a->report->id.name, b->report->id.name);
}

static bool is_held(const orr_epoch *epoch, uint64_t slot)
{
    for (uint32_t i = 0; i < epoch->n; i++)
        if (epoch->members[i].role == ORR_ROLE_CONTRIBUTOR && epoch->members[i].slot == slot)
            return true;
    return false;
}

/* The next slot that no contributor holds: returned slots first, then the next new one. */
static uint64_t free_slot(const orr_epoch *epoch)
{
    for (uint32_t i = 0; i < epoch->data.n; i++)
        if (!is_held(epoch, epoch->data.returned[i]))
            return epoch->data.returned[i];
    uint64_t slot = epoch->data.next;
    while (is_held(epoch, slot))
        slot++;
    return slot;
}

static void assign_slots(orr_epoch *epoch)
{
    for (uint32_t i = 0; i < epoch->n && !epoch->carried; i++)
        if (epoch->members[i].role == ORR_ROLE_CONTRIBUTOR &&
            epoch->members[i].slot == ORR_TEAM_NONE)
            epoch->members[i].slot = free_slot(epoch);
}

/* Contributors that have gradients of a slot already keep it; of two with the same slot, the one of
 * the later epoch does. */
static void keep_slots(orr_epoch *epoch, const orr_epoch_candidate *sorted)
{
    uint64_t in[ORR_TEAM_MAX_REPLICAS];
    for (uint32_t i = 0; i < epoch->n; i++) {
        const orr_member_report *r = sorted[i].report;
        orr_epoch_member *m = &epoch->members[i];
        in[i] = r->epoch;
        m->slot = ORR_TEAM_NONE;
        if (epoch->carried || m->role != ORR_ROLE_CONTRIBUTOR || r->step != epoch->step ||
            r->slot == ORR_TEAM_NONE || !orr_team_data_cursor_is_open(&epoch->data, r->slot))
            continue;
        for (uint32_t j = 0; j <= i; j++) {
            if (j == i)
                m->slot = r->slot;
            else if (epoch->members[j].slot == r->slot && in[j] >= in[i])
                break;
            else if (epoch->members[j].slot == r->slot)
                epoch->members[j].slot = ORR_TEAM_NONE;
        }
    }
}

/* Takes those who stay; and those who are leaving as long as nobody else has the state. */
static uint32_t admit(const orr_epoch_candidate *candidates, uint32_t n, const orr_epoch *epoch,
                      orr_epoch_candidate *ret)
{
    uint32_t taken = 0;
    bool whole = false;
    for (uint32_t i = 0; i < n; i++)
        whole |= !candidates[i].leaving && is_up_to_date(candidates[i].report, epoch);
    for (uint32_t i = 0; i < n; i++)
        if (!candidates[i].leaving || (!whole && is_up_to_date(candidates[i].report, epoch)))
            ret[taken++] = candidates[i];
    return taken;
}

bool orr_roster_next_epoch(const orr_membership *memory, const orr_epoch_candidate *candidates,
                           uint32_t n, orr_epoch *ret, char why[ORR_TEAM_REASON_BYTES])
{
    orr_epoch_candidate sorted[ORR_TEAM_MAX_REPLICAS];
    *ret = (orr_epoch){.epoch = memory->record.epoch, .you = UINT32_MAX};
    if (ret->epoch < memory->known_epoch)
        ret->epoch = memory->known_epoch;
    ret->epoch++;
    if (memory->lost) /* also if no member knows of an epoch: there may have been some */
        ret->epoch += memory->jump;
    if (n > ORR_TEAM_MAX_REPLICAS) {
        snprintf(why, ORR_TEAM_REASON_BYTES, "%u replicas, of at most %d", n,
                 ORR_TEAM_MAX_REPLICAS);
        return false;
    }
    if (!settle_step(memory, candidates, n, ret, why))
        return false;
    ret->base = memory->record.base;
    ret->n = admit(candidates, n, ret, sorted);
    qsort(sorted, ret->n, sizeof *sorted, by_name);
    for (uint32_t i = 0; i < ret->n; i++) {
        orr_epoch_member *m = &ret->members[i];
        m->id = sorted[i].report->id;
        m->role = is_up_to_date(sorted[i].report, ret) ? ORR_ROLE_CONTRIBUTOR : ORR_ROLE_HEALING;
    }
    keep_slots(ret, sorted);
    assign_slots(ret);
    return true;
}

bool orr_roster_advance(orr_epoch *epoch, const bool *whole)
{
    uint64_t slots[ORR_TEAM_MAX_REPLICAS];
    const uint32_t n = orr_epoch_slots(epoch, slots);
    if (!orr_team_data_cursor_consume(&epoch->data, slots, n))
        return false;
    epoch->step++;
    epoch->data.epoch = epoch->epoch;
    epoch->data.made = epoch->carried ? epoch->made : epoch->epoch;
    epoch->carried = false;
    epoch->n_slots = 0;
    for (uint32_t i = 0; i < epoch->n; i++) {
        epoch->members[i].role = whole[i] ? ORR_ROLE_CONTRIBUTOR : ORR_ROLE_HEALING;
        epoch->members[i].slot = ORR_TEAM_NONE;
    }
    assign_slots(epoch);
    return true;
}

uint32_t orr_epoch_slots(const orr_epoch *epoch, uint64_t ret[ORR_TEAM_MAX_REPLICAS])
{
    uint32_t n = 0;
    if (epoch->carried) {
        memcpy(ret, epoch->slots, epoch->n_slots * sizeof *ret);
        return epoch->n_slots;
    }
    for (uint32_t i = 0; i < epoch->n; i++)
        if (epoch->members[i].role == ORR_ROLE_CONTRIBUTOR)
            ret[n++] = epoch->members[i].slot;
    return n;
}

uint32_t orr_epoch_contributors(const orr_epoch *epoch)
{
    uint64_t slots[ORR_TEAM_MAX_REPLICAS];
    return orr_epoch_slots(epoch, slots);
}
