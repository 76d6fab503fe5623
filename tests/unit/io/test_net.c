/* SPDX-License-Identifier: Apache-2.0 */
#include "io/socket/address.h"
#include "net_ends.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <xxhash.h>

#include "io/net/parts.h"

enum { LARGE = 9 << 20 };

/* With whatever vectors: XXH3 as others have it. */
static void test_hash(void **state)
{
    static uint8_t bytes[5000];
    fill(bytes, sizeof bytes, 3);
    for (size_t n = 1; n <= sizeof bytes; n += n / 7 + 1) {
        const uint64_t hash = XXH3_64bits(bytes, n);
        assert_int_equal(orr_net_frame_hash(bytes, n), hash);
#if defined __x86_64__
        if (__builtin_cpu_supports("avx2"))
            assert_int_equal(orr_net_hash_avx2(bytes, n), hash);
        if (__builtin_cpu_supports("avx512f"))
            assert_int_equal(orr_net_hash_avx512(bytes, n), hash);
#endif
    }
    assert_int_equal(orr_net_frame_hash(NULL, 0), 1);
    (void)state;
}

static void test_frames(void **state)
{
    for (size_t i = 0; i < n_places(); i++) {
        end ends[ENDS];
        meet(ends, places[i], NULL);
        send_text(&ends[1], "hello");
        UNTIL(ends, ends[0].frames == 1);
        assert_memory_equal(ends[0].payload, "hello", 5);
        assert_int_equal(ends[0].last.kind, 7);
        assert_int_equal(ends[0].last.epoch, 3);
        assert_int_equal(ends[0].last.payload_hash, i != SHM ? orr_net_frame_hash("hello", 5) : 1);
        send_text(&ends[0], "");
        UNTIL(ends, ends[1].frames == 1 && ends[0].drained == 1);
        assert_int_equal(ends[1].last.bytes, 0);
        part(ends);
    }
    (void)state;
}

/* Many of all sizes at once, both ways, kept and copied. */
static void test_sizes(void **state)
{
    static const size_t sizes[] = {0,    1,    63,    64,     65,      4031,
                                   4032, 4033, 65536, 300000, 1 << 20, LARGE};
    enum { N = sizeof sizes / sizeof *sizes, TIMES = 3 };
    uint8_t *bytes = orr_malloc(LARGE);
    fill(bytes, LARGE, 1);
    for (size_t i = 0; i < n_places(); i++) {
        end ends[ENDS];
        meet(ends, places[i], &(orr_net_system_options){.shm_bytes = i * (1 << 20)});
        uint64_t sum = 0, total = 0;
        for (int e = 0; e < ENDS; e++) {
            ends[e].place_bytes = LARGE;
            ends[e].place = orr_malloc(LARGE);
        }
        for (int k = 0; k < TIMES * N; k++) {
            const orr_net_frame frame = {.bytes = (uint32_t)sizes[(k * 5) % N],
                                         .round = (uint32_t)k};
            for (uint32_t j = 0; j < frame.bytes; j++)
                sum += bytes[j] * (uint64_t)(j + 1);
            total += frame.bytes;
            for (int e = 0; e < ENDS; e++)
                ends[e].net->send(ends[e].net, ends[e].conn, &frame, bytes, k % 2 == 0);
        }
        assert_true(ends[0].net->queued(ends[0].net, ends[0].conn) > LARGE);
        UNTIL(ends, ends[0].frames == TIMES * N && ends[1].frames == TIMES * N);
        UNTIL(ends, ends[0].drained > 0 && ends[1].drained > 0);
        for (int e = 0; e < ENDS; e++) {
            assert_int_equal(ends[e].bytes, total);
            assert_int_equal(ends[e].sum, sum);
            assert_int_equal(ends[e].last.round, TIMES * N - 1);
            assert_int_equal(ends[e].dropped, 0);
            assert_int_equal(ends[e].closed, 0);
            assert_int_equal(ends[e].net->queued(ends[e].net, ends[e].conn), 0);
        }
        part(ends);
    }
    orr_free(bytes);
    (void)state;
}

/* Of more than a net's room, without a place for it. */
static void test_dropped(void **state)
{
    uint8_t *bytes = orr_calloc(1, LARGE);
    for (size_t i = 0; i < n_places(); i++) {
        end ends[ENDS];
        meet(ends, places[i], &(orr_net_system_options){.shm_bytes = 64 << 10});
        const orr_net_frame large = {.bytes = LARGE}, fits = {.bytes = ORR_NET_BUFFER_BYTES};
        ends[1].net->send(ends[1].net, ends[1].conn, &large, bytes, true);
        ends[1].net->send(ends[1].net, ends[1].conn, &fits, bytes, true);
        send_text(&ends[1], "after");
        UNTIL(ends, ends[0].frames == 3);
        assert_int_equal(ends[0].dropped, 1);
        assert_int_equal(ends[0].bytes, ORR_NET_BUFFER_BYTES + 5);
        part(ends);
    }
    orr_free(bytes);
    (void)state;
}

static void close_own(end *self, orr_conn conn)
{
    self->net->close(self->net, conn, false);
    send_text(self, "to nobody");
}

static void forget_me(end *self, orr_conn conn)
{
    (void)conn;
    self->net->forget(self->net, &self->user);
}

static void answer_and_close(end *self, orr_conn conn)
{
    send_text(self, "goodbye");
    self->net->close(self->net, conn, true);
}

/* In a callback, with more frames behind. */
static void test_close_in_callback(void **state)
{
    static void (*const thens[])(end *, orr_conn) = {close_own, forget_me, answer_and_close};
    for (size_t i = 0; i < n_places(); i++) {
        for (size_t k = 0; k < 3; k++) {
            end ends[ENDS];
            meet(ends, places[i], NULL);
            ends[0].then = thens[k];
            for (int n = 0; n < 40; n++)
                send_text(&ends[1], "one of many");
            UNTIL(ends, ends[1].closed == 1);
            assert_int_equal(ends[1].why, ORR_NET_PEER_CLOSED);
            assert_int_equal(ends[1].frames, k == 2);
            assert_int_equal(ends[0].frames, 1);
            assert_int_equal(ends[0].closed, 0);
            part(ends);
        }
    }
    (void)state;
}

/* What was sent before arrives, though more than sockets and rings hold, from memory that changes.
 */
static void test_flush(void **state)
{
    uint8_t *bytes = orr_malloc(LARGE);
    for (size_t i = 0; i < n_places(); i++) {
        end ends[ENDS];
        meet(ends, places[i], &(orr_net_system_options){.shm_bytes = 64 << 10});
        ends[0].place_bytes = LARGE;
        ends[0].place = orr_malloc(LARGE);
        const uint64_t sum = fill(bytes, LARGE, 2);
        const orr_net_frame frame = {.bytes = LARGE};
        ends[1].net->send(ends[1].net, ends[1].conn, &frame, bytes, true);
        send_text(&ends[0], "still to be read by the one who closes");
        ends[1].net->close(ends[1].net, ends[1].conn, true);
        ends[1].net->forget(ends[1].net, &ends[1].user);
        memset(bytes, 0, LARGE);
        UNTIL(ends, ends[0].closed == 1);
        assert_int_equal(ends[0].frames, 1);
        assert_int_equal(ends[0].sum, sum);
        assert_int_equal(ends[0].why, ORR_NET_PEER_CLOSED);
        assert_int_equal(ends[1].closed + ends[1].frames, 0);
        part(ends);
    }
    orr_free(bytes);
    (void)state;
}

/* Sent before the connection stands, closed with flush at once; and the net that did it ends. */
static void test_call_and_go(void **state)
{
    for (size_t i = 0; i < n_places(); i++) {
        end ends[ENDS];
        orr_error err = {0};
        const orr_net_system_options options = with_key(places[i], NULL);
        for (int e = 0; e < ENDS; e++)
            end_init(&ends[e], &options);
        assert_int_equal(ends[0].net->listen(ends[0].net, &ends[0].user, place_of(places[i]),
                                             ends[0].address, &err),
                         ORR_OK);
        assert_int_equal(
            ends[1].net->connect(ends[1].net, &ends[1].user, ends[0].address, &ends[1].conn, &err),
            ORR_OK);
        send_text(&ends[1], "and gone");
        assert_int_equal(ends[1].net->queued(ends[1].net, ends[1].conn), ORR_NET_FRAME_BYTES + 8);
        ends[1].net->close(ends[1].net, ends[1].conn, true);
        UNTIL(ends, ends[0].closed == 1);
        assert_int_equal(ends[0].frames, 1);
        assert_int_equal(ends[0].why, ORR_NET_PEER_CLOSED);
        assert_int_equal(ends[1].connected + ends[1].closed, 0);
        part(ends);
    }
    (void)state;
}

static void test_refused(void **state)
{
    for (size_t i = 0; i < n_places(); i++) {
        end ends[ENDS];
        orr_conn conn;
        orr_error err = {0};
        meet(ends, places[i], NULL);
        ends[0].net->forget(ends[0].net, &ends[0].user);
        UNTIL(ends, ends[1].closed == 1);
        assert_int_equal(
            ends[1].net->connect(ends[1].net, &ends[1].user, ends[0].address, &conn, &err), ORR_OK);
        assert_int_equal(ends[1].closed, 1); /* told later */
        send_text(&ends[1], "to nobody");
        UNTIL(ends, ends[1].closed == 2);
        assert_int_equal(ends[1].why, ORR_NET_REFUSED);
        assert_string_equal(orr_net_close_reason_text(ORR_NET_REFUSED),
                            "nobody listens there, or it cannot be reached");
        part(ends);
    }
    (void)state;
}

/* Of a peer on this machine's loopback that is loopback; what is no peer has none. */
static void test_source_addresses(void **state)
{
    (void)state;
    char at[64], none[4];
    orr_error err;
    assert_int_equal(orr_address_toward("127.0.0.1:29400", at, sizeof at, &err), ORR_OK);
    assert_string_equal(at, "127.0.0.1");
    assert_int_equal(orr_address_toward("127.0.0.1:29400", none, sizeof none, &err), ORR_IO);
    assert_int_equal(orr_address_toward("nowhere", at, sizeof at, &err), ORR_INVALID);
}

static void test_addresses(void **state)
{
    static const char *const wrong[] = {
        "",        "host",     "host:",      "host:x",      "host:70000",
        "a:1|tcp", "a:1|shm:", "a:1|shm:12", "a:1|shm:12:", "a:1|shmx"};
    end ends[ENDS];
    orr_conn conn = 0;
    orr_error err = {0};
    char elsewhere[ORR_NET_ADDRESS_BYTES];
    meet(ends, places[1], NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(ends[1].net->connect(ends[1].net, &ends[1].user, wrong[i], &conn, &err),
                         ORR_INVALID);
    assert_int_equal(
        ends[1].net->listen(ends[1].net, &ends[1].user, "192.0.2.1:0", elsewhere, &err), ORR_IO);
    /* Of another machine: by TCP, and so through the port. */
    memcpy(elsewhere, ends[0].address, sizeof elsewhere);
    char *machine = strstr(elsewhere, "|shm:") + 5;
    *machine = *machine == '1' ? '2' : '1';
    assert_int_equal(
        ends[1].net->connect(ends[1].net, &ends[1].user, elsewhere, &ends[1].conn, &err), ORR_OK);
    UNTIL(ends, ends[0].accepted == 2 && ends[1].connected == 2);
    /* A name, and a wildcard that is published as one. */
    char *colon = strchr(ends[0].address, ':');
    snprintf(elsewhere, sizeof elsewhere, "localhost%.*s", (int)strcspn(colon, "|"), colon);
    assert_int_equal(
        ends[1].net->connect(ends[1].net, &ends[1].user, elsewhere, &ends[1].conn, &err), ORR_OK);
    UNTIL(ends, ends[0].accepted == 3 && ends[1].connected == 3);
    assert_int_equal(ends[1].net->listen(ends[1].net, &ends[1].user, "0.0.0.0:0", elsewhere, &err),
                     ORR_OK);
    assert_null(strstr(elsewhere, "0.0.0.0"));
    part(ends);
    (void)state;
}

static void test_wake(void **state)
{
    end ends[ENDS];
    meet(ends, places[0], NULL);
    orr_net *net = ends[0].net;
    const int64_t begin_ns = net->now_ns(net), in_ns = 20 * 1000 * 1000;
    net->wake_at(net, &ends[0].user, begin_ns + second_ns * 60);
    net->wake_at(net, &ends[0].user, begin_ns + in_ns); /* the last counts */
    while (ends[0].woken == 0)
        net->poll(net, INT64_MAX);
    assert_true(net->now_ns(net) >= begin_ns + in_ns);
    net->poll(net, net->now_ns(net) + in_ns);
    assert_int_equal(ends[0].woken, 1); /* once */
    net->wake_at(net, &ends[0].user, net->now_ns(net));
    net->wake_at(net, &ends[0].user, INT64_MAX);
    net->poll(net, net->now_ns(net) + in_ns);
    assert_int_equal(ends[0].woken, 1);
    net->wake_at(net, &ends[0].user, net->now_ns(net));
    net->forget(net, &ends[0].user);
    net->poll(net, 0);
    assert_int_equal(ends[0].woken, 1);
    part(ends);
    (void)state;
}

/* A number is never that of another connection. */
static void test_numbers(void **state)
{
    end ends[ENDS];
    orr_error err = {0};
    meet(ends, places[0], NULL);
    const orr_conn old = ends[1].conn;
    ends[1].net->close(ends[1].net, old, false);
    assert_int_equal(
        ends[1].net->connect(ends[1].net, &ends[1].user, ends[0].address, &ends[1].conn, &err),
        ORR_OK);
    UNTIL(ends, ends[1].connected == 2);
    assert_int_not_equal(ends[1].conn, old);
    const orr_net_frame frame = {0};
    for (orr_conn wrong = 0; wrong < 5; wrong++)
        ends[1].net->send(ends[1].net, wrong, &frame, NULL, false);
    ends[1].net->send(ends[1].net, old, &frame, NULL, false);
    ends[1].net->close(ends[1].net, old, false);
    send_text(&ends[1], "still here");
    UNTIL(ends, ends[0].frames == 1);
    assert_int_equal(ends[1].closed, 0);
    part(ends);
    (void)state;
}

/* A net in a thread of its own, which sleeps until the other's frame wakes it, and answers. */
typedef struct echo {
    end *end;
    atomic_bool stop;
    int64_t spin_ns;
} echo;

static void answer(end *self, orr_conn conn)
{
    self->net->send(self->net, conn, &self->last, self->payload, false);
}

static void *run_echo(void *ctx)
{
    echo *e = ctx;
    while (!atomic_load(&e->stop))
        e->end->net->poll(e->end->net, INT64_MAX);
    return NULL;
}

static void test_threads(void **state)
{
    enum { ROUNDS = 300 };
    for (size_t i = 0; i < n_places(); i++) {
        for (int64_t spin_ns = 0; spin_ns <= 20000; spin_ns += 20000) {
            end ends[ENDS];
            pthread_t thread;
            meet(ends, places[i], &(orr_net_system_options){.spin_ns = spin_ns});
            ends[0].then = answer;
            echo e = {.end = &ends[0]};
            assert_int_equal(pthread_create(&thread, NULL, run_echo, &e), 0);
            for (int n = 1; n <= ROUNDS; n++) {
                send_text(&ends[1], "there and back");
                const int64_t end_ns = ends[1].net->now_ns(ends[1].net) + 1800 * second_ns;
                while (ends[1].frames < n) {
                    ends[1].net->poll(ends[1].net, end_ns);
                    assert_true(ends[1].net->now_ns(ends[1].net) < end_ns);
                }
            }
            atomic_store(&e.stop, true);
            ends[0].net->interrupt(ends[0].net);
            pthread_join(thread, NULL);
            assert_memory_equal(ends[1].payload, "there and back", 14);
            part(ends);
        }
    }
    (void)state;
}

/* One that sends without end does not keep the others from their turn. */
static void test_turns(void **state)
{
    for (size_t i = 0; i < n_places(); i++) {
        end ends[ENDS], quiet;
        orr_error err = {0};
        meet(ends, places[i], NULL);
        const orr_net_system_options options = with_key(places[i], NULL);
        end_init(&quiet, &options);
        assert_int_equal(
            quiet.net->connect(quiet.net, &quiet.user, ends[0].address, &quiet.conn, &err), ORR_OK);
        while (quiet.connected == 0) {
            poll_both(ends);
            quiet.net->poll(quiet.net, 0);
        }
        ends[0].then = answer; /* and every answer is answered */
        ends[1].then = answer;
        for (int n = 0; n < 50; n++)
            send_text(&ends[1], "busy");
        for (int n = 0; n < 20; n++)
            poll_both(ends);
        assert_true(ends[0].frames > 50);
        quiet.net->wake_at(quiet.net, &quiet.user, 0);
        send_text(&quiet, "a word");
        ends[0].frames = 0;
        for (int n = 0; n < 40 && ends[0].last.bytes != 6; n++)
            ends[0].net->poll(ends[0].net, 0);
        assert_int_equal(ends[0].last.bytes, 6);
        part(ends);
        orr_net_free(quiet.net);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_close_in_callback),
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_call_and_go),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_source_addresses),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_wake),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
