/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "cost/collective/collective.h"

/* HIERARCHICAL in pieces, carried out piece by piece, against the closed form. */

enum { PIECES = 24, TURNS = 2 * ORR_LEVELS_MAX };

typedef struct turn {
    uint32_t level;
    double ns;
} turn;

/* Phases of one piece as they follow one another: in, across, out again. */
static uint32_t turns_of(const orr_network *network, const orr_coll_schedule *schedule,
                         turn turns[TURNS])
{
    const uint32_t levels = schedule->n / 2 + 1;
    assert_int_equal(schedule->n % 2, 1);
    for (uint32_t i = 0; i < schedule->n; i++) {
        const uint32_t phase = i < levels - 1    ? 2 * i
                               : i == levels - 1 ? schedule->n - 1
                                                 : 2 * (schedule->n - 1 - i) + 1;
        const orr_coll_phase *at = &schedule->phases[phase];
        uint32_t level = 0;
        while (at->steps[level] == 0)
            level++;
        turns[i] = (turn){level, orr_coll_phase_ns(network, at, NULL)};
    }
    return schedule->n;
}

/* What can begin first is next; of several, the piece that began before the others. */
static double carried_out(const turn *turns, uint32_t n_turns, uint32_t pieces)
{
    uint32_t at[PIECES] = {0};
    double ready_ns[PIECES] = {0}, free_ns[ORR_LEVELS_MAX] = {0}, end_ns = 0;
    for (uint32_t done = 0; done < n_turns * pieces; done++) {
        uint32_t next = pieces;
        double begin_ns = INFINITY;
        for (uint32_t i = 0; i < pieces; i++) {
            if (at[i] == n_turns)
                continue;
            const double ns = fmax(ready_ns[i], free_ns[turns[at[i]].level]);
            if (ns < begin_ns) {
                begin_ns = ns;
                next = i;
            }
        }
        const turn *now = &turns[at[next]++];
        end_ns = fmax(end_ns, begin_ns + now->ns);
        ready_ns[next] = free_ns[now->level] = begin_ns + now->ns;
    }
    return end_ns;
}

static orr_network random_network(orr_random *random, orr_span *span)
{
    orr_network network = {.n_levels = 2 + (uint32_t)orr_random_below(random, 2)};
    *span = (orr_span){
        .n_ranks = 1, .n_levels = network.n_levels, .top = network.n_levels - 1, .even = true};
    for (uint32_t k = 0; k < network.n_levels; k++) {
        network.oversubscription[k] = 1 + 7 * orr_random_unit(random);
        for (int p = 0; p < ORR_PROTOCOLS; p++) {
            network.levels[k].base_ns[p] = 1e5 * orr_random_unit(random);
            network.levels[k].alpha_ns[p] = pow(10, 3 + 4 * orr_random_unit(random));
            network.levels[k].bytes_per_s[p] = pow(10, 9 + 3 * orr_random_unit(random));
        }
        span->width[k] = 2 + (uint32_t)orr_random_below(random, 15);
        network.size[k] = span->width[k];
        span->n_ranks *= span->width[k];
    }
    return network;
}

static void piece_by_piece(void **state)
{
    (void)state;
    double worst = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        orr_random random = orr_random_of(7, seed);
        orr_span span;
        orr_network network = random_network(&random, &span);
        orr_coll_schedule schedule;
        turn turns[TURNS];
        network.chunks = 1 + (uint32_t)orr_random_below(&random, PIECES);
        const double bytes = pow(10, 3 + 7 * orr_random_unit(&random));
        assert_true(orr_coll_schedule_of(&network, &span, ORR_COLL_ALL_REDUCE,
                                         ORR_ALGORITHM_HIERARCHICAL, bytes, &schedule));
        assert_int_equal(schedule.pieces, network.chunks);
        const uint32_t n = turns_of(&network, &schedule, turns);
        const double want = carried_out(turns, n, network.chunks),
                     got = orr_coll_schedule_ns(&network, &schedule);
        double piece_ns = 0, busy_ns[ORR_LEVELS_MAX] = {0}, busiest_ns = 0;
        for (uint32_t i = 0; i < n; i++) {
            piece_ns += turns[i].ns;
            busiest_ns = fmax(busiest_ns, busy_ns[turns[i].level] += turns[i].ns);
        }
        assert_true(got >= want * (1 - 1e-9));
        assert_true(got - want <= piece_ns - busiest_ns + 1e-9 * want);
        worst = fmax(worst, got / want);
        if (network.chunks == 1)
            assert_true(fabs(got / want - 1) < 1e-9);
    }
    assert_true(worst < 1.3); /* 1.27 of these */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(piece_by_piece)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
