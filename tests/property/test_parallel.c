/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "model/plan/groups.h"
#include "model/plan/axis_layout.h"
#include "model/plan/plan.h"
#include "support/seeds.h"

/* Ranks of random plans in any order on random clusters, against what the words of ORR_AXIS_MAP say
 * of two ranks:
 *
 *   - a rank and its coordinates are inverse;
 *   - two ranks are in one group exactly if a naive reading of the axis says so, and the members of
 *     a rank are that group, in order;
 *   - the span told from strides is that of the listed ranks. */
enum { SEEDS = 600, SPAN_SEEDS = 4000, MOST_RANKS = 600 };

typedef struct scene {
    uint64_t seed;
    orr_random random;
    orr_plan plan;
    uint32_t n_ranks;
    char text[200];
} scene;

static uint32_t between(scene *c, uint32_t least, uint32_t most)
{
    return least + (uint32_t)orr_random_below(&c->random, most - least + 1);
}

static uint32_t divisor_of(scene *c, uint32_t n)
{
    uint32_t d = between(c, 1, n);
    while (n % d != 0)
        d--;
    return d;
}

static void shuffle(scene *c, uint8_t *order)
{
    for (uint8_t i = 0; i < ORR_BASE_AXES; i++)
        order[i] = (uint8_t)(i + 1);
    for (uint32_t i = ORR_BASE_AXES - 1; i > 0; i--) {
        const uint32_t k = between(c, 0, i);
        const uint8_t axis = order[i];
        order[i] = order[k];
        order[k] = axis;
    }
}

static void begin(scene *c, uint64_t seed, uint32_t most)
{
    *c = (scene){.seed = seed, .random = orr_random_of(seed, 0)};
    orr_plan *p = &c->plan;
    *p = (orr_plan){.tp = between(c, 1, 4), .cp = between(c, 1, 3), .pp = between(c, 1, 4)};
    p->dp = between(c, 1, most / (p->tp * p->cp * p->pp));
    if (between(c, 0, 1) == 0) { /* powers of two, as most plans are */
        p->tp = 1U << between(c, 0, 3);
        p->cp = 1U << between(c, 0, 2);
        p->pp = 1U << between(c, 0, 3);
        p->dp = 1U << between(c, 0, 1);
    }
    p->dp_outer = between(c, 0, 2) == 0 ? divisor_of(c, p->dp) : 0;
    p->local_steps = p->dp_outer > 1 && between(c, 0, 1) ? 7 : 0;
    const uint32_t together = p->local_steps > 1 ? p->dp / p->dp_outer : p->dp;
    const uint32_t of_a_stage = p->tp * p->cp * together;
    p->ep = divisor_of(c, of_a_stage);
    p->etp = divisor_of(c, of_a_stage / p->ep);
    if (between(c, 0, 1) == 0) {
        p->zero = between(c, 1, 3);
        p->shards = between(c, 0, 1) ? divisor_of(c, p->cp * together) : 0;
    }
    if (between(c, 0, 3) > 0)
        shuffle(c, p->order);
    c->n_ranks = (uint32_t)orr_plan_ranks(p);
    orr_arena *arena = orr_arena_new(0, 0);
    snprintf(c->text, sizeof c->text, "%s", orr_plan_text(p, arena));
    orr_arena_free(arena);
}

static uint32_t inner_of(const scene *c)
{
    return c->plan.dp_outer > 1 ? c->plan.dp / c->plan.dp_outer : c->plan.dp;
}

static uint32_t part_of(const scene *c, uint32_t rank)
{
    return orr_plan_coordinates(&c->plan, rank).at[ORR_AXIS_DP] / inner_of(c);
}

/* A rank's number among those of its stage, and among those that differ from it in cp and dp. Outer
 * parts of dp come one after the other; with local steps each is a job of its own. */
static uint32_t number_within(const scene *c, uint32_t rank, bool of_gradient)
{
    const orr_coordinates at = orr_plan_coordinates(&c->plan, rank);
    const uint32_t degree[ORR_BASE_AXES] = {[ORR_AXIS_TP] = c->plan.tp,
                                            [ORR_AXIS_CP] = c->plan.cp,
                                            [ORR_AXIS_DP] = inner_of(c),
                                            [ORR_AXIS_PP] = c->plan.pp};
    uint32_t number = 0, scale = 1;
    for (uint32_t i = 0; i < ORR_BASE_AXES; i++) {
        const uint32_t axis = c->plan.order[0] ? c->plan.order[i] - 1U : i;
        if (axis == ORR_AXIS_PP || (of_gradient && axis == ORR_AXIS_TP))
            continue;
        number += at.at[axis] % degree[axis] * scale;
        scale *= degree[axis];
    }
    return number + (c->plan.local_steps > 1 ? 0 : part_of(c, rank) * scale);
}

static bool differ_only(const scene *c, uint32_t a, uint32_t b, uint32_t mask)
{
    const orr_coordinates x = orr_plan_coordinates(&c->plan, a),
                          y = orr_plan_coordinates(&c->plan, b);
    for (uint32_t axis = 0; axis < ORR_BASE_AXES; axis++)
        if (!(mask >> axis & 1) && x.at[axis] != y.at[axis])
            return false;
    return true;
}

/* Do two ranks belong together? */
static bool together(const scene *c, orr_axis axis, uint32_t a, uint32_t b)
{
    const orr_plan *p = &c->plan;
    const uint32_t pipeline = 1U << ORR_AXIS_PP;
    const uint32_t i = number_within(c, a, false), j = number_within(c, b, false);
    const uint32_t g = number_within(c, a, true), h = number_within(c, b, true);
    const bool local = p->local_steps > 1;
    const uint32_t shards = p->zero == 0 ? 1
                            : p->shards  ? p->shards
                                         : p->cp * (local ? inner_of(c) : p->dp);
    const bool one_job = !local || part_of(c, a) == part_of(c, b);
    const bool same_stage = one_job && differ_only(c, a, b, ~pipeline);
    const bool gradient = one_job && differ_only(c, a, b, 1U << ORR_AXIS_CP | 1U << ORR_AXIS_DP);
    switch (axis) {
    case ORR_AXIS_ETP:
        return same_stage && i / p->etp == j / p->etp;
    case ORR_AXIS_EP:
        return same_stage && i % p->etp == j % p->etp && i / p->etp / p->ep == j / p->etp / p->ep;
    case ORR_AXIS_EDP:
        return same_stage && i % (p->etp * p->ep) == j % (p->etp * p->ep);
    case ORR_AXIS_GRADIENT:
        return gradient;
    case ORR_AXIS_SHARD:
        return gradient && g / shards == h / shards;
    case ORR_AXIS_REPLICA:
        return gradient && g % shards == h % shards;
    case ORR_AXIS_TIED:
        return differ_only(c, a, b, pipeline);
    case ORR_AXIS_OUTER: {
        const uint32_t d = orr_plan_coordinates(p, a).at[ORR_AXIS_DP],
                       e = orr_plan_coordinates(p, b).at[ORR_AXIS_DP];
        return a == b || (local && differ_only(c, a, b, 1U << ORR_AXIS_DP) &&
                          d % inner_of(c) == e % inner_of(c));
    }
    default:
        return differ_only(c, a, b, 1U << axis);
    }
}

static bool is_tied(const scene *c, uint32_t rank)
{
    const uint32_t stage = orr_plan_coordinates(&c->plan, rank).at[ORR_AXIS_PP];
    return stage == 0 || stage == c->plan.pp - 1;
}

static void check_group(const scene *c, orr_axis axis, const orr_grouping *g, uint32_t rank)
{
    uint32_t members[MOST_RANKS], n = 0;
    if (axis == ORR_AXIS_TIED && !is_tied(c, rank)) {
        assert_int_equal(g->group_of[rank], ORR_NONE);
        return;
    }
    orr_plan_members_of(&c->plan, axis, rank, members);
    for (uint32_t other = 0; other < c->n_ranks; other++) {
        const bool same =
            (axis != ORR_AXIS_TIED || is_tied(c, other)) && together(c, axis, rank, other);
        if (same != (g->group_of[rank] == g->group_of[other]))
            seed_fail(c->seed, "%s, %s: are %u and %u together?", c->text, orr_axis_name(axis),
                      rank, other);
        if (same && (n >= orr_plan_group_size(&c->plan, axis) || members[n++] != other))
            seed_fail(c->seed, "%s, %s: member %u of %u is not %u", c->text, orr_axis_name(axis),
                      n - 1, rank, other);
    }
    assert_int_equal(n, orr_plan_group_size(&c->plan, axis));
}

static void groups_are_what_the_axes_say(void **state)
{
    (void)state;
    const seed_range range = seeds(SEEDS);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c;
        begin(&c, seed, 100);
        orr_arena *arena = orr_arena_new(0, 0);
        for (uint32_t rank = 0; rank < c.n_ranks; rank++) {
            const orr_coordinates at = orr_plan_coordinates(&c.plan, rank);
            assert_int_equal(orr_plan_rank_at(&c.plan, &at), rank);
        }
        for (orr_axis axis = 0; axis < ORR_AXES; axis++) {
            orr_grouping g;
            assert_int_equal(orr_plan_grouping(&c.plan, axis, arena, &g, NULL), ORR_OK);
            assert_int_equal(g.n_groups > 0 ? g.first[g.n_groups] % g.n_groups : 0, 0);
            for (uint32_t i = 0; i < 5; i++)
                check_group(&c, axis, &g, between(&c, 0, c.n_ranks - 1));
        }
        orr_arena_free(arena);
    }
}

static void begin_cluster(scene *c, orr_level *levels, orr_cluster *ret)
{
    static const uint32_t hosts[] = {1, 2, 4, 8, 8, 8, 6, 16, 72};
    *ret = (orr_cluster){.name = "toy", .levels = levels, .n_devices = 1};
    while (ret->n_levels < 4 && (ret->n_devices < c->n_ranks || ret->n_levels == 0)) {
        orr_level *level = &levels[ret->n_levels++];
        level->size = ret->n_levels == 1 ? hosts[between(c, 0, 8)] : between(c, 1, 5);
        if (ret->n_levels > 1 && between(c, 0, 1))
            level->size = 1U << between(c, 0, 4);
        if (ret->n_levels == 4)
            level->size = c->n_ranks / ret->n_devices + 1;
        level->devices = ret->n_devices *= level->size;
    }
}

static void spans_are_those_of_the_listed_ranks(void **state)
{
    (void)state;
    const seed_range range = seeds(SPAN_SEEDS);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c;
        orr_level levels[4] = {0};
        orr_cluster cluster;
        begin(&c, seed, MOST_RANKS);
        begin_cluster(&c, levels, &cluster);
        for (orr_axis axis = 0; axis < ORR_AXES; axis++) {
            uint32_t ranks[MOST_RANKS];
            orr_span told = {0}, listed = {0};
            orr_plan_members_of(&c.plan, axis, 0, ranks);
            assert_int_equal(orr_cluster_span(&cluster, ranks, orr_plan_group_size(&c.plan, axis),
                                              &listed, NULL),
                             ORR_OK);
            assert_int_equal(orr_plan_span(&c.plan, axis, &cluster, &told, NULL), ORR_OK);
            bool same = told.n_ranks == listed.n_ranks && told.n_levels == listed.n_levels &&
                        told.top == listed.top && told.even == listed.even;
            for (uint32_t i = 0; i < listed.n_levels; i++)
                same &= told.width[i] == listed.width[i];
            if (!same)
                seed_fail(seed, "%s, %s: top %u, even %d; listed: top %u, even %d", c.text,
                          orr_axis_name(axis), told.top, told.even, listed.top, listed.even);
        }
    }
}

/* Uneven sites of hosts, where replicas or stages cross. */
static bool begin_sites(scene *c, orr_level *levels, uint32_t *ends, orr_site *sites,
                        orr_cluster *ret)
{
    orr_plan *p = &c->plan;
    const bool stages = between(c, 0, 1);
    const uint32_t n = between(c, 2, 4);
    p->cross = stages ? ORR_CROSS_PP : ORR_CROSS_DP;
    p->micro_batches = p->pp;
    memset(p->order, 0, sizeof p->order);
    uint32_t left = orr_plan_site_units(p), end = 0, most = 0;
    const uint32_t ranks = c->n_ranks / left;
    const uint32_t host = between(c, 0, 1) ? divisor_of(c, ranks) : between(c, 1, 8);
    if (left < n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        p->sites[i] = (uint16_t)(i + 1 == n ? left : between(c, 1, left - (n - 1 - i)));
        left -= p->sites[i];
        sites[i] = (orr_site){.name = "", .region = "", .devices = p->sites[i] * ranks};
        most = sites[i].devices > most ? sites[i].devices : most;
        ends[i] = end += sites[i].devices;
    }
    const uint32_t of_host = host < most ? host : most;
    levels[0] = (orr_level){.size = of_host, .devices = of_host};
    levels[1] =
        (orr_level){.size = (most - 1) / levels[0].devices + 1, .devices = most, .ends = ends};
    levels[2] = (orr_level){.size = n, .devices = end};
    *ret = (orr_cluster){.name = "toy",
                         .levels = levels,
                         .n_levels = 3,
                         .n_devices = end,
                         .n_sites = n,
                         .site_level = 1,
                         .sites = sites};
    c->plan = orr_plan_with_defaults(p);
    return orr_plan_check(&c->plan, NULL) == ORR_OK;
}

static bool goes_farther(const orr_span *a, const orr_span *b)
{
    for (uint32_t l = 3; l-- > 0;)
        if (a->width[l] != b->width[l])
            return a->width[l] > b->width[l];
    return false;
}

static uint32_t n_on_sites;

static bool divides(uint32_t a, uint32_t b)
{
    return a % b == 0 || b % a == 0;
}

/* Some groups of experts or shards may be cut by a site where others are not, and few are looked
 * at. */
static bool is_regular(const scene *c, orr_axis axis)
{
    const orr_plan *p = &c->plan;
    const uint32_t inner = inner_of(c);
    if (axis == ORR_AXIS_EP || axis == ORR_AXIS_ETP || axis == ORR_AXIS_EDP)
        return divides(p->tp * p->cp * inner, p->ep * p->etp);
    if (axis == ORR_AXIS_SHARD || axis == ORR_AXIS_REPLICA)
        return divides(p->cp * inner, p->zero > 0 ? p->shards : 1);
    return true;
}

/* No group of an axis goes farther across sites than the one that stands for all of them; where
 * sites get whole hosts for each unit, neither do those of sites' first ranks in any way; and some
 * group goes as far as is told. Where ranks meet between sites is told by few groups. */
static void check_sites(const scene *c, const orr_cluster *cluster, orr_axis axis)
{
    const uint32_t n = orr_plan_group_size(&c->plan, axis);
    const bool whole = c->n_ranks / orr_plan_site_units(&c->plan) % cluster->levels[0].devices == 0;
    uint32_t ranks[MOST_RANKS];
    orr_span told = {0}, listed = {0};
    bool crosses = false, seen = false;
    assert_int_equal(orr_plan_span(&c->plan, axis, cluster, &told, NULL), ORR_OK);
    for (uint32_t rank = 0; rank < c->n_ranks; rank++) {
        if (axis == ORR_AXIS_TIED && !is_tied(c, rank))
            continue;
        orr_plan_members_of(&c->plan, axis, rank, ranks);
        assert_int_equal(orr_cluster_span(cluster, ranks, n, &listed, NULL), ORR_OK);
        const bool first = orr_cluster_unit(cluster, 1, rank).first == rank;
        crosses |= listed.width[2] > 1;
        seen |= !goes_farther(&listed, &told) && !goes_farther(&told, &listed) &&
                listed.even == told.even;
        if ((listed.width[2] > told.width[2] && is_regular(c, axis)) ||
            (whole && first && goes_farther(&listed, &told)))
            seed_fail(c->seed,
                      "%s, %s: rank %u goes over %u sites and %u hosts, all over %u and %u",
                      c->text, orr_axis_name(axis), rank, listed.width[2], listed.width[1],
                      told.width[2], told.width[1]);
    }
    if (!seen)
        seed_fail(c->seed, "%s, %s: no group goes over %u sites and %u hosts of %u%s", c->text,
                  orr_axis_name(axis), told.width[2], told.width[1], told.width[0],
                  told.even ? ", evenly" : "");
    if (crosses && orr_plan_axis_bases(&c->plan, axis).n == 0)
        seed_fail(c->seed, "%s, %s: no group is looked at, but some cross", c->text,
                  orr_axis_name(axis));
}

static void no_group_goes_farther(void **state)
{
    (void)state;
    const seed_range range = seeds(SEEDS);
    n_on_sites = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c;
        orr_level levels[3] = {0};
        orr_site sites[4];
        orr_cluster cluster;
        uint32_t ends[4];
        begin(&c, seed, 200);
        if (!begin_sites(&c, levels, ends, sites, &cluster))
            continue;
        n_on_sites++;
        orr_arena *arena = orr_arena_new(0, 0);
        snprintf(c.text, sizeof c.text, "%s", orr_plan_text(&c.plan, arena));
        orr_arena_free(arena);
        for (orr_axis axis = 0; axis < ORR_AXES; axis++)
            check_sites(&c, &cluster, axis);
    }
    assert_true(n_on_sites > SEEDS / 8 || getenv("ORRERY_SEED") != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_what_the_axes_say),
        cmocka_unit_test(spans_are_those_of_the_listed_ranks),
        cmocka_unit_test(no_group_goes_farther),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
