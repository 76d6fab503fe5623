/* SPDX-License-Identifier: Apache-2.0 */
#include "small_module.h"

/* 1000 parameters in bf16: 2 bytes of weights, 4 of gradients, 12 of states each. */
static const orr_module_memory DENSE = {.parameters = 1000, .weight_bytes = 2000};
static const orr_module_memory EXPERTS = {.expert_parameters = 1000, .expert_weight_bytes = 2000};

static orr_state_bytes states(const orr_module_memory *m, orr_plan plan, uint8_t task)
{
    const orr_plan completed = orr_plan_with_defaults(&plan);
    return orr_state_bytes_of(m, &completed, task);
}

static void assert_states(orr_state_bytes s, int64_t weights, int64_t gradients, int64_t optimizer)
{
    assert_int_equal(s.weights, weights);
    assert_int_equal(s.gradients, gradients);
    assert_int_equal(s.optimizer, optimizer);
}

/* Rajbhandari et al., SC 2020, figure 1, with gradients of 4 bytes: 2 + 4 + 12 of a parameter. */
static void zero_shards_states_then_gradients_then_weights(void **state)
{
    (void)state;
    assert_states(states(&DENSE, (orr_plan){.dp = 8}, ORR_TASK_PRETRAIN), 2000, 4000, 12000);
    assert_states(states(&DENSE, (orr_plan){.dp = 8, .zero = 1}, ORR_TASK_PRETRAIN), 2000, 4000,
                  1500);
    assert_states(states(&DENSE, (orr_plan){.dp = 8, .zero = 2}, ORR_TASK_PRETRAIN), 2000, 500,
                  1500);
    assert_states(states(&DENSE, (orr_plan){.dp = 8, .zero = 3}, ORR_TASK_PRETRAIN), 500, 500,
                  1000);
    /* Context-parallel slices have the same weights. */
    assert_states(states(&DENSE, (orr_plan){.dp = 4, .cp = 2, .zero = 1}, ORR_TASK_PRETRAIN), 2000,
                  4000, 1500);
    /* Not a multiple: the largest shard. */
    assert_states(states(&DENSE, (orr_plan){.dp = 3, .zero = 3}, ORR_TASK_PRETRAIN), 1334, 1334,
                  2667);
}

/* The weights of the last meeting and the outer momentum: 8 bytes more, sharded as the others. */
static void local_steps_have_an_outer_optimizer(void **state)
{
    (void)state;
    assert_states(
        states(&DENSE, (orr_plan){.dp = 8, .dp_outer = 2, .local_steps = 9}, ORR_TASK_PRETRAIN),
        2000, 4000, 20000);
    assert_states(states(&DENSE, (orr_plan){.dp = 8, .dp_outer = 2, .local_steps = 9, .zero = 1},
                         ORR_TASK_PRETRAIN),
                  2000, 4000, 5000);
    assert_states(states(&DENSE, (orr_plan){.dp = 8, .dp_outer = 2, .local_steps = 9, .zero = 3},
                         ORR_TASK_PRETRAIN),
                  1000, 1000, 4000);
}

static void replicas_of_shards_have_larger_shards(void **state)
{
    (void)state;
    assert_states(states(&DENSE, (orr_plan){.dp = 8, .zero = 3, .shards = 2}, ORR_TASK_PRETRAIN),
                  2000, 2000, 4000);
}

static void experts_are_sharded_among_those_that_have_them(void **state)
{
    (void)state;
    assert_states(states(&EXPERTS, (orr_plan){.dp = 8, .ep = 4, .zero = 1}, ORR_TASK_PRETRAIN),
                  2000, 4000, 6000);
    assert_states(states(&EXPERTS, (orr_plan){.dp = 8, .ep = 8, .zero = 1}, ORR_TASK_PRETRAIN),
                  2000, 4000, 12000);
    assert_states(
        states(&EXPERTS, (orr_plan){.dp = 8, .ep = 2, .zero = 1, .shards = 4}, ORR_TASK_PRETRAIN),
        2000, 4000, 6000);
}

static void precision_sets_what_an_element_takes(void **state)
{
    (void)state;
    assert_states(states(&DENSE, (orr_plan){.gradients = ORR_PRECISION_BF16}, ORR_TASK_PRETRAIN),
                  2000, 2000, 12000);
    const orr_module_memory wide = {.parameters = 1000, .weight_bytes = 4000};
    assert_states(states(&wide, (orr_plan){.precision = ORR_PRECISION_FP32}, ORR_TASK_PRETRAIN),
                  4000, 4000, 8000);
}

static void frozen_weights_have_no_states(void **state)
{
    (void)state;
    const orr_module_memory lora = {.parameters = 1100,
                                    .weight_bytes = 2200,
                                    .frozen_parameters = 1000,
                                    .frozen_weight_bytes = 2000};
    assert_states(states(&lora, (orr_plan){.dp = 1}, ORR_TASK_LORA), 2200, 400, 1200);
}

static void other_models_stand_beside(void **state)
{
    (void)state;
    assert_states(states(&DENSE, (orr_plan){.dp = 1}, ORR_TASK_DPO), 4000, 4000, 12000);
    assert_states(states(&DENSE, (orr_plan){.dp = 1}, ORR_TASK_RL), 6000, 4000, 12000);
    assert_states(states(&DENSE, (orr_plan){.dp = 4, .zero = 3}, ORR_TASK_DPO), 1000 + 500, 1000,
                  2000);
    assert_true(orr_task_trains(ORR_TASK_DPO));
}

static void inference_has_weights_alone(void **state)
{
    (void)state;
    assert_states(states(&DENSE, (orr_plan){.dp = 4, .zero = 1}, ORR_TASK_PREFILL), 2000, 0, 0);
    assert_states(states(&DENSE, (orr_plan){.dp = 4}, ORR_TASK_DECODE), 2000, 0, 0);
}

static void offloaded_states_are_the_hosts(void **state)
{
    (void)state;
    const orr_state_bytes s =
        states(&DENSE, (orr_plan){.dp = 2, .zero = 1, .offload = ORR_OFFLOAD_OPTIMIZER},
               ORR_TASK_PRETRAIN);
    assert_states(s, 2000, 4000, 0);
    assert_int_equal(s.host, 6000);
}

static void tables_are_sharded_already(void **state)
{
    (void)state;
    const orr_module_memory m = {.table_bytes = 3200, .table_state_bytes = 400};
    assert_states(states(&m, (orr_plan){.dp = 8, .zero = 1}, ORR_TASK_PRETRAIN), 3200, 0, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_shards_states_then_gradients_then_weights),
        cmocka_unit_test(local_steps_have_an_outer_optimizer),
        cmocka_unit_test(replicas_of_shards_have_larger_shards),
        cmocka_unit_test(experts_are_sharded_among_those_that_have_them),
        cmocka_unit_test(precision_sets_what_an_element_takes),
        cmocka_unit_test(frozen_weights_have_no_states),
        cmocka_unit_test(other_models_stand_beside),
        cmocka_unit_test(inference_has_weights_alone),
        cmocka_unit_test(offloaded_states_are_the_hosts),
        cmocka_unit_test(tables_are_sharded_already),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
