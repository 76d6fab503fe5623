/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_text.h"

static void a_device_is_read_whole(void **state)
{
    (void)state;
    const orr_catalog *catalog = catalog_of(
        "devices:\n"
        "  card:\n"
        "    {vendor: V, kind: gpu, basis: published, source: a paper, matches: [Card],\n"
        "     peak: {bf16: 100TFLOPS}, matmul: {bf16: 80TFLOPS}, memory: 80GiB,\n"
        "     memory_type: HBM3, memory_bandwidth: 2TB/s,\n"
        "     achievable_memory_bandwidth: 1.8TB/s, l2: 50MiB, l2_bandwidth: 5TB/s,\n"
        "     shared_memory_bandwidth: 20TB/s, sms: 132, clock: 1.83GHz,\n"
        "     launch_latency: 4us, kernel_gap: 1us, pcie: PCIe5, pcie_bandwidth: 63GB/s,\n"
        "     achievable_pcie_bandwidth: 55GB/s, scale_up: L, scale_up_bandwidth: 450GB/s,\n"
        "     scale_up_pair_bandwidth: 50GB/s, nic: N, nic_bandwidth: 400Gbps,\n"
        "     power: 700W, idle_power: 70W, notes: none}\n");
    const orr_device *d = orr_catalog_device(catalog, "card");
    assert_string_equal(d->vendor, "V");
    assert_string_equal(d->matches[0], "Card");
    const struct {
        const orr_fact *fact;
        double value;
    } cases[] = {
        {&d->peak_flops[ORR_DTYPE_BF16], 100e12},
        {&d->matmul_flops[ORR_DTYPE_BF16], 80e12},
        {&d->memory_bytes, 80.0 * (1 << 30)},
        {&d->memory_bytes_per_s, 2e12},
        {&d->achievable_memory_bytes_per_s, 1.8e12},
        {&d->l2_bytes, 50 << 20},
        {&d->l2_bytes_per_s, 5e12},
        {&d->shared_memory_bytes_per_s, 20e12},
        {&d->sms, 132},
        {&d->clock_hz, 1.83e9},
        {&d->launch_latency_ns, 4000},
        {&d->kernel_gap_ns, 1000},
        {&d->pcie_bytes_per_s, 63e9},
        {&d->achievable_pcie_bytes_per_s, 55e9},
        {&d->scale_up_bytes_per_s, 450e9},
        {&d->scale_up_pair_bytes_per_s, 50e9},
        {&d->nic_bytes_per_s, 50e9},
        {&d->power_w, 700},
        {&d->idle_power_w, 70},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fact(cases[i].fact, cases[i].value, ORR_FACT_PUBLISHED, "a paper");
    assert_string_equal(d->memory_type, "HBM3");
    assert_string_equal(d->pcie, "PCIe5");
    assert_string_equal(d->scale_up, "L");
    assert_string_equal(d->nic, "N");
    assert_string_equal(d->notes, "none");
    assert_true(isnan(d->peak_flops[ORR_DTYPE_FP64].value));
}

static void a_tier_is_read_whole(void **state)
{
    (void)state;
    const orr_catalog *catalog = catalog_of(
        "memory:\n"
        "  disk: {kind: tlc, basis: measured, source: me, capacity: 1TB, granule: 512,\n"
        "    read_latency: 80us, write_latency: 20us, read_bandwidth: 7GB/s, \n"
        "    write_bandwidth: 5GB/s, read_4k: 1MIOPS, write_4k: 200kIOPS, endurance_dwpd: 0.5,\n"
        "    power: 20W, idle_power: 5W}\n");
    const orr_memory_tier *t = orr_catalog_tier(catalog, "disk");
    assert_string_equal(t->kind, "tlc");
    assert_fact(&t->capacity_bytes, 1e12, ORR_FACT_MEASURED, "me");
    assert_fact(&t->granule_bytes, 512, ORR_FACT_MEASURED, "me");
    assert_fact(&t->read_latency_ns, 80000, ORR_FACT_MEASURED, "me");
    assert_fact(&t->write_latency_ns, 20000, ORR_FACT_MEASURED, "me");
    assert_fact(&t->read_bytes_per_s, 7e9, ORR_FACT_MEASURED, "me");
    assert_fact(&t->write_bytes_per_s, 5e9, ORR_FACT_MEASURED, "me");
    assert_fact(&t->read_iops_4k, 1e6, ORR_FACT_MEASURED, "me");
    assert_fact(&t->write_iops_4k, 2e5, ORR_FACT_MEASURED, "me");
    assert_fact(&t->endurance_dwpd, 0.5, ORR_FACT_MEASURED, "me");
    assert_fact(&t->power_w, 20, ORR_FACT_MEASURED, "me");
    assert_fact(&t->idle_power_w, 5, ORR_FACT_MEASURED, "me");
}

static void a_link_is_read_whole(void **state)
{
    (void)state;
    const orr_catalog *catalog =
        catalog_of("links:\n"
                   "  IB 4x: {kind: scale-out, basis: assumed, source: me, bandwidth: 400Gbps,\n"
                   "    latency: 0.6us, latency_by_distance: 5us/km, reach: 40 km, notes: old}\n");
    const orr_link *link = orr_catalog_link(catalog, "ib 4X");
    assert_string_equal(link->name, "IB 4x");
    assert_fact(&link->bytes_per_s, 50e9, ORR_FACT_ASSUMED, "me");
    assert_fact(&link->latency_ns, 600, ORR_FACT_ASSUMED, "me");
    assert_fact(&link->latency_ns_per_km, 5000, ORR_FACT_ASSUMED, "me");
    assert_string_equal(link->reach, "40 km");
    assert_string_equal(link->notes, "old");
}

static void entries_say_what_is_wrong_with_them(void **state)
{
    (void)state;
    assert_refused("devices:\n  card: {vendor: V, kind: gpu}\n",
                   "t.yaml:2:9: device 'card' does not say its memory_bandwidth: 'unknown' is an "
                   "answer too");
    assert_refused("devices:\n  card: {vendor: V, kind: gpu, memory_bandwith: 1GB/s}\n",
                   "t.yaml:2:32: device 'card' has no 'memory_bandwith'; did you mean "
                   "'memory_bandwidth'?");
    assert_refused("memory:\n  disk: {}\n", "t.yaml:2:9: memory 'disk' does not say its kind");
    assert_refused("links:\n  wire:\n",
                   "t.yaml:2:8: link 'wire' is a map of what is known about it");
    assert_refused("links: [wire]\n", "t.yaml:1:8: links: a map of entries by name");
    assert_refused(
        "devces: {}\n",
        "t.yaml:1:1: 'devces' is no section of a catalogue file; did you mean 'devices'?");
    assert_refused("[1]\n", "t.yaml:1:1: a catalogue file is a map of sections: devices, links, "
                            "memory, clusters");
    assert_refused("sources: x\n",
                   "t.yaml:1:10: sources: a map of abbreviations: {paper: \"arXiv ...\"}");
}

static void a_file_may_speak_for_its_entries(void **state)
{
    (void)state;
    const orr_catalog *catalog = catalog_of("basis: measured\nsource: the lab\nlinks:\n"
                                            "  a: {kind: x, bandwidth: 1GB/s}\n"
                                            "  b: {kind: x, bandwidth: 1GB/s, source: b lab}\n");
    assert_fact(&orr_catalog_link(catalog, "a")->bytes_per_s, 1e9, ORR_FACT_MEASURED, "the lab");
    assert_fact(&orr_catalog_link(catalog, "b")->bytes_per_s, 1e9, ORR_FACT_MEASURED, "b lab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_is_read_whole),
        cmocka_unit_test(a_tier_is_read_whole),
        cmocka_unit_test(a_link_is_read_whole),
        cmocka_unit_test(entries_say_what_is_wrong_with_them),
        cmocka_unit_test(a_file_may_speak_for_its_entries),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
