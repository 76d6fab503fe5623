/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "support/simulated/event_queue.h"
#include "network_lab.h"

enum { MS = 1000000, SEEDS = 16 }; /* what a connection draws differs between seeds */

static void frames_arrive_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        orr_simnet *world = lab_world(seed);
        static lab_host a, b;
        const orr_conn conn = lab_pair(world, &a, &b);
        b.places = seed % 2;
        for (uint32_t i = 0; i < 20; i++)
            lab_send(&a, conn, i, i % 4 == 3 ? 100000 : i * 10);
        orr_simnet_run(world, orr_simnet_now_ns(world) + 10 * MS);
        assert_int_equal(b.n, 20);
        assert_false(b.wrong);
        for (uint32_t i = 0; i < 20; i++) {
            assert_int_equal(b.notes[i].what, 'f');
            assert_int_equal(b.notes[i].step, i);
            assert_int_equal(b.notes[i].conn, b.accepted);
        }
        lab_send(&b, b.accepted, 77, 3); /* and back */
        orr_simnet_run(world, orr_simnet_now_ns(world) + MS);
        assert_int_equal(a.notes[a.n - 1].step, 77);
        orr_simnet_free(world);
    }
}

static void a_frame_takes_its_time(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(5);
    static lab_host a, b;
    const orr_conn conn = lab_pair(world, &a, &b);
    const int64_t begin_ns = orr_simnet_now_ns(world);
    const int64_t sent_ns = 100000 + ORR_NET_FRAME_BYTES; /* at a byte a ns */
    lab_send(&a, conn, 1, 100000);
    assert_int_equal(a.net->queued(a.net, conn), sent_ns);
    orr_simnet_run(world, begin_ns + MS);
    const int64_t took_ns = b.notes[0].at_ns - begin_ns;
    assert_in_range(took_ns, sent_ns + 20000, sent_ns + 30000);
    assert_int_equal(a.net->queued(a.net, conn), 0);
    orr_simnet_slow(world, b.host, 10);
    lab_send(&a, conn, 2, 100000);
    orr_simnet_run(world, begin_ns + 10 * MS);
    const int64_t slow_ns = b.notes[1].at_ns - begin_ns - MS;
    assert_in_range(slow_ns, 10 * sent_ns + 200000, 10 * sent_ns + 300000);
    orr_simnet_free(world);
}

static void frames_may_be_sent_at_once(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    lab_begin(world, &a);
    lab_begin(world, &b);
    const orr_conn conn = lab_connect(&a, &b);
    lab_send(&a, conn, 1, 10);
    assert_int_equal(a.net->queued(a.net, conn), 10 + ORR_NET_FRAME_BYTES);
    orr_simnet_run(world, MS);
    assert_int_equal(b.n, 2);
    assert_int_equal(b.notes[0].what, 'a');
    assert_int_equal(b.notes[1].what, 'f');
    orr_simnet_free(world);
}

static void nobody_listens(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    lab_begin(world, &a);
    lab_begin(world, &b);
    snprintf(b.address, sizeof b.address, "h%u:99", b.host);
    const orr_conn conn = lab_connect(&a, &b);
    lab_send(&a, conn, 1, 10);
    orr_simnet_run(world, MS);
    lab_expect_closed(&a, ORR_NET_REFUSED);
    assert_int_equal(a.notes[0].conn, conn);
    assert_int_equal(b.n, 0);
    orr_conn other;
    char address[ORR_NET_ADDRESS_BYTES];
    assert_int_equal(a.net->connect(a.net, &a.user, "h9:1", &other, NULL), ORR_INVALID);
    assert_int_equal(a.net->connect(a.net, &a.user, "somewhere:1", &other, NULL), ORR_INVALID);
    assert_int_equal(a.net->connect(a.net, &a.user, "h1:1x", &other, NULL), ORR_INVALID);
    assert_int_equal(a.net->listen(a.net, &a.user, "nowhere", address, NULL), ORR_INVALID);
    assert_int_equal(a.net->listen(a.net, &a.user, ":77", address, NULL), ORR_OK);
    assert_string_equal(address, "h0:77");
    assert_int_equal(a.net->listen(a.net, &a.user, ":77", address, NULL), ORR_IO);
    orr_simnet_free(world);
}

static void closing_loses_what_is_queued_or_not(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (int flush = 0; flush < 2; flush++) {
            orr_simnet *world = lab_world(seed);
            static lab_host a, b;
            static uint8_t kept[50000];
            const orr_conn conn = lab_pair(world, &a, &b);
            const orr_net_frame frame = {.step = 2, .bytes = sizeof kept};
            lab_fill(kept, sizeof kept, 2);
            lab_send(&a, conn, 1, 50000);
            a.net->send(a.net, conn, &frame, kept, true);
            orr_simnet_run(world, orr_simnet_now_ns(world) + 60000); /* the first has left */
            a.net->close(a.net, conn, flush);
            memset(kept, 0xee, sizeof kept); /* the connection is no more: it is ours again */
            lab_send(&a, conn, 3, 10);       /* to nobody */
            orr_simnet_run(world, orr_simnet_now_ns(world) + 10 * MS);
            assert_int_equal(b.frames, flush ? 2 : 1);
            assert_false(b.wrong);
            lab_expect_closed(&b, ORR_NET_PEER_CLOSED);
            assert_int_equal(lab_count(&a, 'x'), 0);
            assert_int_equal(orr_simnet_changed_payloads(world), 0);
            orr_simnet_free(world);
        }
    }
}

static void drained_when_all_is_handed_over(void **state)
{
    (void)state;
    uint32_t late = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        orr_simnet *world = lab_world(seed);
        static lab_host a, b;
        static uint8_t kept[5000];
        const orr_conn conn = lab_pair(world, &a, &b);
        const int64_t begin_ns = orr_simnet_now_ns(world);
        const orr_net_frame frame = {.step = 2, .bytes = sizeof kept};
        lab_fill(kept, sizeof kept, 2);
        a.net->send(a.net, conn, &frame, kept, true);
        a.net->send(a.net, conn, &frame, kept, true);
        orr_simnet_run(world, begin_ns + MS);
        assert_int_equal(a.n, 1);
        assert_int_equal(a.notes[0].what, 'd');
        const int64_t at_ns = a.notes[0].at_ns - begin_ns,
                      left_ns = 2 * (5000 + ORR_NET_FRAME_BYTES);
        if (a.notes[0].at_ns > b.notes[1].at_ns) /* the memory was read when the frame arrived */
            late++;
        else
            assert_int_equal(at_ns, left_ns);
        assert_int_equal(a.net->queued(a.net, conn), 0);
        orr_simnet_free(world);
    }
    assert_in_range(late, 1, SEEDS - 1);
}

/* Memory that is kept must stay as it is: a sender that changes it early is found out. */
static void kept_memory_that_changes_is_told(void **state)
{
    (void)state;
    uint64_t changed = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        orr_simnet *world = lab_world(seed);
        static lab_host a, b;
        static uint8_t kept[5000];
        const orr_conn conn = lab_pair(world, &a, &b);
        const orr_net_frame frame = {.step = 2, .bytes = sizeof kept};
        lab_fill(kept, sizeof kept, 2);
        a.net->send(a.net, conn, &frame, kept, true);
        kept[17]++;
        orr_simnet_run(world, orr_simnet_now_ns(world) + MS);
        assert_false(b.wrong);
        assert_int_equal(orr_simnet_changed_payloads(world), 1 - b.frames);
        if (b.frames == 0)
            lab_expect_closed(&b, ORR_NET_CORRUPT);
        changed += orr_simnet_changed_payloads(world);
        orr_simnet_free(world);
    }
    assert_in_range(changed, 1, SEEDS - 1);
}

static void one_timer_a_user(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a;
    lab_begin(world, &a);
    a.net->wake_at(a.net, &a.user, 5 * MS);
    a.net->wake_at(a.net, &a.user, 9 * MS); /* later */
    orr_simnet_run(world, 20 * MS);
    assert_int_equal(a.n, 1);
    assert_int_equal(a.notes[0].at_ns, 9 * MS);
    a.net->wake_at(a.net, &a.user, 50 * MS);
    a.net->wake_at(a.net, &a.user, 30 * MS); /* earlier */
    orr_simnet_run(world, 100 * MS);
    assert_int_equal(a.n, 2);
    assert_int_equal(a.notes[1].at_ns, 30 * MS);
    a.net->wake_at(a.net, &a.user, 110 * MS);
    a.net->wake_at(a.net, &a.user, INT64_MAX); /* not at all */
    orr_simnet_run(world, 200 * MS);
    assert_int_equal(a.n, 2);
    a.net->wake_at(a.net, &a.user, 10 * MS); /* it has been: at once */
    orr_simnet_run(world, 201 * MS);
    assert_int_equal(a.notes[2].at_ns, 200 * MS);
    a.net->wake_at(a.net, &a.user, 210 * MS);
    a.net->forget(a.net, &a.user);
    orr_simnet_run(world, 300 * MS);
    assert_int_equal(a.n, 3);
    orr_simnet_free(world);
}

static void forgotten_users_hear_nothing(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    const orr_conn conn = lab_pair(world, &a, &b);
    lab_send(&a, conn, 1, 10);
    lab_connect(&a, &b);
    b.net->forget(b.net, &b.user);
    orr_simnet_run(world, 10 * MS);
    assert_int_equal(b.n, 0);
    assert_int_equal(lab_count(&a, 'x'), 2); /* one is gone, one was refused */
    orr_simnet_free(world);
}

static void closes_itself(lab_host *host, orr_conn conn)
{
    host->net->close(host->net, conn, false);
}
static void forgets_itself(lab_host *host, orr_conn conn)
{
    (void)conn;
    host->net->forget(host->net, &host->user);
}

static void callbacks_may_end_what_calls_them(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        orr_simnet *world = lab_world(3);
        static lab_host a, b;
        const orr_conn conn = lab_pair(world, &a, &b);
        b.on_frame = i == 0 ? closes_itself : forgets_itself;
        lab_send(&a, conn, 1, 10);
        lab_send(&a, conn, 2, 10);
        orr_simnet_run(world, 10 * MS);
        assert_int_equal(b.frames, 1);
        lab_expect_closed(&a, ORR_NET_PEER_CLOSED);
        orr_simnet_free(world);
    }
}

/* Hosts that talk at random, with faults. */
enum { TALKERS = 5 };
typedef struct talk {
    orr_simnet *world;
    lab_host hosts[TALKERS];
    orr_random random;
} talk;

static void say_something(void *ctx)
{
    talk *t = ctx;
    orr_error err;
    const uint32_t from = (uint32_t)orr_random_below(&t->random, TALKERS),
                   to = (uint32_t)orr_random_below(&t->random, TALKERS);
    lab_host *a = &t->hosts[from];
    orr_conn conn;
    switch (orr_random_below(&t->random, 8)) {
    case 0:
        orr_simnet_stop(t->world, to);
        break;
    case 1:
        orr_simnet_continue(t->world, to);
        break;
    case 2:
        orr_simnet_cut(t->world, from, to, orr_random_u32(&t->random) & 1);
        break;
    case 3:
        orr_simnet_reset(t->world, from, to);
        break;
    default:
        if (a->net->connect(a->net, &a->user, t->hosts[to].address, &conn, &err) == ORR_OK)
            lab_send(a, conn, 1, 300);
        if (a->accepted != 0)
            lab_send(a, a->accepted, 2, 30000);
    }
    a->net->wake_at(a->net, &a->user, orr_simnet_now_ns(t->world) + 5000);
    (void)!orr_simnet_at(t->world, orr_simnet_now_ns(t->world) + 7000, say_something, t, NULL);
}

static uint64_t talk_for(uint64_t seed, int64_t until_ns, uint64_t *ret_allocations)
{
    static talk t;
    t.world = lab_world(seed);
    t.random = orr_random_of(seed, 1);
    for (uint32_t i = 0; i < TALKERS; i++)
        lab_begin(t.world, &t.hosts[i]);
    say_something(&t);
    orr_simnet_run(t.world, until_ns / 2);
    (void)orr_alloc_count();
    orr_simnet_run(t.world, until_ns);
    if (ret_allocations != NULL)
        *ret_allocations = orr_alloc_count();
    const uint64_t digest = orr_simnet_digest(t.world);
    assert_true(orr_simnet_events(t.world) > 100);
    assert_false(orr_simnet_out_of_memory(t.world));
    orr_simnet_free(t.world);
    return digest;
}

static void same_seed_same_run(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 10; seed++) {
        const uint64_t digest = talk_for(seed, 20 * MS, NULL);
        assert_int_equal(talk_for(seed, 20 * MS, NULL), digest);
        assert_int_not_equal(talk_for(seed + 100, 20 * MS, NULL), digest);
    }
}

static void echo(lab_host *host, orr_conn conn)
{
    lab_send(host, conn, host->frames, 100 + host->frames % 50);
}

static void no_allocation_once_it_runs(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    const orr_conn conn = lab_pair(world, &a, &b);
    a.on_frame = b.on_frame = echo;
    for (uint32_t i = 0; i < 30; i++)
        lab_send(&a, conn, i, 200);
    orr_simnet_run(world, 10 * MS);
    (void)orr_alloc_count();
    const uint64_t before = orr_simnet_events(world);
    orr_simnet_run(world, 100 * MS);
    assert_int_equal(orr_alloc_count(), 0);
    assert_true(orr_simnet_events(world) > before + 10000);
    orr_simnet_free(world);
}

/* The n-th allocation and all after it fail, for each n: nothing breaks, and it is told. */
static void memory_may_run_out(void **state)
{
    (void)state;
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        static lab_host a, b;
        const orr_simnet_options options = {.seed = 1};
        orr_simnet *world = NULL;
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        orr_alloc_fail_from(nth);
        failed = orr_simnet_new(&options, &world, NULL) != ORR_OK;
        failed = failed || orr_simnet_add_host(world, &a.host, NULL) != ORR_OK;
        failed = failed || orr_simnet_add_host(world, &b.host, NULL) != ORR_OK;
        if (!failed) {
            a.net = orr_simnet_host_net(world, a.host);
            b.net = orr_simnet_host_net(world, b.host);
            a.user = b.user = (orr_net_callbacks){.ctx = &a,
                                                  .frame = lab_frame,
                                                  .closed = lab_closed,
                                                  .drained = lab_drained,
                                                  .place = lab_place};
            orr_conn conn = 0;
            failed = b.net->listen(b.net, &b.user, ":5", b.address, NULL) != ORR_OK;
            failed |= a.net->connect(a.net, &a.user, "h1:5", &conn, NULL) != ORR_OK;
            for (uint32_t i = 0; i < 10 && conn != 0; i++)
                lab_send(&a, conn, i, 10000 * i);
            a.net->wake_at(a.net, &a.user, MS);
            orr_simnet_cut(world, 0, 1, true);
            orr_simnet_run(world, 10 * MS);
            failed |= orr_simnet_out_of_memory(world);
        }
        orr_alloc_fail_from(0);
        orr_simnet_free(world);
        assert_true(nth < 1000);
    }
}

static void events_come_by_time_then_order(void **state)
{
    (void)state;
    orr_simnet_queue queue;
    orr_random random = orr_random_of(3, 0);
    orr_simnet_queue_init(&queue);
    for (int round = 0; round < 50; round++) {
        const uint64_t n = 1 + orr_random_below(&random, 200);
        for (uint64_t i = 0; i < n; i++) {
            uint32_t event;
            assert_true(orr_simnet_queue_new(&queue, &event));
            queue.events.at[event].handed_ns = (int64_t)i;
            const int64_t at_ns = (int64_t)orr_random_below(&random, 20);
            queue.events.at[event].port = (uint32_t)at_ns;
            assert_true(orr_simnet_queue_put(&queue, at_ns, event));
        }
        int64_t at_ns, last_ns = -1, last = -1;
        uint32_t event;
        uint64_t taken = 0;
        while (orr_simnet_queue_take(&queue, 20, &at_ns, &event)) {
            const orr_simnet_event *e = &queue.events.at[event];
            assert_int_equal(e->port, at_ns);
            assert_true(at_ns > last_ns || (at_ns == last_ns && e->handed_ns > last));
            last_ns = at_ns;
            last = e->handed_ns;
            orr_simnet_queue_free(&queue, event);
            taken++;
        }
        assert_int_equal(taken, n);
    }
    orr_simnet_queue_done(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_arrive_in_order),
        cmocka_unit_test(a_frame_takes_its_time),
        cmocka_unit_test(frames_may_be_sent_at_once),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(closing_loses_what_is_queued_or_not),
        cmocka_unit_test(drained_when_all_is_handed_over),
        cmocka_unit_test(kept_memory_that_changes_is_told),
        cmocka_unit_test(one_timer_a_user),
        cmocka_unit_test(forgotten_users_hear_nothing),
        cmocka_unit_test(callbacks_may_end_what_calls_them),
        cmocka_unit_test(same_seed_same_run),
        cmocka_unit_test(no_allocation_once_it_runs),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(events_come_by_time_then_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
