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

/* Published jobs did run: none of them may be told not to fit. Left out are MLPerf's inference,
 * whose batch is the most that its engine takes, not what ran. */

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

/* Rows whose plan is told in part: what made them fit is not. `most_gib`: too much at most. */
static const struct {
    const char *table, *label, *why;
    double most_gib;
} PARTIAL[] = {
    {"megatron_bridge_perf", "LLAMA3_70B",
     "FSDP with 20 to 40 layers offloaded to the host; of two "
     "rows the pipeline's degree and chunks are not told",
     260},
    {"megatron_bridge_perf", "DeepSeekV3 MXFP8 on 256 DGX-GB300",
     "what is computed again differs "
     "between releases",
     10},
    {"megatron_bridge_perf", "LLAMA3.1_405B FP8 on 256 DGX-GB200", "buffers of FSDP", 1},
    {"mlperf_parallelism", "llama31_405b on", "the type of gradients", 6},
    {"nemo_2407_h100_fp8", "LLAMA2-70B SFT", "what is computed again", 16},
    {"famous_runs", "grok1-314b", "what is computed again", 140},
    {"famous_runs", "llama3.1-405b on 512", "the type of gradients", 5},
    {"famous_runs", "bloom-candidate-181B", "its own memory is 76 GB of 80", 3},
    {"famous_runs", "llama3-8B on 4", "what is computed again", 40},
    {"fsdp_memory", "llama3-8B on 4", "what is computed again", 40},
    {"fsdp_memory", "bloom-candidate-181B", "its own memory is 76 GB of 80", 3},
    {"fsdp_memory", "DeepSeek-V3 on 256", "what is computed again", 5},
    {"inference", "Llama 2 13B on H200", "the type of keys and values", 25},
};

static bool is_told_in_part(const job_case *c, double missing_gib)
{
    for (size_t i = 0; i < sizeof PARTIAL / sizeof *PARTIAL; i++)
        if (strcmp(c->table, PARTIAL[i].table) == 0 && job_has(c->label, PARTIAL[i].label) &&
            missing_gib <= PARTIAL[i].most_gib) {
            print_message("# %s, row %zu, %s: %.1f GiB too much; not told: %s\n", c->table, c->row,
                          c->label, missing_gib, PARTIAL[i].why);
            return true;
        }
    return false;
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
        const double missing = predictions[i].missing_gib;
        if (!(missing > 0) || is_told_in_part(c, missing))
            continue;
        n_missing++;
        print_message("# %s, row %zu, %s on %s: %.1f GiB too much\n", c->table, c->row, c->label,
                      c->cluster, missing);
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
