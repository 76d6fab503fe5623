/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "team/coordinator/parts.h"

/* Forming epochs. One is formed at first when all replicas have come (or the join window is over),
 * after the loss of a member, and at a commit when somebody waits to join or to leave. The order
 * is:
 *
 *   decide    from the reports of all candidates (protocol/roster.h)
 *   persist   the record of the new epoch, in the store
 *   announce  EPOCH to every member, with roles, data slots and addresses
 *
 * so that no member is ever in an epoch that a restarted coordinator does not know of. If it cannot
 * be decided or persisted, the team halts, and says why, until something changes.
 *
 * A committed step may have to be given up, when nobody who has its state lives. Then members that
 * were fetching a state are first asked for fresh reports: they may have received it meanwhile. */

/* The candidates of the next epoch, and their peers in the same order. */
typedef struct forming {
    orr_epoch_candidate candidates[ORR_COORDINATOR_MAX_PEERS];
    orr_peer *peers[ORR_COORDINATOR_MAX_PEERS];
    uint32_t n, staying;
} forming;

static void list(orr_coordinator *c, forming *f)
{
    f->n = f->staying = 0;
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++) {
        orr_peer *peer = &c->peers[i];
        if (!orr_peer_is_candidate(c, peer))
            continue;
        f->peers[f->n] = peer;
        f->candidates[f->n++] = (orr_epoch_candidate){&peer->report, peer->leaving};
        f->staying += !peer->leaving;
    }
}

/* Nothing can be decided with those who are here. */
static void halt(orr_coordinator *c, const char *why)
{
    if (orr_coordinator_stands_by(c)) {
        orr_coordinator_stand_by(c, why);
        return;
    }
    if (c->state == ORR_STATE_HALTED && strcmp(c->why, why) == 0)
        return;
    if (c->state != ORR_STATE_HALTED) {
        c->halted_ns = c->net->now_ns(c->net);
        c->look_ns = c->halted_ns + 2 * c->times.failure_ns;
    }
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++)
        if (c->peers[i].hello)
            orr_message_send_fault(c->net, c->peers[i].conn, ORR_MESSAGE_HALT,
                                   c->memory.record.epoch, UINT32_MAX, why);
    snprintf(c->why, sizeof c->why, "%s", why);
    c->state = ORR_STATE_HALTED;
    c->retry_at_ns = INT64_MAX;
    orr_coordinator_emit_event(c, ORR_TEAM_HALT, "%s", why);
}

/* Writes the record to the store. That happens twice in an epoch: before it is announced, and
 * before its first commit, which makes its members the base. Meanwhile nobody is heard. */
static orr_status save(const orr_coordinator *c, const orr_epoch_record *record, bool committed,
                       orr_error *err)
{
    orr_team_store *store = c->settings.store;
    orr_message_bytes payload = {0};
    orr_status status = ORR_OK;
    if (store != NULL && !orr_write_record(&payload, record))
        status = orr_fail_memory(err);
    else if (store != NULL)
        status = store->save(store, 2 * record->epoch + committed, payload.at, payload.n, err);
    orr_array_done(&payload);
    return status;
}

/* Waits for another job; the numbers of epochs go on. */
static void begin_anew(orr_coordinator *c)
{
    c->memory = (orr_membership){
        .record = {.epoch = c->memory.record.epoch}, .uncommitted = true, .jump = c->settings.jump};
    c->epoch = (orr_epoch){.epoch = c->epoch.epoch};
    c->first_hello_ns = c->lost_at_ns = c->last_commit_ns = 0;
    c->retry_at_ns = INT64_MAX;
    c->known = c->attempted = c->leads = false;
    c->state = c->settings.standby ? ORR_STATE_STANDBY : ORR_STATE_FORMING;
}

void orr_coordinator_end_team(orr_coordinator *c, const char *why)
{
    snprintf(c->why, sizeof c->why, "%s", why);
    orr_coordinator_emit_event(c, ORR_TEAM_LEFT, "%s", why);
    if (c->settings.keep_running && c->state != ORR_STATE_ENDED) {
        begin_anew(c);
        return;
    }
    c->state = ORR_STATE_ENDED;
    c->ended = true;
}

/* What follows from a save: true: it leads, and the record is durable. */
static bool note_saved(orr_coordinator *c, orr_status status, const char *why)
{
    const bool failed_before = c->save_again_ns != 0;
    const bool fails = status != ORR_OK && status != ORR_CANCELED;
    c->leads |= status == ORR_OK;
    c->save_again_ns = fails ? c->net->now_ns(c->net) + c->times.heartbeat_ns : 0;
    if (status == ORR_CANCELED && c->settings.standby) {
        orr_coordinator_stand_by(c, "another coordinator leads");
    } else if (status == ORR_CANCELED) {
        c->taken = true;
        orr_coordinator_end_team(c, "another coordinator has taken over the team's memory");
    } else if (fails && !(failed_before && c->state == ORR_STATE_HALTED)) {
        halt(c, why);
    }
    return status == ORR_OK;
}

bool orr_coordinator_claim_lead(orr_coordinator *c)
{
    orr_error err;
    orr_epoch_record next = c->memory.record;
    next.epoch++;
    if (!note_saved(c, save(c, &next, false, &err), err.text))
        return false;
    c->memory.record = next;
    return true;
}

static bool take_lead(orr_coordinator *c)
{
    if (!orr_coordinator_claim_lead(c))
        return false;
    orr_coordinator_emit_event(c, ORR_TEAM_COORDINATOR, "leads: a quorum has called it");
    return true;
}

bool orr_coordinator_persist_epoch(orr_coordinator *c, const orr_epoch *epoch, bool committed)
{
    orr_membership after = c->memory;
    orr_error err;
    after.record.fingerprint = c->fingerprint;
    orr_status status = ORR_OK;
    if (committed)
        orr_membership_committed(&after, epoch);
    else
        orr_membership_formed(&after, epoch);
    if (!committed || c->first_commit)
        status = save(c, &after.record, committed, &err);
    if (!note_saved(c, status, err.text))
        return false;
    c->memory = after;
    c->known = true;
    return true;
}

/* Sets what is known of a member to what the epoch makes it, as if it had reported that. */
static void settle_report(orr_peer *peer, const orr_coordinator *c, uint32_t index)
{
    const orr_epoch *epoch = &c->epoch;
    const orr_epoch_member *m = &epoch->members[index];
    orr_member_report *r = &peer->report;
    const bool whole = m->role == ORR_ROLE_CONTRIBUTOR;
    if (!whole && !(epoch->carried && r->step == epoch->step))
        r->step = ORR_TEAM_NONE;
    if (whole)
        r->step = epoch->step;
    r->data = epoch->data;
    r->known = epoch->step;
    r->known_epoch = epoch->data.epoch;
    r->known_made = epoch->data.made;
    r->slot = m->slot;
    r->epoch = epoch->epoch;
    r->members = c->memory.record.members;
    r->base = epoch->base;
    r->carried = epoch->carried;
    r->prepared = epoch->carried && whole;
    r->digest = epoch->digest;
    r->made = epoch->made;
    r->n_slots = epoch->n_slots;
    memcpy(r->slots, epoch->slots, epoch->n_slots * sizeof *r->slots);
}

static void admit(orr_coordinator *c, orr_peer *peer, uint32_t index)
{
    peer->in = true;
    peer->index = index;
    peer->ready = peer->whole = false;
    peer->progress = (orr_heartbeat){0};
    peer->moved_ns = c->net->now_ns(c->net);
    settle_report(peer, c, index);
}

static void send_epoch(orr_coordinator *c, orr_peer *peer)
{
    orr_message_bytes payload = {0};
    c->epoch.you = peer->index;
    if (orr_write_epoch(&payload, &c->epoch))
        orr_message_send(c->net, peer->conn, ORR_MESSAGE_EPOCH, c->epoch.epoch, c->epoch.step,
                         &payload);
    else
        orr_peer_lost(c, peer, false, "no memory to tell it the epoch");
    orr_array_done(&payload);
}

void orr_peer_dismiss(orr_coordinator *c, orr_peer *peer)
{
    orr_message_send(c->net, peer->conn, ORR_MESSAGE_DISMISS, c->epoch.epoch, c->epoch.step, NULL);
    orr_coordinator_emit_event(c, ORR_TEAM_LEFT, "%s", peer->report.id.name);
    orr_membership_gone(&c->memory, &peer->report.id);
    orr_peer_drop(c, peer);
}

static orr_peer *peer_of(const forming *f, const orr_member_id *id)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (orr_member_id_equal(&f->peers[i]->report.id, id))
            return f->peers[i];
    return NULL;
}

static void announce(orr_coordinator *c, const forming *f)
{
    for (uint32_t i = 0; i < ORR_COORDINATOR_MAX_PEERS; i++)
        c->peers[i].in = false;
    for (uint32_t i = 0; i < c->epoch.n; i++) {
        orr_peer *peer = peer_of(f, &c->epoch.members[i].id);
        c->epoch.members[i].addresses =
            (orr_addresses){peer->addresses, peer->address_bytes, peer->ranks};
        admit(c, peer, i);
    }
    for (uint32_t i = 0; i < c->epoch.n; i++)
        send_epoch(c, peer_of(f, &c->epoch.members[i].id));
    for (uint32_t i = 0; i < c->epoch.n; i++)
        c->epoch.members[i].addresses = (orr_addresses){.text = NULL};
    for (uint32_t i = 0; i < f->n; i++)
        if (f->peers[i]->conn != 0 && f->peers[i]->leaving && !f->peers[i]->in)
            orr_peer_dismiss(c, f->peers[i]);
    orr_coordinator_emit_event(c, ORR_TEAM_EPOCH, "%u replicas after step %llu, %u contribute%s",
                               c->epoch.n, (unsigned long long)c->epoch.step,
                               orr_epoch_contributors(&c->epoch),
                               c->epoch.carried ? ", to sums that are there already" : "");
}

/* Ends the job: dismisses those who leave, and those who wait. */
static void end_job(orr_coordinator *c, const forming *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        orr_peer_dismiss(c, f->peers[i]);
    const orr_epoch_record none = {.epoch = c->memory.record.epoch + 1};
    orr_error err;
    if (save(c, &none, false, &err) == ORR_OK) /* else a later coordinator waits for who has left */
        c->memory.record = none;
    orr_coordinator_end_team(c, "all replicas have left");
}

static bool all_go(const orr_coordinator *c, const forming *f)
{
    bool one = false, done = false;
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->peers[i]->in && !f->peers[i]->leaving)
            return false;
        one |= f->peers[i]->leaving;
        done |= f->peers[i]->leaving && f->peers[i]->done;
    }
    return one && (f->staying == 0 || (done && c->state == ORR_STATE_RUNNING));
}

static bool is_member(const orr_epoch *epoch, const orr_member_id *id)
{
    for (uint32_t i = 0; i < epoch->n; i++)
        if (orr_member_id_equal(&epoch->members[i].id, id))
            return true;
    return false;
}

/* Whether members must report again before a committed step is given up: drops those that were
 * fetching, so that they say hello again. */
static bool requires_fresh_reports(orr_coordinator *c, const orr_epoch *next, const forming *f)
{
    bool asks = false;
    if (next->step >= c->memory.step)
        return false;
    for (uint32_t i = 0; i < f->n; i++) {
        if (!f->peers[i]->in || f->peers[i]->report.step != ORR_TEAM_NONE)
            continue;
        asks = true;
        orr_peer_drop(c, f->peers[i]);
    }
    if (asks)
        halt(c, "who was getting the state is asked how far it came");
    return asks;
}

/* The job is that of more than half of those who are here: the first to speak does not own it.
 * False: there is no such job. */
static bool elect_job(orr_coordinator *c, const forming *f)
{
    uint32_t votes = 0, most = 0;
    for (uint32_t i = 0; i < f->n; i++, votes = 0) {
        for (uint32_t k = 0; k < f->n; k++)
            votes += f->peers[k]->fingerprint == f->peers[i]->fingerprint;
        if (votes > most) {
            most = votes;
            c->fingerprint = f->peers[i]->fingerprint;
        }
    }
    return 2 * most > f->n;
}

/* True: all who are here are of one job. Those of another are told, once it is clear which. */
static bool is_one_job(orr_coordinator *c, forming *f)
{
    if (c->known || f->n == 0)
        return true;
    if (!elect_job(c, f)) {
        halt(c, "replicas of several jobs are here, and none is that of more than half of them: "
                "model, plan, seed, data or options differ");
        return false;
    }
    bool one = true;
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->peers[i]->fingerprint == c->fingerprint)
            continue;
        orr_peer_refuse(c, f->peers[i], f->peers[i]->report.id.name, ORR_COORDINATOR_ANOTHER_JOB);
        one = false;
    }
    return one;
}

/* Who is waited for, and until when; with the memory lost there is no end, and a standby sends who
 * is here on. */
static void explain_wait(const orr_coordinator *c, const forming *f, const orr_quorum *q,
                         char why[ORR_TEAM_REASON_BYTES])
{
    orr_member_list awaited;
    size_t at = (size_t)snprintf(why, ORR_TEAM_REASON_BYTES,
                                 "%u of the %u replicas of epoch %llu that may live are here",
                                 q->here, q->living, (unsigned long long)c->memory.record.epoch);
    orr_membership_list_awaited(&c->memory, f->candidates, f->n, &awaited);
    if (awaited.n > 0)
        at += (size_t)snprintf(why + at, ORR_TEAM_REASON_BYTES - at, "; %s%s missing",
                               awaited.ids[0].name, awaited.n > 1 ? " and others are" : " is");
    if (!c->memory.lost && !orr_coordinator_stands_by(c))
        (void)snprintf(why + at, ORR_TEAM_REASON_BYTES - at, ", waited for %lld s at most",
                       (long long)(c->settings.outage_timeout_ns / 1000000000));
}

void orr_coordinator_form_epoch(orr_coordinator *c)
{
    forming f;
    orr_epoch next;
    char why[ORR_TEAM_REASON_BYTES];
    if (c->net->now_ns(c->net) < c->save_again_ns) /* who has beaten meanwhile is heard first */
        return;
    list(c, &f);
    if (!is_one_job(c, &f))
        return;
    orr_membership_refresh(&c->memory, f.candidates, f.n);
    const bool stands_by = orr_coordinator_stands_by(c); /* then a quorum decides on the end too */
    if (!stands_by && all_go(c, &f)) {
        end_job(c, &f);
        return;
    }
    const orr_quorum q = orr_roster_quorum(&c->memory, f.candidates, f.n);
    if (!q.enough) {
        explain_wait(c, &f, &q, why);
        halt(c, why);
        return;
    }
    if (stands_by && c->known && !take_lead(c))
        return;
    if (stands_by && all_go(c, &f)) {
        end_job(c, &f);
        return;
    }
    if (f.staying < c->settings.min_replicas || f.staying == 0) {
        snprintf(why, sizeof why, "%u replicas are here, %u are wanted", f.staying,
                 c->settings.min_replicas > 0 ? c->settings.min_replicas : 1);
        halt(c, why);
        return;
    }
    if (!orr_roster_next_epoch(&c->memory, f.candidates, f.n, &next, why)) {
        halt(c, why);
        return;
    }
    for (uint32_t i = 0; i < f.n; i++)
        if (f.peers[i]->leaving && !is_member(&next, &f.peers[i]->report.id))
            orr_membership_left(&c->memory, &f.peers[i]->report.id);
    next.base = c->memory.record.base;
    if (requires_fresh_reports(c, &next, &f) || !orr_coordinator_persist_epoch(c, &next, false))
        return;
    c->first_commit = true;
    const bool again = c->attempted && next.step == c->epoch.step;
    c->counters.epochs++;
    c->counters.retries += again;
    c->retries = again ? c->retries + 1 : 0;
    c->attempted = true;
    c->epoch = next;
    c->state = ORR_STATE_RUNNING;
    c->why[0] = '\0';
    c->retry_at_ns = INT64_MAX;
    c->attempt_ns = c->net->now_ns(c->net);
    announce(c, &f);
}

/* Whether it is time for a first epoch, or for one after a halt. */
static bool may_form(orr_coordinator *c)
{
    forming f;
    const int64_t now = c->net->now_ns(c->net);
    list(c, &f);
    orr_membership_refresh(&c->memory, f.candidates, f.n);
    if (f.staying == 0)
        return f.n > 0;
    if (c->memory.record.members.n == 0) { /* the first */
        const bool waits_for_all = c->settings.replicas > 0 && c->settings.min_replicas == 0;
        if (c->settings.replicas > 0 && f.staying >= c->settings.replicas)
            return true;
        if (waits_for_all && orr_coordinator_stands_by(c) && now - c->began_ns >= c->patience_ns)
            orr_coordinator_stand_by(c, "not all replicas have called it");
        return !waits_for_all && now - c->first_hello_ns >= c->settings.join_window_ns;
    }
    const orr_quorum q = orr_roster_quorum(&c->memory, f.candidates, f.n);
    /* Without memory: who is absent may have gone on, alone, in an epoch that nobody else knows. */
    return q.all ||
           now - c->began_ns >= (c->memory.lost ? c->settings.join_window_ns : c->patience_ns);
}

/* Whether a member has gone, or has come back on another connection. */
static bool is_member_missing(orr_coordinator *c)
{
    for (uint32_t i = 0; i < c->epoch.n; i++) {
        const orr_peer *peer = orr_peer_of_index(c, i);
        if (peer == NULL || !orr_peer_is_candidate(c, peer))
            return true;
    }
    return false;
}

void orr_coordinator_reconfigure(orr_coordinator *c)
{
    for (int round = 0; c->changed && !c->ended && round < ORR_COORDINATOR_MAX_PEERS; round++) {
        c->changed = false;
        if (c->state == ORR_STATE_RUNNING ? is_member_missing(c) : may_form(c))
            orr_coordinator_form_epoch(c);
    }
}
