/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_CLOSEST_H
#define ORR_BASE_CLOSEST_H

#include <stddef.h>

/* The candidate closest to `word`, if one is close, begins with it or holds it: "did you mean". NULL: none. Threads: any. */
const char *orr_closest_match(const char *word, const char *const *candidates, size_t n);

#endif /* ORR_BASE_CLOSEST_H */
