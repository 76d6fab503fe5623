/* SPDX-License-Identifier: Apache-2.0 */
#include "maverick.h"

#include <math.h>

#include "experts/placement/traffic.h"

/* arXiv 2604.23150: at 64 ranks, requests grouped by what they choose and experts placed near them,
 * all-to-all bytes come down to 0.80 (Llama 4 Maverick) of those without, 0.94 in layer 42 of
 * DeepSeek-V3; with padded kernels communication takes 9 % less time, a layer 5.5 % less.
 *
 * Assumed here: 8 hosts of 8 ranks, a group of requests a host, bytes between hosts, three subjects
 * of MMLU. Routes of DeepSeek-V3 are not at hand, and what the kernels pad is not known: buffers
 * padded to the fullest pair of ranks grow by grouping, those padded to the fullest host's port
 * shrink. */
enum { RANKS = 64, HOST_RANKS = 8, HOSTS = RANKS / HOST_RANKS, GROUPS = HOSTS };

static orr_arena *arena;

static int new_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL;
}

static int free_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static const orr_expert_costs COSTS = {.host_bytes_per_s = 450e9,
                                       .network_bytes_per_s = 50e9,
                                       .row_ns = 17,
                                       .dispatch_bytes = 5120,
                                       .combine_bytes = 10240,
                                       .tokens = 64 * 128};

static void must(orr_status status, const orr_error *err)
{
    if (status != ORR_OK)
        fail_msg("%s", err->text);
}

/* Rows, summed over layers: all that leave hosts; of the fullest pair of ranks; through the fullest
 * port of a host, where no expert has nearly all tokens; and the step. */
typedef struct volume {
    double beyond, pair, port, step_ns;
} volume;

static void add_layer(const uint64_t *sent, bool concentrated, volume *ret)
{
    uint64_t out[HOSTS] = {0}, in[HOSTS] = {0}, pair = 0, port = 0;
    for (uint32_t a = 0; a < RANKS; a++)
        for (uint32_t b = 0; b < RANKS; b++) {
            const uint64_t n = sent[a * RANKS + b];
            pair = n > pair ? n : pair;
            if (a / HOST_RANKS == b / HOST_RANKS)
                continue;
            ret->beyond += (double)n;
            out[a / HOST_RANKS] += n;
            in[b / HOST_RANKS] += n;
        }
    for (uint32_t h = 0; h < HOSTS; h++) {
        port = out[h] > port ? out[h] : port;
        port = in[h] > port ? in[h] : port;
    }
    ret->pair += (double)pair;
    ret->port += concentrated ? 0 : (double)port;
}

static orr_expert_options options_of(const orr_routes *of, const uint32_t *group)
{
    orr_expert_options options;
    orr_expert_options_init(&options);
    options.routes = of;
    options.ranks = RANKS;
    options.host_ranks = HOST_RANKS;
    options.costs = &COSTS;
    options.group_of_request = group;
    options.request_groups = group != NULL ? GROUPS : 0;
    return options;
}

static volume volume_of(const orr_expert_placement *p, const orr_routes *of, const uint32_t *group)
{
    static uint64_t sent[RANKS * RANKS];
    const orr_expert_options options = options_of(of, group);
    const uint32_t *rank = NULL;
    orr_expert_quality quality;
    orr_error err = {0};
    volume ret = {0};
    must(orr_expert_requests_deal(of, &options, arena, &rank, &err), &err);
    for (uint32_t l = 0; l < of->layers; l++) {
        must(orr_experts_count_traffic(p, of, l, rank, false, &(orr_expert_traffic){.sent = sent},
                                       &err),
             &err);
        add_layer(sent, of->number[l] == 45, &ret);
    }
    must(orr_experts_evaluate(p, &options, arena, &quality, &err), &err);
    ret.step_ns = quality.step_ns;
    return ret;
}

static orr_expert_placement place(orr_expert_policy policy, const orr_routes *of,
                                  const uint32_t *group)
{
    orr_expert_options options = options_of(of, group);
    orr_expert_result result;
    orr_error err = {0};
    options.policy = (uint8_t)policy;
    must(orr_experts_place(&options, arena, &result, &err), &err);
    return result.placement;
}

static uint32_t *groups_of(const orr_routes *of)
{
    orr_expert_groups_options options;
    orr_expert_groups *groups;
    orr_error err = {0};
    uint32_t *ret = orr_arena_array(arena, uint32_t, of->requests);
    assert_non_null(ret);
    orr_expert_groups_options_init(&options);
    options.groups = GROUPS;
    options.seed = 1;
    must(orr_expert_groups_fit(of, &options, arena, &groups, ret, &err), &err);
    return ret;
}

static volume over(const char *what, volume a, volume b)
{
    const volume ret = {a.beyond / b.beyond, a.pair / b.pair, a.port / b.port,
                        a.step_ns / b.step_ns};
    print_message(
        "%s: bytes between hosts %.3f, fullest pair of ranks %.3f, fullest port of a host "
        "%.3f, step %.3f\n",
        what, ret.beyond, ret.pair, ret.port, ret.step_ns);
    return ret;
}

/* Over neighbouring experts and requests on any rank. */
static void bytes_of_grouped_requests(void **state)
{
    (void)state;
    orr_error err = {0};
    const orr_routes *prefill, *decode;
    const orr_routes *routes = maverick_routes(arena);
    must(orr_routes_select(routes, NULL, ORR_ROUTE_PREFILL, arena, &prefill, &err), &err);
    must(orr_routes_select(routes, NULL, ORR_ROUTE_DECODE, arena, &decode, &err), &err);
    uint32_t *group = groups_of(prefill);
    const orr_expert_placement linear = place(ORR_EXPERT_POLICY_LINEAR, prefill, NULL),
                               best = place(ORR_EXPERT_POLICY_BEST, routes, group),
                               foretold = place(ORR_EXPERT_POLICY_BEST, prefill, group);
    const volume all = over("placed and told on all tokens", volume_of(&best, routes, group),
                            volume_of(&linear, routes, NULL));
    const volume next = over("placed by prefill, told on decode",
                             volume_of(&foretold, decode, group), volume_of(&linear, decode, NULL));
    assert_true(all.beyond > 0.6 && all.beyond < 0.82); /* published: 0.80 at best */
    assert_true(next.beyond > all.beyond && next.beyond < 0.88);
    assert_true(all.port < 0.91 && next.port < 0.91);
    assert_true(all.pair >
                1); /* grouping makes pairs less even: padded to them, 9 % less is not ours */
    assert_true(all.step_ns < 0.945 && next.step_ns < 1);
    /* The same placement, and requests on any rank, or in groups of others: nothing. */
    const volume apart =
        over("not grouped", volume_of(&best, routes, NULL), volume_of(&linear, routes, NULL));
    for (uint32_t r = 0; r < routes->requests; r++)
        group[r] = (group[r] + 1) % GROUPS;
    const volume moved = over("groups on other hosts", volume_of(&best, routes, group),
                              volume_of(&linear, routes, NULL));
    assert_true(apart.beyond > 0.98 && apart.beyond < 1.02);
    assert_true(moved.beyond > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_of_grouped_requests)};
    return cmocka_run_group_tests_name("experts/claims_groups", tests, new_arena, free_arena);
}
