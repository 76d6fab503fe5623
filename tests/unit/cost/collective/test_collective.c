/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_steps.h"

/* What must hold of any price. */

static int64_t next_size(int64_t bytes)
{
    return bytes < INT64_MAX / 8 ? bytes * 7 + 22 : INT64_MAX;
}

/* Of any collective and algorithm: never falls with bytes, never negative, never overflows, and
 * AUTO is the cheapest. */
static void prices_rise_with_bytes(void **state)
{
    (void)state;
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (uint32_t topologies = 0; topologies < 27; topologies += 2)
            for (int c = ORR_COLL_UNKNOWN; c <= ORR_COLL_RECV; c++)
                for (int a = ORR_ALGORITHM_AUTO; a < ORR_ALGORITHMS; a++) {
                    orr_network network;
                    orr_span span;
                    static exec x;
                    x = levels_of(shape, topologies, false);
                    exec_start(&x);
                    exec_network(&x, &network, &span);
                    network.levels[0].bytes_per_s[ORR_PROTOCOL_LATENCY] = 20e9;
                    network.levels[0].alpha_ns[ORR_PROTOCOL_LATENCY] = 40;
                    network.levels[1].bytes_per_s[ORR_PROTOCOL_LATENCY] = 5e9;
                    network.levels[1].alpha_ns[ORR_PROTOCOL_LATENCY] = 50;
                    network.in_network[0] = network.in_network[1] = topologies % 4 == 0;
                    int64_t before = 0;
                    for (int64_t bytes = -3;; bytes = next_size(bytes)) {
                        const orr_price price = orr_collective_price(
                            &network, &span, (orr_collective)c, (orr_algorithm)a, bytes);
                        const orr_price least = orr_collective_price(
                            &network, &span, (orr_collective)c, ORR_ALGORITHM_AUTO, bytes);
                        assert_true(price.ns >= before && price.ns <= INT64_MAX / 4);
                        assert_true(least.ns <= price.ns);
                        assert_true(c == ORR_COLL_UNKNOWN ? price.basis == ORR_BASIS_NONE
                                                          : price.ns > 0 && price.model[0] != '\0');
                        before = price.ns;
                        if (bytes == INT64_MAX)
                            break;
                    }
                }
}

static void fastest_protocol_for_the_message(void **state)
{
    (void)state;
    orr_network network = {.n_levels = 1, .oversubscription = {2}};
    const orr_span span = {.n_ranks = 2, .n_levels = 1, .width = {2}, .even = true};
    network.levels[0] = (orr_alpha_beta){
        .base_ns = {100, 200, 300}, .alpha_ns = {10, 20, 30}, .bytes_per_s = {1e9, 2e9, 8e9}};
    const struct {
        int64_t bytes, ns;
    } want[] = {{0, 110}, {50, 210}, {120, 340}, {4000, 1330}}; /* twice the bytes: 1:2 */
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            orr_collective_price(&network, &span, ORR_COLL_SEND, ORR_ALGORITHM_AUTO, want[i].bytes)
                .ns,
            want[i].ns);
}

static void nobody_to_speak_to(void **state)
{
    (void)state;
    const orr_network network = {.n_levels = 1};
    const orr_span span = {.n_ranks = 1, .n_levels = 1, .width = {1}, .even = true};
    const orr_price price =
        orr_collective_price(&network, &span, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_AUTO, 1 << 20);
    assert_int_equal(price.ns, 0);
    assert_int_equal(price.basis, ORR_BASIS_NONE);
    assert_string_equal(price.model, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_rise_with_bytes),
        cmocka_unit_test(fastest_protocol_for_the_message),
        cmocka_unit_test(nobody_to_speak_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
