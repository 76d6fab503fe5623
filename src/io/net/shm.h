/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_NET_SHM_H
#define ORR_IO_NET_SHM_H

#include "io/net/parts.h"
#include "io/socket/segment.h"

/* Processes of one machine: a ring of bytes each way in memory of both, and a socket of the machine
 * that brought it, tells when the other has died, and wakes who sleeps.
 *
 * A frame takes its header and its payload, each filled up to ORR_CACHE_LINE bytes. A ring is
 * mapped twice, end to end, so that a frame never breaks. One that fits into half of it is
 * published whole and read where it lies; a larger one streams through. The other side is not
 * trusted: it owns a position of each ring, and each is judged when read; the memory cannot shrink
 * under us (its seals say so).
 *
 * Payloads are not checked here: the memory is that of this machine, as the buffers are that they
 * come from and go to, and hashes would take a third of the time (8 MiB all-reduced by two ranks
 * in 1.6 ms with them, 1.05 without). */
typedef struct orr_shm_ring_positions {
    orr_byte_ring_positions bytes; /* multiples of ORR_CACHE_LINE */
    /* Set by who sleeps, taken back by who wakes it. */
    _Alignas(ORR_CACHE_LINE) _Atomic uint32_t reader_sleeps;
    _Alignas(ORR_CACHE_LINE) _Atomic uint32_t writer_sleeps;
} orr_shm_ring_positions;

struct orr_net_shm {
    uint8_t *map;
    size_t map_bytes, ring_bytes;
    orr_shm_ring_positions *in, *out;
    uint8_t *in_bytes, *out_bytes;
    uint64_t read, written, /* ours, which nobody else can change */
        seen_read;          /* the peer's, as last judged         */
    bool ended;             /* the peer will write no more        */
};

/* The caller's side: what comes first on the socket. */
void orr_net_shm_handshake(orr_net_system *net, orr_net_connection *link);
void orr_net_shm_done(orr_net_connection *link);

#endif /* ORR_IO_NET_SHM_H */
