/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_RECOGNISE_FINDINGS_H
#define ORR_RESCALE_RECOGNISE_FINDINGS_H

#include <orrery/rescale.h>

#include "base/array.h"

/* Findings as they are made; what a recognition or a rescaling says in the end. */
typedef struct orr_findings {
    orr_array(orr_finding) rows;
    orr_arena *arena; /* of the texts and of what is kept */
} orr_findings;

/* One more. `what` is kept as it is; `value` is copied; the evidence is formatted. */
orr_status orr_findings_add(orr_findings *findings, const char *what, const char *value,
                            orr_confidence confidence, orr_error *err, const char *format,
                            ...) ORR_MUST_CHECK ORR_PRINTF(6, 7);
/* The same with a number as value. */
#define orr_findings_number(findings, what, number, ...)                                           \
    orr_findings_add((findings), (what), orr_findings_decimal((findings), (number)), __VA_ARGS__)
const char *orr_findings_decimal(orr_findings *findings, uint64_t number); /* NULL: no memory */
/* Hand the rows over to the arena. */
orr_status orr_findings_keep(orr_findings *findings, const orr_finding **ret, uint32_t *ret_n,
                             orr_error *err) ORR_MUST_CHECK;
void orr_findings_done(orr_findings *findings);

#endif /* ORR_RESCALE_RECOGNISE_FINDINGS_H */
