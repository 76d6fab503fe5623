/* SPDX-License-Identifier: Apache-2.0 */
#include "replayed.h"

static uint32_t op(small *s, const char *name, uint32_t lane, int64_t start, int64_t duration)
{
    return small_node(s, ORR_NODE_HOST_OP, name, lane, start, duration, ORR_NONE);
}

static uint32_t call(small *s, const char *name, uint32_t lane, int64_t start, int64_t duration)
{
    return small_node(s, ORR_NODE_RUNTIME, name, lane, start, duration, ORR_NONE);
}

/* A thread is a line of points: nested, overlapping, instants, all at their recorded distance. */
static void test_host_time_is_kept(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t outer = op(&s, "outer", cpu, 0, 100);
    const uint32_t inner = op(&s, "inner", cpu, 10, 20);
    const uint32_t across = op(&s, "across", cpu, 90, 30);
    const uint32_t instant = small_node(&s, ORR_NODE_MEMORY, "[memory]", cpu, 95, 0, outer);
    const uint32_t none = op(&s, "nothing", cpu, 120, 0);
    const uint32_t next = op(&s, "next", cpu, 120, 5);
    const replayed r = replay_small(&s);
    assert_int_equal(start_of(&r, outer), 0);
    assert_int_equal(start_of(&r, inner), 10);
    assert_int_equal(end_of(&r, inner), 30);
    assert_int_equal(start_of(&r, across), 90);
    assert_int_equal(end_of(&r, outer), 100);
    assert_int_equal(end_of(&r, across), 120);
    assert_int_equal(start_of(&r, instant), 95);
    assert_int_equal(r.program.start_point[instant], r.program.end_point[instant]);
    assert_int_equal(start_of(&r, none), 120);
    assert_int_equal(end_of(&r, next), 125);
    for (uint32_t k = 0; k < r.program.n_edges; k++)
        assert_true(orr_edge_is_host(r.program.edges[k].kind));
    small_drop(&s);
}

/* The duration of a node of a thread over the recorded one is a factor on the time that is its own:
 * what is nested in it keeps its length. */
static void test_host_time_is_changed(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t outer = op(&s, "outer", cpu, 0, 100);
    const uint32_t inner = op(&s, "inner", cpu, 10, 20);
    const uint32_t next = op(&s, "next", cpu, 110, 5);
    const orr_graph *g = small_rank(&s);
    int64_t duration_ns[3] = {50, 20, 5};
    replayed r = replay_changed(g, duration_ns, 1024, s.arena);
    assert_int_equal(start_of(&r, inner), 5);
    assert_int_equal(end_of(&r, inner), 25);
    assert_int_equal(end_of(&r, outer), 60);
    assert_int_equal(start_of(&r, next), 70); /* the gap between is nobody's */
    duration_ns[outer] = 100;
    duration_ns[inner] = 0;
    r = replay_changed(g, duration_ns, 1024, s.arena);
    assert_int_equal(end_of(&r, outer), 80);
    small_drop(&s);
}

/* A call that is gone waits for no device; one that is only faster still does. */
static void test_removed_call_waits_for_nothing(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t launch = call(&s, "cudaLaunchKernel", cpu, 0, 5);
    const uint32_t k = small_work(&s, ORR_NODE_COMPUTE, "k", gpu, 7, 90, launch);
    const uint32_t sync = call(&s, "cudaStreamSynchronize", cpu, 6, 96);
    const uint32_t next = op(&s, "next", cpu, 103, 5);
    small_dep(&s, sync, k, ORR_DEP_SYNC);
    const orr_graph *g = small_rank(&s);
    int64_t duration_ns[4];
    memcpy(duration_ns, g->duration_ns, sizeof duration_ns);
    duration_ns[sync] = 1;
    replayed r = replay_changed(g, duration_ns, 1024, s.arena);
    assert_int_equal(end_of(&r, sync), 97 + 5);
    duration_ns[sync] = 0;
    r = replay_changed(g, duration_ns, 1024, s.arena);
    assert_int_equal(end_of(&r, sync), 6);
    assert_int_equal(start_of(&r, next), 7);
    assert_int_equal(end_of(&r, k), 97);
    small_drop(&s);
}

/* Device work starts as soon as its launch and its stream let it, whenever that was recorded. */
static void test_launch_stream_and_event(void **state)
{
    (void)state;
    for (int64_t late = 0; late < 1000; late += 500) {
        small s = small_begin();
        const uint32_t cpu = small_thread(&s, 1);
        const uint32_t a = small_stream(&s, 0, 7), b = small_stream(&s, 0, 20);
        const uint32_t k1 = small_work(&s, ORR_NODE_COMPUTE, "k1", a, 9 + late, 40,
                                       call(&s, "cudaLaunchKernel", cpu, 0, 5));
        const uint32_t k2 = small_work(&s, ORR_NODE_COMPUTE, "k2", a, 60 + late, 20,
                                       call(&s, "cudaLaunchKernel", cpu, 6, 5));
        const uint32_t copy = small_work(&s, ORR_NODE_COPY, "copy", b, 90 + late, 30,
                                         call(&s, "cudaMemcpyAsync", cpu, 12, 5));
        small_dep(&s, copy, k2, ORR_DEP_EVENT);
        const replayed r = replay_small(&s);
        assert_int_equal(start_of(&r, k1), 7);
        assert_int_equal(start_of(&r, k2), 47 + 2);
        assert_int_equal(start_of(&r, copy), 69 + 3);
        assert_int_equal(end_of(&r, copy), 72 + 30);
        assert_int_equal(r.program.n_works, 3);
        assert_int_equal(r.program.works[2].work_class, ORR_WORK_MEMORY);
        small_drop(&s);
    }
}

/* One microsecond of rounding does not put work of two launches side by side. */
static void test_streams_run_in_order(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t k1 = small_work(&s, ORR_NODE_COMPUTE, "k1", gpu, 10, 40,
                                   call(&s, "cudaLaunchKernel", cpu, 0, 5));
    const uint32_t k2 = small_work(&s, ORR_NODE_COMPUTE, "k2", gpu, 20, 40,
                                   call(&s, "cudaLaunchKernel", cpu, 6, 5));
    const replayed r = replay_small(&s);
    assert_int_equal(start_of(&r, k2), end_of(&r, k1) + 2);
    small_drop(&s);
}

/* What one call launched may run side by side; the order inside is as recorded. */
static void test_graphs_keep_their_inside(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t launch = call(&s, "cudaGraphLaunch", cpu, 0, 5);
    const uint32_t a = small_work(&s, ORR_NODE_COMPUTE, "a", gpu, 20, 50, launch);
    const uint32_t b = small_work(&s, ORR_NODE_COMPUTE, "b", gpu, 25, 10, launch);
    const uint32_t c = small_work(&s, ORR_NODE_COMPUTE, "c", gpu, 90, 10, launch);
    const uint32_t after = small_work(&s, ORR_NODE_COMPUTE, "after", gpu, 300, 10,
                                      call(&s, "cudaLaunchKernel", cpu, 6, 5));
    const replayed r = replay_small(&s);
    assert_int_equal(start_of(&r, a), 20); /* its first work may not have been recorded */
    assert_int_equal(start_of(&r, b), 25);
    assert_int_equal(start_of(&r, c), 90);
    assert_int_equal(start_of(&r, after), 100 + 2);
    small_drop(&s);
}

/* host    |cudaGraphLaunch|      |sync|
 * stream     |a|.|b|..|c  |        b soon after a, sooner than kernels follow elsewhere; d begins
 *                     |d  |        before c has ended
 * Inside of a graph each keeps its distance, however short, also when what is before it moves. */
static void test_inside_of_a_graph(void **state)
{
    (void)state;
    for (int64_t longer = 0; longer < 100; longer += 50) {
        small s = small_begin();
        const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
        const uint32_t launch = call(&s, "cudaGraphLaunch", cpu, 0, 30);
        uint32_t k[5];
        k[0] = small_work(&s, ORR_NODE_COMPUTE, "a", gpu, 10, 100, launch);
        k[1] = small_work(&s, ORR_NODE_COMPUTE, "b", gpu, 111, 100, launch);
        k[2] = small_work(&s, ORR_NODE_COMPUTE, "c", gpu, 221, 100, launch);
        k[3] = small_work(&s, ORR_NODE_COMPUTE, "d", gpu, 311, 100, launch);
        k[4] = small_work(&s, ORR_NODE_COMPUTE, "e", gpu, 412, 100, launch);
        small_rank(&s);
        const int64_t durations[] = {30, 100 + longer, 100, 100, 100, 100};
        replayed r;
        assert_int_equal(orr_sim_program_compile(s.graphs[0], durations, &SMALL_CONSTANTS, NULL,
                                                 1024, s.arena, &r.program, &s.err),
                         ORR_OK);
        settle(&r, s.arena);
        assert_int_equal(start_of(&r, k[0]), 10);
        assert_int_equal(start_of(&r, k[1]), 111 + longer);
        assert_int_equal(start_of(&r, k[2]), 221 + longer);
        assert_int_equal(start_of(&r, k[3]), 311 + longer);
        assert_int_equal(start_of(&r, k[4]), 412 + longer);
        small_drop(&s);
    }
}

/* A send is there for its receiver since it was posted, not since its record began. */
static void test_a_send_begins_where_it_was_posted(void **state)
{
    (void)state;
    for (int sends = 0; sends < 2; sends++) {
        small s = small_begin();
        const uint32_t cpu = small_thread(&s, 1), posts = op(&s, "c10d::send", cpu, 100, 60);
        const uint32_t record = small_node(&s, sends ? ORR_NODE_SEND : ORR_NODE_COLLECTIVE,
                                           "gloo:send", cpu, 140, 50, ORR_NONE);
        small_dep(&s, record, posts, ORR_DEP_CONTROL);
        const replayed r = replay_small(&s);
        assert_int_equal(r.program.works[0].start, r.program.start_point[sends ? posts : record]);
        assert_int_equal(r.program.works[0].posted_ns, sends ? 0 : 40);
        small_drop(&s);
    }
}

/* host    |call|  |---sync-------------|  |next|
 * stream          |-kernel------|
 * However long the call was recorded to wait: it returns 5 after the kernel. */
static int64_t next_after_wait(int64_t kernel_start, int64_t kernel_ns, int64_t sync_ns)
{
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t k = small_work(&s, ORR_NODE_COMPUTE, "k", gpu, kernel_start, kernel_ns,
                                  call(&s, "cudaLaunchKernel", cpu, 0, 5));
    const uint32_t sync = call(&s, "cudaStreamSynchronize", cpu, 10, sync_ns);
    const uint32_t next = op(&s, "next", cpu, 10 + sync_ns + 4, 3);
    small_dep(&s, sync, k, ORR_DEP_SYNC);
    const replayed r = replay_small(&s);
    const int64_t at = start_of(&r, next);
    small_drop(&s);
    return at;
}

static void test_time_spent_waiting_is_not_read(void **state)
{
    (void)state;
    assert_int_equal(next_after_wait(8, 100, 120), 107 + 5 + 4);
    assert_int_equal(next_after_wait(508, 100, 600), 107 + 5 + 4);
    assert_int_equal(next_after_wait(8, 100, 99999), 107 + 5 + 4);
    /* The kernel was over: the call's own time, which nothing else tells, is that constant. */
    assert_int_equal(next_after_wait(7, 2, 50), 10 + 50 + 4);
}

/* The own time of a call is the median of those of its name that did not wait. */
static void test_own_time_is_one_number_a_name(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t k =
        small_work(&s, ORR_NODE_COMPUTE, "k", gpu, 8, 10, call(&s, "cudaLaunchKernel", cpu, 0, 5));
    static const int64_t own_ns[] = {30, 10, 20};
    uint32_t sync[4];
    int64_t at = 100;
    for (int i = 0; i < 3; i++, at += 100) {
        sync[i] = call(&s, "cudaStreamSynchronize", cpu, at, own_ns[i]);
        small_dep(&s, sync[i], k, ORR_DEP_SYNC);
    }
    sync[3] = call(&s, "cudaDeviceSynchronize", cpu, at, 1000); /* another name, and it waited */
    const uint32_t last = small_work(&s, ORR_NODE_COMPUTE, "last", gpu, at + 900, 1,
                                     call(&s, "cudaLaunchKernel", cpu, at - 60, 5));
    small_dep(&s, sync[3], last, ORR_DEP_SYNC);
    const replayed r = replay_small(&s);
    for (int i = 0; i < 3; i++)
        assert_int_equal(end_of(&r, sync[i]) - start_of(&r, sync[i]), 20);
    assert_int_equal(end_of(&r, sync[3]) - start_of(&r, sync[3]), 5);
    small_drop(&s);
}

/* main      |-op-|                     |after|
 * backward          |-back----|
 * Neither thread's silence is read. */
/* Queries of 2, 2, 2, 2, 3, 4 and `held_up_ns`: end of what comes after them. */
static int64_t end_after_queries(int64_t held_up_ns)
{
    const int64_t own_ns[] = {2, 2, 2, 2, 3, 4, held_up_ns};
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    int64_t at = 0;
    for (size_t i = 0; i < sizeof own_ns / sizeof *own_ns; i++) {
        call(&s, "cudaEventQuery", cpu, at, own_ns[i]);
        at += own_ns[i];
    }
    const uint32_t last = op(&s, "last", cpu, at, 10);
    const replayed r = replay_small(&s);
    const int64_t end = end_of(&r, last);
    small_drop(&s);
    return end;
}

/* A query that was held up shows as one of its name's longest quarter, however long it was; one
 * that is longer never makes a shorter replay. */
static void test_a_query_that_was_held_up(void **state)
{
    (void)state;
    int64_t before = 0;
    for (int64_t held_up_ns = 1; held_up_ns < 200; held_up_ns++) {
        const int64_t end = end_after_queries(held_up_ns);
        assert_true(end >= before);
        before = end;
    }
    assert_int_equal(end_after_queries(4), 2 + 2 + 2 + 2 + 3 + 4 + 4 + 10);
    assert_int_equal(end_after_queries(10000), end_after_queries(5));
}

static void test_hand_offs(void **state)
{
    (void)state;
    for (int64_t late = 0; late < 1000; late += 500) {
        small s = small_begin();
        const uint32_t main = small_thread(&s, 1), backward = small_thread(&s, 2);
        const uint32_t before = op(&s, "before", main, 0, 50);
        const uint32_t back = op(&s, "back", backward, 70 + late, 100);
        const uint32_t after = op(&s, "after", main, 190 + 2 * late, 10);
        small_dep(&s, back, before, ORR_DEP_HANDOFF);
        small_dep(&s, after, back, ORR_DEP_HANDOFF);
        const replayed r = replay_small(&s);
        assert_int_equal(start_of(&r, back), 50 + 11);
        assert_int_equal(start_of(&r, after), 161 + 11);
        small_drop(&s);
    }
}

/* A thread that was busy when it was handed something went on by itself. */
static void test_a_busy_thread_does_not_wait(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t main = small_thread(&s, 1), other = small_thread(&s, 2);
    const uint32_t early = op(&s, "early", main, 0, 10);
    op(&s, "busy", other, 5, 200);
    const uint32_t then = op(&s, "then", other, 245, 10);
    small_dep(&s, then, early, ORR_DEP_HANDOFF);
    const replayed r = replay_small(&s);
    assert_int_equal(start_of(&r, then), 245);
    small_drop(&s);
}

/* Gloo: c10d asks, a thread of its own carries it out, an operator waits for that. */
static void test_transfers_on_threads(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t main = small_thread(&s, 1), gloo = small_thread(&s, 2);
    const uint32_t asks = op(&s, "c10d::allreduce_", main, 0, 20);
    const uint32_t runs =
        small_node(&s, ORR_NODE_COLLECTIVE, "gloo:all_reduce", gloo, 400, 90, ORR_NONE);
    const orr_comm comm = {.collective = ORR_COLL_ALL_REDUCE, .group = ORR_NONE};
    assert_int_equal(orr_builder_comm(s.builder, runs, &comm, &s.err), ORR_OK);
    const uint32_t waits = op(&s, "wait", main, 30, 500);
    small_dep(&s, runs, asks, ORR_DEP_CONTROL);
    small_dep(&s, waits, runs, ORR_DEP_SYNC);
    const replayed r = replay_small(&s);
    assert_int_equal(r.program.n_works, 1);
    assert_int_equal(r.program.works[0].work_class, ORR_WORK_HOST);
    assert_int_equal(r.program.works[0].device, -1);
    assert_int_equal(r.program.works[0].comm, 0);
    assert_int_equal(r.program.works[0].duration_ns, 90);
    assert_int_equal(start_of(&r, runs), 11);
    assert_int_equal(end_of(&r, waits), 101 + 5);
    small_drop(&s);
}

/* A stream holds 4 launches; one more call returns when the oldest has begun. */
static void test_full_queues(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    uint32_t calls[8], kernels[8];
    int64_t at = 0;
    for (int i = 0; i < 8; i++) {
        const int64_t ns = i > 4 ? 108 + 210 * (i - 4) - at : 5; /* 100 longer than it has to */
        calls[i] = call(&s, "cudaLaunchKernel", cpu, at, ns);
        kernels[i] = small_work(&s, ORR_NODE_COMPUTE, "k", gpu, 8 + 210 * i, 100, calls[i]);
        at += ns + 5;
    }
    const orr_graph *g = small_rank(&s);
    const replayed r = replay_graph(g, 4, s.arena);
    assert_int_equal(end_of(&r, calls[3]), 35);
    assert_int_equal(end_of(&r, calls[4]), 45);
    assert_int_equal(end_of(&r, calls[5]), start_of(&r, kernels[1]));
    assert_int_equal(end_of(&r, calls[6]), start_of(&r, kernels[2]));
    assert_int_equal(end_of(&r, calls[7]), start_of(&r, kernels[3]));
    small_drop(&s);
}

/* Without a launch: as long after what precedes it as it was, beyond the usual gap or event. */
static void test_unexplained_gaps(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t a = small_stream(&s, 0, 7), b = small_stream(&s, 0, 20);
    op(&s, "op", cpu, 0, 40);
    const uint32_t first = small_work(&s, ORR_NODE_COMPUTE, "first", a, 60, 10, ORR_NONE);
    const uint32_t second = small_work(&s, ORR_NODE_COMPUTE, "second", a, 100, 10, ORR_NONE);
    const uint32_t third = small_work(&s, ORR_NODE_COMPUTE, "third", b, 120, 10, ORR_NONE);
    small_dep(&s, third, second, ORR_DEP_EVENT);
    const replayed r = replay_small(&s);
    assert_int_equal(start_of(&r, first), 60);
    assert_int_equal(start_of(&r, second), 100);
    assert_int_equal(start_of(&r, third), 120);
    small_drop(&s);
}

/* The big kernel has 10 waves of blocks; a small one, launched meanwhile, begins with the last. */
static void test_crowded_device(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t a = small_stream(&s, 0, 7), b = small_stream(&s, 0, 20);
    const uint32_t big = small_work(&s, ORR_NODE_COMPUTE, "big", a, 8, 1000000,
                                    call(&s, "cudaLaunchKernel", cpu, 0, 5));
    const uint32_t tiny = small_work(&s, ORR_NODE_COMPUTE, "tiny", b, 905000, 10,
                                     call(&s, "cudaLaunchKernel", cpu, 100, 5));
    const double warps = 320;
    const int64_t occupancy = 50;
    const orr_attr attrs[] = {
        {.name = small_str(&s, "warps per SM"),
         .kind = ORR_ATTR_DOUBLE,
         .count = 1,
         .values = &warps},
        {.name = small_str(&s, "est. achieved occupancy %"),
         .kind = ORR_ATTR_INT64,
         .count = 1,
         .values = &occupancy},
    };
    assert_int_equal(orr_builder_attrs(s.builder, big, attrs, 2, &s.err), ORR_OK);
    const replayed r = replay_small(&s);
    assert_int_equal(start_of(&r, big), 7);
    assert_int_equal(start_of(&r, tiny), 7 + 900000);
    small_drop(&s);
}

/* What is drawn on a stream and does not run there has the times of what it stands for. */
static void test_shadows(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t k =
        small_work(&s, ORR_NODE_COMPUTE, "k", gpu, 20, 40, call(&s, "cudaLaunchKernel", cpu, 0, 5));
    const uint32_t step = small_node(&s, ORR_NODE_DEVICE_ANNOTATION, "step", gpu, 20, 40, ORR_NONE);
    const uint32_t sync = call(&s, "cudaStreamSynchronize", cpu, 10, 60);
    const uint32_t record = small_work(&s, ORR_NODE_SYNC, "Stream Sync", gpu, 10, 60, sync);
    small_dep(&s, sync, k, ORR_DEP_SYNC);
    const replayed r = replay_small(&s);
    assert_int_equal(start_of(&r, step), start_of(&r, k));
    assert_int_equal(end_of(&r, step), end_of(&r, k));
    assert_int_equal(end_of(&r, record), end_of(&r, sync));
    assert_int_equal(r.program.n_works, 1);
    small_drop(&s);
}

/* Work that is a wait for another stream takes no time of its own. */
static void test_device_waits(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t a = small_stream(&s, 0, 7), b = small_stream(&s, 0, 20);
    const uint32_t k =
        small_work(&s, ORR_NODE_COMPUTE, "k", a, 8, 500, call(&s, "launch", cpu, 0, 5));
    small_work(&s, ORR_NODE_SYNC, "event_wait", b, 12, 496, call(&s, "wait", cpu, 6, 2));
    const uint32_t next =
        small_work(&s, ORR_NODE_COMPUTE, "next", b, 520, 10, call(&s, "launch", cpu, 10, 5));
    small_dep(&s, next, k, ORR_DEP_EVENT);
    const replayed r = replay_small(&s);
    assert_int_equal(start_of(&r, next), 507 + 3);
    assert_int_equal(r.program.works[2].duration_ns + r.program.works[1].duration_ns, 10);
    small_drop(&s);
}

/* Without any time, only dependencies and nesting put in order what threads do. */
static void test_untimed_graphs(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t late =
        small_node(&s, ORR_NODE_HOST_OP, "late", cpu, ORR_TIME_NONE, 10, ORR_NONE);
    const uint32_t early =
        small_node(&s, ORR_NODE_HOST_OP, "early", cpu, ORR_TIME_NONE, 20, ORR_NONE);
    const uint32_t second = small_work(&s, ORR_NODE_COMPUTE, "b", gpu, ORR_TIME_NONE, 30, ORR_NONE);
    const uint32_t first = small_work(&s, ORR_NODE_COMPUTE, "a", gpu, ORR_TIME_NONE, 40, ORR_NONE);
    small_dep(&s, late, early, ORR_DEP_DATA);
    small_dep(&s, second, first, ORR_DEP_DATA); /* against the order of the file */
    small_dep(&s, first, late, ORR_DEP_DATA);
    const replayed r = replay_small(&s);
    assert_int_equal(start_of(&r, early), 0);
    assert_int_equal(start_of(&r, late), 20);
    assert_int_equal(start_of(&r, first), 30);
    assert_true(start_of(&r, second) >= 70);
    small_drop(&s);
}

/* Streams without times, launched by a thread with nominal ones: what a builder makes. */
static void build_step(small *s)
{
    const uint32_t main = small_thread(s, 1), backward = small_thread(s, 2);
    const uint32_t a = small_stream(s, 0, 7), b = small_stream(s, 0, 20);
    uint32_t last = ORR_NONE, forward = ORR_NONE;
    for (int i = 0; i < 5; i++) {
        forward = op(s, "aten::mm", main, 20 * i, 15);
        last = small_work(s, ORR_NODE_COMPUTE, "gemm", a, ORR_TIME_NONE, 30 + 3 * i,
                          small_call(s, main, 20 * i + 5, 5, forward));
    }
    const uint32_t back = op(s, "MmBackward", backward, 101, 15);
    small_dep(s, back, forward, ORR_DEP_HANDOFF);
    const uint32_t reduce = small_work(s, ORR_NODE_COLLECTIVE, "nccl", b, ORR_TIME_NONE, 77,
                                       small_call(s, backward, 106, 5, back));
    small_dep(s, reduce, last, ORR_DEP_EVENT);
    const uint32_t sync = call(s, "cudaStreamSynchronize", main, 95, 1);
    small_dep(s, sync, reduce, ORR_DEP_SYNC);
    const uint32_t rest = op(s, "rest", main, 96, 44);
    small_dep(s, rest, back, ORR_DEP_HANDOFF);
}

/* A synthetic graph and the recording of its simulation are the same program: same times again. */
static void test_a_simulation_compiles_to_itself(void **state)
{
    (void)state;
    small s = small_begin();
    build_step(&s);
    const orr_graph *synthetic = small_rank(&s);
    const replayed first = replay_graph(synthetic, 1024, s.arena);
    const orr_graph *recorded = retimed(&first, s.arena);
    const replayed again = replay_graph(recorded, 1024, s.arena);
    assert_int_equal(again.program.n_points, first.program.n_points);
    for (orr_node_id v = 0; v < synthetic->n_nodes; v++) {
        assert_int_equal(start_of(&again, v), start_of(&first, v));
        assert_int_equal(end_of(&again, v), end_of(&first, v));
    }
    orr_graph_free(recorded);
    small_drop(&s);
}

/* Dependencies that the recording contradicts, even in a circle, are left out. */
static void test_contradictions(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), other = small_thread(&s, 2);
    const uint32_t gpu = small_stream(&s, 0, 7);
    const uint32_t k1 = small_work(&s, ORR_NODE_COMPUTE, "k1", gpu, 5, 10,
                                   call(&s, "cudaLaunchKernel", cpu, 100, 5));
    const uint32_t k2 =
        small_work(&s, ORR_NODE_COMPUTE, "k2", gpu, 6, 30, call(&s, "cudaLaunchKernel", cpu, 0, 5));
    const uint32_t sync = call(&s, "cudaStreamSynchronize", cpu, 20, 20);
    small_dep(&s, sync, k2, ORR_DEP_SYNC);
    const uint32_t before = op(&s, "before", other, 10, 5);
    small_dep(&s, before, sync, ORR_DEP_HANDOFF);
    (void)k1;
    replay_small(&s);
    small_drop(&s);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    small s = small_begin();
    build_step(&s);
    const orr_graph *g = small_rank(&s);
    for (uint64_t nth = 1;; nth++) {
        orr_sim_program program = {0};
        orr_error err;
        orr_arena *arena = orr_arena_new(256, 0);
        orr_alloc_fail_from(nth);
        const orr_status status =
            orr_sim_program_compile(g, NULL, &SMALL_CONSTANTS, NULL, 2, arena, &program, &err);
        orr_alloc_fail_from(0);
        orr_arena_free(arena);
        if (status == ORR_OK) {
            assert_true(nth > 5);
            break;
        }
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_int_equal(program.n_points, 0);
    }
    small_drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_send_begins_where_it_was_posted),
        cmocka_unit_test(test_host_time_is_kept),
        cmocka_unit_test(test_host_time_is_changed),
        cmocka_unit_test(test_removed_call_waits_for_nothing),
        cmocka_unit_test(test_launch_stream_and_event),
        cmocka_unit_test(test_streams_run_in_order),
        cmocka_unit_test(test_graphs_keep_their_inside),
        cmocka_unit_test(test_inside_of_a_graph),
        cmocka_unit_test(test_time_spent_waiting_is_not_read),
        cmocka_unit_test(test_own_time_is_one_number_a_name),
        cmocka_unit_test(test_a_query_that_was_held_up),
        cmocka_unit_test(test_hand_offs),
        cmocka_unit_test(test_a_busy_thread_does_not_wait),
        cmocka_unit_test(test_transfers_on_threads),
        cmocka_unit_test(test_full_queues),
        cmocka_unit_test(test_unexplained_gaps),
        cmocka_unit_test(test_crowded_device),
        cmocka_unit_test(test_shadows),
        cmocka_unit_test(test_device_waits),
        cmocka_unit_test(test_untimed_graphs),
        cmocka_unit_test(test_a_simulation_compiles_to_itself),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
