/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_H
#define ORR_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fault-tolerant training. R replicas of a model train together; a replica (k ranks, each a
 * process) is the unit of failure. Rank i of every replica is in one ring, over which gradients are
 * summed; a coordinator keeps the membership in numbered epochs, detects failures, and decides
 * which steps are committed.
 *
 * What is promised, whatever dies, hangs or is cut off at whatever moment: all that commit a step
 * have the same bytes of the same contributors; every slot of data is trained once; at most one
 * team goes on; every call returns.
 *
 * A rank's loop:
 *
 *   orr_team_join(&options, &team, err);
 *   for (;;) {
 *     orr_team_next_directive(team, &d, err);  // rank 0; the others: orr_team_follow()
 *     if (d.kind == ORR_DIRECTIVE_LEAVE)
 *       break;
 *     // COMPUTE: gradients of data slot d.slot, orr_team_reduce() of each bucket
 *     // ZEROS: the same reductions with `in` NULL
 *     // APPLY: no reductions and no vote; the outs hold the sums of step d.step
 *     orr_team_vote(team, ops, &outcome, err); // waits until the step is decided
 *     // COMMITTED, APPLY: update with outs / contributors, then orr_team_updated()
 *     // DEFERRED, DROPPED: nothing
 *   }
 *   orr_team_leave(team);
 *
 * Threads: one calls these, but orr_team_reduce() may be called from any; the team's own threads
 * communicate and add. */
typedef struct orr_team orr_team;

typedef struct orr_team_span {
    void *data;
    size_t bytes;
} orr_team_span;

/* The data cursor: which slots (batches of one replica for one step, counted from 0) are still to
 * be trained, each once. */
enum { ORR_TEAM_MAX_RETURNED_SLOTS = 128 };
typedef struct orr_team_data_cursor {
    uint64_t next; /* never given out: this one and all after it                     */
    uint64_t returned[ORR_TEAM_MAX_RETURNED_SLOTS]; /* given out and not trained, ascending: whose
                                                       replica died      */
    uint32_t n;
    uint64_t epoch; /* in which the step before them was committed; 0: none was */
    uint64_t made;  /* whose ring made its sums, which later epochs may have carried: two states
                     * after a step are the same only if this is                        */
} orr_team_data_cursor;

/* Events, reported as they happen. */
#define ORR_TEAM_EVENT_MAP(X)                                                                      \
    X(JOINED, "joined")                                                                            \
    X(EPOCH, "epoch")                                                                              \
    X(LOST, "lost")                                                                                \
    X(RETRY, "retry")                                                                              \
    X(COMMIT, "commit")                                                                            \
    X(HALT, "halt")                                                                                \
    X(FETCH, "fetch")                                                                              \
    X(CAUGHT_UP, "whole")                                                                          \
    X(SERVE, "serve")                                                                              \
    X(LEFT, "left")                                                                                \
    X(COORDINATOR_LOST, "coordinator lost") X(COORDINATOR, "coordinator") X(REFUSED, "refused")
typedef enum orr_team_event_kind {
#define ORR_TEAM_EVENT_ENUM_(name, text) ORR_TEAM_##name,
    ORR_TEAM_EVENT_MAP(ORR_TEAM_EVENT_ENUM_)
#undef ORR_TEAM_EVENT_ENUM_
} orr_team_event_kind;
typedef struct orr_team_event {
    uint8_t kind;  /* orr_team_event_kind */
    int64_t at_ns; /* CLOCK_MONOTONIC */
    uint64_t epoch, step;
    const char *text; /* one line, of the call only */
} orr_team_event;
ORR_API const char *orr_team_event_name(orr_team_event_kind kind);

/* Who can join a team. With a key all TCP connections of coordinator and replicas begin with a
 * handshake of TLS 1.3 in which both ends prove that they have it; control and state are encrypted,
 * sums where `encrypt_all` says so. Shared memory is for processes of the same user alone. */
typedef struct orr_team_access {
    const void *key;  /* the same in all of the team; copied; needs OpenSSL 3 */
    size_t key_bytes; /* 0: no key */
    bool encrypt_all;
    bool insecure; /* without a key: addresses that other machines reach are allowed */
} orr_team_access;

typedef struct orr_team_options {
    const char *coordinator; /* "host:port"; with standbys all of them, with commas */
    orr_team_access access;
    const char
        *name; /* of the replica, unique in the team; the order of names is the order of the ring */
    uint32_t rank, ranks; /* of this process in its replica; 0 ranks: 1 */
    const char *proxy;    /* ranks > 0: what orr_team_proxy_address() of rank 0 gives */
    const char *address;  /* of this machine, for the data of the others: "10.0.0.5" or with a port;
                           * NULL: the one from which it reaches the coordinator */
    bool no_shared_memory;      /* TCP between processes of one machine too */
    uint64_t fingerprint;       /* of the job: replicas of another are refused */
    uint32_t replicas;          /* that the job is planned for */
    int64_t failure_timeout_ns; /* 0: 2 s; every other time follows from it */
    int64_t give_up_ns;         /* without a team for so long: calls fail with LIMIT; 0: 10 min */
    uint32_t chunk_bytes, window, streams; /* of the ring; 0: its own */
    uint32_t catch_up_steps;    /* reductions that a member which comes back can set aside; 0: 4 */
    uint64_t step;              /* state after this step is in the spans */
    orr_team_data_cursor data;  /* after it */
    const orr_team_span *spans; /* shape (n_spans): the state; the same sizes in all replicas */
    uint32_t n_spans;
    void (*on_event)(void *ctx, const orr_team_event *event); /* from the team's thread; or NULL */
    void *ctx;
} orr_team_options;
/* Starts the team's threads and returns, before any other replica is met. INVALID: settings that
 * contradict each other. */
ORR_API ORR_MUST_CHECK orr_status orr_team_join(const orr_team_options *options, orr_team **ret,
                                                orr_error *err);
/* The address of the replica's proxy in rank 0, for the other ranks' options. */
ORR_API const char *orr_team_proxy_address(const orr_team *team);
/* Ends the threads, at any time; without orr_team_drain() the others see a death. NULL is allowed.
 */
ORR_API void orr_team_leave(orr_team *team);

typedef enum orr_team_directive_kind {
    ORR_DIRECTIVE_COMPUTE,
    ORR_DIRECTIVE_ZEROS,
    ORR_DIRECTIVE_APPLY,
    ORR_DIRECTIVE_LEAVE
} orr_team_directive_kind;
typedef struct orr_team_directive { /* plain numbers: to be handed on to other ranks as it is */
    uint64_t kind, epoch, step, slot;
    uint64_t contributors; /* APPLY: whose gradients the sums have */
} orr_team_directive;
/* Waits for the next directive. LIMIT: no team for give_up_ns. INVALID: the coordinator refuses
 * this replica, and why. IO. */
ORR_API ORR_MUST_CHECK orr_status orr_team_next_directive(orr_team *team, orr_team_directive *ret,
                                                          orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_team_follow(orr_team *team,
                                                  const orr_team_directive *directive,
                                                  orr_error *err);

/* Sums of 16-bit numbers are made in fp32, from input to result, and rounded once (to nearest, ties
 * to even); on the way partial sums travel as fp32. */
typedef enum orr_team_dtype {
    ORR_TEAM_FP32,
    ORR_TEAM_FP64,
    ORR_TEAM_BF16,
    ORR_TEAM_FP16
} orr_team_dtype;
/* Submits reduction `op` of the step: from 0, each once, in any order, of the same sizes in all
 * replicas. `in` (NULL: zeros) must stay as it is until the vote, `out` is written from now on;
 * they do not overlap. Returns at once. */
ORR_API ORR_MUST_CHECK orr_status orr_team_reduce(orr_team *team, uint32_t op, orr_team_dtype dtype,
                                                  const void *in, void *out, size_t n,
                                                  orr_error *err);

typedef enum orr_team_outcome_kind {
    ORR_OUTCOME_COMMITTED, /* the outs are the sums: update */
    ORR_OUTCOME_DEFERRED,  /* committed, but the state is not here yet: the sums were put aside  */
    ORR_OUTCOME_DROPPED /* the team went on without this replica: nothing of the step counts    */
} orr_team_outcome_kind;
typedef struct orr_team_outcome {
    uint64_t kind, epoch, step;
    uint64_t contributors; /* replicas whose data are in: the divisor    */
    uint64_t retries;      /* attempts before the one that came through  */
    int64_t wait_ns;       /* from this call to its return               */
} orr_team_outcome;
/* Votes: all `ops` reductions of the step are submitted. Waits for the outcome. Errors as
 * orr_team_next_directive(). */
ORR_API ORR_MUST_CHECK orr_status orr_team_vote(orr_team *team, uint32_t ops, orr_team_outcome *ret,
                                                orr_error *err);
/* The spans hold the state after this step; they stay until the next vote (or APPLY). */
ORR_API void orr_team_updated(orr_team *team, uint64_t step);
/* Asks to leave after the step under way: a LEAVE directive follows, and nobody is disturbed. While
 * nobody else has the state and somebody waits for it, the replica stays. `done`: the job is
 * complete, and those who wait are told so. */
ORR_API void orr_team_drain(orr_team *team, bool done);
/* The last committed step, and the data cursor after it. */
ORR_API void orr_team_position(orr_team *team, uint64_t *ret_step, orr_team_data_cursor *ret);

/* A factor on the learning rate for a step of fewer contributors than planned. */
#define ORR_TEAM_RATE_MAP(X) X(NONE, "none") X(SQRT, "sqrt") X(LINEAR, "linear")
typedef enum orr_team_rate_policy {
#define ORR_TEAM_RATE_ENUM_(name, text) ORR_TEAM_RATE_##name,
    ORR_TEAM_RATE_MAP(ORR_TEAM_RATE_ENUM_)
#undef ORR_TEAM_RATE_ENUM_
} orr_team_rate_policy;
ORR_API double orr_team_rate_factor(orr_team_rate_policy policy, uint64_t contributors,
                                    uint64_t replicas);

/* The coordinator: runs until all replicas have left, or until stopped() says so. */
typedef struct orr_coordinator_options {
    const char *listen; /* "host:port" */
    orr_team_access access;
    const char *store;   /* path of its log, or "etcd:http://host:2379/key"; NULL: no memory */
    const char *metrics; /* "host:port" of the HTTP endpoint; NULL: none */
    uint32_t replicas; /* that are waited for at first; 0: whoever is there after join_window_ns */
    uint32_t min_replicas;      /* no step is made with fewer; 0: 1 */
    int64_t failure_timeout_ns; /* 0: 2 s */
    int64_t join_window_ns;     /* 0: ten times the failure timeout */
    int64_t outage_timeout_ns;  /* without a quorum for so long those who are here go on, if the
                                 * store is there; 0: 5 min */
    bool keep_running;          /* goes on when all have left */
    bool standby; /* others of this team share the store, which is in etcd: it leads when a quorum
                   * of replicas calls it since the one that leads does not answer */
    void (*listening)(void *ctx, const char *address); /* once; or NULL */
    void (*on_event)(void *ctx, const orr_team_event *event);
    bool (*stopped)(void *ctx); /* asked a few times a second; or NULL */
    void *ctx;
} orr_coordinator_options;
/* CANCELED: another coordinator has taken the store. IO, INVALID, LIMIT: of the store and of
 * addresses. */
ORR_API ORR_MUST_CHECK orr_status orr_coordinator_run(const orr_coordinator_options *options,
                                                      orr_error *err);

/* Tells the coordinator at "host:port" that the replica will never come back (its machine is gone),
 * so that nobody waits for what it may know. It holds until the coordinator is started again. From
 * any thread; waits 5 s for the answer. INVALID: the replica is here, or is not waited for; IO: no
 * coordinator there, or it has another key. */
ORR_API ORR_MUST_CHECK orr_status orr_team_forget(const char *coordinator,
                                                  const orr_team_access *access, const char *name,
                                                  orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_TEAM_H */
