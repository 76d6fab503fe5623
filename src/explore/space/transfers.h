/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_SPACE_TRANSFERS_H
#define ORR_EXPLORE_SPACE_TRANSFERS_H

#include "explore/explore.h"

/* Fields of transfers: algorithms, pieces, buckets, transports. The first ones are walked; the
 * others are chosen late, for each candidate alone: until then, bounds are those of the best
 * choice. */
enum { ORR_TRANSFER_FIELDS = 10, ORR_TRANSFER_WALKED = 2, ORR_TRANSFER_REDUCTIONS = 6 };
extern const uint8_t ORR_TRANSFER_FIELD[ORR_TRANSFER_FIELDS];

/* How many values of the field the plan may have, the first of its list. `crosses`: whether its
 * gradients go from site to site. */
uint32_t orr_transfer_values(const orr_space *space, const orr_plan *plan, bool crosses,
                             uint32_t field);
/* Sets the i-th value of the field. */
void orr_transfer_put(const orr_space *space, orr_plan *plan, uint32_t field, uint32_t i);
/* Number of combinations. */
double orr_transfer_count(const orr_space *space, const orr_plan *plan, bool crosses);
/* Whether each field of the completed plan has a value that it may have. */
bool orr_transfer_is_listed(const orr_space *space, const orr_plan *plan);

#endif /* ORR_EXPLORE_SPACE_TRANSFERS_H */
