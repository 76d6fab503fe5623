/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "csv.h"

#include <orrery/cost.h>

/* The worked case of the DLRM performance model (owensgroup/ml_perf_model, notebook of snapshot
 * 207d110: DLRM_default, batch 2048): 115 operators, their overheads T1 to T5, their launches, and
 * the cumulative host time that its authors printed after each. Walked here, each must agree
 * within 0.5 us. */
enum { OPERATORS = 115, LAUNCHES_MAX = 16 };

typedef struct worked {
    orr_arena *arena;
    csv sequence, published;
    orr_overheads overheads;
    orr_host_op ops[OPERATORS];
} worked;

static orr_overhead_kind kind_of(const char *text)
{
    return (orr_overhead_kind)(text[1] - '1');
}

/* The snapshot's rows, which come by kind and then by name. */
static void take_overheads(worked *w, const char *snapshot)
{
    orr_overhead *rows = orr_arena_array(w->arena, orr_overhead, w->published.n_rows);
    assert_non_null(rows);
    size_t n = 0;
    for (size_t i = 0; i < w->published.n_rows; i++) {
        if (strcmp(csv_text(&w->published, i, "snapshot"), snapshot) != 0)
            continue;
        rows[n++] = (orr_overhead){
            .kind = (uint8_t)kind_of(csv_text(&w->published, i, "overhead_type")),
            .name = csv_text(&w->published, i, "op_or_runtime"),
            .mean_us = csv_number(&w->published, i, "mean_us"),
            .std_us = csv_number(&w->published, i, "std_us"),
        };
    }
    assert_true(n > 50);
    w->overheads = (orr_overheads){rows, n};
}

/* "cudaLaunchKernel|cudaMemcpyAsync" -> its parts. */
static uint32_t split_launches(orr_arena *arena, const char *text, const char *const **ret)
{
    const char **parts = orr_arena_array(arena, const char *, LAUNCHES_MAX);
    assert_non_null(parts);
    uint32_t n = 0;
    while (*text != '\0') {
        const size_t len = strcspn(text, "|");
        assert_true(n < LAUNCHES_MAX);
        parts[n++] = orr_arena_strndup(arena, text, len);
        text += len + (text[len] == '|');
    }
    *ret = parts;
    return n;
}

/* torch.optim puts an annotation of this form around each of its calls. */
static bool is_annotation(const char *op)
{
    return strncmp(op, "Optimizer.", 10) == 0;
}

static bool begin(worked *w)
{
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL)
        return false;
    *w = (worked){.arena = orr_arena_new(0, 0)};
    assert_non_null(w->arena);
    const char *sequence =
        orr_arena_printf(w->arena, "%s/facts/dlrm/e2e_op_sequence_dlrm_default_2048.csv", shared);
    const char *published =
        orr_arena_printf(w->arena, "%s/facts/dlrm/overheads_t1_t5_dlrm_default_2048.csv", shared);
    if (!csv_open(sequence, w->arena, &w->sequence) ||
        !csv_open(published, w->arena, &w->published)) {
        orr_arena_free(w->arena);
        return false;
    }
    assert_int_equal(w->sequence.n_rows, OPERATORS);
    take_overheads(w, "207d110");
    static const double no_time[LAUNCHES_MAX];
    for (size_t i = 0; i < OPERATORS; i++) {
        orr_host_op *op = &w->ops[i];
        op->name = csv_text(&w->sequence, i, "op");
        op->n_launches =
            split_launches(w->arena, csv_text(&w->sequence, i, "launches"), &op->launches);
        op->kernel_us = no_time;
        op->n_kernels = op->n_launches;
        op->annotation = is_annotation(op->name);
    }
    return true;
}

/* How many operators are off by 0.5 us or more in their own time. */
static size_t misses(const worked *w, orr_annotation_rule rule, double *ret_worst_cumulative)
{
    orr_host_time times[OPERATORS];
    orr_host_timeline(&w->overheads, w->ops, OPERATORS, rule, times);
    size_t n = 0;
    double before = 0, reported_before = 0;
    *ret_worst_cumulative = 0;
    for (size_t i = 0; i < OPERATORS; i++) {
        const double reported = csv_number(&w->sequence, i, "cum_cpu_us_reported");
        const double off = (times[i].cpu_us - before) - (reported - reported_before);
        if (fabs(off) >= 0.5) {
            n++;
            print_message("# %zu %s: %+.3f us\n", i, w->ops[i].name, off);
        }
        *ret_worst_cumulative = fmax(*ret_worst_cumulative, fabs(times[i].cpu_us - reported));
        before = times[i].cpu_us;
        reported_before = reported;
    }
    return n;
}

static void test_all_115(void **state)
{
    (void)state;
    worked w;
    if (!begin(&w))
        skip();
    double worst;
    assert_int_equal(misses(&w, ORR_ANNOTATION_AS_PUBLISHED, &worst), 0);
    print_message("# worst of the 115 cumulative host times: %.6f us\n", worst);
    assert_true(worst < 0.5);
    orr_arena_free(w.arena);
}

/* The algorithm as its authors' later code has it differs from what they printed for exactly the
 * two annotations, by T2 + T3 - the sum of T4: the whole in place of its calls. */
static void test_the_two_that_differ(void **state)
{
    (void)state;
    worked w;
    if (!begin(&w))
        skip();
    double worst;
    assert_int_equal(misses(&w, ORR_ANNOTATION_LAUNCHES, &worst), 2);
    const double call = orr_overheads_find(&w.overheads, ORR_T4, "cudaLaunchKernel")->mean_us;
    orr_host_time by_launches[OPERATORS], as_printed[OPERATORS];
    orr_host_timeline(&w.overheads, w.ops, OPERATORS, ORR_ANNOTATION_LAUNCHES, by_launches);
    orr_host_timeline(&w.overheads, w.ops, OPERATORS, ORR_ANNOTATION_AS_PUBLISHED, as_printed);
    double expected = 0;
    for (size_t i = 0; i < OPERATORS; i++) {
        if (w.ops[i].annotation)
            expected += orr_overheads_find(&w.overheads, ORR_T2, w.ops[i].name)->mean_us +
                        orr_overheads_find(&w.overheads, ORR_T3, w.ops[i].name)->mean_us -
                        w.ops[i].n_launches * call;
        assert_true(fabs(as_printed[i].cpu_us - by_launches[i].cpu_us - expected) < 1e-6);
    }
    orr_arena_free(w.arena);
}

/* The reported T4 of each operator is the sum over its launches: nothing was fitted to the list. */
static void test_launches_are_the_published_ones(void **state)
{
    (void)state;
    worked w;
    if (!begin(&w))
        skip();
    for (size_t i = 0; i < OPERATORS; i++) {
        double sum = 0;
        for (uint32_t l = 0; l < w.ops[i].n_launches; l++)
            sum += orr_overheads_find(&w.overheads, ORR_T4, w.ops[i].launches[l])->mean_us;
        assert_true(fabs(sum - csv_number(&w.sequence, i, "t4_sum")) < 1e-9);
    }
    orr_arena_free(w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_115),
        cmocka_unit_test(test_the_two_that_differ),
        cmocka_unit_test(test_launches_are_the_published_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
