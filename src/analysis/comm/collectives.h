/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ANALYSIS_COMM_COLLECTIVES_H
#define ORR_ANALYSIS_COMM_COLLECTIVES_H

#include "analysis/common.h"

/* What a person calls a process group: its description, or where that says nothing its name. */
const char *orr_group_label(const orr_graph *g, const orr_group *group);

/* Larger of what a rank gives and what it gets; -1 when neither is known. */
int64_t orr_comm_bytes(const orr_comm *comm);

/* Bus bandwidth over algorithm bandwidth in a group of n ranks; n = 0: not known, and 0 where the
 * factor depends on it. */
double orr_busbw_factor(orr_collective collective, uint32_t n);

#endif /* ORR_ANALYSIS_COMM_COLLECTIVES_H */
