/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENSEMBLE_H
#define ORR_ENSEMBLE_H

#include <orrery/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ensemble: many ranks that run few distinct graphs; the input of a simulation.
 *
 * A recorded job is an ensemble in which every rank has a graph of its own; a job of 100,000
 * ranks made from a plan or from a recording of eight has a handful of graphs. Groupings say
 * which ranks communicate. Immutable, shared freely; lives in an arena, and refers to graphs
 * that must outlive it. Letters: R ranks, D distinct graphs, N nodes and C communications of a
 * graph. */

/* A partition of ranks into groups: all tensor-parallel groups, all data-parallel groups... */
typedef struct orr_grouping {
    const char *name; /* "tp", or the name of the recorded process group */
    uint32_t n_groups;
    const uint32_t *group_of; /* shape (R); ORR_NONE: the rank is in no group */
    const uint32_t *first;    /* shape (n_groups + 1)                             */
    const uint32_t *members;  /* ranks of group g: members[first[g]] .. members[first[g + 1] - 1],
                               * in the order of the group                        */
} orr_grouping;

/* The rendezvous of a communication: its partners are those ranks of the same group of the
 * grouping whose graphs have a communication with the same ordinal (as NCCL matches calls by
 * communicator and sequence number). A send and its receive are a rendezvous of two. */
typedef struct orr_rendezvous_id {
    uint32_t grouping; /* ORR_NONE: partners are unknown; it takes its own duration */
    uint32_t ordinal;  /* at most once in a graph */
} orr_rendezvous_id;

typedef struct orr_ensemble {
    uint32_t n_ranks, n_graphs, n_groupings;
    const orr_graph *const *graphs; /* shape (D)                                      */
    const uint32_t *graph_of_rank;  /* shape (R); ORR_NONE: the rank is unknown */
    const int64_t *start_ns;        /* shape (R): earliest start of its first node; NULL: 0 */
    const uint32_t *slowdown_ppm;   /* shape (R): factor on device work, in millionths; NULL:
                                     * 1,000,000 for all */
    const orr_grouping *groupings;  /* shape (n_groupings)                            */
    const orr_rendezvous_id *const *rendezvous; /* shape (D)(C_d), by row of the graph's comms */
    const int64_t *const *duration_ns;          /* shape (D)(N_d): replaces the graphs' own
                                                 * durations; NULL, or a row NULL: the graph's
                                                 * own. Of a communication: the transfer after
                                                 * the last arrival; -1: priced by the network */
    const uint8_t *const *basis;                /* shape (D)(N_d), orr_basis of each duration;
                                                 * NULL, or a row NULL: recorded */
    const uint32_t *multiplicity; /* shape (R): number of ranks of the job that this one
                                   * represents, itself included; NULL: 1 */
} orr_ensemble;

/* A recorded job as an ensemble: each graph is its own rank, each match a rendezvous, starts as
 * recorded on the job's clock. A matched communication takes the shortest of its members'
 * durations, which is that of the member that waited for nobody. Errors: NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_ensemble_of_job(const orr_job *job, orr_arena *arena,
                                                      const orr_ensemble **ret, orr_error *err);

/* Makes a grouping from the group of each rank, shape (R), ORR_NONE for none; members are in
 * order of rank. `group_of` is kept, not copied. Errors: NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_grouping_of(const char *name, const uint32_t *group_of,
                                                  uint32_t n_ranks, uint32_t n_groups,
                                                  orr_arena *arena, orr_grouping *ret,
                                                  orr_error *err);

/* Retiming: the same graph with other times. Shares everything with `graph`, which must outlive
 * it, except start, duration, rank and the order of lanes. */
typedef struct orr_retiming {
    const int64_t *start_ns;    /* shape (N), since base_ns; ORR_TIME_NONE: unknown; copied */
    const int64_t *duration_ns; /* shape (N), copied */
    int64_t base_ns;
    uint32_t rank; /* of the new graph; ORR_NONE: unchanged */
} orr_retiming;
/* Free with orr_graph_free(). Errors: NO_MEMORY; INVALID: a negative duration, times more than
 * 2^63 ns apart. */
ORR_API ORR_MUST_CHECK orr_status orr_graph_retime(const orr_graph *graph,
                                                   const orr_retiming *retiming,
                                                   const orr_graph **ret, orr_error *err);
/* The same job with retimed graphs, shape (D) of the job, adopted as orr_job_build() does; all
 * clocks agree. `job` must outlive it. Errors: NO_MEMORY; INVALID: another number of nodes. */
ORR_API ORR_MUST_CHECK orr_status orr_job_retime(const orr_job *job, const orr_graph *const *graphs,
                                                 const orr_job **ret, orr_error *err);

/* Two versions of one job in one timeline, for viewers: each graph of `job` with its nodes under
 * their own ids, followed by the nodes of the graph of the same rank in `other`; equal lanes
 * stand together, the other's first, named after the labels. Times are on each job's own axis.
 * It has no groups and no matches, and is not to be analysed. Free with orr_job_free(); errors:
 * NO_MEMORY; LIMIT: too many lanes or nodes. */
ORR_API ORR_MUST_CHECK orr_status orr_job_overlay(const orr_job *job, const char *label,
                                                  const orr_job *other, const char *other_label,
                                                  const orr_job **ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_ENSEMBLE_H */
