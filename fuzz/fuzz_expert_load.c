/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <orrery/graph.h>

#include "fuzz.h"
#include "experts/routes/load.h"

static void check_load(const orr_expert_load *load)
{
    FUZZ_CHECK(load->layers > 0 && load->experts > 0 && load->tokens > 0);
    for (uint32_t l = 0; l < load->layers; l++) {
        double sum = 0;
        for (uint32_t e = 0; e < load->experts; e++) {
            const double share = load->share[(size_t)l * load->experts + e];
            FUZZ_CHECK(share >= 0 && share <= 1);
            sum += share;
        }
        FUZZ_CHECK(fabs(sum - 1) < 1e-9);
    }
    FUZZ_CHECK(orr_expert_imbalance(load, ORR_NONE, 1) == 1);
    FUZZ_CHECK(orr_expert_imbalance(load, ORR_NONE, 8) > 1 - 1e-9);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const char *const phases[] = {NULL, "p", "d"};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_stream *stream;
    orr_expert_load load;
    orr_error err = {0};
    if (orr_stream_open_memory(bytes, len, &stream, &err) == ORR_OK) {
        const orr_status status = orr_expert_load_from(
            stream, "input", phases[fuzz_choice(bytes, len) % 3], arena, &load, &err);
        FUZZ_CHECK(status == ORR_OK || status == ORR_PARSE || status == ORR_LIMIT);
        if (status == ORR_OK)
            check_load(&load);
        orr_stream_close(stream);
    }
    orr_arena_free(arena);
    return 0;
}
