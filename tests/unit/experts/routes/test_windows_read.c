/* SPDX-License-Identifier: Apache-2.0 */
#include "routes_text.h"

#include "experts/routes/load.h"
#include "experts/routes/windows.h"

static orr_status read_windows(const char *text, orr_expert_windows *ret, orr_error *err)
{
    orr_stream *stream;
    assert_int_equal(orr_stream_open_memory(text, strlen(text), &stream, err), ORR_OK);
    const orr_status status = orr_windows_read_stream(stream, "loads", arena, ret, err);
    orr_stream_close(stream);
    return status;
}

static orr_expert_windows windows_of(const char *text)
{
    orr_expert_windows ret = {0};
    orr_error err = {0};
    if (read_windows(text, &ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return ret;
}

static void assert_loads(const orr_expert_windows *w, const double *want)
{
    for (size_t i = 0; i < (size_t)w->windows * w->layers * w->experts; i++)
        assert_true(w->load[i] == want[i]);
}
#define LOADS(...) ((const double[]){__VA_ARGS__})

/* All of these are the same two windows of layers 3 and 5 with three experts, or without numbers.
 */
static void forms_of_windows(void **state)
{
    static const char *const texts[] = {
        "{\"logical_count\": [[[1,2,3],[4,5,0.5]],[[0,0,7],[8,0,0]]], \"rank\": 0, \"layers\": [3,5]}",
        "{\"expert_load_window\": [[[1,2,3],[4,5,0.5]]], \"layers\": [3,5]}\n"
        "{\"expert_load\": [[0,0,7],[8,0,0]]}",
        "window,layer,0,1,2\n0,3,1,2,3\n0,5,4,5,0.5\n1,3,0,0,7\n1,5,8,0,0\n",
        "layer,E0,E1,E2,note\r\n3,1,2,3,\r\n5,4,5,0.5,\r\n3,0,0,7,x\r\n5,8,0,0,",
        /* Five slots of which the last two are copies, and a window that was never filled. */
        "{\"physical_to_logical_map\": [[0,1,2,0,2],[2,1,0,0,0]], \"layers\": [3,5], \"load\":"
        "[[[0,2,3,1,0],[0.5,5,4,0,0]],[[0,0,3,0,4],[0,0,1,5,2]],[[0,0,0,0,0],[0,0,0,0,0]]]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const orr_expert_windows w = windows_of(texts[i]);
        assert_int_equal(w.windows, 2);
        assert_int_equal(w.layers, 2);
        assert_int_equal(w.experts, 3);
        assert_int_equal(w.number[0], 3);
        assert_int_equal(w.number[1], 5);
        assert_loads(&w, LOADS(1, 2, 3, 4, 5, 0.5, 0, 0, 7, 8, 0, 0));
        assert_string_equal(w.source, "loads");
    }
    const orr_expert_windows w = windows_of(" [[1, 2], [3, 0]]");
    assert_int_equal(w.windows, 1);
    assert_int_equal(w.number[1], 1);
    assert_loads(&w, LOADS(1, 2, 3, 0));
}

static void loads_of_windows_and_of_json_lines(void **state)
{
    static const char *const texts[] = {
        "[[[1,2],[4,0]],[[3,2],[0,4]]]",
        "layer,0,1\n0,1,2\n1,4,0\n0,3,2\n1,0,4\n",
        "{\"choices\": [{\"routed_experts\": [[[0],[0]],[[1],[1]]]}]}\n",
        "L0,L1\n0,1\n1,0\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        orr_stream *stream;
        orr_expert_load load;
        orr_error err = {0};
        assert_int_equal(orr_stream_open_memory(texts[i], strlen(texts[i]), &stream, &err), ORR_OK);
        if (orr_expert_load_from(stream, "x", NULL, arena, &load, &err) != ORR_OK)
            fail_msg("%s", err.text);
        orr_stream_close(stream);
        assert_int_equal(load.layers, 2);
        assert_int_equal(load.tokens, i < 2 ? 8 : 2);
        for (int e = 0; e < 4; e++)
            assert_true(load.share[e] == 0.5);
    }
}

static void what_is_wrong_is_named(void **state)
{
    static const char ragged[] = "lists of different lengths where (layers, experts) or (windows, "
                                 "layers, experts) is wanted";
    const struct {
        const char *text;
        orr_status status;
        const char *message;
    } rows[] = {
        {"", ORR_PARSE, "no loads of experts"},
        {"{}", ORR_PARSE, "no loads of experts"},
        {"layer,0\n", ORR_PARSE, "no loads of experts"},
        {"[[1,2],[3]]", ORR_PARSE, ragged},
        {"[1,2]", ORR_PARSE, ragged},
        {"[[]]", ORR_PARSE, ragged},
        {"[[[1]],[[1],[2]]]", ORR_PARSE, ragged},
        {"[[1,[2]]]", ORR_PARSE, "is no load"},
        {"[[[[1]]]]", ORR_PARSE, "loads are lists of numbers, up to three deep"},
        {"[[1,NaN]]", ORR_PARSE, "at byte 4"},
        {"[[1,-2]]", ORR_INVALID, "the load of expert 1 in layer 0 is -2"},
        {"[[1,1e999]]", ORR_PARSE, "is no load"},
        {"[[1,1],[0,0]]", ORR_INVALID, "no expert of layer 1 has any load"},
        {"[[0,0]]", ORR_INVALID, "no expert of layer 0 has any load"},
        {"[[1]][[1,2]]", ORR_PARSE, "1 layers of 2 experts, where others have 1 of 1"},
        {"{\"load\": [[1,2]], \"layers\": [1,2]}", ORR_PARSE, "2 numbers of 1 layers"},
        {"{\"load\": [[1],[2]], \"layers\": [2,1]}", ORR_INVALID, "layer 1 stands after layer 2"},
        {"{\"load\": [[1,2]], \"physical_to_logical_map\": [[0]]}", ORR_PARSE,
         "physical_to_logical_map is not of the layers and slots of the loads"},
        {"{\"load\": [[1]], \"physical_to_logical_map\": [[-1]]}", ORR_PARSE, "is no expert"},
        {"layer,0,2\n", ORR_PARSE, "loads:1:1: expert 2 stands where 1 is wanted"},
        {"0,1\n", ORR_PARSE, "loads:1:1: loads have a column 'layer'"},
        {"layer,0\nx,1\n", ORR_PARSE, "loads:2:1: 'x' is no layer"},
        {"layer,0\n1,nan\n", ORR_PARSE, "loads:2:3: 'nan' is no load"},
        {"layer,0\n1,\n", ORR_PARSE, "loads:2:3: '' is no load"},
        {"layer,0\n1\n", ORR_PARSE, "loads:2:1: 1 fields where the first line names 2"},
        {"layer,0\n1,1\n2,1\n1,1\n3,1\n", ORR_PARSE, "loads:5:1: layer 3, where layer 2 is wanted"},
        {"layer,0\n1,1\n2,1\n1,1\n", ORR_PARSE, "loads: the last window has 1 of 2 layers"},
        {"PK\x03\x04", ORR_UNSUPPORTED, "a zip archive (.npz, .pt)"},
        {"\x93NUMPY", ORR_UNSUPPORTED, "a NumPy array"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_expert_windows w = {0};
        orr_error err = {0};
        const orr_status status = read_windows(rows[i].text, &w, &err);
        if (status != rows[i].status || strstr(err.text, rows[i].message) == NULL)
            fail_msg("'%s': %s, not %s", rows[i].text, err.text, rows[i].message);
        assert_int_equal(w.layers, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_of_windows),
        cmocka_unit_test(loads_of_windows_and_of_json_lines),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
