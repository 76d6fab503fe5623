/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "team/coordinator/parts.h"

/* Copies the coordinator's state for display. */

static uint8_t state_of(const orr_coordinator *c, const orr_peer *peer)
{
    if (peer->leaving)
        return ORR_MEMBER_LEAVING;
    if (!peer->in || c->state != ORR_STATE_RUNNING)
        return ORR_MEMBER_WAITING;
    return c->epoch.members[peer->index].role == ORR_ROLE_HEALING ? ORR_MEMBER_HEALING
                                                                  : ORR_MEMBER_CONTRIBUTOR;
}

void orr_coordinator_status(const orr_coordinator *c, orr_team_status *ret)
{
    const int64_t now = c->net->now_ns(c->net);
    *ret = c->counters;
    ret->state = (uint8_t)c->state;
    memcpy(ret->why, c->why, sizeof ret->why);
    ret->epoch = c->memory.record.epoch;
    ret->step = c->epoch.step;
    ret->contributors = c->state == ORR_STATE_RUNNING ? orr_epoch_contributors(&c->epoch) : 0;
    ret->replicas = c->settings.replicas;
    ret->step_ns = c->step_ns;
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++) {
        const orr_peer *peer = &c->peers[i];
        if (peer->conn == 0 || !peer->hello)
            continue;
        ret->members[ret->n++] = (orr_member_status){.id = peer->report.id,
                                                     .state = state_of(c, peer),
                                                     .ranks = peer->ranks,
                                                     .step = peer->report.step,
                                                     .heard_ns = now - peer->heard_ns,
                                                     .posted = peer->progress.posted,
                                                     .reduced = peer->progress.reduced,
                                                     .faults = peer->complaints};
    }
}
