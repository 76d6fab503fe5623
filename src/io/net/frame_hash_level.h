/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3 compiled for one level of the CPU: the file that includes this defines HASH_TARGET (as in
 * target("...")), XXH_VECTOR and HASH_NAME. Each level is a file of its own, since the library's
 * header can be compiled for one only. */
#include <immintrin.h>
#ifdef __clang__
#define HASH_ATTRIBUTE __attribute__((target(HASH_TARGET)))
#pragma clang attribute push(HASH_ATTRIBUTE, apply_to = function)
#else
#define HASH_PRAGMA(text) _Pragma(#text)
#define HASH_USE(target_) HASH_PRAGMA(GCC target(target_))
#pragma GCC push_options
HASH_USE(HASH_TARGET)
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t HASH_NAME(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
