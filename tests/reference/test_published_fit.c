/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../bench/jobs/job_predict.h"

/* Published jobs did run: none of them may be told not to fit. Left out are MLPerf's inference, whose
 * batch is the most that its engine takes, not what ran. */

static bool open_cases(orr_arena *arena, job_cases *cases)
{
    static const char *const folders[] = {"tables", "published"};
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL || !job_cases_init(arena, cases))
        return false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char folder[4096];
        (void)snprintf(folder, sizeof folder, "%s/facts/%s", shared, folders[i]);
        job_cases_read(folder, cases);
    }
    return cases->n_tables > 0;
}

static bool is_judged(const job_case *c)
{
    return c->kernel == NULL && !(c->measure != JOB_STEP && job_has(c->group, "MLPerf"));
}

static void what_ran_fits(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    job_cases cases;
    job_world world;
    orr_error err = {0};
    size_t n = 0, n_missing = 0;
    if (!open_cases(arena, &cases)) {
        print_message("ORRERY_SHARED has no facts/tables: nothing is compared\n");
        skip();
    }
    job_prediction *predictions = orr_arena_array(arena, job_prediction, cases.n + 1);
    assert_non_null(predictions);
    if (job_world_open(&cases, NULL, arena, &world, &err) != ORR_OK ||
        job_predict_all(&world, &cases, predictions, &err) != ORR_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < cases.n; i++) {
        const job_case *c = &cases.at[i];
        if (!is_judged(c))
            continue;
        n++;
        if (!(predictions[i].missing_gib > 0))
            continue;
        n_missing++;
        print_message("# %s, row %zu, %s on %s: %.1f GiB too much\n", c->table, c->row, c->label,
                      c->cluster, predictions[i].missing_gib);
    }
    print_message("# %zu of %zu rows do not fit\n", n_missing, n);
    assert_int_equal(n_missing, 0);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_ran_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
