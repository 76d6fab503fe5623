/* SPDX-License-Identifier: Apache-2.0 */
#include "recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    return fuzz_recording(bytes, len, ORR_FORMAT_ROCPD, fuzz_check_order);
}
