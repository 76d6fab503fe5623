/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "csv.h"

#include <orrery/cost.h>
#include <orrery/trace.h>

/* Host overhead T2 (operator start to its first launch) carried to a recording that it was not
 * fitted on. The splits, not one of which was chosen for its figure:
 *
 * model    each of the three H100 recordings (language model, BERT, vision transformer; one
 *          generation of host and PyTorch) from the other two: another model. The claim.
 * host     each of the two A100 recordings from the other: other model, PyTorch and cluster too.
 * rank     ranks 4 to 7 of the V100 DLRM job from ranks 0 to 3: the same model and step. What
 *          the spread of the recordings allows at best.
 * run      snapshot 207d110 of the published overheads from 234414c: the same model and host.
 *
 * Predicted is the mean by operator name (outliers left out) of all that was fitted on; judged
 * is each name that both have, against its mean. GMAE is exp(mean(ln(|error| + 4e-4))). The
 * published anchor for overheads shared between models is 7.2 % GMAE, 16.7 % MAPE (Lin et al.). */
typedef struct score {
    double log_sum, sum;
    uint32_t names, names_of_target;
} score;

static void judge(const orr_overheads *fitted, const orr_overheads *target, score *total)
{
    for (size_t i = 0; i < target->n; i++) {
        const orr_overhead *row = &target->rows[i];
        if (row->kind != ORR_T2 || !(row->mean_us > 0))
            continue;
        total->names_of_target++;
        const orr_overhead *known = orr_overheads_find(fitted, ORR_T2, row->name);
        if (known == NULL)
            continue;
        const double error = fabs(known->mean_us - row->mean_us) / row->mean_us;
        total->log_sum += log(error + 4e-4);
        total->sum += error;
        total->names++;
    }
}

static double gmae(const score *s)
{
    return 100 * exp(s->log_sum / s->names);
}

static double mape(const score *s)
{
    return 100 * s->sum / s->names;
}

static void report(const char *split, const score *s)
{
    print_message("# %-6s T2: %u of %u names, GMAE %.1f %%, MAPE %.1f %%\n", split, s->names,
                  s->names_of_target, gmae(s), mape(s));
}

/* The overheads of several recordings as one population. Ranks do not matter here. */
static bool extract(const char *const *files, size_t n, orr_arena *arena, orr_overheads *ret)
{
    const char *shared = getenv("ORRERY_SHARED");
    const orr_graph *graphs[8];
    assert_true(n <= 8);
    for (size_t i = 0; i < n; i++) {
        const char *path =
            orr_arena_printf(arena, "%s/data/traces/%s", shared != NULL ? shared : "", files[i]);
        if (orr_trace_read(path, NULL, &graphs[i], NULL, NULL) != ORR_OK) {
            while (i-- > 0)
                orr_graph_free(graphs[i]);
            return false;
        }
    }
    const orr_job job = {.n_graphs = (uint32_t)n, .graphs = graphs};
    assert_int_equal(orr_overheads_extract(&job, arena, ret, NULL), ORR_OK);
    for (size_t i = 0; i < n; i++)
        orr_graph_free(graphs[i]);
    return true;
}

/* Each of the files from all the others. */
static bool leave_one_out(const char *const *files, size_t n, score *total)
{
    orr_arena *arena = orr_arena_new(0, 0);
    bool there = true;
    for (size_t left_out = 0; left_out < n && there; left_out++) {
        const char *others[8];
        size_t n_others = 0;
        for (size_t i = 0; i < n; i++)
            if (i != left_out)
                others[n_others++] = files[i];
        orr_overheads fitted, target;
        score one = {0};
        there = extract(others, n_others, arena, &fitted) &&
                extract(&files[left_out], 1, arena, &target);
        if (!there)
            break;
        judge(&fitted, &target, &one);
        judge(&fitted, &target, total);
        report(files[left_out] + strlen("kineto/"), &one);
    }
    orr_arena_free(arena);
    return there;
}

static void test_another_model(void **state)
{
    (void)state;
    static const char *const H100[] = {"kineto/qwen1.5-0.5b_h100.json.gz",
                                       "kineto/bert-small_h100.json.gz",
                                       "kineto/nsfw-vit_h100.json.gz"};
    score total = {0};
    if (!leave_one_out(H100, 3, &total))
        skip();
    report("model", &total);
    assert_true(total.names >= 20);
    assert_true(gmae(&total) < 25); /* what is claimed, not what is wished for */
}

static void test_another_host(void **state)
{
    (void)state;
    static const char *const A100[] = {"kineto/ddp_a100_w8_rank3.json.gz",
                                       "kineto/a100_w16_missing_launches.json.gz"};
    score total = {0};
    if (!leave_one_out(A100, 2, &total))
        skip();
    report("host", &total);
    assert_true(total.names >= 50);
    assert_true(gmae(&total) < 45);
}

static void test_other_ranks(void **state)
{
    (void)state;
    static const char *const RANKS[] = {
        "dlrm_v100x8/rank0.device.json.gz", "dlrm_v100x8/rank1.device.json.gz",
        "dlrm_v100x8/rank2.device.json.gz", "dlrm_v100x8/rank3.device.json.gz",
        "dlrm_v100x8/rank4.device.json.gz", "dlrm_v100x8/rank5.device.json.gz",
        "dlrm_v100x8/rank6.device.json.gz", "dlrm_v100x8/rank7.device.json.gz"};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_overheads fitted, target;
    score s = {0};
    const bool there = extract(RANKS, 4, arena, &fitted) && extract(RANKS + 4, 4, arena, &target);
    if (there) {
        judge(&fitted, &target, &s);
        report("rank", &s);
        assert_int_equal(s.names, s.names_of_target);
        assert_true(gmae(&s) <= 5);
    }
    orr_arena_free(arena);
    if (!there)
        skip();
}

static void take_snapshot(const csv *table, const char *snapshot, orr_arena *arena,
                          orr_overheads *ret)
{
    orr_overhead *rows = orr_arena_array(arena, orr_overhead, table->n_rows);
    size_t n = 0;
    assert_non_null(rows);
    for (size_t i = 0; i < table->n_rows; i++)
        if (strcmp(csv_text(table, i, "snapshot"), snapshot) == 0)
            rows[n++] = (orr_overhead){
                .kind = (uint8_t)(csv_text(table, i, "overhead_type")[1] - '1'),
                .name = csv_text(table, i, "op_or_runtime"),
                .mean_us = csv_number(table, i, "mean_us"),
            };
    *ret = (orr_overheads){rows, n};
}

static void test_another_run(void **state)
{
    (void)state;
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL)
        skip();
    orr_arena *arena = orr_arena_new(0, 0);
    csv table;
    const char *path =
        orr_arena_printf(arena, "%s/facts/dlrm/overheads_t1_t5_dlrm_default_2048.csv", shared);
    const bool there = csv_open(path, arena, &table);
    if (there) {
        orr_overheads fitted, target;
        score s = {0};
        take_snapshot(&table, "234414c", arena, &fitted);
        take_snapshot(&table, "207d110", arena, &target);
        judge(&fitted, &target, &s);
        report("run", &s);
        assert_int_equal(s.names, 23);
        assert_true(gmae(&s) <= 5 && mape(&s) <= 10);
    }
    orr_arena_free(arena);
    if (!there)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_model),
        cmocka_unit_test(test_another_host),
        cmocka_unit_test(test_other_ranks),
        cmocka_unit_test(test_another_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
