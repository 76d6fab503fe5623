/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "analysis/common.h"

void orr_analysis_options_init(orr_analysis_options *options)
{
    *options = (orr_analysis_options){
        .struct_bytes = sizeof *options,
        .rank = ORR_NONE,
        .annotation = "ProfilerStep",
        .step_first = -1,
        .step_last = -1,
        .kernel_wait_ns = 30 * 1000,
        .runtime_cutoff_ns = 50 * 1000,
        .launch_delay_cutoff_ns = 100 * 1000,
        .queue_length_max = 1024,
        .top_kernels = 10,
        .top_duration_frac = 0.8,
        .operator_name = NULL,
        .sequence_min = 3,
        .sequence_top = 5,
        .straggler_count = 2,
    };
}

orr_analysis_options orr_options_complete(const orr_analysis_options *given)
{
    orr_analysis_options complete;
    orr_analysis_options_init(&complete);
    if (given != NULL) {
        /* A caller built against an older header has a shorter struct. */
        const size_t bytes =
            given->struct_bytes < sizeof complete ? given->struct_bytes : sizeof complete;
        memcpy(&complete, given, bytes);
        complete.struct_bytes = sizeof complete;
    }
    if (complete.annotation == NULL)
        complete.annotation = "ProfilerStep";
    return complete;
}
