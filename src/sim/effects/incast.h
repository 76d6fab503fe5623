/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_EFFECTS_INCAST_H
#define ORR_SIM_EFFECTS_INCAST_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/status.h>

/* Several senders into one port of a switch, packet by packet: what stands in the queue, who is
 * told to wait, what is lost and sent again.
 *
 * Time goes in slots, each as long as the port takes for a packet. In a slot every sender may send
 * one packet (its line is as fast as the port), which arrives a hop later; the port lets one packet
 * through, first come first served, and it is acknowledged after what is left of the round trip.
 * A sender has at most `window_bytes` under way. What does not fit into the buffer is dropped. The
 * receiver takes packets of a sender in order alone and names the one it misses; the sender goes
 * back to it (go-back-N), and likewise when it has heard nothing for long.
 *   pauses   the switch tells the senders to stop (PFC) when its buffer has room left only for what
 *            can come until they do, and to go on at half of that. A buffer that is large enough
 *            for it loses nothing
 *   credits  a packet is sent for a credit, and the receiver gives one a slot, to its senders in
 *            turn, with at most a round trip of them not yet used. Credits are never lost */
typedef struct orr_incast_job {
    uint32_t senders;
    double sender_bytes;           /* of each */
    double window_bytes;           /* of each; 0: no bound */
    double buffer_bytes;           /* that the port can use */
    double bytes_per_s;            /* of the port, and of each sender */
    int64_t round_trip_ns, hop_ns; /* hop: until a sender hears of a pause */
    bool pauses, credits;
} orr_incast_job;
typedef struct orr_incast {
    int64_t ns;                    /* until the last acknowledgement */
    double goodput_frac;           /* bytes over what the port could have passed until then */
    double peak_bytes, mean_bytes; /* in the queue; mean over the time that the port is busy */
    uint64_t pauses;               /* times that senders were told to stop */
    double paused_frac;            /* of the time */
    uint64_t lost, resent;         /* packets */
} orr_incast;
/* Deterministic: nothing in it is random. Errors: INVALID: nothing to send, no bandwidth; LIMIT:
 * over 2^22 packets, or it does not end; NO_MEMORY. */
orr_status orr_incast_simulate(const orr_incast_job *job, orr_incast *ret,
                               orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_EFFECTS_INCAST_H */
