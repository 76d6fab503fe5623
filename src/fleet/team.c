/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/team.h"

#include <stdio.h>
#include <string.h>

/* Updates the report of a contributor: it computes gradients of the next step, so it holds their
 * slot and is not prepared. */
static void follow(orr_fleet_team *team, uint32_t replica)
{
    orr_member_report *r = &team->reports[replica];
    const orr_epoch_member *m = &team->epoch.members[team->at[replica]];
    r->epoch = team->epoch.epoch;
    r->known = team->epoch.step;
    r->known_epoch = team->epoch.data.epoch;
    r->known_made = team->epoch.data.made;
    r->prepared = false;
    r->slot = ORR_TEAM_NONE;
    if (m->role != ORR_ROLE_CONTRIBUTOR)
        return;
    r->step = team->epoch.step;
    r->data.epoch = team->epoch.data.epoch;
    r->data.made = team->epoch.data.made;
    r->slot = m->slot;
    r->data.next = team->epoch.data.next;
    r->data.n = team->epoch.data.n;
    memcpy(r->data.returned, team->epoch.data.returned, r->data.n * sizeof *r->data.returned);
}

static void follow_all(orr_fleet_team *team)
{
    for (uint32_t i = 0; i < team->n; i++)
        if (team->at[i] != UINT32_MAX)
            follow(team, i);
}

static void begin_life(orr_fleet_team *team, uint32_t replica)
{
    orr_member_report *r = &team->reports[replica];
    snprintf(r->id.name, sizeof r->id.name, "replica%03u", replica);
    r->id.incarnation = ++team->lives;
    r->epoch = 0;
    r->members.n = r->base.n = 0;
    r->carried = r->prepared = false;
    r->slot = ORR_TEAM_NONE;
}

void orr_fleet_team_init(orr_fleet_team *team, uint32_t n)
{
    bool here[ORR_TEAM_MAX_REPLICAS] = {0}, leaving[ORR_TEAM_MAX_REPLICAS] = {0};
    memset(team, 0, sizeof *team);
    team->n = n;
    team->memory.uncommitted = true;
    for (uint32_t i = 0; i < n; i++) {
        team->at[i] = UINT32_MAX;
        orr_fleet_team_arrive(team, i, true);
        here[i] = true;
    }
    (void)orr_fleet_team_form(team, here, leaving);
}

void orr_fleet_team_arrive(orr_fleet_team *team, uint32_t replica, bool with_checkpoint)
{
    orr_member_report *r = &team->reports[replica];
    begin_life(team, replica);
    r->step = with_checkpoint ? team->saved_step : ORR_TEAM_NONE;
    r->known = with_checkpoint ? team->saved_step : 0;
    r->known_epoch = with_checkpoint ? team->saved_data.epoch : 0;
    r->known_made = with_checkpoint ? team->saved_data.made : 0;
    r->data = team->saved_data;
    team->at[replica] = UINT32_MAX;
    orr_membership_arrived(&team->memory, &r->id);
}

void orr_fleet_team_gone(orr_fleet_team *team, uint32_t replica)
{
    orr_membership_gone(&team->memory, &team->reports[replica].id);
}

void orr_fleet_team_left(orr_fleet_team *team, uint32_t replica)
{
    orr_membership_left(&team->memory, &team->reports[replica].id);
}

void orr_fleet_team_dissolve(orr_fleet_team *team)
{
    team->memory =
        (orr_membership){.record = {.epoch = team->memory.record.epoch}, .uncommitted = true};
    for (uint32_t i = 0; i < team->n; i++)
        team->at[i] = UINT32_MAX;
}

orr_formed orr_fleet_team_form(orr_fleet_team *team, const bool *here, const bool *leaving)
{
    orr_epoch_candidate candidates[ORR_TEAM_MAX_REPLICAS];
    uint32_t who[ORR_TEAM_MAX_REPLICAS], n = 0;
    orr_epoch next;
    char why[ORR_TEAM_REASON_BYTES];
    for (uint32_t i = 0; i < team->n; i++) {
        if (!here[i])
            continue;
        who[n] = i;
        candidates[n++] = (orr_epoch_candidate){.report = &team->reports[i], .leaving = leaving[i]};
    }
    orr_membership_refresh(&team->memory, candidates, n);
    if (!orr_roster_quorum(&team->memory, candidates, n).enough)
        return ORR_FORMED_NO_QUORUM;
    if (!orr_roster_next_epoch(&team->memory, candidates, n, &next, why))
        return ORR_FORMED_NO_STATE;
    team->epoch = next;
    for (uint32_t i = 0; i < team->n; i++)
        team->at[i] = UINT32_MAX;
    /* Names sort like numbers. */
    for (uint32_t i = 0, member = 0; i < n; i++)
        if (!candidates[i].leaving)
            team->at[who[i]] = member++;
    orr_membership_formed(&team->memory, &team->epoch);
    follow_all(team);
    return ORR_FORMED;
}

/* Commits several equal steps: each contributor takes the next data slot that was never given out,
 * in the order of members, so that all slots advance by the number of contributors. */
static void jump(orr_epoch *epoch, uint64_t steps)
{
    const uint64_t slots = steps * orr_epoch_contributors(epoch);
    epoch->step += steps;
    epoch->data.next += slots;
    for (uint32_t i = 0; i < epoch->n; i++)
        if (epoch->members[i].role == ORR_ROLE_CONTRIBUTOR)
            epoch->members[i].slot += slots;
}

/* Whether all slots below the next ones are trained, and those are in order: steps are then equal
 * but for their number. */
static bool is_plain(const orr_epoch *epoch)
{
    uint64_t slot = epoch->data.next;
    for (uint32_t i = 0; i < epoch->n; i++)
        if (epoch->members[i].role == ORR_ROLE_CONTRIBUTOR && epoch->members[i].slot != slot++)
            return false;
    return epoch->data.n == 0;
}

void orr_fleet_team_commit(orr_fleet_team *team, uint64_t steps, const bool *whole)
{
    bool before[ORR_TEAM_MAX_REPLICAS], after[ORR_TEAM_MAX_REPLICAS];
    if (steps == 0)
        return;
    for (uint32_t i = 0; i < team->n; i++) {
        if (team->at[i] == UINT32_MAX)
            continue;
        before[team->at[i]] = orr_fleet_team_contributes(team, i);
        after[team->at[i]] = whole[i];
    }
    while (steps > 1 && !is_plain(&team->epoch)) {
        (void)orr_roster_advance(&team->epoch, before);
        steps--;
    }
    if (steps > 1)
        jump(&team->epoch, steps - 1);
    (void)orr_roster_advance(&team->epoch, after);
    orr_membership_committed(&team->memory, &team->epoch);
    follow_all(team);
}

void orr_fleet_team_save(orr_fleet_team *team)
{
    team->saved_step = team->epoch.step;
    team->saved_data = team->epoch.data;
}

bool orr_fleet_team_has(const orr_fleet_team *team, uint32_t replica)
{
    return team->at[replica] != UINT32_MAX;
}

bool orr_fleet_team_contributes(const orr_fleet_team *team, uint32_t replica)
{
    return team->at[replica] != UINT32_MAX &&
           team->epoch.members[team->at[replica]].role == ORR_ROLE_CONTRIBUTOR;
}

uint64_t orr_fleet_team_trained(const orr_fleet_team *team)
{
    return team->epoch.data.next - team->epoch.data.n;
}
