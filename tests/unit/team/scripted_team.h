/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_HAND_TEAM_H
#define TESTS_HAND_TEAM_H

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "support/simulated/network.h"
#include "team/coordinator/coordinator.h"
#include "team/protocol/message.h"

/* A coordinator in a simulated world, and members that say what a test makes them say. Each keeps
 * the report that a real one would: what it was told last. The failure timeout is 100 ms:
 * heartbeats every 10, silent after 80. */
enum { HANDS = ORR_TEAM_MAX_REPLICAS + 2, HAND_TEXT = 1 << 16 };
#define HAND_MS      INT64_C(1000000)
#define HAND_TIMEOUT (100 * HAND_MS)

/* A record in memory, that fails on demand and outlives its coordinator. */
typedef struct hand_store {
    orr_team_store store;
    uint8_t record[1 << 14];
    size_t bytes;
    uint64_t version;
    uint32_t saves;
    bool holds;
    orr_status fails; /* saves, with this */
} hand_store;

typedef struct hand_member {
    orr_net *net;
    orr_net_callbacks user;
    uint32_t host;
    orr_conn conn;
    bool mute; /* no heartbeats */
    uint64_t fingerprint;
    uint64_t call; /* the number that its next hello bears */
    uint32_t ranks;
    orr_member_report report; /* what it would say in a hello */
    orr_heartbeat progress;
    /* What it was told: */
    orr_epoch epoch; /* the last, as it stood then */
    uint64_t step;   /* committed                  */
    uint8_t text[HAND_TEXT];
    orr_commit_message commit;
    uint32_t epochs, commits, halts, dismissals, standbys, echoes, closes;
    bool refused;
    int64_t epoch_ns, halt_ns;
    char why[ORR_TEAM_REASON_BYTES]; /* it was refused or halted */
} hand_member;

typedef struct hand_team {
    orr_simnet *world;
    uint32_t host;
    orr_coordinator_settings settings;
    orr_coordinator *coordinator; /* NULL: dead */
    char address[ORR_NET_ADDRESS_BYTES];
    hand_store store;
    hand_member members[HANDS];
    uint32_t n;
    uint32_t broken; /* frames that nobody could have sent */
} hand_team;

static hand_team *hand_team_of_member; /* of whoever counts what is broken */

static inline orr_status hand_load(orr_team_store *store, uint64_t *ret_version, void *ret,
                                   size_t room, size_t *ret_bytes, orr_error *err)
{
    const hand_store *h = store->ctx;
    if (!h->holds)
        return orr_fail(err, ORR_NOT_FOUND, "nothing");
    if (h->bytes > room)
        return orr_fail(err, ORR_LIMIT, "long");
    memcpy(ret, h->record, h->bytes);
    *ret_version = h->version;
    *ret_bytes = h->bytes;
    return ORR_OK;
}

static inline orr_status hand_save(orr_team_store *store, uint64_t version, const void *record,
                                   size_t bytes, orr_error *err)
{
    hand_store *h = store->ctx;
    if (h->fails != ORR_OK)
        return orr_fail(err, h->fails, "the disk is full");
    if (bytes > sizeof h->record)
        return orr_fail(err, ORR_LIMIT, "long");
    memcpy(h->record, record, bytes);
    h->bytes = bytes;
    h->version = version;
    h->holds = true;
    h->saves++;
    return ORR_OK;
}

static inline void hand_note_report(hand_member *m)
{
    const orr_epoch *e = &m->epoch;
    orr_member_report *r = &m->report;
    const orr_epoch_member *me = &e->members[e->you];
    const bool whole = me->role == ORR_ROLE_CONTRIBUTOR;
    r->step = whole ? e->step : ORR_TEAM_NONE;
    r->data = e->data;
    r->known = e->step;
    r->known_epoch = e->data.epoch;
    r->known_made = e->data.made;
    r->slot = whole ? me->slot : ORR_TEAM_NONE;
    r->epoch = e->epoch;
    r->base = e->base;
    r->carried = e->carried;
    r->members = (orr_member_list){.n = e->n};
    for (uint32_t i = 0; i < e->n; i++)
        r->members.ids[i] = e->members[i].id;
    r->prepared = e->carried && whole;
    r->digest = e->digest;
    r->n_slots = 0;
}

static inline void hand_enter(hand_member *m, const orr_net_frame *frame, const void *payload)
{
    if (frame->bytes > HAND_TEXT || payload == NULL) {
        hand_team_of_member->broken++;
        return;
    }
    memcpy(m->text, payload, frame->bytes);
    if (!orr_read_epoch(frame, m->text, &m->epoch)) {
        hand_team_of_member->broken++;
        return;
    }
    m->epochs++;
    m->epoch_ns = m->net->now_ns(m->net);
    m->step = m->epoch.step;
    m->progress = (orr_heartbeat){0};
    hand_note_report(m);
}

static inline void hand_commit(hand_member *m, const orr_net_frame *frame, const void *payload)
{
    uint64_t slots[ORR_TEAM_MAX_REPLICAS];
    orr_epoch *e = &m->epoch;
    const uint32_t n = e->carried ? e->n_slots : 0;
    uint32_t given = 0;
    for (uint32_t i = 0; i < e->n && !e->carried; i++)
        if (e->members[i].role == ORR_ROLE_CONTRIBUTOR)
            slots[given++] = e->members[i].slot;
    memcpy(slots + given, e->slots, n * sizeof *slots);
    if (!orr_read_commit(payload, frame->bytes, &m->commit) || frame->epoch != e->epoch ||
        frame->step != m->step + 1 || m->commit.n != e->n ||
        !orr_team_data_cursor_consume(&e->data, slots, given + n)) {
        hand_team_of_member->broken++;
        return;
    }
    m->commits++;
    m->step = e->step = frame->step;
    e->data.epoch = e->epoch;
    e->data.made = e->carried ? e->made : e->epoch;
    e->carried = false;
    for (uint32_t i = 0; i < e->n; i++) {
        e->members[i].role = m->commit.role[i];
        e->members[i].slot = m->commit.slot[i];
    }
    m->progress = (orr_heartbeat){0};
    hand_note_report(m);
    m->report.base = m->report.members;
}

static inline void hand_frame(void *ctx, orr_conn conn, const orr_net_frame *frame,
                              const void *payload)
{
    hand_member *m = ctx;
    orr_fault_report why;
    if (conn != m->conn)
        return;
    switch (frame->kind) {
    case ORR_MESSAGE_HEARTBEAT_ACK:
        m->echoes++;
        return;
    case ORR_MESSAGE_EPOCH:
        hand_enter(m, frame, payload);
        return;
    case ORR_MESSAGE_COMMIT:
        hand_commit(m, frame, payload);
        return;
    case ORR_MESSAGE_DISMISS:
        m->dismissals++;
        return;
    case ORR_MESSAGE_STANDBY:
        m->standbys++;
        return;
    case ORR_MESSAGE_HALT:
    case ORR_MESSAGE_REFUSED:
    case ORR_MESSAGE_FORGOTTEN:
        if (!orr_read_fault(payload, frame->bytes, &why))
            break;
        snprintf(m->why, sizeof m->why, "%s", why.why);
        m->halts += frame->kind == ORR_MESSAGE_HALT;
        m->halt_ns = m->net->now_ns(m->net);
        m->refused |= frame->kind == ORR_MESSAGE_REFUSED;
        return;
    default:
        break;
    }
    hand_team_of_member->broken++;
}

static inline void hand_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    hand_member *m = ctx;
    (void)why;
    if (conn != m->conn)
        return;
    m->conn = 0;
    m->closes++;
}

static inline void hand_say(hand_member *m, orr_team_message_kind kind, uint64_t epoch,
                            uint64_t step, orr_message_bytes *payload)
{
    orr_message_send(m->net, m->conn, kind, epoch, step, payload);
    orr_array_done(payload);
}

static inline void hand_woken(void *ctx)
{
    hand_member *m = ctx;
    orr_message_bytes payload = {0};
    if (m->conn != 0 && !m->mute && orr_write_heartbeat(&payload, &m->progress))
        hand_say(m, ORR_MESSAGE_HEARTBEAT, m->epoch.epoch, m->step + 1, &payload);
    m->net->wake_at(m->net, &m->user, m->net->now_ns(m->net) + HAND_TIMEOUT / 10);
}

/* Connects, and says nothing. */
static inline void hand_connect(hand_team *t, hand_member *m)
{
    orr_error err;
    if (m->net->connect(m->net, &m->user, t->address, &m->conn, &err) != ORR_OK)
        t->broken++;
}

static inline void hand_hello(hand_team *t, hand_member *m)
{
    static const char ADDRESSES[] = "ring:1\0state:1\0ring:2\0state:2";
    orr_message_bytes payload = {0};
    const orr_hello hello = {
        .fingerprint = m->fingerprint,
        .ranks = m->ranks,
        .report = m->report,
        .addresses = {ADDRESSES, m->ranks == 1 ? 15 : sizeof ADDRESSES, m->ranks}};
    if (m->conn == 0)
        hand_connect(t, m);
    m->refused = false;
    m->why[0] = '\0';
    if (orr_write_hello(&payload, &hello))
        hand_say(m, ORR_MESSAGE_HELLO, 0, m->call, &payload);
    m->mute = false;
    hand_woken(m);
}

static inline void hand_ready_for(hand_member *m, uint64_t epoch, uint64_t step, uint64_t digest,
                                  bool whole)
{
    const orr_ready_message ready = {.digest = digest, .whole = whole};
    orr_message_bytes payload = {0};
    if (orr_write_ready(&payload, &ready))
        hand_say(m, ORR_MESSAGE_READY, epoch, step, &payload);
}

/* It has the sums of the step under way, and the state before it if it contributes. */
static inline void hand_ready(hand_member *m, uint64_t digest)
{
    const bool whole = m->epoch.members[m->epoch.you].role == ORR_ROLE_CONTRIBUTOR;
    m->report.prepared = whole || !m->epoch.carried;
    m->report.made = m->epoch.carried ? m->epoch.made : m->epoch.epoch;
    m->report.digest = digest;
    m->report.n_slots = 0;
    for (uint32_t i = 0; i < m->epoch.n && !m->epoch.carried; i++)
        if (m->epoch.members[i].role == ORR_ROLE_CONTRIBUTOR)
            m->report.slots[m->report.n_slots++] = m->epoch.members[i].slot;
    if (m->epoch.carried) {
        m->report.n_slots = m->epoch.n_slots;
        memcpy(m->report.slots, m->epoch.slots, sizeof m->report.slots);
    }
    hand_ready_for(m, m->epoch.epoch, m->step + 1, digest, whole);
}

static inline void hand_fault(hand_member *m, uint32_t about, const char *text)
{
    orr_fault_report fault = {.about = about};
    orr_message_bytes payload = {0};
    snprintf(fault.why, sizeof fault.why, "%s", text);
    if (orr_write_fault(&payload, &fault))
        hand_say(m, ORR_MESSAGE_FAULT, m->epoch.epoch, 0, &payload);
}

static inline void hand_leave(hand_member *m, bool done)
{
    const orr_net_frame frame = {.kind = ORR_MESSAGE_LEAVE, .epoch = m->epoch.epoch, .op = done};
    m->net->send(m->net, m->conn, &frame, NULL, false);
}

static inline void hand_close(hand_member *m)
{
    m->net->close(m->net, m->conn, false);
    m->conn = 0;
}

static inline void hand_run(hand_team *t, int64_t ms)
{
    hand_team_of_member = t;
    orr_simnet_run(t->world, orr_simnet_now_ns(t->world) + ms * HAND_MS);
}

/* All that are connected have the sums of the step, and are told. */
static inline void hand_step(hand_team *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->members[i].conn != 0 && t->members[i].epoch.n > 0)
            hand_ready(&t->members[i], 77 + t->members[i].step);
    hand_run(t, 5);
}

static inline bool hand_start(hand_team *t)
{
    orr_error err;
    const orr_status status = orr_coordinator_new(orr_simnet_host_net(t->world, t->host),
                                                  &t->settings, &t->coordinator, &err);
    if (status == ORR_OK)
        snprintf(t->address, sizeof t->address, "%s", orr_coordinator_address(t->coordinator));
    return status == ORR_OK;
}

/* The coordinator dies; nothing but its store is left. */
static inline void hand_kill(hand_team *t)
{
    orr_simnet_kill(t->world, t->host, false);
    orr_coordinator_free(t->coordinator);
    t->coordinator = NULL;
    hand_run(t, 5);
    orr_simnet_restart(t->world, t->host);
}

static inline hand_member *hand_another(hand_team *t, const char *name, uint64_t incarnation)
{
    orr_error err;
    hand_member *m = &t->members[t->n++];
    if (orr_simnet_add_host(t->world, &m->host, &err) != ORR_OK)
        t->broken++;
    m->net = orr_simnet_host_net(t->world, m->host);
    m->user = (orr_net_callbacks){
        .ctx = m, .frame = hand_frame, .closed = hand_closed, .woken = hand_woken};
    m->fingerprint = 5;
    m->ranks = 1;
    snprintf(m->report.id.name, sizeof m->report.id.name, "%s", name);
    m->report.id.incarnation = incarnation;
    m->report.slot = ORR_TEAM_NONE;
    return m;
}

/* `n` members "a", "b"..., who are not connected yet. */
static inline bool hand_open(hand_team *t, uint32_t n, const orr_coordinator_settings *settings)
{
    orr_error err;
    memset(t, 0, sizeof *t);
    if (orr_simnet_new(&(orr_simnet_options){.seed = 7}, &t->world, &err) != ORR_OK ||
        orr_simnet_add_host(t->world, &t->host, &err) != ORR_OK)
        return false;
    t->store.store =
        (orr_team_store){.name = "hand", .ctx = &t->store, .load = hand_load, .save = hand_save};
    t->settings = *settings;
    t->settings.listen = "any:1";
    t->settings.store = &t->store.store;
    t->settings.jump = 1000;
    if (t->settings.failure_timeout_ns == 0)
        t->settings.failure_timeout_ns = HAND_TIMEOUT;
    for (uint32_t i = 0; i < n; i++)
        hand_another(t, (char[]){(char)('a' + i), '\0'}, 1);
    hand_team_of_member = t;
    return hand_start(t);
}

static inline void hand_done(hand_team *t)
{
    orr_coordinator_free(t->coordinator);
    orr_simnet_free(t->world);
}

/* All say hello, and are in the first epoch. */
static inline bool hand_form(hand_team *t, uint32_t n, const orr_coordinator_settings *settings)
{
    if (!hand_open(t, n, settings))
        return false;
    for (uint32_t i = 0; i < n; i++)
        hand_hello(t, &t->members[i]);
    hand_run(t, 5);
    for (uint32_t i = 0; i < n; i++)
        if (t->members[i].epochs != 1 || t->members[i].epoch.n != n)
            return false;
    return true;
}

/* The index of a member in an epoch; UINT32_MAX: it is not in it. */
static inline uint32_t hand_index(const orr_epoch *e, const char *name)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (strcmp(e->members[i].id.name, name) == 0)
            return i;
    return UINT32_MAX;
}

static inline uint8_t hand_role(const orr_epoch *e, const char *name)
{
    const uint32_t i = hand_index(e, name);
    return i < e->n ? e->members[i].role : UINT8_MAX;
}

static inline orr_team_status hand_status(const hand_team *t)
{
    orr_team_status status;
    orr_coordinator_status(t->coordinator, &status);
    return status;
}

#endif /* TESTS_HAND_TEAM_H */
