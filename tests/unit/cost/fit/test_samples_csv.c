/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

#include "../../io/files.h"

static orr_device one, two;
static const orr_device *const DEVICES[] = {&one, &two};
static const char *const MATCHES[] = {"ACME Two"};
static orr_catalog catalog = {.n_devices = 2, .devices = DEVICES};

static int setup(void **state)
{
    one = some_device("one", 100e12, 1e12);
    two = some_device("two", 200e12, 2e12);
    two.matches = MATCHES;
    two.n_matches = 1;
    return make_folder(state);
}

static orr_status read_text(void **state, const char *text, const orr_device *device,
                            orr_samples *samples, orr_samples_report *report, orr_error *err)
{
    const char *path = in_folder(state, "kernels.csv");
    write_file(path, text, strlen(text));
    return orr_samples_add_csv(samples, path, &catalog, device, report, err);
}

static void columns_may_stand_in_any_order(void **state)
{
    orr_samples *samples = orr_samples_new();
    orr_samples_report report;
    orr_error err;
    size_t n;

    assert_int_equal(read_text(state,
                               "# measured on a Monday\r\n"
                               "ns,note,dims,op,family,device,dtype,backward\r\n"
                               "12.5e3,x,1x64x32x16,aten::mm,gemm,one,fp16,1\r\n"
                               "\r\n"
                               "7000,\"a \"\"b\"\", c\",4096,,elementwise,ACME Two,fp32,\r\n"
                               "0,,4096,,elementwise,two,fp32,0",
                               NULL, samples, &report, &err),
                     ORR_OK);
    assert_int_equal(report.taken, 2);
    assert_int_equal(report.without_time, 1);
    const orr_cost_sample *rows = orr_samples_rows(samples, &n);
    assert_int_equal(n, 2);
    assert_ptr_equal(rows[0].device, &one);
    assert_true(rows[0].ns == 12500);
    assert_int_equal(rows[0].work.family, ORR_FAMILY_GEMM);
    assert_int_equal(rows[0].work.dtype, ORR_DTYPE_FP16);
    assert_int_equal(rows[0].work.n_dims, 4);
    assert_int_equal(rows[0].work.dims[1], 64);
    assert_int_equal(rows[0].work.dims[3], 16);
    assert_true(rows[0].work.backward);
    assert_string_equal(rows[0].work.op, "aten::mm");
    assert_true(rows[0].work.flops == 2.0 * 64 * 32 * 16);
    assert_ptr_equal(rows[1].device, &two);
    assert_false(rows[1].work.backward);
    assert_string_equal(samples->sources.at[0], "kernels.csv");
    orr_samples_free(samples);
}

static void amounts_and_copies(void **state)
{
    orr_samples *samples = orr_samples_new();
    orr_samples_report report;
    orr_error err;
    size_t n;

    assert_int_equal(
        read_text(state,
                  "family,dtype,dims,ns,flops,bytes,read_bytes,write_bytes,copy,kernel\n"
                  "other,fp32,,900,1e6,3000,,,,fused_kernel\n"
                  "other,fp32,,900,,,1000,500,,fused_kernel\n"
                  "copy,int8,4096,2000,,,,,htod,\n"
                  "other,fp32,,900,,,,,,\n",
                  &one, samples, &report, &err),
        ORR_OK);
    const orr_cost_sample *rows = orr_samples_rows(samples, &n);
    assert_int_equal(n, 3);
    assert_int_equal(report.without_work, 1);
    assert_true(rows[0].work.flops == 1e6);
    assert_true(rows[0].work.read_bytes + rows[0].work.write_bytes == 3000);
    assert_true(rows[1].work.read_bytes == 1000 && rows[1].work.write_bytes == 500);
    assert_string_equal(rows[1].work.kernel, "fused_kernel");
    assert_int_equal(rows[2].work.copy, ORR_COPY_HTOD);
    orr_samples_free(samples);
}

/* What is wrong is said with its line, and nothing of the file is kept. */
static void faults_are_told_with_their_line(void **state)
{
#define HEADER "device,family,dtype,dims,ns,backward,copy,bytes,read_bytes\n"
    static const struct {
        const char *text, *says;
        orr_status status;
    } CASES[] = {
        {"", "it is empty", ORR_PARSE},
        {"# nothing\n", "it is empty", ORR_PARSE},
        {"device,family,dtype,dims\n", ":1: no column 'ns'", ORR_INVALID},
        {"family,dtype,dims,ns\n", ":1: no column 'device'", ORR_INVALID},
        {HEADER "three,gemm,fp16,1x2x3x4,5,,,,\n", ":2: device: the catalogue knows no 'three'",
         ORR_NOT_FOUND},
        {HEADER "one,gem,fp16,1x2x3x4,5,,,,\n", ":2: family: 'gem'", ORR_INVALID},
        {HEADER "one,gemm,half,1x2x3x4,5,,,,\n", ":2: dtype: 'half'", ORR_INVALID},
        {HEADER "one,gemm,fp16,2x3x4,5,,,,\n", ":2: dims: '2x3x4' are not the 4 of gemm",
         ORR_INVALID},
        {HEADER "one,gemm,fp16,1x2x3x4x5x6x7x8x9,5,,,,\n", "are not the 4 of gemm", ORR_INVALID},
        {HEADER "one,gemm,fp16,1x2x3x,5,,,,\n", ":2: dims: '1x2x3x' ends in an x", ORR_INVALID},
        {HEADER "one,gemm,fp16,1x2x3x0,5,,,,\n", ":2: dims: '1x2x3x0' is not like", ORR_INVALID},
        {HEADER "one,gemm,fp16,1x2x3x4.5,5,,,,\n", "is not like", ORR_INVALID},
        {HEADER "one,gemm,fp16,1x2x3x99999999999999999999,5,,,,\n", "is not like", ORR_INVALID},
        {HEADER "one,gemm,fp16,1x2x3x4,-5,,,,\n", ":2: ns: '-5' is not a number", ORR_INVALID},
        {HEADER "one,gemm,fp16,1x2x3x4,nan,,,,\n", ":2: ns: 'nan'", ORR_INVALID},
        {HEADER "one,gemm,fp16,1x2x3x4,1e999,,,,\n", ":2: ns: '1e999'", ORR_INVALID},
        {HEADER "one,gemm,fp16,1x2x3x4,5,2,,,\n", ":2: backward: '2'", ORR_INVALID},
        {HEADER "one,copy,int8,4,5,,up,,\n", ":2: copy: 'up'", ORR_INVALID},
        {HEADER "one,copy,int8,4,5,,,7,7\n", ":2: bytes and read_bytes", ORR_INVALID},
        {HEADER "one,gemm,fp16,1x2x3x4,5\n", ":2: 5 fields, the header has 9", ORR_PARSE},
        {HEADER "\"one,gemm,fp16,1x2x3x4,5,,,,\n", ":2: field 1: its quotes do not end", ORR_PARSE},
        {HEADER "\"one\"x,gemm,fp16,1x2x3x4,5,,,,\n", ":2: field 1", ORR_PARSE},
        {HEADER "one,gemm,fp16,1x2x3x4,5,,,,\n\none,gemm,fp16,1,5,,,,\n", ":4: dims", ORR_INVALID},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        orr_samples *samples = orr_samples_new();
        orr_samples_report report;
        orr_error err = {0};
        size_t n;
        const orr_status status = read_text(state, CASES[i].text, NULL, samples, &report, &err);
        if (status != CASES[i].status || strstr(err.text, CASES[i].says) == NULL)
            fail_msg("case %zu: %s: %s", i, orr_status_name(status), err.text);
        orr_samples_rows(samples, &n);
        assert_int_equal(n, 0);
        orr_samples_free(samples);
    }
}

static void a_line_has_an_end(void **state)
{
    orr_samples *samples = orr_samples_new();
    orr_samples_report report;
    orr_error err;
    const size_t n = 3 << 20;
    char *text = malloc(n + 1);

    memset(text, 'a', n);
    text[n] = '\0';
    assert_int_equal(read_text(state, text, &one, samples, &report, &err), ORR_LIMIT);
    assert_non_null(strstr(err.text, "line 1 is over"));
    for (size_t i = 0; i < n; i++)
        text[i] = ',';
    assert_int_not_equal(read_text(state, text, &one, samples, &report, &err), ORR_OK);
    free(text);
    orr_samples_free(samples);
}

static void bytes_that_are_no_text_are_refused(void **state)
{
    static const char BYTES[] = "family,dtype,dims,ns\ngemm\0,fp16,1x2x3x4,5\n";
    orr_samples *samples = orr_samples_new();
    orr_samples_report report;
    orr_error err;
    const char *path = in_folder(state, "bytes.csv");

    write_file(path, BYTES, sizeof BYTES - 1);
    assert_int_equal(orr_samples_add_csv(samples, path, &catalog, &one, &report, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, ":2: a NUL"));
    assert_int_equal(
        orr_samples_add_csv(samples, in_folder(state, "none.csv"), &catalog, &one, &report, &err),
        ORR_IO);
    orr_samples_free(samples);
}

static void no_memory_is_survived(void **state)
{
    const char *text = "device,family,dtype,dims,ns,op\none,gemm,fp16,1x2x3x4,5,mm\n";
    const char *path = in_folder(state, "memory.csv");
    orr_status status = ORR_NO_MEMORY;

    write_file(path, text, strlen(text));
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_samples *samples = orr_samples_new();
        orr_samples_report report;
        size_t n;
        orr_alloc_fail_from(nth);
        status = orr_samples_add_csv(samples, path, &catalog, NULL, &report, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr_samples_rows(samples, &n);
        assert_int_equal(n, status == ORR_OK);
        orr_samples_free(samples);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(columns_may_stand_in_any_order, setup, remove_folder),
        cmocka_unit_test_setup_teardown(amounts_and_copies, setup, remove_folder),
        cmocka_unit_test_setup_teardown(faults_are_told_with_their_line, setup, remove_folder),
        cmocka_unit_test_setup_teardown(a_line_has_an_end, setup, remove_folder),
        cmocka_unit_test_setup_teardown(bytes_that_are_no_text_are_refused, setup, remove_folder),
        cmocka_unit_test_setup_teardown(no_memory_is_survived, setup, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
