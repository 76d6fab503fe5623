/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>

#include <cmocka.h>

#include "experts/policy/keys.h"
#include "experts/policy/wrap_around.h"

/* Experts cut by the wrap-around rule: every placement is valid, and full ranks are had where cuts
 * are enough or experts of many loads close them. */

enum { EXPERTS = 256, RANKS = 160, SLOTS = 320 };

typedef struct packed {
    uint32_t ranks, n;
    uint32_t first[RANKS + 1], used[RANKS];
    double load[RANKS], part[SLOTS];
    uint16_t expert[SLOTS];
    double weight[EXPERTS], size[EXPERTS], sum;
    uint64_t key[EXPERTS], spare[EXPERTS], turn[EXPERTS];
    double most;
} packed;

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*state >> 33);
}

/* Packs the weights of p over ranks with so many slots, up to `limit` times their mean. */
static void pack(packed *p, const uint32_t *slots, double limit)
{
    uint32_t live = 0;
    p->first[0] = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        p->first[r + 1] = p->first[r] + slots[r];
        live += slots[r] > 0;
    }
    p->sum = 0;
    for (uint32_t e = 0; e < p->n; e++) {
        p->key[e] = orr_key_descending((float)p->weight[e], e);
        p->sum += p->weight[e];
    }
    orr_wrap_experts experts = {.size = p->size, .turn = p->turn};
    orr_packing packing = {p->ranks, p->first, p->used, p->load, p->expert, p->part};
    orr_wrap_experts_set(&experts, p->weight, orr_key_sort(p->key, p->spare, p->n), p->n);
    p->most =
        orr_packing_wrap(&packing, (orr_rank_range){0, p->ranks}, &experts, limit * p->sum / live);
}

/* Every expert has its load, no rank an expert twice or more slots than it has. */
static void check(const packed *p)
{
    double got[EXPERTS] = {0}, most = 0;
    bool placed[EXPERTS] = {false};
    for (uint32_t r = 0; r < p->ranks; r++) {
        double load = 0;
        assert_true(p->used[r] <= p->first[r + 1] - p->first[r]);
        for (uint32_t s = p->first[r]; s < p->first[r] + p->used[r]; s++) {
            assert_true(p->part[s] >= 0);
            for (uint32_t other = p->first[r]; other < s; other++)
                assert_true(p->expert[other] != p->expert[s]);
            got[p->expert[s]] += p->part[s];
            placed[p->expert[s]] = true;
            load += p->part[s];
        }
        assert_true(fabs(load - p->load[r]) <= 1e-9 * (1 + p->sum));
        most = fmax(most, load);
    }
    assert_true(fabs(most - p->most) <= 1e-9 * (1 + p->sum));
    for (uint32_t e = 0; e < p->n; e++)
        assert_true(placed[e] && fabs(got[e] - p->weight[e]) <= 1e-9 * (1 + p->sum));
}

static void placements_are_valid(void **state)
{
    (void)state;
    static packed p;
    uint64_t random = 7;
    uint32_t fit = 0;
    for (int trial = 0; trial < 20000; trial++) {
        uint32_t slots[8], sum = 0;
        const uint32_t kind = next(&random) % 4;
        p.ranks = 1 + next(&random) % 8;
        p.n = 1 + next(&random) % 24;
        for (uint32_t r = 0; r < p.ranks; r++)
            sum += slots[r] = next(&random) % 5;
        for (; sum < p.n; sum++)
            slots[next(&random) % p.ranks]++;
        for (uint32_t e = 0; e < p.n; e++)
            p.weight[e] = kind == 0   ? (double)(next(&random) % 5)
                          : kind == 1 ? (double)(1 + next(&random) % 1000)
                          : kind == 2 ? exp((double)(next(&random) % 1000) / 200)
                                      : (double)(next(&random) % 3 == 0);
        p.weight[0] += 1;
        pack(&p, slots, 1 + (double)(next(&random) % 50) / 100);
        check(&p);
        fit += p.most <= 1.5 * p.sum / p.ranks;
    }
    assert_true(fit > 10000);
}

/* 256 experts of uniform loads, 64 copies: 6 % above the mean by equal copies. */
static void few_copies_level_uniform_loads(void **state)
{
    (void)state;
    static packed p;
    uint32_t slots[RANKS];
    uint64_t random = 3;
    p.ranks = RANKS;
    p.n = EXPERTS;
    for (uint32_t r = 0; r < RANKS; r++)
        slots[r] = SLOTS / RANKS;
    for (int trial = 0; trial < 20; trial++) {
        for (uint32_t e = 0; e < EXPERTS; e++)
            p.weight[e] = (double)(next(&random) % 10000);
        pack(&p, slots, 1.01);
        check(&p);
        assert_true(p.most <= 1.01 * p.sum / RANKS * (1 + 1e-9));
    }
}

/* An expert of three ranks' load is cut into parts that leave room for the small ones. */
static void a_large_expert_has_the_small_ones_beside_it(void **state)
{
    (void)state;
    static packed p = {.ranks = 4, .n = 5, .weight = {3, 0.25, 0.25, 0.25, 0.25}};
    static const uint32_t slots[] = {2, 2, 2, 2};
    pack(&p, slots, 1);
    check(&p);
    assert_true(fabs(p.most - 1) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placements_are_valid),
        cmocka_unit_test(few_copies_level_uniform_loads),
        cmocka_unit_test(a_large_expert_has_the_small_ones_beside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
