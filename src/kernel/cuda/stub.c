/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/kernel.h>

orr_status orr_backend_cuda(int device, orr_backend **ret, orr_error *err)
{
    (void)device, (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED, "no GPU: this Orrery was built without CUDA");
}
