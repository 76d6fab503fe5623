/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "team/member/parts.h"

/* The interface between a member and its training loop: the loop receives directives (compute,
 * contribute zeros, apply, leave), submits reductions, votes, and gets outcomes. */

size_t orr_reduction_bytes(const orr_reduction *r)
{
    return r->n * orr_ring_dtype_bytes(r->dtype);
}

static void give(orr_team_member *m, const orr_team_directive *directive, bool live)
{
    m->directive = *directive;
    m->live = live;
    m->follows = false;
    if (directive->kind == ORR_DIRECTIVE_COMPUTE || directive->kind == ORR_DIRECTIVE_ZEROS)
        m->reductions.n = 0;
    m->phase = directive->kind == ORR_DIRECTIVE_APPLY   ? ORR_MEMBER_PHASE_UPDATE
               : directive->kind == ORR_DIRECTIVE_LEAVE ? ORR_MEMBER_PHASE_LEFT
                                                        : ORR_MEMBER_PHASE_COMPUTE;
    m->owner.directive(m->owner.ctx, directive);
}

/* Gives the directive for the step under way, by this member's role. */
static bool step_directive(const orr_team_member *m, orr_team_directive *ret)
{
    if (m->epoch.n == 0 || m->epoch.carried)
        return false;
    const orr_epoch_member *me = orr_team_member_self(m);
    const bool heals = me->role == ORR_ROLE_HEALING;
    if (heals && !orr_team_member_may_defer(m))
        return false;
    *ret = (orr_team_directive){.kind = heals ? ORR_DIRECTIVE_ZEROS : ORR_DIRECTIVE_COMPUTE,
                                .epoch = m->epoch.epoch,
                                .step = m->epoch.step + 1,
                                .slot = heals ? 0 : me->slot};
    return true;
}

static void lead(orr_team_member *m)
{
    orr_team_directive directive = {
        .kind = ORR_DIRECTIVE_LEAVE, .epoch = m->epoch.epoch, .step = m->epoch.step};
    if (m->dismissed)
        give(m, &directive, false);
    else if (!orr_team_member_apply_deferred(m) && m->in && step_directive(m, &directive))
        give(m, &directive, true);
}

/* Follows the directive of rank 0, once this member has reached its epoch and step. */
static void follow(orr_team_member *m)
{
    orr_team_directive own;
    const orr_team_directive directive = m->followed;
    if (directive.kind == ORR_DIRECTIVE_LEAVE) {
        give(m, &directive, false);
    } else if (!m->dismissed &&
               (directive.epoch > m->epoch.epoch ||
                (directive.epoch == m->epoch.epoch && directive.step > m->epoch.step + 1))) {
        return;
    } else if (directive.kind == ORR_DIRECTIVE_APPLY) {
        const bool stale =
            directive.epoch < m->epoch.epoch && !(m->all_fetched && m->deferred.n > 0);
        if (m->dismissed || stale) { /* nothing depends on this state */
            orr_team_member_reset_healing(m);
            orr_state_receiver_discard(m->receiver);
            give(m, &directive, false);
        } else {
            (void)orr_team_member_apply_deferred(m);
        }
    } else {
        const bool live = !m->dismissed && directive.epoch >= m->holds_since &&
                          step_directive(m, &own) && own.kind == directive.kind &&
                          own.step == directive.step && own.slot == directive.slot;
        give(m, &directive, live);
    }
}

void orr_team_member_next_directive(orr_team_member *m)
{
    if (m->phase != ORR_MEMBER_PHASE_IDLE)
        return;
    if (m->settings.leads)
        lead(m);
    else if (m->follows)
        follow(m);
}

void orr_team_member_follow(orr_team_member *m, const orr_team_directive *directive)
{
    m->followed = *directive;
    m->follows = true;
    orr_team_member_next_directive(m);
}

orr_status orr_team_member_reduce(orr_team_member *m, orr_team_dtype dtype, const void *in,
                                  void *out, size_t n, orr_error *err)
{
    uint32_t op;
    if (m->phase != ORR_MEMBER_PHASE_COMPUTE || !m->live)
        return ORR_OK;
    if (!orr_array_push(&m->reductions, ((orr_reduction){dtype, out, n})))
        return orr_fail_memory(err);
    return orr_ring_post(m->ring, dtype, in, out, n, &op, err);
}

static void report_outcome(orr_team_member *m, orr_team_outcome_kind kind, uint64_t retries)
{
    const orr_team_outcome outcome = {.kind = kind,
                                      .epoch = m->epoch.epoch,
                                      .step = m->directive.step,
                                      .contributors = m->directive.contributors,
                                      .retries = retries,
                                      .wait_ns = m->net->now_ns(m->net) - m->vote_ns};
    m->phase = kind == ORR_OUTCOME_COMMITTED ? ORR_MEMBER_PHASE_UPDATE : ORR_MEMBER_PHASE_IDLE;
    m->live = false;
    m->owner.outcome(m->owner.ctx, &outcome);
}

void orr_team_member_conclude_step(orr_team_member *m, orr_team_outcome_kind kind, uint64_t retries)
{
    if (m->phase == ORR_MEMBER_PHASE_COMPUTE)
        m->live = false;
    else if (m->phase == ORR_MEMBER_PHASE_VOTE)
        report_outcome(m, kind, retries);
}

void orr_team_member_complete(orr_team_member *m)
{
    if (m->phase != ORR_MEMBER_PHASE_COMPUTE)
        return;
    m->phase = ORR_MEMBER_PHASE_VOTE;
    m->vote_ns = m->net->now_ns(m->net);
    if (!m->live) { /* it was decided while the owner was computing */
        report_outcome(m, ORR_OUTCOME_DROPPED, 0);
        orr_team_member_next_directive(m);
        orr_team_member_try_fetch(m);
        return;
    }
    orr_team_member_try_ready(m);
}

void orr_team_member_updated(orr_team_member *m, uint64_t step)
{
    if (m->phase != ORR_MEMBER_PHASE_UPDATE)
        return;
    m->phase = ORR_MEMBER_PHASE_IDLE;
    m->updated = step;
    orr_team_member_offer_state(m);
    orr_team_member_next_directive(m);
    orr_team_member_try_fetch(m);
}

void orr_team_member_try_ready(orr_team_member *m)
{
    if (m->phase != ORR_MEMBER_PHASE_VOTE || !m->live || m->said_ready || !m->in ||
        m->epoch.carried || m->reduced < m->reductions.n ||
        orr_ring_progress_of(m->ring).reduced < m->reductions.n)
        return;
    const bool whole = !orr_team_member_is_healing(m) || orr_team_member_has_caught_up(m);
    const orr_ready_message ready = {.digest = orr_ring_digest(m->ring), .whole = whole};
    orr_message_bytes payload = {0};
    m->said_ready = true;
    if (whole) {
        m->report.step = m->epoch.step;
        m->report.data = m->epoch.data;
    }
    m->report.prepared = true;
    m->report.digest = ready.digest;
    m->report.made = m->epoch.epoch;
    m->report.n_slots = orr_epoch_slots(&m->epoch, m->report.slots);
    if (orr_write_ready(&payload, &ready))
        orr_team_member_send(m, ORR_MESSAGE_READY, m->epoch.step + 1, &payload);
    orr_array_done(&payload);
}
