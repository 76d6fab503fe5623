/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <orrery/feeder.h>

/* Whatever the bytes are, a feeder ends: each node is issued once, in a window of any size. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_feeder *feeder;
    const orr_feeder_node *node;
    orr_error err;
    orr_feeder_options options;
    size_t n = 0;
    orr_feeder_options_init(&options);
    options.window = 1 + (uint32_t)fuzz_choice(bytes, len) % 16;
    options.control = len % 2 != 0;
    if (orr_feeder_open_memory(bytes, len, &options, &feeder, &err) != ORR_OK)
        return 0;
    while (orr_feeder_next(feeder, &node, &err) == ORR_OK && node != NULL) {
        orr_feeder_value value;
        (void)orr_feeder_number(node, "comm_size", 0);
        for (uint32_t i = 0; orr_feeder_attr(node, "involved_dim", i, &value) && i < 100; i++)
            FUZZ_CHECK(value.list || i == 0);
        if (n++ % 5 == 0) {
            FUZZ_CHECK(orr_feeder_push_back(feeder, node->id, &err) == ORR_OK);
            continue;
        }
        FUZZ_CHECK(orr_feeder_done(feeder, node->id, &err) == ORR_OK);
        FUZZ_CHECK(n <= 2 * len + 2);
    }
    orr_feeder_close(feeder);
    return 0;
}
