/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/philox.h"
#include "io/transport/transport.h"

/* Ranks are threads here, so that sanitizers see both ends; processes are in test_ranks.c. */
enum { RANKS = 4, MESSAGES = 60, LARGEST = 900 * 1000 };
static const int64_t patient_ns = INT64_C(1800) * 1000 * 1000 * 1000;
static const int64_t short_ns = INT64_C(300) * 1000 * 1000;

typedef struct party {
    bool tcp;
    uint32_t ranks;
    orr_transport_shm *shm;
    int listeners[RANKS];
    char addresses[RANKS][64];
    const char *address_of[RANKS];
    int64_t deadline_ns;
    _Atomic uint32_t failed;
} party;

static void party_init(party *p, bool tcp, uint32_t ranks, int64_t deadline_ns)
{
    orr_error err = {0};
    *p = (party){.tcp = tcp, .ranks = ranks, .deadline_ns = deadline_ns};
    if (!tcp)
        assert_int_equal(orr_transport_shm_new(ranks, &p->shm, &err), ORR_OK);
    for (uint32_t i = 0; tcp && i < ranks; i++) {
        assert_int_equal(
            orr_transport_tcp_listen("127.0.0.1", &p->listeners[i], p->addresses[i], 64, &err),
            ORR_OK);
        p->address_of[i] = p->addresses[i];
    }
}

static void party_done(party *p)
{
    for (uint32_t i = 0; p->tcp && i < p->ranks; i++)
        close(p->listeners[i]);
    orr_transport_shm_free(p->shm);
}

static orr_status join(party *p, uint32_t rank, orr_transport **ret, orr_error *err)
{
    if (p->tcp)
        return orr_transport_tcp_connect(rank, p->ranks, p->listeners[rank], p->address_of,
                                         p->deadline_ns, &p->failed, ret, err);
    return orr_transport_shm_attach(p->shm, rank, p->deadline_ns, ret, err);
}

typedef struct guest {
    party *party;
    uint32_t rank;
    uint64_t seed;
    void (*body)(struct guest *self, orr_transport *t);
    orr_status status;
    orr_error err;
    const char *wrong;
} guest;

static void *run_guest(void *ctx)
{
    guest *g = ctx;
    orr_transport *t = NULL;
    g->status = join(g->party, g->rank, &t, &g->err);
    if (g->status != ORR_OK)
        return NULL;
    g->body(g, t);
    t->close(t);
    return NULL;
}

static void run_all(party *p, uint64_t seed, void (*body)(guest *, orr_transport *), guest *guests)
{
    pthread_t threads[RANKS];
    for (uint32_t i = 0; i < p->ranks; i++) {
        guests[i] = (guest){.party = p, .rank = i, .seed = seed, .body = body};
        assert_int_equal(pthread_create(&threads[i], NULL, run_guest, &guests[i]), 0);
    }
    for (uint32_t i = 0; i < p->ranks; i++)
        pthread_join(threads[i], NULL);
}

static void fill(uint8_t *at, size_t n, uint64_t seed, uint64_t stream)
{
    orr_random r = orr_random_of(seed, stream);
    for (size_t i = 0; i < n; i++)
        at[i] = (uint8_t)(i % 16 == 0 ? orr_random_u32(&r) : at[i - 1] * 5u + 1u);
}

/* Sizes small and large, odd, and none. */
static size_t size_of(uint64_t seed, uint64_t message, uint32_t from)
{
    orr_random r = orr_random_of(seed, message * 64 + from);
    switch (orr_random_below(&r, 4)) {
    case 0:
        return 0;
    case 1:
        return orr_random_below(&r, 40);
    case 2:
        return orr_random_below(&r, 20000);
    default:
        return orr_random_below(&r, LARGEST);
    }
}

typedef struct talk {
    guest *guest;
    orr_transport *transport;
    uint32_t channel;
} talk;

/* Message i: everyone sends to the one `turn` after it. */
static void *talk_on(void *ctx)
{
    talk *t = ctx;
    guest *g = t->guest;
    const uint32_t n = t->transport->ranks, me = t->transport->rank;
    const uint64_t seed = g->seed * ORR_CHANNELS + t->channel;
    uint8_t *out = orr_malloc(LARGEST), *in = orr_malloc(LARGEST), *want = orr_malloc(LARGEST);
    for (uint64_t i = 0; i < MESSAGES && g->status == ORR_OK; i++) {
        orr_random r = orr_random_of(seed, UINT64_MAX - i);
        const uint32_t turn = (uint32_t)orr_random_below(&r, n);
        const uint32_t to = (me + turn) % n, from = (me + n - turn) % n;
        const orr_exchange x = {.channel = t->channel,
                                .to = to,
                                .from = from,
                                .out = out,
                                .in = in,
                                .out_bytes = size_of(seed, i, me),
                                .in_bytes = size_of(seed, i, from)};
        fill(out, x.out_bytes, seed, i * 64 + me);
        fill(want, x.in_bytes, seed, i * 64 + from);
        orr_error err = {0};
        const orr_status status = t->transport->exchange(t->transport, &x, &err);
        if (status != ORR_OK) {
            g->status = status;
            g->err = err;
        } else if (memcmp(in, want, x.in_bytes) != 0) {
            g->wrong = "other bytes came";
        }
    }
    orr_free(out);
    orr_free(in);
    orr_free(want);
    return NULL;
}

static void talk_once(guest *g, orr_transport *t)
{
    talk one = {g, t, 3};
    talk_on(&one);
}

static void random_messages(bool tcp)
{
    for (uint64_t seed = 0; seed < 6; seed++) {
        guest guests[RANKS];
        party p;
        party_init(&p, tcp, 1 + (uint32_t)(seed % RANKS), patient_ns);
        run_all(&p, seed, talk_once, guests);
        for (uint32_t i = 0; i < p.ranks; i++) {
            if (guests[i].status != ORR_OK || guests[i].wrong != NULL)
                fail_msg("seed %d, rank %u: %s %s", (int)seed, i, guests[i].err.text,
                         guests[i].wrong);
        }
        party_done(&p);
    }
}

static void messages_shm(void **state)
{
    (void)state;
    random_messages(false);
}

static void messages_tcp(void **state)
{
    (void)state;
    random_messages(true);
}

/* Two threads of each rank, each on a channel of its own. */
static void talk_twice(guest *g, orr_transport *t)
{
    guest second = *g;
    talk one = {g, t, 0}, two = {&second, t, 7};
    pthread_t thread;
    pthread_create(&thread, NULL, talk_on, &two);
    talk_on(&one);
    pthread_join(thread, NULL);
    if (g->status == ORR_OK)
        g->status = second.status;
    if (g->wrong == NULL)
        g->wrong = second.wrong;
}

static void channels_at_once(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        guest guests[RANKS];
        party p;
        party_init(&p, tcp, 3, patient_ns);
        run_all(&p, 77, talk_twice, guests);
        for (uint32_t i = 0; i < p.ranks; i++) {
            assert_int_equal(guests[i].status, ORR_OK);
            assert_null(guests[i].wrong);
        }
        party_done(&p);
    }
}

/* Rank 0 sends 12 bytes where 1 wants 16; 2 waits for 1, and is told. */
static void disagree(guest *g, orr_transport *t)
{
    char bytes[16] = "";
    orr_exchange x = {.channel = 1, .out = bytes, .in = bytes};
    if (g->rank == 0) {
        x.to = 1;
        x.out_bytes = 12;
        g->status = t->exchange(t, &x, &g->err);
        x = (orr_exchange){.channel = 1, .from = 1, .in = bytes, .in_bytes = 1};
    } else {
        x.from = g->rank - 1;
        x.in_bytes = 16;
    }
    g->status = t->exchange(t, &x, &g->err);
}

static void lengths_that_disagree(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        guest guests[RANKS];
        party p;
        party_init(&p, tcp, 3, patient_ns);
        run_all(&p, 0, disagree, guests);
        assert_int_equal(guests[1].status, ORR_INVALID);
        assert_string_equal(guests[1].err.text, "rank 0 sent 12 bytes where rank 1 wants 16");
        assert_int_equal(guests[0].status, ORR_IO);
        assert_int_equal(guests[2].status, ORR_IO);
        party_done(&p);
    }
}

/* Nobody sends: the first whose deadline comes says so, and the others hear of it. */
static void wait_in_a_ring(guest *g, orr_transport *t)
{
    char bytes[16] = "";
    const orr_exchange x = {
        .channel = 2, .from = (g->rank + 1) % t->ranks, .in = bytes, .in_bytes = sizeof bytes};
    g->status = t->exchange(t, &x, &g->err);
}

static void silence(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        guest guests[RANKS];
        party p;
        party_init(&p, tcp, 3, short_ns);
        const int64_t begin_ns = orr_clock_now_ns(&orr_clock_monotonic);
        run_all(&p, 0, wait_in_a_ring, guests);
        const int64_t took_ns = orr_clock_now_ns(&orr_clock_monotonic) - begin_ns;
        assert_true(took_ns >= short_ns);
        int silent = 0;
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(guests[i].status, ORR_IO);
            silent += strstr(guests[i].err.text, "said nothing for 0.3 s") != NULL;
        }
        assert_true(silent >= 1);
        party_done(&p);
    }
}

/* Slow is not silent: a rank may take most of the deadline, again and again. */
static void answer_late(guest *g, orr_transport *t)
{
    char bytes[16] = "";
    for (int i = 0; i < 3 && g->status == ORR_OK; i++) {
        orr_exchange x = {.channel = 2,
                          .to = 1 - g->rank,
                          .from = 1 - g->rank,
                          .out = bytes,
                          .in = bytes,
                          .out_bytes = 8,
                          .in_bytes = 8};
        const struct timespec late = {.tv_nsec = 150 * 1000 * 1000};
        if (g->rank == 1)
            nanosleep(&late, NULL);
        g->status = t->exchange(t, &x, &g->err);
    }
}

static void slow_rank(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        guest guests[RANKS];
        party p;
        party_init(&p, tcp, 2, patient_ns);
        run_all(&p, 0, answer_late, guests);
        assert_int_equal(guests[0].status, ORR_OK);
        assert_int_equal(guests[1].status, ORR_OK);
        party_done(&p);
    }
}

/* Rank 2 gives up; 0 waits for 1 and 1 for 2. */
static void give_up(guest *g, orr_transport *t)
{
    char bytes[4];
    const orr_exchange x = {.channel = 0, .from = g->rank + 1, .in = bytes, .in_bytes = 4};
    if (g->rank == 2)
        t->abort(t);
    else
        g->status = t->exchange(t, &x, &g->err);
}

static void giving_up(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        guest guests[RANKS];
        party p;
        party_init(&p, tcp, 3, patient_ns);
        run_all(&p, 0, give_up, guests);
        assert_int_equal(guests[0].status, ORR_IO);
        assert_int_equal(guests[1].status, ORR_IO);
        assert_string_equal(guests[1].err.text, "rank 2 gave up");
        assert_int_equal(guests[1].err.os_errno, ECANCELED);
        party_done(&p);
    }
}

/* What was sent before a rank left is still to be had; what comes after is an error. */
static void leave_early(guest *g, orr_transport *t)
{
    char bytes[1000] = "";
    orr_exchange x = {.channel = 0, .to = 0, .out = bytes, .out_bytes = 1000};
    const struct timespec late = {.tv_nsec = 50 * 1000 * 1000};
    if (g->rank == 1) {
        g->status = t->exchange(t, &x, &g->err);
        return;
    }
    nanosleep(&late, NULL);
    x = (orr_exchange){.channel = 0, .from = 1, .in = bytes, .in_bytes = 1000};
    g->status = t->exchange(t, &x, &g->err);
    if (g->status != ORR_OK)
        g->wrong = "the message sent was lost";
    g->status = t->exchange(t, &x, &g->err);
}

static void leaving(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        guest guests[RANKS];
        party p;
        party_init(&p, tcp, 2, patient_ns);
        run_all(&p, 0, leave_early, guests);
        assert_null(guests[0].wrong);
        assert_int_equal(guests[0].status, ORR_IO);
        assert_string_equal(guests[0].err.text, "rank 1 is gone");
        party_done(&p);
    }
}

/* A process that is killed in the middle of a message, before or after it took its place. */
static void killed(void **state)
{
    (void)state;
    for (int attached = 0; attached < 2; attached++) {
        orr_error err = {0};
        orr_transport_shm *shm = NULL;
        orr_transport *t = NULL;
        char bytes[64];
        assert_int_equal(orr_transport_shm_new(2, &shm, &err), ORR_OK);
        const pid_t pid = fork();
        if (pid == 0) {
            if (attached && orr_transport_shm_attach(shm, 1, patient_ns, &t, &err) != ORR_OK)
                _exit(1);
            raise(SIGKILL);
        }
        orr_transport_shm_set_pid(shm, 1, pid);
        assert_int_equal(orr_transport_shm_attach(shm, 0, patient_ns, &t, &err), ORR_OK);
        const orr_exchange x = {.channel = 0, .from = 1, .in = bytes, .in_bytes = 64};
        assert_int_equal(t->exchange(t, &x, &err), ORR_IO); /* it is a zombie still */
        assert_string_equal(err.text, "rank 1 is gone");
        waitpid(pid, NULL, 0);
        t->close(t);
        orr_transport_shm_free(shm);
    }
}

static void alone(void **state)
{
    (void)state;
    orr_transport *t = orr_transport_self();
    orr_error err = {0};
    char in[8] = "", out[8] = "seven..";
    orr_exchange x = {.out = out, .out_bytes = 8, .in = in, .in_bytes = 8};
    assert_int_equal(t->exchange(t, &x, &err), ORR_OK);
    assert_string_equal(in, "seven..");
    x.in_bytes = 4;
    assert_int_equal(t->exchange(t, &x, &err), ORR_INVALID);
    x = (orr_exchange){.to = 1, .out = out, .out_bytes = 8};
    assert_int_equal(t->exchange(t, &x, &err), ORR_INVALID);
    x = (orr_exchange){.channel = ORR_CHANNELS, .out = out, .out_bytes = 8};
    assert_int_equal(t->exchange(t, &x, &err), ORR_INVALID);
    x = (orr_exchange){.out = out, .out_bytes = 8};
    assert_int_equal(t->exchange(t, &x, &err), ORR_INVALID); /* nobody would read it */
}

/* Whoever is not of the job does not get in the way. */
static void strangers(void **state)
{
    (void)state;
    guest guests[RANKS];
    party p;
    party_init(&p, true, 2, patient_ns);
    orr_transport *t = NULL;
    orr_error err = {0};
    const char *addresses[3] = {p.addresses[0], p.addresses[0], p.addresses[0]};
    int listener;
    char address[64];
    assert_int_equal(orr_transport_tcp_listen("127.0.0.1", &listener, address, 64, &err), ORR_OK);
    /* the last of three ranks calls where a job of two meets */
    const orr_status status =
        orr_transport_tcp_connect(2, 3, listener, addresses, short_ns, NULL, &t, &err);
    run_all(&p, 5, talk_once, guests);
    assert_int_equal(guests[0].status, ORR_OK);
    assert_int_equal(guests[1].status, ORR_OK);
    if (status == ORR_OK)
        t->close(t);
    close(listener);
    party_done(&p);
}

/* Rank 1 has given up, and says so: that is the cause, and there is no waiting for the deadline. */
static void who_has_failed_is_not_waited_for(void **state)
{
    (void)state;
    party p;
    party_init(&p, true, 2, 0);
    p.failed = 1;
    orr_transport *t = NULL;
    orr_error err = {0};
    assert_int_equal(join(&p, 0, &t, &err), ORR_IO);
    assert_int_equal(err.os_errno, ECANCELED);
    party_done(&p);
}

/* Rank 1 never comes. */
static void nobody_there(void **state)
{
    (void)state;
    party p;
    party_init(&p, true, 2, short_ns);
    orr_transport *t = NULL;
    orr_error err = {0};
    assert_int_equal(join(&p, 0, &t, &err), ORR_IO);
    assert_non_null(strstr(err.text, "did not come in time"));
    close(p.listeners[0]);
    assert_int_equal(join(&p, 1, &t, &err), ORR_IO);
    assert_non_null(strstr(err.text, "cannot be reached"));
    assert_int_equal(
        orr_transport_tcp_listen("no such host.", &p.listeners[0], p.addresses[0], 64, &err),
        ORR_IO);
    close(p.listeners[1]);
}

static void no_memory(void **state)
{
    (void)state;
    orr_error err = {0};
    orr_transport_shm *shm = NULL;
    orr_transport *t = NULL;
    orr_alloc_fail_from(1);
    assert_int_equal(orr_transport_shm_new(2, &shm, &err), ORR_NO_MEMORY);
    orr_alloc_fail_from(0);
    assert_int_equal(orr_transport_shm_new(2, &shm, &err), ORR_OK);
    orr_alloc_fail_from(1);
    assert_int_equal(orr_transport_shm_attach(shm, 0, 0, &t, &err), ORR_NO_MEMORY);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        orr_alloc_fail_from(nth);
        assert_int_equal(orr_transport_tcp_connect(0, 1, -1, NULL, 0, NULL, &t, &err),
                         ORR_NO_MEMORY);
    }
    orr_alloc_fail_from(0);
    assert_int_equal(orr_transport_shm_attach(shm, 2, 0, &t, &err), ORR_INVALID);
    assert_int_equal(orr_transport_shm_new(100000, &shm, &err), ORR_LIMIT);
    orr_transport_shm_free(shm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_shm),     cmocka_unit_test(messages_tcp),
        cmocka_unit_test(channels_at_once), cmocka_unit_test(lengths_that_disagree),
        cmocka_unit_test(silence),          cmocka_unit_test(slow_rank),
        cmocka_unit_test(giving_up),        cmocka_unit_test(leaving),
        cmocka_unit_test(killed),           cmocka_unit_test(alone),
        cmocka_unit_test(strangers),        cmocka_unit_test(who_has_failed_is_not_waited_for),
        cmocka_unit_test(nobody_there),     cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
