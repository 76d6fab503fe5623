/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ESTIMATE_ESTIMATE_H
#define ORR_ESTIMATE_ESTIMATE_H

#include <orrery/outcome.h>

#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/schedule/schedule.h"
#include "model/step/module_cost.h"
#include "estimate/memo.h"

/* The closed-form estimator: a training step as a sum of parts, each of which many plans share. A
 * part is built once for its key and cached; a plan then costs a few dozen multiplications.
 *
 *    row        modules of a rank with their times (orr_priced_row): priced_modules.c
 *    placement  where the groups of all axes lie on the cluster: placement.c
 *    partition  modules of each virtual stage, as classes of equal ones: stage_partition.c
 *    pipeline   the schedule as paths, which are sums of slots and hops: pipeline_paths.c
 *
 * A draft (orr_estimate_draft) is one plan while it is estimated: estimate.c finds the four parts;
 * shards.c adds transfers of weights and gradients to the sums of each class; step.c evaluates the
 * paths and adds the end of the step; waterfall.c and memory.c report; bound.c gives the lower
 * bound. */
enum {
    ORR_ROW_MODULES = 80, /* with 16 kinds of uneven routing, twice where layers see unequal parts
                           * of the text, each with and without recomputation */
    ORR_STAGE_CLASSES = 8,
    ORR_ESTIMATE_REDUCTIONS = 1024, /* most that are kept of an estimate */
    ORR_ESTIMATE_CHUNKS = 64,       /* most pieces of a reduction that a bound for any covers */
    ORR_STAGE_CLASS_ENDING = 6,
    ORR_PIPELINE_ENDS = 3,
    ORR_PIPELINE_HELD = 2 * ORR_SLOT_PHASES
};

/* A kind of module with its times, jitter not included. */
typedef struct orr_priced_module {
    uint8_t kind;
    float span_ns[ORR_SLOT_PHASES], again_ns[ORR_SLOT_PHASES], compute_ns[ORR_SLOT_PHASES];
    float waited_ns[ORR_SLOT_PHASES][ORR_WATERFALLS];
    float slowed_ns[ORR_SLOT_PHASES]; /* what computation certainly loses beside its transfers in a
                                       * pair of slots */
    float tasks[ORR_SLOT_PHASES], device_ns[ORR_SLOT_PHASES]; /* span without waits for the host */
    float kernels[ORR_SLOT_PHASES]; /* number of host launches; 0: one graph */
    orr_module_weights weights;
    orr_module_memory memory;
    orr_module_time nominal;
} orr_priced_module;
typedef struct orr_priced_row {
    uint32_t id;
    uint32_t shape_id;          /* equal for rows with equal modules at equal places */
    orr_module_sequence row;    /* without tapes */
    orr_priced_module *modules; /* shape (row.n_modules) */
    orr_row_ends ends;
    int64_t buffer_bytes[4]; /* communication buffers, by stage: middle, first, last, both */
    double sample_flops;     /* of the model, forward pass */
    float pair_saved_frac;   /* share of a forward and backward slot that a pair saves */
    double bound_stretch;    /* stretch for which bound_ns was computed; 0: not yet */
    float (*bound_ns)[ORR_SLOT_PHASES]; /* shape (n_modules): lower bound of each phase */
} orr_priced_row;

/* Modules before pricing. Few are cached: families that differ in prices alone are estimated in
 * sequence. */
enum { ORR_CACHED_MODULES = 8 };
typedef struct orr_cached_modules {
    orr_memo_key key;
    uint64_t used; /* last use; 0: the slot is empty */
    orr_arena *arena;
    orr_module_sequence row;
    orr_module_weights weights[ORR_ROW_MODULES];
    orr_module_memory memory[ORR_ROW_MODULES];
    double sample_flops;
} orr_cached_modules;

/* A kind of device that ranks run on. */
typedef struct orr_estimate_device {
    const orr_device *device;
    const orr_calibration *calibration;
    orr_job_rates rates; /* rates of its kernels */
    double peak_flops[ORR_DTYPES];
    int64_t usable_bytes;
} orr_estimate_device;
/* Devices of the stages of a pipeline. Pipelines of a plan have different patterns where their
 * replicas are on different devices, or have unequally many micro-batches. */
typedef struct orr_device_pattern {
    uint8_t n, device[ORR_SITES_MAX + 1]; /* shape (n): indices into the estimator's devices */
    const uint8_t *of_stage; /* shape (pp): index into `device`; NULL: all stages on the first */
    uint32_t micro_batches;  /* of the replicas; 0: as the plan says */
} orr_device_pattern;

typedef struct orr_placement {
    orr_step_prices
        prices; /* without jitter; kernels are those of the first pattern's first device */
    const orr_device_pattern *patterns; /* shape (n_patterns) */
    uint32_t n_patterns;
    orr_span hop[ORR_LEVELS_MAX]; /* distinct hops between stages */
    uint32_t span_id[ORR_AXES];   /* equal for equal spans at equal rates */
    uint32_t sums_id[ORR_AXES];   /* the same for reductions */
    uint32_t hop_id[ORR_LEVELS_MAX], n_hops;
    uint32_t far_hops; /* packed; see orr_far_hop() */
    uint8_t *hop_of;   /* shape (pp): hop from stage s to the next */
    double stretch;
    double world_ns, min_world_ns; /* rendezvous of all ranks; min_world_ns: at the rates of the
                                      fastest device */
} orr_placement;

/* Length of a hop between sites relative to the longest one, quantised to steps of sqrt(2) in four
 * bits for each hop; 0: within a site. Typical lengths of paths scale with it. */
static inline float orr_far_hop(uint32_t far_hops, uint32_t kind)
{
    const uint32_t steps = far_hops >> 4 * kind & 15;
    static const float LENGTHS[16] = {0,      1,      0.707F, 0.5F,   0.354F, 0.25F,
                                      0.177F, 0.125F, 0.088F, 0.063F, 0.044F, 0.031F,
                                      0.022F, 0.016F, 0.011F, 0.008F};
    return LENGTHS[steps];
}

/* Virtual stages with equal modules. */
typedef struct orr_stage_class {
    uint16_t count[ORR_ROW_MODULES];
    uint16_t min_count[ORR_ROW_MODULES]; /* minimum over all kinds that had to share the class */
    uint32_t first_place, end_place;     /* of one of them */
    uint32_t virtual_stage;              /* the first of them */
    uint32_t n, n_places;
    uint8_t ending[ORR_STAGE_CLASS_ENDING]; /* modules of the last places, last one first */
    uint32_t n_ending;
    uint8_t middle;         /* its most frequent module */
    const uint8_t *modules; /* shape (n_places): of one of them */
    uint8_t device;         /* index into the pattern */
} orr_stage_class;
typedef struct orr_stage_partition {
    uint32_t id, stages, chunks, virtual_stages, n_classes;
    uint8_t *class_of; /* shape (virtual_stages) */
    float
        relative_time[ORR_SITES_MAX + 1]; /* of the pattern's devices: time relative to the first */
    orr_stage_class classes[ORR_STAGE_CLASSES];
} orr_stage_partition;

/* Features of a path through the slots of a pipeline: how often it passes each phase of each class,
 * the first forward and the last gradient slot, the stall after a slot, and each kind of hop. The
 * length of a path is the dot product of its counts with the lengths of the features. */
enum {
    ORR_FEATURE_FIRST = ORR_SLOT_PHASES, /* of a class: extra time of its first forward slot */
    ORR_FEATURE_LAST,                    /* extra time of its last gradient slot */
    ORR_FEATURE_STALL,                   /* stall after a slot, by phase */
    ORR_FEATURE_STALL_FIRST = ORR_FEATURE_STALL + ORR_SLOT_PHASES,
    ORR_FEATURE_STALL_LAST,
    ORR_CLASS_FEATURES,
    ORR_FEATURE_PAIR = ORR_STAGE_CLASSES * ORR_CLASS_FEATURES, /* two slots executed at once */
    ORR_FEATURE_HOP,                                           /* one for each kind of hop */
    ORR_FEATURES = 112 /* a multiple of 8, for vector instructions */
};
_Static_assert((int)ORR_FEATURE_HOP + (int)ORR_LEVELS_MAX <= (int)ORR_FEATURES,
               "room for every hop");
enum { ORR_AFTERS = ORR_STAGE_CLASSES * ORR_SLOT_PHASES };
typedef struct orr_schedule_path {
    float count[ORR_FEATURES];
    float after[ORR_AFTERS]; /* of its slots, those that begin when the slot before them on their
                                stage ends */
    bool proven;             /* the path is known to exist in the full schedule */
} orr_schedule_path;
/* Slots of a stage in which transfers of gradients are issued; paths to them are kept. */
typedef enum orr_slot_event {
    ORR_SLOT_EVENT_LAST_GRADIENT,  /* of the last gradient slots of all chunks, the first; with
                                      several chunks */
    ORR_SLOT_EVENT_FIRST_GRADIENT, /* the first gradient slot; for ZeRO 2 */
    ORR_SLOT_EVENTS
} orr_slot_event;
/* Micro-batches in flight on a stage, when they are most. */
typedef struct orr_peak_in_flight {
    uint32_t kept,
        apart; /* of a chunk: waiting for their backward pass; for their weight gradients */
} orr_peak_in_flight;
typedef struct orr_pipeline {
    orr_schedule_path *paths[ORR_PIPELINE_ENDS];
    uint32_t n_paths[ORR_PIPELINE_ENDS];
    uint32_t end_stage[ORR_PIPELINE_ENDS], n_ends;
    orr_peak_in_flight
        *held[ORR_PIPELINE_HELD];    /* shape (stages x chunks), two for each phase: at the begin of
                                        one of its slots; NULL: no such slot */
    float *after[ORR_PIPELINE_ENDS]; /* shape (chunks): number of backward slots from the last
                                        gradient slot of the chunk to the end of the last slot */
    orr_schedule_path
        *to[ORR_PIPELINE_ENDS][ORR_SLOT_EVENTS]; /* paths to the begin of those slots */
    uint32_t n_to[ORR_PIPELINE_ENDS][ORR_SLOT_EVENTS];
    uint8_t class_at[ORR_PIPELINE_ENDS][ORR_SLOT_EVENTS];
    orr_schedule_path
        *ending; /* shape (n_ends): the last slot of the stage and the stall after it */
    uint8_t class_ending[ORR_PIPELINE_ENDS];
    orr_schedule_path *busy; /* shape (n_ends): all slots of the stage */
} orr_pipeline;

/* Prices of the modules of the row whose slots were paired last (dualpipe_pairs.c). */
typedef struct orr_paired_costs {
    orr_memo_key key;
    orr_arena *arena;
    orr_module_cost costs[ORR_ROW_MODULES];
} orr_paired_costs;

struct orr_estimator {
    orr_arena *arena, *scratch;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_job_options options;
    orr_job_rates rates; /* of the whole cluster */
    orr_memo rows, shapes, places, spans, known_rates, splits, cuts, pipelines, pairs;
    orr_memo_price *prices;                         /* shape (ORR_MEMO_PRICES) */
    orr_estimate_device devices[ORR_SITES_MAX + 1]; /* the first is the cluster's */
    uint32_t n_devices;
    orr_cached_modules built[ORR_CACHED_MODULES];
    orr_paired_costs paired;
    uint64_t n_built; /* number of requests for modules */
    bool any_reductions;
    double *reductions; /* shape (n_reductions): ns of each transfer of gradients or weights that
                         * the last estimate asked for, in the order of asking */
    uint32_t n_reductions;
};
/* With `any` bounds hold for every plan that differs from the one given in how gradients and
 * weights travel only: dp_algorithm, dp_chunks, bucket_bytes and prefetch. Estimates then count the
 * cheapest algorithm. */
void orr_estimate_any_reductions(orr_estimator *e, bool any);

/* The plan as pipelines of a pattern see it. */
orr_plan orr_estimate_plan_of(const orr_plan *plan, const orr_device_pattern *pattern);
/* Tokens of a sample. */
uint32_t orr_estimate_sequence(const orr_estimator *e, const orr_plan *plan);
/* The result lives in the estimator's arena. */
orr_status orr_estimate_row(orr_estimator *e, const orr_plan *plan, const orr_placement *place,
                            uint32_t device, const orr_priced_row **ret,
                            orr_error *err) ORR_MUST_CHECK;
/* Fields of a plan that say how modules save and cache values, as part of a key. */
static inline uint32_t orr_estimate_saving(const orr_plan *p)
{
    return p->cross_entropy_loss_fusion | (uint32_t)p->activation_func_fp8_input_store << 2 |
           (uint32_t)p->kv_cache_dtype << 4 | (uint32_t)p->recompute_modules << 16;
}
/* Whether the plan asks for a placement of experts, which is made for the hosts that its ranks are
 * on; and the order of its axes then, as part of a key. */
static inline bool orr_estimate_places(const orr_plan *p)
{
    return p->ep > 1 && (p->expert_slots > 0 || p->expert_policy > 0);
}
static inline uint32_t orr_estimate_order(const orr_plan *p)
{
    uint32_t order = 0;
    for (uint32_t i = 0; i < ORR_BASE_AXES && orr_estimate_places(p); i++)
        order = order << 8 | p->order[i];
    return order;
}
/* The plan on as few ranks as can have its slices: its modules are those of the plan. */
orr_plan orr_estimate_fewest_ranks(const orr_model *model, const orr_plan *plan);
/* Valid until the small cache needs its place. */
orr_status orr_estimate_modules(orr_estimator *e, const orr_plan *plan,
                                const orr_cached_modules **ret, orr_error *err) ORR_MUST_CHECK;
/* Index of a device among those of the estimator. */
orr_status orr_estimate_device_of(orr_estimator *e, const orr_device *device, uint32_t *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* A copy of the rates in the estimator's arena, shared between equal networks. */
orr_status orr_estimate_keep_rates(orr_estimator *e, const orr_job_rates *rates,
                                   const orr_job_rates **ret, orr_error *err) ORR_MUST_CHECK;
/* Number that identifies the span of a group and its rates; 0 for groups of one. */
orr_status orr_estimate_span_id(orr_estimator *e, const orr_job_rates *rates, const orr_span *span,
                                uint32_t *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_estimate_placement(orr_estimator *e, const orr_plan *plan, const orr_placement **ret,
                                  orr_error *err) ORR_MUST_CHECK;
orr_status orr_estimate_partition(orr_estimator *e, const orr_plan *plan, const orr_priced_row *row,
                                  const orr_placement *place, const orr_device_pattern *pattern,
                                  const orr_stage_partition **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_estimate_pipeline(orr_estimator *e, const orr_plan *plan,
                                 const orr_stage_partition *partition, const orr_placement *place,
                                 const orr_pipeline **ret, orr_error *err) ORR_MUST_CHECK;

/* Time of a transfer along an axis; cached. */
double orr_estimate_transfer(orr_estimator *e, const orr_placement *place, orr_axis axis,
                             orr_collective collective, int64_t bytes);
double orr_estimate_hop(orr_estimator *e, const orr_placement *place, uint32_t hop,
                        orr_collective collective, int64_t bytes);

/* Sums over the modules of one virtual stage of a class; times with jitter. */
typedef struct orr_estimate_sums { /* of a class */
    double phase_ns[ORR_SLOT_PHASES];
    double compute_ns, again_ns; /* forward and backward */
    double waited_ns[ORR_WATERFALLS];
    double dense, expert, sliced, tied; /* parameters */
    double first_ns, last_ns; /* extra time of the first forward and the last gradient slot */
    double stall_first_ns, stall_last_ns; /* stall after them */
    double stall_ns[ORR_SLOT_PHASES];     /* stall after each slot */
    double exposed_ns;                    /* transfers of gradients and weights, of a micro-batch */
    double lane_ns, lane_first_ns, lane_last_ns; /* transfers beside the last gradient slot: all;
                                                    computation before the first; the last alone */
    double replica_ns, replica_last_ns;          /* the same between replicas of shards */
    double always_ns;                            /* transfers beside all slots of a micro-batch */
    double ahead_ns;                /* of both passes: what an idle stage does in advance */
    double late_ns, gather_late_ns; /* without overlap */
} orr_estimate_sums;
/* Time of a pair, a forward slot of one class and a backward slot of another at once,
 * without host time; 0: no stage has these two. */
typedef struct orr_overlapped_slot_pairs {
    float ns[ORR_STAGE_CLASSES][ORR_STAGE_CLASSES];
} orr_overlapped_slot_pairs;
typedef struct orr_step_parts {
    double before, after,
        rest; /* before the rendezvous of all ranks; after it on stages; constants */
    double step, update;
    double transfers; /* of gradients and weights, after the last slot */
} orr_step_parts;
/* The end of a step on a stage: remaining reductions, optimizer, averaging between outer parts of
 * dp. */
typedef struct orr_stage_tail {
    double sums_ns, update_ns, meets_ns;
    double more_ns; /* what the device adds beyond the pattern's first device */
} orr_stage_tail;
typedef struct orr_estimate_draft {
    orr_estimator *e;
    const orr_plan *plan;
    const orr_priced_row
        *row; /* on the pattern's first device; weights and memory are the same on all */
    const orr_priced_row *rows[ORR_SITES_MAX + 1]; /* shape (pattern->n) */
    const orr_device_pattern *pattern;
    const orr_placement *place;
    const orr_stage_partition *partition;
    const orr_pipeline *pipeline;
    bool trains,
        overlaps; /* `overlaps`: transfers of gradients and weights overlap with computation */
    double gradient_bytes, weight_bytes; /* of an element */
    double hop_ns[ORR_LEVELS_MAX];
    orr_estimate_sums sums[ORR_STAGE_CLASSES];
    orr_stage_tail tails[ORR_PIPELINE_ENDS];
    orr_step_parts parts;
    const orr_overlapped_slot_pairs *pairs; /* NULL: no pairs */
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
static inline bool orr_splits_backward(const orr_plan *plan)
{
    return plan->schedule == ORR_SCHEDULE_ZB_H1 || plan->schedule == ORR_SCHEDULE_ZB_V;
}
/* Adds the transfers of weights and gradients to the sums of a class. */
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
/* Lower bound of a step, before and after the rendezvous of all ranks. */
typedef struct orr_bound_parts {
    double before, after;
} orr_bound_parts;
/* Raises the bound by that of one pipeline. */
void orr_estimate_bound(const orr_estimate_draft *d, orr_bound_parts *parts);
/* Of the pipelines so far; the draft is the last of them. */
double orr_bound_sum(const orr_estimate_draft *d, const orr_bound_parts *parts);
/* Time of a phase of a module whose device work is lengthened by `stretch`: the host that launches
 * it is not, and both are combined anew, as in orr_job_rates_launch_wait(). */
double orr_estimate_span(const orr_calibration *c, double stretch, const orr_priced_module *module,
                         int phase);
/* Lower bound of a phase of a module whose device work is lengthened by `stretch`. */
double orr_estimate_phase_bound(const orr_calibration *calibration, const orr_plan *plan,
                                double stretch, const orr_priced_module *module, int phase);
/* Order-free lower bound of all plans with these degrees, layout and schedule (bound_order_free.c),
 * whatever they shard. With `anywhere` hops take no time, so that for a plan whose slices are
 * neighbours it holds for all layouts. A schedule with pairs costs a simulation of each pair of
 * classes, once for a row: about 50 us, then a microsecond as the others; `quick`: a lower bound
 * of the pairs in its place. */
orr_status orr_estimate_order_free_bound(orr_estimator *e, const orr_plan *plan, bool anywhere,
                                         bool quick, double *ret_ns, orr_error *err) ORR_MUST_CHECK;
/* What plans with given degrees may use to have room. */
typedef struct orr_degrees_scope {
    uint8_t zeros;             /* a bit for each ZeRO stage */
    uint8_t gradients;         /* orr_precision: the narrowest, where the plan says none */
    bool offloads_activations; /* optimizer states are taken to be on the host anyway */
    bool other_sums; /* reductions may be cut, compressed or left out (dp_chunks, compress,
                      * local_steps): no transfers of gradients or weights are counted */
    double slack;    /* by which memory may be over, as in the search */
} orr_degrees_scope;
/* The same with what memory forces (bound_degrees.c): transfers of ZeRO 2 and 3 where gradients, or
 * weights, have no room as a whole, and layers that have to be computed again. INFINITY: no plan
 * has room. It rests on the estimate of memory, as the search does. Layers of the ends are as
 * given, or by cost. Some ten us, once what it rests on is cached. */
orr_status orr_estimate_degrees_bound(orr_estimator *e, const orr_plan *plan,
                                      const orr_degrees_scope *scope, bool anywhere, double *ret_ns,
                                      orr_error *err) ORR_MUST_CHECK;
/* Memory of the stage that exceeds its device most, or comes closest to it. */
typedef struct orr_stage_peak {
    int64_t bytes, usable_bytes; /* usable_bytes -1: unknown */
} orr_stage_peak;
orr_status orr_estimate_memory(const orr_estimate_draft *d, orr_stage_peak *ret,
                               orr_error *err) ORR_MUST_CHECK;

/* Family bound: lower bound of the step of all plans with these modules on at most so many devices,
 * whatever their stages, replicas and schedule (bound_family.c). Pairs of slots hide transfers that
 * others wait for, and have a lower bound; if the plan names a schedule, its bound is given. The
 * order of axes is that of the plan, or, without one, tp innermost. 4 us, once modules are priced.
 */
orr_status orr_estimate_family_bound(orr_estimator *e, const orr_plan *plan, uint32_t n_devices,
                                     double *ret_ns, orr_error *err) ORR_MUST_CHECK;

/* The plans of a family that a search has. */
typedef struct orr_family_scope {
    uint32_t n_devices;     /* most */
    const uint32_t *stages; /* shape (n_stages): values of pp */
    uint32_t n_stages;
    uint32_t schedules; /* a bit for each orr_schedule */
    orr_degrees_scope degrees;
} orr_family_scope;
/* The same, refined: the least bound of degrees of all stages, replicas and schedules in any layout
 * (bound_stages.c). INFINITY: no plan of the family has room. At least the family bound, which it
 * is where devices are of several kinds, or the plan has sections. On a flat cluster; milliseconds.
 */
orr_status orr_estimate_refined_family_bound(orr_estimator *e, const orr_plan *plan,
                                             const orr_family_scope *scope, double *ret_ns,
                                             orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ESTIMATE_ESTIMATE_H */
