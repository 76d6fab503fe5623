/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FUZZ_H
#define ORR_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A fuzzer is one file fuzz_<name>.c with this function, a name in meson.build and some seeds in
 * corpus/<name>/. Inputs are taken as they are, so that any file of the format is a seed; what
 * else a run needs to choose comes from fuzz_choice(). */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A number that depends on the input alone (FNV-1a). */
static inline uint64_t fuzz_choice(const uint8_t *bytes, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash >> 8;
}

#endif /* ORR_FUZZ_H */
