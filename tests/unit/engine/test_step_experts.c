/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <string.h>
#include <sys/mman.h>

#include "engine/ranks/launch.h"
#include "experts/placement/build.h"

/* What a step of two ranks sends to experts, counted where it is handed to the transport. */
enum {
    EXPERT_CHANNEL = 3,
    RANKS = 2,
    EXPERTS = 8,
    TOP_K = 2,
    HIDDEN = 32,
    LAYERS = 2,
    MICRO_BATCHES = 2,
    SAMPLES = 2
};
#define PLAN                                                                                       \
    "layers=2,hidden=32,ffn=64,heads=8,vocab=64,seq=16,precision=fp32,dp=2,ep=2,"                  \
    "micro_batch=2,micro_batches=2,recompute=none,overlap_ep=on"

typedef struct counter {
    orr_transport transport, *to;
    uint64_t sent[ORR_CHANNELS];
} counter;

static orr_status count(orr_transport *self, const orr_exchange *x, orr_error *err)
{
    counter *c = self->ctx;
    if (x->to != self->rank)
        c->sent[x->channel] += x->out_bytes;
    return c->to->exchange(c->to, x, err);
}

/* Told by the ranks, which are processes. */
typedef struct told {
    uint64_t sent[RANKS][ORR_CHANNELS]; /* by a step */
    double loss[RANKS];
} told;
typedef struct job {
    const orr_expert_placement *placement;
    told *told;
} job;

static orr_status body(void *ctx, orr_transport *transport, orr_error *err)
{
    const job *j = ctx;
    told *to = j->told;
    counter c = {.transport = *transport, .to = transport};
    small_training t = small_open("mixtral-8x7b", PLAN);
    orr_step_result r;
    c.transport.ctx = &c;
    c.transport.exchange = count;
    t.workload.placement = j->placement;
    t.source.transport = &c.transport;
    orr_status status = small_try(&t);
    memset(c.sent, 0, sizeof c.sent);
    if (status == ORR_OK)
        status = orr_engine_step_run(t.step, t.inputs, &t.update, 0, NULL, &r, &t.err);
    memcpy(to->sent[transport->rank], c.sent, sizeof c.sent);
    if (status == ORR_OK)
        to->loss[transport->rank] = r.loss;
    *err = t.err;
    small_close(&t);
    return status;
}

static told run_by(const orr_expert_placement *placement)
{
    told *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    orr_error err;
    job j = {placement, shared};
    assert_true(shared != MAP_FAILED);
    if (orr_ranks_run(RANKS, ORR_RANKS_SHM, 0, body, &j, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const told ret = *shared;
    assert_int_equal(munmap(shared, sizeof *shared), 0);
    return ret;
}

/* To the other rank as many rows as if all tokens went there: forward and backward each the rows,
 * the scores that weigh them and the results; and how many rows each expert has, once. */
static uint64_t predicted(void)
{
    const uint64_t tokens = SAMPLES * SMALL_TOKENS, rows = tokens * TOP_K;
    const uint64_t numbers = 2 * rows * (HIDDEN + 1 + HIDDEN) + EXPERTS / RANKS;
    return LAYERS * MICRO_BATCHES * numbers * 4;
}

static void a_placement_changes_no_bytes(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const uint32_t slots[] = {EXPERTS / RANKS, EXPERTS / RANKS, EXPERTS / RANKS, EXPERTS / RANKS};
    const orr_expert_placement like = {
        .layers = LAYERS, .experts = EXPERTS, .ranks = RANKS, .host_ranks = RANKS};
    orr_placement_draft draft;
    orr_error err;
    assert_int_equal(orr_placement_draft_new(&like, slots, false, arena, &draft, &err), ORR_OK);
    for (uint32_t i = 0; i < LAYERS * EXPERTS; i++)
        draft.expert[i] = (uint16_t)(i * 3 % EXPERTS);
    orr_placement_even_shares(&draft);
    draft.placement.source = "every third";
    draft.placement.number = (const uint32_t[]){0, 1};
    const told by[] = {run_by(NULL), run_by(&draft.placement)};
    for (int rank = 0; rank < RANKS; rank++) {
        for (int c = 0; c < ORR_CHANNELS; c++)
            assert_int_equal(by[0].sent[rank][c], by[1].sent[rank][c]);
        assert_int_equal(by[1].sent[rank][EXPERT_CHANNEL], predicted());
        assert_true(by[0].sent[rank][0] > 0 && by[0].sent[rank][0] < 1000); /* metrics alone */
        assert_memory_equal(&by[0].loss[rank], &by[1].loss[rank], sizeof by[0].loss[rank]);
    }
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_placement_changes_no_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
