/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/kernel_work/work.h"

static void test_names_from_recordings(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned family;
    } CASES[] = {
        {"volta_sgemm_128x64_nt", ORR_FAMILY_GEMM},
        {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize",
         ORR_FAMILY_GEMM},
        {"void gemv2T_kernel_val<int, float>", ORR_FAMILY_GEMM},
        {"Cijk_Ailk_Bljk_SB_MT64x64x16", ORR_FAMILY_GEMM},
        {"void splitKreduce_kernel<32, 16>", ORR_FAMILY_HELPER},
        {"volta_scudnn_128x64_relu_interior_nn_v1", ORR_FAMILY_CONVOLUTION},
        {"void cudnn::cnn::wgrad_alg0_engine<float, 512>", ORR_FAMILY_CONVOLUTION},
        {"void implicit_convolve_sgemm<float, float, 128>", ORR_FAMILY_CONVOLUTION},
        {"void cudnn::winograd_nonfused::winogradForwardData4x4<float>", ORR_FAMILY_HELPER},
        {"cask_cudnn::computeOffsetsKernel(cask_cudnn::ComputeOffsetsParams)", ORR_FAMILY_HELPER},
        {"void cudnn::bn_fw_tr_1C11_singleread<float, 512>", ORR_FAMILY_NORM},
        {"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd>", ORR_FAMILY_ATTENTION},
        {"void split_embedding_codegen_forward_unweighted_kernel<float>",
         ORR_FAMILY_EMBEDDING_FORWARD},
        {"split_embedding_backward_codegen_rowwise_adagrad_unweighted",
         ORR_FAMILY_EMBEDDING_BACKWARD},
        {"split_embedding_backward_codegen_sgd_unweighted_kernel_cta_per_row_1",
         ORR_FAMILY_EMBEDDING_BACKWARD},
        {"split_embedding_backward_codegen_sgd_unweighted_find_long_segments", ORR_FAMILY_HELPER},
        {"void fbgemm_gpu::permute_2D_data_kernel<false, int>", ORR_FAMILIES},
        {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>", ORR_FAMILY_CONCAT},
        {"void at::native::vectorized_elementwise_kernel<4, relu>", ORR_FAMILY_ELEMENTWISE},
        {"void at::native::reduce_kernel<512, 1, sum>", ORR_FAMILY_REDUCTION},
        {"void multi_tensor_apply_kernel<TensorListMetadata<4> >", ORR_FAMILY_OPTIMIZER},
        {"void (anonymous namespace)::softmax_warp_forward<float>", ORR_FAMILY_SOFTMAX},
        {"triton_poi_fused_add_0", ORR_FAMILY_ELEMENTWISE},
        {"my_kernel", ORR_FAMILIES},
        {"", ORR_FAMILIES},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        if (orr_kernel_family_by_name(CASES[i].name) != CASES[i].family)
            fail_msg("%s is family %u", CASES[i].name, orr_kernel_family_by_name(CASES[i].name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names_from_recordings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
