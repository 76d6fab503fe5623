/* SPDX-License-Identifier: Apache-2.0 */
#include "weights_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_weights *weights;
    orr_error err = {.text = ""};
    if (open_input(bytes, len, &weights, &err) != ORR_OK)
        return 0;
    check_weights(weights);
    orr_weights_close(weights);
    return 0;
}
