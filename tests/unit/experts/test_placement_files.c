/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "experts/placement/file.h"
#include "placements.h"

static orr_arena *arena;

static int open_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena != NULL ? 0 : -1;
}

static int close_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static orr_status parse(const char *text, uint32_t ranks, orr_expert_placement *ret, orr_error *err)
{
    const orr_placement_text input = {text, strlen(text), "file", ranks, 0};
    return orr_placement_parse(&input, arena, ret, err);
}

static const char *print(const orr_expert_placement *p, orr_placement_format format)
{
    orr_output *out;
    orr_error err = {.text = ""};
    size_t n;
    assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
    if (orr_placement_print(p, format, out, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(orr_output_finish(out, &err), ORR_OK);
    const char *bytes = orr_output_memory(out, &n);
    const char *ret = orr_arena_strndup(arena, bytes, n);
    orr_output_close(out);
    return ret;
}

static void assert_refused(const char *text, uint32_t ranks, orr_status status, const char *why)
{
    orr_expert_placement p = {.ranks = 99};
    orr_error err = {.text = ""};
    const orr_status is = parse(text, ranks, &p, &err);
    if (is != status || strstr(err.text, why) == NULL || strncmp(err.text, "file", 4) != 0)
        fail_msg("%s: '%s' does not say '%s' of %s", orr_status_name(is), err.text, why, text);
    assert_int_equal(p.ranks, 99);
}

/* --- placement.yaml --------------------------------------------------------------------------- */

static void test_yaml_says_all(void **state)
{
    (void)state;
    static const char want[] = "# Experts of ranks, by layer.\n"
                               "policy: \"best\"\n"
                               "source: \"routes.csv\"\n"
                               "experts: 4\n"
                               "ranks: 3\n"
                               "host_ranks: 2\n"
                               "layers:\n"
                               "  1:\n"
                               "    - [0, 1@0.25]\n"
                               "    - [2, 3, 1@0.75]\n"
                               "    - []\n"
                               "  3:\n"
                               "    - [3, 2]\n"
                               "    - [0, 3]\n"
                               "    - []\n"
                               "missing:\n"
                               "  3: [1]\n";
    const char *const lines[] = {"0 1|2 3 1|", "3 2|0 3|"};
    orr_placement_draft d = placement_of(lines, 2, 4, 3, 2, arena);
    orr_expert_placement read;
    orr_error err = {.text = ""};
    d.placement.policy = "best";
    d.placement.source = "routes.csv";
    d.share[1] = 0.25F;
    d.share[4] = 0.75F;
    assert_string_equal(print(&d.placement, ORR_PLACEMENT_FORMAT_YAML), want);
    if (parse(want, 0, &read, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(read.source, "file");
    read.source = "routes.csv";
    assert_string_equal(print(&read, ORR_PLACEMENT_FORMAT_YAML), want);
    assert_true(read.share[1] == 0.25F && read.share[5] == 0.5F);
}

static void test_bad_yaml_is_told_with_its_place(void **state)
{
    (void)state;
    assert_refused("ranks: 2", 0, ORR_INVALID, "file:1:1: a placement of experts needs 'experts'");
    assert_refused("[1]", 0, ORR_INVALID, "has keys: experts, ranks, layers");
    assert_refused("experts: 2\nrank: 1", 0, ORR_INVALID,
                   "file:2:1: a placement has no 'rank'; did "
                   "you mean 'ranks'?");
    assert_refused("experts: 5000\nranks: 1\nlayers: {}", 0, ORR_INVALID,
                   "5000 is not from 1 to 4096");
    assert_refused("experts: 2\nranks: 2\ncopies: far\nlayers: {}", 0, ORR_INVALID,
                   "copies are taken by 'shares' or 'nearest', not 'far'");
    assert_refused("experts: 2\nranks: 2\nlayers: {}", 0, ORR_INVALID, "layers are by number");
    assert_refused("experts: 2\nranks: 2\nlayers: {1: [[0, 1]]}", 0, ORR_INVALID,
                   "file:3:13: layer 1 has 1 lists of experts, and there are 2 ranks");
    assert_refused("experts: 2\nranks: 2\nlayers: {1: [[0], [2]]}", 0, ORR_INVALID,
                   "file:3:20: expert 2 is none of the 2");
    assert_refused("experts: 2\nranks: 2\nlayers: {1: [[0], [x]]}", 0, ORR_INVALID,
                   "'x' is no expert");
    assert_refused("experts: 2\nranks: 2\nlayers: {1: [[0], [1@2]]}", 0, ORR_INVALID,
                   "'1@2': a share is a number from 0 to 1");
    assert_refused("experts: 2\nranks: 2\nlayers: {1: [[0@0.5, 1], [0]]}", 0, ORR_INVALID,
                   "expert 0: 1 of its 2 copies have a share; all or none do");
    assert_refused("experts: 2\nranks: 2\nlayers: {1: [[0@0.5, 1], [0@0.6]]}", 0, ORR_INVALID,
                   "layer 1, expert 0: shares of its copies sum to 1.1");
    assert_refused("experts: 2\nranks: 2\nlayers: {1: [[0], [0]]}", 0, ORR_INVALID,
                   "layer 1: expert 1 is on no rank");
    assert_refused("experts: 2\nranks: 1\nlayers: {1: [[0, 1]], 1: [[0, 1]]}", 0, ORR_PARSE,
                   "said in line 3 already");
    assert_refused("experts: 2\nranks: 1\nlayers: {2: [[0, 1]], 1: [[0, 1]]}", 0, ORR_INVALID,
                   "layer 1 after layer 2");
    assert_refused("experts: 2\nranks: 1\nlayers: {2: [[0, 1]]}", 4, ORR_INVALID,
                   "a placement over 1 ranks, not 4");
    assert_refused("experts: 2\nranks: 1\nlayers: {2: [[0]]}\nmissing: {1: [1]}", 0, ORR_INVALID,
                   "missing: layer 1 is not there");
    assert_refused("", 0, ORR_PARSE, "file");
}

/* --- what servers take ------------------------------------------------------------------------ */

static void test_sglang_has_a_row_for_every_hidden_layer(void **state)
{
    (void)state;
    const char *const lines[] = {"0 1|2 3", "3 2|1 0"};
    const orr_placement_draft d = placement_of(lines, 2, 4, 2, 2, arena);
    const char *text = print(&d.placement, ORR_PLACEMENT_FORMAT_SGLANG);
    orr_expert_placement read, selected;
    orr_error err = {.text = ""};
    /* Nothing but the map: SGLang passes all keys on as arguments. */
    assert_string_equal(
        text, "{\"physical_to_logical_map\":[\n[0,1,2,3]\n,[0,1,2,3]\n,[0,1,2,3]\n,[3,2,1,0]]}\n");
    assert_refused(text, 0, ORR_INVALID, "how many ranks the 4 slots of a layer lie on");
    assert_refused(text, 3, ORR_INVALID, "3 ranks do not divide the 4 slots");
    assert_int_equal(parse(text, 2, &read, &err), ORR_OK);
    assert_int_equal(read.layers, 4);
    assert_int_equal(
        orr_expert_placement_layers(&read, d.placement.number, 2, arena, &selected, &err), ORR_OK);
    assert_string_equal(print(&selected, ORR_PLACEMENT_FORMAT_SGLANG), text);
    assert_memory_equal(selected.expert, d.expert, 8 * sizeof *d.expert);
    const uint32_t others[] = {1, 4};
    assert_int_equal(orr_expert_placement_layers(&read, others, 2, arena, &selected, &err),
                     ORR_INVALID);
    assert_string_equal(err.text, "the placement has no layer 4: its 4 layers are from 0 to 3");
}

static void test_vllm_has_maps_both_ways(void **state)
{
    (void)state;
    const char *const lines[] = {"0 1|2 0"};
    const orr_placement_draft d = placement_of(lines, 1, 3, 2, 1, arena);
    const char *text = print(&d.placement, ORR_PLACEMENT_FORMAT_VLLM);
    orr_expert_placement read, selected;
    orr_error err = {.text = ""};
    assert_string_equal(text, "{\"ranks\":2,\"host_ranks\":1,\"layers\":[1],"
                              "\"physical_to_logical_map\":[\n[0,1,2,0]],"
                              "\"logical_to_physical_map\":[\n[[0,3],[1,-1],[2,-1]]],"
                              "\"logical_replica_count\":[\n[2,1,1]]}\n");
    assert_int_equal(parse(text, 0, &read, &err), ORR_OK);
    assert_true(read.host_ranks == 1 && read.number[0] == 1);
    assert_string_equal(print(&read, ORR_PLACEMENT_FORMAT_VLLM), text);
    /* As vLLM's own state: no numbers of layers, which are counted from 0. */
    assert_int_equal(
        parse("{\"physical_to_logical_map\": [[0, 1, 2, 0], [1, 2, 0, 1]]}", 2, &read, &err),
        ORR_OK);
    const uint32_t numbers[] = {5, 9};
    assert_int_equal(orr_expert_placement_layers(&read, numbers, 2, arena, &selected, &err),
                     ORR_OK);
    assert_true(selected.number[1] == 9 && selected.expert[4] == 1);
}

static void test_bad_maps_are_refused(void **state)
{
    (void)state;
#define MAP "\"physical_to_logical_map\": "
    assert_refused("{\"a\": 1}", 2, ORR_PARSE, "no physical_to_logical_map");
    assert_refused("{" MAP "[[0, 1], [0]]}", 1, ORR_PARSE,
                   "a list that is not as long as the first");
    assert_refused("{" MAP "[[0, 1], [0, 1.5]]}", 1, ORR_PARSE, "no number of an expert");
    assert_refused("{" MAP "[[0, 1], [0, -1]]}", 1, ORR_INVALID, "row 1, slot 1: no expert");
    assert_refused("{" MAP "[[0, 1], [0, 9000]]}", 1, ORR_LIMIT, "9001 experts: at most 4096");
    assert_refused("{" MAP "[[0, 1], [0, 0]]}", 1, ORR_INVALID, "layer 1: expert 1 is on no rank");
    assert_refused("{" MAP "[]}", 1, ORR_PARSE, "an empty list");
    assert_refused("{" MAP "3}", 1, ORR_PARSE, "file");
    assert_refused("{" MAP "[[0, 1]], " MAP "[[0, 1]]}", 1, ORR_PARSE,
                   "a key that was there before");
    assert_refused("{" MAP "[[0, 1]]} x", 1, ORR_PARSE, "file");
    assert_refused("{" MAP "[[0, 1]], \"layers\": [-1]}", 1, ORR_INVALID, "row 0 has no number");
    assert_refused("{" MAP "[[0, 1]], \"layers\": [1, 2]}", 1, ORR_INVALID,
                   "different numbers of layers");
    assert_refused("{" MAP "[[0, 1]], \"ranks\": 0}", 1, ORR_PARSE, "no number of ranks");
    assert_refused("{" MAP "[[0, 1]], \"ranks\": 2}", 1, ORR_INVALID, "over 2 ranks, not 1");
    assert_refused("{" MAP "[[0, 1]], \"logical_replica_count\": [[1]]}", 1, ORR_INVALID,
                   "expert 1 is none of the 1");
    assert_refused("{" MAP "[[0, 1]], \"logical_replica_count\": [[1, 2]]}", 1, ORR_INVALID,
                   "row 0: expert 1 has 1 slots, and the other maps say otherwise");
    assert_refused("{" MAP "[[0, 1]], \"logical_to_physical_map\": [[[0], [0]]]}", 1, ORR_INVALID,
                   "expert 1 is not in slot 0");
    assert_refused("{" MAP "[[0, 1]], \"logical_to_physical_map\": [[[0], [-1]]]}", 1, ORR_INVALID,
                   "expert 1 has 1 slots");
    assert_refused("{" MAP "[[0, 1]], \"logical_to_physical_map\": [[[0], [2]]]}", 1, ORR_INVALID,
                   "expert 1 is not in slot 2");
}

static void test_uneven_slots_are_filled_with_copies(void **state)
{
    (void)state;
    const char *const lines[] = {"0 1 2|2|3"}, *const full[] = {"0 1 2 0|0 1 2"},
                      *const dead[] = {"0 1|2 3|"}, *const lost[] = {"0 1|2 0"};
    const orr_placement_draft d = placement_of(lines, 1, 4, 3, 3, arena);
    orr_expert_placement read;
    orr_output *out;
    orr_error err = {.text = ""};
    /* To rank 1 the experts with fewest copies that it has not, then to rank 2. */
    assert_int_equal(parse(print(&d.placement, ORR_PLACEMENT_FORMAT_VLLM), 0, &read, &err), ORR_OK);
    const uint16_t want[] = {0, 1, 2, 2, 0, 1, 3, 0, 1};
    assert_memory_equal(read.expert, want, sizeof want);
    const struct {
        orr_placement_draft draft;
        const char *why;
    } not [] = {
        {placement_of(full, 1, 3, 2, 2, arena), "layer 1: rank 1 has all experts"},
        {placement_of(dead, 1, 4, 3, 3, arena), "rank 2 has no experts"},
        {placement_of(lost, 1, 4, 2, 2, arena), "layer 1: expert 3 has no slot"},
    };
    for (size_t i = 0; i < sizeof not / sizeof *not ; i++) {
        assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
        assert_int_equal(
            orr_placement_print(&not [i].draft.placement, ORR_PLACEMENT_FORMAT_SGLANG, out, &err),
            ORR_UNSUPPORTED);
        assert_non_null(strstr(err.text, not [i].why));
        orr_output_close(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yaml_says_all),
        cmocka_unit_test(test_bad_yaml_is_told_with_its_place),
        cmocka_unit_test(test_sglang_has_a_row_for_every_hidden_layer),
        cmocka_unit_test(test_vllm_has_maps_both_ways),
        cmocka_unit_test(test_bad_maps_are_refused),
        cmocka_unit_test(test_uneven_slots_are_filled_with_copies),
    };
    return cmocka_run_group_tests_name("experts_placement_files", tests, open_arena, close_arena);
}
