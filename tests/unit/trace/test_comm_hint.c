/* SPDX-License-Identifier: Apache-2.0 */
#include "kineto_text.h"

#include "trace/comm/hint.h"

static const struct named {
    const char *name;
    bool communicates;
    uint8_t collective;
} kernels[] = {
    {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", true, ORR_COLL_ALL_REDUCE},
    {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true,
     ORR_COLL_ALL_GATHER},
    {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true,
     ORR_COLL_REDUCE_SCATTER},
    {"ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)", true, ORR_COLL_BROADCAST},
    {"ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true,
     ORR_COLL_REDUCE},
    {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", true, ORR_COLL_UNKNOWN},
    {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", true, ORR_COLL_UNKNOWN},
    {"ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)", true, ORR_COLL_UNKNOWN},
    {"ncclAllReduceRingLLKernel_sum_f32(ncclColl)", true, ORR_COLL_ALL_REDUCE},
    {"void ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs)", true,
     ORR_COLL_ALL_REDUCE},
    {"hcom_allReduce__123_0", true, ORR_COLL_ALL_REDUCE},
    {"oneccl_allreduce_large_read_write_ipc", true, ORR_COLL_ALL_REDUCE},
    {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", true,
     ORR_COLL_ALL_REDUCE},
    {"void deep_ep::intranode::dispatch<4, 768>(int4*, float*)", true, ORR_COLL_ALL_TO_ALL},
    {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(...)", false, 0},
    {"void at::native::vectorized_gather_kernel<16, long>(char*)", false, 0},
    {"hipLaunchKernel", false, 0},
    {"Cijk_Alik_Bljk_SB_Bias", false, 0},
    {"", false, 0},
};

static const struct named hosts[] = {
    {"nccl:all_reduce", true, ORR_COLL_ALL_REDUCE},
    {"nccl:_all_gather_base", true, ORR_COLL_ALL_GATHER},
    {"nccl:_reduce_scatter_base", true, ORR_COLL_REDUCE_SCATTER},
    {"nccl:all_to_all", true, ORR_COLL_ALL_TO_ALL},
    {"nccl:send 0->1", true, ORR_COLL_SEND},
    {"nccl:recv 1<-0", true, ORR_COLL_RECV},
    {"nccl:coalesced", true, ORR_COLL_UNKNOWN},
    {"gloo:all_reduce", true, ORR_COLL_ALL_REDUCE},
    {"c10d::alltoall_base_", true, ORR_COLL_ALL_TO_ALL},
    {"c10d::allreduce_", true, ORR_COLL_ALL_REDUCE},
    {"c10d::barrier", true, ORR_COLL_BARRIER},
    {"record_param_comms", true, ORR_COLL_UNKNOWN},
    {"## all2all_data:lengths ##", false, 0},
    {"aten::scatter", false, 0},
    {"torch::distributed::reducer::mul_out", false, 0},
};

static const struct named collectives[] = {
    {"allreduce", true, ORR_COLL_ALL_REDUCE},
    {"_allgather_base", true, ORR_COLL_ALL_GATHER},
    {"allgather_into_tensor_coalesced", true, ORR_COLL_ALL_GATHER},
    {"_reduce_scatter_base", true, ORR_COLL_REDUCE_SCATTER},
    {"all_to_allv", true, ORR_COLL_ALL_TO_ALL},
    {"alltoall", true, ORR_COLL_ALL_TO_ALL},
    {"broadcast", true, ORR_COLL_BROADCAST},
    {"_reduce_oop", true, ORR_COLL_REDUCE},
    {"gather", true, ORR_COLL_GATHER},
    {"scatter", true, ORR_COLL_SCATTER},
    {"barrier", true, ORR_COLL_BARRIER},
    {"send", true, ORR_COLL_SEND},
    {"recv", true, ORR_COLL_RECV},
    {"wait", false, 0},
    {"init", false, 0},
};

static void check(const struct named *want, orr_comm_hint hint)
{
    if (hint.communicates != want->communicates || hint.collective != want->collective)
        fail_msg("'%s' communicates %d, as %s", want->name, hint.communicates,
                 orr_collective_name((orr_collective)hint.collective));
}

static void comm_hint_of_kernels(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        check(&kernels[i], orr_comm_of_kernel(kernels[i].name, strlen(kernels[i].name)));
}

static void comm_hint_of_host_events(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        check(&hosts[i], orr_comm_of_host(hosts[i].name, strlen(hosts[i].name)));
    assert_true(orr_comm_runs_on_host("gloo:all_reduce", 15));
    assert_false(orr_comm_runs_on_host("nccl:all_reduce", 15));
    assert_false(orr_comm_runs_on_host("gloo:", 5));
}

static void comm_hint_of_collective_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        check(&collectives[i],
              orr_comm_of_collective(collectives[i].name, strlen(collectives[i].name)));
    assert_true(orr_comm_of_collective("all_to_allv", 11).vector);
    assert_true(orr_comm_of_collective("allgather_into_tensor_coalesced", 31).vector);
    assert_false(orr_comm_of_collective("allreduce", 9).vector);
}

static void comm_hint_bytes_by_collective(void **state)
{
    (void)state;
    static const struct {
        uint8_t collective;
        bool vector;
        int32_t n;
        int64_t recorded_in, recorded_out, in_bytes, out_bytes;
    } rows[] = {
        {ORR_COLL_ALL_REDUCE, false, 8, 400, 400, 400, 400},
        {ORR_COLL_ALL_REDUCE, false, -1, 400, -1, 400, 400},
        {ORR_COLL_BROADCAST, false, 8, -1, 400, 400, 400},
        {ORR_COLL_ALL_GATHER, false, 8, 400, 3200, 400, 3200},
        {ORR_COLL_ALL_GATHER, false, 8, 400, 400, 400, 3200}, /* one count for both sides */
        {ORR_COLL_ALL_GATHER, false, 8, -1, 3200, 400, 3200},
        {ORR_COLL_ALL_GATHER, true, 8, 400, 480, 400, 480},
        {ORR_COLL_ALL_GATHER, false, -1, 400, -1, 400, -1},
        {ORR_COLL_ALL_GATHER, false, 1, 400, 400, 400, 400},
        {ORR_COLL_REDUCE_SCATTER, false, 8, 3200, 400, 3200, 400},
        {ORR_COLL_REDUCE_SCATTER, false, 8, 400, 400, 3200, 400},
        {ORR_COLL_REDUCE_SCATTER, false, 8, 3200, -1, 3200, 400},
        {ORR_COLL_ALL_TO_ALL, true, 8, 400, 280, 400, 280},
        {ORR_COLL_SEND, false, 2, 400, 0, 400, 0},
        {ORR_COLL_RECV, false, 2, 0, 400, 0, 400},
        {ORR_COLL_RECV, false, 2, 400, -1, 0, 400},
        {ORR_COLL_BARRIER, false, 8, -1, -1, 0, 0},
        {ORR_COLL_ALL_GATHER, false, 8, INT64_MAX, -1, INT64_MAX, -1}, /* no product */
        {ORR_COLL_ALL_TO_ALL, false, 8, -1, -1, -1, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_comm comm = {
            .collective = rows[i].collective, .vector = rows[i].vector, .group_size = rows[i].n};
        orr_comm_set_bytes(&comm, rows[i].recorded_in, rows[i].recorded_out);
        if (comm.in_bytes != rows[i].in_bytes || comm.out_bytes != rows[i].out_bytes)
            fail_msg("row %zu: %lld in, %lld out", i, (long long)comm.in_bytes,
                     (long long)comm.out_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comm_hint_of_kernels),
        cmocka_unit_test(comm_hint_of_host_events),
        cmocka_unit_test(comm_hint_of_collective_names),
        cmocka_unit_test(comm_hint_bytes_by_collective),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
