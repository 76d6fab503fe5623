/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/array.h"
#include "model/memory/memory.h"
#include "model/schedule/schedule.h"
#include "op/tape/tape.h"

/* Memory that no tape shows: contexts, workspaces, communicators, fragmentation. All values are
 * assumed, each for the reason given. */

/* cuBLAS workspaces that the allocator hands out, PyTorch's and TransformerEngine's: 32 MiB each
 * on devices with fp8, else 8.5 and 4 MiB (PyTorch, ATen/cuda/CUDABlas.cpp, default of
 * CUBLAS_WORKSPACE_CONFIG; TransformerEngine, get_cublas_workspace_size_bytes()). */
static const int64_t WORKSPACES = 64 << 20, SMALL_WORKSPACES = 25 << 19;
/* A CUDA context with PyTorch's kernels, as nvidia-smi shows it of an idle process: 0.4 to 0.6
 * GB from A100 to H100. */
static const int64_t CONTEXT = 512 << 20;
/* NCCL buffers of one communicator: 4 MiB (NCCL_BUFFSIZE) and some for the short protocols, for
 * 16 channels, to a peer on either side. */
static const int64_t COMMUNICATOR = 192 << 20;
/* Driver, firmware, ECC: an "80 GiB" A100 shows 79.15 GiB to PyTorch, and an H100 79.11. */
static const int64_t DRIVER = 900 << 20;
/* What PyTorch's caching allocator holds beside what it has handed out, as a share of what comes
 * and goes within a step. Megatron-LM logs both: of 29 such lines in public logs (0.1B to 70B+
 * dense models and mixtures of experts, V100 to MI300; "memory (MB) | allocated | max allocated |
 * reserved | max reserved"), (max reserved - max allocated) / (max allocated - allocated) has the
 * quartiles 0.07, 0.125 and 0.25. The median is what is reserved. With little room left the
 * allocator frees cached blocks before it fails (PyTorch, c10/cuda/CUDACachingAllocator.cpp,
 * release_cached_blocks()): whether a job fits is judged by the lower quartile. */
static const double RESERVED = 0.125, FRAGMENTATION = 0.07;

int64_t orr_usable_bytes(const orr_device *device)
{
    const double bytes = device != NULL ? orr_fact_or(&device->memory_bytes, NAN) : NAN;
    if (isnan(bytes))
        return -1;
    return bytes > (double)DRIVER ? (int64_t)bytes - DRIVER : 0;
}

int64_t orr_fragmentation_bytes(int64_t come_and_go_bytes)
{
    return (int64_t)(FRAGMENTATION * (double)come_and_go_bytes);
}

int64_t orr_reserved_bytes(int64_t allocated_bytes, int64_t come_and_go_bytes, int64_t room_bytes)
{
    const int64_t bytes = allocated_bytes + (int64_t)(RESERVED * (double)come_and_go_bytes);
    return room_bytes < 0 || bytes <= room_bytes ? bytes
           : allocated_bytes > room_bytes        ? allocated_bytes
                                                 : room_bytes;
}

static int64_t workspaces(const orr_device *device)
{
    const bool has_fp8 =
        device == NULL || !isnan(orr_fact_or(&device->peak_flops[ORR_DTYPE_FP8], NAN));
    return has_fp8 ? WORKSPACES : SMALL_WORKSPACES;
}

/* Communicators of a rank: one for each axis with more than one member. */
static int64_t communicators(const orr_plan *plan)
{
    static const orr_axis axes[] = {ORR_AXIS_TP, ORR_AXIS_CP, ORR_AXIS_PP, ORR_AXIS_EP,
                                    ORR_AXIS_GRADIENT};
    int64_t n = 0;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        n += orr_plan_group_size(plan, axes[i]) > 1;
    return n;
}

/* Dims of a weight matrix; of grouped products those of one expert. */
typedef struct matrix {
    int64_t rows, columns, bytes;
} matrix;
typedef orr_array(matrix) matrices;

static bool add_matrix(matrices *all, const orr_type *type)
{
    if (type->rank < 2)
        return true;
    const matrix m = {
        type->dim[type->rank - 2], type->dim[type->rank - 1],
        orr_type_bytes(&(orr_type){.dtype = type->dtype,
                                   .rank = 2,
                                   .dim = {type->dim[type->rank - 2], type->dim[type->rank - 1]}})};
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].rows == m.rows && all->at[i].columns == m.columns)
            return true;
    return orr_array_push(all, m);
}

static bool add_matrices(matrices *all, const orr_tape *tape)
{
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if (call->pass != ORR_PASS_FORWARD || call->n_in < 2 ||
            orr_op_of((orr_op)call->op)->family != ORR_OP_FAMILY_MATMUL)
            continue;
        const orr_tape_value *v = &tape->values[orr_tape_root(tape, call->in[1])];
        if (v->role == ORR_VALUE_PARAMETER && !v->frozen && !add_matrix(all, &v->type))
            return false;
    }
    return true;
}

/* Megatron-LM with TransformerEngine accumulates weight gradients in fp32 within the product.
 * Autograd still wants a tensor of each weight's shape and dtype: one dummy is kept for each
 * shape (TransformerEngine, get_dummy_wgrad()). */
static orr_status fused_gradients(const orr_stage_memory_input *parts, int64_t *ret_bytes,
                                  orr_error *err)
{
    const orr_schedule_plan *schedule = parts->schedule;
    matrices all = {0};
    orr_status status = ORR_OK;
    int64_t bytes = 0;
    for (uint32_t c = 0; c < schedule->spec.chunks; c++) {
        const uint32_t k = orr_schedule_virtual_stage_at(&schedule->spec, parts->stage, c);
        for (uint32_t i = parts->map->first[k]; i < parts->map->first[k + 1]; i++) {
            /* Places with the same module have the same weights. */
            const uint32_t m = parts->row->module_of[i];
            if (i > parts->map->first[k] && m == parts->row->module_of[i - 1])
                continue;
            if (!add_matrices(&all, parts->row->modules[m].tape)) {
                status = orr_fail_memory(err);
                goto out;
            }
        }
    }
    for (size_t i = 0; i < all.n; i++)
        bytes += all.at[i].bytes;
    *ret_bytes = bytes;
out:
    orr_array_done(&all);
    return status;
}

orr_status orr_stage_buffers(const orr_stage_memory_input *parts, orr_buffer_bytes *ret,
                             orr_error *err)
{
    const orr_plan *plan = parts->plan;
    const bool fuses = orr_task_trains(parts->task) && plan->zero < 2 &&
                       plan->precision != ORR_PRECISION_FP32 &&
                       plan->precision != ORR_PRECISION_TF32;
    int64_t gradients = 0;
    if (fuses)
        ORR_TRY(fused_gradients(parts, &gradients, err));
    *ret = (orr_buffer_bytes){.visible = workspaces(parts->device) + gradients,
                              .hidden = CONTEXT + communicators(plan) * COMMUNICATOR};
    return ORR_OK;
}
