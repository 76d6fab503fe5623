/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_TRAIN_REWARD_H
#define ORR_ENGINE_TRAIN_REWARD_H

#include <stddef.h>

#include <orrery/status.h>

/* Rewards of answers that need no model:
 *
 *   length       number of tokens, as a share of the limit
 *   digits       share of its bytes that are digits
 *   match:TEXT   1 where TEXT is in it, else 0 */
typedef struct orr_reward {
    uint8_t kind;
    const char *text; /* for match */
} orr_reward;
/* UNSUPPORTED: none of these names. */
orr_status orr_reward_parse(const char *name, orr_reward *ret, orr_error *err) ORR_MUST_CHECK;
double orr_reward_of(const orr_reward *reward, const char *answer, size_t len, int64_t tokens,
                     int64_t most);

/* Proximal policy optimization (PPO) with a clipped ratio, for one token (Schulman et al., arXiv
 * 1707.06347, eq. 7): ratio = p / p_before, loss = -min(ratio A, clip(ratio, 1 - clip, 1 + clip)
 * A). `loss` and `before` are minus log p; *ret_by is the derivative by the former. */
double orr_ppo_clipped_loss(double loss, double before, double advantage, double clip,
                            double *ret_by);

#endif /* ORR_ENGINE_TRAIN_REWARD_H */
