/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/engine.h>

/* Whatever the plan, ranks train the model that one rank trains: the same losses and norms of
 * gradients, step by step. In fp32 sums are made in another order, and nothing else differs: bound
 * 1e-5, relative. Where even the order is the same, so are the bits. */
#define OF_HEADS(n) "hidden=32,ffn=64,heads=" #n ",vocab=64,seq=32,precision=fp32,batch=8"
#define SMALL       OF_HEADS(4)
enum { STEPS = 5 };

typedef struct curve {
    double loss[STEPS], norm[STEPS];
} curve;

static void train(const char *model, const char *plan, const char *change, curve *ret)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err;
    const orr_model *m;
    orr_plan p;
    char text[256];
    const orr_workload workload = {.task = ORR_TASK_PRETRAIN};
    orr_train_result result;
    assert_non_null(arena);
    (void)snprintf(text, sizeof text, "%s%s%s", plan, change[0] != '\0' ? "," : "", change);
    if (orr_model_load(model, arena, &m, &err) != ORR_OK ||
        orr_plan_parse(text, &p, &err) != ORR_OK)
        fail_msg("%s, %s: %s", model, text, err.text);
    const orr_train_options options = {.model = m,
                                       .plan = &p,
                                       .workload = &workload,
                                       .steps = STEPS,
                                       .rate = 1e-3,
                                       .seed = 1,
                                       .threads = 1,
                                       .rate_schedule = ORR_LEARNING_RATE_CONSTANT};
    if (orr_train(&options, arena, &result, &err) != ORR_OK)
        fail_msg("%s, %s: %s", model, text, err.text);
    assert_int_equal(result.steps, STEPS);
    for (int i = 0; i < STEPS; i++) {
        ret->loss[i] = result.history[i].loss;
        ret->norm[i] = result.history[i].gradient_norm;
    }
    orr_arena_free(arena);
}

static void compare(const char *model, const char *plan, const char *const *changes, size_t n)
{
    curve one, all;
    train(model, plan, "", &one);
    assert_true(one.loss[STEPS - 1] < one.loss[0]);
    for (size_t i = 0; i < n; i++) {
        train(model, plan, changes[i], &all);
        for (int s = 0; s < STEPS; s++) {
            const double loss = fabs(all.loss[s] - one.loss[s]) / one.loss[s];
            const double norm = fabs(all.norm[s] - one.norm[s]) / one.norm[s];
            if (!(loss < 1e-5) || !(norm < 1e-4))
                fail_msg("%s, %s,%s: step %d: loss %.9f, norm %.9f; on one rank %.9f, %.9f", model,
                         plan, changes[i], s + 1, all.loss[s], all.norm[s], one.loss[s],
                         one.norm[s]);
        }
    }
}
#define COMPARE(model, plan, ...)                                                                  \
    compare((model), (plan), (const char *const[]){__VA_ARGS__},                                   \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void llama_over_replicas(void **state)
{
    (void)state;
    COMPARE("llama2-7b", SMALL ",layers=2", "dp=2", "dp=4", "dp=2,overlap_dp=off", "dp=2,zero=1",
            "dp=2,zero=1,overlap_dp=off", "dp=2,zero=2,gradients=fp32",
            "dp=2,zero=3,gradients=fp32", "dp=2,zero=3,gradients=fp32,reshard=off",
            "dp=4,zero=1,shards=2", "dp=4,zero=3,shards=2,gradients=fp32", "dp=2,bucket_bytes=8192",
            "dp=2,zero=1,bucket_bytes=8192");
}

static void llama_in_slices(void **state)
{
    (void)state;
    COMPARE("llama2-7b", SMALL ",layers=2", "tp=2", "tp=2,sp=off", "tp=4",
            "cp=2,cp_kind=all_gather", "cp=2", "cp=4", "tp=2,cp=2", "tp=2,recompute=full",
            "tp=2,recompute=selective");
}

static void llama_in_stages(void **state)
{
    (void)state;
    COMPARE("llama2-7b", SMALL ",layers=4", "pp=2,micro_batches=4",
            "pp=2,micro_batches=4,schedule=gpipe", "pp=2,micro_batches=4,schedule=interleaved,vp=2",
            "pp=2,micro_batches=4,schedule=zb_h1", "pp=2,micro_batches=4,schedule=zb_v",
            "pp=2,micro_batches=4,overlap_pp=off", "pp=3,micro_batches=8",
            "pp=4,micro_batches=8,schedule=zb_h1",
            "pp=2,micro_batches=4,recompute=block,recompute_layers=1");
}

static void llama_in_several_ways_at_once(void **state)
{
    (void)state;
    COMPARE("llama2-7b", SMALL ",layers=4", "tp=2,dp=2", "tp=2,pp=2,micro_batches=4",
            "dp=2,pp=2,micro_batches=2,zero=1",
            "dp=2,pp=2,micro_batches=2,zero=3,gradients=fp32,schedule=zb_h1",
            "dp=2,pp=2,micro_batches=2,zero=2,gradients=fp32,schedule=zb_v",
            "tp=2,dp=2,zero=3,gradients=fp32", "cp=2,dp=2,zero=1", "cp=2,pp=2,micro_batches=4",
            "tp=2,dp=2,order=dp-tp-cp-pp");
}

/* Learned positions, biases, and an embedding that is the head as well. */
static void gpt_with_a_tied_head(void **state)
{
    (void)state;
    COMPARE("mpt-7b", SMALL ",layers=2", "dp=2", "tp=2", "tp=2,sp=off", "cp=2,cp_kind=all_gather",
            "pp=2,micro_batches=4", "pp=2,micro_batches=4,schedule=zb_v", "dp=2,zero=1",
            "dp=2,zero=3,gradients=fp32", "tp=2,pp=2,micro_batches=4",
            "dp=2,pp=2,micro_batches=2,zero=1", "dp=2,pp=2,micro_batches=2,zero=3,gradients=fp32");
}

static void a_mixture_of_experts(void **state)
{
    (void)state;
    COMPARE("mixtral-8x7b", OF_HEADS(8) ",layers=2", "dp=2", "tp=2,etp=1", "dp=2,ep=2", "tp=2",
            "dp=2,ep=2,zero=1", "dp=4,ep=2", "dp=2,ep=2,zero=3,gradients=fp32", "tp=2,ep=2,etp=1",
            "tp=2,dp=2,ep=2", "pp=2,dp=2,ep=2,micro_batches=4");
}

/* Whatever is sent to and fro between stages or shards, or computed again, nothing is added in
 * another order. (Micro-batches are: products add to what is there, replicas' gradients come when
 * they are whole.) */
static void the_same_order_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"pp=1,micro_batches=4", "pp=2,micro_batches=4"},
        {"pp=2,micro_batches=4,schedule=gpipe", "pp=2,micro_batches=4,schedule=1f1b"},
        {"dp=2,zero=1", "dp=2"},
        {"recompute=full", "recompute=none"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        curve a, b;
        train("llama2-7b", SMALL ",layers=2", same[i][0], &a);
        train("llama2-7b", SMALL ",layers=2", same[i][1], &b);
        if (memcmp(a.loss, b.loss, sizeof a.loss) != 0)
            fail_msg("%s and %s: %.17g and %.17g in the end", same[i][0], same[i][1],
                     a.loss[STEPS - 1], b.loss[STEPS - 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_over_replicas),
        cmocka_unit_test(llama_in_slices),
        cmocka_unit_test(llama_in_stages),
        cmocka_unit_test(llama_in_several_ways_at_once),
        cmocka_unit_test(gpt_with_a_tied_head),
        cmocka_unit_test(a_mixture_of_experts),
        cmocka_unit_test(the_same_order_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
