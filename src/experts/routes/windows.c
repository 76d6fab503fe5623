/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "experts/routes/count.h"

orr_status orr_expert_windows_of_routes(const orr_routes *routes, uint32_t windows,
                                        orr_arena *arena, orr_expert_windows *ret, orr_error *err)
{
    const size_t experts = routes->experts;
    size_t n;
    if (windows == 0 || windows > routes->tokens)
        return orr_fail(err, ORR_INVALID, "%u windows of %llu tokens", windows,
                        (unsigned long long)routes->tokens);
    if (!orr_mul_size((size_t)windows * routes->layers, experts, &n))
        return orr_fail_memory(err);
    double *load = orr_arena_array(arena, double, n);
    uint64_t *count = orr_calloc(experts, sizeof *count);
    if (load == NULL || count == NULL) {
        orr_free(count);
        return orr_fail_memory(err);
    }
    for (uint32_t w = 0; w < windows; w++) {
        const uint64_t first =
            routes->tokens / windows * w + routes->tokens % windows * w / windows;
        const uint64_t end =
            routes->tokens / windows * (w + 1) + routes->tokens % windows * (w + 1) / windows;
        for (uint32_t l = 0; l < routes->layers; l++) {
            double *to = load + ((size_t)w * routes->layers + l) * experts;
            memset(count, 0, experts * sizeof *count);
            orr_routes_count(routes, l, first, end - first, count);
            for (size_t e = 0; e < experts; e++)
                to[e] = (double)count[e];
        }
    }
    orr_free(count);
    *ret = (orr_expert_windows){.windows = windows,
                                .layers = routes->layers,
                                .experts = routes->experts,
                                .number = routes->number,
                                .load = load,
                                .source = routes->source};
    return ORR_OK;
}
