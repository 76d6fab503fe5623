/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include <orrery/measure.h>

#include "../support/placed_experts.h"

/* Serving over ranks, predicted from the routes of its prompts: rounds and the bytes of every layer
 * and level are those of the run; and times follow what they are made of. */
enum { PROMPTS = 12, PROMPT_MAX = 20, GENERATED = 5, RANKS_MAX = 4, CAPACITY = 32 };

typedef struct world {
    uint64_t seed;
    const small_model *model;
    orr_arena *arena;
    orr_random random;
    int32_t tokens[PROMPTS][PROMPT_MAX];
    orr_prompt prompts[PROMPTS];
    char path[40];
    orr_generator_options options;
    orr_generator_ranks ranks;
    const orr_routes *routes;
    orr_generated_bytes run;
    orr_measured_serving measured;
} world;

static uint64_t below(world *w, uint64_t n)
{
    return orr_random_below(&w->random, n);
}

/* The second half of the prompts is the first again. */
static void open_world(world *w, const small_model *model, uint64_t seed)
{
    *w = (world){.seed = seed,
                 .model = model,
                 .arena = orr_arena_new(0, 0),
                 .random = orr_random_of(seed, 1),
                 .path = "/tmp/orr_routes_XXXXXX.csv"};
    const int file = mkstemps(w->path, 4);
    assert_true(file >= 0);
    close(file);
    for (uint32_t p = 0; p < PROMPTS; p++) {
        w->prompts[p] = (orr_prompt){.tokens = w->tokens[p], .n = 1 + below(w, PROMPT_MAX)};
        for (size_t i = 0; i < w->prompts[p].n; i++)
            w->tokens[p][i] = (int32_t)below(w, model->model.vocab);
        if (p >= PROMPTS / 2)
            w->prompts[p] = w->prompts[p - PROMPTS / 2];
    }
    w->options = (orr_generator_options){.model = &model->model,
                                         .format = ORR_ROW_FORMATS,
                                         .context = CAPACITY,
                                         .batch = 1 + (uint32_t)below(w, 3),
                                         .threads = 1,
                                         .seed = seed,
                                         .record_experts = true};
}

static void close_world(world *w)
{
    unlink(w->path);
    orr_arena_free(w->arena);
}

/* Hosts of any number of ranks. */
static const orr_expert_placement *place(world *w, experts_placed kind, uint32_t ranks)
{
    const uint32_t host_ranks = 1 + (uint32_t)below(w, ranks);
    return place_experts(&w->model->model, kind, ranks, host_ranks, w->seed, &w->random, w->arena);
}

static void read_routes(world *w)
{
    orr_routes_options how;
    orr_error err;
    orr_routes_options_init(&how);
    how.experts = w->model->model.moe.experts;
    how.keep_warm_up = true;
    if (orr_routes_read(w->path, &how, w->arena, &w->routes, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
}

/* A curve from 10 to 20 sizes, in proportion. */
static orr_serving_curve line(double ns)
{
    return (orr_serving_curve){.n = 2, .at = {10, 20}, .ns = {10 * ns, 20 * ns}};
}

/* Serves the first n prompts, and sets what a machine would have measured. */
static void serve(world *w, uint32_t n)
{
    const orr_sampling sampling = {.most = GENERATED, .temperature = 0.8, .seed = w->seed};
    orr_generated got[PROMPTS];
    orr_error err;
    w->ranks.expert_trace = w->path;
    if (orr_generate_over_ranks(&w->options, &w->ranks, w->prompts, n, &sampling, NULL, NULL,
                                w->arena, got, NULL, &w->run, &err) != ORR_OK)
        seed_fail(w->seed, "%s: %s", w->model->name, err.text);
    read_routes(w);
    w->measured = (orr_measured_serving){.at_once = RANKS_MAX,
                                         .decode_cached = 100,
                                         .prefill_cached = 100,
                                         .decode = {line(1000), line(2000)},
                                         .prefill = {line(700), line(900)},
                                         .head = line(500),
                                         .expert = line(300),
                                         .experts_ns = 200,
                                         .transfer = line(10),
                                         .row_bytes = w->run.row_bytes,
                                         .choice_bytes = w->run.choice_bytes,
                                         .result_bytes = w->run.result_bytes};
}

static orr_serving_job job_of(const world *w, uint32_t n)
{
    return (orr_serving_job){.options = &w->options,
                             .ranks = &w->ranks,
                             .prompts = w->prompts,
                             .n = n,
                             .routes = w->routes};
}

static orr_predicted_serving predict(world *w, uint32_t n)
{
    const orr_serving_job job = job_of(w, n);
    orr_predicted_serving p;
    orr_error err;
    if (orr_predict_serving(&job, &w->measured, w->arena, &p, &err) != ORR_OK)
        seed_fail(w->seed, "%s, %u ranks: %s", w->model->name, w->ranks.ranks, err.text);
    return p;
}

static int64_t sum_of(const orr_predicted_serving *p, bool exchange)
{
    int64_t ns = 0;
    for (uint32_t i = 0; i < p->rounds; i++)
        ns += exchange ? p->round[i].exchange_ns : p->round[i].ns;
    return ns;
}

static void hold_run(const world *w, const orr_predicted_serving *p)
{
    assert_int_equal(p->rounds, w->run.rounds - 1);
    assert_int_equal(p->layers, w->run.layers);
    for (uint32_t i = 0; i < p->rounds; i++) {
        assert_int_equal(p->round[i].prefills, w->run.round[i].prefills);
        assert_true(p->round[i].ns > p->round[i].exchange_ns && w->run.round[i].ns > 0);
    }
    assert_memory_equal(p->dispatch, w->run.dispatch, p->layers * sizeof *p->dispatch);
    assert_memory_equal(p->combine, w->run.combine, p->layers * sizeof *p->combine);
}

/* Slower parts make a longer run; a slower link nothing but longer exchanges. */
static void hold_times(world *w, const orr_predicted_serving *p)
{
    const orr_measured_serving measured = w->measured;
    const int64_t ns = sum_of(p, false), exchange_ns = sum_of(p, true);
    orr_serving_curve *const parts[] = {&w->measured.decode[0], &w->measured.decode[1],
                                        &w->measured.prefill[0], &w->measured.head,
                                        &w->measured.expert};
    w->measured.transfer = line(30);
    const orr_predicted_serving slow = predict(w, PROMPTS);
    if (w->ranks.ranks == 1)
        assert_int_equal(exchange_ns, 0);
    assert_true(llabs(sum_of(&slow, true) - 3 * exchange_ns) <= 2 * p->rounds);
    assert_true(llabs(sum_of(&slow, false) - ns - 2 * exchange_ns) <= 4 * p->rounds);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        w->measured = measured;
        for (uint32_t k = 0; k < 2; k++)
            parts[i]->ns[k] *= 2;
        const orr_predicted_serving longer = predict(w, PROMPTS);
        assert_true(sum_of(&longer, false) > ns && sum_of(&longer, true) == exchange_ns);
    }
    w->measured = measured;
    w->measured.new_ns = 1e6; /* in the first round at least, once a round at most */
    const orr_predicted_serving made = predict(w, PROMPTS);
    const int64_t more = sum_of(&made, false) - ns;
    assert_true(more >= 1000000 && more <= INT64_C(1000000) * p->rounds);
    assert_int_equal(more % 1000000, 0);
    w->measured = measured;
    w->measured.at_once = 1;
    const orr_predicted_serving crowded = predict(w, PROMPTS);
    const int64_t work = sum_of(&crowded, false) - exchange_ns, apart = ns - exchange_ns;
    assert_true(work >= apart && work <= (int64_t)w->ranks.ranks * apart + 4 * p->rounds);
    assert_true(w->ranks.ranks == 1 || work > apart);
    w->measured = measured;
}

/* Requests twice, without copies that are picked by their numbers: each layer sends twice as much.
 */
static void hold_twice(world *w, uint32_t ranks)
{
    const uint32_t half = PROMPTS / 2;
    if (half % ranks != 0 || w->model->model.vision.layers > 0)
        return;
    w->ranks.placement = place(w, EXPERTS_SHUFFLED, ranks);
    const orr_sampling greedy = {.most = 1}; /* what is drawn depends on the number */
    orr_generated got[PROMPTS];
    orr_predicted_serving p[2];
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t n = half * (i + 1);
        assert_int_equal(orr_generate_over_ranks(&w->options, &w->ranks, w->prompts, n, &greedy,
                                                 NULL, NULL, w->arena, got, NULL, &w->run, NULL),
                         ORR_OK);
        read_routes(w);
        p[i] = predict(w, n);
        hold_run(w, &p[i]);
    }
    for (uint32_t layer = 0; layer < p[0].layers; layer++)
        for (uint32_t level = 0; level < 2; level++) {
            assert_int_equal(p[1].dispatch[layer][level], 2 * p[0].dispatch[layer][level]);
            assert_int_equal(p[1].combine[layer][level], 2 * p[0].combine[layer][level]);
        }
    assert_true(sum_of(&p[1], false) > sum_of(&p[0], false));
}

static void runs_are_predicted(void **state)
{
    (void)state;
    static small_model (*const MODELS[])(void) = {small_mixtral, small_llama4};
    const seed_range range = seeds(3);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (uint32_t m = 0; m < 2; m++)
            for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++) {
                const small_model model = MODELS[m]();
                world w;
                open_world(&w, &model, seed * 10 + ranks);
                w.ranks = (orr_generator_ranks){
                    .ranks = ranks,
                    .kind = 1,
                    .placement = ranks == 2 ? NULL : place(&w, EXPERTS_COPIED, ranks)};
                serve(&w, PROMPTS);
                const orr_predicted_serving p = predict(&w, PROMPTS);
                hold_run(&w, &p);
                hold_times(&w, &p);
                hold_twice(&w, ranks);
                close_world(&w);
            }
}

static void refused(world *w, uint32_t n, const char *want)
{
    const orr_serving_job job = job_of(w, n);
    orr_predicted_serving p;
    orr_error err = {0};
    assert_int_equal(orr_predict_serving(&job, &w->measured, w->arena, &p, &err), ORR_INVALID);
    if (strstr(err.text, want) == NULL)
        fail_msg("%s", err.text);
}

static void other_routes_are_refused(void **state)
{
    (void)state;
    const small_model model = small_mixtral();
    world w;
    open_world(&w, &model, 1);
    w.ranks = (orr_generator_ranks){.ranks = 2, .kind = 1};
    serve(&w, PROMPTS);
    refused(&w, PROMPTS - 1, "have their numbers");
    orr_routes *other = orr_arena_one(w.arena, orr_routes);
    const orr_routes *routes = w.routes;
    *other = *routes;
    w.routes = other;
    uint32_t *position = orr_arena_array(w.arena, uint32_t, routes->tokens);
    memcpy(position, routes->position, routes->tokens * sizeof *position);
    position[routes->tokens - 1] = 0;
    other->position = position;
    refused(&w, PROMPTS, "stands there twice");
    *other = *routes;
    other->layers--;
    refused(&w, PROMPTS, "other layers");
    *other = *routes;
    w.prompts[3].n++;
    refused(&w, PROMPTS, "other prompts");
    close_world(&w);
}

static void hold_curve(const orr_serving_curve *c)
{
    assert_in_range(c->n, 1, ORR_SERVING_POINTS);
    for (uint32_t i = 0; i < c->n; i++)
        assert_true(c->ns[i] > 0 && (i == 0 || c->at[i] > c->at[i - 1]));
}

static void this_machine_is_measured(void **state)
{
    (void)state;
    const small_model model = small_mixtral();
    world w;
    orr_error err;
    open_world(&w, &model, 2);
    w.options.batch = 3;
    w.ranks = (orr_generator_ranks){.ranks = 2, .kind = 1};
    serve(&w, PROMPTS);
    const orr_serving_job job = job_of(&w, PROMPTS);
    if (orr_measure_serving(&job, w.arena, &w.measured, &err) != ORR_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) {
        hold_curve(&w.measured.decode[i]);
        hold_curve(&w.measured.prefill[i]);
    }
    hold_curve(&w.measured.head);
    hold_curve(&w.measured.expert);
    hold_curve(&w.measured.transfer);
    assert_int_equal(w.measured.row_bytes, w.run.row_bytes);
    const orr_predicted_serving p = predict(&w, PROMPTS);
    hold_run(&w, &p);
    w.ranks.rebalance = 1;
    assert_int_equal(orr_measure_serving(&job, w.arena, &w.measured, &err), ORR_UNSUPPORTED);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_are_predicted),
                                       cmocka_unit_test(other_routes_are_refused),
                                       cmocka_unit_test(this_machine_is_measured)};
    return cmocka_run_group_tests_name("experts/predicted_serving", tests, NULL, NULL);
}
