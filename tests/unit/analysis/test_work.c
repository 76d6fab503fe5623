/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "analysis/common.h"

static orr_work_list work_of(small *s)
{
    const orr_view *views;
    orr_work_list work;
    size_t n;
    const orr_analysis_options options = small_options();
    assert_int_equal(orr_find_views(s->job, &options, s->arena, &views, &n, NULL), ORR_OK);
    assert_int_equal(n, 1);
    assert_int_equal(orr_view_work(&views[0], s->arena, &work, NULL), ORR_OK);
    return work;
}

static void assert_work(const orr_work_list *got, const orr_node_id *node, const uint8_t *class,
                        size_t n)
{
    assert_int_equal(got->n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(got->node[i], node[i]);
        assert_int_equal(got->class[i], class[i]);
    }
}

static void test_device_work_by_start(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t a = small_stream(&s, 0, 7), b = small_stream(&s, 0, 8);
    small_node(&s, ORR_NODE_HOST_OP, "aten::mm", small_thread(&s, 1), 0, 5, ORR_NONE);
    small_work(&s, ORR_NODE_COMPUTE, "late", a, 50, 5, ORR_NONE);
    small_work(&s, ORR_NODE_SET, "Memset", b, 10, 5, ORR_NONE);
    small_work(&s, ORR_NODE_SYNC, "Stream Sync", b, 11, 5, ORR_NONE);
    small_work(&s, ORR_NODE_DEVICE_ANNOTATION, "step", b, 11, 5, ORR_NONE);
    small_work(&s, ORR_NODE_RECV, "ncclRecv", a, 10, 5, ORR_NONE);
    small_work(&s, ORR_NODE_COMPUTE, "no time", a, ORR_TIME_NONE, 0, ORR_NONE);
    small_job(&s);
    const orr_work_list work = work_of(&s);
    assert_work(&work, (orr_node_id[]){2, 5, 1},
                (uint8_t[]){ORR_CLASS_MEMORY, ORR_CLASS_COMMUNICATION, ORR_CLASS_COMPUTATION}, 3);
    small_end(&s);
}

/* Without a device: outermost operators and collectives, through annotations and python. */
static void test_host_work(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t t = small_thread(&s, 1);
    const uint32_t step = small_node(&s, ORR_NODE_ANNOTATION, "step", t, 0, 200, ORR_NONE);
    const uint32_t py = small_node(&s, ORR_NODE_PYTHON, "forward", t, 1, 190, step);
    const uint32_t linear = small_node(&s, ORR_NODE_HOST_OP, "aten::linear", t, 2, 40, py);
    const uint32_t in = small_node(&s, ORR_NODE_PYTHON, "callback", t, 3, 30, linear);
    small_node(&s, ORR_NODE_HOST_OP, "aten::addmm", t, 4, 20, in);
    /* an operator that communicates, twice over; it copies before, and waits after */
    const uint32_t outer = small_node(&s, ORR_NODE_HOST_OP, "AllToAll", t, 50, 100, py);
    const uint32_t copy = small_node(&s, ORR_NODE_HOST_OP, "aten::copy_", t, 51, 9, outer);
    small_node(&s, ORR_NODE_HOST_OP, "aten::empty", t, 52, 3, copy);
    const uint32_t op = small_node(&s, ORR_NODE_HOST_OP, "c10d::alltoall_", t, 60, 30, outer);
    const uint32_t comm = small_node(&s, ORR_NODE_COLLECTIVE, "gloo:all_to_all", t, 61, 10, op);
    small_node(&s, ORR_NODE_COLLECTIVE, "gloo:send", t, 62, 2, comm);
    small_node(&s, ORR_NODE_HOST_OP, "aten::copy_", t, 65, 2, comm);
    /* such as have the communication on another thread */
    small_node(&s, ORR_NODE_HOST_OP, "c10d::allgather_", t, 155, 3, py);
    const uint32_t async = small_node(&s, ORR_NODE_HOST_OP, "allreduce", t, 160, 5, py);
    const orr_comm sent = {.collective = ORR_COLL_ALL_REDUCE, .group = ORR_NONE};
    assert_int_equal(orr_builder_comm(s.builder, async, &sent, &s.err), ORR_OK);
    const uint32_t relu = small_node(&s, ORR_NODE_HOST_OP, "aten::relu", t, 170, 10, py);
    small_node(&s, ORR_NODE_RUNTIME, "not work", t, 185, 1, py);
    small_job(&s);
    const orr_work_list work = work_of(&s);
    assert_work(&work, (orr_node_id[]){linear, copy, comm, relu},
                (uint8_t[]){ORR_CLASS_COMPUTATION, ORR_CLASS_COMPUTATION, ORR_CLASS_COMMUNICATION,
                            ORR_CLASS_COMPUTATION},
                4);
    small_end(&s);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(orr_class_name(ORR_CLASS_MEMORY), "MEMORY");
    assert_string_equal(orr_class_name(ORR_CLASS_NONE), "OTHER");
    assert_int_equal(orr_class_of_kind(ORR_NODE_SEND), ORR_CLASS_COMMUNICATION);
    assert_int_equal(orr_class_of_kind(ORR_NODE_SYNC), ORR_CLASS_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_work_by_start),
        cmocka_unit_test(test_host_work),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
