/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_ARCH_DLRM_H
#define ORR_MODEL_ARCH_DLRM_H

#include <orrery/model.h>

static inline int64_t orr_dlrm_pooling(const orr_dlrm *dlrm, uint32_t table)
{
    return (int64_t)(dlrm->tables[table].pooling + 0.5);
}

#endif /* ORR_MODEL_ARCH_DLRM_H */
