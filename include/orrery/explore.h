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
    const char *phase;                /* what the search does, in a word or two */
    const char *family; /* the modules of the plans that are looked at, as a plan; or "" */
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
                               "local_steps,compress,fp8,mxfp8,fp4,gradients" (in bf16) change the
                               numerics, the cost of "offload" (of activations) is not known in
                               closed form, and the memory of "graphs" not at all */
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
                      again and the best plans are not refined; with `exact` it looks at nothing but
                      plans that the space enumerates */
    double software_year;               /* as in orr_job_options */
    const orr_calibration *calibration; /* of the cluster's device; NULL: that of the catalogue */
    const orr_plan *starts; /* shape (n_starts): plans to begin with. What they leave open is filled
                             * in, and what the question fixes is set; the answer is no worse than
                             * any of them that is in the space and fits */
    uint32_t n_starts;
    bool unaided; /* orr_baseline_of(): nothing of this library is lent to the planners but the memory
                   * of a plan: transfers of slices and tokens overlap only if fixed, and the
                   * production rule is projected by the baselines' cost model, not tuned */
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
    uint32_t n_candidates;
    const orr_explored *candidates; /* shape (n_candidates): `best`, and up to ORR_CANDIDATES behind
                                       it that may be no worse in truth: orr_explore_decide() */
    uint32_t n_remarks;
    const char *const *remarks; /* shape (n_remarks): sentences on the starts that were changed or
                                   left aside */
    const char *looked_at;      /* what a search that was cut short looked at; else NULL */
} orr_exploration;
/* Arrangements that an exploration has beside one another, at least; with keep = 1 it has that. */
enum { ORR_CANDIDATES = 16 };
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

/* --- decision -------------------------------------------------------------------------------- */

/* Standard deviation of the logarithm of a ratio of two plans of one job, measured over predicted:
 * what the simulator's own error leaves open of their order. Over 7,098 pairs of plans of one
 * model, batch and number of devices, published with vTrain (Bang et al., MICRO 2024: Megatron-LM
 * on A100), half of the ratios are within 0.09, which is 0.674 standard deviations. Of pairs that
 * are predicted to be closer than 6 %, 45 % come in the other order, of those 12 to 15 % apart 15
 * %, of those 21 to 24 % apart 5 % (tests/reference/test_published_jobs.c). Those are dense models;
 * of mixtures of experts no such pairs are published, and the same is assumed. */
#define ORR_ORDER_ERROR 0.13
/* A plan belongs to the set while it is the better one with at least these odds: orders that are
 * told are right nine times in ten, as intervals of calibrations are. */
#define ORR_ORDER_ODDS 0.1
enum { ORR_DECISION_DRAWS = 100000 };

typedef struct orr_decision_options {
    size_t struct_bytes; /* set by orr_decision_options_init() */
    uint32_t draws;      /* of the calibration; default 200 */
    uint32_t threads;    /* 0: one per core */
    uint64_t seed;
    double widening; /* of the intervals, in logarithms; default 1 */
} orr_decision_options;
ORR_API void orr_decision_options_init(orr_decision_options *options);

typedef struct orr_decision_plan {
    bool in_set; /* cannot be told from the best */
    double
        odds_frac; /* odds that it is better than the best one in truth; of that one itself 0.5 */
    double spread_frac; /* standard deviation, over the draws, of the logarithm of its ratio to the
                           best */
    double best_frac;   /* share of draws in which it is best; equal ones share */
    /* What it costs over the best of a draw, as a share of that: mean over the draws, 95th
     * percentile, most. */
    double mean_regret_frac, p95_regret_frac, max_regret_frac;
} orr_decision_plan;
typedef struct orr_decision {
    uint32_t n, n_set;
    const orr_decision_plan *plans; /* shape (n), in the order of the plans given */
    uint32_t best;                  /* as simulated */
    uint32_t recommended; /* of the set, the one of least mean regret: what is lost on average if
                             the draws are what may be true. The largest regret would rest on one
                             draw of all parameters at their ends */
    uint32_t draws;       /* 0: no interval of the calibration is known */
    uint32_t parameters;  /* that were drawn */
} orr_decision;
/* Which of simulated plans can be told apart, and which to take. The calibration is drawn within
 * its intervals (parameters independent, the same draw for all plans), the step of each plan
 * estimated in each draw and scaled to where its simulation is; objectives other than devices are
 * taken as proportional to the step. With devices of several kinds, those of the cluster's device
 * are drawn. Plans that the estimator refuses stay as simulated in all draws. `how` may be NULL.
 * In the arena; the same for any number of threads. Errors: INVALID: no plan, one without a
 * value, or `options->stop` was set; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_explore_decide(
    const orr_model *model, const orr_cluster *cluster, const orr_explore_options *options,
    const orr_explored *plans, uint32_t n, const orr_decision_options *how, orr_arena *arena,
    orr_decision *ret, orr_error *err);

/* --- what was published ---------------------------------------------------------------------- */

/* A plan of a job that was published with what it reached (catalog/plans/plans.yaml). */
typedef struct orr_published_plan {
    const char *name, *model, *device; /* as the catalogue calls them */
    const char *text;                  /* of `plan` */
    const char *notes, *source;
    orr_plan plan;
    orr_fact devices;
    orr_fact step;    /* ns; or */
    orr_fact reached; /* model FLOP/s of a device, from which the step follows */
} orr_published_plan;
/* The most that was published of a class of jobs (catalog/plans/records.yaml). */
typedef struct orr_record {
    const char *name, *device, *precision, *notes, *source;
    const char *model, *kind; /* of a model of the catalogue; else the name of an orr_job_kind */
    orr_fact seq, rate;       /* tokens of a sample, tokens/s of a device; or */
    orr_fact mfu;             /* share of the peak, as its source counts */
} orr_record;
typedef struct orr_published {
    const orr_published_plan *const *plans; /* shape (n_plans) */
    const orr_record *const *records;       /* shape (n_records) */
    uint32_t n_plans, n_records;
} orr_published;
/* What is built in, with a file of one's own if `path` is not NULL. In the arena. Errors: IO; PARSE
 * and INVALID as "file:line:column: what is wrong"; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_published_open(const char *path, orr_arena *arena,
                                                     orr_published *ret, orr_error *err);

/* A published plan of the explored job, evaluated as the plans of a search are. */
typedef struct orr_published_result {
    const orr_published_plan *published;
    orr_explored explored;   /* with the batch of the question */
    const char *why_not;     /* it cannot be simulated; NULL: it was */
    bool fits;               /* the memory */
    double measured_step_ns; /* of the same batch; NAN: of another, or not published */
} orr_published_result;
/* The published plans of the model, of as many devices of the family as the question has (its
 * `max_devices`, else the cluster's) and of its sequence, simulated; in the arena. A family is what
 * a device's name has before the first '_'. Errors: NO_MEMORY; as orr_evaluator of the cluster. */
ORR_API ORR_MUST_CHECK orr_status orr_published_plans_of(
    const orr_published *published, const orr_model *model, const orr_cluster *cluster,
    const orr_explore_options *options, orr_arena *arena, const orr_published_result **ret,
    uint32_t *ret_n, orr_error *err);
/* The highest published share of the peak of the class of a plan: family of the cluster's device,
 * type of its products, dense or mixture. NAN and NULL where none is published. Errors: NO_MEMORY.
 */
ORR_API ORR_MUST_CHECK orr_status orr_published_record_of(const orr_published *published,
                                                          const orr_model *model,
                                                          const orr_cluster *cluster,
                                                          const orr_plan *plan, orr_arena *arena,
                                                          double *ret_mfu_frac,
                                                          const orr_record **ret, orr_error *err);

/* A plan evaluated as a search does it: simulated, with all objectives. It may exceed the memory.
 * Errors: as orr_outcome_of(). */
ORR_API ORR_MUST_CHECK orr_status orr_explore_evaluate(const orr_model *model,
                                                       const orr_cluster *cluster,
                                                       const orr_explore_options *options,
                                                       const orr_plan *plan, orr_explored *ret,
                                                       orr_error *err);

/* --- what an answer means -------------------------------------------------------------------- */

/* All of the above of one exploration. */
typedef struct orr_explore_answer {
    orr_decision decision;
    const orr_explored *plans; /* shape (decision.n): the exploration's candidates, then published
                                  plans that fit and that are not among them */
    const double *record_mfu_frac; /* shape (decision.n): highest published share of the peak of the
                                      class of the plan; NAN: none is */
    const orr_record *record;      /* of the best plan; NULL: none */
    const orr_published_result *published; /* shape (n_published) */
    uint32_t n_published;
    bool has_fp8; /* the best plan is in 16 bits, the device has fp8, and nothing forbids it */
    bool fp8_fits;
    orr_explored fp8; /* the best plan with precision=fp8 and nothing else changed, simulated: other
                         numerics, and no more than a lower bound of what fp8 may bring */
} orr_explore_answer;
/* An exploration without a plan has the published ones alone, and decision.n = 0 where none of them
 * fits. `how` may be NULL. Errors: INVALID: the objective of no plan is known; else as the
 * functions above. */
ORR_API ORR_MUST_CHECK orr_status orr_explore_answer_of(
    const orr_model *model, const orr_cluster *cluster, const orr_explore_options *options,
    const orr_exploration *exploration, const orr_decision_options *how, orr_arena *arena,
    orr_explore_answer *ret, orr_error *err);
/* --- questions: searches inside a question --------------------------------------------------- */

/* A question asks for many searches of changed problems: each is a probe, and the probes are part
 * of the answer. A probe begins with the best plans of those before it. Where an answer is a number
 * (the least bandwidth, the fewest devices), it is found by bisection, which takes for granted that
 * a better machine is never worse; probes that contradict this are counted. */
#define ORR_QUESTION_MAP(X)                                                                        \
    X(DEVICES, "devices")     /* the fewest devices that meet a limit           */                 \
    X(COST, "cost")           /* the cheapest plan that meets it                */                 \
    X(BANDWIDTH, "bandwidth") /* the least bandwidth of a link                  */                 \
    X(DISTANCE, "distance")   /* the largest distance that a link can span      */                 \
    X(MEMORY, "memory")       /* the least memory of a device                   */                 \
    X(SPARES, "spares")       /* the smallest pool of spare nodes               */                 \
    X(AGAINST, "against")     /* another machine beside it                      */                 \
    X(WHAT_IF, "what_if")     /* the machine changed, one fact at a time        */                 \
    X(CLUSTERS, "clusters")   /* the best plan of each cluster                  */                 \
    X(ENOUGH, "enough")       /* devices with which an infeasible job could run */
typedef enum orr_question {
#define ORR_QUESTION_ENUM_(name, word) ORR_QUESTION_##name,
    ORR_QUESTION_MAP(ORR_QUESTION_ENUM_)
#undef ORR_QUESTION_ENUM_
        ORR_QUESTIONS
} orr_question;
ORR_API const char *orr_question_name(orr_question question);

/* What a probe says of the condition of its question. */
#define ORR_VERDICT_MAP(X)                                                                         \
    X(NONE, "")          /* there is no condition: the probe is one of a comparison    */          \
    X(MEETS, "meets")    /* a plan that meets it was found                             */          \
    X(FAILS, "cannot")   /* the lower bound shows that no plan meets it                */          \
    X(OPEN, "not found") /* no plan that meets it was found, nor shown to be impossible */
typedef enum orr_verdict {
#define ORR_VERDICT_ENUM_(name, text) ORR_VERDICT_##name,
    ORR_VERDICT_MAP(ORR_VERDICT_ENUM_)
#undef ORR_VERDICT_ENUM_
} orr_verdict;
ORR_API const char *orr_verdict_name(orr_verdict verdict);

typedef struct orr_probe {
    const char *what;  /* what is other than in the question: "bandwidth of north-middle x 0.5" */
    double at;         /* the number that was tried, in the unit of the answer; NAN: none */
    uint8_t verdict;   /* orr_verdict */
    bool found;        /* whether there is a plan, `best` */
    bool complete;     /* the search reached its gap, or proved that there is no plan */
    orr_explored best; /* on the changed machine */
    double value; /* what the condition is about, and what probes are compared by: the objective,
                     as the question has it; NAN: no plan */
    double kept_value; /* of the reference's plan, left as it is, on the changed machine; NAN: it
                          cannot run there, or does not fit */
    double bound, gap_frac; /* of `value`: no plan has less; NAN: nothing is known */
    const char *note;       /* why there is no plan, what was assumed; "" */
} orr_probe;

typedef struct orr_answer {
    uint8_t question;  /* orr_question */
    uint8_t objective; /* orr_objective that `value` of the probes is of */
    const char *title; /* "least bandwidth of north-middle" */
    const char *unit;  /* of `at`: "devices", "bytes/s", "km", "bytes", "nodes"; "": none */
    double limit;      /* a probe meets the condition with a value of at most this; NAN: none */
    uint32_t n;
    const orr_probe *probes; /* shape (n): in the order in which they were made */
    uint32_t reference;      /* index of the probe that others are compared with; ORR_NONE: none */
    uint32_t answer; /* the answer: the hardest that meets the limit, the best of a comparison;
                        ORR_NONE: none */
    uint32_t beyond; /* the nearest harder one that does not meet it; ORR_NONE: all do */
    uint32_t contradictions; /* pairs of probes of which the one with the better machine is worse */
    bool interrupted;
} orr_answer;

/* The question that others grow from. */
typedef struct orr_inquiry {
    const orr_model *model;
    const orr_cluster *cluster;
    const orr_explore_options *options;        /* of every probe; `limit_ns` is for each of them */
    const orr_exploration *reference;          /* the answer of orr_explore() to it */
    void (*told)(void *ctx, const char *what); /* before a probe; or NULL */
    void *told_ctx;
} orr_inquiry;

/* What a bisection looks for. `limit`: of the objective; 0: that of the reference, and
 * `within_frac` more. */
typedef struct orr_solve {
    uint8_t question; /* DEVICES to SPARES, but COST */
    bool level;       /* `link` is a level, not a cut between sites */
    uint32_t link;    /* of BANDWIDTH, DISTANCE; ORR_NONE: all cuts alike */
    double limit, within_frac;
} orr_solve;
/* Reads "cut:0", "cut:north-south", "cut" (all alike), "level:building", the same with "distance",
 * "devices", "memory", "spares". INVALID: with what there is. */
ORR_API ORR_MUST_CHECK orr_status orr_solve_parse(const char *text, const orr_cluster *cluster,
                                                  orr_solve *ret, orr_error *err);
/* INVALID: a question that the options or the cluster do not go with; errors of orr_explore(). */
ORR_API ORR_MUST_CHECK orr_status orr_explore_solve(const orr_inquiry *inquiry,
                                                    const orr_solve *solve, orr_arena *arena,
                                                    orr_answer *ret, orr_error *err);
/* The cheapest plan that trains the tokens of the options by the deadline. `devices`: the answer of
 * orr_explore_solve() to DEVICES with that limit. Failures as in BUDGET. INVALID: no price is
 * known.
 */
ORR_API ORR_MUST_CHECK orr_status orr_explore_cheapest(const orr_inquiry *inquiry,
                                                       const orr_answer *devices, orr_arena *arena,
                                                       orr_answer *ret, orr_error *err);
/* Another machine beside the question's own; NULL: the same devices in one place, as its sites are
 * inside. */
ORR_API ORR_MUST_CHECK orr_status orr_explore_against(const orr_inquiry *inquiry,
                                                      const orr_cluster *other, orr_arena *arena,
                                                      orr_answer *ret, orr_error *err);
enum { ORR_WHAT_IF_LINK = 1, ORR_WHAT_IF_DEVICE = 2, ORR_WHAT_IF_FAILURE = 4 };
/* Each cut, or level if there are none, at half and twice its bandwidth and latency; each of the
 * `devices` in place of all; failures at half and twice their rate. `changes`: bits ORR_WHAT_IF_...
 * INVALID: failures without a failure model. */
ORR_API ORR_MUST_CHECK orr_status orr_explore_what_if(const orr_inquiry *inquiry, uint32_t changes,
                                                      const orr_device *const *devices,
                                                      uint32_t n_devices, orr_arena *arena,
                                                      orr_answer *ret, orr_error *err);
/* The best plan of each cluster; `reference` is that of clusters[0]. Clusters on which the question
 * is invalid have a probe with the reason. */
ORR_API ORR_MUST_CHECK orr_status orr_explore_clusters(const orr_inquiry *inquiry,
                                                       const orr_cluster *const *clusters,
                                                       uint32_t n_clusters, orr_arena *arena,
                                                       orr_answer *ret, orr_error *err);
/* How many devices would do for a question without a feasible plan, or with none that meets
 * `limit` (0: any plan does): bisection over clusters that are up to 64 times as large. */
ORR_API ORR_MUST_CHECK orr_status orr_explore_enough(const orr_inquiry *inquiry, double limit,
                                                     orr_arena *arena, orr_answer *ret,
                                                     orr_error *err);
/* The cluster with prices per device and hour in place of what its sites say: price[i] is that of
 * devices whose name begins with name[i]. Those of devices that no name means stay. */
ORR_API ORR_MUST_CHECK orr_status orr_cluster_with_prices(const orr_cluster *cluster,
                                                          const char *const *name,
                                                          const double *price, uint32_t n,
                                                          orr_arena *arena, const orr_cluster **ret,
                                                          orr_error *err);

/* --- the network check ----------------------------------------------------------------------- */

/* A plan of an exploration, its step with the transfers over cuts as flows. */
typedef struct orr_explored_network {
    orr_network_check check;
    uint32_t was; /* place among `best` before, from 0 */
    bool told;    /* mean and closed form differ by more than 3 % */
} orr_explored_network;
/* Whether a cluster has levels that are checked: cuts, or a transport. */
ORR_API bool orr_explore_has_network(const orr_cluster *cluster);
/* Checks the first `most` plans of an exploration (orr_outcome_network()). Where a plan is told,
 * the first ones are ranked anew by the mean step (objectives that grow with it), in the arena;
 * their fields stay those of the closed forms. *ret: shape (*ret_n), in the new order; fewer than
 * asked for where `options->stop` was set meanwhile. Errors: as orr_outcome_of(),
 * orr_outcome_network().
 */
ORR_API ORR_MUST_CHECK orr_status orr_explore_network(
    const orr_model *model, const orr_cluster *cluster, const orr_explore_options *options,
    const orr_network_check_options *how, uint32_t most, orr_exploration *exploration,
    orr_arena *arena, const orr_explored_network **ret, uint32_t *ret_n, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_EXPLORE_H */
