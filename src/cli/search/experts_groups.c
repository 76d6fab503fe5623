/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/philox.h"
#include "cli/arguments/factor.h"
#include "cli/search/experts.h"
#include "experts/group/signature.h"

/* Requests that are held out, and groups of requests that choose alike. */

/* --- held out --------------------------------------------------------------------------------- */

/* A share of the requests, drawn by the seed: keep is shuffled. */
static void draw_kept(uint32_t requests, uint32_t held, uint64_t seed, bool *keep)
{
    orr_random random = orr_random_of(seed, 0);
    for (uint32_t i = 0; i < requests; i++)
        keep[i] = i >= held;
    for (uint32_t i = requests; i > 1; i--) {
        const uint32_t other = (uint32_t)orr_random_below(&random, i);
        const bool moved = keep[i - 1];
        keep[i - 1] = keep[other];
        keep[other] = moved;
    }
}

static orr_status hold_out(orr_experts_request *r, double share)
{
    orr_error *err = &r->session.err;
    const uint32_t requests = r->routes->requests;
    const uint32_t held = (uint32_t)(share * requests + 0.5);
    bool *keep = orr_arena_array(r->session.arena, bool, requests);
    if (held == 0 || held == requests)
        return orr_fail(err, ORR_INVALID, "--hold-out: %u of %u requests", held, requests);
    if (keep == NULL)
        return orr_fail_memory(err);
    draw_kept(requests, held, r->options.seed, keep);
    ORR_TRY(orr_routes_select(r->routes, keep, -1, r->session.arena, &r->placed_by, err));
    for (uint32_t i = 0; i < requests; i++)
        keep[i] = !keep[i];
    ORR_TRY(orr_routes_select(r->routes, keep, -1, r->session.arena, &r->told_of, err));
    r->held_out = (orr_experts_held_out){held, requests, r->told_of->tokens};
    return ORR_OK;
}

/* --- groups ----------------------------------------------------------------------------------- */

/* What one request chose in prefill. counts: shape (L, E). */
static void count_prefill(const orr_routes *r, const orr_request_tokens *prefill, uint32_t request,
                          uint32_t *counts)
{
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    memset(counts, 0, (size_t)r->layers * r->experts * sizeof *counts);
    for (uint64_t at = prefill->begin[request]; at < prefill->begin[request + 1]; at++)
        for (uint32_t l = 0; l < r->layers; l++) {
            orr_routes_choices(r, l, prefill->token[at], 1, choice);
            for (uint32_t k = 0; k < r->top_k; k++)
                counts[(size_t)l * r->experts + choice[k]]++;
        }
}

/* Requests are told the group that their prefill is nearest to. Routes do not say which requests
 * are in flight together, and their order in the file (subject by subject, say) is not that in
 * which requests come: loads of groups are not looked at. */
static orr_status tell_groups(const orr_experts_request *r, const orr_expert_groups *groups,
                              uint32_t *group_of_request, orr_arena *scratch, orr_error *err)
{
    const orr_routes *routes = r->told_of;
    orr_request_tokens prefill, all;
    uint32_t *counts = orr_arena_array(scratch, uint32_t, (size_t)routes->layers * routes->experts);
    if (counts == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_request_tokens_make(routes, ORR_ROUTE_PREFILL, scratch, &prefill, err));
    ORR_TRY(orr_request_tokens_make(routes, -1, scratch, &all, err));
    for (uint32_t i = 0; i < routes->requests; i++) {
        if (all.begin[i] == all.begin[i + 1]) /* a request that placements were made from */
            continue;
        if (prefill.begin[i] == prefill.begin[i + 1])
            return orr_fail(err, ORR_PARSE, "request %.60s has no prefill to tell its group from",
                            routes->request_name[i]);
        count_prefill(routes, &prefill, i, counts);
        group_of_request[i] = orr_experts_group(groups, counts, NULL);
    }
    return ORR_OK;
}

static orr_status group(orr_experts_request *r, uint32_t n)
{
    orr_error *err = &r->session.err;
    orr_expert_groups_options options;
    orr_expert_groups *groups;
    uint32_t *of_request = orr_arena_array(r->session.arena, uint32_t, r->routes->requests);
    if (of_request == NULL)
        return orr_fail_memory(err);
    orr_expert_groups_options_init(&options);
    options.groups = n;
    options.seed = r->options.seed;
    ORR_TRY(
        orr_expert_groups_fit(r->placed_by, &options, r->session.arena, &groups, of_request, err));
    if (r->told_of != r->placed_by) {
        orr_arena *scratch = orr_arena_new(0, 0);
        const orr_status status = scratch != NULL ? tell_groups(r, groups, of_request, scratch, err)
                                                  : orr_fail_memory(err);
        orr_arena_free(scratch);
        ORR_TRY(status);
    }
    r->options.group_of_request = of_request;
    r->options.request_groups = n;
    return ORR_OK;
}

orr_status orr_experts_request_groups(orr_experts_request *r)
{
    const orr_settings *s = r->session.settings;
    orr_error *err = &r->session.err;
    double share = 0;
    r->placed_by = r->told_of = r->routes;
    if (s->hold_out != NULL)
        ORR_TRY(orr_parse_share("hold-out", s->hold_out, &share, err));
    if (r->routes == NULL && (share > 0 || s->groups > 1))
        return orr_fail(err, ORR_INVALID, "--%s needs routes of requests, and %s has loads alone",
                        share > 0 ? "hold-out" : "groups", s->args[0]);
    if (share > 0)
        ORR_TRY(hold_out(r, share));
    if (s->groups > 1 && r->ranks % (uint32_t)s->groups != 0)
        return orr_fail(err, ORR_INVALID, "--groups: %u ranks are not %lld groups of equal size",
                        r->ranks, (long long)s->groups);
    r->remote_first = s->objective != NULL && strcmp(s->objective, "remote") == 0;
    if (r->remote_first && s->groups <= 1)
        return orr_fail(err, ORR_INVALID,
                        "--objective: where requests run on any rank all placements are as remote: "
                        "--groups N");
    return s->groups > 1 ? group(r, (uint32_t)s->groups) : ORR_OK;
}
