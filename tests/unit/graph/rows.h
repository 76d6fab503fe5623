/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ROWS_H
#define TESTS_ROWS_H

/* Jobs as tables of communications, each with the number of the match that it must be in. */
#include "graph/job.h"

#include "graphs.h"

enum { MS = 1000000 };

/* One communication of a rank; rows of one rank stand together. */
typedef struct row {
    uint32_t rank;
    int64_t start_ms; /* negative: not recorded */
    orr_collective collective;
    int32_t group_size;
    int64_t seq;
    int32_t peer;
    int want; /* rows of one number belong together; -1: with nobody */
} row;

static inline orr_node_kind kind_of(orr_collective collective)
{
    return collective == ORR_COLL_SEND   ? ORR_NODE_SEND
           : collective == ORR_COLL_RECV ? ORR_NODE_RECV
                                         : ORR_NODE_COLLECTIVE;
}

/* What is the same for all rows. */
typedef struct setting {
    const orr_group *group; /* NULL: not known */
    int64_t lasts_ms;
    bool on_host;
} setting;

static inline const orr_graph *graph_of(const row *rows, size_t n, const setting *all)
{
    orr_graph_builder *b = new_builder();
    b->recording.rank = rows->rank;
    orr_group_id id = ORR_NONE;
    if (all->group != NULL) {
        orr_group own = *all->group;
        own.name = str(b, "pg");
        OK(orr_builder_group(b, &own, &id, NULL));
    }
    for (size_t i = 0; i < n; i++) {
        orr_comm comm = no_comm;
        comm.collective = (uint8_t)rows[i].collective;
        comm.group = id;
        comm.group_size = rows[i].group_size;
        comm.seq = rows[i].seq;
        comm.peer = rows[i].peer;
        const int64_t start = rows[i].start_ms < 0 ? ORR_TIME_NONE : rows[i].start_ms * MS;
        const orr_node_id v =
            comm_node(b, kind_of(rows[i].collective), start, all->lasts_ms * MS, &comm);
        if (all->on_host)
            b->lane[v] = 0;
    }
    return built(b);
}

/* The rows as a job: what must be together is, and the rest is with nobody. */
static inline void match_rows(const row *rows, size_t n, setting all)
{
    const orr_graph *graphs[8] = {NULL};
    uint32_t n_graphs = 0, unmatched = 0, got[64];
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && rows[end].rank == rows[i].rank;)
            end++;
        graphs[n_graphs++] = graph_of(rows + i, end - i, &all);
    }
    const orr_job *job;
    OK(orr_job_build(graphs, n_graphs, &job, NULL));
    for (size_t i = 0; i < n; i++) {
        const uint32_t d = job->graph_of_rank[rows[i].rank];
        orr_node_id v = 0;
        while (i > v && rows[i - v - 1].rank == rows[i].rank)
            v++;
        got[i] = job->match_of[d] ? job->match_of[d][v] : ORR_NONE;
        unmatched += rows[i].want < 0;
    }
    for (size_t i = 0; i < n; i++) {
        if ((rows[i].want < 0) != (got[i] == ORR_NONE))
            fail_msg("row %zu is in match %d", i, (int)got[i]);
        for (size_t k = 0; k < i; k++)
            if (got[i] != ORR_NONE && (rows[i].want == rows[k].want) != (got[i] == got[k]))
                fail_msg("rows %zu and %zu are in matches %u and %u", k, i, got[k], got[i]);
    }
    assert_int_equal(job->unmatched, unmatched);
    for (uint32_t m = 0; m < job->n_matches; m++)
        for (uint32_t i = 1; i < job->matches[m].count; i++) {
            const orr_member *member = &job->members[job->matches[m].first + i];
            assert_true(member[-1].graph < member->graph);
        }
    orr_job_free(job);
}
#define MATCH_SETTING(rows, ...)                                                                   \
    match_rows((rows), sizeof(rows) / sizeof *(rows), (setting){__VA_ARGS__})
#define MATCH(rows, of_group) MATCH_SETTING(rows, .group = (of_group), .lasts_ms = 5)

#define REDUCE ORR_COLL_ALL_REDUCE
#define A2A    ORR_COLL_ALL_TO_ALL
#define SEND   ORR_COLL_SEND
#define RECV   ORR_COLL_RECV

#endif /* TESTS_ROWS_H */
