/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/graph/graphs.h"
#include "support/seeds.h"

/* Synthetic jobs: communications at known moments, seen by each of their members on a clock
 * of its own, with other waits and a little noise; then it is known what matches what,
 * and by how much each clock is off. */
enum { MAX_RANKS = 8, MAX_EVENTS = 80, NOISE_NS = 1000, SUBGROUP = 2 };
#define MS   INT64_C(1000000)
#define HOUR (3600000 * MS)

typedef enum naming { KNOWN_RANKS, NAMES_ONLY, NO_GROUPS, NAMINGS } naming;

typedef struct event {
    int64_t end_ns;
    orr_collective collective; /* SEND: from `from` to `to` */
    uint32_t from, to;         /* collectives: members are from <= rank < to */
} event;

typedef struct scenario {
    uint32_t n_ranks, n_events;
    naming names;
    bool numbered, wild_clocks, ends_early;
    event events[MAX_EVENTS];
    int64_t clock_ns[MAX_RANKS]; /* what the clock shows more than the true time */
    uint32_t cut[MAX_RANKS];     /* events missing at the beginning or the end */
    bool recorded[MAX_RANKS];
    orr_node_id node[MAX_EVENTS][MAX_RANKS]; /* ORR_NONE: not seen by that rank */
} scenario;

static uint32_t below(orr_random *random, uint32_t bound)
{
    return (uint32_t)orr_random_below(random, bound);
}

static bool is_member(const event *e, uint32_t rank)
{
    return e->collective == ORR_COLL_SEND ? rank == e->from || rank == e->to
                                          : rank >= e->from && rank < e->to;
}

static event random_event(orr_random *random, const scenario *s, uint32_t i)
{
    static const orr_collective world[] = {ORR_COLL_ALL_REDUCE, ORR_COLL_ALL_TO_ALL,
                                           ORR_COLL_BARRIER};
    /* Every fourth is seen by all, so that nobody is without one. */
    const uint32_t sort = i % 4 == 0 ? 0 : below(random, s->names == NO_GROUPS ? 2 : 3);
    if (sort == 0 || s->n_ranks < 4)
        return (event){.collective = world[below(random, 3)], .from = 0, .to = s->n_ranks};
    if (sort == 1) {
        const uint32_t first = below(random, s->n_ranks / SUBGROUP) * SUBGROUP;
        return (event){.collective = ORR_COLL_ALL_GATHER, .from = first, .to = first + SUBGROUP};
    }
    const uint32_t from = below(random, s->n_ranks);
    return (event){.collective = ORR_COLL_SEND,
                   .from = from,
                   .to = (from + 1 + below(random, s->n_ranks - 1)) % s->n_ranks};
}

static scenario random_scenario(orr_random *random)
{
    scenario s = {.n_ranks = 2 + 2 * below(random, 4),
                  .n_events = 40 + below(random, MAX_EVENTS - 40),
                  .names = (naming)below(random, NAMINGS),
                  .numbered = below(random, 2),
                  .wild_clocks = below(random, 2),
                  .ends_early = below(random, 2)};
    const bool cuts = below(random, 2);
    int64_t now = 0;
    for (uint32_t i = 0; i < s.n_events; i++) {
        now += MS + below(random, 20 * MS);
        s.events[i] = random_event(random, &s, i);
        s.events[i].end_ns = now;
    }
    for (uint32_t rank = 0; rank < s.n_ranks; rank++) {
        s.recorded[rank] = rank < 2 || below(random, 5) > 0;
        s.cut[rank] = cuts ? below(random, 20) : 0;
        s.clock_ns[rank] = s.wild_clocks ? (int64_t)orr_random_below(random, 2 * HOUR) - HOUR
                                         : (int64_t)orr_random_below(random, MS / 2);
    }
    return s;
}

static bool is_seen(const scenario *s, uint32_t i, uint32_t rank)
{
    const bool cut = s->ends_early ? i + s->cut[rank] >= s->n_events : i < s->cut[rank];
    return s->recorded[rank] && !cut && is_member(&s->events[i], rank);
}

static orr_group_id group_of(orr_graph_builder *b, const scenario *s, const event *e)
{
    orr_group_id id;
    char name[32];
    const bool world =
        e->collective == ORR_COLL_SEND || e->to - e->from != SUBGROUP || s->n_ranks == SUBGROUP;
    if (s->names == NO_GROUPS)
        return ORR_NONE;
    /* Where the ranks are known, all subgroups have one name. */
    snprintf(name, sizeof name,
             world                     ? "world"
             : s->names == KNOWN_RANKS ? "tp"
                                       : "tp%u",
             e->from / SUBGROUP);
    const orr_group group = {.name = str(b, name),
                             .size = world ? s->n_ranks : SUBGROUP,
                             .start = s->names == KNOWN_RANKS ? (world ? 0 : (int32_t)e->from) : -1,
                             .stride = 1};
    OK(orr_builder_group(b, &group, &id, NULL));
    return id;
}

static void add_call(orr_random *random, orr_graph_builder *b, scenario *s, uint32_t i,
                     uint32_t rank)
{
    const event *e = &s->events[i];
    const bool pair = e->collective == ORR_COLL_SEND;
    orr_comm comm = no_comm;
    comm.collective = (uint8_t)(pair && rank == e->to ? ORR_COLL_RECV : e->collective);
    comm.group = group_of(b, s, e);
    if (pair)
        comm.peer = (int32_t)(rank == e->to ? e->from : e->to);
    else if (s->numbered)
        comm.seq = i;
    const int64_t wait = 1 + below(random, MS / 2);
    const int64_t end = e->end_ns + s->clock_ns[rank] + below(random, 2 * NOISE_NS) - NOISE_NS;
    const orr_node_kind kind = !pair             ? ORR_NODE_COLLECTIVE
                               : rank == e->from ? ORR_NODE_SEND
                                                 : ORR_NODE_RECV;
    s->node[i][rank] = comm_node(b, kind, end - wait, wait, &comm);
}

static const orr_graph *record(orr_random *random, scenario *s, uint32_t rank)
{
    orr_graph_builder *b = new_builder();
    b->recording.rank = rank;
    b->recording.world_size = s->n_ranks;
    b->recording.base_ns = INT64_C(1700000000) * 1000 * MS;
    for (uint32_t i = 0; i < s->n_events; i++) {
        node(b, "aten::mm", s->events[i].end_ns, 1, ORR_NONE);
        s->node[i][rank] = ORR_NONE;
        if (is_seen(s, i, rank))
            add_call(random, b, s, i, rank);
    }
    return built(b);
}

/* Graphs of the recorded ranks, handed over in any order. */
static const orr_job *run(orr_random *random, scenario *s)
{
    const orr_graph *graphs[MAX_RANKS];
    uint32_t n = 0;
    for (uint32_t rank = 0; rank < s->n_ranks; rank++) {
        if (!s->recorded[rank])
            continue;
        const uint32_t to = below(random, n + 1);
        graphs[n++] = graphs[to];
        graphs[to] = record(random, s, rank);
    }
    const orr_job *job;
    OK(orr_job_build(graphs, n, &job, NULL));
    return job;
}

static uint32_t match_of(const orr_job *job, const scenario *s, uint32_t i, uint32_t rank)
{
    const uint32_t d = job->graph_of_rank[rank];
    return job->match_of[d] ? job->match_of[d][s->node[i][rank]] : ORR_NONE;
}

/* All that saw the event are in one match, and nobody else is. */
static void check_event(const orr_job *job, const scenario *s, uint32_t i, uint64_t seed,
                        uint32_t *unmatched)
{
    uint32_t seen = 0, match = ORR_NONE;
    for (uint32_t rank = 0; rank < s->n_ranks; rank++)
        seen += is_seen(s, i, rank);
    for (uint32_t rank = 0; rank < s->n_ranks; rank++) {
        if (!is_seen(s, i, rank))
            continue;
        const uint32_t own = match_of(job, s, i, rank);
        if (seen < 2 ? own != ORR_NONE : own == ORR_NONE || (match != ORR_NONE && own != match))
            seed_fail(seed, "rank %u: its %s (event %u of %u) is in match %d, the others' in %d",
                      rank, orr_collective_name(s->events[i].collective), i, s->n_events, (int)own,
                      (int)match);
        match = own;
    }
    if (seen == 1)
        (*unmatched)++;
    if (seen >= 2 && job->matches[match].count != seen)
        seed_fail(seed, "event %u: %u members of %u", i, job->matches[match].count, seen);
}

static void check_clocks(const orr_job *job, const scenario *s, uint64_t seed)
{
    const int64_t reference = s->clock_ns[job->rank_of_graph[0]];
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        const int64_t want = s->wild_clocks ? reference - s->clock_ns[job->rank_of_graph[d]] : 0;
        const int64_t off = job->clock_offset_ns[d] - want;
        if (off < -2 * NOISE_NS || off > 2 * NOISE_NS || (want == 0 && off != 0))
            seed_fail(seed, "rank %u: its clock is off by %lld ns", job->rank_of_graph[d],
                      (long long)off);
    }
}

static void test_known_clocks_and_members_are_found(void **state)
{
    (void)state;
    const seed_range range = seeds(400);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 11);
        scenario s = random_scenario(&random);
        const orr_job *job = run(&random, &s);
        uint32_t unmatched = 0;
        check_clocks(job, &s, seed);
        for (uint32_t i = 0; i < s.n_events; i++)
            check_event(job, &s, i, seed, &unmatched);
        if (job->unmatched != unmatched)
            seed_fail(seed, "%u unmatched, not %u", job->unmatched, unmatched);
        for (uint32_t m = 1; m < job->n_matches; m++)
            if (job->matches[m].first != job->matches[m - 1].first + job->matches[m - 1].count)
                seed_fail(seed, "members of match %u do not follow those before", m);
        orr_job_free(job);
    }
}

/* On the job's axis the members of a match end together. */
static void test_matches_end_together_and_stand_in_order(void **state)
{
    (void)state;
    const seed_range range = seeds(100);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 12);
        scenario s = random_scenario(&random);
        const orr_job *job = run(&random, &s);
        const int64_t tolerance = s.wild_clocks ? 6 * NOISE_NS : MS;
        int64_t before = INT64_MIN;
        for (uint32_t m = 0; m < job->n_matches; m++) {
            int64_t start = INT64_MAX, first_end = INT64_MAX, last_end = INT64_MIN;
            for (uint32_t i = 0; i < job->matches[m].count; i++) {
                const orr_member *at = &job->members[job->matches[m].first + i];
                const int64_t own = orr_job_start_ns(job, at->graph, at->node);
                const int64_t end = own + job->graphs[at->graph]->duration_ns[at->node];
                start = own < start ? own : start;
                first_end = end < first_end ? end : first_end;
                last_end = end > last_end ? end : last_end;
                if (i > 0 && at[-1].graph >= at->graph)
                    seed_fail(seed, "members of match %u are not in order of rank", m);
            }
            if (last_end - first_end > tolerance)
                seed_fail(seed, "match %u ends within %lld ns", m,
                          (long long)(last_end - first_end));
            if (start < before)
                seed_fail(seed, "match %u starts before the one before", m);
            before = start;
        }
        orr_job_free(job);
    }
}

static void test_order_of_graphs_does_not_matter(void **state)
{
    (void)state;
    const seed_range range = seeds(100);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        const orr_job *job[2];
        scenario s;
        for (int i = 0; i < 2; i++) {
            orr_random random = orr_random_of(seed, 13), other = orr_random_of(seed, 14);
            s = random_scenario(&random);
            const orr_graph *graphs[MAX_RANKS];
            uint32_t n = 0;
            for (uint32_t rank = 0; rank < s.n_ranks; rank++) {
                if (!s.recorded[rank])
                    continue;
                const uint32_t to = i ? below(&other, n + 1) : n;
                graphs[n++] = graphs[to];
                graphs[to] = record(&random, &s, rank);
            }
            OK(orr_job_build(graphs, n, &job[i], NULL));
        }
        assert_int_equal(job[0]->n_matches, job[1]->n_matches);
        assert_int_equal(job[0]->n_groups, job[1]->n_groups);
        assert_int_equal(job[0]->unmatched, job[1]->unmatched);
        assert_memory_equal(job[0]->clock_offset_ns, job[1]->clock_offset_ns,
                            job[0]->n_graphs * sizeof *job[0]->clock_offset_ns);
        for (uint32_t m = 0; m < job[0]->n_matches; m++)
            assert_memory_equal(&job[0]->members[job[0]->matches[m].first],
                                &job[1]->members[job[1]->matches[m].first],
                                job[0]->matches[m].count * sizeof *job[0]->members);
        orr_job_free(job[0]);
        orr_job_free(job[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_clocks_and_members_are_found),
        cmocka_unit_test(test_matches_end_together_and_stand_in_order),
        cmocka_unit_test(test_order_of_graphs_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
