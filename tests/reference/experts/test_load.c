/* SPDX-License-Identifier: Apache-2.0 */
#include "maverick.h"

#include <math.h>

#include <orrery/graph.h>
#include <orrery/model.h>

/* Which experts Llama 4 Maverick chose for 56,089 tokens of MMLU, against the same figures made by
 * counting the file with Python's csv and collections. */

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

static orr_expert_load load_of(const char *phase)
{
    orr_expert_load load = {0};
    orr_error err = {0};
    if (orr_expert_load_read(maverick_path(), phase, arena, &load, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return load;
}

static void every_second_layer_of_maverick(void **state)
{
    (void)state;
    const orr_expert_load load = load_of(NULL);
    const orr_model *maverick;
    assert_int_equal(orr_model_load("llama4-maverick", arena, &maverick, NULL), ORR_OK);
    assert_int_equal(load.tokens, 56089);
    assert_int_equal(load.layers, 24);
    assert_int_equal(load.experts, maverick->moe.experts);
    for (uint32_t l = 0, layer = 0; l < load.layers; l++, layer++) {
        while (!orr_model_layer_moe(maverick, layer))
            layer++;
        assert_int_equal(load.number[l], layer);
    }
}

static void shares_are_the_counts(void **state)
{
    (void)state;
    const orr_expert_load load = load_of(NULL);
    const int counts[] = {278, 0, 1, 883, 438};
    for (int e = 0; e < 5; e++)
        assert_true(load.share[e] == counts[e] / 56089.0);
    assert_true(load.share[119] == 8638 / 56089.0);
    for (uint32_t l = 0; l < load.layers; l++) {
        double sum = 0;
        for (uint32_t e = 0; e < load.experts; e++)
            sum += load.share[l * load.experts + e];
        assert_true(fabs(sum - 1) < 1e-12);
    }
}

static void imbalance_over_ranks(void **state)
{
    (void)state;
    const orr_expert_load load = load_of(NULL);
    static const struct {
        uint32_t ranks;
        double first, last, mean;
    } want[] = {
        {8, 1.885146820232131, 1.4919146356683128, 2.1944647494755363},
        {16, 2.922498172547202, 1.6676353652231275, 3.419719850000297},
        {64, 9.986414448465831, 3.9183440603326853, 11.234098189187423},
        {128, 19.712670933694664, 4.943001301502968, 21.440211093084205},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const uint32_t ranks = want[i].ranks;
        assert_true(fabs(orr_expert_imbalance(&load, 0, ranks) - want[i].first) < 1e-9);
        assert_true(fabs(orr_expert_imbalance(&load, 23, ranks) - want[i].last) < 1e-9);
        assert_true(fabs(orr_expert_imbalance(&load, ORR_NONE, ranks) - want[i].mean) < 1e-9);
    }
}

static void phases(void **state)
{
    (void)state;
    const orr_expert_load prefill = load_of("p");
    assert_int_equal(prefill.tokens, 7255);
    assert_int_equal(load_of("d").tokens, 48834);
    assert_true(fabs(orr_expert_imbalance(&prefill, ORR_NONE, 8) - 2.483620491614978) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_second_layer_of_maverick),
        cmocka_unit_test(shares_are_the_counts),
        cmocka_unit_test(imbalance_over_ranks),
        cmocka_unit_test(phases),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
