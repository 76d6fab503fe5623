/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_CPU_H
#define ORR_BASE_CPU_H

/* The pause instruction of a spin loop: it leaves the core to its other hyper-thread, and saves
 * the mis-speculated loads at the loop's end. */
static inline void orr_cpu_relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
}

#endif /* ORR_BASE_CPU_H */
