/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_H
#define ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_H

#include <stdbool.h>

#include <orrery/kernel.h>

/* Convolutions by oneDNN, where it is installed: its kernels are compiled for a shape, and keep
 * images in vectors of channels. The library is opened by the first call that could use it, and
 * what it cannot do is left to the kernels here.
 *
 * ORRERY_PRODUCTS in the environment: "own" does without it, "onednn" asks for it at any level of
 * the processor; else it is used from AVX-512 on, where it was measured. */
bool orr_onednn_available(void);

/* Bytes of scratch that a call needs, which takes `own` where it is not made by oneDNN: enough for
 * both ways, since prepare() may still find that it is not. */
size_t orr_onednn_workspace(const orr_kernel_call *call, size_t own);
/* *ret NULL: the call is not made by oneDNN. */
orr_status orr_onednn_prepare(const orr_kernel_call *call, void **ret,
                              orr_error *err) ORR_MUST_CHECK;
void orr_onednn_release(void *state);
/* Of a call with a state. */
void orr_onednn_run(const orr_kernel_call *call);

#endif /* ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_H */
