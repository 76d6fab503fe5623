/* SPDX-License-Identifier: Apache-2.0 */
#include "kineto_text.h"

static const orr_comm *comm_of(const orr_graph *g, const char *name)
{
    const orr_comm *comm = orr_graph_comm(g, named(g, name));
    assert_non_null(comm);
    return comm;
}

#define NCCL(name, args) EVENT("kernel", name, 0, 20, 50, 10, "'stream':20,'correlation':7," args)
#define FULL_ARGS(collective, in, out, rest)                                                       \
    "'Collective name':'" collective "','dtype':'BFloat16','In msg nelems':" #in                   \
    ",'Out msg nelems':" #out ",'Group size':4,'Process Group Name':'3',"                          \
    "'Process Group Description':'dp','Process Group Ranks':'[1, 3, 5, 7]','Seq':12" rest

static void kineto_comm_from_the_kernels_arguments(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(
        NCCL("ncclDevKernel_AllGather_RING_LL(x)", FULL_ARGS("_allgather_base", 100, 400, ""))));
    const orr_comm *comm = comm_of(g, "ncclDevKernel_AllGather_RING_LL(x)");
    assert_int_equal(g->kind[0], ORR_NODE_COLLECTIVE);
    assert_int_equal(comm->collective, ORR_COLL_ALL_GATHER);
    assert_int_equal(comm->in_bytes, 200);
    assert_int_equal(comm->out_bytes, 800);
    assert_int_equal(comm->group_size, 4);
    assert_int_equal(comm->seq, 12);
    assert_string_equal(orr_graph_str(g, comm->dtype), "BFloat16");
    const orr_group *group = &g->groups[comm->group];
    assert_string_equal(orr_graph_str(g, group->name), "3");
    assert_string_equal(orr_graph_str(g, group->desc), "dp");
    assert_int_equal(orr_group_rank(group, 2), 5);
    orr_graph_free(g);
}

/* Older recordings have the metadata on the operator only. */
static void kineto_comm_carried_from_operator_to_kernel(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(OP("c10d::alltoall_base_", 1, 0, 40) "," OP_ARGS(
        "record_param_comms", 1, 2, 30,
        FULL_ARGS(
            "all_to_allv", 6, 10,
            ",'In split size':'[1, 2, 3, 0]',"
            "'Out split size':'[4, 4, 1, 1]'")) "," EVENT("user_annotation", "nccl:all_to_all", 100,
                                                          1, 4, 20,
                                                          "'Input Dims':[[6]]") "," CALL("cudaLaunchKernel",
                                                                                         1, 6, 5,
                                                                                         7) "," KERNEL("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
                                                                                                       20,
                                                                                                       50,
                                                                                                       10,
                                                                                                       7)));
    const orr_comm *comm = comm_of(g, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)");
    assert_int_equal(comm->collective, ORR_COLL_ALL_TO_ALL);
    assert_true(comm->vector || comm->in_splits != 0);
    assert_int_equal(comm->in_bytes, 12);
    assert_int_equal(comm->out_bytes, 20);
    assert_string_equal(orr_graph_str(g, comm->in_splits), "[1, 2, 3, 0]");
    assert_string_equal(orr_graph_str(g, comm->out_splits), "[4, 4, 1, 1]");
    assert_string_equal(orr_graph_str(g, g->groups[comm->group].name), "3");
    orr_graph_free(g);
}

static const orr_graph *point_to_point(const char *annotation, const char *args)
{
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "{'traceEvents':["
                   "{'ph':'X','cat':'cpu_op','name':'record_param_comms','pid':1,'tid':1,'ts':0,"
                   "'dur':30,'args':{%s}},"
                   "{'ph':'X','cat':'user_annotation','name':'%s','pid':1,'tid':1,'ts':2,'dur':20},"
                   "{'ph':'X','cat':'cuda_runtime','name':'cudaLaunchKernelExC','pid':1,'tid':1,"
                   "'ts':4,'dur':3,'args':{'correlation':7}}," KERNEL("ncclDevKernel_SendRecv(x)",
                                                                      20, 10, 5, 7) "]}",
                   args, annotation);
    return read_text(text);
}

static void kineto_comm_resolves_send_and_receive_with_peers(void **state)
{
    (void)state;
    const char *name = "ncclDevKernel_SendRecv(x)";
    const orr_graph *g = point_to_point("nccl:send 0->2", FULL_ARGS("send", 50, 0, ",'Rank':2"));
    assert_int_equal(g->kind[named(g, name)], ORR_NODE_SEND);
    assert_int_equal(comm_of(g, name)->peer, 2);
    assert_int_equal(comm_of(g, name)->in_bytes, 100);
    assert_int_equal(comm_of(g, name)->out_bytes, 0);
    orr_graph_free(g);

    /* Only the global rank of the sender: 7 is the group's number 3. */
    g = point_to_point("nccl:recv 2<-3", FULL_ARGS("recv", 0, 50, ",'Src Rank':7"));
    assert_int_equal(g->kind[named(g, name)], ORR_NODE_RECV);
    assert_int_equal(comm_of(g, name)->peer, 3);
    assert_int_equal(comm_of(g, name)->out_bytes, 100);
    orr_graph_free(g);

    /* By the annotation alone. */
    g = point_to_point("nccl:recv 2<-3", "");
    assert_int_equal(g->kind[named(g, name)], ORR_NODE_RECV);
    assert_int_equal(comm_of(g, name)->peer, -1);
    assert_int_equal(comm_of(g, name)->out_bytes, -1);
    orr_graph_free(g);
}

static void kineto_comm_root_of_a_broadcast(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(
        NCCL("ncclDevKernel_Broadcast_RING_LL(x)", FULL_ARGS("broadcast", 9, 9, ",'Rank':1"))));
    assert_int_equal(comm_of(g, "ncclDevKernel_Broadcast_RING_LL(x)")->root, 1);
    assert_int_equal(comm_of(g, "ncclDevKernel_Broadcast_RING_LL(x)")->peer, -1);
    orr_graph_free(g);
}

static void kineto_comm_expands_ranks_that_were_cut(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(NCCL(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
        "'Collective name':'allreduce','dtype':'Float','In msg nelems':'8','Out msg nelems':'8',"
        "'Group size':64,'Process Group Name':'7','Process Group Ranks':'[2, 10, 18, ...]',"
        "'Global rank start':2,'Global rank stride':8")));
    const orr_comm *comm = comm_of(g, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)");
    const orr_group *group = &g->groups[comm->group];
    assert_int_equal(group->size, 64);
    assert_int_equal(orr_group_rank(group, 63), 2 + 63 * 8);
    assert_int_equal(comm->in_bytes, 32);
    orr_graph_free(g);
}

/* Before collective metadata: the shapes of what led to the kernel. */
static void kineto_comm_bytes_from_shapes(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(OP_ARGS(
        "c10d::_reduce_scatter_base_", 1, 0, 40,
        "'Input Dims':[[8192, 64], [65536, 64], [], [], []],"
        "'Input type':['c10::BFloat16','c10::BFloat16','','','Scalar']") "," OP("record_param_comms",
                                                                                1, 2,
                                                                                30) "," EVENT("user_annotation",
                                                                                              "nccl:_reduce_scatter_base",
                                                                                              100,
                                                                                              1, 4,
                                                                                              20,
                                                                                              "'Input Dims':[[65536, 64]],'Input type':['c10::BFloat16']") "," CALL("cudaLaunchKernel",
                                                                                                                                                                    1,
                                                                                                                                                                    6,
                                                                                                                                                                    5,
                                                                                                                                                                    7) "," KERNEL("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)",
                                                                                                                                                                                  20,
                                                                                                                                                                                  50,
                                                                                                                                                                                  10,
                                                                                                                                                                                  7)));
    const orr_comm *comm = comm_of(g, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)");
    assert_int_equal(comm->collective, ORR_COLL_REDUCE_SCATTER);
    assert_int_equal(comm->in_bytes, 65536 * 64 * 2);
    assert_int_equal(comm->out_bytes, 8192 * 64 * 2);
    assert_int_equal(comm->group_size, 8);
    orr_graph_free(g);
}

static void kineto_comm_on_the_host_where_there_is_no_device(void **state)
{
    (void)state;
    const orr_graph *g = read_text(
        LIST(EVENT("user_annotation", "gloo:all_reduce", 100, 1, 0, 5,
                   "'Input Dims':[[10]],'Input type':['float']") "," EVENT("user_annotation",
                                                                           "nccl:all_reduce", 100,
                                                                           1, 9, 5, "")));
    assert_int_equal(g->kind[0], ORR_NODE_COLLECTIVE);
    assert_int_equal(g->lanes[g->lane[0]].kind, ORR_LANE_HOST);
    assert_int_equal(comm_of(g, "gloo:all_reduce")->in_bytes, 40);
    assert_int_equal(g->kind[1], ORR_NODE_ANNOTATION); /* its kernel was not recorded */
    assert_null(orr_graph_comm(g, 1));
    orr_graph_free(g);
}

/* A thread of gloo's own: who asked, how much comes back, in which group, and who waited. */
static void kineto_comm_on_a_thread_of_its_own(void **state)
{
    (void)state;
    const orr_graph *g = read_text(
        "{'distributedInfo':{'rank':0,'world_size':2,'pg_config':[{'pg_name':'0','pg_size':2,"
        "'ranks':[0,1]}]},'traceEvents':[" OP_ARGS(
            "c10d::alltoall_base_", 1, 0, 10,
            "'Input Dims':[[30],[10],[],[]],"
            "'Input type':['float','float','','']") "," OP_ARGS("c10d::alltoall_base_", 1, 100, 10,
                                                                "'Input Dims':[[5],[20],[],[]],"
                                                                "'Input type':['float','float','','']") "," OP("aten::after",
                                                                                                               1,
                                                                                                               400,
                                                                                                               10) "," EVENT("user_annotation",
                                                                                                                             "gloo:all_to_all",
                                                                                                                             100,
                                                                                                                             7,
                                                                                                                             105,
                                                                                                                             200,
                                                                                                                             "'Input Dims':[[20]],'Input type':['float']") "," EVENT("user_annotation",
                                                                                                                                                                                     "gloo:all_to_all",
                                                                                                                                                                                     100,
                                                                                                                                                                                     8,
                                                                                                                                                                                     8,
                                                                                                                                                                                     50,
                                                                                                                                                                                     "'Input Dims':[[10]],'Input type':['float']") "]}");
    const orr_node_id late = nth(g, "gloo:all_to_all", 0), early = nth(g, "gloo:all_to_all", 1);
    assert_true(waits(g, early, nth(g, "c10d::alltoall_base_", 0), ORR_DEP_CONTROL));
    assert_true(waits(g, late, nth(g, "c10d::alltoall_base_", 1), ORR_DEP_CONTROL));
    assert_int_equal(count_deps(g, ORR_DEP_CONTROL), 2);
    assert_int_equal(orr_graph_comm(g, early)->out_bytes, 120);
    assert_int_equal(orr_graph_comm(g, late)->out_bytes, 20);
    assert_int_equal(orr_graph_comm(g, late)->group, 0); /* the only one */
    assert_int_equal(orr_graph_comm(g, late)->group_size, 2);
    assert_true(waits(g, named(g, "aten::after"), late, ORR_DEP_HANDOFF));
    assert_true(waits(g, nth(g, "c10d::alltoall_base_", 1), early, ORR_DEP_HANDOFF));
    orr_graph_free(g);
    /* Waited for within an operator. */
    g = read_text(LIST(OP("AllToAll", 1, 0, 80) "," OP("c10d::allreduce_", 1, 1, 10) "," OP(
        "next", 1, 90, 5) "," EVENT("user_annotation", "gloo:all_reduce", 100, 7, 15, 50, "")));
    assert_waits(g, "AllToAll", "gloo:all_reduce", ORR_DEP_SYNC);
    assert_int_equal(count_deps(g, ORR_DEP_HANDOFF), 0);
    orr_graph_free(g);
    /* Long forgotten when it ended. */
    g = read_text(LIST(OP("c10d::allreduce_", 1, 0, 10) "," OP("busy", 1, 20, 900) "," OP(
        "next", 1, 930, 5) "," EVENT("user_annotation", "gloo:all_reduce", 100, 7, 5, 50, "")));
    assert_int_equal(count_deps(g, ORR_DEP_CONTROL), 1);
    assert_int_equal(count_deps(g, ORR_DEP_HANDOFF) + count_deps(g, ORR_DEP_SYNC), 0);
    orr_graph_free(g);
}

static void kineto_comm_unknown_stays_unknown(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(KERNEL("ncclKernel_SendRecv_x(y)", 20, 1, 1, 7) "," KERNEL(
        "ncclDevKernel_Generic_1(y)", 20, 3, 1, 8)));
    for (orr_node_id v = 0; v < 2; v++) {
        assert_int_equal(g->kind[v], ORR_NODE_COLLECTIVE);
        const orr_comm *comm = orr_graph_comm(g, v);
        assert_int_equal(comm->collective, ORR_COLL_UNKNOWN);
        assert_int_equal(comm->in_bytes, -1);
        assert_int_equal(comm->group, ORR_NONE);
        assert_int_equal(comm->group_size, -1);
    }
    orr_graph_free(g);
}

static void kineto_comm_shapes_of_another_type(void **state)
{
    (void)state;
    static const char *const args[] = {
        "'Input Dims':2000000,'Input type':true", "'Input Dims':'x','Input type':'float'",
        "'Input Dims':{'a':1},'Input type':7.5", "'Input Dims':null,'Input type':[]"};
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "{'traceEvents':[{'ph':'X','cat':'user_annotation','name':'gloo:all_reduce',"
                       "'pid':1,'tid':1,'ts':0,'dur':1,'args':{%s}}]}",
                       args[i]);
        const orr_graph *g = read_text(text);
        assert_int_equal(comm_of(g, "gloo:all_reduce")->in_bytes, -1);
        orr_graph_free(g);
    }
}

/* A wait() records parameters too, but moves nothing: its kernels are no communication. */
static void kineto_comm_wait_is_none(void **state)
{
    (void)state;
    const orr_graph *g = read_text(
        LIST(OP_ARGS("record_param_comms", 1, 0, 30, FULL_ARGS("wait", 1, 1, "")) "," CALL(
            "cudaLaunchKernel", 1, 6, 5, 7) "," KERNEL("fill", 7, 50, 10, 7)));
    assert_int_equal(g->n_comms, 0);
    orr_graph_free(g);
}

/* Counted with Python: the nccl: annotation around the launch of each NCCL kernel. */
static void kineto_comm_of_real_recordings(void **state)
{
    (void)state;
    orr_read_report report;
    unsigned count[ORR_COLL_RECV + 1] = {0};
    const orr_graph *g = read_real("kineto/ddp_a100_w8_rank3.json.gz", &report);
    for (uint32_t i = 0; i < g->n_comms; i++)
        count[g->comms[i].collective]++;
    assert_int_equal(count[ORR_COLL_ALL_TO_ALL], 42);
    assert_int_equal(count[ORR_COLL_ALL_REDUCE], 18);
    assert_int_equal(g->n_comms, 60);
    orr_graph_free(g);

    memset(count, 0, sizeof count);
    g = read_real("kineto/a100_w16_missing_launches.json.gz", &report);
    for (uint32_t i = 0; i < g->n_comms; i++)
        count[g->comms[i].collective]++;
    assert_int_equal(g->n_comms, 80);
    assert_int_equal(count[ORR_COLL_ALL_TO_ALL], 45);
    assert_int_equal(count[ORR_COLL_REDUCE_SCATTER], 10);
    assert_int_equal(count[ORR_COLL_ALL_GATHER], 10);
    assert_int_equal(count[ORR_COLL_ALL_REDUCE], 10);
    assert_int_equal(count[ORR_COLL_UNKNOWN], 5); /* launched before the recording */
    orr_graph_free(g);
}

/* Gloo's sends and receives name their peer among the values of the operator above alone. */
static void kineto_peers_of_gloo(void **state)
{
    (void)state;
    const orr_graph *g = read_text(LIST(OP_ARGS(
        "c10d::send", 1, 0, 40,
        "'Concrete Inputs':['','','3','0'],'Input Dims':[[[2,4]],[],[],[]],"
        "'Input type':['TensorList','','Scalar','Scalar']") "," EVENT("user_annotation",
                                                                      "gloo:send", 1, 1, 5, 10,
                                                                      "'Input Dims':[[2,4]],'Input type':['float']") "," OP_ARGS("c10d::recv_",
                                                                                                                                 1,
                                                                                                                                 100,
                                                                                                                                 10,
                                                                                                                                 "'Concrete Inputs':['','','2','0'],'Input Dims':[[[2,4]],[],[],[]],"
                                                                                                                                 "'Input type':['TensorList','','Scalar','Scalar']") "," EVENT("user_annotation",
                                                                                                                                                                                               "gloo:recv",
                                                                                                                                                                                               1,
                                                                                                                                                                                               1,
                                                                                                                                                                                               105,
                                                                                                                                                                                               500,
                                                                                                                                                                                               "'Input Dims':[[2,4]],'Input type':['float']")));
    assert_int_equal(comm_of(g, "gloo:send")->peer, 3);
    assert_int_equal(comm_of(g, "gloo:recv")->peer, 2);
    assert_int_equal(comm_of(g, "gloo:recv")->out_bytes, 32);
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kineto_comm_from_the_kernels_arguments),
        cmocka_unit_test(kineto_comm_carried_from_operator_to_kernel),
        cmocka_unit_test(kineto_comm_resolves_send_and_receive_with_peers),
        cmocka_unit_test(kineto_comm_root_of_a_broadcast),
        cmocka_unit_test(kineto_comm_expands_ranks_that_were_cut),
        cmocka_unit_test(kineto_comm_bytes_from_shapes),
        cmocka_unit_test(kineto_comm_on_the_host_where_there_is_no_device),
        cmocka_unit_test(kineto_comm_on_a_thread_of_its_own),
        cmocka_unit_test(kineto_comm_unknown_stays_unknown),
        cmocka_unit_test(kineto_comm_shapes_of_another_type),
        cmocka_unit_test(kineto_comm_wait_is_none),
        cmocka_unit_test(kineto_comm_of_real_recordings),
        cmocka_unit_test(kineto_peers_of_gloo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
