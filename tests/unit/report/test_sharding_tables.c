/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <unistd.h>

#include "report/sharding/parts.h"
#include "report/table/cell.h"

/* The plan of a model of the catalogue over the eight ranks of a host, and a worse one. */
typedef struct scene {
    orr_arena *arena;
    const orr_model *model;
    orr_table_planner_options options;
    orr_table_planning best, given;
    orr_sharding_report report;
    orr_named_table tables[ORR_SHARDING_TABLES];
} scene;

static void tabulate(scene *s)
{
    assert_int_equal(orr_sharding_tables(&s->report, s->arena, s->tables, NULL), ORR_OK);
}

static scene *make(int64_t memory_bytes)
{
    orr_arena *arena = orr_arena_new(0, 0);
    scene *s = orr_arena_one(arena, scene);
    s->arena = arena;
    assert_int_equal(orr_model_load("dlrm-criteo-kaggle", arena, &s->model, NULL), ORR_OK);
    orr_table_planner_options_init(&s->options);
    s->options.tables = s->model->dlrm.tables;
    s->options.n_tables = s->model->dlrm.n_tables;
    s->options.ranks = 8;
    s->options.samples = 256;
    s->options.memory_bytes = memory_bytes;
    s->options.costs = (orr_table_costs){.memory_bytes_per_s = 1e12,
                                         .cache_bytes_per_s = 3e12,
                                         .exchange_ns = 1e4,
                                         .exchange_bytes_per_s = 1e11,
                                         .gather_ns = 1e4,
                                         .gather_bytes_per_s = 1e11,
                                         .source = "a \033[31mtest"};
    assert_int_equal(orr_plan_tables(&s->options, arena, &s->best, NULL), ORR_OK);
    s->report = (orr_sharding_report){.model = s->model, .options = &s->options, .best = &s->best};
    tabulate(s);
    return s;
}

static void give(scene *s)
{
    orr_embedding_plan plan;
    assert_int_equal(orr_embedding_plan_default(s->model->dlrm.tables, s->model->dlrm.n_tables, 8,
                                                s->arena, &plan, NULL),
                     ORR_OK);
    assert_int_equal(orr_price_table_plan(&s->options, &plan, s->arena, &s->given, NULL), ORR_OK);
    s->report.given = &s->given;
    tabulate(s);
}

static const orr_table *table_of(const scene *s, const char *name)
{
    for (int i = 0; i < ORR_SHARDING_TABLES; i++)
        if (strcmp(s->tables[i].name, name) == 0)
            return &s->tables[i].table;
    fail_msg("no table %s", name);
    return NULL;
}

static void a_row_a_table_and_a_row_a_rank(void **state)
{
    scene *s = make((int64_t)1 << 30);
    const orr_table *tables = table_of(s, "tables"), *ranks = table_of(s, "ranks");
    (void)state;
    assert_int_equal(tables->n_rows, 26);
    assert_int_equal(ranks->n_rows, 8);
    for (size_t t = 0; t < 26; t++) {
        assert_string_equal(cell_of(tables, t, "table").as.text, s->model->dlrm.tables[t].name);
        assert_int_equal(cell_of(tables, t, "rows").as.i64, s->model->dlrm.tables[t].rows);
        assert_true(cell_of(tables, t, "why").as.text[0] != '\0');
    }
    for (size_t r = 0; r < 8; r++) {
        assert_int_equal(cell_of(ranks, r, "memory_bytes").as.i64, s->best.ranks[r].memory_bytes);
        assert_true(cell_of(ranks, r, "total_ns").as.number == s->best.ranks[r].ns);
        assert_true(cell_of(ranks, r, "memory_frac").as.number <= 1);
    }
    assert_int_equal(table_of(s, "given_tables")->n_rows, 0);
    assert_int_equal(table_of(s, "comparison")->n_rows, 0);
    orr_arena_free(s->arena);
}

static void a_given_plan_stands_beside_the_best(void **state)
{
    scene *s = make(0);
    give(s);
    const orr_table *both = table_of(s, "comparison");
    (void)state;
    assert_int_equal(both->n_rows, 2);
    assert_string_equal(cell_of(both, 0, "plan").as.text, "given");
    assert_true(cell_of(both, 0, "time_ns").as.number == s->given.ns);
    assert_true(cell_of(both, 1, "over_best_frac").as.number == 0);
    assert_true(s->given.ns >= s->best.ns);
    assert_int_equal(table_of(s, "given_tables")->n_rows, 26);
    assert_string_equal(cell_of(table_of(s, "given_tables"), 0, "kind").as.text, "table");
    assert_int_equal(cell_of(table_of(s, "ranks"), 0, "memory_frac").kind, ORR_CELL_NONE);
    orr_arena_free(s->arena);
}

static void runs_of_ranks_are_short(void **state)
{
    static const uint32_t ranks[] = {3, 4, 5, 6, 9, 1, 2, 0};
    const orr_embedding_placement some = {
        .sharding = ORR_SHARDING_ROW, .columns = 1, .ranks = ranks, .n_ranks = 8};
    const orr_embedding_placement all = {.sharding = ORR_SHARDING_DATA, .columns = 1};
    orr_arena *arena = orr_arena_new(0, 0);
    (void)state;
    assert_string_equal(orr_sharding_ranks_text(&some, arena), "3-6, 9, 1, 2, 0");
    assert_string_equal(orr_sharding_ranks_text(&all, arena), "all");
    orr_arena_free(arena);
}

static void people_are_told_time_memory_and_proof(void **state)
{
    scene *s = make(0);
    give(s);
    char *text = WRITTEN(out, orr_sharding_summary(&s->report, out));
    (void)state;
    assert_non_null(strstr(text, "26 tables, "));
    assert_non_null(strstr(text, " over 8 ranks of this machine\n"));
    assert_non_null(strstr(text, "step: 2,048 samples, 256 a rank; "));
    assert_non_null(strstr(text, "\ntime: "));
    assert_non_null(strstr(text, "; more would not lower the bound\n"));
    assert_non_null(strstr(text, "\nproof: no plan "));
    assert_non_null(strstr(text, "\ngiven: "));
    assert_null(strchr(text, '\033')); /* of the source */
    free(text);
    s->report.interrupted = true;
    s->best.optimal = false;
    text = WRITTEN(out, orr_sharding_summary(&s->report, out));
    assert_non_null(strstr(text, "\ninterrupted: this is the best so far\n"));
    free(text);
    assert_string_equal(orr_sharding_status(&s->report), "interrupted");
    orr_arena_free(s->arena);
}

static void no_plan_is_told_with_its_reason(void **state)
{
    scene *s = make(1 << 20);
    (void)state;
    assert_non_null(s->best.infeasible);
    assert_string_equal(orr_sharding_status(&s->report), "no plan");
    char *text = WRITTEN(out, orr_sharding_summary(&s->report, out));
    assert_non_null(strstr(text, "\nno plan: table '"));
    assert_null(strstr(text, "time: "));
    free(text);
    for (int i = 0; i < ORR_SHARDING_TABLES; i++)
        assert_int_equal(s->tables[i].table.n_rows, 0);
    text = WRITTEN(out, orr_sharding_json(&s->report, s->tables, out));
    assert_non_null(strstr(text, "\"status\":\"no plan\""));
    assert_non_null(strstr(text, "\"infeasible_bytes\":"));
    assert_null(strstr(text, "\"gap_frac\""));
    free(text);
    give(s); /* may be priced all the same */
    assert_int_equal(table_of(s, "comparison")->n_rows, 1);
    orr_arena_free(s->arena);
}

static void the_page_has_pictures_of_both_plans(void **state)
{
    char path[] = "/tmp/orrery-sharding-XXXXXX", end[9] = "";
    scene *s = make(0);
    give(s);
    (void)state;
    close(mkstemp(path));
    assert_int_equal(orr_sharding_html(path, &s->report, NULL), ORR_OK);
    FILE *f = fopen(path, "rb");
    assert_int_equal(fseek(f, -8, SEEK_END), 0);
    assert_int_equal(fread(end, 1, 8, f), 8);
    assert_string_equal(end, "</html>\n");
    assert_true(ftell(f) > 60000);
    fclose(f);
    unlink(path);
    assert_int_equal(orr_sharding_html("/nowhere/at/all.html", &s->report, NULL), ORR_IO);
    orr_arena_free(s->arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_a_table_and_a_row_a_rank),
        cmocka_unit_test(a_given_plan_stands_beside_the_best),
        cmocka_unit_test(runs_of_ranks_are_short),
        cmocka_unit_test(people_are_told_time_memory_and_proof),
        cmocka_unit_test(no_plan_is_told_with_its_reason),
        cmocka_unit_test(the_page_has_pictures_of_both_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
