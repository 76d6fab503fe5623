/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka.h wants the four above first */
#include <cmocka.h>

#include "trace/comm/names.h"

static void knows_the_names_of_collectives(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        orr_collective collective;
        bool vector;
    } cases[] = {
        {"allreduce", ORR_COLL_ALL_REDUCE, false},
        {"all_reduce_coalesced", ORR_COLL_ALL_REDUCE, true},
        {"_allgather_base", ORR_COLL_ALL_GATHER, false},
        {"allgather_into_tensor_coalesced", ORR_COLL_ALL_GATHER, true},
        {"all_to_allv", ORR_COLL_ALL_TO_ALL, true},
        {"alltoall_base", ORR_COLL_ALL_TO_ALL, false},
        {"reduce_scatter_tensor_coalesced", ORR_COLL_REDUCE_SCATTER, true},
        {"_reduce_scatter_base", ORR_COLL_REDUCE_SCATTER, false},
        {"reduce", ORR_COLL_REDUCE, false},
        {"gather", ORR_COLL_GATHER, false},
        {"scatter", ORR_COLL_SCATTER, false},
        {"broadcast_oop", ORR_COLL_BROADCAST, false},
        {"barrier", ORR_COLL_BARRIER, false},
        {"send", ORR_COLL_SEND, false},
        {"nccl:recv 0<-1", ORR_COLL_RECV, false},
        {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         ORR_COLL_ALL_REDUCE, false},
        {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", ORR_COLL_UNKNOWN, false},
        {"wait", ORR_COLL_UNKNOWN, false},
        {"init", ORR_COLL_UNKNOWN, false},
        {"", ORR_COLL_UNKNOWN, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool vector = true;
        assert_int_equal(orr_collective_from_name(cases[i].name, strlen(cases[i].name), &vector),
                         cases[i].collective);
        assert_int_equal(vector, cases[i].vector);
    }
}

static void knows_the_sizes_of_types(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t bytes;
    } cases[] = {
        {"Float", 4},
        {"c10::BFloat16", 2},
        {"c10::Half", 2},
        {"long int", 8},
        {"Long", 8},
        {"Tensor(float)", 4},
        {"Tensor(c10::Half)", 2},
        {"Tensor(long int)", 8},
        {"unsigned char", 1},
        {"Bool", 1},
        {"c10::complex<float>", 8},
        {"Float8_e4m3fn", 1},
        {"float32", 4},
        {"torch.bfloat16", 0},
        {"Tensor(nullptr (uninitialized))", 0},
        {"", 0},
        {"a name that is far too long to be one of them", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(orr_element_bytes(cases[i].name, strlen(cases[i].name)), cases[i].bytes);
}

/* One number for each: what Chakra's simulators take as comm_size. */
static void describes_a_communication_by_one_size(void **state)
{
    (void)state;
    static const struct {
        orr_collective collective;
        int64_t in, out, want;
        int32_t n;
    } cases[] = {
        {ORR_COLL_ALL_REDUCE, 32, 32, 32, 4},
        {ORR_COLL_ALL_GATHER, 8, 32, 8, 4},
        {ORR_COLL_ALL_GATHER, -1, 32, 8, 4},
        {ORR_COLL_ALL_GATHER, -1, 32, -1, -1},
        {ORR_COLL_REDUCE_SCATTER, 32, 8, 32, 4},
        {ORR_COLL_REDUCE_SCATTER, -1, 8, 32, 4},
        {ORR_COLL_REDUCE_SCATTER, -1, INT64_MAX, -1, 4},
        {ORR_COLL_ALL_TO_ALL, 24, 12, 24, 4},
        {ORR_COLL_BROADCAST, 0, 16, 16, 4},
        {ORR_COLL_RECV, 0, 16, 16, 2},
        {ORR_COLL_SEND, 16, 0, 16, 2},
        {ORR_COLL_BARRIER, -1, -1, 0, 4},
        {ORR_COLL_SCATTER, 64, 16, 16, 4},
        {ORR_COLL_UNKNOWN, -1, -1, -1, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_comm comm = {.collective = (uint8_t)cases[i].collective,
                               .in_bytes = cases[i].in,
                               .out_bytes = cases[i].out,
                               .group_size = cases[i].n};
        assert_int_equal(orr_comm_size(&comm), cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_the_names_of_collectives),
        cmocka_unit_test(knows_the_sizes_of_types),
        cmocka_unit_test(describes_a_communication_by_one_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
