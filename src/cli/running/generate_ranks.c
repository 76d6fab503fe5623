/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/running/generate_ranks.h"

#include <string.h>

#include "base/units.h"
#include "engine/ranks/launch.h"

enum { MOVE_BYTES = 16 << 20 };
#define TOLERANCE 0.01

static uint32_t transport_of(const char *name)
{
    static const char *const names[] = {[ORR_RANKS_AUTO] = "auto",
                                        [ORR_RANKS_SHM] = "shm",
                                        [ORR_RANKS_TCP] = "tcp",
                                        [ORR_RANKS_MPI] = "mpi"};
    for (uint32_t i = 0; name != NULL && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return ORR_RANKS_AUTO;
}

/* Routes of all tokens, warm-up included: prompts may be that short. */
static orr_status read_routes(orr_session *session, const orr_model *model,
                              orr_generator_ranks *ret)
{
    const orr_settings *s = session->settings;
    orr_routes_options options;
    if (s->group != NULL && s->routes == NULL)
        return orr_fail(&session->err, ORR_INVALID, "--group affinity goes with --routes FILE");
    if (s->routes != NULL && s->group == NULL && !s->predict)
        return orr_fail(&session->err, ORR_INVALID, "--routes goes with --group or --predict");
    if (s->group == NULL)
        return ORR_OK;
    orr_routes_options_init(&options);
    options.experts = model->moe.experts;
    options.keep_warm_up = true;
    ret->groups = (uint32_t)s->groups;
    return orr_routes_read(s->routes, &options, session->arena, &ret->routes, &session->err);
}

static orr_status read_rebalance(orr_session *session, orr_generator_ranks *ret)
{
    const orr_settings *s = session->settings;
    uint64_t bytes = MOVE_BYTES;
    if (s->rebalance < 0)
        return orr_fail(&session->err, ORR_INVALID, "--rebalance: %lld rounds",
                        (long long)s->rebalance);
    if (s->move_bytes != NULL)
        ORR_TRY(orr_parse_bytes(s->move_bytes, &bytes, &session->err));
    ret->rebalance = (uint64_t)s->rebalance;
    ret->move_bytes = (double)bytes;
    ret->tolerance = TOLERANCE;
    ret->policy = ORR_EXPERT_POLICY_BEST;
    return ORR_OK;
}

orr_status orr_generate_read_ranks(orr_session *session, const orr_model *model,
                                   orr_generator_ranks *ret, bool *ret_over)
{
    const orr_settings *s = session->settings;
    orr_error *err = &session->err;
    orr_expert_placement *placement = orr_arena_one(session->arena, orr_expert_placement);
    *ret_over = s->ranks > 0 || s->placement != NULL;
    if (!*ret_over && (s->group != NULL || s->routes != NULL || s->predict))
        return orr_fail(err, ORR_INVALID, "--group, --routes and --predict go with --ranks");
    *ret = (orr_generator_ranks){.ranks = (uint32_t)s->ranks,
                                 .kind = transport_of(s->transport),
                                 .expert_trace = s->expert_trace};
    if (placement == NULL)
        return orr_fail_memory(err);
    ORR_TRY(read_rebalance(session, ret));
    if (s->ranks > UINT16_MAX)
        return orr_fail(err, ORR_INVALID, "--ranks: %lld is too many", (long long)s->ranks);
    ORR_TRY(read_routes(session, model, ret));
    if (s->placement == NULL)
        return ORR_OK;
    if (model->moe.experts == 0)
        return orr_fail(err, ORR_INVALID, "--placement: %s has no experts", model->name);
    ORR_TRY(orr_expert_placement_read(s->placement, (uint32_t)s->ranks, 0, session->arena,
                                      placement, err));
    ret->placement = placement;
    ret->ranks = placement->ranks;
    return ORR_OK;
}

static void put_levels(orr_output *out, const char *name, const uint64_t bytes[2])
{
    orr_output_printf(out, "\"%s\":[%llu,%llu]", name, (unsigned long long)bytes[0],
                      (unsigned long long)bytes[1]);
}

void orr_generate_print_ranks(const orr_generated_bytes *b, orr_output *out)
{
    orr_output_printf(out,
                      ",\n\"exchange\":{\"ranks\":%u,\"rounds\":%llu,\"row_bytes\":%lld,"
                      "\"choice_bytes\":%lld,\"result_bytes\":%lld,",
                      b->ranks, (unsigned long long)b->rounds, (long long)b->row_bytes,
                      (long long)b->choice_bytes, (long long)b->result_bytes);
    put_levels(out, "count_bytes", b->counts);
    orr_output_text(out, ",");
    put_levels(out, "all_bytes", b->all);
    orr_output_printf(out, ",\"moved_requests\":%llu,", (unsigned long long)b->moved_requests);
    put_levels(out, "moved_bytes", b->moved);
    orr_output_printf(out,
                      ",\"looks\":%llu,\"plans\":%llu,\"moved_experts\":%llu,\"pause_ns\":%lld,",
                      (unsigned long long)b->looks, (unsigned long long)b->plans,
                      (unsigned long long)b->moved_experts, (long long)b->pause_ns);
    put_levels(out, "weight_bytes", b->weights);
    orr_output_text(out, ",\"layers\":[");
    for (uint32_t i = 0; i < b->layers; i++) {
        orr_output_printf(out, "%s{\"layer\":%u,", i > 0 ? "," : "", b->number[i]);
        put_levels(out, "dispatch_bytes", b->dispatch[i]);
        orr_output_text(out, ",");
        put_levels(out, "combine_bytes", b->combine[i]);
        orr_output_text(out, "}");
    }
    orr_output_text(out, "]}");
}

void orr_generate_tell_ranks(const orr_session *session, const orr_generated_bytes *b)
{
    uint64_t rows[2] = {0};
    for (uint32_t i = 0; i < b->layers; i++)
        for (int level = 0; level < 2; level++)
            rows[level] += b->dispatch[i][level] + b->combine[i][level];
    orr_session_remark(session,
                       "%u ranks, %llu rounds; rows to experts and back: %.3g MB within hosts, "
                       "%.3g MB beyond",
                       b->ranks, (unsigned long long)b->rounds, (double)rows[0] / 1e6,
                       (double)rows[1] / 1e6);
    if (b->moved_requests > 0)
        orr_session_remark(session, "%llu requests went on on another rank, with %.3g MB of caches",
                           (unsigned long long)b->moved_requests,
                           (double)(b->moved[0] + b->moved[1]) / 1e6);
    if (b->looks > 0)
        orr_session_remark(
            session,
            "loads looked at %llu times, experts placed anew %llu times: %llu moved, "
            "%.3g MB; the longest pause was %.2f ms",
            (unsigned long long)b->looks, (unsigned long long)b->plans,
            (unsigned long long)b->moved_experts, (double)(b->weights[0] + b->weights[1]) / 1e6,
            (double)b->pause_ns / 1e6);
}
