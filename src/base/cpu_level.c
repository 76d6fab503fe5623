/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu_level.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = {
#define NAME_(name, text) text,
    ORR_CPU_LEVEL_MAP(NAME_)
#undef NAME_
};

enum { NOT_KNOWN = -1 };
static atomic_int level = NOT_KNOWN;

#if ORR_X86
#include <cpuid.h>

/* CPU features for which compilers have no common name in __builtin_cpu_supports, by Intel's
 * Software Developer's Manual, volume 2A, CPUID: F16C is leaf 1, ECX bit 29; AMX is leaf 7, EDX
 * bits 22 (bf16) and 24 (tiles). */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1) != 0;
}

static bool has_amx(void)
{
    unsigned a, b, c, d;
    const unsigned wanted = 1u << 22 | 1u << 24;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted;
}

static orr_cpu_level_id level_of_processor(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return ORR_CPU_PLAIN;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return ORR_CPU_AVX2;
    if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vnni") ||
        !__builtin_cpu_supports("avx512vbmi"))
        return ORR_CPU_AVX512;
    return has_amx() ? ORR_CPU_AMX : ORR_CPU_AVX512_BF16;
}
#else
static orr_cpu_level_id level_of_processor(void)
{
    return ORR_CPU_PLAIN;
}
#endif

static orr_cpu_level_id level_asked_for(void)
{
    const char *asked = getenv("ORRERY_CPU");
    for (int i = 0; asked != NULL && i < ORR_CPU_LEVELS; i++)
        if (strcmp(asked, NAMES[i]) == 0)
            return (orr_cpu_level_id)i;
    return ORR_CPU_LEVELS;
}

orr_cpu_level_id orr_cpu_level(void)
{
    int known = atomic_load_explicit(&level, memory_order_relaxed);
    if (known == NOT_KNOWN) {
        orr_cpu_level_limit(level_asked_for());
        known = atomic_load_explicit(&level, memory_order_relaxed);
    }
    return (orr_cpu_level_id)known;
}

const char *orr_cpu_level_name(orr_cpu_level_id which)
{
    return NAMES[which];
}

void orr_cpu_level_limit(orr_cpu_level_id limit)
{
    const orr_cpu_level_id has = level_of_processor();
    atomic_store(&level, (int)(limit < has ? limit : has));
}
