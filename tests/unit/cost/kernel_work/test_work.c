/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

/* One operator with one call and one kernel. */
typedef struct launched {
    small s;
    uint32_t cpu, gpu, op, call, work;
} launched;

static launched begin(const char *op, const char *kernel)
{
    launched l = {.s = small_begin()};
    l.cpu = small_thread(&l.s, 1);
    l.gpu = small_stream(&l.s, 0, 7);
    l.op = small_node(&l.s, ORR_NODE_HOST_OP, op, l.cpu, 0, 100, ORR_NONE);
    l.call = small_call(&l.s, l.cpu, 10, 5, l.op);
    l.work = small_work(&l.s, ORR_NODE_COMPUTE, kernel, l.gpu, 20, 50, l.call);
    return l;
}

static orr_work work_of(launched *l, uint32_t node)
{
    orr_work work;
    if (l->s.n_graphs == 0)
        small_job(&l->s);
    assert_int_equal(orr_work_of_node(l->s.graphs[0], node, &work, &l->s.err), ORR_OK);
    return work;
}

static void test_matrix_product(void **state)
{
    (void)state;
    launched l = begin("aten::addmm", "volta_sgemm_128x64_tn");
    small_shapes(&l.s, l.op, "[[512], [16, 256], [256, 512], [], []]",
                 "[\"float\", \"float\", \"float\", \"Scalar\", \"Scalar\"]", NULL);
    const orr_work w = work_of(&l, l.work);
    assert_int_equal(w.family, ORR_FAMILY_GEMM);
    assert_int_equal(w.dtype, ORR_DTYPE_FP32);
    const int64_t dims[] = {1, 16, 512, 256};
    assert_memory_equal(w.dims, dims, sizeof dims);
    assert_true(w.flops == 2.0 * 16 * 512 * 256);
    assert_string_equal(w.op, "aten::addmm");
    assert_string_equal(w.kernel, "volta_sgemm_128x64_tn");
    small_end(&l.s);
}

/* Of several kernels of a product, the one that multiplies gets it. */
static void test_helpers_get_nothing(void **state)
{
    (void)state;
    launched l = begin("aten::mm", "ampere_sgemm_64x32_nn");
    small_shapes(&l.s, l.op, "[[16, 256], [256, 512]]", "[\"float\", \"float\"]", NULL);
    const uint32_t call = small_call(&l.s, l.cpu, 30, 5, l.op);
    const uint32_t helper =
        small_work(&l.s, ORR_NODE_COMPUTE, "void splitKreduce_kernel<float>", l.gpu, 80, 5, call);
    assert_int_equal(work_of(&l, l.work).family, ORR_FAMILY_GEMM);
    const orr_work w = work_of(&l, helper);
    assert_int_equal(w.family, ORR_FAMILY_OTHER);
    assert_true(w.flops == 0);
    small_end(&l.s);
}

static void test_tensor_cores_by_name(void **state)
{
    (void)state;
    launched l = begin("aten::mm", "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64>");
    small_shapes(&l.s, l.op, "[[16, 256], [256, 512]]", "[\"float\", \"float\"]", NULL);
    assert_int_equal(work_of(&l, l.work).dtype, ORR_DTYPE_TF32);
    small_end(&l.s);
}

/* cudnn_convolution_backward_weight does not know the filter; the operator around it does. */
static void test_outer_operator_tells(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t outer =
        small_node(&s, ORR_NODE_HOST_OP, "aten::cudnn_convolution_backward", cpu, 0, 100, ORR_NONE);
    const uint32_t inner = small_node(
        &s, ORR_NODE_HOST_OP, "aten::cudnn_convolution_backward_weight", cpu, 10, 80, outer);
    const uint32_t call = small_call(&s, cpu, 20, 5, inner);
    const uint32_t work = small_work(
        &s, ORR_NODE_COMPUTE, "void cudnn::cnn::wgrad_alg0_engine<float>", gpu, 40, 50, call);
    small_shapes(&s, outer, "[[32, 64, 56, 56], [32, 128, 28, 28], [128, 64, 3, 3]]", "[]", NULL);
    small_shapes(&s, inner, "[[], [32, 128, 28, 28], [32, 64, 56, 56]]", "[]", NULL);
    small_job(&s);
    orr_work w;
    assert_int_equal(orr_work_of_node(s.graphs[0], work, &w, &s.err), ORR_OK);
    assert_int_equal(w.family, ORR_FAMILY_CONVOLUTION);
    assert_true(w.backward);
    const int64_t dims[] = {32, 64, 56, 56, 128, 3, 3, 2};
    assert_memory_equal(w.dims, dims, sizeof dims);
    small_end(&s);
}

static void test_copies(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t gpu = small_stream(&s, 0, 7);
    static const struct {
        const char *name;
        orr_node_kind kind;
        orr_copy_kind copy;
    } CASES[] = {{"Memcpy HtoD (Pageable -> Device)", ORR_NODE_COPY, ORR_COPY_HTOD},
                 {"Memcpy DtoH (Device -> Pinned)", ORR_NODE_COPY, ORR_COPY_DTOH},
                 {"CopyHostToDevice", ORR_NODE_COPY, ORR_COPY_HTOD},
                 {"Memcpy DtoD (Device -> Device)", ORR_NODE_COPY, ORR_COPY_DTOD},
                 {"Memset (Device)", ORR_NODE_SET, ORR_COPY_DTOD}};
    const uint32_t n = sizeof CASES / sizeof *CASES;
    const orr_copy row = {.bytes = 4096};
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = small_work(&s, CASES[i].kind, CASES[i].name, gpu, 10 * i, 5, ORR_NONE);
        assert_int_equal(orr_builder_copy(s.builder, v, &row, &s.err), ORR_OK);
    }
    const uint32_t unknown = small_work(&s, ORR_NODE_COPY, "Memcpy", gpu, 100, 5, ORR_NONE);
    small_job(&s);
    orr_work w;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(orr_work_of_node(s.graphs[0], i, &w, &s.err), ORR_OK);
        assert_int_equal(w.family, ORR_FAMILY_COPY);
        assert_int_equal(w.copy, CASES[i].copy);
        assert_true(w.write_bytes == 4096);
        assert_true(w.read_bytes == (CASES[i].kind == ORR_NODE_SET ? 0 : 4096));
    }
    assert_int_equal(orr_work_of_node(s.graphs[0], unknown, &w, &s.err), ORR_UNSUPPORTED);
    small_end(&s);
}

static void test_element_wise(void **state)
{
    (void)state;
    launched l = begin("aten::sigmoid", "void at::native::vectorized_elementwise_kernel<4>");
    small_shapes(&l.s, l.op, "[[16, 256]]", "[\"c10::Half\"]", NULL);
    const orr_work w = work_of(&l, l.work);
    assert_int_equal(w.family, ORR_FAMILY_ELEMENTWISE);
    assert_int_equal(w.dims[0], 4096);
    assert_true(w.read_bytes == 8192 && w.write_bytes == 8192);
    assert_true(w.flops == 4 * 4096);
    small_end(&l.s);
}

/* Without an operator the kernel's name gives the family, but no shapes. */
static void test_kernel_alone(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t gpu = small_stream(&s, 0, 7);
    small_work(&s, ORR_NODE_COMPUTE, "ampere_sgemm_128x64_nn", gpu, 0, 5, ORR_NONE);
    small_work(&s, ORR_NODE_COMPUTE, "my_kernel", gpu, 10, 5, ORR_NONE);
    small_work(&s, ORR_NODE_COLLECTIVE, "ncclDevKernel_AllReduce", gpu, 20, 5, ORR_NONE);
    small_job(&s);
    orr_work w;
    assert_int_equal(orr_work_of_node(s.graphs[0], 0, &w, &s.err), ORR_OK);
    assert_int_equal(w.family, ORR_FAMILY_GEMM);
    assert_int_equal(w.n_dims, 0);
    assert_string_equal(w.op, "");
    assert_int_equal(orr_work_of_node(s.graphs[0], 1, &w, &s.err), ORR_UNSUPPORTED);
    assert_int_equal(orr_work_of_node(s.graphs[0], 2, &w, &s.err), ORR_UNSUPPORTED);
    assert_int_equal(orr_work_of_node(s.graphs[0], 99, &w, &s.err), ORR_INVALID);
    small_end(&s);
}

/* The backward of a lookup says only the gradient's shape. What was handed over to it is the
 * lookup, or an operator just before. */
static void check_backward(bool before)
{
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), other = small_thread(&s, 2),
                   gpu = small_stream(&s, 0, 7);
    const char *lookup = "fbgemm::split_embedding_codegen_lookup_sgd_function";
    const char *back = "torch::autograd::CppNode<SplitLookupFunction_sgd_Op>";
    const uint32_t check =
        small_node(&s, ORR_NODE_HOST_OP, "fbgemm::bounds_check_indices", cpu, 0, 10, ORR_NONE);
    const uint32_t forward = small_node(&s, ORR_NODE_HOST_OP, lookup, cpu, 20, 100, ORR_NONE);
    const uint32_t engine = small_node(&s, ORR_NODE_HOST_OP, "autograd::engine::evaluate_function",
                                       other, 200, 100, ORR_NONE);
    const uint32_t op = small_node(&s, ORR_NODE_HOST_OP, back, other, 210, 80, engine);
    const uint32_t call = small_call(&s, other, 220, 5, op);
    const char *kernel = "split_embedding_backward_codegen_sgd_unweighted_kernel_warp_per_row_1";
    const char *often = "split_embedding_backward_codegen_sgd_unweighted_kernel_cta_per_row_1";
    const uint32_t work = small_work(&s, ORR_NODE_COMPUTE, kernel, gpu, 240, 50, call);
    const uint32_t blocks = small_work(&s, ORR_NODE_COMPUTE, often, gpu, 300, 50, call);
    assert_int_equal(
        orr_builder_dep(s.builder, engine, before ? check : forward, ORR_DEP_HANDOFF, &s.err),
        ORR_OK);
    /* two tables of 100 x 8, batch 5, 3 lookups a bag */
    small_shapes(&s, forward, "[[0], [1600], [0], [0], [2], [2], [3], [], [], [3], [], [30], [11]]",
                 NULL, NULL);
    small_shapes(&s, op, "[[5, 16]]", "[\"float\"]", NULL);
    small_job(&s);
    orr_work w;
    assert_int_equal(orr_work_of_node(s.graphs[0], work, &w, &s.err), ORR_OK);
    assert_int_equal(w.family, ORR_FAMILY_EMBEDDING_BACKWARD);
    assert_true(w.backward);
    const int64_t dims[] = {5, 100, 3, 8, 2};
    assert_memory_equal(w.dims, dims, sizeof dims);
    assert_int_equal(orr_work_of_node(s.graphs[0], blocks, &w, &s.err), ORR_OK);
    assert_int_equal(w.family, ORR_FAMILY_OTHER); /* no row is used more than 32 times */
    small_end(&s);
}

static void test_backward_asks_forward(void **state)
{
    (void)state;
    check_backward(false);
    check_backward(true);
}

/* Chakra has no calls: a kernel hangs on an operator, which may be one inside that means nothing.
 */
static void test_without_calls(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t mm = small_node(&s, ORR_NODE_HOST_OP, "aten::mm", cpu, 0, 100, ORR_NONE);
    const uint32_t empty = small_node(&s, ORR_NODE_HOST_OP, "aten::empty", cpu, 10, 10, mm);
    const uint32_t work =
        small_work(&s, ORR_NODE_COMPUTE, "volta_sgemm_128x64_nn", gpu, 30, 50, ORR_NONE);
    assert_int_equal(orr_builder_dep(s.builder, work, empty, ORR_DEP_CONTROL, &s.err), ORR_OK);
    small_shapes(&s, mm, "[[2, 3], [3, 4]]", NULL, NULL);
    small_job(&s);
    orr_work w;
    assert_int_equal(orr_work_of_node(s.graphs[0], work, &w, &s.err), ORR_OK);
    assert_int_equal(w.family, ORR_FAMILY_GEMM);
    assert_true(w.flops == 48);
    assert_string_equal(w.op, "aten::mm");
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix_product),
        cmocka_unit_test(test_helpers_get_nothing),
        cmocka_unit_test(test_tensor_cores_by_name),
        cmocka_unit_test(test_outer_operator_tells),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_element_wise),
        cmocka_unit_test(test_kernel_alone),
        cmocka_unit_test(test_backward_asks_forward),
        cmocka_unit_test(test_without_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
