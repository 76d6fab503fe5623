/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ANY_MESSAGE_H
#define TESTS_ANY_MESSAGE_H

#include <string.h>

#include "team/protocol/message.h"

/* Any payload of the team's, by its kind: written, read, and looked at for what no reader may let
 * through. */
typedef enum any_kind {
    ANY_HELLO,
    ANY_EPOCH,
    ANY_COMMIT,
    ANY_HEARTBEAT,
    ANY_READY,
    ANY_FAULT,
    ANY_RECORD,
    ANY_KINDS
} any_kind;

typedef struct any_message {
    any_kind kind;
    union {
        orr_hello hello;
        orr_epoch epoch;
        orr_commit_message commit;
        orr_heartbeat heartbeat;
        orr_ready_message ready;
        orr_fault_report fault;
        orr_epoch_record record;
    };
} any_message;

static inline bool any_write(orr_message_bytes *to, const any_message *m)
{
    switch (m->kind) {
    case ANY_HELLO:
        return orr_write_hello(to, &m->hello);
    case ANY_EPOCH:
        return orr_write_epoch(to, &m->epoch);
    case ANY_COMMIT:
        return orr_write_commit(to, &m->commit);
    case ANY_HEARTBEAT:
        return orr_write_heartbeat(to, &m->heartbeat);
    case ANY_READY:
        return orr_write_ready(to, &m->ready);
    case ANY_FAULT:
        return orr_write_fault(to, &m->fault);
    case ANY_RECORD:
        return orr_write_record(to, &m->record);
    case ANY_KINDS:
        break;
    }
    return false;
}

/* Of epoch 7, after step 41. */
static inline bool any_read(any_kind kind, const void *payload, size_t bytes, any_message *ret)
{
    const orr_net_frame frame = {.epoch = 7, .step = 41, .bytes = (uint32_t)bytes};
    memset(ret, 0, sizeof *ret);
    ret->kind = kind;
    switch (kind) {
    case ANY_HELLO:
        return orr_read_hello(payload, bytes, &ret->hello);
    case ANY_EPOCH:
        return orr_read_epoch(&frame, payload, &ret->epoch);
    case ANY_COMMIT:
        return orr_read_commit(payload, bytes, &ret->commit);
    case ANY_HEARTBEAT:
        return orr_read_heartbeat(payload, bytes, &ret->heartbeat);
    case ANY_READY:
        return orr_read_ready(payload, bytes, &ret->ready);
    case ANY_FAULT:
        return orr_read_fault(payload, bytes, &ret->fault);
    case ANY_RECORD:
        return orr_read_record(payload, bytes, &ret->record);
    case ANY_KINDS:
        break;
    }
    return false;
}

static inline bool any_id_bounded(const orr_member_id *id)
{
    return id->name[0] != '\0' && memchr(id->name, '\0', sizeof id->name) != NULL;
}

static inline bool any_roll_bounded(const orr_member_list *roll)
{
    bool ok = roll->n <= ORR_TEAM_MAX_REPLICAS;
    for (uint32_t i = 0; ok && i < roll->n; i++)
        ok = any_id_bounded(&roll->ids[i]);
    return ok;
}

static inline bool any_data_bounded(const orr_team_data_cursor *data)
{
    bool ok = data->n <= ORR_TEAM_MAX_RETURNED_SLOTS;
    for (uint32_t i = 0; ok && i < data->n; i++)
        ok =
            data->returned[i] < data->next && (i == 0 || data->returned[i - 1] < data->returned[i]);
    return ok;
}

/* All texts lie within the payload, and are as many as it says. */
static inline bool any_addresses_bounded(const orr_addresses *a, const char *payload, size_t bytes)
{
    const char *ring = NULL, *state = NULL;
    if (a->ranks == 0)
        return a->bytes == 0 && !orr_addresses_of(a, 0, &ring, &state);
    if (a->text < payload || a->bytes > bytes || a->text + a->bytes > payload + bytes)
        return false;
    if (!orr_addresses_of(a, a->ranks - 1, &ring, &state) ||
        orr_addresses_of(a, a->ranks, &ring, &state))
        return false;
    return ring >= a->text && state > ring && state + strlen(state) + 1 == a->text + a->bytes;
}

static inline bool any_epoch_bounded(const orr_epoch *e, const char *payload, size_t bytes)
{
    bool ok = e->n <= ORR_TEAM_MAX_REPLICAS && e->you < e->n &&
              e->n_slots <= ORR_TEAM_MAX_REPLICAS && e->epoch > 0 && any_data_bounded(&e->data) &&
              any_roll_bounded(&e->base);
    for (uint32_t i = 0; ok && i < e->n; i++)
        ok = any_id_bounded(&e->members[i].id) && e->members[i].role <= ORR_ROLE_HEALING &&
             e->members[i].addresses.ranks == e->members[0].addresses.ranks &&
             any_addresses_bounded(&e->members[i].addresses, payload, bytes);
    return ok;
}

/* What was read of this payload can be relied on. */
static inline bool any_bounded(const any_message *m, const void *payload, size_t bytes)
{
    const orr_member_report *r = &m->hello.report;
    bool ok = true;
    switch (m->kind) {
    case ANY_HELLO:
        return m->hello.rank < m->hello.ranks && any_id_bounded(&r->id) &&
               any_data_bounded(&r->data) && any_roll_bounded(&r->members) &&
               any_roll_bounded(&r->base) && r->n_slots <= ORR_TEAM_MAX_REPLICAS &&
               any_addresses_bounded(&m->hello.addresses, payload, bytes);
    case ANY_EPOCH:
        return any_epoch_bounded(&m->epoch, payload, bytes);
    case ANY_COMMIT:
        ok = m->commit.n <= ORR_TEAM_MAX_REPLICAS;
        for (uint32_t i = 0; ok && i < m->commit.n; i++)
            ok = m->commit.role[i] <= ORR_ROLE_HEALING;
        return ok;
    case ANY_FAULT:
        return memchr(m->fault.why, '\0', sizeof m->fault.why) != NULL;
    case ANY_RECORD:
        return any_roll_bounded(&m->record.members) && any_roll_bounded(&m->record.base);
    case ANY_HEARTBEAT:
    case ANY_READY:
    case ANY_KINDS:
        break;
    }
    return true;
}

/* Reads it; false: it reads as something that must not be let through, or that is not what was
 * written. Every payload has one reading, so what is read is written as the same bytes. */
static inline bool any_holds(any_kind kind, const void *payload, size_t bytes, bool *ret_reads)
{
    any_message m;
    orr_message_bytes again = {0};
    *ret_reads = any_read(kind, payload, bytes, &m);
    if (!*ret_reads)
        return true;
    const bool same = any_bounded(&m, payload, bytes) && any_write(&again, &m) &&
                      again.n == bytes && memcmp(again.at, payload, bytes) == 0;
    orr_array_done(&again);
    return same;
}

#endif /* TESTS_ANY_MESSAGE_H */
