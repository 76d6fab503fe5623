/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_MEMORY_MEMORY_H
#define ORR_MODEL_MEMORY_MEMORY_H

#include <orrery/memory_plan.h>

#include "model/module/module.h"
#include "op/tape/live_ranges.h"

/* What one micro-batch in one module holds, on one rank. The peaks are what exists at most at once
 * beside what is kept: they may be as high as the whole of a pass, or 0. */
typedef struct orr_module_memory {
    int64_t parameters, expert_parameters;      /* elements; of them on a rank, before ZeRO       */
    int64_t frozen_parameters;                  /* of both                                        */
    int64_t frozen_expert_parameters;           /* of them                                        */
    int64_t tied_parameters, tied_weight_bytes; /* of the dense ones: another module's too    */
    bool tied_frozen;
    int64_t table_parameters, table_rows; /* of embedding bags, in none of these            */
    int64_t weight_bytes, expert_weight_bytes, table_bytes; /* as the tape has them           */
    int64_t frozen_weight_bytes, frozen_expert_weight_bytes;
    int64_t derived_bytes; /* made of weights alone, and kept: fp8 copies; once a step     */
    int64_t kept_bytes;    /* activations from its forward to its backward pass            */
    int64_t apart_bytes;   /* kept from its input gradients to its weight gradients        */
    int64_t forward_peak_bytes, backward_peak_bytes; /* beside what is kept: most at once    */
    int64_t input_peak_bytes, weight_peak_bytes;     /* of a backward pass in two: beside
                                                      * kept_bytes, beside apart_bytes           */
    int64_t owned_peak_bytes; /* backward_peak_bytes, where each weight's gradient has a tensor of
                               * its own till the end of the module's backward pass          */
    int64_t gather_bytes;     /* weights in the dtype of computation: what FSDP gathers       */
} orr_module_memory;
/* NO_MEMORY; INVALID: a tensor over 2^63 bytes; LIMIT: over 2^44 bytes in all. */
orr_status orr_module_memory_of(const orr_module *module, orr_module_memory *ret,
                                orr_error *err) ORR_MUST_CHECK;

/* Without the weights that another module of the same stage has, too. */
orr_module_memory orr_module_memory_untied(const orr_module_memory *memory);
/* `fused`: as the plan's; true above. */
orr_status orr_module_memory_with_fusion(const orr_module *module, bool fused,
                                         orr_module_memory *ret, orr_error *err) ORR_MUST_CHECK;

/* Changes lives on the tape to what kernels really hold: of losses, and of attention in a ring.
 * `fused`: as above. What is held besides goes to `ret`, room for n_calls; how many these are. */
uint32_t orr_memory_adjust_lifetimes(const orr_tape *tape, bool fused, orr_tape_liveness *lives,
                                     orr_live_range *ret);

/* Bytes of what lasts from step to step, of one module on one rank. */
typedef struct orr_state_bytes {
    int64_t weights, gradients, optimizer, host;
} orr_state_bytes;
orr_state_bytes orr_state_bytes_of(const orr_module_memory *memory, const orr_plan *plan,
                                   uint8_t task);
/* Does the task train (else it only runs forward); copies of the model that it runs beside it. */
bool orr_task_trains(uint8_t task);
uint32_t orr_task_auxiliary_models(uint8_t task);

/* Keys and values of one layer for all samples that a replica holds. `tokens`: of a sample. */
double orr_kv_cache_bytes(const orr_model *model, const orr_plan *plan, uint32_t layer,
                          uint64_t tokens, uint64_t samples);

/* A stage of the job while its memory is worked out. */
typedef struct orr_stage_memory_input {
    const orr_plan *plan;
    uint8_t task;
    const orr_device *device; /* NULL is allowed                  */
    const orr_module_sequence *row;
    const orr_module_memory *memory; /* shape (row->n_modules)           */
    const orr_stage_map *map;        /* of virtual stages                */
    const orr_schedule_plan *schedule;
    uint32_t stage;
} orr_stage_memory_input;
/* The module that a place has: of `virtual_stage`, whose first `recompute_layers` layers are
 * computed again with recompute=block. */
uint32_t orr_module_at(const orr_stage_memory_input *parts, uint32_t virtual_stage, uint32_t place);

/* What no tape shows. */
typedef struct orr_buffer_bytes {
    int64_t visible; /* that the framework's allocator hands out           */
    int64_t hidden;  /* that it does not see: context, collectives         */
} orr_buffer_bytes;
orr_status orr_stage_buffers(const orr_stage_memory_input *parts, orr_buffer_bytes *ret,
                             orr_error *err) ORR_MUST_CHECK;
/* Weights that FSDP has gathered from the first micro-batch to the last. */
int64_t orr_stage_gathered_bytes(const orr_stage_memory_input *parts);
/* Fills activations, transient, peak_turn, in_flight, host_bytes, and the bytes of both at the
 * peak. */
orr_status orr_stage_activations(const orr_stage_memory_input *parts, orr_arena *arena,
                                 orr_stage_memory *ret, orr_error *err) ORR_MUST_CHECK;
/* Bytes that a job can have on the device; -1: not known. */
int64_t orr_usable_bytes(const orr_device *device);
/* The margin for what the allocator holds and cannot use. */
int64_t orr_fragmentation_bytes(int64_t come_and_go_bytes);

/* DPO: a micro-batch holds both answers of each sample. */
orr_plan orr_plan_with_dpo_pairs(const orr_plan *plan);

/* The plan without options, of what is already built; or from a model. */
typedef struct orr_memory_plan_input {
    const orr_model *model; /* as changed by the plan */
    const orr_plan *plan;
    const orr_workload *workload;
    const orr_device *device;               /* NULL is allowed */
    const orr_device *const *stage_devices; /* shape (stages); NULL: `device` for all */
    const orr_module_sequence *row;
    const orr_stage_map *map;
    const orr_schedule_plan *schedule;
} orr_memory_plan_input;
/* By stage the device with the least memory of those it lies on, rank r being device r of a cluster
 * that may have sites of several. In the arena. */
orr_status orr_stage_devices(const orr_plan *plan, const orr_cluster *cluster, orr_arena *arena,
                             const orr_device *const **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_memory_plan_of_job(const orr_memory_plan_input *job, orr_arena *arena,
                                  orr_memory_plan *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_memory_plan_estimate(const orr_model *model, const orr_plan *plan,
                                    const orr_workload *workload, const orr_device *device,
                                    orr_arena *arena, orr_memory_plan *ret,
                                    orr_error *err) ORR_MUST_CHECK;
/* Single changes of a plan that does not fit. */
orr_status orr_memory_plan_options(const orr_model *model, const orr_plan *plan,
                                   const orr_workload *workload, const orr_device *device,
                                   const orr_memory_plan *now, orr_arena *arena,
                                   const orr_memory_plan_option **ret, uint32_t *ret_n,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_MEMORY_MEMORY_H */
