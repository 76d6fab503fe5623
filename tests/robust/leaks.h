/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_ROBUST_LEAKS_H
#define ORR_TESTS_ROBUST_LEAKS_H

#include <stdbool.h>
#include <stddef.h>

/* Run this program again with malloc's caches of threads off, so that allocated_bytes() is exact.
 * To be called first thing in main(). */
void restart_without_caches(char **argv);

/* Bytes that are allocated now, while one thread runs. Always the same under a sanitizer, which
 * looks for leaks by itself. */
size_t allocated_bytes(void);

/* What a sanitizer says; true where there is none. */
bool nothing_leaked(void);

#endif /* ORR_TESTS_ROBUST_LEAKS_H */
