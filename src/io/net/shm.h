/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_NET_SHM_H
#define ORR_IO_NET_SHM_H

#include "io/net/parts.h"
#include "io/socket/segment.h"

/* Connections in shared memory, between processes of one machine that are not forked from one
 * another: a sealed segment with a byte ring each way, and the local socket over which it came. The
 * socket's end tells that the peer has died, and a byte on it is the doorbell that wakes a sleeper.
 *
 *   segment, as each side maps it
 *   | positions 0 | positions 1 | .. 64 KiB | ring 0 | ring 0 again | ring 1 | ring 1 again |
 *
 * Each ring is mapped twice in a row, so that a frame never breaks at its end: the receiver reads,
 * and the all-reduce adds, straight out of the ring. A frame is its header and its payload, each
 * filled up to a cache line. A frame of up to half a ring is published whole; a larger one streams.
 *
 * The peer is not trusted. Of each ring it writes one position, which is checked every time it is
 * read: it only grows, in whole cache lines, and stays within the ring. Headers are copied before
 * they are checked. The segment cannot shrink, by its seals. Payloads are not hashed: the memory is
 * that of this machine, like the buffers at both ends, and hashes would take a third of the time (8
 * MiB all-reduced by two ranks in 1.6 ms with them, 1.05 without). */
typedef struct orr_shm_ring_positions {
    orr_byte_ring_positions bytes; /* multiples of ORR_CACHE_LINE */
    /* Set by a side that is going to sleep, cleared by the one that wakes it. */
    _Alignas(ORR_CACHE_LINE) _Atomic uint32_t reader_sleeps;
    _Alignas(ORR_CACHE_LINE) _Atomic uint32_t writer_sleeps;
} orr_shm_ring_positions;

struct orr_net_shm {
    uint8_t *map;
    size_t map_bytes, ring_bytes;
    orr_shm_ring_positions *in, *out;
    uint8_t *in_bytes, *out_bytes;
    uint64_t read, written, /* this side's own, which the peer cannot change */
        seen_read;          /* the peer's, as last checked */
    bool ended;             /* the peer will write no more */
};

/* The caller's side of the handshake: receives the segment. */
void orr_net_shm_handshake(orr_net_system *net, orr_net_connection *link);
void orr_net_shm_done(orr_net_connection *link);

#endif /* ORR_IO_NET_SHM_H */
