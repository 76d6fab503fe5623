/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_RECOGNISE_SURVEY_H
#define ORR_RESCALE_RECOGNISE_SURVEY_H

#include <string.h>

#include "rescale/emit/communication.h"
#include "rescale/recognise/findings.h"
#include "model/plan/plan.h"

/* A recorded job taken apart. One step of each rank is a row of pieces: the outermost operators and
 * calls of the threads that issue work, in order of time, each with the device work it launched.
 * Spans that only say what they hold (annotations, modules) are no pieces; they say what
 * the pieces within them are. */
typedef enum orr_model_part_kind {
    ORR_MODEL_PART_NONE,      /* not of the model: waiting, optimizer, what is not told */
    ORR_MODEL_PART_EMBEDDING, /* before the layers: embeddings                          */
    ORR_MODEL_PART_LAYER,
    ORR_MODEL_PART_HEAD /* after them: head and loss                              */
} orr_model_part_kind;

/* What an operator is, as far as its shapes are concerned. */
typedef enum orr_op_kind {
    ORR_OP_OTHER, /* elementwise, views: shapes as what came before */
    ORR_OP_NORM,
    ORR_OP_COLUMN, /* product whose output columns are cut into slices (Megatron-LM's terms) */
    ORR_OP_ROW,    /* product whose input columns are: an all-reduce follows                 */
    ORR_OP_ATTENTION,
    ORR_OP_ACTIVATION,
    ORR_OP_EMBEDDING,
    ORR_OP_SOFTMAX /* and losses: (tokens, vocabulary) */
} orr_op_kind;

/* What a dimension counts, and whether tensor parallelism cuts it. */
typedef enum orr_dim_symbol {
    ORR_SYMBOL_FIXED,
    ORR_SYMBOL_SAMPLES,
    ORR_SYMBOL_SEQ,
    ORR_SYMBOL_TOKENS, /* samples x seq */
    ORR_SYMBOL_HEADS,
    ORR_SYMBOL_HEAD,   /* columns of a head */
    ORR_SYMBOL_HIDDEN, /* or a multiple of it */
    ORR_SYMBOL_FFN,
    ORR_SYMBOL_VOCAB
} orr_dim_symbol;
typedef struct orr_dim_meaning {
    uint8_t symbol; /* orr_dim_symbol */
    bool cut;
} orr_dim_meaning;

enum {
    ORR_ROLE_WORK = ORR_COMM_ROLES, /* no communication                      */
    ORR_ROLE_OTHER
}; /* a communication of no known dimension */

typedef struct orr_step_piece {
    orr_node_id root;
    int64_t start_ns, end_ns, gap_ns; /* gap: since the piece before, or the step's start */
    uint32_t lane;
    uint32_t first_node, n_nodes; /* rows of step->nodes: the root first, then by time */
    uint32_t first_work, n_works; /* rows of step->works, in order of launch            */
    int64_t sequence;             /* of autograd; -1 */
    bool of_backward;             /* it names a forward thread */
    bool syncs;                   /* a call in it waits for the device */
    bool mixed;                   /* it launches computation and communication */
    uint8_t phase;                /* orr_phase     */
    uint8_t part;                 /* orr_model_part_kind */
    uint8_t role;                 /* orr_comm_role, ORR_ROLE_WORK or ORR_ROLE_OTHER     */
    int32_t layer;                /* of its stage; -1 */
    int32_t micro_batch;          /* -1 */
    uint32_t forward;             /* of a backward piece: its forward piece, or ORR_NONE */
    uint8_t kind;                 /* orr_op_kind */
    orr_dim_meaning in, out;      /* what the last dimension of activations means       */
} orr_step_piece;

/* One step of one rank. */
typedef struct orr_profiled_step {
    const orr_graph *g;
    uint32_t graph;   /* of the job */
    orr_node_id span; /* ProfilerStep#n, or ORR_NONE: all of the recording */
    int64_t begin_ns, end_ns;
    orr_step_piece *pieces; /* shape (n_pieces), by time */
    uint32_t n_pieces;
    orr_node_id *nodes;             /* of threads, by piece */
    orr_node_id *works;             /* of streams, by piece */
    uint32_t *piece_of;             /* shape (N): of a host node or device work; ORR_NONE */
    bool parallel;                  /* two threads issue work at the same time */
    uint32_t layers, micro_batches; /* 0: not told */
    const char *layers_by;          /* how they were told, or NULL */
    bool layers_named;
    bool trains; /* there is a backward pass */
    const char *micro_batches_by;
} orr_profiled_step;

typedef struct orr_survey {
    const orr_job *job;
    orr_profiled_step *steps; /* shape (job->n_graphs) */
    uint32_t n_steps_seen;    /* annotated steps of the first graph */
    orr_plan plan;
    bool laid_out;       /* dp, tp, pp are known, and groups agree with the order of ranks */
    uint8_t *dimension;  /* shape (job->n_groups), orr_dimension */
    const char *why_not; /* no plan but dp can change; NULL: all can */
    orr_findings findings;
    orr_arena *arena;
} orr_survey;

/* All of it. `stated` may be NULL. Lives in the arena. */
orr_status orr_survey_job(const orr_job *job, const orr_plan *stated, orr_arena *arena,
                          orr_survey *ret, orr_error *err) ORR_MUST_CHECK;
void orr_survey_done(orr_survey *survey); /* the findings */

/* The parts of it. */
orr_status orr_survey_steps(orr_survey *survey, orr_error *err) ORR_MUST_CHECK; /* pieces        */
orr_status orr_survey_groups(orr_survey *survey, const orr_plan *stated,
                             orr_error *err) ORR_MUST_CHECK;                     /* dp, tp, pp    */
void orr_survey_roles(orr_survey *survey);                                       /* of the pieces */
orr_status orr_survey_labels(orr_survey *survey, orr_error *err) ORR_MUST_CHECK; /* layers...     */
void orr_survey_kinds(orr_survey *survey);                                       /* of operators  */
orr_status orr_survey_shapes(orr_survey *survey, const orr_plan *stated,
                             orr_error *err) ORR_MUST_CHECK; /* hidden...     */

/* Layers by repetition: the longest stretch of equal signatures, period after period. False: none.
 * `signature`: shape (n). At least two periods of at least four. */
bool orr_find_repetition(const uint64_t *signature, uint32_t n, uint32_t *ret_first,
                         uint32_t *ret_period, uint32_t *ret_count);

/* Text of the first attribute of that name on the piece's root or within it, or NULL. */
const char *orr_piece_dims(const orr_profiled_step *step, const orr_step_piece *piece,
                           orr_node_id *ret_op);
/* "Input Dims" of a node, or NULL. */
int64_t orr_node_number(const orr_graph *g, orr_node_id v, const char *name, int64_t otherwise);

/* ProfilerStep#3; in recordings of 2020 an operator. */
static inline bool orr_is_step(const orr_graph *g, orr_node_id v)
{
    return (g->kind[v] == ORR_NODE_ANNOTATION || g->kind[v] == ORR_NODE_HOST_OP) &&
           strncmp(orr_graph_str(g, g->name[v]), "ProfilerStep#", 13) == 0;
}
/* It only says what it holds. */
static inline bool orr_is_span(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_ANNOTATION || g->kind[v] == ORR_NODE_PYTHON ||
           g->kind[v] == ORR_NODE_META || orr_is_step(g, v);
}

#endif /* ORR_RESCALE_RECOGNISE_SURVEY_H */
