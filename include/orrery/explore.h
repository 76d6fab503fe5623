/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_H
#define ORR_EXPLORE_H

#include <orrery/fleet.h>
#include <orrery/outcome.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Explore: the plan that makes a training step, a token budget or a dollar cheapest, with a proof
 * of how far from the best it can be.
 *
 * A plan that is found is one that orr_outcome_of() takes as it stands, and the step it was judged
 * by is the one that it gives. What is searched is all that orr_plan can say, within what is
 * pinned, bounded and left out. */

/* What is made as small as it can be. */
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

/* Why a plan was not followed to its end. */
#define ORR_PRUNE_MAP(X)                                                                           \
    X(INVALID, "cannot be") /* does not divide, no such schedule                     */            \
    X(EXCLUDED, "left out") /* by what the user said                                 */            \
    X(MEMORY, "does not fit")                                                                      \
    X(BOUND, "cannot be better") /* its lower bound says so                               */       \
    X(DOMINATED,                                                                                   \
      "is another, slower") /* differs from one that was kept in a way that never helps */
typedef enum orr_prune {
#define ORR_PRUNE_ENUM_(name, text) ORR_PRUNE_##name,
    ORR_PRUNE_MAP(ORR_PRUNE_ENUM_)
#undef ORR_PRUNE_ENUM_
        ORR_PRUNES
} orr_prune;
ORR_API const char *orr_prune_name(orr_prune why);

/* A plan that was judged. Times of the same step. */
typedef struct orr_explored {
    orr_plan plan; /* complete but for what is the default */
    uint32_t n_devices;
    int64_t bound_ns, estimate_ns;
    int64_t step_ns; /* simulated; 0: it was not */
    int64_t peak_bytes, usable_bytes;
    double tokens_per_s, mfu_frac; /* NAN before it was simulated */
    double effective_frac;         /* of time, with failures; NAN: not asked */
    double value[ORR_OBJECTIVES];  /* NAN: not known */
    bool other_numerics; /* another precision, compression, or local steps than the default */
} orr_explored;

typedef struct orr_explore_progress {
    uint64_t families, families_done; /* sets of modules */
    uint64_t plans, simulated;        /* looked at; followed to the end */
    double best, bound;               /* of the objective; NAN: none yet */
} orr_explore_progress;

typedef struct orr_explore_options {
    size_t struct_bytes; /* set by orr_explore_options_init() */
    orr_workload workload;
    uint8_t objective; /* orr_objective; STEP */
    uint8_t second;    /* the front of both; ORR_OBJECTIVES: none */
    const char *fix; /* "tp=8,schedule=zb_v": fields of a plan that are given; "batch" has to be */
    const char *limit;   /* "tp<=8,pp>=4": bounds */
    const char *exclude; /* "fp8,zero=3,sp": words of choices, or field=value, or a switch's name */
    const char *allow;   /* what is searched only when asked for, as it changes the numerics much:
                          * "local_steps,compress,mxfp8,fp4,gradients" (in bf16), or as no closed form
                          * knows what it costs: "offload" (of activations) */
    const char *dimensions; /* "placement,scheduling,network": the others stay as `base` has them;
                               NULL: all */
    const orr_plan *base;   /* of dimensions that are not searched; NULL: the production rule */
    uint32_t max_sites, max_devices, min_devices; /* 0: all */
    double tokens;                                /* of the budget; 0: none */
    const orr_fleet_options *fleet;               /* failures, for BUDGET; NULL: none happen */
    double price_per_hour;                        /* USD, of a device whose price is not known; 0 */
    bool exact;                                   /* to a gap of 0 */
    double gap_frac;                              /* 0.02: enough */
    int64_t limit_ns;  /* stop after so long, with the gap reached; 0: never */
    uint32_t keep;     /* 4: the best of so many arrangements that are unlike */
    uint32_t threads;  /* 0: one a core */
    const char *store; /* path of a results database, or NULL: see orr_results in docs */
    bool resume;       /* go on with what the store has */
    void (*progress)(void *ctx,
                     const orr_explore_progress *at); /* or NULL; from one thread at a time */
    void *progress_ctx;
    const volatile bool *stop; /* asked to stop: end with what there is; or NULL */
    bool relaxed; /* nothing is said of why there is no plan: a relaxation is being tried */
} orr_explore_options;
ORR_API void orr_explore_options_init(orr_explore_options *options);

/* What there would have to be for a plan that is not feasible. */
typedef struct orr_relaxation {
    const char
        *what;      /* "batch=4096 instead of 4000", "device memory of 93 GiB", "tp=16", in words */
    orr_plan plan;  /* that then goes */
    double step_ns; /* NAN: not known */
} orr_relaxation;

typedef struct orr_exploration {
    uint32_t n;               /* 0: no feasible plan */
    const orr_explored *best; /* shape (n): best first, arrangements unlike one another */
    uint32_t n_front;
    const orr_explored *front; /* shape (n_front), by `objective`; none without `second` */
    double bound;    /* of the objective: no plan of the space is better; of the space without fine
                      * knobs (buckets, prefetch, layers of the ends...), which are tried around the
                      * best */
    double gap_frac; /* (best - bound) / best */
    bool complete;   /* the gap that was asked for is reached */
    double space;    /* plans that the space has, counted, not visited */
    uint64_t families, families_built, families_resumed;
    uint64_t plans, bounded, estimated, simulated,
        resumed;               /* resumed: simulated by an earlier run */
    double pruned[ORR_PRUNES]; /* plans */
    int64_t wall_ns;
    const char *infeasible; /* n = 0: the tightest constraint, in a sentence; else NULL */
    uint32_t n_relaxations;
    const orr_relaxation *relaxations; /* smallest first */
} orr_exploration;
/* In the arena. Without a feasible plan ORR_OK with n = 0. Errors: INVALID: options that cannot be;
 * UNSUPPORTED: a task other than training in one pass; IO: the store; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_explore(const orr_model *model, const orr_cluster *cluster,
                                              const orr_explore_options *options, orr_arena *arena,
                                              orr_exploration *ret, orr_error *err);

/* --- beside it: other searchers, as far as their publications say
 * ------------------------------------------- */

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
/* The plan that it chooses, judged by the same simulator. Of the options what says the problem
 * (workload, fix, limit, max_..., fleet, tokens, prices). INVALID with the reason: it finds none.
 */
ORR_API ORR_MUST_CHECK orr_status orr_baseline_of(orr_baseline baseline, const orr_model *model,
                                                  const orr_cluster *cluster,
                                                  const orr_explore_options *options,
                                                  orr_explored *ret, orr_error *err);

/* --- what depends on what
 * ----------------------------------------------------------------------------------- */

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
/* The plans of an exploration on a machine with one number changed. */
typedef struct orr_explore_change {
    uint8_t factor;      /* orr_factor                                               */
    double by;           /* 0.5, 1.5                                                 */
    const double *value; /* shape (n of the exploration): the objective; NAN: it cannot be */
    uint32_t winner;     /* index                                                    */
    double flips_at; /* nearest factor between 1 and `by` at which another wins; NAN: none does */
} orr_explore_change;
/* How an alternative would win: each factor alone, between 1/16 and 16. */
typedef struct orr_explore_need {
    uint32_t plan; /* index into `best`, from 1 */
    uint8_t factor;
    double at; /* NAN: not by this factor */
} orr_explore_need;
typedef struct orr_sensitivity {
    uint32_t n_changes, n_needs;
    const orr_explore_change *changes; /* each factor by -50 % and +50 %, where asked for */
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
