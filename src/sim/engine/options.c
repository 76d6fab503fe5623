/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine/options.h"

#include <math.h>
#include <string.h>

void orr_sim_latencies_init(orr_sim_latencies *constants)
{
    *constants = (orr_sim_latencies){.launch_latency_ns = -1,
                                     .kernel_gap_ns = -1,
                                     .sync_return_ns = -1,
                                     .handoff_ns = -1,
                                     .event_latency_ns = -1,
                                     .resume_ns = -1,
                                     .copy_launch_ns = -1,
                                     .copy_gap_ns = -1};
}

void orr_sim_options_init(orr_sim_options *options)
{
    *options = (orr_sim_options){.struct_bytes = sizeof *options,
                                 .network = ORR_NETWORK_RECORDED,
                                 .algorithm = ORR_ALGORITHM_AUTO,
                                 .host_speed = 1,
                                 .queue_depth = 1024,
                                 .compute_slowdown = 1,
                                 .comm_slowdown = 1,
                                 .fold = true};
    orr_sim_latencies_init(&options->constants);
}

const char *orr_network_mode_name(orr_network_mode mode)
{
    switch (mode) {
#define NAME_OF(name, text)                                                                        \
    case ORR_NETWORK_##name:                                                                       \
        return text;
        ORR_NETWORK_MODE_MAP(NAME_OF)
#undef NAME_OF
    }
    return "";
}

static bool is_slowdown(double factor)
{
    return factor >= 1 && factor <= 1000; /* false for NaN */
}

orr_status orr_sim_options_complete(const orr_sim_options *given, orr_sim_options *ret,
                                    orr_error *err)
{
    orr_sim_options options;
    orr_sim_options_init(&options);
    if (given != NULL) {
        /* A caller that was built against an older header has a shorter struct. */
        const size_t bytes =
            given->struct_bytes < sizeof options ? given->struct_bytes : sizeof options;
        memcpy(&options, given, bytes);
        options.struct_bytes = sizeof options;
    }
    if (!(options.host_speed >= 1e-6 && options.host_speed <= 1e6))
        return orr_fail(err, ORR_INVALID, "host speed %g: must be from 0.000001 to 1000000",
                        options.host_speed);
    if (!is_slowdown(options.compute_slowdown) || !is_slowdown(options.comm_slowdown))
        return orr_fail(err, ORR_INVALID, "slowdowns of overlap %g and %g: must be from 1 to 1000",
                        options.compute_slowdown, options.comm_slowdown);
    if (options.queue_depth == 0)
        return orr_fail(err, ORR_INVALID, "a stream must hold at least one launch");
    if (options.network > ORR_NETWORK_FLOWS || options.algorithm >= ORR_ALGORITHMS)
        return orr_fail(err, ORR_INVALID, "no such network mode or algorithm");
    if (options.network != ORR_NETWORK_RECORDED && options.cluster == NULL)
        return orr_fail(err, ORR_INVALID, "a network without a cluster: name the cluster");
    *ret = options;
    return ORR_OK;
}
