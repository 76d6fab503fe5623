/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit/analysis/comm_job.h"
#include "support/seeds.h"

/* Critical paths of random recordings. Some are consistent, as a simulator would write them;
 * others are not: times are drawn freely, clocks are off, nodes overlap, launches are missing.
 *
 *   - the pieces explain the whole stretch: no gap, no overlap, never backward in time;
 *   - what is no wait lies within the recorded time of its node;
 *   - sums by bound, and by share, are the stretch;
 *   - the stretch ends where the last node ends; no path is longer than that makespan;
 *   - asked again, the answer is the same. */
enum { SEEDS = 2000, MAX_NODES = 120, THREADS = 3, STREAMS = 3 };

typedef struct scene {
    orr_random random;
    small s;
    bool consistent;
    uint32_t thread[THREADS], stream[STREAMS];
    orr_group_id world;
    int64_t now[THREADS], free_at[STREAMS]; /* consistent: when each is done */
    uint32_t host[MAX_NODES], device[MAX_NODES], last_on[STREAMS];
    uint32_t n_host, n_device;
} scene;

static int64_t below(scene *c, int64_t bound)
{
    return (int64_t)orr_random_below(&c->random, (uint64_t)bound);
}

static bool one_in(scene *c, int64_t n)
{
    return below(c, n) == 0;
}

static void depend(scene *c, uint32_t node, uint32_t on, orr_dep_kind kind)
{
    assert_int_equal(orr_builder_dep(c->s.builder, node, on, kind, &c->s.err), ORR_OK);
}

static uint32_t host_node(scene *c, orr_node_kind kind, uint32_t t, int64_t start, int64_t length)
{
    static const char *const names[] = {"op", "mm", "enumerate(DataLoader)#it", "addmm"};
    const uint32_t v =
        small_node(&c->s, kind, names[below(c, 4)], c->thread[t], start, length, ORR_NONE);
    c->host[c->n_host++] = v;
    return v;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A launch, and its kernel or collective on a stream; in order, after what it waits for. */
static void add_launch(scene *c, uint32_t t)
{
    const uint32_t i = (uint32_t)below(c, STREAMS);
    const int64_t call_ns = c->now[t], length = below(c, 200000);
    const uint32_t call = host_node(c, ORR_NODE_RUNTIME, t, call_ns, 1 + below(c, 9000));
    int64_t start = max(call_ns + below(c, 12000), c->free_at[i]);
    const uint32_t event =
        c->n_device > 0 && one_in(c, 4) ? c->device[below(c, c->n_device)] : ORR_NONE;
    if (event != ORR_NONE)
        start = max(start, max(c->free_at[0], max(c->free_at[1], c->free_at[2])));
    if (!c->consistent)
        start = below(c, 2000000);
    const uint32_t v =
        one_in(c, 5)
            ? small_comm(&c->s, ORR_COLL_ALL_REDUCE, c->world, 2, c->stream[i], start, length, 1000)
            : small_node(&c->s, one_in(c, 4) ? ORR_NODE_COPY : ORR_NODE_COMPUTE, "kernel",
                         c->stream[i], start, length, ORR_NONE);
    if (c->consistent || !one_in(c, 6))
        depend(c, v, call, ORR_DEP_LAUNCH);
    if (c->last_on[i] != ORR_NONE)
        depend(c, v, c->last_on[i], ORR_DEP_STREAM);
    if (event != ORR_NONE)
        depend(c, v, event, ORR_DEP_EVENT);
    c->free_at[i] = start + length;
    c->last_on[i] = v;
    c->device[c->n_device++] = v;
}

static void add_sync(scene *c, uint32_t t)
{
    const uint32_t i = (uint32_t)below(c, STREAMS);
    int64_t end = c->now[t] + 1 + below(c, 3000);
    if (c->consistent && c->last_on[i] != ORR_NONE)
        end = max(end, c->free_at[i] + below(c, 3000));
    const uint32_t v = host_node(c, ORR_NODE_RUNTIME, t, c->now[t], end - c->now[t]);
    if (c->last_on[i] != ORR_NONE)
        depend(c, v, c->last_on[i], ORR_DEP_SYNC);
    c->now[t] = end;
}

static void add_op(scene *c, uint32_t t)
{
    const uint32_t from = c->n_host > 0 && one_in(c, 3) ? c->host[below(c, c->n_host)] : ORR_NONE;
    const int64_t length = below(c, 60000);
    if (c->consistent && from != ORR_NONE)
        for (int i = 0; i < THREADS; i++)
            c->now[t] = max(c->now[t], c->now[i]);
    const orr_node_kind kind = one_in(c, 5) ? ORR_NODE_ANNOTATION : ORR_NODE_HOST_OP;
    const uint32_t v = host_node(c, kind, t, c->now[t], length);
    if (from != ORR_NONE)
        depend(c, v, from, one_in(c, 4) ? ORR_DEP_DATA : ORR_DEP_HANDOFF);
    if (one_in(c, 2)) /* what comes next is nested in it, or overlaps it */
        c->now[t] += length > 0 ? below(c, length) : 0;
    else
        c->now[t] += length + below(c, 50000);
}

static void build_rank(scene *c)
{
    c->n_host = c->n_device = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        c->thread[i] = small_thread(&c->s, i);
        c->now[i] = below(c, 30000);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        c->stream[i] = small_stream(&c->s, 0, i + 7);
        c->last_on[i] = ORR_NONE;
        c->free_at[i] = 0;
    }
    c->world = small_group(&c->s, "0", "world", 2);
    const uint32_t n = 1 + (uint32_t)below(c, MAX_NODES / 2);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t = (uint32_t)below(c, THREADS);
        if (!c->consistent)
            c->now[t] = below(c, 2000000);
        switch (below(c, 4)) {
        case 0:
            add_launch(c, t);
            break;
        case 1:
            add_sync(c, t);
            break;
        default:
            add_op(c, t);
        }
    }
    small_rank(&c->s);
}

static void check_pieces(uint64_t seed, const orr_job *job, const orr_critical_path *path)
{
    int64_t at = path->start_ns, bound_ns[ORR_BOUNDS] = {0};
    for (size_t i = 0; i < path->n_pieces; i++) {
        const orr_path_piece *p = &path->pieces[i];
        if (p->from_ns != at || p->to_ns <= p->from_ns)
            seed_fail(seed, "piece %zu: [%lld, %lld) after %lld", i, (long long)p->from_ns,
                      (long long)p->to_ns, (long long)at);
        const int64_t start = orr_job_start_ns(job, p->graph, p->node);
        const int64_t end = start + job->graphs[p->graph]->duration_ns[p->node];
        if (!p->wait && (p->from_ns < start || p->to_ns > end))
            seed_fail(seed, "piece %zu: [%lld, %lld) of node [%lld, %lld)", i,
                      (long long)p->from_ns, (long long)p->to_ns, (long long)start, (long long)end);
        bound_ns[p->bound] += p->to_ns - p->from_ns;
        at = p->to_ns;
    }
    if (at != path->end_ns)
        seed_fail(seed, "ends at %lld of %lld", (long long)at, (long long)path->end_ns);
    for (int i = 0; i < ORR_BOUNDS; i++)
        if (bound_ns[i] != path->bound_ns[i])
            seed_fail(seed, "sum of bound %d", i);
}

static void check_shares(uint64_t seed, const orr_critical_path *path, orr_arena *arena)
{
    const orr_path_share *rows;
    size_t n;
    orr_error err;
    int64_t sum_ns = 0;
    assert_int_equal(orr_critical_path_shares(path, arena, &rows, &n, &err), ORR_OK);
    for (size_t i = 0; i < n; i++) {
        sum_ns += rows[i].sum_ns;
        if (i > 0 && rows[i].sum_ns > rows[i - 1].sum_ns)
            seed_fail(seed, "share %zu is larger than the one before", i);
    }
    if (sum_ns != path->end_ns - path->start_ns)
        seed_fail(seed, "shares sum to %lld", (long long)sum_ns);
}

static bool executes(orr_node_kind kind)
{
    return kind != ORR_NODE_ANNOTATION;
}

static int64_t last_end(const orr_job *job, uint32_t graph)
{
    const orr_graph *g = job->graphs[graph];
    int64_t last = INT64_MIN;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (executes((orr_node_kind)g->kind[v]))
            last = max(last, orr_job_start_ns(job, graph, v) + g->duration_ns[v]);
    return last;
}

static void check_one(uint64_t seed, const orr_job *job, orr_arena *arena, bool by_hta, bool across)
{
    orr_analysis_options options;
    orr_critical_path path, again;
    orr_error err;
    orr_analysis_options_init(&options);
    options.path_hta = by_hta;
    for (int i = 0; i < 2; i++) {
        orr_critical_path *ret = i == 0 ? &path : &again;
        const orr_status status =
            across ? orr_analyze_critical_path_job(job, &options, arena, ret, &err)
                   : orr_analyze_critical_path(job, &options, arena, ret, &err);
        if (status != ORR_OK)
            seed_fail(seed, "%s", err.text);
    }
    check_pieces(seed, job, &path);
    check_shares(seed, &path, arena);
    int64_t end = last_end(job, 0);
    if (across && job->n_graphs > 1)
        end = max(end, last_end(job, 1));
    if (end != INT64_MIN && path.end_ns != end)
        seed_fail(seed, "ends at %lld instead of %lld", (long long)path.end_ns, (long long)end);
    if (path.n_pieces != again.n_pieces)
        seed_fail(seed, "two answers to one question");
    for (size_t i = 0; i < path.n_pieces; i++)
        if (path.pieces[i].node != again.pieces[i].node ||
            path.pieces[i].graph != again.pieces[i].graph ||
            path.pieces[i].from_ns != again.pieces[i].from_ns)
            seed_fail(seed, "two answers to one question: piece %zu", i);
}

static void test_random_recordings(void **state)
{
    (void)state;
    const seed_range range = seeds(SEEDS);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c = {.random = orr_random_of(seed, 0), .s = small_begin()};
        c.consistent = seed % 2 == 0;
        build_rank(&c);
        build_rank(&c);
        small_job(&c.s);
        check_one(seed, c.s.job, c.s.arena, false, false);
        check_one(seed, c.s.job, c.s.arena, true, false);
        check_one(seed, c.s.job, c.s.arena, false, true);
        small_end(&c.s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
