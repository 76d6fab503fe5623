/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/cpu_level.h"

#include <stdio.h>
#include <string.h>

#if ORR_X86
#include <cpuid.h>

/* CPUID leaves 0x80000002 to 0x80000004 hold a name of 48 characters, padded on either side. */
void orr_cpu_model(char *ret, size_t size)
{
    unsigned words[13] = {0};
    for (unsigned leaf = 0; leaf < 3; leaf++) {
        unsigned *w = &words[4 * leaf];
        if (!__get_cpuid(0x80000002u + leaf, &w[0], &w[1], &w[2], &w[3]))
            break;
    }
    char name[sizeof words];
    memcpy(name, words, sizeof words);
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] == ' ')
        name[--n] = '\0';
    const char *start = name + strspn(name, " ");
    (void)snprintf(ret, size, "%s", *start != '\0' ? start : "x86-64");
}
#else
void orr_cpu_model(char *ret, size_t size)
{
    (void)snprintf(ret, size, "processor");
}
#endif
