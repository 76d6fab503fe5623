/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_REFERENCE_EXPERTS_MAVERICK_H
#define TESTS_REFERENCE_EXPERTS_MAVERICK_H

#include "../csv.h"

#include <orrery/experts.h>

/* The file of the routes of Llama 4 Maverick on three subjects of MMLU: 387 requests, 24 layers of
 * 128 experts. The test is skipped where it is not at hand. In a static buffer. */
static inline const char *maverick_path(void)
{
    static char path[4096];
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL) {
        print_message("ORRERY_SHARED is not set: the routes of Maverick are not read\n");
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/data/experts/llama4_maverick_mmlu.csv.gz", shared);
    return path;
}

static inline const orr_routes *maverick_routes(orr_arena *arena)
{
    const orr_routes *ret = NULL;
    orr_routes_options options;
    orr_error err = {0};
    orr_routes_options_init(&options);
    options.experts = 128;
    if (orr_routes_read(maverick_path(), &options, arena, &ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return ret;
}

#endif /* TESTS_REFERENCE_EXPERTS_MAVERICK_H */
