/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

/* Between ranks: collectives, process groups, stragglers. */

#define C(field, type) ORR_COL_(orr_collective_summary, field, type)
static const orr_column columns_collective_summary[] = {
    C(collective, TEXT),
    C(group, TEXT),
    C(group_size, U32),
    C(count, U64),
    C(bytes, BYTES),
    C(sum_ns, NS),
    C(skew_sum_ns, NS),
    C(skew_max_ns, NS),
    C(transfer_mean_ns, NS_MEAN),
    C(algbw_bytes_per_s, BYTES_PER_S),
    C(busbw_bytes_per_s, BYTES_PER_S),
};
#undef C
ORR_RUN_(collective_summary, orr_collective_summary, orr_analyze_collective_summary, "Collectives")

#define C(field, type) ORR_COL_(orr_collective_row, field, type)
static const orr_column columns_collectives[] = {
    C(collective, TEXT),
    C(group, TEXT),
    C(name, TEXT),
    C(members, U32),
    C(group_size, U32),
    C(start_ns, NS),
    C(duration_ns, NS),
    C(skew_ns, NS),
    C(transfer_ns, NS),
    C(last_rank, U32),
    C(bytes, BYTES),
    C(algbw_bytes_per_s, BYTES_PER_S),
    C(busbw_bytes_per_s, BYTES_PER_S),
};
#undef C
ORR_RUN_(collectives, orr_collective_row, orr_analyze_collectives, "Every collective")

#define C(field, type) ORR_COL_(orr_exposed, field, type)
static const orr_column columns_exposed_communication[] = {
    C(rank, U32),      C(group, TEXT),  C(count, U64),         C(comm_ns, NS),
    C(exposed_ns, NS), C(bytes, BYTES), C(exposed_frac, FRAC),
};
#undef C
ORR_RUN_(exposed_communication, orr_exposed, orr_analyze_exposed,
         "Communication that nothing hides")

#define C(field, type) ORR_COL_(orr_straggler, field, type)
static const orr_column columns_potential_stragglers[] = {
    C(rank, U32),
    C(comm_ns, NS),
    C(late_ns, NS),
    C(score, NUMBER),
};
#undef C
ORR_RUN_(potential_stragglers, orr_straggler, orr_analyze_stragglers, "Ranks that others wait for")
