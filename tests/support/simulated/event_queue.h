/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SUPPORT_SIMULATED_EVENT_QUEUE_H
#define ORR_SUPPORT_SIMULATED_EVENT_QUEUE_H

#include "base/array.h"
#include "io/net/net.h"
#include "support/simulated/network.h"

/* Event queue of the simulated network: by time, then in the order of insertion. Live events
 * have numbers, so that they can be in lists too; memory is reused. */
typedef enum orr_simnet_event_kind {
    ORR_SIMNET_EVENT_CALL,
    ORR_SIMNET_EVENT_TIMER, /* of no host; of a user */
    ORR_SIMNET_EVENT_CONNECT,
    ORR_SIMNET_EVENT_ACCEPT, /* a connection request arrives; its listener is told */
    ORR_SIMNET_EVENT_CONNECTED,
    ORR_SIMNET_EVENT_FRAME, /* the caller is told; a frame arrives */
    ORR_SIMNET_EVENT_DRAINED,
    ORR_SIMNET_EVENT_CLOSE /* everything was delivered; the connection is gone */
} orr_simnet_event_kind;
enum {                      /* flags of a frame */
       ORR_FRAME_LATE = 1,  /* the payload is the sender's memory */
       ORR_FRAME_CHECK = 2, /* the payload's hash was not computed by this network */
       ORR_FRAME_BROKEN_HEADER = 4,
       ORR_FRAME_BROKEN_PAYLOAD = 8
};
typedef struct orr_simnet_event {
    uint8_t kind;  /* orr_simnet_event_kind            */
    uint8_t why;   /* CLOSE: orr_net_close_reason              */
    uint8_t flags; /* FRAME                           */
    uint8_t size;  /* FRAME: class of the payload's memory */
    uint32_t host; /* host that it happens to */
    uint32_t next; /* in a list                       */
    uint32_t port; /* DIAL                            */
    union {
        orr_conn conn; /* the receiving end               */
        struct {       /* WAKE                            */
            uint32_t user, generation;
        };
        orr_simnet_call *call;
    };
    union {
        void *ctx;         /* CALL                        */
        int64_t handed_ns; /* FRAME: when it left; INT64_MAX: on arrival */
        int64_t at_ns;     /* WAKE                        */
    };
    const void *payload;
    orr_net_frame frame; /* last: other kinds do not copy it */
} orr_simnet_event;

typedef struct orr_simnet_queue_entry {
    int64_t at_ns;
    uint64_t order; /* sequence << 24 | event */
} orr_simnet_queue_entry;
typedef struct orr_simnet_queue {
    orr_array(orr_simnet_queue_entry) heap; /* 4 children each: one cache line */
    orr_array(orr_simnet_event) events;
    uint64_t sequence;
    uint32_t free; /* first; linked by next */
} orr_simnet_queue;

void orr_simnet_queue_init(orr_simnet_queue *queue);
void orr_simnet_queue_done(orr_simnet_queue *queue);
/* A number for a new event that is not in the heap. False: out of memory, or 2^24 live events. */
bool orr_simnet_queue_new(orr_simnet_queue *queue, uint32_t *ret);
void orr_simnet_queue_free(orr_simnet_queue *queue, uint32_t event);
bool orr_simnet_queue_put(orr_simnet_queue *queue, int64_t at_ns, uint32_t event);
/* Takes the next event before `until_ns`; it keeps its number. */
bool orr_simnet_queue_take(orr_simnet_queue *queue, int64_t until_ns, int64_t *ret_at_ns,
                           uint32_t *ret);
static inline uint32_t orr_simnet_queue_entry_event(const orr_simnet_queue_entry *entry)
{
    return (uint32_t)(entry->order & 0xffffff);
}

#endif /* ORR_SUPPORT_SIMULATED_EVENT_QUEUE_H */
