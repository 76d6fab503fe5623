/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FLEET_H
#define ORR_FLEET_H

#include <stdbool.h>

#include <orrery/arena.h>
#include <orrery/machine.h>
#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fleet: what failures cost a training job of months on many GPUs, by discrete-event Monte Carlo
 * simulation. Nodes fail, are detected and replaced, and the job recovers in one of three ways.
 *
 *    sync    all ranks stop and restart from the last checkpoint; later steps are recomputed
 *    spares  the same, but spare nodes replace failed ones at once, while they last
 *    ft      replicas fail independently: the others stall until they have regrouped, then train
 *            on without the failed one until it is back. The coordinator's own code decides
 *            membership, quorum, commits and healing (src/team/protocol/roster.h)
 *
 * Times are int64 ns. Time is accounted in replica-ns: one replica for one ns; sync and spares have
 * one replica. Productive time and losses add up to wall time x replicas exactly. */

enum { ORR_FLEET_REPLICAS = 64, ORR_FLEET_CATEGORIES = 64 };

/* --- durations as distributions -------------------------------------------------------------- */

/* "90s", "exp(5min)" (mean), "lognormal(2min, 10min)" (median, 95th percentile), "uniform(1s, 3s)".
 */
#define ORR_FLEET_SHAPE_MAP(X)                                                                     \
    X(CONSTANT, "") X(EXPONENTIAL, "exp") X(LOGNORMAL, "lognormal") X(UNIFORM, "uniform")
typedef enum orr_fleet_shape {
#define ORR_FLEET_SHAPE_ENUM_(name, text) ORR_FLEET_##name,
    ORR_FLEET_SHAPE_MAP(ORR_FLEET_SHAPE_ENUM_)
#undef ORR_FLEET_SHAPE_ENUM_
        ORR_FLEET_SHAPES
} orr_fleet_shape;
typedef struct orr_fleet_time {
    uint8_t shape; /* orr_fleet_shape */
    int64_t a_ns;  /* the constant, mean, median or minimum */
    int64_t b_ns;  /* LOGNORMAL: 95th percentile; UNIFORM: maximum */
} orr_fleet_time;
ORR_API ORR_MUST_CHECK orr_status orr_fleet_time_parse(const char *text, orr_fleet_time *ret,
                                                       orr_error *err);
/* Writes a text that parses to the same distribution, into text[0..size). */
ORR_API void orr_fleet_time_text(const orr_fleet_time *time, char *text, size_t size);
ORR_API int64_t orr_fleet_time_mean_ns(const orr_fleet_time *time);
/* The distribution with all values multiplied by `factor`. */
ORR_API orr_fleet_time orr_fleet_time_scaled(const orr_fleet_time *time, double factor);

/* Duration settings: X(name, word, meaning). */
#define ORR_FLEET_TIME_MAP(X)                                                                      \
    X(DETECT, "detect", "from a failure to everybody knowing it")                                  \
    X(DETECT_HANG, "detect_hang", "from a hang to everybody knowing it: the progress deadline")    \
    X(DETECT_SLOW, "detect_slow", "from a node being slow to its being taken out")                 \
    X(REGROUP, "regroup", "ft: survivors form anew, until the step begins again")                  \
    X(SCHEDULE, "schedule", "another node is found and given")                                     \
    X(START, "start", "processes start")                                                           \
    X(INIT_16K, "init_16k", "communicators, of 16,384 ranks; a power law through both")            \
    X(INIT_98K, "init_98k", "communicators, of 98,304 ranks")                                      \
    X(LOAD, "load", "a checkpoint is read")                                                        \
    X(FIRST_STEP, "first_step", "what the first step after a restart takes beyond a step")         \
    X(REBUILD, "rebuild", "ft: what a replica needs besides before it asks to join")               \
    X(FETCH, "fetch", "ft: state from peers, while they go on")                                    \
    X(REJOIN, "rejoin", "ft: stall of all when a replica joins")                                   \
    X(SAVE, "save", "stall of a checkpoint being written")                                         \
    X(CHECKPOINT, "checkpoint", "between checkpoints; 0: Young's optimum, ft: at most an hour")    \
    X(REPAIR, "repair", "a broken node is back among the spares")                                  \
    X(STEP, "step", "a step; drawn once for each undisturbed stretch")
typedef enum orr_fleet_times {
#define ORR_FLEET_TIME_ENUM_(name, word, about) ORR_FLEET_##name,
    ORR_FLEET_TIME_MAP(ORR_FLEET_TIME_ENUM_)
#undef ORR_FLEET_TIME_ENUM_
        ORR_FLEET_TIMES
} orr_fleet_times;

/* Number settings. */
#define ORR_FLEET_NUMBER_MAP(X)                                                                    \
    X(RATE, "rate", "failures per 1,000 node-days")                                                \
    X(PLANNED, "planned", "planned interruptions per 1,000 node-days")                             \
    X(LEMONS, "lemons", "share of the nodes that fail again and again")                            \
    X(LEMON_FACTOR, "lemon_factor", "times as often as the others")                                \
    X(EVICT_AFTER, "evict_after", "a node is let go for good after so many failures; 0: never")    \
    X(RACKS, "racks", "faults of a whole rack per 1,000 rack-days")                                \
    X(BUILDINGS, "buildings", "faults of a whole building per 1,000 building-days")                \
    X(SLOWDOWN, "slowdown", "what a step takes more while a node is slow, as a share")             \
    X(RETRIED, "retried", "share of a broken attempt at a step that is made again")
typedef enum orr_fleet_numbers {
#define ORR_FLEET_NUMBER_ENUM_(name, word, about) ORR_FLEET_##name,
    ORR_FLEET_NUMBER_MAP(ORR_FLEET_NUMBER_ENUM_)
#undef ORR_FLEET_NUMBER_ENUM_
        ORR_FLEET_NUMBERS
} orr_fleet_numbers;

typedef struct orr_fleet_duration {
    orr_fleet_time time;
    uint8_t basis;             /* orr_fact_basis                */
    const char *source, *note; /* never NULL             */
} orr_fleet_duration;

/* --- published failure rates ----------------------------------------------------------------- */

#define ORR_FAILURE_KIND_MAP(X)                                                                    \
    X(EXPLICIT, "explicit") /* an error is reported, or the process ends */                        \
    X(HANG, "hang")         /* no progress and no error */                                         \
    X(SLOW, "slow")         /* the node goes on, slowly */                                         \
    X(PLANNED, "planned")   /* announced: the job stops after a step */
typedef enum orr_failure_kind {
#define ORR_FAILURE_KIND_ENUM_(name, text) ORR_FAILURE_##name,
    ORR_FAILURE_KIND_MAP(ORR_FAILURE_KIND_ENUM_)
#undef ORR_FAILURE_KIND_ENUM_
} orr_failure_kind;
ORR_API const char *orr_failure_kind_name(orr_failure_kind kind);

typedef struct orr_failure_category {
    const char *name,
        *layer;     /* "GPU HBM3 memory"; "gpu", "host", "network", "software", "facility", ... */
    orr_fact count; /* number of events, or a share: only ratios matter */
    uint8_t kind;   /* orr_failure_kind                                                  */
    bool replace;   /* the node is replaced; else the job restarts in place */
} orr_failure_category;

typedef struct orr_failures {
    const char *name, *title; /* "llama3_405b" */
    orr_fact rate, planned;   /* per 1,000 node-days; unknown: not published */
    orr_fact lemons, lemon_factor, racks, buildings;
    orr_fact gpus, gpus_per_node, days, unexpected, planned_count,
        effective; /* published effective training time ratio of the run */
    uint32_t n_categories;
    const orr_failure_category *categories;
    const char *notes;
} orr_failures;

/* A set of recovery times with their sources: one way of operating a cluster. */
typedef struct orr_fleet_timing {
    const char *name, *title;
    orr_fleet_duration times[ORR_FLEET_TIMES]; /* basis UNKNOWN: not given */
    orr_fact slowdown, retried;
    const char *notes;
} orr_fleet_timing;

typedef struct orr_failure_catalog {
    uint32_t n_failures, n_timings;
    const orr_failures *const *failures;
    const orr_fleet_timing *const *timings;
} orr_failure_catalog;
/* Opens the built-in catalog in the arena and, unless `path` is NULL, that file, whose entries
 * override built-in ones of the same name. Errors: IO; LIMIT; PARSE and INVALID as
 * "file:line:column: ..."; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_failure_catalog_open(const char *path, orr_arena *arena,
                                                           orr_failure_catalog *ret,
                                                           orr_error *err);
/* NOT_FOUND, with the closest name. */
ORR_API ORR_MUST_CHECK orr_status orr_failures_find(const orr_failure_catalog *catalog,
                                                    const char *name, const orr_failures **ret,
                                                    orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_fleet_timing_find(const orr_failure_catalog *catalog,
                                                        const char *name,
                                                        const orr_fleet_timing **ret,
                                                        orr_error *err);

/* --- the job --------------------------------------------------------------------------------- */

#define ORR_FLEET_POLICY_MAP(X) X(SYNC, "sync") X(SPARES, "spares") X(FT, "ft")
typedef enum orr_fleet_recovery {
#define ORR_FLEET_POLICY_ENUM_(name, text) ORR_FLEET_##name,
    ORR_FLEET_POLICY_MAP(ORR_FLEET_POLICY_ENUM_)
#undef ORR_FLEET_POLICY_ENUM_
        ORR_FLEET_RECOVERIES
} orr_fleet_recovery;
ORR_API const char *orr_fleet_recovery_name(orr_fleet_recovery way);
typedef struct orr_fleet_policy {
    uint8_t recovery;  /* orr_fleet_recovery */
    uint32_t replicas; /* FT: 2 to ORR_FLEET_REPLICAS; else 1       */
    uint32_t spares;   /* SPARES: number of spare nodes; else 0 */
} orr_fleet_policy;

typedef struct orr_fleet_options {
    size_t struct_bytes;
    uint32_t gpus, gpus_per_node, nodes_per_rack, racks_per_building;
    const orr_failures *failures; /* its categories                               */
    orr_fleet_duration times[ORR_FLEET_TIMES];
    orr_fact numbers[ORR_FLEET_NUMBERS];
    int64_t interval_ns; /* above 0: failures of nodes at exactly this interval */
    int64_t horizon_ns;  /* simulated time */
    double tokens;       /* above 0: the trial ends when so many are trained, within `horizon_ns` */
    double tokens_per_step; /* of all replicas together */
    uint32_t repetitions;   /* default 20 */
    uint64_t seed;          /* default 1 */
    int threads;            /* 0: one per core */
    void (*progress)(
        void *ctx, uint64_t lives,
        uint64_t of); /* progress: called after each trial, by one thread at a time; or NULL */
    void *progress_ctx;
} orr_fleet_options;
/* Defaults: 98,304 GPUs, 8 a node, 4 nodes a rack, 768 racks a building, 90 days; times and numbers
 * of the two sets. */
ORR_API void orr_fleet_options_init(orr_fleet_options *options, const orr_failures *failures,
                                    const orr_fleet_timing *timing);
/* Parses "detect=30s,rate=2.3,nodes_per_rack=2": words of the maps above, gpus_per_node,
 * nodes_per_rack, racks_per_building, interval. INVALID: with the closest word. */
ORR_API ORR_MUST_CHECK orr_status orr_fleet_set(orr_fleet_options *options, const char *text,
                                                orr_arena *arena, orr_error *err);
ORR_API uint32_t orr_fleet_nodes(const orr_fleet_options *options);
/* Mean time between failures of so many nodes, for a rate per 1,000 node-days. */
ORR_API double orr_fleet_mtbf_ns(double rate, uint32_t nodes);
/* Time to initialise communicators of so many ranks: a power law through the means of init_16k and
 * init_98k. */
ORR_API int64_t orr_fleet_init_ns(const orr_fleet_options *options, uint32_t ranks);
/* Checkpoint interval: as `checkpoint` says, or sqrt(2 x save x mean time between restarts) by
 * default (Young, 1974); of ft at most an hour. */
ORR_API int64_t orr_fleet_checkpoint_ns(const orr_fleet_options *options,
                                        const orr_fleet_policy *policy);

#define ORR_FLEET_LOSS_MAP(X)                                                                      \
    X(DETECTION, "detection")                                                                      \
    X(REGROUPING, "regrouping")                                                                    \
    X(RETRY, "retried step") X(RECOMPUTE, "computed again since the checkpoint")                   \
        X(SAVING, "checkpoints written") X(SCHEDULING, "scheduling")                               \
            X(STARTING, "start-up and init") X(LOADING, "checkpoint loaded")                       \
                X(CATCH_UP, "catch-up stall") X(DEGRADED, "degraded capacity")                     \
                    X(SLOWED, "slow nodes") X(HALTED, "halted")
typedef enum orr_fleet_loss {
#define ORR_FLEET_LOSS_ENUM_(name, text) ORR_FLEET_LOSS_##name,
    ORR_FLEET_LOSS_MAP(ORR_FLEET_LOSS_ENUM_)
#undef ORR_FLEET_LOSS_ENUM_
        ORR_FLEET_LOSSES
} orr_fleet_loss;
ORR_API const char *orr_fleet_loss_name(orr_fleet_loss loss);

/* Result of one trial of the job. */
typedef struct orr_fleet_run {
    int64_t wall_ns;
    uint32_t replicas;
    int64_t productive;                      /* replica-ns of steps that stand in the end */
    int64_t lost[ORR_FLEET_LOSSES];          /* replica-ns; with productive: wall_ns x replicas   */
    int64_t down_ns[ORR_FLEET_REPLICAS + 1]; /* wall time by replicas that contribute nothing */
    uint64_t failures, planned;              /* that hit the job */
    uint64_t lemon_failures;                 /* of `failures`, those of lemons (repeat offenders) */
    uint32_t worst_node;                     /* most failures of one node                         */
    uint64_t
        categories[ORR_FLEET_CATEGORIES + 3]; /* as in the table; then rack, building, planned */
    uint64_t restarts;                        /* from a checkpoint */
    uint64_t epochs, halts;                   /* teams formed; halts for lack of a quorum */
    uint64_t steps, replica_steps;            /* that stand; summed over contributing replicas */
    uint64_t spares_short;                    /* times when spares did not suffice */
    bool budget_met; /* of tokens, where there is one                     */
} orr_fleet_run;
/* An interval of a trial, for a timeline. */
typedef struct orr_fleet_piece {
    int64_t begin_ns, end_ns;
    uint8_t loss;         /* orr_fleet_loss; ORR_FLEET_LOSSES: running */
    uint8_t contributing; /* number of replicas */
} orr_fleet_piece;
typedef struct orr_fleet_timeline {
    int64_t begin_ns, end_ns; /* the recorded window: set by the caller */
    uint32_t n, room;         /* number of pieces; beyond `room` they are dropped */
    orr_fleet_piece *pieces;  /* shape (room), the caller's                                 */
} orr_fleet_timeline;
/* Simulates trial number `repetition` of a policy. Failures are the same for all policies.
 * `timeline` may be NULL. Errors: INVALID: invalid options or policy; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_fleet_simulate(const orr_fleet_options *options,
                                                     const orr_fleet_policy *policy,
                                                     uint32_t repetition,
                                                     orr_fleet_timeline *timeline,
                                                     orr_fleet_run *ret, orr_error *err);

/* Mean over trials, 5th and 95th percentile. */
typedef struct orr_fleet_band {
    double mean, low, high;
} orr_fleet_band;
typedef struct orr_fleet_outcome {
    orr_fleet_policy policy;
    orr_fleet_band effective; /* effective training time ratio: share of wall time x GPUs of the job
                                 that is productive */
    double effective_of_all;  /* of all GPUs, spares included; mean */
    orr_fleet_band lost[ORR_FLEET_LOSSES]; /* shares: their means and effective.mean add up to 1 */
    orr_fleet_band mtbf_ns;                /* observed; all kinds of failures but planned stops */
    orr_fleet_band wall_ns; /* to the token budget, or the horizon                               */
    uint32_t budgets_met;   /* trials that met the token budget */
    double down[ORR_FLEET_REPLICAS + 1];         /* shares of wall time         */
    double categories[ORR_FLEET_CATEGORIES + 3]; /* events per trial */
    double failures, lemon_failures, restarts, epochs, halts, spares_short; /* per trial, means */
    uint32_t worst_node;       /* most failures of one node in any trial */
    const orr_fleet_run *runs; /* shape (repetitions) */
    orr_fleet_timeline day;    /* from the middle of the first trial */
} orr_fleet_outcome;
/* Sensitivity: effective training time with a setting halved and doubled. */
typedef struct orr_fleet_effect {
    uint32_t policy;    /* index                                          */
    const char *word;   /* of the setting                                 */
    char value[64];     /* its given value */
    double half, twice; /* change of the effective training time */
} orr_fleet_effect;
typedef struct orr_fleet {
    orr_fleet_options options;
    uint32_t n;
    const orr_fleet_outcome *outcomes; /* shape (n) */
    uint32_t n_effects; /* largest first for each policy; settings without effect are left out */
    const orr_fleet_effect *effects;
    int64_t simulated_ns; /* of all trials */
} orr_fleet;
/* Simulates all trials of each policy; with `sensitivity`, also with each setting that is not 0
 * halved and doubled, the others unchanged. In the arena; the same for any number of threads.
 * Errors: as orr_fleet_simulate(). */
ORR_API ORR_MUST_CHECK orr_status orr_fleet_of(const orr_fleet_options *options,
                                               const orr_fleet_policy *policies, uint32_t n,
                                               bool sensitivity, orr_arena *arena, orr_fleet *ret,
                                               orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_FLEET_H */
