/* SPDX-License-Identifier: Apache-2.0 */
#include "kineto_text.h"

#include "base/philox.h"

/* Random recordings, most of them impossible: whatever the times say, what is recovered from
 * them is never a cycle and agrees with them. */
typedef struct text {
    char *at;
    size_t n, room;
    uint32_t step_us;
    orr_random random;
} text;

static uint32_t below(text *t, uint32_t n)
{
    return (uint32_t)orr_random_below(&t->random, n);
}

static void add(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(t->at + t->n, t->room - t->n, format, args);
    va_end(args);
    t->n += (size_t)n;
    assert_true(t->n < t->room);
}

/* Few moments, so that many things happen at once; halves in some recordings, and long
 * silences in others. */
static void add_times(text *t, bool fractions)
{
    const uint32_t start = below(t, 40) * t->step_us;
    const uint32_t duration = below(t, 3) == 0 ? 0 : below(t, 20) * t->step_us;
    add(t, "\"ts\":%u%s,\"dur\":%u%s", start, fractions && below(t, 2) ? ".5" : "", duration,
        fractions && below(t, 2) ? ".25" : "");
}

static void add_host(text *t, bool fractions)
{
    static const char *const events[] = {
        "cpu_op\",\"name\":\"op",
        "user_annotation\",\"name\":\"step",
        "cuda_runtime\",\"name\":\"cudaLaunchKernel",
        "cuda_runtime\",\"name\":\"cudaEventRecord",
        "cuda_runtime\",\"name\":\"cudaStreamWaitEvent",
        "cuda_runtime\",\"name\":\"cudaStreamSynchronize",
        "cuda_runtime\",\"name\":\"cudaDeviceSynchronize",
        "cuda_runtime\",\"name\":\"cudaEventSynchronize",
        "cuda_runtime\",\"name\":\"cudaMemcpy",
        "python_function\",\"name\":\"f.py(1): wait",
        "cpu_op\",\"name\":\"c10d::allreduce_",
        "user_annotation\",\"name\":\"gloo:all_reduce",
    };
    add(t, "{\"ph\":\"X\",\"cat\":\"%s\",\"pid\":1,\"tid\":%u,", events[below(t, 12)], below(t, 3));
    add_times(t, fractions);
    add(t, ",\"args\":{\"correlation\":%u", 1 + below(t, 20));
    if (below(t, 3) == 0)
        add(t, ",\"Sequence number\":%u,\"Fwd thread id\":%u", below(t, 5), below(t, 2));
    add(t, "}},");
}

static void add_device(text *t, bool fractions)
{
    static const char *const events[] = {
        "kernel\",\"name\":\"k", "gpu_memcpy\",\"name\":\"Memcpy DtoH (Device -> Pageable)",
        "mtia_ccp_events\",\"name\":\"event_wait", "kernel\",\"name\":\"ncclDevKernel_SendRecv"};
    const unsigned stream = below(t, 3);
    add(t, "{\"ph\":\"X\",\"cat\":\"%s\",\"pid\":0,\"tid\":%u,", events[below(t, 4)], stream);
    add_times(t, fractions);
    add(t, ",\"args\":{\"stream\":%u,\"correlation\":%u,\"wait_on_stream\":%u}},", stream,
        below(t, 22), below(t, 3));
}

static void add_record(text *t, bool fractions)
{
    static const char *const names[] = {"Stream Wait Event", "Stream Sync", "Event Sync",
                                        "Context Sync"};
    add(t, "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"%s\",\"pid\":0,\"tid\":-1,",
        names[below(t, 4)]);
    add_times(t, fractions);
    add(t,
        ",\"args\":{\"stream\":%u,\"wait_on_stream\":%u,\"correlation\":%u,"
        "\"wait_on_cuda_event_record_corr_id\":%u,\"device\":0}},",
        below(t, 3), below(t, 3), below(t, 20), below(t, 20));
}

static void add_arrow(text *t)
{
    const bool forward = below(t, 2), finish = below(t, 2);
    add(t, "{\"ph\":\"%s\",\"cat\":\"%s\",\"id\":%u,\"pid\":%u,\"tid\":%u,\"ts\":%u},",
        finish ? "f" : "s", forward ? "fwdbwd" : "ac2g", below(t, 6), forward || !finish,
        below(t, 3), below(t, 40) * t->step_us);
}

static void compose(text *t)
{
    t->n = 0;
    t->step_us = below(t, 4) == 0 ? 60 : 1;
    const bool fractions = below(t, 2), records = below(t, 2), arrows = below(t, 2);
    const unsigned n = 2 + below(t, 60);
    add(t, "[");
    for (unsigned i = 0; i < n; i++) {
        const unsigned what = below(t, 10);
        if (what < 5)
            add_host(t, fractions);
        else if (what < 8)
            add_device(t, fractions);
        else if (what == 8 && records)
            add_record(t, fractions);
        else if (arrows)
            add_arrow(t);
    }
    add(t, "{\"ph\":\"M\",\"name\":\"end\",\"pid\":0,\"tid\":0}]");
}

/* Device work that seems to start before its launch counts from there. */
static int64_t start_of(const orr_graph *g, orr_node_id v)
{
    int64_t start = g->start_ns[v];
    for (uint32_t e = g->dep_first[v]; e < g->dep_first[v + 1]; e++)
        if (g->dep_kind[e] == ORR_DEP_LAUNCH && g->start_ns[g->dep[e]] > start)
            start = g->start_ns[g->dep[e]];
    return start;
}

static int64_t end_of(const orr_graph *g, orr_node_id v)
{
    const int64_t start = start_of(g, v), end = g->start_ns[v] + g->duration_ns[v];
    return start > end ? start : end;
}

static void check_times(const orr_graph *g)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        for (uint32_t e = g->dep_first[v]; e < g->dep_first[v + 1]; e++) {
            const int64_t end = end_of(g, g->dep[e]);
            if (g->dep_kind[e] == ORR_DEP_CONTROL)
                assert_true(g->start_ns[g->dep[e]] < g->start_ns[v]);
            else if (g->dep_kind[e] == ORR_DEP_SYNC)
                assert_true(end <= g->start_ns[v] + g->duration_ns[v] + 2000);
            else if (g->dep_kind[e] == ORR_DEP_THREAD)
                assert_true(end <= g->start_ns[v] + 1000);
            else if (g->dep_kind[e] != ORR_DEP_LAUNCH)
                assert_true(end <= start_of(g, v));
        }
}

static void recover_never_makes_a_cycle(void **state)
{
    (void)state;
    enum { RECORDINGS = 20000 };
    text t = {.room = 64 * 1024};
    unsigned kinds[ORR_DEP_SYNC + 1] = {0};
    t.at = malloc(t.room);
    assert_non_null(t.at);
    for (uint64_t seed = 1; seed <= RECORDINGS; seed++) {
        const orr_graph *g = NULL;
        orr_error err = {0};
        t.random = orr_random_of(seed, 0);
        compose(&t);
        if (orr_trace_read_memory(t.at, t.n, NULL, &g, NULL, &err) != ORR_OK)
            fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, err.text, t.at);
        check_times(g);
        for (uint32_t e = 0; e < g->n_deps; e++)
            kinds[g->dep_kind[e]]++;
        orr_graph_free(g);
    }
    /* The generator does reach every kind. */
    for (int kind = ORR_DEP_CONTROL; kind <= ORR_DEP_SYNC; kind++)
        if (kinds[kind] < 1000)
            fail_msg("%u of %s", kinds[kind], orr_dep_kind_name((orr_dep_kind)kind));
    free(t.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recover_never_makes_a_cycle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
