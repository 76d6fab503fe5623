/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/convolution/onednn.h"

/* Stubs for a build without oneDNN's header. */

bool orr_onednn_available(void)
{
    return false;
}

size_t orr_onednn_workspace(const orr_kernel_call *call, size_t own)
{
    (void)call;
    return own;
}

orr_status orr_onednn_prepare(const orr_kernel_call *call, void **ret, orr_error *err)
{
    (void)call, (void)err;
    *ret = NULL;
    return ORR_OK;
}

void orr_onednn_release(void *state)
{
    (void)state;
}

void orr_onednn_run(const orr_kernel_call *call)
{
    (void)call;
}
