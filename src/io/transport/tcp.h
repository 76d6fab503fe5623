/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_TRANSPORT_TCP_H
#define ORR_IO_TRANSPORT_TCP_H

#include "io/transport/transport.h"

/* Sockets to all other ranks, shape (ranks, ORR_CHANNELS), nonblocking. Each rank calls those below
 * it and hears from those above it. On failure some may be open. IO: one is not there by the
 * deadline. */
orr_status orr_transport_tcp_rendezvous(uint32_t rank, uint32_t ranks, int listener,
                                        const char *const *addresses, int64_t deadline_ns,
                                        int *sockets, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_IO_TRANSPORT_TCP_H */
