/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "report/humanize/short_name.h"

static void check(const char *name, const char *want)
{
    char buf[512];
    assert_int_equal(orr_short_name(name, buf, sizeof buf), strlen(want));
    assert_string_equal(buf, want);
}

static void kernels_say_what_they_do(void **state)
{
    (void)state;
    check("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
          "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, "
          "at::detail::Array<char*, 3>)",
          "vectorized_elementwise_kernel<CUDAFunctor_add<float>>");
    check("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
          "at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
          "at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, "
          "at::native::BinaryFunctor<c10::BFloat16> const&)::{lambda(int)#1}>(int, int)",
          "elementwise_kernel<BinaryFunctor<MulFunctor<float>>>");
    check("void at::native::vectorized_elementwise_kernel<4, at::native::sigmoid_kernel_cuda("
          "at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda()#4}::operator()() "
          "const::{lambda(float, float)#1}, at::detail::Array<char*, 2> >(int, float)",
          "vectorized_elementwise_kernel<sigmoid_kernel_cuda<float>>");
    check("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>(float*, "
          "float const*, int, int, int)",
          "softmax_warp_forward<float>");
    check("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>("
          "cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4::Params)",
          "cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4");
    check("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
          "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    check("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, 7, "
          "cublasGemvParams<float> >(int)",
          "kernel<cublasGemvParams<float>>");
    check("cask_cudnn_infer::computeBOffsetsKernel(cask_cudnn_infer::ComputeBOffsetsParams)",
          "computeBOffsetsKernel");
    check("void foo<unsigned long long>(int) [clone .kd]", "foo<unsigned long long>");
}

static void what_is_no_signature_stays(void **state)
{
    static const char *const names[] = {
        "",
        "aten::mm",
        "volta_sgemm_128x32_nt",
        "Memcpy HtoD (Pageable -> Device)",
        "torch/nn/modules/linear.py(114): forward",
        "<built-in method linear of type object at 0x7f>",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "ProfilerStep#3",
        "## forward ##",
        "autograd::engine::evaluate_function: torch::autograd::CppNode<Lookup>",
        "nccl:all_reduce",
        "Optimizer.step#SGD.step",
        "a < b",
        "operator<<(int)",
        "f(",
        "<",
        ">",
        "()",
        "::<>()",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "triton_poi_fused_add_0",
        "void at::native::cut_off_by_the_recorder<4, at::native::CUDAFun"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        check(names[i], names[i]);
}

static void lists_are_shortened_name_by_name(void **state)
{
    (void)state;
    check("volta_sgemm, void at::foo<at::Bar<float> >(int, int), Memset (Device)",
          "volta_sgemm, foo<Bar<float>>, Memset (Device)");
    check("aten::mm|void a::b<float>(int)|c", "aten::mm|b<float>|c");
}

static void any_bytes_are_survived(void **state)
{
    static const char alphabet[] = "<>(){}[]:,& *ab_~0-|";
    uint32_t random = 12345;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char name[64], buf[32];
        const size_t n = round % 60;
        for (size_t i = 0; i < n; i++) {
            random = random * 1664525 + 1013904223;
            name[i] = alphabet[(random >> 16) % (sizeof alphabet - 1)];
        }
        name[n] = '\0';
        const size_t length = orr_short_name(name, buf, sizeof buf);
        assert_int_equal(length, strlen(buf));
        assert_true(strlen(buf) < sizeof buf);
    }
}

static void deep_and_long_names_end_soon(void **state)
{
    enum { DEPTH = 200, LONG = 60000 };
    char *name = malloc(LONG + 1), buf[256];
    size_t n = (size_t)snprintf(name, LONG, "void ");
    (void)state;
    for (int i = 0; i < DEPTH; i++)
        n += (size_t)snprintf(name + n, LONG - n, "a<");
    n += (size_t)snprintf(name + n, LONG - n, "int");
    for (int i = 0; i < DEPTH; i++)
        name[n++] = '>';
    snprintf(name + n, LONG - n, "(int)");
    orr_short_name(name, buf, sizeof buf);
    assert_string_equal(buf, "a<a<a<a>>>");
    memset(name, 'x', LONG);
    name[LONG] = '\0';
    assert_int_equal(orr_short_name(name, buf, sizeof buf), sizeof buf - 1);
    assert_int_equal(orr_short_name(name, buf, 0), 0);
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_say_what_they_do),
        cmocka_unit_test(what_is_no_signature_stays),
        cmocka_unit_test(lists_are_shortened_name_by_name),
        cmocka_unit_test(any_bytes_are_survived),
        cmocka_unit_test(deep_and_long_names_end_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
