/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <orrery/team.h>

/* Teams of real threads over real sockets: a coordinator and ranks, each in a thread of this
 * process, as include/orrery/team.h tells them to go. */
enum { RANKS = 4, WORDS = 5000, OPS = 3 };
#define MS      INT64_C(1000000)
#define TIMEOUT (600000 * MS)

typedef struct service {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char address[160];
    orr_coordinator_options options;
    atomic_bool stop;
    orr_status status;
    orr_error err;
} service;

static void on_listening(void *ctx, const char *address)
{
    service *s = ctx;
    pthread_mutex_lock(&s->lock);
    snprintf(s->address, sizeof s->address, "%s", address);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static bool is_stopped(void *ctx)
{
    return atomic_load(&((service *)ctx)->stop);
}

static void *serve(void *ctx)
{
    service *s = ctx;
    s->status = orr_coordinator_run(&s->options, &s->err);
    return NULL;
}

static void start(service *s, uint32_t replicas)
{
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->options = (orr_coordinator_options){.listen = "127.0.0.1:0",
                                           .replicas = replicas,
                                           .failure_timeout_ns = TIMEOUT,
                                           .listening = on_listening,
                                           .stopped = is_stopped,
                                           .ctx = s};
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
    pthread_mutex_lock(&s->lock);
    while (s->address[0] == '\0')
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* It ends by itself when all have left. */
static void finish(service *s, bool stop)
{
    atomic_store(&s->stop, stop);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    assert_int_equal(s->status, ORR_OK);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

typedef struct rank {
    pthread_t thread;
    const char *coordinator, *proxy;
    char name[16];
    uint32_t rank, ranks, replicas;
    atomic_uint_fast64_t last; /* step, after which the job is done */
    uint64_t dies_after;       /* without a word; 0: does not            */
    bool backwards;            /* reductions are handed in last to first */
    struct rank *leader;
    /* Of a leader: turns for the other rank. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    orr_team_directive turns[8];
    uint32_t given, taken;
    float state[WORDS], in[WORDS], out[WORDS];
    uint64_t step, slots; /* slots: sum of those that it computed and that were committed */
    atomic_uint committed;
    uint32_t zeros, applied;
    orr_status status;
    orr_error err;
    orr_team *team;
} rank;

static rank ranks[RANKS];

static void give_turn(rank *r, const orr_team_directive *turn)
{
    pthread_mutex_lock(&r->lock);
    while (r->given - r->taken >= 8)
        pthread_cond_wait(&r->changed, &r->lock);
    r->turns[r->given++ % 8] = *turn;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static orr_team_directive take_turn(rank *r)
{
    pthread_mutex_lock(&r->lock);
    while (r->given == r->taken)
        pthread_cond_wait(&r->changed, &r->lock);
    const orr_team_directive turn = r->turns[r->taken++ % 8];
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return turn;
}

static orr_status next_turn(rank *r, orr_team_directive *ret)
{
    if (r->leader != NULL) {
        *ret = take_turn(r->leader);
        return orr_team_follow(r->team, ret, &r->err);
    }
    const orr_status status = orr_team_next_directive(r->team, ret, &r->err);
    if (status == ORR_OK && r->ranks > 1)
        give_turn(r, ret);
    return status;
}

static orr_status hand_in(rank *r, const orr_team_directive *turn)
{
    const bool zeros = turn->kind == ORR_DIRECTIVE_ZEROS;
    const size_t part = WORDS / OPS;
    for (size_t i = 0; i < WORDS; i++)
        r->in[i] = (float)((turn->slot * 13 + i * (1 + r->rank)) % 97) / 32.0F;
    for (uint32_t i = 0; i < OPS; i++) {
        const uint32_t op = r->backwards ? OPS - 1 - i : i;
        const size_t n = op == OPS - 1 ? WORDS - op * part : part;
        const orr_status status =
            orr_team_reduce(r->team, op, ORR_TEAM_FP32, zeros ? NULL : r->in + op * part,
                            r->out + op * part, n, &r->err);
        if (status != ORR_OK)
            return status;
    }
    return ORR_OK;
}

static void update(rank *r, uint64_t step, uint64_t contributors)
{
    for (size_t i = 0; i < WORDS; i++)
        r->state[i] += r->out[i] / (float)contributors;
    r->step = step;
    orr_team_updated(r->team, step);
}

static orr_status train(rank *r)
{
    for (;;) {
        orr_team_directive turn;
        orr_team_outcome outcome;
        orr_status status = next_turn(r, &turn);
        if (status != ORR_OK || turn.kind == ORR_DIRECTIVE_LEAVE)
            return status;
        if (turn.kind == ORR_DIRECTIVE_APPLY) {
            r->applied++;
            update(r, turn.step, turn.contributors);
            continue;
        }
        r->zeros += turn.kind == ORR_DIRECTIVE_ZEROS;
        status = hand_in(r, &turn);
        if (status == ORR_OK)
            status = orr_team_vote(r->team, OPS, &outcome, &r->err);
        if (status != ORR_OK)
            return status;
        if (outcome.kind != ORR_OUTCOME_COMMITTED)
            continue;
        r->committed++;
        r->slots += turn.slot;
        update(r, outcome.step, outcome.contributors);
        if (r->dies_after > 0 && r->step >= r->dies_after)
            return ORR_OK;
        if (r->step + 1 >= atomic_load(&r->last) && r->leader == NULL)
            orr_team_drain(r->team, true);
    }
}

static orr_status join(rank *r)
{
    const orr_team_span span = {r->state, sizeof r->state};
    const orr_team_options options = {.coordinator = r->coordinator,
                                      .name = r->name,
                                      .rank = r->rank,
                                      .ranks = r->ranks,
                                      .proxy = r->proxy,
                                      .fingerprint = 5,
                                      .replicas = r->replicas,
                                      .failure_timeout_ns = TIMEOUT,
                                      .give_up_ns = 1800000 * MS,
                                      .no_shared_memory = true,
                                      .spans = &span,
                                      .n_spans = 1};
    return orr_team_join(&options, &r->team, &r->err);
}

static void *live(void *ctx)
{
    rank *r = ctx;
    r->status = train(r);
    orr_team_leave(r->team);
    r->team = NULL;
    return NULL;
}

static void prepare(uint32_t replicas, uint32_t k, const char *coordinator, uint64_t last)
{
    memset(ranks, 0, sizeof ranks);
    for (uint32_t i = 0; i < replicas * k; i++) {
        rank *r = &ranks[i];
        r->coordinator = coordinator;
        r->rank = i % k;
        r->ranks = k;
        r->replicas = replicas;
        atomic_init(&r->last, last);
        r->leader = r->rank > 0 ? &ranks[i - r->rank] : NULL;
        snprintf(r->name, sizeof r->name, "r%u", i / k);
        pthread_mutex_init(&r->lock, NULL);
        pthread_cond_init(&r->changed, NULL);
    }
}

static void start_rank(rank *r)
{
    if (r->leader != NULL)
        r->proxy = orr_team_proxy_address(r->leader->team);
    if (join(r) != ORR_OK)
        fail_msg("%s", r->err.text);
    assert_int_equal(pthread_create(&r->thread, NULL, live, r), 0);
}

static void join_rank(rank *r, orr_status expected)
{
    assert_int_equal(pthread_join(r->thread, NULL), 0);
    if (r->status != expected)
        fail_msg("%s.%u: %s", r->name, r->rank, r->err.text);
}

static void same_state(const rank *x, const rank *y)
{
    assert_int_equal(x->step, y->step);
    assert_memory_equal(x->state, y->state, sizeof x->state);
}

static void test_fifty_steps(void **state)
{
    (void)state;
    service s;
    start(&s, 3);
    prepare(3, 1, s.address, 50);
    ranks[1].backwards = true;
    for (uint32_t i = 0; i < 3; i++)
        start_rank(&ranks[i]);
    for (uint32_t i = 0; i < 3; i++)
        join_rank(&ranks[i], ORR_OK);
    finish(&s, false);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(ranks[i].step >= 50);
        same_state(&ranks[0], &ranks[i]);
        assert_int_equal(ranks[i].committed, ranks[0].step);
    }
    const uint64_t slots = 3 * ranks[0].step; /* each once */
    assert_int_equal(ranks[0].slots + ranks[1].slots + ranks[2].slots, slots * (slots - 1) / 2);
}

static void test_two_ranks_of_a_replica(void **state)
{
    (void)state;
    service s;
    start(&s, 2);
    prepare(2, 2, s.address, 30);
    for (uint32_t i = 0; i < 4; i++)
        start_rank(&ranks[i]);
    for (uint32_t i = 0; i < 4; i++)
        join_rank(&ranks[i], ORR_OK);
    finish(&s, false);
    assert_true(ranks[0].step >= 30);
    same_state(&ranks[0], &ranks[2]);
    same_state(&ranks[1], &ranks[3]);
    assert_int_equal(ranks[0].step, ranks[1].step);
    assert_memory_not_equal(ranks[0].state, ranks[1].state, sizeof ranks[0].state);
}

static void nap(int64_t ns)
{
    const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

/* One goes without a word, and comes back with nothing. */
static void test_one_dies_and_comes_back(void **state)
{
    (void)state;
    service s;
    uint64_t step;
    orr_team_data_cursor data;
    start(&s, 3);
    prepare(3, 1, s.address, UINT64_MAX);
    ranks[2].dies_after = 10;
    for (uint32_t i = 0; i < 3; i++)
        start_rank(&ranks[i]);
    join_rank(&ranks[2], ORR_OK);
    nap(50 * MS);
    memset(ranks[2].state, 0, sizeof ranks[2].state);
    ranks[2].step = ranks[2].dies_after = ranks[2].committed = 0;
    start_rank(&ranks[2]);
    while (atomic_load(&ranks[2].committed) == 0)
        nap(10 * MS);
    orr_team_position(ranks[0].team, &step, &data);
    for (uint32_t i = 0; i < 3; i++)
        atomic_store(&ranks[i].last, step + 200); /* which nobody has reached yet */
    for (uint32_t i = 0; i < 3; i++)
        join_rank(&ranks[i], ORR_OK);
    finish(&s, false);
    assert_true(ranks[2].zeros > 0);
    assert_true(ranks[2].committed > 0);
    same_state(&ranks[0], &ranks[1]);
    same_state(&ranks[0], &ranks[2]);
}

static void test_no_coordinator(void **state)
{
    (void)state;
    const orr_team_options options = {.coordinator = "127.0.0.1:1",
                                      .name = "a",
                                      .fingerprint = 5,
                                      .failure_timeout_ns = 100 * MS,
                                      .give_up_ns = 300 * MS};
    orr_team *team = NULL;
    orr_team_directive turn;
    orr_error err = {0};
    assert_int_equal(orr_team_join(&options, &team, &err), ORR_OK);
    assert_int_equal(orr_team_next_directive(team, &turn, &err), ORR_LIMIT);
    assert_non_null(strstr(err.text, "no team"));
    assert_int_equal(orr_team_next_directive(team, &turn, &err),
                     ORR_LIMIT); /* as long as it is so */
    orr_team_leave(team);
}

static void test_refused(void **state)
{
    (void)state;
    service s;
    orr_error err = {0};
    orr_team_directive turn;
    orr_team *one = NULL, *other = NULL;
    start(&s, 1);
    const orr_team_options options = {.coordinator = s.address, .name = "a", .fingerprint = 5};
    orr_team_options wrong = options;
    wrong.name = "b";
    wrong.fingerprint = 6;
    assert_int_equal(orr_team_join(&options, &one, &err), ORR_OK);
    nap(300 * MS);
    assert_int_equal(orr_team_join(&wrong, &other, &err), ORR_OK);
    assert_int_equal(orr_team_next_directive(other, &turn, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "another job"));
    orr_team_leave(other);
    orr_team_leave(one);
    finish(&s, true);
}

static void test_left_at_any_time(void **state)
{
    (void)state;
    service s;
    orr_error err;
    start(&s, 2);
    for (int i = 0; i < 20; i++) {
        const orr_team_options options = {.coordinator = s.address, .name = "a", .fingerprint = 5};
        orr_team *team = NULL;
        uint64_t step = 77;
        orr_team_data_cursor data;
        assert_int_equal(orr_team_join(&options, &team, &err), ORR_OK);
        orr_team_position(team, &step, &data);
        assert_int_equal(step, 0);
        assert_null(orr_team_proxy_address(team));
        if (i % 2 == 0)
            nap(i * MS);
        orr_team_leave(team);
    }
    orr_team_leave(NULL);
    finish(&s, true);
}

static void test_options_that_contradict_each_other(void **state)
{
    (void)state;
    const orr_team_options wrong[] = {
        {.coordinator = "127.0.0.1:1", .name = ""},
        {.coordinator = "127.0.0.1:1"},
        {.name = "a"},
        {.coordinator = "127.0.0.1:1", .name = "a", .rank = 2, .ranks = 2},
        {.coordinator = "127.0.0.1:1", .name = "a", .rank = 1, .ranks = 2}, /* no proxy */
        {.coordinator = "127.0.0.1:1", .name = "a", .failure_timeout_ns = 1},
        {.coordinator = "127.0.0.1:1", .name = "a", .give_up_ns = 1},
        {.coordinator = "127.0.0.1:1", .name = "a", .address = "127.0.0.1:x"},
        {.coordinator = "127.0.0.1:1", .name = "a", .address = "127.0.0.1:65535"},
        {.coordinator = "127.0.0.1:1", .name = "a", .chunk_bytes = 3},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        orr_team *none = NULL;
        orr_error err = {0};
        assert_int_equal(orr_team_join(&wrong[i], &none, &err), ORR_INVALID);
        assert_null(none);
        assert_true(err.text[0] != '\0');
    }
}

static void test_rate_factor(void **state)
{
    (void)state;
    assert_true(orr_team_rate_factor(ORR_TEAM_RATE_NONE, 1, 4) == 1.0);
    assert_true(orr_team_rate_factor(ORR_TEAM_RATE_LINEAR, 3, 4) == 0.75);
    assert_true(fabs(orr_team_rate_factor(ORR_TEAM_RATE_SQRT, 1, 4) - 0.5) < 1e-15);
    for (int policy = ORR_TEAM_RATE_NONE; policy <= ORR_TEAM_RATE_LINEAR; policy++)
        assert_true(orr_team_rate_factor((orr_team_rate_policy)policy, 4, 4) == 1.0);
    assert_true(isfinite(orr_team_rate_factor(ORR_TEAM_RATE_LINEAR, 2, 0)));
}

static void test_event_names(void **state)
{
    (void)state;
    assert_string_equal(orr_team_event_name(ORR_TEAM_COMMIT), "commit");
    assert_string_equal(orr_team_event_name(ORR_TEAM_COORDINATOR_LOST), "coordinator lost");
    assert_non_null(orr_team_event_name((orr_team_event_kind)99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifty_steps),
        cmocka_unit_test(test_two_ranks_of_a_replica),
        cmocka_unit_test(test_one_dies_and_comes_back),
        cmocka_unit_test(test_no_coordinator),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_left_at_any_time),
        cmocka_unit_test(test_options_that_contradict_each_other),
        cmocka_unit_test(test_rate_factor),
        cmocka_unit_test(test_event_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
