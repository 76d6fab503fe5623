/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "machine/catalog/entries.h"

static void check_fact(const orr_fact *fact)
{
    for (; fact != NULL; fact = fact->conflict) {
        FUZZ_CHECK(fact->source != NULL && fact->note != NULL);
        FUZZ_CHECK(isnan(fact->value) == (fact->basis == ORR_FACT_UNKNOWN));
        FUZZ_CHECK(fact->basis == ORR_FACT_UNKNOWN ||
                   (isfinite(fact->value) && fact->value >= 0 && fact->source[0] != '\0'));
    }
}

static void check_facts(const void *entry, const orr_field *(*fields_of)(size_t *))
{
    size_t n;
    const orr_field *fields = fields_of(&n);
    for (size_t f = 0; f < n; f++) {
        const char *at = (const char *)entry + fields[f].offset;
        const int n_facts =
            fields[f].kind == ORR_FIELD_DTYPES ? ORR_DTYPES : fields[f].kind == ORR_FIELD_FACT;
        for (int i = 0; i < n_facts; i++)
            check_fact((const orr_fact *)at + i);
        if (fields[f].kind == ORR_FIELD_TEXT)
            FUZZ_CHECK(*(const char *const *)at != NULL);
    }
}

static void check_wire(const orr_rdma_transport *transport)
{
    FUZZ_CHECK(transport == NULL || (transport->loss_frac >= 0 && transport->loss_frac < 1));
    FUZZ_CHECK(transport == NULL || transport->failed == 0 || transport->failed < transport->paths);
    FUZZ_CHECK(transport == NULL ||
               (isfinite(transport->segment_bytes) && transport->segment_bytes >= 0));
}

/* Sizes multiply, or units end where they say. */
static void check_levels(const orr_cluster *cluster)
{
    uint64_t devices = 1;
    bool uneven = false;
    FUZZ_CHECK(cluster->device != NULL && cluster->n_levels > 0);
    FUZZ_CHECK(cluster->n_levels <= ORR_LEVELS_MAX);
    for (uint32_t l = 0; l < cluster->n_levels; l++) {
        const orr_level *level = &cluster->levels[l];
        uneven |= level->ends != NULL || devices * level->size != level->devices;
        FUZZ_CHECK(level->name != NULL && level->technology != NULL);
        FUZZ_CHECK(level->devices <= devices * level->size && level->devices > 0);
        FUZZ_CHECK(!uneven || cluster->n_sites > 0);
        FUZZ_CHECK(level->bytes_per_s.value > 0 && level->oversubscription.value >= 1);
        check_facts(level, orr_level_fields);
        check_wire(level->transport);
        devices = uneven ? level->devices : devices * level->size;
    }
    FUZZ_CHECK(cluster->n_devices == devices);
}

static void check_sites(const orr_cluster *cluster, orr_arena *arena)
{
    uint32_t devices = 0, some[ORR_SITES_MAX];
    const orr_cluster *part;
    FUZZ_CHECK(cluster->n_sites >= 2 && cluster->n_sites <= ORR_SITES_MAX);
    FUZZ_CHECK(cluster->n_cuts == cluster->n_sites * (cluster->n_sites - 1) / 2);
    for (uint32_t s = 0; s < cluster->n_sites; s++) {
        const orr_device_range unit = orr_cluster_unit(cluster, cluster->site_level, devices);
        check_facts(&cluster->sites[s], orr_site_fields);
        FUZZ_CHECK(unit.first == devices && orr_cluster_site(cluster, devices) == s);
        devices += cluster->sites[s].devices;
        FUZZ_CHECK(unit.end == devices && cluster->sites[s].device != NULL);
        some[s] = cluster->sites[s].devices / (1 + s % 3);
    }
    FUZZ_CHECK(devices == cluster->n_devices);
    for (uint32_t i = 0; i < cluster->n_cuts; i++) {
        const orr_site_link *cut = &cluster->cuts[i];
        check_facts(cut, orr_site_link_fields);
        check_wire(cut->transport);
        FUZZ_CHECK(cut->a < cut->b && cut->b < cluster->n_sites && cut->bytes_per_s.value > 0);
        FUZZ_CHECK(cut->oversubscription.value >= 1);
    }
    some[0] += some[0] == 0;
    FUZZ_CHECK(orr_cluster_select_sites(cluster, some, arena, &part, NULL) == ORR_OK);
    check_levels(part);
}

static void check_cluster(const orr_cluster *cluster, orr_arena *arena)
{
    check_levels(cluster);
    if (cluster->n_sites > 0)
        check_sites(cluster, arena);
    const uint32_t ends[] = {0, cluster->n_devices - 1};
    const orr_cluster_factors factors = {
        .latency = 2, .bandwidth = 3, .oversubscription = 0.5, .compute = 2};
    orr_span span;
    const orr_cluster *half, *scaled;
    FUZZ_CHECK(orr_cluster_span(cluster, ends, 1 + (cluster->n_devices > 1), &span, NULL) ==
               ORR_OK);
    FUZZ_CHECK(orr_cluster_resize(cluster, (cluster->n_devices + 1) / 2, arena, &half, NULL) ==
               ORR_OK);
    FUZZ_CHECK(half->n_devices <= cluster->n_devices);
    FUZZ_CHECK(orr_cluster_scaled(cluster, &factors, arena, &scaled, NULL) == ORR_OK);
}

/* A catalogue file in which each number is assumed unless it says more. */
static orr_status read_file(const orr_yaml *root, orr_arena *arena, orr_catalog_builder *shelf,
                            orr_error *err)
{
    const orr_scope scope = {.basis = ORR_FACT_ASSUMED, .source = "input", .arena = arena};
    ORR_TRY(orr_catalog_file_read_parts(root, &scope, shelf, err));
    return orr_catalog_file_read_clusters(root, &scope, shelf, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_catalog_builder shelf = {.arena = arena};
    const orr_yaml *root;
    orr_error err = {0};
    if (orr_yaml_parse((const char *)bytes, len, "input.yaml", arena, &root, &err) == ORR_OK) {
        const orr_status status = read_file(root, arena, &shelf, &err);
        FUZZ_CHECK(status == ORR_OK || status == ORR_INVALID || status == ORR_LIMIT);
        FUZZ_CHECK(status == ORR_OK || strncmp(err.text, "input.yaml:", 11) == 0);
        for (size_t i = 0; i < shelf.devices.n; i++)
            check_facts(shelf.devices.at[i], orr_device_fields);
        for (size_t i = 0; i < shelf.tiers.n; i++)
            check_facts(shelf.tiers.at[i], orr_tier_fields);
        for (size_t i = 0; i < shelf.links.n; i++)
            check_facts(shelf.links.at[i], orr_link_fields);
        for (size_t i = 0; i < shelf.clusters.n; i++)
            check_cluster(shelf.clusters.at[i], arena);
    }
    orr_catalog_builder_done(&shelf);
    orr_arena_free(arena);
    return 0;
}
