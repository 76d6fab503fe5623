/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include <orrery/fit.h>

static orr_device one;
static const orr_device *const DEVICES[] = {&one};
static const char *const MATCHES[] = {"ACME One"};
static const orr_catalog catalog = {.n_devices = 1, .devices = DEVICES};

/* A product with its kernel, a copy of no duration, a kernel of which nothing is known. */
static small begin(const char *device_name)
{
    small s = small_begin();
    one = small_device();
    one.matches = MATCHES;
    one.n_matches = 1;
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t op = small_node(&s, ORR_NODE_HOST_OP, "aten::mm", cpu, 0, 100, ORR_NONE);
    small_shapes(&s, op, "[[64, 16], [16, 32]]", "[\"float\", \"float\"]", NULL);
    const uint32_t call = small_node(&s, ORR_NODE_RUNTIME, "cudaLaunchKernel", cpu, 10, 5, op);
    small_work(&s, ORR_NODE_COMPUTE, "ampere_sgemm_32x128_nn", gpu, 20, 5000, call);
    const uint32_t copy = small_work(&s, ORR_NODE_COPY, "Memcpy HtoD", gpu, 6000, 0, ORR_NONE);
    assert_int_equal(orr_builder_copy(s.builder, copy, &(orr_copy){.bytes = 4096}, &s.err), ORR_OK);
    small_work(&s, ORR_NODE_COMPUTE, "mystery", gpu, 7000, 10, ORR_NONE);
    orr_builder_recording(
        s.builder,
        &(orr_recording){.rank = 0, .world_size = 1, .device_name = small_str(&s, device_name)});
    return s;
}

static void kernels_of_known_work_are_taken(void **state)
{
    (void)state;
    small s = begin("ACME One 80GB");
    orr_samples *samples = orr_samples_new();
    orr_samples_report report;
    size_t n;

    assert_int_equal(
        orr_samples_add_job(samples, small_job(&s), &catalog, NULL, "a/b.json", &report, &s.err),
        ORR_OK);
    const orr_cost_sample *rows = orr_samples_rows(samples, &n);
    assert_int_equal(report.taken, 1);
    assert_int_equal(report.without_time, 1);
    assert_int_equal(report.without_work, 1);
    assert_int_equal(n, 1);
    assert_ptr_equal(rows[0].device, &one);
    assert_int_equal(rows[0].work.family, ORR_FAMILY_GEMM);
    assert_true(rows[0].ns == 5000);
    assert_true(rows[0].work.flops == 2.0 * 64 * 16 * 32);
    orr_samples_free(samples);
    small_end(&s);
}

static void a_device_that_is_not_known_has_to_be_named(void **state)
{
    (void)state;
    static const char *const NAMES[][2] = {{"Unheard Of", "knows no device 'Unheard Of'"},
                                           {"", "does not say which device"}};
    for (int i = 0; i < 2; i++) {
        small s = begin(NAMES[i][0]);
        orr_samples *samples = orr_samples_new();
        orr_samples_report report;
        size_t n;
        const orr_job *job = small_job(&s);

        assert_int_equal(orr_samples_add_job(samples, job, &catalog, NULL, "b", &report, &s.err),
                         ORR_NOT_FOUND);
        assert_non_null(strstr(s.err.text, NAMES[i][1]));
        orr_samples_rows(samples, &n);
        assert_int_equal(n, 0);
        assert_int_equal(orr_samples_add_job(samples, job, &catalog, &one, "b", &report, &s.err),
                         ORR_OK);
        orr_samples_rows(samples, &n);
        assert_int_equal(n, 1);
        orr_samples_free(samples);
        small_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_of_known_work_are_taken),
        cmocka_unit_test(a_device_that_is_not_known_has_to_be_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
