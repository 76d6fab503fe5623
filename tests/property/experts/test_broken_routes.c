/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "experts/routes/read.h"
#include "experts/routes/windows.h"
#include "io/stream/stream_test.h"
#include "../../robust/route_checks.h"
#include "../../unit/io/files.h"

/* Each form of routes and of windows, cut off at every byte, and every byte of it changed in a few
 * ways: an error with a text, or routes that are sound; never half of them. The seeds of the
 * fuzzers are the files, and drawn routes as the writer packs them. */

static void try_bytes(const char *bytes, size_t n, bool windows)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_stream *stream;
    orr_error err = {0};
    orr_routes_options o;
    const orr_routes *routes = NULL;
    orr_expert_windows loads = {0};
    orr_routes_options_init(&o);
    assert_int_equal(orr_stream_open_memory(bytes, n, &stream, &err), ORR_OK);
    const orr_status status = windows
                                  ? orr_windows_read_stream(stream, "x", arena, &loads, &err)
                                  : orr_routes_read_stream(stream, "x", &o, arena, &routes, &err);
    if (status == ORR_OK)
        assert_true(windows ? windows_are_sound(&loads) : routes_are_sound(routes));
    else if (!is_refusal(status) || err.text[0] == '\0' || routes != NULL || loads.layers != 0)
        fail_msg("%s: %s", orr_status_name(status), err.text);
    orr_stream_close(stream);
    orr_arena_free(arena);
}

static void try_broken(char *bytes, size_t n, bool windows)
{
    static const uint8_t flips[] = {0x01, 0x04, 0x10, 0x1b, 0x80, 0xff};
    for (size_t len = 0; len <= n; len++)
        try_bytes(bytes, len, windows);
    for (size_t at = 0; at < n; at++)
        for (size_t i = 0; i < sizeof flips; i++) {
            bytes[at] = (char)(bytes[at] ^ flips[i]);
            try_bytes(bytes, n, windows);
            bytes[at] = (char)(bytes[at] ^ flips[i]);
        }
}

static void try_file(const char *path, bool windows)
{
    size_t n = 0;
    FILE *f = fopen(path, "rb");
    char *bytes = calloc(1, 1 << 16);
    if (f == NULL)
        fail_msg("%s is not there", path);
    n = fread(bytes, 1, 1 << 16, f);
    fclose(f);
    try_broken(bytes, n, windows);
    /* The windows of a stream of a few bytes: every token meets their ends. */
    orr_stream_test_step(3);
    try_bytes(bytes, n, windows);
    orr_stream_test_step(0);
    free(bytes);
}

static void try_seed(const char *folder, const char *name, bool windows)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/fuzz/corpus/%s/%s", getenv("ORRERY_SOURCE"), folder,
                   name);
    try_file(path, windows);
}

static void every_form_of_routes(void **state)
{
    static const char *const names[] = {"maverick.csv", "scores.csv",   "quoted.csv",
                                        "vllm.jsonl",   "sglang.jsonl", "vllm_lists.json",
                                        "tokens.jsonl", "warm_up.csv",  "packed.csv.gz"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        try_seed("routes", names[i], false);
}

static void every_form_of_windows(void **state)
{
    static const char *const names[] = {"sglang.json", "vllm.json", "lists.json", "rows.csv"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        try_seed("expert_windows", names[i], true);
}

static void packed_routes(void **state)
{
    static const char *const names[] = {"r.csv.gz", "r.csv.zst"};
    const orr_routes_drawn how = {.layers = 2,
                                  .experts = 300,
                                  .top_k = 2,
                                  .requests = 3,
                                  .prompt = 2,
                                  .decoded = 2,
                                  .kinds = 2,
                                  .scores = true};
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_routes *routes;
    assert_int_equal(orr_routes_draw(&how, arena, &routes, NULL), ORR_OK);
    for (size_t i = 0; i < 2; i++) {
        const char *path = in_folder(state, names[i]);
        assert_int_equal(orr_routes_write(routes, path, NULL), ORR_OK);
        try_file(path, false);
    }
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_routes),
        cmocka_unit_test(every_form_of_windows),
        cmocka_unit_test_setup_teardown(packed_routes, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
