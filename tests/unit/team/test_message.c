/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "any_message.h"
#include "base/alloc.h"

/* Messages between members, hubs and coordinators: written, read back, cut, flipped, too large. */

static orr_member_id id_of(uint32_t i)
{
    orr_member_id id = {.incarnation = UINT64_C(0x1122334455667700) + i};
    snprintf(id.name, sizeof id.name, "replica-%02u", i);
    return id;
}

static orr_member_list roll_of(uint32_t n)
{
    orr_member_list roll = {.n = n};
    for (uint32_t i = 0; i < n && i < ORR_TEAM_MAX_REPLICAS; i++)
        roll.ids[i] = id_of(i);
    return roll;
}

static orr_team_data_cursor data_of(uint32_t n)
{
    orr_team_data_cursor data = {.next = 1000, .n = n, .epoch = 6};
    for (uint32_t i = 0; i < n; i++)
        data.returned[i] = 3 * i;
    return data;
}

static const char ADDRESSES[] = "h1:1\0h1:2\0h1:3|shm\0h1:4"; /* two ranks */
#define TWO_RANKS ((orr_addresses){ADDRESSES, sizeof ADDRESSES, 2})

/* Every field another number, `n` of everything that there may be several of. */
static any_message example(any_kind kind, uint32_t n)
{
    any_message m;
    memset(&m, 0, sizeof m);
    m.kind = kind;
    switch (kind) {
    case ANY_HELLO:
        m.hello = (orr_hello){.fingerprint = 11, .ranks = 2, .addresses = TWO_RANKS};
        m.hello.report = (orr_member_report){.id = id_of(3),
                                             .step = 41,
                                             .data = data_of(n),
                                             .known = 42,
                                             .known_epoch = 17,
                                             .slot = 12,
                                             .epoch = 7,
                                             .members = roll_of(n),
                                             .base = roll_of(n / 2),
                                             .carried = true,
                                             .prepared = true,
                                             .digest = 13,
                                             .n_slots = n};
        for (uint32_t i = 0; i < n; i++)
            m.hello.report.slots[i] = 100 + i;
        break;
    case ANY_EPOCH:
        m.epoch = (orr_epoch){.epoch = 7,
                              .step = 41,
                              .data = data_of(n),
                              .carried = true,
                              .digest = 14,
                              .n_slots = n,
                              .base = roll_of(n),
                              .you = n - 1,
                              .n = n};
        for (uint32_t i = 0; i < n; i++) {
            m.epoch.slots[i] = 200 + i;
            m.epoch.members[i] = (orr_epoch_member){
                .id = id_of(i), .role = i % 2, .slot = 300 + i, .addresses = TWO_RANKS};
        }
        break;
    case ANY_COMMIT:
        m.commit.n = n;
        for (uint32_t i = 0; i < n; i++) {
            m.commit.role[i] = i % 2;
            m.commit.slot[i] = i % 3 == 0 ? ORR_TEAM_NONE : 400 + i;
        }
        break;
    case ANY_HEARTBEAT:
        m.heartbeat = (orr_heartbeat){1, 2, UINT64_MAX, 4, 5};
        break;
    case ANY_READY:
        m.ready = (orr_ready_message){.digest = UINT64_C(0xfedcba9876543210), .whole = true};
        break;
    case ANY_FAULT:
        m.fault.about = UINT32_MAX;
        snprintf(m.fault.why, sizeof m.fault.why, "the peer closed the connection");
        break;
    case ANY_RECORD:
        m.record = (orr_epoch_record){
            .epoch = 7, .fingerprint = 9, .members = roll_of(n), .base = roll_of(n / 2)};
        break;
    case ANY_KINDS:
        break;
    }
    return m;
}

static void same_roll(const orr_member_list *a, const orr_member_list *b)
{
    assert_int_equal(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++)
        assert_true(orr_member_id_equal(&a->ids[i], &b->ids[i]));
}

static void same_data(const orr_team_data_cursor *a, const orr_team_data_cursor *b)
{
    assert_int_equal(a->next, b->next);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->returned, b->returned, a->n * sizeof *a->returned);
}

static void same_addresses(const orr_addresses *a, const orr_addresses *b)
{
    assert_int_equal(a->ranks, b->ranks);
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->text, b->text, a->bytes);
}

static void same_hello(const orr_hello *a, const orr_hello *b)
{
    const orr_member_report *r = &a->report, *s = &b->report;
    assert_int_equal(a->fingerprint, b->fingerprint);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->ranks, b->ranks);
    assert_true(orr_member_id_equal(&r->id, &s->id));
    assert_int_equal(r->step, s->step);
    same_data(&r->data, &s->data);
    assert_int_equal(r->known, s->known);
    assert_int_equal(r->known_epoch, s->known_epoch);
    assert_int_equal(r->slot, s->slot);
    assert_int_equal(r->epoch, s->epoch);
    same_roll(&r->members, &s->members);
    same_roll(&r->base, &s->base);
    assert_int_equal(r->carried, s->carried);
    assert_int_equal(r->prepared, s->prepared);
    assert_int_equal(r->digest, s->digest);
    assert_int_equal(r->n_slots, s->n_slots);
    assert_memory_equal(r->slots, s->slots, r->n_slots * sizeof *r->slots);
    same_addresses(&a->addresses, &b->addresses);
}

static void same_epoch(const orr_epoch *a, const orr_epoch *b)
{
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->step, b->step);
    same_data(&a->data, &b->data);
    assert_int_equal(a->carried, b->carried);
    assert_int_equal(a->digest, b->digest);
    assert_int_equal(a->n_slots, b->n_slots);
    assert_memory_equal(a->slots, b->slots, a->n_slots * sizeof *a->slots);
    same_roll(&a->base, &b->base);
    assert_int_equal(a->you, b->you);
    assert_int_equal(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        assert_true(orr_member_id_equal(&a->members[i].id, &b->members[i].id));
        assert_int_equal(a->members[i].role, b->members[i].role);
        assert_int_equal(a->members[i].slot, b->members[i].slot);
        same_addresses(&a->members[i].addresses, &b->members[i].addresses);
    }
}

static void same(const any_message *a, const any_message *b)
{
    switch (a->kind) {
    case ANY_HELLO:
        same_hello(&a->hello, &b->hello);
        break;
    case ANY_EPOCH:
        same_epoch(&a->epoch, &b->epoch);
        break;
    case ANY_COMMIT:
        assert_int_equal(a->commit.n, b->commit.n);
        assert_memory_equal(a->commit.role, b->commit.role, a->commit.n);
        assert_memory_equal(a->commit.slot, b->commit.slot, a->commit.n * sizeof *a->commit.slot);
        break;
    case ANY_HEARTBEAT:
        assert_memory_equal(&a->heartbeat, &b->heartbeat, sizeof a->heartbeat);
        break;
    case ANY_READY:
        assert_int_equal(a->ready.digest, b->ready.digest);
        assert_int_equal(a->ready.whole, b->ready.whole);
        break;
    case ANY_FAULT:
        assert_int_equal(a->fault.about, b->fault.about);
        assert_string_equal(a->fault.why, b->fault.why);
        break;
    case ANY_RECORD:
        assert_int_equal(a->record.epoch, b->record.epoch);
        assert_int_equal(a->record.fingerprint, b->record.fingerprint);
        same_roll(&a->record.members, &b->record.members);
        same_roll(&a->record.base, &b->record.base);
        break;
    case ANY_KINDS:
        fail();
    }
}

static void test_written_and_read_back(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 17, ORR_TEAM_MAX_REPLICAS};
    for (int kind = 0; kind < ANY_KINDS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            const any_message m = example((any_kind)kind, counts[i]);
            any_message back;
            orr_message_bytes payload = {0};
            bool reads;
            assert_true(any_write(&payload, &m));
            assert_true(any_read(m.kind, payload.at, payload.n, &back));
            same(&m, &back);
            assert_true(any_holds(m.kind, payload.at, payload.n, &reads));
            assert_true(reads);
            orr_array_done(&payload);
        }
}

static void test_appended_to_what_is_there(void **state)
{
    (void)state;
    const any_message m = example(ANY_READY, 1);
    orr_message_bytes payload = {0};
    any_message back;
    assert_true(any_write(&payload, &m));
    const size_t one = payload.n;
    assert_true(any_write(&payload, &m));
    assert_int_equal(payload.n, 2 * one);
    assert_true(any_read(ANY_READY, payload.at + one, one, &back));
    same(&m, &back);
    orr_array_done(&payload);
}

/* In memory of just this size, so that a sanitizer sees a read behind the end. */
static bool holds_exact(any_kind kind, const uint8_t *payload, size_t bytes, bool *ret_reads)
{
    uint8_t *exact = orr_malloc(bytes > 0 ? bytes : 1);
    assert_non_null(exact);
    if (bytes > 0)
        memcpy(exact, payload, bytes);
    const bool holds = any_holds(kind, exact, bytes, ret_reads);
    orr_free(exact);
    return holds;
}

static void test_truncated(void **state)
{
    (void)state;
    bool reads;
    for (int kind = 0; kind < ANY_KINDS; kind++) {
        const any_message m = example((any_kind)kind, 3);
        orr_message_bytes payload = {0};
        assert_true(any_write(&payload, &m));
        for (size_t n = 0; n < payload.n; n++) {
            assert_true(holds_exact(m.kind, payload.at, n, &reads));
            assert_false(reads);
        }
        assert_false(any_read(m.kind, NULL, payload.n, &(any_message){.kind = m.kind}));
        assert_true(orr_array_push(&payload, 0));
        assert_true(holds_exact(m.kind, payload.at, payload.n, &reads)); /* one byte too many */
        assert_false(reads);
        orr_array_done(&payload);
    }
}

static void test_every_bit_flipped(void **state)
{
    (void)state;
    for (int kind = 0; kind < ANY_KINDS; kind++) {
        const any_message m = example((any_kind)kind, 2);
        orr_message_bytes payload = {0};
        uint32_t refused = 0;
        assert_true(any_write(&payload, &m));
        for (size_t bit = 0; bit < 8 * payload.n; bit++) {
            bool reads;
            payload.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_true(holds_exact(m.kind, payload.at, payload.n, &reads));
            refused += !reads;
            payload.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        /* Plain numbers are as good as any others; counts, flags, versions are not. */
        assert_true(kind == ANY_HEARTBEAT ? refused == 0 : refused > 0);
        orr_array_done(&payload);
    }
}

/* A payload of numbers, each eight bytes. */
static void number(orr_message_bytes *to, uint64_t x)
{
    for (int i = 0; i < 8; i++)
        assert_true(orr_array_push(to, (uint8_t)(x >> 8 * i)));
}

static void test_65_members(void **state)
{
    (void)state;
    for (uint32_t n = ORR_TEAM_MAX_REPLICAS; n <= ORR_TEAM_MAX_REPLICAS + 1; n++) {
        orr_message_bytes commit = {0}, record = {0};
        any_message back;
        number(&commit, n);
        for (uint32_t i = 0; i < n; i++) {
            number(&commit, ORR_ROLE_CONTRIBUTOR);
            number(&commit, i);
        }
        assert_int_equal(any_read(ANY_COMMIT, commit.at, commit.n, &back),
                         n <= ORR_TEAM_MAX_REPLICAS);
        number(&record, ORR_TEAM_VERSION);
        number(&record, 5); /* epoch */
        number(&record, 7); /* job   */
        number(&record, n);
        for (uint32_t i = 0; i < n; i++) {
            const orr_member_id id = id_of(i);
            for (size_t k = 0; k < sizeof id.name; k++)
                assert_true(orr_array_push(&record, (uint8_t)id.name[k]));
            number(&record, id.incarnation);
        }
        number(&record, 0);
        assert_int_equal(any_read(ANY_RECORD, record.at, record.n, &back),
                         n <= ORR_TEAM_MAX_REPLICAS);
        orr_array_done(&commit);
        orr_array_done(&record);
    }
}

/* Writes what a careful sender never would, and reads it. */
static bool reads_back(const any_message *m)
{
    any_message back;
    orr_message_bytes payload = {0};
    assert_true(any_write(&payload, m));
    const bool reads = any_read(m->kind, payload.at, payload.n, &back);
    orr_array_done(&payload);
    return reads;
}

static void test_data_that_cannot_be(void **state)
{
    (void)state;
    any_message m = example(ANY_HELLO, 3);
    assert_true(reads_back(&m));
    m.hello.report.data.returned[2] = m.hello.report.data.returned[1]; /* twice */
    assert_false(reads_back(&m));
    m = example(ANY_EPOCH, 3);
    m.epoch.data.returned[0] = 5; /* not ascending */
    assert_false(reads_back(&m));
    m = example(ANY_EPOCH, 3);
    m.epoch.data.returned[2] = m.epoch.data.next; /* never given out, and back */
    assert_false(reads_back(&m));
}

static void test_names_that_cannot_be(void **state)
{
    (void)state;
    any_message m = example(ANY_HELLO, 2);
    memset(m.hello.report.id.name, 'x', ORR_TEAM_NAME_BYTES); /* no end */
    assert_false(reads_back(&m));
    m.hello.report.id.name[ORR_TEAM_NAME_BYTES - 1] = '\0'; /* the longest */
    assert_true(reads_back(&m));
    m.hello.report.id.name[0] = '\0';
    assert_false(reads_back(&m));
    m = example(ANY_RECORD, 2);
    memset(m.record.members.ids[1].name, 'x', ORR_TEAM_NAME_BYTES);
    assert_false(reads_back(&m));
    m = example(ANY_EPOCH, 2);
    m.epoch.base.ids[0].name[0] = '\0';
    assert_false(reads_back(&m));
    m = example(ANY_FAULT, 1);
    memset(m.fault.why, 'x', sizeof m.fault.why);
    assert_false(reads_back(&m));
}

static void test_epochs_that_cannot_be(void **state)
{
    (void)state;
    any_message m = example(ANY_EPOCH, 3), back;
    orr_message_bytes payload = {0};
    assert_true(any_write(&payload, &m));
    orr_net_frame frame = {.epoch = 0, .step = 41, .bytes = (uint32_t)payload.n};
    assert_false(orr_read_epoch(&frame, payload.at, &back.epoch)); /* epochs are counted from 1 */
    frame.epoch = 1;
    assert_true(orr_read_epoch(&frame, payload.at, &back.epoch));
    orr_array_done(&payload);
    m.epoch.you = 3;
    assert_false(reads_back(&m));
    m.epoch.you = UINT32_MAX;
    assert_false(reads_back(&m));
    m = example(ANY_EPOCH, 3);
    m.epoch.members[1].role = ORR_ROLE_HEALING + 1;
    assert_false(reads_back(&m));
    m = example(ANY_EPOCH, 3);
    m.epoch.n = 0; /* nobody */
    m.epoch.you = 0;
    assert_false(reads_back(&m));
}

static void test_addresses_that_cannot_be(void **state)
{
    (void)state;
    any_message m = example(ANY_HELLO, 1);
    m.hello.addresses.ranks = 3; /* than there are texts */
    assert_false(reads_back(&m));
    m.hello.addresses.ranks = 1;
    assert_false(reads_back(&m));
    m.hello.addresses =
        (orr_addresses){ADDRESSES, sizeof ADDRESSES - 1, 2}; /* the last has no NUL */
    assert_false(reads_back(&m));
    m.hello.addresses = (orr_addresses){"", 0, 2};
    assert_false(reads_back(&m));
    m.hello.addresses = (orr_addresses){"\0\0\0", 4, 2}; /* empty texts are texts */
    assert_true(reads_back(&m));
    m = example(ANY_EPOCH, 2);
    m.epoch.members[1].addresses = (orr_addresses){"a\0b", 4, 1}; /* replicas have as many ranks */
    assert_false(reads_back(&m));
}

static void test_ranks_that_cannot_be(void **state)
{
    (void)state;
    any_message m = example(ANY_HELLO, 1);
    m.hello.rank = 1;
    assert_true(reads_back(&m));
    m.hello.rank = 2;
    assert_false(reads_back(&m));
    m.hello.rank = m.hello.ranks = 0;
    assert_false(reads_back(&m));
}

static void test_another_version(void **state)
{
    (void)state;
    static const any_kind kinds[] = {ANY_HELLO, ANY_RECORD};
    for (size_t i = 0; i < 2; i++) {
        const any_message m = example(kinds[i], 1);
        any_message back;
        orr_message_bytes payload = {0};
        assert_true(any_write(&payload, &m));
        payload.at[0] = ORR_TEAM_VERSION + 1;
        assert_false(any_read(kinds[i], payload.at, payload.n, &back));
        orr_array_done(&payload);
    }
}

static void test_addresses_of_each_rank(void **state)
{
    (void)state;
    const orr_addresses two = TWO_RANKS, none = {0};
    const char *ring, *here;
    assert_true(orr_addresses_of(&two, 0, &ring, &here));
    assert_string_equal(ring, "h1:1");
    assert_string_equal(here, "h1:2");
    assert_true(orr_addresses_of(&two, 1, &ring, &here));
    assert_string_equal(ring, "h1:3|shm");
    assert_string_equal(here, "h1:4");
    assert_false(orr_addresses_of(&two, 2, &ring, &here));
    assert_false(orr_addresses_of(&none, 0, &ring, &here));
}

static void test_a_life_is_name_and_incarnation(void **state)
{
    (void)state;
    const orr_member_id a = {"a", 1}, b = {"b", 1}, again = {"a", 1}, later = {"a", 2};
    assert_true(orr_member_id_equal(&a, &again));
    assert_false(orr_member_id_equal(&a, &b));
    assert_false(orr_member_id_equal(&a, &later));
}

static void test_out_of_memory(void **state)
{
    (void)state;
    for (int kind = 0; kind < ANY_KINDS; kind++) {
        const any_message m = example((any_kind)kind, 40);
        bool ok = false;
        uint64_t nth = 1;
        for (; !ok && nth < 100; nth++) {
            orr_message_bytes payload = {0};
            orr_alloc_fail_from(nth);
            ok = any_write(&payload, &m);
            orr_alloc_fail_from(0);
            orr_array_done(&payload);
        }
        assert_true(ok);
        assert_true(nth > 2); /* it has failed, and then has not */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_and_read_back),
        cmocka_unit_test(test_appended_to_what_is_there),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_every_bit_flipped),
        cmocka_unit_test(test_65_members),
        cmocka_unit_test(test_data_that_cannot_be),
        cmocka_unit_test(test_names_that_cannot_be),
        cmocka_unit_test(test_epochs_that_cannot_be),
        cmocka_unit_test(test_addresses_that_cannot_be),
        cmocka_unit_test(test_ranks_that_cannot_be),
        cmocka_unit_test(test_another_version),
        cmocka_unit_test(test_addresses_of_each_rank),
        cmocka_unit_test(test_a_life_is_name_and_incarnation),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
