/* SPDX-License-Identifier: Apache-2.0 */
#include "post_training.h"

#include "base/alloc.h"
#include "engine/train/dpo.h"

static void derivatives_are_the_loss_s(void **state)
{
    (void)state;
    const double h = 1e-5;
    for (int i = 0; i < 6; i++) {
        const orr_dpo_pair p = {.chosen = -3 - i,
                                .rejected = -4 + 2 * i,
                                .chosen_reference = -2.5,
                                .rejected_reference = -5,
                                .tokens = 3};
        const orr_dpo_loss l = orr_dpo_loss_of(&p, 0.7, 0.2);
        orr_dpo_pair more = p, less = p; /* by minus log p */
        more.chosen -= h;
        less.chosen += h;
        const double by_chosen =
            (orr_dpo_loss_of(&more, 0.7, 0.2).loss - orr_dpo_loss_of(&less, 0.7, 0.2).loss) /
            (2 * h);
        more = less = p;
        more.rejected -= h;
        less.rejected += h;
        const double by_rejected =
            (orr_dpo_loss_of(&more, 0.7, 0.2).loss - orr_dpo_loss_of(&less, 0.7, 0.2).loss) /
            (2 * h);
        assert_true(fabs(l.by_chosen - by_chosen) < 1e-7);
        assert_true(fabs(l.by_rejected - by_rejected) < 1e-7);
        const double margin = 0.7 * ((p.chosen + 2.5) - (p.rejected + 5));
        assert_true(fabs(l.loss - (log(1 + exp(-margin)) - 0.2 * p.chosen / 3)) < 1e-12);
    }
}

#define TINY "layers=1,hidden=32,ffn=64,heads=4,vocab=260,seq=16,precision=fp32,gradients=fp32"
#define PAIRS                                                                                      \
    "{\"prompt\":\"a?\",\"chosen\":\"yes\",\"rejected\":\"no\"}\n"                                 \
    "{\"prompt\":\"b?\",\"chosen\":\"yes yes\",\"rejected\":\"never\"}\n"                          \
    "\n"                                                                                           \
    "{\"prompt\":\"c?\",\"chosen\":\"y\",\"rejected\":\"not now\"}\n"

static void the_chosen_answers_win(void **state)
{
    post_training p;
    post_open(&p, *state, ORR_TASK_DPO, TINY ",micro_batch=4", 20);
    post_write(&p, PAIRS);
    post_run(&p);
    assert_true(fabs(p.result.first_loss - log(2)) < 1e-6);
    assert_true(p.result.history[0].reward == 0.5);
    assert_true(post_last(&p)->reward == 1);
    assert_true(p.result.last_loss < 0.3);
    orr_arena_free(p.arena);
}

static void replicas_prefer_the_same(void **state)
{
    post_training one, two;
    post_open(&one, *state, ORR_TASK_DPO, TINY ",micro_batch=4", 4);
    post_open(&two, *state, ORR_TASK_DPO, TINY ",micro_batch=1,batch=4,dp=2", 4);
    post_write(&one, PAIRS);
    post_run(&one);
    post_run(&two);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(one.result.history[i].loss - two.result.history[i].loss) < 1e-5);
    orr_arena_free(one.arena);
    orr_arena_free(two.arena);
}

static void what_is_no_pair_says_so(void **state)
{
    post_training p;
    post_open(&p, *state, ORR_TASK_DPO, TINY, 1);
    post_write(&p, PAIRS "{\"prompt\":\"d?\",\"chosen\":\"y\"}\n");
    assert_int_equal(orr_train(&p.options, p.arena, &p.result, &p.err), ORR_INVALID);
    assert_non_null(strstr(p.err.text, "line 5"));
    post_write(&p, "{\"prompt\":\"much too long for it\",\"chosen\":\"y\",\"rejected\":\"n\"}\n");
    assert_int_equal(orr_train(&p.options, p.arena, &p.result, &p.err), ORR_INVALID);
    p.options.data = NULL;
    assert_int_equal(orr_train(&p.options, p.arena, &p.result, &p.err), ORR_INVALID);
    orr_arena_free(p.arena);
    post_open(&p, *state, ORR_TASK_DPO, TINY ",cp=2", 1);
    assert_int_equal(orr_train(&p.options, p.arena, &p.result, &p.err), ORR_UNSUPPORTED);
    orr_arena_free(p.arena);
}

/* A step of training with the n-th allocation failing, for as many as there are. */
static void every_failed_allocation_is_survived(void **state)
{
    post_training p;
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 1;
    for (; status != ORR_OK && nth < 100000; nth += nth < 30 ? 1 : 1 + nth / 12) {
        post_open(&p, *state, ORR_TASK_DPO, TINY ",micro_batch=2", 1);
        post_write(&p, PAIRS);
        orr_alloc_fail_from(nth);
        status = orr_train(&p.options, p.arena, &p.result, &p.err);
        orr_alloc_fail_from(0);
        if (status != ORR_OK && status != ORR_NO_MEMORY)
            fail_msg("allocation %llu: %s", (unsigned long long)nth, p.err.text);
        orr_arena_free(p.arena);
    }
    assert_int_equal(status, ORR_OK);
    assert_true(nth > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives_are_the_loss_s),
        cmocka_unit_test_setup_teardown(the_chosen_answers_win, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(replicas_prefer_the_same, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_is_no_pair_says_so, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_survived, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
