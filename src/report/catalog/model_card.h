/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_CATALOG_MODEL_CARD_H
#define ORR_REPORT_CATALOG_MODEL_CARD_H

#include <orrery/model.h>

/* What a model is, in lines that people read, each with the source of its numbers. `size`: as
 * measured; of an incomplete model it is not looked at. */
orr_status orr_model_card(const orr_model *model, const orr_model_size *size, orr_arena *arena,
                          const orr_model_note **ret, uint32_t *ret_n,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPORT_CATALOG_MODEL_CARD_H */
