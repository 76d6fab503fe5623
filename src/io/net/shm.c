/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "io/net/shm.h"

/* Sending and receiving frames through the byte rings of shm.h. */

enum { LINE = ORR_CACHE_LINE, TURN_FRAMES = 64, TURN_BYTES = 4 << 20 };

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) & ~(size_t)(LINE - 1);
}

static void ring_bell(const orr_net_connection *link, _Atomic uint32_t *sleeps)
{
    /* A full socket holds enough doorbells already. */
    if (atomic_load(sleeps) != 0 && atomic_exchange(sleeps, 0) != 0 &&
        send(link->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return;
}

/* Free bytes of the ring; SIZE_MAX: the position that the peer wrote is not possible. */
static size_t room_of(orr_net_shm *shm)
{
    const uint64_t read = atomic_load(&shm->out->bytes.read);
    if (read < shm->seen_read || read > shm->written || read % LINE != 0)
        return SIZE_MAX;
    shm->seen_read = read;
    return shm->ring_bytes - (size_t)(shm->written - read);
}

static void publish(orr_net_connection *link, size_t bytes)
{
    orr_net_shm *shm = link->shm;
    shm->written += bytes;
    atomic_store(&shm->out->bytes.written, shm->written);
    ring_bell(link, &shm->out->reader_sleeps);
}

static uint8_t *write_at(const orr_net_shm *shm)
{
    return shm->out_bytes + (shm->written & (shm->ring_bytes - 1));
}

static bool is_whole(const orr_net_shm *shm, const orr_net_frame *frame)
{
    return LINE + lines(frame->bytes) <= shm->ring_bytes / 2;
}

static size_t write_frame(orr_net_system *net, orr_net_connection *link, const orr_net_frame *frame,
                          const void *payload)
{
    orr_net_shm *shm = link->shm;
    const size_t room = room_of(shm), whole = LINE + lines(frame->bytes);
    if (room == SIZE_MAX) {
        orr_net_connection_fail(net, link, ORR_NET_CORRUPT);
        return 0;
    }
    if (room < (is_whole(shm, frame) ? whole : LINE))
        return 0;
    const size_t n = orr_min_size(frame->bytes, room - LINE);
    memcpy(write_at(shm), frame, LINE);
    if (n > 0)
        orr_byte_ring_copy(write_at(shm) + LINE, payload, n);
    publish(link, LINE + lines(n));
    return LINE + n;
}

/* Sends more of a frame that streams. */
static size_t write_more(orr_net_system *net, orr_net_connection *link, const uint8_t *from,
                         size_t left)
{
    orr_net_shm *shm = link->shm;
    const size_t room = room_of(shm);
    if (room == SIZE_MAX) {
        orr_net_connection_fail(net, link, ORR_NET_CORRUPT);
        return 0;
    }
    const size_t n = orr_min_size(left, room);
    if (n == 0)
        return 0;
    orr_byte_ring_copy(write_at(shm), from, n);
    publish(link, lines(n));
    return n;
}

static void push(orr_net_system *net, orr_net_connection *link)
{
    orr_net_send_queue *queue = &link->queue;
    size_t turn = 0;
    while (queue->n > 0 && turn < TURN_BYTES) {
        const orr_net_queued_frame *first = orr_net_send_queue_nth(queue, 0);
        const uint8_t *payload = orr_net_send_queue_payload(queue, first);
        const size_t at = queue->moved - LINE;
        const size_t n = queue->moved == 0
                             ? write_frame(net, link, &first->frame, payload)
                             : write_more(net, link, payload + at, first->frame.bytes - at);
        if (n == 0)
            break;
        orr_net_send_queue_advance(queue, n);
        turn += n;
    }
    orr_net_connection_after_send(net, link, turn > 0);
}

static void consume(orr_net_connection *link, size_t bytes)
{
    orr_net_shm *shm = link->shm;
    shm->read += bytes;
    atomic_store(&shm->in->bytes.read, shm->read);
    ring_bell(link, &shm->in->writer_sleeps);
}

/* Receives a frame, or the header of one that streams. The header is copied first, so that the peer
 * cannot change it once it is checked. 0: not all of it is here, or the connection is dead. */
static size_t take_frame(orr_net_system *net, orr_net_connection *link, const uint8_t *at,
                         size_t here)
{
    orr_net_frame frame;
    memcpy(&frame, at, sizeof frame);
    if (!orr_net_frame_header_is_valid(&frame)) {
        orr_net_connection_close(net, link, ORR_NET_CORRUPT);
        return 0;
    }
    if (!is_whole(link->shm, &frame)) {
        orr_net_frame_reader_begin(&link->reader, &frame);
        consume(link, LINE);
        return orr_net_connection_place(net, link, &frame, true) ? LINE : 0;
    }
    const size_t whole = LINE + lines(frame.bytes);
    if (here < whole)
        return 0;
    const uint8_t *payload = frame.bytes > 0 ? at + LINE : NULL;
    if (!orr_net_connection_place(net, link, &frame, false) ||
        !orr_net_connection_deliver(net, link, &frame, payload))
        return 0;
    consume(link, whole);
    return whole;
}

static size_t take_more(orr_net_system *net, orr_net_connection *link, const uint8_t *at,
                        size_t here)
{
    orr_net_frame_reader *reader = &link->reader;
    const size_t n = orr_min_size(here, reader->frame.bytes - reader->had);
    if (reader->to != NULL)
        memcpy(reader->to + reader->had, at, n);
    orr_net_frame_reader_advance(reader, n);
    consume(link, lines(n));
    uint32_t frames = 0;
    return orr_net_connection_read_frames(net, link, &frames) ? lines(n) : 0;
}

/* Receives what is there; true if anything was. */
static bool pull(orr_net_system *net, orr_net_connection *link)
{
    orr_net_shm *shm = link->shm;
    size_t turn = 0;
    for (int i = 0; i < TURN_FRAMES && turn < TURN_BYTES; i++) {
        const uint64_t here = atomic_load(&shm->in->bytes.written) - shm->read;
        if (here == 0)
            break;
        if (here > shm->ring_bytes || here % LINE != 0) {
            orr_net_connection_close(net, link, ORR_NET_CORRUPT);
            return true;
        }
        const uint8_t *at = shm->in_bytes + (shm->read & (shm->ring_bytes - 1));
        const size_t n = link->reader.inside ? take_more(net, link, at, (size_t)here)
                                             : take_frame(net, link, at, (size_t)here);
        if (link->dead)
            return true;
        if (n == 0)
            break;
        turn += n;
    }
    return turn > 0;
}

bool orr_net_shm_progress(orr_net_system *net, orr_net_connection *link)
{
    const size_t before = link->queue.bytes;
    if (before > 0 && !link->broken)
        push(net, link);
    const bool pulled = pull(net, link);
    if (link->dead)
        return true;
    if (!pulled && link->shm->ended)
        orr_net_connection_close(net, link, ORR_NET_PEER_CLOSED);
    return pulled || link->dead || link->queue.bytes != before;
}

void orr_net_shm_set_sleeping(orr_net_connection *link, bool sleeps)
{
    orr_net_shm *shm = link->shm;
    atomic_store(&shm->in->reader_sleeps, sleeps);
    atomic_store(&shm->out->writer_sleeps, sleeps && link->queue.n > 0);
}

/* Drains the doorbells. The socket's end is the peer's end, whose last frames are still read. */
static void ready(orr_net_system *net, orr_net_connection *link, uint32_t events)
{
    char bells[256];
    (void)events;
    if (link->calling) {
        orr_net_shm_handshake(net, link);
        return;
    }
    const ssize_t n = recv(link->fd, bells, sizeof bells, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        link->shm->ended = true;
    orr_net_shm_progress(net, link);
}

const orr_net_connection_ops orr_net_shm_ops = {
    .ready = ready, .push = push, .write = write_frame, .done = orr_net_shm_done, .unhashed = true};
