/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of requests that choose alike: fitted on recorded requests, asked for new ones. */
#include "experts/group/groups.h"

#include <math.h>
#include <string.h>

#include "experts/group/signature.h"

void orr_expert_groups_options_init(orr_expert_groups_options *options)
{
    *options = (orr_expert_groups_options){
        .struct_bytes = sizeof *options, .capacity = 1.1, .load_band = 0.02};
}

/* --- fit -------------------------------------------------------------------------------------- */

/* The requests that have tokens: orr_routes_select() leaves others without. */
static orr_status find_present(const orr_routes *routes, orr_arena *arena, uint32_t **ret,
                               uint32_t *ret_n, orr_error *err)
{
    bool *has = orr_arena_array(arena, bool, routes->requests);
    uint32_t *who = orr_arena_array(arena, uint32_t, routes->requests), n = 0;
    if (has == NULL || who == NULL)
        return orr_fail_memory(err);
    for (uint64_t t = 0; t < routes->tokens; t++)
        has[routes->request[t]] = true;
    for (uint32_t i = 0; i < routes->requests; i++)
        if (has[i])
            who[n++] = i;
    *ret = who;
    *ret_n = n;
    return ORR_OK;
}

static orr_status check_fit(const orr_routes *routes, const orr_expert_groups_options *o,
                            const orr_request_tokens *tokens, const uint32_t *who, uint32_t n,
                            orr_error *err)
{
    if (o->groups == 0 || o->groups > ORR_EXPERT_GROUPS_MAX)
        return orr_fail(err, ORR_INVALID, "%u groups of requests: 1 to %d are possible", o->groups,
                        ORR_EXPERT_GROUPS_MAX);
    if (o->neighbours > ORR_EXPERT_NEIGHBOURS_MAX)
        return orr_fail(err, ORR_INVALID, "%u neighbours: at most %d vote", o->neighbours,
                        ORR_EXPERT_NEIGHBOURS_MAX);
    if (!(o->capacity >= 1) || !isfinite(o->capacity) || !(o->load_band >= 0))
        return orr_fail(err, ORR_INVALID,
                        "groups of %g times an even share, a band of %g: at least 1 and 0",
                        o->capacity, o->load_band);
    if (n < o->groups)
        return orr_fail(err, ORR_INVALID, "%u groups of %u requests: each group needs one",
                        o->groups, n);
    for (uint32_t i = 0; i < n; i++)
        if (tokens->begin[who[i]] == tokens->begin[who[i] + 1])
            return orr_fail(err, ORR_INVALID, "request '%s' has no prefill to know it by",
                            routes->request_name[who[i]]);
    return ORR_OK;
}

/* Of n requests, sample s is request s * n / samples. */
static uint32_t sampled(uint32_t sample, uint32_t samples, uint32_t n)
{
    return (uint32_t)((uint64_t)sample * n / samples);
}

/* Groups for the requests that were not sampled: the nearest centre that has room left. */
static orr_status assign_rest(const orr_routes *routes, const orr_request_tokens *tokens,
                              const struct orr_expert_groups *g, uint32_t samples,
                              const uint32_t *group, const uint32_t *who, uint32_t n,
                              orr_arena *arena, uint32_t *ret, orr_error *err)
{
    const size_t d = (size_t)g->layers * g->experts;
    const double room = ceil(g->capacity * n / g->groups);
    uint32_t *size = orr_arena_array(arena, uint32_t, g->groups);
    uint32_t *counts = orr_arena_array(arena, uint32_t, d);
    float *signature = orr_arena_array(arena, float, d);
    if (size == NULL || counts == NULL || signature == NULL)
        return orr_fail_memory(err);
    memset(ret, 0xff, routes->requests * sizeof *ret);
    for (uint32_t s = 0; s < samples; s++) {
        ret[who[sampled(s, samples, n)]] = group[s];
        size[group[s]]++;
    }
    for (uint32_t p = 0; p < n; p++) {
        const uint32_t i = who[p];
        if (ret[i] != UINT32_MAX)
            continue;
        orr_signature_of_request(routes, tokens, i, counts, signature);
        float best = -1;
        for (uint32_t k = 0; k < g->groups; k++) {
            const float product = orr_signature_dot(signature, g->centre + k * d, d);
            if (product > best && size[k] < room) {
                best = product;
                ret[i] = k;
            }
        }
        size[ret[i]]++;
    }
    return ORR_OK;
}

static orr_status fit(const orr_routes *routes, const orr_expert_groups_options *o,
                      const orr_request_tokens *tokens, orr_arena *scratch,
                      struct orr_expert_groups *g, float *centre, float *signature, uint32_t *group,
                      const uint32_t *who, uint32_t n, uint32_t *ret_group, orr_error *err)
{
    const size_t d = (size_t)g->layers * g->experts;
    const uint32_t samples = g->recorded;
    uint32_t *counts = orr_arena_array(scratch, uint32_t, d);
    if (counts == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < samples; s++)
        orr_signature_of_request(routes, tokens, who[sampled(s, samples, n)], counts,
                                 signature + s * d);
    const orr_balanced_means how = {.vector = signature,
                                    .n = samples,
                                    .groups = o->groups,
                                    .d = d,
                                    .capacity = o->capacity,
                                    .seed = o->seed};
    ORR_TRY(orr_balanced_means_fit(&how, centre, group, err));
    if (ret_group == NULL)
        return ORR_OK;
    return assign_rest(routes, tokens, g, samples, group, who, n, scratch, ret_group, err);
}

orr_status orr_expert_groups_fit(const orr_routes *routes, const orr_expert_groups_options *options,
                                 orr_arena *arena, orr_expert_groups **ret, uint32_t *ret_group,
                                 orr_error *err)
{
    orr_request_tokens tokens;
    const size_t d = (size_t)routes->layers * routes->experts;
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_status status = scratch != NULL ? ORR_OK : orr_fail_memory(err);
    uint32_t *who, n;
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, find_present(routes, scratch, &who, &n, err));
    const uint32_t samples = n < ORR_EXPERT_GROUPS_SAMPLE ? n : ORR_EXPERT_GROUPS_SAMPLE;
    ORR_TRY_OUT(status, orr_request_tokens_make(routes, ORR_ROUTE_PREFILL, scratch, &tokens, err));
    ORR_TRY_OUT(status, check_fit(routes, options, &tokens, who, n, err));
    struct orr_expert_groups *g = orr_arena_one(arena, struct orr_expert_groups);
    float *centre = orr_arena_array(arena, float, options->groups *d);
    orr_arena *keeper = options->neighbours > 0 ? arena : scratch;
    float *signature = orr_arena_array(keeper, float, samples *d);
    uint32_t *group = orr_arena_array(keeper, uint32_t, samples);
    uint32_t *all = orr_arena_array(scratch, uint32_t, routes->requests);
    if (g == NULL || centre == NULL || signature == NULL || group == NULL || all == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    *g = (struct orr_expert_groups){.layers = routes->layers,
                                    .experts = routes->experts,
                                    .top_k = routes->top_k,
                                    .groups = options->groups,
                                    .neighbours = options->neighbours,
                                    .capacity = options->capacity,
                                    .load_band = options->load_band,
                                    .centre = centre,
                                    .recorded = samples,
                                    .signature = signature,
                                    .group = group};
    ORR_TRY_OUT(status, fit(routes, options, &tokens, scratch, g, centre, signature, group, who, n,
                            ret_group != NULL ? all : NULL, err));
    if (options->neighbours == 0) {
        g->recorded = 0;
        g->signature = NULL;
        g->group = NULL;
    }
    if (ret_group != NULL)
        memcpy(ret_group, all, routes->requests * sizeof *all);
    *ret = g;
out:
    orr_arena_free(scratch);
    return status;
}

/* --- a new request ---------------------------------------------------------------------------- */

/* Scalar product of a vector with the signature of counts, which is not stored. */
static double product_with_counts(const struct orr_expert_groups *g, const uint32_t *counts,
                                  const float *vector)
{
    double ret = 0;
    for (uint32_t l = 0; l < g->layers; l++, counts += g->experts, vector += g->experts) {
        double sum = 0, product = 0;
        for (uint32_t e = 0; e < g->experts; e++)
            if (counts[e] > 0) {
                sum += counts[e];
                product += sqrt(counts[e]) * (double)vector[e];
            }
        ret += sum > 0 ? product / sqrt(sum * g->layers) : 0;
    }
    return ret;
}

/* Similarity to each group: that to its centre, or the summed one of those of the closest k
 * recorded requests that are in it. */
static void similarities(const struct orr_expert_groups *g, const uint32_t *counts, double *ret)
{
    const size_t d = (size_t)g->layers * g->experts;
    if (g->recorded == 0) {
        for (uint32_t k = 0; k < g->groups; k++)
            ret[k] = product_with_counts(g, counts, g->centre + k * d);
        return;
    }
    double near[ORR_EXPERT_NEIGHBOURS_MAX];
    uint32_t who[ORR_EXPERT_NEIGHBOURS_MAX], n = 0;
    for (uint32_t i = 0; i < g->recorded; i++) {
        const double product = product_with_counts(g, counts, g->signature + i * d);
        if (n == g->neighbours && product <= near[n - 1])
            continue;
        uint32_t at = n < g->neighbours ? n++ : n - 1;
        for (; at > 0 && near[at - 1] < product; at--) {
            near[at] = near[at - 1];
            who[at] = who[at - 1];
        }
        near[at] = product;
        who[at] = i;
    }
    memset(ret, 0, g->groups * sizeof *ret);
    for (uint32_t i = 0; i < n; i++)
        ret[g->group[who[i]]] += near[i] / n;
}

static double prompt_tokens(const struct orr_expert_groups *g, const uint32_t *counts)
{
    double ret = 0;
    for (size_t i = 0; i < (size_t)g->layers * g->experts; i++)
        ret += counts[i];
    return ret / g->layers / g->top_k;
}

uint32_t orr_experts_group(const orr_expert_groups *g, const uint32_t *counts,
                           const double *outstanding)
{
    double similarity[ORR_EXPERT_GROUPS_MAX], sum = 0, nearest = -1;
    uint32_t ret = 0;
    bool found = false;
    similarities(g, counts, similarity);
    for (uint32_t k = 0; outstanding != NULL && k < g->groups; k++)
        sum += outstanding[k];
    /* A group that is full beyond its capacity is passed over; one is always left. Where few
     * requests are in flight, groups that are as likely differ by chance: two standard deviations
     * of a sum of requests like this one are let pass. */
    const double even = sum / g->groups;
    const double most = g->capacity * even + 2 * sqrt(even * prompt_tokens(g, counts));
    for (uint32_t k = 0; k < g->groups; k++)
        if (outstanding == NULL || outstanding[k] <= most)
            nearest = fmax(nearest, similarity[k]);
    for (uint32_t k = 0; k < g->groups; k++) {
        if (outstanding != NULL && outstanding[k] > most)
            continue;
        if (similarity[k] < nearest - (outstanding != NULL ? g->load_band : 0))
            continue;
        const bool better = !found || (outstanding != NULL && outstanding[k] < outstanding[ret]) ||
                            (outstanding != NULL && outstanding[k] == outstanding[ret] &&
                             similarity[k] > similarity[ret]);
        ret = better ? k : ret;
        found = true;
    }
    return ret;
}
