/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "team/coordinator/parts.h"

/* Several coordinators of one team, which share a store that takes a record only from who has seen
 * the one before (etcd). One leads: it wrote the last record. The others stand by, and know nothing
 * until replicas call them since the leader does not answer. Who is called reads the record, and
 * takes the lead if it has a quorum of those who may live, by writing a record of its own; the one
 * before, if it lives, finds so at its next epoch, and stands by. It cannot commit meanwhile: at
 * least one of its epoch has called another, and no step is committed without all votes. Callers
 * who are too few are sent on to the next coordinator after a while, also after an outage of all:
 * the team may be going on elsewhere. That while is drawn anew each time, so that replicas that
 * look for each other at two coordinators meet. */

orr_status orr_coordinator_load_record(orr_coordinator *c, orr_error *err)
{
    enum { ROOM = 64 + 2 * ORR_TEAM_MAX_REPLICAS * sizeof(orr_member_id) };
    uint8_t record[ROOM];
    uint64_t version;
    size_t bytes = 0;
    orr_team_store *store = c->settings.store;
    orr_status status = ORR_NOT_FOUND;
    if (store != NULL)
        status = store->load(store, &version, record, sizeof record, &bytes, err);
    if (status != ORR_OK && status != ORR_NOT_FOUND && status != ORR_PARSE)
        return status;
    c->memory = (orr_membership){.lost = true, .uncommitted = true, .jump = c->settings.jump};
    if (status == ORR_OK) /* else members may know */
        c->memory.lost = !orr_read_record(record, bytes, &c->memory.record);
    if (c->memory.lost)
        c->memory.record = (orr_epoch_record){.epoch = 0};
    c->known = c->memory.record.members.n > 0;
    c->fingerprint = c->memory.record.fingerprint;
    return ORR_OK;
}

bool orr_coordinator_stands_by(const orr_coordinator *c)
{
    return c->settings.standby && !c->leads && !c->ended;
}

static bool is_called(const orr_coordinator *c)
{
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++)
        if (c->peers[i].hello)
            return true;
    return false;
}

/* Reads the record; ends if it says that the job has. False: it cannot be read. */
static bool look(orr_coordinator *c)
{
    orr_error err;
    const bool was_known = c->known;
    if (orr_coordinator_load_record(c, &err) != ORR_OK) {
        orr_coordinator_emit_event(c, ORR_TEAM_HALT, "%s", err.text);
        return false;
    }
    if (was_known && !c->known && !c->memory.lost)
        orr_coordinator_end_team(c, "all replicas have left the coordinator that led");
    return true;
}

/* From three fifths of the failure timeout to all of it. */
static int64_t draw_patience(orr_coordinator *c)
{
    const uint64_t x = (c->settings.jump + ++c->draws) * UINT64_C(0x9e3779b97f4a7c15);
    return c->times.failure_ns / 5 * 3 +
           (int64_t)((x >> 44) * (uint64_t)(c->times.failure_ns / 5 * 2 >> 20));
}

bool orr_coordinator_heed_call(orr_coordinator *c)
{
    if (!orr_coordinator_stands_by(c) || is_called(c))
        return true;
    if (!look(c))
        return false;
    c->began_ns = c->net->now_ns(c->net);
    c->patience_ns = draw_patience(c);
    return true;
}

void orr_coordinator_watch_record(orr_coordinator *c)
{
    const int64_t now = c->net->now_ns(c->net);
    const bool waits = orr_coordinator_stands_by(c) && !is_called(c);
    const bool halts = c->settings.standby && c->leads && c->state == ORR_STATE_HALTED;
    if (!(waits || halts) || now < c->look_ns)
        return;
    c->look_ns = now + 2 * c->times.failure_ns;
    (void)(waits ? look(c) : orr_coordinator_claim_lead(c));
}

void orr_coordinator_stand_by(orr_coordinator *c, const char *why)
{
    if (c->leads || c->state != ORR_STATE_STANDBY || strcmp(c->why, why) != 0)
        orr_coordinator_emit_event(c, ORR_TEAM_COORDINATOR, "stands by: %s", why);
    snprintf(c->why, sizeof c->why, "%s", why);
    c->leads = c->attempted = false;
    c->state = ORR_STATE_STANDBY;
    c->retry_at_ns = INT64_MAX;
    c->first_hello_ns = c->lost_at_ns = c->last_commit_ns = 0;
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++) {
        orr_peer *peer = &c->peers[i];
        if (!peer->hello)
            continue;
        orr_message_send(c->net, peer->conn, ORR_MESSAGE_STANDBY, 0, 0, NULL);
        orr_peer_drop(c, peer);
    }
}
