/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_H
#define ORR_REPORT_H

#include <orrery/analysis.h>
#include <orrery/explore.h>
#include <orrery/fleet.h>
#include <orrery/measure.h>
#include <orrery/model.h>
#include <orrery/outcome.h>
#include <orrery/replay.h>
#include <orrery/sim.h>
#include <orrery/table_planner.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Table: any array of plain rows, described by columns. */
#define ORR_COLUMN_MAP(X)                                                                          \
    X(TEXT, const char *)                                                                          \
    X(BOOL, bool)                                                                                  \
    X(U8, uint8_t)                                                                                 \
    X(U32, uint32_t)                                                                               \
    X(U64, uint64_t)                                                                               \
    X(I32, int32_t)                                                                                \
    X(I64, int64_t)                                                                                \
    X(NUMBER, double)                                                                              \
    X(NS, int64_t)             /* people see 1.234 ms, machines the integer ns */                  \
        X(NS_MEAN, double)     /* ns with a fraction                           */                  \
        X(BYTES, int64_t)      /* people see 1.5 MiB; -1 is unknown            */                  \
        X(BYTES_PER_S, double) /* people see 12.3 GB/s; 0 is unknown           */                  \
        X(FRAC, double)        /* people see 12.3 %                            */
typedef enum orr_column_type {
#define ORR_COLUMN_ENUM_(name, type) ORR_COLUMN_##name,
    ORR_COLUMN_MAP(ORR_COLUMN_ENUM_)
#undef ORR_COLUMN_ENUM_
} orr_column_type;

typedef struct orr_column {
    const char *name; /* machine name, with its unit: "idle_ns" */
    orr_column_type type;
    size_t offset; /* of the field in a row */
} orr_column;

typedef struct orr_table {
    const char *schema; /* "orrery.temporal_breakdown/1": stable and versioned */
    const char *title;  /* for people */
    const orr_column *columns;
    size_t n_columns;
    const void *rows;
    size_t row_bytes, n_rows;
} orr_table;

typedef enum orr_table_format {
    ORR_TABLE_TEXT,
    ORR_TABLE_JSON,
    ORR_TABLE_CSV,
    ORR_TABLE_MARKDOWN
} orr_table_format;

/* Analyses by name, in the order in which a report shows them: the names of
 * `orrery analyze --only NAME`. */
typedef struct orr_analysis {
    const char *name;  /* "temporal_breakdown" */
    const char *about; /* one line */
    bool series;       /* one row an event: left out unless asked for by name */
    /* Rows and table in the arena. */
    orr_status (*run)(const orr_job *job, const orr_analysis_options *options, orr_arena *arena,
                      orr_table *ret, orr_error *err);
} orr_analysis;
ORR_API const orr_analysis *orr_analyses(size_t *ret_n);
ORR_API const orr_analysis *orr_analysis_find(const char *name); /* NULL: none */

/* The operator table for `orrery ops`: what each takes and gives, whether it has a gradient, how
 * its FLOPs are counted, and its names elsewhere. Rows in the arena. */
ORR_API ORR_MUST_CHECK orr_status orr_operators_table(orr_arena *arena, orr_table *ret,
                                                      orr_error *err);

/* Two jobs by name of operator or kernel, largest change first: orr_analyze_diff() as a
 * table, for `orrery diff`. */
ORR_API ORR_MUST_CHECK orr_status orr_diff_table(const orr_job *a, const orr_job *b,
                                                 const orr_analysis_options *options,
                                                 bool normalise, orr_arena *arena, orr_table *ret,
                                                 orr_error *err);

/* A node that a cell of a page's tables is about: on the page the cell leads to it. */
typedef struct orr_cell_node {
    uint32_t table, row;
    const char *column; /* of text */
    uint32_t graph;     /* of the job */
    orr_node_id node;
} orr_cell_node;

/* One HTML page, self-contained, that shows the job: headline figures, breakdown per
 * rank, kernels, collectives, and a timeline with the critical path drawn in.
 * `title`: text for the heading. Errors: IO, NO_MEMORY. */
typedef struct orr_trace_html_options {
    size_t struct_bytes;
    const char *title;
    uint32_t max_events;     /* of the timeline, longest kept; 0: 4 million */
    const orr_job *overlay;  /* shown in the timeline instead of the job, whose nodes come first
                              * in its graphs: orr_job_overlay(); NULL: the job itself */
    const orr_table *tables; /* shape (n_tables): shown first, under `tables_title` */
    size_t n_tables;
    const char *tables_title;
    const orr_cell_node *cell_nodes; /* shape (n_cell_nodes), by table and row, one column of a row;
                                      * of a cell with several all are shown; or NULL */
    size_t n_cell_nodes;
} orr_trace_html_options;
ORR_API ORR_MUST_CHECK orr_status orr_trace_html(const char *path, const orr_job *job,
                                                 const orr_analysis_options *analysis,
                                                 const orr_trace_html_options *options,
                                                 orr_error *err);

/* What a simulation says beside the recording that it was made of: tables for `orrery predict`. */
typedef struct orr_prediction {
    const orr_job *recorded;
    const orr_job *simulated; /* orr_simulation_job() of the simulation */
    const orr_simulation *simulation;
    const orr_sim_latencies *seen; /* observations that the constants rest on; NULL: given */
    const orr_analysis_options *analysis;
    const orr_cluster *cluster; /* whose links the simulation used; NULL: none */
} orr_prediction;
enum { ORR_PREDICTION_TABLES = 6 };
/* By class of ranks, by step, by what the time of a rank goes to, by basis, the constants, and the
 * links that carried something, most bytes first.
 * Tables and rows in the arena. Errors: NO_MEMORY, and those of the analyses. */
ORR_API ORR_MUST_CHECK orr_status orr_prediction_tables(const orr_prediction *prediction,
                                                        orr_arena *arena,
                                                        orr_table ret[ORR_PREDICTION_TABLES],
                                                        orr_error *err);
/* What was recorded of a job (or of one of its graphs, else ORR_NONE), from the first start to the
 * last end of what a simulation counts. */
ORR_API int64_t orr_recorded_span_ns(const orr_job *job, uint32_t graph);
/* What the span of each replayed rank rests on, and how much of it was read as recorded, for want
 * of anything that it waited for; `ret_read_frac`: of the rank where that is most. Durations and
 * host speed unchanged. Errors: as below. */
ORR_API ORR_MUST_CHECK orr_status orr_read_time_table(const orr_job *job,
                                                      const orr_simulation *simulation,
                                                      uint32_t queue_depth, orr_arena *arena,
                                                      orr_table *ret, double *ret_read_frac,
                                                      orr_error *err);
/* Threads that only poll, which take no part in paths and simulations. Errors: NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_pollers_table(const orr_job *job, orr_arena *arena,
                                                    orr_table *ret, orr_error *err);
/* How far a replay of the job, durations unchanged, is off its recording: by rank and lane, by
 * cause, and the `most` moments where it is off most. `queue_depth`: of the simulation's options.
 * Errors: INVALID: the simulation is of something else; LIMIT, NO_MEMORY. */
enum { ORR_REPLAY_ERROR_TABLES = 3 };
ORR_API ORR_MUST_CHECK orr_status orr_replay_error_tables(
    const orr_job *job, const orr_simulation *simulation, uint32_t queue_depth, size_t most,
    orr_arena *arena, orr_table ret[ORR_REPLAY_ERROR_TABLES], orr_error *err);

/* What a plan comes to, as tables for `orrery simulate`: figures, phases, waterfall, axes, memory,
 * relief and basis; some may be empty. In the arena; they refer to the outcome. */
typedef struct orr_named_table {
    const char *name; /* in JSON */
    orr_table table;
} orr_named_table;
enum { ORR_OUTCOME_TABLES = 8, ORR_COMPARISON_TABLES = 2 };
ORR_API ORR_MUST_CHECK orr_status orr_outcome_tables(const orr_outcome *outcome, orr_arena *arena,
                                                     orr_named_table ret[ORR_OUTCOME_TABLES],
                                                     orr_error *err);
/* Two of them side by side: figures, and what moved from one part of the step to another. */
ORR_API ORR_MUST_CHECK orr_status orr_comparison_tables(const orr_outcome *a, const orr_outcome *b,
                                                        orr_arena *arena,
                                                        orr_named_table ret[ORR_COMPARISON_TABLES],
                                                        orr_error *err);

/* Models, a row each, for `orrery models`; parameters of one whose shape is not published are 0. */
ORR_API ORR_MUST_CHECK orr_status orr_models_table(const orr_models *models, orr_arena *arena,
                                                   orr_table *ret, orr_error *err);
/* The card of one: what it is, its parameters by part, what its weights and its cache take by
 * precision, and what is published of it with the terms of its use; each line with its source. In
 * the arena; they refer to the model. Tables of a model whose shape is not published may be empty.
 */
enum { ORR_MODEL_TABLES = 4 };
ORR_API ORR_MUST_CHECK orr_status orr_model_tables(const orr_model *model, orr_arena *arena,
                                                   orr_named_table ret[ORR_MODEL_TABLES],
                                                   orr_error *err);

/* Training that was run here, for `orrery train`: its steps; time by operator and pass of a
 * recorded step; and, where something was expected of it (else NULL), both beside what was seen. In
 * the arena; they refer to the result. Tables may be empty. */
enum { ORR_TRAINING_TABLES = 3 };
ORR_API ORR_MUST_CHECK orr_status orr_training_tables(const orr_train_result *result,
                                                      const orr_predicted_step *expected,
                                                      orr_arena *arena,
                                                      orr_named_table ret[ORR_TRAINING_TABLES],
                                                      orr_error *err);
/* Of a run whose embedding tables do not all live in memory: "tiers", what each tier had to do, and
 * "rows", the same by step. In the arena. */
enum { ORR_TRAINING_ROW_TABLES = 2 };
ORR_API ORR_MUST_CHECK orr_status
orr_training_row_tables(const orr_train_result *result, orr_arena *arena,
                        orr_named_table ret[ORR_TRAINING_ROW_TABLES], orr_error *err);
/* A page of the run, self-contained: loss by step; hits of row caches by tier and step. Errors: IO,
 * NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_training_html(const char *path, const char *model,
                                                    const orr_train_result *result, orr_error *err);
/* A recording that was run as a benchmark, for `orrery replay`: figures, and each class of
 * operators beside its recording. */
enum { ORR_BENCHMARK_TABLES = 2 };
ORR_API ORR_MUST_CHECK orr_status orr_benchmark_tables(const orr_replay_result *result,
                                                       orr_arena *arena,
                                                       orr_named_table ret[ORR_BENCHMARK_TABLES],
                                                       orr_error *err);
/* What was measured of this machine, for `orrery bench`: figures, kernels, transfers, embedding
 * tables, storage. */
enum { ORR_MEASURED_TABLES = 5 };
ORR_API ORR_MUST_CHECK orr_status orr_measured_tables(const orr_measured *measured,
                                                      orr_arena *arena,
                                                      orr_named_table ret[ORR_MEASURED_TABLES],
                                                      orr_error *err);

/* What failures cost a job, for `orrery fleet`: policies, losses, replicas down at once,
 * sensitivity, categories, rates, settings; some may be empty. In the arena; they refer to the
 * fleet and the catalogue. */
enum { ORR_FLEET_TABLES = 7 };
ORR_API ORR_MUST_CHECK orr_status orr_fleet_tables(const orr_fleet *fleet,
                                                   const orr_failure_catalog *catalog,
                                                   orr_arena *arena,
                                                   orr_named_table ret[ORR_FLEET_TABLES],
                                                   orr_error *err);
/* The same as one HTML page, self-contained, with losses as bars, effective time against the number
 * of replicas, and a day of the job. Errors: IO, NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_fleet_html(const char *path, const orr_fleet *fleet,
                                                 const orr_failure_catalog *catalog,
                                                 orr_error *err);

/* What a search for the best arrangement found, with what tells why, for `orrery explore`. */
typedef struct orr_explore_baseline_plan {
    uint8_t baseline;    /* orr_baseline */
    const char *why_not; /* it has no plan; NULL: it has */
    orr_explored explored;
} orr_explore_baseline_plan;
typedef struct orr_explore_report {
    const orr_model *model;
    const orr_cluster *cluster;
    const orr_explore_options *options;
    const orr_exploration *exploration;
    const orr_outcome *outcomes; /* shape (n_outcomes): of the first of its best; the graphs of
                                  * those behind the winner may be gone */
    uint32_t n_outcomes;
    const orr_sensitivity *sensitivity;              /* or NULL */
    const orr_explore_baseline_plan *baseline_plans; /* shape (n_baseline_plans) */
    uint32_t n_baseline_plans;
    bool interrupted;
    const orr_explore_answer *answer; /* or NULL */
    const orr_answer *answers; /* shape (n_answers): of questions that took searches of their own */
    uint32_t n_answers;
    const orr_explored_network *network; /* shape (n_network): of the first of its best */
    uint32_t n_network;
} orr_explore_report;
/* plans, decision, published, bottlenecks, cuts, axes, alternatives, waterfalls, break-even, Pareto
 * front, sensitivity, baselines, search, memory, basis, relaxations, answers, probes, network; some
 * may be empty. In the arena; they refer to the report. */
enum { ORR_EXPLORE_TABLES = 19 };
ORR_API ORR_MUST_CHECK orr_status orr_explore_tables(const orr_explore_report *report,
                                                     orr_arena *arena,
                                                     orr_named_table ret[ORR_EXPLORE_TABLES],
                                                     orr_error *err);
/* The same as one HTML page, self-contained, with the plan drawn over the sites, the front,
 * waterfalls side by side, what depends on what, and the baselines. Errors: IO, NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_explore_html(const char *path,
                                                   const orr_explore_report *report,
                                                   orr_error *err);

/* How the embedding tables of a recommendation model are best spread over ranks, for `orrery
 * tables`. */
typedef struct orr_sharding_report {
    const orr_model *model;
    const orr_cluster *cluster;               /* NULL: this machine, which was measured */
    const orr_table_planner_options *options; /* of one group */
    uint32_t groups;                          /* 2D sharding; 0: one */
    const orr_table_planning *best;
    const orr_table_planning *given; /* a plan to be set beside the best, priced alike; or NULL */
    bool interrupted;
} orr_sharding_report;
/* figures, kinds, tables, ranks, comparison, given tables, given ranks, tiers, tables on tiers;
 * some may be empty. In the arena; they refer to the report. */
enum { ORR_SHARDING_TABLES = 9 };
ORR_API ORR_MUST_CHECK orr_status orr_sharding_tables(const orr_sharding_report *report,
                                                      orr_arena *arena,
                                                      orr_named_table ret[ORR_SHARDING_TABLES],
                                                      orr_error *err);
/* The same as one HTML page, self-contained: ranks as columns, tables as blocks, the bound as a
 * line. Errors: IO, NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_sharding_html(const char *path,
                                                    const orr_sharding_report *report,
                                                    orr_error *err);

/* One HTML page, self-contained, that shows what a plan comes to: waterfall, pipeline as a Gantt
 * chart, memory over time, links, and the plan on the machine. `beside`: another one to show next
 * to it, or NULL. Errors: IO, NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_plan_html(const char *path, const orr_outcome *outcome,
                                                const orr_outcome *beside, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_REPORT_H */
