/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_TENSOR_PARALLEL_SCRATCH_H
#define ORR_KERNEL_CPU_TENSOR_PARALLEL_SCRATCH_H

#include <orrery/kernel.h>

/* Parallel loop over n items (samples, blocks of pixels) that needs scratch: at most 64 ranges,
 * each with `room` floats of its own in the workspace, whatever the number of threads. */
typedef void orr_parallel_scratch_body(const void *ctx, int64_t begin, int64_t end, float *room);
size_t orr_parallel_scratch_bytes(int64_t n, int64_t room);
/* `workspace`: orr_parallel_scratch_bytes() bytes, aligned to 64. */
void orr_parallel_scratch_run(int64_t n, int64_t room, orr_parallel_scratch_body *body,
                              const void *ctx, void *workspace, orr_workers *workers);

static inline int64_t orr_round_up_to_vectors(int64_t numbers)
{
    return (numbers + 15) / 16 * 16;
}

#endif /* ORR_KERNEL_CPU_TENSOR_PARALLEL_SCRATCH_H */
