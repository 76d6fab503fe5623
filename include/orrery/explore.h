/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_H
#define ORR_EXPLORE_H

#include <orrery/fleet.h>
#include <orrery/framework.h>
#include <orrery/outcome.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Explore: the plan that minimises the time of a training step, the time or cost of a token budget,
 * energy or devices, with a proven gap to the optimum (branch and bound).
 *
 * The space is all that an orr_plan can say within the constraints of the options. A plan that is
 * returned is accepted by orr_outcome_of() as it stands, which gives the same step time. */

/* The objective to minimise. */
#define ORR_OBJECTIVE_MAP(X)                                                                       \
    X(STEP, "step", "ns", "time of a step of the same batch")                                      \
    X(BUDGET, "budget", "ns", "time to a budget of tokens, with what failures cost")               \
    X(COST, "cost", "USD", "of the budget of tokens, or of a step where there is none")            \
    X(ENERGY, "energy", "J", "likewise; of devices only, an upper bound")                          \
    X(DEVICES, "devices", "", "devices that take part")
typedef enum orr_objective {
#define ORR_OBJECTIVE_ENUM_(name, word, unit, about) ORR_OBJECTIVE_##name,
    ORR_OBJECTIVE_MAP(ORR_OBJECTIVE_ENUM_)
#undef ORR_OBJECTIVE_ENUM_
        ORR_OBJECTIVES
} orr_objective;
ORR_API const char *orr_objective_name(orr_objective objective);
ORR_API const char *orr_objective_unit(orr_objective objective);
ORR_API const char *orr_objective_about(orr_objective objective);

/* Reasons for which plans were pruned. */
#define ORR_PRUNE_MAP(X)                                                                           \
    X(INVALID, "cannot be") /* does not divide, or has no such schedule */                         \
    X(EXCLUDED, "left out") /* by the constraints */                                               \
    X(MEMORY, "does not fit")                                                                      \
    X(BOUND, "cannot be better") /* its lower bound is dominated */                                \
    X(DOMINATED,                                                                                   \
      "is another, slower") /* differs from a plan that was kept in a way that never helps */
typedef enum orr_prune {
#define ORR_PRUNE_ENUM_(name, text) ORR_PRUNE_##name,
    ORR_PRUNE_MAP(ORR_PRUNE_ENUM_)
#undef ORR_PRUNE_ENUM_
        ORR_PRUNES
} orr_prune;
ORR_API const char *orr_prune_name(orr_prune why);

/* An evaluated plan. All times are of the same step. */
typedef struct orr_explored {
    orr_plan plan; /* without the fields that have their defaults */
    uint32_t n_devices;
    int64_t bound_ns, estimate_ns;
    int64_t step_ns; /* simulated; 0: not simulated */
    int64_t peak_bytes, usable_bytes;
    double tokens_per_s, mfu_frac; /* NAN before simulation */
    double effective_frac; /* effective training time ratio, with failures; NAN: not asked for */
    double value[ORR_OBJECTIVES]; /* NAN: unknown */
    bool other_numerics;          /* precision, compression or local steps other than the default */
} orr_explored;

typedef struct orr_explore_progress {
    uint64_t families, families_done; /* families: plans with the same modules */
    uint64_t plans, simulated;        /* enumerated; simulated */
    double best, bound;               /* of the objective; NAN: none yet */
} orr_explore_progress;

typedef struct orr_explore_options {
    size_t struct_bytes; /* set by orr_explore_options_init() */
    orr_workload workload;
    uint8_t objective;      /* orr_objective; default STEP */
    uint8_t second;         /* second objective of a Pareto front; ORR_OBJECTIVES: none */
    const char *fix;        /* "tp=8,schedule=zb_v": fixed fields; "batch" is required */
    const char *limit;      /* "tp<=8,pp>=4": bounds of fields */
    const char *exclude;    /* "fp8,zero=3,sp": excluded choices, values, or switches */
    const char *allow;      /* features that are off unless named:
                               "local_steps,compress,mxfp8,fp4,gradients" (in bf16) change the numerics,
                               and the cost of "offload" (of activations) is not known in closed form */
    const char *dimensions; /* "placement,scheduling,network": dimensions to search, the others stay
                               as in `base`; NULL: all */
    const orr_plan
        *base; /* plan of the dimensions that are not searched; NULL: the production rule */
    uint32_t max_sites, max_devices, min_devices; /* 0: no limit */
    double tokens;                                /* of the token budget; 0: none */
    const orr_fleet_options *fleet;               /* failure model for BUDGET; NULL: no failures */
    double price_per_hour;                        /* USD, for devices of unknown price; default 0 */
    bool exact;                                   /* search to a gap of 0 */
    double gap_frac;                              /* relative gap that is enough; default 0.02 */
    int64_t limit_ns;  /* time limit; the result has the gap reached so far; 0: none */
    uint32_t keep;     /* how many arrangements to report; default 4 */
    uint32_t threads;  /* 0: one per core */
    const char *store; /* path of a results database, or NULL: docs/explore.md */
    bool resume;       /* continue from the results in `store` */
    void (*progress)(void *ctx,
                     const orr_explore_progress *at); /* or NULL; called by one thread at a time */
    void *progress_ctx;
    const volatile bool *stop; /* set to stop early with the best so far; or NULL */
    uint8_t framework; /* orr_framework: only plans that it can run; NONE: all. Plans of the result
                        * mean the same with its defaults and without */
    bool relaxed; /* internal: this search tries a relaxation, so that infeasibility is not analysed
                     again */
    double software_year; /* as in orr_job_options */
} orr_explore_options;
ORR_API void orr_explore_options_init(orr_explore_options *options);

/* A smallest change of the question that makes it feasible. */
typedef struct orr_relaxation {
    const char *what; /* "batch=4096 instead of 4000", "device memory of 93 GiB", "tp=16" */
    orr_plan plan;    /* feasible with the change */
    double step_ns;   /* NAN: unknown */
} orr_relaxation;

typedef struct orr_exploration {
    uint32_t n;               /* 0: infeasible */
    const orr_explored *best; /* shape (n): best first, of different arrangements */
    uint32_t n_front;
    const orr_explored
        *front;   /* shape (n_front): Pareto front, sorted by `objective`; without `second` none */
    double bound; /* proven lower bound of the objective over the space; settings refined by local
                     search around the best plans (buckets, prefetch, layers of the ends...) are not
                     in the space */
    double gap_frac; /* (best - bound) / best */
    bool complete;   /* the gap asked for was reached */
    double space;    /* number of plans in the space, counted without visiting */
    uint64_t families, families_built, families_resumed;
    uint64_t plans, bounded, estimated, simulated,
        resumed;               /* `resumed`: simulated by an earlier run */
    double pruned[ORR_PRUNES]; /* number of plans, by reason */
    int64_t wall_ns;
    const char *infeasible; /* the binding constraint in a sentence, if n = 0; else NULL */
    uint32_t n_relaxations;
    const orr_relaxation *relaxations; /* smallest change first */
} orr_exploration;
/* Searches for the best plan; the result is in the arena. An infeasible question returns ORR_OK
 * with n = 0. Errors: INVALID: invalid options; UNSUPPORTED: a task other than training in one
 * pass; IO: the results database; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_explore(const orr_model *model, const orr_cluster *cluster,
                                              const orr_explore_options *options, orr_arena *arena,
                                              orr_exploration *ret, orr_error *err);

/* --- baseline planners: published planners to compare with ----------------------------------- */

#define ORR_BASELINE_MAP(X)                                                                        \
    X(PRODUCTION, "production",                                                                    \
      "Llama 3's order: TP, CP, PP, DP outward; data parallel across buildings")                   \
    X(FSDP, "fsdp", "FSDP over everything")                                                        \
    X(ATLAS, "atlas", "pipeline across buildings, filled greedily")                                \
    X(CROSSPIPE, "crosspipe", "latency-aware pipeline across buildings")                           \
    X(SAILOR, "sailor", "dynamic programming over stages and regions")                             \
    X(METIS, "metis", "pruned enumeration of stage partitions for mixed devices")                  \
    X(AMP, "amp", "enumeration of degrees by a cost model that knows mixed links")                 \
    X(GALVATRON, "galvatron", "dynamic programming over layers with few choices")
typedef enum orr_baseline {
#define ORR_BASELINE_ENUM_(name, word, about) ORR_BASELINE_##name,
    ORR_BASELINE_MAP(ORR_BASELINE_ENUM_)
#undef ORR_BASELINE_ENUM_
        ORR_BASELINES
} orr_baseline;
ORR_API const char *orr_baseline_name(orr_baseline baseline);
ORR_API const char *orr_baseline_about(orr_baseline baseline);
/* The plan that a baseline planner chooses, evaluated by the same simulator. Of the options, those
 * that state the problem apply (workload, fix, limit, max_..., fleet, tokens, prices). INVALID with
 * the reason: the planner finds no plan. */
ORR_API ORR_MUST_CHECK orr_status orr_baseline_of(orr_baseline baseline, const orr_model *model,
                                                  const orr_cluster *cluster,
                                                  const orr_explore_options *options,
                                                  orr_explored *ret, orr_error *err);

/* --- sensitivity ----------------------------------------------------------------------------- */

#define ORR_FACTOR_MAP(X)                                                                          \
    X(LATENCY, "rtt")                                                                              \
    X(BANDWIDTH, "bandwidth") X(OVERSUBSCRIPTION, "oversubscription") X(COMPUTE, "compute")
typedef enum orr_factor {
#define ORR_FACTOR_ENUM_(name, text) ORR_FACTOR_##name,
    ORR_FACTOR_MAP(ORR_FACTOR_ENUM_)
#undef ORR_FACTOR_ENUM_
        ORR_FACTORS
} orr_factor;
ORR_API const char *orr_factor_name(orr_factor factor);
/* The plans of an exploration, evaluated on a machine with one factor changed. */
typedef struct orr_explore_change {
    uint8_t factor; /* orr_factor                                               */
    double by;      /* 0.5, 1.5                                                 */
    const double
        *value; /* shape (n of the exploration): the objective; NAN: the plan is invalid there */
    uint32_t winner; /* index into `best` */
    double flips_at; /* factor nearest to 1, towards `by`, at which another plan wins; NAN: none */
} orr_explore_change;
/* The change of the machine with which an alternative would win: each factor alone, from 1/16 to
 * 16. */
typedef struct orr_explore_need {
    uint32_t plan; /* index into `best`, from 1 */
    uint8_t factor;
    double at; /* factor; NAN: no value wins */
} orr_explore_need;
typedef struct orr_sensitivity {
    uint32_t n_changes, n_needs;
    const orr_explore_change *changes; /* each factor at 0.5 and 1.5, if asked for */
    const orr_explore_need *needs;     /* shape (n_needs) */
} orr_sensitivity;
ORR_API ORR_MUST_CHECK orr_status orr_explore_sensitivity(const orr_model *model,
                                                          const orr_cluster *cluster,
                                                          const orr_explore_options *options,
                                                          const orr_exploration *exploration,
                                                          bool changes, orr_arena *arena,
                                                          orr_sensitivity *ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_EXPLORE_H */
