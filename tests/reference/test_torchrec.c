/* SPDX-License-Identifier: Apache-2.0 */
/* Prices of shards in TorchRec's terms against its own estimator: torchrec/estimates.csv, which
 * torchrec/make.py made with torchrec 1.9 and fbgemm-gpu-cpu 1.9. */
#include <math.h>

#include <orrery/kernel.h>

#include "csv.h"
#include "explore/tables/planner.h"

#define AGREES 1e-9

static csv estimates(orr_arena *arena)
{
    char path[4096];
    csv table = {0};
    (void)snprintf(path, sizeof path, "%s/tests/reference/torchrec/estimates.csv",
                   getenv("ORRERY_SOURCE"));
    if (!csv_open(path, arena, &table))
        fail_msg("%s is not there", path);
    return table;
}

static uint8_t kind_of(const char *name)
{
    for (uint8_t kind = 0; kind < ORR_SHARDINGS; kind++)
        if (strcmp(orr_embedding_sharding_name(kind), name) == 0)
            return kind;
    fail_msg("%s is no kind", name);
    return 0;
}

static void must_agree(const csv *t, size_t row, const char *column, double ours)
{
    const double theirs = csv_number(t, row, column);
    if (!(fabs(ours - theirs) <= AGREES * fabs(theirs)))
        fail_msg("line %zu, %s: %.17g, and TorchRec %.17g", row + 2, column, ours, theirs);
}

static void compare(const csv *t, size_t row)
{
    const orr_embedding table = {.name = "t",
                                 .rows = (int64_t)csv_number(t, row, "rows"),
                                 .columns = (uint32_t)csv_number(t, row, "columns"),
                                 .pooling = csv_number(t, row, "pooling"),
                                 .format = strcmp(csv_text(t, row, "format"), "fp16") == 0
                                               ? ORR_ROW_FORMAT_FP16
                                               : ORR_ROW_FORMAT_FP32};
    orr_table_planner_options o;
    orr_table_price price, shared;
    orr_table_planner_options_init(&o);
    o.tables = &table;
    o.n_tables = 1;
    o.ranks = (uint32_t)csv_number(t, row, "ranks");
    o.host_ranks = (uint32_t)csv_number(t, row, "host_ranks");
    o.samples = (int64_t)csv_number(t, row, "samples");
    /* TorchRec sends numbers as the table holds them. */
    o.forward = o.backward =
        table.format == ORR_ROW_FORMAT_FP16 ? ORR_EMBEDDING_CODEC_FP16 : ORR_EMBEDDING_CODEC_FP32;
    o.torchrec.cpu = strcmp(csv_text(t, row, "device"), "cpu") == 0;
    orr_table_split split = {.kind = kind_of(csv_text(t, row, "kind")),
                             .columns = (uint32_t)csv_number(t, row, "columns_parts"),
                             .rows = 1};
    if (split.kind == ORR_SHARDING_ROW)
        split.rows = o.ranks;
    if (split.kind == ORR_SHARDING_TABLE_ROW || split.kind == ORR_SHARDING_GRID)
        split.rows = o.host_ranks;
    orr_torchrec_shared_price(&o, 0, &split, &shared);
    if (split.kind == ORR_SHARDING_DATA)
        price = shared;
    else
        orr_torchrec_shard_price(&o, 0, &split, 0, &price);
    must_agree(t, row, "forward_ns", price.stage_ns[ORR_TABLE_STAGE_LOOKUP]);
    must_agree(t, row, "bags_ns", price.stage_ns[ORR_TABLE_STAGE_BAGS]);
    must_agree(t, row, "backward_ns", price.stage_ns[ORR_TABLE_STAGE_UPDATE]);
    must_agree(t, row, "gradients_ns", price.stage_ns[ORR_TABLE_STAGE_GRADIENTS]);
}

static void every_kind_agrees(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const csv t = estimates(arena);
    uint32_t seen = 0;
    for (size_t row = 0; row < t.n_rows; row++) {
        compare(&t, row);
        seen |= 1u << kind_of(csv_text(&t, row, "kind"));
    }
    assert_int_equal(seen, (1 << ORR_SHARDINGS) - 1);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_agrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
