/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/kernel_work/work.h"

static void test_families(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        unsigned family;
        bool backward;
    } CASES[] = {
        {"aten::mm", ORR_FAMILY_GEMM, false},
        {"aten::baddbmm_", ORR_FAMILY_GEMM, false},
        {"aten::cudnn_convolution", ORR_FAMILY_CONVOLUTION, false},
        {"aten::cudnn_convolution_backward_input", ORR_FAMILY_CONVOLUTION, true},
        {"aten::convolution_backward", ORR_FAMILY_CONVOLUTION, true},
        {"aten::_flash_attention_forward", ORR_FAMILY_ATTENTION, false},
        {"aten::_scaled_dot_product_efficient_attention", ORR_FAMILY_ATTENTION, false},
        {"aten::_scaled_dot_product_flash_attention_backward", ORR_FAMILY_ATTENTION, true},
        {"fbgemm::split_embedding_codegen_lookup_sgd_function", ORR_FAMILY_EMBEDDING_FORWARD,
         false},
        {"fbgemm::dense_embedding_codegen_lookup_function", ORR_FAMILY_EMBEDDING_FORWARD, false},
        {"torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>",
         ORR_FAMILY_EMBEDDING_BACKWARD, true},
        {"aten::_embedding_bag", ORR_FAMILY_EMBEDDING_FORWARD, false},
        {"LookupFunctionBackward", ORR_FAMILY_EMBEDDING_BACKWARD, true},
        {"aten::cat", ORR_FAMILY_CONCAT, false},
        {"aten::copy_", ORR_FAMILY_COPY, false},
        {"aten::index", ORR_FAMILY_INTERACTION, false},
        {"aten::cudnn_batch_norm", ORR_FAMILY_NORM, false},
        {"aten::cudnn_batch_norm_backward", ORR_FAMILY_NORM, true},
        {"aten::native_layer_norm_backward", ORR_FAMILY_NORM, true},
        {"aten::_log_softmax", ORR_FAMILY_SOFTMAX, false},
        {"aten::_softmax_backward_data", ORR_FAMILY_SOFTMAX, true},
        {"aten::sum", ORR_FAMILY_REDUCTION, false},
        {"aten::_foreach_add_", ORR_FAMILY_OPTIMIZER, false},
        {"Optimizer.step#SGD.step", ORR_FAMILY_OPTIMIZER, false},
        {"aten::threshold_backward", ORR_FAMILY_ELEMENTWISE, false},
        {"aten::add_", ORR_FAMILY_ELEMENTWISE, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const orr_op_rule *rule = orr_op_rule_of(CASES[i].op);
        if (rule == NULL)
            fail_msg("no rule for %s", CASES[i].op);
        if (rule->family != CASES[i].family || rule->backward != CASES[i].backward)
            fail_msg("%s is %s", CASES[i].op,
                     orr_kernel_family_name((orr_kernel_family)rule->family));
    }
}

static void test_unknown_operators(void **state)
{
    (void)state;
    assert_null(orr_op_rule_of(""));
    assert_null(orr_op_rule_of("_"));
    assert_null(orr_op_rule_of("aten::"));
    assert_null(orr_op_rule_of("aten::mm_out_of_the_ordinary"));
    assert_null(orr_op_rule_of("nccl:all_reduce"));
}

/* As the DLRM model counts them by hand. */
static void test_flops_of_elements(void **state)
{
    (void)state;
    assert_true(orr_op_rule_of("aten::sigmoid")->flops == 4);
    assert_true(orr_op_rule_of("aten::sigmoid_backward")->flops == 2);
    assert_true(orr_op_rule_of("aten::gelu")->flops == 175);
    assert_true(orr_op_rule_of("aten::tanh")->flops == 180);
    assert_true(orr_op_rule_of("aten::binary_cross_entropy_with_logits")->flops == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_unknown_operators),
        cmocka_unit_test(test_flops_of_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
