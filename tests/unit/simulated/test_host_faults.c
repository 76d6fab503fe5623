/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "network_lab.h"

enum { SEEDS = 16 };
static const int64_t MS = 1000000;

static void run_for(orr_simnet *world, int64_t ns)
{
    orr_simnet_run(world, orr_simnet_now_ns(world) + ns);
}

static void a_dead_process_is_gone_at_once(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    const orr_conn conn = lab_pair(world, &a, &b);
    const int64_t at_ns = orr_simnet_now_ns(world);
    b.net->wake_at(b.net, &b.user, at_ns + MS);
    lab_send(&a, conn, 1, 10);
    orr_simnet_kill(world, b.host, false);
    lab_connect(&a, &b);
    run_for(world, 10 * MS);
    assert_int_equal(b.n, 0);
    assert_int_equal(lab_count(&a, 'x'), 2);
    assert_int_equal(a.notes[0].what, 'd');
    assert_int_equal(a.notes[1].why, ORR_NET_PEER_CLOSED);
    assert_in_range(a.notes[1].at_ns - at_ns, 20000, 30000);
    assert_int_equal(a.notes[2].why, ORR_NET_REFUSED);
    orr_simnet_free(world);
}

/* A dead host's objects may still call its net, which does nothing. */
static void a_dead_net_does_nothing(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    const orr_conn conn = lab_pair(world, &a, &b);
    orr_conn other = 0;
    char address[ORR_NET_ADDRESS_BYTES];
    orr_simnet_kill(world, a.host, false);
    lab_send(&a, conn, 1, 10);
    a.net->close(a.net, conn, true);
    a.net->wake_at(a.net, &a.user, 5 * MS);
    assert_int_equal(a.net->queued(a.net, conn), 0);
    assert_int_equal(a.net->connect(a.net, &a.user, b.address, &other, NULL), ORR_IO);
    assert_int_equal(a.net->listen(a.net, &a.user, ":0", address, NULL), ORR_IO);
    a.net->forget(a.net, &a.user);
    run_for(world, 10 * MS);
    assert_int_equal(a.n, 0);
    assert_int_equal(b.frames, 0);
    lab_expect_closed(&b, ORR_NET_PEER_CLOSED);
    orr_simnet_free(world);
}

static void a_process_that_is_back_listens_again(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    lab_pair(world, &a, &b);
    orr_simnet_kill(world, b.host, false);
    run_for(world, MS);
    orr_simnet_restart(world, b.host);
    assert_ptr_equal(orr_simnet_host_net(world, b.host), b.net);
    char address[ORR_NET_ADDRESS_BYTES];
    assert_int_equal(b.net->listen(b.net, &b.user, ":0", address, NULL), ORR_OK);
    assert_string_not_equal(address, b.address); /* not the ghost's */
    assert_int_equal(b.net->listen(b.net, &b.user, strchr(b.address, ':'), address, NULL), ORR_OK);
    assert_string_equal(address, b.address); /* but it may be asked for */
    const orr_conn conn = lab_connect(&a, &b);
    lab_send(&a, conn, 1, 10);
    run_for(world, MS);
    assert_int_equal(b.frames, 1);
    orr_simnet_free(world);
}

static void a_dead_machine_is_silent_until_it_is_back(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    const orr_conn conn = lab_pair(world, &a, &b);
    orr_simnet_kill(world, b.host, true);
    lab_send(&a, conn, 1, 10);
    const orr_conn other = lab_connect(&a, &b);
    run_for(world, 10000 * MS);
    assert_int_equal(lab_count(&a, 'x'), 0);
    assert_int_equal(lab_count(&a, 'c'), 0);
    a.net->close(a.net, other, false);
    orr_simnet_restart(world, b.host);
    run_for(world, 10 * MS);
    assert_int_equal(lab_count(&a, 'x'), 0);
    lab_send(&a, conn, 1, 10); /* what is this? */
    run_for(world, 10 * MS);
    lab_expect_closed(&a, ORR_NET_PEER_CLOSED);
    assert_int_equal(b.frames, 0);
    orr_simnet_free(world);
}

/* What the dead had handed over may arrive; what it had not, never does, and its memory is not
 * read. */
static void the_dead_hand_over_nothing(void **state)
{
    (void)state;
    uint32_t arrived = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        orr_simnet *world = lab_world(seed);
        static lab_host a, b;
        static uint8_t kept[50000];
        const orr_conn conn = lab_pair(world, &a, &b);
        const orr_net_frame frame = {.step = 2, .bytes = sizeof kept};
        lab_fill(kept, sizeof kept, 2);
        a.net->send(a.net, conn, &frame, kept, true);
        a.net->send(a.net, conn, &frame, kept, true);
        run_for(world, 60000); /* the first has left */
        orr_simnet_kill(world, a.host, false);
        memset(kept, 0xee, sizeof kept);
        run_for(world, MS);
        assert_in_range(b.frames, 0, 1);
        assert_false(b.wrong);
        assert_int_equal(orr_simnet_changed_payloads(world), 0);
        lab_expect_closed(&b, ORR_NET_PEER_CLOSED);
        arrived += b.frames;
        orr_simnet_free(world);
    }
    assert_in_range(arrived, 1, SEEDS - 1);
}

static void who_is_stopped_hears_it_all_later(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    const orr_conn conn = lab_pair(world, &a, &b);
    orr_simnet_stop(world, b.host);
    b.net->wake_at(b.net, &b.user, orr_simnet_now_ns(world) + MS);
    for (uint64_t i = 0; i < 5; i++)
        lab_send(&a, conn, i, 10);
    run_for(world, 2 * MS);
    const orr_conn other = lab_connect(&a, &b);
    lab_send(&a, other, 5, 10);
    a.net->close(a.net, conn, true);
    run_for(world, 100 * MS);
    assert_int_equal(b.n, 0);
    assert_int_equal(lab_count(&a, 'c'), 1); /* its system answers */
    orr_simnet_continue(world, b.host);
    run_for(world, MS);
    assert_int_equal(b.n, 9);
    const char expected[] = "fffffwafx";
    uint64_t step = 0;
    for (uint32_t i = 0; i < b.n; i++) {
        assert_non_null(strchr(expected, b.notes[i].what));
        if (b.notes[i].what == 'f' && b.notes[i].conn != b.accepted)
            assert_int_equal(b.notes[i].step, step++);
        if (i < 6)
            assert_int_equal(b.notes[i].what, expected[i]);
    }
    assert_int_equal(step, 5);
    orr_simnet_free(world);
}

static void who_is_killed_while_stopped_hears_nothing(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    const orr_conn conn = lab_pair(world, &a, &b);
    orr_simnet_stop(world, b.host);
    lab_send(&a, conn, 1, 100000);
    run_for(world, MS);
    orr_simnet_kill(world, b.host, false);
    orr_simnet_continue(world, b.host);
    run_for(world, MS);
    assert_int_equal(b.n, 0);
    lab_expect_closed(&a, ORR_NET_PEER_CLOSED);
    orr_simnet_free(world);
}

/* Frames that wait for a stopped host are kept like all others: their sender may close or die. */
static void kept_memory_waits_for_the_stopped(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (int dies = 0; dies < 2; dies++) {
            orr_simnet *world = lab_world(seed);
            static lab_host a, b;
            static uint8_t kept[500];
            const orr_conn conn = lab_pair(world, &a, &b);
            const orr_net_frame frame = {.step = 2, .bytes = sizeof kept};
            lab_fill(kept, sizeof kept, 2);
            orr_simnet_stop(world, b.host);
            a.net->send(a.net, conn, &frame, kept, true);
            run_for(world, MS);
            const uint32_t drained = lab_count(&a, 'd');
            if (dies)
                orr_simnet_kill(world, a.host, false);
            else
                a.net->close(a.net, conn, true);
            memset(kept, 0xee, sizeof kept);
            orr_simnet_continue(world, b.host);
            run_for(world, MS);
            assert_false(b.wrong);
            assert_int_equal(b.frames, dies ? drained : 1);
            orr_simnet_free(world);
        }
    }
}

static void a_cut_is_one_way_and_stays(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    const orr_conn conn = lab_pair(world, &a, &b);
    orr_simnet_cut(world, a.host, b.host, true);
    lab_send(&a, conn, 1, 10);
    lab_send(&b, b.accepted, 2, 10);
    const orr_conn other = lab_connect(&a, &b); /* never gets there */
    run_for(world, 1000 * MS);
    assert_int_equal(b.frames, 0);
    assert_int_equal(a.frames, 1);
    assert_int_equal(lab_count(&b, 'a') + lab_count(&a, 'c') + lab_count(&a, 'x'), 0);
    orr_simnet_cut(world, a.host, b.host, false);
    lab_send(&a, conn, 3, 10);
    run_for(world, MS);
    assert_int_equal(b.frames, 0); /* dead in that direction */
    a.net->close(a.net, other, false);
    lab_send(&a, lab_connect(&a, &b), 4, 10);
    run_for(world, MS);
    assert_int_equal(b.frames, 1);
    a.net->close(a.net, conn, false); /* nobody hears that either */
    run_for(world, MS);
    assert_int_equal(lab_count(&b, 'x'), 0);
    orr_simnet_free(world);
}

/* A call over a link whose way back is cut is not answered, and not accepted. */
static void half_a_call_is_none(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b;
    lab_pair(world, &a, &b);
    orr_simnet_cut(world, b.host, a.host, true);
    lab_connect(&a, &b);
    run_for(world, 1000 * MS);
    assert_int_equal(a.n + b.n, 0);
    orr_simnet_free(world);
}

static void a_flipped_bit_closes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        orr_simnet *world = lab_world(seed);
        static lab_host a, b;
        const orr_conn conn = lab_pair(world, &a, &b);
        b.places = true;
        lab_send(&a, conn, 1, 100);
        run_for(world, MS);
        orr_simnet_corrupt(world, a.host, b.host);
        lab_send(&a, conn, 2, 100);
        lab_send(&a, conn, 3, 100);
        run_for(world, MS);
        assert_int_equal(b.frames, 1);
        lab_expect_closed(&b, ORR_NET_CORRUPT);
        lab_expect_closed(&a, ORR_NET_PEER_CLOSED);
        assert_int_equal(orr_simnet_changed_payloads(world), 0);
        lab_send(&a, lab_connect(&a, &b), 4, 100); /* one frame it was */
        run_for(world, MS);
        assert_int_equal(b.frames, 2);
        assert_false(b.wrong);
        orr_simnet_free(world);
    }
}

static void a_reset_closes_both(void **state)
{
    (void)state;
    orr_simnet *world = lab_world(1);
    static lab_host a, b, c;
    const orr_conn conn = lab_pair(world, &a, &b);
    lab_begin(world, &c);
    lab_connect(&a, &c);
    run_for(world, MS);
    lab_send(&a, conn, 1, 10);
    orr_simnet_reset(world, a.host, b.host);
    run_for(world, MS);
    assert_int_equal(b.frames, 0);
    lab_expect_closed(&a, ORR_NET_PEER_CLOSED);
    lab_expect_closed(&b, ORR_NET_PEER_CLOSED);
    assert_int_equal(lab_count(&c, 'x'), 0);
    orr_simnet_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_process_is_gone_at_once),
        cmocka_unit_test(a_dead_net_does_nothing),
        cmocka_unit_test(a_process_that_is_back_listens_again),
        cmocka_unit_test(a_dead_machine_is_silent_until_it_is_back),
        cmocka_unit_test(the_dead_hand_over_nothing),
        cmocka_unit_test(who_is_stopped_hears_it_all_later),
        cmocka_unit_test(who_is_killed_while_stopped_hears_nothing),
        cmocka_unit_test(kept_memory_waits_for_the_stopped),
        cmocka_unit_test(a_cut_is_one_way_and_stays),
        cmocka_unit_test(half_a_call_is_none),
        cmocka_unit_test(a_flipped_bit_closes),
        cmocka_unit_test(a_reset_closes_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
