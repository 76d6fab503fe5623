/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_TRACES_DIAGNOSE_H
#define ORR_CLI_TRACES_DIAGNOSE_H

#include "cli/traces/predict.h"

/* A piece of evidence: a node of the recording, and the time that it lost. */
typedef struct orr_lost_piece {
    uint32_t graph;
    orr_node_id node;
    int64_t from_ns, lost_ns; /* on the job's axis */
} orr_lost_piece;

/* A cause of lost time. */
enum { ORR_LOST_PIECES = 3 };
typedef struct orr_lost {
    const char *cause;
    const char *where;    /* kind and group, rank, name; "" for all of the job */
    const char *option;   /* of `orrery predict` that mends it: "remove" */
    const char *value;    /* NULL: the option is a flag */
    const char *measured; /* how lost_ns is found, in words */
    uint64_t observations;
    int64_t lost_ns;                        /* as recorded */
    orr_lost_piece pieces[ORR_LOST_PIECES]; /* the longest, longest first */
    uint32_t n_pieces;
    int64_t gain_ns; /* by simulation */
} orr_lost;

/* What `orrery diagnose` was asked, and what came of it. */
typedef struct orr_diagnosis {
    orr_session session;
    orr_predict unchanged; /* shares the session */
    int64_t recorded_ns, replayed_ns, together_ns;
    double read_frac;
    orr_lost *lost; /* shape (n_lost): most gain first */
    size_t n_lost;
    orr_settings all_mended; /* of all that are left */
} orr_diagnosis;

/* Candidates in no order, in the arena of the session: those that lost at least `least_ns`, and of
 * each cause the few that lost most. Errors: NO_MEMORY. */
orr_status orr_diagnose_candidates(orr_session *session, const orr_device *device, int64_t least_ns,
                                   orr_lost **ret, size_t *ret_n) ORR_MUST_CHECK;
/* The option that mends the cause, added to those of `settings`. Errors: NO_MEMORY. */
orr_status orr_diagnosis_mend(orr_diagnosis *diagnosis, const orr_lost *lost,
                              orr_settings *settings) ORR_MUST_CHECK;
/* Tables and the page, as asked for. */
orr_status orr_diagnosis_print(orr_diagnosis *diagnosis) ORR_MUST_CHECK;

#endif /* ORR_CLI_TRACES_DIAGNOSE_H */
