/* SPDX-License-Identifier: Apache-2.0 */
#include "hta.h"

/* Launch statistics, operators and their kernels, queue length, frequent sequences. */

static const char *call_name(const hta *h, const orr_launch *row)
{
    const orr_graph *g = h->job->graphs[h->job->graph_of_rank[row->rank]];
    return orr_graph_str(g, g->name[row->call]);
}

/* The calls that HTA takes for launches; ours are all that launched something. */
static bool hta_knows(const char *call)
{
    const char *const known[] = {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync",
                                 "cudaMemsetAsync",
                                 "runFunction - job_prep_and_submit_for_execution"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(call, known[i]) == 0)
            return true;
    return false;
}

/* ... and those that it counts in the queue. */
static bool hta_counts(const char *call)
{
    return hta_knows(call) || strcmp(call, "cuLaunchKernel") == 0;
}

static int by_correlation(const void *a, const void *b)
{
    const orr_launch *x = a, *y = b;
    return (x->correlation > y->correlation) - (x->correlation < y->correlation);
}

static void compare_launches_of(hta *h, uint32_t rank)
{
    csv want = {0};
    const orr_launch *rows;
    size_t n, n_known = 0;
    char name[64];
    snprintf(name, sizeof name, "cuda_kernel_launch_stats.%u", rank);
    assert_true(hta_table(h, name, &want));
    h->options.rank = rank;
    hta_ok(h, orr_analyze_launches(h->job, &h->options, h->arena, &rows, &n, &h->err));
    orr_launch *known = orr_arena_array(h->arena, orr_launch, n);
    assert_non_null(known);
    for (size_t i = 0; i < n; i++)
        if (hta_knows(call_name(h, &rows[i])))
            known[n_known++] = rows[i];
    qsort(known, n_known, sizeof *known, by_correlation);
    assert_int_equal(n_known, want.n_rows);
    for (size_t i = 0; i < want.n_rows; i++) {
        const orr_launch key = {.correlation = (uint64_t)csv_number(&want, i, "correlation")};
        const orr_launch *row = bsearch(&key, known, n_known, sizeof key, by_correlation);
        if (row == NULL)
            fail_msg("%s: no launch %llu", h->of->folder, (unsigned long long)key.correlation);
        hta_us(h, "call", row->cpu_duration_ns, csv_number(&want, i, "cpu_duration"), 1);
        hta_us(h, "work", row->gpu_duration_ns, csv_number(&want, i, "gpu_duration"), 1);
        /* the start is rounded up and the end of the call down: the delay only grows */
        hta_between(h, "delay", (double)row->launch_delay_ns / 1000,
                    csv_number(&want, i, "launch_delay"), h->of->whole_us ? 1e-6 : 2, 1e-6);
    }
    h->options.rank = ORR_NONE;
}

static void test_launches(void **state)
{
    hta h = hta_begin(state);
    uint32_t rank, end;
    for (hta_ranks(&h, &rank, &end); rank < end; rank++)
        compare_launches_of(&h, rank);
    hta_end(&h);
}

/* HTA never empties its list between ranks: the table of a rank is that of all ranks up to it. */
static orr_op_kernels sum_ops(const orr_op_kernels *rows, size_t n, uint32_t rank, const char *op,
                              const char *kernels)
{
    orr_op_kernels sum = {.op = op};
    for (size_t i = 0; i < n; i++) {
        const orr_op_kernels *row = &rows[i];
        if (row->rank > rank || strcmp(row->op, op) != 0 || strcmp(row->kernels, kernels) != 0)
            continue;
        sum.mean_op_delay_ns += row->mean_op_delay_ns * (double)row->count;
        sum.mean_runtime_delay_ns += row->mean_runtime_delay_ns * (double)row->count;
        sum.count += row->count;
    }
    if (sum.count > 0) {
        sum.mean_op_delay_ns /= (double)sum.count;
        sum.mean_runtime_delay_ns /= (double)sum.count;
    }
    return sum;
}

/* Pairs of an operator and its caller that begin in the same microsecond: HTA's choice between
 * them is that of an unstable sort. */
static bool begins_with_its_caller(const hta *h, const char *op)
{
    const char *const pairs[] = {"aten::zero_", "aten::fill_", "aten::rsub", "aten::sub"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (h->of == &HTA_CASES[HTA_NEGQ] && strcmp(op, pairs[i]) == 0)
            return true;
    return false;
}

static void compare_op_kernels_of(hta *h, const orr_op_kernels *rows, size_t n, uint32_t rank)
{
    csv want = {0};
    char name[64];
    snprintf(name, sizeof name, "aten_op_kernels_and_delay.%u", rank);
    assert_true(hta_table(h, name, &want));
    const double rounding_us = h->of->whole_us ? 0.0005001 : 1.001;
    double got_pairs = 0, want_pairs = 0;
    for (size_t i = 0; i < want.n_rows; i++) {
        const char *op = csv_text(&want, i, "aten_op_name");
        if (begins_with_its_caller(h, op)) {
            want_pairs += csv_number(&want, i, "occurrence_count");
            continue;
        }
        const orr_op_kernels row =
            sum_ops(rows, n, rank, op, csv_text(&want, i, "kernel_sequence"));
        hta_close(h, op, (double)row.count, csv_number(&want, i, "occurrence_count"), 0);
        hta_close(h, op, row.mean_op_delay_ns / 1000,
                  csv_number(&want, i, "avg_aten_op_launch_delay"), rounding_us);
        hta_close(h, op, row.mean_runtime_delay_ns / 1000,
                  csv_number(&want, i, "avg_runtime_delay"), rounding_us);
    }
    for (size_t i = 0; i < n; i++)
        if (rows[i].rank <= rank && begins_with_its_caller(h, rows[i].op))
            got_pairs += (double)rows[i].count;
    hta_close(h, "operators that begin with their caller", got_pairs, want_pairs, 0);
}

static void test_op_kernels(void **state)
{
    hta h = hta_begin(state);
    const orr_op_kernels *rows;
    size_t n;
    uint32_t rank, end;
    hta_ok(&h, orr_analyze_op_kernels(h.job, &h.options, h.arena, &rows, &n, &h.err));
    for (hta_ranks(&h, &rank, &end); rank < end; rank++)
        compare_op_kernels_of(&h, rows, n, rank);
    hta_end(&h);
}

/* HTA's table has lost its index; its rows are by rank, then by number of the stream. */
static int by_rank_and_stream(const void *a, const void *b)
{
    const orr_distribution *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return atoi(x->series) - atoi(y->series);
}

/* Launches of a stream that HTA does not count: graphs, and calls that it does not know. */
typedef struct unknown {
    int64_t *enqueued_ns, *started_ns; /* shape (n), each sorted; on the job's axis */
    size_t n, next_enqueued, next_started;
} unknown;

static unknown find_unknown(hta *h, const orr_distribution *of)
{
    const orr_view *view = hta_view(h, of->rank);
    const orr_graph *g = view->graph;
    const orr_launch *rows;
    const char *const *labels;
    size_t n;
    h->options.rank = of->rank;
    hta_ok(h, orr_analyze_launches(h->job, &h->options, h->arena, &rows, &n, &h->err));
    h->options.rank = ORR_NONE;
    hta_ok(h, orr_lane_labels(g, h->arena, &labels, &h->err));
    unknown u = {orr_arena_array(h->arena, int64_t, n), orr_arena_array(h->arena, int64_t, n), 0, 0,
                 0};
    bool *seen = orr_arena_array(h->arena, bool, g->n_nodes);
    assert_true(u.enqueued_ns != NULL && u.started_ns != NULL && seen != NULL);
    for (size_t i = 0; i < n; i++) { /* by start: the first of a graph is met first */
        const bool here = strcmp(labels[g->lane[rows[i].work]], of->series) == 0;
        if (!here || hta_counts(call_name(h, &rows[i])) || seen[rows[i].call])
            continue;
        seen[rows[i].call] = true;
        u.enqueued_ns[u.n] = orr_view_job_ns(view, g->start_ns[rows[i].call]);
        u.started_ns[u.n++] = orr_view_job_ns(view, g->start_ns[rows[i].work]);
    }
    orr_sort_ns(u.enqueued_ns, u.n);
    orr_sort_ns(u.started_ns, u.n);
    return u;
}

/* The series of a stream as HTA counts it, and the number of pairs of a launch and a start that
 * meet (within 2 us where HTA rounds). HTA's order of such a pair is that of an unstable sort, ours
 * puts the launch first; each moves one point by at most 2. */
static double *series_of_hta(hta *h, const orr_distribution *of, size_t *ret_n, size_t *ret_ties)
{
    const orr_series_sample *rows;
    size_t n;
    double before = 0;
    unknown u = find_unknown(h, of);
    hta_ok(h, orr_analyze_queue_length_series(h->job, &h->options, h->arena, &rows, &n, &h->err));
    double *values = orr_arena_array(h->arena, double, n);
    assert_non_null(values);
    *ret_n = *ret_ties = 0;
    for (size_t i = 0; i < n; i++) {
        if (rows[i].rank != of->rank || strcmp(rows[i].series, of->series) != 0)
            continue;
        const bool up = rows[i].value > before;
        if (up && u.next_enqueued < u.n && rows[i].at_ns == u.enqueued_ns[u.next_enqueued]) {
            u.next_enqueued++;
        } else if (!up && u.next_started < u.n && rows[i].at_ns == u.started_ns[u.next_started]) {
            u.next_started++;
        } else {
            values[*ret_n] = rows[i].value - (double)(u.next_enqueued - u.next_started);
            *ret_ties += *ret_n > 0 && (h->of->whole_us ? !up : true) &&
                         (values[*ret_n] > values[*ret_n - 1]) == up &&
                         rows[i].at_ns - rows[i - 1].at_ns <= (h->of->whole_us ? 0 : 2000);
            ++*ret_n;
        }
        before = rows[i].value;
    }
    assert_int_equal(u.next_enqueued, u.n);
    assert_int_equal(u.next_started, u.n);
    return values;
}

static void compare_queue(hta *h, const orr_distribution *row, const char *const cell[8])
{
    size_t n, n_ties;
    orr_distribution as_hta;
    double *values = series_of_hta(h, row, &n, &n_ties);
    assert_true(n > 0);
    if (n == row->count) /* the series and its distribution are one */
        hta_close(h, row->series, row->mean, (orr_describe(values, n, &as_hta), as_hta.mean), 1e-9);
    orr_describe(values, n, &as_hta);
    const double share = (double)n_ties / (double)n, step = n_ties > 0 ? 1 : 0;
    const double got[] = {(double)n,  as_hta.mean, as_hta.stddev, as_hta.min,
                          as_hta.p25, as_hta.p50,  as_hta.p75,    as_hta.max};
    /* a mean moves by the mean of the moves, a spread by no more than their root mean square */
    const double slack[] = {0, 2 * share, 2 * sqrt(share), step, step, step, step, step};
    for (size_t c = 0; c < 8; c++)
        hta_close(h, row->series, got[c], strtod(cell[c], NULL), slack[c] + 1e-9);
}

static void test_queue_length(void **state)
{
    hta h = hta_begin(state);
    csv want = {0};
    const orr_distribution *rows;
    size_t n;
    assert_true(hta_table(&h, "queue_length_summary", &want));
    hta_ok(&h, orr_analyze_queue_length(h.job, &h.options, h.arena, &rows, &n, &h.err));
    orr_distribution *sorted = orr_arena_array(h.arena, orr_distribution, n);
    assert_non_null(sorted);
    memcpy(sorted, rows, n * sizeof *rows);
    qsort(sorted, n, sizeof *sorted, by_rank_and_stream);
    assert_int_equal(want.n_columns, 8);
    assert_int_equal(n, want.n_rows - 1);
    for (size_t i = 0; i < n; i++)
        compare_queue(&h, &sorted[i], &want.cells[(i + 2) * 8]);
    hta_end(&h);
}

static void test_frequent_sequences(void **state)
{
    hta h = hta_begin(state);
    csv want = {0};
    const orr_sequence *rows;
    size_t n;
    h.options.operator_name = "aten::linear";
    h.options.rank = h.of->rank;
    h.options.sequence_top = 0;
    assert_true(hta_table(&h, "frequent_cuda_seq", &want));
    hta_ok(&h, orr_analyze_sequences(h.job, &h.options, h.arena, &rows, &n, &h.err));
    assert_int_equal(n, want.n_rows);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(rows[i].pattern, csv_text(&want, i, "pattern"));
        hta_close(&h, "count", (double)rows[i].count, csv_number(&want, i, "count"), 0);
        hta_us(&h, "kernels", rows[i].kernel_ns, csv_number(&want, i, "GPU kernel duration (us)"),
               0);
        hta_us(&h, "op", rows[i].op_ns, csv_number(&want, i, "CPU op duration (us)"), 0);
    }
    hta_end(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTA_TEST(test_launches, HTA_DLRM),           HTA_TEST(test_launches, HTA_DDP),
        HTA_TEST(test_launches, HTA_NEGQ),           HTA_TEST(test_launches, HTA_QWEN),
        HTA_TEST(test_launches, HTA_MTIA),           HTA_TEST(test_op_kernels, HTA_DLRM),
        HTA_TEST(test_op_kernels, HTA_DDP),          HTA_TEST(test_op_kernels, HTA_NEGQ),
        HTA_TEST(test_op_kernels, HTA_QWEN),         HTA_TEST(test_queue_length, HTA_DLRM),
        HTA_TEST(test_queue_length, HTA_DDP),        HTA_TEST(test_queue_length, HTA_NEGQ),
        HTA_TEST(test_queue_length, HTA_QWEN),       HTA_TEST(test_queue_length, HTA_MTIA),
        HTA_TEST(test_frequent_sequences, HTA_DLRM), HTA_TEST(test_frequent_sequences, HTA_DDP),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
