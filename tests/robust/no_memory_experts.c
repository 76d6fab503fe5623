/* SPDX-License-Identifier: Apache-2.0 */
#include "failing.h"
#include "leaks.h"

#include <stdio.h>
#include <string.h>

#include "engine/record/routes.h"
#include "experts/routes/read.h"
#include "experts/routes/windows.h"

/* Routes and loads read, drawn, selected, recorded and written, with every allocation failing in
 * turn. */

enum { SMALLEST_BLOCK = 64 };

static orr_status read_text(const char *text, bool windows, orr_error *err)
{
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_stream *stream = NULL;
    orr_routes_options o;
    const orr_routes *routes;
    orr_expert_windows loads;
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    orr_routes_options_init(&o);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_stream_open_memory(text, strlen(text), &stream, err));
    status = windows ? orr_windows_read_stream(stream, "x", arena, &loads, err)
                     : orr_routes_read_stream(stream, "x", &o, arena, &routes, err);
out:
    orr_stream_close(stream);
    orr_arena_free(arena);
    return status;
}

static orr_status routes_as_csv(orr_error *err)
{
    return read_text("subject,request,L0,S0,L1,S1,rank\n\"a\"\"b\",0,0;1,1;0.5,3;4,2;1,0\n"
                     "c,1,1;300,1;0.5,3;5,2;1,1\nc,0,0;3,1;0.5,1;2,2;1,0\n",
                     false, err);
}

static orr_status routes_as_json(orr_error *err)
{
    return read_text(
        "{\"id\":\"a\",\"layers\":[1,3],\"prompt_routed_experts\":[[[1],[300]]],\"choices\":["
        "{\"routed_experts\":[[[4],[5]]]},{\"routed_experts\":{\"shape\":[1,2,1],\"dtype\":"
        "\"uint8\",\"data\":\"BwI=\"}}]}",
        false, err);
}

static orr_status windows_as_json(orr_error *err)
{
    return read_text("{\"load\":[[[1,2,3]],[[0,0,1]]],\"layers\":[2],"
                     "\"physical_to_logical_map\":[[0,1,0]]}",
                     true, err);
}

static orr_status windows_as_csv(orr_error *err)
{
    return read_text("layer,0,1\n1,2,3\n4,5,6\n1,1,1\n4,1,1\n", true, err);
}

static orr_status warm_up(orr_error *err)
{
    return read_text("request,1\nw,7\nw,7\nw,7\nw,7\nw,7\nw,7\nw,7\nw,7\nw,7\nw,7\nw,7\nw,7\nw,7\n"
                     "w,7\nw,7\nw,7\nx,1\n",
                     false, err);
}

static orr_status load_of_experts(orr_error *err)
{
    const char *path = inside("load.csv");
    orr_expert_load load;
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs("request,L0,L1\na,0;1,3;4\nb,1;2,3;5\n", f) < 0 || fclose(f) != 0)
        fail_msg("%s cannot be written", path);
    orr_status status =
        arena != NULL ? orr_expert_load_read(path, NULL, arena, &load, err) : orr_fail_memory(err);
    remove(path);
    orr_arena_free(arena);
    return status;
}

static orr_status drawn_and_written(orr_error *err)
{
    const orr_routes_drawn how = {.layers = 2,
                                  .experts = 300,
                                  .top_k = 2,
                                  .requests = 4,
                                  .prompt = 1,
                                  .decoded = 1,
                                  .kinds = 2,
                                  .scores = true};
    const bool keep[] = {true, false, true, true};
    const char *path = inside("routes.csv.gz");
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    const orr_routes *routes, *part;
    orr_expert_windows windows;
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_routes_draw(&how, arena, &routes, err));
    ORR_TRY_OUT(status, orr_routes_select(routes, keep, ORR_ROUTE_DECODE, arena, &part, err));
    ORR_TRY_OUT(status, orr_expert_windows_of_routes(part, 2, arena, &windows, err));
    status = orr_routes_write(part, path, err);
    if (status == ORR_OK)
        remove(path);
out:
    orr_arena_free(arena);
    return status;
}

static orr_status recorded(orr_error *err)
{
    const uint32_t number[] = {1, 3};
    const int32_t choice[] = {1, 300};
    const orr_route_source source = {.number = number, .layers = 2, .top_k = 1, .experts = 400};
    const orr_routes_row row = {.request = 1, .rank = 2};
    const char *path = inside("recorded.csv");
    orr_route_recorder *r;
    ORR_TRY(orr_route_recorder_new(&source, &r, err));
    orr_status status = orr_route_recorder_token(r, &row, err);
    for (uint32_t l = 0; l < 2 && status == ORR_OK; l++)
        status = orr_route_recorder_layer(r, l, 1, &choice[l], ORR_DTYPE_INT32, err);
    if (status == ORR_OK)
        status = orr_route_recorder_write_all(r, orr_transport_self(), &source, 0, path, err);
    if (status == ORR_OK)
        remove(path);
    orr_route_recorder_free(r);
    return status;
}

TEST_OF(routes_as_csv)
TEST_OF(routes_as_json)
TEST_OF(windows_as_json)
TEST_OF(windows_as_csv)
TEST_OF(warm_up)
TEST_OF(load_of_experts)
TEST_OF(drawn_and_written)
TEST_OF(recorded)

int main(int argc, char **argv)
{
    (void)argc;
    restart_without_caches(argv);
    const struct CMUnitTest tests[] = {
        TEST(routes_as_csv), TEST(routes_as_json),  TEST(windows_as_json),   TEST(windows_as_csv),
        TEST(warm_up),       TEST(load_of_experts), TEST(drawn_and_written), TEST(recorded),
    };
    return cmocka_run_group_tests_name("no_memory_experts", tests, make_folder, remove_folder);
}
