/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <math.h>
#include <unistd.h>

#include "report/fleet/parts.h"
#include "report/fleet/svg.h"
#include "report/page/svg.h"
#include "report/table/cell.h"

/* Five policies of a job of 512 GPUs that fails often: everything of the report is there. */
typedef struct scene {
    orr_arena *arena;
    orr_failure_catalog catalog;
    orr_fleet fleet;
    orr_named_table tables[ORR_FLEET_TABLES];
    const char *names[5];
} scene;

static scene make(const char *set)
{
    static const orr_fleet_policy policies[] = {{ORR_FLEET_SYNC, 1, 0},
                                                {ORR_FLEET_SPARES, 1, 9},
                                                {ORR_FLEET_FT, 2, 0},
                                                {ORR_FLEET_FT, 4, 0},
                                                {ORR_FLEET_FT, 8, 0}};
    scene s = {.arena = orr_arena_new(0, 0)};
    const orr_failures *failures;
    const orr_fleet_timing *timing;
    orr_fleet_options o;
    assert_int_equal(orr_failure_catalog_open(NULL, s.arena, &s.catalog, NULL), ORR_OK);
    assert_int_equal(orr_failures_find(&s.catalog, "llama3_405b", &failures, NULL), ORR_OK);
    assert_int_equal(orr_fleet_timing_find(&s.catalog, "ft_hsdp", &timing, NULL), ORR_OK);
    orr_fleet_options_init(&o, failures, timing);
    o.gpus = 512;
    o.horizon_ns = 3 * 86400 * (int64_t)1000000000;
    o.repetitions = 3;
    o.threads = 1;
    assert_int_equal(orr_fleet_set(&o, set, s.arena, NULL), ORR_OK);
    assert_int_equal(orr_fleet_of(&o, policies, 5, true, s.arena, &s.fleet, NULL), ORR_OK);
    assert_int_equal(orr_fleet_tables(&s.fleet, &s.catalog, s.arena, s.tables, NULL), ORR_OK);
    for (int i = 0; i < 5; i++)
        s.names[i] = orr_fleet_policy_text(&policies[i], s.arena);
    return s;
}

static const orr_table *table_of(const scene *s, const char *name)
{
    for (int i = 0; i < ORR_FLEET_TABLES; i++)
        if (strcmp(s->tables[i].name, name) == 0)
            return &s->tables[i].table;
    fail_msg("no table %s", name);
    return NULL;
}

static double number(const orr_table *t, size_t row, const char *column)
{
    return orr_cell_number(cell_of(t, row, column));
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

static void a_row_a_policy(void **state)
{
    scene s = make("rate=2000");
    const orr_table *t = table_of(&s, "policies");
    (void)state;
    assert_string_equal(t->schema, "orrery.fleet_policies/1");
    assert_int_equal(t->n_rows, 5);
    for (size_t i = 0; i < 5; i++) {
        const orr_fleet_outcome *o = &s.fleet.outcomes[i];
        assert_string_equal(cell_of(t, i, "policy").as.text, s.names[i]);
        assert_true(number(t, i, "effective_frac") == o->effective.mean);
        assert_int_equal(cell_of(t, i, "spare_nodes").kind == ORR_CELL_NONE, i != 1);
        assert_int_equal(cell_of(t, i, "reconfigurations_per_day").kind == ORR_CELL_NONE, i < 2);
        assert_int_equal(cell_of(t, i, "budgets_met").kind, ORR_CELL_NONE);
    }
    assert_string_equal(s.names[1], "spares9");
    assert_string_equal(s.names[4], "ft8");
    orr_arena_free(s.arena);
}

static void shares_of_a_policy_add_up(void **state)
{
    scene s = make("rate=2000");
    const orr_table *losses = table_of(&s, "losses"), *down = table_of(&s, "concurrency");
    (void)state;
    assert_int_equal(losses->n_columns, 6);
    assert_int_equal(down->n_columns, 4); /* of those that have replicas */
    for (int i = 0; i < 5; i++) {
        char column[32];
        double sum = 0, time = 0;
        snprintf(column, sizeof column, "%s_frac", s.names[i]);
        for (size_t row = 0; row < losses->n_rows; row++)
            sum += number(losses, row, column);
        assert_true(fabs(sum - 1) < 1e-9);
        for (size_t row = 0; row < down->n_rows && i >= 2; row++)
            time += number(down, row, column);
        assert_true(i < 2 || fabs(time - 1) < 1e-9);
    }
    orr_arena_free(s.arena);
}

static void the_rate_that_is_used_is_marked(void **state)
{
    (void)state;
    for (int said = 0; said < 2; said++) {
        scene s = make(said ? "rate=2000" : "detect=61s");
        const orr_table *t = table_of(&s, "rates");
        size_t used = 0;
        for (size_t i = 0; i < t->n_rows; i++) {
            const char *name = cell_of(t, i, "failures").as.text;
            const bool is = cell_of(t, i, "used").as.truth;
            used += is;
            if (is)
                assert_string_equal(name, said ? "of this run" : "llama3_405b");
            assert_true(number(t, i, "mtbf_min") > 0);
        }
        assert_int_equal(used, 1);
        orr_arena_free(s.arena);
    }
}

static void every_setting_is_shown_with_its_source(void **state)
{
    scene s = make("rate=2000,repair=lognormal(6h, 3d)");
    const orr_table *t = table_of(&s, "settings");
    bool repair = false;
    (void)state;
    assert_int_equal(t->n_rows, 4 + ORR_FLEET_TIMES + ORR_FLEET_NUMBERS);
    for (size_t i = 4; i < t->n_rows; i++) {
        const char *value = cell_of(t, i, "value").as.text,
                   *source = cell_of(t, i, "source").as.text;
        assert_true(strcmp(value, "none") == 0 || source[0] != '\0');
        if (strcmp(cell_of(t, i, "setting").as.text, "repair") != 0)
            continue;
        repair = true;
        assert_string_equal(value, "lognormal(6h, 3d)");
        assert_string_equal(source, "said for this run");
    }
    assert_true(repair);
    orr_arena_free(s.arena);
}

static void categories_stand_beside_what_was_published(void **state)
{
    scene s = make("rate=2000");
    const orr_table *t = table_of(&s, "categories");
    double seen = 0, published = 0;
    (void)state;
    for (size_t i = 0; i < t->n_rows; i++) {
        const orr_cell share = cell_of(t, i, "published_frac");
        seen += number(t, i, "share_frac");
        published += share.kind == ORR_CELL_NONE ? 0 : share.as.number;
    }
    assert_true(fabs(seen - 1) < 1e-9);
    assert_true(published > 0.95 && published < 1 + 1e-9); /* rare ones may not have come */
    orr_arena_free(s.arena);
}

static void no_table_has_more_columns_than_are_shown(void **state)
{
    scene s = make("rate=2000");
    (void)state;
    for (int i = 0; i < ORR_FLEET_TABLES; i++)
        assert_true(s.tables[i].table.n_columns <= ORR_COLUMNS_MAX && s.tables[i].table.n_rows > 0);
    orr_arena_free(s.arena);
}

static void bars_are_as_long_as_the_whole(void **state)
{
    scene s = make("rate=2000");
    (void)state;
    char *text = WRITTEN(out, orr_svg_fleet_losses(out, &s.fleet, s.names));
    double width = 0;
    for (const char *at = text; (at = strstr(at, "width=\"")) != NULL; at++) {
        const double w = strtod(at + 7, NULL);
        const char *title = strstr(at, "<title>"), *next = strchr(at, '\n');
        if (title != NULL && title < next && strncmp(title + 7, "sync, ", 6) == 0)
            width += w;
    }
    assert_true(fabs(width - (ORR_SVG_WIDTH - 110)) < 0.1);
    assert_int_equal(count(text, "<title>ft8, steps that stand"), 1);
    free(text);
    orr_arena_free(s.arena);
}

static void replicas_are_points_and_the_others_lines(void **state)
{
    scene s = make("rate=2000");
    (void)state;
    char *text = WRITTEN(out, orr_svg_fleet_replicas(out, &s.fleet));
    assert_int_equal(count(text, "<circle"), 3);
    assert_int_equal(count(text, "class=\"level\""), 2);
    free(text);
    orr_arena_free(s.arena);
}

static void a_day_shows_every_piece(void **state)
{
    scene s = make("rate=2000");
    size_t pieces = 0, degraded = 0;
    (void)state;
    for (int i = 0; i < 5; i++) {
        const orr_fleet_timeline *day = &s.fleet.outcomes[i].day;
        assert_true(day->n > 1);
        assert_true(day->pieces[0].begin_ns == day->begin_ns);
        assert_true(day->pieces[day->n - 1].end_ns == day->end_ns);
        pieces += day->n;
        for (uint32_t k = 0; k < day->n; k++)
            degraded += day->pieces[k].loss == ORR_FLEET_LOSSES &&
                        day->pieces[k].contributing < s.fleet.outcomes[i].policy.replicas;
    }
    char *text = WRITTEN(out, orr_svg_fleet_day(out, &s.fleet, s.names));
    assert_int_equal(count(text, "<rect"), pieces + degraded);
    assert_non_null(strstr(text, ">24 h</text>"));
    free(text);
    orr_arena_free(s.arena);
}

static void settings_have_two_bars_each(void **state)
{
    scene s = make("rate=2000");
    size_t n = 0;
    (void)state;
    for (uint32_t i = 0; i < s.fleet.n_effects; i++)
        n += s.fleet.effects[i].policy == 4;
    assert_true(n > 5);
    char *text = WRITTEN(out, orr_svg_fleet_sensitivity(out, &s.fleet, 4));
    assert_int_equal(count(text, "<rect"), 2 * n);
    free(text);
    orr_arena_free(s.arena);
}

static void a_page_is_whole(void **state)
{
    scene s = make("rate=2000");
    char path[] = "/tmp/orrery-fleet-XXXXXX";
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(orr_fleet_html(path, &s.fleet, &s.catalog, NULL), ORR_OK);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const size_t n = (size_t)ftell(file);
    char *text = calloc(1, n + 1);
    rewind(file);
    assert_int_equal(fread(text, 1, n, file), n);
    assert_string_equal(text + n - 8, "</html>\n");
    assert_true(s.fleet.n > 1 && s.fleet.n_effects > 0);
    assert_int_equal(count(text, "Change of the effective time"), s.fleet.n);
    free(text);
    fclose(file);
    remove(path);
    assert_int_equal(orr_fleet_html("/nowhere/at/all.html", &s.fleet, &s.catalog, NULL), ORR_IO);
    orr_arena_free(s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_a_policy),
        cmocka_unit_test(shares_of_a_policy_add_up),
        cmocka_unit_test(the_rate_that_is_used_is_marked),
        cmocka_unit_test(every_setting_is_shown_with_its_source),
        cmocka_unit_test(categories_stand_beside_what_was_published),
        cmocka_unit_test(no_table_has_more_columns_than_are_shown),
        cmocka_unit_test(bars_are_as_long_as_the_whole),
        cmocka_unit_test(replicas_are_points_and_the_others_lines),
        cmocka_unit_test(a_day_shows_every_piece),
        cmocka_unit_test(settings_have_two_bars_each),
        cmocka_unit_test(a_page_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
