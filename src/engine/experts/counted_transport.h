/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_EXPERTS_COUNTED_TRANSPORT_H
#define ORR_ENGINE_EXPERTS_COUNTED_TRANSPORT_H

#include "io/transport/transport.h"

/* A transport that counts the bytes which this rank sends to others, before it hands them to
 * another transport: payloads of messages, without the transport's own framing. One thread at a
 * time. */
typedef enum orr_wire_level { ORR_WIRE_HOST, ORR_WIRE_NETWORK, ORR_WIRE_LEVELS } orr_wire_level;
typedef struct orr_counted_transport {
    orr_transport transport; /* to be used in place of `to` */
    orr_transport *to;
    uint32_t host_ranks; /* ranks r and s share a host iff r / host_ranks = s / host_ranks */
    uint64_t *sent;      /* shape (ORR_WIRE_LEVELS): where bytes are counted now */
    uint64_t other[ORR_WIRE_LEVELS]; /* where they are counted at first */
} orr_counted_transport;
/* `ret` must stay where it is while in use. host_ranks 0: all ranks are on one host. */
void orr_counted_transport_init(orr_counted_transport *ret, orr_transport *to, uint32_t host_ranks);

#endif /* ORR_ENGINE_EXPERTS_COUNTED_TRANSPORT_H */
