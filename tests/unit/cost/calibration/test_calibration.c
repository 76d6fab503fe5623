/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cost/calibration/calibration.h"
#include "cost/calibration/parameters.h"

static orr_arena *arena;
static const orr_catalog *catalog;

static int open_catalog(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL || orr_catalog_open(arena, &catalog, NULL) != ORR_OK;
}

static int close_catalog(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static void every_device_has_one(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < catalog->n_devices; i++) {
        const orr_device *device = catalog->devices[i];
        const orr_calibration *c;
        bool own;
        orr_error err;
        assert_int_equal(orr_calibration_of(device, 0, arena, &c, &err), ORR_OK);
        assert_true(orr_calibration_file_for(device, &own) < orr_n_calibration_files);
        assert_true(c->source[0] != '\0');
        assert_true(c->matmul_bf16 > 0.1 && c->matmul_bf16 <= 1);
        if (own) {
            assert_string_equal(c->name, device->name);
        } else { /* borrowed: nothing is known of its error on this device */
            assert_int_equal(c->basis, ORR_BASIS_ASSUMED);
            assert_true(isnan(c->error_frac) && isnan(c->low_frac) && isnan(c->high_frac));
        }
    }
}

static void each_file_is_of_a_device(void **state)
{
    (void)state;
    for (size_t i = 0; i < orr_n_calibration_files; i++) {
        const orr_catalog_file *file = &orr_calibration_files[i];
        const orr_yaml *document;
        orr_calibration *c;
        orr_error err;
        if (strstr(file->name, "links") != NULL || strstr(file->name, "intervals") != NULL)
            continue; /* shared by all devices */
        assert_int_equal(
            orr_yaml_parse((const char *)file->bytes, file->n, file->name, arena, &document, &err),
            ORR_OK);
        if (orr_calibration_read(document, 0, arena, &c, &err) != ORR_OK)
            fail_msg("%s", err.text);
        assert_non_null(orr_catalog_device(catalog, c->name));
    }
}

static void the_nearest_device_lends(void **state)
{
    (void)state;
    bool own;
    orr_device like = *orr_catalog_device(catalog, "h100_sxm_80g");
    like.name = "somebodys";
    const size_t file = orr_calibration_file_for(&like, &own);
    assert_false(own);
    assert_string_equal(orr_calibration_files[file].name, "calibrations/h100_sxm_80g.yaml");
}

static orr_status read_text(const char *text, const orr_calibration **ret, orr_error *err)
{
    const orr_yaml *document;
    ORR_TRY(orr_yaml_parse(text, strlen(text), "c.yaml", arena, &document, err));
    orr_calibration *c;
    ORR_TRY(orr_calibration_read(document, 0, arena, &c, err));
    *ret = c;
    return ORR_OK;
}

static void what_is_wrong_is_told_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } CASES[] = {
        {"[1]", "c.yaml:1:1: a calibration is a map"},
        {"device: x\nmatmul_bf61: 0.5\n",
         "c.yaml:2:1: a calibration has no 'matmul_bf61'; did you mean"},
        {"device: x\nzebra: 0.5\n", "c.yaml:2:1: a calibration has no 'zebra'"},
        {"memory: 1.5\n", "c.yaml:1:9: memory: a number from 0.001 to 1 is due"},
        {"memory: nan\n", "c.yaml:1:9"},
        {"compute_slowdown: 0.9\n", "compute_slowdown"},
        {"basis: guessed\n", "c.yaml:1:8: basis: fitted or assumed"},
        {"source: [1]\n", "c.yaml:1:9: source: a text is due"},
        {"device: x\nsource: y\nbasis: assumed\n", "is missing"},
        {"device: x\n", "is missing"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const orr_calibration *c = NULL;
        orr_error err = {0};
        assert_int_not_equal(read_text(CASES[i].text, &c, &err), ORR_OK);
        if (strstr(err.text, CASES[i].said) == NULL)
            fail_msg("said: %s; to be said: %s", err.text, CASES[i].said);
        assert_null(c);
    }
}

static orr_job_rates rates_of(const char *cluster, const orr_calibration *c);
static orr_calibration plain(void);

/* The text of a flat file, with one parameter as a map. */
static const char *text_of(const char *memory)
{
    static char text[4096];
    size_t n = 0;
    n += (size_t)snprintf(text, sizeof text, "device: x\nsource: y\nbasis: fitted\nmemory: %s\n",
                          memory);
    for (int i = 0; i < ORR_CALIBRATION_FIELDS; i++)
        if (i != ORR_CALIBRATION_memory && i != ORR_CALIBRATION_stream &&
            i != ORR_CALIBRATION_serving_ns && i != ORR_CALIBRATION_recommendation_ns &&
            i != ORR_CALIBRATION_engine_launch_ns && i != ORR_CALIBRATION_attention_half &&
            i != ORR_CALIBRATION_attention_narrow)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s: %s\n",
                                  orr_calibration_field_name((orr_calibration_field)i),
                                  i == ORR_CALIBRATION_compute_slowdown ? "1.05" : "0.5");
    return text;
}

static void a_parameter_says_how_well_it_is_known(void **state)
{
    (void)state;
    const orr_calibration *c;
    orr_error err;
    const char *text = text_of("{value: 0.8, low: 0.7, high: 0.9, prior: 0.85, yearly: 0.05, "
                               "prior_source: STREAM, rests_on: 12 rows of vtrain, basis: fitted, "
                               "at_bound: true}");
    if (read_text(text, &c, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const orr_calibration_parameter *p = &c->parameters[ORR_CALIBRATION_memory];
    assert_true(p->value == 0.8 && p->low == 0.7 && p->high == 0.9 && p->prior == 0.85);
    assert_string_equal(p->prior_source, "STREAM");
    assert_string_equal(p->rests_on, "12 rows of vtrain");
    assert_true(p->at_bound && p->basis == ORR_BASIS_FITTED);
    assert_true(c->memory == 0.8 && c->software_year == ORR_SOFTWARE_NEWEST);
    /* What an older file lacks. */
    assert_true(c->stream == 0.8 && c->serving_ns == 0 && c->recommendation_ns == c->step_ns);
    assert_true(isnan(c->parameters[ORR_CALIBRATION_matmul_bf16].low));
    assert_int_not_equal(read_text(text_of("{low: 0.7}"), &c, &err), ORR_OK);
    assert_non_null(strstr(err.text, "memory: its value is missing"));
    assert_int_not_equal(read_text(text_of("{value: 0.7, hihg: 1}"), &c, &err), ORR_OK);
    assert_non_null(strstr(err.text, "did you mean 'high'?"));
}

static void software_has_a_year(void **state)
{
    (void)state;
    const orr_yaml *document;
    orr_error err;
    const char *text = text_of("{value: 0.8, yearly: 0.05, until: 2024}");
    assert_int_equal(orr_yaml_parse(text, strlen(text), "c.yaml", arena, &document, &err), ORR_OK);
    double last = 0;
    for (int year = 2015; year < 2030; year++) {
        orr_calibration *c;
        assert_int_equal(orr_calibration_read(document, year, arena, &c, &err), ORR_OK);
        const int known = year < ORR_SOFTWARE_OLDEST   ? ORR_SOFTWARE_OLDEST
                          : year > ORR_SOFTWARE_NEWEST ? ORR_SOFTWARE_NEWEST
                                                       : year,
                  then = known < 2024 ? known : 2024;
        assert_true(fabs(c->memory - 0.8 * exp(0.05 * (then - 2024))) < 1e-12);
        assert_true(c->software_year == known && c->memory >= last && c->attention == 0.5);
        last = c->memory;
    }
}

/* Of every device that is built in: shares of a peak never fall from year to year, times never
 * rise; and an interval holds its value. */
static void newer_software_is_never_worse(void **state)
{
    (void)state;
    static const int TIMES[] = {ORR_CALIBRATION_kernel_ns,      ORR_CALIBRATION_launch_ns,
                                ORR_CALIBRATION_micro_batch_ns, ORR_CALIBRATION_step_ns,
                                ORR_CALIBRATION_serving_ns,     ORR_CALIBRATION_dp_exposed},
                     SHARES[] = {ORR_CALIBRATION_matmul_bf16, ORR_CALIBRATION_matmul_fp8,
                                 ORR_CALIBRATION_attention,   ORR_CALIBRATION_attention_backward,
                                 ORR_CALIBRATION_memory,      ORR_CALIBRATION_stream};
    for (uint32_t i = 0; i < catalog->n_devices; i++) {
        const orr_calibration *newest;
        orr_error err;
        assert_int_equal(orr_calibration_of(catalog->devices[i], 0, arena, &newest, &err), ORR_OK);
        for (int k = 0; k < ORR_CALIBRATION_FIELDS; k++) {
            const orr_calibration_parameter *p = &newest->parameters[k];
            assert_true(isnan(p->low) ||
                        (p->low <= 1.001 * p->value && p->value <= 1.001 * p->high));
        }
        orr_calibration last = orr_calibration_in_year(newest, ORR_SOFTWARE_OLDEST);
        for (int year = ORR_SOFTWARE_OLDEST + 1; year <= ORR_SOFTWARE_NEWEST; year++) {
            orr_calibration now = orr_calibration_in_year(newest, year);
            for (size_t k = 0; k < sizeof TIMES / sizeof *TIMES; k++)
                assert_true(*orr_calibration_number(&now, TIMES[k]) <=
                            *orr_calibration_number(&last, TIMES[k]));
            for (size_t k = 0; k < sizeof SHARES / sizeof *SHARES; k++)
                assert_true(*orr_calibration_number(&now, SHARES[k]) >=
                            *orr_calibration_number(&last, SHARES[k]));
            last = now;
        }
    }
}

/* Overheads and errors are those of the kind of job. */
static void kinds_of_jobs_have_their_own_overheads(void **state)
{
    (void)state;
    orr_error_interval intervals[ORR_JOB_KINDS] = {{0}};
    intervals[ORR_JOB_KIND_DECODE] = (orr_error_interval){-0.2, 0.25, 0.1, 40};
    orr_calibration c = plain();
    c.step_ns = 1;
    c.micro_batch_ns = c.engine_launch_ns = 1;
    c.launch_ns = 2;
    c.micro_batch_ns = 4;
    c.serving_ns = 2;
    c.recommendation_ns = 3;
    c.low_frac = -0.1;
    c.high_frac = 0.1;
    const orr_calibration *of;
    static const double STEP[ORR_JOB_KINDS] = {1, 1, 1, 2, 2, 3};
    for (int kind = 0; kind < ORR_JOB_KINDS; kind++) {
        assert_int_equal(orr_calibration_for_kind(&c, (orr_job_kind)kind, arena, &of, NULL),
                         ORR_OK);
        assert_true(of->step_ns == STEP[kind]);
        assert_true(of->launch_ns == (of->step_ns > 1 ? 1 : 2));
        assert_true((of->micro_batch_ns == 0) == (kind >= ORR_JOB_KIND_PREFILL));
        /* Passes of a serving loop and steps of a recommender have no micro-batches beside. */
        assert_true(of->micro_batch_ns == (STEP[kind] == 1 ? 4 : 0));
        /* An older file knows the errors of training alone. */
        assert_int_equal(isnan(of->low_frac), kind >= ORR_JOB_KIND_PREFILL);
    }
    c.intervals = intervals;
    c.widening = 2;
    assert_int_equal(orr_calibration_for_kind(&c, ORR_JOB_KIND_DECODE, arena, &of, NULL), ORR_OK);
    assert_true(fabs(of->low_frac - (0.8 * 0.8 - 1)) < 1e-12);
    assert_true(fabs(of->high_frac - (1.25 * 1.25 - 1)) < 1e-12 && of->error_frac == 0.1);
}

static orr_status read_links(const char *text, orr_calibration *c, orr_error *err)
{
    const orr_yaml *document;
    ORR_TRY(orr_yaml_parse(text, strlen(text), "links.yaml", arena, &document, err));
    return orr_calibration_read_links(document, arena, c, err);
}

/* Devices share the rates of a technology of links. */
static void links_have_rates_of_their_own(void **state)
{
    (void)state;
    orr_error err = {0};
    orr_calibration c = plain();
    assert_int_equal(read_links("links:\n  NVLink4: {frac: {value: 0.8, low: 0.75}, base_ns: 9000, "
                                "reduction: 0.6}\n",
                                &c, &err),
                     ORR_OK);
    assert_null(orr_calibration_link(&c, "NVLink5"));
    assert_true(orr_calibration_link(&c, "NVLink4")->frac.low == 0.75);
    const orr_job_rates rates = rates_of("dgx_h100_pod", &c);
    const double up = orr_fact_or(&rates.cluster->levels[0].bytes_per_s, NAN),
                 out = orr_fact_or(&rates.cluster->levels[1].bytes_per_s, NAN);
    const int bandwidth = ORR_PROTOCOL_BANDWIDTH;
    assert_true(fabs(rates.network.levels[0].bytes_per_s[bandwidth] / up - 0.8) < 1e-9);
    assert_true(fabs(rates.network.reduction[0].bytes_per_s[bandwidth] / up - 0.48) < 1e-9);
    assert_true(rates.network.levels[0].base_ns[bandwidth] == 9000);
    assert_true(fabs(rates.network.levels[1].bytes_per_s[bandwidth] / out - 0.5) < 1e-9);
    assert_int_not_equal(read_links("links: {NVLink4: {frac: 2, base_ns: 1}}", &c, &err), ORR_OK);
    assert_non_null(strstr(err.text, "frac: a number from 0.001 to 1 is due"));
    assert_int_not_equal(read_links("links: {NVLink4: {frac: 0.5}}", &c, &err), ORR_OK);
    assert_int_not_equal(read_links("links: {NVLink4: 1}", &c, &err), ORR_OK);
    assert_int_not_equal(read_links("links: {NVLink4: {farc: 1}}", &c, &err), ORR_OK);
    assert_int_not_equal(read_links("[1]", &c, &err), ORR_OK);
}

static void a_file_is_as_what_is_built_in(void **state)
{
    (void)state;
    char path[] = "/tmp/orrery-calibration-XXXXXX";
    const orr_calibration *built_in, *loaded;
    orr_error err;
    bool own;
    const orr_device *device = orr_catalog_device(catalog, "a100_sxm_80g");
    const orr_catalog_file *file = &orr_calibration_files[orr_calibration_file_for(device, &own)];
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, file->bytes, file->n) == (ssize_t)file->n);
    close(fd);
    assert_int_equal(orr_calibration_load(path, 0, arena, &loaded, &err), ORR_OK);
    unlink(path);
    assert_int_equal(orr_calibration_of(device, 0, arena, &built_in, &err), ORR_OK);
#define SAME_(name, text) assert_true(loaded->name == built_in->name);
    ORR_CALIBRATION_MAP(SAME_)
#undef SAME_
    assert_int_equal(orr_calibration_load("/no/such/file.yaml", 0, arena, &loaded, &err), ORR_IO);
}

/* Prices. */
static orr_job_rates rates_of(const char *cluster, const orr_calibration *c)
{
    orr_job_rates rates;
    orr_job_rates_init(orr_catalog_cluster(catalog, cluster), c, ORR_ALGORITHM_AUTO, &rates);
    return rates;
}

static orr_calibration plain(void)
{
    return (orr_calibration){.matmul_bf16 = 0.5,
                             .matmul_fp8 = 0.25,
                             .matmul_fp4 = 0.125,
                             .matmul_odd = 1,
                             .matmul_grouped = 1,
                             .attention = 0.5,
                             .attention_backward = 0.25,
                             .memory = 0.5,
                             .stream = 0.5,
                             .scale_up = 0.5,
                             .scale_out = 0.5,
                             .compute_slowdown = 1,
                             .error_frac = NAN,
                             .basis = ORR_BASIS_FITTED};
}

/* 2 M N K operations at the share of the peak, where the tiles fill the multiprocessors of an H100:
 * 132 x 8 blocks of 128 x 256. */
static void a_large_product_runs_at_its_share(void **state)
{
    (void)state;
    const orr_calibration c = plain();
    const orr_job_rates rates = rates_of("dgx_h100", &c);
    const double m = 132 * 128, n = 8 * 256, k = 65536, flops = 2 * m * n * k;
    orr_work work = {.family = ORR_FAMILY_GEMM,
                     .dtype = ORR_DTYPE_BF16,
                     .n_dims = 4,
                     .dims = {1, (int64_t)m, (int64_t)n, (int64_t)k},
                     .flops = flops};
    const orr_price bf16 = orr_job_rates_kernel(&rates, &work, false);
    assert_int_equal(bf16.basis, ORR_BASIS_FITTED);
    assert_true(fabs((double)bf16.ns / (1e9 * flops / (0.5 * 989e12)) - 1) < 1e-3);
    work.dtype = ORR_DTYPE_FP8;
    const orr_price fp8 = orr_job_rates_kernel(&rates, &work, false);
    assert_true(fabs((double)fp8.ns / (1e9 * flops / (0.25 * 1979e12)) - 1) < 1e-3);
    work.dims[2] += 8; /* some columns more: 17 waves of 128 x 128 instead of 16 */
    assert_true(llabs(orr_job_rates_kernel(&rates, &work, false).ns - fp8.ns / 16 * 17) < 1000);
}

static void bytes_bound_what_has_few_flops(void **state)
{
    (void)state;
    const orr_calibration c = plain();
    const orr_job_rates rates = rates_of("dgx_h100", &c);
    const orr_work work = {.family = ORR_FAMILY_ELEMENTWISE,
                           .dtype = ORR_DTYPE_BF16,
                           .flops = 1e6,
                           .read_bytes = 2e9,
                           .write_bytes = 1e9};
    const double ns = 1e9 * 3e9 / (0.5 * 3350e9);
    assert_true(fabs((double)orr_job_rates_kernel(&rates, &work, false).ns - ns) < 2);
}

static void attention_has_shares_of_its_own(void **state)
{
    (void)state;
    const orr_calibration c = plain();
    const orr_job_rates rates = rates_of("dgx_h100", &c);
    orr_work work = {.family = ORR_FAMILY_ATTENTION,
                     .dtype = ORR_DTYPE_BF16,
                     .n_dims = 5,
                     .dims = {1, 32, 8192, 8192, 128},
                     .flops = 1e13};
    const int64_t forward = orr_job_rates_kernel(&rates, &work, false).ns;
    work.backward = true;
    const int64_t backward = orr_job_rates_kernel(&rates, &work, false).ns;
    assert_true(llabs(backward - 2 * forward) < 10);
    assert_true(fabs((double)forward / (1e9 * 1e13 / (0.5 * 989e12)) - 1) < 1e-6);
}

static void nothing_to_do_takes_no_time(void **state)
{
    (void)state;
    orr_calibration c = plain();
    c.kernel_ns = 1000;
    const orr_job_rates rates = rates_of("dgx_h100", &c);
    const orr_work work = {.family = ORR_FAMILY_OTHER};
    const orr_price price = orr_job_rates_kernel(&rates, &work, false);
    assert_int_equal(price.ns, 0);
    assert_int_equal(price.basis, ORR_BASIS_NONE);
}

/* Whose rows do not begin at multiples of 16 bytes. */
static void odd_rows_are_slow(void **state)
{
    (void)state;
    orr_calibration c = plain();
    c.matmul_odd = 0.5;
    const orr_job_rates rates = rates_of("dgx_h100", &c);
    orr_work work = {.family = ORR_FAMILY_GEMM,
                     .dtype = ORR_DTYPE_BF16,
                     .n_dims = 4,
                     .dims = {1, 8192, 50304, 4096}};
    orr_work_complete(&work);
    const int64_t even = orr_job_rates_kernel(&rates, &work, false).ns;
    work.dims[2] = 50303;
    assert_true(llabs(orr_job_rates_kernel(&rates, &work, false).ns - 2 * even) < 10);
}

/* Computation takes as long as its launches where these take longer, and a little longer than
 * either where both take as long. */
static void a_host_that_launches_slowly_is_waited_for(void **state)
{
    (void)state;
    orr_calibration c = plain();
    c.launch_ns = 1000;
    const orr_job_rates rates = rates_of("dgx_h100", &c);
    assert_int_equal(orr_job_rates_launch_wait(&rates, 10, 1000000), 0);
    assert_true(llabs(orr_job_rates_launch_wait(&rates, 10000, 1000000) - 9000000) < 1000);
    assert_true(fabs((double)orr_job_rates_launch_wait(&rates, 1000, 1000000) -
                     1e6 * (pow(2, 0.25) - 1)) < 1);
    assert_int_equal(orr_job_rates_launch_wait(&rates, 0, 5), 0);
    assert_int_equal(orr_job_rates_launch_wait(&rates, 7, 0), 7000);
}

static double seconds_of_attention(double half, double narrow, int64_t queries, int64_t head,
                                   double causal)
{
    orr_calibration c = plain();
    c.attention_half = half;
    c.attention_narrow = narrow;
    const orr_job_rates rates = rates_of("dgx_h100", &c);
    orr_work work = {.family = ORR_FAMILY_ATTENTION,
                     .dtype = ORR_DTYPE_BF16,
                     .n_dims = 5,
                     .dims = {8, 16, queries, 4096, head}};
    orr_work_complete(&work);
    work.flops *= causal;
    return 1e-9 * (double)orr_job_rates_kernel(&rates, &work, false).ns;
}

/* Causal attention over S keys is as short as full attention over S / 2; shares are those of heads
 * of 128 columns. */
static void short_and_narrow_attention_is_slow(void **state)
{
    (void)state;
    const double usual = seconds_of_attention(0, 0, 4096, 128, 1);
    assert_true(fabs(seconds_of_attention(4096, 0, 4096, 128, 1) / usual - 2) < 1e-3);
    assert_true(fabs(seconds_of_attention(2048, 0, 4096, 128, 0.5) / usual - 1) < 1e-3);
    assert_true(fabs(seconds_of_attention(0, 64, 4096, 128, 1) / usual - 1) < 1e-3);
    assert_true(fabs(seconds_of_attention(0, 64, 4096, 64, 1) / usual - 0.5 * 2 / 1.5) < 1e-3);
    /* One query: its keys are read, and that is all. */
    assert_true(seconds_of_attention(4096, 64, 1, 128, 1) == seconds_of_attention(0, 0, 1, 128, 1));
}

static void prices_never_fall_when_a_dim_grows(void **state)
{
    (void)state;
    const orr_calibration *c;
    orr_error err;
    assert_int_equal(
        orr_calibration_of(orr_catalog_device(catalog, "h100_sxm_80g"), 0, arena, &c, &err),
        ORR_OK);
    const orr_job_rates rates = rates_of("dgx_h100", c);
    for (int dim = 0; dim < 4; dim++) {
        int64_t last = 0; /* odd sizes are dearer than the next even one: above */
        for (int64_t size = 8; size < 40000; size += 8 * (1 + size / 56)) {
            orr_work work = {.family = ORR_FAMILY_GEMM,
                             .dtype = ORR_DTYPE_BF16,
                             .n_dims = 4,
                             .dims = {1, 512, 512, 512}};
            work.dims[dim] = size;
            orr_work_complete(&work);
            const int64_t ns = orr_job_rates_kernel(&rates, &work, false).ns;
            if (ns < last)
                fail_msg("dim %d of %lld: %lld ns, before %lld", dim, (long long)size,
                         (long long)ns, (long long)last);
            last = ns;
        }
    }
}

/* Rows of experts end anywhere in a block: half of one more is computed on average, of 128. */
static void rows_of_experts_are_uneven(void **state)
{
    (void)state;
    orr_calibration c = plain();
    c.matmul_grouped = 1;
    const orr_job_rates rates = rates_of("dgx_h100", &c);
    int64_t last = 0;
    for (int64_t rows = 8; rows < 20000; rows += 8 * (1 + rows / 56)) {
        orr_work work = {.family = ORR_FAMILY_GEMM,
                         .dtype = ORR_DTYPE_BF16,
                         .n_dims = 4,
                         .dims = {64, rows, 4096, 4096},
                         .op = "grouped_matmul"};
        orr_work_complete(&work);
        const double ns = (double)orr_job_rates_kernel(&rates, &work, false).ns;
        work.backward = true; /* gradients of weights have whole blocks */
        const double even = (double)orr_job_rates_kernel(&rates, &work, false).ns;
        assert_true((int64_t)ns >= last);
        if (rows % 256 == 0)
            assert_true(ns > even && ns < (1 + 140.0 / (double)rows) * even);
        last = (int64_t)ns;
    }
}

static const orr_span HOST = {.n_ranks = 8, .n_levels = 2, .width = {8, 1}, .even = true};
static const orr_span HOSTS = {
    .n_ranks = 256, .n_levels = 2, .width = {8, 32}, .top = 1, .even = true};

static void a_large_gather_takes_its_bytes(void **state)
{
    (void)state;
    const orr_calibration c = plain();
    const orr_job_rates rates = rates_of("dgx_h100_pod", &c);
    const int64_t bytes = INT64_C(16) << 30;
    const double up = 1e9 * 7 / 8 * (double)bytes / (0.5 * 450e9),
                 out = 1e9 * (double)bytes * 31 / 32 / 8 / (0.5 * 50e9);
    const orr_price host = orr_job_rates_collective(&rates, &HOST, ORR_COLL_ALL_GATHER, bytes),
                    hosts = orr_job_rates_collective(&rates, &HOSTS, ORR_COLL_ALL_GATHER, bytes);
    assert_int_equal(host.basis, ORR_BASIS_FITTED);
    assert_true(fabs((double)host.ns / up - 1) < 0.01);
    assert_true((double)hosts.ns > out * 0.99);
}

/* Reduction in the switch is dearer than its S bytes, and still cheaper than a ring's 2 S. */
static void switches_reduce_within_the_domain(void **state)
{
    (void)state;
    const orr_calibration c = plain();
    const orr_job_rates rates = rates_of("dgx_h100", &c);
    orr_span host = HOST;
    host.n_levels = 1;
    const int64_t bytes = INT64_C(1) << 30;
    const orr_price price = orr_job_rates_collective(&rates, &host, ORR_COLL_ALL_REDUCE, bytes);
    const double once = 1e9 * (double)bytes / (0.5 * 450e9);
    assert_true((double)price.ns > 1.2 * once && (double)price.ns < 1.75 * once);
}

/* Technology decides which constants hold, so that no bandwidth turns a network into NVLink. */
static void a_wider_network_is_never_dearer(void **state)
{
    (void)state;
    orr_calibration c = plain();
    c.scale_out = 0.9;
    c.scale_up = 0.4;
    c.scale_up_ns = 100e3;
    orr_level levels[2];
    orr_cluster cluster = *orr_catalog_cluster(catalog, "dgx_h100_pod");
    memcpy(levels, cluster.levels, sizeof levels);
    cluster.levels = levels;
    static const orr_collective KINDS[] = {ORR_COLL_ALL_REDUCE,     ORR_COLL_ALL_GATHER,
                                           ORR_COLL_REDUCE_SCATTER, ORR_COLL_ALL_TO_ALL,
                                           ORR_COLL_BROADCAST,      ORR_COLL_SEND};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        int64_t last = INT64_MAX;
        for (double bytes_per_s = 10e9; bytes_per_s < 2e12; bytes_per_s *= 1.1) {
            orr_job_rates rates;
            levels[1].bytes_per_s.value = bytes_per_s;
            orr_job_rates_init(&cluster, &c, ORR_ALGORITHM_AUTO, &rates);
            const int64_t ns =
                orr_job_rates_collective(&rates, &HOSTS, KINDS[i], INT64_C(64) << 20).ns;
            if (ns > last)
                fail_msg("%s: %lld ns at %.0f bytes/s, %lld at less", orr_collective_name(KINDS[i]),
                         (long long)ns, bytes_per_s, (long long)last);
            last = ns;
        }
    }
}

/* Expected maxima of normal samples: Teichroew, Annals of Mathematical Statistics 27, 1956. */
static void ranks_wait_for_the_slowest(void **state)
{
    (void)state;
    static const struct {
        double n, expected, most;
    } KNOWN[] = {{1, 0, 0}, {2, 0.5642, 0.03}, {8, 1.4236, 0.011}, {20, 1.8675, 0.005}};
    orr_calibration c = plain();
    assert_true(orr_job_jitter(&c, 1e4) == 1); /* no jitter */
    c.jitter_frac = 1;
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        assert_true(fabs(orr_job_jitter(&c, KNOWN[i].n) - 1 - KNOWN[i].expected) <= KNOWN[i].most);
    for (double n = 2, last = 1; n < 1e9; n *= 2) {
        const double now = orr_job_jitter(&c, n);
        assert_true(now > last && now - 1 < sqrt(2 * log(n)));
        last = now;
    }
    const double most = (orr_job_jitter(&c, 1e300) - 1) / sqrt(2 * log(1e300));
    assert_true(most > 0.99 && most < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_has_one),
        cmocka_unit_test(each_file_is_of_a_device),
        cmocka_unit_test(the_nearest_device_lends),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line),
        cmocka_unit_test(a_file_is_as_what_is_built_in),
        cmocka_unit_test(a_parameter_says_how_well_it_is_known),
        cmocka_unit_test(software_has_a_year),
        cmocka_unit_test(newer_software_is_never_worse),
        cmocka_unit_test(kinds_of_jobs_have_their_own_overheads),
        cmocka_unit_test(links_have_rates_of_their_own),
        cmocka_unit_test(a_large_product_runs_at_its_share),
        cmocka_unit_test(bytes_bound_what_has_few_flops),
        cmocka_unit_test(attention_has_shares_of_its_own),
        cmocka_unit_test(nothing_to_do_takes_no_time),
        cmocka_unit_test(odd_rows_are_slow),
        cmocka_unit_test(a_host_that_launches_slowly_is_waited_for),
        cmocka_unit_test(short_and_narrow_attention_is_slow),
        cmocka_unit_test(prices_never_fall_when_a_dim_grows),
        cmocka_unit_test(rows_of_experts_are_uneven),
        cmocka_unit_test(a_large_gather_takes_its_bytes),
        cmocka_unit_test(switches_reduce_within_the_domain),
        cmocka_unit_test(a_wider_network_is_never_dearer),
        cmocka_unit_test(ranks_wait_for_the_slowest),
    };
    return cmocka_run_group_tests_name("calibration", tests, open_catalog, close_catalog);
}
