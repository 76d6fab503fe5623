/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_ROUTES_COUNT_H
#define ORR_EXPERTS_ROUTES_COUNT_H

#include <orrery/experts.h>

/* Adds how often each expert of a layer (an index) was chosen by `n` tokens from `first` on. ret:
 * shape (E). About a cycle for each choice where experts are below 256. */
void orr_routes_count(const orr_routes *routes, uint32_t layer, uint64_t first, uint64_t n,
                      uint64_t *ret);

#endif /* ORR_EXPERTS_ROUTES_COUNT_H */
