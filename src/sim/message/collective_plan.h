/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_MESSAGE_COLLECTIVE_PLAN_H
#define ORR_SIM_MESSAGE_COLLECTIVE_PLAN_H

#include <orrery/astra.h>

#include "base/array.h"

/* The plan of a collective: its chunks go through phases, and each phase is an algorithm among
 * the ranks of a line, that is, the ranks along one dimension of ASTRA-sim's logical topology.
 * Made once for each kind, size and set of ranks; then read only. */

/* Ranks that exchange messages in a phase. A member is a rank's number in its communicator; its
 * place in the line is pos(member), and the member at place q is member + (q - pos) * stride. */
typedef struct orr_line {
    uint32_t n;          /* ranks in the line               */
    uint32_t stride;     /* between neighbours, in members */
    const uint32_t *pos; /* shape (members); NULL: place = member */
    int32_t dim;         /* dimension of the network in which the line lies; -1: it may cross
                          * several */
} orr_line;

/* The members of a collective. */
struct orr_collective_plan;
typedef struct orr_message_group {
    uint32_t number;       /* in orr_planner.communicators */
    int64_t group;         /* 0: all ranks */
    uint32_t n;            /* members */
    const uint32_t *ranks; /* shape (n); NULL: rank = member */
    uint32_t mask;         /* dimensions that take part */
    uint32_t first;        /* lowest rank of a slice of all ranks */
    uint32_t n_dims;
    orr_line dims[ORR_ASTRA_DIMS]; /* by dimension of the network, n 1 where the dimension takes
                                    * no part; of a group: one line */
    bool local;                    /* a group of some ranks: with its own endpoint delay */
    const struct orr_collective_plan *plans; /* plans that were made for these members */
} orr_message_group;

/* Which of the two trees a chunk uses. A dimension with two phases has each once. */
typedef enum orr_tree { ORR_TREE_ALTERNATE, ORR_TREE_ROOT_LAST, ORR_TREE_ROOT_FIRST } orr_tree;

/* Which queues of its dimension a phase uses; each chunk takes the next one of them. Chunks of the
 * second half of all queues, and of the last ones, go round the line the other way. Source: issue
 * 137 of astra-sim, quoted in its Sys.cc. */
typedef enum orr_queue_share {
    ORR_QUEUES_ALL,
    ORR_QUEUES_FIRST, /* half: up the dimensions, and the turning point */
    ORR_QUEUES_LAST   /* half: down again */
} orr_queue_share;

/* Which rounds of a phase reduce what arrived. */
typedef enum orr_reducing {
    ORR_REDUCES_NEVER,
    ORR_REDUCES_EVERY_SECOND, /* from the first */
    ORR_REDUCES_ALWAYS
} orr_reducing;

/* One step of halvingDoubling. */
typedef struct orr_halving_step {
    uint32_t offset; /* of the partner: its place is this one's, exclusive or offset */
    int64_t bytes;
    int64_t reduce_ns; /* reduction of what arrives before it; also for one more than there are
                        * steps */
    int64_t ns;        /* within a dimension, without congestion */
} orr_halving_step;

typedef struct orr_collective_phase {
    uint8_t algorithm; /* orr_astra_algorithm */
    uint8_t line;      /* row of orr_collective_plan.lines */
    uint8_t tree;      /* orr_tree, of doubleBinaryTree */
    uint8_t queues;    /* orr_queue_share */
    uint8_t reducing;  /* orr_reducing */
    uint32_t n;        /* ranks in the line                                              */
    uint32_t steps;    /* messages that a rank sends */
    uint32_t parallel; /* packets in flight */
    uint32_t turn;     /* packets of a round: the first `parallel` of each round reduce nothing */
    int64_t endpoint_ns;
    int64_t reduce_ns;         /* except for halvingDoubling */
    int64_t bytes;             /* of a message; except for halvingDoubling */
    double serial_ns;          /* bytes over the bandwidth of the line's dimension; likewise */
    int64_t near_ns;           /* of a ring within a dimension: to the neighbour, without
                                * congestion */
    orr_halving_step *halving; /* shape (steps + 1), or NULL */
} orr_collective_phase;

typedef struct orr_collective_plan {
    const struct orr_collective_plan *next; /* next plan of the same members */
    const orr_message_group *members;
    uint8_t kind;  /* orr_astra_kind */
    int64_t bytes; /* of the collective, as requested */
    uint32_t n_chunks, n_lines, n_phases;
    orr_line lines[ORR_ASTRA_DIMS];
    orr_collective_phase *phases; /* shape (n_phases) */
    uint64_t messages;            /* of all members and chunks */
    bool symmetric;               /* each member sends and receives alike, over the same distance
                                   * and in the same order */
    bool symmetric_links; /* and over equally loaded links: not so for halvingDoubling on a ring,
                           * where half of the ranks go one way round and half the other */
} orr_collective_plan;

typedef struct orr_planner {
    const orr_astra_job *job;
    orr_arena *arena;
    const uint32_t *pos[ORR_ASTRA_DIMS]; /* shape (R): place of a rank in a dimension */
    orr_array(orr_message_group *) communicators;
    orr_message_group **of_group; /* shape (groups of the job); NULL: not made yet */
} orr_planner;

orr_status orr_planner_init(orr_planner *planner, const orr_astra_job *job, orr_arena *arena,
                            orr_error *err) ORR_MUST_CHECK;
void orr_planner_done(orr_planner *planner);

/* The communicator of all ranks that differ from `rank` in dimensions of the mask only. */
orr_status orr_planner_slice(orr_planner *planner, uint32_t rank, uint32_t mask,
                             orr_message_group **ret, orr_error *err) ORR_MUST_CHECK;
/* The communicator of one of the job's groups. Some ranks are one line, wherever they are, with the
 * system file's implementation if that is one, else a ring; all ranks of the network use the system
 * file's implementations. Errors: INVALID: a rank beyond the network. */
orr_status orr_planner_group(orr_planner *planner, uint32_t group, orr_message_group **ret,
                             orr_error *err) ORR_MUST_CHECK;
/* Member number of a rank, or ORR_NONE. */
uint32_t orr_communicator_member(const orr_planner *planner, const orr_message_group *members,
                                 uint32_t rank);
static inline uint32_t orr_communicator_rank(const orr_message_group *members, uint32_t member)
{
    return members->ranks != NULL ? members->ranks[member] : member;
}

/* Makes or finds a plan. Errors: INVALID: the system file has no implementation for it; a size
 * that cannot be split; halvingDoubling or doubleBinaryTree with a number of ranks that is no
 * power of two; a tree where the original cannot have one. */
orr_status orr_planner_plan(orr_planner *planner, orr_message_group *members, orr_astra_kind kind,
                            int64_t bytes, const orr_collective_plan **ret,
                            orr_error *err) ORR_MUST_CHECK;

/* Does the bundle of this packet reduce, that is, was data received that has to be added? */
static inline bool orr_phase_reduces(const orr_collective_phase *phase, uint32_t packet)
{
    const uint32_t turn = packet < phase->turn ? 0 : packet / phase->turn;
    const bool round = phase->reducing == ORR_REDUCES_ALWAYS ||
                       (phase->reducing == ORR_REDUCES_EVERY_SECOND && turn % 2 == 0);
    return round && packet - turn * phase->turn >= phase->parallel;
}

#endif /* ORR_SIM_MESSAGE_COLLECTIVE_PLAN_H */
