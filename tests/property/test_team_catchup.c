/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "support/seeds.h"
#include "support/simulated/network.h"
#include "team/catchup/catchup.h"

/* Whatever happens to sources, takers and the network between them: a taker that is told that the
 * state is whole holds the state that it asked for; one that began is told whole or lost; and where
 * all is well again, it gets the state. */
enum { SOURCES = 4, TAKERS = 3, SEEDS = 150, ACTIONS = 60, MIB = 1 << 20, SPANS = 4 };
static const int64_t us_ns = 1000, silence_ns = 50 * 1000 * 1000;
static const size_t span_words[SPANS] = {MIB / 3, 0, 1, MIB / 5 + 3};

typedef struct party {
    uint32_t host;
    orr_team_span spans[SPANS];
    orr_state_provider *source;
    orr_state_receiver *taker;
    uint64_t step; /* of sources: in the spans; of takers: asked for */
    bool busy, stopped;
    uint64_t wholes, losses, seed;
} party;

typedef struct play {
    orr_simnet *world;
    orr_random random;
    uint32_t n; /* sources */
    party sources[SOURCES], takers[TAKERS];
} play;

static uint64_t word_of(uint64_t step, int span, size_t at)
{
    return step * 0x9e3779b97f4a7c15u + (uint64_t)span * 0x2545f491u + at;
}

static void fill(party *p, uint64_t step)
{
    p->step = step;
    for (int i = 0; i < SPANS; i++)
        for (size_t at = 0; at < span_words[i]; at++)
            ((uint64_t *)p->spans[i].data)[at] = word_of(step, i, at);
}

static void on_whole(void *ctx)
{
    party *p = ctx;
    assert_true(p->busy);
    p->busy = false;
    p->wholes++;
    for (int i = 0; i < SPANS; i++)
        for (size_t at = 0; at < span_words[i]; at++)
            if (((uint64_t *)p->spans[i].data)[at] != word_of(p->step, i, at))
                seed_fail(p->seed, "word %zu of span %d is not of step %llu", at, i,
                          (unsigned long long)p->step);
}

static void on_lost(void *ctx, const char *why)
{
    party *p = ctx;
    (void)why;
    assert_true(p->busy);
    p->busy = false;
    p->losses++;
}

static uint32_t below(play *y, uint32_t bound)
{
    return (uint32_t)orr_random_below(&y->random, bound);
}

static void rise(play *y, party *p, bool source)
{
    const orr_state_receiver_callbacks user = {.ctx = p, .whole = on_whole, .lost = on_lost};
    orr_net *net = orr_simnet_host_net(y->world, p->host);
    orr_error err = {0};
    if (source)
        assert_int_equal(orr_state_provider_new(net, "h:0", p->spans, SPANS, &p->source, &err),
                         ORR_OK);
    else
        assert_int_equal(
            orr_state_receiver_new(net, p->spans, SPANS, 1 + below(y, 6), &user, &p->taker, &err),
            ORR_OK);
}

static void die(play *y, party *p)
{
    orr_simnet_kill(y->world, p->host, below(y, 2));
    const bool source = p->source != NULL;
    orr_state_provider_free(p->source);
    orr_state_receiver_free(p->taker);
    p->busy = p->stopped = false;
    orr_simnet_restart(y->world, p->host);
    rise(y, p, source);
}

static void begin(play *y, party *p, uint64_t step)
{
    const char *addresses[SOURCES];
    orr_error err = {0};
    for (uint32_t i = 0; i < y->n; i++)
        addresses[i] = orr_state_provider_address(y->sources[i].source);
    p->step = step;
    const orr_status s =
        orr_state_receiver_begin(p->taker, step, addresses, y->n, silence_ns, &err);
    p->busy = s == ORR_OK;
}

/* As training does: what is offered is kept, changed, and offered anew, or not. */
static void train(play *y, party *p)
{
    orr_error err = {0};
    const orr_status s = orr_state_provider_snapshot(p->source, &err);
    assert_true(s == ORR_OK || s == ORR_NO_MEMORY);
    fill(p, p->step + 1);
    if (below(y, 3) > 0)
        orr_state_provider_offer(p->source, p->step, below(y, TAKERS + 1),
                                 (uint32_t)(p - y->sources), y->n);
}

static void act(play *y)
{
    party *s = &y->sources[below(y, y->n)], *t = &y->takers[below(y, TAKERS)];
    party *any = below(y, 4) == 0 ? t : s;
    orr_simnet *w = y->world;
    switch (below(y, 14)) {
    case 0:
    case 1:
    case 2:
        begin(y, t, s->step + below(y, 3) / 2);
        break;
    case 3:
        begin(y, t, t->step);
        break;
    case 4:
        train(y, s);
        break;
    case 5:
        for (uint32_t i = 0; i < y->n; i++)
            train(y, &y->sources[i]);
        break;
    case 6:
        die(y, any);
        break;
    case 7:
        any->stopped = !any->stopped;
        (any->stopped ? orr_simnet_stop : orr_simnet_continue)(w, any->host);
        break;
    case 8:
        orr_simnet_cut(w, below(y, 2) ? s->host : t->host, below(y, 2) ? t->host : s->host,
                       below(y, 2));
        break;
    case 9:
        orr_simnet_reset(w, s->host, t->host);
        break;
    case 10:
        orr_simnet_corrupt(w, s->host, t->host);
        break;
    case 11:
        if (below(y, 3) == 0) {
            orr_state_provider_withdraw(s->source);
        } else {
            orr_state_receiver_stop(t->taker);
            t->busy = false;
        }
        break;
    case 12: /* of the same step again */
        orr_state_provider_offer(s->source, s->step, TAKERS, (uint32_t)(s - y->sources), y->n);
        break;
    default: /* memory runs out for a while */
        orr_alloc_fail_from(1 + below(y, 20));
        begin(y, t, s->step);
        train(y, s);
        orr_simnet_run(w, orr_simnet_now_ns(w) + 500 * us_ns);
        orr_alloc_fail_from(0);
    }
}

static void heal(play *y)
{
    for (uint32_t i = 0; i < y->n + TAKERS; i++) {
        party *p = i < y->n ? &y->sources[i] : &y->takers[i - y->n];
        if (p->stopped)
            orr_simnet_continue(y->world, p->host);
        p->stopped = false;
        for (uint32_t k = 0; k < y->n + TAKERS; k++)
            orr_simnet_cut(y->world, i, k, false);
    }
}

/* A frame that is still to be corrupted may cost a try for each source. */
static void comes_back(play *y, party *t)
{
    const uint64_t before = t->wholes;
    for (uint32_t tries = 0; t->wholes == before; tries++) {
        if (tries > SOURCES)
            seed_fail(t->seed, "a taker has not come back");
        begin(y, t, 1000);
        orr_simnet_run(y->world, orr_simnet_now_ns(y->world) + 2 * silence_ns);
    }
}

static void run_seed(uint64_t seed, uint64_t *wholes, uint64_t *losses)
{
    play y = {.random = orr_random_of(seed, 0)};
    const orr_simnet_options options = {.seed = seed, .bytes_per_s = 2e9};
    orr_error err = {0};
    assert_int_equal(orr_simnet_new(&options, &y.world, &err), ORR_OK);
    y.n = 1 + below(&y, SOURCES);
    for (uint32_t i = 0; i < y.n + TAKERS; i++) {
        party *p = i < y.n ? &y.sources[i] : &y.takers[i - y.n];
        p->seed = seed;
        assert_int_equal(orr_simnet_add_host(y.world, &p->host, &err), ORR_OK);
        for (int k = 0; k < SPANS; k++)
            p->spans[k] = (orr_team_span){calloc(span_words[k] + 1, 8), span_words[k] * 8};
        rise(&y, p, i < y.n);
    }
    for (uint32_t i = 0; i < y.n; i++)
        fill(&y.sources[i], 1);
    for (int i = 0; i < ACTIONS; i++) {
        act(&y);
        orr_simnet_run(y.world, orr_simnet_now_ns(y.world) + below(&y, 2000) * us_ns);
    }
    heal(&y);
    orr_simnet_run(y.world, orr_simnet_now_ns(y.world) + (2 * SOURCES + 2) * silence_ns);
    for (uint32_t i = 0; i < TAKERS; i++)
        if (y.takers[i].busy)
            seed_fail(seed, "taker %u was told nothing", i);
    for (uint32_t i = 0; i < y.n; i++) {
        fill(&y.sources[i], 1000);
        orr_state_provider_offer(y.sources[i].source, 1000, TAKERS, i, y.n);
    }
    for (uint32_t i = 0; i < TAKERS; i++) {
        *wholes += y.takers[i].wholes;
        *losses += y.takers[i].losses;
        comes_back(&y, &y.takers[i]);
    }
    for (uint32_t i = 0; i < y.n + TAKERS; i++) {
        party *p = i < y.n ? &y.sources[i] : &y.takers[i - y.n];
        orr_state_provider_free(p->source);
        orr_state_receiver_free(p->taker);
        for (int k = 0; k < SPANS; k++)
            free(p->spans[k].data);
    }
    orr_simnet_free(y.world);
}

static void test_whole_is_what_was_asked_for(void **state)
{
    (void)state;
    uint64_t wholes = 0, losses = 0;
    const seed_range range = seeds(SEEDS);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        run_seed(seed, &wholes, &losses);
    print_message("%llu whole, %llu lost on the way\n", (unsigned long long)wholes,
                  (unsigned long long)losses);
    if (range.end - range.begin == SEEDS) /* the faults are neither too many nor too few */
        assert_true(wholes > SEEDS && losses > SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_is_what_was_asked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
