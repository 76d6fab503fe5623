/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"

#include "sim/program/prepared.h"

static void test_calls_are_found_by_grouping_and_ordinal(void **state)
{
    (void)state;
    toy *t = toy_begin(2);
    const uint32_t a = toy_grouping(t, "a", (uint32_t[]){0, 0});
    const uint32_t b = toy_grouping(t, "b", (uint32_t[]){0, 1});
    toy_graph(t);
    toy_communicate(t, 1, 0, b, 7);
    toy_communicate(t, 1, 0, a, 9);
    toy_work(t, ORR_WORK_COMPUTE, 1, 0);
    toy_communicate(t, 1, 0, a, 2);
    toy_communicate(t, 1, 0, ORR_NONE, 2);
    toy_end_graph(t);
    orr_prepared_program prepared;
    orr_transfer_pricer pricer;
    uint32_t begin, end;
    orr_transfer_pricer_init(&pricer, t->options.cluster, t->options.algorithm);
    assert_int_equal(orr_prepared_program_make(&t->programs[0], t->rendezvous[0], 1, &pricer,
                                               t->arena, &prepared, &t->err),
                     ORR_OK);
    assert_int_equal(prepared.n_calls, 3);
    orr_prepared_calls_of(&prepared, a, &begin, &end);
    assert_int_equal(end - begin, 2);
    assert_int_equal(prepared.calls[begin].work, 3);
    assert_int_equal(prepared.call_of_work[3], begin);
    assert_int_equal(prepared.call_of_work[2], ORR_NONE);
    assert_int_equal(prepared.call_of_work[4], ORR_NONE);
    assert_int_equal(prepared.calls[orr_prepared_call(&prepared, b, 7)].work, 0);
    assert_int_equal(orr_prepared_call(&prepared, b, 8), ORR_NONE);
    assert_int_equal(orr_prepared_call(&prepared, a, 7), ORR_NONE);
    orr_prepared_calls_of(&prepared, 2, &begin, &end);
    assert_int_equal(begin, end);
    assert_ptr_equal(prepared.edges, t->programs[0].edges); /* host speed 1: not copied */
    assert_int_equal(prepared.waits[0], 0);
    assert_int_equal(prepared.waits[1], 1);
    assert_int_equal(prepared.waits[2], 1);
    toy_end(t);
}

static void test_refuses(void **state)
{
    (void)state;
    toy *t = toy_begin(1);
    const uint32_t dp = toy_grouping(t, "dp", (uint32_t[]){0});
    toy_graph(t);
    toy_communicate(t, 1, 0, dp, 4);
    toy_work(t, ORR_WORK_COMPUTE, 1, 0);
    toy_communicate(t, 1, 0, dp, 4);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    assert_int_equal(toy_try(t), ORR_INVALID);
    assert_string_equal(t->err.text, "nodes 0 and 2 of one graph take part in the same rendezvous "
                                     "(grouping 0, ordinal 4)");
    ((orr_rendezvous_id *)t->rendezvous[0])[1].ordinal = 5;
    toy_simulate(t);
    ((orr_rendezvous_id *)t->rendezvous[0])[1].grouping = 1;
    assert_int_equal(toy_try(t), ORR_INVALID);
    assert_string_equal(t->err.text, "graph 0: a rendezvous in grouping 1 of 1");
    ((orr_rendezvous_id *)t->rendezvous[0])[1].grouping = ORR_NONE;
    ((orr_sim_work *)t->programs[0].works)[1].duration_ns = -1;
    assert_int_equal(toy_try(t), ORR_INVALID);
    assert_string_equal(t->err.text, "node 1 'n1' has no duration, and is no communication that a "
                                     "network could price");
    toy_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_are_found_by_grouping_and_ordinal),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
