/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_EXPERTS_EXPERTS_H
#define ORR_REPORT_EXPERTS_EXPERTS_H

#include <orrery/report.h>

#include "experts/placement/evaluate.h"
#include "experts/statistics/statistics.h"
#include "io/stream/output.h"

/* What `orrery experts` tells: statistics of routes, and placements made from them. */

/* A placement by a policy, or the one that runs. All figures are for the same routes. */
typedef struct orr_experts_plan {
    const char *policy;  /* "best"; "running" */
    const char *refused; /* why the policy made none; NULL: it did */
    orr_expert_result result;
    const orr_layer_quality *layer;  /* shape (L) */
    orr_expert_quality all, without; /* over all layers; without the concentrated ones */
    uint32_t slots;                  /* of all layers */
} orr_experts_plan;

/* Where the figures of placements come from, if not from all that placements were made from. */
typedef struct orr_experts_held_out {
    uint32_t requests, of; /* 0: none is held out */
    uint64_t tokens;
} orr_experts_held_out;

typedef struct orr_experts_report {
    const orr_routes *routes;          /* NULL: loads alone */
    const orr_expert_windows *windows; /* of the file, or that routes were cut into; NULL: none */
    const orr_expert_drift *drift;     /* shape (windows - 1): each against the one before;
                                        * NULL: no windows or no placement */
    const orr_expert_statistics *statistics;
    uint32_t ranks; /* that imbalance by layer is told of */
    /* The rest where placements were asked for: */
    const orr_experts_plan *plans;  /* shape (n_plans): the chosen policy's, then the others */
    uint32_t n_plans;               /* 0: none asked for */
    const orr_experts_plan *before; /* what runs, else linear, as many slots as there are experts */
    const orr_expert_options *options;
    const orr_cluster *cluster;
    const orr_model *model;        /* NULL: none known */
    bool model_by_shape;           /* not named, but the only one with such layers */
    uint32_t spare;                /* slots of a rank and layer */
    const orr_expert_moves *moves; /* from what runs; NULL: nothing runs */
    bool remote_first;             /* best was asked for few rows to other ranks */
    orr_experts_held_out held_out;
    uint64_t counted; /* tokens that statistics are of; 0: all */
} orr_experts_report;

/* Tables in the arena, how many in *ret_n; they refer to the report. Some may be empty. Those of
 * placements, where there are any, come first. */
enum { ORR_EXPERTS_PLAN_TABLES = 4, ORR_EXPERTS_TABLES = 10 };
orr_status orr_experts_tables(const orr_experts_report *report, orr_arena *arena,
                              orr_named_table ret[ORR_EXPERTS_TABLES], uint32_t *ret_n,
                              orr_error *err) ORR_MUST_CHECK;
/* The answer in a few lines for people. */
void orr_experts_summary(const orr_experts_report *report, orr_output *out);
/* The document "orrery.experts/1". */
void orr_experts_json(const orr_experts_report *report, const orr_named_table *tables, uint32_t n,
                      orr_output *out);
/* One page, self-contained. Errors: IO, NO_MEMORY. */
orr_status orr_experts_html(const char *path, const orr_experts_report *report,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPORT_EXPERTS_EXPERTS_H */
