/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

static void write_index(const char *text)
{
    write_bytes(in_scratch("x.safetensors.index.json"), text, strlen(text));
}

static void must_fail(orr_status status, const char *says)
{
    orr_weights *w = NULL;
    orr_error err = {.text = ""};
    const orr_status got = orr_weights_open(in_scratch("x.safetensors.index.json"), &w, &err);
    if (got != status)
        fail_msg("%s: %s", orr_status_name(got), err.text);
    must_say(&err, says);
    assert_null(w);
}

#define ONE(name) "{\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"

static void shards_are_one_checkpoint(void **state)
{
    (void)state;
    orr_weights *w;
    write_safetensors(in_scratch("1.safetensors"), ONE("a"), 4);
    write_safetensors(in_scratch("2.safetensors"), ONE("b"), 4);
    write_index("{\"metadata\":{\"total_size\":8},"
                "\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}");
    assert_int_equal(orr_weights_open(in_scratch("x.safetensors.index.json"), &w, NULL), ORR_OK);
    assert_int_equal(w->n, 2);
    assert_int_equal(w->bytes, 8);
    assert_non_null(orr_weights_find(w, "a"));
    assert_non_null(orr_weights_find(w, "b"));
    orr_weights_close(w);
}

static void what_an_index_promises_is_held_against_the_shards(void **state)
{
    (void)state;
    write_safetensors(in_scratch("1.safetensors"), ONE("a"), 4);
    write_safetensors(in_scratch("2.safetensors"), ONE("a"), 4);
    write_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"3.safetensors\"}}");
    must_fail(ORR_NOT_FOUND, "3.safetensors: the shard is missing");
    write_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\"}}");
    must_fail(ORR_INVALID, "1.safetensors: has no tensor 'b', which the index says");
    write_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}");
    must_fail(ORR_INVALID, "has no tensor 'b'");
    write_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"a\":\"2.safetensors\"}}");
    must_fail(ORR_INVALID, "weight_map has 'a' twice");
    write_index("{\"weight_map\":{\"a\":\"../1.safetensors\"}}");
    must_fail(ORR_INVALID, "no name of a file beside it");
    write_index("{\"weight_map\":{\"a\":3}}");
    must_fail(ORR_INVALID, "no name of a file beside it");
    write_index("{\"weight_map\":{}}");
    must_fail(ORR_INVALID, "no \"weight_map\" that names a tensor");
    write_index("{\"weight_map\":{\"a\":\"1.safetensors\"");
    must_fail(ORR_PARSE, "byte");
}

/* The faults of a shard have its name. */
static void faults_of_shards_are_told(void **state)
{
    (void)state;
    write_bytes(in_scratch("1.safetensors"), "short", 5);
    write_index("{\"weight_map\":{\"a\":\"1.safetensors\"}}");
    must_fail(ORR_PARSE, "/1.safetensors: byte 5: the file ends before the size of its header");
    write_bytes(in_scratch("1.safetensors"), "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    must_fail(ORR_INVALID, "is a GGUF file among shards");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_are_one_checkpoint),
        cmocka_unit_test(what_an_index_promises_is_held_against_the_shards),
        cmocka_unit_test(faults_of_shards_are_told),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
