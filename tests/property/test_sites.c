/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "machine/catalog/sites.h"
#include "support/seeds.h"

/* Clusters of random sites, against the definition: a device is in a unit of each level, and these
 * are numbered one by one. */

enum { MOST_DEVICES = 2000 };

static orr_arena *arena;

static uint32_t below(orr_random *random, uint32_t bound)
{
    return (uint32_t)orr_random_below(random, bound);
}

static orr_fact fact(double value)
{
    return (orr_fact){.value = value, .basis = ORR_FACT_ASSUMED, .source = "a test", .note = ""};
}

static uint32_t some_inner(orr_random *random, orr_level *levels)
{
    const uint32_t n = 1 + below(random, 4);
    for (uint32_t l = 0, devices = 1; l < n; l++) {
        const uint32_t size = 1 + below(random, 5);
        devices *= size;
        levels[l] =
            (orr_level){.name = "inner", .size = size, .devices = devices, .technology = ""};
    }
    return n;
}

/* Sizes often alike, whole or not; regions of sites that stand together. */
static void some_sites(orr_random *random, uint32_t most, orr_cluster *c, orr_site *sites,
                       orr_site_link *cuts)
{
    static const char *const regions[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    const uint32_t n = 2 + below(random, ORR_SITES_MAX - 1), usual = 1 + below(random, most);
    uint32_t region = 0;
    for (uint32_t s = 0; s < n; s++) {
        region += s > 0 && below(random, 3) == 0;
        sites[s] = (orr_site){.name = "s",
                              .region = regions[region],
                              .devices = below(random, 2) ? usual : 1 + below(random, most),
                              .price_per_hour = orr_fact_unknown()};
    }
    c->n_cuts = 0;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            cuts[c->n_cuts++] = (orr_site_link){.a = a,
                                                .b = b,
                                                .bytes_per_s = fact(1 + below(random, 9)),
                                                .latency_ns = fact(1 + below(random, 9)),
                                                .oversubscription = fact(1 + below(random, 9)),
                                                .technology = ""};
    c->n_sites = n;
    c->sites = sites;
    c->cuts = cuts;
}

/* unit[l][d]: the number of the unit of level l that device d is in. */
typedef struct naive {
    uint32_t n_devices, n_levels, unit[ORR_LEVELS_MAX][ORR_SITES_MAX * MOST_DEVICES];
    uint32_t site[ORR_SITES_MAX * MOST_DEVICES];
} naive;

/* From the sizes of inner levels as they were given, not as they were cut. */
static void number(const orr_cluster *c, const orr_level *inner, naive *ret)
{
    uint32_t counts[ORR_LEVELS_MAX] = {0}, region = 0, at = 0;
    bool many_in_a_region = false;
    for (uint32_t s = 0; s < c->n_sites; s++) {
        const bool same = s > 0 && strcmp(c->sites[s].region, c->sites[s - 1].region) == 0;
        many_in_a_region |= same;
        region += s > 0 && !same;
        for (uint32_t d = 0; d < c->sites[s].devices; d++, at++) {
            for (uint32_t l = 0; l < c->site_level; l++)
                ret->unit[l][at] = counts[l] += d > 0 && d % inner[l].devices == 0;
            ret->unit[c->site_level][at] = ret->site[at] = s;
            ret->unit[c->site_level + 1][at] = region;
        }
        for (uint32_t l = 0; l < c->site_level; l++)
            counts[l]++;
    }
    ret->n_devices = at;
    ret->n_levels = c->site_level + 1;
    if (many_in_a_region)
        ret->n_levels++;
    if (region > 0)
        memset(ret->unit[ret->n_levels++], 0, at * sizeof **ret->unit);
}

/* Units of the level below that have ranks, in each unit; ranks ascend, and so do units. */
static orr_span count(const naive *n, const uint32_t *ranks, uint32_t n_ranks)
{
    orr_span span = {.n_ranks = n_ranks, .n_levels = n->n_levels, .even = true};
    for (uint32_t l = 0; l < n->n_levels; l++) {
        uint32_t width = 0, least = UINT32_MAX;
        for (uint32_t i = 0; i < n_ranks; i++) {
            const uint32_t r = ranks[i], before = i > 0 ? ranks[i - 1] : 0;
            const bool new_unit = i == 0 || n->unit[l][r] != n->unit[l][before];
            if (new_unit && i > 0)
                least = width < least ? width : least;
            if (new_unit)
                width = 0;
            width += new_unit || l == 0 || n->unit[l - 1][r] != n->unit[l - 1][before];
            span.width[l] = width > span.width[l] ? width : span.width[l];
        }
        least = width < least ? width : least;
        span.even &= least == span.width[l];
        if (span.width[l] > 1)
            span.top = l;
    }
    return span;
}

/* Runs, strides, or any. */
static uint32_t some_ranks(orr_random *random, uint32_t n_devices, uint32_t *ranks)
{
    const uint32_t stride = 1 + below(random, 20), keep = 1 + below(random, 4);
    const uint32_t first = below(random, n_devices),
                   end = first + 1 + below(random, n_devices - first);
    const bool any = below(random, 2);
    uint32_t n = 0;
    for (uint32_t r = first; r < end; r += any ? 1 : stride)
        if (!any || r == first || below(random, keep + 1) == 0)
            ranks[n++] = r;
    return n;
}

static void check_units(uint64_t seed, const orr_cluster *c, const naive *n)
{
    for (uint32_t l = 0; l < c->n_levels; l++) {
        uint32_t first = 0;
        for (uint32_t d = 0; d < n->n_devices; d++) {
            if (n->unit[l][d] != n->unit[l][first])
                first = d;
            uint32_t end = d + 1;
            while (end < n->n_devices && n->unit[l][end] == n->unit[l][first] && end < d + 50)
                end++;
            const orr_device_range unit = orr_cluster_unit(c, l, d);
            if (unit.first != first || (end < d + 50 && unit.end != end) || unit.end < end)
                seed_fail(seed, "level %u, device %u: %u to %u, not %u to %u", l, d, unit.first,
                          unit.end, first, end);
        }
    }
    for (uint32_t d = 0; d < n->n_devices; d++)
        if (orr_cluster_site(c, d) != n->site[d])
            seed_fail(seed, "device %u: site %u", d, orr_cluster_site(c, d));
}

static void check_spans(uint64_t seed, orr_random *random, const orr_cluster *c, const naive *n)
{
    static uint32_t ranks[ORR_SITES_MAX * MOST_DEVICES];
    for (int i = 0; i < 20; i++) {
        const uint32_t n_ranks = some_ranks(random, c->n_devices, ranks);
        const orr_span want = count(n, ranks, n_ranks);
        orr_span span = {0};
        if (n_ranks > 1 && below(random, 4) == 0) {
            const uint32_t one = below(random, n_ranks), other = below(random, n_ranks);
            const uint32_t kept = ranks[one];
            ranks[one] = ranks[other];
            ranks[other] = kept;
        }
        if (orr_cluster_span(c, ranks, n_ranks, &span, NULL) != ORR_OK)
            seed_fail(seed, "span %d: refused", i);
        if (span.top != want.top || span.even != want.even || span.n_levels != want.n_levels ||
            memcmp(span.width, want.width, sizeof span.width) != 0)
            seed_fail(seed, "span %d of %u ranks: top %u, %s; not %u, %s", i, n_ranks, span.top,
                      span.even ? "even" : "uneven", want.top, want.even ? "even" : "uneven");
    }
}

/* `ends` where they are needed, and nowhere else. */
static void check_ends(uint64_t seed, const orr_cluster *c, const naive *n)
{
    for (uint32_t l = 0; l < c->n_levels; l++) {
        bool alike = n->n_devices % c->levels[l].devices == 0;
        for (uint32_t d = 0; d < n->n_devices; d++)
            for (uint32_t k = 0; k <= l; k++)
                alike &= n->unit[k][d] == d / c->levels[k].devices;
        if (c->levels[l].ends == NULL ? l == c->site_level && !alike : alike)
            seed_fail(seed, "level %u: ends %s", l, alike ? "for nothing" : "missing");
    }
}

static naive numbers;

static void check_cluster(uint64_t seed, orr_random *random, const orr_cluster *c,
                          const orr_level *inner)
{
    number(c, inner, &numbers);
    if (numbers.n_devices != c->n_devices)
        seed_fail(seed, "%u devices, not %u", c->n_devices, numbers.n_devices);
    if (numbers.n_levels != c->n_levels)
        seed_fail(seed, "%u levels, not %u", c->n_levels, numbers.n_levels);
    check_units(seed, c, &numbers);
    check_spans(seed, random, c, &numbers);
    check_ends(seed, c, &numbers);
}

static void random_sites_are_as_the_definition_says(void **state)
{
    (void)state;
    const seed_range range = seeds(2000);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 0);
        orr_level inner[ORR_LEVELS_MAX];
        orr_site sites[ORR_SITES_MAX];
        orr_site_link cuts[ORR_SITE_LINKS_MAX];
        orr_cluster c = {.name = "c"};
        const orr_cluster *part = NULL;
        orr_site_levels levels = {.inner = inner,
                                  .n_inner = some_inner(&random, inner),
                                  .region = {.name = "region", .technology = ""},
                                  .wan = {.name = "wan", .technology = ""}};
        some_sites(&random, inner[levels.n_inner - 1].devices, &c, sites, cuts);
        assert_int_equal(orr_sites_build_levels(&c, &levels, arena, NULL), ORR_OK);
        check_cluster(seed, &random, &c, inner);

        uint32_t devices[ORR_SITES_MAX];
        for (uint32_t s = 0; s < c.n_sites; s++)
            devices[s] = below(&random, 3) == 0 ? 0 : 1 + below(&random, sites[s].devices);
        devices[below(&random, c.n_sites)] = 1;
        assert_int_equal(orr_cluster_select_sites(&c, devices, arena, &part, NULL), ORR_OK);
        check_cluster(seed, &random, part, inner);
        orr_arena_reset(arena);
    }
}

static int new_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena != NULL ? 0 : -1;
}

static int free_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sites_are_as_the_definition_says),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
