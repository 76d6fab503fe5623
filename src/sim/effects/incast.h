/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_EFFECTS_INCAST_H
#define ORR_SIM_EFFECTS_INCAST_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/status.h>

/* Incast: many senders into one port of a switch (Phanishayee et al., FAST 2008), packet by packet:
 * queue length, pauses, losses and retransmissions.
 *
 * Time advances in slots; a slot is as long as the port takes for a packet. In a slot every sender
 * may send one packet (its line is as fast as the port), which arrives a hop later; the port
 * forwards one packet, first in first out, and it is acknowledged after the rest of the round trip.
 * A sender has at most `window_bytes` in flight. Packets that do not fit into the buffer are
 * dropped. The receiver accepts packets of a sender only in order and reports the missing one; the
 * sender then goes back to it (go-back-N), and likewise after a timeout without feedback.
 *
 *   pauses   the switch tells the senders to stop (PFC) when its buffer has room left only for
 *            what can arrive until they do, and to resume at half of that; a buffer that is
 *            large enough for it loses nothing
 *   credits  receiver-driven: a packet is sent for a credit; the receiver gives one a slot, to
 *            its senders in turn, with at most a round trip of them unused; credits are never
 *            lost */
typedef struct orr_incast_job {
    uint32_t senders;
    double sender_bytes;           /* of each sender */
    double window_bytes;           /* of each sender; 0: unlimited */
    double buffer_bytes;           /* of the port */
    double bytes_per_s;            /* of the port, and of each sender */
    int64_t round_trip_ns, hop_ns; /* hop: until a sender hears of a pause */
    bool pauses, credits;
} orr_incast_job;
typedef struct orr_incast {
    int64_t ns;                    /* until the last acknowledgement */
    double goodput_frac;           /* bytes over what the port could have forwarded in that time */
    double peak_bytes, mean_bytes; /* of the queue; mean over the time that the port is busy */
    uint64_t pauses;               /* number of times that senders were told to stop */
    double paused_frac;            /* paused share of the time */
    uint64_t lost, resent;         /* packets */
} orr_incast;
/* Deterministic: nothing is random. Errors: INVALID: nothing to send, no bandwidth; LIMIT: over
 * 2^22 packets, or it does not end; NO_MEMORY. */
orr_status orr_incast_simulate(const orr_incast_job *job, orr_incast *ret,
                               orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_EFFECTS_INCAST_H */
