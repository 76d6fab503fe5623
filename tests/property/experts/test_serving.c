/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include <orrery/engine.h>

#include "../support/placed_experts.h"

/* Models that generate over ranks: logits, tokens and log-probabilities have the bits of one
 * process, wherever experts and their copies stand; and ranks send the bytes that are predicted. */
enum { PROMPTS = 7, PROMPT_MAX = 20, GENERATED = 5, RANKS_MAX = 4, CAPACITY = 32 };

typedef struct world {
    uint64_t seed;
    const small_model *model;
    orr_arena *arena;
    orr_random random;
    int32_t tokens[PROMPTS][PROMPT_MAX];
    orr_prompt prompts[PROMPTS];
    orr_generated want[PROMPTS];
    uint64_t moved, moved_experts, plans; /* requests and experts that moved, in all runs */
} world;

static small_model (*const MODELS[])(void) = {small_mixtral, small_llama4, small_qwen3_moe};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS };

static uint64_t below(world *w, uint64_t n)
{
    return orr_random_below(&w->random, n);
}

static void draw_prompts(world *w)
{
    for (uint32_t p = 0; p < PROMPTS; p++) {
        w->prompts[p] = (orr_prompt){.tokens = w->tokens[p], .n = 1 + below(w, PROMPT_MAX)};
        const uint64_t words = 1 + below(w, 3), vocab = w->model->model.vocab;
        for (size_t i = 0; i < w->prompts[p].n; i++) /* few, so that loads are uneven */
            w->tokens[p][i] = (int32_t)((p + below(w, words)) % vocab);
    }
}

static orr_generator_options options_of(const world *w, uint32_t batch, int threads)
{
    return (orr_generator_options){.model = &w->model->model,
                                   .format = ORR_ROW_FORMATS,
                                   .fp32 = w->seed % 2 == 0,
                                   .context = CAPACITY,
                                   .batch = batch,
                                   .threads = threads,
                                   .seed = w->seed};
}

static orr_sampling sampling_of(const world *w)
{
    return (orr_sampling){.most = GENERATED, .temperature = 0.8, .seed = w->seed};
}

/* What one process answers, one prompt after another; and its routes as a file. */
static void answer_alone(world *w, const char *routes)
{
    orr_generator_options options = options_of(w, 1, 1);
    const orr_sampling sampling = sampling_of(w);
    orr_generator *g;
    orr_error err;
    options.record_experts = true;
    if (orr_generator_open(&options, &g, &err) != ORR_OK ||
        orr_generate(g, w->prompts, PROMPTS, &sampling, NULL, NULL, w->arena, w->want, NULL,
                     &err) != ORR_OK ||
        orr_generator_experts(g, routes, &err) != ORR_OK)
        seed_fail(w->seed, "%s: %s", w->model->name, err.text);
    orr_generator_close(g);
}

/* Placements of every kind. */
typedef enum placement_kind { NEIGHBOURS, ONE_RANK, COPIES, PLACEMENT_KINDS } placement_kind;

static const orr_expert_placement *draw_placement(world *w, placement_kind kind, uint32_t ranks)
{
    if (kind == NEIGHBOURS)
        return NULL;
    const uint32_t host_ranks = 1 + (uint32_t)below(w, ranks);
    return place_experts(&w->model->model, kind == ONE_RANK ? EXPERTS_TOGETHER : EXPERTS_COPIED,
                         ranks, host_ranks, w->seed, &w->random, w->arena);
}

/* Tokens that were told, prompt by prompt in the order in which they were made. */
typedef struct telling {
    const world *w;
    size_t n[PROMPTS];
} telling;

static bool hold_told(void *ctx, uint32_t prompt, int32_t token)
{
    telling *t = ctx;
    const orr_generated *want = &t->w->want[prompt];
    if (t->n[prompt] >= want->n || want->tokens[t->n[prompt]] != token)
        seed_fail(t->w->seed, "prompt %u: told another token", prompt);
    t->n[prompt]++;
    return true;
}

static void hold_answers(const world *w, const orr_generated *got, uint32_t ranks, uint32_t kind)
{
    for (uint32_t p = 0; p < PROMPTS; p++) {
        const orr_generated *a = &w->want[p], *b = &got[p];
        if (a->n != b->n || a->logits_digest != b->logits_digest ||
            memcmp(&a->log_probability, &b->log_probability, sizeof a->log_probability) != 0 ||
            memcmp(a->tokens, b->tokens, a->n * sizeof *a->tokens) != 0)
            seed_fail(w->seed, "%s, %u ranks, placement %u: prompt %u has other bits",
                      w->model->name, ranks, kind, p);
    }
}

/* Bytes of a layer by level, from rows and choices between ranks. */
static void predict(const orr_expert_placement *p, const orr_expert_traffic *t,
                    const orr_generated_bytes *sizes, uint64_t dispatch[2], uint64_t combine[2])
{
    memset(dispatch, 0, 2 * sizeof *dispatch);
    memset(combine, 0, 2 * sizeof *combine);
    for (uint32_t a = 0; a < p->ranks; a++)
        for (uint32_t b = 0; b < p->ranks; b++) {
            const uint32_t level = a / p->host_ranks != b / p->host_ranks;
            const uint64_t choices = t->returned[b * p->ranks + a];
            if (a == b)
                continue;
            dispatch[level] += t->sent[a * p->ranks + b] * (uint64_t)sizes->row_bytes +
                               choices * (uint64_t)sizes->choice_bytes;
            combine[level] += choices * (uint64_t)sizes->result_bytes;
        }
}

/* Routes as a file has them, with the prompts' numbers as requests: files number them by first
 * appearance, and copies are picked by these numbers. */
static const orr_routes *routes_of(const world *w, const char *path)
{
    orr_routes_options options;
    const orr_routes *read;
    orr_error err;
    orr_routes_options_init(&options);
    options.experts = w->model->model.moe.experts;
    options.keep_warm_up = true;
    if (orr_routes_read(path, &options, w->arena, &read, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
    orr_routes *routes = orr_arena_one(w->arena, orr_routes);
    uint32_t *request = orr_arena_array(w->arena, uint32_t, read->tokens);
    *routes = *read;
    for (uint64_t t = 0; t < read->tokens; t++)
        request[t] = (uint32_t)strtoul(read->request_name[read->request[t]], NULL, 10);
    routes->request = request;
    return routes;
}

static void hold_bytes(const world *w, const orr_routes *routes, const orr_expert_placement *p,
                       const orr_generated_bytes *bytes)
{
    uint64_t sent[RANKS_MAX * RANKS_MAX], returned[RANKS_MAX * RANKS_MAX], total = 0;
    orr_expert_traffic traffic = {.sent = sent, .returned = returned};
    orr_error err;
    assert_int_equal(bytes->layers, p->layers);
    for (uint32_t layer = 0; layer < p->layers; layer++) {
        uint64_t dispatch[2], combine[2];
        if (orr_experts_count_traffic(p, routes, layer, NULL, false, &traffic, &err) != ORR_OK)
            seed_fail(w->seed, "%s", err.text);
        predict(p, &traffic, bytes, dispatch, combine);
        for (uint32_t level = 0; level < 2; level++) {
            if (bytes->dispatch[layer][level] != dispatch[level] ||
                bytes->combine[layer][level] != combine[level])
                seed_fail(w->seed,
                          "%s, %u ranks, layer %u, level %u: %llu and %llu bytes, not %llu "
                          "and %llu",
                          w->model->name, p->ranks, layer, level,
                          (unsigned long long)bytes->dispatch[layer][level],
                          (unsigned long long)bytes->combine[layer][level],
                          (unsigned long long)dispatch[level], (unsigned long long)combine[level]);
            total += dispatch[level] + combine[level];
        }
    }
    const uint64_t counts = bytes->counts[0] + bytes->counts[1];
    assert_int_equal(counts, 8 * (bytes->rounds - 1) * p->layers * p->ranks * (p->ranks - 1));
    assert_true(bytes->all[0] + bytes->all[1] >= total + counts);
}

/* Requests whose decode ran elsewhere than their prefill have taken their caches along: keys and
 * values of the prompt, and as many bytes for each besides. */
static void hold_moves(const world *w, const orr_routes *routes, const orr_generated_bytes *bytes)
{
    static uint64_t besides;
    const orr_model *m = &w->model->model;
    uint64_t token = 2 * m->layers * m->kv_heads * m->head_dim * (w->seed % 2 == 0 ? 4u : 2u);
    uint64_t moved = bytes->moved[0] + bytes->moved[1], requests = 0;
    for (uint32_t p = 0; p < PROMPTS; p++) {
        uint16_t at[2] = {UINT16_MAX, UINT16_MAX};
        for (uint64_t t = 0; t < routes->tokens; t++)
            if (routes->request[t] == p)
                at[routes->phase[t]] = routes->rank[t];
        if (at[ORR_ROUTE_DECODE] == UINT16_MAX || at[0] == at[1])
            continue;
        requests++;
        moved -= w->prompts[p].n * token;
    }
    assert_int_equal(bytes->moved_requests, requests);
    if (requests == 0)
        return;
    besides = besides > 0 ? besides : moved / requests;
    assert_int_equal(moved, requests * besides);
    assert_in_range(besides, 1, 256);
}

/* Three matrices of each expert that moved: gate and up, down. */
static void hold_weights(world *w, const orr_generated_bytes *bytes)
{
    const orr_model *m = &w->model->model;
    const uint64_t numbers = 3 * m->hidden * m->moe.expert_ffn;
    assert_int_equal(bytes->weights[0] + bytes->weights[1], bytes->moved_experts * numbers * 2);
    w->moved_experts += bytes->moved_experts;
    w->plans += bytes->plans;
}

static void answer_over(world *w, uint32_t ranks, placement_kind kind, const orr_routes *recorded,
                        const char *path)
{
    orr_generator_options options = options_of(w, 1 + (uint32_t)below(w, 4), 1 + (int)below(w, 2));
    const orr_sampling sampling = sampling_of(w);
    const bool grouped = below(w, 2) == 0, moves = below(w, 2) == 0;
    const orr_generator_ranks over = {.ranks = ranks,
                                      .kind = 1 + (uint32_t)below(w, 2),
                                      .placement = draw_placement(w, kind, ranks),
                                      .expert_trace = path,
                                      .groups = ranks == 4 && below(w, 2) == 0 ? 2 : ranks,
                                      .routes = grouped ? recorded : NULL,
                                      .rebalance = moves ? 1 + below(w, 8) : 0,
                                      .move_bytes = (double)below(w, 4000),
                                      .tolerance = 0.01,
                                      .policy = ORR_EXPERT_POLICY_BEST};
    orr_generated got[PROMPTS];
    orr_generated_bytes bytes;
    orr_error err;
    options.record_experts = true;
    telling told = {.w = w};
    if (orr_generate_over_ranks(&options, &over, w->prompts, PROMPTS, &sampling, hold_told, &told,
                                w->arena, got, NULL, &bytes, &err) != ORR_OK)
        seed_fail(w->seed, "%s, %u ranks: %s", w->model->name, ranks, err.text);
    hold_answers(w, got, ranks, kind);
    for (uint32_t p = 0; p < PROMPTS; p++)
        assert_int_equal(told.n[p], w->want[p].n);
    const orr_routes *routes = routes_of(w, path);
    if (over.placement != NULL && bytes.moved_experts == 0)
        hold_bytes(w, routes, over.placement, &bytes);
    if (grouped)
        hold_moves(w, routes, &bytes);
    w->moved += bytes.moved_requests;
    hold_weights(w, &bytes);
}

static void same_bits(void **state)
{
    (void)state;
    const seed_range range = seeds(4);
    uint64_t moved = 0, moved_experts = 0;
    char path[] = "/tmp/orr_routes_XXXXXX.csv";
    const int file = mkstemps(path, 4);
    assert_true(file >= 0);
    close(file);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (uint32_t m = 0; m < N_MODELS; m++) {
            const small_model model = MODELS[m]();
            world w = {.seed = seed,
                       .model = &model,
                       .arena = orr_arena_new(0, 0),
                       .random = orr_random_of(seed, m)};
            draw_prompts(&w);
            answer_alone(&w, path);
            const orr_routes *recorded = routes_of(&w, path);
            for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++)
                for (uint32_t kind = 0; kind < PLACEMENT_KINDS; kind++)
                    answer_over(&w, ranks, (placement_kind)kind, recorded, path);
            moved += w.moved;
            moved_experts += w.moved_experts;
            print_message("# %s: %llu requests and %llu experts moved, %llu plans\n", model.name,
                          (unsigned long long)w.moved, (unsigned long long)w.moved_experts,
                          (unsigned long long)w.plans);
            orr_arena_free(w.arena);
        }
    assert_true(range.end - range.begin == 1 || (moved > 0 && moved_experts > 0));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
