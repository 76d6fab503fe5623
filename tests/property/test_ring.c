/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../unit/team/ring_team.h"
#include "support/seeds.h"

/* Rings of any shape, whose members post when they like, break, die and form again: whoever is left
 * has the sum of those who are left, to the bit. */

static uint32_t below(orr_random *random, uint32_t bound)
{
    return (uint32_t)orr_random_below(random, bound);
}

static orr_ring_options some_options(orr_random *random)
{
    return (orr_ring_options){.chunk_bytes = 8 * (1 + below(random, 40)),
                              .window = 1 + below(random, 7),
                              .streams = 1 + below(random, 3),
                              .small_bytes = 1 + below(random, 3000)};
}

static uint32_t some_ops(orr_random *random, team_op *ops)
{
    const uint32_t n = 1 + below(random, 6);
    for (uint32_t i = 0; i < n; i++)
        ops[i] = (team_op){.dtype = (orr_team_dtype)below(random, ORR_TEAM_FP16 + 1),
                           .n = below(random, 1u << below(random, 11)),
                           .zeros = below(random, 3) == 0 ? orr_random_u32(random) : 0};
    return n;
}

static void run_for(ring_team *team, uint32_t events)
{
    const int64_t until_ns = orr_simnet_now_ns(team->world) + 200000;
    for (uint32_t i = 0; i < events; i++)
        if (!orr_simnet_step(team->world, until_ns))
            return;
}

static ring_member *some_member(ring_team *team, orr_random *random)
{
    return &team->members[team->hosts[below(random, team->n)]];
}

/* Everybody who is left, one after another, in any order. */
static bool form_all(ring_team *team, orr_random *random, uint64_t epoch)
{
    const uint32_t first = below(random, team->n);
    for (uint32_t i = 0; i < team->n; i++) {
        ring_member *m = &team->members[team->hosts[(first + i) % team->n]];
        if (team_enter(team, epoch, 1, m) != ORR_OK)
            return false;
        run_for(team, below(random, 30));
        m = some_member(team, random);
        if (m->posted < team->n_ops && !team_post(m))
            return false;
    }
    return true;
}

static void kill_one(ring_team *team, orr_random *random)
{
    const uint32_t i = below(random, team->n);
    orr_simnet_kill(team->world, team->members[team->hosts[i]].host, below(random, 2) == 0);
    team->n--;
    for (uint32_t k = i; k < team->n; k++)
        team->hosts[k] = team->hosts[k + 1];
}

static bool trouble(ring_team *team, orr_random *random)
{
    static const double factors[] = {1, 3, 20};
    switch (below(random, 6)) {
    case 0:
        if (team->n > 1)
            kill_one(team, random);
        return true;
    case 1:
        orr_simnet_reset(team->world, some_member(team, random)->host,
                         some_member(team, random)->host);
        return true;
    case 2:
        orr_simnet_corrupt(team->world, some_member(team, random)->host,
                           some_member(team, random)->host);
        return true;
    case 3:
        orr_ring_leave(some_member(team, random)->ring);
        return true;
    case 4:
        orr_simnet_slow(team->world, some_member(team, random)->host, factors[below(random, 3)]);
        return true;
    default:
        return true;
    }
}

static bool any_broken(const ring_team *team)
{
    for (uint32_t i = 0; i < team->n; i++)
        if (team->members[team->hosts[i]].broken > 0)
            return true;
    return false;
}

/* Posts what is left. What was corrupted only now breaks the attempt once more. */
static bool finish(ring_team *team, orr_random *random, uint64_t epoch)
{
    for (uint32_t i = 0; i < team->n * team->n_ops; i++) {
        ring_member *m = &team->members[team->hosts[i % team->n]];
        if (m->posted < team->n_ops && !team_post(m))
            return false;
        run_for(team, below(random, 60));
    }
    team_run(team);
    for (uint32_t again = 0; any_broken(team) && again < 3; again++) {
        if (!form_all(team, random, ++epoch))
            return false;
        team_run(team);
    }
    return true;
}

static const char *one(ring_team *team, uint64_t seed, orr_random *random)
{
    team_op ops[TEAM_OPS];
    const uint32_t n_ops = some_ops(random, ops), epochs = 1 + below(random, 4);
    if (!team_ops(team, seed, ops, n_ops))
        return "no memory";
    for (uint32_t i = 0; i < team->n; i++)
        orr_ring_step(team->members[i].ring, 1);
    for (uint32_t epoch = 1; epoch <= epochs; epoch++) {
        if (epoch > 1 && !trouble(team, random))
            return "no trouble";
        run_for(team, below(random, 40));
        if (!form_all(team, random, epoch))
            return "not formed";
        for (uint32_t i = 0; epoch < epochs && i < below(random, 40); i++) {
            ring_member *m = some_member(team, random);
            if (m->posted < team->n_ops && !team_post(m))
                return "not posted";
            run_for(team, below(random, 60));
        }
    }
    return finish(team, random, epochs) ? team_wrong(team, seed) : "not posted, or not formed";
}

static void sums_are_right_whatever_happens(void **state)
{
    (void)state;
    const seed_range range = seeds(4000);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 1);
        ring_team team;
        const orr_ring_options options = some_options(&random);
        if (!team_new(&team, seed, 1 + below(&random, 7), &options))
            seed_fail(seed, "no team");
        const char *wrong = one(&team, seed, &random);
        if (wrong != NULL)
            seed_fail(seed, "%s", wrong);
        team_free(&team);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_right_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
