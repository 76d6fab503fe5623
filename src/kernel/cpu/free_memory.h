/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_FREE_MEMORY_H
#define ORR_KERNEL_CPU_FREE_MEMORY_H

#include <stdint.h>

/* Bytes that can still be allocated before the system swaps or the control group kills: the least
 * of MemAvailable and what each control group above this process has left. Folders: /proc and
 * /sys/fs/cgroup, others in tests. -1: unknown. */
int64_t orr_memory_free_bytes(const char *proc, const char *cgroup);

#endif /* ORR_KERNEL_CPU_FREE_MEMORY_H */
