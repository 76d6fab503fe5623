/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_steps.h"

/* Every collective and algorithm among the units of one level, carried out message by message on
 * every topology, against its closed form. */

static const double SIZES[] = {0, 1, 4096, 1 << 20, 12345678901.0};

static exec one_level(uint32_t topology, uint32_t used, uint32_t size)
{
    exec x = {.n_levels = 1};
    x.level[0] = (exec_level){.size = size,
                              .used = used,
                              .topology = topology,
                              .alpha_ns = 700,
                              .bytes_per_ns = 450,
                              .oversubscription = 1};
    x.level[1].used = x.level[2].used = 1;
    return x;
}

static void one_level_step_by_step(void **state)
{
    static const uint32_t members[] = {2, 3, 4, 5, 6, 7, 8, 9, 12, 16};
    (void)state;
    uint32_t n_compared = 0;
    for (uint32_t topology = 0; topology < 3; topology++)
        for (int m = 0; m < 10; m++)
            for (uint32_t spare = 0; spare <= 3; spare += 3)
                for (int i = 0; i < N_SERVED; i++)
                    for (int s = 0; s < 5; s++) {
                        static exec x;
                        x = one_level(topology, members[m], members[m] + spare);
                        if (!applies(&SERVED[i], &x.level[0]))
                            continue;
                        /* a root at the end of a line, or of even index on a ring: the worst
                         * place */
                        exec_start(&x);
                        on_level(&x, 0, SERVED[i].collective, SERVED[i].algorithm, SIZES[s]);
                        agree(&x, SERVED[i].collective, SERVED[i].algorithm, SIZES[s]);
                        n_compared++;
                    }
    assert_true(n_compared > 4000);
}

/* Pipelined: all bytes in one step, latencies along the longest way. */

static uint32_t above(uint32_t i, uint32_t n)
{
    const uint32_t low = i & -i, up = (i ^ low) | low << 1;
    return up < n ? up : i ^ low;
}

static uint32_t in_tree(uint32_t i, uint32_t n, int tree)
{
    return tree == 0 ? i : n % 2 == 0 ? n - 1 - i : (i + 1) % n;
}

/* Up and down two trees, half of S each. The depth is that of the deepest leaf. */
static void double_tree(exec *x, double S)
{
    const uint32_t n = x->n;
    uint32_t depth = 0;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t d = 0;
        for (uint32_t at = i; at != 0; at = above(at, n))
            d++;
        depth = d > depth ? d : depth;
        for (int tree = 0; tree < 2; tree++) {
            const uint32_t child = in_tree(i, n, tree), parent = in_tree(above(i, n), n, tree);
            exec_message(x, child, parent, S / 2, false);
            exec_message(x, parent, child, S / 2, false);
        }
    }
    exec_carry(x);
    memset(x->chain_ns, 0, sizeof x->chain_ns);
    x->chain_ns[0] = 2 * depth * x->level[0].alpha_ns;
}

static void one_level_pipelined(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 33; n++)
        for (int s = 0; s < 5; s++) {
            static exec x;
            x = one_level(ORR_TOPOLOGY_SWITCH, n, n);
            exec_start(&x);
            double_tree(&x, SIZES[s]);
            agree(&x, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_TREE, SIZES[s]);

            exec_start(&x); /* a chain from 0 on */
            for (uint32_t i = 0; i + 1 < n; i++)
                exec_message(&x, i, i + 1, SIZES[s], true);
            exec_carry(&x);
            agree(&x, ORR_COLL_BROADCAST, ORR_ALGORITHM_RING, SIZES[s]);
            agree(&x, ORR_COLL_REDUCE, ORR_ALGORITHM_RING, SIZES[s]);
        }
}

static void in_the_switch(void **state)
{
    (void)state;
    for (uint32_t n = 2; n < 20; n++) {
        orr_network network;
        orr_span span;
        exec x = one_level(ORR_TOPOLOGY_SWITCH, n, n);
        x.n = n;
        exec_network(&x, &network, &span);
        orr_price price = orr_collective_price(&network, &span, ORR_COLL_ALL_REDUCE,
                                               ORR_ALGORITHM_IN_NETWORK, 450000);
        assert_string_not_equal(price.model, "in_network"); /* the level has none */
        network.in_network[0] = true;
        price = orr_collective_price(&network, &span, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_IN_NETWORK,
                                     450000);
        assert_string_equal(price.model, "in_network");
        assert_int_equal(price.ns, 2 * 700 + 1000); /* up and down, S through each port */
        network.reduction[0] = (orr_alpha_beta){
            .base_ns = {0, 0, 50}, .alpha_ns = {0, 0, 10}, .bytes_per_s = {0, 0, 900e9}};
        price = orr_collective_price(&network, &span, ORR_COLL_BROADCAST, ORR_ALGORITHM_IN_NETWORK,
                                     450000);
        assert_int_equal(price.ns, 50 + 2 * 10 + 500);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_level_step_by_step),
        cmocka_unit_test(one_level_pipelined),
        cmocka_unit_test(in_the_switch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
