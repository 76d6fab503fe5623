/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "io/socket/segment.h"
#include "io/transport/parts.h"

/* The transport in shared memory: a byte ring for each ordered pair of ranks and each channel, in a
 * segment that is mapped before the ranks are forked.
 *
 *   | given_up | peers[rank] | bells[rank][channel] | positions[from][to][channel] | rings, ditto |
 *
 * A message is its length, 8 bytes, and its payload, filled up to a multiple of 8. It streams
 * through the ring in pieces, so that one side copies in while the other copies out. A ring of 256
 * KiB stays in a core's cache; pages that nobody touches cost nothing. Ranks are one program, so
 * positions are trusted and read without checks.
 *
 * A rank that waits spins, then sleeps on the futex word of its bell in slices of 20 ms. Whoever
 * publishes bytes rings the bell if the peer sleeps; both sides write first and then read the
 * other's word, sequentially consistent (Dekker's pattern), so that no wake-up is lost. After each
 * slice it looks whether any rank has aborted (given_up) or the peer's process is gone, so that
 * nobody hangs. */
enum {
    RANKS_MAX = 256,
    RING_BYTES = 256 << 10,
    RING_BYTES_MIN = 16 << 10,
    PIECE_BYTES = 32 << 10,
    HEADER_BYTES = 8,
    SLEEP_NS = 20 * 1000 * 1000 /* between two checks whether the peer lives */
};
static const size_t ALL_RINGS_BYTES = (size_t)16 << 30;

enum { PEER_AWAITED, PEER_HERE, PEER_LEFT };

/* The futex word that one thread of a rank sleeps on. */
typedef struct shm_bell {
    _Alignas(64) _Atomic uint32_t rings;
    _Atomic uint32_t asleep;
} shm_bell;

typedef struct shm_peer {
    _Alignas(64) _Atomic uint32_t state;
    _Atomic int32_t pid;
} shm_peer;

struct orr_transport_shm {
    void *map;
    size_t map_bytes, ring_bytes;
    uint32_t ranks;
    _Atomic uint32_t *given_up;     /* 1 + the rank that aborted first; 0: none */
    shm_peer *peers;                /* shape (ranks)                        */
    shm_bell *bells;                /* shape (ranks, ORR_CHANNELS)          */
    orr_byte_ring_positions *rings; /* shape (from, to, ORR_CHANNELS)       */
    uint8_t *bytes;                 /* of rings, in the same order          */
};

typedef struct shm_end {
    orr_transport transport;
    orr_transport_shm *shm;
    int64_t deadline_ns, spin_ns;
} shm_end;

orr_status orr_transport_shm_new(uint32_t ranks, orr_transport_shm **ret, orr_error *err)
{
    if (ranks == 0 || ranks > RANKS_MAX)
        return orr_fail(err, ORR_LIMIT, "%u ranks in shared memory, of at most %d", ranks,
                        RANKS_MAX);
    const size_t rings = (size_t)ranks * ranks * ORR_CHANNELS;
    size_t ring_bytes = RING_BYTES;
    while (ring_bytes > RING_BYTES_MIN && rings * ring_bytes > ALL_RINGS_BYTES)
        ring_bytes /= 2;
    const size_t head = 64 + ranks * sizeof(shm_peer) + ranks * ORR_CHANNELS * sizeof(shm_bell) +
                        rings * sizeof(orr_byte_ring_positions);
    const size_t map_bytes = ((head + 4095) & ~(size_t)4095) + rings * ring_bytes;
    orr_transport_shm *shm = orr_calloc(1, sizeof *shm);
    if (shm == NULL)
        return orr_fail_memory(err);
    uint8_t *map = orr_segment_map_inherited(map_bytes);
    if (map == NULL) {
        orr_free(shm);
        return orr_fail(err, ORR_IO, "shared memory for %u ranks: %s", ranks, strerror(errno));
    }
    *shm = (orr_transport_shm){
        .map = map, .map_bytes = map_bytes, .ring_bytes = ring_bytes, .ranks = ranks};
    shm->given_up = (void *)map;
    shm->peers = (void *)(map + 64);
    shm->bells = (void *)(shm->peers + ranks);
    shm->rings = (void *)(shm->bells + ranks * ORR_CHANNELS);
    shm->bytes = map + (map_bytes - rings * ring_bytes);
    *ret = shm;
    return ORR_OK;
}

void orr_transport_shm_free(orr_transport_shm *shm)
{
    if (shm == NULL)
        return;
    munmap(shm->map, shm->map_bytes);
    orr_free(shm);
}

void orr_transport_shm_set_pid(orr_transport_shm *shm, uint32_t rank, int pid)
{
    atomic_store(&shm->peers[rank].pid, pid);
}

static shm_bell *bell_of(const orr_transport_shm *shm, uint32_t rank, uint32_t channel)
{
    return &shm->bells[rank * ORR_CHANNELS + channel];
}

static size_t ring_number(const orr_transport_shm *shm, uint32_t from, uint32_t to,
                          uint32_t channel)
{
    return ((size_t)from * shm->ranks + to) * ORR_CHANNELS + channel;
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Wakes the peer after bytes were published, if it sleeps; see the head of this file. */
static void ring_bell(shm_bell *bell)
{
    if (atomic_load(&bell->asleep) == 0)
        return;
    atomic_fetch_add(&bell->rings, 1);
    wake(&bell->rings);
}

/* One direction of an exchange: its ring, and what is left of the message. */
typedef struct shm_way {
    orr_byte_ring_positions *ring;
    uint8_t *bytes; /* of the ring  */
    size_t ring_bytes;
    shm_bell *other; /* of the rank at the other end */
    uint32_t peer;
    uint8_t *at; /* of the message */
    size_t left, whole;
    bool begun, done;
} shm_way;

static shm_way way_of(const shm_end *end, bool sends, uint32_t peer, uint32_t channel, void *at,
                      size_t bytes)
{
    orr_transport_shm *shm = end->shm;
    if (bytes == 0)
        return (shm_way){.done = true, .peer = UINT32_MAX};
    const uint32_t me = end->transport.rank;
    const size_t number =
        sends ? ring_number(shm, me, peer, channel) : ring_number(shm, peer, me, channel);
    return (shm_way){.ring = &shm->rings[number],
                     .bytes = shm->bytes + number * shm->ring_bytes,
                     .ring_bytes = shm->ring_bytes,
                     .other = bell_of(shm, peer, channel),
                     .peer = peer,
                     .at = at,
                     .left = bytes,
                     .whole = bytes};
}

static size_t filled_up(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

/* Writes what fits; true if anything did. */
static bool send_some(shm_way *way)
{
    if (way->done)
        return false;
    const size_t mask = way->ring_bytes - 1;
    uint64_t written = atomic_load_explicit(&way->ring->written, memory_order_relaxed);
    size_t room = way->ring_bytes -
                  (size_t)(written - atomic_load_explicit(&way->ring->read, memory_order_acquire));
    if (!way->begun) {
        if (room < 2 * HEADER_BYTES)
            return false;
        const uint64_t length = way->whole;
        memcpy(way->bytes + (written & mask), &length, HEADER_BYTES);
        written += HEADER_BYTES;
        room -= HEADER_BYTES;
        way->begun = true;
    } else if (room == 0) {
        return false;
    }
    const size_t n = orr_min_size(orr_min_size(way->left, room), PIECE_BYTES);
    const size_t at = written & mask, straight = orr_min_size(n, way->ring_bytes - at);
    orr_byte_ring_copy(way->bytes + at, way->at, straight);
    if (n > straight)
        orr_byte_ring_copy(way->bytes, way->at + straight, n - straight);
    way->at += n;
    way->left -= n;
    way->done = way->left == 0;
    atomic_store(&way->ring->written, written + (way->done ? filled_up(n) : n));
    ring_bell(way->other);
    return true;
}

/* Reads what is there. *ret_length: the length in the header, if it is not the one expected. */
static bool receive_some(shm_way *way, uint64_t *ret_length)
{
    if (way->done)
        return false;
    const size_t mask = way->ring_bytes - 1;
    uint64_t read = atomic_load_explicit(&way->ring->read, memory_order_relaxed);
    size_t there = (size_t)(atomic_load_explicit(&way->ring->written, memory_order_acquire) - read);
    if (there == 0)
        return false;
    if (!way->begun) {
        memcpy(ret_length, way->bytes + (read & mask), HEADER_BYTES);
        if (*ret_length != way->whole)
            return false;
        read += HEADER_BYTES;
        there -= HEADER_BYTES;
        way->begun = true;
    }
    const size_t n = orr_min_size(orr_min_size(way->left, there), PIECE_BYTES);
    const size_t at = read & mask, straight = orr_min_size(n, way->ring_bytes - at);
    memcpy(way->at, way->bytes + at, straight);
    if (n > straight)
        memcpy(way->at + straight, way->bytes, n - straight);
    way->at += n;
    way->left -= n;
    way->done = way->left == 0;
    atomic_store(&way->ring->read, read + (way->done ? filled_up(n) : n));
    ring_bell(way->other);
    return true;
}

static bool could_send(const shm_way *way)
{
    const uint64_t held = atomic_load(&way->ring->written) - atomic_load(&way->ring->read);
    return way->ring_bytes - held >= (way->begun ? 8 : 2 * HEADER_BYTES);
}

static bool could_receive(const shm_way *way)
{
    return atomic_load(&way->ring->written) != atomic_load(&way->ring->read);
}

static bool could_move(const shm_way *out, const shm_way *in)
{
    return (!out->done && could_send(out)) || (!in->done && could_receive(in));
}

/* Whether a process has ended; a zombie that its parent has not waited for has. */
static bool process_is_gone(int pid)
{
    if (kill(pid, 0) != 0 && errno == ESRCH)
        return true;
    char path[40], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    if (n <= 0)
        return n < 0 && errno == ESRCH;
    text[n] = '\0';
    const char *name_end = strrchr(text, ')'); /* "pid (name) state ...", proc(5) */
    return name_end != NULL && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

static bool peer_is_gone(const orr_transport_shm *shm, const shm_way *way)
{
    if (way->done)
        return false;
    const uint32_t state = atomic_load(&shm->peers[way->peer].state);
    const int pid = atomic_load(&shm->peers[way->peer].pid);
    return state == PEER_LEFT || (pid != 0 && process_is_gone(pid));
}

static orr_status check_others(const shm_end *end, const shm_way *out, const shm_way *in,
                               orr_error *err)
{
    const uint32_t given_up = atomic_load(end->shm->given_up);
    if (given_up != 0)
        return orr_transport_fail_aborted(given_up - 1, err);
    if (peer_is_gone(end->shm, in) && !could_receive(in))
        return orr_fail(err, ORR_IO, "rank %u is gone", in->peer);
    if (peer_is_gone(end->shm, out) && !could_send(out))
        return orr_fail(err, ORR_IO, "rank %u is gone", out->peer);
    return ORR_OK;
}

static void sleep_a_while(shm_bell *bell, const shm_way *out, const shm_way *in)
{
    const struct timespec while_ = {.tv_nsec = SLEEP_NS};
    const uint32_t seen = atomic_load(&bell->rings);
    atomic_store(&bell->asleep, 1);
    if (!could_move(out, in))
        syscall(SYS_futex, &bell->rings, FUTEX_WAIT, seen, &while_, NULL, 0);
    atomic_store(&bell->asleep, 0);
}

/* Waits until something can move. */
static orr_status await(shm_end *end, shm_bell *bell, const shm_way *out, const shm_way *in,
                        orr_error *err)
{
    const int64_t since_ns = orr_clock_now_ns(&orr_clock_monotonic);
    int64_t waited_ns = 0;
    do {
        for (int i = 0; i < 32; i++, orr_cpu_relax())
            if (could_move(out, in))
                return ORR_OK;
        waited_ns = orr_clock_now_ns(&orr_clock_monotonic) - since_ns;
    } while (waited_ns < end->spin_ns);
    for (;;) {
        sleep_a_while(bell, out, in);
        if (could_move(out, in))
            return ORR_OK;
        ORR_TRY(check_others(end, out, in, err));
        waited_ns = orr_clock_now_ns(&orr_clock_monotonic) - since_ns;
        if (end->deadline_ns > 0 && waited_ns > end->deadline_ns)
            return orr_transport_fail_timeout(in->done ? out->peer : in->peer, end->deadline_ns,
                                              err);
    }
}

static orr_status move(shm_end *end, const orr_exchange *x, orr_error *err)
{
    shm_way out = way_of(end, true, x->to, x->channel, (void *)x->out, x->out_bytes);
    shm_way in = way_of(end, false, x->from, x->channel, x->in, x->in_bytes);
    shm_bell *bell = bell_of(end->shm, end->transport.rank, x->channel);
    while (!out.done || !in.done) {
        uint64_t length = x->in_bytes;
        const bool sent = send_some(&out), received = receive_some(&in, &length);
        if (length != x->in_bytes)
            return orr_transport_fail_length(x->from, length, end->transport.rank, x->in_bytes,
                                             err);
        if (!sent && !received)
            ORR_TRY(await(end, bell, &out, &in, err));
    }
    return ORR_OK;
}

static void give_up(orr_transport *self)
{
    orr_transport_shm *shm = ((shm_end *)self->ctx)->shm;
    uint32_t nobody = 0;
    if (!atomic_compare_exchange_strong(shm->given_up, &nobody, self->rank + 1))
        return;
    for (uint32_t i = 0; i < shm->ranks * ORR_CHANNELS; i++) {
        atomic_fetch_add(&shm->bells[i].rings, 1);
        wake(&shm->bells[i].rings);
    }
}

/* A rank whose exchange fails aborts, since others may wait for what it will not send. */
static orr_status exchange(orr_transport *self, const orr_exchange *x, orr_error *err)
{
    shm_end *end = self->ctx;
    bool done = false;
    orr_status status = orr_transport_begin(self, x, &done, err);
    const uint32_t given_up = atomic_load_explicit(end->shm->given_up, memory_order_relaxed);
    if (status == ORR_OK && given_up != 0)
        return orr_transport_fail_aborted(given_up - 1, err);
    if (status == ORR_OK && !done)
        status = move(end, x, err);
    if (status != ORR_OK)
        give_up(self);
    return status;
}

static void leave(orr_transport *self)
{
    if (self == NULL)
        return;
    shm_end *end = self->ctx;
    orr_transport_shm *shm = end->shm;
    atomic_store(&shm->peers[self->rank].state, PEER_LEFT);
    for (uint32_t i = 0; i < shm->ranks * ORR_CHANNELS; i++)
        ring_bell(&shm->bells[i]);
    orr_free(end);
}

orr_status orr_transport_shm_attach(orr_transport_shm *shm, uint32_t rank, int64_t deadline_ns,
                                    orr_transport **ret, orr_error *err)
{
    if (rank >= shm->ranks)
        return orr_fail(err, ORR_INVALID, "rank %u, of %u", rank, shm->ranks);
    shm_end *end = orr_calloc(1, sizeof *end);
    if (end == NULL)
        return orr_fail_memory(err);
    *end = (shm_end){
        .shm = shm, .deadline_ns = deadline_ns, .spin_ns = orr_transport_spin_ns(shm->ranks)};
    end->transport = (orr_transport){.rank = rank,
                                     .ranks = shm->ranks,
                                     .name = "shm",
                                     .ctx = end,
                                     .exchange = exchange,
                                     .abort = give_up,
                                     .close = leave};
    atomic_store(&shm->peers[rank].pid, (int32_t)getpid());
    atomic_store(&shm->peers[rank].state, PEER_HERE);
    *ret = &end->transport;
    return ORR_OK;
}
