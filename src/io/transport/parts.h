/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_TRANSPORT_PARTS_H
#define ORR_IO_TRANSPORT_PARTS_H

#include <stdbool.h>

#include "io/transport/transport.h"

/* Private to io/transport: what all transports have in common. */

/* Checks the ranks and the channel of an exchange (INVALID). *ret_done: it was one with this rank
 * itself, and has been made. */
orr_status orr_transport_begin(const orr_transport *self, const orr_exchange *x, bool *ret_done,
                               orr_error *err) ORR_MUST_CHECK;
/* "rank 1 sent 12 bytes where rank 0 wants 16" and "rank 3 said nothing for 30 s". */
orr_status orr_transport_fail_length(uint32_t from, uint64_t sent, uint32_t to, uint64_t wanted,
                                     orr_error *err);
orr_status orr_transport_fail_timeout(uint32_t rank, int64_t deadline_ns, orr_error *err);
/* "rank 2 gave up": not a cause, but the consequence of one elsewhere, which ECANCELED in os_errno
 * says. */
orr_status orr_transport_fail_aborted(uint32_t rank, orr_error *err);

/* How long to spin before sleeping: 30 us cover a peer that answers at once; 1 us where ranks
 * outnumber cores, since the peer may need this core. */
int64_t orr_transport_spin_ns(uint32_t ranks_here);

#endif /* ORR_IO_TRANSPORT_PARTS_H */
