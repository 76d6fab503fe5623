/* SPDX-License-Identifier: Apache-2.0 */
#include "hta.h"

/* Temporal breakdown, overlap, kernel types, kernels, idle time. */

static void test_temporal(void **state)
{
    hta h = hta_begin(state);
    csv want = {0};
    const orr_temporal *rows;
    size_t n;
    assert_true(hta_table(&h, "temporal_breakdown", &want));
    hta_ok(&h, orr_analyze_temporal(h.job, &h.options, h.arena, &rows, &n, &h.err));
    assert_int_equal(n, want.n_rows);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(rows[i].rank, (uint32_t)csv_number(&want, i, "rank"));
        hta_us(&h, "idle", rows[i].idle_ns, csv_number(&want, i, "idle_time(us)"), 0);
        hta_us(&h, "compute", rows[i].compute_ns, csv_number(&want, i, "compute_time(us)"), 0);
        hta_us(&h, "non compute", rows[i].non_compute_ns,
               csv_number(&want, i, "non_compute_time(us)"), 0);
        hta_us(&h, "span", rows[i].span_ns, csv_number(&want, i, "kernel_time(us)"), 0);
        hta_close(&h, "idle %", 100 * rows[i].idle_frac, csv_number(&want, i, "idle_time_pctg"),
                  0.00501);
        hta_close(&h, "compute %", 100 * rows[i].compute_frac,
                  csv_number(&want, i, "compute_time_pctg"), 0.00501);
        hta_close(&h, "non compute %", 100 * rows[i].non_compute_frac,
                  csv_number(&want, i, "non_compute_time_pctg"), 0.00501);
    }
    hta_end(&h);
}

/* What HTA takes for computation on Meta's accelerator: all names but those of copies, except
 * "pe_exe", which its patterns class as something else; and waiting for an event. */
static bool hta_computes(const char *name)
{
    const char *const known[] = {"merge", "remote", "event_wait", "event_record"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0)
            return true;
    return false;
}

/* Time in which anything, or what HTA takes for computation, stood on a stream. */
static orr_interval_set mtia_spans(hta *h, const orr_graph *g, bool only_computation)
{
    orr_interval *any = orr_arena_array(h->arena, orr_interval, g->n_nodes);
    orr_interval_set spans;
    size_t n = 0;
    assert_non_null(any);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (orr_graph_on_device(g, v) &&
            (!only_computation || hta_computes(orr_graph_str(g, g->name[v]))))
            any[n++] = (orr_interval){g->start_ns[v], orr_end_ns(g, v)};
    hta_ok(h, orr_interval_set_from(any, n, h->arena, &spans, &h->err));
    return spans;
}

/* Waiting is no work here, and it is there: the same sums are made of the same events. */
static void test_mtia_temporal(void **state)
{
    hta h = hta_begin(state);
    csv want = {0};
    assert_true(hta_table(&h, "temporal_breakdown", &want));
    const orr_graph *g = h.job->graphs[0];
    const orr_interval_set all = mtia_spans(&h, g, false), computation = mtia_spans(&h, g, true);
    const int64_t span_ns = all.at[all.n - 1].to_ns - all.at[0].from_ns;
    const double compute_us = csv_number(&want, 0, "compute_time(us)");
    const double other_us = csv_number(&want, 0, "non_compute_time(us)");
    hta_us(&h, "span", span_ns, csv_number(&want, 0, "kernel_time(us)"), 1);
    hta_us(&h, "busy", orr_interval_set_length(&all), compute_us + other_us, all.n);
    hta_us(&h, "compute", orr_interval_set_length(&computation), compute_us, computation.n);
    hta_end(&h);
}

static void test_overlap(void **state)
{
    hta h = hta_begin(state);
    csv want = {0};
    const orr_overlap *rows;
    size_t n;
    assert_true(hta_table(&h, "comm_comp_overlap", &want));
    hta_ok(&h, orr_analyze_overlap(h.job, &h.options, h.arena, &rows, &n, &h.err));
    assert_int_equal(n, want.n_rows);
    for (size_t i = 0; i < n; i++) {
        if (*csv_text(&want, i, "comp_comm_overlap_pctg") == '\0') { /* NaN there, 0 here */
            assert_int_equal(rows[i].comm_ns, 0);
            assert_true(rows[i].overlap_frac == 0);
            continue;
        }
        hta_close(&h, "overlap %", 100 * rows[i].overlap_frac,
                  csv_number(&want, i, "comp_comm_overlap_pctg"), 0.00501);
    }
    hta_end(&h);
}

static const orr_kernel_type *find_type(const orr_kernel_type *rows, size_t n, const char *type)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].type, type) == 0)
            return &rows[i];
    return NULL;
}

/* Number of intervals that can lose time to rounding: as many as there are kernels. */
static uint64_t count_kernels(hta *h, const char *type_prefix)
{
    const orr_kernel *rows;
    size_t n;
    uint64_t count = 0;
    hta_ok(h, orr_analyze_kernels(h->job, &h->options, h->arena, &rows, &n, &h->err));
    for (size_t i = 0; i < n; i++)
        if (strncmp(type_prefix, rows[i].type, strlen(rows[i].type)) == 0)
            count += rows[i].count;
    return count;
}

static void compare_kernel_types(hta *h)
{
    csv want = {0};
    const orr_kernel_type *rows;
    size_t n;
    assert_true(hta_table(h, "gpu_kernel_breakdown.0", &want));
    hta_ok(h, orr_analyze_kernel_types(h->job, &h->options, h->arena, &rows, &n, &h->err));
    if (h->of->whole_us)
        assert_int_equal(n, want.n_rows);
    for (size_t i = 0; i < want.n_rows; i++) {
        const char *type = csv_text(&want, i, "kernel_type");
        const orr_kernel_type *row = find_type(rows, n, type);
        if (row == NULL)
            fail_msg("%s: no %s", h->of->folder, type);
        hta_us(h, type, row->sum_ns, csv_number(&want, i, "sum"), count_kernels(h, type));
        if (h->of->whole_us)
            hta_close(h, type, 100 * row->frac, csv_number(&want, i, "percentage"), 0.0501);
    }
}

static const orr_kernel *find_kernel(const orr_kernel *rows, size_t n, uint32_t rank,
                                     const char *type, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].rank == rank && strcmp(rows[i].type, type) == 0 &&
            strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* Where HTA names only some kernels of that rank and type. */
static bool has_others(const csv *want, uint32_t rank, const char *type)
{
    for (size_t i = 0; i < want->n_rows; i++)
        if ((uint32_t)csv_number(want, i, "rank") == rank &&
            strcmp(csv_text(want, i, "kernel_type"), type) == 0 &&
            strcmp(csv_text(want, i, "name"), "others") == 0)
            return true;
    return false;
}

/* "others": all of that rank and type that HTA does not name. */
static orr_kernel sum_others(const csv *want, const orr_kernel *rows, size_t n, uint32_t rank,
                             const char *type)
{
    orr_kernel others = {0};
    for (size_t i = 0; i < n; i++) {
        if (rows[i].rank != rank || strcmp(rows[i].type, type) != 0)
            continue;
        bool named = false;
        for (size_t k = 0; k < want->n_rows && !named; k++)
            named = (uint32_t)csv_number(want, k, "rank") == rank &&
                    strcmp(csv_text(want, k, "kernel_type"), type) == 0 &&
                    strcmp(csv_text(want, k, "name"), rows[i].name) == 0;
        if (named)
            continue;
        others.sum_ns += rows[i].sum_ns;
        others.count += rows[i].count;
    }
    return others;
}

static void compare_kernel(hta *h, const csv *want, size_t i, const orr_kernel *row, bool others)
{
    const char *name = csv_text(want, i, "name");
    hta_us(h, name, row->sum_ns, csv_number(want, i, "sum (us)"), row->count);
    /* Where there are "others" HTA computes the rest over the sums, not over the launches. */
    if (others)
        return;
    hta_us(h, name, row->max_ns, csv_number(want, i, "max (us)"), 1);
    hta_us(h, name, row->min_ns, csv_number(want, i, "min (us)"), 1);
    const double mean_us = row->mean_ns / 1000, stddev_us = row->stddev_ns / 1000;
    hta_between(h, name, mean_us, csv_number(want, i, "mean (us)"), 1e-6,
                h->of->whole_us ? 1e-6 : 2);
    hta_close(h, name, stddev_us, csv_number(want, i, "stddev"), h->of->whole_us ? 1e-6 : 2);
}

/* Waits of Meta's accelerator: synchronisation here, kernels there. */
static bool is_wait(const hta *h, const char *name)
{
    return h->of == &HTA_CASES[HTA_MTIA] && strncmp(name, "event_", 6) == 0;
}

static void compare_wait(hta *h, const csv *want, size_t i)
{
    const orr_graph *g = h->job->graphs[0];
    orr_kernel sum = {0};
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (g->kind[v] == ORR_NODE_SYNC &&
            strcmp(orr_graph_str(g, g->name[v]), csv_text(want, i, "name")) == 0) {
            sum.count++;
            sum.sum_ns += g->duration_ns[v];
        }
    compare_kernel(h, want, i, &sum, true);
}

static void compare_kernels(hta *h)
{
    csv want = {0};
    const orr_kernel *rows;
    size_t n;
    assert_true(hta_table(h, "gpu_kernel_breakdown.1", &want));
    h->options.top_kernels = 0;
    hta_ok(h, orr_analyze_kernels(h->job, &h->options, h->arena, &rows, &n, &h->err));
    for (size_t i = 0; i < want.n_rows; i++) {
        const uint32_t rank = (uint32_t)csv_number(&want, i, "rank");
        const char *type = csv_text(&want, i, "kernel_type"), *name = csv_text(&want, i, "name");
        const bool others = has_others(&want, rank, type);
        const orr_kernel rest = sum_others(&want, rows, n, rank, type);
        const orr_kernel *row = find_kernel(rows, n, rank, type, name);
        if (strcmp(name, "others") == 0)
            row = &rest;
        if (is_wait(h, name))
            compare_wait(h, &want, i);
        else if (row == NULL)
            fail_msg("%s: no %s %s", h->of->folder, type, name);
        else
            compare_kernel(h, &want, i, row, others);
    }
}

static void test_kernels(void **state)
{
    hta h = hta_begin(state);
    compare_kernels(&h);
    hta_end(&h);
}

static const orr_idle *find_idle(const orr_idle *rows, size_t n, uint32_t rank, const char *stream,
                                 const char *cause)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].rank == rank && strcmp(rows[i].stream, stream) == 0 &&
            strcmp(rows[i].cause, cause) == 0)
            return &rows[i];
    fail_msg("no row of stream %s, %s", stream, cause);
    return NULL;
}

/* Where HTA's idle time of a stream differs, and by how much at most. */
typedef struct idle_slack {
    double total_us; /* it subtracts what overlaps, here nothing runs twice; and rounding */
    double cause_us; /* it judges work without a launch by the time of event 0 as well    */
} idle_slack;

static idle_slack slack_of(hta *h, uint32_t rank, const char *stream)
{
    const orr_view *view = hta_view(h, rank);
    const orr_graph *g = view->graph;
    const char *const *labels;
    orr_work_list work;
    orr_node_id last = ORR_NONE;
    idle_slack slack = {0};
    hta_ok(h, orr_lane_labels(g, h->arena, &labels, &h->err));
    hta_ok(h, orr_view_work(view, h->arena, &work, &h->err));
    for (size_t i = 0; i < work.n; i++) {
        const orr_node_id v = work.node[i];
        if (strcmp(labels[g->lane[v]], stream) != 0)
            continue;
        const double gap_us =
            last == ORR_NONE ? 0 : (double)(g->start_ns[v] - orr_end_ns(g, last)) / 1000;
        slack.total_us += (gap_us < 0 ? -gap_us : 0) + (h->of->whole_us ? 0 : 2);
        slack.cause_us += gap_us > 0 && orr_launch_of(g, v) == ORR_NONE ? gap_us : 0;
        last = v;
    }
    slack.cause_us += slack.total_us;
    return slack;
}

static void test_idle(void **state)
{
    hta h = hta_begin(state);
    csv want = {0};
    const orr_idle *rows;
    size_t n;
    assert_true(hta_table(&h, "idle_time_breakdown.0", &want));
    hta_ok(&h, orr_analyze_idle(h.job, &h.options, h.arena, &rows, &n, &h.err));
    double total_us = 0, slack_us = 0;
    for (size_t i = 0; i < want.n_rows; i++) {
        const uint32_t rank = (uint32_t)csv_number(&want, i, "rank");
        const char *stream = csv_text(&want, i, "stream");
        const orr_idle *row = find_idle(rows, n, rank, stream, csv_text(&want, i, "idle_category"));
        const idle_slack slack = slack_of(&h, rank, stream);
        const double us = csv_number(&want, i, "idle_time");
        hta_close(&h, row->cause, (double)row->idle_ns / 1000, us, slack.cause_us + 1e-6);
        if (slack.cause_us == 0)
            hta_close(&h, row->cause, row->frac, csv_number(&want, i, "idle_time_ratio"), 0.00501);
        total_us += us;
        slack_us += slack.total_us / 3; /* at most three rows a stream */
    }
    for (size_t i = 0; i < n; i++) /* what HTA does not list must be nothing */
        total_us -= (double)rows[i].idle_ns / 1000;
    hta_close(&h, "idle in all", 0, total_us, slack_us + 1e-3);
    hta_end(&h);
}

static void test_kernel_types(void **state)
{
    hta h = hta_begin(state);
    compare_kernel_types(&h);
    hta_end(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTA_TEST(test_temporal, HTA_DLRM),     HTA_TEST(test_temporal, HTA_DDP),
        HTA_TEST(test_temporal, HTA_NEGQ),     HTA_TEST(test_mtia_temporal, HTA_MTIA),
        HTA_TEST(test_overlap, HTA_DLRM),      HTA_TEST(test_overlap, HTA_DDP),
        HTA_TEST(test_overlap, HTA_NEGQ),      HTA_TEST(test_overlap, HTA_QWEN),
        HTA_TEST(test_overlap, HTA_MTIA),      HTA_TEST(test_kernel_types, HTA_DLRM),
        HTA_TEST(test_kernel_types, HTA_DDP),  HTA_TEST(test_kernel_types, HTA_NEGQ),
        HTA_TEST(test_kernel_types, HTA_QWEN), HTA_TEST(test_kernels, HTA_DLRM),
        HTA_TEST(test_kernels, HTA_DDP),       HTA_TEST(test_kernels, HTA_NEGQ),
        HTA_TEST(test_kernels, HTA_QWEN),      HTA_TEST(test_kernels, HTA_MTIA),
        HTA_TEST(test_idle, HTA_DLRM),         HTA_TEST(test_idle, HTA_DDP),
        HTA_TEST(test_idle, HTA_NEGQ),         HTA_TEST(test_idle, HTA_QWEN),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
