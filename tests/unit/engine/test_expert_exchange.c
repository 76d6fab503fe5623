/* SPDX-License-Identifier: Apache-2.0 */
#include "../../property/support/program_bench.h"
#include "../../property/support/small_models.h"

#include "base/alloc.h"
#include "engine/experts/exchange.h"
#include "engine/generate/rebalance.h"

/* Rows exchanged by a placement of one layer of four experts, of which rank 1 of two has the last
 * two. */
enum { EXPERTS = 4, COLUMNS = 2, TOP_K = 2, TOKENS = 3 };

static const uint32_t NUMBER[] = {5}, FIRST_TWO[] = {0, 2, 4}, FIRST_ONE[] = {0, 4},
                      FIRST_FEW[] = {0, 3, 4};
static const uint16_t EXPERT[] = {0, 1, 2, 3};
static const float SHARE[] = {1, 1, 1, 1};

static orr_expert_placement placed(uint32_t ranks, const uint32_t *first)
{
    return (orr_expert_placement){.layers = 1,
                                  .experts = EXPERTS,
                                  .ranks = ranks,
                                  .host_ranks = ranks,
                                  .number = NUMBER,
                                  .first_slot = first,
                                  .expert = EXPERT,
                                  .share = SHARE,
                                  .policy = "",
                                  .source = "test"};
}

static orr_expert_exchange_options options_of(orr_transport *transport,
                                              const orr_expert_placement *placement, bool scored)
{
    return (orr_expert_exchange_options){.transport = transport,
                                         .placement = placement,
                                         .top_k = TOP_K,
                                         .columns = COLUMNS,
                                         .dtype = ORR_DTYPE_FP32,
                                         .result_dtype = ORR_DTYPE_FP32,
                                         .scored = scored,
                                         .tokens = TOKENS};
}

static const float ROWS[TOKENS][COLUMNS] = {{1, 2}, {3, 4}, {5, 6}};
static const float SCORES[TOKENS][TOP_K] = {{0.5F, 2}, {1, 4}, {0.25F, 1}};
static const int32_t CHOICES[TOKENS][TOP_K] = {{3, 0}, {0, 2}, {3, 2}};
static const uint32_t REQUESTS[TOKENS] = {0, 0, 1}, POSITIONS[TOKENS] = {0, 1, 0};

static orr_expert_tokens tokens_of(uint32_t n)
{
    return (orr_expert_tokens){.n = n,
                               .rows = ROWS,
                               .choice = CHOICES[0],
                               .score = SCORES[0],
                               .request = REQUESTS,
                               .position = POSITIONS};
}

/* An expert e gives its row plus 100 e; all rows at once, or one after another. */
static void run_experts(orr_expert_exchange *x, uint32_t n, uint32_t piece, uint32_t first_expert)
{
    for (uint32_t from = 0; from < n; from += piece) {
        const uint32_t some = n - from < piece ? n - from : piece;
        float rows[2 * TOKENS * TOP_K][COLUMNS];
        int32_t counts[EXPERTS] = {0};
        uint32_t row = 0;
        orr_expert_exchange_rows(x, from, some, rows, counts);
        for (uint32_t s = 0; s < EXPERTS; s++)
            for (int32_t i = 0; i < counts[s]; i++, row++)
                for (uint32_t c = 0; c < COLUMNS; c++)
                    rows[row][c] += 100 * (float)(first_expert + s);
        assert_int_equal(row, some);
        orr_expert_exchange_results(x, from, some, rows);
    }
}

/* Rows by expert, those of one expert by token. */
static void hold_sorted(float sorted[][COLUMNS], bool scored)
{
    uint32_t row = 0;
    for (int32_t e = 0; e < EXPERTS; e++)
        for (uint32_t t = 0; t < TOKENS; t++)
            for (uint32_t k = 0; k < TOP_K; k++)
                for (uint32_t c = 0; c < COLUMNS && CHOICES[t][k] == e; c++) {
                    const float in = scored ? ROWS[t][c] * SCORES[t][k] : ROWS[t][c];
                    assert_true(sorted[row][c] == in + 100 * (float)e);
                    row += c + 1 == COLUMNS;
                }
    assert_int_equal(row, TOKENS * TOP_K);
}

static void test_alone(void **state)
{
    (void)state;
    const orr_expert_placement placement = placed(1, FIRST_ONE);
    for (uint32_t piece = 1; piece <= 6; piece++)
        for (int scored = 0; scored < 2; scored++) {
            const orr_expert_exchange_options o =
                options_of(orr_transport_self(), &placement, scored);
            const orr_expert_tokens tokens = tokens_of(TOKENS);
            float sorted[TOKENS * TOP_K][COLUMNS];
            orr_expert_exchange *x;
            uint32_t n;
            assert_int_equal(orr_expert_exchange_new(&o, &x, NULL), ORR_OK);
            assert_int_equal(orr_expert_exchange_dispatch(x, 0, &tokens, &n, NULL), ORR_OK);
            assert_int_equal(n, TOKENS * TOP_K);
            run_experts(x, n, piece, 0);
            assert_int_equal(orr_expert_exchange_combine(x, sorted, NULL), ORR_OK);
            hold_sorted(sorted, scored);
            assert_int_equal(orr_expert_exchange_bytes(x)->dispatch[ORR_WIRE_HOST], 0);
            orr_expert_exchange_free(x);
        }
}

/* Two ranks as threads; rank 1 has no tokens. */
typedef struct side {
    orr_transport *transport;
    const uint32_t *first; /* of its placement */
    uint32_t tokens;
    float sorted[TOKENS * TOP_K][COLUMNS];
    orr_expert_wire_bytes bytes;
    orr_status status;
    orr_error err;
} side;

static void *exchange(void *ctx)
{
    side *s = ctx;
    const orr_expert_placement placement = placed(2, s->first);
    const orr_expert_exchange_options o = options_of(s->transport, &placement, false);
    const orr_expert_tokens tokens = tokens_of(s->tokens);
    orr_expert_exchange *x;
    uint32_t n;
    assert_int_equal(orr_expert_exchange_new(&o, &x, NULL), ORR_OK);
    s->status = orr_expert_exchange_dispatch(x, 0, &tokens, &n, &s->err);
    if (s->status == ORR_OK) {
        run_experts(x, n, 2, 2 * s->transport->rank);
        s->status = orr_expert_exchange_combine(x, s->sorted, &s->err);
    }
    if (s->status != ORR_OK)
        s->transport->abort(s->transport);
    s->bytes = *orr_expert_exchange_bytes(x);
    orr_expert_exchange_free(x);
    return NULL;
}

static void exchange_both(side sides[2])
{
    bench_world *world = bench_world_new(2);
    pthread_t peer;
    for (uint32_t r = 0; r < 2; r++)
        sides[r].transport = &world->transports[r];
    assert_int_equal(pthread_create(&peer, NULL, exchange, &sides[1]), 0);
    exchange(&sides[0]);
    pthread_join(peer, NULL);
    bench_world_free(world);
}

/* Each of the three tokens has one choice for rank 1 or two, and goes there once. */
static void test_two_ranks(void **state)
{
    (void)state;
    side sides[2] = {{.first = FIRST_TWO, .tokens = TOKENS}, {.first = FIRST_TWO}};
    exchange_both(sides);
    assert_true(sides[0].status == ORR_OK && sides[1].status == ORR_OK);
    hold_sorted(sides[0].sorted, false);
    const uint64_t row = COLUMNS * sizeof(float);
    assert_int_equal(sides[0].bytes.dispatch[ORR_WIRE_HOST], 3 * row + 4 * 4);
    assert_int_equal(sides[0].bytes.combine[ORR_WIRE_HOST], 0);
    assert_int_equal(sides[1].bytes.dispatch[ORR_WIRE_HOST], 0);
    assert_int_equal(sides[1].bytes.combine[ORR_WIRE_HOST], 4 * row);
    assert_int_equal(sides[0].bytes.counts[ORR_WIRE_HOST], 8);
}

/* Ranks with different placements: whoever notices says so. */
static void test_ranks_that_disagree(void **state)
{
    (void)state;
    side others[2] = {{.first = FIRST_TWO, .tokens = TOKENS}, {.first = FIRST_FEW}};
    exchange_both(others);
    assert_int_equal(others[1].status, ORR_INVALID);
    assert_non_null(strstr(others[1].err.text, "same placement"));
}

static void test_what_is_refused(void **state)
{
    (void)state;
    const orr_expert_placement placement = placed(1, FIRST_ONE), two = placed(2, FIRST_TWO);
    orr_expert_exchange_options o = options_of(orr_transport_self(), &placement, false);
    static const int32_t beyond[] = {0, EXPERTS}, below[] = {-1, 0};
    orr_expert_tokens tokens = tokens_of(1);
    orr_expert_exchange *x;
    orr_error err;
    uint32_t n;
    assert_int_equal(orr_expert_exchange_new(&o, &x, NULL), ORR_OK);
    tokens.choice = beyond;
    assert_int_equal(orr_expert_exchange_dispatch(x, 0, &tokens, &n, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "expert 4 of 4"));
    tokens.choice = below;
    assert_int_equal(orr_expert_exchange_dispatch(x, 0, &tokens, &n, &err), ORR_INVALID);
    tokens = tokens_of(TOKENS + 1);
    assert_int_equal(orr_expert_exchange_dispatch(x, 0, &tokens, &n, &err), ORR_INVALID);
    orr_expert_exchange_free(x);
    o.placement = &two;
    assert_int_equal(orr_expert_exchange_new(&o, &x, &err), ORR_INVALID);
    o.placement = &placement;
    o.tokens = ORR_EXPERT_TOKENS_MAX + 1;
    assert_int_equal(orr_expert_exchange_new(&o, &x, &err), ORR_LIMIT);
}

/* A generator as the only rank, with loads that are looked at, while allocations fail. */
static orr_status generate(const orr_generator_rank *rank, const small_model *model)
{
    static const int32_t words[] = {1, 1, 1, 1, 1, 1, 1, 1, 2};
    static const uint32_t mine[] = {0};
    const orr_prompt prompt = {.tokens = words, .n = 9};
    const orr_generator_options options = {.model = &model->model,
                                           .format = ORR_ROW_FORMATS,
                                           .fp32 = true,
                                           .context = 16,
                                           .threads = 1};
    const orr_sampling sampling = {.most = 3};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_generator *g = NULL;
    orr_generated got;
    orr_generation_times times;
    orr_status status = arena != NULL ? ORR_OK : ORR_NO_MEMORY;
    const orr_answer_job job = {.prompts = &prompt,
                                .n = 1,
                                .n_mine = 1,
                                .mine = mine,
                                .sampling = &sampling,
                                .arena = arena,
                                .ret = &got};
    if (status == ORR_OK)
        status = orr_generator_open_rank(&options, rank, &g, NULL);
    if (status == ORR_OK)
        status = orr_generator_answer(g, &job, &times, NULL);
    orr_generator_close(g);
    orr_arena_free(arena);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    static const uint32_t number[] = {0, 1}, first[] = {0, 4, 4, 8};
    static const uint16_t expert[] = {0, 1, 2, 3, 0, 1, 2, 3};
    static const float share[] = {1, 1, 1, 1, 1, 1, 1, 1};
    const small_model model = small_mixtral();
    const orr_expert_placement placement = {.layers = 2,
                                            .experts = 4,
                                            .ranks = 1,
                                            .host_ranks = 1,
                                            .number = number,
                                            .first_slot = first,
                                            .expert = expert,
                                            .share = share,
                                            .policy = "",
                                            .source = "test"};
    const orr_rebalance_options rebalance = {.every = 1};
    const orr_generator_rank rank = {
        .transport = orr_transport_self(), .placement = &placement, .rebalance = &rebalance};
    uint64_t nth = 1;
    for (;; nth++) {
        orr_alloc_fail_from(nth);
        const orr_status status = generate(&rank, &model);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
    assert_true(nth > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_ranks_that_disagree),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
