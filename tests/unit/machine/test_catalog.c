/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "machine_text.h"

#include <strings.h>

static const orr_catalog *built_in(void)
{
    const orr_catalog *catalog = NULL;
    orr_error err = {0};
    if (orr_catalog_open(arena, &catalog, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return catalog;
}

static void names_are_there_once(const void *entries, size_t n)
{
    const char *const *names = orr_entry_names(entries, n, arena);
    for (size_t i = 0; i < n; i++) {
        assert_true(names[i][0] != '\0');
        for (size_t j = 0; j < i; j++)
            if (strcasecmp(names[i], names[j]) == 0)
                fail_msg("'%s' is there twice", names[i]);
    }
}

static void each_name_is_there_once(void **state)
{
    (void)state;
    const orr_catalog *catalog = built_in();
    assert_true(catalog->n_devices >= 25 && catalog->n_links >= 37);
    assert_true(catalog->n_tiers >= 13 && catalog->n_clusters >= 11);
    names_are_there_once(catalog->devices, catalog->n_devices);
    names_are_there_once(catalog->links, catalog->n_links);
    names_are_there_once(catalog->tiers, catalog->n_tiers);
    names_are_there_once(catalog->clusters, catalog->n_clusters);
}

static size_t facts_checked;

static void check_fact(const char *name, const char *key, const orr_fact *fact)
{
    for (; fact != NULL; fact = fact->conflict) {
        const bool unknown = fact->basis == ORR_FACT_UNKNOWN;
        if (fact->source == NULL || fact->note == NULL || unknown != (bool)isnan(fact->value) ||
            (!unknown && (fact->source[0] == '\0' || !(fact->value > 0))))
            fail_msg("%s: %s: %g from '%s'", name, key, fact->value, fact->source);
        facts_checked++;
    }
}

static void check_entry(const char *name, const void *entry,
                        const orr_field *(*fields_of)(size_t *))
{
    size_t n;
    const orr_field *fields = fields_of(&n);
    for (size_t f = 0; f < n; f++) {
        const char *at = (const char *)entry + fields[f].offset;
        const int n_facts =
            fields[f].kind == ORR_FIELD_DTYPES ? ORR_DTYPES : fields[f].kind == ORR_FIELD_FACT;
        for (int i = 0; i < n_facts; i++)
            check_fact(name, fields[f].key, (const orr_fact *)at + i);
        if (fields[f].kind == ORR_FIELD_TEXT)
            assert_non_null(*(const char *const *)at);
    }
}

static void each_number_has_a_source_and_a_basis(void **state)
{
    (void)state;
    const orr_catalog *catalog = built_in();
    for (uint32_t i = 0; i < catalog->n_devices; i++)
        check_entry(catalog->devices[i]->name, catalog->devices[i], orr_device_fields);
    for (uint32_t i = 0; i < catalog->n_tiers; i++)
        check_entry(catalog->tiers[i]->name, catalog->tiers[i], orr_tier_fields);
    for (uint32_t i = 0; i < catalog->n_links; i++)
        check_entry(catalog->links[i]->name, catalog->links[i], orr_link_fields);
    for (uint32_t i = 0; i < catalog->n_clusters; i++) {
        const orr_cluster *c = catalog->clusters[i];
        for (uint32_t l = 0; l < c->n_levels; l++)
            check_entry(c->name, &c->levels[l], orr_level_fields);
        for (uint32_t s = 0; s < c->n_sites; s++)
            check_entry(c->name, &c->sites[s], orr_site_fields);
        for (uint32_t k = 0; k < c->n_cuts; k++)
            check_entry(c->name, &c->cuts[k], orr_site_link_fields);
    }
    assert_true(facts_checked > 500);
}

/* What was reached is not above what is said to be possible, nor is a sum below a part. */
static void facts_agree_with_each_other(void **state)
{
    (void)state;
    const orr_catalog *catalog = built_in();
    for (uint32_t i = 0; i < catalog->n_devices; i++) {
        const orr_device *d = catalog->devices[i];
        for (int t = 0; t < ORR_DTYPES; t++)
            assert_false(d->matmul_flops[t].value > d->peak_flops[t].value);
        assert_false(d->achievable_memory_bytes_per_s.value > d->memory_bytes_per_s.value);
        assert_false(d->achievable_pcie_bytes_per_s.value > d->pcie_bytes_per_s.value);
        assert_false(d->scale_up_pair_bytes_per_s.value > d->scale_up_bytes_per_s.value);
        assert_false(d->l2_bytes_per_s.value < d->memory_bytes_per_s.value);
        assert_false(d->peak_flops[ORR_DTYPE_FP8].value < d->peak_flops[ORR_DTYPE_BF16].value);
    }
}

static void between(const char *name, const char *what, double value, double low, double high)
{
    if (value < low || value > high) /* unknown: NAN is neither */
        fail_msg("%s: %s of %g, not %g to %g", name, what, value, low, high);
}

/* Silicon of 2016 to 2026: operations and bytes cost energy, and what computes must be fed. */
static void devices_obey_physics(void **state)
{
    (void)state;
    const orr_catalog *catalog = built_in();
    for (uint32_t i = 0; i < catalog->n_devices; i++) {
        const orr_device *d = catalog->devices[i];
        const double bf16 = d->peak_flops[ORR_DTYPE_BF16].value,
                     fp8 = d->peak_flops[ORR_DTYPE_FP8].value,
                     bytes_per_s = d->memory_bytes_per_s.value, watts = d->power_w.value;
        assert_false(d->peak_flops[ORR_DTYPE_FP4].value < fp8);
        assert_false(d->peak_flops[ORR_DTYPE_TF32].value > bf16);
        assert_false(d->peak_flops[ORR_DTYPE_FP32].value > bf16);
        assert_false(d->idle_power_w.value >= watts);
        between(d->name, "ridge point", bf16 / bytes_per_s, 30, 1000);
        between(d->name, "fp8 over bf16", fp8 / bf16, 1, 4);
        between(d->name, "FLOP a joule", bf16 / watts, 0.1e12, 3e12);
        between(d->name, "picojoules a bit if memory took all", watts / bytes_per_s / 8e-12, 10,
                200);
        between(d->name, "seconds to read all memory", d->memory_bytes.value / bytes_per_s, 0.01,
                2);
        between(d->name, "memory over scale-up", bytes_per_s / d->scale_up_bytes_per_s.value, 1,
                100);
        between(d->name, "scale-up over NIC",
                d->scale_up_bytes_per_s.value / d->nic_bytes_per_s.value, 1, 100);
        between(d->name, "USD an hour", d->price_per_hour.value, 0.1, 30);
        between(d->name, "USD for 1e18 FLOP in bf16", d->price_per_hour.value / 3600 / bf16 * 1e18,
                0.5, 10);
    }
}

/* A level's bandwidth is of its device's ports. */
static void levels_have_what_their_devices_have(void **state)
{
    (void)state;
    const orr_catalog *catalog = built_in();
    for (uint32_t i = 0; i < catalog->n_clusters; i++) {
        const orr_cluster *c = catalog->clusters[i];
        for (uint32_t l = 0; l < c->n_levels; l++) {
            const double ports = orr_cluster_is_scale_up(c, l)
                                     ? c->device->scale_up_bytes_per_s.value
                                     : c->device->nic_bytes_per_s.value;
            if (c->levels[l].bytes_per_s.value > 1.03 * ports)
                fail_msg("%s: %s has %g bytes/s of %g", c->name, c->levels[l].name,
                         c->levels[l].bytes_per_s.value, ports);
        }
    }
}

static void clusters_have_the_sizes_that_are_published(void **state)
{
    (void)state;
    static const struct {
        const char *name, *device;
        uint32_t n_devices;
        double outermost_oversubscription;
    } cases[] = {
        {"dgx1_v100", "v100_sxm2_32g", 8, 1},
        {"dgx_a100", "a100_sxm_80g", 8, 1},
        {"dgx_h100", "h100_sxm_80g", 8, 1},
        {"h200_x8", "h200_sxm_141g", 8, 1},
        {"mi300x_x8", "mi300x_192g", 8, 1},
        {"mi355x_x8", "mi355x_288g", 8, 1},
        {"gb200_nvl72", "gb200_186g", 72, 1},
        {"gb300_nvl72", "gb300_288g", 72, 1},
        {"tpu_v5e_pod", "tpu_v5e", 256, 1},
        {"tpu_v5p_pod", "tpu_v5p", 8960, 1},
        {"tpu_v6e_pod", "tpu_v6e", 256, 1},
        {"tpu_v7x_pod", "tpu_v7x", 9216, 1},
        {"trn2_ultraserver", "trainium2", 64, 1},
        {"trn3_ultraserver", "trainium3", 144, 1},
        {"gaudi3_x8", "gaudi3_128g", 8, 1},
        {"mi325x_x8", "mi325x_256g", 8, 1},
        {"cloudmatrix384", "ascend_910c_128g", 384, 1},
        {"h20_x8", "h20_sxm_96g", 8, 1},
        {"a800_x8", "a800_sxm_80g", 8, 1},
        {"l40s_x4", "l40s_48g", 4, 1},
        {"mtia_v2_chassis", "mtia_v2", 24, 1},
        {"dgx_h100_pod", "h100_sxm_80g", 256, 1},
        {"b200_x8_efa_x4", "b200_sxm_180g", 32, 1},
        {"h100-24k", "h100_sxm_80g", 24576, 7},
        {"h100_3x24k", "h100_sxm_80g", 73728, 2.8},
        {"h100_ncclx_region", "h100_sxm_80g", 122880, 2.8},
        {"three_buildings", "h100_sxm_80g", 98304, 2.8},
        {"two_regions", "h100_sxm_80g", 79872, 2.8 * 4.5},
    };
    const orr_catalog *catalog = built_in();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_cluster *c = orr_catalog_cluster(catalog, cases[i].name);
        assert_non_null(c);
        assert_string_equal(c->device->name, cases[i].device);
        assert_int_equal(c->n_devices, cases[i].n_devices);
        assert_true(c->levels[c->n_levels - 1].oversubscription.value ==
                    cases[i].outermost_oversubscription);
        assert_true(c->n_levels > 0 && c->notes != NULL);
    }
    assert_null(orr_catalog_cluster(catalog, "dgx"));
    assert_null(orr_catalog_device(catalog, ""));
}

static void clusters_of_sites_are_what_they_say(void **state)
{
    (void)state;
    const orr_catalog *catalog = built_in();
    static const struct {
        const char *name;
        uint32_t n_sites, n_levels;
        double km;
    } cases[] = {
        {"h100_24k", 0, 4, NAN},      {"h100_ncclx_region", 5, 5, NAN},
        {"three_buildings", 3, 5, 3}, {"mixed_buildings", 3, 5, 3},
        {"two_regions", 4, 6, 1000},  {"gcp_a100_two_regions", 3, 4, 2090},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_cluster *c = orr_catalog_cluster(catalog, cases[i].name);
        assert_int_equal(c->n_sites, cases[i].n_sites);
        assert_int_equal(c->n_levels, cases[i].n_levels);
        double km = NAN;
        for (uint32_t k = 0; k < c->n_cuts; k++)
            km = fmax(km, c->cuts[k].km.value);
        assert_true(isnan(cases[i].km) ? isnan(km) : km == cases[i].km);
    }
    assert_int_equal(orr_catalog_cluster(catalog, "h100_ncclx_region")->levels[4].transport->paths,
                     76);
    const orr_cluster *cloud = orr_catalog_cluster(catalog, "gcp_a100_two_regions");
    assert_true(cloud->cuts[0].price_per_gb.value == 0.01 &&
                cloud->cuts[1].price_per_gb.value == 0.02);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    orr_status status = ORR_NO_MEMORY;
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        const orr_catalog *catalog = NULL;
        orr_alloc_fail_from(nth);
        orr_arena *small = orr_arena_new(0, 0);
        status = small == NULL ? ORR_NO_MEMORY : orr_catalog_open(small, &catalog, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK ? catalog != NULL
                                     : status == ORR_NO_MEMORY && catalog == NULL);
        orr_arena_free(small);
        assert_true(nth < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_name_is_there_once),
        cmocka_unit_test(each_number_has_a_source_and_a_basis),
        cmocka_unit_test(facts_agree_with_each_other),
        cmocka_unit_test(devices_obey_physics),
        cmocka_unit_test(levels_have_what_their_devices_have),
        cmocka_unit_test(clusters_have_the_sizes_that_are_published),
        cmocka_unit_test(clusters_of_sites_are_what_they_say),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
