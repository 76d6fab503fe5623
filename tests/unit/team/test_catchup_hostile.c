/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/philox.h"
#include "catchup_lab.h"
#include "team/catchup/parts.h"

/* Peers that say what cannot be. Nobody believes them, and nobody else suffers. */

/* One that sends frames of the test's making, as a taker or as a source. */
typedef struct stranger {
    uint32_t host;
    orr_net *net;
    orr_net_callbacks user;
    orr_conn conn;
    char address[ORR_NET_ADDRESS_BYTES];
    int frames, closed;
    orr_net_frame last;
    void (*answer)(struct stranger *self, const orr_net_frame *asked);
    uint32_t nth; /* fault of its answers */
} stranger;
static char payload[ORR_CATCHUP_CHUNK_BYTES + 8];

static void stranger_accepted(void *ctx, orr_conn conn)
{
    ((stranger *)ctx)->conn = conn;
}

static void stranger_frame(void *ctx, orr_conn conn, const orr_net_frame *f, const void *data)
{
    stranger *s = ctx;
    (void)data;
    (void)conn;
    s->frames++;
    s->last = *f;
    if (s->answer != NULL)
        s->answer(s, f);
}

static void stranger_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    (void)conn;
    (void)why;
    ((stranger *)ctx)->closed++;
}

static void stranger_init(stranger *s, lab *l)
{
    orr_error err = {0};
    *s = (stranger){.user = {.ctx = s,
                             .accepted = stranger_accepted,
                             .frame = stranger_frame,
                             .closed = stranger_closed}};
    assert_int_equal(orr_simnet_add_host(l->world, &s->host, &err), ORR_OK);
    s->net = orr_simnet_host_net(l->world, s->host);
    assert_int_equal(s->net->listen(s->net, &s->user, "h:0", s->address, &err), ORR_OK);
}

static void call(stranger *s, const char *address)
{
    orr_error err = {0};
    assert_int_equal(s->net->connect(s->net, &s->user, address, &s->conn, &err), ORR_OK);
}

static void send(stranger *s, const orr_net_frame *f)
{
    s->net->send(s->net, s->conn, f, payload, false);
}

static orr_net_frame honest_ask(uint32_t chunk)
{
    return (orr_net_frame){.kind = ORR_CATCHUP_REQUEST,
                           .epoch = lab_bytes(),
                           .step = 3,
                           .chunk = chunk,
                           .partition = 1,
                           .round = CHUNKS};
}

static void test_requests_that_cannot_be(void **state)
{
    (void)state;
    lab l;
    stranger s;
    lab_init(&l, 1, 1);
    stranger_init(&s, &l);
    offer(&l, 3, 1, 1);
    orr_net_frame bad[12];
    for (int i = 0; i < 12; i++)
        bad[i] = honest_ask(1);
    bad[0].kind = ORR_CATCHUP_DATA;
    bad[1].kind = 7;
    bad[2].chunk = CHUNKS;
    bad[3].chunk = UINT32_MAX;
    bad[4].partition = 0;
    bad[5].lane = 1;
    bad[6].partition = ORR_CATCHUP_MAX_PROVIDERS + 1;
    bad[7].op = 5, bad[7].round = 4;
    bad[8].round = CHUNKS + 1;
    bad[9].epoch++;
    bad[10].bytes = 8;
    bad[11].kind = ORR_CATCHUP_ACK, bad[11].epoch = 0;
    for (int i = 0; i < 12; i++) {
        call(&s, l.addresses[0]);
        send(&s, &bad[i]);
        run_for(&l, 5 * ms_ns);
        assert_int_equal(s.closed, i + 1);
        assert_int_equal(s.frames, 0);
    }
    call(&s, l.addresses[0]); /* of two steps */
    orr_net_frame f = honest_ask(8);
    send(&s, &f);
    f.step = 4;
    send(&s, &f);
    run_for(&l, 5 * ms_ns);
    assert_int_equal(s.closed, 13);
    begin(&l, 1, 3, 1);
    run_for(&l, 100 * ms_ns);
    assert_int_equal(l.members[1].wholes, 1);
    assert_true(holds(&l.members[1], 3));
    lab_done(&l);
}

/* As many requests as may wait, and one more. */
static void test_too_many_requests(void **state)
{
    (void)state;
    lab l;
    stranger s;
    lab_init(&l, 1, 0);
    stranger_init(&s, &l);
    call(&s, l.addresses[0]);
    const orr_net_frame f = honest_ask(8);
    for (int i = 0; i < ORR_CATCHUP_WINDOW; i++)
        send(&s, &f);
    run_for(&l, 5 * ms_ns);
    assert_int_equal(s.closed, 0);
    send(&s, &f);
    run_for(&l, 5 * ms_ns);
    assert_int_equal(s.closed, 1);
    lab_done(&l);
}

static void test_too_many_takers(void **state)
{
    (void)state;
    lab l;
    stranger s;
    lab_init(&l, 1, 1);
    stranger_init(&s, &l);
    for (int i = 0; i < 400; i++)
        call(&s, l.addresses[0]);
    run_for(&l, 5 * ms_ns);
    assert_true(s.closed > 0 && s.closed < 400);
    s.net->forget(s.net, &s.user); /* and those who remain leave */
    run_for(&l, 5 * ms_ns);
    offer(&l, 3, 1, 1);
    begin(&l, 1, 3, 1);
    run_for(&l, 100 * ms_ns);
    assert_int_equal(l.members[1].wholes, 1);
    lab_done(&l);
}

/* What a taker says to lack is not trusted: keep() stays in its part. */
static void test_ranges_of_any_kind(void **state)
{
    (void)state;
    lab l;
    stranger s;
    lab_init(&l, 3, 0);
    stranger_init(&s, &l);
    orr_random random = orr_random_of(11, 0);
    for (uint64_t step = 0; step < 60; step++) {
        const uint32_t n = 1 + (uint32_t)orr_random_below(&random, 3);
        const uint32_t index = (uint32_t)orr_random_below(&random, n);
        orr_state_provider_offer(l.members[0].source, step, 1, index, n);
        call(&s, l.addresses[0]);
        orr_net_frame f = honest_ask((uint32_t)orr_random_below(&random, CHUNKS));
        f.step = step;
        f.lane = (uint16_t)index;
        f.partition = n;
        f.op = (uint32_t)orr_random_below(&random, CHUNKS + 1);
        f.round = f.op + (uint32_t)orr_random_below(&random, CHUNKS + 1 - f.op);
        send(&s, &f);
        run_for(&l, ms_ns / 4);
        orr_error err = {0};
        const uint64_t kept = orr_state_provider_counts_of(l.members[0].source).kept_bytes;
        assert_int_equal(orr_state_provider_snapshot(l.members[0].source, &err), ORR_OK);
        assert_true(orr_state_provider_counts_of(l.members[0].source).kept_bytes - kept <=
                    (uint64_t)(CHUNKS / n + 1) * MIB);
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
            f.chunk = chunk;
            send(&s, &f);
        }
        run_for(&l, 20 * ms_ns);
        s.net->close(s.net, s.conn, false);
    }
    assert_int_equal(s.closed, 0);
    assert_int_equal(s.frames, 60 * (CHUNKS + 1));
    lab_done(&l);
}

static void answer_wrongly(stranger *s, const orr_net_frame *asked)
{
    if (asked->kind != ORR_CATCHUP_REQUEST)
        return;
    orr_net_frame f = {.kind = ORR_CATCHUP_DATA,
                       .step = asked->step,
                       .chunk = asked->chunk,
                       .bytes = ORR_CATCHUP_CHUNK_BYTES};
    switch (s->nth) {
    case 0:
        f.chunk = CHUNKS - 2;
        break;
    case 1:
        f.chunk = UINT32_MAX;
        break;
    case 2:
        f.bytes = 0;
        break;
    case 3:
        f.bytes = ORR_CATCHUP_CHUNK_BYTES + 8;
        break;
    case 4:
        f.step++;
        break;
    case 5:
        f.kind = ORR_CATCHUP_REQUEST, f.bytes = 0;
        break;
    case 6:
        f.kind = 9;
        break;
    case 7: /* has it, and refuses */
        f = *asked, f.kind = ORR_CATCHUP_GONE, f.op = 0, f.round = CHUNKS;
        break;
    case 8:
        f.kind = ORR_CATCHUP_GONE;
        break;
    default: /* twice */
        memset(payload, 0, sizeof payload);
        for (size_t at = 0; at < ORR_CATCHUP_CHUNK_BYTES; at++)
            payload[at] = at == 0 ? (char)byte_of(3, 1, 0) : (char)byte_of(3, 2, at - 1);
        send(s, &f);
    }
    send(s, &f);
}

/* Beside an honest source: the stranger is left, the state is whole and right. */
static void test_answers_that_cannot_be(void **state)
{
    (void)state;
    for (uint32_t nth = 0; nth < 10; nth++) {
        lab l;
        stranger s;
        lab_init(&l, 2, 1);
        stranger_init(&s, &l);
        s.answer = answer_wrongly;
        s.nth = nth;
        offer(&l, 3, 1, 2);
        orr_state_provider_offer(l.members[1].source, 3, 1, 1, 2);
        l.addresses[0] = s.address;
        begin(&l, 2, 3, 2);
        run_for(&l, 50 * ms_ns);
        assert_int_equal(s.closed, 1);
        assert_int_equal(l.members[2].wholes, 1);
        assert_int_equal(l.members[2].losses, 0);
        assert_true(holds(&l.members[2], 3));
        lab_done(&l);
    }
}

static void test_a_state_of_another_size(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 1, 1);
    orr_error err = {0};
    offer(&l, 3, 1, 1);
    member *m = &l.members[1];
    const orr_state_receiver_callbacks user = {.ctx = m, .whole = on_whole, .lost = on_lost};
    orr_state_receiver_free(m->taker);
    assert_int_equal(orr_state_receiver_new(m->net, m->spans, SPANS - 2, 0, &user, &m->taker, &err),
                     ORR_OK);
    begin(&l, 1, 3, 1);
    run_for(&l, 50 * ms_ns);
    assert_int_equal(m->losses, 1);
    assert_int_equal(m->wholes, 0);
    lab_done(&l);
}

static void test_more_than_can_be_counted(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 0, 1);
    const orr_team_span much[2] = {{NULL, SIZE_MAX / 2}, {NULL, SIZE_MAX / 2 + 8}};
    const orr_state_receiver_callbacks user = {0};
    orr_error err = {0};
    orr_state_receiver *t;
    orr_state_provider *s;
    orr_net *net = l.members[0].net;
    assert_int_equal(orr_state_receiver_new(net, much, 2, 0, &user, &t, &err), ORR_LIMIT);
    assert_int_equal(orr_state_provider_new(net, "h:0", much, 1, &s, &err), ORR_LIMIT);
    lab_done(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_that_cannot_be),
        cmocka_unit_test(test_too_many_requests),
        cmocka_unit_test(test_too_many_takers),
        cmocka_unit_test(test_ranges_of_any_kind),
        cmocka_unit_test(test_answers_that_cannot_be),
        cmocka_unit_test(test_a_state_of_another_size),
        cmocka_unit_test(test_more_than_can_be_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
