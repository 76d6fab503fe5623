/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_text.h"

#include "../io/files.h"

static const orr_catalog *catalog;

static int open_catalog(void **state)
{
    return make_folder(state) != 0 ||
           (catalog == NULL && orr_catalog_open(arena, &catalog, NULL) != ORR_OK);
}

static const char *with_text(void **state, const char *text)
{
    const char *path = in_folder(state, "mine.yaml");
    write_file(path, text, strlen(text));
    return path;
}

static void by_name_of_the_catalogue(void **state)
{
    (void)state;
    const orr_cluster *cluster = NULL;
    const orr_device *device = NULL;
    assert_int_equal(orr_cluster_load(catalog, "DGX-H100", arena, &cluster, NULL), ORR_OK);
    assert_ptr_equal(cluster, orr_catalog_cluster(catalog, "dgx_h100"));
    assert_int_equal(orr_device_load(catalog, "h100_sxm_80g", arena, &device, NULL), ORR_OK);
    assert_ptr_equal(device, cluster->device);
}

static void a_name_that_is_not_there_has_a_neighbour(void **state)
{
    (void)state;
    const orr_cluster *cluster = NULL;
    const orr_device *device = NULL;
    orr_error err = {0};
    assert_int_equal(orr_cluster_load(catalog, "dgx_h10", arena, &cluster, &err), ORR_NOT_FOUND);
    assert_string_equal(err.text, "no cluster 'dgx_h10'; did you mean 'dgx_h100'?");
    assert_int_equal(orr_device_load(catalog, "zzzzzzzz", arena, &device, &err), ORR_NOT_FOUND);
    assert_string_equal(err.text,
                        "no device 'zzzzzzzz'; `orrery hw` lists what there is, and a name "
                        "with a slash or ending in .yaml is a file");
    assert_null(cluster);
    assert_null(device);
}

static void a_file_names_what_the_catalogue_has(void **state)
{
    const orr_cluster *cluster = NULL;
    orr_error err = {0};
    const char *path =
        with_text(state, "clusters:\n  mine:\n    device: h100_sxm_80g\n    levels:\n"
                         "      - {name: host, size: 4, technology: NVLink4}\n"
                         "      - {name: rack, size: 2, bandwidth: 100GB/s}\n");
    if (orr_cluster_load(catalog, path, arena, &cluster, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(cluster->name, "mine");
    assert_int_equal(cluster->n_devices, 8);
    assert_ptr_equal(cluster->device, orr_catalog_device(catalog, "h100_sxm_80g"));
    assert_fact(&cluster->levels[0].bytes_per_s, 450e9, ORR_FACT_PUBLISHED,
                "stas00/ml-engineering network/README.md");
    assert_fact(&cluster->levels[1].bytes_per_s, 100e9, ORR_FACT_ASSUMED, path);
}

static void a_file_may_bring_its_own_device(void **state)
{
    const orr_cluster *cluster = NULL;
    const orr_device *device = NULL;
    const char *path = with_text(
        state, "devices:\n  h100_sxm_80g: {vendor: me, kind: gpu, memory_bandwidth: 1GB/s}\n"
               "clusters:\n  mine: {device: h100_sxm_80g, levels: [{name: host, size: 4, "
               "bandwidth: 1GB/s}]}\n");
    assert_int_equal(orr_cluster_load(catalog, path, arena, &cluster, NULL), ORR_OK);
    assert_string_equal(cluster->device->vendor, "me");
    assert_int_equal(orr_device_load(catalog, path, arena, &device, NULL), ORR_OK);
    assert_string_equal(device->vendor, "me");
    assert_string_equal(orr_catalog_device(catalog, "h100_sxm_80g")->vendor, "NVIDIA");
}

static void a_file_holds_the_one_that_is_wanted(void **state)
{
    const orr_cluster *cluster = NULL;
    const orr_device *device = NULL;
    orr_error err = {0};
    char want[5000];
    const char *path = with_text(state, "links: {}\n");
    (void)snprintf(want, sizeof want, "%s:1:1: has 0 clusters where one is needed", path);
    assert_int_equal(orr_cluster_load(catalog, path, arena, &cluster, &err), ORR_INVALID);
    assert_string_equal(err.text, want);
    path = with_text(state, "devices:\n  a: {vendor: v, kind: k, memory_bandwidth: 1GB/s}\n"
                            "  b: {vendor: v, kind: k, memory_bandwidth: 1GB/s}\n");
    (void)snprintf(want, sizeof want, "%s:1:1: has 2 devices where one is needed", path);
    assert_int_equal(orr_device_load(catalog, path, arena, &device, &err), ORR_INVALID);
    assert_string_equal(err.text, want);
    path = with_text(state, "clusters:\n  mine: {devise: x}\n");
    (void)snprintf(want, sizeof want,
                   "%s:2:10: cluster 'mine' has no 'devise'; did you mean 'device'?", path);
    assert_int_equal(orr_cluster_load(catalog, path, arena, &cluster, &err), ORR_INVALID);
    assert_string_equal(err.text, want);
    assert_int_equal(orr_cluster_load(catalog, "./none", arena, &cluster, &err), ORR_IO);
    assert_null(cluster);
    assert_null(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(by_name_of_the_catalogue, open_catalog, remove_folder),
        cmocka_unit_test_setup_teardown(a_name_that_is_not_there_has_a_neighbour, open_catalog,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_file_names_what_the_catalogue_has, open_catalog,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_file_may_bring_its_own_device, open_catalog,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_file_holds_the_one_that_is_wanted, open_catalog,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
