/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/train/learning_rate.h"

#include <math.h>

#include <orrery/engine.h>

double orr_learning_rate_at(const orr_learning_rate *r, int64_t step)
{
    if (step <= r->warmup)
        return r->most * (double)step / (double)r->warmup;
    if (r->schedule == ORR_LEARNING_RATE_CONSTANT || r->steps <= r->warmup)
        return r->most;
    const double done = (double)(step - r->warmup) / (double)(r->steps - r->warmup);
    const double part = done < 1 ? done : 1;
    const double left =
        r->schedule == ORR_LEARNING_RATE_LINEAR ? 1 - part : 0.5 * (1 + cos(M_PI * part));
    return r->least + (r->most - r->least) * left;
}
