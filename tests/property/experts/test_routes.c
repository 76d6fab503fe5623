/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "experts/routes/builder.h"
#include "experts/routes/count.h"
#include "../../unit/io/folder.h"
#include "../support/seeds.h"

/* Random routes through the writer and the reader, selections and counts against plain loops. */

enum { MOST_LAYERS = 5, MOST_TOKENS = 300 };

typedef struct trial {
    uint64_t seed;
    orr_arena *arena;
    const orr_routes *routes;
    const char *path;
} trial;

static const char *const KINDS[] = {"code", "a, \"quoted\" one", "", "x y"};
static const char *const REQUESTS[] = {"0", "cmpl-7,1", "\"", "a", "b;c", "chat-é", "9"};
enum { MOST_KINDS = 4, MOST_REQUESTS = 7 };

static void draw_row(orr_random *random, uint32_t experts, uint32_t top_k, uint16_t *ret)
{
    for (uint32_t k = 0; k < top_k; k++) {
        bool twice = true;
        while (twice) {
            ret[k] = (uint16_t)orr_random_below(random, experts);
            twice = false;
            for (uint32_t j = 0; j < k; j++)
                twice |= ret[j] == ret[k];
        }
    }
}

/* Tokens of the requests in any order; experts below 256 in one trial of two. */
static const orr_routes *routes_of(orr_random *random, orr_arena *arena)
{
    static const uint32_t experts_of[] = {64, 256, 300, 4096};
    const uint32_t layers = 1 + (uint32_t)orr_random_below(random, MOST_LAYERS);
    const uint32_t experts = experts_of[orr_random_below(random, 4)];
    const uint32_t top_k = 1 + (uint32_t)orr_random_below(random, 9);
    const uint32_t requests = 1 + (uint32_t)orr_random_below(random, MOST_REQUESTS);
    const bool scores = orr_random_below(random, 2) == 0, ranks = orr_random_below(random, 2) == 0;
    const uint32_t tokens = requests + (uint32_t)orr_random_below(random, MOST_TOKENS);
    uint32_t number[MOST_LAYERS], kind[MOST_REQUESTS], next[MOST_REQUESTS] = {0};
    uint16_t choice[MOST_LAYERS * 9];
    float score[MOST_LAYERS * 9];
    orr_routes_builder b;
    const orr_routes *ret = NULL;
    for (uint32_t l = 0; l < layers; l++)
        number[l] = 3 * l + 1;
    for (uint32_t i = 0; i < requests; i++)
        kind[i] = i % MOST_KINDS;
    assert_int_equal(orr_routes_builder_init(&b, number, layers, top_k, scores, NULL), ORR_OK);
    for (uint32_t t = 0; t < tokens; t++) {
        const uint32_t request = t < requests ? t : (uint32_t)orr_random_below(random, requests);
        const orr_routes_row row = {.request = request,
                                    .position = next[request]++,
                                    .phase = (uint8_t)orr_random_below(random, 2),
                                    .rank = ranks ? (uint16_t)orr_random_below(random, 65535)
                                                  : UINT16_MAX,
                                    .choice = choice,
                                    .score = score};
        for (uint32_t l = 0; l < layers; l++)
            draw_row(random, experts, top_k, choice + l * top_k);
        for (uint32_t i = 0; i < layers * top_k; i++)
            score[i] = (float)(orr_random_unit(random) - 0.5) * 1e-3F;
        assert_int_equal(orr_routes_builder_push(&b, &row, NULL), ORR_OK);
    }
    uint32_t *kinds = orr_arena_array(arena, uint32_t, requests);
    memcpy(kinds, kind, requests * sizeof *kind);
    const orr_routes_names names = {.requests = requests,
                                    .kinds = requests < MOST_KINDS ? requests : MOST_KINDS,
                                    .experts = experts,
                                    .request_name = REQUESTS,
                                    .kind = kinds,
                                    .kind_name = KINDS,
                                    .source = "drawn"};
    assert_int_equal(orr_routes_builder_finish(&b, &names, arena, &ret, NULL), ORR_OK);
    return ret;
}

static void assert_same_token(const orr_routes *a, uint64_t ta, const orr_routes *b, uint64_t tb)
{
    uint16_t x[ORR_ROUTE_CHOICES_MAX], y[ORR_ROUTE_CHOICES_MAX];
    const uint32_t ra = a->request[ta], rb = b->request[tb];
    assert_string_equal(a->request_name[ra], b->request_name[rb]);
    assert_string_equal(a->kind_name[a->kind[ra]], b->kind_name[b->kind[rb]]);
    assert_int_equal(a->position[ta], b->position[tb]);
    assert_int_equal(a->phase[ta], b->phase[tb]);
    assert_true((a->rank == NULL) == (b->rank == NULL));
    if (a->rank != NULL)
        assert_int_equal(a->rank[ta], b->rank[tb]);
    for (uint32_t l = 0; l < a->layers; l++) {
        orr_routes_choices(a, l, ta, 1, x);
        orr_routes_choices(b, l, tb, 1, y);
        assert_memory_equal(x, y, a->top_k * sizeof *x);
        if (a->score != NULL)
            assert_memory_equal(a->score[l] + ta * a->top_k, b->score[l] + tb * a->top_k,
                                a->top_k * sizeof(float));
    }
}

static void assert_same(const orr_routes *a, const orr_routes *b)
{
    assert_int_equal(a->tokens, b->tokens);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->top_k, b->top_k);
    assert_int_equal(a->experts, b->experts);
    assert_int_equal(a->requests, b->requests);
    assert_int_equal(a->kinds, b->kinds);
    assert_memory_equal(a->number, b->number, a->layers * sizeof *a->number);
    assert_true((a->score == NULL) == (b->score == NULL));
    for (uint64_t t = 0; t < a->tokens; t++)
        assert_same_token(a, t, b, t);
}

/* Equal rows of tests are no warm-up: there may be runs of 16 where all experts are chosen. */
static void written_and_read(const trial *t)
{
    const orr_routes *back;
    orr_error err = {0};
    orr_routes_options o;
    orr_routes_options_init(&o);
    o.experts = t->routes->experts;
    o.keep_warm_up = true;
    if (orr_routes_write(t->routes, t->path, &err) != ORR_OK ||
        orr_routes_read(t->path, &o, t->arena, &back, &err) != ORR_OK)
        seed_fail(t->seed, "%s", err.text);
    assert_same(t->routes, back);
}

static void selected(const trial *t, orr_random *random)
{
    bool keep[MOST_REQUESTS];
    const orr_routes *part = NULL;
    const int phase = (int)orr_random_below(random, 3) - 1;
    uint64_t n = 0;
    for (uint32_t i = 0; i < MOST_REQUESTS; i++)
        keep[i] = orr_random_below(random, 2) == 0;
    const orr_status status = orr_routes_select(t->routes, keep, phase, t->arena, &part, NULL);
    for (uint64_t at = 0; at < t->routes->tokens; at++)
        if (keep[t->routes->request[at]] && (phase < 0 || t->routes->phase[at] == phase)) {
            assert_int_equal(status, ORR_OK);
            assert_same_token(t->routes, at, part, n++);
        }
    assert_int_equal(status, n > 0 ? ORR_OK : ORR_INVALID);
    if (n > 0)
        assert_int_equal(part->tokens, n);
}

static void counted(const trial *t, orr_random *random)
{
    const orr_routes *r = t->routes;
    const uint32_t windows = 1 + (uint32_t)orr_random_below(random, r->tokens),
                   layer = r->layers - 1;
    orr_expert_windows w;
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    double *load = calloc(r->experts, sizeof *load);
    assert_int_equal(orr_expert_windows_of_routes(r, windows, t->arena, &w, NULL), ORR_OK);
    for (uint64_t at = 0; at < r->tokens; at++) {
        orr_routes_choices(r, layer, at, 1, choice);
        for (uint32_t k = 0; k < r->top_k; k++)
            load[choice[k]]++;
    }
    for (uint32_t i = 0; i < windows; i++) {
        const double *at = w.load + ((size_t)i * r->layers + layer) * r->experts;
        double sum = 0;
        for (uint32_t e = 0; e < r->experts; e++) {
            load[e] -= at[e];
            sum += at[e];
        }
        assert_true(sum >= (double)(r->tokens / windows * r->top_k) &&
                    sum <= (double)((r->tokens / windows + 1) * r->top_k));
    }
    for (uint32_t e = 0; e < r->experts; e++)
        assert_true(load[e] == 0);
    free(load);
}

static void files_and_parts_of_random_routes(void **state)
{
    static const char *const names[] = {"routes.csv", "routes.csv.gz", "routes.csv.zst"};
    const seed_range range = seeds(60);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 0);
        orr_arena *arena = orr_arena_new(0, 0);
        const trial t = {.seed = seed,
                         .arena = arena,
                         .routes = routes_of(&random, arena),
                         .path = in_folder(state, names[seed % 3])};
        written_and_read(&t);
        selected(&t, &random);
        counted(&t, &random);
        orr_arena_free(arena);
    }
}

/* --- planted structure ------------------------------------------------------------------------ */

static const orr_routes *drawn(const orr_routes_drawn *how, orr_arena *arena)
{
    const orr_routes *ret = NULL;
    orr_error err = {0};
    if (orr_routes_draw(how, arena, &ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return ret;
}

/* Cosine between the loads of two sets of requests, mean over layers: of those whose number modulo
 * `period` is `first` and `last`. */
static double likeness(const orr_routes *r, uint32_t first, uint32_t last, uint32_t period)
{
    double sum = 0;
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    for (uint32_t l = 0; l < r->layers; l++) {
        double *a = calloc(r->experts, sizeof *a), *b = calloc(r->experts, sizeof *b);
        double ab = 0, aa = 0, bb = 0;
        for (uint64_t t = 0; t < r->tokens; t++) {
            const uint32_t of = r->request[t] % period;
            orr_routes_choices(r, l, t, 1, choice);
            for (uint32_t k = 0; k < r->top_k; k++) {
                a[choice[k]] += of == first;
                b[choice[k]] += of == last;
            }
        }
        for (uint32_t e = 0; e < r->experts; e++) {
            ab += a[e] * b[e];
            aa += a[e] * a[e];
            bb += b[e] * b[e];
        }
        sum += ab / sqrt(aa * bb);
        free(a);
        free(b);
    }
    return sum / r->layers;
}

/* Share of tokens whose first choice in a layer is the one that most often follows their first
 * choice in the layer before. */
static double followed(const orr_routes *r)
{
    uint32_t *pairs = calloc((size_t)r->experts * r->experts, sizeof *pairs), hits = 0;
    uint16_t a[ORR_ROUTE_CHOICES_MAX], b[ORR_ROUTE_CHOICES_MAX];
    for (uint64_t t = 0; t < r->tokens; t++) {
        orr_routes_choices(r, 0, t, 1, a);
        orr_routes_choices(r, 1, t, 1, b);
        pairs[(size_t)a[0] * r->experts + b[0]]++;
    }
    for (uint32_t e = 0; e < r->experts; e++) {
        uint32_t most = 0;
        for (uint32_t f = 0; f < r->experts; f++)
            most =
                pairs[(size_t)e * r->experts + f] > most ? pairs[(size_t)e * r->experts + f] : most;
        hits += most;
    }
    free(pairs);
    return (double)hits / (double)r->tokens;
}

static double hottest_over_mean(const orr_routes *r, uint32_t *ret_dead)
{
    uint64_t *count = calloc(r->experts, sizeof *count), most = 0;
    orr_routes_count(r, r->layers - 1, 0, r->tokens, count);
    *ret_dead = 0;
    for (uint32_t e = 0; e < r->experts; e++) {
        most = count[e] > most ? count[e] : most;
        *ret_dead += count[e] == 0;
    }
    free(count);
    return (double)most * r->experts / (double)(r->tokens * r->top_k);
}

#define EVEN                                                                                       \
    .layers = 2, .experts = 32, .top_k = 2, .requests = 64, .prompt = 32, .decoded = 32, .kinds = 4

static void what_is_planted_is_there(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    uint32_t dead;
    (void)state;
    const orr_routes *even = drawn(&(orr_routes_drawn){EVEN}, arena);
    const orr_routes *alike = drawn(&(orr_routes_drawn){EVEN, .affinity = 0.9}, arena);
    const orr_routes *skewed = drawn(&(orr_routes_drawn){EVEN, .skew = 1, .dead = 5}, arena);
    const orr_routes *chained = drawn(&(orr_routes_drawn){EVEN, .chain = 0.8}, arena);
    const orr_routes *moved = drawn(&(orr_routes_drawn){EVEN, .skew = 1, .drift = 1}, arena);
    const orr_routes *still = drawn(&(orr_routes_drawn){EVEN, .skew = 1}, arena);
    /* Requests of one kind choose alike, those of two kinds do not. */
    assert_true(likeness(even, 0, 1, 4) > 0.95);
    assert_true(likeness(alike, 0, 1, 4) < 0.4);
    assert_true(likeness(alike, 0, 4, 8) > 0.95);
    assert_true(hottest_over_mean(even, &dead) < 1.2 && dead == 0);
    assert_true(hottest_over_mean(skewed, &dead) > 4 && dead == 5);
    assert_true(followed(even) < 0.15);
    assert_true(followed(chained) > 0.75);
    /* The first and the last request. */
    assert_true(likeness(still, 0, 63, 64) > 0.9);
    assert_true(likeness(moved, 0, 63, 64) < 0.6);
    orr_arena_free(arena);
}

static void every_shape_is_drawn(void **state)
{
    const seed_range range = seeds(40);
    (void)state;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 0);
        orr_arena *arena = orr_arena_new(0, 0);
        const uint32_t k = 1 + (uint32_t)orr_random_below(&random, 8);
        const orr_routes_drawn how = {.layers = 1 + (uint32_t)orr_random_below(&random, 4),
                                      .experts = k + (uint32_t)orr_random_below(&random, 513 - k),
                                      .top_k = k,
                                      .requests = 5,
                                      .prompt = 3,
                                      .decoded = (uint32_t)orr_random_below(&random, 3),
                                      .kinds = 1 + (uint32_t)orr_random_below(&random, k),
                                      .affinity = orr_random_unit(&random),
                                      .chain = orr_random_unit(&random),
                                      .skew = 3 * orr_random_unit(&random),
                                      .drift = orr_random_unit(&random),
                                      .scores = seed % 2 == 0,
                                      .seed = seed};
        const orr_routes *r = drawn(&how, arena), *again = drawn(&how, arena);
        assert_same(r, again);
        for (uint64_t t = 0; t < r->tokens; t++)
            for (uint32_t l = 0; l < r->layers; l++) {
                uint16_t choice[ORR_ROUTE_CHOICES_MAX];
                orr_routes_choices(r, l, t, 1, choice);
                for (uint32_t i = 0; i < k; i++)
                    for (uint32_t j = 0; j < i; j++)
                        assert_true(choice[i] != choice[j] && choice[i] < how.experts);
            }
        assert_true((r->score != NULL) == how.scores);
        assert_int_equal(r->tokens, 5 * (3 + how.decoded));
        orr_arena_free(arena);
    }
}

static void draws_are_refused(void **state)
{
    const orr_routes_drawn wrong[] = {
        {EVEN, .affinity = 1.5},
        {EVEN, .skew = NAN},
        {EVEN, .dead = 31},
        {EVEN, .dead = 33},
        {.layers = 1, .experts = 5000, .top_k = 1, .requests = 1, .prompt = 1, .kinds = 1},
        {.layers = 1, .experts = 5, .top_k = 1, .requests = 1, .kinds = 1},
        {.layers = 1, .experts = 5, .top_k = 1, .requests = 1, .prompt = 1},
    };
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_routes *ret;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(orr_routes_draw(&wrong[i], arena, &ret, NULL), ORR_INVALID);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_and_parts_of_random_routes, make_folder,
                                        remove_folder),
        cmocka_unit_test(what_is_planted_is_there),
        cmocka_unit_test(every_shape_is_drawn),
        cmocka_unit_test(draws_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
