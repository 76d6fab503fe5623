/* SPDX-License-Identifier: Apache-2.0 */
#include "leaks.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

/* Only there in a sanitized build. */
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

void restart_without_caches(char **argv)
{
    if (getenv("GLIBC_TUNABLES"))
        return;
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    execv("/proc/self/exe", argv);
}

size_t allocated_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

bool nothing_leaked(void)
{
    return !__lsan_do_recoverable_leak_check || __lsan_do_recoverable_leak_check() == 0;
}
