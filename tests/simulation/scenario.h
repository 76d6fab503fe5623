/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_SIMULATION_DRAMA_H
#define ORR_TESTS_SIMULATION_DRAMA_H

#include <stdio.h>

#include "base/philox.h"
#include "support/simulated/disk.h"
#include "support/simulated/network.h"
#include "team/coordinator/coordinator.h"
#include "team/member/proxy.h"
#include "team/member/member.h"
#include "oracle.h"

/* A scenario is a function of one seed: a team that runs the real protocol code on the simulated
 * network, faults drawn from the seed, and the oracle that its commits are compared with. */
enum { SCENARIO_REPLICAS = 8, SCENARIO_RANKS = 4, SCENARIO_FAULTS = 16, SCENARIO_TURNS = 64 };
/* Seeds from here on are those below with two coordinators that share a store. */
#define SCENARIO_STANDBY (UINT64_C(1) << 62)

typedef struct scenario scenario;
typedef struct replica replica;

/* A process: one rank of a replica. It trains the model as a training loop would. */
typedef struct rank {
    replica *of;
    uint32_t index, host;
    orr_net *net;
    orr_net_callbacks user; /* timer of the training loop */
    orr_team_member *member;
    model model;
    orr_team_directive turns[SCENARIO_TURNS]; /* directives of its leader that are not done yet */
    uint32_t n_turns;
    orr_team_directive turn; /* current directive */
    enum { RANK_IDLE, RANK_WORKS, RANK_WAITS, RANK_AGREES, RANK_UPDATES, RANK_LEFT } doing;
    orr_team_outcome outcome;   /* outcome that comes with it */
    orr_team_directive waiting; /* directive that ranks are agreeing on */
    bool moot;                  /* the current update applies nothing */
    bool waits;
    uint32_t op; /* next reduction to submit */
    oracle_part part;
    uint32_t which;                                /* its last commit, in the oracle */
    uint32_t deferred[SCENARIO_TURNS], n_deferred; /* of the oracle */
    uint64_t step;                                 /* number of the step that its state is after;
                                                    * NEVER: incomplete */
} rank;

struct replica {
    scenario *of;
    uint32_t index;
    char name[16];
    rank ranks[SCENARIO_RANKS];
    orr_replica_proxy *proxy;
    bool lives, left, refused, quarrels;
    bool drains;                /* it was asked to leave: nobody has to wait for what only it
                                 * knows */
    double compute_time_factor; /* on its computing time */
    uint64_t incarnation;
    uint64_t saved_step;  /* step of its checkpoint; NEVER: none */
    uint32_t saved_which; /* of the oracle */
    orr_team_data_cursor saved_data;
    uint64_t *saved; /* shape (ranks, words) */
};

typedef struct coordinator_process { /* the coordinator's process */
    scenario *of;
    uint32_t host;
    orr_coordinator *coordinator;
    orr_sim_disk disk;
    orr_team_store store;
    uint64_t seen; /* the version of the shared record that it read or wrote last */
    bool lives;
    bool died;                      /* at least once */
    bool forgot;                    /* it lost its disk, and has formed no epoch since */
    bool joined[SCENARIO_REPLICAS]; /* since it started                                */
} coordinator_process;

typedef enum fault_kind {
    FAULT_KILL,
    FAULT_VANISH,
    FAULT_STOP,
    FAULT_CUT,
    FAULT_ISOLATE,
    FAULT_SLOW,
    FAULT_RESET,
    FAULT_CORRUPT,
    FAULT_LEAVE,
    FAULT_JOIN,
    FAULT_CRASH_SAVE,
    FAULT_KINDS
} fault_kind;
/* A fault: what happens, when, and for how long. */
typedef struct fault {
    scenario *of;
    fault_kind kind;
    uint32_t who, other; /* replica; UINT32_MAX: the coordinator      */
    uint32_t rank;       /* of it; UINT32_MAX: all                    */
    bool amnesia;        /* the coordinator's disk is lost            */
    bool both_ways;      /* CUT, ISOLATE                              */
    double factor;       /* SLOW                                      */
    int64_t at_ns;       /* when; or after what follows               */
    int64_t lasts_ns;
    int event;          /* orr_team_event_kind that it waits for; -1: none */
    uint32_t nth, seen; /* of those                             */
    bool begun;
} fault;

typedef struct plan { /* what a seed determines */
    uint32_t replicas, joiners, ranks, n_faults, coordinators;
    int64_t failure_ns, compute_ns, update_ns, faults_end_ns;
    enum {
        BACK_EMPTY,
        BACK_BEGINNING,
        BACK_CHECKPOINT
    } back; /* state that a restarted process
             * has */
    orr_simnet_options world;
    orr_ring_options ring;
    uint32_t catch_up_steps;
    model_shape shape;
    fault faults[SCENARIO_FAULTS];
} plan;

/* What two coordinators share, as etcd keeps it: never lost, and taken from who has seen the last.
 */
typedef struct shared_record {
    uint8_t at[1 << 13];
    size_t bytes;
    uint64_t version; /* 0: there is none */
} shared_record;

struct scenario {
    uint64_t seed;
    plan plan;
    FILE *log;   /* NULL: none */
    bool frames; /* in the log too */
    orr_simnet *world;
    orr_random random; /* for choices during the run */
    coordinator_process coordinators[2];
    shared_record shared;
    replica replicas[SCENARIO_REPLICAS];
    oracle oracle;
    uint64_t takeovers; /* of the lead, by a coordinator that stood by */
    uint64_t incarnations, commits, deferred, retried, quarrels;
    orr_array(oracle_decision) decisions;
    oracle_decision abandoned;
    bool stateless; /* according to the coordinator */
    bool calm;      /* faults are over */
    bool anew;      /* all state was lost, and the job was restarted from the beginning */
    uint64_t calm_step;
    bool failed;
    char why[320];
    int64_t settled_ns; /* from the end of faults until all replicas were seen to make progress */
};

/* Runs a seed. False: d->why. Call scenario_done() after it. */
bool scenario_run(scenario *d, uint64_t seed, FILE *log, bool frames);
void scenario_done(scenario *d);

/* scenario_draw.c */
void plan_draw(plan *p, uint64_t seed);
void plan_print(const plan *p, FILE *to);
void fault_print(const fault *f, FILE *to);

/* scenario_replica.c */
void replica_start(replica *r);
void replica_kill(replica *r, bool silently);
bool replica_goes_on(const replica *r, uint64_t step); /* all ranks have committed it */

/* scenario_coordinator.c */
void coordinator_process_start(coordinator_process *k);
void coordinator_process_kill(coordinator_process *k, bool silently);

/* scenario_faults.c */
void faults_arm(scenario *d);
void faults_notice(scenario *d, int event); /* orr_team_event_kind */
void faults_end(void *scenario);

void scenario_fail(scenario *d, const char *format, ...) ORR_PRINTF(2, 3);
void scenario_log(scenario *d, const char *who, const char *format, ...) ORR_PRINTF(3, 4);
void scenario_at(scenario *d, int64_t at_ns, orr_simnet_call *what, void *ctx);

#endif /* ORR_TESTS_SIMULATION_DRAMA_H */
