/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_MESSAGE_MESSAGES_H
#define ORR_SIM_MESSAGE_MESSAGES_H

#include "sim/message/collective_plan.h"
#include "sim/message/network.h"
#include "sim/message/bucket_queue.h"

/* The message engine: collectives simulated message by message, with an event for every message.
 *
 * A running collective is a task; each member has a few words for each of its chunks, in one
 * array. Chunks of a member queue for the lines of its plan; a line works on as many at once as
 * the system file says. Events of a rank go through its agenda: everything that it has to do at
 * one time is done at the position of what was scheduled first (the original's
 * Sys::event_queue), which decides who is first at a link. */

typedef enum orr_message_event_kind {
    ORR_MESSAGE_ARRIVES, /* at member `who` of a task: message `index` of chunk and phase */
    ORR_MESSAGE_AGENDA,  /* of rank `who`: entry `index` */
    ORR_MESSAGE_HOP,     /* message in flight `who` is at the end of a link */
    ORR_MESSAGE_LINK,    /* link `who` of dimension `index` is free */
    ORR_MESSAGE_PASSED,  /* a point-to-point message (send_receive.c) of channel `who` */
    /* on an agenda */
    ORR_MESSAGE_BUNDLE,   /* packet `index` has passed through the memory of member `who` */
    ORR_MESSAGE_REDUCED,  /* and was reduced */
    ORR_MESSAGE_NODE,     /* node `index` of rank `who` has ended */
    ORR_MESSAGE_RECEIVED, /* unexpected message whose receive was posted now */
    ORR_MESSAGE_RECV,     /* node `index` of rank `who` got the message that it waited for */
} orr_message_event_kind;

/* kind 8 bits, phase 8, chunk 16, task 32 */
static inline uint64_t orr_message_what(orr_message_event_kind kind, uint32_t task, uint32_t chunk,
                                        uint32_t phase)
{
    return (uint64_t)task << 32 | (uint64_t)chunk << 16 | (uint64_t)phase << 8 | (uint64_t)kind;
}
static inline uint32_t orr_what_kind(uint64_t what)
{
    return (uint32_t)what & 0xff;
}
static inline uint32_t orr_what_phase(uint64_t what)
{
    return (uint32_t)(what >> 8) & 0xff;
}
static inline uint32_t orr_what_chunk(uint64_t what)
{
    return (uint32_t)(what >> 16) & 0xffff;
}
static inline uint32_t orr_what_task(uint64_t what)
{
    return (uint32_t)(what >> 32);
}

/* State of one chunk of one member. */
typedef struct orr_chunk {
    uint32_t packets; /* made so far */
    uint32_t sent;    /* sent so far; as many receives were posted */
    uint32_t received;
    uint32_t free;  /* packets that may be sent now */
    uint32_t left;  /* messages still to send */
    uint32_t early; /* unexpected messages: arrived before their receive was posted */
    uint16_t next;  /* next chunk that waits for the same line */
    uint8_t phase;
    uint8_t state;    /* of doubleBinaryTree; and whether it has begun */
    bool backwards;   /* goes round its line the other way in this phase */
    int64_t ready_ns; /* without contention: when the last one was sent */
} orr_chunk;

/* Turns: where a rank's chunks go next among the queues of a dimension, and to which of the two
 * trees. They go on from one collective to the next. */
typedef struct orr_turns {
    uint16_t next[3]; /* by orr_queue_share */
    uint8_t tree;
} orr_turns;
typedef struct orr_rank_turns {
    uint16_t next[ORR_ASTRA_DIMS][3];
    uint8_t tree[ORR_ASTRA_KINDS][ORR_ASTRA_DIMS];
} orr_rank_turns;

/* Queue of one member's chunks for one queue of a line. */
typedef struct orr_waiting {
    uint16_t head, tail; /* UINT16_MAX: empty */
    uint16_t running;
} orr_waiting;

typedef struct orr_collective_task {
    const orr_collective_plan *plan;
    uint64_t ordinal;           /* number of the collective within its communicator */
    uint32_t number, next_same; /* in the engine's table; next of the same hash */
    /* Members that call different collectives at once: ASTRA-sim tells messages apart by their
     * chunk, ranks and size only, so that they serve each other. Each of them is a task, and
     * messages are addressed to the root. */
    struct orr_collective_task *root, *twin; /* first of them, itself where it is alone; next */
    uint32_t joined, ended;                  /* members */
    uint32_t record;                         /* row of the collective in the result */
    uint32_t n_members;                      /* members that are simulated */
    bool relayed;                            /* see uncontended.c */
    orr_chunk *chunks;    /* shape (n_chunks, n_members): events come in order of members */
    orr_waiting *waiting; /* shape (n_members, n_lines, queues) */
    orr_turns *turns;     /* shape (n_members, n_lines), from when the member joined */
    uint32_t first;       /* first member that joined */
    uint32_t *unfinished; /* shape (n_members): unfinished chunks */
    int64_t begin_ns;     /* MODEL: last arrival */
} orr_collective_task;

/* A place in a queue that a rank's ended collective still holds while the rank goes on to its next
 * one, as in the original: the chunks of that queue begin after those of others. */
typedef struct orr_held_place {
    bool held;
    uint32_t line, queue;
    struct orr_collective_task *next; /* the collective that the rank went on to; NULL: none */
    uint32_t member;                  /* of it */
} orr_held_place;

/* A rank's agenda entry for one time: runs of events with consecutive indices, since a rank may
 * have as many packets as there are ranks. */
typedef struct orr_agenda_run {
    orr_message_event event;
    uint32_t count;
    uint32_t next; /* next run of the entry, or of the free list */
} orr_agenda_run;
typedef struct orr_agenda_entry {
    int64_t ns;
    orr_agenda_run first;
    uint32_t last; /* last run, or ORR_NONE: the first */
    uint32_t next; /* next entry of the rank, or of the free list */
} orr_agenda_entry;

/* Unexpected messages (MPI's term): arrived before their receive was posted. A hash set of
 * (what, who, index). */
typedef struct orr_unexpected {
    orr_message_event *table; /* `what` 0: empty */
    uint32_t mask, used;
} orr_unexpected;

typedef struct orr_messages {
    const orr_astra_job *job;
    orr_astra_mode mode;
    bool folded;
    bool literal;    /* every message step by step, for tests */
    uint32_t origin; /* folded: origin of the events at this time; 0: none yet */
    bool tied;       /* folded: simultaneous events had different origins, so that a full run
                      * could order them differently on each rank */
    int64_t now_ns;
    orr_bucket_queue queue;
    orr_links links; /* AWARE */
    orr_unexpected early;
    uint32_t queues;       /* of a dimension */
    uint32_t active;       /* chunks at a time in a queue */
    orr_rank_turns *turns; /* shape (ranks) */
    orr_held_place place;
    orr_array(orr_collective_task *) tasks; /* NULL: has ended */
    orr_array(uint32_t) idle_tasks;
    uint32_t *agenda; /* shape (ranks): first entry, or ORR_NONE */
    orr_array(orr_agenda_entry) entries;
    orr_array(orr_agenda_run) runs;
    uint32_t idle_entry, idle_run;
    uint64_t n_events;
    bool failed; /* out of memory */
    /* Called when a member has ended its part of a task; the task may be freed in it. */
    void (*on_end)(void *ctx, const orr_collective_task *task, uint32_t member);
    /* Called for NODE, PASSED, RECV. */
    void (*on_event)(void *ctx, orr_message_event event);
    void *ctx;
} orr_messages;

orr_status orr_messages_init(orr_messages *m, const orr_astra_job *job, orr_astra_mode mode,
                             bool folded, orr_error *err) ORR_MUST_CHECK;
void orr_messages_done(orr_messages *m);

/* Runs until no event is left. Errors: NO_MEMORY; LIMIT: over 2^62 ns. */
orr_status orr_messages_run(orr_messages *m, orr_error *err) ORR_MUST_CHECK;

/* Puts an event on a rank's agenda. */
void orr_messages_at(orr_messages *m, uint32_t rank, int64_t ns, orr_message_event event);

/* Makes a task that all members will join; `root`: the one whose messages serve it too, or NULL.
 * NULL: out of memory. */
orr_collective_task *orr_collective_task_new(orr_messages *m, const orr_collective_plan *plan,
                                             uint64_t ordinal, orr_collective_task *root);
/* Can members with one plan go on with messages of members with the other? */
bool orr_collective_plans_alike(const orr_collective_plan *a, const orr_collective_plan *b);
void orr_collective_task_free(orr_messages *m, orr_collective_task *task);
/* A member joins. Its end may be reported at once, when there is nothing to do. False: members go
 * round a ring in different directions, or up different trees, since they had different numbers of
 * chunks before; the collective would never end. */
bool orr_collective_task_join(orr_messages *m, orr_collective_task *task, uint32_t member);

/* chunk_queues.c: number of the queue in which a chunk of a member waits for a phase, and whether
 * it goes backwards there. */
uint32_t orr_chunk_queue(const orr_messages *m, const orr_collective_task *task, uint32_t member,
                         uint32_t chunk, uint32_t phase, bool *ret_backwards);
/* The chunk has ended a phase and goes on to the next, or is done. */
void orr_chunk_phase_end(orr_messages *m, orr_collective_task *task, uint32_t member,
                         uint32_t chunk);

/* packets.c, and for trees double_binary_tree.c */
void orr_packets_begin(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk);
void orr_packets_arrive(orr_messages *m, orr_message_event event);
void orr_packets_received(orr_messages *m, orr_message_event event);
void orr_packets_packed(orr_messages *m, orr_message_event event);
void orr_packets_reduced(orr_messages *m, orr_message_event event);
/* Sends a packet, posts a receive, moves a packet of these bytes through the memory (index: its
 * number). */
void orr_packets_send(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                      uint32_t to, uint32_t index, int64_t bytes);
void orr_packets_post_receive(orr_messages *m, orr_collective_task *task, uint32_t member,
                              uint32_t chunk, uint32_t index);
void orr_packets_pack(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                      uint32_t index);
/* uncontended.c */
bool orr_uncontended_applies(const orr_messages *m, const orr_collective_plan *plan);
void orr_uncontended_begin(orr_messages *m, orr_collective_task *task, uint32_t member,
                           uint32_t chunk);
void orr_uncontended_received(orr_messages *m, orr_collective_task *task, uint32_t member,
                              uint32_t chunk, uint32_t index);
void orr_tree_begin(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk);
bool orr_tree_has_posted(const orr_chunk *chunk, uint32_t index);
bool orr_tree_reduces(uint32_t index);
void orr_tree_received(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                       uint32_t index);
void orr_tree_packed(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk);

static inline orr_chunk *orr_collective_task_chunk(const orr_collective_task *task, uint32_t member,
                                                   uint32_t chunk)
{
    return &task->chunks[(size_t)chunk * task->n_members + member];
}
/* The task, of those that share messages, that the member has joined; else the root. */
static inline orr_collective_task *orr_collective_task_of(orr_collective_task *root,
                                                          uint32_t member)
{
    orr_collective_task *task = root;
    while (task != NULL && task->unfinished[member] == 0)
        task = task->twin;
    return task != NULL ? task : root;
}
static inline const orr_turns *orr_collective_task_turns(const orr_collective_task *task,
                                                         uint32_t member, uint32_t line)
{
    return &task->turns[(size_t)member * task->plan->n_lines + line];
}
static inline uint32_t orr_line_place(const orr_line *line, uint32_t member)
{
    return line->pos != NULL ? line->pos[member] : member;
}

bool orr_unexpected_init(orr_unexpected *early);
void orr_unexpected_done(orr_unexpected *early);
bool orr_unexpected_add(orr_unexpected *early, orr_message_event key);  /* false: out of memory */
bool orr_unexpected_take(orr_unexpected *early, orr_message_event key); /* was it there? */

#endif /* ORR_SIM_MESSAGE_MESSAGES_H */
