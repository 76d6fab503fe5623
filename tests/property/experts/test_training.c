/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include <orrery/engine.h>

#include "../../unit/io/folder.h"
#include "../support/placed_experts.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/shard_text.h"

/* Trainings whose experts stand by a placement: losses, norms of gradients, weights, optimizer
 * state and recorded routes have the bits of neighbouring experts; and a checkpoint goes on by any
 * other placement, its optimizer state with each expert. */
enum { STEPS = 4, FIRST_STEPS = 2 };

static small_model (*const MODELS[])(void) = {small_mixtral, small_llama4, small_qwen3_moe};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS };

static const char *const PLANS[] = {"dp=2,ep=2",        "dp=4,ep=4",
                                    "dp=4,ep=2,zero=1", "dp=4,ep=2,zero=3,gradients=fp32",
                                    "tp=2,ep=2,etp=1",  "pp=2,dp=2,ep=2,micro_batches=4"};
enum { N_PLANS = sizeof PLANS / sizeof *PLANS };

typedef struct world {
    uint64_t seed;
    small_model model;
    orr_arena *arena;
    orr_random random;
    const char *folder;
} world;

/* One training; `save`, `routes`: names in the world's folder. */
typedef struct run {
    const char *plan, *save;
    const orr_expert_placement *placement;
    int threads;
    int64_t steps;
    bool resume;
} run;

static const char *path_of(const world *w, const char *save, const char *what)
{
    return orr_arena_printf(w->arena, "%s/%s%s", w->folder, save, what);
}

static orr_train_result train(const world *w, const run *r)
{
    orr_plan plan;
    orr_error err;
    const orr_workload workload = {.task = ORR_TASK_PRETRAIN, .placement = r->placement};
    const char *text = orr_arena_printf(w->arena, "%s,seq=16,batch=8,precision=%s", r->plan,
                                        w->seed % 2 == 0 ? "fp32" : "bf16");
    orr_train_result result;
    if (orr_plan_parse(text, &plan, &err) != ORR_OK)
        seed_fail(w->seed, "%s: %s", text, err.text);
    const orr_train_options options = {.model = &w->model.model,
                                       .plan = &plan,
                                       .workload = &workload,
                                       .steps = r->steps,
                                       .rate = 1e-2,
                                       .seed = w->seed,
                                       .threads = r->threads,
                                       .save = path_of(w, r->save, ""),
                                       .resume = r->resume,
                                       .expert_trace = path_of(w, r->save, ".csv"),
                                       .rate_schedule = ORR_LEARNING_RATE_CONSTANT};
    if (orr_train(&options, w->arena, &result, &err) != ORR_OK)
        seed_fail(w->seed, "%s, %s: %s", w->model.name, text, err.text);
    return result;
}

static void hold_curve(const world *w, const char *plan, const orr_train_result *got,
                       const orr_train_result *want)
{
    for (int64_t i = 0; i < got->steps; i++) {
        const orr_train_step *a = &got->history[i],
                             *b = &want->history[want->steps - got->steps + i];
        if (memcmp(&a->loss, &b->loss, sizeof a->loss) != 0 ||
            memcmp(&a->gradient_norm, &b->gradient_norm, sizeof a->gradient_norm) != 0)
            seed_fail(w->seed, "%s, %s: step %lld: loss %.17g, norm %.17g, not %.17g, %.17g",
                      w->model.name, plan, (long long)a->step, a->loss, a->gradient_norm, b->loss,
                      b->gradient_norm);
    }
}

/* One parameter or moment of two checkpoints, whole. */
static void hold_tensor(const world *w, const orr_checkpoint *got, const orr_checkpoint *want,
                        const char *parameter, const char *part, int64_t n)
{
    float *a = orr_arena_array(w->arena, float, (size_t)n),
          *b = orr_arena_array(w->arena, float, (size_t)n);
    orr_error err;
    if (orr_checkpoint_read_tensor(got, parameter, part, a, n, &err) != ORR_OK ||
        orr_checkpoint_read_tensor(want, parameter, part, b, n, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
    if (memcmp(a, b, (size_t)n * sizeof *a) != 0)
        seed_fail(w->seed, "%s: %s of %s has other bits", w->model.name, part, parameter);
}

static orr_checkpoint *open_checkpoint(const world *w, const char *save)
{
    orr_checkpoint *c;
    orr_error err;
    if (orr_checkpoint_open(path_of(w, save, ""), &c, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
    return c;
}

/* All that training changes, wherever it is stored. */
static void hold_state(const world *w, const char *got_save, const char *want_save)
{
    orr_checkpoint *got = open_checkpoint(w, got_save), *want = open_checkpoint(w, want_save);
    uint32_t experts = 0;
    for (uint32_t r = 0; r < want->ranks; r++)
        for (uint32_t i = 0; i < want->files[r]->n_metadata; i++) {
            const orr_metadata *m = &want->files[r]->metadata[i];
            orr_shard_part shard;
            orr_error err;
            if (strncmp(m->key, "own.", 4) != 0)
                continue;
            if (orr_shard_text_read(m->value, m->key, w->arena, &shard, &err) != ORR_OK)
                seed_fail(w->seed, "%s", err.text);
            const int64_t n = orr_type_elements(&shard.own.whole);
            hold_tensor(w, got, want, m->key + 4, "master", n);
            hold_tensor(w, got, want, m->key + 4, "mean", n);
            hold_tensor(w, got, want, m->key + 4, "square", n);
            experts += strstr(m->key, "expert_") != NULL;
        }
    assert_true(experts > 0);
    orr_checkpoint_close(got);
    orr_checkpoint_close(want);
}

static void hold_routes(const world *w, const char *got, const char *want)
{
    const char *command = orr_arena_printf(w->arena, "cmp '%s' '%s'", path_of(w, got, ".csv"),
                                           path_of(w, want, ".csv"));
    if (system(command) != 0)
        seed_fail(w->seed, "%s: other routes are recorded", w->model.name);
}

static void forget(const world *w, const char *save)
{
    orr_checkpoint_remove(path_of(w, save, ""));
    (void)unlink(path_of(w, save, ".csv"));
}

static const orr_expert_placement *place(world *w, experts_placed kind, uint32_t ranks)
{
    return place_experts(&w->model.model, kind, ranks, ranks, w->seed, &w->random, w->arena);
}

static uint32_t ranks_of(const char *plan)
{
    return (uint32_t)atoi(strstr(plan, "ep=") + 3);
}

/* Uninterrupted by each placement; and half of the steps by one, the others by another. */
static void hold_plan(world *w, const char *plan)
{
    const uint32_t ranks = ranks_of(plan);
    const int threads = 1 + 3 * (int)orr_random_below(&w->random, 2);
    const orr_expert_placement *reversed = place(w, EXPERTS_REVERSED, ranks),
                               *drawn = place(w, EXPERTS_SHUFFLED, ranks);
    const orr_train_result none = train(
                               w,
                               &(run){.plan = plan, .save = "none", .threads = 1, .steps = STEPS}),
                           back = train(w, &(run){plan, "back", reversed, threads, STEPS, false}),
                           any = train(w, &(run){plan, "any", drawn, 1, FIRST_STEPS, false});
    hold_curve(w, plan, &back, &none);
    hold_state(w, "back", "none");
    hold_routes(w, "back", "none");
    if (back.state_digest == none.state_digest)
        seed_fail(w->seed, "%s, %s: no expert stands elsewhere", w->model.name, plan);
    assert_int_equal(any.steps, FIRST_STEPS);
    const orr_expert_placement *next = orr_random_below(&w->random, 2) == 0 ? reversed : NULL;
    const orr_train_result rest = train(w, &(run){plan, "any", next, threads, STEPS, true});
    assert_int_equal(rest.steps, STEPS - FIRST_STEPS);
    hold_curve(w, plan, &rest, &none);
    hold_state(w, "any", "none");
    if (next == reversed)
        assert_true(rest.state_digest == back.state_digest);
    else
        assert_true(rest.state_digest == none.state_digest);
    forget(w, "none");
    forget(w, "back");
    forget(w, "any");
}

static void with_world(void **state, uint64_t seed, uint32_t model, void (*hold)(world *w))
{
    world w = {.seed = seed,
               .model = MODELS[model](),
               .arena = orr_arena_new(0, 0),
               .random = orr_random_of(seed, 40 + model),
               .folder = *state};
    hold(&w);
    orr_arena_free(w.arena);
}

/* Half of the plans with a seed, the others with the next, in the other precision. */
static void hold_plans(world *w)
{
    for (size_t p = 0; p < N_PLANS; p++)
        if ((p + w->model.model.moe.top_k + w->seed) % 2 == 0)
            hold_plan(w, PLANS[p]);
}

static void experts_learn_the_same_wherever_they_stand(void **state)
{
    const seed_range range = seeds(2);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (uint32_t m = 0; m < N_MODELS; m++)
            with_world(state, seed, m, hold_plans);
}

/* From four ranks to two with another placement, as without any. */
static void hold_other_ranks(world *w)
{
    const orr_expert_placement *four = place(w, EXPERTS_SHUFFLED, 4),
                               *two = place(w, EXPERTS_SHUFFLED, 2);
    (void)train(w, &(run){"dp=4,ep=4", "any", four, 1, FIRST_STEPS, false});
    (void)train(w, &(run){"dp=4,ep=4", "none", NULL, 1, FIRST_STEPS, false});
    hold_state(w, "any", "none");
    const orr_train_result placed = train(w, &(run){"dp=2,ep=2", "any", two, 1, STEPS, true}),
                           none = train(w, &(run){"dp=2,ep=2", "none", NULL, 1, STEPS, true});
    hold_curve(w, "dp=4 to 2", &placed, &none);
    hold_state(w, "any", "none");
    forget(w, "any");
    forget(w, "none");
}

static void a_checkpoint_goes_on_with_other_ranks(void **state)
{
    for (uint32_t m = 0; m < N_MODELS; m++)
        with_world(state, m, m, hold_other_ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(experts_learn_the_same_wherever_they_stand, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_checkpoint_goes_on_with_other_ranks, make_folder,
                                        remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
