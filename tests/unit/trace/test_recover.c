/* SPDX-License-Identifier: Apache-2.0 */
#include "kineto_text.h"

#include "trace/recover/recover.h"

#define SYNC(name, ts, dur, correlation, args)                                                     \
    EVENT("cuda_sync", name, 0, -1, ts, dur,                                                       \
          "'correlation':" #correlation ",'device':0,'context':1," args)
#define STREAM_WAIT(stream, other, ts, correlation, record)                                        \
    EVENT("cuda_sync", "Stream Wait Event", 0, stream, ts, 0,                                      \
          "'correlation':" #correlation ",'device':0,'stream':" #stream                            \
          ",'wait_on_stream':" #other ",'wait_on_cuda_event_record_corr_id':" #record)

static void recover_nests_by_time(void **state)
{
    (void)state;
    const orr_graph *g =
        read_text(LIST(EVENT("user_annotation", "step", 100, 1, 0, 100, "") "," EVENT(
            "python_function", "f.py(3): f", 100, 1, 5, 50,
            "") "," OP("aten::linear", 1, 10,
                       20) "," OP("aten::addmm", 1, 12,
                                  18) "," CALL("cudaLaunchKernel", 1, 15, 5,
                                               1) "," OP("aten::relu", 1, 60,
                                                         10) "," OP("elsewhere", 2, 12, 3)));
    assert_string_equal(parent_name(g, "step"), "");
    assert_string_equal(parent_name(g, "f.py(3): f"), "step");
    assert_string_equal(parent_name(g, "aten::linear"), "f.py(3): f");
    assert_string_equal(parent_name(g, "aten::addmm"), "aten::linear");
    assert_string_equal(parent_name(g, "cudaLaunchKernel"), "aten::addmm");
    assert_string_equal(parent_name(g, "aten::relu"), "step");
    assert_string_equal(parent_name(g, "elsewhere"), "");
    assert_waits(g, "aten::relu", "f.py(3): f", ORR_DEP_THREAD);
    assert_int_equal(count_deps(g, ORR_DEP_THREAD), 1);
    orr_graph_free(g);
}

/* Start and duration are each rounded down, so a child may seem to end a microsecond late. */
static void recover_tolerates_rounding(void **state)
{
    (void)state;
    const orr_graph *g =
        read_text(LIST(OP("p", 1, 10, 5) "," OP("c", 1, 12, 4) "," OP("next", 1, 16, 2)));
    assert_string_equal(parent_name(g, "c"), "p");
    assert_waits(g, "next", "p", ORR_DEP_THREAD);
    orr_graph_free(g);
    /* In a recording with fractions there is no rounding to forgive. */
    g = read_text(LIST(OP("p", 1, 10, 5.5) "," OP("c", 1, 12, 4.5)));
    assert_string_equal(parent_name(g, "c"), "");
    orr_graph_free(g);
}

/* An annotation that begins in one call and ends in another is inside neither. */
static void recover_overlap_makes_siblings(void **state)
{
    (void)state;
    const orr_graph *g = read_text(
        LIST(OP("outer", 1, 0, 1000) "," OP("before", 1, 5, 5) "," OP("enter", 1, 100, 50) "," OP(
            "range", 1, 120, 400) "," OP("inside", 1, 200, 10) "," OP("exit", 1, 500,
                                                                      50) "," OP("after", 1, 600,
                                                                                 10)));
    static const char *const siblings[] = {"before", "enter", "range", "exit", "after"};
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(parent_name(g, siblings[i]), "outer");
    assert_string_equal(parent_name(g, "inside"), "range");
    assert_waits(g, "enter", "before", ORR_DEP_THREAD);
    assert_waits(g, "range", "before", ORR_DEP_THREAD); /* not "enter", which still runs */
    assert_waits_not(g, "range", "enter", ORR_DEP_THREAD);
    assert_waits(g, "after", "exit", ORR_DEP_THREAD);
    orr_graph_free(g);
}

/* The nearest operator before a launch need not enclose it. */
static void recover_launch_is_in_the_operator_that_encloses_it(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(OP("around", 1, 0, 100) "," OP("over", 1, 5, 10) "," CALL(
        "cudaLaunchKernel", 1, 50, 5, 1) "," KERNEL("k", 7, 60, 5, 1)));
    assert_string_equal(parent_name(g, "cudaLaunchKernel"), "around");
    orr_graph_free(g);
}

static void recover_device_depends_on_device(void **state)
{
    (void)state;
    const orr_graph *g = read_text(
        LIST(CALL("cudaLaunchKernel", 1, 0, 5, 1) "," CALL("cudaLaunchKernel", 1, 6, 5, 2) "," CALL(
            "cudaLaunchKernel", 1, 12, 5,
            3) "," KERNEL("k3", 9, 20, 5, 3) "," KERNEL("k2", 7, 30, 5, 2) "," KERNEL("k1", 7, 10,
                                                                                      5, 1)));
    assert_waits(g, "k2", "k1", ORR_DEP_STREAM); /* in the order of time, not of the file */
    assert_int_equal(count_deps(g, ORR_DEP_STREAM), 1);
    orr_graph_free(g);
}

/* The kernels of a CUDA graph may overlap on what is recorded as one stream. */
static void recover_stream_order_of_overlapping_work(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(KERNEL("a", 7, 10, 10, 1) "," KERNEL(
        "b", 7, 15, 20, 1) "," KERNEL("c", 7, 22, 5, 1) "," KERNEL("d", 7, 40, 5, 1)));
    assert_waits(g, "c", "a", ORR_DEP_STREAM);
    assert_waits(g, "d", "b", ORR_DEP_STREAM);
    assert_waits(g, "d", "c", ORR_DEP_STREAM);
    assert_int_equal(count_deps(g, ORR_DEP_STREAM), 3);
    orr_graph_free(g);
}

static void recover_device_clock_ahead_of_host(void **state)
{
    (void)state;
    const orr_graph *g =
        read_text(LIST(CALL("cudaLaunchKernel", 1, 10, 5, 1) "," KERNEL("k", 7, 9, 3, 1)));
    assert_waits(g, "k", "cudaLaunchKernel", ORR_DEP_LAUNCH); /* and no cycle */
    orr_graph_free(g);
}

#define TWO_STREAMS                                                                                \
    CALL("cudaLaunchKernel", 1, 0, 5, 1)                                                           \
    "," KERNEL("produce", 7, 10, 20, 1) "," CALL("cudaEventRecord", 1, 6, 1, 2) "," CALL(          \
        "cudaLaunchKernel", 1, 8, 3,                                                               \
        3) "," KERNEL("unrelated", 7, 30, 50,                                                      \
                      3) "," CALL("cudaStreamWaitEvent", 1, 12, 1,                                 \
                                  4) "," CALL("cudaLaunchKernel", 1, 14, 5,                        \
                                              5) "," KERNEL("consume", 20, 31, 5, 5)

static void recover_stream_waits_for_event(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(TWO_STREAMS "," STREAM_WAIT(20, 7, 12, 4, 2)));
    assert_waits(g, "consume", "produce", ORR_DEP_EVENT);
    assert_int_equal(count_deps(g, ORR_DEP_EVENT), 1);
    assert_waits(g, "Stream Wait Event", "cudaStreamWaitEvent", ORR_DEP_LAUNCH);
    /* Its time is the host's: it takes no place on the stream. */
    assert_int_equal(count_deps(g, ORR_DEP_STREAM), 1);
    orr_graph_free(g);
}

static void recover_event_without_records_of_cuda(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(TWO_STREAMS));
    assert_waits(g, "consume", "produce", ORR_DEP_EVENT);
    orr_graph_free(g);
}

static void recover_event_contradicted_by_time_is_none(void **state)
{
    (void)state;
    const orr_graph *g = read_text(
        LIST(CALL("cudaLaunchKernel", 1, 0, 5, 1) "," KERNEL("produce", 7, 10, 20, 1) "," CALL(
            "cudaEventRecord", 1, 6, 1,
            2) "," CALL("cudaStreamWaitEvent", 1, 8, 1,
                        4) "," CALL("cudaLaunchKernel", 1, 10, 5,
                                    5) "," KERNEL("consume", 20, 25, 5, 5) "," STREAM_WAIT(20, 7, 8,
                                                                                           4, 2)));
    assert_int_equal(count_deps(g, ORR_DEP_EVENT), 0);
    orr_graph_free(g);
}

/* Stream 20's work is launched at once and begins at `at`, when stream 7's has just ended. */
#define LATE(wait, at)                                                                             \
    CALL("cudaLaunchKernel", 1, 0, 5, 1)                                                           \
    "," KERNEL("produce", 7, 10, 190, 1) "," CALL("cudaLaunchKernel", 1, 6, 5, 2) "," KERNEL(      \
        "first", 20, 15, 5, 2) "," wait CALL("cudaLaunchKernel", 1, 14, 5,                         \
                                             3) "," KERNEL("consume", 20, at, 5, 3)

static uint32_t late_events(const char *text)
{
    const orr_graph *g = read_text(text);
    const uint32_t n = count_deps(g, ORR_DEP_EVENT);
    if (n > 0)
        assert_waits(g, "consume", "produce", ORR_DEP_EVENT);
    orr_graph_free(g);
    return n;
}

/* Another thread made the stream wait, and no call that records an event is in the recording. */
static void recover_late_work_waited_for_what_had_ended(void **state)
{
    (void)state;
    assert_int_equal(late_events(LIST(LATE(CALL("cudaStreamWaitEvent", 2, 12, 1, 4) ",", 203))), 1);
    assert_int_equal(late_events(LIST(LATE("", 203))), 1); /* such calls were left out */
}

static void recover_late_work_that_waited_for_nothing_known(void **state)
{
    (void)state;
    /* Nobody made a stream wait between the two launches of stream 20. */
    assert_int_equal(late_events(LIST(LATE(CALL("cudaStreamWaitEvent", 2, 2, 1, 4) ",", 203))), 0);
    /* Nothing had ended just before. */
    assert_int_equal(late_events(LIST(LATE(CALL("cudaStreamWaitEvent", 2, 12, 1, 4) ",", 250))), 0);
    /* It is not late. */
    assert_int_equal(late_events(LIST(LATE(CALL("cudaStreamWaitEvent", 2, 12, 1, 4) ",", 30))), 0);
}

#define TWO_KERNELS                                                                                \
    CALL("cudaLaunchKernel", 1, 0, 5, 1)                                                           \
    "," KERNEL("k7", 7, 10, 20, 1) "," CALL("cudaEventRecord", 1, 6, 1, 2) "," CALL(               \
        "cudaLaunchKernel", 1, 8, 3, 3) "," KERNEL("k20", 20, 12, 30, 3)

/* Chakra's sync dependencies never reach its output; here they are, and only onto the call. */
static void recover_host_waits_for_device(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(TWO_KERNELS "," CALL(
        "cudaDeviceSynchronize", 1, 13, 31, 9) "," SYNC("Context Sync", 13, 31, 9, "'stream':-1")));
    assert_waits(g, "cudaDeviceSynchronize", "k7", ORR_DEP_SYNC);
    assert_waits(g, "cudaDeviceSynchronize", "k20", ORR_DEP_SYNC);
    assert_int_equal(count_deps(g, ORR_DEP_SYNC), 2);
    orr_graph_free(g);

    g = read_text(LIST(TWO_KERNELS "," CALL("cudaStreamSynchronize", 1, 13, 18,
                                            9) "," SYNC("Stream Sync", 13, 18, 9, "'stream':7")));
    assert_waits(g, "cudaStreamSynchronize", "k7", ORR_DEP_SYNC);
    assert_int_equal(count_deps(g, ORR_DEP_SYNC), 1);
    orr_graph_free(g);

    g = read_text(LIST(TWO_KERNELS "," CALL("cudaEventSynchronize", 1, 13, 18,
                                            9) "," SYNC("Event Sync", 13, 18, 9,
                                                        "'stream':-1,'wait_on_stream':7,"
                                                        "'wait_on_cuda_event_record_corr_id':2")));
    assert_waits(g, "cudaEventSynchronize", "k7", ORR_DEP_SYNC);
    assert_int_equal(count_deps(g, ORR_DEP_SYNC), 1);
    orr_graph_free(g);
}

static void recover_host_waits_without_records_of_cuda(void **state)
{
    (void)state;
    const orr_graph *g =
        read_text(LIST(TWO_KERNELS "," CALL("hipDeviceSynchronize", 1, 13, 31, 9)));
    assert_int_equal(count_deps(g, ORR_DEP_SYNC), 2);
    orr_graph_free(g);
    g = read_text(LIST(TWO_KERNELS "," CALL("cudaStreamSynchronize", 1, 13, 31, 9)));
    assert_waits(g, "cudaStreamSynchronize", "k20", ORR_DEP_SYNC); /* the thread's last stream */
    assert_int_equal(count_deps(g, ORR_DEP_SYNC), 1);
    orr_graph_free(g);
}

/* A call that returned before the work was done did not wait for it. */
static void recover_no_sync_against_time(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(TWO_KERNELS "," CALL(
        "cudaStreamSynchronize", 1, 13, 5, 9) "," SYNC("Stream Sync", 13, 5, 9, "'stream':7")));
    assert_int_equal(count_deps(g, ORR_DEP_SYNC), 0);
    orr_graph_free(g);
    /* Nor for what was launched after it. */
    g = read_text(LIST(CALL("cudaDeviceSynchronize", 1, 0, 100, 9) "," CALL(
        "cudaLaunchKernel", 2, 5, 5, 1) "," KERNEL("k", 7, 12, 5, 1)));
    assert_int_equal(count_deps(g, ORR_DEP_SYNC), 0);
    orr_graph_free(g);
}

static void recover_blocking_copies(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(CALL("cudaMemcpyAsync", 1, 0, 30, 1) "," COPY(
        "Memcpy DtoH (Device -> Pageable)", 7, 10, 19, 1,
        4) "," CALL("cudaMemcpyAsync", 1, 40, 30,
                    2) "," COPY("Memcpy DtoH (Device -> Pinned)", 7, 45, 10, 2,
                                4) "," CALL("cudaMemcpy", 1, 80, 30,
                                            3) "," COPY("Memcpy HtoD (Pageable -> Device)", 7, 85,
                                                        10, 3, 4)));
    const orr_node_id call = named(g, "cudaMemcpyAsync");
    assert_true(waits(g, call, named(g, "Memcpy DtoH (Device -> Pageable)"), ORR_DEP_SYNC));
    assert_waits(g, "cudaMemcpy", "Memcpy HtoD (Pageable -> Device)", ORR_DEP_SYNC);
    assert_int_equal(count_deps(g, ORR_DEP_SYNC), 2);
    orr_graph_free(g);
}

static void recover_amd_copies_have_their_launchs_bytes(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(
        EVENT("cuda_runtime", "hipMemcpyWithStream", 100, 1, 0, 30, "'correlation':5,'cid':9,'src':'0x7f','dst':'0x8','size':4096,'kind':'HtoD'") "," EVENT(
            "gpu_memcpy", "Memcpy HtoD (Host -> Device)", 2, 0, 10, 5,
            "'device':2,'stream':0,'correlation':5,'kind':'HtoD'")));
    assert_int_equal(orr_graph_copy(g, named(g, "Memcpy HtoD (Host -> Device)"))->bytes, 4096);
    assert_waits(g, "hipMemcpyWithStream", "Memcpy HtoD (Host -> Device)", ORR_DEP_SYNC);
    orr_graph_free(g);
}

static void recover_forward_to_backward_by_arrows(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(OP("aten::mul", 1, 0, 10) "," OP("busy", 1, 20, 100) "," OP(
        "autograd::evaluate", 2, 50,
        10) "," OP("MulBackward0", 2, 52, 6) "," FLOW("s", "fwdbwd", 1, 100, 1,
                                                      0) "," FLOW("f", "fwdbwd", 1, 100, 2,
                                                                  52) "," FLOW("f", "fwdbwd", 2,
                                                                               100, 2, 50)));
    assert_waits(g, "MulBackward0", "aten::mul", ORR_DEP_HANDOFF);
    assert_int_equal(count_deps(g, ORR_DEP_HANDOFF), 1);
    orr_graph_free(g);
}

static void recover_forward_to_backward_by_sequence(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(
        OP_ARGS("aten::mul", 1, 0, 10, "'Sequence number':7,'Fwd thread id':0") "," OP_ARGS("aten::add", 1, 12, 10, "'Sequence number':8,'Fwd thread id':0") "," OP_ARGS(
            "autograd::evaluate", 2, 50, 10,
            "'Sequence number':7,'Fwd thread id':1") "," OP_ARGS("MulBackward0", 2, 52, 6,
                                                                 "'Sequence number':7,'Fwd thread id':1") "," OP_ARGS("same thread",
                                                                                                                      1,
                                                                                                                      70,
                                                                                                                      6,
                                                                                                                      "'Sequence number':8,'Fwd thread id':1")));
    assert_waits(g, "autograd::evaluate", "aten::mul", ORR_DEP_HANDOFF);
    assert_int_equal(count_deps(g, ORR_DEP_HANDOFF), 1);
    orr_graph_free(g);
}

static void recover_threads_take_turns(void **state)
{
    (void)state;
    const orr_graph *g =
        read_text(LIST(OP("loss", 1, 0, 500) "," OP("ones_like", 1, 510, 20) "," OP(
            "backward first", 2, 600, 300) "," OP("backward last", 2, 910,
                                                  600) "," OP("optimizer", 1, 1600, 100)));
    assert_waits(g, "backward first", "ones_like", ORR_DEP_HANDOFF);
    assert_waits(g, "optimizer", "backward last", ORR_DEP_HANDOFF);
    assert_int_equal(count_deps(g, ORR_DEP_HANDOFF), 2);
    orr_graph_free(g);
    /* Which of two threads it was that woke the third is not to be told. */
    g = read_text(LIST(OP("a", 1, 0, 500) "," OP("b", 3, 0, 510) "," OP("c", 2, 600, 300)));
    assert_int_equal(count_deps(g, ORR_DEP_HANDOFF), 0);
    orr_graph_free(g);
    /* Two threads that work side by side have nothing to do with each other. */
    g = read_text(LIST(OP("a1", 1, 0, 50) "," OP("a2", 1, 80, 50) "," OP("a3", 1, 150, 50) "," OP(
        "b1", 2, 10, 50) "," OP("b2", 2, 90, 50) "," OP("b3", 2, 160, 50)));
    assert_int_equal(count_deps(g, ORR_DEP_HANDOFF), 0);
    orr_graph_free(g);
}

/* Who calls backward waits until it is over: what shows that it is may be the end of an annotation,
 * and may come late. Between other threads so late is too late. */
static void recover_annotations_that_end_when_woken(void **state)
{
    (void)state;
#define ANNOTATION(name, tid, ts, dur) EVENT("user_annotation", name, 100, tid, ts, dur, "")
    const orr_graph *g =
        read_text(LIST(ANNOTATION("## backward ##", 1, 505, 11000) "," OP("loss", 1, 0, 500) "," OP(
            "ones_like", 1, 510, 20) "," OP("autograd::engine::evaluate_function: A", 2, 600,
                                            900) "," OP("optimizer", 1, 20000, 100)));
    assert_waits(g, "autograd::engine::evaluate_function: A", "ones_like", ORR_DEP_HANDOFF);
    assert_waits(g, "## backward ##", "autograd::engine::evaluate_function: A", ORR_DEP_SYNC);
    assert_int_equal(count_deps(g, ORR_DEP_HANDOFF) + count_deps(g, ORR_DEP_SYNC), 2);
    orr_graph_free(g);
    g = read_text(
        LIST(OP("loss", 1, 0, 500) "," OP("load", 2, 600, 900) "," OP("next", 1, 20000, 100)));
    assert_waits_not(g, "next", "load", ORR_DEP_HANDOFF);
    orr_graph_free(g);
#undef ANNOTATION
}

/* Two threads that take turns, each 700 us after the other: late where nothing shows that a machine
 * takes so long, not so where it does all the time. */
static void recover_hand_offs_as_late_as_others(void **state)
{
    (void)state;
    for (unsigned turns = 2; turns <= 20; turns += 18) {
        char text[4096] = "{'schemaVersion':1,'traceEvents':[";
        for (unsigned i = 0, n = (unsigned)strlen(text); i < turns; i++)
            n += (unsigned)snprintf(
                text + n, sizeof text - n,
                "%s{'ph':'X','cat':'cpu_op','name':'op','pid':100,'tid':%u,'ts':%u,"
                "'dur':1000,'args':{}}%s",
                i > 0 ? "," : "", i % 2 + 1, 1700 * i, i + 1 == turns ? "]}" : "");
        const orr_graph *g = read_text(text);
        assert_int_equal(count_deps(g, ORR_DEP_HANDOFF), turns > 2 ? turns - 1 : 0);
        orr_graph_free(g);
    }
}

/* Autograd's queues: a thread is woken by an evaluation of another, which goes on by itself. */
static void recover_evaluations_wake_threads(void **state)
{
    (void)state;
#define EVALUATE(what, tid, ts, dur) OP("autograd::engine::evaluate_function: " what, tid, ts, dur)
    const orr_graph *g =
        read_text(LIST(OP("loss", 2, 0, 10) "," EVALUATE("A", 1, 100, 200) "," EVALUATE(
            "B", 1, 310, 90) "," EVALUATE("C", 1, 405, 500) "," EVALUATE("grad", 2, 430, 20)));
    assert_waits(g, "autograd::engine::evaluate_function: grad",
                 "autograd::engine::evaluate_function: B", ORR_DEP_HANDOFF);
    orr_graph_free(g);
    g = read_text(LIST(OP("loss", 2, 0, 10) "," EVALUATE("A", 1, 100, 200) "," EVALUATE(
        "C", 1, 405, 500) "," OP("other", 2, 430, 20)));
    assert_waits_not(g, "other", "autograd::engine::evaluate_function: A", ORR_DEP_HANDOFF);
    assert_int_equal(count_deps(g, ORR_DEP_HANDOFF), 1); /* from the loss */
    orr_graph_free(g);
#undef EVALUATE
}

/* In 2020 the profiler's steps were operators; that one is open does not keep a thread busy. */
static void recover_turns_within_steps_of_2020(void **state)
{
    (void)state;
    const orr_graph *g =
        read_text(LIST(OP("ProfilerStep#7", 1, 0, 2000) "," OP("loss", 1, 5, 500) "," OP(
            "NllLossBackward", 2, 600, 300) "," OP("optimizer", 1, 1000, 100)));
    assert_waits(g, "NllLossBackward", "loss", ORR_DEP_HANDOFF);
    assert_waits(g, "optimizer", "NllLossBackward", ORR_DEP_HANDOFF);
    orr_graph_free(g);
}

static void recover_work_that_waits_on_mtia(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(
        EVENT("mtia_ccp_events", "remote", 17, 3570, 0, 10, "'stream':102") "," EVENT("mtia_ccp_events", "event_record", 17, 3570, 11, 1, "'stream':102,'seq_num':5") "," EVENT(
            "mtia_ccp_events", "event_wait", 17,
            3638, 1, 13,
            "'stream':104,'wait_on_stream':102,'seq_num':5") "," EVENT("mtia_ccp_events",
                                                                       "dma_request", 17, 3638, 15,
                                                                       5,
                                                                       "'stream':104,'size':64") "," EVENT("mtia_runtime",
                                                                                                           "synchronizeStream",
                                                                                                           865,
                                                                                                           1,
                                                                                                           3,
                                                                                                           20,
                                                                                                           "'stream_id':'104'")));
    assert_int_equal(g->kind[named(g, "event_wait")], ORR_NODE_SYNC);
    assert_waits(g, "dma_request", "event_record", ORR_DEP_EVENT);
    assert_waits(g, "dma_request", "event_wait", ORR_DEP_STREAM);
    assert_int_equal(orr_graph_copy(g, named(g, "dma_request"))->bytes, 64);
    orr_graph_free(g);
}

static void recover_call_roles(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        orr_host_call_role role;
    } rows[] = {
        {"cudaEventRecord", ORR_HOST_CALL_RECORD_EVENT},
        {"hipStreamWaitEvent", ORR_HOST_CALL_STREAM_WAIT_EVENT},
        {"cudaStreamSynchronize", ORR_HOST_CALL_SYNC_STREAM},
        {"hipDeviceSynchronize", ORR_HOST_CALL_SYNC_DEVICE},
        {"cuCtxSynchronize", ORR_HOST_CALL_SYNC_DEVICE},
        {"cudaEventSynchronize", ORR_HOST_CALL_SYNC_EVENT},
        {"cudaMemcpy", ORR_HOST_CALL_BLOCKING_COPY},
        {"hipMemcpyWithStream", ORR_HOST_CALL_BLOCKING_COPY},
        {"cuMemcpyDtoH_v2", ORR_HOST_CALL_BLOCKING_COPY},
        {"synchronizeStream", ORR_HOST_CALL_SYNC_STREAM},
        {"cudaMemcpyAsync", ORR_HOST_CALL_NONE},
        {"cuMemcpyDtoHAsync_v2", ORR_HOST_CALL_NONE},
        {"cudaLaunchKernel", ORR_HOST_CALL_NONE},
        {"cudaEventQuery", ORR_HOST_CALL_NONE},
        {"cuda", ORR_HOST_CALL_NONE},
        {"", ORR_HOST_CALL_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(orr_host_call_role_of(rows[i].name, strlen(rows[i].name)), rows[i].role);
}

/* A stack of twenty thousand calls, as many annotations that all overlap their neighbours: nothing
 * here may be a square. */
static void recover_deep_and_wide_is_quick(void **state)
{
    (void)state;
    enum { N = 20000 };
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    (void)fprintf(f, "{'traceEvents':[");
    for (int i = 0; i < N; i++) {
        (void)fprintf(f, "{'ph':'X','cat':'cpu_op','name':'d','pid':1,'tid':1,'ts':%d,'dur':%d},",
                      i, 2 * N - 2 * i);
        (void)fprintf(f, "{'ph':'X','cat':'cpu_op','name':'w','pid':1,'tid':2,'ts':%d,'dur':15},",
                      10 * i);
    }
    (void)fprintf(f, "{'ph':'X','cat':'kernel','name':'k','pid':0,'tid':7,'ts':1,'dur':1}]}");
    assert_int_equal(fclose(f), 0);
    const orr_graph *g = read_text(text);
    assert_int_equal(g->n_nodes, 2 * N + 1);
    orr_graph_free(g);
    free(text);
}

/* Every dependency agrees with the recorded times: within a microsecond of rounding, and two of
 * clock skew between host and device. */
static void check_times(const orr_graph *g)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const int64_t start = g->start_ns[v], end = start + g->duration_ns[v];
        const orr_node_id p = g->parent[v];
        if (p != ORR_NONE) {
            assert_true(g->start_ns[p] <= start);
            assert_true(end <= g->start_ns[p] + g->duration_ns[p] + 1000);
        }
        for (uint32_t e = g->dep_first[v]; e < g->dep_first[v + 1]; e++) {
            const orr_node_id u = g->dep[e];
            const int64_t u_end = g->start_ns[u] + g->duration_ns[u];
            switch ((orr_dep_kind)g->dep_kind[e]) {
            case ORR_DEP_LAUNCH:
                assert_true(g->start_ns[u] <= start);
                break;
            case ORR_DEP_SYNC:
                assert_true(u_end <= end + 2000);
                break;
            default:
                assert_true(u_end <= start + 1000);
                break;
            }
        }
    }
}

/* Where nothing overlaps, order on streams is the work of each stream minus one; counted with
 * Python. */
static void recover_from_real_recordings(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        unsigned stream;
    } rows[] = {
        {"kineto/a100_w16_missing_launches.json.gz", 7741},
        {"kineto/ddp_a100_w8_rank3.json.gz", 9446},
        {"kineto/simple_add_a100_sync.json.gz", 96},
        {"kineto/event_sync_a100.json.gz", 4},
        {"kineto/ns_v100.json.gz", 6094},
        {"kineto/qwen1.5-0.5b_h100.json.gz", 1706},
        {"kineto/mi250_minitoy.json.gz", 15},
        {"kineto/mtia_inference.json.gz", 1301},
        {"kineto/resnet50_v100_2020_old_categories.json.gz", 9926},
        {"kineto/w128_rank0_noflows.json.gz", 1199},
        {"dlrm_v100x8/rank0.device.json.gz", 257},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_read_report report;
        const orr_graph *g = read_real(rows[i].file, &report);
        check_times(g);
        assert_int_equal(count_deps(g, ORR_DEP_STREAM), rows[i].stream);
        orr_graph_free(g);
    }
}

static void recover_syncs_of_real_recordings(void **state)
{
    (void)state;
    orr_read_report report;
    const orr_graph *g = read_real("kineto/event_sync_a100.json.gz", &report);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (g->kind[v] == ORR_NODE_SYNC)
            assert_int_equal(g->dep_first[v + 1] - g->dep_first[v], 1); /* its host call */
    assert_waits(g, "cudaStreamSynchronize", "Memcpy DtoH (Device -> Pageable)", ORR_DEP_SYNC);
    assert_waits(g, "cudaEventSynchronize", "at::cuda::(anonymous namespace)::spin_kernel(long)",
                 ORR_DEP_SYNC);
    orr_graph_free(g);
    g = read_real("kineto/ns_v100.json.gz", &report);
    assert_true(count_deps(g, ORR_DEP_HANDOFF) >= 905); /* one for each pair of arrows */
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recover_nests_by_time),
        cmocka_unit_test(recover_tolerates_rounding),
        cmocka_unit_test(recover_overlap_makes_siblings),
        cmocka_unit_test(recover_launch_is_in_the_operator_that_encloses_it),
        cmocka_unit_test(recover_device_depends_on_device),
        cmocka_unit_test(recover_stream_order_of_overlapping_work),
        cmocka_unit_test(recover_device_clock_ahead_of_host),
        cmocka_unit_test(recover_stream_waits_for_event),
        cmocka_unit_test(recover_event_without_records_of_cuda),
        cmocka_unit_test(recover_event_contradicted_by_time_is_none),
        cmocka_unit_test(recover_late_work_waited_for_what_had_ended),
        cmocka_unit_test(recover_late_work_that_waited_for_nothing_known),
        cmocka_unit_test(recover_host_waits_for_device),
        cmocka_unit_test(recover_host_waits_without_records_of_cuda),
        cmocka_unit_test(recover_no_sync_against_time),
        cmocka_unit_test(recover_blocking_copies),
        cmocka_unit_test(recover_amd_copies_have_their_launchs_bytes),
        cmocka_unit_test(recover_forward_to_backward_by_arrows),
        cmocka_unit_test(recover_forward_to_backward_by_sequence),
        cmocka_unit_test(recover_threads_take_turns),
        cmocka_unit_test(recover_annotations_that_end_when_woken),
        cmocka_unit_test(recover_hand_offs_as_late_as_others),
        cmocka_unit_test(recover_evaluations_wake_threads),
        cmocka_unit_test(recover_turns_within_steps_of_2020),
        cmocka_unit_test(recover_work_that_waits_on_mtia),
        cmocka_unit_test(recover_call_roles),
        cmocka_unit_test(recover_deep_and_wide_is_quick),
        cmocka_unit_test(recover_from_real_recordings),
        cmocka_unit_test(recover_syncs_of_real_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
