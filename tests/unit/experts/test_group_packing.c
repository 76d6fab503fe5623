/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>

#include <cmocka.h>

#include "experts/policy/group_packing.h"

enum { MOST_GROUPS = 128, MOST_HOSTS = 8 };

typedef struct packed {
    uint32_t host[MOST_GROUPS];
    double most;
    bool proven;
} packed;

static packed pack(const double *load, uint32_t groups, const uint32_t *live, uint32_t hosts)
{
    uint32_t order[MOST_GROUPS], trial[MOST_GROUPS], count[MOST_HOSTS];
    double sum[MOST_HOSTS];
    packed ret;
    orr_group_packing p = {.groups = groups,
                           .hosts = hosts,
                           .live = live,
                           .load = load,
                           .host = ret.host,
                           .order = order,
                           .trial = trial,
                           .sum = sum,
                           .count = count};
    ret.proven = orr_groups_pack(&p, &ret.most);
    return ret;
}

/* Three groups on each of two hosts of two ranks; the best of all ten ways, by hand. */
static void the_best_packing_is_found(void **state)
{
    (void)state;
    static const uint32_t live[] = {2, 2};
    const double a[] = {8, 7, 6, 5, 4, 3}, b[] = {9, 5, 5, 4, 4, 3}, c[] = {10, 8, 7, 6, 5, 4};
    packed p = pack(a, 6, live, 2);
    assert_true(p.proven && p.most == 8.5);
    p = pack(b, 6, live, 2);
    assert_true(p.proven && p.most == 8); /* 9 4 3 and 5 5 4 */
    p = pack(c, 6, live, 2);
    assert_true(p.proven && p.most == 10);
}

/* A host whose ranks are fewer gets less. */
static void hosts_take_by_their_live_ranks(void **state)
{
    (void)state;
    static const uint32_t live[] = {1, 3};
    const double load[] = {4, 3, 2, 1};
    const packed p = pack(load, 4, live, 2);
    assert_true(p.proven && p.most == 3);
    assert_true(p.host[2] == 0 && p.host[3] == 0);
}

static void many_groups_end(void **state)
{
    (void)state;
    static const uint32_t live[] = {4, 4, 4, 4, 4, 4, 4, 4};
    double load[MOST_GROUPS], sum = 0;
    uint32_t count[MOST_HOSTS] = {0};
    for (uint32_t g = 0; g < MOST_GROUPS; g++)
        sum += load[g] = 1000 + (g * 7919) % 991;
    const packed p = pack(load, MOST_GROUPS, live, MOST_HOSTS);
    for (uint32_t g = 0; g < MOST_GROUPS; g++)
        count[p.host[g]]++;
    for (uint32_t h = 0; h < MOST_HOSTS; h++)
        assert_int_equal(count[h], MOST_GROUPS / MOST_HOSTS);
    assert_true(p.most >= sum / 32 && p.most <= 1.002 * sum / 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_packing_is_found),
        cmocka_unit_test(hosts_take_by_their_live_ranks),
        cmocka_unit_test(many_groups_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
