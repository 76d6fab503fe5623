/* SPDX-License-Identifier: Apache-2.0 */
#include "kineto_text.h"

#include "base/alloc.h"

static void kineto_reads_object_and_list(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(OP("a", 1, 10, 5)));
    assert_string_equal(orr_graph_str(g, g->source), "kineto 1");
    orr_graph_free(g);
    g = read_text("[" OP("a", 1, 10, 5) "," OP("b", 1, 15, 5) "]");
    assert_string_equal(orr_graph_str(g, g->source), "kineto 0");
    assert_int_equal(g->n_nodes, 2);
    assert_int_equal(g->start_ns[1], 5000);
    orr_graph_free(g);
}

static void kineto_reads_the_categories_of_2020(void **state)
{
    (void)state;
    const orr_graph *g = read_text(
        "[" EVENT("Operator", "aten::mm", 9, "4093687616", 0, 50, "") "," EVENT("Runtime", "cudaLaunchKernel", 9, "4093687616", 10, 5, "'correlation':3") "," EVENT(
            "Kernel", "k", 0, "stream 7", 20, 5,
            "'device':0,'stream':7,'correlation':3") "," EVENT("Memcpy", "c", 0, "stream 7", 30, 5,
                                                               "'bytes':64,'memory bandwidth (GB/s)':2.5") "," EVENT("Memset",
                                                                                                                     "s",
                                                                                                                     0,
                                                                                                                     "stream 7",
                                                                                                                     40,
                                                                                                                     5,
                                                                                                                     "'bytes':8") "]");
    static const orr_node_kind kinds[] = {ORR_NODE_HOST_OP, ORR_NODE_RUNTIME, ORR_NODE_COMPUTE,
                                          ORR_NODE_COPY, ORR_NODE_SET};
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(g->kind[i], kinds[i]);
    assert_int_equal(g->n_lanes, 2);
    assert_int_equal(g->lanes[0].tid, 4093687616);
    assert_int_equal(g->lanes[1].kind, ORR_LANE_STREAM);
    assert_int_equal(g->lanes[1].tid, 7);
    assert_int_equal(g->lanes[1].device, 0);
    assert_int_equal(orr_graph_copy(g, 3)->bytes, 64);
    assert_true(orr_graph_copy(g, 3)->bandwidth_bytes_per_s == 2.5e9);
    assert_int_equal(orr_graph_copy(g, 4)->bytes, 8);
    assert_waits(g, "k", "cudaLaunchKernel", ORR_DEP_LAUNCH);
    assert_string_equal(parent_name(g, "cudaLaunchKernel"), "aten::mm");
    orr_graph_free(g);
}

/* Chakra's converter and others floor to microseconds and lose percents of a recording. */
static void kineto_keeps_sub_microsecond_time(void **state)
{
    (void)state;
    const orr_graph *g = read_text("{'baseTimeNanoseconds':1727743122000000000,'traceEvents':[" OP(
        "a", 1, 2413669096141.794, 1352.964) "," OP("b", 1, "2413669097494.759", 0.001) "]}");
    assert_int_equal(g->duration_ns[0], 1352964);
    assert_int_equal(g->duration_ns[1], 1);
    assert_int_equal(g->start_ns[1] - g->start_ns[0], 1352965);
    assert_int_equal(g->base_ns, INT64_C(1727743122000000000) + INT64_C(2413669096141794));
    orr_graph_free(g);
}

static void kineto_accepts_strings_for_numbers(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(EVENT(
        "cuda_runtime", "hipLaunchKernel", "100", "7", "1.5", "2",
        "'correlation':'12','stream':'0x0','grid':[1,1,1]") "," EVENT("kernel", "k", "2", "0", 5, 1,
                                                                      "'device':'2','stream':'0','correlation':12")));
    const orr_node_id call = named(g, "hipLaunchKernel");
    orr_attr attr;
    assert_int_equal(g->duration_ns[call], 2000);
    assert_int_equal(g->lanes[g->lane[call]].pid, 100);
    assert_int_equal(g->lanes[g->lane[named(g, "k")]].device, 2);
    assert_waits(g, "k", "hipLaunchKernel", ORR_DEP_LAUNCH);
    assert_true(orr_graph_find_attr(g, call, "stream", &attr));
    assert_string_equal(orr_graph_str(g, *(const orr_str *)attr.values), "0x0");
    orr_graph_free(g);
}

static void kineto_survives_missing_args_and_durations(void **state)
{
    (void)state;
    const orr_graph *g = read_text(
        LIST("{'ph':'X','cat':'cpu_op','name':'a','pid':1,'tid':1,'ts':3},"
             "{'ph':'X','cat':'kernel','name':'k','pid':0,'tid':7,'ts':3,'dur':2,'args':null},"
             "{'ph':'X','cat':'Trace','name':'t','pid':'Spans','tid':'PyTorch Profiler','ts':1},"
             "{'ph':'X','cat':'cpu_op','name':'b','pid':1,'tid':1,'ts':4,'dur':1,'args':[1,2]},"
             "{'ph':'i','s':'g','name':'Record Window End','pid':'','tid':'','ts':9}"));
    assert_int_equal(g->n_nodes, 4);
    assert_int_equal(g->duration_ns[0], 0);
    assert_int_equal(g->kind[2], ORR_NODE_OTHER);
    assert_string_equal(orr_graph_str(g, g->lanes[g->lane[2]].process), "Spans");
    assert_string_equal(orr_graph_str(g, g->lanes[g->lane[2]].name), "PyTorch Profiler");
    orr_graph_free(g);
}

static void kineto_names_threads_and_processes(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(OP("a", 7, 0, 1) "," KERNEL(
        "k", 20, 2, 1,
        1) ","
           "{'ph':'M','name':'process_name','pid':100,'tid':0,'ts':0,'args':{'name':'python3'}},"
           "{'ph':'M','name':'process_labels','pid':100,'tid':0,'ts':0,'args':{'labels':'CPU'}},"
           "{'ph':'M','name':'thread_sort_index','pid':100,'tid':7,'ts':0,'args':{'sort_index':7}},"
           "{'ph':'M','name':'thread_name','pid':100,'tid':7,'ts':0,'args':{'name':'thread 7'}},"
           "{'ph':'M','name':'thread_name','pid':0,'tid':20,'ts':0,'args':{'name':'stream 20'}}"));
    assert_string_equal(orr_graph_str(g, g->lanes[0].process), "python3");
    assert_string_equal(orr_graph_str(g, g->lanes[0].name), "thread 7");
    assert_string_equal(orr_graph_str(g, g->lanes[1].name), "stream 20");
    orr_graph_free(g);
}

static void kineto_reads_the_header(void **state)
{
    (void)state;
    const orr_graph *g =
        read_text("{'deviceProperties':[{'id':0,'name':'A'},{'id':3,'name':'B','numSms':8}],"
                  "'distributedInfo':{'backend':'nccl','rank':3,'world_size':8,'pg_count':2,"
                  "'nccl_version':'2.17.1','pg_config':["
                  "{'pg_name':'0','pg_desc':'default_pg','backend_config':'cuda:nccl','pg_size':8,"
                  "'ranks':[0,1,2,3,4,5,6,7]},"
                  "{'pg_name':'5','pg_desc':'odd','backend_config':'cuda:nccl','pg_size':3,"
                  "'ranks':[3,1,6]}]},"
                  "'cuda_driver_version':12090,'INFO':['a','b'],'metadata':{'x':1},"
                  "'traceEvents':[" EVENT("kernel", "k", 3, 7, 0, 1, "'device':3,'stream':7") "]}");
    orr_attr attr;
    assert_int_equal(g->rank, 3);
    assert_int_equal(g->world_size, 8);
    assert_string_equal(orr_graph_str(g, g->device_name), "B");
    assert_int_equal(g->n_groups, 2);
    assert_int_equal(g->groups[0].size, 8);
    assert_null(g->groups[0].ranks);
    assert_int_equal(orr_group_rank(&g->groups[0], 5), 5);
    assert_int_equal(orr_group_rank(&g->groups[1], 2), 6);
    assert_string_equal(orr_graph_str(g, g->groups[1].desc), "odd");
    assert_true(orr_graph_find_attr(g, ORR_NONE, "nccl_version", &attr));
    assert_string_equal(orr_graph_str(g, *(const orr_str *)attr.values), "2.17.1");
    assert_true(orr_graph_find_attr(g, ORR_NONE, "cuda_driver_version", &attr));
    assert_int_equal(*(const int64_t *)attr.values, 12090);
    assert_false(orr_graph_find_attr(g, ORR_NONE, "INFO", &attr));
    orr_graph_free(g);
}

static void kineto_keeps_attributes(void **state)
{
    (void)state;
    const char *text = LIST(OP_ARGS(
        "aten::mm", 1, 0, 9,
        "'External id':5,'Record function id':77,'Ev Idx':3,"
        "'Input Dims':[[3, 4],[4, 2]],'Input type':['float','float'],"
        "'Concrete Inputs':[],'Call stack':'','note':'a\\\"b\\u00e9'") "," EVENT("kernel", "k", 0,
                                                                                 7, 9, 1,
                                                                                 "'stream':7,'correlation':4,'queued':0,"
                                                                                 "'registers per thread':16,'est. achieved occupancy %':31,'grid':[1, 2, 3],"
                                                                                 "'blocks per SM':0.5"));
    const orr_graph *g = read_text(text);
    orr_attr attr;
    assert_int_equal(g->source_id[0], 77);
    assert_int_equal(g->source_id[1], 4);
    assert_true(orr_graph_find_attr(g, 0, "Input Dims", &attr));
    assert_int_equal(attr.kind, ORR_ATTR_JSON);
    assert_string_equal(orr_graph_str(g, *(const orr_str *)attr.values), "[[3, 4],[4, 2]]");
    assert_true(orr_graph_find_attr(g, 0, "note", &attr));
    assert_int_equal(attr.kind, ORR_ATTR_STRING);
    assert_string_equal(orr_graph_str(g, *(const orr_str *)attr.values), "a\"b\xc3\xa9");
    static const char *const dropped[] = {"External id", "Ev Idx", "Call stack", "Concrete Inputs",
                                          "Record function id"};
    for (size_t i = 0; i < 5; i++)
        assert_false(orr_graph_find_attr(g, 0, dropped[i], &attr));
    assert_true(orr_graph_find_attr(g, 1, "registers per thread", &attr));
    assert_int_equal(*(const int64_t *)attr.values, 16);
    assert_true(orr_graph_find_attr(g, 1, "blocks per SM", &attr));
    assert_true(*(const double *)attr.values == 0.5);
    assert_true(orr_graph_find_attr(g, 1, "grid", &attr));
    orr_graph_free(g);

    orr_read_options options;
    orr_read_options_init(&options);
    options.attributes = false;
    char *json = as_json(text);
    assert_int_equal(orr_trace_read_memory(json, strlen(json), &options, &g, NULL, NULL), ORR_OK);
    assert_false(orr_graph_find_attr(g, 0, "Input Dims", &attr));
    assert_int_equal(g->source_id[0], 77);
    orr_graph_free(g);
    free(json);
}

static void kineto_reads_memory_events(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(OP(
        "aten::empty", 1, 0,
        9) ","
           "{'ph':'i','cat':'cpu_instant_event','s':'t','name':'[memory]','pid':100,'tid':1,'ts':4,"
           "'args':{'Total Reserved':100,'Total Allocated':60,'Bytes':-32,'Addr':18446744073709551000,"
           "'Device Id':2,'Device Type':1}}"));
    const orr_memory *memory = orr_graph_memory(g, 1);
    assert_int_equal(g->kind[1], ORR_NODE_MEMORY);
    assert_int_equal(memory->bytes, -32);
    assert_true(memory->addr == UINT64_C(18446744073709551000));
    assert_int_equal(memory->allocated_bytes, 60);
    assert_int_equal(memory->reserved_bytes, 100);
    assert_int_equal(memory->device, 2);
    assert_int_equal(memory->device_type, 1);
    assert_string_equal(parent_name(g, "[memory]"), "aten::empty");
    orr_graph_free(g);
}

/* One cudaGraphLaunch launches hundreds of kernels under one correlation. */
static void kineto_keeps_graph_kernels(void **state)
{
    (void)state;
    orr_read_report report;
    const orr_graph *g = read_report(
        LIST(CALL("cudaGraphLaunch", 1, 0, 10, 42) "," KERNEL("k1", 7, 5, 5, 42) "," KERNEL(
            "k2", 7, 10, 5, 42) "," KERNEL("k3", 8, 11, 5,
                                           42) "," EVENT("gpu_memset", "s", 0, 7, 15, 1,
                                                         "'stream':7,'correlation':42,'bytes':16")),
        &report);
    static const char *const work[] = {"k1", "k2", "k3", "s"};
    assert_int_equal(g->n_nodes, 5);
    for (size_t i = 0; i < 4; i++)
        assert_waits(g, work[i], "cudaGraphLaunch", ORR_DEP_LAUNCH);
    assert_int_equal(report.orphans, 0);
    orr_graph_free(g);
}

static void kineto_keeps_work_without_launch(void **state)
{
    (void)state;
    orr_read_report report;
    const orr_graph *g =
        read_report(LIST(KERNEL("k1", 7, 5, 5, 41) "," KERNEL("k2", 7, 10, 5, 42) "," CALL(
                        "cudaLaunchKernel", 1, 8, 1, 42)),
                    &report);
    assert_int_equal(report.orphans, 1);
    assert_int_equal(report.events, 3);
    assert_waits(g, "k2", "k1", ORR_DEP_STREAM);
    orr_graph_free(g);
}

static void kineto_needs_no_profiler_step(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(
        OP("a", 1, 0, 5) "," CALL("cudaLaunchKernel", 1, 1, 2, 1) "," KERNEL("k", 7, 3, 5, 1)));
    assert_int_equal(g->n_nodes, 3);
    assert_int_equal(g->span_ns, 8000);
    orr_graph_free(g);
    g = read_text(LIST(""));
    assert_int_equal(g->n_nodes, 0);
    orr_graph_free(g);
}

static void kineto_uses_arrows_where_correlations_are_missing(void **state)
{
    (void)state;
    orr_read_report report;
    const orr_graph *g = read_report(
        LIST(EVENT("cuda_runtime", "cudaLaunchKernel", 100, 1, 10, 5, "") "," EVENT(
            "kernel", "k", 0, 7, 20, 5,
            "'stream':7") "," FLOW("s", "ac2g", 9, 100, 1,
                                   10) "," FLOW("f", "ac2g", 9, 0, 7, 20) "," FLOW("f", "ac2g", 10,
                                                                                   0, 99, 20)),
        &report);
    assert_waits(g, "k", "cudaLaunchKernel", ORR_DEP_LAUNCH);
    assert_int_equal(report.orphans, 0);
    assert_int_equal(report.ignored, 3);
    assert_int_equal(g->n_lanes, 2);
    orr_graph_free(g);
}

static void kineto_names_the_bad_event(void **state)
{
    (void)state;
    static const char *const bad[] = {
        LIST("{'ph':'X','cat':'cpu_op','name':'a','pid':1,'tid':1}"),
        LIST("{'cat':'cpu_op','name':'a','ts':1}"),
        LIST("3"),
        LIST(OP("a", 1, 1e18, 1)),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const orr_graph *g = NULL;
        orr_error err = {0};
        orr_read_report report;
        assert_int_equal(try_read(bad[i], false, &g, &report, &err), ORR_PARSE);
        assert_non_null(strstr(err.text, "byte"));
        assert_true(err.byte_pos != UINT64_MAX);
        assert_int_equal(try_read(bad[i], true, &g, &report, &err), ORR_OK);
        assert_int_equal(report.faults[ORR_TRACE_FAULT_BAD_EVENT], 1);
        assert_int_equal(g->n_nodes, 0);
        orr_graph_free(g);
    }
}

/* What is odd and changes nothing else is counted, without being asked to be tolerant. */
static void kineto_counts_what_it_lets_pass(void **state)
{
    (void)state;
    const orr_graph *g = NULL;
    orr_error err = {0};
    orr_read_report report;
    const char *text = LIST(OP("a", 1, 0, -5) "," OP(
        "b", 1, 5, 5) ","
                      "{'ph':'X','cat':'cpu_op','name':'c','pid':1,'tid':1,'ts':20,'dur':1,"
                      "'dur':3}");
    assert_int_equal(try_read(text, false, &g, &report, &err), ORR_OK);
    assert_int_equal(g->n_nodes, 3);
    assert_int_equal(g->duration_ns[0], 0);
    assert_int_equal(g->duration_ns[2], 3000);
    assert_int_equal(report.faults[ORR_TRACE_FAULT_NEGATIVE_DURATION], 1);
    assert_int_equal(report.faults[ORR_TRACE_FAULT_DUPLICATE_KEY], 1);
    assert_true(report.first_fault_byte < strlen(text));
    orr_graph_free(g);
}

static void kineto_uses_what_a_truncated_file_has(void **state)
{
    (void)state;
    const char *text = "{'traceEvents':[" OP("a", 1, 0, 5) "," OP(
        "b", 1, 5, 5) ",{'ph':'X','cat':'cpu_op','name':'c','ts':11";
    const orr_graph *g = NULL;
    orr_error err = {0};
    orr_read_report report;
    assert_int_equal(try_read(text, false, &g, &report, &err), ORR_PARSE);
    assert_int_equal(try_read(text, true, &g, &report, &err), ORR_OK);
    assert_int_equal(g->n_nodes, 2); /* half an event is none */
    assert_int_equal(report.faults[ORR_TRACE_FAULT_TRUNCATED], 1);
    orr_graph_free(g);
}

static void kineto_rejects_other_json(void **state)
{
    (void)state;
    static const char *const texts[] = {"{}", "{'nodes':[]}", "3", "'x'", ""};
    for (size_t i = 0; i < 5; i++) {
        const orr_graph *g = NULL;
        orr_error err = {0};
        orr_read_report report;
        assert_int_equal(try_read(texts[i], false, &g, &report, &err), ORR_PARSE);
        assert_int_not_equal(err.text[0], '\0');
    }
}

static void kineto_survives_every_failed_allocation(void **state)
{
    (void)state;
    char *json =
        as_json("{'distributedInfo':{'rank':1,'nccl_version':'2','pg_config':[{'pg_name':'0',"
                "'ranks':[0,3,1]}]},'deviceProperties':[{'id':0,'name':'A'}],'traceEvents':[" OP_ARGS("aten::mul",
                                                                                                      1,
                                                                                                      0, 10, "'Sequence number':7,'Input Dims':[[1]],'s':'a\\n'") "," OP_ARGS("record_param_comms",
                                                                                                                                                                              1,
                                                                                                                                                                              12,
                                                                                                                                                                              30,
                                                                                                                                                                              "'Collective name':'allreduce',"
                                                                                                                                                                              "'Process Group Name':'9','Process Group Ranks':'[0, 3, 1]'") "," CALL("cudaLaunchKernel", 1, 15, 5, 1) "," KERNEL("ncclDevKernel_AllReduce_x",
                                                                                                                                                                                                                                                                                                 7,
                                                                                                                                                                                                                                                                                                 30,
                                                                                                                                                                                                                                                                                                 5,
                                                                                                                                                                                                                                                                                                 1) "," EVENT("kernel", "k", 0, 8,
                                                                                                                                                                                                                                                                                                              33,
                                                                                                                                                                                                                                                                                                              1, "'stream':8") "," CALL("cudaEventRecord",
                                                                                                                                                                                                                                                                                                                                        1, 22,
                                                                                                                                                                                                                                                                                                                                        1, 2) "," CALL("cudaDeviceSynchronize",
                                                                                                                                                                                                                                                                                                                                                       1,
                                                                                                                                                                                                                                                                                                                                                       30, 10, 3) "," EVENT("cuda_sync", "Context Sync", 0, -1, 30, 10, "'correlation':3,'device':0") "," OP_ARGS("MulBackward",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                  2, 50, 10, "'Sequence number':7,'Fwd thread id':1") "," FLOW("s", "ac2g", 9, 100, 1, 15) "," FLOW("f", "ac2g", 9, 0, 8, 33) "," FLOW("s",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       "fwdbwd",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       1,
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       100, 1, 0) "," FLOW("f", "fwdbwd", 1, 100, 2, 50) ","
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         "{'ph':'M','name':'thread_name','pid':100,'tid':1,'args':{'name':'t'}}]}");
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth_allocation = 0;
    while (status != ORR_OK) {
        const orr_graph *g = NULL;
        orr_error err = {0};
        orr_alloc_fail_from(++nth_allocation);
        status = orr_trace_read_memory(json, strlen(json), NULL, &g, NULL, &err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK) {
            assert_int_equal(g->n_nodes, 9);
            orr_graph_free(g);
        } else {
            assert_int_equal(status, ORR_NO_MEMORY);
            assert_null(g);
        }
        assert_true(nth_allocation < 10000);
    }
    assert_true(nth_allocation > 50);
    free(json);
}

/* Counted with Python's json module: events of each category and phase (of 2020, the framework's
 * own ranges apart, named "Optimizer.step#SGD.step" and the like), device events whose correlation
 * a runtime event has (launched), other device work (orphans). */
static const struct recording {
    const char *file;
    unsigned events, nodes, host, runtime, python, annotation, device_annotation, compute,
        collective, copy, set, sync, memory, other, launched, orphans;
} recordings[] = {
    {"kineto/a100_w16_missing_launches", 108936, 67217, 25185, 33924, 0, 360, 0, 6000, 80, 1390,
     277, 0, 0, 1, 6875, 872},
    {"kineto/bert-small_h100", 2551, 2296, 479, 132, 1385, 1, 1, 60, 0, 1, 0, 0, 236, 1, 61, 0},
    {"kineto/cpu_only", 30, 16, 4, 0, 0, 1, 0, 0, 10, 0, 0, 0, 0, 1, 0, 0},
    {"kineto/ddp_a100_w8_rank3", 109123, 74937, 40506, 24692, 0, 288, 0, 8508, 60, 228, 654, 0, 0,
     1, 9450, 0},
    {"kineto/event_sync_a100", 92, 33, 10, 12, 0, 1, 0, 4, 0, 1, 0, 4, 0, 1, 9, 0},
    {"kineto/mi250_minitoy", 220, 113, 70, 21, 0, 3, 2, 14, 0, 2, 0, 0, 0, 1, 16, 0},
    {"kineto/mtia_inference", 16158, 14179, 10346, 823, 0, 1696, 0, 97, 0, 877, 0, 339, 0, 1, 991,
     244},
    {"kineto/ns_v100", 68692, 45420, 23910, 15329, 0, 70, 15, 4350, 0, 1600, 145, 0, 0, 1, 6095, 0},
    {"kineto/nsfw-vit_h100", 5138, 4537, 1258, 383, 2117, 1, 1, 154, 0, 0, 2, 0, 620, 1, 156, 0},
    {"kineto/qwen1.5-0.5b_h100", 18221, 14530, 4186, 1922, 4262, 1, 1, 1465, 0, 1, 241, 0, 2450, 1,
     1198, 509},
    {"kineto/rank_non_gpu", 2467, 2467, 2424, 0, 0, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {"kineto/rank_unavailable", 2467, 2467, 2424, 0, 0, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {"kineto/resnet50_v100_2020_old_categories", 82276, 63166, 42414, 10800, 0, 24, 0, 9538, 0, 12,
     377, 0, 0, 1, 9162, 765},
    {"kineto/simple_add_a100", 111, 56, 28, 15, 0, 8, 0, 4, 0, 0, 0, 0, 0, 1, 4, 0},
    {"kineto/simple_add_a100_sync", 1348, 838, 359, 331, 0, 8, 0, 79, 0, 16, 3, 41, 0, 1, 139, 0},
    {"kineto/triton", 71, 8, 3, 2, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0},
    {"kineto/w128_rank0_noflows", 4855, 4811, 2329, 1204, 0, 73, 0, 1144, 10, 40, 10, 0, 0, 1, 1204,
     0},
    {"kineto/w128_rank1_noflows", 4720, 4676, 2302, 1154, 0, 65, 0, 1094, 10, 40, 10, 0, 0, 1, 1154,
     0},
    {"dlrm_v100x8/rank0.device", 3290, 2460, 1633, 525, 0, 40, 0, 237, 8, 16, 0, 0, 0, 1, 261, 0},
    {"dlrm_v100x8/rank1.device", 3424, 2527, 1633, 527, 0, 40, 0, 302, 8, 16, 0, 0, 0, 1, 262, 64},
    {"dlrm_v100x8/rank2.device", 3268, 2449, 1633, 513, 0, 40, 0, 238, 8, 16, 0, 0, 0, 1, 262, 0},
    {"dlrm_v100x8/rank3.device", 3474, 2552, 1633, 541, 0, 40, 0, 307, 8, 16, 6, 0, 0, 1, 273, 64},
    {"dlrm_v100x8/rank4.device", 3310, 2470, 1633, 523, 0, 40, 0, 243, 8, 16, 6, 0, 0, 1, 273, 0},
    {"dlrm_v100x8/rank5.device", 3250, 2440, 1633, 505, 0, 40, 0, 237, 8, 16, 0, 0, 0, 1, 261, 0},
    {"dlrm_v100x8/rank6.device", 3272, 2451, 1633, 515, 0, 40, 0, 238, 8, 16, 0, 0, 0, 1, 262, 0},
    {"dlrm_v100x8/rank7.device", 3250, 2440, 1633, 504, 0, 40, 0, 238, 8, 16, 0, 0, 0, 1, 262, 0},
};

static void check_recording(const struct recording *want)
{
    char name[128];
    orr_read_report report;
    (void)snprintf(name, sizeof name, "%s.json.gz", want->file);
    const orr_graph *g = read_real(name, &report);
    assert_int_equal(report.format, ORR_FORMAT_KINETO);
    assert_int_equal(report.events, want->events);
    assert_int_equal(g->n_nodes, want->nodes);
    assert_int_equal(report.ignored, want->events - want->nodes);
    assert_int_equal(count_kind(g, ORR_NODE_HOST_OP), want->host);
    assert_int_equal(count_kind(g, ORR_NODE_RUNTIME), want->runtime);
    assert_int_equal(count_kind(g, ORR_NODE_PYTHON), want->python);
    assert_int_equal(count_kind(g, ORR_NODE_ANNOTATION), want->annotation);
    assert_int_equal(count_kind(g, ORR_NODE_DEVICE_ANNOTATION), want->device_annotation);
    assert_int_equal(count_kind(g, ORR_NODE_COMPUTE), want->compute);
    assert_int_equal(count_kind(g, ORR_NODE_COLLECTIVE), want->collective);
    assert_int_equal(count_kind(g, ORR_NODE_COPY), want->copy);
    assert_int_equal(count_kind(g, ORR_NODE_SET), want->set);
    assert_int_equal(count_kind(g, ORR_NODE_SYNC), want->sync);
    assert_int_equal(count_kind(g, ORR_NODE_MEMORY), want->memory);
    assert_int_equal(count_kind(g, ORR_NODE_OTHER), want->other);
    assert_int_equal(count_deps(g, ORR_DEP_LAUNCH), want->launched);
    assert_int_equal(report.orphans, want->orphans);
    for (unsigned fault = 0; fault < ORR_TRACE_FAULTS; fault++)
        assert_int_equal(report.faults[fault], 0);
    orr_graph_free(g);
}

static void kineto_counts_agree_on_real_recordings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof recordings / sizeof *recordings; i++)
        check_recording(&recordings[i]);
}

static void kineto_header_of_real_recordings(void **state)
{
    (void)state;
    orr_read_report report;
    const orr_graph *g = read_real("kineto/ddp_a100_w8_rank3.json.gz", &report);
    assert_int_equal(g->rank, 3);
    assert_int_equal(g->world_size, 8);
    assert_string_equal(orr_graph_str(g, g->device_name), "NVIDIA A100-PG509-200");
    assert_int_equal(g->base_ns, INT64_C(1661203462584767000)); /* its Trace span */
    orr_graph_free(g);
    g = read_real("kineto/cpu_only.json.gz", &report);
    assert_int_equal(g->rank, 34);
    assert_int_equal(g->n_groups, 11);
    assert_int_equal(g->groups[10].size, 300);
    orr_graph_free(g);
    /* ...752.797 us: more digits than a double has. */
    g = read_real("kineto/ns_v100.json.gz", &report);
    assert_int_equal(g->base_ns, INT64_C(1712195495406752797));
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kineto_reads_object_and_list),
        cmocka_unit_test(kineto_reads_the_categories_of_2020),
        cmocka_unit_test(kineto_keeps_sub_microsecond_time),
        cmocka_unit_test(kineto_accepts_strings_for_numbers),
        cmocka_unit_test(kineto_survives_missing_args_and_durations),
        cmocka_unit_test(kineto_names_threads_and_processes),
        cmocka_unit_test(kineto_reads_the_header),
        cmocka_unit_test(kineto_keeps_attributes),
        cmocka_unit_test(kineto_reads_memory_events),
        cmocka_unit_test(kineto_keeps_graph_kernels),
        cmocka_unit_test(kineto_keeps_work_without_launch),
        cmocka_unit_test(kineto_needs_no_profiler_step),
        cmocka_unit_test(kineto_uses_arrows_where_correlations_are_missing),
        cmocka_unit_test(kineto_names_the_bad_event),
        cmocka_unit_test(kineto_counts_what_it_lets_pass),
        cmocka_unit_test(kineto_uses_what_a_truncated_file_has),
        cmocka_unit_test(kineto_rejects_other_json),
        cmocka_unit_test(kineto_survives_every_failed_allocation),
        cmocka_unit_test(kineto_counts_agree_on_real_recordings),
        cmocka_unit_test(kineto_header_of_real_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
