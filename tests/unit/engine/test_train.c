/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <orrery/engine.h>

#include "engine/data/dataset.h"
#include "engine/train/learning_rate.h"

static void rates_go_up_and_down(void **state)
{
    (void)state;
    orr_learning_rate r = {
        .most = 1, .least = 0.1, .warmup = 10, .steps = 110, .schedule = ORR_LEARNING_RATE_COSINE};
    assert_true(fabs(orr_learning_rate_at(&r, 1) - 0.1) < 1e-15);
    assert_true(orr_learning_rate_at(&r, 10) == 1);
    assert_true(fabs(orr_learning_rate_at(&r, 60) - 0.55) < 1e-12); /* half way: the middle */
    assert_true(fabs(orr_learning_rate_at(&r, 110) - 0.1) < 1e-12);
    assert_true(fabs(orr_learning_rate_at(&r, 500) - 0.1) < 1e-12);
    r.schedule = ORR_LEARNING_RATE_LINEAR;
    assert_true(fabs(orr_learning_rate_at(&r, 35) - 0.775) < 1e-12);
    r.schedule = ORR_LEARNING_RATE_CONSTANT;
    assert_true(orr_learning_rate_at(&r, 110) == 1);
    r.warmup = 0;
    assert_true(orr_learning_rate_at(&r, 1) == 1);
}

typedef struct run {
    orr_arena *arena;
    const orr_model *model;
    orr_plan plan;
    orr_workload workload;
    orr_train_options options;
    orr_train_result result;
    int64_t told, stop_after;
    orr_status status;
    orr_error err;
} run;

static void told(void *ctx, const orr_train_step *step)
{
    run *r = ctx;
    r->told++;
    assert_true(step->step >= 1 && isfinite(step->loss) && step->step_ns > 0);
}

static bool stopped(void *ctx)
{
    const run *r = ctx;
    return r->stop_after > 0 && r->told >= r->stop_after;
}

static void open_run(run *r, const char *plan, int64_t steps)
{
    *r = (run){.arena = orr_arena_new(0, 0), .workload = {.task = ORR_TASK_PRETRAIN}};
    assert_non_null(r->arena);
    assert_int_equal(orr_model_load("llama2-7b", r->arena, &r->model, &r->err), ORR_OK);
    if (orr_plan_parse(plan, &r->plan, &r->err) != ORR_OK)
        fail_msg("%s", r->err.text);
    r->options = (orr_train_options){.model = r->model,
                                     .plan = &r->plan,
                                     .workload = &r->workload,
                                     .steps = steps,
                                     .warmup = 2,
                                     .rate = 1e-2,
                                     .seed = 3,
                                     .threads = 1,
                                     .told = told,
                                     .stopped = stopped,
                                     .ctx = r};
}

static void make_run(run *r)
{
    r->status = orr_train(&r->options, r->arena, &r->result, &r->err);
    if (r->status != ORR_OK)
        fail_msg("%s", r->err.text);
}

static void close_run(run *r)
{
    if (r->result.graph != NULL)
        orr_graph_free(r->result.graph);
    orr_arena_free(r->arena);
}

#define TINY "layers=1,hidden=32,ffn=64,heads=4,vocab=16,seq=32,precision=fp32,batch=8"

static void training_learns_what_can_be_learned(void **state)
{
    (void)state;
    run r;
    open_run(&r, TINY, 120);
    make_run(&r);
    const double floor = orr_dataset_synthetic_entropy(16);
    assert_int_equal(r.result.steps, 120);
    assert_int_equal(r.told, 120);
    assert_true(fabs(r.result.first_loss - log(16)) < 0.1);
    assert_true(r.result.last_loss < floor + 0.25);
    assert_true(r.result.last_loss > floor - 0.25);
    assert_true(r.result.planned_bytes > 0 && r.result.step_ns > 0);
    close_run(&r);
}

static void ranks_train_as_one(void **state)
{
    (void)state;
    run one, two;
    open_run(&one, TINY, 4);
    open_run(&two, TINY ",dp=2", 4);
    make_run(&one);
    make_run(&two);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(one.result.history[i].tokens, two.result.history[i].tokens);
        assert_true(fabs(one.result.history[i].loss - two.result.history[i].loss) < 1e-5);
    }
    close_run(&one);
    close_run(&two);
}

static void it_stops_when_asked(void **state)
{
    (void)state;
    run r;
    open_run(&r, TINY ",dp=2", 50);
    r.stop_after = 3;
    make_run(&r);
    assert_true(r.result.stopped);
    assert_int_equal(r.result.steps, 3);
    close_run(&r);
}

static void the_last_steps_are_recorded(void **state)
{
    run r;
    struct stat about;
    char path[128];
    open_run(&r, TINY ",dp=2", 5);
    r.options.record_steps = 2;
    r.options.record = *state;
    make_run(&r);
    assert_non_null(r.result.graph);
    assert_true(r.result.n_ops > 5);
    int64_t ns = 0;
    for (uint32_t i = 0; i < r.result.n_ops; i++) {
        assert_true(i == 0 || r.result.ops[i].ns <= r.result.ops[i - 1].ns);
        ns += r.result.ops[i].ns;
    }
    assert_true(ns > 0);
    for (int rank = 0; rank < 2; rank++) {
        (void)snprintf(path, sizeof path, "%s/rank%d.et", (const char *)*state, rank);
        assert_int_equal(stat(path, &about), 0);
    }
    close_run(&r);
}

static void going_on_gives_the_same_bits(void **state)
{
    run whole, first, rest;
    open_run(&whole, TINY ",dp=2,zero=1", 8);
    open_run(&first, TINY ",dp=2,zero=1", 8);
    open_run(&rest, TINY ",dp=2,zero=1", 8);
    make_run(&whole);
    first.options.save = rest.options.save = *state;
    first.options.save_every = 2;
    first.stop_after = 5;
    make_run(&first); /* saved when it stopped, after step 5 */
    rest.options.resume = true;
    make_run(&rest);
    assert_int_equal(rest.result.steps, 3);
    for (int i = 0; i < 3; i++) {
        const orr_train_step *a = &whole.result.history[5 + i], *b = &rest.result.history[i];
        assert_int_equal(b->step, 6 + i);
        assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
        assert_memory_equal(&a->gradient_norm, &b->gradient_norm, sizeof a->gradient_norm);
    }
    close_run(&whole);
    close_run(&first);
    close_run(&rest);
}

static void it_goes_on_in_another_plan(void **state)
{
    run whole, first, rest;
    open_run(&whole, TINY, 6);
    open_run(&first, TINY ",tp=2", 3);
    open_run(&rest, TINY ",dp=2,zero=3,gradients=fp32", 6);
    whole.options.rate_schedule = first.options.rate_schedule = rest.options.rate_schedule =
        ORR_LEARNING_RATE_CONSTANT; /* the first does not know of the others' length */
    make_run(&whole);
    first.options.save = rest.options.save = *state;
    make_run(&first);
    rest.options.resume = true;
    make_run(&rest);
    assert_int_equal(rest.result.steps, 3);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(whole.result.history[3 + i].loss - rest.result.history[i].loss) < 1e-5);
    close_run(&whole);
    close_run(&first);
    close_run(&rest);
}

/* Written by slices, read whole, written again without having learned: the same file. */
static void what_is_exported_can_be_begun_from(void **state)
{
    char first[96], second[96], command[256];
    run a, b;
    (void)snprintf(first, sizeof first, "%s/first", (const char *)*state);
    (void)snprintf(second, sizeof second, "%s/second", (const char *)*state);
    open_run(&a, TINY ",tp=2", 3);
    a.options.export_to = first;
    make_run(&a);
    open_run(&b, TINY ",dp=2,zero=1", 1);
    b.options.init = first;
    b.options.export_to = second;
    b.options.warmup = 0;
    b.options.rate = 1e-30;
    make_run(&b);
    assert_true(b.result.first_loss < a.result.first_loss - 0.05);
    (void)snprintf(command, sizeof command, "cmp %s/model.safetensors %s/model.safetensors", first,
                   second);
    assert_int_equal(system(command), 0);
    close_run(&a);
    close_run(&b);
}

/* Ranks and all are killed at some moment; what is left goes on. */
static void killed_it_goes_on_to_the_same_bits(void **state)
{
    run whole, rest;
    open_run(&whole, TINY, 12);
    make_run(&whole);
    for (int kills = 0; kills < 3; kills++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct stat about;
            char latest[128];
            run r;
            open_run(&r, TINY, 12);
            (void)snprintf(latest, sizeof latest, "%s/latest", (const char *)*state);
            r.options.save = *state;
            r.options.save_every = 1;
            r.options.resume = stat(latest, &about) == 0;
            const orr_status status = orr_train(&r.options, r.arena, &r.result, &r.err);
            _exit(status == ORR_OK ? 0 : 1);
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000 + 30000000 * kills}, NULL);
        int how;
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_false(WIFEXITED(how) && WEXITSTATUS(how) != 0);
    }
    struct stat about;
    char latest[128];
    open_run(&rest, TINY, 12);
    (void)snprintf(latest, sizeof latest, "%s/latest", (const char *)*state);
    rest.options.save = *state;
    rest.options.resume = stat(latest, &about) == 0;
    make_run(&rest);
    for (int64_t i = 0; i < rest.result.steps; i++) {
        const orr_train_step *b = &rest.result.history[i];
        const orr_train_step *a = &whole.result.history[b->step - 1];
        assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    }
    close_run(&whole);
    close_run(&rest);
}

static void what_cannot_be_trained_says_so(void **state)
{
    (void)state;
    run r;
    open_run(&r, TINY, 0);
    assert_int_equal(orr_train(&r.options, r.arena, &r.result, &r.err), ORR_INVALID);
    r.options.steps = 2;
    r.options.resume = true;
    assert_int_equal(orr_train(&r.options, r.arena, &r.result, &r.err), ORR_INVALID);
    r.options.save = "/tmp/orrery-no-such-checkpoint";
    assert_int_equal(orr_train(&r.options, r.arena, &r.result, &r.err), ORR_NOT_FOUND);
    r.options.resume = false;
    r.options.save = NULL;
    r.options.data = "/nowhere";
    assert_int_equal(orr_train(&r.options, r.arena, &r.result, &r.err), ORR_IO);
    int64_t bytes = 0;
    r.options.data = NULL;
    assert_int_equal(orr_train_measure(&r.options, &bytes, &r.err), ORR_OK);
    assert_true(bytes > 100000);
    close_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_go_up_and_down),
        cmocka_unit_test(training_learns_what_can_be_learned),
        cmocka_unit_test(ranks_train_as_one),
        cmocka_unit_test(it_stops_when_asked),
        cmocka_unit_test_setup_teardown(the_last_steps_are_recorded, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(going_on_gives_the_same_bits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(it_goes_on_in_another_plan, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_is_exported_can_be_begun_from, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(killed_it_goes_on_to_the_same_bits, make_folder,
                                        remove_folder),
        cmocka_unit_test(what_cannot_be_trained_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
