/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_EXPERTS_SVG_H
#define ORR_REPORT_EXPERTS_SVG_H

#include "report/experts/parts.h"

/* Pictures of experts: a row for each layer, a cell for each expert or rank, coloured by how its
 * load compares with the mean of its layer. Cells of one colour are one path, so that a picture of
 * 60 layers x 256 experts is 200 KB. */

/* Load of each expert: statistics of the report. */
orr_status orr_experts_svg_loads(orr_output *out, const orr_experts_report *report,
                                 orr_arena *arena, orr_error *err) ORR_MUST_CHECK;
/* Load of each rank by a placement. */
orr_status orr_experts_svg_ranks(orr_output *out, const orr_experts_report *report,
                                 const orr_experts_plan *plan, orr_arena *arena,
                                 orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPORT_EXPERTS_SVG_H */
