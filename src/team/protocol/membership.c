/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "team/protocol/roster.h"

/* What a coordinator knows of the last epoch, and the quorum rule: whether those who are here may
 * go on from it. The states of a name (gone, dead) and the amnesiac cases are explained in
 * roster.h.
 *
 *   uncommitted  this coordinator has committed nothing yet, so what members know counts for more
 *                than the record, which may be an epoch old
 *   lost         there was no record: both lists come from reports, and stay so until a commit */

static const orr_member_list *roll_of(const orr_membership *memory, int which)
{
    return which == 0 ? &memory->record.members : &memory->record.base;
}

void orr_membership_refresh(orr_membership *memory, const orr_epoch_candidate *candidates,
                            uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const orr_member_report *r = candidates[i].report;
        if (r->epoch <= memory->record.epoch)
            continue;
        if (!memory->uncommitted) { /* of a team before this one, of which nobody knew: only its
                                number counts */
            memory->record.epoch = r->epoch;
            continue;
        }
        memory->record =
            (orr_epoch_record){.epoch = r->epoch, .members = r->members, .base = r->base};
        memset(memory->gone, 0, sizeof memory->gone);
        memset(memory->dead, 0, sizeof memory->dead);
        memory->lost = memory->uncommitted = true;
    }
    for (uint32_t i = 0; i < n; i++)
        if (candidates[i].report->known_epoch > memory->known_epoch)
            memory->known_epoch = candidates[i].report->known_epoch;
    for (uint32_t i = 0; i < n && memory->uncommitted; i++) {
        const orr_member_report *r = candidates[i].report;
        if (r->known_epoch > memory->epoch ||
            (r->known_epoch == memory->epoch && r->known > memory->step)) {
            memory->step = r->known;
            memory->epoch = r->known_epoch;
            memory->made = r->known_made;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        orr_membership_arrived(memory, &candidates[i].report->id);
}

void orr_membership_arrived(orr_membership *memory, const orr_member_id *id)
{
    for (int which = 0; which < 2; which++) {
        const orr_member_list *roll = roll_of(memory, which);
        for (uint32_t i = 0; i < roll->n; i++)
            if (strcmp(roll->ids[i].name, id->name) == 0)
                memory->gone[which][i] = memory->dead[which][i] =
                    roll->ids[i].incarnation != id->incarnation;
    }
}

void orr_membership_gone(orr_membership *memory, const orr_member_id *id)
{
    for (int which = 0; which < 2; which++) {
        const orr_member_list *roll = roll_of(memory, which);
        for (uint32_t i = 0; i < roll->n; i++)
            memory->gone[which][i] |= orr_member_id_equal(&roll->ids[i], id);
    }
}

bool orr_membership_forget(orr_membership *memory, const char *name)
{
    bool found = false;
    for (int which = 0; which < 2; which++) {
        const orr_member_list *roll = roll_of(memory, which);
        for (uint32_t i = 0; i < roll->n; i++)
            if (strcmp(roll->ids[i].name, name) == 0)
                found = memory->gone[which][i] = memory->dead[which][i] = true;
    }
    return found;
}

static bool is_here(const orr_epoch_candidate *candidates, uint32_t n, const orr_member_id *id)
{
    for (uint32_t i = 0; i < n; i++)
        if (orr_member_id_equal(&candidates[i].report->id, id))
            return true;
    return false;
}

static bool is_listed(const orr_member_list *list, const orr_member_id *id)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (orr_member_id_equal(&list->ids[i], id))
            return true;
    return false;
}

void orr_membership_list_awaited(const orr_membership *memory,
                                 const orr_epoch_candidate *candidates, uint32_t n,
                                 orr_member_list *ret)
{
    ret->n = 0;
    for (int which = 1; which >= 0; which--) {
        const orr_member_list *roll = roll_of(memory, which);
        for (uint32_t i = 0; i < roll->n; i++)
            if (!memory->dead[which][i] && !is_here(candidates, n, &roll->ids[i]) &&
                !is_listed(ret, &roll->ids[i]) && ret->n < ORR_TEAM_MAX_REPLICAS)
                ret->ids[ret->n++] = roll->ids[i];
    }
}

bool orr_membership_is_plausible_report(const orr_membership *memory,
                                        const orr_member_report *report)
{
    const uint64_t epochs[] = {report->epoch,      report->known_epoch, report->known_made,
                               report->data.epoch, report->data.made,   report->made};
    const uint64_t steps[] = {report->step, report->known, report->slot, report->data.next};
    bool plausible = true;
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++)
        plausible &= epochs[i] <= memory->record.epoch + (UINT64_C(1) << 32);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        plausible &= steps[i] <= UINT64_C(1) << 48 || steps[i] == ORR_TEAM_NONE;
    for (uint32_t i = 0; i < report->n_slots; i++)
        plausible &= report->slots[i] <= UINT64_C(1) << 48;
    return plausible;
}

void orr_membership_left(orr_membership *memory, const orr_member_id *id)
{
    orr_member_list *base = &memory->record.base;
    uint32_t n = 0;
    orr_membership_gone(memory, id);
    for (uint32_t i = 0; i < base->n; i++) {
        if (orr_member_id_equal(&base->ids[i], id))
            continue;
        base->ids[n] = base->ids[i];
        memory->gone[1][n] = memory->gone[1][i];
        memory->dead[1][n++] = memory->dead[1][i];
    }
    base->n = n;
}

static void list_members(const orr_epoch *epoch, orr_member_list *ret)
{
    *ret = (orr_member_list){.n = epoch->n};
    for (uint32_t i = 0; i < epoch->n; i++)
        ret->ids[i] = epoch->members[i].id;
}

/* Takes a member into the base; the place of one that is dead is given to it. */
static void join_base(orr_membership *memory, const orr_member_id *id)
{
    orr_member_list *base = &memory->record.base;
    uint32_t at = base->n;
    if (is_listed(base, id))
        return;
    for (uint32_t i = 0; i < base->n; i++)
        at = memory->dead[1][i] ? i : at;
    if (at == ORR_TEAM_MAX_REPLICAS)
        return;
    base->n += at == base->n;
    base->ids[at] = *id;
    memory->gone[1][at] = memory->dead[1][at] = false;
}

void orr_membership_formed(orr_membership *memory, const orr_epoch *epoch)
{
    const bool first = memory->record.members.n == 0;
    const bool was_committed = epoch->carried && memory->step == epoch->step + 1;
    memory->record.epoch = epoch->epoch;
    if (!was_committed) { /* a carried step may be committed already: then its owner is no stranger
                           */
        memory->step = epoch->step;
        memory->epoch = epoch->data.epoch;
        memory->made = epoch->data.made;
    }
    memory->waited_for_absent = memory->waited_for_quorum = false;
    memory->lost &= !first; /* no member had been in an epoch: nothing is lost */
    if (memory->lost)       /* until a commit both lists count, as they were reported */
        return;
    list_members(epoch, &memory->record.members);
    memset(memory->gone[0], 0, sizeof memory->gone[0]);
    memset(memory->dead[0], 0, sizeof memory->dead[0]);
    const bool nobody = memory->record.base.n == 0;
    for (uint32_t i = 0; i < epoch->n; i++)
        if (nobody || (!epoch->carried && epoch->members[i].role == ORR_ROLE_CONTRIBUTOR))
            join_base(memory, &epoch->members[i].id);
}

void orr_membership_committed(orr_membership *memory, const orr_epoch *epoch)
{
    if (memory->uncommitted || memory->lost) {
        list_members(epoch, &memory->record.members);
        memset(memory->gone, 0, sizeof memory->gone);
        memset(memory->dead, 0, sizeof memory->dead);
    }
    memory->record.base = memory->record.members;
    memcpy(memory->gone[1], memory->gone[0], sizeof memory->gone[1]);
    memcpy(memory->dead[1], memory->dead[0], sizeof memory->dead[1]);
    memory->step = epoch->step;
    memory->epoch = epoch->data.epoch;
    memory->made = epoch->data.made;
    memory->lost = memory->uncommitted = false;
}

static orr_quorum count(const orr_membership *memory, int which,
                        const orr_epoch_candidate *candidates, uint32_t n)
{
    orr_quorum q = {.all_heard = true};
    const orr_member_list *roll = roll_of(memory, which);
    for (uint32_t i = 0; i < roll->n; i++) {
        const bool here = is_here(candidates, n, &roll->ids[i]);
        q.living += here || !memory->gone[which][i];
        q.all_heard &= here || memory->dead[which][i];
        q.here += here;
    }
    q.all = q.here == q.living;
    if (memory->lost) /* known deaths do not lower the bar: the dead may have known of a later epoch
                       */
        q.enough =
            2 * q.here > roll->n || roll->n == 0 || (memory->waited_for_absent && q.all_heard);
    else
        q.enough = 2 * q.here >= q.living || memory->waited_for_quorum;
    return q;
}

orr_quorum orr_roster_quorum(const orr_membership *memory, const orr_epoch_candidate *candidates,
                             uint32_t n)
{
    orr_quorum q = count(memory, 1, candidates, n);
    const orr_quorum last = count(memory, 0, candidates, n);
    if (memory->lost)
        q.enough &= last.enough;
    q.all &= last.all;
    q.all_heard &= last.all_heard;
    return q;
}
