/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_PLAN_ESTIMATE_H
#define ORR_PLAN_ESTIMATE_H

#include <orrery/outcome.h>

#include "model/memory.h"
#include "model/schedule.h"
#include "model/step.h"
#include "plan/memo.h"

/* A step in closed form, out of four things that many plans have in common:
 *
 *   row       the modules of one rank, priced and weighed: by slices, micro-batch, precision...
 *   place     where the groups of all axes lie on the cluster: by degrees and order
 *   cut       which modules are on which virtual stage, as classes of alike ones: by pp, vp
 *   pipeline  how turns of these classes add up to a step: by schedule and micro-batches
 *
 * Each is built once and kept; a plan then is a few dozen multiplications. */
enum { ORR_ROW_MODULES = 24, ORR_CUT_CLASSES = 8, ORR_CUT_ENDING = 6, ORR_PIPELINE_ENDS = 3,
       ORR_PIPELINE_HELD = 2 * ORR_TURN_PHASES };

/* One kind of module. Times are without jitter. */
typedef struct orr_priced_module {
    uint8_t kind;
    float   span_ns[ORR_TURN_PHASES], again_ns[ORR_TURN_PHASES], compute_ns[ORR_TURN_PHASES];
    float   waited_ns[ORR_TURN_PHASES][ORR_WATERFALLS];
    orr_module_weights weights;
    orr_module_memory  memory;
} orr_priced_module;
typedef struct orr_priced_row {
    uint32_t          id;
    uint32_t          shape_id;  /* the same for rows with the same modules at the same places */
    orr_module_row    row;       /* without tapes */
    orr_priced_module modules[ORR_ROW_MODULES];
    int64_t           buffer_bytes[4]; /* visible: with neither end, the first, the last, both */
    double            sample_flops;    /* of the model, forward                                */
    float             pair_saved_frac; /* of a forward and a backward turn that run at once    */
} orr_priced_row;

typedef struct orr_place_on {
    orr_step_prices prices;  /* no jitter; kernels and transfers at the rates of the cluster */
    orr_span        hop[ORR_LEVELS_MAX];   /* that occur between stages */
    uint32_t        span_id[ORR_AXES];     /* equal for alike spans     */
    uint32_t        hop_id[ORR_LEVELS_MAX], n_hops;
    uint8_t        *hop_of;  /* shape (pp): of stage s to the next */
    double          stretch;
    double          world_ns;
} orr_place_on;

/* Virtual stages with the same modules. */
typedef struct orr_cut_class {
    uint16_t count[ORR_ROW_MODULES];
    uint32_t first_place, end_place; /* of one of them */
    uint32_t virtual_stage;          /* the first of them */
    uint32_t n, n_places;
    uint8_t  ending[ORR_CUT_ENDING]; /* modules of its last places, from the last on */
    uint32_t n_ending;
    uint8_t  middle;                 /* the module that it has most of */
} orr_cut_class;
typedef struct orr_stage_cut {
    uint32_t id, stages, chunks, virtual_stages, n_classes;
    uint8_t *class_of; /* shape (virtual_stages) */
    orr_cut_class classes[ORR_CUT_CLASSES];
} orr_stage_cut;

/* Features of a path through the turns of a pipeline: how often it goes through each phase of each
 * class, through the first forward and the last backward turns, through what a stage pays after a
 * turn before it begins the next, and from stage to stage. */
enum {
    ORR_FEATURE_FIRST = ORR_TURN_PHASES, /* of a class: what its first forward turn takes longer */
    ORR_FEATURE_LAST,                    /* what the last turn that gives gradients takes longer */
    ORR_FEATURE_OWED,                    /* after a turn of each phase                           */
    ORR_FEATURE_OWED_FIRST = ORR_FEATURE_OWED + ORR_TURN_PHASES,
    ORR_FEATURE_OWED_LAST,
    ORR_CLASS_FEATURES,
    ORR_FEATURE_PAIR = ORR_CUT_CLASSES * ORR_CLASS_FEATURES, /* two turns at once                */
    ORR_FEATURE_HOP, /* one for each kind of hop */
    ORR_FEATURES = 112 /* a multiple of 8, for vectors */
};
_Static_assert((int)ORR_FEATURE_HOP + (int)ORR_LEVELS_MAX <= (int)ORR_FEATURES,
               "room for every hop");
typedef struct orr_path {
    float count[ORR_FEATURES];
} orr_path;
/* What a stage holds when it holds most. */
typedef struct orr_held {
    uint32_t kept, apart; /* micro-batches of a chunk */
} orr_held;
typedef struct orr_pipeline {
    orr_path *paths[ORR_PIPELINE_ENDS];
    uint32_t  n_paths[ORR_PIPELINE_ENDS];
    uint32_t  end_stage[ORR_PIPELINE_ENDS], n_ends;
    orr_held *held[ORR_PIPELINE_HELD]; /* shape (stages x chunks), two for each phase: at the
                                        * beginning of one of its turns; NULL: it has none     */
    float    *after[ORR_PIPELINE_ENDS]; /* shape (chunks): so many backward turns go by from the
                                         * last that gives the chunk's gradients to the last of all */
} orr_pipeline;

struct orr_estimator {
    orr_arena             *arena, *scratch;
    const orr_model       *model;
    const orr_cluster     *cluster;
    const orr_calibration *calibration;
    orr_job_options        options;
    orr_rates_of_job       rates;
    orr_memo               rows, shapes, places, spans, cuts, pipelines;
    orr_memo_price        *prices; /* shape (ORR_MEMO_PRICES) */
    double                 peak_flops[ORR_DTYPES];
    int64_t                usable_bytes;
};

/* In the estimator's arena, until it is freed. */
orr_status orr_estimate_row(orr_estimator *e, const orr_plan *plan, const orr_place_on *place,
                            const orr_priced_row **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_estimate_place(orr_estimator *e, const orr_plan *plan, const orr_place_on **ret,
                              orr_error *err) ORR_MUST_CHECK;
orr_status orr_estimate_cut(orr_estimator *e, const orr_plan *plan, const orr_priced_row *row,
                            const orr_stage_cut **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_estimate_pipeline(orr_estimator *e, const orr_plan *plan, const orr_stage_cut *cut,
                                 const orr_place_on *place, const orr_pipeline **ret,
                                 orr_error *err) ORR_MUST_CHECK;

/* What a transfer along an axis takes; remembered. */
double orr_estimate_transfer(orr_estimator *e, const orr_place_on *place, orr_axis axis,
                             orr_collective collective, int64_t bytes);
double orr_estimate_hop(orr_estimator *e, const orr_place_on *place, uint32_t hop, int64_t bytes);

/* A plan while it is estimated. */
typedef struct orr_estimate_sums { /* of one virtual stage of a class; times with jitter */
    double phase_ns[ORR_TURN_PHASES];
    double compute_ns, again_ns;         /* forward and backward */
    double waited_ns[ORR_WATERFALLS];
    double dense, expert, sliced, tied;  /* elements */
    double first_ns, last_ns;            /* what the first forward, the last gradient turn adds */
    double owed_first_ns, owed_last_ns;  /* what computation loses after them                   */
    double owed_ns[ORR_TURN_PHASES];     /* and after each turn                                 */
    double exposed_ns;                   /* of gradients and weights, of a micro-batch          */
    double lane_ns, lane_first_ns, lane_last_ns; /* transfers beside the last gradient turn: all;
                                          * the computation before the first; the last alone    */
    double replica_ns, replica_last_ns;  /* the same between replicas of shards */
    double always_ns;                    /* transfers beside all turns of a micro-batch */
    double ahead_ns;                     /* of both passes: what an idle stage does before      */
    double late_ns, gather_late_ns;      /* where nothing goes beside computation */
} orr_estimate_sums;
typedef struct orr_estimate_draft {
    orr_estimator        *e;
    const orr_plan       *plan;
    const orr_priced_row *row;
    const orr_place_on   *place;
    const orr_stage_cut        *cut;
    const orr_pipeline   *pipeline;
    bool                  trains, beside; /* gradients and weights go beside computation */
    double                gradient_bytes, weight_bytes; /* of an element */
    double                hop_ns[ORR_LEVELS_MAX];
    orr_estimate_sums     sums[ORR_CUT_CLASSES];
} orr_estimate_draft;
static inline bool orr_splits_backward(const orr_plan *plan)
{
    return plan->schedule == ORR_SCHEDULE_ZB_H1 || plan->schedule == ORR_SCHEDULE_ZB_V;
}
/* Adds transfers of weights and gradients to the sums. */
void orr_estimate_shards(orr_estimate_draft *d, uint32_t class_of);
typedef struct orr_step_parts {
    double step, update;
    double transfers; /* of gradients and weights, when no turn is left */
} orr_step_parts;
orr_step_parts orr_estimate_add_up(const orr_estimate_draft *d);
void orr_estimate_tell(const orr_estimate_draft *d, const orr_step_parts *parts, orr_estimate *ret);
/* The peak of the worst stage. */
orr_status orr_estimate_memory(const orr_estimate_draft *d, int64_t *ret_peak,
                               orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_PLAN_ESTIMATE_H */
