/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_text.h"

/* Names as drivers report them and recordings keep them. */
static void recordings_name_devices(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"Tesla V100-SXM2-32GB", "v100_sxm2_32g"},
        {"Tesla V100-SXM2-16GB", "v100_sxm2_16g"},
        {"Tesla V100-PCIE-16GB", "v100_pcie_16g"},
        {"Quadro GV100", "gv100"},
        {"NVIDIA TITAN Xp", "titan_xp"},
        {"Tesla P100-PCIE-16GB", "p100"},
        {"NVIDIA A100-SXM4-40GB", "a100_sxm_40g"},
        {"NVIDIA A100-PG509-200", "a100_sxm_40g"},
        {"NVIDIA A100-SXM4-80GB", "a100_sxm_80g"},
        {"NVIDIA A100 80GB PCIe", "a100_pcie_80g"},
        {"NVIDIA H100 80GB HBM3", "h100_sxm_80g"},
        {"NVIDIA H100 PCIe", "h100_pcie_80g"},
        {"NVIDIA H200", "h200_sxm_141g"},
        {"NVIDIA H800", "h800_sxm_80g"},
        {"NVIDIA GH200 144G HBM3e", "gh200_141g"},
        {"NVIDIA B200", "b200_sxm_180g"},
        {"NVIDIA GB200", "gb200_186g"},
        {"NVIDIA B300 SXM6 AC", "b300_sxm_288g"},
        {"AMD Instinct MI250X", "mi250x_128g"},
        {"AMD Instinct MI300X", "mi300x_192g"},
        {"AMD Instinct MI325X", "mi325x_256g"},
    };
    const orr_catalog *catalog = NULL;
    assert_int_equal(orr_catalog_open(arena, &catalog, NULL), ORR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_device *device = orr_catalog_recognise(catalog, cases[i][0]);
        if (device == NULL || strcmp(device->name, cases[i][1]) != 0)
            fail_msg("%s: %s", cases[i][0], device != NULL ? device->name : "not recognised");
    }
    static const char *const unknown[] = {"",
                                          "AMD Radeon Graphics",
                                          "ARTEMIS",
                                          "NVIDIA GH200 480GB",
                                          "Tesla V100-DGXS-16GB",
                                          "NVIDIA H100 NVL"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        const orr_device *device = orr_catalog_recognise(catalog, unknown[i]);
        if (device != NULL)
            fail_msg("%s: %s", unknown[i], device->name);
    }
}

static void whole_words_and_the_longest_count(void **state)
{
    (void)state;
#define CARD(name, match)                                                                          \
    "  " name ": {vendor: v, kind: k, memory_bandwidth: unknown, matches: [" match "]}\n"
    const orr_catalog *catalog = catalog_of("devices:\n" CARD("one", "X1") CARD("two", "X1 Pro")
                                                CARD("three", "Z, \"Y 9\""));
    assert_string_equal(orr_catalog_recognise(catalog, "Vendor X1")->name, "one");
    assert_string_equal(orr_catalog_recognise(catalog, "vendor x1 pro")->name, "two");
    assert_string_equal(orr_catalog_recognise(catalog, "X1-Pro")->name, "one");
    assert_string_equal(orr_catalog_recognise(catalog, "Y 9")->name, "three");
    assert_null(orr_catalog_recognise(catalog, "X12"));
    assert_null(orr_catalog_recognise(catalog, "AX1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_name_devices),
        cmocka_unit_test(whole_words_and_the_longest_count),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
