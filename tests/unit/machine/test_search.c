/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "machine_text.h"

static const orr_catalog *built_in(void)
{
    const orr_catalog *catalog = NULL;
    orr_error err = {0};
    if (orr_catalog_open(arena, &catalog, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return catalog;
}

/* The name of the entry that is meant, "" for none, or "*" for several. */
static const char *found(const orr_entry_list *list, const char *name, bool by_words)
{
    const void *fit[ORR_ENTRY_FITS];
    const size_t n = orr_entry_search(list, name, by_words, fit);
    return n == 0 ? "" : n == 1 ? *(const char *const *)fit[0] : "*";
}

static void names_are_forgiving(void **state)
{
    (void)state;
    static const struct {
        orr_entry_list (*list)(const orr_catalog *);
        const char *name, *want;
    } cases[] = {
        {orr_link_list, "InfiniBand NDR", "IB NDR 4x"},
        {orr_link_list, "ndr infiniband", "IB NDR 4x"},
        {orr_link_list, "NDR 400", "IB NDR 4x"},
        {orr_link_list, "NVLink 4", "NVLink4"},
        {orr_link_list, "InfiniBand", "*"},
        {orr_link_list, "InfiniBand ABC", ""},
        {orr_link_list, "IB", "*"},
        {orr_link_list, "", ""},
        {orr_link_list, " - ", ""},
        {orr_device_list, "NVIDIA H100 SXM", "h100_sxm_80g"},
        {orr_device_list, "h100-sxm-80GB", "h100_sxm_80g"},
        {orr_device_list, "A100 80GiB PCIe", "a100_pcie_80g"},
        {orr_device_list, "A100 80GB", "*"},
        {orr_device_list, "A100 160GB", ""},
        {orr_device_list, "tpuv5e", "tpu_v5e"},
        {orr_device_list, "Google Trillium", "tpu_v6e"},
        {orr_device_list, "h200", "h200_sxm_141g"},
        {orr_cluster_list, "DGX H100", "dgx_h100"},
        {orr_cluster_list, "CloudMatrix 384", "cloudmatrix384"},
        {orr_cluster_list, "dgx", "*"},
        {orr_tier_list, "ddr5 4800 rdimm", "DDR5-4800 RDIMM"},
    };
    const orr_catalog *catalog = built_in();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_entry_list list = cases[i].list(catalog);
        const char *got = found(&list, cases[i].name, true);
        if (strcmp(got, cases[i].want) != 0)
            fail_msg("'%s' is '%s', not '%s'", cases[i].name, got, cases[i].want);
    }
}

/* However its letters and blanks are written, a name or alias means its entry and no other. */
static void names_and_aliases_mean_one_entry(void **state)
{
    (void)state;
    const orr_catalog *catalog = built_in();
    const orr_entry_list lists[] = {orr_device_list(catalog), orr_link_list(catalog),
                                    orr_tier_list(catalog), orr_cluster_list(catalog)};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (size_t i = 0; i < lists[k].n; i++) {
            const char *entry = ((const char *const *)lists[k].entries)[i];
            const uint32_t n = lists[k].n_aliases == SIZE_MAX
                                   ? 0
                                   : *(const uint32_t *)(const void *)(entry + lists[k].n_aliases);
            for (uint32_t a = 0; a <= n; a++) {
                const char *name = *(const char *const *)(const void *)entry;
                const char *text =
                    a == 0 ? name
                           : (*(const char *const *const *)(const void *)(entry +
                                                                          lists[k].aliases))[a - 1];
                char written[256];
                size_t length = 0;
                for (const char *c = text; *c != '\0' && length < sizeof written - 1; c++)
                    if (isalnum((unsigned char)*c))
                        written[length++] = (char)toupper((unsigned char)*c);
                written[length] = '\0';
                assert_string_equal(found(&lists[k], text, false), name);
                assert_string_equal(found(&lists[k], written, false), name);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_forgiving),
        cmocka_unit_test(names_and_aliases_mean_one_entry),
    };
    return cmocka_run_group_tests_name("machine/search", tests, new_arena, free_arena);
}
