/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

/* One group of a graph, in a table of groups by rank. */
typedef struct row {
    uint32_t rank;
    const char *name;
    uint32_t size;
    int32_t start, stride;
    const uint32_t *ranks;
    uint32_t want; /* the job's group that it must be */
} row;

static void merge(const row *rows, size_t n, uint32_t want_groups)
{
    const orr_graph *graphs[8] = {NULL};
    uint32_t n_graphs = 0;
    for (size_t i = 0; i < n;) {
        orr_graph_builder *b = new_builder();
        b->recording.rank = rows[i].rank;
        for (const uint32_t rank = rows[i].rank; i < n && rows[i].rank == rank; i++) {
            orr_group_id id;
            const orr_group group = {.name = str(b, rows[i].name),
                                     .size = rows[i].size,
                                     .start = rows[i].start,
                                     .stride = rows[i].stride,
                                     .ranks = rows[i].ranks};
            OK(orr_builder_group(b, &group, &id, NULL));
        }
        node(b, "x", 0, 0, ORR_NONE);
        graphs[n_graphs++] = built(b);
    }
    const orr_job *job;
    OK(orr_job_build(graphs, n_graphs, &job, NULL));
    assert_int_equal(job->n_groups, want_groups);
    uint32_t in_graph = 0;
    for (size_t i = 0; i < n; i++) {
        in_graph = i > 0 && rows[i].rank == rows[i - 1].rank ? in_graph + 1 : 0;
        const uint32_t got = job->group_of[job->graph_of_rank[rows[i].rank]][in_graph];
        if (got != rows[i].want)
            fail_msg("row %zu became group %u", i, got);
        const orr_graph *g = job->graphs[job->group_graph[got]];
        assert_string_equal(orr_graph_str(g, job->groups[got].name), rows[i].name);
    }
    orr_job_free(job);
}
#define MERGE(rows, n_groups) merge((rows), sizeof(rows) / sizeof *(rows), (n_groups))

static const uint32_t zero_to_three[4] = {0, 1, 2, 3}, odd_one[3] = {0, 1, 3};
static const uint32_t odd_two[3] = {0, 1, 3}, odd_three[3] = {0, 2, 3};

static void test_same_name_and_ranks(void **state)
{
    (void)state;
    const row rows[] = {
        {0, "dp", 4, 0, 1, NULL, 0}, /* by start and stride */
        {0, "tp", 2, 0, 1, NULL, 1},
        {1, "dp", 4, 9, 9, zero_to_three, 0}, /* by a list that says the same */
        {1, "tp", 2, 0, 1, NULL, 1},
        {2, "dp", 4, 0, 1, NULL, 0},
        {2, "tp", 2, 2, 1, NULL, 2}, /* the other tensor-parallel group */
        {2, "dp2", 4, 0, 1, NULL, 3},
    };
    MERGE(rows, 4);
}

static void test_lists_that_no_stride_describes(void **state)
{
    (void)state;
    const row rows[] = {
        {0, "x", 3, -1, 0, odd_one, 0},
        {1, "x", 3, -1, 0, odd_two, 0},
        {2, "x", 3, -1, 0, odd_three, 1},
    };
    MERGE(rows, 2);
}

static void test_unknown_ranks_find_the_group_of_their_rank(void **state)
{
    (void)state;
    const row rows[] = {
        {0, "tp", 2, -1, 0, NULL, 0}, /* before the known ones, and still finds its own */
        {1, "tp", 2, 0, 1, NULL, 0},  {2, "tp", 0, -1, 0, NULL, 1}, {3, "tp", 2, 2, 1, NULL, 1},
        {4, "tp", 2, -1, 0, NULL, 2}, /* of a group that nobody knows */
        {5, "tp", 2, -1, 0, NULL, 2}, {6, "tp", 4, -1, 0, NULL, 3}, /* another size */
        {7, "tp", 0, -1, 0, NULL, 2}, /* no size: the first of the name */
    };
    MERGE(rows, 4);
}

static void test_size_fills_in(void **state)
{
    (void)state;
    const row rows[] = {{0, "pg", 0, -1, 0, NULL, 0}, {1, "pg", 2, -1, 0, NULL, 0}};
    MERGE(rows, 1);
}

static void test_group_of_immense_size(void **state)
{
    (void)state;
    const row rows[] = {{0, "pg", UINT32_MAX, 0, 1, NULL, 0}, {1, "pg", UINT32_MAX, 0, 1, NULL, 0}};
    MERGE(rows, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_name_and_ranks),
        cmocka_unit_test(test_lists_that_no_stride_describes),
        cmocka_unit_test(test_unknown_ranks_find_the_group_of_their_rank),
        cmocka_unit_test(test_size_fills_in),
        cmocka_unit_test(test_group_of_immense_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
