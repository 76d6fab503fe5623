/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/baseline/baseline.h"

/* Runs a baseline planner: it enumerates candidates, and the fastest by its own cost model that
 * fits is simulated. */

static const struct {
    const char *name, *about;
    orr_status (*candidates)(orr_baseline_planner *r, orr_error *err);
} RIVALS[] = {
#define RIVAL_OFFERS_PRODUCTION       orr_baseline_production
#define RIVAL_OFFERS_FSDP             orr_baseline_fsdp
#define RIVAL_OFFERS_ATLAS            orr_baseline_atlas
#define RIVAL_OFFERS_CROSSPIPE        orr_baseline_crosspipe
#define RIVAL_OFFERS_SAILOR           orr_baseline_sailor
#define RIVAL_OFFERS_METIS            orr_baseline_metis
#define RIVAL_OFFERS_AMP              orr_baseline_amp
#define RIVAL_OFFERS_GALVATRON        orr_baseline_galvatron
#define RIVAL_ROW_(name, word, about) {word, about, RIVAL_OFFERS_##name},
    ORR_BASELINE_MAP(RIVAL_ROW_)
#undef RIVAL_ROW_
};

const char *orr_baseline_name(orr_baseline baseline)
{
    return (uint32_t)baseline < ORR_BASELINES ? RIVALS[baseline].name : "?";
}

const char *orr_baseline_about(orr_baseline baseline)
{
    return (uint32_t)baseline < ORR_BASELINES ? RIVALS[baseline].about : "?";
}

static orr_status choose(orr_baseline_planner *r, orr_baseline baseline, orr_explored *ret,
                         orr_error *err)
{
    orr_baseline_sort_candidates(r);
    for (size_t i = 0; i < r->candidates.n; i++) {
        bool fits;
        ORR_TRY(orr_baseline_evaluate(r, &r->candidates.at[i].plan, &fits, ret, err));
        if (fits)
            return ORR_OK;
    }
    if (r->candidates.n > 0)
        return orr_fail(err, ORR_INVALID,
                        "%s: none of the %zu plans that it looks at fits into memory",
                        RIVALS[baseline].name, r->candidates.n);
    return orr_fail(err, ORR_INVALID, "%s: no plan that it looks at fits here",
                    RIVALS[baseline].name);
}

orr_status orr_baseline_of(orr_baseline baseline, const orr_model *model,
                           const orr_cluster *cluster, const orr_explore_options *options,
                           orr_explored *ret, orr_error *err)
{
    orr_baseline_planner r;
    orr_explored made;
    orr_status status = ORR_OK;
    if ((uint32_t)baseline >= ORR_BASELINES)
        return orr_fail(err, ORR_INVALID, "there is no baseline %d", (int)baseline);
    ORR_TRY_OUT(status, orr_baseline_open(&r, model, cluster, options, err));
    ORR_TRY_OUT(status, RIVALS[baseline].candidates(&r, err));
    ORR_TRY_OUT(status, choose(&r, baseline, &made, err));
    *ret = made;
out:
    orr_baseline_close(&r);
    return status;
}
