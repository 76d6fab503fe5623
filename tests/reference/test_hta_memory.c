/* SPDX-License-Identifier: Apache-2.0 */
#include "hta.h"

/* Memory bandwidth, annotations, steps. */

static int64_t floor_us(int64_t ns)
{
    return ns >= 0 ? ns / 1000 : -((999 - ns) / 1000);
}

/* Copies so short that HTA, which rounds the start up and the end down, has them end before they
 * start: it loses their bandwidth. */
static size_t count_lost(hta *h, uint32_t rank, const char *kind)
{
    const orr_view *view = hta_view(h, rank);
    const orr_graph *g = view->graph;
    orr_work_list work;
    size_t lost = 0;
    hta_ok(h, orr_view_work(view, h->arena, &work, &h->err));
    for (size_t i = 0; i < work.n; i++) {
        const orr_node_id v = work.node[i];
        const int64_t from_us = -floor_us(-(g->base_ns + g->start_ns[v]));
        lost += work.class[i] == ORR_CLASS_MEMORY &&
                strncmp(orr_graph_str(g, g->name[v]), kind, strlen(kind)) == 0 &&
                floor_us(g->base_ns + orr_end_ns(g, v)) < from_us;
    }
    return lost;
}

/* HTA's table has lost its index; its rows are by rank, then by kind of copy, as ours. */
static void test_memory_bandwidth(void **state)
{
    hta h = hta_begin(state);
    csv want = {0};
    const orr_distribution *rows;
    size_t n;
    assert_true(hta_table(&h, "memory_bw_summary", &want));
    hta_ok(&h, orr_analyze_memory_bandwidth(h.job, &h.options, h.arena, &rows, &n, &h.err));
    assert_int_equal(want.n_columns, 8);
    assert_int_equal(n, want.n_rows - 1);
    for (size_t i = 0; i < n; i++) {
        const char *const *cell = &want.cells[(i + 2) * 8];
        const double got[] = {(double)rows[i].count, rows[i].mean / 1e9, rows[i].stddev / 1e9,
                              rows[i].min / 1e9,     rows[i].p25 / 1e9,  rows[i].p50 / 1e9,
                              rows[i].p75 / 1e9,     rows[i].max / 1e9};
        const size_t lost = count_lost(&h, rows[i].rank, rows[i].series);
        for (size_t c = 0; c < 8; c++) {
            const double value = *cell[c] == '\0' ? 0 : strtod(cell[c], NULL);
            const double slack = lost == 0 ? 1e-9 * (1 + value) : 0.05 * value;
            hta_close(&h, rows[i].series, c == 0 ? got[c] - (double)lost : got[c], value,
                      c == 0 ? 0 : slack);
        }
    }
    hta_end(&h);
}

static void test_device_annotations(void **state)
{
    hta h = hta_begin(state);
    csv want = {0};
    const orr_annotation *rows;
    size_t n, found = 0;
    assert_true(hta_table(&h, "gpu_user_annotation_breakdown", &want));
    hta_ok(&h, orr_analyze_annotations(h.job, &h.options, h.arena, &rows, &n, &h.err));
    for (size_t i = 0; i < n; i++) {
        if (!rows[i].on_device)
            continue;
        assert_true(found < want.n_rows);
        assert_string_equal(rows[i].name, csv_text(&want, found, "name"));
        hta_us(&h, "sum", rows[i].sum_ns, csv_number(&want, found, "sum (us)"), rows[i].count);
        hta_us(&h, "max", rows[i].max_ns, csv_number(&want, found, "max (us)"), 1);
        hta_us(&h, "min", rows[i].min_ns, csv_number(&want, found, "min (us)"), 1);
        hta_close(&h, "stddev", rows[i].stddev_ns, csv_number(&want, found, "stddev"), 1e-6);
        found++;
    }
    assert_int_equal(found, want.n_rows);
    hta_end(&h);
}

/* The numbers of the steps, one file a step. */
static void test_steps(void **state)
{
    hta h = hta_begin(state);
    const orr_step_summary *rows;
    size_t n;
    h.options.rank = h.of->rank;
    hta_ok(&h, orr_analyze_steps(h.job, &h.options, h.arena, &rows, &n, &h.err));
    for (size_t i = 0; i <= n; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/data/traces/expected/hta/%s/profiler_steps.%zu.txt",
                 getenv("ORRERY_SHARED"), h.of->folder, i);
        const char *text = csv_read_file(path, h.arena);
        if (i == n)
            assert_null(text);
        else if (text == NULL)
            fail_msg("%s: HTA has no step %zu", h.of->folder, i);
        else
            assert_int_equal(rows[i].number, atoi(text));
    }
    hta_end(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTA_TEST(test_memory_bandwidth, HTA_DLRM),
        HTA_TEST(test_memory_bandwidth, HTA_DDP),
        HTA_TEST(test_memory_bandwidth, HTA_NEGQ),
        HTA_TEST(test_memory_bandwidth, HTA_QWEN),
        HTA_TEST(test_device_annotations, HTA_QWEN),
        HTA_TEST(test_steps, HTA_DLRM),
        HTA_TEST(test_steps, HTA_DDP),
        HTA_TEST(test_steps, HTA_NEGQ),
        HTA_TEST(test_steps, HTA_QWEN),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
