/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "team/member/parts.h"

/* Healing: fetching the state after a step from members that have it, while the sums of later steps
 * are deferred and applied afterwards; and providing the own state to others that heal. */

/* The key of a state: its step, and the epoch that committed it. Later states have larger keys. */
uint64_t orr_team_member_state_key(const orr_team_member *m)
{
    return m->epoch.data.epoch << 32 | (uint32_t)m->epoch.step;
}

void orr_team_member_reset_healing(orr_team_member *m)
{
    for (size_t i = 0; i < m->deferred.n; i++)
        orr_free(m->deferred.at[i].sums);
    m->deferred.n = 0;
    if (m->fetching)
        orr_state_receiver_stop(m->receiver);
    m->fetching = m->fetched = m->all_fetched = false;
    m->fetch_key = ORR_TEAM_NONE;
}

/* Whether spans may be written now: not while the owner computes with them, or updates them. */
static bool may_write(const orr_team_member *m)
{
    return m->phase == ORR_MEMBER_PHASE_IDLE ||
           ((m->phase == ORR_MEMBER_PHASE_COMPUTE || m->phase == ORR_MEMBER_PHASE_VOTE) &&
            m->directive.kind == ORR_DIRECTIVE_ZEROS);
}

static uint32_t providers(const orr_team_member *m, const char *addresses[ORR_TEAM_MAX_REPLICAS])
{
    uint32_t n = 0;
    const char *ring;
    for (uint32_t i = 0; i < m->epoch.n; i++)
        if (m->epoch.members[i].role == ORR_ROLE_CONTRIBUTOR &&
            orr_addresses_of(&m->epoch.members[i].addresses, 0, &ring, &addresses[n]))
            n++;
    return n;
}

void orr_team_member_try_fetch(orr_team_member *m)
{
    const char *addresses[ORR_TEAM_MAX_REPLICAS];
    orr_error err;
    if (!orr_team_member_is_healing(m) || m->epoch.carried || m->fetching || m->fetched ||
        !may_write(m) || m->deferred.n > 0)
        return;
    const uint32_t n = providers(m, addresses);
    m->fetch_key = m->reach_key = orr_team_member_state_key(m);
    m->fetching = true;
    orr_team_member_emit_event(m, ORR_TEAM_FETCH, "the state after step %llu, from %u replicas",
                               (unsigned long long)m->epoch.step, n);
    if (orr_state_receiver_begin(m->receiver, m->fetch_key, addresses, n, m->times.fetch_ns,
                                 &err) != ORR_OK)
        orr_team_member_on_state_lost(m, err.text);
}

void orr_team_member_on_state_received(void *ctx)
{
    orr_team_member *m = ctx;
    if (!m->fetching)
        return;
    m->fetching = false;
    m->fetched = true;
    m->all_fetched = m->settings.ranks == 1;
    orr_team_member_emit_event(m, ORR_TEAM_CAUGHT_UP, "the state is here, %zu steps to apply",
                               m->deferred.n);
    if (!m->all_fetched)
        orr_team_member_send(m, ORR_MESSAGE_STATE_COMPLETE, m->fetch_key, NULL);
    orr_team_member_next_directive(m);
}

/* No provider has this state any more: asks for a new epoch, in which a later state is fetched. */
void orr_team_member_on_state_lost(void *ctx, const char *why)
{
    orr_team_member *m = ctx;
    if (!m->fetching)
        return;
    m->fetching = false;
    m->fetch_key = ORR_TEAM_NONE;
    orr_team_member_emit_event(m, ORR_TEAM_FETCH, "%s", why);
    orr_message_send_fault(m->net, m->conn, ORR_MESSAGE_FAULT, m->epoch.epoch, UINT32_MAX, why);
}

bool orr_team_member_has_caught_up(const orr_team_member *m)
{
    return m->all_fetched && m->deferred.n == 0;
}

bool orr_team_member_may_defer(const orr_team_member *m)
{
    return orr_team_member_has_caught_up(m) || m->deferred.n < m->settings.catch_up_steps;
}

bool orr_team_member_defer(orr_team_member *m, uint64_t contributors)
{
    size_t bytes = 1;
    orr_deferred_step d = {.step = m->directive.step, .contributors = contributors};
    if (m->phase != ORR_MEMBER_PHASE_VOTE || !m->live || m->directive.kind != ORR_DIRECTIVE_ZEROS)
        return false;
    for (size_t i = 0; i < m->reductions.n; i++)
        bytes += orr_reduction_bytes(&m->reductions.at[i]);
    d.sums = orr_malloc(bytes);
    if (d.sums == NULL || !orr_array_push(&m->deferred, d)) {
        orr_free(d.sums);
        return false;
    }
    size_t at = 0;
    for (size_t i = 0; i < m->reductions.n; i++) {
        const size_t n = orr_reduction_bytes(&m->reductions.at[i]);
        if (n > 0)
            memcpy(d.sums + at, m->reductions.at[i].out, n);
        at += n;
    }
    return true;
}

static void restore_sums(orr_team_member *m, const orr_deferred_step *d)
{
    size_t at = 0;
    for (size_t i = 0; i < m->reductions.n; i++) {
        const size_t n = orr_reduction_bytes(&m->reductions.at[i]);
        if (n > 0)
            memcpy(m->reductions.at[i].out, d->sums + at, n);
        at += n;
    }
}

bool orr_team_member_apply_deferred(orr_team_member *m)
{
    if (!m->all_fetched || m->deferred.n == 0)
        return false;
    const orr_deferred_step first = m->deferred.at[0];
    restore_sums(m, &first);
    orr_free(first.sums);
    memmove(m->deferred.at, m->deferred.at + 1, --m->deferred.n * sizeof *m->deferred.at);
    m->directive = (orr_team_directive){.kind = ORR_DIRECTIVE_APPLY,
                                        .epoch = m->epoch.epoch,
                                        .step = first.step,
                                        .contributors = first.contributors};
    m->phase = ORR_MEMBER_PHASE_UPDATE;
    m->follows = false;
    m->owner.directive(m->owner.ctx, &m->directive);
    return true;
}

void orr_team_member_offer_state(orr_team_member *m)
{
    uint32_t receivers = 0, n = 0, index = 0;
    if (!m->in || m->epoch.carried || orr_team_member_self(m)->role == ORR_ROLE_HEALING)
        return;
    for (uint32_t i = 0; i < m->epoch.n; i++) {
        receivers += m->epoch.members[i].role == ORR_ROLE_HEALING;
        index = i == m->epoch.you ? n : index;
        n += m->epoch.members[i].role == ORR_ROLE_CONTRIBUTOR;
    }
    if (receivers == 0) {
        orr_state_provider_withdraw(m->provider);
        m->offered = false;
        return;
    }
    if (m->offered || m->phase == ORR_MEMBER_PHASE_UPDATE || m->updated != m->epoch.step)
        return;
    orr_state_provider_offer(m->provider, orr_team_member_state_key(m), receivers, index, n);
    m->offered = true;
    orr_team_member_emit_event(m, ORR_TEAM_SERVE, "the state after step %llu, to %u",
                               (unsigned long long)m->epoch.step, receivers);
}

void orr_team_member_snapshot_state(orr_team_member *m)
{
    orr_error err;
    orr_status status = ORR_OK;
    bool heals = false;
    for (uint32_t i = 0; i < m->epoch.n; i++)
        heals |= m->epoch.members[i].role == ORR_ROLE_HEALING;
    if (!m->offered)
        return;
    if (heals)
        status = orr_state_provider_snapshot(
            m->provider, &err); /* on failure receivers are told that it is gone */
    else
        orr_state_provider_withdraw(m->provider);
    if (status != ORR_OK)
        orr_team_member_emit_event(m, ORR_TEAM_SERVE, "%s", err.text);
    m->offered = heals;
}
