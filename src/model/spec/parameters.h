/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SPEC_PARAMETERS_H
#define ORR_MODEL_SPEC_PARAMETERS_H

#include <orrery/model.h>

/* Saturating arithmetic for counting parameters: a count that does not fit stays at the maximum,
 * which orr_model_count_parameters() refuses in the end. */
static inline int64_t orr_saturating_mul(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}
static inline int64_t orr_saturating_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}
/* Parameters of a linear layer, with or without bias. */
static inline int64_t orr_linear_parameters(int64_t in, int64_t out, bool bias)
{
    return orr_saturating_add(orr_saturating_mul(in, out), bias ? out : 0);
}

/* Parts of a model while they are counted. */
enum { ORR_PARAMETER_COUNT_PARTS = 16 };
typedef struct orr_parameter_count {
    orr_model_part parts[ORR_PARAMETER_COUNT_PARTS];
    uint32_t n;
    int64_t matmul;
} orr_parameter_count;
/* Adds a part: `count` copies with `each` parameters, of which a token activates `met`; each of
 * these has `multiplied` parameters in matrix products. A count of 0 adds nothing. */
void orr_parameter_count_add(orr_parameter_count *m, const char *name, uint64_t count, int64_t each,
                             uint64_t met, int64_t multiplied);

/* Counts a model whose shape is known; the size is without its parts. INVALID: does not fit. */
orr_status orr_parameter_count_model(const orr_model *model, orr_parameter_count *ret,
                                     orr_model_size *ret_size, orr_error *err) ORR_MUST_CHECK;
void orr_parameter_count_transformer(const orr_model *model, orr_parameter_count *m);
int64_t orr_parameter_count_mtp(const orr_model *model);
/* Vision encoder and adapter; `multiplied`: for one patch, for one output vector of the encoder,
 * and for one token of the model. */
int64_t orr_parameter_count_vision(const orr_model *model);
void orr_parameter_count_dlrm(const orr_model *model, orr_parameter_count *m);
void orr_parameter_count_resnet(const orr_model *model, orr_parameter_count *m);
/* Forward FLOPs of one sample. */
double orr_flops_dlrm(const orr_model *model);
double orr_flops_resnet(const orr_model *model);

#endif /* ORR_MODEL_SPEC_PARAMETERS_H */
