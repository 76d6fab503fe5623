/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "report/trace/parts.h"

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

static void a_bar_has_a_part_for_each_use_of_time(void **state)
{
    const orr_temporal rows[] = {
        {.rank = 0,
         .span_ns = 1000,
         .idle_ns = 250,
         .compute_ns = 500,
         .non_compute_ns = 250,
         .exposed_comm_ns = 250,
         .bubble_ns = 100},
        {.rank = 3, .span_ns = 500, .compute_ns = 500},
    };
    char *text = WRITTEN(out, orr_svg_breakdown(out, rows, 2));
    (void)state;
    assert_int_equal(count(text, "<rect"), 5);
    assert_non_null(strstr(text, "<title>rank 0, computing: 500 ns, 50.0 %</title>"));
    assert_non_null(
        strstr(text, "<rect class=\"compute\" x=\"76.00\" y=\"4.00\" width=\"662.00\""));
    assert_non_null(
        strstr(text, "<rect class=\"compute\" x=\"76.00\" y=\"30.00\" width=\"662.00\""));
    assert_non_null(strstr(text, "<title>rank 0, exposed transfers: 150 ns, 15.0 %</title>"));
    assert_non_null(
        strstr(text, "<title>rank 0, bubble: waiting for a peer: 100 ns, 10.0 %</title>"));
    assert_non_null(strstr(text, "rank 3</text>"));
    free(text);
}

static void nothing_and_very_many_ranks_make_a_picture(void **state)
{
    enum { MANY = 1000 };
    orr_temporal *rows = calloc(MANY, sizeof *rows);
    char *text = WRITTEN(out, orr_svg_breakdown(out, NULL, 0));
    (void)state;
    assert_int_equal(count(text, "</svg>"), 1);
    free(text);
    for (uint32_t i = 0; i < MANY; i++)
        rows[i] = (orr_temporal){.rank = i, .span_ns = 10, .idle_ns = 10};
    text = WRITTEN(out, orr_svg_breakdown(out, rows, MANY));
    assert_int_equal(count(text, "<rect"), 64);
    assert_non_null(strstr(text, "The first 64 of 1000 ranks."));
    free(text);
    free(rows);
}

static void a_path_shows_each_bound(void **state)
{
    orr_critical_path path = {.start_ns = 100, .end_ns = 1100};
    (void)state;
    path.bound_ns[ORR_BOUND_CPU] = 750;
    path.bound_ns[ORR_BOUND_PEER] = 250;
    char *text = WRITTEN(out, orr_svg_critical_path(out, &path));
    assert_int_equal(count(text, "<rect"), 2);
    assert_non_null(strstr(text, "<i class=\"swatch host\"></i>host (CPU) 75.0 %"));
    assert_non_null(strstr(text, "waiting for a peer 25.0 %"));
    free(text);
    for (int b = 0; b < ORR_BOUNDS; b++)
        assert_non_null(orr_bound_label((orr_bound)b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bar_has_a_part_for_each_use_of_time),
        cmocka_unit_test(nothing_and_very_many_ranks_make_a_picture),
        cmocka_unit_test(a_path_shows_each_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
