/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_EXPLORE_SUMMARY_H
#define ORR_REPORT_EXPLORE_SUMMARY_H

#include <orrery/report.h>

#include "io/stream/output.h"

/* What a site has of a plan. Stages and replicas from the ranks that stand there. */
typedef struct orr_explore_site {
    const char *name, *region, *device;
    uint32_t devices, used;           /* that it has; that the plan takes     */
    uint32_t first_stage, last_stage; /* ORR_NONE: none */
    uint32_t stages, replicas;        /* so many different ones               */
    const uint64_t *stage_marks;      /* a bit each, of as many as the plan has */
    uint32_t number;                  /* of the outcome's sites; ORR_NONE: it is not used */
} orr_explore_site;
/* Shape (*ret_n), the cluster's; of a cluster without sites one that is all of it. In the arena;
 * NULL: out of memory. */
const orr_explore_site *orr_explore_sites(const orr_cluster *cluster, const orr_outcome *outcome,
                                          orr_arena *arena, uint32_t *ret_n);

/* The answer in a few lines for people: plan, step, memory, proof, what limits it. Errors:
 * NO_MEMORY. */
orr_status orr_explore_summary(const orr_explore_report *report, orr_arena *arena, orr_output *out,
                               orr_error *err) ORR_MUST_CHECK;
/* The document "orrery.explore/1": the answer, then all tables. */
orr_status orr_explore_json(const orr_explore_report *report,
                            const orr_named_table tables[ORR_EXPLORE_TABLES], orr_arena *arena,
                            orr_output *out, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPORT_EXPLORE_SUMMARY_H */
