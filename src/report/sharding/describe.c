/* SPDX-License-Identifier: Apache-2.0 */
#include "report/sharding/parts.h"

const char *orr_sharding_ranks_text(const orr_embedding_placement *p, orr_arena *arena)
{
    orr_output *out;
    const char *text = NULL;
    size_t len;
    if (p->sharding == ORR_SHARDING_DATA)
        return "all";
    if (orr_output_open_memory(&out, NULL) != ORR_OK)
        return NULL;
    for (uint32_t i = 0, run; i < p->n_ranks; i += run) {
        for (run = 1; i + run < p->n_ranks && p->ranks[i + run] == p->ranks[i] + run; run++)
            ;
        orr_output_printf(out, "%s%u", i > 0 ? ", " : "", p->ranks[i]);
        if (run > 1)
            orr_output_printf(out, "%s%u", run > 2 ? "-" : ", ", p->ranks[i + run - 1]);
    }
    if (orr_output_finish(out, NULL) == ORR_OK) {
        const void *bytes = orr_output_memory(out, &len);
        text = orr_arena_strndup(arena, bytes, len);
    }
    orr_output_close(out);
    return text;
}

uint32_t orr_sharding_busiest_rank(const orr_table_planning *p)
{
    uint32_t most = 0;
    for (uint32_t r = 1; r < p->plan.ranks; r++)
        if (p->ranks[r].ns > p->ranks[most].ns)
            most = r;
    return most;
}

uint32_t orr_sharding_fullest_rank(const orr_table_planning *p)
{
    uint32_t most = 0;
    for (uint32_t r = 1; r < p->plan.ranks; r++)
        if (p->ranks[r].memory_bytes > p->ranks[most].memory_bytes)
            most = r;
    return most;
}

int64_t orr_sharding_batch(const orr_sharding_report *report)
{
    return report->options->samples * report->options->ranks *
           (report->groups > 0 ? report->groups : 1);
}

int64_t orr_sharding_table_bytes(const orr_sharding_report *report)
{
    int64_t sum = 0;
    for (uint32_t t = 0; t < report->options->n_tables; t++)
        if (__builtin_add_overflow(sum, orr_embedding_bytes(&report->options->tables[t]), &sum))
            return INT64_MAX;
    return sum;
}

const char *orr_sharding_status(const orr_sharding_report *report)
{
    const orr_table_planning *best = report->best;
    if (best->infeasible != NULL)
        return "no plan";
    if (best->optimal)
        return "optimal";
    if (report->interrupted)
        return "interrupted";
    return best->gap_frac <= report->options->gap_frac ? "within the gap" : "stopped";
}
