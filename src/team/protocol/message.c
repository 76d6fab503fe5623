/* SPDX-License-Identifier: Apache-2.0 */
#include "team/protocol/message.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Payloads are written field after field: numbers as eight bytes, strings as they are. Messages are
 * few, so that nothing is packed. */

bool orr_member_id_equal(const orr_member_id *a, const orr_member_id *b)
{
    return a->incarnation == b->incarnation && strcmp(a->name, b->name) == 0;
}

bool orr_caller_is_late(orr_caller *last, const orr_member_id *id, uint64_t call)
{
    if (orr_member_id_equal(&last->id, id) && call < last->call)
        return true;
    *last = (orr_caller){*id, call};
    return false;
}

static bool put(orr_message_bytes *to, const void *data, size_t bytes)
{
    if (!orr_array_reserve(to, bytes))
        return false;
    memcpy(to->at + to->n, data, bytes);
    to->n += bytes;
    return true;
}

static bool put_number(orr_message_bytes *to, uint64_t x)
{
    uint8_t text[8];
    for (int i = 0; i < 8; i++)
        text[i] = (uint8_t)(x >> 8 * i);
    return put(to, text, sizeof text);
}

static bool put_numbers(orr_message_bytes *to, const uint64_t *x, uint32_t n)
{
    bool ok = put_number(to, n);
    for (uint32_t i = 0; i < n && ok; i++)
        ok = put_number(to, x[i]);
    return ok;
}

static bool put_id(orr_message_bytes *to, const orr_member_id *id)
{
    return put(to, id->name, sizeof id->name) && put_number(to, id->incarnation);
}

static bool put_roll(orr_message_bytes *to, const orr_member_list *roll)
{
    bool ok = put_number(to, roll->n);
    for (uint32_t i = 0; i < roll->n && ok; i++)
        ok = put_id(to, &roll->ids[i]);
    return ok;
}

static bool put_data(orr_message_bytes *to, const orr_team_data_cursor *data)
{
    return put_number(to, data->next) && put_number(to, data->epoch) &&
           put_number(to, data->made) && put_numbers(to, data->returned, data->n);
}

static bool put_addresses(orr_message_bytes *to, const orr_addresses *a)
{
    return put_number(to, a->ranks) && put_number(to, a->bytes) &&
           (a->bytes == 0 || put(to, a->text, a->bytes));
}

/* A cursor over a payload; `bad` is set when more is read than there is. */
typedef struct reader {
    const uint8_t *at, *end;
    bool bad;
} reader;

static const uint8_t *take(reader *r, size_t bytes)
{
    const uint8_t *at = r->at;
    if (r->bad || (size_t)(r->end - r->at) < bytes) {
        r->bad = true;
        return NULL;
    }
    r->at += bytes;
    return at;
}

static uint64_t get(reader *r)
{
    const uint8_t *at = take(r, 8);
    uint64_t x = 0;
    for (int i = 0; i < 8 && at != NULL; i++)
        x |= (uint64_t)at[i] << 8 * i;
    return x;
}

static uint32_t get_count(reader *r, uint32_t most)
{
    const uint64_t n = get(r);
    r->bad |= n > most;
    return r->bad ? 0 : (uint32_t)n;
}

static bool get_flag(reader *r)
{
    return get_count(r, 1) != 0;
}

static uint32_t get_numbers(reader *r, uint64_t *ret, uint32_t most)
{
    const uint32_t n = get_count(r, most);
    for (uint32_t i = 0; i < n; i++)
        ret[i] = get(r);
    return n;
}

static orr_member_id get_id(reader *r)
{
    orr_member_id id = {.incarnation = 0};
    const uint8_t *name = take(r, sizeof id.name);
    if (name != NULL)
        memcpy(id.name, name, sizeof id.name);
    r->bad |= id.name[sizeof id.name - 1] != '\0' || id.name[0] == '\0';
    id.name[sizeof id.name - 1] = '\0';
    id.incarnation = get(r);
    return id;
}

static void get_roll(reader *r, orr_member_list *ret)
{
    ret->n = get_count(r, ORR_TEAM_MAX_REPLICAS);
    for (uint32_t i = 0; i < ret->n; i++)
        ret->ids[i] = get_id(r);
}

static orr_team_data_cursor get_data(reader *r)
{
    orr_team_data_cursor data = {.next = get(r)};
    data.epoch = get(r);
    data.made = get(r);
    r->bad |= data.next > UINT64_MAX / 2;
    data.n = get_numbers(r, data.returned, ORR_TEAM_MAX_RETURNED_SLOTS);
    for (uint32_t i = 0; i < data.n; i++)
        r->bad |=
            data.returned[i] >= data.next || (i > 0 && data.returned[i] <= data.returned[i - 1]);
    return data;
}

static orr_addresses get_addresses(reader *r)
{
    orr_addresses a = {.ranks = get_count(r, UINT32_MAX - 1)};
    const uint64_t bytes = get(r);
    a.bytes = bytes <= (size_t)(r->end - r->at) ? (size_t)bytes : SIZE_MAX;
    a.text = (const char *)take(r, a.bytes);
    uint64_t texts = 0;
    for (size_t i = 0; !r->bad && i < a.bytes; i++)
        texts += a.text[i] == '\0';
    r->bad |=
        texts != 2 * (uint64_t)a.ranks || (a.bytes > 0 && !r->bad && a.text[a.bytes - 1] != '\0');
    return r->bad ? (orr_addresses){.text = NULL} : a;
}

static reader reader_of(const void *payload, size_t bytes)
{
    static const uint8_t nothing[1];
    const uint8_t *at = payload != NULL ? payload : nothing;
    return (reader){at, at + (payload != NULL ? bytes : 0), false};
}

static bool whole(const reader *r)
{
    return !r->bad && r->at == r->end;
}

bool orr_addresses_of(const orr_addresses *addresses, uint32_t rank, const char **ret_ring,
                      const char **ret_state)
{
    const char *at = addresses->text;
    if (rank >= addresses->ranks)
        return false;
    for (uint32_t i = 0; i < 2 * rank; i++)
        at += strlen(at) + 1;
    *ret_ring = at;
    *ret_state = at + strlen(at) + 1;
    return true;
}

static bool put_report(orr_message_bytes *to, const orr_member_report *report)
{
    return put_id(to, &report->id) && put_number(to, report->step) && put_data(to, &report->data) &&
           put_number(to, report->known) && put_number(to, report->known_epoch) &&
           put_number(to, report->known_made) && put_number(to, report->slot) &&
           put_number(to, report->epoch) && put_roll(to, &report->members) &&
           put_roll(to, &report->base) && put_number(to, report->carried) &&
           put_number(to, report->prepared) && put_number(to, report->digest) &&
           put_number(to, report->made) && put_numbers(to, report->slots, report->n_slots);
}

bool orr_write_hello(orr_message_bytes *to, const orr_hello *hello)
{
    return put_number(to, ORR_TEAM_VERSION) && put_number(to, hello->fingerprint) &&
           put_number(to, hello->rank) && put_number(to, hello->ranks) &&
           put_report(to, &hello->report) && put_addresses(to, &hello->addresses);
}

bool orr_read_hello(const void *payload, size_t bytes, orr_hello *ret)
{
    reader r = reader_of(payload, bytes);
    r.bad |= get(&r) != ORR_TEAM_VERSION;
    ret->fingerprint = get(&r);
    ret->rank = get_count(&r, UINT32_MAX - 1);
    ret->ranks = get_count(&r, UINT32_MAX - 1);
    orr_member_report *report = &ret->report;
    report->id = get_id(&r);
    report->step = get(&r);
    report->data = get_data(&r);
    report->known = get(&r);
    report->known_epoch = get(&r);
    report->known_made = get(&r);
    report->slot = get(&r);
    report->epoch = get(&r);
    get_roll(&r, &report->members);
    get_roll(&r, &report->base);
    report->carried = get_flag(&r);
    report->prepared = get_flag(&r);
    report->digest = get(&r);
    report->made = get(&r);
    report->n_slots = get_numbers(&r, report->slots, ORR_TEAM_MAX_REPLICAS);
    ret->addresses = get_addresses(&r);
    r.bad |= ret->rank >= ret->ranks;
    return whole(&r);
}

bool orr_write_epoch(orr_message_bytes *to, const orr_epoch *epoch)
{
    bool ok = put_data(to, &epoch->data) && put_number(to, epoch->carried) &&
              put_number(to, epoch->digest) && put_number(to, epoch->made) &&
              put_numbers(to, epoch->slots, epoch->n_slots) && put_roll(to, &epoch->base) &&
              put_number(to, epoch->you) && put_number(to, epoch->n);
    for (uint32_t i = 0; i < epoch->n && ok; i++) {
        const orr_epoch_member *m = &epoch->members[i];
        ok = put_id(to, &m->id) && put_number(to, m->role) && put_number(to, m->slot) &&
             put_addresses(to, &m->addresses);
    }
    return ok;
}

bool orr_read_epoch(const orr_net_frame *frame, const void *payload, orr_epoch *ret)
{
    reader r = reader_of(payload, frame->bytes);
    ret->epoch = frame->epoch;
    ret->step = frame->step;
    ret->data = get_data(&r);
    ret->carried = get_flag(&r);
    ret->digest = get(&r);
    ret->made = get(&r);
    ret->n_slots = get_numbers(&r, ret->slots, ORR_TEAM_MAX_REPLICAS);
    get_roll(&r, &ret->base);
    ret->you = get_count(&r, ORR_TEAM_MAX_REPLICAS - 1);
    ret->n = get_count(&r, ORR_TEAM_MAX_REPLICAS);
    r.bad |= ret->you >= ret->n || ret->epoch == 0;
    for (uint32_t i = 0; i < ret->n && !r.bad; i++) {
        orr_epoch_member *m = &ret->members[i];
        m->id = get_id(&r);
        m->role = (uint8_t)get_count(&r, ORR_ROLE_HEALING);
        m->slot = get(&r);
        m->addresses = get_addresses(&r);
        r.bad |= m->addresses.ranks != ret->members[0].addresses.ranks;
    }
    return whole(&r);
}

bool orr_write_commit(orr_message_bytes *to, const orr_commit_message *commit)
{
    bool ok = put_number(to, commit->n);
    for (uint32_t i = 0; i < commit->n && ok; i++)
        ok = put_number(to, commit->role[i]) && put_number(to, commit->slot[i]);
    return ok;
}

bool orr_read_commit(const void *payload, size_t bytes, orr_commit_message *ret)
{
    reader r = reader_of(payload, bytes);
    ret->n = get_count(&r, ORR_TEAM_MAX_REPLICAS);
    for (uint32_t i = 0; i < ret->n; i++) {
        ret->role[i] = (uint8_t)get_count(&r, ORR_ROLE_HEALING);
        ret->slot[i] = get(&r);
    }
    return whole(&r);
}

bool orr_write_heartbeat(orr_message_bytes *to, const orr_heartbeat *h)
{
    return put_number(to, h->posted) && put_number(to, h->reduced) && put_number(to, h->sent) &&
           put_number(to, h->received) && put_number(to, h->fetched);
}

bool orr_read_heartbeat(const void *payload, size_t bytes, orr_heartbeat *ret)
{
    reader r = reader_of(payload, bytes);
    ret->posted = get(&r);
    ret->reduced = get(&r);
    ret->sent = get(&r);
    ret->received = get(&r);
    ret->fetched = get(&r);
    return whole(&r);
}

bool orr_write_ready(orr_message_bytes *to, const orr_ready_message *ready)
{
    return put_number(to, ready->digest) && put_number(to, ready->whole);
}

bool orr_read_ready(const void *payload, size_t bytes, orr_ready_message *ret)
{
    reader r = reader_of(payload, bytes);
    ret->digest = get(&r);
    ret->whole = get_flag(&r);
    return whole(&r);
}

bool orr_write_fault(orr_message_bytes *to, const orr_fault_report *fault)
{
    return put_number(to, fault->about) && put(to, fault->why, sizeof fault->why);
}

bool orr_read_fault(const void *payload, size_t bytes, orr_fault_report *ret)
{
    reader r = reader_of(payload, bytes);
    ret->about = get_count(&r, UINT32_MAX);
    const uint8_t *why = take(&r, sizeof ret->why);
    if (why != NULL)
        memcpy(ret->why, why, sizeof ret->why);
    r.bad |= ret->why[sizeof ret->why - 1] != '\0';
    return whole(&r);
}

bool orr_write_record(orr_message_bytes *to, const orr_epoch_record *record)
{
    return put_number(to, ORR_TEAM_VERSION) && put_number(to, record->epoch) &&
           put_number(to, record->fingerprint) && put_roll(to, &record->members) &&
           put_roll(to, &record->base);
}

bool orr_read_record(const void *payload, size_t bytes, orr_epoch_record *ret)
{
    reader r = reader_of(payload, bytes);
    r.bad |= get(&r) != ORR_TEAM_VERSION;
    ret->epoch = get(&r);
    ret->fingerprint = get(&r);
    get_roll(&r, &ret->members);
    get_roll(&r, &ret->base);
    return whole(&r);
}

void orr_message_send(orr_net *net, orr_conn conn, orr_team_message_kind kind, uint64_t epoch,
                      uint64_t step, const orr_message_bytes *payload)
{
    const orr_net_frame frame = {.kind = (uint16_t)kind,
                                 .epoch = epoch,
                                 .step = step,
                                 .bytes = payload != NULL ? (uint32_t)payload->n : 0};
    if (conn != 0)
        net->send(net, conn, &frame, payload != NULL ? payload->at : NULL, false);
}

void orr_message_send_fault(orr_net *net, orr_conn conn, orr_team_message_kind kind, uint64_t epoch,
                            uint32_t about, const char *reason)
{
    orr_fault_report fault = {.about = about};
    orr_message_bytes payload = {0};
    snprintf(fault.why, sizeof fault.why, "%s", reason);
    if (orr_write_fault(&payload, &fault))
        orr_message_send(net, conn, kind, epoch, 0, &payload);
    orr_array_done(&payload);
}

void *orr_message_inbox_place(orr_message_inbox *inbox, const orr_net_frame *frame, uint32_t most)
{
    if (frame->bytes <= ORR_NET_BUFFER_BYTES || frame->bytes > most)
        return NULL;
    if (frame->bytes > inbox->bytes) {
        orr_free(inbox->at);
        inbox->at = orr_malloc(frame->bytes);
        inbox->bytes = inbox->at != NULL ? frame->bytes : 0;
    }
    return inbox->at;
}
