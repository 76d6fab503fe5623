/* SPDX-License-Identifier: Apache-2.0 */
/* Built without liburing. */
#include "io/block/parts.h"

bool orr_block_use_uring(orr_block_file *file, const char **ret_reason)
{
    (void)file;
    *ret_reason = "built without liburing";
    return false;
}
