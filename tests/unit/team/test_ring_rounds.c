/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "scripted_net.h"

/* Member 0 of two, in epoch 5 and step 3: its right neighbour is connection 1, its left one
 * connection 100; both are member 1. Chunks of 16 numbers: the operation of 64 has two partitions
 * of two shards. */
enum { RIGHT = 1, LEFT = 100, NUMBERS = 64 };
static const orr_ring_options options = {.chunk_bytes = 64, .window = 2, .small_bytes = 8};

typedef struct bench {
    hand_net hand;
    orr_ring *ring;
    float in[NUMBERS], out[NUMBERS];
} bench;

static void post(bench *b)
{
    uint32_t op;
    assert_int_equal(orr_ring_post(b->ring, ORR_TEAM_FP32, b->in, b->out, NUMBERS, &op, NULL),
                     ORR_OK);
}

static void credit(bench *b, uint32_t partition, uint32_t taken)
{
    const orr_net_frame frame = {.kind = ORR_RING_CREDIT,
                                 .lane = ORR_RING_LEFTWARD,
                                 .epoch = 5,
                                 .step = 3,
                                 .partition = partition,
                                 .round = taken,
                                 .from = 1};
    hand_give(&b->hand, RIGHT, &frame, NULL);
}

static void begin_at(bench *b, const orr_ring_options *chosen, const char *const addresses[2])
{
    memset(b, 0, sizeof *b);
    hand_init(&b->hand);
    for (int i = 0; i < NUMBERS; i++) {
        b->in[i] = (float)i;
        b->out[i] = -1;
    }
    assert_int_equal(hand_ring(&b->hand, chosen, &b->ring), ORR_OK);
    assert_int_equal(orr_ring_form(b->ring, 5, 3, addresses, 2, 0, NULL), ORR_OK);
    hand_hello(&b->hand, LEFT, 5, 1, 0);
    post(b);
}

static void begin_with(bench *b, const orr_ring_options *chosen)
{
    const char *addresses[] = {"a:1", "b:1"};
    begin_at(b, chosen, addresses);
}

static void begin(bench *b)
{
    begin_with(b, &options);
}

static void end(bench *b)
{
    orr_ring_free(b->ring);
}

/* What the left neighbour sends in this turn of a partition. */
static orr_net_frame turn_of(uint32_t partition, uint32_t turn)
{
    return (orr_net_frame){.kind = ORR_RING_CHUNK,
                           .epoch = 5,
                           .step = 3,
                           .partition = partition,
                           .chunk = turn == 0 ? 1 : 0,
                           .round = turn,
                           .bytes = 64,
                           .payload_hash = 77,
                           .from = 1};
}

static void give(bench *b, uint32_t partition, uint32_t turn)
{
    float numbers[16];
    for (int i = 0; i < 16; i++)
        numbers[i] = 1000;
    const orr_net_frame frame = turn_of(partition, turn);
    hand_give(&b->hand, LEFT, &frame, numbers);
}

/* The way it goes when all is well: what is sent when, from where, and what is reduced. */
static void a_ring_of_two(void **state)
{
    (void)state;
    bench b;
    begin(&b);
    assert_int_equal(hand_count(&b.hand, RIGHT, ORR_RING_HELLO), 1);
    assert_int_equal(hand_count(&b.hand, LEFT, ORR_RING_CREDIT), 1);
    assert_int_equal(b.hand.sent[b.hand.n_sent - 1].frame.partition, 2);
    assert_int_equal(hand_count(&b.hand, RIGHT, ORR_RING_CHUNK), 0);
    credit(&b, 2, 0);
    assert_int_equal(hand_count(&b.hand, RIGHT, ORR_RING_CHUNK), 2);
    const hand_note *second = &b.hand.sent[b.hand.n_sent - 1];
    assert_ptr_equal(second->payload, b.in + 32);
    assert_true(second->keep && second->frame.chunk == 0 && second->frame.partition == 1);
    give(&b, 0, 0);
    assert_int_equal(hand_count(&b.hand, RIGHT, ORR_RING_CHUNK), 2); /* two are under way */
    credit(&b, 2, 1);
    assert_int_equal(hand_count(&b.hand, RIGHT, ORR_RING_CHUNK), 3);
    give(&b, 0, 1);
    give(&b, 1, 0);
    give(&b, 1, 1);
    assert_int_equal(b.hand.reduced, 0);
    credit(&b, 2, 3);
    assert_int_equal(b.hand.reduced, 1);
    for (int i = 0; i < NUMBERS; i++)
        assert_true(b.out[i] == (i % 32 < 16 ? 1000.0f : 1000.0f + (float)i));
    assert_int_equal(b.hand.broken, 0);
    end(&b);
}

/* A frame that cannot be is never placed or taken, and ends the attempt. */
static void hostile(uint32_t turns, orr_conn conn, const orr_net_frame *frame)
{
    bench b;
    float before[NUMBERS];
    char garbage[256];
    memset(garbage, 0x5a, sizeof garbage);
    begin(&b);
    if (turns > 0)
        credit(&b, 2, 0);
    for (uint32_t i = 0; i < turns; i++)
        give(&b, 0, i);
    memcpy(before, b.out, sizeof before);
    assert_ptr_equal(
        hand_give(&b.hand, conn, frame, frame->bytes <= sizeof garbage ? garbage : NULL), NULL);
    assert_int_equal(b.hand.broken, 1);
    assert_int_equal(b.hand.about, 1);
    assert_true(hand_is_closed(&b.hand, LEFT) && hand_is_closed(&b.hand, RIGHT));
    assert_memory_equal(before, b.out, sizeof before);
    assert_ptr_equal(hand_give(&b.hand, conn, frame, NULL), NULL);
    give(&b, 0, turns);
    assert_int_equal(b.hand.broken, 1);
    assert_memory_equal(before, b.out, sizeof before);
    end(&b);
}

#define HOSTILE(turns, conn, ...)                                                                  \
    do {                                                                                           \
        orr_net_frame x = turn_of(0, turns);                                                       \
        __VA_ARGS__;                                                                               \
        hostile((turns), (conn), &x);                                                              \
    } while (0)

static void chunks_that_cannot_be(void **state)
{
    (void)state;
    for (uint32_t turns = 0; turns < 2; turns++) {
        HOSTILE(turns, LEFT, x.op = 1);
        HOSTILE(turns, LEFT, x.op = UINT32_MAX);
        HOSTILE(turns, LEFT, x.partition = 2);
        HOSTILE(turns, LEFT, x.partition = UINT32_MAX);
        HOSTILE(turns, LEFT, x.chunk ^= 1);
        HOSTILE(turns, LEFT, x.chunk = UINT32_MAX);
        HOSTILE(turns, LEFT, x.round = turns + 1);
        HOSTILE(turns, LEFT, x.round = UINT32_MAX);
        HOSTILE(turns, LEFT, x.bytes = 60);
        HOSTILE(turns, LEFT, x.bytes = 68);
        HOSTILE(turns, LEFT, x.bytes = 0);
        HOSTILE(turns, LEFT, x.bytes = UINT32_MAX);
        HOSTILE(turns, LEFT, x.from = 0);
        HOSTILE(turns, LEFT, x.from = UINT64_MAX);
        HOSTILE(turns, LEFT, x.lane = 1);
        HOSTILE(turns, LEFT, x.lane = ORR_RING_LEFTWARD);
        HOSTILE(turns, LEFT, x.step = 4);
        HOSTILE(turns, LEFT, x.kind = ORR_RING_HELLO);
        HOSTILE(turns, LEFT, x.kind = ORR_RING_CREDIT);
        HOSTILE(turns, LEFT, x.kind = 0);
        HOSTILE(turns, RIGHT, x.lane = ORR_RING_LEFTWARD);
    }
    HOSTILE(1, LEFT, x = turn_of(0, 0)); /* again */
    HOSTILE(1, LEFT, x = turn_of(1, 1)); /* too soon */
    HOSTILE(2, LEFT, x = turn_of(0, 2)); /* too many */
}

static void credits_that_cannot_be(void **state)
{
    (void)state;
    const orr_net_frame good = {.kind = ORR_RING_CREDIT,
                                .lane = ORR_RING_LEFTWARD,
                                .epoch = 5,
                                .step = 3,
                                .partition = 2,
                                .from = 1};
    HOSTILE(1, RIGHT, x = good, x.round = 3); /* two were sent */
    HOSTILE(1, RIGHT, x = good, x.round = UINT32_MAX);
    HOSTILE(1, RIGHT, x = good, x.partition = 1);
    HOSTILE(1, RIGHT, x = good, x.step = 2);
    HOSTILE(1, RIGHT, x = good, x.from = 0);
    HOSTILE(1, RIGHT, x = good, x.bytes = 4);
}

/* The final chunk cannot be made without what this member has not sent. */
static void a_sum_before_its_time(void **state)
{
    (void)state;
    bench b;
    begin(&b);
    give(&b, 0, 0);
    assert_int_equal(b.hand.broken, 0);
    give(&b, 0, 1);
    assert_int_equal(b.hand.broken, 1);
    assert_string_equal(b.hand.why, "it sent a sum that cannot be made yet");
    end(&b);
}

static void frames_of_other_times_are_dropped(void **state)
{
    (void)state;
    bench b;
    begin(&b);
    orr_net_frame frame = turn_of(0, 0);
    frame.epoch = 4;
    assert_ptr_equal(hand_give(&b.hand, LEFT, &frame, NULL), NULL);
    frame.epoch = 6;
    assert_ptr_equal(hand_give(&b.hand, LEFT, &frame, NULL), NULL);
    frame = turn_of(0, 0);
    frame.step = 2;
    assert_ptr_equal(hand_give(&b.hand, LEFT, &frame, NULL), NULL);
    for (int i = 0; i < NUMBERS; i++)
        assert_true(b.out[i] == -1);
    assert_int_equal(b.hand.broken, 0);
    give(&b, 0, 0);
    assert_true(b.out[16] == 1016);
    end(&b);
}

/* reduced() waits for what is queued, though more is sent all the time and the queue is never
 * empty. */
static void reduced_waits_until_it_is_sent(void **state)
{
    (void)state;
    bench b;
    begin(&b);
    credit(&b, 2, 0);
    give(&b, 0, 0);
    give(&b, 1, 0);
    credit(&b, 2, 2);
    b.hand.queued = 4 * 64 + 128;
    give(&b, 0, 1);
    give(&b, 1, 1);
    assert_int_equal(b.hand.reduced, 0);
    b.hand.queued = 64;
    b.hand.user->drained(b.hand.user->ctx, RIGHT);
    assert_int_equal(b.hand.reduced, 0);
    post(&b);         /* as if it had been called elsewhere: the memory is not looked at */
    credit(&b, 4, 4); /* 128 more bytes are sent */
    b.hand.queued = 128;
    b.hand.user->drained(b.hand.user->ctx, RIGHT);
    assert_int_equal(b.hand.reduced, 1);
    end(&b);
}

static void no_more_than_a_window_is_under_way(void **state)
{
    (void)state;
    bench b;
    const orr_ring_options wide = {.chunk_bytes = 8, .window = 4, .small_bytes = 4};
    begin_with(&b, &wide);
    credit(&b, 16, 0);
    assert_int_equal(hand_count(&b.hand, RIGHT, ORR_RING_CHUNK), 4);
    for (uint32_t taken = 1; taken < 4; taken++) {
        orr_net_frame frame = turn_of(taken - 1, 0);
        frame.bytes = 8;
        hand_give(&b.hand, LEFT, &frame, NULL);
        assert_int_equal(hand_count(&b.hand, RIGHT, ORR_RING_CHUNK), 4 + taken - 1);
        credit(&b, 16, taken);
        assert_int_equal(hand_count(&b.hand, RIGHT, ORR_RING_CHUNK), 4 + taken);
    }
    assert_int_equal(b.hand.broken, 0);
    end(&b);
}

/* Eight partitions wait, and two chunks come: what is sent to the right, and the credits to the
 * left, which has been granted all seats before. */
static void assert_under_way(uint32_t small_bytes, const char *const addresses[2], uint32_t chunks,
                             uint32_t credits)
{
    bench b;
    const orr_ring_options wide = {.chunk_bytes = 8, .window = 8, .small_bytes = small_bytes};
    begin_at(&b, &wide, addresses);
    credit(&b, 16, 0);
    for (uint32_t i = 0; i < 2; i++) {
        orr_net_frame frame = turn_of(i, 0);
        frame.bytes = 8;
        hand_give(&b.hand, LEFT, &frame, NULL);
    }
    assert_int_equal(hand_count(&b.hand, RIGHT, ORR_RING_CHUNK), chunks);
    assert_int_equal(hand_count(&b.hand, LEFT, ORR_RING_CREDIT), credits);
    end(&b);
}

static void over_loopback_fewer_large_chunks_are_under_way(void **state)
{
    (void)state;
    const char *near[] = {"[::1]:7000", "[::1]:7001"}, *far[] = {"10.0.0.1:7000", "10.0.0.2:7000"},
               *shared[] = {"10.0.0.1:7000|shm:1:a", "10.0.0.1:7001|shm:1:b"},
               *longer[] = {"10.0.0.1:7000", "10.0.0.11:7000"};
    assert_under_way(4, near, 3, 2);
    assert_under_way(512, near, 8, 2); /* small operations have the whole window */
    assert_under_way(4, far, 8, 1);
    assert_under_way(4, shared, 8, 1);
    assert_under_way(4, longer, 8, 1);
}

/* The credits of a left neighbour: each half window, and what is left at the end. */
static void credits_are_given_by_the_half_window(void **state)
{
    (void)state;
    bench b;
    const orr_ring_options wide = {.chunk_bytes = 8, .window = 8, .small_bytes = 4};
    begin_with(&b, &wide); /* 16 partitions */
    assert_int_equal(hand_count(&b.hand, LEFT, ORR_RING_CREDIT), 1);
    assert_int_equal(b.hand.sent[b.hand.n_sent - 1].frame.partition, 8);
    for (uint32_t i = 0; i < 8; i++) {
        orr_net_frame frame = turn_of(i, 0);
        frame.bytes = 8;
        hand_give(&b.hand, LEFT, &frame, NULL);
    }
    assert_int_equal(hand_count(&b.hand, LEFT, ORR_RING_CREDIT), 3);
    assert_int_equal(b.hand.sent[b.hand.n_sent - 1].frame.round, 8);
    end(&b);
}

static void strangers(void **state)
{
    (void)state;
    bench b;
    begin(&b);
    hand_net *hand = &b.hand;
    hand_hello(hand, 101, 4, 1, 0); /* of an older epoch */
    hand_hello(hand, 102, 5, 1, 0); /* a second one      */
    hand_hello(hand, 103, 5, 0, 0); /* not the neighbour */
    hand_hello(hand, 104, 5, 1, 3); /* no such stream    */
    hand_hello(hand, 105, 5, 99, 0);
    for (orr_conn conn = 101; conn <= 105; conn++)
        assert_true(hand_is_closed(hand, conn));
    const orr_net_frame chunk = turn_of(0, 0);
    hand->user->accepted(hand->user->ctx, 106);
    assert_ptr_equal(hand_give(hand, 106, &chunk, NULL), NULL);
    assert_true(hand_is_closed(hand, 106));
    assert_false(hand_is_closed(hand, LEFT));
    assert_int_equal(hand->broken, 0);

    /* Of a later epoch they wait, and have the better of those that say nothing. */
    hand_hello(hand, 110, 7, 1, 0);
    hand_hello(hand, 111, 6, 1, 0);
    for (orr_conn conn = 200; conn < 200 + 2 * ORR_RING_MAX_PENDING; conn++)
        hand->user->accepted(hand->user->ctx, conn);
    assert_true(!hand_is_closed(hand, 110) && !hand_is_closed(hand, 111));
    assert_true(hand_is_closed(hand, 200) && !hand_is_closed(hand, 199 + 2 * ORR_RING_MAX_PENDING));
    assert_int_equal(hand_form(b.ring, 7, 3, 2, 0), ORR_OK);
    assert_true(!hand_is_closed(hand, 110) && hand_is_closed(hand, 111));
    assert_true(hand_is_closed(hand, LEFT) && hand_is_closed(hand, RIGHT));
    assert_int_equal(hand_count(hand, 110, ORR_RING_CREDIT), 1);
    hand->user->closed(hand->user->ctx, 230, ORR_NET_PEER_CLOSED);
    assert_int_equal(hand->broken, 0);
    hand->user->closed(hand->user->ctx, 110, ORR_NET_PEER_CLOSED);
    assert_int_equal(hand->broken, 1);
    end(&b);
}

/* Member 1 of three: when one neighbour is lost, the other has nothing to complain of. */
static void the_other_neighbour_stays(void **state)
{
    (void)state;
    bench b;
    begin(&b);
    assert_int_equal(hand_form(b.ring, 6, 3, 3, 1), ORR_OK);
    hand_hello(&b.hand, 300, 6, 0, 0);
    b.hand.user->closed(b.hand.user->ctx, 2, ORR_NET_PEER_CLOSED);
    assert_int_equal(b.hand.broken, 1);
    assert_int_equal(b.hand.about, 2);
    assert_false(hand_is_closed(&b.hand, 300));
    const uint32_t sent = b.hand.n_sent;
    post(&b);
    assert_int_equal(b.hand.n_sent, sent);
    orr_ring_leave(b.ring);
    assert_true(hand_is_closed(&b.hand, 300));
    end(&b);
}

/* Sums that do not fit the net's room are read beside `out`; what is final, into it; and both may
 * come in memory of the net's. */
static void places(void **state)
{
    (void)state;
    enum { MANY = 100000, SHARD = MANY / 2 };
    static float in[MANY], out[MANY], theirs[SHARD];
    for (int i = 0; i < SHARD; i++)
        theirs[i] = 1;
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        hand_net hand;
        orr_ring *ring;
        uint32_t op;
        hand_init(&hand);
        assert_int_equal(hand_ring(&hand, NULL, &ring), ORR_OK);
        assert_int_equal(hand_form(ring, 5, 3, 2, 0), ORR_OK);
        hand_hello(&hand, LEFT, 5, 1, 0);
        assert_int_equal(orr_ring_post(ring, ORR_TEAM_FP32, in, out, MANY, &op, NULL), ORR_OK);
        bench b = {.hand = hand, .ring = ring};
        orr_alloc_count();
        credit(&b, 1, 0);
        for (uint32_t turn = 0; turn < 2; turn++) {
            orr_net_frame frame = turn_of(0, turn);
            frame.bytes = sizeof theirs;
            char *place = hand.user->place(ring, LEFT, &frame);
            assert_non_null(place);
            assert_true(turn == 0
                            ? place + sizeof theirs <= (char *)out || place >= (char *)(out + MANY)
                            : place == (char *)out);
            if (elsewhere == 0)
                memcpy(place, theirs, sizeof theirs);
            hand.user->frame(ring, LEFT, &frame, elsewhere ? (void *)theirs : place);
        }
        assert_int_equal(orr_alloc_count(), 0); /* nothing once it is formed */
        assert_int_equal(orr_ring_progress_of(ring).reduced, 1);
        for (int i = 0; i < MANY; i++)
            assert_true(out[i] == 1);
        orr_ring_free(ring);
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    static float numbers[40000];
    for (uint64_t nth = 1;; nth++) {
        hand_net hand;
        orr_ring *ring = NULL;
        uint32_t op = 7;
        hand_init(&hand);
        orr_alloc_fail_from(nth);
        orr_status status = hand_ring(&hand, NULL, &ring);
        if (status == ORR_OK)
            status = hand_form(ring, 1, 1, 2, 0);
        if (status == ORR_OK)
            status = orr_ring_post(ring, ORR_TEAM_FP32, numbers, numbers, 40000, &op, NULL);
        orr_alloc_fail_from(0);
        orr_ring_free(ring);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_int_equal(op, 7);
        assert_true(nth < 20);
    }
    hand_net hand;
    orr_ring *ring;
    hand_init(&hand);
    assert_int_equal(hand_ring(&hand, NULL, &ring), ORR_OK);
    hand.refuses = true;
    assert_int_equal(hand_form(ring, 1, 1, 2, 0), ORR_IO);
    hand.refuses = false;
    assert_int_equal(hand_form(ring, 2, 1, 2, 0), ORR_OK);
    orr_ring_free(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_of_two),
        cmocka_unit_test(chunks_that_cannot_be),
        cmocka_unit_test(credits_that_cannot_be),
        cmocka_unit_test(a_sum_before_its_time),
        cmocka_unit_test(frames_of_other_times_are_dropped),
        cmocka_unit_test(reduced_waits_until_it_is_sent),
        cmocka_unit_test(no_more_than_a_window_is_under_way),
        cmocka_unit_test(over_loopback_fewer_large_chunks_are_under_way),
        cmocka_unit_test(credits_are_given_by_the_half_window),
        cmocka_unit_test(strangers),
        cmocka_unit_test(the_other_neighbour_stays),
        cmocka_unit_test(places),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
