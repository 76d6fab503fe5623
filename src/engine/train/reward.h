/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_TRAIN_REWARD_H
#define ORR_ENGINE_TRAIN_REWARD_H

#include <stddef.h>

#include <orrery/status.h>

/* Rewards of answers that need no model:
 *   length       tokens, of those that it may have
 *   digits       share of its bytes that are digits
 *   match:TEXT   1 where TEXT stands in it, else 0 */
typedef struct orr_reward {
    uint8_t kind;
    const char *text; /* of match */
} orr_reward;
/* UNSUPPORTED: none of these. */
orr_status orr_reward_parse(const char *name, orr_reward *ret, orr_error *err) ORR_MUST_CHECK;
double orr_reward_of(const orr_reward *reward, const char *answer, size_t len, int64_t tokens,
                     int64_t most);

/* Proximal policy optimisation with a clipped ratio (Schulman et al., arXiv 1707.06347, eq. 7) of
 * one token: ratio = p / p before, loss = -min(ratio A, clip(ratio, 1 - clip, 1 + clip) A). `loss`
 * and `before`: minus log p. Sets the derivative by the former. */
double orr_ppo_clipped_loss(double loss, double before, double advantage, double clip,
                            double *ret_by);

#endif /* ORR_ENGINE_TRAIN_REWARD_H */
