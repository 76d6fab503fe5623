/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/fit/boost.h"

/* Built without XGBoost: models are evaluated, but not fitted. */

static const char WHY[] = "fitting a learned model needs XGBoost, and this build has none";

bool orr_boost_available(const char **ret_why)
{
    if (ret_why != NULL)
        *ret_why = WHY;
    return false;
}

orr_status orr_boost_new(const orr_boost_options *options, orr_boost **ret, orr_error *err)
{
    (void)options, (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED, "%s", WHY);
}

void orr_boost_free(orr_boost *boost)
{
    (void)boost;
}

orr_status orr_boost_round(orr_boost *boost, uint32_t round, orr_error *err)
{
    (void)boost, (void)round;
    return orr_fail(err, ORR_UNSUPPORTED, "%s", WHY);
}

orr_status orr_boost_watch(orr_boost *boost, const float **ret, orr_error *err)
{
    (void)boost, (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED, "%s", WHY);
}

orr_status orr_boost_trees(orr_boost *boost, orr_arena *arena, orr_trees *ret, orr_error *err)
{
    (void)boost, (void)arena, (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED, "%s", WHY);
}
