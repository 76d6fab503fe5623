/* SPDX-License-Identifier: Apache-2.0 */
#include "hta.h"

#include "analysis/path/graph.h"

/* Critical path: HTA's own expected result for one trace, event by event, and its breakdown of
 * the first step of the others; by HTA's rules, and by ours. */

static const char simple_overlay[] = "simple_add_a100_sync.hta_critical_path_overlay.json.gz";

/* What HTA marks in the traces that it writes. */
static bool is_marked(const orr_graph *g, orr_node_id v)
{
    orr_attr attr;
    return orr_graph_find_attr(g, v, "critical", &attr);
}

static const orr_graph *read_expected(const char *name)
{
    const char *shared = getenv("ORRERY_SHARED");
    const orr_graph *g;
    orr_error err;
    char path[1024];
    if (shared == NULL) {
        print_message("ORRERY_SHARED is not set: %s is not compared\n", name);
        skip();
    }
    snprintf(path, sizeof path, "%s/data/traces/expected/%s", shared, name);
    if (orr_trace_read(path, NULL, &g, NULL, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return g;
}

typedef struct simple_trace {
    const orr_graph *g;
    const orr_job *job;
    orr_arena *arena;
    orr_analysis_options options;
    orr_critical_path path;
    bool *on_path; /* shape (N) */
} simple_trace;

static simple_trace simple_open(bool by_hta)
{
    simple_trace s = {.g = read_expected(simple_overlay), .arena = orr_arena_new(0, 0)};
    orr_error err;
    assert_int_equal(orr_job_build(&s.g, 1, &s.job, &err), ORR_OK);
    orr_analysis_options_init(&s.options);
    s.options.annotation = "[param|cuda]";
    s.options.step_first = s.options.step_last = 0;
    s.options.path_hta = by_hta;
    assert_int_equal(orr_analyze_critical_path(s.job, &s.options, s.arena, &s.path, &err), ORR_OK);
    s.on_path = orr_arena_array(s.arena, bool, s.g->n_nodes);
    for (size_t i = 0; i < s.path.n_pieces; i++) {
        const orr_path_piece *p = &s.path.pieces[i];
        s.on_path[p->node] = true;
        if (p->bound == ORR_BOUND_LAUNCH) /* it begins with the call */
            s.on_path[orr_launch_of(s.g, p->node)] = true;
    }
    return s;
}

static void simple_close(simple_trace *s)
{
    orr_job_free(s->job);
    orr_arena_free(s->arena);
}

/* A host node whose start and end coincide with the points before and after has no time of its own
 * there, so no piece of a path can name it. */
static bool has_own_time(const simple_trace *s, const orr_points *points, orr_node_id v)
{
    const uint32_t start = points->start_at[v], end = points->end_at[v];
    if (start == ORR_NONE)
        return s->g->duration_ns[v] > 0;
    return points->time_ns[start + 1] > points->time_ns[start] ||
           points->time_ns[end] > points->time_ns[end - 1];
}

static void test_simple_event_by_event(void **state)
{
    (void)state;
    simple_trace s = simple_open(true);
    const orr_points_filter of = {
        .kinds = ORR_PATH_EXECUTES, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .duration_min_ns = 1};
    orr_points points;
    orr_error err;
    size_t marked = 0, unseen = 0;
    assert_int_equal(orr_points_build(s.g, &of, s.arena, &points, &err), ORR_OK);
    for (orr_node_id v = 0; v < s.g->n_nodes; v++) {
        marked += is_marked(s.g, v);
        if (s.on_path[v] == is_marked(s.g, v))
            continue;
        if (s.on_path[v] || has_own_time(&s, &points, v))
            fail_msg("node %u '%s' at %lld is on %s path only", v, orr_graph_str(s.g, s.g->name[v]),
                     (long long)s.g->start_ns[v], s.on_path[v] ? "our" : "HTA's");
        unseen++;
    }
    assert_int_equal(marked, 624);
    print_message("%zu events on HTA's path, %zu of them without time of their own\n", marked,
                  unseen);
    /* HTA's critical edges: launch delays, 1572 us, and synchronisations, without weight */
    size_t launches = 0, syncs = 0;
    for (size_t i = 0; i < s.path.n_pieces; i++) {
        const orr_path_piece *p = &s.path.pieces[i];
        const orr_path_piece *before = i > 0 ? p - 1 : p;
        launches += p->bound == ORR_BOUND_LAUNCH;
        syncs += p->bound == ORR_BOUND_NONE && strstr(p->name, "Synchronize") != NULL &&
                 s.g->lanes[s.g->lane[before->node]].kind == ORR_LANE_STREAM;
    }
    assert_int_equal(launches, 17);
    assert_int_equal(syncs, 17);
    assert_int_equal(s.path.bound_ns[ORR_BOUND_LAUNCH], 1572 * 1000);
    simple_close(&s);
}

/* Our own rules differ in one place: HTA goes through a kernel that was over before the call that
 * could have waited for it began, because time of the host between operators weighs nothing
 * there. Everything outside of such a place is the same. */
static void test_simple_by_the_walk(void **state)
{
    (void)state;
    simple_trace s = simple_open(true), walk = simple_open(false);
    int64_t from_ns = INT64_MAX, to_ns = INT64_MIN;
    size_t artifacts = 0, differ = 0;
    for (size_t i = 1; i < s.path.n_pieces; i++) {
        const orr_path_piece *p = &s.path.pieces[i];
        const int64_t call_ns = orr_job_start_ns(s.job, 0, p->node);
        if (p->bound != ORR_BOUND_NONE || p[-1].bound != ORR_BOUND_COMPUTE || p->from_ns >= call_ns)
            continue;
        artifacts++;
        size_t first = i;
        while (first > 0 && s.path.pieces[first].bound != ORR_BOUND_CPU)
            first--;
        from_ns = s.path.pieces[first].from_ns;
        to_ns = p->to_ns;
    }
    assert_int_equal(artifacts, 1);
    for (orr_node_id v = 0; v < s.g->n_nodes; v++) {
        const int64_t start_ns = orr_job_start_ns(s.job, 0, v);
        if (s.g->kind[v] == ORR_NODE_ANNOTATION || s.on_path[v] == walk.on_path[v])
            continue;
        differ++;
        if (start_ns < from_ns || start_ns >= to_ns)
            fail_msg("node %u '%s' at %lld is on %s path only", v, orr_graph_str(s.g, s.g->name[v]),
                     (long long)start_ns, walk.on_path[v] ? "our" : "HTA's");
    }
    assert_int_equal(walk.path.bound_ns[ORR_BOUND_NONE], 0);
    print_message("%zu events differ, all within %lld us of %lld\n", differ,
                  (long long)(to_ns - from_ns) / 1000,
                  (long long)(s.path.end_ns - s.path.start_ns) / 1000);
    simple_close(&s);
    simple_close(&walk);
}

typedef struct bound_sum {
    const char *name;
    double us;
    uint64_t n;
} bound_sum;

static bound_sum sum_of_hta(const csv *breakdown, const char *bound)
{
    bound_sum sum = {.name = bound};
    for (size_t i = 0; i < breakdown->n_rows; i++)
        if (strcmp(csv_text(breakdown, i, "bound_by"), bound) == 0) {
            sum.us += csv_number(breakdown, i, "duration");
            sum.n++;
        }
    return sum;
}

static orr_critical_path first_step(hta *h, bool by_hta)
{
    orr_critical_path path;
    h->options.step_first = h->options.step_last = 0;
    h->options.path_hta = by_hta;
    h->options.rank = h->of->rank;
    hta_ok(h, orr_analyze_critical_path(h->job, &h->options, h->arena, &path, &h->err));
    return path;
}

static void test_breakdown(void **state)
{
    hta h = hta_begin(state);
    csv want = {0};
    assert_true(hta_table(&h, "cp_breakdown", &want));
    const orr_critical_path path = first_step(&h, true);
    const struct {
        const char *bound;
        int64_t ns;
    } got[] = {
        {"cpu_bound", path.bound_ns[ORR_BOUND_CPU] + path.bound_ns[ORR_BOUND_DATA_LOADING]},
        {"gpu_compute_bound", path.bound_ns[ORR_BOUND_COMPUTE] + path.bound_ns[ORR_BOUND_MEMORY]},
        {"gpu_communication_bound", path.bound_ns[ORR_BOUND_COMMUNICATION]},
        {"gpu_kernel_kernel_overhead", path.bound_ns[ORR_BOUND_KERNEL_GAP]},
        {"gpu_kernel_launch_overhead", path.bound_ns[ORR_BOUND_LAUNCH]},
    };
    for (size_t i = 0; i < sizeof got / sizeof *got; i++) {
        const bound_sum sum = sum_of_hta(&want, got[i].bound);
        /* a rounded start or end moves less than 1 us from an edge to its neighbour */
        hta_close(&h, got[i].bound, (double)got[i].ns / 1000, sum.us,
                  h.of->whole_us ? 1e-6 : (double)sum.n);
    }
    hta_end(&h);
}

/* HTA rounds starts up and ends down to us, and drops what then takes no time. */
static bool vanishes(const orr_graph *g, orr_node_id v)
{
    const int64_t start_ns = g->base_ns + g->start_ns[v], end_ns = start_ns + g->duration_ns[v];
    return g->lanes[g->lane[v]].kind == ORR_LANE_HOST && end_ns / 1000 <= (start_ns + 999) / 1000;
}

/* Points of the graph that the path was found in: "nodes 4000 edges 3997 cp_nodes 1964". */
static void test_size(void **state)
{
    hta h = hta_begin(state);
    char name[1024];
    snprintf(name, sizeof name, "%s/data/traces/expected/hta/%s/cp_graph.txt",
             getenv("ORRERY_SHARED"), h.of->folder);
    const char *text = csv_read_file(name, h.arena);
    size_t nodes, edges;
    assert_non_null(text);
    assert_int_equal(sscanf(text, "nodes %zu edges %zu", &nodes, &edges), 2);
    const orr_critical_path path = first_step(&h, true);
    const orr_view *view = hta_view(&h, h.of->rank);
    const orr_graph *g = view->graph;
    bool *launched = orr_arena_array(h.arena, bool, g->n_nodes);
    size_t more = 0; /* points of ours that HTA has not */
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (!orr_view_holds(view, v))
            continue;
        const orr_node_id call = orr_graph_on_device(g, v) ? orr_launch_of(g, v) : ORR_NONE;
        if (call != ORR_NONE) { /* HTA keeps one kernel of a graph */
            more += launched[call] && g->kind[v] != ORR_NODE_SYNC ? 2 : 0;
            launched[call] = true;
        } else if (((ORR_PATH_EXECUTES >> g->kind[v]) & 1) && g->duration_ns[v] > 0 &&
                   vanishes(g, v)) {
            more += 2;
        }
    }
    hta_close(&h, "points", (double)(path.n_nodes - more), (double)nodes, 0);
    hta_between(&h, "edges", (double)path.n_edges, (double)edges, 1, (double)more + 1);
    hta_end(&h);
}

/* A node, so that it can be found in another recording of the same. */
typedef struct event {
    const char *name;
    int64_t start_ns, duration_ns;
} event;

static int compare_events(const void *a_, const void *b_)
{
    const event *a = a_, *b = b_;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    if (a->duration_ns != b->duration_ns)
        return a->duration_ns < b->duration_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static event event_of(const orr_graph *g, orr_node_id v)
{
    return (event){orr_graph_str(g, g->name[v]), g->base_ns + g->start_ns[v], g->duration_ns[v]};
}

/* HTA writes a trace of the events on its path, and annotations: each node of ours is among
 * them. (The other way round is what the breakdown compares: the sums are the same.) */
static void test_events(void **state)
{
    static const char *const overlays[HTA_CASES_N] = {
        [HTA_DLRM] = "overlaid_critical_path_dlrm_v100x8.0.device.json",
        [HTA_DDP] = "overlaid_critical_path_control.json.gz",
        [HTA_NEGQ] = "overlaid_critical_path_rank0.json.gz",
        [HTA_QWEN] = "overlaid_critical_path_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    };
    hta h = hta_begin(state);
    char name[256];
    snprintf(name, sizeof name, "hta/%s/%s", h.of->folder, overlays[h.of - HTA_CASES]);
    const orr_graph *theirs = read_expected(name);
    event *events = orr_arena_array(h.arena, event, theirs->n_nodes);
    size_t n = 0, ours = 0, missing = 0, vanished = 0;
    for (orr_node_id v = 0; v < theirs->n_nodes; v++)
        if (is_marked(theirs, v))
            events[n++] = event_of(theirs, v);
    qsort(events, n, sizeof *events, compare_events);
    const orr_critical_path path = first_step(&h, true);
    for (size_t i = 0; i < path.n_pieces; i++) {
        const orr_path_piece *p = &path.pieces[i];
        if (p->bound == ORR_BOUND_NONE)
            continue;
        const event e = event_of(h.job->graphs[p->graph], p->node);
        ours++;
        if (vanishes(h.job->graphs[p->graph], p->node)) {
            vanished++;
            continue;
        }
        if (bsearch(&e, events, n, sizeof e, compare_events) == NULL && missing++ < 10)
            print_message("%s: '%s' at %lld is not on HTA's path\n", h.of->folder, e.name,
                          (long long)(p->from_ns));
    }
    print_message("%s: %zu of %zu pieces in HTA's %zu events, %zu shorter than HTA sees\n",
                  h.of->folder, ours - missing - vanished, ours, n, vanished);
    hta_close(&h, "pieces not on HTA's path", (double)missing, 0, 0);
    orr_graph_free(theirs);
    hta_end(&h);
}

/* Our own path explains the whole step; HTA's leaves out at least a quarter of each of these, since
 * it does not see what a thread waits for. Where it does see, both name the same bound. */
static void test_walk_explains_more(void **state)
{
    hta h = hta_begin(state);
    const orr_critical_path theirs = first_step(&h, true), ours = first_step(&h, false);
    int64_t sum_ns = 0;
    for (int i = 0; i < ORR_BOUNDS; i++)
        sum_ns += ours.bound_ns[i];
    assert_int_equal(sum_ns, ours.end_ns - ours.start_ns);
    assert_int_equal(theirs.end_ns, ours.end_ns);
    assert_int_equal(theirs.start_ns, ours.start_ns);
    const double whole = (double)(ours.end_ns - ours.start_ns);
    const double unexplained = 100 * (double)ours.bound_ns[ORR_BOUND_NONE] / whole;
    const double by_hta = 100 * (double)theirs.bound_ns[ORR_BOUND_NONE] / whole;
    print_message("%s: of %.3f ms HTA's path leaves out %.1f %%, ours %.1f %%\n", h.of->folder,
                  whole / 1e6, by_hta, unexplained);
    assert_true(by_hta > 25);
    /* a third of the kernels of that recording have no launch, and others are missing */
    assert_true(unexplained < (h.of == &HTA_CASES[HTA_NEGQ] ? 50 : 1));
    hta_end(&h);
}

/* Ranks that HTA calls potential stragglers: a list, a file an entry. */
static void test_stragglers(void **state)
{
    hta h = hta_begin(state);
    const orr_straggler *rows;
    size_t n;
    h.options.straggler_count = 2;
    hta_ok(&h, orr_analyze_stragglers(h.job, &h.options, h.arena, &rows, &n, &h.err));
    assert_int_equal(n, 2);
    for (uint32_t i = 0; i < 2; i++) {
        char name[1024];
        snprintf(name, sizeof name, "%s/data/traces/expected/hta/%s/potential_stragglers.%u.txt",
                 getenv("ORRERY_SHARED"), h.of->folder, i);
        const char *text = csv_read_file(name, h.arena);
        assert_non_null(text);
        const uint32_t rank = (uint32_t)strtoul(text, NULL, 10);
        assert_true(rows[0].rank == rank || rows[1].rank == rank);
    }
    hta_end(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple_event_by_event),
        cmocka_unit_test(test_simple_by_the_walk),
        HTA_TEST(test_breakdown, HTA_DLRM),
        HTA_TEST(test_breakdown, HTA_DDP),
        HTA_TEST(test_breakdown, HTA_NEGQ),
        HTA_TEST(test_breakdown, HTA_QWEN),
        HTA_TEST(test_size, HTA_DLRM),
        HTA_TEST(test_size, HTA_DDP),
        HTA_TEST(test_size, HTA_NEGQ),
        HTA_TEST(test_size, HTA_QWEN),
        HTA_TEST(test_events, HTA_DLRM),
        HTA_TEST(test_events, HTA_DDP),
        HTA_TEST(test_events, HTA_NEGQ),
        HTA_TEST(test_events, HTA_QWEN),
        HTA_TEST(test_walk_explains_more, HTA_DLRM),
        HTA_TEST(test_walk_explains_more, HTA_DDP),
        HTA_TEST(test_walk_explains_more, HTA_NEGQ),
        HTA_TEST(test_walk_explains_more, HTA_QWEN),
        HTA_TEST(test_stragglers, HTA_DLRM),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
