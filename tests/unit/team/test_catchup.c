/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/alloc.h"
#include "catchup_lab.h"

static void assert_whole(const lab *l, uint32_t taker, uint64_t step)
{
    const member *m = &l->members[taker];
    assert_int_equal(m->losses, 0);
    assert_int_equal(m->wholes, 1);
    assert_true(holds(m, step));
    const orr_state_receiver_progress p = orr_state_receiver_progress_of(m->taker);
    assert_int_equal(p.chunks, CHUNKS);
    assert_int_equal(p.had, CHUNKS);
}

static void test_any_number_of_sources(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 5; n++) {
        lab l;
        lab_init(&l, n, 1);
        offer(&l, 3, 1, n);
        begin(&l, n, 3, n);
        assert_int_equal(l.members[n].wholes, 0);
        run_for(&l, 1000 * ms_ns);
        assert_whole(&l, n, 3);
        uint64_t served = 0;
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t bytes = orr_state_provider_counts_of(l.members[i].source).served_bytes;
            assert_true(bytes >= (CHUNKS / n - 1) * (uint64_t)MIB); /* all took part */
            served += bytes;
        }
        assert_int_equal(served, lab_bytes()); /* nothing twice */
        assert_int_equal(orr_state_receiver_progress_of(l.members[n].taker).bytes, lab_bytes());
        lab_done(&l);
    }
}

static void test_more_sources_than_chunks(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 5, 1);
    char *data = calloc(1, 2 * MIB), *copy = calloc(1, 2 * MIB);
    memset(copy, 42, 2 * MIB);
    const orr_team_span mine = {copy, 2 * MIB}, theirs = {data, 2 * MIB};
    orr_error err = {0};
    for (uint32_t i = 0; i < 5; i++) {
        member *m = &l.members[i];
        orr_state_provider_free(m->source);
        assert_int_equal(orr_state_provider_new(m->net, "h:0", &mine, 1, &m->source, &err), ORR_OK);
        l.addresses[i] = orr_state_provider_address(m->source);
        orr_state_provider_offer(m->source, 0, 1, i, 5);
    }
    member *m = &l.members[5];
    const orr_state_receiver_callbacks user = {.ctx = m, .whole = on_whole, .lost = on_lost};
    orr_state_receiver_free(m->taker);
    assert_int_equal(orr_state_receiver_new(m->net, &theirs, 1, 0, &user, &m->taker, &err), ORR_OK);
    begin(&l, 5, 0, 5);
    run_for(&l, 100 * ms_ns);
    assert_int_equal(m->wholes, 1);
    assert_memory_equal(data, copy, 2 * MIB);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(orr_state_provider_snapshot(l.members[i].source, &err), ORR_OK);
    lab_done(&l);
    free(data);
    free(copy);
}

static void test_nothing_to_fetch(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 1, 1);
    const orr_team_span none[2] = {{0}};
    orr_error err = {0};
    member *m = &l.members[1];
    const orr_state_receiver_callbacks user = {.ctx = m, .whole = on_whole, .lost = on_lost};
    orr_state_receiver_free(m->taker);
    assert_int_equal(orr_state_receiver_new(m->net, none, 2, 0, &user, &m->taker, &err), ORR_OK);
    begin(&l, 1, 5, 1);
    assert_int_equal(m->wholes, 0);
    run_for(&l, 10 * ms_ns);
    assert_int_equal(m->wholes, 1);
    assert_int_equal(m->losses, 0);
    lab_done(&l);
}

static void test_a_source_dies(void **state)
{
    (void)state;
    for (int silently = 0; silently < 2; silently++) {
        lab l;
        lab_init(&l, 3, 1);
        offer(&l, 3, 1, 3);
        begin(&l, 3, 3, 3);
        run_until(&l, 3, 4);
        orr_simnet_kill(l.world, l.members[1].host, silently);
        run_for(&l, 1000 * ms_ns);
        assert_whole(&l, 3, 3);
        lab_done(&l);
    }
}

static void test_unreachable_sources(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 3, 1);
    offer(&l, 3, 1, 3);
    orr_simnet_kill(l.world, l.members[0].host, false);
    l.addresses[1] = "no address";
    begin(&l, 3, 3, 3);
    run_for(&l, 1000 * ms_ns);
    assert_whole(&l, 3, 3);
    l.addresses[0] = l.addresses[2] = "neither";
    orr_error err = {0};
    assert_int_equal(
        orr_state_receiver_begin(l.members[3].taker, 4, l.addresses, 3, silence_ns, &err),
        ORR_INVALID);
    assert_int_equal(
        orr_state_receiver_begin(l.members[3].taker, 4, l.addresses, 0, silence_ns, &err),
        ORR_INVALID);
    assert_int_equal(orr_state_receiver_begin(l.members[3].taker, 4, l.addresses,
                                              ORR_CATCHUP_MAX_PROVIDERS + 1, silence_ns, &err),
                     ORR_LIMIT);
    run_for(&l, 1000 * ms_ns);
    assert_int_equal(l.members[3].losses, 0);
    lab_done(&l);
}

/* All sources die, the taker hears of it once, and goes on where it was with others. */
static void test_all_die_then_others(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 4, 1);
    offer(&l, 3, 1, 4);
    begin(&l, 4, 3, 2);
    run_until(&l, 4, 4);
    orr_simnet_kill(l.world, l.members[0].host, false);
    orr_simnet_kill(l.world, l.members[1].host, false);
    run_for(&l, 1000 * ms_ns);
    assert_int_equal(l.members[4].losses, 1);
    assert_int_equal(l.members[4].wholes, 0);
    assert_non_null(strstr(l.members[4].why, "closed"));
    const uint64_t had = orr_state_receiver_progress_of(l.members[4].taker).had;
    assert_true(had >= 4 && had < CHUNKS);
    l.members[4].losses = 0;
    l.addresses[0] = l.addresses[2];
    l.addresses[1] = l.addresses[3];
    begin(&l, 4, 3, 2);
    assert_int_equal(orr_state_receiver_progress_of(l.members[4].taker).had, had);
    run_for(&l, 1000 * ms_ns);
    assert_whole(&l, 4, 3);
    assert_int_equal(orr_state_receiver_progress_of(l.members[4].taker).bytes, lab_bytes());
    lab_done(&l);
}

static void test_stop_and_another_step(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 1);
    offer(&l, 3, 1, 2);
    begin(&l, 2, 3, 2);
    run_until(&l, 2, 3);
    orr_state_receiver_stop(l.members[2].taker);
    run_for(&l, 1000 * ms_ns);
    assert_int_equal(l.members[2].wholes + l.members[2].losses, 0);
    offer(&l, 4, 1, 2);
    begin(&l, 2, 4, 2);
    assert_int_equal(orr_state_receiver_progress_of(l.members[2].taker).had, 0);
    run_for(&l, 1000 * ms_ns);
    assert_whole(&l, 2, 4);
    lab_done(&l);
}

/* The owner goes on to the next step while chunks are fetched: the taker gets what was offered. */
static void test_keep_and_change(void **state)
{
    (void)state;
    for (uint32_t after = 0; after <= CHUNKS; after += 3) {
        lab l;
        lab_init(&l, 2, 1);
        offer(&l, 3, 1, 2);
        begin(&l, 2, 3, 2);
        run_until(&l, 2, after);
        run_for(&l, ms_ns / 10); /* what is had is told */
        orr_error err = {0};
        uint64_t kept = 0;
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(orr_state_provider_snapshot(l.members[i].source, &err), ORR_OK);
            kept += orr_state_provider_counts_of(l.members[i].source).kept_bytes;
            fill(&l.members[i], 4);
        }
        if (after == 0)
            assert_int_equal(kept, lab_bytes());
        else if (after == CHUNKS)
            assert_int_equal(kept, 0);
        else
            assert_true(kept <= lab_bytes() - (after - 1) * MIB &&
                        kept >= lab_bytes() - (after + 1) * MIB);
        run_for(&l, 1000 * ms_ns);
        assert_whole(&l, 2, 3);
        lab_done(&l);
    }
}

/* After keep(), what was on its way when a connection broke is still there. */
static void test_resume_from_the_copy(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 1);
    offer(&l, 3, 1, 2);
    begin(&l, 2, 3, 2);
    run_until(&l, 2, 3);
    orr_error err = {0};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(orr_state_provider_snapshot(l.members[i].source, &err), ORR_OK);
        fill(&l.members[i], 4);
    }
    run_until(&l, 2, 5);
    orr_simnet_reset(l.world, l.members[0].host, l.members[2].host);
    orr_simnet_reset(l.world, l.members[1].host, l.members[2].host);
    run_for(&l, 10 * ms_ns);
    assert_int_equal(l.members[2].losses, 1);
    l.members[2].losses = 0;
    begin(&l, 2, 3, 2);
    run_for(&l, 1000 * ms_ns);
    assert_whole(&l, 2, 3);
    lab_done(&l);
}

static void test_nobody_asks(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 1);
    offer(&l, 3, 0, 2);
    orr_error err = {0};
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(orr_state_provider_snapshot(l.members[i].source, &err), ORR_OK);
    assert_int_equal(orr_state_provider_counts_of(l.members[0].source).kept_bytes, 0);
    begin(&l, 2, 3, 2);
    run_for(&l, 10 * ms_ns);
    assert_int_equal(l.members[2].losses, 1);
    assert_int_equal(l.members[2].wholes, 0);
    lab_done(&l);
}

/* One has much, one little, one has not asked yet: the source keeps for the one that lacks most. */
static void test_takers_at_once(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 3);
    offer(&l, 3, 3, 2);
    begin(&l, 2, 3, 2);
    run_until(&l, 2, 6);
    begin(&l, 3, 3, 2);
    run_until(&l, 3, 2);
    orr_error err = {0};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(orr_state_provider_snapshot(l.members[i].source, &err), ORR_OK);
        fill(&l.members[i], 4);
    }
    begin(&l, 4, 3, 2);
    run_for(&l, 1000 * ms_ns);
    for (uint32_t i = 2; i < 5; i++)
        assert_whole(&l, i, 3);
    lab_done(&l);
}

/* One is nearly done, the other is still to ask: all is kept for that one. */
static void test_a_taker_that_is_late(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 2);
    offer(&l, 3, 2, 2);
    begin(&l, 2, 3, 2);
    run_until(&l, 2, CHUNKS - 1);
    run_for(&l, ms_ns / 10);
    orr_error err = {0};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(orr_state_provider_snapshot(l.members[i].source, &err), ORR_OK);
        fill(&l.members[i], 4);
    }
    begin(&l, 3, 3, 2);
    run_for(&l, 1000 * ms_ns);
    assert_whole(&l, 2, 3);
    assert_whole(&l, 3, 3);
    lab_done(&l);
}

/* A taker that is done has left; nothing needs to be kept for it. */
static void test_done_takers_count(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 2);
    offer(&l, 3, 2, 2);
    begin(&l, 2, 3, 2);
    run_for(&l, 100 * ms_ns);
    assert_whole(&l, 2, 3);
    begin(&l, 3, 3, 2);
    run_until(&l, 3, 5);
    run_for(&l, ms_ns / 10);
    orr_error err = {0};
    assert_int_equal(orr_state_provider_snapshot(l.members[0].source, &err), ORR_OK);
    assert_true(orr_state_provider_counts_of(l.members[0].source).kept_bytes <= 4 * (uint64_t)MIB);
    run_for(&l, 100 * ms_ns);
    assert_whole(&l, 3, 3);
    lab_done(&l);
}

static void test_asked_before_the_offer(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 1);
    begin(&l, 2, 3, 2);
    run_for(&l, 10 * ms_ns);
    assert_int_equal(orr_state_receiver_progress_of(l.members[2].taker).had, 0);
    offer(&l, 2, 1, 2);
    run_for(&l, 10 * ms_ns);
    assert_int_equal(orr_state_receiver_progress_of(l.members[2].taker).had, 0);
    offer(&l, 3, 1, 2);
    run_for(&l, 1000 * ms_ns);
    assert_whole(&l, 2, 3);
    lab_done(&l);
}

static void test_a_later_offer(void **state)
{
    (void)state;
    for (int at_first = 0; at_first < 2; at_first++) {
        lab l;
        lab_init(&l, 2, 1);
        begin(&l, 2, 3, 2);
        if (!at_first) {
            offer(&l, 3, 1, 2);
            run_until(&l, 2, 3);
        }
        offer(&l, 4, 1, 2);
        run_for(&l, 10 * ms_ns);
        assert_int_equal(l.members[2].losses, 1);
        assert_non_null(strstr(l.members[2].why, "state has changed"));
        l.members[2].losses = 0;
        begin(&l, 2, 4, 2);
        run_for(&l, 1000 * ms_ns);
        assert_whole(&l, 2, 4);
        lab_done(&l);
    }
}

/* The same step again, another number of sources: who asked goes on, a keep() copies all of the new
 * part. */
static void test_the_same_offer_again(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 3, 1);
    offer(&l, 3, 1, 3);
    begin(&l, 3, 3, 3);
    run_until(&l, 3, 4);
    offer(&l, 3, 1, 2);
    run_for(&l, 1000 * ms_ns);
    assert_whole(&l, 3, 3);
    lab_done(&l);
}

static void test_withdrawn(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 1);
    offer(&l, 3, 1, 2);
    begin(&l, 2, 3, 2);
    run_until(&l, 2, 3);
    orr_error err = {0};
    assert_int_equal(orr_state_provider_snapshot(l.members[0].source, &err), ORR_OK);
    orr_state_provider_withdraw(l.members[0].source);
    run_for(&l, 1000 * ms_ns);
    assert_whole(&l, 2, 3); /* the other is live, and has all */
    l.members[2].wholes = 0;
    orr_state_provider_withdraw(l.members[1].source);
    begin(&l, 2, 3, 2);
    run_for(&l, 1000 * ms_ns);
    assert_int_equal(l.members[2].losses, 1);
    lab_done(&l);
}

/* A source that keeps serves only its part; the other's part is not had any more when that one
 * dies. */
static void test_a_kept_part_is_lost(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 1);
    offer(&l, 3, 1, 2);
    begin(&l, 2, 3, 2);
    run_until(&l, 2, 2);
    orr_error err = {0};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(orr_state_provider_snapshot(l.members[i].source, &err), ORR_OK);
        fill(&l.members[i], 4);
    }
    orr_simnet_kill(l.world, l.members[0].host, false);
    run_for(&l, 1000 * ms_ns);
    assert_int_equal(l.members[2].losses, 1);
    assert_int_equal(l.members[2].wholes, 0);
    lab_done(&l);
}

static void test_silence(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        lab l;
        lab_init(&l, 3, 1);
        offer(&l, 3, 1, 3);
        begin(&l, 3, 3, 3);
        run_until(&l, 3, 3);
        const int64_t from_ns = orr_simnet_now_ns(l.world);
        const uint32_t source = l.members[1].host, taker = l.members[3].host;
        if (way == 0)
            orr_simnet_stop(l.world, source);
        else
            orr_simnet_cut(l.world, way == 1 ? source : taker, way == 1 ? taker : source, true);
        run_until(&l, 3, CHUNKS);
        assert_whole(&l, 3, 3);
        assert_true(orr_simnet_now_ns(l.world) - from_ns < silence_ns + 20 * ms_ns);
        lab_done(&l);
    }
}

static void test_all_are_silent(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 1);
    offer(&l, 3, 1, 2);
    begin(&l, 2, 3, 2);
    run_until(&l, 2, 3);
    orr_simnet_stop(l.world, l.members[0].host);
    orr_simnet_stop(l.world, l.members[1].host);
    /* One may owe nothing any more until the other is lost. */
    run_for(&l, 2 * silence_ns + 20 * ms_ns);
    assert_int_equal(l.members[2].losses, 1);
    assert_non_null(strstr(l.members[2].why, "silent"));
    lab_done(&l);
}

/* A slow source is helped by those that are done. */
static void test_a_slow_source_is_helped(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 3, 1);
    orr_simnet_slow(l.world, l.members[0].host, 20);
    offer(&l, 3, 1, 3);
    orr_error err = {0};
    assert_int_equal(
        orr_state_receiver_begin(l.members[3].taker, 3, l.addresses, 3, 1000 * ms_ns, &err),
        ORR_OK);
    run_for(&l, 1000 * ms_ns);
    assert_whole(&l, 3, 3);
    assert_true(orr_state_provider_counts_of(l.members[1].source).served_bytes +
                    orr_state_provider_counts_of(l.members[2].source).served_bytes >
                6 * (uint64_t)MIB - MIB);
    lab_done(&l);
}

static void test_corrupt(void **state)
{
    (void)state;
    for (int back = 0; back < 2; back++) {
        lab l;
        lab_init(&l, 2, 1);
        offer(&l, 3, 1, 2);
        begin(&l, 2, 3, 2);
        run_until(&l, 2, 2);
        const uint32_t source = l.members[1].host, taker = l.members[2].host;
        orr_simnet_corrupt(l.world, back ? taker : source, back ? source : taker);
        run_for(&l, 1000 * ms_ns);
        assert_whole(&l, 2, 3);
        lab_done(&l);
    }
}

static void test_no_memory_to_keep(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 1, 1);
    offer(&l, 3, 1, 1);
    begin(&l, 1, 3, 1);
    run_until(&l, 1, 3);
    orr_error err = {0};
    orr_alloc_fail_from(1);
    assert_int_equal(orr_state_provider_snapshot(l.members[0].source, &err), ORR_NO_MEMORY);
    orr_alloc_fail_from(0);
    fill(&l.members[0], 4);
    run_for(&l, 10 * ms_ns);
    assert_int_equal(l.members[1].losses, 1);
    lab_done(&l);
}

static void test_no_memory_to_begin(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 1);
    offer(&l, 3, 1, 2);
    orr_error err = {0};
    uint64_t nth = 1;
    for (; nth < 100; nth++) {
        orr_alloc_fail_from(nth);
        const orr_status s =
            orr_state_receiver_begin(l.members[2].taker, 3, l.addresses, 2, silence_ns, &err);
        orr_alloc_fail_from(0);
        if (s == ORR_OK)
            break;
        assert_int_equal(s, ORR_NO_MEMORY);
    }
    assert_true(nth > 3 && nth < 100);
    orr_state_receiver_stop(l.members[2].taker);
    begin(&l, 2, 3, 2);
    run_for(&l, 1000 * ms_ns);
    assert_whole(&l, 2, 3);
    lab_done(&l);
}

/* Ends are told last: the user may begin again, or go, in them. */
static void again(void *ctx, const char *why)
{
    lab *l = ctx;
    (void)why;
    l->members[2].losses++;
    begin(l, 2, 4, 2);
}

static void gone(void *ctx)
{
    lab *l = ctx;
    l->members[2].wholes++;
    orr_state_receiver_free(l->members[2].taker);
    l->members[2].taker = NULL;
}

static void test_calls_from_the_end(void **state)
{
    (void)state;
    lab l;
    lab_init(&l, 2, 1);
    member *m = &l.members[2];
    const orr_state_receiver_callbacks user = {.ctx = &l, .whole = gone, .lost = again};
    orr_error err = {0};
    orr_state_receiver_free(m->taker);
    assert_int_equal(orr_state_receiver_new(m->net, m->spans, SPANS, 2, &user, &m->taker, &err),
                     ORR_OK);
    offer(&l, 4, 1, 2);
    begin(&l, 2, 3, 2);
    run_for(&l, 1000 * ms_ns);
    assert_int_equal(m->losses, 1);
    assert_int_equal(m->wholes, 1);
    assert_true(holds(m, 4));
    lab_done(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_sources),
        cmocka_unit_test(test_more_sources_than_chunks),
        cmocka_unit_test(test_nothing_to_fetch),
        cmocka_unit_test(test_a_source_dies),
        cmocka_unit_test(test_unreachable_sources),
        cmocka_unit_test(test_all_die_then_others),
        cmocka_unit_test(test_stop_and_another_step),
        cmocka_unit_test(test_keep_and_change),
        cmocka_unit_test(test_resume_from_the_copy),
        cmocka_unit_test(test_nobody_asks),
        cmocka_unit_test(test_takers_at_once),
        cmocka_unit_test(test_a_taker_that_is_late),
        cmocka_unit_test(test_done_takers_count),
        cmocka_unit_test(test_asked_before_the_offer),
        cmocka_unit_test(test_a_later_offer),
        cmocka_unit_test(test_the_same_offer_again),
        cmocka_unit_test(test_withdrawn),
        cmocka_unit_test(test_a_kept_part_is_lost),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_all_are_silent),
        cmocka_unit_test(test_a_slow_source_is_helped),
        cmocka_unit_test(test_corrupt),
        cmocka_unit_test(test_no_memory_to_keep),
        cmocka_unit_test(test_no_memory_to_begin),
        cmocka_unit_test(test_calls_from_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
