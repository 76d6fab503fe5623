/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_TRAIN_DPO_H
#define ORR_ENGINE_TRAIN_DPO_H

/* Direct preference optimization (DPO) of one pair of answers (Rafailov et al., arXiv 2305.18290,
 * eq. 7):
 *
 *   margin = beta ((log p(chosen) - log r(chosen)) - (log p(rejected) - log r(rejected)))
 *   loss   = -log sigmoid(margin) + nll (-log p(chosen) / |chosen|)
 *
 * where p is the model and r the reference. Llama 3 adds the second term with nll 0.2 (arXiv
 * 2407.21783, section 4.1.4). Computes the loss and its derivatives by minus log p of a
 * token of either answer. */
typedef struct orr_dpo_pair {
    double chosen, rejected;                     /* log p */
    double chosen_reference, rejected_reference; /* log r */
    double tokens;                               /* of the chosen answer */
} orr_dpo_pair;
typedef struct orr_dpo_loss {
    double loss, margin;
    double by_chosen, by_rejected;
} orr_dpo_loss;
orr_dpo_loss orr_dpo_loss_of(const orr_dpo_pair *pair, double beta, double nll);

#endif /* ORR_ENGINE_TRAIN_DPO_H */
