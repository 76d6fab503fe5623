/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ESTIMATE_ESTIMATE_H
#define ORR_ESTIMATE_ESTIMATE_H

#include <orrery/outcome.h>

#include "model/memory/memory.h"
#include "model/schedule/schedule.h"
#include "model/step/module_cost.h"
#include "estimate/memo.h"

/* A step in closed form, out of four things that many plans have in common:
 *
 *   row       the modules of one rank, priced and weighed: by slices, micro-batch, precision...
 *   place     where the groups of all axes lie on the cluster: by degrees and order
 *   cut       which modules are on which virtual stage, as classes of alike ones: by pp, vp
 *   pipeline  how slots of these classes add up to a step: by schedule and micro-batches
 *
 * Each is built once and kept; a plan then is a few dozen multiplications. */
enum {
    ORR_ROW_MODULES = 24,
    ORR_STAGE_CLASSES = 8,
    ORR_STAGE_CLASS_ENDING = 6,
    ORR_PIPELINE_ENDS = 3,
    ORR_PIPELINE_HELD = 2 * ORR_SLOT_PHASES
};

/* One kind of module. Times are without jitter. */
typedef struct orr_priced_module {
    uint8_t kind;
    float span_ns[ORR_SLOT_PHASES], again_ns[ORR_SLOT_PHASES], compute_ns[ORR_SLOT_PHASES];
    float waited_ns[ORR_SLOT_PHASES][ORR_WATERFALLS];
    float tasks[ORR_SLOT_PHASES],
        settled_ns[ORR_SLOT_PHASES]; /* of which the host launches them;
                                      * and what they take that wait for one another              */
    float kernels[ORR_SLOT_PHASES];  /* that the host launches; 0: as a graph                */
    orr_module_weights weights;
    orr_module_memory memory;
} orr_priced_module;
typedef struct orr_priced_row {
    uint32_t id;
    uint32_t shape_id;          /* the same for rows with the same modules at the same places */
    orr_module_sequence row;    /* without tapes */
    orr_priced_module *modules; /* shape (row.n_modules) */
    int64_t buffer_bytes[4];    /* visible: with neither end, the first, the last, both */
    double sample_flops;        /* of the model, forward                                */
    float pair_saved_frac;      /* of a forward and a backward slot that run at once    */
    double least_stretch;       /* for which least_ns is; 0: none yet                   */
    float (*least_ns)[ORR_SLOT_PHASES]; /* shape (n_modules): what a phase takes at least */
} orr_priced_row;

/* Modules before they are priced: families of plans that differ in prices alone are asked about one
 * after another. */
enum { ORR_CACHED_MODULES = 8 };
typedef struct orr_cached_modules {
    orr_memo_key key;
    uint64_t used; /* when it was asked for last; 0: it is none */
    orr_arena *arena;
    orr_module_sequence row;
    orr_module_weights weights[ORR_ROW_MODULES];
    orr_module_memory memory[ORR_ROW_MODULES];
    double sample_flops;
} orr_cached_modules;

/* A kind of device that ranks are on. */
typedef struct orr_estimate_device {
    const orr_device *device;
    const orr_calibration *calibration;
    orr_job_rates rates; /* of kernels */
    double peak_flops[ORR_DTYPES];
    int64_t usable_bytes;
} orr_estimate_device;
/* What the stages of a pipeline are on. Pipelines of a plan differ in it where replicas of one are
 * on other devices than those of another. */
typedef struct orr_device_pattern {
    uint8_t n, device[ORR_SITES_MAX + 1]; /* shape (n): of the estimator's */
    const uint8_t *of_stage; /* shape (pp): index into `device`; NULL: all on the first */
} orr_device_pattern;

typedef struct orr_placement {
    orr_step_prices prices;             /* no jitter; kernels of the first pattern's first device */
    const orr_device_pattern *patterns; /* shape (n_patterns) */
    uint32_t n_patterns;
    orr_span hop[ORR_LEVELS_MAX]; /* that occur between stages */
    uint32_t span_id[ORR_AXES];   /* equal for alike spans at alike rates */
    uint32_t sums_id[ORR_AXES];   /* the same, of reductions              */
    uint32_t hop_id[ORR_LEVELS_MAX], n_hops;
    uint32_t far_hops; /* see orr_far_hop() */
    uint8_t *hop_of;   /* shape (pp): of stage s to the next */
    double stretch, slowdown;
    double world_ns, least_world_ns; /* least: at the rates of whichever device */
} orr_placement;

/* Hops between sites over the longest of them, in steps of the root of two: four bits for each kind
 * of hop, 0: within a site. Paths are looked for with lengths like these. */
static inline float orr_far_hop(uint32_t far_hops, uint32_t kind)
{
    const uint32_t steps = far_hops >> 4 * kind & 15;
    static const float LENGTHS[16] = {0,      1,      0.707F, 0.5F,   0.354F, 0.25F,
                                      0.177F, 0.125F, 0.088F, 0.063F, 0.044F, 0.031F,
                                      0.022F, 0.016F, 0.011F, 0.008F};
    return LENGTHS[steps];
}

/* Virtual stages with the same modules. */
typedef struct orr_stage_class {
    uint16_t count[ORR_ROW_MODULES];
    uint16_t least[ORR_ROW_MODULES]; /* of all that had to share the class */
    uint32_t first_place, end_place; /* of one of them */
    uint32_t virtual_stage;          /* the first of them */
    uint32_t n, n_places;
    uint8_t ending[ORR_STAGE_CLASS_ENDING]; /* modules of its last places, from the last on */
    uint32_t n_ending;
    uint8_t middle;         /* the module that it has most of */
    const uint8_t *modules; /* shape (n_places): of one of them */
    uint8_t device;         /* of the pattern */
} orr_stage_class;
typedef struct orr_stage_partition {
    uint32_t id, stages, chunks, virtual_stages, n_classes;
    uint8_t *class_of; /* shape (virtual_stages) */
    float relative_time[ORR_SITES_MAX +
                        1]; /* of the pattern's devices: what they take over the first */
    orr_stage_class classes[ORR_STAGE_CLASSES];
} orr_stage_partition;

/* Features of a path through the slots of a pipeline: how often it goes through each phase of each
 * class, through the first forward and the last backward slots, through what a stage pays after a
 * slot before it begins the next, and from stage to stage. */
enum {
    ORR_FEATURE_FIRST = ORR_SLOT_PHASES, /* of a class: what its first forward slot takes longer */
    ORR_FEATURE_LAST,                    /* what the last slot that gives gradients takes longer */
    ORR_FEATURE_OWED,                    /* after a slot of each phase                           */
    ORR_FEATURE_OWED_FIRST = ORR_FEATURE_OWED + ORR_SLOT_PHASES,
    ORR_FEATURE_OWED_LAST,
    ORR_CLASS_FEATURES,
    ORR_FEATURE_PAIR = ORR_STAGE_CLASSES * ORR_CLASS_FEATURES, /* two slots at once */
    ORR_FEATURE_HOP,                                           /* one for each kind of hop */
    ORR_FEATURES = 112                                         /* a multiple of 8, for vectors */
};
_Static_assert((int)ORR_FEATURE_HOP + (int)ORR_LEVELS_MAX <= (int)ORR_FEATURES,
               "room for every hop");
enum { ORR_AFTERS = ORR_STAGE_CLASSES * ORR_SLOT_PHASES };
typedef struct orr_schedule_path {
    float count[ORR_FEATURES];
    float after[ORR_AFTERS]; /* of its slots, those that come after the one before
                              * them on their stage                                       */
    bool sure;               /* a path of the whole step, not of one that repeats         */
} orr_schedule_path;
/* Turns of a stage to which paths are kept, because transfers set out in them. */
typedef enum orr_slot_event {
    ORR_SLOT_EVENT_LAST_GRADIENT,  /* the first that is the last to give those of a chunk, where
                                      there are several */
    ORR_SLOT_EVENT_FIRST_GRADIENT, /* the first that gives gradients: where that is asked for */
    ORR_SLOT_EVENTS
} orr_slot_event;
/* What a stage holds when it holds most. */
typedef struct orr_peak_in_flight {
    uint32_t kept, apart; /* micro-batches of a chunk */
} orr_peak_in_flight;
typedef struct orr_pipeline {
    orr_schedule_path *paths[ORR_PIPELINE_ENDS];
    uint32_t n_paths[ORR_PIPELINE_ENDS];
    uint32_t end_stage[ORR_PIPELINE_ENDS], n_ends;
    orr_peak_in_flight
        *held[ORR_PIPELINE_HELD];    /* shape (stages x chunks), two for each phase: at the
                                      * beginning of one of its slots; NULL: it has none     */
    float *after[ORR_PIPELINE_ENDS]; /* shape (chunks): so many backward slots go by from the
                                      * last that gives the chunk's gradients to the last of all */
    orr_schedule_path
        *to[ORR_PIPELINE_ENDS][ORR_SLOT_EVENTS]; /* paths to the beginning of those slots      */
    uint32_t n_to[ORR_PIPELINE_ENDS][ORR_SLOT_EVENTS];
    uint8_t class_at[ORR_PIPELINE_ENDS][ORR_SLOT_EVENTS];
    orr_schedule_path
        *ending; /* shape (n_ends): the last slot of the stage, and what is paid after it */
    uint8_t class_ending[ORR_PIPELINE_ENDS];
    orr_schedule_path *busy; /* shape (n_ends): through all slots of the stage */
} orr_pipeline;

struct orr_estimator {
    orr_arena *arena, *scratch;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_job_options options;
    orr_job_rates rates; /* of the whole cluster */
    orr_memo rows, shapes, places, spans, known_rates, cuts, pipelines, pairs;
    orr_memo_price *prices;                         /* shape (ORR_MEMO_PRICES) */
    orr_estimate_device devices[ORR_SITES_MAX + 1]; /* the first is the cluster's */
    uint32_t n_devices;
    orr_cached_modules built[ORR_CACHED_MODULES];
    uint64_t n_built; /* how often one was asked for */
};

/* Tokens of a sample. */
uint32_t orr_estimate_sequence(const orr_estimator *e, const orr_plan *plan);
/* In the estimator's arena, until it is freed. */
orr_status orr_estimate_row(orr_estimator *e, const orr_plan *plan, const orr_placement *place,
                            uint32_t device, const orr_priced_row **ret,
                            orr_error *err) ORR_MUST_CHECK;
/* The same slices on as few ranks as can have them: their modules are those of the plan. */
orr_plan orr_estimate_fewest_ranks(const orr_model *model, const orr_plan *plan);
/* Until as many others were built. */
orr_status orr_estimate_modules(orr_estimator *e, const orr_plan *plan,
                                const orr_cached_modules **ret, orr_error *err) ORR_MUST_CHECK;
/* Index of a device among the estimator's. */
orr_status orr_estimate_device_of(orr_estimator *e, const orr_device *device, uint32_t *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* The same rates, in the estimator's arena; those of alike networks are one. */
orr_status orr_estimate_keep_rates(orr_estimator *e, const orr_job_rates *rates,
                                   const orr_job_rates **ret, orr_error *err) ORR_MUST_CHECK;
/* A number for how a group lies and at what rates; 0 for groups of one. */
orr_status orr_estimate_span_id(orr_estimator *e, const orr_job_rates *rates, const orr_span *span,
                                uint32_t *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_estimate_placement(orr_estimator *e, const orr_plan *plan, const orr_placement **ret,
                                  orr_error *err) ORR_MUST_CHECK;
orr_status orr_estimate_partition(orr_estimator *e, const orr_plan *plan, const orr_priced_row *row,
                                  const orr_device_pattern *pattern,
                                  const orr_stage_partition **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_estimate_pipeline(orr_estimator *e, const orr_plan *plan,
                                 const orr_stage_partition *cut, const orr_placement *place,
                                 const orr_pipeline **ret, orr_error *err) ORR_MUST_CHECK;

/* What a transfer along an axis takes; remembered. */
double orr_estimate_transfer(orr_estimator *e, const orr_placement *place, orr_axis axis,
                             orr_collective collective, int64_t bytes);
double orr_estimate_hop(orr_estimator *e, const orr_placement *place, uint32_t hop,
                        orr_collective collective, int64_t bytes);

/* A plan while it is estimated. */
typedef struct orr_estimate_sums { /* of one virtual stage of a class; times with jitter */
    double phase_ns[ORR_SLOT_PHASES];
    double compute_ns, again_ns; /* forward and backward */
    double waited_ns[ORR_WATERFALLS];
    double dense, expert, sliced, tied; /* elements */
    double first_ns, last_ns;           /* what the first forward, the last gradient slot adds */
    double owed_first_ns, owed_last_ns; /* what computation loses after them                   */
    double owed_ns[ORR_SLOT_PHASES];    /* and after each slot                                 */
    double exposed_ns;                  /* of gradients and weights, of a micro-batch          */
    double lane_ns, lane_first_ns,
        lane_last_ns;                   /* transfers beside the last gradient slot: all;
                                         * the computation before the first; the last alone    */
    double replica_ns, replica_last_ns; /* the same between replicas of shards */
    double always_ns;                   /* transfers beside all slots of a micro-batch */
    double ahead_ns;                    /* of both passes: what an idle stage does before      */
    double late_ns, gather_late_ns;     /* where nothing goes beside computation */
} orr_estimate_sums;
/* A forward slot of one class and a backward slot of another at once, without what they cost the
 * host; 0: no stage has these two. */
typedef struct orr_overlapped_slot_pairs {
    float ns[ORR_STAGE_CLASSES][ORR_STAGE_CLASSES];
} orr_overlapped_slot_pairs;
typedef struct orr_step_parts {
    double before, after, rest; /* before all ranks meet; what stages do then; what all pay */
    double step, update;
    double transfers; /* of gradients and weights, when no slot is left */
} orr_step_parts;
/* What a stage does after its last slot: sums of what is still apart; optimizer; what outer parts
 * of dp send one another. */
typedef struct orr_stage_tail {
    double sums_ns, update_ns, meets_ns;
    double more_ns; /* that a step on its device costs beside all else, more than on the pattern's
                       first */
} orr_stage_tail;
typedef struct orr_estimate_draft {
    orr_estimator *e;
    const orr_plan *plan;
    const orr_priced_row *row; /* of the pattern's first device: weights and memory are the same */
    const orr_priced_row *rows[ORR_SITES_MAX + 1]; /* shape (pattern->n) */
    const orr_device_pattern *pattern;
    const orr_placement *place;
    const orr_stage_partition *cut;
    const orr_pipeline *pipeline;
    bool trains, beside;                 /* gradients and weights go beside computation */
    double gradient_bytes, weight_bytes; /* of an element */
    double hop_ns[ORR_LEVELS_MAX];
    orr_estimate_sums sums[ORR_STAGE_CLASSES];
    orr_stage_tail tails[ORR_PIPELINE_ENDS];
    orr_step_parts parts;
    const orr_overlapped_slot_pairs *pairs; /* DualPipe */
} orr_estimate_draft;
static inline const orr_priced_row *orr_draft_row(const orr_estimate_draft *d,
                                                  const orr_stage_class *class)
{
    return d->rows[class->device];
}
static inline const orr_estimate_device *orr_draft_device(const orr_estimate_draft *d,
                                                          const orr_stage_class *class)
{
    return &d->e->devices[d->pattern->device[class->device]];
}
/* Of computation beside transfers: the simulation has one for all, that of the job's device. */
static inline double orr_draft_slowdown(const orr_estimate_draft *d)
{
    return d->place->slowdown;
}
static inline bool orr_splits_backward(const orr_plan *plan)
{
    return plan->schedule == ORR_SCHEDULE_ZB_H1 || plan->schedule == ORR_SCHEDULE_ZB_V;
}
/* Adds transfers of weights and gradients to the sums. */
void orr_estimate_shards(orr_estimate_draft *d, uint32_t class_of);
double orr_schedule_path_ns(const orr_schedule_path *path, const float *features,
                            uint32_t n_classes);
orr_step_parts orr_estimate_add_up(const orr_estimate_draft *d);
void orr_estimate_report(const orr_estimate_draft *d, const orr_step_parts *parts,
                         orr_estimate *ret);
orr_status orr_estimate_overlapped_pairs(const orr_estimate_draft *d,
                                         const orr_overlapped_slot_pairs **ret,
                                         orr_error *err) ORR_MUST_CHECK;
orr_stage_tail orr_estimate_tail(const orr_estimate_draft *d, uint32_t end);
/* What no simulation's step is below: before all ranks meet, and after that. */
typedef struct orr_bound_parts {
    double before, after;
} orr_bound_parts;
/* Raised by what a pipeline takes at least. */
void orr_estimate_bound(const orr_estimate_draft *d, orr_bound_parts *parts);
double orr_bound_sum(const orr_bound_parts *parts);
/* What a phase of a module takes at least, among so many ranks that all takes `stretch` as long. */
double orr_estimate_phase_bound(const orr_calibration *calibration, const orr_plan *plan,
                                double stretch, const orr_priced_module *module, int phase);
/* The same without the order of slots: for all plans with these degrees, layout and schedule. 0:
 * nothing is known. `anywhere`: where hops take no time, so that of a plan whose slices are
 * neighbours it holds for all layouts. */
orr_status orr_estimate_order_free_bound(orr_estimator *e, const orr_plan *plan, bool anywhere,
                                         double *ret_ns, orr_error *err) ORR_MUST_CHECK;
/* Of the stage that is over what its device has, or comes nearest to it. */
typedef struct orr_stage_peak {
    int64_t bytes, usable_bytes; /* usable: -1: not known */
} orr_stage_peak;
orr_status orr_estimate_memory(const orr_estimate_draft *d, orr_stage_peak *ret,
                               orr_error *err) ORR_MUST_CHECK;

/* Least step of any plan with these modules on so many devices or less, whatever its stages,
 * replicas and schedule: all that is computed, and waited for within it, spread evenly over the
 * devices, and what every step pays. Of the schedules DUALPIPE hides what the others wait for, and
 * its floor is lower: where the plan names a schedule, it is that one's. In the plan's order;
 * without one, in orders with tp innermost. */
orr_status orr_estimate_family_bound(orr_estimator *e, const orr_plan *plan, uint32_t n_devices,
                                     double *ret_ns, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ESTIMATE_ESTIMATE_H */
