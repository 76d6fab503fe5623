/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/hit_rate.h>

#include "base/alloc.h"
#include "model/tables/popularity.h"
#include "../support/seeds.h"

/* Hit rates in closed form against caches of a few hundred rows that are simulated row by row: the
 * policy is followed to the letter, with rows that batches need pinned. */

enum { MOST_ROWS = 3000, LOOKUPS = 160000, WARM = 60000 };

typedef struct trial {
    uint64_t seed;
    orr_popularity popularity;
    orr_hit_terms terms;
    uint32_t slots;
    double hit_frac;
    int64_t *ids; /* shape (LOOKUPS) */
} trial;

static void draw_lookups(trial *t)
{
    static orr_row_sampler sampler;
    orr_random random = orr_random_of(t->seed, 1);
    orr_row_sampler_init(&t->popularity, &sampler);
    for (int64_t i = 0; i < LOOKUPS; i++) {
        const uint64_t window = (uint64_t)t->terms.repeated_window,
                       most = (uint64_t)i < window ? (uint64_t)i : window;
        const double drawn = (double)orr_random_below(&random, 1 << 30) / (1 << 30);
        if (most > 0 && drawn < t->terms.repeated_frac) {
            t->ids[i] = t->ids[(uint64_t)i - 1 - orr_random_below(&random, most)];
            continue;
        }
        const uint32_t bits = (uint32_t)orr_random_below(&random, UINT64_C(1) << 32);
        t->ids[i] =
            orr_row_sampler_row(&sampler, bits, orr_random_below(&random, UINT64_C(1) << 63) << 1);
    }
}

/* A cache of slots: which row each has, and what eviction goes by. */
typedef struct cache {
    int32_t slot[MOST_ROWS], row[MOST_ROWS];
    int64_t pinned[MOST_ROWS], used[MOST_ROWS], count[MOST_ROWS]; /* of rows */
    uint32_t n, slots;
} cache;

static int32_t victim(const cache *c, bool by_use, int64_t now)
{
    int32_t worst = -1;
    for (int32_t s = 0; s < (int32_t)c->n; s++) {
        const int32_t row = c->row[s];
        if (c->pinned[row] >= now)
            continue;
        if (worst < 0 || (by_use ? c->used[row] < c->used[c->row[worst]]
                                 : c->count[row] < c->count[c->row[worst]]))
            worst = s;
    }
    return worst;
}

static void simulate(trial *t)
{
    static cache c;
    const bool by_use = t->terms.policy == ORR_HIT_LRU;
    const int64_t batch = t->terms.batch > 0 && !by_use ? (int64_t)t->terms.batch : 1;
    const int64_t window = by_use ? 0 : (int64_t)t->terms.window;
    int64_t hits = 0;
    memset(&c, 0, sizeof c);
    memset(c.slot, -1, sizeof c.slot);
    memset(c.pinned, -1, sizeof c.pinned);
    for (int64_t i = 0; i < LOOKUPS; i++) {
        const int64_t row = t->ids[i], now = i / batch;
        c.count[row]++;
        c.used[row] = i;
        if (c.slot[row] >= 0) {
            hits += i >= WARM;
        } else {
            const int32_t s = c.n < t->slots ? (int32_t)c.n++ : victim(&c, by_use, now);
            if (s < 0)
                seed_fail(t->seed, "%u slots are too few for batches of %lld", t->slots,
                          (long long)batch);
            if (c.slot[c.row[s]] == s)
                c.slot[c.row[s]] = -1;
            c.row[s] = (int32_t)row;
            c.slot[row] = s;
        }
        c.pinned[row] = now + window;
    }
    t->hit_frac = (double)hits / (LOOKUPS - WARM);
}

static trial trial_of(uint64_t seed, orr_hit_policy policy)
{
    orr_random random = orr_random_of(seed, 0);
    trial t = {.seed = seed};
    const orr_popularity_kind kind =
        (orr_popularity_kind)orr_random_below(&random, ORR_POPULARITIES);
    t.popularity = orr_popularity_of(kind, 500 + (int64_t)orr_random_below(&random, 2500));
    t.terms.policy = (uint8_t)policy;
    t.slots = (uint32_t)(100 + orr_random_below(&random, (uint64_t)t.popularity.rows - 100));
    if (policy == ORR_HIT_LOOKAHEAD) {
        t.terms.window = (double)orr_random_below(&random, 4);
        t.terms.batch =
            floor(1 + (double)orr_random_below(&random, 60) * t.slots / 100 / (t.terms.window + 1));
    }
    return t;
}

static void check_simulated(uint64_t count, orr_hit_policy policy, double repeated_frac,
                            double tolerance)
{
    const seed_range range = seeds(count);
    int64_t *ids = orr_calloc(LOOKUPS, sizeof *ids);
    assert_non_null(ids);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        trial t = trial_of(seed, policy);
        t.ids = ids;
        t.terms.repeated_frac = repeated_frac;
        t.terms.repeated_window = repeated_frac > 0 ? 50 : 0;
        draw_lookups(&t);
        simulate(&t);
        const double told = orr_hit_rate(&t.popularity, &t.terms, t.slots);
        if (fabs(told - t.hit_frac) > tolerance)
            seed_fail(seed, "%s, %u of %lld rows, batches of %g and %g more: %.4f, simulated %.4f",
                      orr_hit_policy_name(policy), t.slots, (long long)t.popularity.rows,
                      t.terms.batch, t.terms.window, told, t.hit_frac);
    }
    orr_free(ids);
}

static void lru_is_as_simulated(void **state)
{
    (void)state;
    check_simulated(40, ORR_HIT_LRU, 0, 0.01);
    check_simulated(20, ORR_HIT_LRU, 0.3, 0.01);
}

/* The simulated policy knows counts, not the popularity. */
static void lookahead_is_as_simulated(void **state)
{
    (void)state;
    check_simulated(60, ORR_HIT_LOOKAHEAD, 0, 0.01);
}

/* --- what holds for all ---------------------------------------------------------------------- */

static orr_hit_terms drawn_terms(orr_random *random, orr_hit_policy policy, int64_t rows)
{
    orr_hit_terms t = {.policy = (uint8_t)policy};
    if (orr_random_below(random, 2) == 0)
        t.batch = 1 + (double)orr_random_below(random, (uint64_t)rows);
    t.window = (double)orr_random_below(random, 5);
    if (orr_random_below(random, 2) == 0)
        t.history = 1 + (double)orr_random_below(random, 20 * (uint64_t)rows);
    if (orr_random_below(random, 3) == 0) {
        t.repeated_frac = 0.9 * (double)orr_random_below(random, 100) / 100;
        t.repeated_window = 1 + (double)orr_random_below(random, 10000);
    }
    return t;
}

static void check_shape(uint64_t seed, const orr_popularity *p, const orr_hit_terms *t)
{
    orr_hit_curve curve;
    double before = 0;
    orr_hit_curve_of(p, t, &curve);
    if (orr_hit_rate(p, t, 0) != 0 || orr_hit_rate(p, t, (double)p->rows) != 1 ||
        curve.rows[0] != 0 || curve.hit_frac[0] != 0 || curve.hit_frac[curve.n - 1] != 1 ||
        curve.rows[curve.n - 1] != (double)p->rows)
        seed_fail(seed, "%s: not from 0 to 1", orr_hit_policy_name(t->policy));
    for (int i = 1; i <= 64; i++) {
        const double rows = (double)p->rows * pow((double)i / 64, 3);
        const double hit = orr_hit_rate(p, t, rows), drawn = orr_hit_curve_at(&curve, rows);
        if (!(hit >= before - 1e-9 && hit <= 1))
            seed_fail(seed, "%s: %.9f at %.0f rows after %.9f", orr_hit_policy_name(t->policy), hit,
                      rows, before);
        /* Where lookups are repeated, rates have a bend. */
        if (fabs(hit - drawn) > (t->repeated_frac > 0 ? 0.04 : 0.015))
            seed_fail(seed, "%s: the curve has %.4f for %.4f at %.0f of %lld rows",
                      orr_hit_policy_name(t->policy), drawn, hit, rows, (long long)p->rows);
        if (t->policy == ORR_HIT_LRU && t->repeated_frac == 0 &&
            hit > orr_popularity_hit_rate(p, (int64_t)ceil(rows)) + 1e-6)
            seed_fail(seed, "LRU is above the static optimum");
        if (t->policy == ORR_HIT_STATIC &&
            fabs(hit - orr_popularity_hit_rate(p, (int64_t)rows)) > 1e-3 + 1.0 / rows)
            seed_fail(seed, "static is not the share of the first rows");
        before = hit;
    }
}

static void rates_ascend_from_0_to_1(void **state)
{
    (void)state;
    const seed_range range = seeds(150);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 7);
        const orr_popularity_kind kind =
            (orr_popularity_kind)orr_random_below(&random, ORR_POPULARITIES);
        const int64_t rows = 64 + (int64_t)orr_random_below(
                                     &random, UINT64_C(1) << (2 + orr_random_below(&random, 26)));
        const orr_popularity p = orr_popularity_of(kind, rows);
        for (int policy = 0; policy < ORR_HIT_POLICIES; policy++) {
            const orr_hit_terms t = drawn_terms(&random, (orr_hit_policy)policy, rows);
            check_shape(seed, &p, &t);
        }
    }
}

/* --- traces ---------------------------------------------------------------------------------- */

/* A curve that was counted is that of the popularity that the lookups were drawn from. */
static void a_trace_has_the_curve_of_its_popularity(void **state)
{
    (void)state;
    int64_t *ids = orr_calloc(LOOKUPS, sizeof *ids);
    const seed_range range = seeds(20);
    assert_non_null(ids);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (int policy = 0; policy < ORR_HIT_POLICIES; policy++) {
            trial t = trial_of(seed, (orr_hit_policy)policy);
            orr_hit_curve counted, known;
            orr_error err = {0};
            t.ids = ids;
            draw_lookups(&t);
            if (orr_hit_curve_of_trace(ids, LOOKUPS, t.popularity.rows, &t.terms, &counted, &err) !=
                ORR_OK)
                seed_fail(seed, "%s", err.text);
            orr_hit_curve_of(&t.popularity, &t.terms, &known);
            for (int i = 1; i <= 32; i++) {
                const double rows = (double)t.popularity.rows * i / 32;
                const double a = orr_hit_curve_at(&counted, rows),
                             b = orr_hit_curve_at(&known, rows);
                if (fabs(a - b) > 0.025)
                    seed_fail(seed, "%s: %.4f counted, %.4f known at %.0f of %lld rows",
                              orr_hit_policy_name(t.terms.policy), a, b, rows,
                              (long long)t.popularity.rows);
            }
        }
    orr_free(ids);
}

/* Every reuse distance of a short list by hand. */
static void distances_of_a_trace_are_counted(void **state)
{
    (void)state;
    static const int64_t ids[] = {3, 1, 3, 2, 1, 3, 3, 0};
    const orr_hit_terms lru = {.policy = ORR_HIT_LRU};
    orr_hit_curve curve;
    orr_error err = {0};
    assert_int_equal(orr_hit_curve_of_trace(ids, 8, 4, &lru, &curve, &err), ORR_OK);
    assert_true(orr_hit_curve_at(&curve, 1) == 1 / 8.0); /* 3 3 */
    assert_true(orr_hit_curve_at(&curve, 2) == 2 / 8.0); /* 3 1 3 */
    assert_true(orr_hit_curve_at(&curve, 3) == 4 / 8.0); /* 1 3 2 1, 3 2 1 3 */
    assert_true(orr_hit_curve_at(&curve, 4) == 1);
    static const int64_t wrong[] = {0, 4};
    assert_int_equal(orr_hit_curve_of_trace(wrong, 2, 4, &lru, &curve, &err), ORR_INVALID);
    assert_string_equal(err.text, "lookup 1: id 4 of 4 rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lru_is_as_simulated),
        cmocka_unit_test(lookahead_is_as_simulated),
        cmocka_unit_test(rates_ascend_from_0_to_1),
        cmocka_unit_test(a_trace_has_the_curve_of_its_popularity),
        cmocka_unit_test(distances_of_a_trace_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
