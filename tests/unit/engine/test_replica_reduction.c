/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <math.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "engine/ranks/launch.h"

/* Two replicas whose every rank lives in one process: what they hand in is added here. */
enum { SUMS = 64, REPLICAS = 2 };

typedef struct handed {
    const void *in;
    void *out;
    size_t n;
    orr_team_dtype dtype;
} handed;

typedef struct board {
    handed of[SUMS];
    atomic_uint times[SUMS];
    orr_step_replica_reducer team;
} board;

static orr_status take(void *ctx, uint32_t op, orr_team_dtype dtype, const void *in, void *out,
                       size_t n, orr_error *err)
{
    board *b = ctx;
    (void)err;
    assert_true(op < SUMS && n > 0 && out != NULL);
    b->of[op] = (handed){in, out, n, dtype};
    atomic_fetch_add(&b->times[op], 1);
    return ORR_OK;
}

static double number_of(const handed *h, size_t i)
{
    if (h->in == NULL)
        return 0;
    return h->dtype == ORR_TEAM_FP64 ? ((const double *)h->in)[i] : ((const float *)h->in)[i];
}

static void put(const handed *h, size_t i, double sum)
{
    if (h->dtype == ORR_TEAM_FP64)
        ((double *)h->out)[i] = sum;
    else
        ((float *)h->out)[i] = (float)sum;
}

static void add_all(board *const *boards, uint32_t sums)
{
    for (uint32_t op = 0; op < sums; op++) {
        const handed *a = &boards[0]->of[op], *b = &boards[1]->of[op];
        assert_int_equal(a->n, b->n);
        assert_int_equal(a->dtype, op + 1 == sums ? ORR_TEAM_FP64 : ORR_TEAM_FP32);
        for (int r = 0; r < REPLICAS; r++)
            assert_int_equal(atomic_exchange(&boards[r]->times[op], 0), 1); /* each once a step */
        for (size_t i = 0; i < a->n; i++) {
            const double sum = number_of(a, i) + number_of(b, i);
            put(a, i, sum);
            put(b, i, sum);
        }
    }
    for (uint32_t op = sums; op < SUMS; op++)
        assert_true(atomic_load(&boards[0]->times[op]) + atomic_load(&boards[1]->times[op]) == 0);
}

/* This rank's tokens of micro-batch `nth` of the job, of samples that depend on their number alone.
 */
static void fill_micro_batch(small_training *t, uint32_t i, uint64_t nth, double weights)
{
    orr_step_local_batch window;
    orr_engine_step_local_batch(t->step, &window);
    const size_t n = (size_t)(window.samples * window.tokens);
    int64_t *tokens = orr_arena_array(t->arena, int64_t, n + 1);
    int64_t *targets = orr_arena_array(t->arena, int64_t, n + 1);
    float *weight = orr_arena_array(t->arena, float, n + 1);
    assert_true(tokens != NULL && targets != NULL && weight != NULL);
    for (int64_t row = 0; row < window.samples && window.tokens > 0; row++)
        for (uint32_t p = 0; p < window.share.n; p++)
            for (int64_t k = 0; k < window.share.piece[p].count; k++) {
                const int64_t at = row * window.tokens + window.share.piece[p].own + k;
                const int64_t whole = window.share.piece[p].whole + k;
                tokens[at] = (int64_t)((uint64_t)(whole * 5 + row * 7) + nth * 3) % SMALL_VOCAB;
                targets[at] = (tokens[at] * 3 + 1) % SMALL_VOCAB;
                weight[at] = (float)(1 / weights);
            }
    t->inputs[i] = (orr_step_inputs){.tokens = tokens, .targets = targets, .weights = weight};
}

static void fill_all(small_training *t, uint32_t rank, uint64_t first, uint32_t of)
{
    const orr_coordinates at = orr_plan_coordinates(&t->plan, rank);
    const uint32_t n = t->plan.micro_batches, dp = t->plan.dp;
    const double tokens = (double)n * dp * t->plan.micro_batch * SMALL_TOKENS;
    for (uint32_t i = 0; i < n; i++)
        fill_micro_batch(t, i, (first + i) * dp + at.at[ORR_AXIS_DP], tokens * of / n);
}

typedef struct pair {
    const char *model, *plan;
    uint32_t halves; /* micro-batches of a replica */
} pair;

static void read_one(small_training *t, const pair *p, uint32_t micro_batches,
                     orr_transport *transport, const orr_step_replica_reducer *team)
{
    char plan[256];
    (void)snprintf(plan, sizeof plan, "%s,micro_batches=%u", p->plan, micro_batches);
    small_read(t, p->model, plan);
    t->source.transport = transport;
    t->source.team = team;
    t->update.epsilon = 1e-3F; /* gradients near zero do not decide by their sign alone */
    small_make(t);
}

static void compare_parameters(small_training *t, small_training *one, double bound)
{
    uint32_t n, m;
    const orr_parameter *a = orr_engine_step_parameters(t->step, &n);
    const orr_parameter *b = orr_engine_step_parameters(one->step, &m);
    assert_int_equal(n, m);
    for (uint32_t i = 0; i < n; i++)
        for (int64_t k = 0; k < b[i].shard_n; k++)
            if (!(fabs(a[i].master[k] - b[i].master[k]) <= bound))
                fail_msg("%s of place %u, number %lld: %.9g, alone %.9g", a[i].name, a[i].place,
                         (long long)k, a[i].master[k], b[i].master[k]);
}

static void make_team_step(small_training *t, board *const *boards, const orr_step_result *alone)
{
    orr_step_result r[REPLICAS];
    orr_error err;
    for (int i = 0; i < REPLICAS; i++)
        assert_int_equal(orr_engine_step_compute(t[i].step, t[i].inputs, NULL, &err), ORR_OK);
    add_all(boards, orr_engine_step_reductions(t[0].step));
    for (int i = 0; i < REPLICAS; i++) {
        assert_int_equal(orr_engine_step_apply(t[i].step, &t[i].update, 0, REPLICAS, &r[i], &err),
                         ORR_OK);
        t[i].update.step++;
    }
    assert_true(r[0].loss == r[1].loss && r[0].gradient_norm == r[1].gradient_norm);
    assert_int_equal(r[0].tokens, alone->tokens);
    assert_true(fabs(r[0].loss - alone->loss) < 1e-6 * alone->loss);
    assert_true(fabs(r[0].gradient_norm - alone->gradient_norm) < 1e-5 * alone->gradient_norm);
}

/* Both replicas against one that has all micro-batches. */
static orr_status one_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    const pair *p = ctx;
    small_training one, t[REPLICAS];
    board boards[REPLICAS] = {0}, *const all[] = {&boards[0], &boards[1]};
    (void)err;
    read_one(&one, p, 2 * p->halves, transport, NULL);
    fill_all(&one, transport->rank, 0, 2 * p->halves);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        boards[i].team = (orr_step_replica_reducer){take, &boards[i]};
        read_one(&t[i], p, p->halves, transport, &boards[i].team);
        fill_all(&t[i], transport->rank, (uint64_t)i * p->halves, p->halves);
    }
    for (int s = 0; s < 3; s++) {
        const orr_step_result alone = small_run(&one);
        make_team_step(t, all, &alone);
    }
    compare_parameters(&t[0], &one, 2e-6);
    compare_parameters(&t[1], &t[0], 0);
    small_close(&one);
    small_close(&t[0]);
    small_close(&t[1]);
    return ORR_OK;
}

static void compare_plan(const char *model, const char *plan, uint32_t halves)
{
    pair p = {model, plan, halves};
    orr_plan read;
    orr_error err;
    assert_int_equal(orr_plan_parse(plan, &read, &err), ORR_OK);
    const orr_plan whole = orr_plan_with_defaults(&read);
    if (orr_ranks_run((uint32_t)orr_plan_ranks(&whole), ORR_RANKS_SHM, INT64_C(60000000000),
                      one_rank, &p, &err) != ORR_OK)
        fail_msg("%s, %s: %s", model, plan, err.text);
}

#define OF_HEADS(n) "layers=2,hidden=32,ffn=64,heads=" #n ",vocab=64,seq=16,precision=fp32"
static void two_replicas_are_as_one_that_has_all(void **state)
{
    (void)state;
    compare_plan("llama2-7b", OF_HEADS(4), 1);
    compare_plan("llama2-7b", OF_HEADS(4) ",bucket_bytes=8192", 2);
    compare_plan("mpt-7b", OF_HEADS(4), 2); /* the embedding is the head */
}

static void whatever_the_plan_of_a_replica(void **state)
{
    (void)state;
    compare_plan("llama2-7b", OF_HEADS(4) ",dp=2,bucket_bytes=8192", 1);
    compare_plan("llama2-7b", OF_HEADS(4) ",dp=2,zero=1,overlap_dp=off", 1);
    compare_plan("llama2-7b", OF_HEADS(4) ",dp=2,zero=2,gradients=fp32", 2);
    compare_plan("llama2-7b", OF_HEADS(4) ",dp=2,zero=3,gradients=fp32", 2);
    compare_plan("llama2-7b", OF_HEADS(4) ",tp=2", 1);
    compare_plan("llama2-7b", OF_HEADS(4) ",cp=2", 1);
    compare_plan("llama2-7b", OF_HEADS(4) ",tp=2,dp=2,zero=1", 1);
    compare_plan("mpt-7b", OF_HEADS(4) ",pp=2", 2); /* head and embedding on two stages */
    compare_plan("mixtral-8x7b", OF_HEADS(8) ",dp=2,ep=2", 1);
}

static void open_one(small_training *t, board *b)
{
    *b = (board){.team = {take, b}};
    *t = small_open("llama2-7b", SMALL_PLAN ",micro_batches=2");
    t->source.team = &b->team;
    small_make(t);
}

/* A replica whose state is yet to come: it hands in zeros, and the other's gradients alone are in.
 */
static void zeros_leave_the_others_gradients(void **state)
{
    (void)state;
    small_training t[REPLICAS], alone = small_open("llama2-7b", SMALL_PLAN ",micro_batches=2");
    board boards[REPLICAS], *const all[] = {&boards[0], &boards[1]};
    orr_step_result r;
    orr_error err;
    small_make(&alone);
    for (int i = 0; i < REPLICAS; i++)
        open_one(&t[i], &boards[i]);
    const orr_step_result want = small_run(&alone);
    assert_int_equal(orr_engine_step_compute(t[0].step, t[0].inputs, NULL, &err), ORR_OK);
    assert_int_equal(orr_engine_step_contribute_zeros(t[1].step, &err), ORR_OK);
    add_all(all, orr_engine_step_reductions(t[0].step));
    for (int i = 0; i < REPLICAS; i++) {
        assert_int_equal(orr_engine_step_apply(t[i].step, &t[i].update, 0, 1, &r, &err), ORR_OK);
        assert_true(r.loss == want.loss && r.gradient_norm == want.gradient_norm);
        compare_parameters(&t[i], &alone, 0);
    }
    for (int i = 0; i < REPLICAS; i++)
        small_close(&t[i]);
    small_close(&alone);
}

static size_t copy_state(const small_training *t, char *to, const char *from)
{
    uint32_t n;
    size_t at = 0;
    const orr_team_span *spans = orr_engine_step_state(t->step, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (to != NULL)
            memcpy(to + at, spans[i].data, spans[i].bytes);
        if (from != NULL)
            memcpy(spans[i].data, from + at, spans[i].bytes);
        at += spans[i].bytes;
    }
    return at;
}

/* The state of one replica makes another the same: what follows has the same bits. In 16 bits what
 * is computed with are copies. */
static void state_in_spans(const char *plan)
{
    small_training a = small_open("llama2-7b", plan), b = small_open("llama2-7b", plan);
    b.source.seed = 8;
    small_make(&a);
    small_make(&b);
    for (int i = 0; i < 3; i++)
        (void)small_run(&a);
    char *room = orr_malloc(copy_state(&a, NULL, NULL));
    assert_non_null(room);
    const size_t bytes = copy_state(&a, room, NULL);
    assert_int_equal(copy_state(&b, NULL, room), bytes);
    assert_int_equal(orr_engine_step_weights_changed(b.step, &b.err), ORR_OK);
    b.update.step = a.update.step;
    for (int i = 0; i < 2; i++) {
        const orr_step_result x = small_run(&a), y = small_run(&b);
        assert_true(x.loss == y.loss && x.gradient_norm == y.gradient_norm);
    }
    compare_parameters(&b, &a, 0);
    orr_free(room);
    small_close(&a);
    small_close(&b);
}

static void state_goes_from_one_to_another(void **state)
{
    (void)state;
    state_in_spans(SMALL_PLAN ",micro_batches=2");
    state_in_spans(
        "layers=2,hidden=32,ffn=64,heads=4,vocab=64,seq=16,precision=bf16,micro_batches=2");
}

/* Sums that came while there was no state are applied when it has come: without any computing. */
static void sums_are_applied_later(void **state)
{
    (void)state;
    small_training t[REPLICAS];
    board boards[REPLICAS], *const all[] = {&boards[0], &boards[1]};
    orr_step_result now, later;
    orr_error err;
    for (int i = 0; i < REPLICAS; i++)
        open_one(&t[i], &boards[i]);
    assert_int_equal(orr_engine_step_compute(t[0].step, t[0].inputs, NULL, &err), ORR_OK);
    assert_int_equal(orr_engine_step_contribute_zeros(t[1].step, &err), ORR_OK);
    add_all(all, orr_engine_step_reductions(t[0].step));
    char *room = orr_malloc(copy_state(&t[0], NULL, NULL));
    assert_non_null(room);
    (void)copy_state(&t[0], room, NULL); /* as it is before the step */
    assert_int_equal(orr_engine_step_apply(t[0].step, &t[0].update, 1, 1, &now, &err), ORR_OK);
    (void)copy_state(&t[1], NULL, room);
    assert_int_equal(orr_engine_step_weights_changed(t[1].step, &err), ORR_OK);
    assert_int_equal(orr_engine_step_apply(t[1].step, &t[1].update, 1, 1, &later, &err), ORR_OK);
    assert_true(now.loss == later.loss && now.gradient_norm == later.gradient_norm);
    compare_parameters(&t[1], &t[0], 0);
    orr_free(room);
    small_close(&t[0]);
    small_close(&t[1]);
}

static void gradients_stay_as_they_are(void **state)
{
    (void)state;
    small_training t;
    board b;
    open_one(&t, &b);
    orr_step_result r;
    assert_int_equal(orr_engine_step_compute(t.step, t.inputs, NULL, &t.err), ORR_OK);
    const handed first = b.of[0];
    double before = 0, after = 0;
    for (size_t i = 0; i < first.n; i++)
        before += fabs(number_of(&first, i));
    for (uint32_t op = 0; op < orr_engine_step_reductions(t.step); op++)
        for (size_t i = 0; i < b.of[op].n; i++)
            put(&b.of[op], i, number_of(&b.of[op], i));
    assert_int_equal(orr_engine_step_apply(t.step, &t.update, 1e-6, 1, &r, &t.err), ORR_OK);
    for (size_t i = 0; i < first.n; i++)
        after += fabs(number_of(&first, i));
    assert_true(before > 0 && before == after);
    small_close(&t);
}

/* Calls that hand in, on a lane, and how many of them have products of gradients behind them. */
static void count_early(const char *plan, uint8_t lane, uint32_t *ret_all, uint32_t *ret_early)
{
    small_training t;
    board b = {.team = {take, &b}};
    orr_transport silent = *orr_transport_self();
    small_read(&t, "llama2-7b", plan);
    silent.ranks = (uint32_t)orr_plan_ranks(&t.plan);
    t.source.transport = &silent;
    t.source.team = &b.team;
    t.source.plan = &t.plan;
    t.source.workload = &t.workload;
    assert_int_equal(orr_engine_step_make_unallocated(&t.source, &t.step, &t.err), ORR_OK);
    const orr_program_source p = orr_engine_step_program(t.step);
    uint32_t products = 0;
    *ret_all = *ret_early = 0;
    for (uint32_t c = p.tape->n_calls; c-- > 0;) {
        products +=
            p.tape->calls[c].op == ORR_OP_MATMUL && p.tape->calls[c].pass == ORR_PASS_WEIGHT;
        if (p.calls[c].before == NULL)
            continue;
        assert_true(p.calls[c].skip && p.calls[c].lane == lane);
        (*ret_all)++;
        *ret_early += products > 0;
    }
    assert_int_equal(*ret_all + 1, orr_engine_step_reductions(t.step));
    small_close(&t);
}

static void sums_begin_while_the_backward_pass_goes_on(void **state)
{
    (void)state;
    uint32_t all, early;
    count_early(SMALL_PLAN ",bucket_bytes=8192", ORR_LANE_COMPUTE, &all, &early);
    assert_true(all >= 4 && early >= all - 2);
    count_early(SMALL_PLAN ",dp=2,zero=1,bucket_bytes=8192", ORR_LANE_COMM, &all, &early);
    assert_true(all >= 4 && early >= all - 2);
}

static void sums_are_counted_in_memory(void **state)
{
    (void)state;
    small_training t;
    board b;
    orr_step_memory with, held, without;
    open_one(&t, &b);
    assert_int_equal(orr_engine_step_measure(&t.source, &with, &t.err), ORR_OK);
    held = orr_engine_step_memory_of(t.step);
    assert_memory_equal(&with, &held, sizeof with);
    t.source.team = NULL;
    assert_int_equal(orr_engine_step_measure(&t.source, &without, &t.err), ORR_OK);
    assert_int_equal(with.gradients, 2 * without.gradients);
    assert_int_equal(with.total - with.gradients, without.total - without.gradients);
    small_close(&t);
}

/* Whoever made it looks for the call that did; the sums are not handed in again. */
static void a_loss_that_is_none_ends_all_replicas(void **state)
{
    (void)state;
    small_training t[REPLICAS];
    board boards[REPLICAS], *const all[] = {&boards[0], &boards[1]};
    orr_step_result r;
    for (int i = 0; i < REPLICAS; i++)
        open_one(&t[i], &boards[i]);
    uint32_t n;
    orr_engine_step_parameters(t[0].step, &n)[n / 2].master[5] = NAN;
    for (int i = 0; i < REPLICAS; i++)
        assert_int_equal(orr_engine_step_compute(t[i].step, t[i].inputs, NULL, &t[i].err), ORR_OK);
    add_all(all, orr_engine_step_reductions(t[0].step));
    for (int i = 0; i < REPLICAS; i++)
        assert_int_equal(orr_engine_step_apply(t[i].step, &t[i].update, 1, REPLICAS, &r, &t[i].err),
                         ORR_INVALID);
    assert_non_null(strstr(t[0].err.text, "made NaN"));
    assert_non_null(strstr(t[1].err.text, "the loss is not finite"));
    for (uint32_t op = 0; op < SUMS; op++)
        assert_int_equal(atomic_load(&boards[0].times[op]), 0);
    for (int i = 0; i < REPLICAS; i++)
        small_close(&t[i]);
}

static void tables_are_refused(void **state)
{
    (void)state;
    small_training t;
    board b = {.team = {take, &b}};
    small_read(&t, "dlrm-criteo-kaggle", "precision=fp32,micro_batch=4");
    t.source.team = &b.team;
    const orr_status status = small_try(&t);
    assert_int_equal(status, ORR_UNSUPPORTED);
    assert_non_null(strstr(t.err.text, "team"));
    small_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_replicas_are_as_one_that_has_all),
        cmocka_unit_test(whatever_the_plan_of_a_replica),
        cmocka_unit_test(zeros_leave_the_others_gradients),
        cmocka_unit_test(state_goes_from_one_to_another),
        cmocka_unit_test(sums_are_applied_later),
        cmocka_unit_test(gradients_stay_as_they_are),
        cmocka_unit_test(sums_begin_while_the_backward_pass_goes_on),
        cmocka_unit_test(sums_are_counted_in_memory),
        cmocka_unit_test(a_loss_that_is_none_ends_all_replicas),
        cmocka_unit_test(tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
