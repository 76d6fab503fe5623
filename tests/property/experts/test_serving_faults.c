/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <unistd.h>

#include "../support/small_models.h"
#include "engine/generate/rebalance.h"
#include "engine/ranks/launch.h"

/* A rank that dies while the weights of an expert are on their way: one error on the caller's side,
 * and the placement of before serves as it did. */
enum { RANKS = 3, PROMPTS = 6, TOKENS = 16, GENERATED = 12, CAPACITY = 32 };
static const int64_t PATIENT_NS = INT64_C(120) * 1000 * 1000 * 1000;

typedef struct world {
    small_model model;
    orr_expert_placement placement;
    orr_arena *arena;
    int32_t tokens[TOKENS];
    orr_prompt prompts[PROMPTS];
    uint64_t expert_bytes;
    uint32_t deadly; /* the message of an expert before which a rank dies; ORR_NONE: none does */
    uint32_t dying;  /* the rank */
    uint64_t moved;  /* experts that rank 0 sent */
    uint64_t digest; /* of the answers of rank 0 */
} world;

/* All experts on rank 0, so that there is every reason to move some. */
static void open_world(world *w)
{
    static uint32_t number[2] = {1, 3}, first[2 * (RANKS + 1)];
    static uint16_t expert[16];
    static float share[16];
    *w = (world){.model = small_llama4(), .arena = orr_arena_new(0, 0), .deadly = ORR_NONE};
    for (uint32_t i = 0; i < 2 * (RANKS + 1); i++)
        first[i] = i == 0 ? 0 : i <= RANKS + 1 ? 8 : 16;
    for (uint32_t i = 0; i < 16; i++) {
        expert[i] = i % 8;
        share[i] = 1;
    }
    first[RANKS + 1] = 8;
    w->placement = (orr_expert_placement){.layers = 2,
                                          .experts = 8,
                                          .ranks = RANKS,
                                          .host_ranks = RANKS,
                                          .number = number,
                                          .first_slot = first,
                                          .expert = expert,
                                          .share = share,
                                          .policy = "",
                                          .source = "test"};
    for (uint32_t i = 0; i < TOKENS; i++)
        w->tokens[i] = (int32_t)(i % 2);
    for (uint32_t p = 0; p < PROMPTS; p++)
        w->prompts[p] = (orr_prompt){.tokens = w->tokens + p, .n = TOKENS - p};
    w->expert_bytes = 3 * w->model.model.hidden * w->model.model.moe.expert_ffn * 2;
}

/* A transport whose rank dies right before it would pass the n-th expert on, or take it. */
typedef struct mortal {
    orr_transport transport, *to;
    const world *w;
    uint32_t seen;
} mortal;

static orr_status exchange(orr_transport *self, const orr_exchange *x, orr_error *err)
{
    mortal *m = self->ctx;
    const bool expert = x->out_bytes == m->w->expert_bytes || x->in_bytes == m->w->expert_bytes;
    if (expert && self->rank == m->w->dying && m->seen++ == m->w->deadly)
        raise(SIGKILL);
    return m->to->exchange(m->to, x, err);
}

static void stop(orr_transport *self)
{
    mortal *m = self->ctx;
    m->to->abort(m->to);
}

static orr_status answer(world *w, orr_generator *g, orr_error *err)
{
    orr_generated got[PROMPTS] = {0};
    orr_generation_times times;
    uint32_t mine[PROMPTS], n = 0;
    bool holds[PROMPTS];
    const orr_sampling sampling = {.most = GENERATED};
    for (uint32_t p = 0; p < PROMPTS; p++)
        if (p % RANKS == g->parallel->rank)
            mine[n++] = p;
    const orr_answer_job job = {.prompts = w->prompts,
                                .n = PROMPTS,
                                .n_mine = n,
                                .mine = mine,
                                .sampling = &sampling,
                                .arena = w->arena,
                                .ret = got,
                                .holds = holds};
    ORR_TRY(orr_generator_answer(g, &job, &times, err));
    w->moved = orr_rebalancer_total(g->parallel->rebalancer).moved;
    w->digest = 0;
    for (uint32_t i = 0; i < n; i++)
        w->digest = w->digest * 31 + got[mine[i]].logits_digest;
    return ORR_OK;
}

static orr_status run_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    world *w = ctx;
    mortal m = {.transport = *transport, .to = transport, .w = w};
    const orr_rebalance_options rebalance = {.every = 3, .step_bytes = 1, .tolerance = 0.01};
    const orr_generator_rank rank = {
        .transport = &m.transport, .placement = &w->placement, .rebalance = &rebalance};
    const orr_generator_options options = {.model = &w->model.model,
                                           .format = ORR_ROW_FORMATS,
                                           .fp32 = true,
                                           .context = CAPACITY,
                                           .batch = 2,
                                           .threads = 1,
                                           .seed = 5};
    orr_generator *g;
    m.transport.ctx = &m;
    m.transport.exchange = exchange;
    m.transport.abort = stop;
    ORR_TRY(orr_generator_open_rank(&options, &rank, &g, err));
    const orr_status status = answer(w, g, err);
    orr_generator_close(g);
    return status;
}

static void a_rank_dies_while_an_expert_moves(void **state)
{
    (void)state;
    world w;
    orr_error err;
    open_world(&w);
    if (orr_ranks_run(RANKS, ORR_RANKS_SHM, PATIENT_NS, run_rank, &w, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const uint64_t moved = w.moved, digest = w.digest;
    print_message("# %llu experts leave rank 0\n", (unsigned long long)moved);
    assert_true(moved >= 2);
    for (w.dying = 1; w.dying < RANKS; w.dying++)
        for (w.deadly = 0; w.deadly < 2; w.deadly++) {
            const orr_ranks_kind kind = w.deadly == 0 ? ORR_RANKS_SHM : ORR_RANKS_TCP;
            char want[64];
            snprintf(want, sizeof want, "rank %u was killed by signal 9", w.dying);
            assert_int_equal(orr_ranks_run(RANKS, kind, PATIENT_NS, run_rank, &w, &err), ORR_IO);
            if (strncmp(err.text, want, strlen(want)) != 0)
                fail_msg("%s", err.text);
        }
    w.deadly = ORR_NONE;
    assert_int_equal(orr_ranks_run(RANKS, ORR_RANKS_SHM, PATIENT_NS, run_rank, &w, &err), ORR_OK);
    assert_true(w.digest == digest && w.moved == moved);
    orr_arena_free(w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_dies_while_an_expert_moves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
