/* SPDX-License-Identifier: Apache-2.0 */
#include "model/spec/parameters.h"

#include <string.h>

void orr_parameter_count_add(orr_parameter_count *m, const char *name, uint64_t count, int64_t each,
                             uint64_t met, int64_t multiplied)
{
    if (count == 0 || each == 0)
        return;
    m->parts[m->n++] = (orr_model_part){name, count, each, orr_saturating_mul((int64_t)met, each)};
    m->matmul = orr_saturating_add(m->matmul, orr_saturating_mul((int64_t)met, multiplied));
}

orr_status orr_parameter_count_model(const orr_model *model, orr_parameter_count *ret,
                                     orr_model_size *ret_size, orr_error *err)
{
    orr_parameter_count m = {0};
    orr_model_size size = {0};
    switch ((orr_model_kind)model->kind) {
    case ORR_MODEL_TRANSFORMER:
        orr_parameter_count_transformer(model, &m);
        size.mtp = orr_parameter_count_mtp(model);
        break;
    case ORR_MODEL_DLRM:
        orr_parameter_count_dlrm(model, &m);
        break;
    case ORR_MODEL_CONVOLUTIONAL:
        orr_parameter_count_resnet(model, &m);
        break;
    }
    for (uint32_t i = 0; i < m.n; i++) {
        size.total = orr_saturating_add(
            size.total, orr_saturating_mul((int64_t)m.parts[i].count, m.parts[i].each));
        size.active = orr_saturating_add(size.active, m.parts[i].active);
    }
    if (size.total == INT64_MAX || m.matmul == INT64_MAX || size.mtp == INT64_MAX)
        return orr_fail(err, ORR_INVALID, "model '%s' has more parameters than 63 bits count",
                        model->name);
    size.n = m.n;
    size.matmul = m.matmul;
    *ret = m;
    *ret_size = size;
    return ORR_OK;
}

orr_status orr_model_count_parameters(const orr_model *model, orr_arena *arena, orr_model_size *ret,
                                      orr_error *err)
{
    orr_parameter_count m;
    orr_model_size size;
    if (model->incomplete)
        return orr_fail(err, ORR_UNSUPPORTED, "the shape of %s is not published", model->title);
    ORR_TRY(orr_parameter_count_model(model, &m, &size, err));
    orr_model_part *parts = orr_arena_array(arena, orr_model_part, m.n);
    if (parts == NULL)
        return orr_fail_memory(err);
    memcpy(parts, m.parts, m.n * sizeof *parts);
    size.parts = parts;
    *ret = size;
    return ORR_OK;
}
