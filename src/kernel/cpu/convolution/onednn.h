/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_H
#define ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_H

#include <stdbool.h>

#include <orrery/kernel.h>

/* Convolutions by oneDNN, where it is installed: its kernels are generated for a shape and keep
 * images blocked by channels. The library is opened by the first call that could use it; what it
 * does not support is left to the built-in kernels.
 *
 * ORRERY_PRODUCTS in the environment: "own" never uses it, "onednn" uses it at any CPU level; by
 * default it is used from AVX-512 on, where it was measured to be faster. */
bool orr_onednn_available(void);

/* Bytes of scratch for a call, whose built-in kernel needs `own`: enough for either, since
 * prepare() may still find that oneDNN does not support the call. */
size_t orr_onednn_workspace(const orr_kernel_call *call, size_t own);
/* *ret NULL: the call is not supported by oneDNN. */
orr_status orr_onednn_prepare(const orr_kernel_call *call, void **ret,
                              orr_error *err) ORR_MUST_CHECK;
void orr_onednn_release(void *state);
/* Runs a call that has been prepared with a state. */
void orr_onednn_run(const orr_kernel_call *call);

#endif /* ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_H */
