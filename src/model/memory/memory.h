/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_MEMORY_MEMORY_H
#define ORR_MODEL_MEMORY_MEMORY_H

#include <orrery/memory_plan.h>

#include "model/module/module.h"
#include "op/tape/live_ranges.h"

/* Memory of one module for one micro-batch on one rank. Peaks are the most transient bytes at
 * once, beside what is kept: they may be as high as the whole of a pass, or 0. */
typedef struct orr_module_memory {
    int64_t parameters, expert_parameters;      /* elements on a rank before ZeRO: dense, of
                                                 * experts */
    int64_t frozen_parameters;                  /* frozen ones among both */
    int64_t frozen_expert_parameters;           /* frozen ones among the experts' */
    int64_t tied_parameters, tied_weight_bytes; /* dense ones that another module shares */
    bool tied_frozen;
    int64_t weight_bytes, expert_weight_bytes; /* as on the tape */
    int64_t table_bytes, table_state_bytes; /* of embedding tables, not in the counts above: rows;
                                             * their optimizer's states */
    int64_t frozen_weight_bytes, frozen_expert_weight_bytes;
    int64_t narrow_parameters; /* trained ones among all that the tape has in 8 bits or fewer */
    int64_t derived_bytes;     /* computed from weights once a step and kept: fp8 copies */
    int64_t kept_bytes;        /* activations from its forward to its backward pass */
    int64_t apart_bytes;       /* kept from its input gradients to its weight gradients */
    int64_t forward_peak_bytes, backward_peak_bytes; /* transient */
    int64_t input_peak_bytes, weight_peak_bytes;     /* transient, of a split backward pass:
                                                      * beside kept_bytes; beside apart_bytes */
    int64_t owned_peak_bytes; /* backward_peak_bytes where each weight gradient has a tensor of
                               * its own till the end of the module's backward pass */
    int64_t gather_bytes;     /* weights in the dtype of computation: what FSDP gathers */
} orr_module_memory;
/* NO_MEMORY; INVALID: a tensor over 2^63 bytes; LIMIT: over 2^44 bytes in all. */
orr_status orr_module_memory_of(const orr_module *module, orr_module_memory *ret,
                                orr_error *err) ORR_MUST_CHECK;

/* Without weights that another module of the same stage shares. */
orr_module_memory orr_module_memory_untied(const orr_module_memory *memory);
/* The same with the plan's choices of kernels and of what they save. orr_module_memory_of() has
 * those that are usual. */
orr_status orr_module_memory_of_plan(const orr_module *module, const orr_plan *plan,
                                     orr_module_memory *ret, orr_error *err) ORR_MUST_CHECK;

/* Adjusts the lifetimes on the tape to kernels: of losses, of ring attention, and of activations
 * that are saved in fewer bits or without need. Memory that kernels hold besides goes to `ret`,
 * room for n_calls; returns how many these are. */
uint32_t orr_memory_adjust_lifetimes(const orr_tape *tape, const orr_plan *plan,
                                     orr_tape_liveness *lives, orr_live_range *ret);

/* Bytes of the model states (ZeRO, SC 2020, section 3: parameters, gradients, optimizer states)
 * of one module on one rank. */
typedef struct orr_state_bytes {
    int64_t weights, gradients, optimizer, host;
} orr_state_bytes;
orr_state_bytes orr_state_bytes_of(const orr_module_memory *memory, const orr_plan *plan,
                                   uint8_t task);
/* Both moments of Adam of one weight. */
int64_t orr_moments_bytes(const orr_plan *plan);
/* Gradients of a module before they are sharded, where those of several micro-batches are summed
 * first (orr_plan_gradient_group()); 0: each micro-batch's are reduced, or nothing is sharded. */
int64_t orr_summed_gradient_bytes(const orr_module_memory *memory, const orr_plan *plan);
/* Does the task train? If not, it has forward passes only. */
bool orr_task_trains(uint8_t task);

/* KV cache of one layer for all samples of a replica. `tokens`: of a sample. */
double orr_kv_cache_bytes(const orr_model *model, const orr_plan *plan, uint32_t layer,
                          uint64_t tokens, uint64_t samples);

/* Inputs of the memory model for one stage. */
typedef struct orr_stage_memory_input {
    const orr_plan *plan;
    uint8_t task;
    const orr_device *device; /* may be NULL */
    const orr_module_sequence *row;
    const orr_module_memory *memory; /* shape (row->n_modules) */
    const orr_stage_map *map;        /* by virtual stage */
    const orr_schedule_plan *schedule;
    uint32_t stage;
} orr_stage_memory_input;
/* Module at a place of a virtual stage: with recompute=block the first `recompute_layers` layers
 * of the virtual stage have their recomputed form. */
uint32_t orr_module_at(const orr_stage_memory_input *parts, uint32_t virtual_stage, uint32_t place);

/* Memory that no tape shows. */
typedef struct orr_buffer_bytes {
    int64_t visible; /* that the framework's allocator hands out */
    int64_t hidden;  /* that the allocator does not see: context, collectives */
} orr_buffer_bytes;
orr_status orr_stage_buffers(const orr_stage_memory_input *parts, orr_buffer_bytes *ret,
                             orr_error *err) ORR_MUST_CHECK;
/* Weights that FSDP keeps gathered from the first micro-batch to the last. */
int64_t orr_stage_gathered_bytes(const orr_stage_memory_input *parts);
/* Walks the slots: fills activations, transient, peak_slot, in_flight, host_bytes, and the bytes
 * of both kinds at the peak, beside those of gradients that wait for their reduction. */
orr_status orr_stage_activations(const orr_stage_memory_input *parts, orr_arena *arena,
                                 orr_stage_memory *ret, orr_error *err) ORR_MUST_CHECK;
/* Device memory that a job can use; -1: not known. */
int64_t orr_usable_bytes(const orr_device *device);
/* Memory that the allocator holds in blocks that fit no request, and cannot give back. */
int64_t orr_fragmentation_bytes(int64_t come_and_go_bytes);
/* What the allocator holds in all where the device has room for `room_bytes` (-1: not known). */
int64_t orr_reserved_bytes(int64_t allocated_bytes, int64_t come_and_go_bytes, int64_t room_bytes);

/* DPO: a micro-batch holds both answers of each sample. */
orr_plan orr_plan_with_dpo_pairs(const orr_plan *plan);

/* Inputs of the memory plan where modules are built already; and the plan itself, without
 * options. */
typedef struct orr_memory_plan_input {
    const orr_model *model; /* with the plan's overrides */
    const orr_plan *plan;
    const orr_workload *workload;
    const orr_device *device;               /* may be NULL */
    const orr_device *const *stage_devices; /* shape (stages); NULL: `device` for all */
    const orr_module_sequence *row;
    const orr_stage_map *map;
    const orr_schedule_plan *schedule;
} orr_memory_plan_input;
/* For each stage the device with the least memory among those that it runs on, where sites have
 * several kinds; rank r is device r. In the arena. */
orr_status orr_stage_devices(const orr_plan *plan, const orr_cluster *cluster, orr_arena *arena,
                             const orr_device *const **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_memory_plan_of_job(const orr_memory_plan_input *job, orr_arena *arena,
                                  orr_memory_plan *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_memory_plan_estimate(const orr_model *model, const orr_plan *plan,
                                    const orr_workload *workload, const orr_device *device,
                                    orr_arena *arena, orr_memory_plan *ret,
                                    orr_error *err) ORR_MUST_CHECK;
/* Memory options: single changes of a plan that does not fit, and what each would free. */
orr_status orr_memory_plan_options(const orr_model *model, const orr_plan *plan,
                                   const orr_workload *workload, const orr_device *device,
                                   const orr_memory_plan *now, orr_arena *arena,
                                   const orr_memory_plan_option **ret, uint32_t *ret_n,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_MEMORY_MEMORY_H */
