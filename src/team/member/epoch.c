/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "team/member/parts.h"

/* What a member does on EPOCH, COMMIT and HALT, by the phase of its owner.
 *
 *   phase          EPOCH (plain)                           COMMIT
 *   idle, update   next directive, when the owner is free   the same
 *   compute        goes on if the directive still holds,    (of a carried step) as EPOCH
 *                  else the vote will give DROPPED
 *   vote           reduces again if the directive holds;    COMMITTED, DEFERRED or DROPPED
 *                  COMMITTED if the epoch goes on from
 *                  the step that it prepared; else DROPPED
 *
 * On a carried EPOCH, in any phase, the member leaves the ring and is ready at once: contributors
 * have the sums already, the others will not get them. On HALT it leaves the ring, and waits for an
 * epoch. */

/* Keeps the message, since the epoch's addresses point into it. */
static bool keep_text(orr_team_member *m, const orr_net_frame *frame, const void *payload)
{
    if (frame->bytes > m->text_bytes) {
        uint8_t *room = orr_realloc(m->text, frame->bytes);
        if (room == NULL)
            return false;
        m->text = room;
        m->text_bytes = frame->bytes;
    }
    memcpy(m->text, payload, frame->bytes);
    return true;
}

static void note_epoch(orr_team_member *m)
{
    orr_member_report *r = &m->report;
    r->epoch = m->epoch.epoch;
    r->base = m->epoch.base;
    r->carried = m->epoch.carried;
    r->members = (orr_member_list){.n = m->epoch.n};
    for (uint32_t i = 0; i < m->epoch.n; i++)
        r->members.ids[i] = m->epoch.members[i].id;
    m->in = true;
    m->alone_ns = 0;
    m->said_ready = false;
}

/* Updates the report for the step after the epoch's committed one. */
static void note_position(orr_team_member *m)
{
    orr_member_report *r = &m->report;
    const orr_epoch_member *me = orr_team_member_self(m);
    const bool whole = me->role == ORR_ROLE_CONTRIBUTOR;
    r->step = whole ? m->epoch.step : ORR_TEAM_NONE;
    r->data = m->epoch.data;
    r->known = m->epoch.step;
    r->known_epoch = m->epoch.data.epoch;
    r->known_made = m->epoch.data.made;
    r->slot = whole ? me->slot : ORR_TEAM_NONE;
    r->prepared = false;
    m->committed = whole ? m->epoch.step : 0;
}

static bool form_ring(orr_team_member *m)
{
    const char *addresses[ORR_TEAM_MAX_REPLICAS], *state;
    orr_error err;
    for (uint32_t i = 0; i < m->epoch.n; i++)
        if (!orr_addresses_of(&m->epoch.members[i].addresses, 0, &addresses[i], &state))
            return false;
    m->reduced = 0;
    return orr_ring_form(m->ring, m->epoch.epoch, m->epoch.step + 1, addresses, m->epoch.n,
                         m->epoch.you, &err) == ORR_OK;
}

/* Begins a new step: reductions submitted for another one are forgotten. */
static void reset_step(orr_team_member *m)
{
    m->live = false;
    m->reduced = 0;
    m->retries = 0;
    orr_ring_step(m->ring, m->epoch.step + 1);
}

/* Whether what is fetched leads to the state of the epoch. Steps that were deferred since are only
 * of use with all of it: in this epoch nobody offers the state before them. */
static bool leads_here(const orr_team_member *m)
{
    return m->fetch_key != ORR_TEAM_NONE && m->reach_key == orr_team_member_state_key(m) &&
           (m->all_fetched || m->fetch_key == m->reach_key);
}

/* Enters a carried epoch: the sums are here already, or never will be. */
static void enter_carried(orr_team_member *m)
{
    const bool holds = orr_team_member_self(m)->role == ORR_ROLE_CONTRIBUTOR;
    const orr_ready_message ready = {.digest = m->epoch.digest, .whole = holds};
    orr_message_bytes payload = {0};
    orr_ring_leave(m->ring);
    m->report.prepared = holds;
    m->report.digest = m->epoch.digest;
    m->report.made = m->epoch.made;
    if (!holds && m->report.step != m->epoch.step)
        m->report.step = ORR_TEAM_NONE;
    if (!holds && !leads_here(m)) /* else it would be taken for the state of this epoch */
        orr_team_member_reset_healing(m);
    m->report.known = m->epoch.step;
    m->report.known_epoch = m->epoch.data.epoch;
    m->report.known_made = m->epoch.data.made;
    m->said_ready = true;
    if (orr_write_ready(&payload, &ready))
        orr_team_member_send(m, ORR_MESSAGE_READY, m->epoch.step + 1, &payload);
    orr_array_done(&payload);
}

/* Whether the owner's directive still holds: it names the same step, and the same data or zeros. */
static bool directive_still_holds(const orr_team_member *m)
{
    const orr_epoch_member *me = orr_team_member_self(m);
    if (!m->live || m->directive.step != m->epoch.step + 1 || m->directive.epoch < m->holds_since)
        return false;
    return me->role == ORR_ROLE_HEALING
               ? m->directive.kind == ORR_DIRECTIVE_ZEROS
               : m->directive.kind == ORR_DIRECTIVE_COMPUTE && m->directive.slot == me->slot;
}

static void enter_plain(orr_team_member *m, uint64_t step_before)
{
    const bool whole = orr_team_member_self(m)->role == ORR_ROLE_CONTRIBUTOR;
    const bool commits = whole && m->report.prepared && step_before != ORR_TEAM_NONE &&
                         step_before + 1 == m->epoch.step;
    const bool stays = !commits && directive_still_holds(m);
    note_position(m);
    m->offered = false;
    if (commits)
        orr_state_provider_withdraw(m->provider);
    else if (whole && m->phase != ORR_MEMBER_PHASE_UPDATE)
        m->updated = m->epoch.step;
    if (whole || !leads_here(m))
        orr_team_member_reset_healing(m);
    m->fetching = false; /* the providers may be others now; chunks that have come stay */
    if (stays) {
        m->retries++;
        return;
    }
    const uint64_t retries = m->retries;
    if (commits)
        m->directive.contributors = m->report.n_slots;
    reset_step(m);
    orr_team_member_conclude_step(m, commits ? ORR_OUTCOME_COMMITTED : ORR_OUTCOME_DROPPED,
                                  retries);
}

bool orr_team_member_on_epoch(orr_team_member *m, const orr_net_frame *frame, const void *payload)
{
    orr_epoch epoch;
    if (!orr_read_epoch(frame, payload, &epoch))
        return false;
    if (epoch.epoch <= m->report.epoch)
        return true;
    if (!keep_text(m, frame, payload) || !orr_read_epoch(frame, m->text, &m->epoch))
        return false;
    const uint64_t before = m->report.step;
    if (frame->op == 1) /* another rank may have dropped what this one would go on with */
        m->holds_since = m->epoch.epoch;
    note_epoch(m);
    orr_team_member_emit_event(m, ORR_TEAM_EPOCH, "%u replicas, %u contribute, after step %llu",
                               m->epoch.n, orr_epoch_contributors(&m->epoch),
                               (unsigned long long)m->epoch.step);
    if (m->epoch.carried) {
        enter_carried(m);
        return true;
    }
    enter_plain(m, before);
    if (!form_ring(m))
        return false;
    orr_team_member_offer_state(m);
    orr_team_member_next_directive(m);
    orr_team_member_try_fetch(m);
    orr_team_member_try_ready(m);
    return true;
}

/* The outcome of a committed step for this owner: whether it has the sums, and a state to apply
 * them to. */
static orr_team_outcome_kind outcome_of(orr_team_member *m, bool carried, uint64_t contributors)
{
    m->directive.contributors = contributors;
    if (orr_team_member_self(m)->role == ORR_ROLE_CONTRIBUTOR) {
        if (carried)
            orr_state_provider_withdraw(m->provider);
        else
            orr_team_member_snapshot_state(m);
        m->offered &= !carried;
        orr_team_member_reset_healing(m);
        return ORR_OUTCOME_COMMITTED;
    }
    if (!carried && orr_team_member_defer(m, contributors)) {
        m->reach_key = orr_team_member_state_key(m);
        return ORR_OUTCOME_DEFERRED;
    }
    orr_team_member_reset_healing(m); /* it needs the state after this step now */
    return ORR_OUTCOME_DROPPED;
}

static void take_roles(orr_team_member *m, const orr_commit_message *commit)
{
    for (uint32_t i = 0; i < m->epoch.n; i++) {
        m->epoch.members[i].role = commit->role[i];
        m->epoch.members[i].slot = commit->slot[i];
    }
    m->epoch.data.epoch = m->epoch.epoch;
    m->epoch.data.made = m->epoch.carried ? m->epoch.made : m->epoch.epoch;
    m->epoch.carried = false;
    m->epoch.n_slots = 0;
    m->epoch.step++;
    m->report.base = m->report.members;
    m->report.carried = false;
    m->said_ready = false;
}

bool orr_team_member_on_commit(orr_team_member *m, const orr_net_frame *frame, const void *payload)
{
    orr_commit_message commit;
    uint64_t slots[ORR_TEAM_MAX_REPLICAS];
    if (!orr_read_commit(payload, frame->bytes, &commit))
        return false;
    if (!m->in || frame->epoch != m->epoch.epoch || frame->step != m->epoch.step + 1)
        return frame->epoch <= m->report.epoch;
    const uint32_t n = orr_epoch_slots(&m->epoch, slots);
    const bool carried = m->epoch.carried;
    const bool known = m->committed >= frame->step; /* before the other ranks of the replica did */
    if (commit.n != m->epoch.n || !orr_team_data_cursor_consume(&m->epoch.data, slots, n))
        return false;
    take_roles(m, &commit);
    orr_team_member_emit_event(m, ORR_TEAM_COMMIT, "%u contributed", n);
    const uint64_t retries = m->retries;
    const bool stays = known && directive_still_holds(m);
    const orr_team_outcome_kind kind = known ? ORR_OUTCOME_DROPPED : outcome_of(m, carried, n);
    note_position(m);
    if (!stays)
        reset_step(m);
    if (carried && !form_ring(m))
        return false;
    if (!stays)
        orr_team_member_conclude_step(m, kind, retries);
    orr_team_member_offer_state(m);
    orr_team_member_next_directive(m);
    orr_team_member_try_fetch(m);
    return true;
}

void orr_team_member_on_halt(orr_team_member *m, const char *why)
{
    m->in = false;
    if (m->alone_ns == 0)
        m->alone_ns = m->net->now_ns(m->net);
    orr_ring_leave(m->ring);
    orr_team_member_emit_event(m, ORR_TEAM_HALT, "%s", why);
}
