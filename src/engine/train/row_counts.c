/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "engine/train/trainer.h"

/* What rows that do not live in memory took: hits of row caches, requests, stalls. */

enum { NUMBERS = sizeof(orr_train_rows) / sizeof(int64_t) };

static orr_train_rows counts_of(const orr_tables *tables, orr_tier tier)
{
    const orr_store_stats s = orr_tables_tier_stats(tables, tier);
    return (orr_train_rows){.lookups = (int64_t)s.lookups,
                            .hits = (int64_t)s.hits,
                            .rows = (int64_t)s.rows,
                            .row_hits = (int64_t)s.row_hits,
                            .demand_misses = (int64_t)s.demand_misses,
                            .reads = (int64_t)s.reads,
                            .read_bytes = (int64_t)s.read_bytes,
                            .written_bytes = (int64_t)(s.file.bytes_written + s.file.log_bytes),
                            .stall_ns = s.stall_ns};
}

static void add(orr_train_rows *to, const orr_train_rows *from, int64_t times)
{
#define ADD_(name) to->name += times * from->name;
    ORR_TRAIN_ROWS_MAP(ADD_)
#undef ADD_
}

orr_status orr_train_count_rows(orr_trainer *t, orr_train_rows ret[ORR_TIERS], orr_error *err)
{
    const uint32_t n = t->transport->ranks;
    orr_train_rows mine[ORR_TIERS] = {0};
    orr_train_rows *all = orr_calloc(n, sizeof mine);
    orr_status status = ORR_OK;
    if (all == NULL)
        return orr_fail_memory(err);
    for (int tier = 0; tier < ORR_TIERS; tier++) {
        const orr_tables *tables = orr_engine_step_tables(t->step);
        if (orr_tables_store(tables, (orr_tier)tier) == NULL)
            continue;
        orr_train_rows *before = &t->rows.counted[tier];
        const orr_train_rows now = counts_of(tables, (orr_tier)tier);
        mine[tier] = now;
        add(&mine[tier], before, -1);
        mine[tier].stall_ns -= before->stall_ns;
        *before = now;
    }
    memcpy(all, mine, sizeof mine);
    if (n > 1)
        status = orr_all_gather(orr_engine_step_world(t->step), mine, all, ORR_TIERS * NUMBERS,
                                ORR_DTYPE_INT64, err);
    memset(ret, 0, sizeof mine);
    for (uint32_t i = 0; i < n * ORR_TIERS && status == ORR_OK; i++) {
        orr_train_rows *to = &ret[i % ORR_TIERS];
        add(to, &all[i], 1);
        to->stall_ns = all[i].stall_ns > to->stall_ns ? all[i].stall_ns : to->stall_ns;
    }
    orr_free(all);
    return status;
}

/* What commits have written since the last step belongs to no step; what was read to digest and to
 * export the rows is not counted. */
orr_status orr_train_total_rows(orr_trainer *t, orr_train_result *ret, orr_error *err)
{
    const orr_embedding_plan *plan = t->training->options->tables;
    orr_train_rows after[ORR_TIERS];
    ORR_TRY(orr_train_count_rows(t, after, err));
    for (uint32_t i = 0; i < plan->n_tables; i++)
        ret->tiers[plan->placements[i].tier] = true;
    for (int tier = 0; tier < ORR_TIERS; tier++) {
        const char *remark = orr_tables_remark(orr_engine_step_tables(t->step), (orr_tier)tier);
        if (remark != NULL)
            ret->remark = orr_arena_printf(t->training->arena, "%s", remark);
        ret->rows[tier].written_bytes = after[tier].written_bytes;
        for (int64_t i = 0; i < ret->steps; i++) {
            add(&ret->rows[tier], &t->training->rows[i * ORR_TIERS + tier], 1);
            ret->rows[tier].stall_ns += t->training->rows[i * ORR_TIERS + tier].stall_ns;
        }
    }
    return ORR_OK;
}
