/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEMORY_PLAN_H
#define ORR_MEMORY_PLAN_H

#include <orrery/machine.h>
#include <orrery/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory that a job needs on its devices, in bytes of one rank, by kind. */
#define ORR_MEMORY_MAP(X)                                                                          \
    X(WEIGHTS, "weights")                                                                          \
    X(GRADIENTS, "gradients")                                                                      \
    X(OPTIMIZER, "optimizer states") X(ACTIVATIONS, "activations")                                 \
        X(TRANSIENT, "transient")                         /* within one module           */        \
        X(CACHE, "key-value cache") X(BUFFERS, "buffers") /* of communication, workspaces      */  \
        X(FRAGMENTATION, "fragmentation") /* what the allocator cannot give back               */
typedef enum orr_memory_kind {
#define ORR_MEMORY_ENUM_(name, text) ORR_MEMORY_##name,
    ORR_MEMORY_MAP(ORR_MEMORY_ENUM_)
#undef ORR_MEMORY_ENUM_
        ORR_MEMORY_KINDS
} orr_memory_kind;
ORR_API const char *orr_memory_kind_name(orr_memory_kind kind);

typedef struct orr_stage_memory {
    int64_t bytes[ORR_MEMORY_KINDS]; /* at the peak */
    int64_t peak_bytes;              /* their sum: what the device must hold */
    int64_t allocated_bytes;         /* the part that the framework's allocator hands out:
                                      * without fragmentation and without buffers that it does
                                      * not see */
    int64_t reserved_bytes;          /* that the framework's allocator would hold for it, cached
                                      * blocks among it, where the device has room */
    uint32_t peak_slot;              /* slot of the schedule with the peak */
    uint32_t in_flight;              /* micro-batches x chunks in flight at the peak */
    const int64_t *activations;      /* shape (n_slots): kept in each slot of the stage: at the
                                      * end of a forward, at the start of a backward */
    const int64_t *transient;        /* shape (n_slots): most transient bytes in the slot, beside
                                      * these */
    uint32_t n_slots;
    int64_t host_bytes; /* offloaded                                              */
} orr_stage_memory;

/* A memory option: a change of the plan that frees memory, and how much. */
typedef struct orr_memory_plan_option {
    const char *change; /* "recompute=full", "zero=1", "dp=4,tp=2,micro_batches=8" */
    int64_t freed_bytes, peak_bytes;
    bool fits;
} orr_memory_plan_option;

typedef struct orr_memory_plan {
    uint32_t n_stages, worst;       /* worst: stage with the highest peak */
    const orr_stage_memory *stages; /* shape (n_stages)                                      */
    int64_t capacity_bytes;         /* that a job can use on the device; -1: not known */
    bool fits;
    int64_t missing_bytes; /* of the worst stage; 0 where it fits */
    /* Of PREFILL and DECODE: the largest batch of all replicas at this context, and the largest
     * context at this batch, as far as memory grows with them alike; 0: of other tasks, or where
     * the capacity is not known. */
    int64_t most_samples, most_tokens;
    const orr_memory_plan_option *options; /* shape (n_options): where the plan does not fit;
                                            * each change by itself, most effective first */
    uint32_t n_options;
} orr_memory_plan;
/* Plans the memory of a job. `plan` completed and checked. `device` may be NULL. In the arena.
 * Errors: those of building the model, UNSUPPORTED, INVALID; LIMIT: numbers of bytes that no device
 * has; NO_MEMORY. A plan that does not fit is no error.
 *
 * Sources: model states of mixed-precision training as in Rajbhandari et al., "ZeRO", SC 2020,
 * section 3; activations and transient memory from the tapes, operator by operator;
 * micro-batches in flight from the schedule's slots. Buffers that no tape shows (context,
 * collectives, workspaces, weight gradients of fused accumulation) and the fragmentation margin
 * are assumed: their values and origins are in src/model/memory/buffers.c. */
ORR_API ORR_MUST_CHECK orr_status orr_memory_plan_make(const orr_model *model, const orr_plan *plan,
                                                       const orr_workload *workload,
                                                       const orr_device *device, orr_arena *arena,
                                                       orr_memory_plan *ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_MEMORY_PLAN_H */
