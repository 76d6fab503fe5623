/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/explore.h>

/* Names of the objectives and of the reasons for pruning. */

#define OBJECTIVE_NAME_(name, word, unit, about)  word,
#define OBJECTIVE_UNIT_(name, word, unit, about)  unit,
#define OBJECTIVE_ABOUT_(name, word, unit, about) about,
#define PRUNE_NAME_(name, text)                   text,
static const char *const OBJECTIVES[] = {ORR_OBJECTIVE_MAP(OBJECTIVE_NAME_)};
static const char *const UNITS[] = {ORR_OBJECTIVE_MAP(OBJECTIVE_UNIT_)};
static const char *const ABOUTS[] = {ORR_OBJECTIVE_MAP(OBJECTIVE_ABOUT_)};
static const char *const PRUNE_NAMES[] = {ORR_PRUNE_MAP(PRUNE_NAME_)};
#undef OBJECTIVE_NAME_
#undef OBJECTIVE_UNIT_
#undef OBJECTIVE_ABOUT_
#undef PRUNE_NAME_

const char *orr_objective_name(orr_objective objective)
{
    return objective < ORR_OBJECTIVES ? OBJECTIVES[objective] : "?";
}

const char *orr_objective_unit(orr_objective objective)
{
    return objective < ORR_OBJECTIVES ? UNITS[objective] : "";
}

const char *orr_objective_about(orr_objective objective)
{
    return objective < ORR_OBJECTIVES ? ABOUTS[objective] : "";
}

const char *orr_prune_name(orr_prune why)
{
    return why < ORR_PRUNES ? PRUNE_NAMES[why] : "?";
}
