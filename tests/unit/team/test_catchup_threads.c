/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "team/catchup/catchup.h"

/* Over real sockets: a thread polls the sources' net, another one trains: it offers, keeps, changes
 * the memory. The taker gets some step, whole, and never a mixture. */
enum { SOURCES = 3, ROUNDS = 12, WORDS = 700 * 1024 /* 5.6 MB: the last chunk is a part */ };
static const int64_t patient_ns = INT64_C(20) * 1000 * 1000 * 1000;

typedef struct trainer {
    orr_net *net;
    orr_state_provider *source;
    uint64_t *words;
    pthread_t thread;
    atomic_bool over;
} trainer;

static void *poll_net(void *ctx)
{
    trainer *t = ctx;
    while (!atomic_load(&t->over))
        t->net->poll(t->net, t->net->now_ns(t->net) + 20 * 1000 * 1000);
    return NULL;
}

static void train(trainer *t, uint64_t step)
{
    for (size_t i = 0; i < WORDS; i++)
        t->words[i] = step * 0x9e3779b97f4a7c15u + i;
}

static void trainer_init(trainer *t)
{
    const orr_net_system_options options = {0};
    orr_error err = {0};
    *t = (trainer){.words = calloc(WORDS, sizeof *t->words)};
    const orr_team_span spans[2] = {{t->words, 1000}, {(char *)t->words + 1000, WORDS * 8 - 1000}};
    assert_int_equal(orr_net_system_new(&options, &t->net, &err), ORR_OK);
    assert_int_equal(orr_state_provider_new(t->net, "127.0.0.1:0", spans, 2, &t->source, &err),
                     ORR_OK);
    assert_int_equal(pthread_create(&t->thread, NULL, poll_net, t), 0);
}

static void trainer_done(trainer *t)
{
    atomic_store(&t->over, true);
    t->net->interrupt(t->net);
    pthread_join(t->thread, NULL);
    orr_state_provider_free(t->source);
    orr_net_free(t->net);
    free(t->words);
}

typedef struct result {
    int wholes, losses;
} result;

static void on_whole(void *ctx)
{
    ((result *)ctx)->wholes++;
}

static void on_lost(void *ctx, const char *why)
{
    (void)why;
    ((result *)ctx)->losses++;
}

static void run_round(trainer *trainers, orr_net *net, orr_state_receiver *taker, const result *r,
                      uint64_t step)
{
    const char *addresses[SOURCES];
    orr_error err = {0};
    for (int i = 0; i < SOURCES; i++)
        addresses[i] = orr_state_provider_address(trainers[i].source);
    assert_int_equal(orr_state_receiver_begin(taker, step, addresses, SOURCES, patient_ns, &err),
                     ORR_OK);
    const uint64_t before = step % 4; /* chunks fetched before memory changes */
    for (uint32_t i = 0; i < SOURCES; i++) {
        train(&trainers[i], step);
        orr_state_provider_offer(trainers[i].source, step, 1, i, SOURCES);
    }
    const int64_t until_ns = net->now_ns(net) + patient_ns;
    while (orr_state_receiver_progress_of(taker).had < before && net->now_ns(net) < until_ns)
        net->poll(net, until_ns);
    for (int i = 0; i < SOURCES; i++) {
        assert_int_equal(orr_state_provider_snapshot(trainers[i].source, &err), ORR_OK);
        train(&trainers[i], step + 1000);
    }
    const int ends = r->wholes + r->losses;
    while (r->wholes + r->losses == ends && net->now_ns(net) < until_ns)
        net->poll(net, until_ns);
}

static void test_training_goes_on(void **state)
{
    (void)state;
    const orr_net_system_options options = {0};
    orr_error err = {0};
    trainer trainers[SOURCES];
    for (int i = 0; i < SOURCES; i++)
        trainer_init(&trainers[i]);
    orr_net *net;
    orr_state_receiver *taker;
    result r = {0};
    const orr_state_receiver_callbacks user = {.ctx = &r, .whole = on_whole, .lost = on_lost};
    uint64_t *words = calloc(WORDS, sizeof *words);
    const orr_team_span span = {words, WORDS * 8};
    assert_int_equal(orr_net_system_new(&options, &net, &err), ORR_OK);
    assert_int_equal(orr_state_receiver_new(net, &span, 1, 0, &user, &taker, &err), ORR_OK);
    for (uint64_t step = 0; step < ROUNDS; step++) {
        run_round(trainers, net, taker, &r, step);
        assert_int_equal(r.losses, 0);
        assert_int_equal(r.wholes, (int)step + 1);
        for (size_t i = 0; i < WORDS; i++)
            assert_true(words[i] == step * 0x9e3779b97f4a7c15u + i);
        if (step % 3 == 0)
            orr_state_provider_withdraw(trainers[step % SOURCES].source);
    }
    orr_state_receiver_free(taker);
    orr_net_free(net);
    for (int i = 0; i < SOURCES; i++)
        trainer_done(&trainers[i]);
    free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_training_goes_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
