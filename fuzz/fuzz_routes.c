/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <orrery/graph.h>

#include "fuzz.h"
#include "../tests/robust/route_checks.h"
#include "experts/routes/load.h"
#include "experts/routes/read.h"

/* Routes of any form, and the loads that they come to; loads are read from windows, too. */

static void check_load(const orr_expert_load *load)
{
    FUZZ_CHECK(load->layers > 0 && load->experts > 0);
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

static void read_as_routes(const uint8_t *bytes, size_t len, uint64_t choice)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_routes *routes;
    orr_stream *stream;
    orr_error err = {0};
    orr_routes_options o;
    orr_routes_options_init(&o);
    o.phase = (int)(choice % 4) - 1 > 1 ? -1 : (int)(choice % 4) - 1;
    o.experts = choice % 5 == 0 ? 64 : 0;
    o.keep_warm_up = choice % 3 == 0;
    if (orr_stream_open_memory(bytes, len, &stream, &err) == ORR_OK) {
        const orr_status status = orr_routes_read_stream(stream, "input", &o, arena, &routes, &err);
        FUZZ_CHECK(status == ORR_OK ? routes_are_sound(routes)
                                    : is_refusal(status) && err.text[0] != '\0');
        orr_stream_close(stream);
    }
    orr_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const char *const phases[] = {NULL, "p", "d"};
    const uint64_t choice = fuzz_choice(bytes, len);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_stream *stream;
    orr_expert_load load;
    orr_error err = {0};
    read_as_routes(bytes, len, choice);
    if (orr_stream_open_memory(bytes, len, &stream, &err) == ORR_OK) {
        const orr_status status =
            orr_expert_load_from(stream, "input", phases[choice % 3], arena, &load, &err);
        FUZZ_CHECK(status == ORR_OK || is_refusal(status));
        if (status == ORR_OK)
            check_load(&load);
        orr_stream_close(stream);
    }
    orr_arena_free(arena);
    return 0;
}
