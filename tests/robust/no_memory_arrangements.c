/* SPDX-License-Identifier: Apache-2.0 */
#include "failing.h"
#include "leaks.h"

#include <string.h>

#include <orrery/measure.h>

#include "engine/experts/exchange.h"
#include "io/transport/transport.h"
#include "model/experts/arrange.h"

/* Experts and requests arranged for a plan, an exchange between ranks opened, and serving
 * predicted, with every allocation failing in turn. */

enum { SMALLEST_BLOCK = 64, LAYERS = 2, EXPERTS = 6, TOP_K = 2 };

static orr_status arrange(uint8_t policy, uint32_t slots, uint32_t groups, bool kept,
                          orr_error *err)
{
    const orr_routes_drawn how = {.layers = LAYERS,
                                  .experts = EXPERTS,
                                  .top_k = TOP_K,
                                  .requests = 6,
                                  .prompt = 4,
                                  .decoded = 4,
                                  .kinds = 2,
                                  .affinity = 0.5,
                                  .skew = 1};
    const orr_model model = {
        .name = "small", .layers = LAYERS, .moe = {.experts = EXPERTS, .top_k = TOP_K, .every = 1}};
    const orr_plan plan = orr_plan_with_defaults(&(orr_plan){.dp = 2,
                                                             .ep = 2,
                                                             .expert_policy = policy,
                                                             .expert_slots = slots,
                                                             .request_groups = groups});
    orr_workload workload = {.task = ORR_TASK_DECODE}, ret;
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_routes_draw(&how, arena, &workload.routes, err));
    if (kept)
        ORR_TRY_OUT(status, orr_expert_arrangements_open(&workload.arrangements, err));
    for (int i = 0; i < 2; i++) /* the second time it is looked up */
        ORR_TRY_OUT(status, orr_experts_arrange(&model, &plan, &workload, arena, &ret, err));
    if (ret.windows == NULL || (slots > 0) != (ret.placement != NULL) ||
        ret.request_groups != (groups > 1 ? groups : 0))
        fail_msg("not arranged as the plan says");
out:
    orr_expert_arrangements_close(workload.arrangements);
    orr_arena_free(arena);
    return status;
}

static orr_status loads_alone(orr_error *err)
{
    return arrange(0, 0, 0, false, err);
}

static orr_status in_groups(orr_error *err)
{
    return arrange(ORR_EXPERT_POLICY_EPLB + 1, 1, 2, false, err);
}

static orr_status kept_for_the_next_plan(orr_error *err)
{
    return arrange(ORR_EXPERT_POLICY_BEST + 1, 1, 2, true, err);
}

static orr_status predicted_serving(orr_error *err)
{
    enum { REQUESTS = 3, PROMPT = 4 };
    const orr_routes_drawn how = {.layers = LAYERS,
                                  .experts = EXPERTS,
                                  .top_k = TOP_K,
                                  .requests = REQUESTS,
                                  .prompt = PROMPT,
                                  .decoded = 2,
                                  .kinds = 1};
    const orr_model model = {
        .name = "small", .layers = LAYERS, .moe = {.experts = EXPERTS, .top_k = TOP_K, .every = 1}};
    const orr_generator_options options = {.model = &model, .batch = 2};
    const orr_generator_ranks ranks = {.ranks = 2};
    const orr_prompt prompts[REQUESTS] = {{.n = PROMPT}, {.n = PROMPT}, {.n = PROMPT}};
    const orr_measured_serving measured = {.at_once = 2};
    orr_serving_job job = {.options = &options, .ranks = &ranks, .prompts = prompts, .n = REQUESTS};
    orr_predicted_serving ret = {0};
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_routes_draw(&how, arena, &job.routes, err));
    ORR_TRY_OUT(status, orr_predict_serving(&job, &measured, arena, &ret, err));
    if (ret.rounds < 3 || ret.layers != LAYERS)
        fail_msg("%u rounds of %u layers", ret.rounds, ret.layers);
out:
    orr_arena_free(arena);
    return status;
}

static orr_status opened_exchange(orr_error *err)
{
    static const uint32_t number[] = {1}, first[] = {0, EXPERTS};
    static const uint16_t expert[] = {0, 1, 2, 3, 4, 5};
    static const float share[] = {1, 1, 1, 1, 1, 1};
    static const float row[1][3] = {{1, 2, 3}};
    static const int32_t choice[] = {4, 2};
    static const uint32_t zero[] = {0};
    const orr_expert_placement placement = {.layers = 1,
                                            .experts = EXPERTS,
                                            .ranks = 1,
                                            .host_ranks = 1,
                                            .number = number,
                                            .first_slot = first,
                                            .expert = expert,
                                            .share = share,
                                            .policy = "",
                                            .source = "test"};
    const orr_expert_exchange_options options = {.transport = orr_transport_self(),
                                                 .placement = &placement,
                                                 .top_k = TOP_K,
                                                 .columns = 3,
                                                 .dtype = ORR_DTYPE_FP32,
                                                 .result_dtype = ORR_DTYPE_FP32,
                                                 .tokens = 4};
    const orr_expert_tokens tokens = {
        .n = 1, .rows = row, .choice = choice, .request = zero, .position = zero};
    orr_expert_exchange *x = NULL;
    uint32_t n = 0;
    ORR_TRY(orr_expert_exchange_new(&options, &x, err));
    orr_status status = orr_expert_exchange_place(x, &placement, err);
    if (status == ORR_OK)
        status = orr_expert_exchange_dispatch(x, 0, &tokens, &n, err);
    orr_expert_exchange_free(x);
    if (status == ORR_OK)
        assert_int_equal(n, TOP_K);
    return status;
}

TEST_OF(loads_alone)
TEST_OF(in_groups)
TEST_OF(kept_for_the_next_plan)
TEST_OF(predicted_serving)
TEST_OF(opened_exchange)

int main(int argc, char **argv)
{
    (void)argc;
    restart_without_caches(argv);
    const struct CMUnitTest tests[] = {TEST(loads_alone), TEST(in_groups),
                                       TEST(kept_for_the_next_plan), TEST(predicted_serving),
                                       TEST(opened_exchange)};
    return cmocka_run_group_tests_name("no_memory_arrangements", tests, make_folder, remove_folder);
}
