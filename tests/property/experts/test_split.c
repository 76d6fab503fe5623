/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>

#include <cmocka.h>

#include "../support/random_placements.h"
#include "../support/seeds.h"

/* Shares of copies against the optimum of their linear programme. By its duality that is the
 * largest average, over all sets of ranks, of the load that has all its copies in the set: there
 * are few enough sets to look at them all. */

typedef struct world {
    orr_arena *arena;
    orr_placement_draft draft;
    double load[DRAWN_EXPERTS];
    orr_random random;
    uint64_t seed;
} world;

/* Some slots once more on their ranks, as other balancers give them: they change nothing. */
static void double_slots(world *w)
{
    const orr_expert_placement old = w->draft.placement;
    uint32_t slots[DRAWN_RANKS] = {0}, n = 0;
    uint16_t expert[2 * DRAWN_EXPERTS * DRAWN_RANKS];
    orr_error err = {0};
    for (uint32_t r = 0; r < old.ranks; r++)
        for (uint32_t s = orr_placement_first(&old, 0, r); s < orr_placement_first(&old, 0, r + 1);
             s++)
            for (uint32_t left = 1 + (orr_random_below(&w->random, 4) == 0); left > 0; left--) {
                expert[n++] = old.expert[s];
                slots[r]++;
            }
    assert_int_equal(orr_placement_draft_new(&old, slots, false, w->arena, &w->draft, &err),
                     ORR_OK);
    memcpy(w->draft.expert, expert, n * sizeof *expert);
}

static void open_case(world *w, uint64_t seed)
{
    *w = (world){.arena = orr_arena_new(0, 0), .seed = seed, .random = orr_random_of(seed, 0)};
    orr_expert_placement like = draw_shape(&w->random);
    like.layers = 1;
    const double copies = orr_random_unit(&w->random);
    w->draft = draw_placement(&like, copies * copies, &w->random, w->arena);
    const bool skewed = orr_random_below(&w->random, 2), zeros = orr_random_below(&w->random, 2);
    for (uint32_t e = 0; e < like.experts; e++) {
        const double u = orr_random_unit(&w->random);
        w->load[e] = zeros && u < 0.3 ? 0 : skewed ? 1000 * pow(u, 8) : u;
    }
    if (seed % 4 == 0)
        double_slots(w);
}

/* The lowest load of the fullest rank. */
static double optimum(const world *w)
{
    const orr_expert_placement *p = &w->draft.placement;
    uint32_t holders[DRAWN_EXPERTS] = {0};
    double best = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (uint32_t s = orr_placement_first(p, 0, r); s < orr_placement_first(p, 0, r + 1); s++)
            holders[p->expert[s]] |= 1U << r;
    for (uint32_t set = 1; set < 1U << p->ranks; set++) {
        double sum = 0;
        for (uint32_t e = 0; e < p->experts; e++)
            sum += (holders[e] & ~set) == 0 ? w->load[e] : 0;
        best = fmax(best, sum / __builtin_popcount(set));
    }
    return best;
}

/* Splits, and returns the load of the fullest rank. */
static double split(const world *w, float *share)
{
    const orr_expert_placement *p = &w->draft.placement;
    void *room = orr_arena_alloc(w->arena, orr_experts_split_room(p), 1, 8);
    double sum[DRAWN_EXPERTS] = {0}, fullest = 0, all = 0;
    uint32_t live = 0;
    const double said = orr_experts_split(p, 0, w->load, room, share);
    for (uint32_t r = 0; r < p->ranks; r++) {
        double rank = 0;
        for (uint32_t s = orr_placement_first(p, 0, r); s < orr_placement_first(p, 0, r + 1); s++) {
            if (!(share[s] >= 0 && share[s] <= 1.000001F))
                seed_fail(w->seed, "slot %u has a share of %g", s, (double)share[s]);
            rank += w->load[p->expert[s]] * (double)share[s];
            sum[p->expert[s]] += (double)share[s];
        }
        live += orr_placement_first(p, 0, r) < orr_placement_first(p, 0, r + 1);
        fullest = fmax(fullest, rank);
        all += rank;
    }
    for (uint32_t e = 0; e < p->experts; e++)
        if (fabs(sum[e] - 1) > 1e-6)
            seed_fail(w->seed, "shares of expert %u sum to %.9g", e, sum[e]);
    const double is = all > 0 ? fullest * live / all : 1;
    if (fabs(said - is) > 2e-6 * is)
        seed_fail(w->seed, "an imbalance of %.9g is told, and it is %.9g", said, is);
    return fullest;
}

static void test_shares_are_the_linear_programmes_optimum(void **state)
{
    (void)state;
    const seed_range range = seeds(1000);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        float share[2 * DRAWN_EXPERTS * DRAWN_RANKS];
        open_case(&w, seed);
        const double is = split(&w, share), least = optimum(&w);
        if (fabs(is - least) > 2e-6 * least)
            seed_fail(seed, "the fullest rank has %.9g, and %.9g is possible", is, least);
        orr_arena_free(w.arena);
    }
}

/* The same with one more copy of an expert on a rank that has none of it. */
static bool add_copy(world *w)
{
    const orr_expert_placement old = w->draft.placement;
    const uint32_t expert = draw_from(&w->random, 0, old.experts - 1);
    const uint32_t rank = draw_from(&w->random, 0, old.ranks - 1);
    uint32_t slots[DRAWN_RANKS];
    orr_error err = {0};
    for (uint32_t r = 0; r < old.ranks; r++) {
        slots[r] =
            orr_placement_first(&old, 0, r + 1) - orr_placement_first(&old, 0, r) + (r == rank);
        for (uint32_t s = orr_placement_first(&old, 0, r); s < orr_placement_first(&old, 0, r + 1);
             s++)
            if (r == rank && old.expert[s] == expert)
                return false;
    }
    assert_int_equal(orr_placement_draft_new(&old, slots, false, w->arena, &w->draft, &err),
                     ORR_OK);
    for (uint32_t r = 0, to = 0; r < old.ranks; r++) {
        for (uint32_t s = orr_placement_first(&old, 0, r); s < orr_placement_first(&old, 0, r + 1);
             s++)
            w->draft.expert[to++] = old.expert[s];
        if (r == rank)
            w->draft.expert[to++] = (uint16_t)expert;
    }
    return true;
}

static void test_another_copy_never_makes_it_worse(void **state)
{
    (void)state;
    const seed_range range = seeds(500);
    uint32_t better = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        float share[2 * DRAWN_EXPERTS * DRAWN_RANKS];
        open_case(&w, seed);
        const double before = split(&w, share);
        if (add_copy(&w)) {
            const double after = split(&w, share);
            if (after > before * (1 + 2e-6))
                seed_fail(seed, "from %.9g to %.9g by another copy", before, after);
            better += after < before * 0.999;
        }
        orr_arena_free(w.arena);
    }
    if (range.end - range.begin > 1)
        assert_true(better > 10);
}

static void test_the_unit_of_loads_does_not_matter(void **state)
{
    (void)state;
    const seed_range range = seeds(200);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        float share[2][2 * DRAWN_EXPERTS * DRAWN_RANKS];
        open_case(&w, seed);
        split(&w, share[0]);
        for (uint32_t e = 0; e < w.draft.placement.experts; e++)
            w.load[e] *= 0x1p-40;
        split(&w, share[1]);
        if (memcmp(share[0], share[1],
                   orr_expert_placement_slots(&w.draft.placement) * sizeof **share) != 0)
            seed_fail(seed, "loads in another unit have other shares");
        orr_arena_free(w.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_are_the_linear_programmes_optimum),
        cmocka_unit_test(test_another_copy_never_makes_it_worse),
        cmocka_unit_test(test_the_unit_of_loads_does_not_matter),
    };
    return cmocka_run_group_tests_name("experts_split", tests, NULL, NULL);
}
