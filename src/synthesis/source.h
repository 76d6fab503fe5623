/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SYNTHESIS_SOURCE_H
#define ORR_SYNTHESIS_SOURCE_H

#include <orrery/graph.h>

/* A recorded job as synthesis sees it: the nodes that a generated job may have, and the cuts at
 * which it may be taken apart and put together anew. Letters: R recorded ranks (roles), N nodes of
 * a rank, K cuts, S steps.
 *
 * A cut is a point of the job, a time for each rank, at which no host operator of any rank is open
 * and no communication has been issued by some of its members only. What stands between two cuts
 * is thus whole on every rank: it can follow any other such piece, and all communications still
 * meet. Annotations, Python functions and operators of more than ORR_SYNTHESIS_LARGE nodes may be
 * open at a cut; they are divided there. */
enum { ORR_SYNTHESIS_LARGE = 64, ORR_SYNTHESIS_SOURCES = 256 /* at most */ };

typedef struct orr_source_rank {
    const orr_graph *graph;
    int64_t clock_ns; /* add to start_ns for the job's clock */
    /* The nodes that are kept, but for those that are divided at cuts, in the order in which they
     * are issued: device work counts from the call that launched it. */
    const orr_node_id *order;   /* shape (n_order) */
    const int64_t *place_ns;    /* shape (N): when it is issued; INT64_MIN: not kept */
    const int64_t *self_ns;     /* shape (N): duration less that of the kept nodes inside it */
    const orr_node_id *parent;  /* shape (N): the innermost kept node around it, or ORR_NONE */
    const orr_node_id *divided; /* shape (n_divided): nodes that are divided at cuts, by start */
    const uint32_t *lane_of; /* shape (lanes): number among the lanes of its kind, from 0, busiest
                              * first; of streams that only communicate from ORR_COMM_STREAM;
                              * ORR_NONE: not kept */
    uint32_t n_order, n_divided;
} orr_source_rank;
enum { ORR_COMM_STREAM = 1000 };

typedef struct orr_source {
    const orr_job *job;
    const orr_source_rank *ranks; /* shape (R) */
    uint32_t n_roles;
    uint32_t world_size;     /* ranks that the job had, recorded or not */
    const int64_t *cut_ns;   /* shape (K)(R): on the axis of each rank's graph */
    const uint64_t *context; /* shape (K): digest of the three operators before the cut */
    const double *issued;  /* shape (K)(R): share of the nodes of its step that a rank issues before
                            * the cut */
    const double *elapsed; /* shape (K): share of the time of its step, on the first rank */
    uint32_t n_cuts;
    const uint32_t *step_cut; /* shape (S + 1): the cut at which a step begins; the last: the end */
    uint32_t n_steps;
    bool annotated; /* annotations say where steps begin; else all of it is one */
} orr_source;

static inline int64_t orr_source_cut_ns(const orr_source *source, uint32_t cut, uint32_t role)
{
    return source->cut_ns[(size_t)cut * source->n_roles + role];
}
/* How much of the step lies before the cut, by what the first rank issues. */
static inline double orr_source_progress(const orr_source *source, uint32_t cut)
{
    return source->issued[(size_t)cut * source->n_roles];
}
/* Is it kept, and between the first and the last cut? */
static inline bool orr_source_has(const orr_source *source, uint32_t role, orr_node_id v)
{
    const int64_t place = source->ranks[role].place_ns[v];
    return place != INT64_MIN && place >= orr_source_cut_ns(source, source->step_cut[0], role) &&
           place < orr_source_cut_ns(source, source->step_cut[source->n_steps], role);
}

/* Reads a job; `annotation` (prefix of a name) bounds its steps; where there is none, the whole
 * recording is one. In the arena; `job` must outlive it. Errors: INVALID: nothing with a time and a
 * duration; NO_MEMORY. */
orr_status orr_source_learn(const orr_job *job, const char *annotation, orr_arena *arena,
                            orr_source *ret, orr_error *err) ORR_MUST_CHECK;

/* The parts of it: nodes and lanes of a rank (source.c); cuts and steps (cuts.c). */
orr_status orr_source_rank_learn(const orr_graph *graph, const char *annotation, orr_arena *arena,
                                 orr_source_rank *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_source_find_cuts(orr_source *source, const char *annotation, orr_arena *arena,
                                orr_error *err) ORR_MUST_CHECK;

static inline uint64_t orr_digest_word(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 29;
}
static inline uint64_t orr_digest_text(uint64_t digest, const char *text)
{
    for (; *text != '\0'; text++)
        digest = orr_digest_word(digest, (unsigned char)*text);
    return digest;
}

/* Is it a node that moves data between ranks? */
static inline bool orr_synthesis_communicates(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_COLLECTIVE || g->kind[v] == ORR_NODE_SEND ||
           g->kind[v] == ORR_NODE_RECV;
}

#endif /* ORR_SYNTHESIS_SOURCE_H */
