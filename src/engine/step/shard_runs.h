/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_SHARD_RUNS_H
#define ORR_ENGINE_STEP_SHARD_RUNS_H

#include "model/module/local_shard.h"

/* Splits elements begin .. begin + n - 1 of a rank's tensor into runs that are contiguous both
 * there and in the whole tensor. Padding is in no run. Used for resharding checkpoints and loading
 * weights. */
typedef void orr_shard_run(void *ctx, int64_t own, int64_t whole, int64_t n);
void orr_shard_runs(const orr_local_shard *own, const orr_type *type, int64_t begin, int64_t n,
                    orr_shard_run *run, void *ctx);

#endif /* ORR_ENGINE_STEP_SHARD_RUNS_H */
