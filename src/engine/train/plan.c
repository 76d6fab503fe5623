/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan/plan.h"

#include <orrery/engine.h>

/* The plan of a training run, completed. */

enum {
    /* The least common multiple of 1 to 10: batches that are divided by few ranks have the same
     * sample block on any of those. */
    RANKS_MULTIPLE = 5040,
    SAMPLE_BLOCK_MAX = 128
};

/* Samples whose gradients are summed by the kernels; sums of blocks are joined as a tree
 * (engine/step/gradient_tree.h), so that the bits do not depend on the number of ranks as long as
 * the block does not. */
static uint32_t sample_block(uint32_t batch, uint32_t replicas)
{
    const uint32_t most = batch / (uint32_t)orr_gcd(batch, RANKS_MULTIPLE);
    uint32_t block = most < SAMPLE_BLOCK_MAX ? most : SAMPLE_BLOCK_MAX;
    while (most % block != 0)
        block--;
    return (uint32_t)orr_gcd(block, batch / replicas);
}

orr_plan orr_train_plan(const orr_model *model, const orr_plan *asked)
{
    orr_plan p = asked != NULL ? *asked : (orr_plan){.dp = 1};
    const uint32_t replicas = p.dp > 0 ? p.dp : 1;
    if (model->kind != ORR_MODEL_DLRM)
        return orr_plan_with_defaults(&p);
    p.precision = p.precision != 0 ? p.precision : ORR_PRECISION_FP32;
    if (p.micro_batch == 0 && p.micro_batches == 0 && p.batch > 0 && p.batch % replicas == 0)
        p.micro_batch = sample_block(p.batch, replicas);
    return orr_plan_with_defaults(&p);
}
