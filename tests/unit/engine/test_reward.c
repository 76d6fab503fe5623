/* SPDX-License-Identifier: Apache-2.0 */
#include "post_training.h"

#include "base/alloc.h"
#include "engine/train/reward.h"

static void rewards_are_what_they_say(void **state)
{
    (void)state;
    orr_reward r;
    orr_error err;
    assert_int_equal(orr_reward_parse("length", &r, &err), ORR_OK);
    assert_true(orr_reward_of(&r, "abc", 3, 3, 12) == 0.25);
    assert_int_equal(orr_reward_parse("digits", &r, &err), ORR_OK);
    assert_true(orr_reward_of(&r, "a1b2", 4, 4, 8) == 0.5);
    assert_true(orr_reward_of(&r, "", 0, 0, 8) == 0);
    assert_int_equal(orr_reward_parse("match:yes", &r, &err), ORR_OK);
    assert_true(orr_reward_of(&r, "oh yes!", 7, 7, 8) == 1);
    assert_true(orr_reward_of(&r, "oh ye", 5, 5, 8) == 0);
    assert_int_equal(orr_reward_parse("match:", &r, &err), ORR_UNSUPPORTED);
    assert_int_equal(orr_reward_parse("kindness", &r, &err), ORR_UNSUPPORTED);
    assert_int_equal(orr_reward_parse(NULL, &r, &err), ORR_UNSUPPORTED);
}

static void ratios_are_clipped(void **state)
{
    (void)state;
    const double losses[] = {0.5, 0.9, 1, 1.1, 1.7}, h = 1e-6;
    double by, unused;
    for (int i = 0; i < 5; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const double loss = orr_ppo_clipped_loss(losses[i], 1, 2.0 * sign, 0.2, &by);
            const double ratio = exp(1 - losses[i]);
            const double kept = ratio < 0.8 ? 0.8 : ratio > 1.2 ? 1.2 : ratio;
            const double want = -fmin(ratio * 2 * sign, kept * 2 * sign);
            const double slope =
                (orr_ppo_clipped_loss(losses[i] + h, 1, 2.0 * sign, 0.2, &unused) -
                 orr_ppo_clipped_loss(losses[i] - h, 1, 2.0 * sign, 0.2, &unused)) /
                (2 * h);
            assert_true(fabs(loss - want) < 1e-12);
            assert_true(fabs(by - slope) < 1e-6);
        }
}

#define TINY "layers=1,hidden=32,ffn=64,heads=4,vocab=260,seq=12,precision=fp32,gradients=fp32"
#define PROMPTS                                                                                    \
    "{\"prompt\":\"a:\"}\n{\"prompt\":\"bc:\"}\n{\"prompt\":\"d:\"}\n{\"prompt\":\"e:\"}\n"

static void open_rewarded(post_training *p, const char *folder, const char *plan, int64_t steps)
{
    post_open(p, folder, ORR_TASK_RL, plan, steps);
    p->workload.generated = 6;
    p->options.reward = "digits";
    post_write(p, PROMPTS);
}

static void the_reward_rises(void **state)
{
    post_training p;
    open_rewarded(&p, *state, TINY ",micro_batch=32", 40);
    post_run(&p);
    const orr_train_step *first = &p.result.history[0], *last = post_last(&p);
    assert_true(first->reward < 0.2 && fabs(first->kl) < 1e-4);
    if (!(last->reward > 0.6 && last->kl > 0.5))
        fail_msg("reward %.3f, KL %.3f", last->reward, last->kl);
    orr_arena_free(p.arena);
}

/* A heavy price of leaving the frozen model keeps the answers as they were. */
static void divergence_has_its_price(void **state)
{
    post_training loose, held;
    open_rewarded(&loose, *state, TINY ",micro_batch=32", 40);
    open_rewarded(&held, *state, TINY ",micro_batch=32", 40);
    held.options.kl = 10;
    post_run(&loose);
    post_run(&held);
    if (!(post_last(&held)->kl < 0.2 * post_last(&loose)->kl))
        fail_msg("KL %.3f and %.3f", post_last(&held)->kl, post_last(&loose)->kl);
    orr_arena_free(loose.arena);
    orr_arena_free(held.arena);
}

/* The same answers are drawn, whichever rank has them. */
static void replicas_are_rewarded_alike(void **state)
{
    post_training one, two;
    open_rewarded(&one, *state, TINY ",micro_batch=8", 3);
    open_rewarded(&two, *state, TINY ",micro_batch=2,batch=8,dp=2,zero=1", 3);
    post_run(&one);
    post_run(&two);
    for (int i = 0; i < 3; i++) {
        const orr_train_step *a = &one.result.history[i], *b = &two.result.history[i];
        assert_true(fabs(a->reward - b->reward) < 1e-9 && fabs(a->kl - b->kl) < 1e-4);
    }
    orr_arena_free(one.arena);
    orr_arena_free(two.arena);
}

static void what_cannot_be_rewarded_says_so(void **state)
{
    post_training p;
    open_rewarded(&p, *state, TINY ",tp=2", 1);
    assert_int_equal(orr_train(&p.options, p.arena, &p.result, &p.err), ORR_UNSUPPORTED);
    orr_arena_free(p.arena);
    open_rewarded(&p, *state, TINY, 1);
    p.options.reward = "kindness";
    assert_int_equal(orr_train(&p.options, p.arena, &p.result, &p.err), ORR_UNSUPPORTED);
    post_write(&p, "{\"question\":\"a\"}\n");
    assert_int_equal(orr_train(&p.options, p.arena, &p.result, &p.err), ORR_INVALID);
    orr_arena_free(p.arena);
}

/* A step of training with the n-th allocation failing, for as many as there are. */
static void every_failed_allocation_is_survived(void **state)
{
    post_training p;
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 1;
    for (; status != ORR_OK && nth < 100000; nth += nth < 30 ? 1 : 1 + nth / 12) {
        open_rewarded(&p, *state, TINY ",micro_batch=2", 1);
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
        cmocka_unit_test(rewards_are_what_they_say),
        cmocka_unit_test(ratios_are_clipped),
        cmocka_unit_test_setup_teardown(the_reward_rises, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(divergence_has_its_price, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(replicas_are_rewarded_alike, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_cannot_be_rewarded_says_so, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_survived, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
