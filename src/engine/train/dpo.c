/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/train/dpo.h"

#include <math.h>

/* log(1 + exp(x)) */
static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

orr_dpo_loss orr_dpo_loss_of(const orr_dpo_pair *p, double beta, double nll)
{
    const double gain = p->chosen - p->chosen_reference,
                 other = p->rejected - p->rejected_reference;
    const double margin = beta * (gain - other), wrong = exp(-softplus(margin));
    const double each = p->tokens > 0 ? nll / p->tokens : 0;
    return (orr_dpo_loss){.loss = softplus(-margin) - each * p->chosen,
                          .margin = margin,
                          .by_chosen = beta * wrong + each,
                          .by_rejected = -beta * wrong};
}
