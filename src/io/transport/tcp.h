/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_TRANSPORT_TCP_H
#define ORR_IO_TRANSPORT_TCP_H

#include "io/transport/transport.h"

/* The rendezvous: connects to all ranks below this one, and accepts all above it. `sockets`, shape
 * (ranks, ORR_CHANNELS), non-blocking; after a failure some may be open. Errors: IO: one did not
 * come by the deadline, or has `failed`. */
orr_status orr_transport_tcp_rendezvous(uint32_t rank, uint32_t ranks, int listener,
                                        const char *const *addresses, int64_t deadline_ns,
                                        const _Atomic uint32_t *failed, int *sockets,
                                        orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_IO_TRANSPORT_TCP_H */
