/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct scratch {
    char path[64];
    orr_arena *arena;
} scratch;

static scratch begin(const char *text)
{
    scratch f = {.path = "/tmp/orrery_overheads_XXXXXX", .arena = orr_arena_new(0, 0)};
    const int fd = mkstemp(f.path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    assert_non_null(f.arena);
    return f;
}

static void end(scratch *f)
{
    unlink(f->path);
    orr_arena_free(f->arena);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const orr_overhead ROWS[] = {
        {"", ORR_T1, 14.592929292929293, 13.4, 99},
        {"aten::linear", ORR_T2, 71.8, 10.3, 60},
        {"op<int, float> \"x\"\nnext", ORR_T2, 0.1, 0, 1},
        {"cudaLaunchKernel", ORR_T4, 10.8933582787652, 3.6, 1069},
    };
    const orr_overheads given = {ROWS, 4};
    orr_overheads got;
    orr_error err = {0};
    scratch f = begin("");
    assert_int_equal(orr_overheads_save(&given, f.path, &err), ORR_OK);
    assert_int_equal(orr_overheads_load(f.path, f.arena, &got, &err), ORR_OK);
    assert_int_equal(got.n, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(got.rows[i].name, ROWS[i].name);
        assert_int_equal(got.rows[i].kind, ROWS[i].kind);
        assert_true(got.rows[i].mean_us == ROWS[i].mean_us && got.rows[i].std_us == ROWS[i].std_us);
        assert_int_equal(got.rows[i].count, ROWS[i].count);
    }
    end(&f);
}

static void test_sorted_on_loading(void **state)
{
    (void)state;
    orr_overheads got;
    scratch f =
        begin("kind,name,mean_us,std_us,count\r\nt4,x,3,0,1\r\n\r\nt2,b,2,0,1\r\nt2,a,1,0,1\r\n");
    assert_int_equal(orr_overheads_load(f.path, f.arena, &got, NULL), ORR_OK);
    assert_int_equal(got.n, 3);
    assert_true(orr_overheads_find(&got, ORR_T2, "b")->mean_us == 2);
    assert_string_equal(got.rows[0].name, "a");
    assert_int_equal(got.rows[2].kind, ORR_T4);
    end(&f);
}

static void test_errors_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        orr_status status;
        const char *says;
    } CASES[] = {
        {"", ORR_PARSE, "empty"},
        {"name,mean\n", ORR_PARSE, ":1: not a file of overheads"},
        {"kind,name,mean_us,std_us,count\nt2,a,1,0\n", ORR_PARSE, ":2: not five"},
        {"kind,name,mean_us,std_us,count\nt2,a,1,0,1,9\n", ORR_PARSE, ":2: not five"},
        {"kind,name,mean_us,std_us,count\nt9,a,1,0,1\n", ORR_PARSE, ":2: the kind"},
        {"kind,name,mean_us,std_us,count\nt2,a,fast,0,1\n", ORR_PARSE, ":2: mean_us"},
        {"kind,name,mean_us,std_us,count\nt2,a,-1,0,1\n", ORR_PARSE, ":2: mean_us"},
        {"kind,name,mean_us,std_us,count\nt2,a,1,0,1\nt2,a,2,0,1\n", ORR_INVALID,
         "two rows for t2"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        orr_overheads got = {.n = 42};
        orr_error err = {0};
        scratch f = begin(CASES[i].text);
        assert_int_equal(orr_overheads_load(f.path, f.arena, &got, &err), CASES[i].status);
        if (strstr(err.text, CASES[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", err.text, CASES[i].says);
        assert_int_equal(got.n, 42);
        end(&f);
    }
    orr_overheads got;
    orr_arena *arena = orr_arena_new(0, 0);
    assert_int_equal(orr_overheads_load("/nonexistent/file", arena, &got, NULL), ORR_IO);
    orr_arena_free(arena);
}

static void test_no_memory(void **state)
{
    (void)state;
    orr_overheads got;
    scratch f = begin("kind,name,mean_us,std_us,count\nt2,a,1,0,1\nt2,b,1,0,1\n");
    struct {
        orr_arena *arena;
    } s = {f.arena};
    SMALL_SURVIVES_NO_MEMORY(orr_overheads_load(f.path, s.arena, &got, NULL));
    f.arena = s.arena;
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_sorted_on_loading),
        cmocka_unit_test(test_errors_name_the_line),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
