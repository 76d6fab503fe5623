/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_NET_ENDS_H
#define ORR_TESTS_NET_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "io/net/frame.h"

/* Two nets in one thread, polled in turn; and processes where one has to die. */
enum { ENDS = 2 };
static const int64_t second_ns = INT64_C(1000000000);
/* Where a net listens: by TCP, in shared memory, and by TCP with a key: encrypted, and not. */
static const char *const places[] = {"127.0.0.1:0", "127.0.0.1:0|shm", "key@127.0.0.1:0",
                                     "key@127.0.0.1:0|clear"};
enum { SHM = 1 }; /* which of them */
static const orr_net_key the_key = {"a key that both have", 20};

static inline const char *place_of(const char *where)
{
    return strncmp(where, "key@", 4) == 0 ? where + 4 : where;
}

static inline orr_net_system_options with_key(const char *where,
                                              const orr_net_system_options *options)
{
    orr_net_system_options mine = options != NULL ? *options : (orr_net_system_options){0};
    if (place_of(where) != where)
        mine.key = the_key;
    return mine;
}

/* All of them, or those without a key where there is no OpenSSL. */
static inline size_t n_places(void)
{
    orr_net *net;
    const bool keys =
        orr_net_system_new(&(orr_net_system_options){.key = the_key}, &net, NULL) == ORR_OK;
    if (keys)
        orr_net_free(net);
    return keys ? 4 : 2;
}

typedef struct end {
    orr_net *net;
    orr_net_callbacks user;
    char address[ORR_NET_ADDRESS_BYTES];
    orr_conn conn; /* the last that was accepted or that connected */
    int accepted, connected, drained, closed, woken, frames, dropped;
    orr_net_close_reason why;
    orr_net_frame last;
    uint8_t *place;
    size_t place_bytes;
    uint64_t bytes, sum; /* of payloads */
    uint8_t payload[256];
    void (*then)(struct end *self, orr_conn conn); /* in frame() */
} end;

static inline void on_accepted(void *ctx, orr_conn conn)
{
    end *self = ctx;
    self->accepted++;
    self->conn = conn;
}

static inline void on_connected(void *ctx, orr_conn conn)
{
    end *self = ctx;
    assert_int_equal(conn, self->conn);
    self->connected++;
}

static inline void *on_place(void *ctx, orr_conn conn, const orr_net_frame *frame)
{
    end *self = ctx;
    (void)conn;
    return frame->bytes <= self->place_bytes ? self->place : NULL;
}

static inline void on_frame(void *ctx, orr_conn conn, const orr_net_frame *frame,
                            const void *payload)
{
    end *self = ctx;
    const uint8_t *bytes = payload;
    self->frames++;
    self->last = *frame;
    if (frame->bytes > 0 && payload == NULL) {
        self->dropped++;
    } else {
        for (uint32_t i = 0; i < frame->bytes; i++)
            self->sum += bytes[i] * (uint64_t)(i + 1);
        self->bytes += frame->bytes;
        if (frame->bytes > 0)
            memcpy(self->payload, payload, frame->bytes < 256 ? frame->bytes : 256);
    }
    if (self->then != NULL)
        self->then(self, conn);
}

static inline void on_drained(void *ctx, orr_conn conn)
{
    (void)conn;
    ((end *)ctx)->drained++;
}

static inline void on_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    end *self = ctx;
    self->closed++;
    self->why = why;
    self->net->close(self->net, conn, true); /* is no more: does nothing */
    assert_int_equal(self->net->queued(self->net, conn), 0);
}

static inline void on_woken(void *ctx)
{
    ((end *)ctx)->woken++;
}

static inline void end_init(end *self, const orr_net_system_options *options)
{
    orr_error err = {0};
    *self = (end){0};
    self->user = (orr_net_callbacks){.ctx = self,
                                     .accepted = on_accepted,
                                     .connected = on_connected,
                                     .place = on_place,
                                     .frame = on_frame,
                                     .drained = on_drained,
                                     .closed = on_closed,
                                     .woken = on_woken};
    assert_int_equal(orr_net_system_new(options, &self->net, &err), ORR_OK);
}

static inline void poll_both(end ends[ENDS])
{
    for (int i = 0; i < ENDS; i++)
        if (ends[i].net != NULL)
            ends[i].net->poll(ends[i].net, 0);
}

/* Within ten seconds, or the test fails. */
#define UNTIL(ends, condition)                                                                     \
    do {                                                                                           \
        const int64_t begin_ns_ = (ends)[0].net->now_ns((ends)[0].net);                            \
        while (!(condition)) {                                                                     \
            poll_both(ends);                                                                       \
            assert_true((ends)[0].net->now_ns((ends)[0].net) - begin_ns_ < 10 * second_ns);        \
        }                                                                                          \
    } while (0)

/* ends[0] listens at `where`, ends[1] calls. */
static inline void meet(end ends[ENDS], const char *where, const orr_net_system_options *options)
{
    orr_error err = {0};
    const orr_net_system_options mine = with_key(where, options);
    for (int i = 0; i < ENDS; i++)
        end_init(&ends[i], &mine);
    end *a = &ends[0], *b = &ends[1];
    assert_int_equal(a->net->listen(a->net, &a->user, place_of(where), a->address, &err), ORR_OK);
    assert_int_equal(strstr(where, "|shm") != NULL, strstr(a->address, "|shm:") != NULL);
    assert_int_equal(b->net->connect(b->net, &b->user, a->address, &b->conn, &err), ORR_OK);
    assert_int_equal(b->connected, 0);
    UNTIL(ends, b->connected == 1 && a->accepted == 1);
}

static inline void part(end ends[ENDS])
{
    for (int i = 0; i < ENDS; i++) {
        orr_net_free(ends[i].net);
        orr_free(ends[i].place);
    }
}

static inline void send_text(end *from, const char *text)
{
    const orr_net_frame frame = {.kind = 7, .epoch = 3, .bytes = (uint32_t)strlen(text)};
    from->net->send(from->net, from->conn, &frame, text, false);
}

static inline uint64_t fill(uint8_t *at, size_t n, uint64_t seed)
{
    orr_random r = orr_random_of(seed, 0);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        at[i] = (uint8_t)(i % 64 == 0 ? orr_random_u32(&r) : at[i - 1] * 5u + 1u);
        sum += at[i] * (uint64_t)(i + 1);
    }
    return sum;
}

#endif /* ORR_TESTS_NET_ENDS_H */
