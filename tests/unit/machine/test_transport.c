/* SPDX-License-Identifier: Apache-2.0 */
#include "machine/catalog/sites.h"
#include "machine_text.h"

static orr_status read_over(const char *text, orr_rdma_transport *transport, orr_error *err)
{
    const orr_scope scope = {.basis = ORR_FACT_ASSUMED, .source = "a test", .arena = arena};
    return orr_rdma_transport_read(yaml(text), &scope, transport, err);
}

static void all_is_read(void **state)
{
    (void)state;
    orr_rdma_transport transport = {0};
    assert_int_equal(
        read_over("{balance: spray, congestion: credits, buffers: deep, queue_pairs: 16,\n"
                  " outstanding: 128, segment: 1MiB, paths: 76, failed: 1, loss: 0.001,\n"
                  " source: elsewhere, basis: published, notes: x}",
                  &transport, NULL),
        ORR_OK);
    assert_int_equal(transport.balance, ORR_BALANCE_SPRAY);
    assert_int_equal(transport.congestion, ORR_CONGESTION_CREDITS);
    assert_int_equal(transport.buffers, ORR_BUFFERS_DEEP);
    assert_int_equal(transport.queue_pairs, 16);
    assert_int_equal(transport.outstanding, 128);
    assert_int_equal(transport.paths, 76);
    assert_int_equal(transport.failed, 1);
    assert_true(transport.segment_bytes == 1048576 && transport.loss_frac == 0.001);
}

static void what_is_not_said_stays(void **state)
{
    (void)state;
    orr_rdma_transport transport = {
        .paths = 8, .balance = ORR_BALANCE_ECMP, .loss_frac = 0.5, .queue_pairs = 4};
    assert_int_equal(
        read_over("{balance: unknown, loss: 0, queue_pairs: unknown}", &transport, NULL), ORR_OK);
    assert_int_equal(transport.paths, 8);
    assert_int_equal(transport.balance, ORR_BALANCE_UNKNOWN);
    assert_int_equal(transport.queue_pairs, 0);
    assert_true(transport.loss_frac == 0);
}

static void a_level_has_one_or_none(void **state)
{
    (void)state;
    const orr_catalog *catalog =
        catalog_of("basis: published\nsource: a paper\n"
                   "devices: {card: {vendor: V, kind: gpu, memory_bandwidth: 1TB/s}}\n"
                   "clusters:\n  c:\n    device: card\n    levels:\n"
                   "      - {name: host, size: 4, bandwidth: 1GB/s}\n"
                   "      - {name: pod, size: 3, bandwidth: 1GB/s, transport: {paths: 4}}\n");
    const orr_cluster *c = orr_catalog_cluster(catalog, "c");
    assert_null(c->levels[0].transport);
    assert_int_equal(c->levels[1].transport->paths, 4);
}

static void what_is_wrong_is_told_where_it_stands(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"5", "t.yaml:1:1: transport is a map of what is known about it"},
        {"{paht: 5}", "t.yaml:1:2: transport has no 'paht'; did you mean 'paths'?"},
        {"{congestion: dqcn}", "t.yaml:1:14: 'dqcn' is no congestion; did you mean 'dcqcn'?"},
        {"{buffers: [deep]}", "t.yaml:1:11: buffers: a value is needed here, not a list"},
        {"{queue_pairs: 3G}", "t.yaml:1:15: queue_pairs: more than 2,147,483,647"},
        {"{loss: 1}", "t.yaml:1:1: loss: a share of packets, below 1: 0.001 for one in a thousand"},
        {"{paths: 4, failed: 4}", "t.yaml:1:1: failed: 4 of 4 paths: one at least has to be left"},
        {"{failed: 1}", "t.yaml:1:1: failed: 1 of 0 paths: one at least has to be left"},
        {"{segment: 1}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_rdma_transport transport = {0};
        orr_error err = {0};
        const orr_status status = read_over(cases[i][0], &transport, &err);
        assert_int_equal(status == ORR_OK, cases[i][1] == NULL);
        assert_string_equal(err.text, cases[i][1] != NULL ? cases[i][1] : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_read),
        cmocka_unit_test(what_is_not_said_stays),
        cmocka_unit_test(a_level_has_one_or_none),
        cmocka_unit_test(what_is_wrong_is_told_where_it_stands),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
