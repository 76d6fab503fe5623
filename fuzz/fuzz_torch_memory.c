/* SPDX-License-Identifier: Apache-2.0 */
#include "recording.h"

/* A snapshot that is read is memory events whose totals follow from one another. */
static void check_totals(const orr_graph *g)
{
    FUZZ_CHECK(g->n_nodes > 0);
    for (uint32_t i = 0; i < g->n_memories; i++) {
        const orr_memory *m = &g->memories[i];
        FUZZ_CHECK((m->allocated_bytes < 0) == (m->reserved_bytes < 0));
        FUZZ_CHECK(m->allocated_bytes < 0 || m->bytes <= m->allocated_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    return fuzz_recording(bytes, len, ORR_FORMAT_TORCH_MEMORY, check_totals);
}
