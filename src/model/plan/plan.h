/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_PLAN_PLAN_H
#define ORR_MODEL_PLAN_PLAN_H

#include <orrery/ensemble.h>
#include <orrery/machine.h>
#include <orrery/plan.h>

/* A plan's fields by index, for loops over all of them (parser, printer, search). NULL: no field
 * of that index or name. */
enum {
#define ORR_COUNT_NUMBER_(name, text)       +1
#define ORR_COUNT_CHOICE_(name, type, text) +1
    ORR_PLAN_NUMBERS = 0 ORR_PLAN_MAP(ORR_COUNT_NUMBER_),
    ORR_PLAN_CHOICES = 0 ORR_PLAN_CHOICE_MAP(ORR_COUNT_CHOICE_),
#undef ORR_COUNT_NUMBER_
#undef ORR_COUNT_CHOICE_
};
typedef struct orr_plan_number {
    const char *name, *about;
    size_t offset;
} orr_plan_number;
typedef struct orr_plan_choice {
    const char *name, *about;
    size_t offset;
    const char *const *words; /* by value; 0 is "unknown" */
    size_t n;
} orr_plan_choice;
const orr_plan_number *orr_plan_number_at(uint32_t i);
const orr_plan_choice *orr_plan_choice_at(uint32_t i);
uint32_t *orr_plan_field(orr_plan *plan, uint32_t i);
uint8_t *orr_plan_choice_field(orr_plan *plan, uint32_t i);
const char *orr_plan_field_name(uint32_t i);
const char *orr_plan_field_about(uint32_t i);

/* The plan with all defaults filled in, also those that follow from the job: in inference, and of
 * models without tokens, `batch` alone is one micro-batch of a replica (in a pipeline pp of them
 * when decoding, else 4 pp, or the most below that divide it); in inference experts are sliced only
 * over the ranks that are left; replicas cross sites (cross=dp) where no order says otherwise;
 * decoding runs as CUDA graphs. `task`: orr_task. */
struct orr_model;
orr_plan orr_plan_with_job_defaults(const orr_plan *plan, const struct orr_model *model,
                                    uint8_t task, const orr_cluster *cluster);

/* Index of a plan field: first the numbers, then the choices. */
enum {
#define ORR_AT_NUMBER_(name, text)       ORR_AT_##name,
#define ORR_AT_CHOICE_(name, type, text) ORR_AT_##name,
    ORR_PLAN_MAP(ORR_AT_NUMBER_) ORR_PLAN_CHOICE_MAP(ORR_AT_CHOICE_) ORR_PLAN_FIELDS
#undef ORR_AT_NUMBER_
#undef ORR_AT_CHOICE_
};
static inline uint32_t orr_plan_get(const orr_plan *plan, uint32_t field)
{
    orr_plan *p = (orr_plan *)plan; /* The plan is only read. */
    return field < ORR_PLAN_NUMBERS ? *orr_plan_field(p, field)
                                    : *orr_plan_choice_field(p, field - ORR_PLAN_NUMBERS);
}
static inline void orr_plan_put(orr_plan *plan, uint32_t field, uint32_t value)
{
    if (field < ORR_PLAN_NUMBERS)
        *orr_plan_field(plan, field) = value;
    else
        *orr_plan_choice_field(plan, field - ORR_PLAN_NUMBERS) = (uint8_t)value;
}
/* The number format that matrix products are computed in (orr_precision). */
orr_dtype orr_precision_dtype(uint8_t precision);

static inline int64_t orr_gcd(int64_t a, int64_t b) /* greatest common divisor; neither is
                                                     * negative */
{
    while (b > 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A degree that is not given counts as 1. */
static inline uint32_t orr_plan_degree(uint32_t degree)
{
    return degree > 0 ? degree : 1;
}
/* Replicas of one outer part of dp. */
static inline uint32_t orr_plan_dp_inner(const orr_plan *plan)
{
    return orr_plan_degree(orr_plan_degree(plan->dp) / orr_plan_degree(plan->dp_outer));
}
/* Replicas that sum their gradients in every step: all of them, or with local steps those of one
 * outer part. */
static inline uint32_t orr_plan_synchronous_replicas(const orr_plan *plan)
{
    return plan->local_steps > 1 ? orr_plan_dp_inner(plan) : orr_plan_degree(plan->dp);
}
/* Micro-batches of a chunk whose gradients a rank sums before they are reduced. ZeRO 2: a group of
 * the schedule, whose backward passes follow one another; ZeRO 3 with a pipeline: all, as in
 * PyTorch, where a stage asks FSDP for the reduction in its last backward pass alone
 * (torch/distributed/pipelining/stage.py, backward_maybe_with_nosync()). */
static inline uint32_t orr_plan_gradient_group(const orr_plan *plan)
{
    if (plan->zero == 2)
        return plan->schedule == ORR_SCHEDULE_INTERLEAVED ? orr_plan_degree(plan->group) : 1;
    return plan->zero < 2 || plan->pp > 1 ? orr_plan_degree(plan->micro_batches) : 1;
}
/* ZeRO 3: are gathered weights kept from the first micro-batch to the last? */
static inline bool orr_plan_keeps_gathered(const orr_plan *plan)
{
    return plan->reshard == ORR_SWITCH_OFF && plan->pp > 1;
}
/* Bytes of an element of a weight or gradient as stored. fp8 and fp4 are converted from 16-bit
 * weights when they are used. */
static inline double orr_precision_element_bytes(uint8_t precision)
{
    return precision == ORR_PRECISION_FP32 || precision == ORR_PRECISION_TF32 ? 4 : 2;
}
/* Bytes of an element of a weight as it is gathered. */
static inline double orr_plan_gathered_element_bytes(const orr_plan *plan)
{
    const bool narrow =
        plan->precision == ORR_PRECISION_FP8 || plan->precision == ORR_PRECISION_MXFP8;
    return narrow && plan->fp8_param_gather == ORR_SWITCH_ON
               ? 1
               : orr_precision_element_bytes(plan->precision);
}
static inline bool orr_plan_has_order(const orr_plan *plan)
{
    return plan->order[0] != 0;
}
static inline bool orr_plan_has_sites(const orr_plan *plan)
{
    uint32_t units = 0;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        units += plan->sites[i];
    return units > 0;
}
static inline bool orr_plan_has_site_micro_batches(const orr_plan *plan)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        most |= plan->site_micro_batches[i];
    return most > 0;
}
/* Micro-batches of a replica; the most of any; and those of a step, of all replicas. */
uint32_t orr_plan_micro_batches_of(const orr_plan *plan, uint32_t replica);
uint32_t orr_plan_most_micro_batches(const orr_plan *plan);
uint64_t orr_plan_step_micro_batches(const orr_plan *plan);
/* The complete plan as the replicas see it that have so many micro-batches. */
orr_plan orr_plan_with_micro_batches(const orr_plan *plan, uint32_t micro_batches);
static inline bool orr_plan_has_sections(const orr_plan *plan)
{
    return plan->section_stages[0] != 0;
}
static inline bool orr_plan_balances_sections(const orr_plan *plan)
{
    return !orr_plan_has_sections(plan) && plan->section_layers[0] == ORR_SECTIONS_BALANCED;
}

/* Coordinates of a rank in a recorded job: data, tensor and pipeline parallelism in the default
 * order tp-dp-pp. */
typedef struct orr_recorded_position {
    uint32_t stage, replica, slice;
} orr_recorded_position;

static inline orr_recorded_position orr_recorded_position_of(const orr_plan *plan, uint32_t rank)
{
    const uint32_t t = orr_plan_degree(plan->tp), d = orr_plan_degree(plan->dp);
    return (orr_recorded_position){
        .stage = rank / t / d, .replica = rank / t % d, .slice = rank % t};
}
static inline uint32_t orr_recorded_rank_at(const orr_plan *plan, orr_recorded_position at)
{
    const uint32_t t = orr_plan_degree(plan->tp), d = orr_plan_degree(plan->dp);
    return (at.stage * d + at.replica) * t + at.slice;
}

/* Slots of one stage in the order of 1F1B or GPipe: forward or backward of each micro-batch.
 * `ret`: shape (2 x micro-batches). 1F1B: Narayanan et al., "Efficient large-scale language
 * model training on GPU clusters using Megatron-LM", SC 2021, figure 4; GPipe: Huang et al.,
 * NeurIPS 2019, figure 2. */
void orr_schedule_stage_slots(orr_schedule schedule, uint32_t stage, uint32_t stages,
                              uint32_t micro_batches, orr_schedule_slot *ret);

/* Groupings tp, dp and pp of a recorded job, in this order. */
enum { ORR_GROUPING_TP, ORR_GROUPING_DP, ORR_GROUPING_PP, ORR_PLAN_GROUPINGS };
orr_status orr_plan_groupings(const orr_plan *plan, orr_arena *arena, const orr_grouping **ret,
                              orr_error *err) ORR_MUST_CHECK;
/* A process group by its stride: `size` ranks from `first` on, `stride` apart. */
typedef struct orr_strided_group {
    uint32_t first, size, stride;
} orr_strided_group;
orr_strided_group orr_plan_group(const orr_plan *plan, uint32_t grouping, uint32_t rank);

#endif /* ORR_MODEL_PLAN_PLAN_H */
