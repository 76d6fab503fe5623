/* SPDX-License-Identifier: Apache-2.0 */
#include "kineto_text.h"

#include <math.h>

#include <orrery/sim.h>

/* Recordings by hand, of shapes that are easily replayed too long or too short: a decoding step
 * that is one launch of a graph of many kernels, some of which run beside others on what is
 * recorded as one stream; and a device on which kernels begin many microseconds after the transfer
 * before them, yet follow one another at once. */
enum { STEPS = 6, EVENTS_MAX = 1 << 20 };

/* A thread and a stream, written as they go on. Times in ns. */
typedef struct recording {
    char *text;
    size_t n;
    int64_t host_ns, device_ns; /* where each is free */
    uint32_t correlation;
} recording;

static recording begin(void)
{
    recording r = {.text = malloc(EVENTS_MAX)};
    assert_non_null(r.text);
    r.n = (size_t)snprintf(r.text, EVENTS_MAX, "{'schemaVersion':1,'traceEvents':[");
    return r;
}

static void event(recording *r, const char *cat, const char *name, bool on_device, int64_t at_ns,
                  int64_t ns)
{
    assert_true(r->n + 512 < EVENTS_MAX);
    r->n += (size_t)snprintf(
        r->text + r->n, EVENTS_MAX - r->n,
        "%s{'ph':'X','cat':'%s','name':'%s','pid':%d,'tid':%d,'ts':%lld.%03d,'dur':%lld.%03d,"
        "'args':{%s'correlation':%u}}",
        r->correlation > 1 || r->text[r->n - 1] != '[' ? "," : "", cat, name, on_device ? 0 : 100,
        on_device ? 7 : 1, (long long)(at_ns / 1000), (int)(at_ns % 1000), (long long)(ns / 1000),
        (int)(ns % 1000), on_device ? "'device':0,'stream':7,'bytes':4096," : "", r->correlation);
}

/* A call on the thread, and the time until the next. */
static int64_t call(recording *r, const char *name, int64_t ns, int64_t after_ns)
{
    const int64_t at_ns = r->host_ns;
    r->correlation++;
    event(r, "cuda_runtime", name, false, at_ns, ns);
    r->host_ns += ns + after_ns;
    return at_ns;
}

/* Work on the stream: no sooner than it is launched, and a gap after what ran before. */
static void work(recording *r, const char *cat, const char *name, int64_t from_ns, int64_t gap_ns,
                 int64_t ns)
{
    if (r->device_ns > 0 && r->device_ns + gap_ns > from_ns)
        from_ns = r->device_ns + gap_ns;
    event(r, cat, name, true, from_ns, ns);
    r->device_ns = from_ns + ns;
}

static void wait(recording *r, const char *name, int64_t return_ns, int64_t after_ns)
{
    const int64_t until_ns = r->device_ns + return_ns;
    (void)call(r, name, until_ns > r->host_ns ? until_ns - r->host_ns : 1000, after_ns);
}

static const orr_graph *finish(recording *r)
{
    (void)snprintf(r->text + r->n, EVENTS_MAX - r->n, "]}");
    const orr_graph *g = read_text(r->text);
    free(r->text);
    return g;
}

static int64_t recorded_ns(const orr_graph *g)
{
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (!orr_sim_executes(g, v))
            continue;
        const int64_t end = g->start_ns[v] + g->duration_ns[v];
        begin_ns = g->start_ns[v] < begin_ns ? g->start_ns[v] : begin_ns;
        end_ns = end > end_ns ? end : end_ns;
    }
    return end_ns - begin_ns;
}

/* The span of the replay, and the latencies that were measured; frees the graph. Nodes of that name
 * take more_ns longer. */
static int64_t replay(const orr_graph *g, const char *name, int64_t more_ns,
                      orr_sim_latencies *ret_constants)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_job *job;
    const orr_ensemble *recorded;
    orr_sim_options options;
    orr_simulation simulation;
    orr_error err = {0};
    int64_t *ns = orr_arena_array(arena, int64_t, g->n_nodes);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        ns[v] = g->duration_ns[v] +
                (name && strcmp(orr_graph_str(g, g->name[v]), name) == 0 ? more_ns : 0);
    assert_int_equal(orr_job_build(&g, 1, &job, &err), ORR_OK);
    assert_int_equal(orr_ensemble_of_job(job, arena, &recorded, &err), ORR_OK);
    orr_ensemble changed = *recorded;
    changed.duration_ns = (const int64_t *const[]){ns};
    orr_sim_options_init(&options);
    options.threads = 1;
    if (orr_simulate(&changed, &options, arena, &simulation, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const int64_t span_ns = simulation.end_ns - simulation.begin_ns;
    if (ret_constants != NULL)
        *ret_constants = simulation.constants;
    orr_job_free(job);
    orr_arena_free(arena);
    return span_ns;
}

static void check_near(int64_t ns, int64_t want_ns, double frac)
{
    if (fabs((double)(ns - want_ns)) > frac * (double)want_ns)
        fail_msg("%lld ns, not %lld", (long long)ns, (long long)want_ns);
}

typedef struct decoding {
    int kernels, beside; /* each so many kernels, one runs beside it; 0: none */
    int64_t ns, gap_ns;
    bool apart; /* what would run beside the others runs after them */
} decoding;

enum { BESIDE_NS = 5000 };

/* Steps of a model that decodes: input copied in, one launch of a graph, output copied out. */
static const orr_graph *decode(decoding d)
{
    recording r = begin();
    for (int step = 0; step < STEPS; step++) {
        int64_t at_ns = call(&r, "cudaMemcpyAsync", 6000, 3000);
        work(&r, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", at_ns + 9000, d.gap_ns, 1500);
        at_ns = call(&r, "cudaGraphLaunch", 35000, 4000);
        for (int k = 0; k < d.kernels; k++) {
            const bool beside = d.beside > 0 && k % d.beside == 0;
            work(&r, "kernel", "decode", at_ns + 14000, d.gap_ns, d.ns);
            if (beside && d.apart)
                work(&r, "kernel", "beside", 0, d.gap_ns, BESIDE_NS);
            else if (beside)
                event(&r, "kernel", "beside", true, r.device_ns - d.ns + 500, BESIDE_NS);
        }
        at_ns = call(&r, "cudaMemcpyAsync", 5000, 2000);
        work(&r, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", at_ns + 9000, d.gap_ns, 1400);
        wait(&r, "cudaStreamSynchronize", 6000, 80000);
    }
    return finish(&r);
}

/* One launch of hundreds of kernels: each follows what it followed, at the gap that graphs have and
 * not at that of launches, and those beside others add nothing. */
static void test_a_launch_of_a_graph(void **state)
{
    (void)state;
    static const decoding cases[] = {{200, 0, 8000, 1200, false},
                                     {200, 5, 8000, 1200, false},
                                     {200, 5, 8000, 1200, true},
                                     {800, 3, 7000, 900, false},
                                     {1, 0, 300000, 1200, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_graph *g = decode(cases[i]);
        const int64_t want_ns = recorded_ns(g);
        check_near(replay(g, NULL, 0, NULL), want_ns, 0.003);
        /* all kernels longer: each by as much, and no launch hides it */
        g = decode(cases[i]);
        check_near(replay(g, "decode", 4000, NULL),
                   want_ns + (int64_t)STEPS * cases[i].kernels * 4000, 0.003);
        /* kernels beside others have room for what they are shorter */
        g = decode(cases[i]);
        const int64_t more_ns = cases[i].apart ? STEPS * 200 / 5 * 1000 : 0;
        check_near(replay(g, "beside", 1000, NULL), want_ns + more_ns, 0.003);
    }
    /* what runs beside others is no longer than what runs after them */
    const int64_t beside_ns = replay(decode(cases[1]), NULL, 0, NULL);
    const int64_t apart_ns = replay(decode(cases[2]), NULL, 0, NULL);
    check_near(apart_ns, beside_ns + STEPS * 200 / 5 * (BESIDE_NS + 1200), 0.003);
}

/* Copies of a batch in, each followed by kernels; the first begins after_ns behind its copy, give
 * or take a few microseconds. */
static const orr_graph *copies(int64_t after_ns, int64_t gap_ns, int kernels)
{
    recording r = begin();
    for (int step = 0; step < STEPS; step++) {
        for (int copy = 0; copy < 8; copy++) {
            int64_t at_ns = call(&r, "hipMemcpyAsync", 5000, 1000);
            const int64_t late_ns = after_ns > gap_ns ? (copy * 7 + step) % 5 * 1000 - 2000 : 0;
            work(&r, "gpu_memcpy", "Memcpy HtoD (Host -> Device)", at_ns + 11000, gap_ns, 20000);
            for (int k = 0; k < kernels; k++) {
                at_ns = call(&r, "hipLaunchKernel", 2500, 500);
                work(&r, "kernel", "k", at_ns + 8000, k == 0 ? after_ns + late_ns : gap_ns, 6000);
            }
        }
        wait(&r, "hipDeviceSynchronize", 5000, 3000);
    }
    return finish(&r);
}

/* The latency behind a transfer is measured, and is not that between kernels. */
static void test_kernels_late_behind_transfers(void **state)
{
    (void)state;
    static const int kernels[] = {2, 5, 12};
    for (size_t i = 0; i < 3; i++) {
        orr_sim_latencies slow, quick;
        const orr_graph *g = copies(17000, 1500, kernels[i]);
        const int64_t slow_ns = recorded_ns(g);
        const int64_t replayed_ns = replay(g, NULL, 0, &slow);
        check_near(replayed_ns, slow_ns, 0.01);
        assert_in_range(slow.copy_gap_ns, 15000, 19000);
        assert_int_equal(slow.kernel_gap_ns, 1500);
        /* where they begin at once, so they do when replayed */
        g = copies(1500, 1500, kernels[i]);
        const int64_t quick_ns = recorded_ns(g);
        check_near(replay(g, NULL, 0, &quick), quick_ns, 0.005);
        assert_int_equal(quick.copy_gap_ns, 1500);
        assert_true(slow_ns > quick_ns + quick_ns / 10);
        /* longer transfers: all later by as much, and no more */
        g = copies(17000, 1500, kernels[i]);
        check_near(replay(g, "Memcpy HtoD (Host -> Device)", 30000, NULL),
                   replayed_ns + (int64_t)STEPS * 8 * 30000, 0.005);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_launch_of_a_graph),
        cmocka_unit_test(test_kernels_late_behind_transfers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
