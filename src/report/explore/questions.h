/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_EXPLORE_QUESTIONS_H
#define ORR_REPORT_EXPLORE_QUESTIONS_H

#include "io/stream/output.h"
#include "report/explore/describe.h"
#include "report/page/page.h"

/* Answers of questions that took searches of their own. */

/* "1,024 devices", "50 Gbit/s", "300 km", "72 GiB", "3 nodes"; "" of no number. */
char *orr_probe_number_human(const orr_answer *answer, const orr_probe *probe,
                             char buf[ORR_HUMAN_MAX]);
/* The value of a probe over that of the reference; NAN: one has no plan. */
double orr_probe_ratio(const orr_answer *answer, const orr_probe *probe);
/* Whether the best plan is another than the reference's. */
bool orr_probe_changes_plan(const orr_answer *answer, const orr_probe *probe);
/* The answer in a sentence or two, without the title. In the arena; NULL: out of memory. */
const char *orr_answer_text(const orr_answer *answer, orr_arena *arena);

/* A line for each answer. Errors: NO_MEMORY. */
orr_status orr_explore_tell_answers(const orr_explore_report *report, orr_arena *arena,
                                    orr_output *out, orr_error *err) ORR_MUST_CHECK;
/* The section of the page; nothing without answers. Errors: NO_MEMORY. */
orr_status orr_explore_put_questions(const orr_html_page *page,
                                     const orr_explore_report *report) ORR_MUST_CHECK;

#endif /* ORR_REPORT_EXPLORE_QUESTIONS_H */
