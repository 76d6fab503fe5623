/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ASTRA_RUN_H
#define ORR_SIM_ASTRA_RUN_H

#include "sim/message/messages.h"

/* State of a run: ranks that work through their graphs, on top of the message engine. */

/* Resources: a rank has one node of each in flight, except for receives. */
typedef enum orr_astra_resource {
    ORR_ASTRA_CPU,
    ORR_ASTRA_COMPUTE,
    ORR_ASTRA_COMM,
    ORR_ASTRA_RECEIVE,
    ORR_ASTRA_RESOURCES
} orr_astra_resource;

typedef struct orr_astra_node {
    orr_node_id id;      /* in the graph */
    uint8_t slot;        /* orr_astra_resource */
    bool skipped;        /* takes no time and no event: metadata, invalid nodes */
    uint8_t collective;  /* orr_collective, or 0 */
    uint32_t mask;       /* dimensions involved */
    uint32_t peer, tag;  /* of send and receive */
    uint32_t n_waits;    /* distinct nodes that it depends on */
    int64_t duration_ns; /* of nodes that do not communicate, and of a broadcast */
    int64_t bytes;
    int64_t group; /* 0: all ranks */
} orr_astra_node;

/* A graph as ASTRA-sim sees it: dependencies of data and of control, nodes in the order of their
 * ids. */
typedef struct orr_astra_program {
    uint32_t n;
    const orr_astra_node *nodes; /* shape (n) */
    const uint32_t *first;       /* shape (n + 1): successors of a node: next[first[i]] ... */
    const uint32_t *next;
    uint64_t hash;
    bool alone; /* communicates through collectives of all ranks only */
} orr_astra_program;

/* Errors: INVALID, UNSUPPORTED: names the node. NO_MEMORY. */
orr_status orr_astra_compile(const orr_astra_job *job, uint32_t rank, orr_arena *arena,
                             orr_astra_program *ret, orr_error *err) ORR_MUST_CHECK;
bool orr_astra_same_program(const orr_astra_program *a, const orr_astra_program *b);

typedef orr_array(uint32_t) orr_node_heap;

typedef struct orr_astra_state {
    const orr_astra_program *program;
    uint32_t *waits;            /* shape (n): open dependencies */
    int64_t *start_ns, *end_ns; /* shape (n), by node of the program */
    orr_node_heap ready[ORR_ASTRA_RESOURCES], pending;
    bool busy[ORR_ASTRA_RESOURCES], issuing, finished;
    uint32_t in_flight, unfinished;
    uint32_t comm_node;        /* in flight */
    orr_collective_task *task; /* its task; NULL: none */
    uint64_t ordinal;          /* collectives of all ranks so far */
    int64_t finish_ns, compute_ns;
} orr_astra_state;

/* Point-to-point messages with equal source, destination and tag: the k-th sent is the k-th
 * received. */
typedef struct orr_astra_channel {
    uint32_t from, to, tag;
    int64_t bytes;
    uint32_t arrived;    /* unexpected messages */
    uint32_t head, tail; /* posted receives: entries of orr_astra_run.receives */
} orr_astra_channel;
typedef struct orr_astra_receive {
    uint32_t node, next;
} orr_astra_receive;

typedef struct orr_astra_run {
    const orr_astra_job *job;
    orr_astra_mode mode;
    uint32_t n_ranks; /* that are simulated */
    orr_arena *arena; /* of the result */
    orr_planner planner;
    orr_messages messages;
    orr_network model;               /* MODEL */
    orr_astra_state *ranks;          /* shape (n_ranks) */
    uint32_t *task_heads, task_mask; /* running tasks by communicator and ordinal */
    orr_array(uint64_t *) ordinals;  /* by communicator and member; NULL for all ranks */
    orr_array(orr_astra_collective) records;
    orr_array(orr_astra_channel) pairs;
    orr_array(orr_astra_receive) receives;
    uint32_t *pair_table, pair_mask;
    uint64_t n_messages;
    orr_status status; /* reason for which it stopped */
    orr_error *err;
} orr_astra_run;

/* The reference: every rank and every step of a message is simulated. Tests compare the
 * shortcuts with it. */
orr_status orr_astra_simulate_reference(const orr_astra_job *job, orr_astra_mode mode,
                                        orr_arena *arena, orr_astra_result *ret,
                                        orr_error *err) ORR_MUST_CHECK;

/* Records an error and stops. */
void orr_astra_fail(orr_astra_run *run, orr_status status);

/* issue.c */
void orr_astra_start_rank(orr_astra_run *run, uint32_t rank);
void orr_astra_node_done(orr_astra_run *run, uint32_t rank, uint32_t node);
/* collective.c */
void orr_astra_collective_begin(orr_astra_run *run, uint32_t rank, uint32_t node);
void orr_astra_collective_end(void *ctx, const orr_collective_task *task, uint32_t member);
void orr_astra_collectives_done(orr_astra_run *run);
/* Has the rank joined the task, or a later one? */
bool orr_astra_has_joined(const orr_astra_run *run, const orr_collective_task *task,
                          uint32_t member);
/* send_receive.c */
void orr_astra_send(orr_astra_run *run, uint32_t rank, uint32_t node);
void orr_astra_post_receive(orr_astra_run *run, uint32_t rank, uint32_t node);
void orr_astra_message_delivered(orr_astra_run *run, uint32_t pair, uint32_t sender_node);
/* deadlock.c: CANCELED with the cycle, if a rank has not finished. */
orr_status orr_astra_explain_deadlock(const orr_astra_run *run, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_ASTRA_RUN_H */
