/* SPDX-License-Identifier: Apache-2.0 */
#include "kineto_text.h"

#include "trace/common/reader.h"

static orr_format detect(const void *bytes, size_t len)
{
    orr_stream *stream;
    orr_format format = ORR_FORMAT_CHROME;
    assert_int_equal(orr_stream_open_memory(bytes, len, &stream, NULL), ORR_OK);
    assert_int_equal(orr_detect_stream(stream, &format, NULL), ORR_OK);
    assert_int_equal(orr_stream_offset(stream), 0); /* nothing was consumed */
    orr_stream_close(stream);
    return format;
}

static orr_format detect_json(const char *text)
{
    char *json = as_json(text);
    const orr_format format = detect(json, strlen(json));
    free(json);
    return format;
}

static void detect_json_by_its_keys(void **state)
{
    (void)state;
    assert_int_equal(detect_json("{'schemaVersion':1,'traceEvents':[]}"), ORR_FORMAT_KINETO);
    assert_int_equal(detect_json(" {'x':{'nodes':[1]},\n 'traceEvents': ["), ORR_FORMAT_KINETO);
    assert_int_equal(detect_json("[{'name':'a','args':{},'ph':'X'}]"), ORR_FORMAT_KINETO);
    assert_int_equal(detect_json("\xef\xbb\xbf{'traceEvents':[]}"), ORR_FORMAT_KINETO);
    assert_int_equal(detect_json("{'schema':'1.1.1','pid':1,'nodes':[]}"), ORR_FORMAT_PYTORCH_ET);
    assert_int_equal(detect_json("{'workload_graph':[]}"), ORR_FORMAT_CHAKRA_JSON);
}

static void detect_what_is_none_of_ours(void **state)
{
    (void)state;
    static const char *const texts[] = {"",      "{}",     "[]",     "{'a':1}", "3", "hello world",
                                        "[1,2]", "<html>", "{'a':]", "[{}]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (detect_json(texts[i]) != ORR_FORMAT_UNKNOWN)
            fail_msg("'%s' is no recording", texts[i]);
}

static void detect_chakra_messages(void **state)
{
    (void)state;
    static const uint8_t metadata[] = {7, 0x0a, 5, '0', '.', '0', '.', '4', 4, 0x08, 1, 0x18, 4};
    assert_int_equal(detect(metadata, sizeof metadata), ORR_FORMAT_CHAKRA);
    assert_int_equal(detect(metadata, sizeof metadata - 1), ORR_FORMAT_CHAKRA); /* cut */
    /* A first message of 123 bytes begins with a brace. */
    uint8_t brace[124] = {'{', 0x0a, 121};
    memset(brace + 3, 'x', 121);
    assert_int_equal(detect(brace, sizeof brace), ORR_FORMAT_CHAKRA);
    static const uint8_t noise[] = {3, 0xff, 0xff, 0xff, 1, 2};
    assert_int_equal(detect(noise, sizeof noise), ORR_FORMAT_UNKNOWN);
}

static void detect_spaces_of_xla(void **state)
{
    (void)state;
    static const char named[] = "\x0a\x0b\x12\x09/host:CPU",
                      numbered[] = "\x0a\x0f\x08\x81\x01\x12\x0a/device:GP";
    static const char cut[] = "\x0a\xff\x7f\x12\x0d/device:TPU:0\x1a",
                      other[] = "\x0a\x0b\x12\x09/hosts:CPU";
    assert_int_equal(detect(named, sizeof named - 1), ORR_FORMAT_XPLANE);
    assert_int_equal(detect(numbered, sizeof numbered - 1), ORR_FORMAT_XPLANE);
    assert_int_equal(detect(cut, sizeof cut - 1), ORR_FORMAT_XPLANE);
    assert_int_not_equal(detect(other, sizeof other - 1), ORR_FORMAT_XPLANE);
    for (size_t n = 0; n < 4 + strlen("/host:"); n++) /* before the name is told */
        assert_int_not_equal(detect(named, n), ORR_FORMAT_XPLANE);
    /* A first message of Chakra that is as long as a plane's tag. */
    static const uint8_t chakra[] = {10,  0x0a, 8,   '0', '.',  '0', '.',  '4',
                                     '-', 'r',  'c', 4,   0x08, 1,   0x18, 4};
    assert_int_equal(detect(chakra, sizeof chakra), ORR_FORMAT_CHAKRA);
}

static void detect_memory_snapshots(void **state)
{
    (void)state;
    static const char pickle[] = "\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94(\x8c\x08segments\x94]\x94";
    static const char old[] = "\x80\x02}q\0(X\x0d\0\0\0device_tracesq\x01]",
                      text[] = "\x80\x00segments";
    assert_int_equal(detect(pickle, sizeof pickle - 1), ORR_FORMAT_TORCH_MEMORY);
    assert_int_equal(detect(old, sizeof old - 1), ORR_FORMAT_TORCH_MEMORY);
    assert_int_not_equal(detect(text, sizeof text - 1), ORR_FORMAT_TORCH_MEMORY);
    assert_int_equal(detect_json("{'segments':[],'device_traces':[[]]}"), ORR_FORMAT_TORCH_MEMORY);
    assert_int_equal(detect_json("{'device_traces':[[]]}"), ORR_FORMAT_TORCH_MEMORY);
}

static void detect_databases(void **state)
{
    (void)state;
    static const char nsight[] = "SQLite format 3\0 CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (";
    static const char rocpd[] = "SQLite format 3\0 CREATE TABLE `rocpd_kernel_dispatch_0198` (";
    static const char other[] = "SQLite format 3\0 CREATE TABLE runs (";
    assert_int_equal(detect(nsight, sizeof nsight - 1), ORR_FORMAT_NSIGHT);
    assert_int_equal(detect(rocpd, sizeof rocpd - 1), ORR_FORMAT_ROCPD);
    assert_int_equal(detect(other, sizeof other - 1), ORR_FORMAT_UNKNOWN);
}

/* The key that tells may stand behind much else. */
static void detect_looks_far_enough(void **state)
{
    (void)state;
    enum { PADDING = 300000 };
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    (void)fprintf(f, "{'metadata':'%*s','traceEvents':[]}", (int)PADDING, "x");
    assert_int_equal(fclose(f), 0);
    assert_int_equal(detect_json(text), ORR_FORMAT_KINETO);
    free(text);
}

static void detect_real_files(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        orr_format format;
    } rows[] = {
        {"kineto/bert-small_h100.json.gz", ORR_FORMAT_KINETO},
        {"kineto/resnet50_v100_2020_old_categories.json.gz", ORR_FORMAT_KINETO},
        {"kineto/rank_unavailable.json.gz", ORR_FORMAT_KINETO},
        {"dlrm_v100x8/rank0.host.json.gz", ORR_FORMAT_PYTORCH_ET},
        {"dlrm_v100x8/rank0.device.json.gz", ORR_FORMAT_KINETO},
        {"pytorch_et/simple_add_a100.1.0.1.json.gz", ORR_FORMAT_PYTORCH_ET},
        {"pytorch_et/resnet.1.1.0.json.gz", ORR_FORMAT_PYTORCH_ET},
        {"chakra/astra_all_reduce/all_reduce.0.et", ORR_FORMAT_CHAKRA},
        {"chakra/generator/BARRIER.0.et", ORR_FORMAT_CHAKRA},
        {"chakra/generator/one_metadata_node_all_types.0.et", ORR_FORMAT_CHAKRA},
        {"expected/dlrm_v100x8.rank0.chakra_converter.et.gz", ORR_FORMAT_CHAKRA},
        {"expected/hta/dlrm_v100x8/comm_comp_overlap.csv", ORR_FORMAT_UNKNOWN},
        {"LICENSE.TraceLens.txt", ORR_FORMAT_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_format format = ORR_FORMAT_UNKNOWN;
        orr_error err = {0};
        if (orr_trace_detect(real_file(rows[i].file), &format, &err) != ORR_OK)
            fail_msg("%s", err.text);
        if (format != rows[i].format)
            fail_msg("%s: %s", rows[i].file, orr_format_name(format));
    }
}

static void detect_standard_input_cannot_be_asked(void **state)
{
    (void)state;
    orr_format format;
    assert_int_equal(orr_trace_detect("-", &format, NULL), ORR_INVALID);
    assert_int_equal(orr_trace_detect("/no/such/file", &format, NULL), ORR_IO);
}

static void rank_in_file_names(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        uint32_t rank;
    } rows[] = {
        {"rank3.json", 3},           {"/a/rank9/rank-3.json.gz", 3},     {"trace.3.et", 3},
        {"run_Rank_12.json", 12},    {"rank=7_step1.json", 7},           {"all_reduce.0.et.gz", 0},
        {"rank0.device.json.gz", 0}, {"trace.json", ORR_NONE},           {"ranks.json", ORR_NONE},
        {"v1.2.json", ORR_NONE},     {"rank99999999999.json", ORR_NONE}, {"", ORR_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (orr_rank_from_path(rows[i].path) != rows[i].rank)
            fail_msg("'%s'", rows[i].path);
}

static void format_names_and_endings(void **state)
{
    (void)state;
    for (int f = ORR_FORMAT_KINETO; f <= ORR_FORMAT_CHROME; f++)
        assert_int_equal(orr_format_from_name(orr_format_name((orr_format)f)), f);
    assert_int_equal(orr_format_from_name("Kineto"), ORR_FORMAT_KINETO);
    assert_int_equal(orr_format_from_name("nsys"), ORR_FORMAT_UNKNOWN);
    assert_string_equal(orr_format_name((orr_format)99), "unknown");
    assert_int_equal(orr_format_from_path("a/b.et"), ORR_FORMAT_CHAKRA);
    assert_int_equal(orr_format_from_path("b.et.gz"), ORR_FORMAT_CHAKRA);
    assert_int_equal(orr_format_from_path("b.pftrace.zst"), ORR_FORMAT_PERFETTO);
    assert_int_equal(orr_format_from_path("b.JSON"), ORR_FORMAT_CHROME);
    assert_int_equal(orr_format_from_path("b.txt"), ORR_FORMAT_UNKNOWN);
    assert_int_equal(orr_format_from_path(".et"), ORR_FORMAT_UNKNOWN);
    assert_string_equal(orr_trace_fault_text(ORR_TRACE_FAULTS), "unknown fault");
    assert_string_equal(orr_link_miss_text(ORR_LINK_MISS_NO_ID), "no record-function id");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detect_json_by_its_keys),
        cmocka_unit_test(detect_what_is_none_of_ours),
        cmocka_unit_test(detect_chakra_messages),
        cmocka_unit_test(detect_spaces_of_xla),
        cmocka_unit_test(detect_memory_snapshots),
        cmocka_unit_test(detect_databases),
        cmocka_unit_test(detect_looks_far_enough),
        cmocka_unit_test(detect_real_files),
        cmocka_unit_test(detect_standard_input_cannot_be_asked),
        cmocka_unit_test(rank_in_file_names),
        cmocka_unit_test(format_names_and_endings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
